use super::*;
use crate::rate::LONGEST_WAIT;
use proptest::prelude::*;
use units::Rate;
use wire::Media;

/// The next packet leaves, if there is one.
fn advance(outbox: &mut Outbox, now: Time) -> bool {
    let Some(frame) = outbox.at_mut(outbox.sending()) else { return false };
    let (length, done) = (frame.part(frame.next).0, frame.leave(now));
    outbox.advance(now, length as u32, done);
    done
}

/// A frame by itself.
fn frame(info: FrameInfo, mut coded: Coded, room: u32) -> OutFrame {
    let mut frame = OutFrame::default();
    frame.renew(info, &mut coded, 0, Time::ZERO, room);
    frame
}

fn coded(frame: u32, size: u32, pieces: Vec<u32>) -> Coded {
    let payload = Some((0..size).map(|b| b as u8).collect());
    Coded {
        frame,
        size,
        payload,
        key: false,
        refers_to: None,
        keeps: None,
        target: Rate::ZERO,
        pieces,
        apart: false,
        quality: None,
        quantiser: None,
        took: None,
        earlier: 0,
    }
}
fn info(frame: u32) -> FrameInfo {
    FrameInfo {
        id: FrameId::first(frame),
        captured: Time::ZERO,
        born: Time::ZERO,
        deadline: Time::from_millis(400),
        reference: frame.checked_sub(1).map(FrameId::first),
        height: 0,
        parity: 0.0,
    }
}

proptest! {
    #[test]
    fn parts_cover_the_frame_once(
        cuts in prop::collection::btree_set(1u32..20_000, 0..20), size in 1u32..20_000, room in 80u32..1400
    ) {
        let mut pieces: Vec<u32> = cuts.into_iter().filter(|&cut| cut < size).collect();
        if !pieces.is_empty() {
            pieces.push(size);
        }
        let frame = frame(info(1), coded(1, size, pieces), room);
        let parts: Vec<_> = (0..frame.count).map(|index| frame.part(index)).collect();
        prop_assert!(parts.iter().all(|(length, _)| (1..=room as usize).contains(length)));
        let bytes: Vec<u8> = parts.iter().flat_map(|(_, bytes)| bytes.clone().unwrap()).collect();
        prop_assert_eq!(bytes, (0..size).map(|b| b as u8).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_left_is_the_packets_from_the_next_one_on(
        (size, room, at) in (1u32..20_000, 80u32..1400, any::<prop::sample::Index>()),
        (parity, pieces) in (prop_oneof![Just(0.0), 0.1..1.0], prop::option::of(1u32..4_000)),
    ) {
        let step = pieces.unwrap_or(size);
        let pieces = pieces.map(|_| (step..size).step_by(step as usize).chain([size]).collect());
        let info = FrameInfo { parity, ..info(1) };
        let coded = coded(1, size, pieces.unwrap_or_default());
        let mut frame = frame(info, coded, room);
        frame.next = at.index(usize::from(frame.total()) + 1) as u16;
        let bytes = (frame.next..frame.total()).map(|index| frame.part(index).0 as u64 + 33);
        prop_assert_eq!(frame.left(33), (bytes.len(), bytes.sum::<u64>()));
    }

    #[test]
    fn frames_are_found_by_name_whatever_order_they_are_sent_in(
        names in Just((0..12u32).flat_map(|frame| [(frame, 0), (frame, 1)]).collect::<Vec<_>>()).prop_shuffle(),
        forgotten in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
    ) {
        let name = |&(frame, version): &(u32, u8)| FrameId { frame, version };
        let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
        for id in names.iter().map(name) {
            outbox.push(FrameInfo { id, ..info(id.frame) }, &mut coded(id.frame, 900, vec![]), Time::ZERO, 1000);
        }
        let mut kept: Vec<FrameId> = names.iter().map(name).collect();
        for at in forgotten {
            let at = at.index(kept.len());
            outbox.drop_at(at);
            let gone = kept.remove(at);
            prop_assert!(outbox.frame(gone).is_none());
            prop_assert!(kept.iter().all(|&id| outbox.frame(id).is_some_and(|frame| frame.info.id == id)));
        }
        let again = FrameInfo { id: FrameId::first(99), ..info(99) };
        outbox.push(again, &mut coded(99, 2_500, vec![]), Time::ZERO, 1000);
        let frame = outbox.frame(again.id).unwrap();
        prop_assert!(frame.packets.len() == 3 && frame.acked == 0 && frame.part(2).1.is_some());
    }

    #[test]
    fn waiting_counts_what_is_left(sends in 0usize..40, expire: bool, drop: bool) {
        let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
        (0..4).for_each(|f| { outbox.push(info(f), &mut coded(f, 5000, vec![]), Time::ZERO, 1000); });
        (0..sends).for_each(|_| { advance(&mut outbox, Time::ZERO); });
        if drop {
            let whole = (sends / 5).min(4) as u64;
            prop_assert_eq!(outbox.drop_waiting(), 4 - whole);
            prop_assert!(outbox.current().is_none());
        }
        if expire {
            outbox.expire(Time::from_millis(1001));
            prop_assert!(outbox.is_empty());
        }
        let left = if expire || drop { 0 } else { 20usize.saturating_sub(sends) };
        prop_assert_eq!(outbox.waiting_packets(), left);
        prop_assert_eq!(outbox.waiting_bytes(), left as u64 * (1000 + Media::LEN as u64));
    }
}

/// Sends a frame of five packets and two parity packets whole.
fn protected() -> Outbox {
    let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
    let info = FrameInfo { parity: 0.4, ..info(1) };
    outbox.push(info, &mut coded(1, 4_990, vec![]), Time::ZERO, 1_000);
    assert_eq!((outbox.waiting_packets(), outbox.current().unwrap().count), (7, 5));
    // Parity packets are as long as the longest packet and two bytes.
    assert_eq!(outbox.waiting_bytes(), 4_990 + 2 * 1_000 + 7 * Media::LEN as u64);
    let sent: Vec<bool> = (0..7).map(|_| advance(&mut outbox, Time::ZERO)).collect();
    assert_eq!(sent, [false, false, false, false, false, false, true]);
    assert_eq!(outbox.waiting_bytes(), 0);
    outbox
}

#[test]
fn a_lost_packet_is_repaired_only_where_no_parity_packet_stands_in_for_it() {
    let (mut outbox, id) = (protected(), FrameId::first(1));
    assert!(outbox.spare(id, 0, false), "its receiver asks before it has the parity packets");
    assert!(outbox.spare(id, 0, true) && outbox.spare(id, 6, true));
    assert!(!outbox.spare(id, 3, true), "the third loss of a frame with two parity packets");
    // One that counted as lost arrives after all.
    assert!(!outbox.acked(id, 0, 7));
    assert!(outbox.spare(id, 4, true));
}

#[test]
fn a_frame_has_arrived_with_as_many_packets_as_it_was_cut_into() {
    let (mut outbox, id) = (protected(), FrameId::first(1));
    let arrived: Vec<bool> = [0, 2, 3, 5, 6, 1].map(|index| outbox.acked(id, index, 7)).to_vec();
    assert_eq!(arrived, [false, false, false, false, true, false]);
    outbox.expire(Time::ZERO);
    assert!(outbox.is_empty());
}

proptest! {
    #[test]
    fn a_path_that_shrinks_is_never_sent_too_much(
        sizes in prop::collection::vec(1u32..6_000, 1..8), sends in 0usize..20, room in 100u32..1_400, sliced: bool
    ) {
        let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
        for (frame, &size) in (0..).zip(&sizes) {
            let pieces = if sliced { vec![size.div_ceil(3), size.div_ceil(2), size] } else { Vec::new() };
            outbox.push(info(frame), &mut coded(frame, size, pieces), Time::ZERO, 1_400);
        }
        (0..sends).for_each(|_| { advance(&mut outbox, Time::ZERO); });
        let begun = |f: &OutFrame| f.next > 0;
        let too_long = |f: &OutFrame| (0..f.count).any(|index| f.part(index).0 > room as usize);
        let unsent = |f: &&OutFrame| begun(f) && f.next < f.count && too_long(f);
        let unsent = outbox.frames.iter().map(|f| &**f).filter(unsent).count() as u64;
        prop_assert_eq!(outbox.fit(room), unsent);
        prop_assert!(outbox.frames.iter().all(|f| !too_long(f)));
        for frame in outbox.frames.iter().filter(|f| !begun(f)) {
            let bytes: Vec<u8> = (0..frame.count).flat_map(|index| frame.part(index).1.unwrap()).collect();
            prop_assert_eq!(bytes, (0..frame.size).map(|b| b as u8).collect::<Vec<_>>());
        }
        // All that is left can still be sent, and nothing is counted twice.
        let left = outbox.waiting_packets();
        (0..left).for_each(|_| { advance(&mut outbox, Time::ZERO); });
        prop_assert_eq!((outbox.waiting_packets(), outbox.waiting_bytes()), (0, 0));
        prop_assert!(outbox.current().is_none());
        // Whatever a frame was cut into, each of its packets can be repeated.
        let kept: usize = outbox.frames.iter().map(|f| usize::from(f.count)).sum();
        prop_assert_eq!(std::iter::from_fn(|| outbox.next_repeat(Time::ZERO)).count(), kept);
    }
}

#[test]
fn a_frame_that_left_says_how_long_it_took() {
    let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
    (0..2).for_each(|f| {
        outbox.push(info(f), &mut coded(f, 2000, vec![]), Time::from_millis(10), 1000);
    });
    [12, 15, 20, 40].iter().for_each(|&ms| {
        advance(&mut outbox, Time::from_millis(ms));
    });
    let told: Vec<_> = outbox.departed.iter().map(|d| (d.frame, d.queued, d.served)).collect();
    let ms = Span::from_millis;
    assert_eq!(told, [(0, ms(5), ms(5)), (1, ms(30), ms(25))]);
}

#[test]
fn what_may_be_missing_is_repeated_once_newest_frame_first() {
    let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
    (0..3).for_each(|f| {
        outbox.push(info(f), &mut coded(f, 2000, vec![]), Time::ZERO, 1000);
    });
    // Two packets a frame, one each 10 ms; the last frame is still on its way out.
    (0..5).for_each(|n| {
        advance(&mut outbox, Time::from_millis(10 * n));
    });
    outbox.acked(FrameId::first(1), 0, 2);
    outbox.acked(FrameId::first(1), 0, 2);
    let repeats = |outbox: &mut Outbox, ms| {
        let repeats = std::iter::from_fn(|| outbox.next_repeat(Time::from_millis(ms)));
        repeats.map(|(id, index)| (id.frame, index)).collect::<Vec<_>>()
    };
    assert_eq!(repeats(&mut outbox, 20), [(1, 1)], "frame 0 left too long ago");
    assert_eq!(repeats(&mut outbox, 0), [(0, 0), (0, 1)]);
}

#[test]
fn what_waits_is_dropped_in_time_behind_a_frame_that_may_be_repaired_for_a_minute() {
    let mut outbox = Outbox::new(Class::Deadline, LONGEST_WAIT, Media::LEN);
    (0..3).for_each(|f| {
        let info = FrameInfo { deadline: Time::from_secs(60), ..info(f) };
        outbox.push(info, &mut coded(f, 1000, vec![]), Time::ZERO, 1000);
    });
    advance(&mut outbox, Time::ZERO);
    assert_eq!(outbox.next_expiry(), Some(Time::ZERO + LONGEST_WAIT + Span::from_nanos(1)));
    assert_eq!(outbox.expire(Time::from_millis(1001)), 2);
    assert_eq!((outbox.waiting_packets(), outbox.waiting_bytes()), (0, 0));
    assert!(outbox.frame(FrameId::first(0)).is_some() && outbox.current().is_none());
    assert_eq!(outbox.next_expiry(), Some(Time::from_secs(60) + Span::from_nanos(1)));
}

#[test]
fn pieces_that_stay_apart_stand_alone() {
    let coded = Coded { apart: true, ..coded(1, 900, vec![400, 500, 900]) };
    let frame = frame(info(1), coded, 1000);
    assert_eq!(frame.count, 3);
    assert!((0..3).all(|index| frame.is_alone(index) && u16::from(frame.piece(index)) == index));
}
