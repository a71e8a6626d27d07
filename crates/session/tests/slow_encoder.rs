//! An encoder that is too slow for its pictures, and a source that is: something is shown all the same, in
//! virtual time.

use std::collections::VecDeque;
use std::sync::Arc;

use cc::Setup;
use framewire_session::{
    Policies, Receiver, ReceiverConfig, Remedy, Sender, SenderConfig, Supply, Video, rate,
};
use media::{Ask, CodecError, Coded, Encoder, RawFrame, Source};
use netsim::{HostConfig, HostId, LinkConfig, QueueSpec, RateProcess, World};
use units::{HostClock, Rate, Rng, Span, Time};

/// Rows of the source.
const ROWS: u16 = 2160;
/// When the machine becomes a hundred times as fast.
const FAST: Time = Time::from_secs(20);

/// Codes one frame at a time: of 2160 rows in `cost` seconds, a key frame in three times as much, and less in
/// proportion to the picture's area.
struct Slow {
    cost: f64,
    free: Time,
    ready: VecDeque<(Time, Coded)>,
}

impl Encoder for Slow {
    fn submit(&mut self, now: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let share = f64::from(ask.height.unwrap_or(ROWS)) / f64::from(ROWS);
        let seconds = self.cost * if ask.key { 3.0 } else { 1.0 } * share * share;
        let took = Span::from_secs_f64(if now < FAST { seconds } else { seconds / 100.0 });
        self.free = self.free.max(now) + took;
        // What is slow to code is large, too, and a small key frame is not much smaller.
        let least = self.cost * if ask.key { 20_000.0 } else { 70_000.0 * share * share };
        let budget = ask
            .largest
            .map_or(u64::MAX, |largest| largest.get())
            .min(ask.bitrate.bytes_in(ask.interval).get());
        let size = budget.max(least as u64);
        self.ready.push_back((self.free, Coded { took: Some(took), ..Coded::of_size(ask, size as u32) }));
        Ok(())
    }
    fn poll(&mut self, now: Time) -> Option<Coded> {
        self.ready.front().filter(|(at, _)| *at <= now)?;
        self.ready.pop_front().map(|(_, coded)| coded)
    }
    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|(at, _)| *at)
    }
}

/// Has a picture whenever it has been asked for one three times, 100 of them.
struct Late {
    asked: u32,
    left: u32,
}

impl Source for Late {
    fn size(&self) -> (usize, usize) {
        (2, 2)
    }
    fn interval(&self) -> Span {
        Span::from_nanos(33_333_333)
    }
    fn is_ready(&mut self) -> bool {
        self.asked += 1;
        self.asked.is_multiple_of(3)
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        assert!(self.asked.is_multiple_of(3), "nobody waits for it");
        self.left = self.left.checked_sub(1)?;
        Some(Arc::new(RawFrame::filled(2, 2, 0, 0, 0)))
    }
}

/// What a sender runs under, and over which link.
struct How {
    cc: &'static str,
    rate: &'static str,
    link: Rate,
    delay: Span,
}

const WIDE: How = How { cc: "sqp", rate: "live", link: Rate::from_mbps(20), delay: Span::from_millis(20) };

/// A sender over 20 Mbit/s, 20 ms each way.
struct Path {
    world: World,
    from: HostId,
    to: HostId,
}

impl Path {
    fn new(picture: (u16, u16), source: Option<Box<dyn Source>>, cost: f64) -> Path {
        Path::over(&WIDE, picture, source, cost)
    }

    fn over(how: &How, picture: (u16, u16), source: Option<Box<dyn Source>>, cost: f64) -> Path {
        let mut world = World::new(1, None);
        let queue: QueueSpec = "droptail:120ms".parse().unwrap();
        let link = LinkConfig::bottleneck(RateProcess::Constant(how.link), queue, how.delay);
        let (there, back) = (world.add_link("there", link.clone()), world.add_link("back", link));
        let setup = Setup {
            frame_interval: Span::from_nanos(33_333_333),
            min: Rate::from_kbps(50),
            ..Setup::default()
        };
        let controller = cc::build(&how.cc.parse().unwrap(), &setup).unwrap();
        let encoder = Box::new(Slow { cost, free: Time::ZERO, ready: VecDeque::new() });
        let supply = Supply::Video(Video { encoder, source, interval: setup.frame_interval });
        let config = SenderConfig { picture, ..SenderConfig::default() };
        let tap = world.next_host_tap(HostClock::default());
        let rng = Rng::stream(1, "sender");
        let rate = rate::build(&how.rate.parse().unwrap()).unwrap();
        let policies = Policies { rate, ..Policies::default() };
        let sender = Sender::new(config, &setup, controller, policies, vec![supply], rng, tap);
        let from = world.add_host(HostConfig::new("sender"), sender);
        let tap = world.next_host_tap(HostClock::default());
        let receiver = Receiver::new(ReceiverConfig::default(), None, None, tap);
        let receiver = receiver.with_half(cc::build_receiver(&how.cc.parse().unwrap(), &setup).unwrap());
        let to = world.add_host(HostConfig::new("receiver"), receiver);
        world.connect(from, 0, &[there], to);
        world.connect(to, 0, &[back], from);
        Path { world, from, to }
    }

    fn sender(&self) -> &Sender {
        self.world.endpoint(self.from)
    }

    /// Runs until then; frames shown so far.
    fn shown_by(&mut self, at: Time) -> u64 {
        self.world.run_until(at);
        let receiver: &Receiver = self.world.endpoint(self.to);
        assert_eq!(receiver.counters().late, 0);
        receiver.counters().displayed
    }
}

#[test]
fn rows_are_given_up_for_the_frame_rate_and_come_back() {
    let mut path = Path::new((3840, ROWS), None, 1.0);
    assert_eq!(path.shown_by(Time::from_millis(3_200)), 1, "the first frame is shown when it comes out");
    let before = path.shown_by(Time::from_secs(5));
    let shown = path.shown_by(FAST) - before;
    assert!(shown > 440, "{shown} of 450 frames in 15 s");
    let slow = path.sender().slow_encoder().expect("it was too slow");
    assert_eq!((slow.rows, slow.remedy), (ROWS, Remedy::Rows(270)), "{slow}");
    let counters = path.sender().counters();
    assert!(counters.shed > 90 && counters.expired == 0, "{counters:?}");
    let estimate = path.sender().decision().media.unwrap();
    assert!(estimate > Rate::from_mbps(10), "{estimate} of 20 Mbit/s");
    let shown = path.shown_by(FAST + Span::from_secs(10)) - shown - before;
    assert!(shown > 295, "{shown} of 300 frames in 10 s");
    assert_eq!((path.sender().slow_encoder(), path.sender().height()), (None, ROWS));
}

#[test]
fn frames_are_given_up_where_rows_are_not_ours_to_choose() {
    let mut path = Path::new((0, 0), None, 1.0);
    let shown = path.shown_by(FAST);
    // A key frame in three seconds, then one a second.
    assert!(shown >= 15, "{shown}");
    assert_eq!(path.sender().slow_encoder().map(|slow| slow.remedy), Some(Remedy::Frames));
    let again = path.shown_by(FAST + Span::from_secs(15)) - shown;
    assert!(again > 240, "{again} of 450 frames in 15 s");
    assert_eq!(path.sender().slow_encoder(), None);
}

#[test]
fn a_source_that_is_slow_is_asked_again_and_keeps_its_pictures() {
    let mut path = Path::new((320, 180), Some(Box::new(Late { asked: 0, left: 100 })), 0.003);
    // Each picture comes half an interval late, so there is one every 50 ms.
    let shown = path.shown_by(Time::from_secs(4));
    assert!((75..=82).contains(&shown), "{shown}");
    let shown = path.shown_by(Time::from_secs(6));
    let counters = path.sender().counters();
    assert_eq!((shown, counters.captured, counters.starved), (100, 100, 100), "{counters:?}");
    assert!(path.sender().is_finished());
}

#[test]
fn a_receiver_hears_from_a_sender_whose_encoder_takes_half_a_minute() {
    let mut path = Path::new((3840, ROWS), None, 10.0);
    let packets = |path: &Path| path.world.endpoint::<Receiver>(path.to).counters().packets;
    assert_eq!(path.shown_by(Time::from_secs(19)), 0);
    // Every two seconds, and a little more often where an answer is waited for.
    let count = packets(&path);
    assert!((8..=12).contains(&count), "{count}");
}

/// What a flow uses that names nothing, over loopback.
const DEFAULT: How =
    How { cc: "sqp-robust", rate: "budget", link: Rate::from_mbps(1000), delay: Span::from_micros(30) };

#[test]
fn the_default_does_not_mistake_it_for_the_network() {
    let mut path = Path::over(&DEFAULT, (3840, ROWS), None, 1.0);
    let shown = path.shown_by(FAST);
    assert!(shown > 440, "{shown} of 600 frames in 20 s, of which the encoder took six for the first two");
    let estimate = path.sender().decision().media.unwrap();
    assert!(estimate > Rate::from_mbps(50), "{estimate}");
    assert_eq!(path.sender().counters().expired, 0);
}
