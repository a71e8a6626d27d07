//! The whole chain in real time: a 720p clip through OpenH264, UDP on loopback and the decoder, at 30
//! frames/s for 10 s.
//!
//! ```text
//! capture --encode--> coded --paced sending--> network --> assembled --decode--> shown
//! added = when a frame was shown - when it would have been shown had nothing but encoding, pacing and decoding taken time
//! ```
//!
//! What is left is what we add: waiting for threads, timers and sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use cc::{Options, Setup};
use media::{H264Config, H264Decoder, H264Encoder, RawFrame, Source};
use real::{CodecTimes, ThreadedDecoder, ThreadedEncoder};
use serde_json::{Map, json};
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use units::{Bytes, Rng, Span, Time};

use crate::loopback::{FrameTrace, Loopback, RECEIVER, SENDER, Watch};
use crate::measure::{cpu_time, quantile};
use crate::{Benchmark, Failure, Progress};

const LENGTH: Span = Span::from_secs(10);
/// Columns and rows of the clip.
pub const SIZE: (usize, usize) = (1280, 720);
/// Its pictures a second.
pub const FPS: f64 = 30.0;
/// A constant rate, paced as SQP paces (at twice the rate): how a controller behaves is measured elsewhere.
const CONTROLLER: &str = "fixed:rate=5mbit";
/// The first frames start threads and fill caches.
const WARM_UP: u32 = 15;

/// Pictures held in memory and shown again and again: 207 MB of 720p.
pub const HELD: Span = Span::from_secs(5);

/// The clip's first seconds, read before the clock starts: a camera costs less than a decoder for a file,
/// which would take its turns on the same cores at the very moment a picture is wanted.
struct Held {
    pictures: Vec<Arc<RawFrame>>,
    size: (usize, usize),
    interval: Span,
    next: usize,
}

impl Held {
    fn read(clip: &mut dyn Source) -> Held {
        let (size, interval) = (clip.size(), clip.interval());
        Held { pictures: std::iter::from_fn(|| clip.next_picture()).collect(), size, interval, next: 0 }
    }
}

impl Source for Held {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let picture = self.pictures.get(self.next % self.pictures.len().max(1)).cloned();
        self.next += 1;
        picture
    }
}

/// Runs the chain once over [`HELD`] of `clip`, which has [`SIZE`] and [`FPS`] and is called `input`.
pub fn run(clip: &mut dyn Source, input: &str, progress: &dyn Progress) -> Result<Benchmark, Failure> {
    let mut loopback = Loopback::open(None)?;
    let clock = loopback.near().clock();
    let (sender, encode_times) = sender(&loopback, clip)?;
    let watch = Watch::on(clock);
    let decoder = Box::new(H264Decoder::new().map_err(Failure::work)?);
    let decoder = ThreadedDecoder::new(decoder, clock, loopback.far().waker());
    let decode_times = decoder.times();
    let tap = loopback.tap(RECEIVER);
    let screen = Box::new(watch.clone());
    let receiver = Receiver::new(ReceiverConfig::default(), Some(Box::new(decoder)), Some(screen), tap);
    let bar = progress.begin(0, "live, for 10 s");
    let before = cpu_time();
    let recording = loopback.run(sender, receiver, LENGTH);
    let cores = (cpu_time() - before).as_secs_f64() / LENGTH.as_secs_f64();
    drop(bar);
    Ok(gather(&recording?.frames(&watch), &encode_times.take(), &decode_times.take()).benchmark(input, cores))
}

fn sender(loopback: &Loopback, clip: &mut dyn Source) -> Result<(Sender, CodecTimes), Failure> {
    let source = Box::new(Held::read(clip));
    let (size, interval) = (source.size(), source.interval());
    let setup = Setup { frame_interval: interval, ..Setup::default() };
    let options: Options = CONTROLLER.parse().map_err(Failure::work)?;
    let controller = cc::build(&options, &setup).map_err(Failure::work)?;
    let codec =
        H264Config { latency: Span::ZERO, max: setup.max, ..H264Config::new(size.0, size.1, interval) };
    let encoder = Box::new(H264Encoder::new(codec).map_err(Failure::input)?);
    let near = loopback.near();
    let encoder = ThreadedEncoder::new(encoder, near.clock(), near.waker());
    let times = encoder.times();
    let video = Video { encoder: Box::new(encoder), source: Some(source), interval };
    let (rng, tap) = (Rng::stream(1, "sender"), loopback.tap(SENDER));
    let supplies = vec![Supply::Video(video)];
    let config = SenderConfig::default();
    Ok((Sender::new(config, &setup, controller, Policies::default(), supplies, rng, tap), times))
}

/// What happened to the frames of the run; times in ms.
#[derive(Default)]
struct Frames {
    captured: usize,
    shown: usize,
    added: Vec<f64>,
    encode: Vec<f64>,
    decode: Vec<f64>,
    total: Vec<f64>,
    bits: f64,
    /// Between one capture and the next.
    gaps: Vec<f64>,
}

fn gather(traces: &[FrameTrace], encode_times: &[(u32, Span)], decode_times: &[(u32, Span)]) -> Frames {
    let decode_times: BTreeMap<_, _> = decode_times.iter().copied().collect();
    let gaps = traces.windows(2).map(|pair| (pair[1].captured - pair[0].captured).as_millis_f64()).collect();
    let mut frames = Frames { captured: traces.len(), gaps, ..Frames::default() };
    let mut ideal = Ideal::default();
    for &(number, encode) in encode_times {
        let trace = traces.get(number as usize).and_then(|trace| Some((trace, trace.shown?)));
        let (Some((trace, shown)), Some(&decode)) = (trace, decode_times.get(&number)) else { continue };
        let ideally = ideal.show(trace, encode, decode);
        frames.shown += 1;
        frames.bits += f64::from(trace.size) * 8.0;
        if number < WARM_UP {
            continue;
        }
        frames.added.push((shown - ideally).as_millis_f64());
        frames.encode.push(encode.as_millis_f64());
        frames.decode.push(decode.as_millis_f64());
        frames.total.push((shown - trace.captured).as_millis_f64());
    }
    frames
}

/// The same chain on a machine without friction: encoder, pacer and decoder each start a frame as soon as
/// they have it and are done with the one before.
#[derive(Default)]
struct Ideal {
    encoded_at: Time,
    clear_at: Time,
    shown_at: Time,
}

impl Ideal {
    /// When the next frame would be shown.
    fn show(&mut self, trace: &FrameTrace, encode: Span, decode: Span) -> Time {
        self.encoded_at = self.encoded_at.max(trace.captured) + encode;
        let pace = |bytes| trace.pacing.map_or(Span::ZERO, |rate| rate.time_to_send(Bytes::new(bytes)));
        let sent_at = self.clear_at.max(self.encoded_at) + pace(trace.before_last);
        self.clear_at = sent_at + pace(trace.last);
        self.shown_at = self.shown_at.max(sent_at) + decode;
        self.shown_at
    }
}

impl Frames {
    fn benchmark(self, input: &str, cores: f64) -> Benchmark {
        let spread = |values: &[f64]| json!({ "p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99), "max": quantile(values, 1.0) });
        let details = json!({
            "added_ms": spread(&self.added),
            "encode_ms": spread(&self.encode),
            "decode_ms": spread(&self.decode),
            "frame_delay_ms": spread(&self.total),
            "fps": self.shown as f64 / LENGTH.as_secs_f64(),
            "captured": self.captured,
            "capture_gap_ms": spread(&self.gaps),
            "shown": self.shown,
            "cpu_cores": cores,
            "bitrate_bps": self.bits / LENGTH.as_secs_f64(),
            "input": input,
        });
        let details: Map<_, _> = details.as_object().cloned().unwrap_or_default();
        Benchmark { name: "live", unit: "ms added, P99", value: quantile(&self.added, 0.99), details }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    #[test]
    fn what_is_added_is_what_nothing_else_explains() {
        let ms = |n: u32| Time::from_millis(u64::from(n));
        let trace = |start: u32| FrameTrace {
            captured: ms(start),
            encoded: Some(ms(start + 6)),
            size: 10_000,
            before_last: 9_000,
            last: 1_000,
            pacing: Some(Rate::from_mbps(8)),
            shown: Some(ms(start + 20)),
        };
        let traces: Vec<_> =
            (0..=WARM_UP).map(|frame| trace(33 * frame)).chain([FrameTrace::default()]).collect();
        let encode: Vec<_> = (0..WARM_UP + 9).map(|frame| (frame, Span::from_millis(6))).collect();
        let decode: Vec<_> = (0..WARM_UP + 9).map(|frame| (frame, Span::from_millis(3))).collect();
        let frames = gather(&traces, &encode, &decode);
        assert_eq!((frames.captured, frames.shown), (WARM_UP as usize + 2, WARM_UP as usize + 1));
        // 20 ms in all, less 6 of encoding, 9 of pacing and 3 of decoding.
        assert_eq!(frames.added, [2.0]);
    }

    #[test]
    fn a_frame_waits_for_the_one_before_it() {
        let ms = Span::from_millis;
        let trace = FrameTrace { last: 1_000, pacing: Some(Rate::from_mbps(8)), ..FrameTrace::default() };
        let mut ideal = Ideal::default();
        // Encoded at 2 and 4 ms, sent at once each, decoded from 2 to 5 and from 5 to 8 ms.
        assert_eq!(ideal.show(&trace, ms(2), ms(3)), Time::from_millis(5));
        assert_eq!(ideal.show(&trace, ms(2), ms(3)), Time::from_millis(8));
    }
}
