//! The grammar of `framewire bench`.

use clap::ValueEnum;
use instruments::load::Hosts;

use super::recovery::Losing;
use crate::args::Format;
use crate::failure::Failure;
use crate::values::{Input, PictureSize, hosts};

/// Flags of `framewire bench`: which benchmark, its clip, its form, and the losses of `recovery`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire bench sim
  framewire bench all --json > bench.json
  framewire bench load --flows 10 --rate 120mbit --queue droptail:1000p
  framewire bench load --controller sqp --video --json

`sim` is the simulator's speed, `load` that of one load you describe (20 ms each way; not part of `all`), `controllers` that of every controller, `scale` how both grow with flows and rate, `live`
the whole chain over UDP in real time, `real` the QUIC transport by itself, `shadow` one scenario in both worlds, `link` the
emulator against the simulator, `fuzz` a generation of CC-Fuzz, `predictor` the cost of predicting losses, `vixnn` how
many frames a second a learned codec encodes and decodes, `schedule` how
near the best Vantage's schedules are, `ingest` what 20 uploads and 200 viewers cost their endpoint, `browser` the page of `framewire serve` in headless Chromium, `recovery` what each strategy makes of losses.

`real` sends 720p60 at 20 Mbit/s over QUIC on loopback for 30 s, from an encoder that makes sizes only, and reports
  late_frames          not shown, or later than two frame intervals (33.3 ms) after their capture; wanted: 0
  sender_cpu_share     CPU time of the sender's driver and QUIC threads over the run, of one core; wanted: < 0.15
  pacing_error_*_ms    how far a packet's distance from its frame's first is from what the bytes between them take at
                       the pacing rate, when it was handed over (sent) and at the far end (arrived); wanted: P99 < 1

`recovery` sends 720p30 from one process to another through `framewire link`, which loses packets in bursts, under one strategy
after the other, and reports of each
  back_in_time         pictures shown after a newer one; wanted: 0
  stall_ms             the longest stall of each loss: how long its picture was overdue
  within               share of the losses with a stall of at most a round trip and two frames; wanted: >= 0.9
  delay_ms             from capture until a frame or a newer one is shown
  bytes                of all packets, and of those that are there for losses: sent again, further tracks, key frames
Other strategies are those of `framewire send --help`; what follows a + is the policy of its `--recovery`:
  framewire bench recovery --strategies prism,live+key-frames,backup --duration 60s --json

`ingest` starts an endpoint of its own, uploads a clip to it 20 times at 2 Mbit/s, and fetches what 200 players would:
  cores                CPU time of the endpoint's process over the run
  peak_memory_bytes    the most memory that it had
  classes              of each delay: segments, frames, and those missing; wanted: 0
  viewers              requests, failures, playlists that went back on what they listed; wanted: 0 of both. How long answers
                       took, and how late a segment was seen after it was due: up to half a second of that is the viewer's

`vixnn` encodes and decodes a picture 60 times, on each number of threads, and reports of each network
  gmac                 multiplications and additions for one frame, in thousand millions
  p50_ms, p95_ms       time of one frame; wanted: at most 33 for 30 frames a second
  frames_per_s         from the median
  framewire bench vixnn --size 1920x1080 --model fast-svc --threads 1,2,4
docs/performance.md says how each is measured. Run them on an idle machine, with a release build.")]
pub struct Bench {
    /// What to measure
    #[arg(value_enum)]
    pub what: Measured,
    /// The clip for `live`, `browser` and `recovery`: Y4M, anything ffmpeg reads, or `synthetic`
    #[arg(long, value_name = "CLIP")]
    pub input: Option<Input>,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub recovery: Losing,
    #[command(flatten)]
    pub ingest: Crowd,
    #[command(flatten)]
    pub codec: Codec,
    #[command(flatten)]
    pub load: OneLoad,
    /// Size of the pictures, for `ingest` [default: 480x270; each upload has 2 Mbit/s] and `vixnn`
    /// [default: 1280x720]
    #[arg(long, value_name = "WxH")]
    pub size: Option<PictureSize>,
}

impl Bench {
    /// Only two benchmarks heed the size of pictures.
    ///
    /// # Errors
    /// [`Failure::Input`] that names the flag.
    pub fn check(&self) -> Result<(), Failure> {
        match self.size {
            Some(_) if !matches!(self.what, Measured::Ingest | Measured::Vixnn | Measured::All) => {
                Err(Failure::Input("--size is for `framewire bench ingest` and `vixnn`".into()))
            }
            _ => Ok(()),
        }
    }
}

/// Which network on how many threads. Left out is what is used by default.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Only for `vixnn`")]
pub struct Codec {
    /// The network, one of those built in [default: fast-mdc-0.3]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Numbers of threads, one after the other; the last gives the figure to compare [default: 1,2]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: Vec<u8>,
}

impl Codec {
    /// Another benchmark heeds nothing of this.
    ///
    /// # Errors
    /// [`Failure::Input`] that names the flag.
    pub fn check(&self, what: Measured) -> Result<(), Failure> {
        let given = [("--model", self.model.is_some()), ("--threads", !self.threads.is_empty())];
        let given = given.iter().find(|(_, given)| *given);
        match given.filter(|_| !matches!(what, Measured::Vixnn | Measured::All)) {
            Some((flag, _)) => Err(Failure::Input(format!("{flag} is for `framewire bench vixnn`"))),
            None => Ok(()),
        }
    }
}

/// What runs through the bottleneck, besides `--rate` and `--duration`. Left out is what is used by default.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Only for `load`, with --rate and --duration")]
pub struct OneLoad {
    /// The flows' controller, with options [default: newreno]
    #[arg(long, value_name = "NAME")]
    pub controller: Option<String>,
    /// Flows, which start within a second [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub flows: Option<u16>,
    /// The bottleneck's queue, as scenarios write it [default: droptail:100p]
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Flows send 60 frames/s of the encoder model, instead of a backlog
    #[arg(long)]
    pub video: bool,
    /// What stands at the flows' ends; only `session` has controllers and frames [default: session]
    #[arg(long, value_name = "HOSTS", value_parser = hosts())]
    pub hosts: Option<Hosts>,
    /// Packets of a backlog that a report tells of, or those of 20 ms; Chromium's QUIC has 10 [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub report_every: Option<u32>,
}

impl OneLoad {
    /// Another benchmark heeds nothing of this.
    ///
    /// # Errors
    /// [`Failure::Input`] that names the flag.
    pub fn check(&self, what: Measured) -> Result<(), Failure> {
        let given = [
            ("--controller", self.controller.is_some()),
            ("--flows", self.flows.is_some()),
            ("--queue", self.queue.is_some()),
            ("--video", self.video),
            ("--hosts", self.hosts.is_some()),
            ("--report-every", self.report_every.is_some()),
        ];
        let given = given.iter().find(|(_, given)| *given);
        match given.filter(|_| what != Measured::Load) {
            Some((flag, _)) => Err(Failure::Input(format!("{flag} is for `framewire bench load`"))),
            None => self.check_hosts(),
        }
    }

    /// Only the session's hosts heed a controller, have frames, or report otherwise than every second packet.
    fn check_hosts(&self) -> Result<(), Failure> {
        let given = [
            ("--controller", self.controller.is_some()),
            ("--video", self.video),
            ("--report-every", self.report_every.is_some()),
        ];
        let given = given.iter().find(|(_, given)| *given);
        match given.filter(|_| self.hosts.is_some_and(|hosts| hosts != Hosts::Session)) {
            Some((flag, _)) => Err(Failure::Input(format!("{flag} is for `--hosts session`"))),
            None => Ok(()),
        }
    }
}

/// Who uploads to the endpoint that is measured. Left out is what is used by default.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Only for `ingest`")]
pub struct Crowd {
    /// Uploads at a time [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub uploads: Option<u8>,
    /// Viewers at a time, each with a connection of its own [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=500))]
    pub viewers: Option<u16>,
}

impl Crowd {
    /// Another benchmark heeds nothing of this.
    ///
    /// # Errors
    /// [`Failure::Input`] that names the flag.
    pub fn check(&self, what: Measured) -> Result<(), Failure> {
        let given = [("--uploads", self.uploads.is_some()), ("--viewers", self.viewers.is_some())];
        let given = given.iter().find(|(_, given)| *given);
        match given.filter(|_| !matches!(what, Measured::Ingest | Measured::All)) {
            Some((flag, _)) => Err(Failure::Input(format!("{flag} is for `framewire bench ingest`"))),
            None => Ok(()),
        }
    }
}

/// What `framewire bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Measured {
    /// Packets per CPU second of the simulator
    Sim,
    /// The same of one load, which the flags describe
    Load,
    /// The same for every controller
    Controllers,
    /// Cost and memory with more flows and a faster link
    Scale,
    /// Frame rate and added delay in real time
    Live,
    /// Late frames, cost and pacing of the QUIC transport
    Real,
    /// Virtual against real time
    Shadow,
    /// How exact the link emulator is (needs root)
    Link,
    /// How fast `framewire fuzz` evaluates networks
    Fuzz,
    /// Cost of predicting losses
    Predictor,
    /// A learned codec's encoder and decoder
    Vixnn,
    /// Vantage's schedules: how near the best, and how long they take
    Schedule,
    /// Many uploads to one endpoint, and many viewers of them
    Ingest,
    /// A real browser that plays what `serve` sends it, behind a link whose rate drops
    Browser,
    /// Stalls and delay of each strategy where packets are lost (needs root)
    Recovery,
    /// All of them
    All,
}
