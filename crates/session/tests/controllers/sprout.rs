//! Sprout (NSDI 2013) over simulated paths: throughput, delay, falls of the rate.

use netsim::{LinkConfig, RateProcess};
use units::{Rate, Span, Time};

use crate::path::{self, Flow, Path};
use crate::steady::{self, backlogged};

const ROWS: [&str; 2] = ["sprout", "sprout-cumulative"];

fn run(rate: RateProcess, one_way: i64, flow: Flow, seconds: u64) -> Path {
    let delay = Span::from_millis(one_way);
    let link = LinkConfig::bottleneck(rate, "droptail:200p".parse().unwrap(), delay);
    let mut path = path::build(link, LinkConfig::delay(delay), vec![flow], true);
    path.world.run_until(Time::from_secs(seconds));
    path
}

fn constant(mbps: f64) -> RateProcess {
    RateProcess::Constant(Rate::from_f64(mbps * 1e6))
}

#[test]
fn a_slow_link_is_full_with_a_queue_of_30_to_40_ms() {
    // 600 packets/s of 1500 bytes (7.2 Mbit/s on the wire), round trip 40 ms.
    for cc in ROWS {
        let path = run(constant(7.2), 20, backlogged(cc), 10);
        let queue = path::mean(&path.delays(0, 4.0, 10.0)) - 20.0 - 1.7;
        let rate = path.throughput(0, 4.0, 10.0);
        println!("{cc}: {rate:.2} Mbit/s, queue {queue:.1} ms");
        assert!(rate >= 7.15 && (27.0..=40.0).contains(&queue), "{cc}: {rate} {queue}");
        assert!(path.losses(0).is_empty());
    }
}

#[test]
fn the_model_ends_at_85_packets_in_flight() {
    for cc in ROWS {
        let rates = [20, 40].map(|one_way| {
            let path = run(constant(20.0), one_way, backlogged(cc), 10);
            let most = path
                .observed(0, "forecast_bytes")
                .iter()
                .map(|bytes| bytes.value / 1400.0)
                .fold(0.0, f64::max);
            assert!((84.0..=88.0).contains(&most), "{cc}: {most} packets");
            path.throughput(0, 4.0, 10.0)
        });
        println!("{cc}: {rates:.2?} Mbit/s at round trips of 40 and 80 ms");
        // A burst is seen by the forecast of the tick after it arrived: 85 packets per round trip and tick.
        // (With half a tick allowed it would be 19 and 10.6.)
        assert!((15.5..=17.0).contains(&rates[0]) && (8.8..=10.2).contains(&rates[1]), "{cc}: {rates:?}");
    }
}

#[test]
fn s0_3_s0_24_a_drop_makes_no_lasting_spike_and_long_round_trips_cost_rate() {
    let at = |s, mbps| (Time::from_secs(s), Rate::from_mbps(mbps));
    let path = run(
        RateProcess::steps(vec![at(0, 20), at(10, 5), at(15, 20)]).unwrap(),
        20,
        backlogged("sprout"),
        20,
    );
    let p95 = |from, to| path::quantile(&path.delays(0, from, to), 0.95);
    let (before, drop, after) = (p95(5.0, 10.0), p95(10.0, 11.0), p95(11.0, 12.0));
    println!(
        "P95 one-way delay {before:.1} ms, {drop:.1} ms in the second of the drop, {after:.1} ms in the next"
    );
    assert!(drop <= 20.0 + 150.0 && after <= 60.0, "{drop} {after}");
    assert!(path.throughput(0, 11.0, 15.0) >= 4.9 && path.throughput(0, 16.0, 20.0) >= 15.5);
    let slow = run(constant(5.0), 40, backlogged("sprout"), 10).throughput(0, 4.0, 10.0);
    assert!(slow <= 0.75 * 5.0, "at 80 ms: {slow}");
}

#[test]
fn s0_15_video_follows_the_50_hz_of_the_forecasts() {
    let path = steady::run(path::s20(), vec![Flow::video("sprout")], 10);
    let mut slots = [0u64; 240];
    for packet in path.sent(0) {
        if (6.0..10.0).contains(&packet.at) {
            slots[((packet.at - 6.0) * 60.0) as usize] += u64::from(packet.bytes);
        }
    }
    // Five bursts for six frame slots: one in six stays empty.
    let empty = slots.iter().filter(|&&bytes| bytes < 2000).count();
    println!("{} of 240 slots empty, {:.2} Mbit/s", empty, path.throughput(0, 6.0, 10.0));
    assert!((30..=50).contains(&empty) && path.throughput(0, 6.0, 10.0) > 15.0, "{empty}");
}
