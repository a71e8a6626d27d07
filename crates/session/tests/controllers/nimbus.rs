//! Nimbus (arXiv 1802.08730) alone, beside an elastic flow, beside a constant rate.

use units::{Rate, Time};

use crate::path::{Flow, Path, s20};
use crate::steady::{alone, backlogged, run};

#[test]
fn alone_the_queue_is_the_target() {
    let seen = alone("nimbus", 10, 30);
    // d_t = 12.5 ms; the pulse of 19.9 kB adds up to 8 ms.
    assert!(
        seen.utilisation >= 0.95 && (10.5..=14.5).contains(&seen.queue_mean) && seen.loss == 0.0,
        "{seen:?}"
    );
    assert!(seen.queue_p90 <= 20.5, "{seen:?}");
}

/// Nimbus from the start, `other` from `at` on.
fn beside(other: &'static str, at: u64, to: u64) -> Path {
    let other = Flow { start: Time::from_secs(at), initial: Rate::from_mbps(10), ..backlogged(other) };
    run(s20(), vec![backlogged("nimbus"), other], to)
}

fn mode(path: &Path, at: f64) -> f64 {
    path.observed(0, "nimbus_mode").iter().rfind(|seen| seen.at < at).map_or(0.0, |seen| seen.value)
}

#[test]
fn an_elastic_flow_is_noticed_and_shared_with() {
    let path = beside("newreno", 20, 70);
    let noticed =
        path.observed(0, "nimbus_elasticity").into_iter().find(|seen| seen.at > 20.0 && seen.value > 2.25);
    let share = path.throughput(0, 35.0, 70.0) / 20.0;
    println!("nimbus beside newreno from 20 s: noticed at {noticed:?}, share {share:.3} from 35 s");
    assert!(noticed.is_some_and(|seen| seen.at <= 30.0));
    assert!((0.35..=0.65).contains(&share), "{share}");
}

#[test]
fn a_constant_rate_is_left_alone() {
    let path = beside("fixed:rate=10mbit,pace=1", 5, 40);
    let (rate, queue) =
        (path.throughput(0, 15.0, 40.0), crate::path::mean(&path.delays(0, 15.0, 40.0)) - 20.6);
    println!("nimbus beside 10 Mbit/s: {rate:.2} Mbit/s, {queue:.1} ms of queue");
    assert!((9.0..=11.0).contains(&rate) && queue <= 20.0 && mode(&path, 40.0) == 1.0, "{rate} {queue}");
}
