use super::*;
use crate::outbox::{FrameInfo, Outbox};
use proptest::prelude::*;
use units::{RemoteTime, Span};

fn media(frame: u32, index: u16, count: u16) -> Media {
    Media {
        session: 1,
        packet: 0,
        sent: RemoteTime::from_nanos(0),
        feedback_seen: 0,
        stream: 0,
        class: Class::Deadline,
        frame,
        version: 0,
        index,
        count,
        part: 0,
        captured: RemoteTime::from_nanos(0),
        deadline: Span::from_millis(400),
        reference: frame.checked_sub(1).map(FrameId::first),
        retransmission: false,
        alone: false,
    }
}

const LATER: Time = Time::from_millis(400);

/// Takes a packet as a receiver does; false if it was refused.
fn take(assembly: &mut Assembly, media: &Media) -> bool {
    match assembly.room_for(media, 1000, || false) {
        Room::Free => {}
        Room::Beyond(frame) => assembly.raise_floor(frame + 1, |_| ()),
        Room::None => return false,
    }
    assembly.insert(media, 1000, Some(Bytes::from_static(&[0; 1000])), || LATER);
    true
}

#[test]
fn an_old_frame_is_refused_where_only_newer_ones_could_make_room() {
    let mut assembly = Assembly::new(Class::Deadline);
    (1..=FRAMES as u32).for_each(|frame| assert!(take(&mut assembly, &media(frame, 0, 2))));
    assert_eq!(assembly.room_for(&media(0, 0, 2), 1000, || false), Room::None);
    assert_eq!(
        assembly.room_for(&media(1, 1, 2), 1000, || false),
        Room::Free,
        "its frame has its place already"
    );
    assert_eq!(assembly.room_for(&media(5_000, 0, 2), 1000, || false), Room::Beyond(1));
}

#[test]
fn a_frame_completes_in_any_order_and_once() {
    let mut assembly = Assembly::new(Class::Deadline);
    let part = |b: u8| Some(Bytes::from(vec![b; 2]));
    assert_eq!(assembly.insert(&media(3, 2, 3), 2, part(3), || LATER), Stored::Kept);
    assert_eq!(assembly.insert(&media(3, 0, 3), 2, part(1), || LATER), Stored::Kept);
    assert_eq!(assembly.insert(&media(3, 0, 3), 2, part(1), || LATER), Stored::Duplicate);
    assert_eq!(assembly.insert(&media(3, 1, 3), 2, part(2), || LATER), Stored::Complete);
    assert_eq!(assembly.frames().next().unwrap().bytes().unwrap(), &[1, 1, 2, 2, 3, 3][..]);
    assembly.raise_floor(4, |_| ());
    assert_eq!(assembly.insert(&media(3, 0, 3), 2, None, || LATER), Stored::Stale);
    assert_eq!(assembly.held, 0);
}

#[test]
fn nacks_name_gaps_and_unheard_frames() {
    let mut assembly = Assembly::new(Class::Deadline);
    for (frame, index) in [(5, 0), (5, 2), (5, 3), (7, 0)] {
        assembly.insert(&media(frame, index, 5), 100, None, || LATER);
    }
    let mut asked = Vec::new();
    assembly.nacks(Time::ZERO, Span::from_millis(50), 1, 0, Some(FrameId::first(4)), |nack| asked.push(nack));
    assert_eq!((asked[0].frame, asked[0].wanted().collect::<Vec<_>>()), (5, vec![1, 4]));
    assert_eq!((asked[1].frame, asked[1].first, asked[1].more), (6, 0, u64::MAX));
    asked.clear();
    assembly.nacks(Time::from_millis(49), Span::from_millis(50), 1, 0, Some(FrameId::first(4)), |nack| {
        asked.push(nack)
    });
    assert!(asked.is_empty());
}

fn reliable(frame: u32, index: u16, count: u16) -> Media {
    Media { class: Class::Reliable, ..media(frame, index, count) }
}

#[test]
fn a_reliable_frame_that_is_cut_anew_begins_anew() {
    let mut assembly = Assembly::new(Class::Reliable);
    let part = || Some(Bytes::from_static(b"ab"));
    assert_eq!(assembly.insert(&reliable(3, 1, 2), 2, part(), || LATER), Stored::Kept);
    assert_eq!(assembly.insert(&reliable(3, 2, 3), 2, part(), || LATER), Stored::Kept, "now of three");
    assert_eq!(assembly.insert(&reliable(3, 0, 2), 2, part(), || LATER), Stored::Stale, "cut as before");
    assert_eq!(assembly.insert(&reliable(3, 0, 3), 2, part(), || LATER), Stored::Kept);
    assert_eq!(assembly.insert(&reliable(3, 1, 3), 2, part(), || LATER), Stored::Complete);
    assembly.finish(FrameId::first(3));
    assert_eq!(assembly.insert(&reliable(3, 1, 3), 2, part(), || LATER), Stored::Stale);
    assert_eq!((assembly.held, assembly.frames.len()), (0, 0));
}

/// The packets of a frame of `size` bytes with so many parity packets, and its bytes.
fn protected(size: u32, share: f64) -> (Vec<(Media, Bytes)>, Bytes) {
    let mut outbox = Outbox::new(Class::Deadline, Span::from_secs(1), Media::LEN);
    let (captured, payload) = (Time::ZERO, (0..size).map(|byte| byte as u8).collect::<Bytes>());
    let info = FrameInfo {
        id: FrameId::first(3),
        captured,
        born: captured,
        deadline: LATER,
        reference: None,
        height: 0,
        parity: share,
    };
    let ask = media::Ask {
        frame: 3,
        bitrate: units::Rate::from_mbps(1),
        interval: Span::from_millis(20),
        key: true,
        largest: None,
        height: None,
        peer: None,
    };
    let mut coded = media::Coded { payload: Some(payload.clone()), ..media::Coded::of_size(&ask, size) };
    outbox.push(info, &mut coded, captured, 1_000);
    let frame = outbox.current().unwrap();
    let packet = |index: u16| {
        let packet = Media { reference: None, part: frame.piece(index), ..media(3, index, frame.count) };
        (packet, frame.part(index).1.unwrap())
    };
    ((0..frame.total()).map(packet).collect(), payload)
}

#[test]
fn parity_packets_of_no_use_and_those_that_lie() {
    let mut assembly = Assembly::new(Class::Deadline);
    let (packets, _) = protected(3_500, 0.5);
    let insert = |assembly: &mut Assembly, index: usize, media: Media, payload: Bytes| {
        assert_eq!(packets[index].0.count, 4);
        assembly.insert(&media, payload.len(), Some(payload), || LATER)
    };
    let take = |assembly: &mut Assembly, index: usize| {
        let (media, payload) = packets[index].clone();
        insert(assembly, index, media, payload)
    };
    assert_eq!(take(&mut assembly, 4), Stored::Kept);
    assert_eq!(take(&mut assembly, 4), Stored::Duplicate);
    let (parity, payload) = packets[5].clone();
    let of_three = Media { part: 3, ..parity };
    assert_eq!(insert(&mut assembly, 5, of_three, payload.clone()), Stored::Implausible);
    assert_eq!(insert(&mut assembly, 5, parity, payload.slice(1..)), Stored::Implausible);
    assert_eq!([0, 1].map(|index| take(&mut assembly, index)), [Stored::Kept; 2]);
    assert_eq!(take(&mut assembly, 2), Stored::Complete);
    assert_eq!(take(&mut assembly, 3), Stored::Duplicate, "it is restored already");
    assert_eq!(take(&mut assembly, 5), Stored::Spare);
    assembly.raise_floor(4, |_| ());
    assert_eq!(take(&mut assembly, 5), Stored::Spare);
    assert_eq!(assembly.held, 0);
    // Parity that is shorter than a packet of its frame restores nothing, and the frame waits for the packet.
    let mut assembly = Assembly::new(Class::Deadline);
    assert_eq!([0, 1].map(|index| take(&mut assembly, index)), [Stored::Kept; 2]);
    assert_eq!(insert(&mut assembly, 4, packets[4].0, payload.slice(..64)), Stored::Kept);
    assert_eq!(take(&mut assembly, 2), Stored::Kept);
    assert_eq!(take(&mut assembly, 5), Stored::Implausible, "no more of these are heard");
    assert_eq!(take(&mut assembly, 3), Stored::Complete);
}

proptest! {
    /// A frame is whole with as many packets as it was cut into, whichever they are and in any order, and not
    /// before.
    #[test]
    fn any_packets_in_the_number_of_the_frame_s_give_it_whole(
        size in 1u32..20_000, share in 0.01..1.0, real: bool,
        order in prop::collection::vec(any::<prop::sample::Index>(), 60)
    ) {
        let mut assembly = Assembly::new(Class::Deadline);
        let (mut packets, payload) = protected(size, share);
        for (place, from) in order.iter().enumerate().take(packets.len()) {
            let last = packets.len() - place - 1;
            packets.swap(last, from.index(last + 1));
        }
        let count = usize::from(packets[0].0.count);
        for (have, (media, payload)) in packets.iter().enumerate().take(count) {
            let bytes = real.then(|| payload.clone());
            let stored = assembly.insert(media, payload.len(), bytes, || LATER);
            prop_assert_eq!(stored, if have + 1 == count { Stored::Complete } else { Stored::Kept });
        }
        let frame = assembly.frames().next().unwrap();
        prop_assert_eq!(frame.bytes(), real.then_some(payload));
        // Lengths alone tell a restored packet's to three bytes.
        prop_assert!(real && frame.size == size || frame.size.abs_diff(size) <= 3 * u32::from(frame.count));
    }

    /// Whatever a reliable stream holds, nothing of it goes, and the frame to be decoded next always
    /// finds room.
    #[test]
    fn a_reliable_stream_keeps_all_it_has_and_room_for_the_next_frame(
        packets in prop::collection::vec((1u32..3_000, any::<u16>()), 0..3_000)
    ) {
        let mut assembly = Assembly::new(Class::Reliable);
        let mut kept = 0;
        for (frame, index) in packets {
            let count = 1 + (frame * 7 % 600) as u16;
            let media = reliable(frame, index % count, count);
            if assembly.room_for(&media, 1_400, || false) == Room::Free {
                let stored = assembly.insert(&media, 1_400, Some(Bytes::from_static(&[0; 1_400])), || LATER);
                kept += usize::from(matches!(stored, Stored::Kept | Stored::Complete));
            }
            prop_assert!(assembly.frames.len() <= FRAMES && assembly.held <= MAX_BYTES);
        }
        prop_assert_eq!(kept, assembly.frames.iter().map(|frame| frame.have as usize).sum::<usize>());
        for index in 0..MAX_PACKETS {
            let media = reliable(0, index, MAX_PACKETS);
            prop_assert_eq!(assembly.room_for(&media, 1_400, || true), Room::Free);
            assembly.insert(&media, 1_400, Some(Bytes::from_static(&[0; 1_400])), || LATER);
        }
    }

    #[test]
    fn hostile_packets_stay_within_bounds(
        packets in prop::collection::vec((any::<u32>(), any::<u16>(), 1u16.., any::<u8>()), 0..500)
    ) {
        let mut assembly = Assembly::new(Class::Deadline);
        for (frame, index, count, part) in packets {
            let index = (u32::from(index) % (u32::from(count) + u32::from(part))) as u16;
            take(&mut assembly, &Media { part, ..media(frame, index, count) });
            prop_assert!(assembly.frames.len() <= FRAMES && assembly.held <= MAX_BYTES);
            prop_assert_eq!(assembly.held, assembly.frames.iter().map(|frame| frame.weight).sum::<usize>());
        }
    }

    /// Packets of few small frames, parity among them, that contradict each other in number and length, with
    /// bytes or without.
    #[test]
    fn parity_that_contradicts_itself_does_no_harm(
        packets in prop::collection::vec(
            (0u32..3, 0u16..12, 1u16..6, 0u8..5, 0usize..7, any::<bool>()), 0..200
        )
    ) {
        let mut assembly = Assembly::new(Class::Deadline);
        for (frame, index, count, part, length, real) in packets {
            let index = index % (count + u16::from(part));
            let bytes = (real && length > 0).then(|| Bytes::from(vec![frame as u8; length]));
            let media = Media { part, ..media(frame, index, count) };
            assembly.insert(&media, length, bytes, || LATER);
            prop_assert_eq!(assembly.held, assembly.frames.iter().map(|frame| frame.weight).sum::<usize>());
            prop_assert!(assembly.frames.iter().all(|frame| frame.have <= u32::from(frame.count)));
            assembly.frames.iter().for_each(|frame| drop(frame.bytes()));
        }
    }

    /// A live stream goes on whatever is missing of it: the newest frame always finds room.
    #[test]
    fn a_newer_frame_is_never_refused(missing in prop::collection::vec(any::<bool>(), FRAMES..FRAMES + 200)) {
        let mut assembly = Assembly::new(Class::Deadline);
        for (frame, &missing) in (0..).zip(&missing) {
            prop_assert!(take(&mut assembly, &media(frame, 0, 2)));
            prop_assert!(missing || take(&mut assembly, &media(frame, 1, 2)));
        }
        prop_assert_eq!(assembly.newest() as usize, missing.len() - 1);
    }
}
