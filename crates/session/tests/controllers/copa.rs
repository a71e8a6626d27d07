//! copa.md section 7.

use units::Time;

use crate::path::{Flow, Path, jain, mean, s20};
use crate::steady::{alone, backlogged, run, steady};

#[test]
fn the_queue_of_s20() {
    // The sheet's simulated P90, and its throughput of at least 19.9 Mbit/s.
    for (cc, p90) in [("copa", 3.2), ("copa-0.1", 13.4), ("copa-0.04", 30.8)] {
        let seen = alone(cc, 10, 40);
        assert!(seen.utilisation >= 0.97 && seen.loss == 0.0, "{seen:?}");
        assert!((0.6 * p90..=1.4 * p90).contains(&seen.queue_p90), "{seen:?}");
    }
}

#[test]
fn equal_flows_share_fairly() {
    let starts = [0, 1, 2, 3].map(Time::from_secs);
    let flows = starts.map(|start| Flow { start, ..backlogged("copa") });
    let path = run(s20(), flows.into(), 60);
    let rates: Vec<f64> = (0..4).map(|flow| path.throughput(flow, 30.0, 60.0)).collect();
    let queue = steady(&path, 30.0, 60.0).queue_mean;
    println!("copa x 4: {rates:.2?} Mbit/s, mean queue {queue:.2} ms");
    // The sheet: about N 1.25/delta packets of 0.6 ms, which are 6 ms.
    assert!(jain(&rates) >= 0.95 && (3.6..=8.4).contains(&queue), "{rates:?} {queue}");
}

/// Share of the reports between two times with the controller in competitive mode.
fn competitive(path: &Path, flow: usize, from: f64, to: f64) -> f64 {
    let seen: Vec<f64> = path
        .observed(flow, "competitive")
        .iter()
        .filter(|(at, _)| (from..to).contains(at))
        .map(|(_, value)| *value)
        .collect();
    mean(&seen)
}

#[test]
fn auto_alone_stays_in_default_mode() {
    for cc in ["copa-auto", "copa-auto-4"] {
        let path = run(s20(), vec![backlogged(cc)], 40);
        let (share, seen) = (competitive(&path, 0, 1.0, 40.0), steady(&path, 10.0, 40.0));
        println!("{cc}: competitive {share:.4} of the time, {seen:.3?}");
        assert!(share <= 0.05, "{cc}: {share}");
        assert!(seen.utilisation >= 0.97 && (0.6 * 3.2..=1.4 * 3.2).contains(&seen.queue_p90), "{seen:?}");
    }
}

#[test]
fn only_auto_holds_its_own_against_a_flow_that_fills_the_queue() {
    for (cc, low, high) in [("copa-auto", 0.25, 0.75), ("copa-auto-4", 0.25, 0.75), ("copa", 0.0, 0.1)] {
        let other = Flow { start: Time::from_secs(5), ..backlogged("newreno") };
        let path = run(s20(), vec![backlogged(cc), other], 60);
        let share = path.throughput(0, 15.0, 60.0) / 20.0;
        println!("{cc}: {share:.3} of the link beside newreno");
        assert!((low..=high).contains(&share), "{cc}: {share}");
        let first = path.observed(0, "competitive").into_iter().find(|&(at, on)| at > 5.0 && on > 0.0);
        assert!(first.is_none_or(|(at, _)| at < 15.0), "{cc} notices at {first:?}");
    }
}
