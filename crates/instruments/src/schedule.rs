//! How good Vantage's schedules are, and what one costs: random periods of an upload, each planned once.

use std::time::Instant;

use serde_json::{Value, json};
use units::Rng;
use vantage::{Curve, Delays, Effort, Past, Window};

use crate::measure::quantile;
use crate::{Benchmark, Progress};

/// Frames of a period: two seconds at 30 Hz, as the thesis has them.
const FRAMES: usize = 60;
/// The oldest frame that may be sent again, in frames (30 s).
const OLDEST: u32 = 900;
/// A gap to the bound below which a schedule counts as the best one.
const CLOSE: f64 = 0.001;
/// Sets of windows: name, how many, and how many frames may be sent again at most.
const SETS: [(&str, usize, usize); 2] = [("small", 1_000, 40), ("full", 500, 200)];

/// Plans both sets on this thread. The figure is the share of small windows (as many as the exact optimum was
/// asked for) whose schedule is proven to be within 0.1 % of the best.
pub fn run(progress: &dyn Progress) -> Benchmark {
    let windows: usize = SETS.iter().map(|(_, count, _)| count).sum();
    let bar = progress.begin(windows as u64, "schedule");
    let mut rows = Vec::new();
    for (name, count, most) in SETS {
        let mut rng = Rng::stream(1, &format!("bench/schedule/{name}"));
        let mut planned = Vec::with_capacity(count);
        for _ in 0..count {
            let window = window(&mut rng, most);
            let began = Instant::now();
            let schedule = window.solve(Effort::default()).expect("a random window is in its bounds");
            planned.push((began.elapsed().as_secs_f64() * 1e3, schedule.gap()));
            bar.advance();
        }
        rows.push(row(name, most, &planned));
    }
    drop(bar);
    let within = rows[0]["within_0.1_percent"].as_f64().unwrap_or(f64::NAN);
    Benchmark::new(
        "schedule",
        "of small windows proven within 0.1 % of the optimum",
        within,
        json!({ "sets": rows }),
    )
}

fn row(name: &str, most: usize, planned: &[(f64, f64)]) -> Value {
    let times: Vec<f64> = planned.iter().map(|&(ms, _)| ms).collect();
    let share = |gap: f64| planned.iter().filter(|&&(_, g)| g <= gap).count() as f64 / planned.len() as f64;
    let at = |share: f64| (quantile(&times, share) * 1e3).round() / 1e3;
    json!({
        "set": name, "windows": planned.len(), "most_candidates": most,
        "within_0.1_percent": share(CLOSE), "within_1_percent": share(0.01),
        "largest_gap": planned.iter().map(|&(_, gap)| gap).fold(0.0, f64::max),
        "p50_ms": at(0.5), "p99_ms": at(0.99), "most_ms": at(1.0),
    })
}

/// A period as an upload may meet it: frames of one scene to come, frames of several that are missing or
/// poor, in runs, and bytes for a picture from hardly anything to very good.
fn window(rng: &mut Rng, most: usize) -> Window {
    let delays = match rng.below(3) {
        0 => Delays::uniform(30),
        1 => Delays::early(30),
        _ => Delays::late(30),
    };
    let scene = curve(rng);
    let count = 1 + rng.below(most as u64) as usize;
    let mut past: Vec<Past> = Vec::with_capacity(count);
    let mut age = OLDEST - rng.below(600) as u32;
    while past.len() < count && age > FRAMES as u32 {
        let (curve, length) = (curve(rng), 1 + rng.below(30));
        let has = if rng.below(3) == 0 { 0.0 } else { rng.uniform_in(0.2, 0.97) };
        for _ in 0..length {
            if past.len() == count || age <= FRAMES as u32 {
                break;
            }
            let quality = (has * rng.uniform_in(0.95, 1.02)).clamp(0.0, 1.0);
            let weight = delays.beyond(f64::from(age) / 30.0 + 2.0);
            past.push(Past { frame: OLDEST - age, curve: like(rng, curve), quality, weight });
            age -= 1;
        }
        age = age.saturating_sub(rng.below(20) as u32);
    }
    let mean = rng.uniform_in(600f64.ln(), 25_000f64.ln()).exp();
    Window {
        budget: mean * FRAMES as f64,
        future: vec![scene; FRAMES],
        weight: delays.of_now(),
        past,
        sizes: (200.0, 4.0 * mean.max(200.0)),
        least_gain: 0.02,
        run_cost: 0.02 * delays.of_now(),
    }
}

/// The curve of a scene: an SSIM of 0.6 to 0.98 at 1 to 10 kB, part of it without a byte.
fn curve(rng: &mut Rng) -> Curve {
    let at = 1.0 / (1.0 - rng.uniform_in(0.6, 0.98));
    let (size, share) = (rng.uniform_in(1_000.0, 10_000.0), rng.uniform_in(0.0, 0.4));
    Curve::new(at * (1.0 - share) / size, at * share).expect("a positive slope")
}

/// The curve of another frame of the scene.
fn like(rng: &mut Rng, scene: Curve) -> Curve {
    let mut near = |n: f64| n * rng.uniform_in(0.85, 1.15);
    Curve::new(near(scene.a()), near(scene.b())).expect("a positive slope")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_windows_are_planned_within_a_thousandth_of_the_best() {
        let mut rng = Rng::stream(2, "test");
        let close = (0..20).filter(|_| {
            let window = window(&mut rng, 40);
            let schedule = window.solve(Effort::default()).unwrap();
            assert!(schedule.bytes() as f64 <= window.budget);
            schedule.gap() <= CLOSE
        });
        assert!(close.count() >= 19);
    }
}
