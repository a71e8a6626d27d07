//! An upload with real encoders over simulated networks: what the endpoint has of each frame, and when.

use std::collections::{BTreeMap, BTreeSet};
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
use wire::Watchers;

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
        let number = shown.picture.as_deref().and_then(barcode::read).expect("each picture says its number");
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
    /// Who watches, as the endpoint says: delays in ms.
    watching: Option<&'static [(u32, u32)]>,
    until: Time,
}

fn run(how: How) -> Run {
    let How { frames, rate, controller, again: repairs, watching, until } = how;
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
    let (mut now, mut told) = (Time::ZERO, Vec::new());
    while now < until && !world.endpoint::<Sender>(sender).is_finished() {
        now += Span::from_millis(100);
        world.run_until(now);
        upload.tick(now);
        if let Some(watching) = watching {
            let watchers = |&(delay_ms, viewers): &_| Watchers { delay_ms, viewers };
            upload.watched(&watching.iter().map(watchers).collect::<Vec<_>>(), true);
        }
        upload.tell(|rated| {
            told.extend(rated.iter().map(|rated| (rated.stream, rated.frame)));
            true
        });
    }
    assert!(told.len() as u64 == upload.status().rated && upload.status().unrated == 0);
    let numbers: BTreeSet<(u8, u32)> = told.iter().copied().collect();
    assert_eq!(
        (numbers.len(), numbers.len() >= frames as usize / 2),
        (told.len(), true),
        "each is told once"
    );
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
    let run = run(How { frames: 40 * 30, rate, controller: "default", again: true, watching: None, until });
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
fn nothing_is_sent_again_for_those_who_watch_at_once_until_the_end() {
    let (rate, until) = (steady(8, 11, Rate::from_mbps(2)), Time::from_secs(60));
    let watching = Some([(500, 9), (30_000, 0)].as_slice());
    let run = run(How { frames: 20 * 30, rate, controller: "default", again: true, watching, until });
    let again = run.has.iter().flat_map(|(&number, versions)| {
        versions.iter().filter(|(capture, _)| *capture == AGAIN).map(move |(_, after)| (number, *after))
    });
    // The camera ends at 20 s; plans begin a period later.
    let sent = again.map(|(number, after)| f64::from(number) / 30.0 + after.as_secs_f64());
    let (first, count) = sent.fold((f64::MAX, 0), |(first, count), at| (at.min(first), count + 1));
    println!("{count} frames sent again, from {first:.1} s on: {:?}", run.status);
    assert!(first > 20.0 && count > 60, "{count} from {first} s on");
    assert_eq!((run.by(Span::from_secs(30)), run.status.never_sent), (20 * 30, 0));
}

#[test]
fn frames_of_now_do_not_wait_for_those_of_before() {
    let (rate, until) = (Rate::from_mbps(2), Time::from_secs(22));
    let p95 = |again: bool, controller: &'static str| {
        let run =
            run(How { frames: 20 * 30, rate: steady(6, 9, rate), controller, again, watching: None, until });
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
