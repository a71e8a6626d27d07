//! Two tracks of one capture, one reliable and predicted, one sent once and of key frames only, over
//! networks that lose, reorder and duplicate: nothing older is shown after something newer, no frame is shown
//! twice, every reliable frame arrives, and nothing grows without bound.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use cc::Setup;
use framewire_session::{
    Policies, Receiver, ReceiverConfig, ReceiverCounters, Screen, Sender, SenderConfig, SenderCounters,
    Shown, Supply, Tracks, Versions, playout, strategy,
};
use media::{Encoder, EncoderModel, ModelConfig, Table};
use netsim::{HostConfig, LinkConfig, QueueSpec, RateProcess, Reorder, World};
use proptest::prelude::*;
use record::{Event, Memory};
use units::{HostClock, Rate, Rng, Span, Time};

const INTERVAL: Span = Span::from_millis(33);
/// The reliable track's stream, and the other one's.
const RELIABLE: u8 = 0;
const ONCE: u8 = 16;
/// Frames whose versions are remembered: more than a run has.
const REMEMBERED: usize = 2_000;

/// Which frame of which stream was shown, and which will never be.
#[derive(Clone, Default)]
struct Seen {
    shown: Arc<Mutex<Vec<(u8, u32)>>>,
    unseen: Arc<Mutex<Vec<(u8, u32)>>>,
}

impl Screen for Seen {
    fn show(&mut self, _: Time, shown: &Shown) {
        self.shown.lock().unwrap().push((shown.stream, shown.frame));
    }
    fn discard(&mut self, _: Time, unseen: &Shown) {
        self.unseen.lock().unwrap().push((unseen.stream, unseen.frame));
    }
}

struct Run {
    seen: Vec<(u8, u32)>,
    /// Decoded frames that are not shown.
    unseen: Vec<(u8, u32)>,
    /// When each frame of the reliable track was coded.
    coded: Vec<(Time, u32)>,
    /// Frames of each stream that were complete.
    complete: BTreeSet<(u8, u32)>,
    /// Frames given up, with their stream.
    abandoned: BTreeSet<(u8, u32)>,
    sender: SenderCounters,
    receiver: ReceiverCounters,
    /// What arrived of each frame, and when.
    versions: Versions,
}

fn encoder(seed: u64) -> Box<dyn Encoder> {
    let table = Table::by_name("synthetic_game").unwrap();
    Box::new(EncoderModel::new(ModelConfig::recorded(table, seed)).unwrap())
}

fn run(seed: u64, most: Rate, playout: &str, there: LinkConfig, back: LinkConfig, until: Time) -> Run {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut world = World::new(seed, Some(memory.clone() as record::Shared));
    let (there, back) = (world.add_link("there", there), world.add_link("back", back));
    let setup = Setup { initial: most, max: most, frame_interval: INTERVAL, ..Setup::default() };
    let controller = cc::build(&"fixed".parse().unwrap(), &setup).unwrap();
    let strategy = strategy::build("backup", "none").unwrap();
    let tracks =
        Tracks { encoders: vec![encoder(seed), encoder(seed + 1)], source: None, interval: INTERVAL };
    let tap = world.next_host_tap(HostClock::default());
    let sender = Sender::new(
        SenderConfig::default(),
        &setup,
        controller,
        Policies { strategy, ..Policies::default() },
        vec![Supply::Tracks(tracks)],
        Rng::stream(seed, "sender"),
        tap,
    );
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let seen = Seen::default();
    let tap = world.next_host_tap(HostClock::default());
    let receiver = Receiver::new(ReceiverConfig::default(), None, Some(Box::new(seen.clone())), tap);
    let receiver =
        receiver.with_playout(playout::build(&playout.parse().unwrap()).unwrap()).remembering(REMEMBERED);
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    world.run_until(until);
    let memory = memory.lock().unwrap();
    let (mut coded, mut complete, mut abandoned) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (at, _, event) in &memory.events {
        match *event {
            Event::FrameEncoded { stream: RELIABLE, frame, .. } => coded.push((*at, frame)),
            Event::FrameEncoded { stream: ONCE, key, .. } => assert!(key, "each decodes alone"),
            Event::FrameAssembled { stream, frame, .. } => {
                assert!(complete.insert((stream, frame)), "frame {frame} of {stream} completes once");
            }
            Event::FrameAbandoned { stream, frame, .. } => drop(abandoned.insert((stream, frame))),
            _ => {}
        }
    }
    Run {
        seen: seen.shown.lock().unwrap().clone(),
        unseen: seen.unseen.lock().unwrap().clone(),
        coded,
        complete,
        abandoned,
        sender: world.endpoint::<Sender>(sender).counters(),
        receiver: world.endpoint::<Receiver>(receiver).counters(),
        versions: world
            .endpoint::<Receiver>(receiver)
            .versions(0)
            .cloned()
            .unwrap_or_else(|| Versions::new(1)),
    }
}

/// 30 ms each way.
fn link(rate: Rate) -> LinkConfig {
    let queue: QueueSpec = "droptail:200ms".parse().unwrap();
    LinkConfig::bottleneck(RateProcess::Constant(rate), queue, Span::from_millis(30))
}

impl Run {
    fn frames(&self) -> Vec<u32> {
        self.seen.iter().map(|&(_, frame)| frame).collect()
    }

    /// What holds over every network.
    fn check(&self, until: Time) {
        assert!(self.frames().windows(2).all(|pair| pair[0] < pair[1]), "an older frame after a newer one");
        assert!(
            self.abandoned.iter().all(|&(stream, _)| stream != RELIABLE),
            "a reliable frame was given up"
        );
        assert_eq!(self.receiver.decode_errors, 0);
        let told = self.seen.iter().chain(&self.unseen);
        assert_eq!(told.clone().collect::<BTreeSet<_>>().len(), told.clone().count(), "each is told once");
        assert!(told.clone().all(|id| self.complete.contains(id)));
        // Within ten seconds what was lost, and lost again, has arrived.
        let settled = self.coded.iter().filter(|(at, _)| *at + Span::from_secs(10) < until);
        let missing: Vec<u32> = settled
            .filter(|&&(_, frame)| !self.complete.contains(&(RELIABLE, frame)))
            .map(|&(_, frame)| frame)
            .collect();
        assert!(missing.is_empty(), "of {} reliable frames never arrived: {missing:?}", self.coded.len());
        // Who watches when all of it has come sees the reliable track's, wherever it was coded. On a path
        // that takes half of the rate, the last of it needs more than ten seconds.
        for (at, frame) in self.coded.iter().filter(|(at, _)| *at + Span::from_secs(10) < until) {
            let seen = self.versions.seen_at(*frame, until - Time::ZERO);
            assert_eq!(seen.map(|seen| seen.stream), Some(RELIABLE), "frame {frame}, coded at {at:?}");
        }
    }
}

#[test]
fn every_frame_is_shown_once_and_in_order() {
    let until = Time::from_secs(10);
    let run =
        run(1, Rate::from_mbps(4), "at-once", link(Rate::from_mbps(8)), link(Rate::from_mbps(2)), until);
    run.check(until);
    let mut coded: Vec<u32> = run.coded.iter().map(|&(_, frame)| frame).collect();
    coded.truncate(run.seen.len());
    assert_eq!(run.frames(), coded);
    assert!(coded.len() > 280, "{} of 300", coded.len());
    let told = (run.seen.len() + run.unseen.len()) as u64;
    assert_eq!(told, run.receiver.assembled, "what was decoded is shown or will never be");
    assert_eq!(run.sender.retransmissions, 0);
    assert_eq!(run.receiver.key_requests, 0, "a track whose frames are sent once has nothing to ask for");
}

#[test]
fn while_a_reliable_frame_is_repaired_its_backup_is_shown() {
    let until = Time::from_secs(20);
    let mut lossy = link(Rate::from_mbps(4));
    lossy.impairments.loss = "bernoulli:5%".parse().unwrap();
    let run = run(2, Rate::from_mbps(2), "at-once", lossy, link(Rate::from_mbps(2)), until);
    run.check(until);
    let of = |wanted: u8| run.seen.iter().filter(|&&(stream, _)| stream == wanted).count();
    assert!(of(ONCE) > 20 && of(RELIABLE) > 300, "{} and {}", of(ONCE), of(RELIABLE));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn over_any_network(
        seed: u64, loss in 0.0f64..0.25, loss_back in 0.0f64..0.25, reorder in 0.0f64..0.3, twice in 0.0f64..0.2,
        kbps in 300u64..3_000, adaptive: bool
    ) {
        let until = Time::from_secs(24);
        let impaired = |loss: f64, rate| {
            let reorder = Some(Reorder { probability: reorder, extra: Span::from_millis(9) });
            let mut link = LinkConfig { reorder, ..link(rate) };
            link.impairments.loss = format!("bernoulli:{}%", loss * 100.0).parse().unwrap();
            link.impairments.duplicate = twice;
            link
        };
        let there = impaired(loss, Rate::from_kbps(kbps));
        let most = Rate::from_kbps(600);
        let run = run(seed % 1000, most, if adaptive { "adaptive" } else { "at-once" }, there, impaired(loss_back, Rate::from_mbps(2)), until);
        run.check(until);
        prop_assert!(run.coded.len() > 30, "{} frames coded, {:?}", run.coded.len(), run.sender);
    }
}
