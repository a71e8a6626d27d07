//! PCC Allegro (NSDI 2015) and Vivace (NSDI 2018) over simulated paths: steady state, random loss, the step
//! from 20 to 5 Mbit/s, a loss-based rival.

use netsim::{Impairments, LinkConfig, RateProcess};
use units::{Rate, Span, Time};

use crate::path::{self, Path};
use crate::steady::{alone, backlogged, run, steady};

#[test]
fn allegro_fills_the_queue_and_loses_less_than_five_per_cent() {
    let seen = alone("pcc", 20, 60);
    assert!(seen.utilisation >= 0.97 && seen.queue_p50 >= 100.0 && seen.loss < 0.05, "{seen:?}");
}

#[test]
fn vivace_keeps_the_queue_empty_and_loses_nothing() {
    for cc in ["vivace", "vivace-uspace", "vivace-pantheon", "proteus-s"] {
        let seen = alone(cc, 20, 40);
        assert!(seen.utilisation >= 0.90 && seen.queue_p50 <= 10.0 && seen.loss == 0.0, "{cc}: {seen:?}");
    }
}

#[test]
fn without_the_latency_term_the_queue_is_nearly_full() {
    let seen = alone("vivace:latency=0", 20, 40);
    assert!(seen.queue_p50 >= 100.0 && seen.queue_mean >= 80.0, "{seen:?}");
}

fn lossy(cc: &'static str, percent: u32) -> f64 {
    let loss = format!("bernoulli:{percent}%").parse().unwrap();
    let impairments = Impairments { loss, ..Impairments::default() };
    let path = run(LinkConfig { impairments, ..path::s20() }, vec![backlogged(cc)], 30);
    let seen = steady(&path, 10.0, 30.0);
    println!("{cc} with {percent} % random loss: {seen:.4?}");
    seen.utilisation
}

#[test]
fn random_loss_costs_little() {
    assert!(lossy("pcc", 3) >= 0.9);
    assert!(lossy("vivace-uspace", 2) >= 0.85);
    // The later code has 0.85. The paper's rule takes each pair at its word: of the 65 packets
    // of an interval 1.3 are lost, give or take 1.1, and that moves the gradient by 2.8 where the rate's
    // worth is 0.7.
    assert!(lossy("vivace", 2) >= 0.6);
    assert!(lossy("newreno", 3) < 0.2);
}

/// 20 Mbit/s, 5 from 15 to 35 s; 200 packets of queue.
fn step(cc: &'static str, to: u64) -> Path {
    let rates = [(0, 20), (15, 5), (35, 20)].map(|(s, mbit)| (Time::from_secs(s), Rate::from_mbps(mbit)));
    let rate = RateProcess::steps(rates.to_vec()).unwrap();
    let link = LinkConfig::bottleneck(rate, "droptail:200p".parse().unwrap(), Span::from_millis(20));
    run(link, vec![backlogged(cc)], to)
}

#[test]
fn allegro_never_drains_after_a_drop() {
    for cc in ["pcc", "pcc-pantheon"] {
        let path = step(cc, 35);
        let delay = path::mean(&path.delays(0, 25.0, 35.0));
        println!("{cc}: {delay:.0} ms in the last 10 s at 5 Mbit/s");
        // 200 packets at 5 Mbit/s are 480 ms.
        assert!(delay >= 0.5 * 500.0, "{cc}: {delay}");
    }
}

#[test]
fn the_first_program_leaves_the_queue_empty_because_it_sees_the_round_trip() {
    let seen = alone("pcc-pantheon", 20, 60);
    assert!(seen.utilisation >= 0.95 && seen.queue_p90 <= 10.0 && seen.loss == 0.0, "{seen:?}");
    let blind = alone("pcc-pantheon:rtt=off", 20, 60);
    assert!(blind.queue_p50 >= 100.0, "{blind:?}");
}

#[test]
fn vivace_drains_in_the_end_and_is_back_soon() {
    for cc in ["vivace", "vivace-uspace", "vivace-pantheon"] {
        let path = step(cc, 45);
        let delay = path::quantile(&path.delays(0, 32.0, 35.0), 0.5);
        let back =
            (0..100).map(|n| 35.0 + 0.1 * f64::from(n)).find(|t| path.throughput(0, *t, t + 0.5) >= 16.0);
        println!("{cc}: {delay:.0} ms before the rate comes back, 80 % of it at {back:?} s");
        assert!(delay <= 60.0 && back.is_some_and(|at| at <= 40.0), "{cc}");
    }
}

#[test]
fn vivace_starves_beside_a_loss_based_flow() {
    let path = run(path::s20(), vec![backlogged("vivace"), backlogged("newreno")], 40);
    let share = path.throughput(0, 20.0, 40.0) / 20.0;
    println!("vivace beside newreno: {share:.3}");
    assert!(share < 0.15, "{share}");
}
