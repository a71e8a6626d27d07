//! Timers and windows, against a peer that says what the test wants. Segments of 1448 bytes, acknowledged 40
//! ms later.

use super::*;
use cc::{Report, Sent};
use units::{Bytes, Rate};
use wire::{Segment, SegmentAck, SegmentArrival};

const MSS: u64 = 1448;

/// A window of so many datagrams, and a rate.
struct Fixed {
    /// In datagrams; 0 limits nothing.
    window: u64,
    pacing: Option<Rate>,
}

impl Controller for Fixed {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_feedback(&mut self, _: &Report<'_>) {}
    fn decision(&self) -> Decision {
        let window = (self.window > 0).then_some(Bytes::new(self.window * 1472));
        Decision { window, pacing: self.pacing, ..Decision::default() }
    }
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// On a connection that is open already.
fn sender(config: SenderConfig, window: u64, segments: u64) -> Sender {
    let config = SenderConfig { handshake: false, ..config };
    let workload = Workload::Transfer(segments * MSS);
    let rng = Rng::stream(1, "flow");
    let mut sender =
        Sender::new(config, Box::new(Fixed { window, pacing: None }), workload, rng, Tap::default());
    sender.wake(Time::ZERO);
    sender
}

/// Segments and transmissions that leave at `now` ms.
fn leaves(sender: &mut Sender, now: u64) -> Vec<(u64, u64)> {
    sender.wake(ms(now));
    let mut out = [0; 1500];
    let (mut left, mut last) = (Vec::new(), false);
    while let Some(meta) = sender.transmit(ms(now), &mut out) {
        assert!(!last, "a segment follows the last one");
        last = meta.last;
        let segment = Segment::decode(&out[..meta.head]).unwrap();
        left.push((segment.sequence / MSS, segment.packet));
    }
    left
}

fn hear(sender: &mut Sender, now: u64, ack: u64, blocks: &[(u64, u64)], named: &[u64]) {
    let blocks: Vec<_> = blocks.iter().map(|(low, high)| (low * MSS, high * MSS)).collect();
    let at = ms(now).on_wire();
    let named: Vec<_> = named.iter().map(|&packet| SegmentArrival { packet, at }).collect();
    let mut out = [0; 1500];
    let length = SegmentAck::new(1, ack * MSS, false, &named, &blocks).encode(&mut out);
    sender.receive(ms(now), &out[..length], RxMeta::default());
}

fn wakes(sender: &Sender) -> Option<u64> {
    sender.next_wake().map(|at| at.as_micros() / 1000)
}

#[test]
fn the_timeout_starts_restarts_doubles_and_stops() {
    let mut sender = sender(SenderConfig::ns3(), 3, 4);
    assert_eq!(leaves(&mut sender, 10), [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(wakes(&sender), Some(1010));
    // New data acknowledged: afresh. A duplicate acknowledgement: not.
    hear(&mut sender, 50, 1, &[], &[0]);
    assert_eq!(leaves(&mut sender, 50), [(3, 3)]);
    assert_eq!(wakes(&sender), Some(1050));
    hear(&mut sender, 60, 1, &[], &[]);
    assert_eq!(wakes(&sender), Some(1050));
    // One segment may leave whatever the window; the window of three allows the others too.
    assert_eq!(leaves(&mut sender, 1050), [(1, 4), (2, 5), (3, 6)]);
    assert_eq!((wakes(&sender), sender.counters.timeouts), (Some(3050), 1));
    assert_eq!(leaves(&mut sender, 3050).len(), 3);
    assert_eq!(wakes(&sender), Some(7050));
    hear(&mut sender, 3090, 4, &[], &[7, 8, 9]);
    assert_eq!((wakes(&sender), sender.is_finished()), (None, true));
}

#[test]
fn karns_rule_keeps_the_timeout_doubled_and_timestamps_do_not() {
    let after = |config: SenderConfig| {
        let mut sender = sender(config, 2, 8);
        leaves(&mut sender, 0);
        hear(&mut sender, 40, 1, &[], &[0]);
        assert_eq!(leaves(&mut sender, 40), [(2, 2)]);
        assert_eq!(leaves(&mut sender, 1040), [(1, 3), (2, 4)]);
        hear(&mut sender, 1080, 2, &[], &[3]);
        sender.timeout().as_nanos() / 1_000_000_000
    };
    assert_eq!(after(SenderConfig::ns3()), 2);
    assert_eq!(after(SenderConfig { timestamps: true, ..SenderConfig::ns3() }), 1);
    assert_eq!(
        after(SenderConfig { attribution: crate::Attribution::Transmission, ..SenderConfig::ns3() }),
        1
    );
}

#[test]
fn a_probe_leaves_after_two_round_trips() {
    let mut sender = sender(SenderConfig::default(), 2, 3);
    assert_eq!(leaves(&mut sender, 0), [(0, 0), (1, 1)]);
    // No sample yet: the timeout of a second is as soon as the probe.
    assert_eq!(wakes(&sender), Some(1000));
    hear(&mut sender, 40, 2, &[], &[0, 1]);
    assert_eq!(leaves(&mut sender, 40), [(2, 2)]);
    // One segment: 80 ms, and 40 for a delayed acknowledgement; the timeout would be 200.
    assert_eq!(wakes(&sender), Some(160));
    assert_eq!(leaves(&mut sender, 159), []);
    assert_eq!(leaves(&mut sender, 160), [(2, 3)]);
    assert_eq!((wakes(&sender), sender.counters.probes), (Some(360), 1));
    // The original had only been held back: nothing was lost.
    hear(&mut sender, 165, 3, &[], &[2]);
    assert_eq!((sender.counters.lost, wakes(&sender)), (0, None));
}

#[test]
fn a_recovery_begins_with_one_segment_whatever_the_window() {
    let mut sender = sender(SenderConfig::ns3(), 8, 20);
    assert_eq!(leaves(&mut sender, 0).len(), 8);
    // A window that has shrunk to one leaves no room with four in flight.
    sender.control.replace(Box::new(Fixed { window: 1, pacing: None }));
    hear(&mut sender, 40, 0, &[(1, 4)], &[1, 2, 3]);
    assert_eq!(leaves(&mut sender, 40), [(0, 8)]);
    assert_eq!((sender.counters.recoveries, wakes(&sender)), (1, Some(1040)));
    hear(&mut sender, 41, 0, &[(1, 5)], &[4]);
    assert_eq!(leaves(&mut sender, 41), []);
}

#[test]
fn rack_waits_a_quarter_of_a_round_trip_for_reordering() {
    let mut sender = sender(SenderConfig::default(), 4, 20);
    leaves(&mut sender, 0);
    hear(&mut sender, 40, 0, &[(1, 2)], &[1]);
    // Sent at 0, the newest took 40 ms: given up 10 ms later, unless it comes.
    assert_eq!(leaves(&mut sender, 40), [(4, 4)]);
    assert_eq!(wakes(&sender), Some(50));
    assert_eq!(leaves(&mut sender, 50), [(0, 5)]);
    assert_eq!(sender.counters.recoveries, 1);
}

#[test]
fn the_peers_window_and_the_pacing_bind() {
    let mut narrow = sender(SenderConfig { receive_window: 3 * MSS, ..SenderConfig::default() }, 0, 9);
    assert_eq!(leaves(&mut narrow, 0), [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(leaves(&mut narrow, 1), []);
    hear(&mut narrow, 40, 1, &[(2, 3)], &[2]);
    assert_eq!(leaves(&mut narrow, 40), [(3, 3)]);

    let mut paced = sender(SenderConfig::default(), 0, 9);
    paced.control.replace(Box::new(Fixed { window: 0, pacing: Some(Rate::from_bps(1472 * 8 * 100)) }));
    paced.apply_decision();
    let left: Vec<usize> = (20..51).map(|at| leaves(&mut paced, at).len()).collect();
    assert_eq!((left.iter().sum::<usize>(), left[0], left[10], left[20], left[30]), (4, 1, 1, 1, 1));
    // The same controller, where the stack does not pace: all nine at once.
    let mut clocked = sender(SenderConfig { paced: false, ..SenderConfig::default() }, 0, 9);
    clocked.control.replace(Box::new(Fixed { window: 0, pacing: Some(Rate::from_bps(1472 * 8 * 100)) }));
    clocked.apply_decision();
    assert_eq!(leaves(&mut clocked, 20).len(), 9);
}

#[test]
fn with_offload_segments_leave_in_pairs_at_the_same_rate() {
    let mut paced = sender(SenderConfig::linux(), 0, 9);
    paced.control.replace(Box::new(Fixed { window: 0, pacing: Some(Rate::from_bps(1472 * 8 * 100)) }));
    paced.apply_decision();
    let left: Vec<usize> = (20..61).map(|at| leaves(&mut paced, at).len()).collect();
    assert_eq!((left.iter().sum::<usize>(), left[0], left[20], left[40]), (6, 2, 2, 2));
}

#[test]
fn foreign_and_implausible_datagrams_are_counted() {
    let mut sender = sender(SenderConfig::default(), 2, 9);
    leaves(&mut sender, 0);
    hear(&mut sender, 1, 3, &[], &[]);
    let mut out = [0; 1500];
    let length = SegmentAck::new(2, MSS, false, &[], &[]).encode(&mut out);
    sender.receive(ms(2), &out[..length], RxMeta::default());
    sender.receive(ms(2), &out[..7], RxMeta::default());
    sender.receive(ms(2), b"x", RxMeta::default());
    let seen = sender.counters();
    assert_eq!((seen.implausible, seen.foreign, seen.malformed, seen.acked_bytes), (1, 2, 1, 0));
}

#[test]
fn nothing_leaves_before_the_handshake_is_answered() {
    let config = SenderConfig::ns3();
    let (controller, rng) = (Box::new(Fixed { window: 3, pacing: None }), Rng::stream(1, "flow"));
    let mut sender = Sender::new(config, controller, Workload::Transfer(9 * MSS), rng, Tap::default());
    assert_eq!(leaves(&mut sender, 0), [(0, 0)]);
    assert_eq!((leaves(&mut sender, 900), wakes(&sender)), (vec![], Some(1000)));
    // Unanswered, it is repeated after 1 s and then 2 s, and gives no round-trip sample.
    assert_eq!((leaves(&mut sender, 1000), wakes(&sender)), (vec![(0, 0)], Some(3000)));
    hear(&mut sender, 1040, 0, &[], &[0]);
    assert_eq!(sender.rtt.latest(), None);
    assert_eq!(leaves(&mut sender, 1040), [(0, 0), (1, 1), (2, 2)]);
    hear(&mut sender, 1080, 3, &[], &[0, 1, 2]);
    assert_eq!((sender.rtt.latest(), sender.counters.packets), (Some(Span::from_millis(40)), 3));
}

#[test]
fn a_handshake_tells_the_round_trip() {
    let mut sender = Sender::new(
        SenderConfig::linux(),
        Box::new(Fixed { window: 3, pacing: None }),
        Workload::Endless,
        Rng::stream(1, "flow"),
        Tap::default(),
    );
    leaves(&mut sender, 5);
    // An answer to something else is none.
    hear(&mut sender, 20, 1, &[], &[0]);
    assert!(sender.opening.is_some());
    hear(&mut sender, 45, 0, &[], &[0]);
    assert_eq!((sender.rtt.latest(), leaves(&mut sender, 45).len()), (Some(Span::from_millis(40)), 3));
}
