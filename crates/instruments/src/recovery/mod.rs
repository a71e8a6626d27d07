//! What each strategy makes of losses: two real processes, a real encoder, and the emulated link between
//! them.
//!
//! ```text
//! inside:  framewire send --strategy S --qlog --(UDP)--[up: delay, loss in bursts]--> framewire receive --qlog   outside
//! ```
//!
//! Strategies take turns over the same clip and a link of the same settings and seed, at a constant rate:
//! what a congestion controller makes of losses is another matter. Both processes read the clock that all of
//! a machine share, so delays from one to the other are exact.

mod figures;
mod logs;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use media::{Source, Y4mWriter};
use netsim::Loss;
use real::link::Emulator;
use serde_json::{Value, json};
use units::{Rate, Span};

use crate::live::HELD;
use crate::{Bar, Benchmark, Failure, Progress};
use figures::{Figures, Known};
use logs::Logs;

/// The largest IP packet of the emulated link.
const MTU: u32 = 1500;
/// A receiver that has missed all goodbyes waits for so long. A burst is counted in packets, and at the end
/// of a stream two probes leave in a second: what is a moment in between can take ten seconds there.
const SILENCE: &str = "20s";
/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A strategy, and the recovery policy of its deadline tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The strategy's name, with its options.
    pub strategy: String,
    /// The recovery policy, if it is not the strategy's matter.
    pub recovery: Option<String>,
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.strategy)?;
        self.recovery.as_ref().map_or(Ok(()), |recovery| write!(f, "+{recovery}"))
    }
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `framewire` command, for both ends and the link.
    pub program: PathBuf,
    /// Who takes turns.
    pub contenders: Vec<Contender>,
    /// How long each sends.
    pub duration: Span,
    /// Each way.
    pub delay: Span,
    /// What is lost on the way from sender to receiver.
    pub loss: Loss,
    /// The constant rate.
    pub rate: Rate,
    /// Of the link's random streams.
    pub seed: u64,
    /// Where the logs stay; nowhere if `None`.
    pub out: Option<PathBuf>,
}

/// A folder that goes with this, unless it is to stay.
struct Folder {
    path: PathBuf,
    stays: bool,
}

impl Folder {
    fn open(out: Option<&Path>) -> Result<Folder, Failure> {
        let temporary = || std::env::temp_dir().join(format!("framewire-recovery-{}", std::process::id()));
        let path = out.map_or_else(temporary, Path::to_owned);
        std::fs::create_dir_all(&path)
            .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
        Ok(Folder { path, stays: out.is_some() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.stays {
            // What is left over is in a folder for temporary files.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Runs each contender over [`HELD`] of `clip`, again and again; the clip is called `input`.
///
/// # Errors
/// [`Failure::Input`] where there can be no emulated link here or no such folder, [`Failure::Work`] where a
/// process failed.
pub fn run(
    settings: &Settings,
    clip: &mut dyn Source,
    input: &str,
    progress: &dyn Progress,
) -> Result<Benchmark, Failure> {
    Emulator::open(MTU).map(drop).map_err(Failure::input)?;
    let folder = Folder::open(settings.out.as_deref())?;
    let known = Known { interval: clip.interval(), delay: settings.delay };
    let played = write_down(clip, &folder.path)?;
    let turns = settings.contenders.len() as u64;
    let bar = progress.begin(turns * settings.duration.as_millis_f64() as u64, "recovery");
    let mut rows = Vec::new();
    let mut value = f64::NAN;
    for (number, contender) in (0..).zip(&settings.contenders) {
        bar.say(format!("{contender} ({} of {turns})", number + 1));
        let turn = Turn { settings, contender, known, clip: &played, folder: &folder.path, number };
        let (figures, sent) = turn.run(&*bar)?;
        if number == 0 {
            value = figures.within(known.bound()).unwrap_or(f64::NAN);
        }
        let mut row = json!({ "strategy": contender.to_string(), "modes": sent["modes"] });
        crate::benchmark::extend(&mut row, figures.json(&known));
        rows.push(row);
    }
    drop(bar);
    // It is large, and can be had again.
    let _ = std::fs::remove_file(&played);
    let details = json!({
        "input": input, "rate_bps": settings.rate.as_bps(), "round_trip_ms": (settings.delay * 2).as_millis_f64(),
        "loss_process": settings.loss.to_string(), "duration_s": settings.duration.as_secs_f64(), "seed": settings.seed,
        "bound_ms": known.bound().as_millis_f64(), "load_average": crate::link::load_average(), "strategies": rows,
    });
    Ok(Benchmark::new(
        "recovery",
        "share of the first strategy's losses with a stall within the bound",
        value,
        details,
    ))
}

/// The clip without compression: reading it takes the processors next to nothing.
fn write_down(clip: &mut dyn Source, folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join("clip.y4m");
    let wrong = |error: std::io::Error| Failure::Work(format!("{}: {error}", path.display()));
    let ((width, height), interval) = (clip.size(), clip.interval());
    let file = std::io::BufWriter::new(std::fs::File::create(&path).map_err(wrong)?);
    let mut writer = Y4mWriter::new(file, width, height, interval).map_err(wrong)?;
    let pictures = (HELD.as_secs_f64() / interval.as_secs_f64()).round() as usize;
    for picture in std::iter::from_fn(|| clip.next_picture()).take(pictures) {
        writer.write(&picture).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)?;
    path.canonicalize().map_err(wrong)
}

/// One contender's run.
struct Turn<'a> {
    settings: &'a Settings,
    contender: &'a Contender,
    known: Known,
    clip: &'a Path,
    folder: &'a Path,
    number: u64,
}

impl Turn<'_> {
    /// What came of it, and what the sender says of itself.
    fn run(&self, bar: &dyn Bar) -> Result<(Figures, Value), Failure> {
        let log = |end: &str| self.folder.join(format!("{}-{end}.sqlog", self.number));
        let (near, far) = (log("sender"), log("receiver"));
        let mut receiver = self.receiver(&far).spawn().map_err(Failure::work)?;
        let port = port(&mut receiver);
        let sent = port.and_then(|port| self.attend(self.sender(&port, &near), bar));
        if sent.is_err() {
            // One that has nobody to listen to has ended, or does now.
            let _ = receiver.kill();
        }
        // It fails if every goodbye was lost; what it wrote down counts.
        receiver.wait().map_err(Failure::work)?;
        let sent = serde_json::from_slice(&sent?.stdout).map_err(Failure::work)?;
        let logs = Logs::read(&near, &far)?;
        if logs.shown.is_empty() {
            return Err(Failure::Work(format!("{}: nothing was shown", self.contender)));
        }
        Ok((Figures::of(&logs, &self.known), sent))
    }

    fn framewire(&self) -> Command {
        let mut command = Command::new(&self.settings.program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn receiver(&self, log: &Path) -> Command {
        let mut command = self.framewire();
        command.args(["receive", "--listen", "udp://0.0.0.0:0", "--output", "null", "--json"]);
        command.args(["--timeout", SILENCE, "--qlog"]).arg(log).stdout(Stdio::null());
        command
    }

    /// The sender, inside the link. Where the receiver is only the inside knows.
    fn sender(&self, port: &str, log: &Path) -> Command {
        let settings = self.settings;
        let mut command = self.framewire();
        command.args(["link", "--quiet", "--seed", &settings.seed.to_string()]);
        command.args(["--delay", &settings.delay.to_string(), "--up-loss", &settings.loss.to_string()]);
        let script = "port=$1; shift; exec \"$0\" send \"udp://$FRAMEWIRE_OUTSIDE:$port\" \"$@\"";
        command.args(["--", "sh", "-c", script]).arg(&settings.program).arg(port);
        command.args(["--input"]).arg(self.clip).args(["--codec", "h264"]);
        command.args(["--cc", &format!("fixed:rate={}bit", settings.rate.as_bps())]);
        command.args(["--strategy", &self.contender.strategy]);
        if let Some(recovery) = &self.contender.recovery {
            command.args(["--recovery", recovery]);
        }
        command.args(["--duration", &settings.duration.to_string(), "--json", "--qlog"]).arg(log);
        command
    }

    /// Waits for the sender's end.
    fn attend(&self, mut command: Command, bar: &dyn Bar) -> Result<Output, Failure> {
        let mut child = command.spawn().map_err(Failure::work)?;
        let clock = real::Clock::starting_now();
        let length = self.settings.duration.as_millis_f64();
        while child.try_wait().map_err(Failure::work)?.is_none() {
            let done = (clock.now() - units::Time::ZERO).as_millis_f64().min(length);
            bar.reach((self.number as f64 * length + done) as u64);
            thread::sleep(LOOK);
        }
        let output = child.wait_with_output().map_err(Failure::work)?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::Work(format!("{}: {}", self.contender, said.trim())))
    }
}

/// The port that a receiver announces. What it says later has somewhere to go until it ends.
fn port(receiver: &mut Child) -> Result<String, Failure> {
    let said = receiver.stderr.take().ok_or_else(|| Failure::work("the receiver says nothing"))?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let port =
        lines.find_map(|line| Some(line.strip_prefix("listening on udp://")?.rsplit_once(':')?.1.to_owned()));
    thread::spawn(move || lines.count());
    port.ok_or_else(|| Failure::work("the receiver did not say where it listens"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{SyntheticConfig, SyntheticGame};

    #[test]
    fn a_contender_is_called_by_its_strategy_and_what_that_recovers_by() {
        let live = Contender { strategy: "live".to_owned(), recovery: Some("newest-acked".to_owned()) };
        let prism = Contender { strategy: "prism".to_owned(), recovery: None };
        assert_eq!((live.to_string().as_str(), prism.to_string().as_str()), ("live+newest-acked", "prism"));
    }

    #[test]
    fn a_clip_is_written_down_for_as_long_as_it_is_held_and_goes_with_its_folder() {
        let interval = Span::from_millis(100);
        let mut clip = SyntheticGame::new(SyntheticConfig { interval, ..SyntheticConfig::new(32, 16) });
        let folder = Folder::open(None).unwrap();
        let path = write_down(&mut clip, &folder.path).unwrap();
        let read = media::Clip::open(&path, media::ClipOptions::default()).unwrap();
        assert_eq!((Source::size(&read), Source::interval(&read)), ((32, 16), interval));
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes > 50 * 32 * 16 * 3 / 2 && bytes < 51 * 32 * 16 * 3 / 2, "{bytes}");
        drop(folder);
        assert!(!path.exists());
    }
}
