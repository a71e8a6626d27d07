//! Segments of 1000 bytes, numbered from 0; transmission `n` leaves at `n` ms unless told otherwise.

use super::*;
use proptest::prelude::*;
use units::Ecn;
use wire::SegmentArrival;

const MSS: u64 = 1000;
const DATAGRAM: u64 = MSS + Segment::LEN as u64;

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn sent(attribution: Attribution, count: u64) -> Flight {
    let mut flight = Flight::new(attribution);
    (0..count).for_each(|n| assert_eq!(flight.send(ms(n), MSS as u32, false).packet, n));
    flight
}

/// Settles an acknowledgement of all segments below `ack`, the segments in `blocks`, and arrivals by number.
fn hear(flight: &mut Flight, now: u64, ack: u64, blocks: &[(u64, u64)], named: &[u64]) -> Settled {
    let blocks: Vec<_> = blocks.iter().map(|(low, high)| (low * MSS, high * MSS)).collect();
    let at = |packet: &u64| SegmentArrival { packet: *packet, at: ms(now - 20).on_wire() };
    let named: Vec<_> = named.iter().map(at).collect();
    let ack = SegmentAck::new(1, ack * MSS, false, &named, &blocks);
    let mut out = Settled::default();
    flight.settle(ms(now), &ack, Span::from_millis(40), &mut out).unwrap();
    out
}

fn acked(out: &Settled) -> Vec<u64> {
    out.acked.iter().map(|acked| acked.packet).collect()
}

fn lost(out: &Settled) -> Vec<u64> {
    out.lost.iter().map(|lost| lost.packet).collect()
}

#[test]
fn acknowledgements_in_and_out_of_order_settle_once() {
    let mut flight = sent(Attribution::Transmission, 10);
    let out = hear(&mut flight, 45, 2, &[(4, 6)], &[1, 4, 5]);
    assert_eq!((acked(&out), out.advanced), (vec![0, 1, 4, 5], true));
    assert_eq!(out.timed, Some((ms(0), ms(5))));
    let arrived: Vec<_> = out.acked.iter().map(|a| a.arrived_at.is_some()).collect();
    assert_eq!(arrived, [false, true, true, true]);
    assert_eq!((flight.in_flight().get(), flight.ledger().delivered()), (6 * DATAGRAM, 4 * DATAGRAM));
    let out = hear(&mut flight, 46, 2, &[(4, 7)], &[6]);
    assert_eq!((acked(&out), out.advanced), (vec![6], false));
    let out = hear(&mut flight, 47, 10, &[], &[9]);
    assert_eq!(acked(&out), [2, 3, 7, 8, 9]);
    assert_eq!((flight.in_flight(), flight.outstanding(), flight.has_gaps()), (Bytes::ZERO, 0, false));
    assert!(hear(&mut flight, 48, 7, &[(8, 9)], &[3]).is_empty(), "old news");
}

#[test]
fn what_was_sent_once_and_arrives_below_another_is_reordered() {
    let mut flight = sent(Attribution::Transmission, 4);
    assert!(!hear(&mut flight, 45, 0, &[(2, 3)], &[2]).reordered);
    let mut out = Settled::default();
    flight.find_lost_by_time(ms(100), 2, Span::ZERO, &mut out);
    assert_eq!((lost(&out), flight.resend(ms(100)).packet), (vec![0, 1], 4));
    assert!(!hear(&mut flight, 150, 1, &[(2, 3)], &[4]).reordered, "a retransmission");
    assert!(hear(&mut flight, 151, 3, &[], &[1]).reordered);
    assert!(!hear(&mut flight, 152, 4, &[], &[3]).reordered);
}

#[test]
fn a_mark_belongs_to_the_newest_arrival() {
    let mut flight = sent(Attribution::Transmission, 3);
    let named = [1, 2].map(|packet| SegmentArrival { packet, at: ms(20 + packet).on_wire() });
    let mut out = Settled::default();
    flight.settle(ms(45), &SegmentAck::new(1, 3 * MSS, true, &named, &[]), Span::ZERO, &mut out).unwrap();
    let marks: Vec<_> = out.acked.iter().map(|acked| acked.ecn).collect();
    assert_eq!(marks, [Ecn::NotEct, Ecn::NotEct, Ecn::Ce]);
}

#[test]
fn what_was_never_sent_changes_nothing() {
    let mut flight = sent(Attribution::Transmission, 3);
    let mut out = Settled::default();
    let at = ms(5).on_wire();
    let lies = [
        SegmentAck::new(1, 3001, false, &[], &[]),
        SegmentAck::new(1, 0, false, &[], &[(2000, 3001)]),
        SegmentAck::new(1, 1000, false, &[SegmentArrival { packet: 3, at }], &[]),
    ];
    for lie in lies {
        assert_eq!(flight.settle(ms(9), &lie, Span::ZERO, &mut out), Err(NeverSent));
    }
    assert_eq!((flight.una(), flight.in_flight().get()), (0, 3 * DATAGRAM));
}

#[test]
fn rfc_6675_wants_three_segments_above() {
    let mut flight = sent(Attribution::Segment, 12);
    let mut out = hear(&mut flight, 45, 1, &[(2, 4)], &[3]);
    flight.find_lost_by_sack(MSS as u32, &mut out);
    assert_eq!(lost(&out), []);
    let mut out = hear(&mut flight, 46, 1, &[(2, 5)], &[4]);
    flight.find_lost_by_sack(MSS as u32, &mut out);
    assert_eq!(lost(&out), [1]);
    // Three ranges do as well: 5 has three above, 7 only two.
    let mut out = hear(&mut flight, 47, 1, &[(6, 7), (8, 9), (10, 11)], &[10]);
    flight.find_lost_by_sack(MSS as u32, &mut out);
    assert_eq!(lost(&out), [5]);
    assert_eq!(flight.resend(ms(48)).start, 1000);
    assert_eq!(flight.resend(ms(49)).start, 5000);
    assert_eq!(flight.waiting_size(), None);
    // A lost retransmission is left to the timeout.
    let mut out = hear(&mut flight, 60, 1, &[(6, 12)], &[11]);
    flight.find_lost_by_sack(MSS as u32, &mut out);
    assert_eq!(lost(&out), []);
    flight.time_out(ms(1100), None, &mut out);
    assert_eq!(lost(&out), [12, 13], "7, 9 and 11 had arrived");
    assert_eq!((flight.in_flight(), flight.resend(ms(1100)).start), (Bytes::ZERO, 1000));
}

#[test]
fn rack_gives_up_what_was_sent_before_and_long_enough_ago() {
    let mut flight = sent(Attribution::Transmission, 8);
    let mut out = hear(&mut flight, 46, 1, &[(5, 6)], &[0, 5]);
    assert_eq!(out.newest, Some((5, ms(5))));
    // The newest took 41 ms, 10 more are waited: 1 left at 1 ms.
    let patience = Span::from_millis(51);
    assert_eq!(flight.find_lost_by_time(ms(46), 5, patience, &mut out), ms(52));
    assert_eq!(flight.find_lost_by_time(ms(53), 5, patience, &mut out), ms(54));
    assert_eq!(lost(&out), [1, 2]);
    // A retransmission is given up the same way, once a later one has arrived.
    assert_eq!((flight.resend(ms(54)).packet, flight.resend(ms(55)).packet), (8, 9));
    let mut out = hear(&mut flight, 96, 1, &[(2, 3)], &[9]);
    assert_eq!((acked(&out), out.newest), (vec![9], Some((9, ms(55)))));
    flight.find_lost_by_time(ms(106), 9, patience, &mut out);
    assert_eq!(lost(&out), [3, 4, 6, 7, 8]);
    assert_eq!(flight.in_flight(), Bytes::ZERO);
}

/// Segment 0 is lost, and its retransmission too; on the timeout everything is given up and 0 and 1 are sent
/// again; then the first transmission of 1 turns out to have arrived.
fn late_original(attribution: Attribution) -> (Flight, Settled) {
    let mut flight = sent(attribution, 3);
    let mut out = Settled::default();
    flight.time_out(ms(1000), None, &mut out);
    assert_eq!(lost(&out), [0, 1, 2]);
    assert_eq!((flight.resend(ms(1000)).packet, flight.resend(ms(1001)).packet), (3, 4));
    let out = hear(&mut flight, 1002, 0, &[(1, 2)], &[1]);
    (flight, out)
}

#[test]
fn a_transmission_keeps_its_own_snapshot() {
    let (mut flight, out) = late_original(Attribution::Transmission);
    assert_eq!((acked(&out), &out.spurious[..]), (vec![1], &[1][..]));
    assert_eq!((out.acked[0].sent_at, out.acked[0].delivery.in_flight), (ms(1), 2 * DATAGRAM));
    assert_eq!(out.timed, Some((ms(1), ms(1))));
    assert_eq!(flight.in_flight().get(), DATAGRAM, "the second copy of 1 no longer counts");
    // The second copy is acknowledged for what it was, when it arrives.
    let out = hear(&mut flight, 1041, 0, &[(1, 2)], &[4]);
    assert_eq!((acked(&out), out.acked[0].sent_at), (vec![4], ms(1001)));
    assert_eq!(flight.ledger().delivered(), 2 * DATAGRAM);
    assert!(!out.timeout_was_spurious);
}

#[test]
fn a_segment_has_only_its_latest_snapshot() {
    let (mut flight, out) = late_original(Attribution::Segment);
    assert_eq!((acked(&out), out.spurious.len()), (vec![4], 0));
    assert_eq!((out.acked[0].sent_at, out.acked[0].delivery.in_flight), (ms(1001), 2 * DATAGRAM));
    // Karn: no sample; RACK: an answer after a millisecond is none.
    assert_eq!((out.timed, out.newest), (None, None));
    assert!(hear(&mut flight, 1041, 0, &[(1, 2)], &[4]).is_empty());
    assert_eq!(flight.ledger().delivered(), DATAGRAM);
}

#[test]
fn a_spurious_timeout_is_recognised_and_undone() {
    for attribution in [Attribution::Transmission, Attribution::Segment] {
        let mut flight = sent(attribution, 5);
        let mut out = Settled::default();
        flight.time_out(ms(300), None, &mut out);
        flight.resend(ms(300));
        let out = hear(&mut flight, 301, 2, &[], &[0, 1]);
        assert!(out.timeout_was_spurious);
        flight.undo_timeout();
        assert_eq!((flight.in_flight().get(), flight.waiting_size()), (3 * DATAGRAM, None));
        let out = hear(&mut flight, 302, 5, &[], &[4]);
        assert_eq!((acked(&out), flight.in_flight()), (vec![2, 3, 4], Bytes::ZERO));
    }
}

#[test]
fn a_lost_naming_falls_back_on_what_is_plausible() {
    let mut flight = sent(Attribution::Transmission, 1);
    let mut out = Settled::default();
    flight.time_out(ms(1000), None, &mut out);
    flight.resend(ms(1000));
    // 20 ms after the second copy left, with a least round trip of 40: it was the first.
    assert_eq!(acked(&hear(&mut flight, 1020, 1, &[], &[])), [0]);
}

#[test]
fn a_probe_doubles_and_tells_whether_it_was_needed() {
    for (named, needed) in [(vec![3], Some(true)), (vec![2], Some(false))] {
        let mut flight = sent(Attribution::Transmission, 3);
        hear(&mut flight, 45, 2, &[], &[1]);
        let (probe, doubled) = flight.probe(ms(100)).unwrap();
        assert_eq!((probe.packet, probe.start, doubled), (3, 2000, 2));
        assert_eq!(flight.in_flight().get(), 2 * DATAGRAM);
        let mut out = hear(&mut flight, 141, 3, &[], &named);
        assert_eq!((acked(&out), flight.in_flight()), (named.clone(), Bytes::ZERO));
        assert_eq!(flight.was_needed(doubled, 3000, false), needed);
        if needed == Some(true) {
            flight.lose_doubled(doubled, &mut out);
            assert_eq!((lost(&out), flight.in_flight()), (vec![2], Bytes::ZERO));
        }
    }
}

#[test]
fn the_snapshot_says_what_had_been_delivered() {
    let mut flight = sent(Attribution::Transmission, 4);
    hear(&mut flight, 45, 2, &[], &[0, 1]);
    flight.limit_by_application();
    flight.send(ms(50), MSS as u32, true);
    let out = hear(&mut flight, 95, 5, &[], &[4]);
    let last = out.acked.last().unwrap().delivery;
    assert_eq!((last.delivered, last.delivered_at, last.first_sent_at), (2 * DATAGRAM, ms(45), ms(1)));
    assert_eq!((last.in_flight, last.app_limited), (3 * DATAGRAM, true));
    // Nothing outstanding: the interval begins anew.
    flight.send(ms(200), MSS as u32, false);
    let fresh = hear(&mut flight, 245, 6, &[], &[5]).acked[0].delivery;
    assert_eq!((fresh.delivered_at, fresh.first_sent_at, fresh.app_limited), (ms(200), ms(200), false));
}

#[test]
fn memory_is_bounded() {
    let mut flight = sent(Attribution::Transmission, 2);
    let mut out = Settled::default();
    for n in 0..CAPACITY as u64 + 100 {
        flight.time_out(ms(1000 + n), None, &mut out);
        flight.resend(ms(1000 + n));
        flight.trim(ms(1000 + n), Span::from_secs(1_000_000));
    }
    assert_eq!(flight.ledger().iter().count(), CAPACITY);
    let out = hear(&mut flight, 1 << 20, 2, &[], &[]);
    assert!(!out.acked.is_empty() && flight.in_flight() == Bytes::ZERO);
}

#[test]
fn a_receiver_that_forgets_is_served_again() {
    let mut flight = sent(Attribution::Transmission, 4);
    hear(&mut flight, 45, 0, &[(0, 2)], &[0, 1]);
    let mut out = Settled::default();
    flight.time_out(ms(1000), None, &mut out);
    let again: Vec<u64> = (0..4).map(|_| flight.resend(ms(1000)).start / MSS).collect();
    assert_eq!((again, flight.waiting_size()), (vec![0, 1, 2, 3], None));
}

#[derive(Clone, Debug)]
enum Step {
    Send,
    Resend,
    Probe,
    Hear { ack: u64, blocks: Vec<(u64, u64)>, named: Vec<u64> },
    Sack,
    Rack { newest: u64, patience_ms: i64 },
    TimeOut { patience_ms: Option<i64> },
    Undo,
    Trim { keep_ms: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let block = (0u64..40_000, 1u64..6_000);
    prop_oneof![
        8 => Just(Step::Send),
        4 => Just(Step::Resend),
        1 => Just(Step::Probe),
        6 => (0u64..40_000, prop::collection::vec(block, 0..4), prop::collection::vec(0u64..60, 0..4))
            .prop_map(|(ack, blocks, named)| Step::Hear { ack, blocks, named }),
        2 => Just(Step::Sack),
        2 => (0u64..60, 0i64..60).prop_map(|(newest, patience_ms)| Step::Rack { newest, patience_ms }),
        1 => prop::option::of(0i64..60).prop_map(|patience_ms| Step::TimeOut { patience_ms }),
        1 => Just(Step::Undo),
        2 => (0i64..100).prop_map(|keep_ms| Step::Trim { keep_ms }),
    ]
}

fn take(flight: &mut Flight, now: Time, step: &Step, out: &mut Settled) {
    let span = Span::from_millis;
    match step {
        Step::Send => _ = flight.send(now, MSS as u32, false),
        Step::Resend if flight.has_waiting() => _ = flight.resend(now),
        Step::Resend => {}
        Step::Probe => {
            if let Some((_, doubled)) = flight.probe(now)
                && flight.was_needed(doubled, flight.next(), false) == Some(true)
            {
                flight.lose_doubled(doubled, out);
            }
        }
        Step::Hear { ack, blocks, named } => {
            // Within what was sent, but otherwise without sense.
            let (next, packets) = (flight.next(), flight.ledger().next_packet().max(1));
            let blocks: Vec<_> = blocks
                .iter()
                .map(|(from, size)| ((*from).min(next), (from + size).min(next)))
                .filter(|(from, to)| from < to)
                .collect();
            let named: Vec<_> = named
                .iter()
                .map(|packet| SegmentArrival { packet: packet % packets, at: now.on_wire() })
                .filter(|_| next > 0)
                .collect();
            let ack = SegmentAck::new(1, (*ack).min(next), false, &named, &blocks);
            flight.settle(now, &ack, span(3), out).unwrap();
        }
        Step::Sack => flight.find_lost_by_sack(MSS as u32, out),
        Step::Rack { newest, patience_ms } => {
            let newest = (*newest).min(flight.ledger().next_packet());
            flight.find_lost_by_time(now, newest, span(*patience_ms), out);
        }
        Step::TimeOut { patience_ms } => flight.time_out(now, patience_ms.map(span), out),
        Step::Undo => flight.undo_timeout(),
        Step::Trim { keep_ms } => flight.trim(now, span(*keep_ms)),
    }
}

fn check(flight: &Flight) {
    let flying = flight.ledger.iter().map(|(_, sent)| sent).filter(|sent| sent.state == State::InFlight);
    assert_eq!(flying.map(|sent| u64::from(sent.size)).sum::<u64>(), flight.in_flight().get());
    let waits =
        |(n, slot): (usize, &Slot)| (slot.standing == Standing::Lost).then_some(flight.first + n as u64);
    let waiting: Vec<u64> = flight.segments.iter().enumerate().filter_map(waits).collect();
    assert_eq!(waiting.len() as u64, flight.waiting);
    assert!(waiting.iter().all(|segment| *segment >= flight.resend_from));
    // Nothing hangs: a segment that has neither arrived nor waits is in flight by its latest transmission.
    for slot in flight.segments.iter().filter(|slot| slot.standing == Standing::Outstanding) {
        assert_eq!(flight.ledger.get(slot.packet).map(|sent| sent.state), Some(State::InFlight));
    }
    let mut below = flight.ledger.iter().take_while(|(packet, _)| *packet < flight.settled_below);
    assert!(below.all(|(_, sent)| sent.state != State::InFlight));
}

proptest! {
    #[test]
    fn the_books_balance_whatever_is_said(
        per_transmission: bool,
        steps in prop::collection::vec((step(), 0u64..20), 1..150)
    ) {
        let attribution =
            if per_transmission { Attribution::Transmission } else { Attribution::Segment };
        let (mut flight, mut out) = (Flight::new(attribution), Settled::default());
        let mut now = Time::ZERO;
        for (step, later) in steps {
            now += Span::from_millis(later as i64);
            take(&mut flight, now, &step, &mut out);
            check(&flight);
        }
    }
}
