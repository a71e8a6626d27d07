//! What each controller costs: the load of `sim` under every row of the registry, video for those that need
//! frames.

use cc::REGISTRY;
use serde_json::{Value, json};

use crate::benchmark::extend;
use crate::dumbbell::{Load, Measurement};
use crate::{Benchmark, Progress};

/// What the others are compared with.
const YARDSTICK: &str = "newreno";
/// Rounds of a controller go on until they have used this many seconds of CPU time together.
const ENOUGH_S: f64 = 0.2;

/// Measures them one after the other, the yardstick before and after.
pub fn run(progress: &dyn Progress) -> Benchmark {
    let bar = progress.begin(REGISTRY.len() as u64, "controllers");
    let yardstick = Load::of(YARDSTICK).measure(ENOUGH_S);
    let mut rows = Vec::new();
    for entry in REGISTRY {
        let measured = Load { video: entry.needs_frames, ..Load::of(entry.name) }.measure(ENOUGH_S);
        rows.push((entry.name, measured));
        bar.advance();
    }
    drop(bar);
    let slowest =
        rows.iter().min_by(|a, b| a.1.best().total_cmp(&b.1.best())).expect("there are controllers");
    let details = json!({
        "slowest": slowest.0,
        "controllers": rows.iter().map(|(name, measured)| row(name, measured, &yardstick)).collect::<Vec<_>>(),
    });
    Benchmark::new("controllers", "packets/CPU s of the slowest", slowest.1.best().round(), details)
}

fn row(name: &str, measured: &Measurement<'_>, yardstick: &Measurement<'_>) -> Value {
    let mut row = json!({ "controller": name, "cost": measured.cost_in(yardstick) });
    extend(&mut row, measured.details());
    row
}
