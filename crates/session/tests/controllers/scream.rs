//! What the draft's own equations say of SCReAM v2 on S20 (there is no sheet): below half the delay target
//! (30 ms) the window grows, above it shrinks, so that is where the queue stands.

use netsim::{LinkConfig, RateProcess};
use units::{Rate, Time};

use crate::path::{self, Flow};
use crate::steady::{self, backlogged};

#[test]
fn the_queue_stands_at_half_the_target() {
    for flow in [Flow::video("scream"), backlogged("scream")] {
        let path = steady::run(path::s20(), vec![flow], 24);
        let seen = steady::steady(&path, 16.0, 24.0);
        println!("{seen:.3?}");
        assert!(seen.utilisation >= 0.99 && seen.loss == 0.0, "{seen:?}");
        assert!((24.0..=31.0).contains(&seen.queue_mean), "{seen:?}");
    }
}

#[test]
fn a_drop_fills_the_queue_for_a_second_and_a_rise_takes_two() {
    let at = |s, mbps| (Time::from_secs(s), Rate::from_mbps(mbps));
    let rate = RateProcess::steps(vec![at(0, 20), at(10, 5), at(16, 20)]).unwrap();
    let path = steady::run(LinkConfig { rate, ..path::s20() }, vec![Flow::video("scream")], 22);
    let p95 = |from, to| path::quantile(&path.delays(0, from, to), 0.95);
    let rates = [(9.0, 10.0), (13.0, 16.0), (19.0, 22.0)].map(|(from, to)| path.throughput(0, from, to));
    println!("P95 {:.0} ms at the drop, then {:.0} ms; {rates:.2?} Mbit/s", p95(10.0, 11.0), p95(12.0, 16.0));
    assert!(p95(12.0, 16.0) <= 100.0, "{}", p95(12.0, 16.0));
    assert!(rates[0] >= 19.5 && rates[1] >= 4.5 && rates[2] >= 18.0, "{rates:?}");
}

#[test]
fn flows_that_start_together_share() {
    let path = steady::run(path::s20(), vec![Flow::video("scream"), Flow::video("scream")], 14);
    let rates = [0, 1].map(|flow| path.throughput(flow, 6.0, 14.0));
    println!("{rates:.2?}");
    assert!(path::jain(&rates) >= 0.98, "{rates:?}");
}
