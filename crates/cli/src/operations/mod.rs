//! What people need who run this for others: metrics, logs, limits, certificates that are renewed.
//! `docs/operations.md` is theirs.

mod certificates;
mod exposition;
mod limits;
mod logs;
mod process;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;

use real::quic::Runtime;

pub use certificates::{Certificate, Keeper, Renewal, Status, keep};
pub use exposition::{Board, Exposition};
pub use limits::{ConnectionLimits, of_admission};
pub use logs::{LogFormat, Verbosity, finish as finish_logs};
pub use streams::{Figures, Sending, Slot, Streams};

use crate::failure::Failure;

/// Whether figures are shown while a command runs.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operations")]
pub struct Metrics {
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics, to whoever can reach the address: keep it
    /// local
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
}

/// What every command takes that talks to others and may do so for long.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operations")]
pub struct Operations {
    #[command(flatten)]
    pub metrics: Metrics,
    /// Log to standard error what is at least this important: off, error, warn, info, debug or trace; warn if
    /// left out, info for `serve`
    #[arg(long, value_name = "LEVEL", env = "FRAMEWIRE_LOG")]
    pub log_level: Option<Verbosity>,
    /// How a line of the log looks
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// Metrics being served, for as long as this lives.
pub struct Running {
    /// What is shown there.
    pub board: Arc<Board>,
    at: Option<SocketAddr>,
    _runtime: Option<Runtime>,
}

impl Operations {
    /// Begins to log, from `usual` on where nothing else was asked for, and to serve metrics if that was.
    pub fn start(&self, usual: Verbosity) -> Result<Running, Failure> {
        logs::start(self.log_level.as_ref().unwrap_or(&usual), self.log_format);
        let running = self.metrics.start()?;
        running.announce();
        Ok(running)
    }
}

impl Metrics {
    /// Begins to serve them, if that was asked for.
    pub fn start(&self) -> Result<Running, Failure> {
        let board = Arc::new(Board::default());
        board.show(process::of_process);
        let Some(listen) = self.metrics else { return Ok(Running { board, at: None, _runtime: None }) };
        let runtime = Runtime::ordinary().map_err(Failure::work)?;
        let at = real::http::serve(&runtime, listen, board.clone());
        let at = at.map_err(|error| Failure::Input(format!("--metrics: {error}")))?;
        Ok(Running { board, at: Some(at), _runtime: Some(runtime) })
    }
}

impl Running {
    /// Says where metrics are served, if they are.
    pub fn announce(&self) {
        if let Some(at) = self.at {
            eprintln!("metrics at http://{at}/metrics");
        }
    }
}
