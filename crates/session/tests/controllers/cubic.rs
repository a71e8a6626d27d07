//! CUBIC (RFC 9438) over simulated paths: sawtooth, fast convergence, HyStart.

use crate::path::{Observed, Path, s20};
use crate::steady::{Steady, backlogged, run, steady};

/// The window was cut at a time in s.
struct Cut {
    at: f64,
    /// In packets.
    before: f64,
    after: f64,
}

fn cuts(path: &Path) -> Vec<Cut> {
    let windows = path.observed(0, "cwnd_bytes");
    let cut = |pair: &[Observed]| {
        let (before, after) = (pair[0].value / 1472.0, pair[1].value / 1472.0);
        (after < 0.8 * before).then_some(Cut { at: pair[1].at, before, after })
    };
    windows.windows(2).filter_map(cut).collect()
}

/// Mean time between cuts from 40 s on.
fn period(path: &Path) -> f64 {
    let late: Vec<f64> = cuts(path).into_iter().map(|cut| cut.at).filter(|&at| at > 40.0).collect();
    (late[late.len() - 1] - late[0]) / (late.len() - 1) as f64
}

fn on_s20(cc: &'static str) -> (Path, Steady) {
    let path = run(s20(), vec![backlogged(cc)], 112);
    let seen = steady(&path, 40.0, 112.0);
    println!("{cc}: {seen:.4?}, a cut every {:.2} s", period(&path));
    (path, seen)
}

#[test]
fn the_sawtooth_of_s20() {
    // RFC 9438's model, without fast convergence: K = 5.85 s and a little more between cuts, from 266.7
    // packets to 186.7.
    let (path, seen) = on_s20("cubic:fast_convergence=off");
    assert!(seen.utilisation >= 0.99, "{seen:?}");
    assert!((102.0..=118.0).contains(&seen.queue_mean) && seen.queue_p90 >= 115.0, "{seen:?}");
    // The model: 72 ms. For a round trip after the cut, round trips are still those of the full queue: pacing
    // at 1.2 * 187 / 160 ms is 260 packets/s below the link, which takes 17 ms more out of the queue.
    let least = path.delays(0, 40.0, 112.0)[0] - 20.6;
    assert!((52.0..=74.0).contains(&least), "{least}");
    assert!((5.5..=7.9).contains(&period(&path)), "{}", period(&path));
    for Cut { before, after, .. } in cuts(&path).into_iter().filter(|cut| cut.at > 40.0) {
        assert!((265.0..=271.0).contains(&before) && (after - 0.7 * before).abs() < 0.5, "{before} {after}");
    }
}

#[test]
fn fast_convergence_makes_every_other_plateau_lower() {
    // The loss is heard of a round trip late, so one plateau lies above what the path holds. The next loss
    // comes below it, and the plateau after that is at 0.85 of the window: passed early and fast, which
    // overshoots again. The queue is shorter for it.
    let (_, seen) = on_s20("cubic");
    assert!(seen.utilisation >= 0.99 && (90.0..=106.0).contains(&seen.queue_mean), "{seen:?}");
}

#[test]
fn hystart_leaves_slow_start_before_the_flood() {
    let lost = |cc| run(s20(), vec![backlogged(cc)], 3).losses(0).len();
    let (with, without) = (lost("cubic"), lost("cubic:hystart=off"));
    println!("lost in the first 3 s: {with} with HyStart++, {without} without");
    assert!(4 * with < without, "{with} {without}");
}
