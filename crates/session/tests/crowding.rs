//! A receiver whose frames in the making are too many: the oldest make room, the newest are never refused,
//! and what is refused is not acknowledged.

use framewire_session::{Receiver, ReceiverConfig};
use record::Tap;
use units::{RemoteTime, Span, Time};
use wire::{Class, Endpoint, Feedback, FrameId, KeyFrameRequest, Kind, MAX_DATAGRAM, Media, RxMeta};

/// More frames than a receiver holds.
const MANY: u32 = 1_100;

fn packet(number: u64, frame: u32, index: u16) -> Media {
    Media {
        session: 1,
        packet: number,
        sent: RemoteTime::from_nanos(0),
        feedback_seen: 0,
        stream: 0,
        class: Class::Deadline,
        frame,
        version: 0,
        index,
        count: 2,
        part: 0,
        captured: RemoteTime::from_nanos(0),
        deadline: Span::from_secs(60),
        reference: frame.checked_sub(1).map(FrameId::first),
        retransmission: false,
        alone: false,
    }
}

fn deliver(receiver: &mut Receiver, now: Time, media: &Media) {
    let mut datagram = [0; MAX_DATAGRAM];
    let head = media.encode(&mut datagram);
    receiver.receive(now, &datagram[..head], RxMeta { length: 1_000, ..RxMeta::default() });
}

/// Everything the receiver has to say at `now`: the packets it acknowledges, and whether it asks for a key
/// frame.
fn answers(receiver: &mut Receiver, now: Time) -> (Vec<u64>, bool) {
    let (mut acknowledged, mut wants_key, mut out) = (Vec::new(), false, [0; MAX_DATAGRAM]);
    receiver.wake(now);
    while let Some(meta) = receiver.transmit(now, &mut out) {
        match wire::peek(&out[..meta.head]).unwrap().0 {
            Kind::Feedback => {
                let feedback = Feedback::decode(&out[..meta.head]).unwrap();
                acknowledged.extend(feedback.ranges().flat_map(|(low, high)| low..=high));
            }
            Kind::KeyFrameRequest => {
                wants_key |= KeyFrameRequest::decode(&out[..meta.head]).is_ok();
            }
            _ => {}
        }
    }
    (acknowledged, wants_key)
}

/// A receiver of `MANY` frames that each miss their second packet. They may be late by a minute, and none has
/// been given up for its age.
fn crowded() -> (Receiver, Time) {
    let mut receiver = Receiver::new(ReceiverConfig::default(), None, None, Tap::default());
    let mut now = Time::ZERO;
    for frame in 0..MANY {
        now = Time::from_millis(u64::from(frame));
        deliver(&mut receiver, now, &packet(u64::from(frame), frame, 0));
    }
    (receiver, now)
}

#[test]
fn the_newest_frame_is_taken_and_a_key_frame_asked_for() {
    let (mut receiver, now) = crowded();
    assert_eq!(receiver.counters().buffer_full, 0);
    assert!(receiver.counters().crowded_out > 0);
    let (acknowledged, wants_key) = answers(&mut receiver, now + Span::from_millis(50));
    assert!(acknowledged.contains(&u64::from(MANY - 1)), "the newest packet is acknowledged");
    assert!(wants_key, "the chain is broken where frames were given up");
    // A whole key frame is shown at once, however much is missing before it.
    let shown = receiver.counters().displayed;
    for index in 0..2 {
        let key = Media { reference: None, ..packet(u64::from(MANY) + u64::from(index), MANY, index) };
        deliver(&mut receiver, now + Span::from_millis(60), &key);
    }
    assert_eq!(receiver.counters().displayed, shown + 1);
}

#[test]
fn a_packet_that_finds_no_room_is_counted_and_not_acknowledged() {
    let mut receiver = Receiver::new(ReceiverConfig::default(), None, None, Tap::default());
    // Frame 1 is in use, and all that follow it; there is no room for frame 0, which is older than all of
    // them.
    for frame in 1..=1_024 {
        deliver(&mut receiver, Time::from_millis(1), &packet(u64::from(frame), frame, 0));
    }
    let late = Time::from_millis(2);
    deliver(&mut receiver, late, &packet(2_000, 0, 0));
    assert_eq!(receiver.counters().buffer_full, 1);
    let (acknowledged, _) = answers(&mut receiver, late + Span::from_millis(50));
    assert!(acknowledged.contains(&1_024) && !acknowledged.contains(&2_000));
}
