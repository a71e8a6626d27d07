//! `--qlog FILE`: what happened, as qlog.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use real::Clock;
use record::{NodeId, Origin, QLOG_BYTES, Qlog, Tap, Traffic, Vantage};
use units::HostClock;

use crate::failure::Failure;

type Shared = Arc<Mutex<Qlog<BufWriter<File>>>>;

/// A log being written, if one was asked for.
pub struct Log(Option<(PathBuf, Shared)>);

impl Log {
    /// Begins the log: of what happens from now on, on the clock that this machine's processes share.
    pub fn open(
        path: Option<&PathBuf>,
        vantage: Vantage,
        traffic: Traffic,
        title: &str,
    ) -> Result<Log, Failure> {
        let Some(path) = path else { return Ok(Log(None)) };
        let wrong = |error: std::io::Error| Failure::Input(format!("--qlog {}: {error}", path.display()));
        let file = BufWriter::new(File::create(path).map_err(wrong)?);
        let clock = Clock::shared();
        let at = clock.now();
        let origin = Origin { at, date_ms: clock.date_of(at) as f64 / 1e6 };
        let log = Qlog::new(file, vantage, traffic, title, origin, QLOG_BYTES).map_err(wrong)?;
        Ok(Log(Some((path.clone(), Arc::new(Mutex::new(log))))))
    }

    /// What an endpoint reports to.
    pub fn tap(&self) -> Tap {
        let log = self.0.as_ref().map(|(_, log)| log.clone());
        log.map_or_else(Tap::default, |log| Tap::new(log, NodeId(0), HostClock::default()))
    }

    /// What several endpoints report to, each as a node of its own.
    pub fn recorder(&self) -> Option<record::Shared> {
        self.0.as_ref().map(|(_, log)| log.clone() as record::Shared)
    }

    /// Writes the rest.
    pub fn finish(self) -> Result<(), Failure> {
        let Some((path, log)) = self.0 else { return Ok(()) };
        let left_out = log.lock().expect("no recorder panics").finish();
        match left_out.map_err(|error| Failure::Work(format!("--qlog {}: {error}", path.display())))? {
            0 => {}
            more => eprintln!("note: {} is full; {more} events were left out", path.display()),
        }
        Ok(())
    }
}
