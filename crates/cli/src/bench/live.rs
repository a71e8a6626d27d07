//! The whole chain in real time: a 720p clip through encoder, session, UDP over loopback, session and decoder.
//!
//! What is measured is what this program adds: from capture to display, less the time the encoder took, the time the
//! pacer spread the frame over (that is the link's share: nothing leaves faster than the controller allows) and the time
//! the decoder took. What is left are queues, wake-ups and system calls.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cc::Setup;
use media::{ClipOptions, CodecError, Decoder, H264Config, H264Decoder, H264Encoder, RawFrame, Source, SyntheticConfig, SyntheticGame};
use real::{Clock, Driver, EncodeTimes, Limits, Peer, Prefetched, Settings, Threaded};
use record::{Event, Memory, NodeId, Shared, Tap};
use serde_json::{Map, json};
use session::{Policies, Receiver, ReceiverConfig, Screen, Sender, SenderConfig, Shown, Supply, Video};
use units::{HostClock, Rng, Span, Time};

use super::Benchmark;
use super::measure::{cpu_time, quantile};
use crate::args::Bench;
use crate::failure::Failure;
use crate::values::Input;

/// How long it runs: 300 frames.
const DURATION: Span = Span::from_secs(10);
const INTERVAL: Span = Span::from_nanos(33_333_333);
const SIZE: (usize, usize) = (1280, 720);
/// Pictures read ahead: reading the clip is not what is measured.
const READ_AHEAD: usize = 16;
/// A constant rate, paced fast: the controller's own behaviour is measured elsewhere.
const CONTROLLER: &str = "fixed:rate=5mbit,pace=16";
/// The first frames start threads and caches.
const WARM_UP: u32 = 15;

/// When each frame was shown and how long its decoding took.
#[derive(Default)]
struct Seen {
    shown: BTreeMap<u32, Time>,
    decode: Vec<Span>,
}

struct Viewer {
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

impl Screen for Viewer {
    fn show(&mut self, _: Time, shown: &Shown) {
        // Not the packet's arrival time, which the session goes by: decoding has passed since.
        self.seen.lock().expect("no viewer panics").shown.insert(shown.frame, self.clock.now());
    }
}

struct Timed {
    decoder: H264Decoder,
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

impl Decoder for Timed {
    fn decode(&mut self, coded: &[u8]) -> Result<Option<RawFrame>, CodecError> {
        let start = self.clock.now();
        let picture = self.decoder.decode(coded);
        self.seen.lock().expect("no viewer panics").decode.push(self.clock.now() - start);
        picture
    }
}

/// Everything the run left behind.
struct Trail {
    captured: BTreeMap<u32, Time>,
    /// First packet's and last packet's send time.
    sent: BTreeMap<u32, (Time, Time)>,
    encode: BTreeMap<u32, Span>,
    seen: Seen,
    encoded: u64,
    skipped: u64,
    cpu: Duration,
}

/// Runs it once.
pub fn run(args: &Bench) -> Result<Benchmark, Failure> {
    let (source, clip) = open(args)?;
    let clock = Clock::shared();
    let settings = Settings { clock, ..Settings::default() };
    let listener = Driver::open(([127, 0, 0, 1], 0).into(), Peer::First, &settings).map_err(Failure::work)?;
    let mut driver = Driver::connect(listener.local(), &settings).map_err(Failure::work)?;
    let memory = Arc::new(Mutex::new(Memory::default()));
    let shared: Shared = memory.clone();
    let (mut sender, times) = sender(&driver, source, Tap::new(shared, NodeId(0), HostClock::default()))?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (cpu, end) = (cpu_time(), clock.now() + DURATION);
    let receiving = receive(listener, end + Span::from_millis(500), seen.clone())?;
    let limits = Limits { until: Some(end), ..Limits::default() };
    driver.run(&mut sender, &limits, &mut |_, _, _| ControlFlow::Continue(())).map_err(Failure::work)?;
    receiving.join().expect("the receiving thread does not panic")?;
    let counters = sender.counters();
    let trail = Trail {
        encode: times.take().into_iter().collect(),
        seen: std::mem::take(&mut seen.lock().expect("no viewer panics")),
        encoded: counters.encoded,
        skipped: counters.skipped,
        cpu: cpu_time() - cpu,
        ..trail(&memory.lock().expect("no recorder panics"))
    };
    Ok(benchmark(&trail, &clip))
}

fn open(args: &Bench) -> Result<(Box<dyn Source>, String), Failure> {
    match &args.input {
        Some(Input::File(path)) => {
            let fps = Some(1.0 / INTERVAL.as_secs_f64());
            let options = ClipOptions { loop_clip: true, fps, size: Some(SIZE), max_frames: None };
            let clip = media::open_clip(path, options).map_err(Failure::input)?;
            Ok((Box::new(Prefetched::new(clip, READ_AHEAD)), path.display().to_string()))
        }
        None | Some(Input::Synthetic) => {
            let config = SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(SIZE.0, SIZE.1) };
            let game = Box::new(SyntheticGame::new(config));
            Ok((Box::new(Prefetched::new(game, READ_AHEAD)), "synthetic".to_owned()))
        }
    }
}

fn sender(driver: &Driver, source: Box<dyn Source>, tap: Tap) -> Result<(Sender, EncodeTimes), Failure> {
    let setup = Setup { frame_interval: INTERVAL, ..Setup::default() };
    let options = CONTROLLER.parse().map_err(Failure::work)?;
    let controller = cc::build(&options, &setup).map_err(Failure::work)?;
    let codec = H264Config { latency: Span::ZERO, initial: setup.initial, max: setup.max, ..H264Config::new(SIZE.0, SIZE.1, INTERVAL) };
    let encoder = H264Encoder::new(codec).map_err(Failure::work)?;
    let encoder = Threaded::new(Box::new(encoder), driver.clock(), driver.waker());
    let times = encoder.times();
    let video = Video { encoder: Box::new(encoder), source: Some(source), interval: INTERVAL };
    let supplies = vec![Supply::Video(video)];
    let rng = Rng::stream(1, "bench/live");
    let config = SenderConfig::default();
    Ok((Sender::new(config, &setup, controller, Policies::default(), supplies, rng, tap), times))
}

type Receiving = std::thread::JoinHandle<Result<(), Failure>>;

fn receive(mut driver: Driver, end: Time, seen: Arc<Mutex<Seen>>) -> Result<Receiving, Failure> {
    let clock = driver.clock();
    let decoder = Timed { decoder: H264Decoder::new().map_err(Failure::work)?, clock, seen: seen.clone() };
    let screen = Viewer { clock, seen };
    let mut receiver =
        Receiver::new(ReceiverConfig::default(), Some(Box::new(decoder)), Some(Box::new(screen)), Tap::default());
    Ok(std::thread::spawn(move || {
        let limits = Limits { until: Some(end), ..Limits::default() };
        driver.run(&mut receiver, &limits, &mut |_, _, _| ControlFlow::Continue(())).map_err(Failure::work)
    }))
}

fn trail(memory: &Memory) -> Trail {
    let (mut captured, mut sent) = (BTreeMap::new(), BTreeMap::<u32, (Time, Time)>::new());
    for &(at, _, event) in &memory.events {
        match event {
            Event::FrameCaptured { frame, .. } => drop(captured.insert(frame, at)),
            Event::PacketSent { frame, retransmission: false, .. } if frame != u32::MAX => {
                sent.entry(frame).or_insert((at, at)).1 = at;
            }
            _ => {}
        }
    }
    let none = Default::default;
    Trail { captured, sent, encode: BTreeMap::new(), seen: Seen::default(), encoded: 0, skipped: 0, cpu: none() }
}

fn benchmark(trail: &Trail, clip: &str) -> Benchmark {
    let mut added = Vec::new();
    let mut total = Vec::new();
    let mut decode = trail.seen.decode.iter();
    for (frame, &shown) in &trail.seen.shown {
        // One decoding per frame shown: nothing is lost on loopback, or the count below tells.
        let decoded = decode.next().copied().unwrap_or_default();
        let (Some(&captured), Some(&encoded), Some(&(first, last))) =
            (trail.captured.get(frame), trail.encode.get(frame), trail.sent.get(frame))
        else {
            continue;
        };
        if *frame >= WARM_UP {
            total.push((shown - captured).as_millis_f64());
            added.push((shown - captured - encoded - (last - first) - decoded).as_millis_f64());
        }
    }
    let ms = |spans: Vec<Span>| spans.iter().map(|s| s.as_millis_f64()).collect::<Vec<_>>();
    let encode = ms(trail.encode.values().copied().collect());
    let decode = ms(trail.seen.decode.clone());
    let shown = trail.seen.shown.len() as f64 / DURATION.as_secs_f64();
    let details = json!({
        "clip": clip, "width": SIZE.0, "height": SIZE.1, "duration_s": DURATION.as_secs_f64(), "shown_fps": shown,
        "frames": { "captured": trail.captured.len(), "encoded": trail.encoded, "skipped": trail.skipped, "displayed": trail.seen.shown.len() },
        "added_ms": percentiles(&added), "total_ms": percentiles(&total),
        "encode_ms": percentiles(&encode), "decode_ms": percentiles(&decode),
        "cpu_cores": trail.cpu.as_secs_f64() / DURATION.as_secs_f64(),
    });
    let details = details.as_object().cloned().unwrap_or_else(Map::new);
    Benchmark { name: "live", unit: "ms added, P99", value: quantile(&added, 0.99), details }
}

fn percentiles(values: &[f64]) -> serde_json::Value {
    json!({ "p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99) })
}
