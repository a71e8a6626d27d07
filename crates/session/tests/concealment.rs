//! Frames that lost a slice, with OpenH264 over networks that lose: shown concealed where the receiver is
//! told to, given up where it is not.

use std::sync::{Arc, Mutex};

use cc::Setup;
use framewire_session::{
    Policies, Receiver, ReceiverConfig, ReceiverCounters, Screen, Sender, SenderConfig, Shown, Supply, Video,
    strategy,
};
use media::{H264Config, H264Decoder, H264Encoder, SyntheticConfig, SyntheticGame};
use netsim::{HostConfig, LinkConfig, QueueSpec, RateProcess, World};
use proptest::prelude::*;
use record::Tap;
use units::{HostClock, Rate, Rng, Span, Time};
use wire::Media;

const INTERVAL: Span = Span::from_millis(33);
const SIZE: (usize, usize) = (192, 128);
/// OpenH264 takes slices of 500 bytes and more.
const MTU: usize = 560;

/// A frame that was shown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnScreen {
    frame: u32,
    concealed: bool,
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<OnScreen>>>);

impl Screen for Seen {
    fn show(&mut self, _: Time, shown: &Shown) {
        assert!(shown.picture.is_some());
        self.0.lock().unwrap().push(OnScreen { frame: shown.frame, concealed: shown.concealed });
    }
}

fn run(seed: u64, policy: &str, loss: &str, config: ReceiverConfig) -> (Vec<OnScreen>, ReceiverCounters) {
    let mut world = World::new(seed, None);
    let queue: QueueSpec = "droptail:200ms".parse().unwrap();
    let rate = RateProcess::Constant(Rate::from_mbps(2));
    let mut there = LinkConfig::bottleneck(rate, queue, Span::from_millis(30));
    there.impairments.loss = loss.parse().unwrap();
    let there = world.add_link("there", there);
    let back = world.add_link("back", LinkConfig::delay(Span::from_millis(30)));
    let slices = Some(MTU - Media::LEN);
    let coder = H264Config { slices, ..H264Config::new(SIZE.0, SIZE.1, INTERVAL) };
    let encoder = Box::new(H264Encoder::new(coder).unwrap());
    let game = SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(SIZE.0, SIZE.1) };
    let source = Some(Box::new(SyntheticGame::new(game)) as Box<dyn media::Source>);
    let most = Rate::from_kbps(900);
    let setup = Setup { initial: most, max: most, frame_interval: INTERVAL, ..Setup::default() };
    let sender = Sender::new(
        SenderConfig { mtu: MTU, deadline: Some(Span::from_millis(250)), ..SenderConfig::default() },
        &setup,
        cc::build(&"fixed".parse().unwrap(), &setup).unwrap(),
        Policies { strategy: strategy::build("live", policy).unwrap(), ..Policies::default() },
        vec![Supply::Video(Video { encoder, source, interval: INTERVAL })],
        Rng::stream(seed, "sender"),
        Tap::default(),
    );
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let seen = Seen::default();
    let decoder = Box::new(H264Decoder::new().unwrap());
    let tap = world.next_host_tap(HostClock::default());
    let receiver = Receiver::new(config, Some(decoder), Some(Box::new(seen.clone())), tap);
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    world.run_until(Time::from_secs(6));
    let counters = world.endpoint::<Receiver>(receiver).counters();
    let seen = seen.0.lock().unwrap().clone();
    assert!(seen.windows(2).all(|pair| pair[0].frame < pair[1].frame), "an older frame after a newer one");
    (seen, counters)
}

fn told(conceal: bool) -> ReceiverConfig {
    ReceiverConfig { nack: false, conceal, ..ReceiverConfig::default() }
}

#[test]
fn a_frame_that_lost_a_slice_is_shown_instead_of_being_dropped() {
    for policy in ["key-frames", "newest-acked"] {
        let (dropped, without) = run(1, policy, "bernoulli:3%", told(false));
        let (shown, with) = run(1, policy, "bernoulli:3%", told(true));
        assert_eq!((without.concealed, dropped.iter().filter(|seen| seen.concealed).count()), (0, 0));
        assert!(with.concealed > 5 && shown.len() > dropped.len() + 20, "{policy}: {with:?}, {without:?}");
        // A key frame, or one that refers to a whole one, makes the picture exact again.
        let made_up = shown.iter().filter(|seen| seen.concealed).count();
        let exact = shown.len() - made_up;
        assert!(made_up >= with.concealed as usize / 2 && exact > 60, "{policy}: {with:?}");
    }
}

#[test]
fn nothing_changes_where_nothing_is_lost() {
    let (plain, without) = run(2, "retransmit", "none", told(false));
    let (concealing, with) = run(2, "retransmit", "none", told(true));
    assert_eq!(plain, concealing);
    assert_eq!((without, with.concealed), (with, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_picture_goes_on_over_any_losses(
        seed in 0u64..1_000, loss in 0.0f64..0.3, burst in 1.0f64..4.0, nack: bool, policy in 0usize..3
    ) {
        let policy = ["retransmit", "key-frames", "newest-acked"][policy];
        let loss = format!("ge:loss={:.2}%,burst={burst:.2}", loss * 100.0 + 0.1);
        let (seen, counters) = run(seed, policy, &loss, ReceiverConfig { nack, ..told(true) });
        prop_assert!(seen.len() > 8, "{} shown, {counters:?}", seen.len());
    }
}
