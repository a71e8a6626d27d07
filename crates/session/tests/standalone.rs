//! A codec whose packets decode each alone, over networks that lose: whatever came of a frame is shown when
//! the next one begins, and nobody asks for a key frame.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cc::Setup;
use framewire_session::{
    Policies, Receiver, ReceiverConfig, ReceiverCounters, Screen, Sender, SenderConfig, Shown, Supply, Video,
    strategy,
};
use media::{Ask, CodecError, Coded, Decoded, Decoder, Encoder, Parts, RawFrame};
use netsim::{HostConfig, LinkConfig, QueueSpec, RateProcess, World};
use proptest::prelude::*;
use record::Tap;
use units::{HostClock, Rate, Rng, Span, Time};

const INTERVAL: Span = Span::from_millis(33);
const DELAY: Span = Span::from_millis(10);
/// Packets of a frame, and bytes of each.
const PACKETS: u32 = 6;
const PIECE: u32 = 300;
const SECONDS: u64 = 6;

/// Makes frames of [`PACKETS`] pieces, each of which says of which frame it is and which piece.
#[derive(Default)]
struct Pieces(VecDeque<Coded>);

impl Encoder for Pieces {
    fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let piece = |number: u32| {
            let mut bytes = vec![0; PIECE as usize];
            bytes[..4].copy_from_slice(&[b'?', b'!', ask.frame as u8, number as u8]);
            bytes
        };
        let payload: Bytes = (0..PACKETS).flat_map(piece).collect();
        let pieces = (1..=PACKETS).map(|count| count * PIECE).collect();
        let coded = Coded::of_size(ask, PACKETS * PIECE);
        self.0.push_back(Coded { key: true, payload: Some(payload), pieces, apart: true, ..coded });
        Ok(())
    }
    fn poll(&mut self, _: Time) -> Option<Coded> {
        self.0.pop_front()
    }
    fn next_ready(&self) -> Option<Time> {
        self.0.front().map(|_| Time::ZERO)
    }
}

/// Makes a picture as bright as many pieces came.
#[derive(Default)]
struct Counting(VecDeque<Decoded>);

impl Counting {
    fn count(&mut self, frame: u32, pieces: &[u8], complete: bool) {
        let whole = pieces.chunks(PIECE as usize);
        let count = whole.clone().count();
        assert!(whole.into_iter().all(|piece| piece.len() == PIECE as usize && piece[2] == frame as u8));
        let picture = Ok(RawFrame::filled(2, 2, count as u8, 0, 0));
        self.0.push_back(Decoded { concealed: !complete, ..Decoded::whole(frame, picture) });
    }
}

impl Decoder for Counting {
    fn submit(&mut self, _: Time, frame: u32, coded: Bytes) {
        self.count(frame, &coded, true);
    }
    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        Some(|packet| packet.starts_with(b"?!"))
    }
    fn submit_parts(&mut self, _: Time, frame: u32, parts: &Parts) {
        assert!(parts.present.iter().all(|part| part.bytes.len() == PIECE as usize), "pieces stay apart");
        self.count(frame, &parts.join(), parts.complete);
    }
    fn poll(&mut self, _: Time) -> Option<Decoded> {
        self.0.pop_front()
    }
    fn next_ready(&self) -> Option<Time> {
        self.0.front().map(|_| Time::ZERO)
    }
}

/// A frame that was shown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnScreen {
    frame: u32,
    at: Time,
    concealed: bool,
    /// Pieces that its picture was made of.
    pieces: u8,
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<OnScreen>>>);

impl Screen for Seen {
    fn show(&mut self, at: Time, shown: &Shown) {
        let pieces = shown.picture.as_ref().expect("there is a decoder").y[0];
        let seen = OnScreen { frame: shown.frame, at, concealed: shown.concealed, pieces };
        self.0.lock().unwrap().push(seen);
    }
}

/// Where packets are `repaired` they are asked for again, and sent again when they are known to be lost.
fn run(seed: u64, strategy: &str, loss: &str, repaired: bool) -> (Vec<OnScreen>, ReceiverCounters) {
    let recovery = if repaired { "retransmit" } else { "none" };
    let mut world = World::new(seed, None);
    let queue: QueueSpec = "droptail:200ms".parse().unwrap();
    let mut there = LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(20)), queue, DELAY);
    there.impairments.loss = loss.parse().unwrap();
    let there = world.add_link("there", there);
    let back = world.add_link("back", LinkConfig::delay(DELAY));
    let most = Rate::from_kbps(900);
    let setup = Setup { initial: most, max: most, frame_interval: INTERVAL, ..Setup::default() };
    let encoder = Box::new(Pieces::default());
    let sender = Sender::new(
        SenderConfig { deadline: Some(Span::from_millis(250)), ..SenderConfig::default() },
        &setup,
        cc::build(&"fixed".parse().unwrap(), &setup).unwrap(),
        Policies { strategy: strategy::build(strategy, recovery).unwrap(), ..Policies::default() },
        vec![Supply::Video(Video { encoder, source: None, interval: INTERVAL })],
        Rng::stream(seed, "sender"),
        Tap::default(),
    );
    let sender = world.add_host(HostConfig::new("sender"), sender);
    let seen = Seen::default();
    let tap = world.next_host_tap(HostClock::default());
    let config = ReceiverConfig { nack: repaired, ..ReceiverConfig::default() };
    let decoder = Box::new(Counting::default());
    let receiver = Receiver::new(config, Some(decoder), Some(Box::new(seen.clone())), tap);
    let receiver = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(sender, 0, &[there], receiver);
    world.connect(receiver, 0, &[back], sender);
    world.run_until(Time::from_secs(SECONDS));
    let counters = world.endpoint::<Receiver>(receiver).counters();
    let seen = seen.0.lock().unwrap().clone();
    assert!(seen.windows(2).all(|pair| pair[0].frame < pair[1].frame), "an older frame after a newer one");
    (seen, counters)
}

/// Frames captured in all.
fn captured() -> usize {
    (Span::from_secs(SECONDS as i64).as_nanos() / INTERVAL.as_nanos()) as usize
}

#[test]
fn every_frame_of_which_anything_came_is_shown_when_the_next_one_begins() {
    let (seen, counters) = run(1, "live", "bernoulli:20%", false);
    // All six packets of a frame are lost once in 16,000 frames.
    assert!(seen.len() + 4 >= captured(), "{} of {}", seen.len(), captured());
    let partial: Vec<_> = seen.iter().filter(|seen| seen.concealed).collect();
    assert!(partial.len() > captured() / 2, "{}", partial.len());
    assert!(seen.iter().all(|seen| seen.concealed == (u32::from(seen.pieces) < PACKETS)));
    for OnScreen { frame, at, .. } in &seen {
        let behind = *at - (Time::ZERO + INTERVAL * i64::from(*frame) + DELAY);
        assert!(behind < INTERVAL + Span::from_millis(15), "frame {frame} came {behind} late");
    }
    assert_eq!((counters.key_requests, counters.concealed), (0, partial.len() as u64));
}

#[test]
fn a_repair_has_until_the_next_frame_begins() {
    let (_, without) = run(2, "live", "bernoulli:10%", false);
    let (seen, with) = run(2, "live", "bernoulli:10%", true);
    assert!(with.key_requests == 0 && seen.len() + 4 >= captured(), "{} {with:?}", seen.len());
    // A round trip is 20 ms, and a frame's last packet is not missed before the next frame comes.
    assert!(without.concealed > 60 && with.concealed * 2 < without.concealed, "{with:?} {without:?}");
}

#[test]
fn nothing_is_made_up_where_nothing_is_lost() {
    let (seen, counters) = run(3, "live", "none", false);
    assert!(seen.iter().all(|seen| !seen.concealed) && seen.len() + 3 >= captured());
    assert_eq!(counters.concealed, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_picture_goes_on_over_any_losses(
        seed in 0u64..1_000, loss in 0.0f64..0.4, burst in 1.0f64..3.0, nack: bool, strategy in 0usize..3
    ) {
        let strategy = ["live", "fec:share=0.5", "key-frame"][strategy];
        let loss = format!("ge:loss={:.2}%,burst={burst:.2}", loss * 100.0 + 0.1);
        let (seen, counters) = run(seed, strategy, &loss, nack);
        prop_assert!(seen.len() > captured() / 2, "{} shown, {counters:?}", seen.len());
    }
}
