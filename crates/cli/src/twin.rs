//! `framewire lab twin`: its arguments, and what it prints. What is run lives in `instruments`.

use std::path::PathBuf;

use experiments::data_file;
use instruments::link::load_average;
use instruments::twin::{CLIP, DELAY_MS, Line, Pair, SHARE, Settings, TRACE, is_possible, run};
use serde_json::json;
use units::{Rate, Span};

use crate::args::{Format, MOST_SEED};
use crate::failure::Failure;
use crate::output::{self, Terminal};
use crate::table::Table;
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
    /// The link's capacity from sender to receiver: a Mahimahi trace, plain or gzipped; the ATT LTE downlink
    /// of the data folder if left out
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

/// Runs the clip as often as asked for, in both worlds.
pub fn twin(args: &Twin) -> Result<(), Failure> {
    let cc = args.cc.only().map_err(Failure::Input)?;
    let (trace, clip) = match inputs(args) {
        Ok(inputs) => inputs,
        Err(missing) => return skip(args, &missing),
    };
    if let Err(why) = is_possible() {
        return skip(args, &why);
    }
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::Input(format!("{}: {error}", args.out.display())))?;
    let settings = Settings {
        program: std::env::current_exe().map_err(Failure::work)?,
        trace,
        clip,
        cc: cc.to_owned(),
        delay: args.delay,
        queue: args.queue.clone(),
        initial: args.initial,
        max: args.max,
        duration: args.duration,
        runs: args.runs,
        seed: args.seed,
        out: args.out.clone(),
    };
    print(&run(&settings, &Terminal)?, args.format.json);
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
