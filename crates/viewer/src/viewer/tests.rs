//! A viewer and senders, without a network and without a browser.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use media::{Ask, CodecError, Coded, Encoder, RawFrame};
use proptest::prelude::*;
use session::{Policies, Sender, SenderConfig, Supply, Tracks, Video};
use units::Rng;
use wire::{Class, FrameId, Media, Offer, Refusal};

use super::*;
use crate::exchange;

/// A picture is its frame's number.
struct Numbers(Option<Coded>);

impl Encoder for Numbers {
    fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let payload = Some(Bytes::from(vec![ask.frame as u8; 3_000]));
        let (frame, key, target) = (ask.frame, ask.key, ask.bitrate);
        self.0 = Some(Coded {
            frame,
            size: 3_000,
            payload,
            key,
            refers_to: None,
            keeps: None,
            target,
            pieces: Vec::new(),
            apart: false,
            quality: None,
            quantiser: None,
            took: None,
            earlier: 0,
        });
        Ok(())
    }
    fn poll(&mut self, _: Time) -> Option<Coded> {
        self.0.take()
    }
    fn next_ready(&self) -> Option<Time> {
        None
    }
}

/// A sender under `backup`: each frame in two tracks.
fn sender_of_two(session: u32) -> Sender {
    let setup = Setup { frame_interval: Span::from_millis(20), ..Setup::default() };
    let controller = cc::build(&"sqp".parse().unwrap(), &setup).unwrap();
    let encoders = (0..2).map(|_| Box::new(Numbers(None)) as Box<dyn Encoder>).collect();
    let tracks = Tracks { encoders, source: None, interval: setup.frame_interval };
    let config = SenderConfig { session, ..SenderConfig::default() };
    let strategy = session::strategy::build("backup", "none").unwrap();
    let (policies, rng) = (Policies { strategy, ..Policies::default() }, Rng::stream(1, "sender"));
    Sender::new(config, &setup, controller, policies, vec![Supply::Tracks(tracks)], rng, Tap::default())
}

fn sender(session: u32, controller: &str) -> Sender {
    let setup = Setup { frame_interval: Span::from_millis(20), ..Setup::default() };
    let controller = cc::build(&controller.parse().unwrap(), &setup).unwrap();
    let video = Video { encoder: Box::new(Numbers(None)), source: None, interval: setup.frame_interval };
    let config = SenderConfig { session, ..SenderConfig::default() };
    let rng = Rng::stream(1, "sender");
    let supplies = vec![Supply::Video(video)];
    Sender::new(config, &setup, controller, Policies::default(), supplies, rng, Tap::default())
}

/// A browser: the pictures that it holds, and what it has shown.
#[derive(Default)]
struct Browser {
    /// Ids of decoded pictures that were neither shown nor freed.
    held: BTreeSet<u32>,
    /// The most that were held at a time.
    most_held: usize,
    /// Track and frame.
    shown: Vec<(u8, u32)>,
}

impl Browser {
    /// Decodes all there is, but for what `fails`, and shows and frees what it is told to.
    fn work(&mut self, now: Time, viewer: &mut Viewer, mut fails: impl FnMut(&exchange::Coded) -> bool) {
        while let Some(coded) = viewer.exchange.take_coded() {
            if fails(&coded) {
                viewer.exchange.decoder_failed(coded.track);
            } else if viewer.exchange.decoded(coded.id) {
                assert!(self.held.insert(coded.id), "each picture has an id of its own");
            }
            viewer.wake(now);
        }
        viewer.wake(now);
        self.most_held = self.most_held.max(self.held.len());
        while let Some(due) = viewer.exchange.take_due() {
            assert!(self.held.remove(&due.id), "what is shown is there");
            self.shown.push((due.track, due.frame));
        }
        while let Some(id) = viewer.exchange.take_discarded() {
            assert!(self.held.remove(&id), "what is freed is there, once");
        }
    }

    fn of(&self, track: u8) -> usize {
        self.shown.iter().filter(|(of, _)| *of == track).count()
    }

    fn never_goes_back(&self) -> bool {
        self.shown.windows(2).all(|pair| pair[0].1 < pair[1].1)
    }
}

/// Carries datagrams both ways from `from` ms on for `ms`, with `lose` deciding which of the sender's are
/// lost; the browser decodes at once. Returns what was shown.
fn converse(
    sender: &mut Sender,
    viewer: &mut Viewer,
    from: u64,
    ms: u64,
    lose: impl FnMut() -> bool,
) -> Vec<u32> {
    let mut browser = Browser::default();
    converse_with(&mut browser, sender, viewer, from..from + ms, lose, |_| false);
    assert!(browser.never_goes_back());
    browser.shown.into_iter().map(|(_, frame)| frame).collect()
}

/// The same with this browser, whose decoder `fails` at some frames.
fn converse_with(
    browser: &mut Browser,
    sender: &mut Sender,
    viewer: &mut Viewer,
    ms: Range<u64>,
    mut lose: impl FnMut() -> bool,
    mut fails: impl FnMut(&exchange::Coded) -> bool,
) {
    let mut out = [0; wire::MAX_DATAGRAM];
    for now in ms.map(Time::from_millis) {
        sender.wake(now);
        while let Some(meta) = sender.transmit(now, &mut out) {
            let mut datagram = out[..meta.head].to_vec();
            datagram.extend_from_slice(&meta.payload.unwrap_or_default());
            datagram.resize(meta.length, 0);
            if !lose() {
                viewer.receive(now, &datagram);
            }
        }
        browser.work(now, viewer, |coded| {
            assert_eq!((coded.bytes.len(), coded.bytes[0]), (3_000, coded.frame as u8));
            fails(coded)
        });
        while let Some(length) = viewer.transmit(now, &mut out) {
            sender.receive(now, &out[..length], RxMeta { length, ..RxMeta::default() });
        }
    }
}

#[test]
fn what_is_sent_is_shown_and_acknowledged() {
    let (mut sender, mut viewer) = (sender(7, "sqp"), Viewer::default());
    let shown = converse(&mut sender, &mut viewer, 0, 1_000, || false);
    assert!(shown.len() >= 48 && shown.iter().copied().eq(0..shown.len() as u32), "{shown:?}");
    let counters = viewer.counters();
    assert_eq!((counters.abandoned, counters.decode_errors, sender.counters().lost), (0, 0, 0));
    assert!(sender.srtt() < Span::from_millis(25), "feedback came: {}", sender.srtt());
}

#[test]
fn a_playout_policy_is_followed_from_the_next_session_on() {
    let (mut sender, mut viewer) = (sender(7, "sqp"), Viewer::default());
    assert!(!viewer.set_playout("smooth") && viewer.set_playout("fixed:delay=300ms"));
    let shown = converse(&mut sender, &mut viewer, 0, 1_000, || false);
    assert!((30..36).contains(&shown.len()), "the last 300 ms wait: {shown:?}");
}

#[test]
fn losses_are_repaired() {
    let (mut sender, mut viewer) = (sender(7, "sqp"), Viewer::default());
    let mut rng = Rng::stream(2, "loss");
    let shown = converse(&mut sender, &mut viewer, 0, 2_000, || rng.below(20) == 0);
    assert!(shown.len() > 85, "{} of 100 shown", shown.len());
    assert!(sender.counters().retransmissions > 0);
    // What is missing among the numbers is what was lost on the way, but for the last moments.
    let (expected, arrived) = (viewer.exchange.expected(), viewer.counters().packets);
    let missing = (expected - arrived) as f64 / expected as f64;
    assert!((0.03..0.07).contains(&missing), "{missing} of {expected} missing, and one in 20 was lost");
    assert_eq!(viewer.interval(), Some(Span::from_millis(20)));
}

#[test]
fn a_new_session_takes_over_and_the_old_one_does_not_come_back() {
    let mut viewer = Viewer::default();
    let (mut first, mut second) = (sender(7, "sqp"), sender(8, "newreno"));
    converse(&mut first, &mut viewer, 0, 500, || false);
    assert_eq!(viewer.session(), Some(7));
    let shown = converse(&mut second, &mut viewer, 500, 500, || false);
    assert_eq!((viewer.session(), shown.first()), (Some(8), Some(&0)));
    assert!(shown.len() >= 23, "{shown:?}");
    let mut hello = [0; 32];
    let late = Control::Hello { session: 7, width: 2, height: 2, interval_us: 1, announcement: None }
        .encode(&mut hello);
    viewer.receive(Time::from_secs(2), &hello[..late]);
    assert_eq!(viewer.session(), Some(8));
}

#[test]
fn a_controller_gets_the_half_that_lives_here() {
    let mut viewer = Viewer::default();
    viewer.take_stream(&Message::ready(Offer { codec: "", controller: "sqp" }).to_vec());
    assert_eq!(viewer.news(Time::ZERO), Ok(Some(News::Ready)));
    let mut sprout = sender(9, "sprout");
    converse(&mut sprout, &mut viewer, 0, 40, || false);
    let status = Viewing::Status(Status { session: 9, controller: "sprout", ..Status::default() });
    let mut out = [0; Viewing::MAX_LEN];
    let length = status.encode(&mut out);
    viewer.take_stream(&out[..length]);
    assert!(matches!(viewer.news(Time::ZERO), Ok(Some(News::Status(told))) if told.controller == "sprout"));
    converse(&mut sprout, &mut viewer, 40, 2_000, || false);
    // Sprout without forecasts from its other half stays at its smallest window.
    assert!(viewer.counters().displayed > 80, "{:?}", viewer.counters());
}

#[test]
fn messages_come_out_whole_and_nonsense_is_told() {
    let mut viewer = Viewer::default();
    let refused = Message::Refused { why: Refusal::Token, text: "no" };
    let bytes = [Message::Unknown(200).to_vec(), refused.to_vec(), Message::Reload.to_vec()].concat();
    for byte in &bytes[..bytes.len() - 3] {
        assert!(viewer.stream.len() < Message::MAX_LEN);
        viewer.take_stream(&[*byte]);
        if viewer.stream.len() < 4 {
            assert_eq!(viewer.news(Time::ZERO), Ok(None));
        }
    }
    assert_eq!(viewer.news(Time::ZERO), Ok(Some(News::Refused(2, "no".to_owned()))));
    viewer.take_stream(&[0, 1, 5, 0, 0]);
    assert_eq!(viewer.news(Time::ZERO), Ok(Some(News::Reload)));
    assert!(viewer.news(Time::ZERO).is_err());
}

#[test]
fn what_was_seen_is_told_once_and_bounded() {
    let mut viewer = Viewer::default();
    let mut out = [0; Viewing::MAX_LEN];
    let frame = SeenFrame { frame: 1, picture: 2, shown: 3, delay_us: 4 };
    (0..200).for_each(|_| viewer.saw(frame));
    assert_eq!(viewer.write_seen(&mut out), 0, "there is no session to speak of");
    viewer.begin(7);
    (0..200).for_each(|frame_number| viewer.saw(SeenFrame { frame: frame_number, ..frame }));
    let length = viewer.write_seen(&mut out);
    let Ok(Some(Viewing::Seen(seen))) = Viewing::decode(&out[..length]) else { panic!("it decodes") };
    assert!(seen.frames().map(|seen| seen.frame).eq(152..200));
    assert_eq!(viewer.write_seen(&mut out), 0);
}

#[test]
fn two_tracks_of_a_capture_are_one_show() {
    let (mut sender, mut viewer, mut browser) = (sender_of_two(7), Viewer::default(), Browser::default());
    let mut rng = Rng::stream(3, "loss");
    converse_with(&mut browser, &mut sender, &mut viewer, 0..4_000, || rng.below(6) == 0, |_| false);
    assert!(browser.never_goes_back(), "{:?}", browser.shown);
    assert!(browser.of(0) > 100 && browser.of(1) > 3, "{} and {}", browser.of(0), browser.of(1));
    assert_eq!((browser.held.len(), viewer.exchange.abandoned()), (0, 0), "{:?}", viewer.counters());
    for track in [0, 1] {
        let counts = viewer.exchange.pictures(track);
        assert_eq!((counts.coded, counts.shown), (counts.decoded, browser.of(track as u8) as u64));
        assert!(counts.decoded > 90, "{counts:?} of 200 frames");
    }
    assert_eq!(viewer.counters().decode_errors, 0);
}

#[test]
fn while_one_track_does_not_decode_the_other_is_shown() {
    for failing in [0, 1] {
        let (mut sender, mut viewer, mut browser) = (sender_of_two(7), Viewer::default(), Browser::default());
        let fails = |coded: &exchange::Coded| coded.track == failing;
        converse_with(&mut browser, &mut sender, &mut viewer, 0..1_000, || false, fails);
        assert!(browser.never_goes_back() && browser.of(1 - failing) > 40, "{:?}", browser.shown);
        assert_eq!((browser.of(failing), browser.held.len()), (0, 0));
        assert!(viewer.counters().decode_errors > 0);
    }
}

#[test]
fn of_frames_that_wait_the_worse_coding_is_freed_at_once() {
    let (mut sender, mut viewer, mut browser) = (sender_of_two(7), Viewer::default(), Browser::default());
    assert!(viewer.set_playout("fixed:delay=200ms"));
    converse_with(&mut browser, &mut sender, &mut viewer, 0..2_000, || false, |_| false);
    assert!(browser.of(0) > 80 && browser.of(1) == 0, "the better coding of each was there in time");
    let counts = viewer.exchange.pictures(1);
    assert!(counts.decoded > 80 && counts.shown == 0, "{counts:?}");
    // 200 ms of 50 frames a second wait; not twice as many pictures.
    assert!((9..=14).contains(&browser.most_held), "{} pictures held", browser.most_held);
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_pictures_are_freed_and_decoders_bounded(
        packets in prop::collection::vec(
            (any::<u8>(), 0..40u32, 0..3u8, 0..4u8, 1..3u16, 0..3u16, prop::option::of(0..40u32)), 1..300),
        fails in 2u64..20,
        policy in prop::sample::select(vec!["at-once", "fixed:delay=30ms", "adaptive"])
    ) {
        let (mut viewer, mut browser) = (Viewer::default(), Browser::default());
        viewer.set_playout(policy);
        let mut tracks = BTreeSet::new();
        let mut rng = Rng::stream(1, "fails");
        let mut now = Time::from_secs(1);
        for (packet, (stream, frame, version, class, count, index, reference)) in (0..).zip(packets) {
            let classes = [Class::Deadline, Class::Reliable, Class::OneShot, Class::Padding];
            let media = Media {
                stream, frame, version, count, packet,
                index: index % count,
                class: classes[usize::from(class)],
                reference: reference.map(FrameId::first),
                session: 7,
                sent: now.on_wire(),
                captured: Time::from_millis(u64::from(frame) * 10).on_wire(),
                feedback_seen: 0,
                part: 0,
                deadline: Span::from_millis(100),
                retransmission: false,
                alone: false,
            };
            let mut datagram = [0; Media::LEN + 20];
            let head = media.encode(&mut datagram);
            viewer.receive(now, &datagram[..head + 20]);
            browser.work(now, &mut viewer, |coded| {
                tracks.insert(coded.track);
                rng.below(fails) == 0
            });
            prop_assert!(browser.held.len() <= 65, "{} pictures held", browser.held.len());
            now += Span::from_millis(3);
        }
        prop_assert!(tracks.iter().all(|&track| track < 4) && browser.never_goes_back());
        browser.work(now + Span::from_secs(10), &mut viewer, |_| false);
        prop_assert!(browser.held.is_empty(), "{} pictures are held for ever", browser.held.len());
    }
}
