//! The grammar of `framewire fuzz`.

use std::path::PathBuf;

use ccfuzz::{Aim, Mode};
use clap::Subcommand;
use units::Span;

use crate::args::{Format, MOST_SEED};
use crate::values::CcList;

/// `framewire fuzz`.
#[derive(Debug, Subcommand)]
pub enum Fuzz {
    /// List the targets that come along
    Targets(Format),
    /// Search for a network that a target can't take
    Run(Run),
    /// Reduce a finding to the least that still shows the same
    Shrink(Shrink),
    /// Keep a finding as a regression test
    Keep(Keep),
    /// Replay kept findings and hold each against what is expected of it
    Replay(Replay),
}

/// `framewire fuzz run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire fuzz run --target bbr-stall
  framewire fuzz run --target reno-low-rate --cc cubic --mode link --generations 20 --population 100 --islands 4
  framewire fuzz run --target mine.toml --mode traffic+loss --score high-delay --seed 7 --json
  framewire fuzz run --target video --cc gcc --reference sqp,copa
  framewire fuzz run --target reno-low-rate --expression 'timeouts - utilisation'
  framewire fuzz run --resume out/fuzz/bbr-stall-1

A target is a name from `framewire fuzz targets` or a scenario file with a constant rate and a queue, whose first flow is under test. The
folder holds a checkpoint after every generation, and the best network so far as a scenario that `framewire run` replays. The same
target, settings and seed give the same networks, however many threads there are and however often the search is interrupted.")]
pub struct Run {
    /// What is tested: a target's name, or a scenario file
    #[arg(long, value_name = "NAME|FILE.toml", required_unless_present = "resume")]
    pub target: Option<String>,
    /// Congestion controller of the first flow, instead of the target's
    #[arg(long, value_name = "CC")]
    pub cc: Option<CcList>,
    /// What is varied: link, traffic, loss, call, or several joined by +; the target's own, or traffic
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// What is sought: low-throughput, high-delay, loss, unfairness, any, of video frame-delay, stall-time,
    /// invariants, or the file's own expression; the target's own, or low-throughput
    #[arg(long, value_name = "SCORE")]
    pub score: Option<Aim>,
    /// What is sought, as an expression of what is measured, such as 'percentile(frame_delay_ms, 90) / 100 -
    /// utilisation'; docs/fuzzing.md lists the names
    #[arg(long, value_name = "TEXT", conflicts_with = "score", allow_hyphen_values = true)]
    pub expression: Option<String>,
    /// Controllers that a network must be bearable for: what it costs even the best of them does not count.
    /// Each is a run more for every network
    #[arg(long, value_name = "CC,...")]
    pub reference: Option<CcList>,
    /// Length of each run in virtual time, such as 10s, instead of the target's
    #[arg(long)]
    pub duration: Option<Span>,
    /// Seed of the search
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,
    /// Generations at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub generations: u32,
    /// Stop when the best score has not risen by 0.01 in this many generations
    #[arg(long, value_name = "GENERATIONS")]
    pub patience: Option<u32>,
    /// Stop when the best score, without what the network costs, is at least this
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub until: Option<f64>,
    /// Networks of a generation
    #[arg(long, default_value_t = 500)]
    pub population: usize,
    /// Islands they are spread over
    #[arg(long, default_value_t = 20)]
    pub islands: usize,
    /// Draw every generation afresh but for the best: what the genetic search is compared with
    #[arg(long)]
    pub random: bool,
    /// Keep several findings that behave differently, instead of the best alone: the best of each behaviour
    /// lives on, and is written to DIR/findings
    #[arg(long, conflicts_with = "random")]
    pub diverse: bool,
    /// Count no cost of cross packets: the search then has no reason to use few
    #[arg(long)]
    pub free: bool,
    /// A folder of findings that searches share: its networks join the first generation, and the best one is
    /// added at the end
    #[arg(long, value_name = "DIR")]
    pub corpus: Option<PathBuf>,
    /// Folder of the search; out/fuzz/TARGET-SEED if left out
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Go on with the search in this folder, with its own target, mode, score, seed and sizes
    #[arg(long, value_name = "DIR", conflicts_with_all = ["target", "cc", "mode", "score", "expression", "reference", "duration", "random", "diverse", "free"])]
    pub resume: Option<PathBuf>,
    /// Runs at the same time; as many as there are processors if left out. Results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire fuzz shrink`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  framewire fuzz shrink out/fuzz/bbr-delay-1                    writes out/fuzz/bbr-delay-1/shrunk, a finding like the one it came from
  framewire fuzz shrink out/fuzz/bbr-delay-1 --least 0.5        it may lose more, but not this
  framewire fuzz shrink out/fuzz/cubic-burst-1 --gone cubic     what is left must not show under cubic

The same is shown where nine tenths of the harm are left, of what the network scores beyond the same run without it, and the flow behaves
alike: what it uses, its longest stall, losses, delay and timeouts differ by less than a fifth of their scales. --least asks for a score alone.")]
pub struct Shrink {
    /// Folder of a finding or of a search
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// What the score, without what the network costs, must still be, however the flow behaves; nine tenths
    /// of the harm, and the same behaviour, if left out
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub least: Option<f64>,
    /// A controller under which it does not show, and must not when it is shrunk
    #[arg(long, value_name = "CC")]
    pub gone: Vec<CcList>,
    /// Runs at most
    #[arg(long, default_value_t = 10_000)]
    pub budget: usize,
    /// Folder for what is left; DIR/shrunk if left out
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at the same time; as many as there are processors if left out. Results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub format: Format,
}

/// `framewire fuzz keep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire fuzz keep out/fuzz/bbr-stall-1/shrunk --name bbr-stall --gone bbr
  framewire fuzz keep out/fuzz/cubic-1 --name cubic-link

Copies the finding into findings/NAME, from where `framewire fuzz replay` and the tests of `ccfuzz` run it.")]
pub struct Keep {
    /// Folder of a finding
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Its name
    #[arg(long)]
    pub name: String,
    /// How far below the score now a replay may stay, and how far a controller without the fault must
    #[arg(long, default_value_t = 0.05)]
    pub margin: f64,
    /// A controller under which it does not show: its score must stay further below than the margin
    #[arg(long, value_name = "CC")]
    pub gone: Vec<CcList>,
    /// Folder of kept findings
    #[arg(long, value_name = "DIR", default_value = "findings")]
    pub to: PathBuf,
}

/// `framewire fuzz replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire fuzz replay                                every kept finding
  framewire fuzz replay findings/bbr-stall
  framewire run findings/bbr-stall/scenario.toml     the same run with tables and a report

Exit code 1 if any is not as expected.")]
pub struct Replay {
    /// Findings to replay; all of findings if left out
    #[arg(value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    #[command(flatten)]
    pub format: Format,
}
