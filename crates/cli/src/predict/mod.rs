//! `framewire predict`: the loss predictors, and what they are trained on. What they compute lives in
//! `predict`, the training in `python/research/loss_predictor`.

mod npy;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::predict::REGISTRY;
use clap::Subcommand;
use experiments::scenes::{self, Scene};
use lab::files::write_whole;
use lab::run::{Windows, windows};
use lab::scenario::Scenario;
use serde_json::{Value, json};

use crate::args::{Format, MOST_SEED};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Commands of `framewire predict`: what predictors there are, and the data they are trained on.
#[derive(Debug, Subcommand)]
pub enum Predict {
    /// List the loss predictors
    List(Format),
    /// Run many scenarios and keep what a predictor would have seen, and which packets were lost
    Dataset(Dataset),
}

/// Flags of `framewire predict dataset`: which runs, how many, how long, and where their windows go.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire predict dataset                     40 runs of each family of random scenarios
  framewire predict dataset --real              runs over recorded traces; needs FRAMEWIRE_DATA or the data beside the project
  framewire predict dataset --runs 1 --json     a first look

OUT gets a file for each run, RUN.npy, and dataset.json, which lists them. A file is an array of 32-bit floats with a row for every
10 ms: the eight figures of the window of 50 ms that ends there, then packets sent in these 10 ms, and those of them that were lost.
docs/loss-predictor.md says what the figures are and how a network is trained from the files.")]
pub struct Dataset {
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = "out/predict")]
    pub out: PathBuf,
    /// Runs of each family of scenarios
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Length of a run in seconds of virtual time
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=3_600))]
    pub seconds: u32,
    /// Seed of the scenarios
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,
    /// Recorded traces instead of random scenarios
    #[arg(long)]
    pub real: bool,
    /// Most runs at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    #[command(flatten)]
    pub format: Format,
}

/// Runs `framewire predict`.
pub fn predict(command: &Predict) -> Result<(), Failure> {
    match command {
        Predict::List(format) => {
            list(format.json);
            Ok(())
        }
        Predict::Dataset(args) => dataset(args),
    }
}

fn list(as_json: bool) {
    if as_json {
        let row = |entry: &::predict::Entry| json!({ "name": entry.name, "summary": entry.summary, "option": entry.option });
        return output::json(&json!({ "predictors": REGISTRY.iter().map(row).collect::<Vec<_>>() }));
    }
    let mut table = Table::new(["predictor", "what it does", "option"]);
    REGISTRY.iter().for_each(|entry| table.row([entry.name, entry.summary, entry.option]));
    println!("{table}");
}

/// What is known of a run without its rows.
struct Run {
    family: &'static str,
    name: String,
    strides: usize,
    sent: u64,
    lost: u64,
    spurious: u64,
    /// Strides in which a packet was sent that was lost.
    with_loss: usize,
}

impl Run {
    fn of(scene: &Scene, seen: &Windows) -> Run {
        let sum = |of: fn(&lab::run::Fate) -> u32| seen.fates.iter().map(|fate| u64::from(of(fate))).sum();
        Run {
            family: scene.family,
            name: scene.name.clone(),
            strides: seen.rows.len(),
            sent: sum(|fate| fate.sent),
            lost: sum(|fate| fate.lost),
            spurious: seen.spurious,
            with_loss: seen.fates.iter().filter(|fate| fate.lost > 0).count(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "family": self.family, "strides": self.strides, "sent": self.sent,
            "lost": self.lost, "spurious": self.spurious, "strides_with_loss": self.with_loss,
        })
    }
}

fn dataset(args: &Dataset) -> Result<(), Failure> {
    let scenes = if args.real {
        scenes::recorded(args.seconds, args.seed).map_err(Failure::Input)?
    } else {
        std::fs::create_dir_all(&args.out).map_err(|error| unwritable(&args.out, &error))?;
        scenes::random(0..args.runs, args.seconds, args.seed, &args.out).map_err(Failure::work)?
    };
    if scenes.is_empty() {
        eprintln!(
            "note: there are no recorded traces here (FRAMEWIRE_DATA names their folder); nothing was run"
        );
        return Ok(());
    }
    std::fs::create_dir_all(&args.out).map_err(|error| unwritable(&args.out, &error))?;
    let runs = run_all(args, &scenes)?;
    let index = json!({
        "commit": env!("FRAMEWIRE_COMMIT"),
        "seed": args.seed,
        "real": args.real,
        "runs": runs.iter().map(Run::json).collect::<Vec<_>>(),
    });
    let file = args.out.join("dataset.json");
    write_whole(&file, |to| Ok(serde_json::to_writer_pretty(to, &index)?)).map_err(Failure::work)?;
    if args.format.json {
        output::json(&index);
    } else {
        print(&runs);
        println!("{} runs in {}", runs.len(), args.out.display());
    }
    Ok(())
}

fn unwritable(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::Input(format!("{}: {error}", folder.display()))
}

/// Runs the scenes on some threads; their order and results are those of one.
fn run_all(args: &Dataset, scenes: &[Scene]) -> Result<Vec<Run>, Failure> {
    let bar = output::long_progress(scenes.len() as u64);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        scenes.get(index).map(|scene| (index, scene))
    };
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                while let Some((index, scene)) = take() {
                    let run = run(scene, &args.out);
                    done.lock().expect("no thread panics with it").push((index, run));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().expect("no thread panics with it");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, run)| run).collect()
}

fn run(scene: &Scene, folder: &Path) -> Result<Run, Failure> {
    let file = folder.join(format!("{}.toml", scene.name));
    let scenario = Scenario::parse(&scene.text, &file).map_err(Failure::work)?;
    let seen = windows(&scenario).map_err(Failure::work)?;
    let rows = seen.rows.iter().zip(&seen.fates).map(|(row, fate)| {
        let mut wide = [0.0; npy::COLUMNS];
        wide[..row.len()].copy_from_slice(row);
        wide[row.len()..].copy_from_slice(&[fate.sent as f32, fate.lost as f32]);
        wide
    });
    let file = folder.join(format!("{}.npy", scene.name));
    write_whole(&file, |to| npy::write(to, rows)).map_err(Failure::work)?;
    Ok(Run::of(scene, &seen))
}

/// A line for each family.
fn print(runs: &[Run]) {
    let mut table = Table::new(["family", "runs", "with loss", "packets", "lost", "strides with loss"]);
    for of_family in runs.chunk_by(|a, b| a.family == b.family) {
        let sum = |of: fn(&Run) -> u64| of_family.iter().map(of).sum::<u64>();
        let (sent, lost) = (sum(|run| run.sent), sum(|run| run.lost));
        let (strides, with_loss) = (sum(|run| run.strides as u64), sum(|run| run.with_loss as u64));
        let percent = |part: u64, whole: u64| format!("{:.2} %", 100.0 * part as f64 / whole.max(1) as f64);
        table.row([
            of_family[0].family.to_owned(),
            of_family.len().to_string(),
            of_family.iter().filter(|run| run.lost > 0).count().to_string(),
            sent.to_string(),
            percent(lost, sent),
            percent(with_loss, strides),
        ]);
    }
    println!("{table}");
}
