//! `framewire lab twin`: one clip through two real processes over the emulated link, and the same run in virtual time.
//!
//! ```text
//! inside:  framewire send --qlog --(QUIC)--[up: trace, delay, queue]--> framewire receive --qlog   outside
//!          lab::run of the same scenario, which begins where the trace was when the first picture was captured
//! ```
//!
//! Both processes read the clock that all of a machine share, and both logs say what date it was when they began; so the time from a
//! picture's capture in one process to its display in the other is a difference of two readings of one clock. The simulator is told
//! three things of the real run: when in the trace it began, how long its datagrams were, and how long its encoder took in the median.

mod flags;
mod logs;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lab::experiment::data_file;
use lab::metrics::{latencies, nearest_rank};
use lab::run::RunOptions;
use lab::scenario::Scenario;
use media::{Clip, ClipOptions, Y4mWriter};
use real::link::Emulator;
use real::quic::Token;
use serde_json::{Value, json};
use toml::Table as Toml;
use units::{Rate, Span, Time};

use crate::bench::link::load_average;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use crate::values::Input;
use logs::{Frame, read};

pub use flags::Twin;

/// Where it all is run if nothing else is asked for: a recorded LTE downlink, and a recorded game.
const TRACE: &str = "network/mahimahi-cellular/ATT-LTE-driving.down.gz";
const CLIP: &str = "video/game/stk_cocoa_temple_720p25_8s_x264crf13.mp4";
/// What the two worlds may differ by: a share of the simulator's figure, or this much delay.
const SHARE: f64 = 0.10;
const DELAY_MS: f64 = 10.0;
/// The largest IP packet of the emulated link.
const MTU: u32 = 1500;
/// What is captured last has this long to be shown.
const TAIL: Span = Span::from_secs(1);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    delay_p50_ms: f64,
    delay_p90_ms: f64,
    bitrate_bps: f64,
    frames: usize,
    displayed: usize,
}

/// A run in both worlds.
struct Pair {
    real: Figures,
    simulated: Figures,
    /// When in the trace the first picture was captured, what datagrams were long, what the encoder took in the median.
    started: Span,
    datagram: u64,
    encode: Span,
    /// What the real processes and the link say of themselves.
    sent: Value,
    link: Value,
}

/// Runs the clip as often as asked for, in both worlds.
pub fn twin(args: &Twin) -> Result<(), Failure> {
    let cc = args.cc.only().map_err(Failure::Input)?;
    let (trace, clip) = match inputs(args) {
        Ok(inputs) => inputs,
        Err(missing) => return skip(args, &missing),
    };
    if let Err(error) = Emulator::open(MTU) {
        return skip(args, &error.to_string());
    }
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::Input(format!("{}: {error}", args.out.display())))?;
    let clip = raw(&clip, &args.out)?;
    let plan = Plan { args, cc, trace: &trace, clip: &clip };
    let bar = output::progress(2 * u64::from(args.runs), "twin, for real");
    let mut pairs = Vec::new();
    let mut run = || -> Result<(), Failure> {
        for number in 1..=args.runs {
            pairs.push(plan.pair(number, || bar.inc(1))?);
            bar.inc(1);
        }
        Ok(())
    };
    let ended = run();
    bar.finish_and_clear();
    if !matches!(&args.input, Some(Input::File(given)) if *given == clip) {
        // A temporary copy that is already gone is no trouble.
        let _ = std::fs::remove_file(&clip);
    }
    ended?;
    print(&pairs, args.format.json);
    Ok(())
}

/// Trace and clip, or which of them is not there.
fn inputs(args: &Twin) -> Result<(PathBuf, PathBuf), String> {
    let there = |path: PathBuf| match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    let trace = there(args.trace.clone().unwrap_or_else(|| data_file(TRACE)))?;
    let clip = match &args.input {
        Some(Input::File(path)) => path.clone(),
        Some(Input::Synthetic) => return Err("--input: a clip's file is needed here".to_owned()),
        None => data_file(CLIP),
    };
    Ok((trace, there(clip)?))
}

fn skip(args: &Twin, why: &str) -> Result<(), Failure> {
    if args.format.json {
        output::json(&json!({ "skipped": why }));
    } else {
        println!("skipped: {why}");
    }
    Ok(())
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

/// A scenario as both worlds run it.
struct Plan<'a> {
    args: &'a Twin,
    cc: &'a str,
    trace: &'a Path,
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

    fn receiver(&self, token: &Token, log: &Path) -> Result<Child, Failure> {
        let mut command = framewire()?;
        command.args(["receive", "--listen", "quic://0.0.0.0:0", "--output", "null", "--json", "--qlog"]);
        command.arg(log).env("FRAMEWIRE_TOKEN", token.secret());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(Failure::work)
    }

    fn link(&self, token: &Token, log: &Path, port: &str, pin: &str) -> Result<Command, Failure> {
        let args = self.args;
        let mut command = framewire()?;
        command.args([
            "link",
            "--json",
            "--seed",
            &args.seed.to_string(),
            "--delay",
            &args.delay.to_string(),
        ]);
        command.args(["--up-queue", &args.queue.to_string(), "--up-trace"]).arg(self.trace);
        // Where the receiver is only the inside knows.
        let script =
            "port=$1 pin=$2; shift 2; exec \"$0\" send \"quic://$FRAMEWIRE_OUTSIDE:$port?pin=$pin\" \"$@\"";
        command.args(["--", "sh", "-c", script]).arg(program()?).args([port, pin]);
        command.args(["--input"]).arg(self.clip).args(["--codec", "h264", "--cc", self.cc]);
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
            ("cc", self.cc.to_owned()),
            ("initial", bits(args.initial)),
            ("max", bits(args.max)),
            ("mtu", format!("{datagram}B")),
            ("start", format!("{}ns", started.as_nanos())),
        ]);
        flow.insert("encoder".to_owned(), encoder.into());
        let link = toml(&[
            ("trace", path(self.trace)),
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

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::work)
}

/// This very command, again.
fn framewire() -> Result<Command, Failure> {
    program().map(Command::new)
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
struct Line {
    what: &'static str,
    real: f64,
    simulated: f64,
    /// What may lie between them.
    allowed: f64,
}

impl Line {
    fn holds(&self) -> bool {
        (self.real - self.simulated).abs() <= self.allowed
    }
}

impl Pair {
    fn lines(&self) -> [Line; 3] {
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

    fn json(&self) -> Value {
        let within = self.lines().iter().all(Line::holds);
        json!({
            "real": self.real.json(), "simulated": self.simulated.json(), "within": within,
            "started_s": self.started.as_secs_f64(), "datagram_bytes": self.datagram,
            "encode_ms": self.encode.as_millis_f64(), "sender": self.sent, "link": self.link,
        })
    }
}

fn print(pairs: &[Pair], json: bool) {
    let load = load_average();
    if json {
        let runs: Vec<_> = pairs.iter().map(Pair::json).collect();
        let within = pairs.iter().filter(|pair| pair.lines().iter().all(Line::holds)).count();
        output::json(&json!({ "runs": runs, "within": within, "of": pairs.len(), "load_average": load }));
        return;
    }
    let mut table = Table::new(["run", "figure", "real", "simulated", "difference", ""]);
    for (number, pair) in (1..).zip(pairs) {
        for line in pair.lines() {
            table.row([
                format!("{number}"),
                line.what.to_owned(),
                format!("{:.2}", line.real),
                format!("{:.2}", line.simulated),
                format!("{:+.1} %", 100.0 * (line.real / line.simulated - 1.0)),
                if line.holds() { "within" } else { "OUTSIDE" }.to_owned(),
            ]);
        }
    }
    print!("{table}");
    for (number, pair) in (1..).zip(pairs) {
        let (real, simulated) = (&pair.real, &pair.simulated);
        println!(
            "run {number}: {} of {} frames shown, simulated {} of {}; from {:.3} s of the trace on, datagrams of {} bytes, \
             {:.1} ms of encoding",
            real.displayed,
            real.frames,
            simulated.displayed,
            simulated.frames,
            pair.started.as_secs_f64(),
            pair.datagram,
            pair.encode.as_millis_f64()
        );
    }
    let limits = format!("within {:.0} %, delays also within {DELAY_MS:.0} ms", 100.0 * SHARE);
    println!("{limits}; load average {:.1}", load.unwrap_or(f64::NAN));
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
