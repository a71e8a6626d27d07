//! An upload with real encoders over simulated networks: what the endpoint has of each frame, and when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use framewire_upload::{AGAIN, LIVE, Status, Upload};
use media::{
    Archive, Codec, CodecConfig, CodecError, Encoder, Measuring, RawFrame, Source, SyntheticConfig,
    SyntheticGame, barcode,
};
use netsim::{HostConfig, LinkConfig, QueueSpec, RateProcess, World};
use record::{Event, Memory};
use session::{Receiver, ReceiverConfig, Screen, Sender, SenderBuilder, Shown, Supply, Tracks, capture_of};
use units::{Bytes, HostClock, Rate, RemoteTime, Span, Time};

const SIZE: (usize, usize) = (320, 180);

/// A clip whose pictures say their number.
struct Numbered {
    game: SyntheticGame,
    next: u32,
    frames: u32,
}

impl Source for Numbered {
    fn size(&self) -> (usize, usize) {
        self.game.size()
    }
    fn interval(&self) -> Span {
        Span::from_nanos(33_333_333)
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        if self.next == self.frames {
            return None;
        }
        let mut picture = self.game.next_picture().map(Arc::unwrap_or_clone)?;
        assert!(barcode::burn(&mut picture, self.next));
        self.next += 1;
        Some(Arc::new(picture))
    }
}

/// What arrived of each frame, by its time of capture: the number in its picture, the capture, and when.
#[derive(Clone, Default)]
struct Endpoint(Arc<Mutex<BTreeMap<RemoteTime, Vec<Version>>>>);

#[derive(Clone, Copy, Debug)]
struct Version {
    number: u32,
    capture: u8,
    at: Time,
}

impl Endpoint {
    fn take(&self, now: Time, shown: &Shown) {
        let number = shown.picture.as_ref().and_then(barcode::read).expect("each picture says its number");
        let version = Version { number, capture: capture_of(shown.stream), at: now };
        self.0.lock().unwrap().entry(shown.captured).or_default().push(version);
    }
}

impl Screen for Endpoint {
    fn show(&mut self, now: Time, shown: &Shown) {
        self.take(now, shown);
    }
    fn discard(&mut self, now: Time, unseen: &Shown) {
        self.take(now, unseen);
    }
}

fn encoder(interval: Span) -> Result<Box<dyn Encoder>, CodecError> {
    let (width, height) = SIZE;
    let max = Rate::from_mbps(8);
    let config = CodecConfig { width, height, interval, initial: max, max, slices: None, latency: None };
    Ok(Box::new(Measuring::new(Codec::H264.encoder(config)?, Codec::H264)?))
}

struct Run {
    frames: u32,
    has: BTreeMap<u32, Vec<(u8, Span)>>,
    /// How long each frame of now took to leave once it was coded.
    waits: Vec<Span>,
    status: Status,
}

/// How an upload is run.
struct How {
    frames: u32,
    rate: RateProcess,
    controller: &'static str,
    /// Frames of before are sent again.
    again: bool,
    until: Time,
}

fn run(how: How) -> Run {
    let How { frames, rate, controller, again: repairs, until } = how;
    let clip = Numbered { game: SyntheticGame::new(SyntheticConfig::new(SIZE.0, SIZE.1)), next: 0, frames };
    let interval = clip.interval();
    let usual = vantage::Settings::default();
    let candidates = if repairs { usual.candidates } else { 0 };
    let settings = vantage::Settings { interval: interval.as_secs_f64(), candidates, ..usual };
    let upload = Upload::new(settings, Archive::in_memory(64 << 20)).at_once();
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut world = World::new(1, Some(memory.clone() as record::Shared));
    let queue: QueueSpec = "droptail:300ms".parse().unwrap();
    let link = |rate| LinkConfig::bottleneck(rate, queue.clone(), Span::from_millis(20));
    let there = world.add_link("there", link(rate));
    let back = world.add_link("back", link(RateProcess::Constant(Rate::from_mbps(10))));
    let (camera, archive) = (upload.camera(Box::new(clip)), upload.archive(SIZE, interval));
    let again = archive.interval();
    let tracks = |source, interval| {
        let encoders = vec![encoder(interval).unwrap()];
        Supply::Tracks(Tracks { encoders, source: Some(source), interval })
    };
    let sender = SenderBuilder::default()
        .controller(controller)
        .with_strategy(upload.strategy())
        .supply(tracks(camera, interval))
        .supply(tracks(archive, again))
        .starting_at(Rate::from_mbps(1), Rate::from_mbps(8))
        .tap(world.next_host_tap(HostClock::default()))
        .build()
        .unwrap();
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let endpoint = Endpoint::default();
    let tap = world.next_host_tap(HostClock::default());
    let receiver = Receiver::new(ReceiverConfig::default(), None, Some(Box::new(endpoint.clone())), tap);
    let receiver = receiver.with_decoders(Box::new(|_| Codec::H264.decoder().ok())).following();
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    let mut now = Time::ZERO;
    while now < until && !world.endpoint::<Sender>(sender).is_finished() {
        now += Span::from_millis(100);
        world.run_until(now);
        upload.tick(now);
    }
    let mut has: BTreeMap<u32, Vec<(u8, Span)>> = BTreeMap::new();
    for (captured, versions) in endpoint.0.lock().unwrap().iter() {
        assert!(versions.iter().all(|version| version.number == versions[0].number), "{versions:?}");
        for version in versions {
            let captured = Time::ZERO + (*captured - RemoteTime::from_nanos(0));
            has.entry(version.number).or_default().push((version.capture, version.at - captured));
        }
    }
    Run { frames, has, waits: waits(&memory.lock().unwrap()), status: upload.status() }
}

/// From each frame of now coming out of its encoder to its last packet leaving.
fn waits(memory: &Memory) -> Vec<Span> {
    let mut coded = BTreeMap::new();
    let mut waits = Vec::new();
    for (at, _, event) in &memory.events {
        match *event {
            Event::FrameEncoded { stream: LIVE, frame, .. } => drop(coded.insert(frame, *at)),
            Event::FrameSent { stream: LIVE, frame, .. } => waits.push(*at - coded[&frame]),
            _ => {}
        }
    }
    waits.sort_unstable();
    waits
}

fn steady(from: u64, to: u64, rate: Rate) -> RateProcess {
    let at = Time::from_secs;
    RateProcess::steps(vec![(Time::ZERO, rate), (at(from), Rate::ZERO), (at(to), rate)]).unwrap()
}

impl Run {
    /// Frames that the endpoint has by so long after their capture.
    fn by(&self, delay: Span) -> usize {
        self.has.values().filter(|versions| versions.iter().any(|&(_, after)| after <= delay)).count()
    }
}

#[test]
fn who_watches_half_a_minute_later_sees_what_an_outage_swallowed() {
    let rate = steady(10, 15, Rate::from_mbps(2));
    let until = Time::from_secs(80);
    let run = run(How { frames: 40 * 30, rate, controller: "default", again: true, until });
    let (live, late) = (run.by(Span::from_millis(500)), run.by(Span::from_secs(30)));
    println!("{live} frames within 0.5 s, {late} within 30 s, of {}: {:?}", run.frames, run.status);
    assert!(live < 36 * 30, "{live} frames of 40 s, 5 of which the network took nothing");
    assert_eq!(late, 40 * 30, "each frame is there by 30 s");
    assert!(run.status.repaired >= 4 * 30 && run.status.never_sent == 0, "{:?}", run.status);
    let again = |versions: &Vec<(u8, Span)>| versions.iter().filter(|(capture, _)| *capture == AGAIN).count();
    assert!(run.has.values().map(again).sum::<usize>() >= 4 * 30);
    assert!(run.has.values().flatten().all(|&(capture, _)| capture == LIVE || capture == AGAIN));
}

#[test]
fn frames_of_now_do_not_wait_for_those_of_before() {
    let (rate, until) = (Rate::from_mbps(2), Time::from_secs(22));
    let p95 = |again: bool, controller: &'static str| {
        let run = run(How { frames: 20 * 30, rate: steady(6, 9, rate), controller, again, until });
        assert_eq!(run.status.again_bytes > 0, again);
        run.waits[run.waits.len() * 95 / 100]
    };
    for controller in ["default", "gcc"] {
        let (with, without) = (p95(true, controller), p95(false, controller));
        println!("{controller}: P95 of the wait {with} with frames of before, {without} without");
        let packet = rate.time_to_send(Bytes::new(1_200));
        assert!(with <= without + packet, "{controller}: {with} against {without} and {packet} a packet");
    }
}
