//! Recovery `newest-acked` and strategy `prism-ltr` over networks that lose, reorder and duplicate, with a
//! real codec and with a model: nothing older is shown after something newer, nothing is decoded whose
//! reference is missing, and the picture comes back.

use std::sync::{Arc, Mutex};

use cc::Setup;
use framewire_session::{
    Policies, Receiver, ReceiverConfig, ReceiverCounters, Screen, Sender, SenderConfig, SenderCounters,
    Shown, Supply, Video, strategy,
};
use media::{
    Encoder, EncoderModel, H264Config, H264Decoder, H264Encoder, ModelConfig, SyntheticConfig, SyntheticGame,
    Table,
};
use netsim::{HostConfig, LinkConfig, QueueSpec, RateProcess, Reorder, World};
use proptest::prelude::*;
use record::{Event, Memory};
use units::{HostClock, Rate, Rng, Span, Time};

const INTERVAL: Span = Span::from_millis(33);
const SIZE: (usize, usize) = (96, 64);

/// When each frame was shown.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Time, u32)>>>);

impl Screen for Seen {
    fn show(&mut self, now: Time, shown: &Shown) {
        self.0.lock().unwrap().push((now, shown.frame));
    }
}

/// What a run left behind.
struct Run {
    seen: Vec<(Time, u32)>,
    /// Frames that were coded as key frames.
    keys: Vec<u32>,
    sender: SenderCounters,
    receiver: ReceiverCounters,
}

impl Run {
    /// The longest time without a new picture, after the first.
    fn longest_gap(&self) -> Span {
        self.seen.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or(Span::MAX)
    }

    fn check(&self, captured: u32) {
        let frames: Vec<u32> = self.seen.iter().map(|&(_, frame)| frame).collect();
        let in_order = frames.is_sorted_by(|earlier, later| earlier < later);
        assert!(in_order, "an older frame after a newer one");
        assert_eq!(self.receiver.decode_errors, 0);
        assert_eq!(self.sender.encoder_errors, 0);
        let last = frames.last().copied().unwrap_or(0);
        assert!(last + 40 > captured, "the picture ends with frame {last} of {captured}");
    }
}

/// A strategy, and the recovery policy of its tracks.
type Named = (&'static str, &'static str);
const NEWEST_ACKED: Named = ("live", "newest-acked");
const KEY_FRAMES: Named = ("live", "key-frames");
const PRISM_LTR: Named = ("prism-ltr", "none");
const KEY_FRAME: Named = ("key-frame", "none");

fn run(
    seed: u64,
    real: bool,
    (strategy, policy): Named,
    link: LinkConfig,
    back: LinkConfig,
    until: Time,
) -> Run {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut world = World::new(seed, Some(memory.clone() as record::Shared));
    let there = world.add_link("there", link);
    let back = world.add_link("back", back);
    let encoder: Box<dyn Encoder> = if real {
        Box::new(H264Encoder::new(H264Config::new(SIZE.0, SIZE.1, INTERVAL)).unwrap())
    } else {
        Box::new(
            EncoderModel::new(ModelConfig::recorded(Table::by_name("synthetic_game").unwrap(), seed))
                .unwrap(),
        )
    };
    let game = SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(SIZE.0, SIZE.1) };
    let source = real.then(|| Box::new(SyntheticGame::new(game)) as Box<dyn media::Source>);
    let setup = Setup {
        initial: Rate::from_kbps(400),
        max: Rate::from_kbps(400),
        frame_interval: INTERVAL,
        ..Setup::default()
    };
    let controller = cc::build(&"fixed".parse().unwrap(), &setup).unwrap();
    let policies = Policies { strategy: strategy::build(strategy, policy).unwrap(), ..Policies::default() };
    let supplies = vec![Supply::Video(Video { encoder, source, interval: INTERVAL })];
    let config = SenderConfig { mtu: 400, deadline: Some(Span::from_millis(250)), ..SenderConfig::default() };
    let tap = world.next_host_tap(HostClock::default());
    let sender =
        Sender::new(config, &setup, controller, policies, supplies, Rng::stream(seed, "sender"), tap);
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let seen = Seen::default();
    let decoder = real.then(|| Box::new(H264Decoder::new().unwrap()) as Box<dyn media::Decoder>);
    let tap = world.next_host_tap(HostClock::default());
    let receiver = Receiver::new(ReceiverConfig::default(), decoder, Some(Box::new(seen.clone())), tap);
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    world.run_until(until);
    let memory = memory.lock().unwrap();
    let keys = memory.events.iter().filter_map(|(_, _, event)| match event {
        Event::FrameEncoded { frame, key: true, .. } => Some(*frame),
        _ => None,
    });
    Run {
        seen: seen.0.lock().unwrap().clone(),
        keys: keys.collect(),
        sender: world.endpoint::<Sender>(sender).counters(),
        receiver: world.endpoint::<Receiver>(receiver).counters(),
    }
}

/// 30 ms each way.
fn link(loss: &str) -> LinkConfig {
    let queue: QueueSpec = "droptail:200ms".parse().unwrap();
    let rate = RateProcess::Constant(Rate::from_mbps(5));
    let mut link = LinkConfig::bottleneck(rate, queue, Span::from_millis(30));
    link.impairments.loss = loss.parse().unwrap();
    link
}

fn wire() -> LinkConfig {
    LinkConfig::delay(Span::from_millis(30))
}

#[test]
fn losses_cost_predicted_frames_instead_of_key_frames() {
    for real in [true, false] {
        for (acked, keys) in [(NEWEST_ACKED, KEY_FRAMES), (PRISM_LTR, KEY_FRAME)] {
            let run = |named| run(1, real, named, link("ge:loss=2%,burst=2"), wire(), Time::from_secs(20));
            let (acked, keys) = (run(acked), run(keys));
            acked.check(606);
            keys.check(606);
            println!("real {real}: {:?} against {} key frames", acked.keys, keys.keys.len());
            assert!(acked.sender.retransmissions == 0 && acked.sender.lost > 20);
            // A scene's cut is a key frame, too.
            assert!(acked.keys.len() <= 3 && keys.keys.len() > 10);
            assert!(acked.longest_gap() < Span::from_millis(450), "{}", acked.longest_gap());
        }
    }
}

#[test]
fn a_path_that_is_longer_than_a_deadline_needs_no_key_frames_either() {
    let mut link = link("ge:loss=2%,burst=2");
    link.delay = Span::from_millis(250).into();
    let run = run(1, true, NEWEST_ACKED, link, wire(), Time::from_secs(20));
    run.check(606);
    assert_eq!(run.keys, [0]);
}

#[test]
fn after_an_outage_the_stream_goes_on_from_what_was_known() {
    let mut link = link("none");
    link.impairments.blackouts = vec![(Time::from_secs(5), Time::from_millis(5_300))];
    let run = run(1, true, NEWEST_ACKED, link, wire(), Time::from_secs(10));
    run.check(303);
    assert_eq!(run.keys, [0]);
    assert!(run.longest_gap() < Span::from_millis(500), "{}", run.longest_gap());
}

#[test]
fn an_encoder_that_keeps_nothing_codes_key_frames() {
    /// A model that says it can't.
    struct Plain(EncoderModel);
    impl Encoder for Plain {
        fn submit(
            &mut self,
            now: Time,
            picture: Option<&Arc<media::RawFrame>>,
            ask: &media::Ask,
        ) -> Result<(), media::CodecError> {
            assert_eq!(ask.peer, None);
            self.0.submit(now, picture, ask)
        }
        fn poll(&mut self, now: Time) -> Option<media::Coded> {
            self.0.poll(now)
        }
        fn next_ready(&self) -> Option<Time> {
            self.0.next_ready()
        }
    }
    let plain =
        Plain(EncoderModel::new(ModelConfig::perfect(Table::by_name("synthetic_game").unwrap())).unwrap());
    let setup = Setup::default();
    let controller = cc::build(&"fixed".parse().unwrap(), &setup).unwrap();
    let policies =
        Policies { strategy: strategy::build("live", "newest-acked").unwrap(), ..Policies::default() };
    let supplies = vec![Supply::Video(Video { encoder: Box::new(plain), source: None, interval: INTERVAL })];
    let mut world = World::new(1, None);
    let (there, back) = (world.add_link("there", link("bernoulli:2%")), world.add_link("back", wire()));
    let rng = Rng::stream(1, "sender");
    let tap = record::Tap::default();
    let sender = Sender::new(SenderConfig::default(), &setup, controller, policies, supplies, rng, tap);
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let receiver = Receiver::new(ReceiverConfig::default(), None, None, record::Tap::default());
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    world.run_until(Time::from_secs(10));
    let shown = world.endpoint::<Receiver>(receiver).counters().displayed;
    assert!(shown > 150, "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Whatever the network does, for as long as anything arrives at all.
    #[test]
    fn nothing_goes_back_in_time_and_the_picture_recovers(
        seed in any::<u64>(),
        real in any::<bool>(),
        named in prop::sample::select(vec![NEWEST_ACKED, PRISM_LTR, KEY_FRAME]),
        every in 40u64..800,
        longest in 1u64..80,
        duplicate in 0.0..0.2,
        reorder in 0.0..0.2,
    ) {
        let (mut link, mut back) = (link("none"), wire());
        // For six of eight seconds whatever arrives in moments chosen by chance is lost, either way.
        let rng = &mut Rng::stream(seed, "outages");
        for outages in [&mut link.impairments.blackouts, &mut back.impairments.blackouts] {
            let mut at = rng.below(every) + 200;
            while at < 6_000 {
                let end = at + 1 + rng.below(longest);
                outages.push((Time::from_millis(at), Time::from_millis(end)));
                at = end + 1 + rng.below(every);
            }
        }
        link.impairments.duplicate = duplicate;
        link.reorder = Some(Reorder { probability: reorder, extra: Span::from_millis(40) });
        let run = run(seed, real, named, link, back, Time::from_secs(8));
        run.check(8_000 / 33);
    }
}
