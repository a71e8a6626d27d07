//! The command line's grammar. Values are checked here as far as they can be without opening a file.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use media::{Codec, CodecChoice};
use real::quic::{Fingerprint, Token};
use session::preset::Choice;
use units::{Rate, Span};

use crate::live::{Look, Losses};
use crate::operations::{Certificate, ConnectionLimits, Operations};
use crate::values::{self, CcList, Feed, Input, Listen, PlayoutPolicy, RatePolicy, Sink, Target};

/// The largest seed: it stands in TOML files, whose integers have a sign.
pub const MOST_SEED: u64 = i64::MAX as u64;

/// Interactive video over a changing network, in virtual and in real time.
#[derive(Debug, Parser)]
#[command(
    name = "framewire",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Start here:
  framewire demo                                a real clip over a simulated LTE link under three controllers
  framewire controllers                         what can be compared; with a name, its page and options
  framewire compare scenarios/sqp-20mbit.toml --cc sqp,newreno,fixed

Every command prints a table; with --json it prints one JSON object instead. Progress goes to standard error.
Exit codes: 0 done, 1 the work failed on the way, 2 something given was not acceptable."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one scenario in virtual time
    Run(Run),
    /// Run one scenario under several congestion controllers
    Compare(Compare),
    /// Run one scenario under every combination of some settings, each with several seeds
    Sweep(Box<crate::sweep::Sweep>),
    /// Send a clip over a simulated cellular link and show what the viewer saw
    Demo(Demo),
    /// Reproduce the papers' experiments and hold their claims against ours
    #[command(subcommand)]
    Lab(Lab),
    /// Search for the network that a congestion controller can't take
    #[command(subcommand)]
    Fuzz(crate::fuzz::args::Fuzz),
    /// Measure the speed of this machine and build
    Bench(crate::bench::args::Bench),
    /// Encode a clip and send it over QUIC or UDP in real time
    Send(Box<Send>),
    /// Receive what `framewire send` sends
    Receive(Box<Receive>),
    /// Send a clip or a camera to an endpoint for viewers at every delay: what went out poor is sent again,
    /// better
    Upload(Box<crate::live::upload::Args>),
    /// Be the endpoint of uploads: the best version of every frame, as HLS and DASH for each delay
    Ingest(Box<crate::live::ingest::Args>),
    /// Pass UDP on through an emulated link, in real time
    Relay(Relay),
    /// Run a command behind an emulated link, in a network namespace of its own
    Link(Box<crate::live::Link>),
    /// Send and receive files over QUIC under the congestion controllers
    #[command(subcommand)]
    Bulk(crate::bulk::args::Bulk),
    /// Play a clip to browsers
    Serve(Box<crate::live::Serve>),
    /// Hold a server, honest peers and hostile ones together for hours, and watch for leaks and starvation
    Soak(crate::soak::Soak),
    /// List the congestion controllers, or show the page of one
    Controllers(Controllers),
    /// List the queue disciplines
    Queues(Format),
    /// List the playout policies: when a receiver shows frames
    Playouts(Format),
    /// Look at link traces
    #[command(subcommand)]
    Trace(Trace),
    /// List the loss predictors, or make what they are trained on
    #[command(subcommand)]
    Predict(crate::predict::Predict),
    /// Make the decision tables of Prism's recovery
    #[command(subcommand)]
    Prism(crate::prism::Prism),
    /// Print completions of this command for a shell
    Completions(crate::shell::Completions),
    /// Write the manual's pages of this command
    Man(crate::shell::Man),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Format {
    /// One JSON object instead of a table, for programs
    #[arg(long)]
    pub json: bool,
}

/// `framewire controllers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire controllers                     every name in one line
  framewire controllers copa                idea, source, presets and options of one
  framewire controllers gcc:loss_v2=off --check   eleven faults of the path, and how it stands them
  framewire controllers --json | jq -r .controllers[].name")]
pub struct Controllers {
    /// Show the page of this controller or preset
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Hold it, with options if they are given, against what every controller must stand: blackout, loss,
    /// reordering, duplication, clocks, a quiet encoder, sizes of packets; exit code 1 if it does not
    #[arg(long, requires = "name")]
    pub check: bool,
    /// Run every controller over two links and write a page of each, with pictures and an index, into this
    /// folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "json"])]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
}

/// What `run`, `compare` share: a scenario and how to change it.
#[derive(Debug, Clone, clap::Args)]
pub struct Scenario {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO.toml")]
    pub file: PathBuf,
    /// Seed of every random stream, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: Option<u64>,
    /// How long to run in virtual time, such as 30s, instead of the scenario's
    #[arg(long)]
    pub duration: Option<Span>,
    /// Fields to change, each `FIELD=VALUE`.
    #[arg(
        long = "set",
        value_name = "FIELD=VALUE",
        help = "Change one field of the scenario, such as link.rate=5mbit or flow[1].encoder.fps=60.0; no value takes it away; may be repeated"
    )]
    pub changes: Vec<String>,
    /// Folder for tables, scenario and report; it is made, and may exist. Without --json, out/NAME if left
    /// out
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave out the Parquet tables, which are most of what is written: 7 GB for a day of 20 Mbit/s
    #[arg(long)]
    pub no_tables: bool,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire run scenarios/sqp-20mbit.toml
  framewire run scenarios/sqp-20mbit.toml --cc sqp:target=0.8 --seed 7
  framewire run scenarios/sqp-20mbit.toml --set link.delay=50ms --set link.queue=droptail:50p
  framewire run scenarios/sqp-20mbit.toml --json | jq .flows[0].frame_delay_ms

The same scenario, seed and build give the same hash, bit for bit.")]
pub struct Run {
    #[command(flatten)]
    pub scenario: Scenario,
    /// Congestion controller of the first flow, instead of the scenario's: NAME or
    /// NAME:OPTION=VALUE,OPTION=VALUE
    #[arg(long, value_name = "CC")]
    pub cc: Option<CcList>,
}

/// `framewire compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire compare scenarios/sqp-20mbit.toml --cc sqp,newreno,fixed
  framewire compare scenarios/sqp-20mbit.toml --cc sqp,sqp:target=0.7,window=3,fixed:rate=8mbit --out out/compare

With --json: one object {\"runs\": [...]}, each run as `framewire run --json` prints it.")]
pub struct Compare {
    #[command(flatten)]
    pub scenario: Scenario,
    /// Congestion controllers to compare, separated by commas; options follow their controller
    #[arg(long, value_name = "CC,CC,...", default_value = "sqp,newreno,fixed")]
    pub cc: CcList,
}

/// `framewire demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire demo
  framewire demo --input clip.mp4 --trace downlink.trace.gz --out out/demo
  framewire demo --input synthetic --cc sqp,fixed:rate=3mbit

The network is simulated and the codec is real: every frame is encoded, sent, decoded and compared with its source.
`make demo` fetches a small real clip; without --input and without that clip the picture is synthetic.")]
pub struct Demo {
    /// The clip: Y4M, anything ffmpeg reads, or `synthetic`
    #[arg(long, value_name = "CLIP")]
    pub input: Option<Input>,
    /// The link's capacity: a Mahimahi trace, plain or gzipped, instead of the one that comes along
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Congestion controllers to compare, separated by commas
    #[arg(long, value_name = "CC,CC,...", default_value = "sqp,newreno,fixed:rate=6mbit")]
    pub cc: CcList,
    /// How long to run in virtual time; the clip repeats
    #[arg(long, default_value = "10s")]
    pub duration: Span,
    /// Seed of every random stream
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,
    /// Folder for tables and report; it is made, and may exist
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    pub out: PathBuf,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire lab`.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List the experiments and what each claims
    List(LabList),
    /// Run experiments and print what was measured at every point
    Run(LabRun),
    /// Run experiments and hold every claim against its band
    Check(LabCheck),
    /// Run experiments and write the book: every figure with our curves and the paper's numbers
    Report(LabReport),
    /// Write a page of pictures: the same frame under losses, by ViXNN and by H.264
    Pictures(LabPictures),
    /// Hold every controller and rate policy against invariants, over networks far from the papers' points
    Grid(Box<crate::grid::Grid>),
    /// Compete with this machine's own TCP over an emulated link, in real time
    #[cfg(target_os = "linux")]
    Real(crate::real_lab::Real),
    /// Send a clip between two processes over an emulated cellular link, and hold it against the simulator
    #[cfg(target_os = "linux")]
    Twin(crate::twin::Twin),
}

/// Which experiments.
#[derive(Debug, Clone, clap::Args)]
pub struct Selection {
    /// Experiments or claims by name, such as `rate-drop` or S0-10; all if left out
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Only those of one paper: sqp, quic-dc, gcc-aqm (GCC and active queue management), thesis (Vantage,
    /// Prism, ViXNN, CC-Fuzz), vidaptive; or ours
    #[arg(long, value_name = "PAPER", conflicts_with = "seed")]
    pub paper: Option<String>,
    /// The same by the number that experiments' files have: 000 (sqp), 001, 002, 003-ccfuzz, 004, ours
    #[arg(long, value_name = "DOCUMENT")]
    pub seed: Option<String>,
    /// Folder of the experiments' files
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub experiments: PathBuf,
}

/// How to run them.
#[derive(Debug, Clone, clap::Args)]
pub struct Laboratory {
    #[command(flatten)]
    pub which: Selection,
    /// Folder for finished runs, which are not done again, and for the book
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
    /// Runs at the same time; as many as there are processors if left out. Results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Do every run again
    #[arg(long)]
    pub fresh: bool,
}

/// `framewire lab list`.
#[derive(Debug, clap::Args)]
pub struct LabList {
    #[command(flatten)]
    pub which: Selection,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire lab run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire lab run rate-drop
  framewire lab run rate-drop --json | jq '.experiments[0].points[0]'")]
pub struct LabRun {
    #[command(flatten)]
    pub how: Laboratory,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire lab check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire lab check                  every claim there is
  framewire lab check --paper sqp      those of the SQP paper
  framewire lab check S0-10 S0-16 --json

Only the runs that claims read are done, and their number may grow meanwhile; `lab run` and `lab report` do all.
With --json: {\"rows\": [{\"id\", \"kind\", \"claimed\", \"measured\", \"band\", \"verdict\", \"seconds\"}], \"held\", \"missed\", \"skipped\"}.
A claim that is missed has its paragraph in docs/reproduction.md; a miss is a result, and the exit code stays 0.")]
pub struct LabCheck {
    #[command(flatten)]
    pub how: Laboratory,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire lab report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  framewire lab report --paper sqp     writes out/lab/book.html, which needs nothing else to open")]
pub struct LabReport {
    #[command(flatten)]
    pub how: Laboratory,
}

/// `framewire lab pictures`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  framewire lab pictures     writes out/lab/pictures.html, and its pictures beside it

Needs an ffmpeg with libx264 and the clips of experiments/vixnn-losses.toml.")]
pub struct LabPictures {
    /// Folder for the page
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
}

/// `framewire send`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire send quic://receiver.example:4433?pin=SHA256 --token TOKEN --input clip.mp4
  framewire send quic://receiver.example:4433 --ca ours.pem --token TOKEN --input camera --size 1280x720
  framewire send udp://[::1]:4433 --input synthetic --size 1280x720 --fps 60 --duration 30s --cc sqp:target=0.8
  framewire send udp://receiver.example:4433 --input camera --cc copa-0.9 --rate vidaptive-paper --max 12mbit

Start `framewire receive` at the other end first; over QUIC it prints the pin and the token. Plain UDP is neither
encrypted nor does it ask for a token: use it on networks of your own.")]
pub struct Send {
    /// Where to: quic://HOST:PORT, or udp://HOST:PORT for networks of your own
    #[arg(value_name = "quic://HOST:PORT")]
    pub target: Target,
    /// The clip: Y4M, anything ffmpeg reads, `-` for Y4M on standard input, `camera` (or /dev/videoN), or
    /// `synthetic`
    #[arg(long, value_name = "CLIP")]
    pub input: Feed,
    /// Congestion controller, NAME or NAME:OPTION=VALUE,OPTION=VALUE; `default` is one that suits most paths,
    /// with its rate policy
    #[arg(long, value_name = "CC", default_value = session::preset::DEFAULT.name)]
    pub cc: CcList,
    /// Rate policy between controller and encoder: NAME or NAME:OPTION=VALUE,OPTION=VALUE; without it the one
    /// of `--cc default`, or `live`. `live`: the advice, smoothed. `budget`: the same, and what the encoder
    /// codes too much is paid back. `direct`: the advice as it is. `vidaptive-paper`: fills with dummies what
    /// the encoder leaves free, pauses the encoder while packets wait, shrinks pictures in outages.
    /// `vidaptive`: for links with outages, with `--cc copa:delta=0.58`. `webrtc`: shrinks them as libwebrtc
    /// does, by the encoder's quantiser
    #[arg(long, value_name = "POLICY")]
    pub rate: Option<RatePolicy>,
    #[command(flatten)]
    pub losses: Losses,
    /// Cut each frame into slices that fit a packet and can be decoded without each other, for `receive
    /// --conceal`
    #[arg(long)]
    pub slices: bool,
    /// Codec, NAME or NAME:OPTION=VALUE,OPTION=VALUE. `vixnn` has `model` (a built-in network's name, or a
    /// .safetensors file), `order` (rows, permuted), `threads`, `entropy` (on, off) and `group` (1 to 8
    /// frames that share their packets)
    #[arg(long, value_name = "CODEC", value_parser = values::Codecs, default_value = Codec::default().name())]
    pub codec: CodecChoice,
    #[command(flatten)]
    pub look: Look,
    #[command(flatten)]
    pub rates: Rates,
    /// How long to send, repeating the clip; until the clip ends once if left out
    #[arg(long)]
    pub duration: Option<Span>,
    /// Give up when what is sent has not been answered for this long
    #[arg(long, default_value = "10s")]
    pub timeout: Span,
    /// Longest datagram of media in bytes, 256 to 1472. Over QUIC the path's MTU is searched for up to 1452
    /// and followed when it falls, and this is a bound on top; over UDP, where nobody searches, 1200 if left
    /// out
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(256..=1472))]
    pub mtu: Option<u16>,
    #[command(flatten)]
    pub contact: Contact,
    /// QUIC: a name for what is sent
    #[arg(long, default_value = "")]
    pub name: String,
    /// Write what happens to this file as qlog (JSON-SEQ; docs/quic.md)
    #[arg(long, value_name = "FILE.sqlog")]
    pub qlog: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub operations: Operations,
}

impl Send {
    /// What `--cc` and `--rate` come to: the controller and the policies.
    ///
    /// # Errors
    /// A sentence if several controllers are named.
    pub fn choice(&self) -> Result<Choice, String> {
        let rate = self.rate.as_ref().map(|rate| rate.0.as_str());
        Ok(self.losses.choice(self.cc.only()?, rate))
    }
}

/// How a receiver over QUIC is known, and what it wants to be shown.
#[derive(Clone, Debug, clap::Args)]
pub struct Contact {
    /// QUIC: the receiver's token
    #[arg(long, env = "FRAMEWIRE_TOKEN", hide_env_values = true)]
    pub token: Option<Token>,
    /// QUIC: SHA-256 of the receiver's certificate, which it prints; then no other is accepted, and this one
    /// whoever signed it
    #[arg(long, value_name = "SHA256")]
    pub pin: Option<Fingerprint>,
    /// QUIC: accept certificates signed by those in this PEM file, instead of those this machine trusts
    #[arg(long, value_name = "FILE", conflicts_with = "pin")]
    pub ca: Option<PathBuf>,
}

impl Contact {
    /// Each flag, and whether it was given for `target`, whose address may hold a pin.
    pub fn given(&self, target: &Target) -> [(&'static str, bool); 3] {
        let pin = self.pin.or(target.pin).is_some();
        [("--token", self.token.is_some()), ("--pin", pin), ("--ca", self.ca.is_some())]
    }
}

/// Within which rates a sender keeps.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Rates {
    /// Rate to start at
    #[arg(long, default_value = "2mbit")]
    pub initial: Rate,
    /// Highest rate
    #[arg(long, default_value = "100mbit")]
    pub max: Rate,
}

/// `framewire receive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire receive --listen quic://0.0.0.0:4433 --output play
  framewire receive --listen quic://[::]:4433 --cert cert.pem --key key.pem --token TOKEN --output got.y4m
  framewire receive --listen quic://0.0.0.0:4433 --output play --playout adaptive
  framewire receive --listen udp://0.0.0.0:4433 --output null --json
  framewire receive --listen quic://0.0.0.0:4433 --metrics 127.0.0.1:9090 --log-level info

Over QUIC, a certificate is made for the occasion unless one is given, and a token unless one is given; both are printed,
ready to be used by `framewire send`. One sender is received, and the command ends with it.")]
pub struct Receive {
    /// Address and port to listen on: quic://ADDR:PORT, or udp://ADDR:PORT for networks of your own
    #[arg(long, value_name = "quic://ADDR:PORT")]
    pub listen: Listen,
    /// Where decoded pictures go: a .y4m file, `play` to show them with ffplay, or `null` to decode and drop
    /// them
    #[arg(long, value_name = "FILE.y4m|play|null", default_value = "null")]
    pub output: Sink,
    /// The sender's congestion controller, whose receiver half is run, instead of the one that the sender
    /// names
    #[arg(long, value_name = "CC")]
    pub cc: Option<CcList>,
    /// When frames are shown: NAME or NAME:OPTION=VALUE. `at-once`: each when it is ready, the least delay;
    /// of frames that a repair held up, only the newest is seen. `adaptive`: evenly, behind by the path's
    /// jitter, and by a repair's round trip while packets are lost. `fixed:delay=100ms`: so long after
    /// capture, less the smallest one-way delay. `framewire playouts` lists all with their options
    #[arg(long, value_name = "POLICY", default_value = session::playout::REGISTRY[0].name)]
    pub playout: PlayoutPolicy,
    /// Show frames that lost slices, with what is missing copied from the picture before, once they can't be
    /// repaired in time; for `send --slices` (docs/concealment.md)
    #[arg(long)]
    pub conceal: bool,
    /// ViXNN: a network besides those built in, for senders that use it: a file of weights
    #[arg(long, value_name = "FILE.safetensors")]
    pub vixnn_model: Option<PathBuf>,
    /// ViXNN: fill in what is missing of a block from up to so many frames before, 1 to 64, where what came
    /// says that it still looks the same
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub vixnn_temporal: Option<u32>,
    /// Give up after this long without a packet
    #[arg(long, default_value = "10s")]
    pub timeout: Span,
    /// QUIC: the token that senders must show; made and printed if left out
    #[arg(long, env = "FRAMEWIRE_TOKEN", hide_env_values = true)]
    pub token: Option<Token>,
    #[command(flatten)]
    pub certificate: Certificate,
    /// Write what happens to this file as qlog (JSON-SEQ; docs/quic.md)
    #[arg(long, value_name = "FILE.sqlog")]
    pub qlog: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub limits: ConnectionLimits,
    #[command(flatten)]
    pub operations: Operations,
}

/// `framewire relay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire relay --listen 127.0.0.1:4434 --to udp://127.0.0.1:4433 --rate 5mbit --delay 20ms --queue droptail:60ms
  framewire relay --listen 127.0.0.1:4434 --to udp://127.0.0.1:4433 --trace lte.trace --delay 20ms

Point `framewire send` at the relay instead of the receiver. The way back has the delay, but no rate limit.")]
pub struct Relay {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// Where to pass packets on to: udp://HOST:PORT
    #[arg(long, value_name = "udp://HOST:PORT")]
    pub to: Target,
    /// Constant rate of the link
    #[arg(long, conflicts_with = "trace", required_unless_present = "trace")]
    pub rate: Option<Rate>,
    /// The link's capacity: a Mahimahi trace, plain or gzipped
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// One-way delay, each way
    #[arg(long, default_value = "20ms")]
    pub delay: Span,
    /// Queue discipline and its limit; `framewire queues` lists them
    #[arg(long, default_value = "droptail:120ms")]
    pub queue: netsim::QueueSpec,
    /// Seed of the link's random streams
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,
    /// Stop after this long; runs until interrupted if left out
    #[arg(long)]
    pub duration: Option<Span>,
}

/// `framewire trace`.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Describe a Mahimahi trace: length, mean rate, gaps
    Info(TraceInfo),
}

/// `framewire trace info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  framewire trace info downlink.trace.gz")]
pub struct TraceInfo {
    /// The trace, plain or gzipped
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_holds() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
