//! QUIC-DC over simulated paths, and what docs/reproduction.md asks of one flow of the paper's (10 Mbit/s, 25
//! ms each way).

use netsim::{LinkConfig, QueueSpec, RateProcess};
use units::{HostClock, Rate, Span, Time};

use crate::path::{self, Flow, Path, build, s20};
use crate::steady::{alone, backlogged, steady};

#[test]
fn the_queue_is_half_the_threshold() {
    let row = |cc, mean: f64| {
        let seen = alone(cc, 20, 50);
        assert!(seen.utilisation >= 0.95 && seen.loss == 0.0, "{cc}: {seen:?}");
        assert!((seen.queue_mean / mean - 1.0).abs() < 0.35, "{cc}: {seen:?}, expected {mean}");
    };
    row("quic-dc:threshold=12ms", 6.0);
    row("quic-dc:threshold=24ms", 12.6);
    row("quic-dc:threshold=60ms", 34.0);
    row("quic-dc:share=0.8,buffer=120ms", 56.0);
    // The paper's own rule, a single packet, is no worse where delay does not jitter.
    row("quic-dc:threshold=24ms,hold=1", 12.6);
}

#[test]
fn clock_drift_and_the_return_path_do_not_matter() {
    let run = |back: LinkConfig, ppm| {
        let receiver_clock = HostClock::new(Span::from_secs(-9), ppm);
        let flow = Flow { receiver_clock, ..backlogged("quic-dc:threshold=24ms") };
        let mut path = build(s20(), back, vec![flow], true);
        path.world.run_until(Time::from_secs(60));
        path
    };
    let back = || LinkConfig::delay(Span::from_millis(20));
    for ppm in [-50.0, 50.0] {
        let seen = steady(&run(back(), ppm), 20.0, 60.0);
        assert!(seen.utilisation >= 0.95 && (8.0..=17.0).contains(&seen.queue_mean), "{ppm} ppm: {seen:?}");
    }
    // Reports that take 20 to 70 ms: whatever is cut is cut above the threshold, and the queue stays as
    // short.
    let path = run(LinkConfig { jitter: Span::from_millis(17), ..back() }, 0.0);
    let seen = steady(&path, 20.0, 60.0);
    println!("jitter of the return path: {seen:.4?}");
    // Held-up reports arrive together: what was seen at the instant of a cut is more than one delay.
    let delays = path.observed(0, "owqd_ms");
    let cwnd = path.observed(0, "cwnd_bytes");
    for at in cwnd.windows(2).filter(|pair| pair[1].value < 0.9 * pair[0].value).map(|pair| pair[1].at) {
        let queued = delays.iter().any(|owqd_ms| owqd_ms.at == at && owqd_ms.value > 24.0);
        assert!(queued, "cut at {at} s without a queue");
    }
    assert!(seen.queue_p90 <= 30.0 && seen.loss == 0.0, "{seen:?}");
}

/// Round trips in ms, sorted, and packets lost after the start, of a flow over a buffer of `buffer` times
/// 62.5 kB.
fn paper(cc: &'static str, buffer: u64, seconds: u64) -> (Path, Vec<f64>, usize) {
    let queue: QueueSpec = format!("droptail:{}b", buffer * 62_500).parse().unwrap();
    let rate = RateProcess::Constant(Rate::from_mbps(10));
    let link = LinkConfig::bottleneck(rate, queue, Span::from_millis(25));
    let flow = Flow { backlog: true, mtu: 1252, ..Flow::video(cc) };
    let mut path = build(link, LinkConfig::delay(Span::from_millis(25)), vec![flow], true);
    path.world.run_until(Time::from_secs(seconds));
    let round_trips = path.delays(0, 0.0, seconds as f64).iter().map(|ms| ms + 25.0).collect();
    let lost = path.losses(0).iter().filter(|at| **at > 5.0).count();
    (path, round_trips, lost)
}

#[test]
fn the_papers_round_trips_shift_with_the_threshold() {
    // S1-T1, 4 BDP: the paper's mean and the sawtooth's; at least 0.9 of the one, at most 1.1 of the other
    // (RTT of the paper is lower than the sawtooth's, as its window falls below the bandwidth-delay product).
    let rows = [
        ("quic-dc:share=0.1,buffer=200ms", 55.75, 60.6),
        ("quic-dc:share=0.2,buffer=200ms", 63.83, 71.9),
        ("quic-dc:share=0.5,buffer=200ms", 88.60, 108.3),
        ("quic-dc:share=0.8,buffer=200ms", 123.82, 146.4),
    ];
    let mut last: Option<Vec<f64>> = None;
    for (cc, paper_mean, sawtooth) in rows {
        let (path, seen, lost) = paper(cc, 4, 60);
        let mean = path::mean(&seen);
        println!("{cc}: {mean:.1} ms, {:.3} of the link", path.throughput(0, 0.0, 60.0) / 10.0);
        assert!((0.9 * paper_mean..=1.1 * sawtooth).contains(&mean), "{cc}: {mean}");
        assert!(path.throughput(0, 0.0, 60.0) >= 9.7 && lost == 0, "{cc}: {lost} lost");
        // S1-9: every quantile is further right.
        for p in [0.1, 0.25, 0.5, 0.75, 0.9, 0.99] {
            let lower = last.as_ref().is_none_or(|last| path::quantile(last, p) < path::quantile(&seen, p));
            assert!(lower, "{cc} at {p}");
        }
        last = Some(seen);
    }
}

#[test]
fn the_window_is_cut_before_the_buffer_is_full() {
    // S1-8: 2 BDP, 80 %: cut at 50 + 80 ms and a round trip's growth, where Westwood+ sees 150.
    let peak = |cc| {
        let (path, _, lost) = paper(cc, 2, 40);
        (path.delays(0, 5.0, 40.0).last().unwrap() + 25.0, lost)
    };
    let (dc, dc_lost) = peak("quic-dc:share=0.8,buffer=100ms");
    let (westwood, westwood_lost) = peak("westwood-plus-quic");
    println!(
        "peak round trip {dc:.1} ms with {dc_lost} lost, Westwood+ {westwood:.1} ms with {westwood_lost}"
    );
    assert!(dc <= 140.0 && dc_lost == 0 && westwood >= 145.0 && westwood_lost > 0);
}
