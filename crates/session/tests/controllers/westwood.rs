//! Westwood+ over simulated paths.

use netsim::{Impairments, LinkConfig};

use crate::path::{Observed, Path, s20};
use crate::steady::{backlogged, run, steady};

/// When the window was cut, in seconds, and to how many packets.
#[derive(Debug)]
struct Cut {
    at: f64,
    to: f64,
}

fn cuts(path: &Path) -> Vec<Cut> {
    let windows = path.observed(0, "cwnd_bytes");
    let cut = |pair: &[Observed]| {
        let (before, after) = (pair[0].value, pair[1].value);
        (after < 0.8 * before).then_some(Cut { at: pair[1].at, to: after / 1472.0 })
    };
    windows.windows(2).filter_map(cut).collect()
}

fn sawtooth(cc: &'static str) -> Vec<Cut> {
    let path = run(s20(), vec![backlogged(cc)], 125);
    let seen = steady(&path, 43.8, 105.5);
    let cuts = cuts(&path);
    println!("{cc}: {seen:.4?} {cuts:.2?}");
    // The sawtooth's model: mean 72, P90 112 ms, utilisation 0.98.
    assert!(seen.utilisation >= 0.98, "{seen:?}");
    assert!(
        (64.0..=80.0).contains(&seen.queue_mean) && (107.0..=117.0).contains(&seen.queue_p90),
        "{seen:?}"
    );
    for (earlier, cut) in cuts[1..].iter().zip(&cuts[2..]) {
        // The model: down to the bandwidth-delay product of 66.7 packets, every 19.9 s.
        assert!((cut.to / 66.7 - 1.0).abs() < 0.05, "{cut:?}");
        assert!((18.9..=20.9).contains(&(cut.at - earlier.at)), "{earlier:?} {cut:?}");
    }
    cuts
}

#[test]
fn the_sawtooth_of_s20() {
    let (linux, quic) = (sawtooth("westwood-plus"), sawtooth("westwood-plus-quic"));
    // After slow start the slow filter has not learnt the rate yet: a quarter of what the path holds. The
    // fast one has.
    assert!(linux[0].to < 0.5 * 66.7 && (quic[0].to / 66.7 - 1.0).abs() < 0.05);
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
