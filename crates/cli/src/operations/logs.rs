//! Lines of log on standard error, as text or JSON.
//!
//! ```text
//!   any thread: an event --> a line --> [bounded queue] --> the writer's thread --> standard error, above the status line
//! ```
//!
//! Nobody waits for a terminal that is paused or a pipe that nobody reads: what the queue can't take is
//! counted, and the count told with the next line that gets through.

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use crate::output;

/// Lines that may wait for the terminal: a few hundred kB.
const WAITING: usize = 1 << 10;
/// How long the last lines may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line, for programs
    Json,
}

/// What is worth a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Verbosity(Targets);

impl Verbosity {
    /// Ours from this level on, and warnings of the libraries beneath (all of it, at `trace`).
    pub fn level(level: LevelFilter) -> Verbosity {
        let beneath = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
        Verbosity(Targets::new().with_default(beneath).with_target("framewire", level))
    }

    /// What goes wrong.
    pub fn warnings() -> Verbosity {
        Verbosity::level(LevelFilter::WARN)
    }

    /// Who comes and goes, too.
    pub fn events() -> Verbosity {
        Verbosity::level(LevelFilter::INFO)
    }
}

impl FromStr for Verbosity {
    type Err = String;

    /// Reads a level, or what each module is to tell: `info,quinn=debug`.
    fn from_str(text: &str) -> Result<Verbosity, String> {
        if let Ok(level) = text.parse::<LevelFilter>() {
            return Ok(Verbosity::level(level));
        }
        let refused = || format!("`{text}` is no level: off, error, warn, info, debug or trace");
        // A word alone would be taken for a module's name.
        if text.split(',').any(|part| !part.contains('=') && part.parse::<LevelFilter>().is_err()) {
            return Err(refused());
        }
        text.parse::<Targets>().map(Verbosity).map_err(|_| refused())
    }
}

enum Item {
    Line(Vec<u8>),
    /// Answered once all before it is written.
    Flush(SyncSender<()>),
}

static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

/// Logs from now on; once in a process.
pub fn start(verbosity: &Verbosity, format: LogFormat) {
    let (queue, lines) = sync_channel(WAITING);
    if QUEUE.set(queue).is_err() {
        return;
    }
    std::thread::spawn(move || write(&lines));
    let registry = tracing_subscriber::registry().with(verbosity.0.clone());
    let layer = tracing_subscriber::fmt::layer().with_writer(Queue).with_ansi(false);
    let set = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(registry.with(layer.with_target(false))),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(registry.with(layer.json().with_span_list(false)))
        }
    };
    set.expect("nothing else logs in this process");
}

/// Waits, briefly, until all lines are written.
pub fn finish() {
    let (done, written) = sync_channel(1);
    if QUEUE.get().is_some_and(|queue| queue.try_send(Item::Flush(done)).is_ok()) {
        let _ = written.recv_timeout(LAST_WORDS);
    }
}

/// Takes each line to the queue.
#[derive(Clone, Copy)]
struct Queue;

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(Err(TrySendError::Full(_))) =
            QUEUE.get().map(|queue| queue.try_send(Item::Line(line.to_vec())))
        {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Queue;
    fn make_writer(&self) -> Queue {
        Queue
    }
}

fn write(items: &Receiver<Item>) {
    for item in items {
        match item {
            Item::Line(line) => {
                // Nobody is left to be told that nobody reads.
                let _ = output::above_status(|| io::stderr().write_all(&line));
                let lost = LOST.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = output::above_status(|| writeln!(io::stderr(), "{lost} lines of log were lost"));
                }
            }
            Item::Flush(done) => drop(done.try_send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_level_is_for_us_and_warnings_for_those_beneath() {
        let Verbosity(info) = "info".parse().unwrap();
        assert!(info.would_enable("framewire_real::quic::listener", &Level::INFO));
        assert!(!info.would_enable("framewire_real::quic::listener", &Level::DEBUG));
        assert!(info.would_enable("quinn", &Level::WARN) && !info.would_enable("quinn", &Level::INFO));
        let Verbosity(off) = "off".parse().unwrap();
        assert!(!off.would_enable("framewire", &Level::ERROR) && !off.would_enable("quinn", &Level::ERROR));
        let Verbosity(some) = "warn,quinn=debug".parse().unwrap();
        assert!(some.would_enable("quinn::endpoint", &Level::DEBUG));
        assert!(
            "loud=much".parse::<Verbosity>().unwrap_err().contains("off, error, warn, info, debug or trace")
        );
    }
}
