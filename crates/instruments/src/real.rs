//! The live transport by itself: a stream of a game's size over QUIC on loopback, from an encoder that costs
//! nothing.
//!
//! What is measured, and what is wanted:
//!
//! * *late frames* (none): frames not shown, or shown more than `ON_TIME` after their capture. The modelled
//!   encoder takes 4 ms of that, pacing at twice the rate half an interval.
//! * *CPU of the sender* (below 15 % of a core): what its driver's thread and its QUIC thread used, over the
//!   run. The encoder is a model that makes sizes, no pictures, so it is not in it; encryption, system calls
//!   and the receiver's feedback are.
//! * *pacing error* (P99 below 1 ms): for every packet of a frame but its first, how far its distance from
//!   the first is from what the bytes between them take at the pacing rate. `sent` is when the driver handed
//!   it over; `arrived`, the figure to compare, is when the far end's QUIC handed it out, so all threads on
//!   the way are in it.
//! * *timers* (no wish): how late the machine wakes an idle thread, measured just before. A host that takes
//!   its virtual processors away for milliseconds shows here, and moves whole frames' packets.

use cc::{Options, Setup};
use media::{EncoderModel, ModelConfig, Table};
use record::Event;
use serde_json::{Value, json};
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use units::{Bytes, Rate, Rng, Span, Time};

use crate::benchmark::extend;
use crate::loopback::{Loopback, Over, RECEIVER, Recording, SENDER, Watch};
use crate::measure::{quantile, thread_time, timer_lateness};
use crate::{Benchmark, Failure, Progress};

const LENGTH: Span = Span::from_secs(30);
/// 720p60, as the table that the encoder's model was recorded from has it.
const INTERVAL: Span = Span::from_nanos(16_666_667);
const RATE: Rate = Rate::from_mbps(20);
/// Frames leave at twice the rate, the controller's default.
const PACING: Rate = Rate::from_mbps(40);
/// Two frame intervals.
const ON_TIME: Span = Span::from_nanos(2 * 16_666_667);
/// What is captured last is still on its way when the run ends.
const UNFINISHED: usize = 3;

fn sender(loopback: &Loopback) -> Sender {
    let mtu = Over::Quic.mtu();
    let setup = Setup { mtu: mtu as u32, initial: RATE, frame_interval: INTERVAL, ..Setup::default() };
    let controller = cc::build(&Options::of("fixed"), &setup).expect("the registry knows fixed");
    // Frames of the rate's size on average, no two alike. (What was recorded of a real encoder needs less
    // than this rate.)
    let model = ModelConfig {
        size_noise: 0.25,
        overshoot: 1.0,
        undershoot: 0.5,
        ..ModelConfig::perfect(Table::big_buck_bunny())
    };
    let encoder = Box::new(EncoderModel::new(model).expect("the recorded model is sound"));
    let video = Video { encoder, source: None, interval: INTERVAL };
    let config = SenderConfig { mtu, ..SenderConfig::default() };
    let rng = Rng::stream(1, "sender");
    let supplies = vec![Supply::Video(video)];
    Sender::new(config, &setup, controller, Policies::default(), supplies, rng, loopback.tap(SENDER))
}

/// Runs the stream once.
pub fn run(progress: &dyn Progress) -> Result<Benchmark, Failure> {
    let mut loopback = Loopback::over(Over::Quic, None)?;
    let watch = Watch::on(loopback.near().clock());
    let sender = sender(&loopback);
    let screen = Some(Box::new(watch.clone()) as _);
    let receiver = Receiver::new(ReceiverConfig::default(), None, screen, loopback.tap(RECEIVER));
    let timers = timer_lateness();
    let bar = progress.begin(0, "QUIC, for 30 s");
    let before = (thread_time(), loopback.client_cpu());
    let recording = loopback.run(sender, receiver, LENGTH);
    let (driver, quic) = (thread_time() - before.0, loopback.client_cpu() - before.1);
    drop(bar);
    let recording = recording?;
    let share = |cpu: std::time::Duration| cpu.as_secs_f64() / LENGTH.as_secs_f64();
    let mut details = frames(&recording, &watch);
    let (sent, arrived) = pacing_errors(&recording);
    let value = quantile(&arrived, 0.99);
    extend(
        &mut details,
        json!({
            "sender_cpu_share": share(driver + quic),
            "driver_cpu_share": share(driver),
            "quic_cpu_share": share(quic),
            "pacing_error_sent_ms": spread(&sent),
            "pacing_error_arrived_ms": spread(&arrived),
            "timer_late_ms": spread(&timers),
        }),
    );
    Ok(Benchmark::new("real", "ms of pacing error on arrival, P99", value, details))
}

fn spread(values: &[f64]) -> Value {
    json!({ "p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99), "p999": quantile(values, 0.999), "max": quantile(values, 1.0) })
}

fn frames(recording: &Recording, watch: &Watch) -> Value {
    let frames = recording.frames(watch);
    let judged = &frames[..frames.len().saturating_sub(UNFINISHED)];
    let late =
        judged.iter().filter(|trace| trace.shown.is_none_or(|at| at - trace.captured > ON_TIME)).count();
    let delays: Vec<f64> =
        judged.iter().filter_map(|trace| Some((trace.shown? - trace.captured).as_millis_f64())).collect();
    let bytes: u64 = judged.iter().map(|trace| u64::from(trace.size)).sum();
    json!({
        "frames": judged.len(),
        "late_frames": late,
        "not_shown": judged.iter().filter(|trace| trace.shown.is_none()).count(),
        "frame_delay_ms": spread(&delays),
        "bitrate_bps": bytes as f64 * 8.0 / LENGTH.as_secs_f64(),
    })
}

/// A packet's frame, when it left and when it arrived.
#[derive(Clone, Copy)]
struct Packet {
    frame: u32,
    size: u32,
    sent: Time,
    arrived: Option<Time>,
}

/// Packets in order of their numbers.
fn packets(recording: &Recording) -> Vec<Packet> {
    let mut packets: Vec<Packet> = Vec::new();
    for (at, _, event) in &recording.0 {
        match *event {
            Event::PacketSent { size, frame, .. } => {
                packets.push(Packet { frame, size, sent: *at, arrived: None })
            }
            Event::PacketReceived { packet, .. } => {
                if let Some(known) = packets.get_mut(packet as usize) {
                    known.arrived = Some(*at);
                }
            }
            _ => {}
        }
    }
    packets
}

/// Errors at the sender and at the receiver, in ms. A frame whose first packet was lost says nothing about
/// arrivals.
fn pacing_errors(recording: &Recording) -> (Vec<f64>, Vec<f64>) {
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    let packets = packets(recording);
    for frame in packets.chunk_by(|a, b| a.frame == b.frame) {
        let first = frame[0];
        let mut due = Span::ZERO;
        for pair in frame.windows(2) {
            due += PACING.time_to_send(Bytes::new(u64::from(pair[0].size)));
            let off = |span: Span| (span - due).as_millis_f64().abs();
            sent.push(off(pair[1].sent - first.sent));
            if let (Some(start), Some(at)) = (first.arrived, pair[1].arrived) {
                arrived.push(off(at - start));
            }
        }
    }
    (sent, arrived)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::RelativeDelay;

    #[test]
    fn an_error_is_what_distance_and_bytes_disagree_by() {
        let at = |us| Time::ZERO + Span::from_micros(us);
        let sent = |us, packet, frame| {
            let (size, index, in_flight) = (1_000, 0, 0);
            let event = Event::PacketSent {
                packet,
                size,
                stream: 0,
                frame,
                version: 0,
                index,
                retransmission: false,
                in_flight,
            };
            (at(us), SENDER, event)
        };
        let received = |us, packet, frame| {
            let owd = RelativeDelay::between(Time::ZERO.on_wire(), at(us));
            (
                at(us),
                RECEIVER,
                Event::PacketReceived { packet, size: 1_000, stream: 0, frame, version: 0, owd },
            )
        };
        // 1000 bytes take 200 us at 40 Mbit/s.
        let events = vec![
            sent(0, 0, 5),
            sent(200, 1, 5),
            received(250, 0, 5),
            received(400, 1, 5),
            sent(500, 2, 5),
            sent(16_000, 3, 6),
            received(16_100, 3, 6),
        ];
        let (sent, arrived) = pacing_errors(&Recording(events));
        assert_eq!((sent, arrived), (vec![0.0, 0.1], vec![0.05]));
    }
}
