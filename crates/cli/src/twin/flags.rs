//! What `framewire lab twin` takes.

use std::path::PathBuf;

use units::{Rate, Span};

use crate::args::{Format, MOST_SEED};
use crate::values::{CcList, Input};

/// `framewire lab twin`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire lab twin                                   a recorded game over a recorded LTE downlink, three times 30 s
  framewire lab twin --runs 1 --duration 60s --cc gcc --json
  framewire lab twin --input clip.mp4 --trace downlink.trace.gz

`framewire send` runs inside `framewire link --up-trace`, `framewire receive` outside, over QUIC, encoder and decoder included. Then the
simulator runs the same clip over the same trace from the same place on. Printed are median and 90th percentile of the time from
capture to display, and the coded bitrate, of both; they should differ by no more than 10 %, delays by no more than 10 % or 10 ms.

Both processes read the one monotonic clock of this machine, so that the delay from one to the other is exact. Needs root, as `framewire
link` does, and an idle machine; where the link, the trace or the clip can't be had it says so and skips. OUT keeps both qlogs of each run.")]
pub struct Twin {
    /// The link's capacity from sender to receiver: a Mahimahi trace, plain or gzipped; the ATT LTE downlink of the data folder if
    /// left out
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The clip: Y4M, or anything ffmpeg reads; a game of the data folder if left out
    #[arg(long, value_name = "CLIP")]
    pub input: Option<Input>,
    /// Congestion controller: NAME or NAME:OPTION=VALUE,OPTION=VALUE
    #[arg(long, value_name = "CC", default_value = "sqp")]
    pub cc: CcList,
    /// One-way delay, each way
    #[arg(long, default_value = "20ms")]
    pub delay: Span,
    /// Queue discipline and its limit
    #[arg(long, default_value = "droptail:200p")]
    pub queue: netsim::QueueSpec,
    /// Rate to start at
    #[arg(long, default_value = "3mbit")]
    pub initial: Rate,
    /// Highest rate
    #[arg(long, default_value = "12mbit")]
    pub max: Rate,
    /// How long to send; the clip repeats
    #[arg(long, default_value = "30s")]
    pub duration: Span,
    /// How often
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Seed of every random stream
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,
    /// Folder for the logs
    #[arg(long, value_name = "DIR", default_value = "out/twin")]
    pub out: PathBuf,
    #[command(flatten)]
    pub format: Format,
}
