//! One clip through two real processes over the emulated link, and the same run in virtual time.
//!
//! ```text
//! inside:  framewire send --qlog --(QUIC)--[up: trace, delay, queue]--> framewire receive --qlog   outside
//!          lab::run of the same scenario, which begins where the trace was when the first picture was captured
//! ```
//!
//! Both processes read the clock that all of a machine share, and both logs say what date it was when they
//! began; so the time from a picture's capture in one process to its display in the other is a difference of
//! two readings of one clock. The simulator is told three things of the real run: when in the trace it began,
//! how long its datagrams were, and how long its encoder took in the median.

mod logs;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::metrics::{latencies, nearest_rank};
use lab::run::RunOptions;
use lab::scenario::Scenario;
use media::{Clip, ClipOptions, Y4mWriter};
use real::link::Emulator;
use real::quic::Token;
use serde_json::{Value, json};
use toml::Table as Toml;
use units::{Rate, Span, Time};

use crate::{Failure, Progress};
use logs::{Frame, read};

/// Where it all is run if nothing else is asked for: a recorded LTE downlink ...
pub const TRACE: &str = "network/mahimahi-cellular/ATT-LTE-driving.down.gz";
/// ... and a recorded game, both by their paths in the data folder.
pub const CLIP: &str = "video/game/stk_cocoa_temple_720p25_8s_x264crf13.mp4";
/// What the two worlds may differ by: this share of the simulator's figure, ...
pub const SHARE: f64 = 0.10;
/// ... or this much delay, in ms.
pub const DELAY_MS: f64 = 10.0;
/// The largest IP packet of the emulated link.
const MTU: u32 = 1500;
/// What is captured last has this long to be shown.
const TAIL: Span = Span::from_secs(1);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Median of the time from capture to display.
    pub delay_p50_ms: f64,
    /// 90th percentile of that time, in ms.
    pub delay_p90_ms: f64,
    /// Coded bits a second.
    pub bitrate_bps: f64,
    /// Frames captured.
    pub frames: usize,
    /// Frames shown.
    pub displayed: usize,
}

/// A run in both worlds.
pub struct Pair {
    /// What came of the two processes.
    pub real: Figures,
    /// What the simulator makes of it.
    pub simulated: Figures,
    /// When in the trace the first picture was captured.
    pub started: Span,
    /// Bytes of the longest datagram.
    pub datagram: u64,
    /// What the encoder took in the median.
    pub encode: Span,
    /// What the real processes and the link say of themselves.
    sent: Value,
    link: Value,
}

/// What is run, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `framewire` command, for both ends and the link.
    pub program: PathBuf,
    /// The link's trace, an absolute path.
    pub trace: PathBuf,
    /// The clip, an absolute path.
    pub clip: PathBuf,
    /// The controller, with its options.
    pub cc: String,
    /// One-way delay, each way.
    pub delay: Span,
    /// The queue from sender to receiver.
    pub queue: netsim::QueueSpec,
    /// The rate that the sender starts at.
    pub initial: Rate,
    /// The highest rate it may send media at.
    pub max: Rate,
    /// How long it sends.
    pub duration: Span,
    /// Runs, one after the other.
    pub runs: u32,
    /// Of every random stream.
    pub seed: u64,
    /// Folder for the logs; it exists.
    pub out: PathBuf,
}

/// Whether the link can be had here; if not, why.
///
/// # Errors
/// What is missing, in words.
pub fn is_possible() -> Result<(), String> {
    Emulator::open(MTU).map(drop).map_err(|error| error.to_string())
}

/// Runs the clip as often as asked for, in both worlds.
///
/// # Errors
/// [`Failure::Input`] where the clip can't be read, [`Failure::Work`] where a process failed or said nothing.
pub fn run(settings: &Settings, progress: &dyn Progress) -> Result<Vec<Pair>, Failure> {
    let clip = raw(&settings.clip, &settings.out)?;
    let plan = Plan { args: settings, clip: &clip };
    let bar = progress.begin(2 * u64::from(settings.runs), "twin, for real");
    let mut pairs = Vec::new();
    let mut run = || -> Result<(), Failure> {
        for number in 1..=settings.runs {
            pairs.push(plan.pair(number, || bar.advance())?);
            bar.advance();
        }
        Ok(())
    };
    let ended = run();
    drop(bar);
    remove_copy(&clip, &settings.clip);
    ended.map(|()| pairs)
}

/// The clip without compression, so that reading it takes the processors next to nothing.
fn raw(clip: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    if clip.extension().is_some_and(|ending| ending == "y4m") {
        return Ok(clip.to_owned());
    }
    let path = folder.join("clip.y4m");
    let mut source = Clip::open(clip, ClipOptions::default()).map_err(Failure::input)?;
    let ((width, height), interval) = (media::Source::size(&source), media::Source::interval(&source));
    let wrong = |error: std::io::Error| Failure::Work(format!("{}: {error}", path.display()));
    let file = std::io::BufWriter::new(std::fs::File::create(&path).map_err(wrong)?);
    let mut writer = Y4mWriter::new(file, width, height, interval).map_err(wrong)?;
    while let Some(picture) = media::Source::next_picture(&mut source) {
        writer.write(&picture).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)?;
    path.canonicalize().map_err(wrong)
}

/// Removes what was played, unless it is the very clip that was given.
fn remove_copy(played: &Path, given: &Path) {
    if played != given {
        // A temporary copy that is already gone is no trouble.
        let _ = std::fs::remove_file(played);
    }
}

/// A scenario as both worlds run it.
struct Plan<'a> {
    args: &'a Settings,
    clip: &'a Path,
}

impl Plan<'_> {
    fn pair(&self, number: u32, half: impl FnOnce()) -> Result<Pair, Failure> {
        let (frames, sent, link) = self.for_real(number)?;
        half();
        let started = frames.iter().find_map(|frame| frame.captured);
        let started = started.ok_or_else(|| Failure::work("the sender captured nothing"))? - Time::ZERO;
        let mut encode: Vec<Span> =
            frames.iter().filter_map(|frame| Some(frame.encoded? - frame.captured?)).collect();
        encode.sort_unstable();
        let encode = encode.get(encode.len() / 2).copied().unwrap_or_default();
        let datagram = sent["datagrams"]["longest"].as_u64().unwrap_or_default();
        let simulated = self.simulated(started, datagram, encode, frames.len())?;
        let length = self.args.duration;
        let (real, simulated) = (Figures::of(&frames, length), Figures::of(&simulated, length));
        Ok(Pair { real, simulated, started, datagram, encode, sent, link })
    }

    /// Two processes and a link between them: the frames, what the sender says, what the link says.
    fn for_real(&self, number: u32) -> Result<(Vec<Frame>, Value, Value), Failure> {
        let log = |end: &str| self.args.out.join(format!("twin-{number}-{end}.sqlog"));
        let (near, far) = (log("sender"), log("receiver"));
        let token = Token::generate();
        let mut receiver = self.receiver(&token, &far)?;
        let (port, pin) = announced(&mut receiver)?;
        let link = self.link(&token, &near, &port, &pin)?.output().map_err(Failure::work)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let received = receiver.wait_with_output().map_err(Failure::work)?;
        if !link.status.success() || !received.status.success() {
            let said = [text(&link.stderr), text(&received.stderr)].join(" ");
            return Err(Failure::Work(format!("the real run failed: {said}")));
        }
        let sent = serde_json::from_slice(&link.stdout).map_err(Failure::work)?;
        let link = last_object(&text(&link.stderr))
            .ok_or_else(|| Failure::work("the link did not say how it went"))?;
        let began = link["began_ms"].as_f64().unwrap_or_default();
        let mut frames = Vec::new();
        read(&near, began, &mut frames)?;
        read(&far, began, &mut frames)?;
        Ok((frames, sent, link))
    }

    /// The very command that was asked for this, again.
    fn framewire(&self) -> Command {
        Command::new(&self.args.program)
    }

    fn receiver(&self, token: &Token, log: &Path) -> Result<Child, Failure> {
        let mut command = self.framewire();
        command.args(["receive", "--listen", "quic://0.0.0.0:0", "--output", "null", "--json", "--qlog"]);
        command.arg(log).env("FRAMEWIRE_TOKEN", token.secret());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(Failure::work)
    }

    fn link(&self, token: &Token, log: &Path, port: &str, pin: &str) -> Result<Command, Failure> {
        let args = self.args;
        let mut command = self.framewire();
        command.args([
            "link",
            "--json",
            "--seed",
            &args.seed.to_string(),
            "--delay",
            &args.delay.to_string(),
        ]);
        command.args(["--up-queue", &args.queue.to_string(), "--up-trace"]).arg(&args.trace);
        // Where the receiver is only the inside knows.
        let script =
            "port=$1 pin=$2; shift 2; exec \"$0\" send \"quic://$FRAMEWIRE_OUTSIDE:$port?pin=$pin\" \"$@\"";
        command.args(["--", "sh", "-c", script]).arg(&self.args.program).args([port, pin]);
        command.args(["--input"]).arg(self.clip).args(["--codec", "h264", "--cc", &args.cc]);
        command.args(["--initial", &bits(args.initial), "--max", &bits(args.max)]);
        command.args(["--duration", &args.duration.to_string(), "--json", "--qlog"]).arg(log);
        command.env("FRAMEWIRE_TOKEN", token.secret()).stdin(Stdio::null());
        Ok(command)
    }

    /// The same in virtual time: `count` frames.
    fn simulated(
        &self,
        started: Span,
        datagram: u64,
        encode: Span,
        count: usize,
    ) -> Result<Vec<Frame>, Failure> {
        let text = self.scenario(started, datagram, encode);
        let scenario = Scenario::parse(&text, Path::new("twin.toml"));
        let scenario =
            scenario.map_err(|error| Failure::Input(format!("{}: {}", error.field, error.what)))?;
        let outcome = lab::run::run(&scenario, &RunOptions::default()).map_err(Failure::work)?;
        let rows = outcome.record.flows[0].captured().take(count);
        let frame = |(at, row): (Time, &lab::collect::FrameRow)| Frame {
            captured: Some(at),
            encoded: row.encoded,
            displayed: row.displayed,
            size: row.size,
        };
        Ok(rows.map(frame).collect())
    }

    fn scenario(&self, started: Span, datagram: u64, encode: Span) -> String {
        let args = self.args;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let encoder = toml(&[
            ("kind", "h264".to_owned()),
            ("clip", path(self.clip)),
            ("latency", format!("{}ns", encode.as_nanos())),
        ]);
        let mut flow = toml(&[
            ("cc", args.cc.clone()),
            ("initial", bits(args.initial)),
            ("max", bits(args.max)),
            ("mtu", format!("{datagram}B")),
            ("start", format!("{}ns", started.as_nanos())),
        ]);
        flow.insert("encoder".to_owned(), encoder.into());
        let link = toml(&[
            ("trace", path(&args.trace)),
            ("delay", args.delay.to_string()),
            ("queue", args.queue.to_string()),
        ]);
        let duration = started + args.duration + TAIL;
        let mut scenario =
            toml(&[("name", "twin".to_owned()), ("duration", format!("{}ns", duration.as_nanos()))]);
        scenario.insert("seed".to_owned(), (args.seed as i64).into());
        scenario.insert("link".to_owned(), link.into());
        scenario.insert("flow".to_owned(), vec![toml::Value::Table(flow)].into());
        toml::to_string(&scenario).expect("a table can be written")
    }
}

/// A rate as people write it, and no digit less.
fn bits(rate: Rate) -> String {
    format!("{}bit", rate.as_bps())
}

fn toml(pairs: &[(&str, String)]) -> Toml {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect()
}

/// The port and the pin that a receiver announces. What it says later has somewhere to go until it ends.
fn announced(receiver: &mut Child) -> Result<(String, String), Failure> {
    let said = receiver.stderr.take().ok_or_else(|| Failure::work("the receiver says nothing"))?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let mut after = |word: &str| lines.find_map(|line| line.strip_prefix(word).map(str::to_owned));
    let (at, pin) = (after("listening on "), after("pin "));
    let port = at.as_deref().and_then(|at| Some(at.rsplit_once(':')?.1.to_owned()));
    let ends = port.zip(pin).ok_or_else(|| Failure::work("the receiver did not say how to reach it"))?;
    std::thread::spawn(move || lines.count());
    Ok(ends)
}

/// The last JSON object of a text, which begins a line.
fn last_object(text: &str) -> Option<Value> {
    let starts = text.match_indices("{\n").map(|(at, _)| at);
    let at = starts.filter(|&at| at == 0 || text.as_bytes()[at - 1] == b'\n').last()?;
    serde_json::from_str(&text[at..]).ok()
}

impl Figures {
    /// Of frames captured within `length`.
    fn of(frames: &[Frame], length: Span) -> Figures {
        let times: Vec<_> =
            frames.iter().filter_map(|frame| Some((frame.captured?, frame.displayed))).collect();
        let end = times.last().map_or(Time::ZERO, |(captured, _)| *captured + TAIL);
        let mut delays: Vec<f64> =
            latencies(&times, end).of_frames.iter().map(|delay| delay.as_millis_f64()).collect();
        delays.sort_unstable_by(f64::total_cmp);
        let percentile = |p| nearest_rank(&delays, p).unwrap_or(f64::NAN);
        let bytes: u64 = frames.iter().map(|frame| u64::from(frame.size)).sum();
        Figures {
            delay_p50_ms: percentile(50.0),
            delay_p90_ms: percentile(90.0),
            bitrate_bps: bytes as f64 * 8.0 / length.as_secs_f64(),
            frames: times.len(),
            displayed: times.iter().filter(|(_, displayed)| displayed.is_some()).count(),
        }
    }

    fn json(&self) -> Value {
        json!({ "frame_delay_ms": { "p50": self.delay_p50_ms, "p90": self.delay_p90_ms },
                "bitrate_bps": self.bitrate_bps, "frames": self.frames, "displayed": self.displayed })
    }
}

/// One line of the comparison.
pub struct Line {
    /// What is compared, with its unit.
    pub what: &'static str,
    /// For real.
    pub real: f64,
    /// The same in the simulator, in the line's unit.
    pub simulated: f64,
    /// What may lie between them.
    pub allowed: f64,
}

impl Line {
    /// Whether the two are as near as they may be.
    pub fn holds(&self) -> bool {
        (self.real - self.simulated).abs() <= self.allowed
    }
}

impl Pair {
    /// What is compared of this run.
    pub fn lines(&self) -> [Line; 3] {
        let (real, simulated) = (&self.real, &self.simulated);
        let delay = |what, real: f64, simulated: f64| Line {
            what,
            real,
            simulated,
            allowed: DELAY_MS.max(SHARE * simulated),
        };
        let (rate, wanted) = (real.bitrate_bps / 1e6, simulated.bitrate_bps / 1e6);
        [
            delay("frame delay P50, ms", real.delay_p50_ms, simulated.delay_p50_ms),
            delay("frame delay P90, ms", real.delay_p90_ms, simulated.delay_p90_ms),
            Line { what: "bitrate, Mbit/s", real: rate, simulated: wanted, allowed: SHARE * wanted },
        ]
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let within = self.lines().iter().all(Line::holds);
        json!({
            "real": self.real.json(), "simulated": self.simulated.json(), "within": within,
            "started_s": self.started.as_secs_f64(), "datagram_bytes": self.datagram,
            "encode_ms": self.encode.as_millis_f64(), "sender": self.sent, "link": self.link,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(captured: u64, displayed: Option<u64>, size: u32) -> Frame {
        let captured = Some(Time::from_millis(captured));
        Frame { captured, encoded: captured, displayed: displayed.map(Time::from_millis), size }
    }

    #[test]
    fn a_frame_that_was_never_shown_waits_for_the_next() {
        let frames = [frame(0, Some(50), 1_000), frame(40, None, 0), frame(80, Some(140), 1_000)];
        let figures = Figures::of(&frames, Span::from_millis(120));
        assert_eq!((figures.delay_p50_ms, figures.delay_p90_ms), (60.0, 100.0));
        assert_eq!((figures.frames, figures.displayed), (3, 2));
        assert!((figures.bitrate_bps - 2_000.0 * 8.0 / 0.12).abs() < 1e-6);
    }

    #[test]
    fn a_clip_that_needs_no_copy_stays() {
        let folder = std::env::temp_dir().join(format!("framewire-twin-clip-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let given = folder.join("given.y4m");
        let frame = media::RawFrame::filled(16, 16, 0, 128, 128);
        let mut writer =
            Y4mWriter::new(std::fs::File::create(&given).unwrap(), 16, 16, Span::from_millis(40)).unwrap();
        writer.write(&frame).unwrap();
        writer.finish().unwrap();
        let played = raw(&given, &folder).unwrap();
        remove_copy(&played, &given);
        assert!(played == given && given.exists());
        let copy = folder.join("clip.y4m");
        std::fs::copy(&given, &copy).unwrap();
        remove_copy(&copy, &given);
        assert!(given.exists() && !copy.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_links_figures_are_found_behind_what_else_was_said() {
        let said = "note: {\n not this\n{\n  \"began_ms\": 1.5\n}\n";
        assert_eq!(last_object(said).unwrap()["began_ms"], 1.5);
        assert!(last_object("nothing").is_none());
    }

    #[test]
    fn ten_per_cent_or_ten_milliseconds() {
        let holds = |real, simulated, allowed| Line { what: "", real, simulated, allowed }.holds();
        assert!(holds(59.0, 50.0, DELAY_MS.max(SHARE * 50.0)) && !holds(61.0, 50.0, DELAY_MS));
        assert!(!holds(4.4, 5.0, SHARE * 5.0));
    }
}
