//! What loss prediction costs a sender: one answer of each predictor, and the features' share of a packet.

use std::hint::black_box;
use std::time::Instant;

use predict::{Features, Input, Passage, Predictor, REGISTRY, STRIDE};
use serde_json::{Value, json};
use units::{Span, Time};

use crate::measure::quantile;
use crate::{Benchmark, Progress};

/// Answers measured, each for itself: enough for a P99 of two hundred.
const ANSWERS: usize = 20_000;
/// Answers before, which warm caches and the clock up.
const WARM_UP: usize = 500;
/// Packets a second, as 20 Mbit/s of video have, and round trips measured for each.
const PACKETS: u64 = 2_000;
/// Seconds of packets that the features are fed with.
const SECONDS: u64 = 200;

/// Measures every predictor on this thread. The figure to compare is the network's P99, target 100 us (the
/// thesis' bound is 1 ms).
pub fn run(progress: &dyn Progress) -> Benchmark {
    let bar = progress.begin(REGISTRY.len() as u64 + 1, "predictor");
    let inputs = inputs();
    let per_packet = cost_of_packets();
    bar.advance();
    let mut rows = Vec::new();
    for entry in REGISTRY {
        let mut predictor = predict::build(entry.name).expect("each builds without its option");
        rows.push(row(entry.name, &answers(predictor.as_mut(), &inputs)));
        bar.advance();
    }
    drop(bar);
    let p99 = rows[0]["p99_us"].as_f64().unwrap_or(f64::NAN);
    let network = predict::Network::shipped();
    let details = json!({
        "parameters": network.parameters(),
        "features_ns_per_packet": per_packet,
        "predictors": rows,
    });
    Benchmark::new("predictor", "us, P99 of one answer of the network", p99, details)
}

fn row(name: &str, times: &[f64]) -> Value {
    let at = |share: f64| (quantile(times, share) * 100.0).round() / 100.0;
    json!({ "predictor": name, "p50_us": at(0.5), "p99_us": at(0.99), "most_us": at(1.0) })
}

/// Microseconds of each answer.
fn answers(predictor: &mut dyn Predictor, inputs: &[Input]) -> Vec<f64> {
    let mut times = Vec::with_capacity(ANSWERS);
    for (count, input) in inputs.iter().cycle().take(WARM_UP + ANSWERS).enumerate() {
        let began = Instant::now();
        black_box(predictor.probability(black_box(input)));
        if count >= WARM_UP {
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    times
}

/// A packet of a path whose queue fills and drains each second: when it leaves, its round trip, and whether
/// it is lost.
fn packet(number: u64) -> (Time, Span, bool) {
    let sent = Time::from_micros(number * 1_000_000 / PACKETS);
    let phase = number % PACKETS;
    let queue = 60_000 * phase.min(PACKETS - phase) / PACKETS;
    (sent, Span::from_micros(40_000 + queue as i64), phase == PACKETS / 2)
}

fn feed(features: &mut Features, number: u64) -> Time {
    let (sent, round_trip, lost) = packet(number);
    features.sent(sent);
    if lost {
        features.lost(sent);
    } else {
        let passage = Passage { sent_at: sent, arrived_at: (sent + round_trip / 2).on_wire() };
        features.heard(sent, round_trip, [passage].into_iter());
    }
    sent
}

/// What a predictor sees of ten such seconds.
fn inputs() -> Vec<Input> {
    let mut features = Features::default();
    let mut inputs = Vec::new();
    for number in 0..10 * PACKETS {
        let now = feed(&mut features, number);
        if now.as_nanos().is_multiple_of(STRIDE.as_nanos() as u64) {
            inputs.push(*features.input(now));
        }
    }
    inputs
}

/// Nanoseconds of the features' work for a packet that is sent and acknowledged, rows included.
fn cost_of_packets() -> f64 {
    let mut features = Features::default();
    let began = Instant::now();
    for number in 0..SECONDS * PACKETS {
        feed(&mut features, number);
    }
    black_box(features.input(Time::from_secs(SECONDS)));
    (began.elapsed().as_secs_f64() * 1e9 / (SECONDS * PACKETS) as f64).round()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation;

    #[test]
    fn neither_packets_nor_answers_allocate() {
        let mut features = Features::default();
        let mut predictor = predict::build("cnn").unwrap();
        (0..4_000).for_each(|number| _ = feed(&mut features, number));
        let before = allocation::of_this_thread();
        for number in 4_000..8_000 {
            let now = feed(&mut features, number);
            if number.is_multiple_of(20) {
                black_box(predictor.probability(features.input(now)));
            }
        }
        assert_eq!(allocation::of_this_thread(), before);
    }
}
