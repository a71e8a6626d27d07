//! SQP on simulated links against the paper's figures (arXiv 2207.11857); `S0-..` are the rows of the
//! reproduction table. Each test prints what it measured (`cargo test -p framewire-session --test sqp --
//! --nocapture`).
#![allow(missing_docs, reason = "tests")]

mod path;

use netsim::{LinkConfig, QueueSpec, RateProcess};
use path::{Cap, Delivered, Flow, Path, build, build_seeded, jain, mean, quantile, s20};
use units::{Rate, Span, Time};

const FRAME: f64 = 1.0 / 60.0;

fn back() -> LinkConfig {
    LinkConfig::delay(Span::from_millis(20))
}

fn run(link: LinkConfig, back: LinkConfig, flows: Vec<Flow>, seconds: u64) -> Path {
    let mut path = build(link, back, flows, true);
    path.world.run_until(Time::from_secs(seconds));
    path
}

/// A flow with the paper's packets: its links hold ten packets of 1500 bytes per Mbit/s (section 6.1).
fn paper(cc: &'static str) -> Flow {
    Flow { mtu: 1472, ..Flow::video(cc) }
}

fn steps(steps: &[(u64, u64)]) -> RateProcess {
    RateProcess::steps(steps.iter().map(|&(s, mbps)| (Time::from_secs(s), Rate::from_mbps(mbps))).collect())
        .unwrap()
}

#[test]
fn s0_1_s0_14_s0_18_alone_on_20_mbit() {
    let path = run(s20(), back(), vec![paper("sqp")], 30);
    let rate = path.throughput(0, 5.0, 30.0);
    let mut slots = vec![0.0; 25 * 60];
    for packet in path.sent(0) {
        // Frames start on the grid of the first one; a slot is one frame interval.
        let slot = ((packet.at - 5.0) / FRAME + 1e-3).floor();
        if slot >= 0.0 && (slot as usize) < slots.len() {
            slots[slot as usize] += f64::from(packet.bytes);
        }
    }
    let average = mean(&slots);
    let cv = mean(&slots.iter().map(|s| (s - average).powi(2)).collect::<Vec<_>>()).sqrt() / average;
    let peak = path.queue().iter().filter(|queue| queue.at > 5.0).map(|queue| queue.packets).max().unwrap();
    let firsts = firsts_of_frames(&path).into_iter().filter(|first| first.at > 5.0);
    let worst_first = firsts.map(|first| first.delay_ms).fold(0.0, f64::max);
    println!(
        "S0-1 {rate:.2} Mbit/s; S0-14 CV {:.2} %, first packet at most {worst_first:.2} ms; S0-18 {peak} packets",
        cv * 100.0
    );
    assert!((17.1..=18.8).contains(&rate));
    assert!(cv <= 0.03);
    // 0.6 ms of it is the packet's own serialisation.
    assert!(worst_first - 0.6 <= 20.5);
    assert!((12..=15).contains(&peak));
    assert_eq!(path.sender(0).counters().lost, 0);
}

/// The first packet of each frame: nothing is lost here, so the n-th sent is the n-th
/// delivered.
fn firsts_of_frames(path: &Path) -> Vec<Delivered> {
    let delivered = path.delivered(0);
    let hello = delivered.len().min(1);
    let sent = path.sent(0).into_iter().zip(delivered[hello..].iter().copied());
    sent.filter(|(sent, _)| sent.index == 0).map(|(_, delivered)| delivered).collect()
}

#[test]
fn s0_10_down_to_5_mbit_and_back() {
    let link = LinkConfig { rate: steps(&[(0, 20), (40, 5), (60, 20)]), ..s20() };
    let path = run(link, back(), vec![paper("sqp")], 100);
    // The end of the first half second that averages 80 % of 18 Mbit/s.
    let half_seconds = (0..400).map(|w| f64::from(w) * 0.1 + 60.0);
    let back_at =
        half_seconds.into_iter().find(|&w| path.throughput(0, w, w + 0.5) >= 0.8 * 18.0).unwrap() - 59.5;
    let stable: Vec<f64> = [(20.0, 40.0), (50.0, 60.0), (75.0, 100.0)]
        .iter()
        .map(|&(a, b)| quantile(&path.delays(0, a, b), 0.95))
        .collect();
    let drained = path
        .delivered(0)
        .iter()
        .filter(|packet| (40.0..60.0).contains(&packet.at) && packet.delay_ms > 50.0)
        .map(|packet| packet.at - 40.0)
        .fold(0.0, f64::max);
    println!(
        "S0-10 80 % of 18 Mbit/s {back_at:.1} s after the rise; P95 delay {stable:.1?} ms; last delay above 50 ms {drained:.2} s after the drop"
    );
    assert!((0.8..=5.0).contains(&back_at));
    assert!(stable.iter().all(|&p95| p95 <= 35.0));
    assert!(drained <= 5.0);
}

#[test]
fn s0_16_s0_17_shallow_buffers() {
    for packets in [5u32, 8, 10, 12, 14, 15, 16, 20, 30, 50] {
        let queue: QueueSpec = format!("droptail:{packets}p").parse().unwrap();
        let flow = Flow { repair: false, ..paper("sqp") };
        let path = run(LinkConfig { queue, ..s20() }, back(), vec![flow], 20);
        let sent: Vec<_> = path.sent(0).into_iter().filter(|packet| packet.at > 5.0).collect();
        let rate = sent.iter().map(|packet| f64::from(packet.bytes + 28)).sum::<f64>() * 8.0 / 15.0 / 1e6;
        let lost = path.lost_packets(0);
        let first = first_loss_in_a_frame(&path, &lost);
        println!(
            "S0-16, S0-17 buffer {packets}: sent {rate:.2} Mbit/s, lost {} of {}, never before packet {first:?} of a frame",
            lost.len(),
            path.sent(0).len()
        );
        assert!((17.1..=19.1).contains(&rate));
        if packets >= 15 {
            assert_eq!(lost.len(), 0);
        } else {
            // The burst fills a queue of q packets that was empty when it began after q m B / (m B - C)
            // packets.
            let full_after = f64::from(packets) * 2.0 * rate / (2.0 * rate - 20.0);
            assert!(
                first.is_none_or(|index| f64::from(index) >= full_after - 2.0),
                "{first:?} of {full_after}"
            );
        }
    }
}

/// The lowest index in its frame of a lost packet, once the flow has settled.
fn first_loss_in_a_frame(path: &Path, lost: &[u64]) -> Option<u16> {
    let sent = path.sent(0);
    let lost = lost.iter().map(|&packet| sent[packet as usize]).filter(|packet| packet.at > 5.0);
    lost.map(|packet| packet.index).min()
}

#[test]
fn s0_23_the_same_delay_over_any_round_trip() {
    let mut queues = Vec::new();
    for rtt in [10i64, 20, 40, 80] {
        let one_way = Span::from_millis(rtt / 2);
        let link = LinkConfig { rate: steps(&[(0, 20), (40, 5)]), delay: one_way.into(), ..s20() };
        let path = run(link, LinkConfig::delay(one_way), vec![paper("sqp")], 60);
        queues.push(mean(&path.delays(0, 40.0, 60.0)) - rtt as f64 / 2.0);
    }
    println!("S0-23 mean queueing delay after the drop at RTT 10, 20, 40, 80 ms: {queues:.1?} ms");
    let (low, high) =
        (queues.iter().copied().fold(f64::MAX, f64::min), queues.iter().copied().fold(0.0, f64::max));
    assert!(high / low <= 3.0 || high - low <= 30.0);
}

#[test]
fn s0_27_the_estimate_outlives_a_capped_encoder() {
    let cap = |s| Cap { from: Time::from_secs(s), to: Time::from_secs(s + 2), most: Rate::from_mbps(2) };
    let flow = Flow { caps: vec![cap(10), cap(15), cap(20)], ..paper("sqp") };
    let path = run(s20(), back(), vec![flow], 26);
    let estimate = path.observed(0, "sqp_estimate_bps");
    let between = |from, to| {
        let inside = estimate.iter().filter(move |seen| (from..to).contains(&seen.at));
        inside.map(|seen| seen.value).collect::<Vec<_>>()
    };
    let (before, capped) = (mean(&between(8.0, 10.0)), between(10.0, f64::MAX));
    let low = capped.iter().copied().fold(f64::MAX, f64::min) / before;
    let high = capped.iter().copied().fold(0.0, f64::max) / before;
    println!("S0-27 estimate between {low:.3} and {high:.3} of its value before the caps");
    assert!(low >= 0.8 && high <= 1.1);
}

/// A link of 20 Mbit/s whose delay jitters by 2 ms, an encoder that fills half of what it may, and a start at
/// 1 Mbit/s: the "noisy links, low estimate and encoder undershoot" that section 7 suspects in its stuck
/// sessions. (A start at 2 Mbit/s escapes even without eq. 2: the two modes of the paper's sessions.)
#[test]
fn s0_75_small_frames_on_a_jittery_link() {
    let estimate_at_end = |cc| {
        let flow = Flow { share: 0.5, initial: Rate::from_mbps(1), ..paper(cc) };
        let link = LinkConfig { jitter: Span::from_millis(2), ..s20() };
        let path = run(link, back(), vec![flow], 30);
        let tail = path.observed(0, "sqp_estimate_bps").into_iter().filter(|seen| seen.at > 20.0);
        mean(&tail.map(|seen| seen.value).collect::<Vec<_>>()) / 1e6
    };
    let (without, with) = (estimate_at_end("sqp:undershoot=off"), estimate_at_end("sqp"));
    println!("S0-75 estimate after 20 s: {without:.2} Mbit/s without eq. 2, {with:.2} with it");
    assert!(without < 1.5 && with > 10.0);
}

fn flows(n: usize, cc: &'static str) -> Vec<Flow> {
    (0..n).map(|_| paper(cc)).collect()
}

#[test]
fn s0_52_one_to_six_flows() {
    let mut p90_by_target = Vec::new();
    for (cc, theory) in [
        ("sqp:jitter=1ms", [0.9, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("sqp:jitter=1ms,target=0.6", [0.6, 0.8, 0.9, 0.96, 1.0, 1.0]),
    ] {
        let mut p90s = Vec::new();
        for (n, wanted) in (1..=6).zip(theory) {
            let path = run(s20(), back(), flows(n, cc), 30);
            let rates: Vec<f64> = (0..n).map(|f| path.throughput(f, 10.0, 30.0)).collect();
            let mut delays: Vec<f64> = (0..n).flat_map(|f| path.delays(f, 10.0, 30.0)).collect();
            delays.sort_by(f64::total_cmp);
            let (used, p90) = (rates.iter().sum::<f64>() / 20.0, quantile(&delays, 0.9));
            println!(
                "S0-52 {cc} n {n}: utilisation {used:.3} (theory {wanted}), P90 {p90:.1} ms, Jain {:.4}",
                jain(&rates)
            );
            assert!((used - wanted).abs() <= 0.05);
            p90s.push(p90);
        }
        p90_by_target.push(p90s);
    }
    assert!(
        p90_by_target[0].iter().zip(&p90_by_target[1]).all(|(high, low)| low <= high),
        "a lower target waits less"
    );
    assert!(p90_by_target[0].iter().all(|&p90| p90 <= 80.0));
}

/// Stochastic rows are repeated with these seeds and their mean is tested.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

fn run_seeded(seed: u64, link: LinkConfig, flows: Vec<Flow>, seconds: u64) -> Path {
    let mut path = build_seeded(seed, link, back(), flows, true);
    path.world.run_until(Time::from_secs(seconds));
    path
}

#[test]
fn s0_60_ten_flows_on_60_mbit() {
    let (mut jains, mut p90s, mut means) = (Vec::new(), Vec::new(), vec![0.0; 10]);
    for seed in SEEDS {
        let link = LinkConfig { rate: RateProcess::Constant(Rate::from_mbps(60)), ..s20() };
        let path = run_seeded(seed, link, flows(10, "sqp:jitter=1ms"), 60);
        let rates: Vec<f64> = (0..10).map(|f| path.throughput(f, 10.0, 60.0)).collect();
        let mut delays: Vec<f64> = (0..10).flat_map(|f| path.delays(f, 10.0, 60.0)).collect();
        delays.sort_by(f64::total_cmp);
        println!(
            "S0-60 seed {seed}: Jain {:.4}, rates {rates:.2?}, P90 {:.1} ms",
            jain(&rates),
            quantile(&delays, 0.9)
        );
        jains.push(jain(&rates));
        p90s.push(quantile(&delays, 0.9));
        means.iter_mut().zip(&rates).for_each(|(mean, rate)| *mean += rate / SEEDS.len() as f64);
    }
    println!("S0-60 mean: Jain {:.4}, rates {means:.2?}, P90 {:.1} ms", mean(&jains), mean(&p90s));
    assert!(mean(&jains) >= 0.97);
    assert!(means.iter().all(|r| (5.2..=6.4).contains(r)));
    assert!(mean(&p90s) <= 75.0);
}

#[test]
fn s0_63_flows_join_and_leave() {
    let worst: Vec<f64> = SEEDS.map(worst_jain_after_three_seconds).to_vec();
    println!(
        "S0-63 worst Jain index in any 500 ms later than 3 s after a change: {worst:.4?}, mean {:.4}",
        mean(&worst)
    );
    assert!(mean(&worst) >= 0.95);
}

fn worst_jain_after_three_seconds(seed: u64) -> f64 {
    let mut three = flows(3, "sqp:jitter=1ms");
    (three[1].start, three[1].stop) = (Time::from_secs(10), Time::from_secs(40));
    (three[2].start, three[2].stop) = (Time::from_secs(20), Time::from_secs(50));
    let path = run_seeded(seed, s20(), three, 60);
    let active = |s: f64| [true, (10.0..40.0).contains(&s), (20.0..50.0).contains(&s)];
    let mut worst = 1.0f64;
    for window in 0..120 {
        let from = f64::from(window) * 0.5;
        let since = [10.0, 20.0, 40.0, 50.0]
            .iter()
            .filter(|&&c| c <= from)
            .map(|c| from - c)
            .fold(f64::MAX, f64::min);
        let rates: Vec<f64> =
            (0..3).filter(|&f| active(from)[f]).map(|f| path.throughput(f, from, from + 0.5)).collect();
        if since >= 3.0 && rates.len() > 1 {
            worst = worst.min(jain(&rates));
        }
    }
    worst
}
