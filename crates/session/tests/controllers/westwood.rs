//! Westwood+ over simulated paths.

use netsim::{Impairments, LinkConfig};

use crate::path::{Path, s20};
use crate::steady::{backlogged, run, steady};

/// Seconds at which the window was cut, and the window in packets it was cut to.
fn cuts(path: &Path) -> Vec<(f64, f64)> {
    let windows = path.observed(0, "cwnd_bytes");
    let cut = |pair: &[(f64, f64)]| (pair[1].1 < 0.8 * pair[0].1).then(|| (pair[1].0, pair[1].1 / 1472.0));
    windows.windows(2).filter_map(cut).collect()
}

fn sawtooth(cc: &'static str) -> Vec<(f64, f64)> {
    let path = run(s20(), vec![backlogged(cc)], 125);
    let seen = steady(&path, 43.8, 105.5);
    let cuts = cuts(&path);
    println!("{cc}: {seen:.4?} {cuts:.2?}");
    // The sheet: mean 72, P90 112 ms, utilisation 0.98.
    assert!(seen.utilisation >= 0.98, "{seen:?}");
    assert!(
        (64.0..=80.0).contains(&seen.queue_mean) && (107.0..=117.0).contains(&seen.queue_p90),
        "{seen:?}"
    );
    for pair in cuts[1..].windows(2) {
        // The sheet: down to the bandwidth-delay product of 66.7 packets, every 19.9 s.
        assert!((pair[1].1 / 66.7 - 1.0).abs() < 0.05, "{pair:?}");
        assert!((18.9..=20.9).contains(&(pair[1].0 - pair[0].0)), "{pair:?}");
    }
    cuts
}

#[test]
fn the_sawtooth_of_s20() {
    let (linux, quic) = (sawtooth("westwood-plus"), sawtooth("westwood-plus-quic"));
    // After slow start the slow filter has not learnt the rate yet: a quarter of what the path holds. The
    // fast one has.
    assert!(linux[0].1 < 0.5 * 66.7 && (quic[0].1 / 66.7 - 1.0).abs() < 0.05);
}
#[test]
fn a_lost_packet_in_a_thousand_costs_next_to_nothing() {
    let throughput = |cc| {
        let impairments = Impairments { loss: "bernoulli:0.1%".parse().unwrap(), ..Impairments::default() };
        run(LinkConfig { impairments, ..s20() }, vec![backlogged(cc)], 40).throughput(0, 10.0, 40.0)
    };
    let (westwood, newreno) = (throughput("westwood-plus"), throughput("newreno"));
    println!("0.1 % of loss: Westwood+ {westwood:.2}, NewReno {newreno:.2} Mbit/s");
    assert!(westwood >= 19.0 && newreno <= 13.0);
}
