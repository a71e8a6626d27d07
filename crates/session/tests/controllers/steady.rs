//! One flow's steady state.
#![allow(dead_code, reason = "each controller's file uses its part")]

use netsim::LinkConfig;
use units::{Span, Time};

use crate::path::{self, Flow, Path};

/// What a backlogged flow does to the path between two instants.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// Delivered share of 20 Mbit/s.
    pub utilisation: f64,
    /// Mean, median and 90th percentile of the delay above the empty path's, in ms.
    pub queue_mean: f64,
    pub queue_p50: f64,
    pub queue_p90: f64,
    /// Share of packets lost.
    pub loss: f64,
}

/// A backlogged flow of 1500-byte packets under `cc`, with link and return path of 20 ms each.
pub fn backlogged(cc: &'static str) -> Flow {
    Flow { backlog: true, mtu: 1472, ..Flow::video(cc) }
}

/// Runs `flows` on `link` for `seconds`.
pub fn run(link: LinkConfig, flows: Vec<Flow>, seconds: u64) -> Path {
    let back = LinkConfig::delay(Span::from_millis(20));
    let mut path = path::build(link, back, flows, true);
    path.world.run_until(Time::from_secs(seconds));
    path
}

/// The first flow of `path` between two seconds of a run on S20.
pub fn steady(path: &Path, from: f64, to: f64) -> Steady {
    let delays: Vec<f64> = path.delays(0, from, to).iter().map(|ms| ms - 20.6).collect();
    let lost = path.losses(0).iter().filter(|at| (from..to).contains(*at)).count();
    Steady {
        utilisation: path.throughput(0, from, to) / 20.0,
        queue_mean: path::mean(&delays),
        queue_p50: path::quantile(&delays, 0.5),
        queue_p90: path::quantile(&delays, 0.9),
        loss: lost as f64 / (lost + delays.len()) as f64,
    }
}

/// A backlogged flow alone on S20, between two seconds of its run.
pub fn alone(cc: &'static str, from: u64, to: u64) -> Steady {
    let path = run(path::s20(), vec![backlogged(cc)], to);
    let seen = steady(&path, from as f64, to as f64);
    println!("{cc}: {seen:.4?}");
    seen
}
