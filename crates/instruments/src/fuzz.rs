//! How fast CC-Fuzz is: a first generation of 500 networks, 30 s each, at 12 Mbit/s under BBR over TCP, on
//! two threads.

use std::time::Instant;

use ccfuzz::{Plan, Preset, Search};
use experiments::Crew;
use serde_json::json;

use crate::measure::cpu_time;
use crate::{Benchmark, Progress};

/// What the figure is stated for.
const THREADS: usize = 2;

/// Evaluates one generation.
pub fn run(progress: &dyn Progress) -> Benchmark {
    let target = Preset::find("bbr-stall").expect("it is in the list").target();
    let mut search = Search::new(Plan::default());
    let bar = progress.begin(search.plan.population() as u64, "fuzz");
    let (begun, before) = (Instant::now(), cpu_time());
    let report = search.step(&target, &[], &Crew::of(THREADS), &|done| bar.reach(done as u64));
    let (took, cpu) = (begun.elapsed().as_secs_f64(), (cpu_time() - before).as_secs_f64());
    drop(bar);
    let networks = search.islands.iter().flatten();
    let cross: u64 = networks.map(|one| u64::from(one.score.cross)).sum();
    let details = json!({
        "cpu_s": cpu,
        "threads": THREADS,
        "evaluations": report.evaluations,
        "evaluations_per_s": report.evaluations as f64 / took,
        "cpu_ms_per_evaluation": cpu * 1e3 / report.evaluations as f64,
        "mean_cross_packets": cross / search.plan.population() as u64,
        "seconds_simulated": 30 * report.evaluations,
    });
    Benchmark::new("fuzz", "s for 500 networks of 30 s", took, details)
}
