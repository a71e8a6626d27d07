//! The receiving side: reassembly, and acknowledgements.

use record::{Dropped, Event, Tap, Topic};
use units::{Ecn, RelativeDelay, Sparing, Time, cold_path, likely, unlikely};
use wire::{Endpoint, Kind, RxMeta, Segment, SegmentAck, SegmentArrival, TxMeta};

use crate::config::ReceiverConfig;
use crate::counters::ReceiverCounters;
use crate::ranges::Ranges;

/// The receiving endpoint. What it delivers is counted and forgotten.
#[derive(Clone)]
pub struct Receiver {
    config: ReceiverConfig,
    session: Option<u32>,
    tap: Tap,
    /// Everything below has arrived.
    next: u64,
    out_of_order: Ranges,
    /// First bytes of the segments that arrived out of order, the newest first: their ranges are reported
    /// (RFC 2018).
    recent: [Option<u64>; SegmentAck::MAX_BLOCKS],
    duplicate: Option<(u64, u64)>,
    /// Arrivals since the last acknowledgement, oldest first.
    arrivals: Vec<SegmentArrival>,
    unacked: u32,
    ce: bool,
    due: bool,
    deadline: Option<Time>,
    /// Where the stream ends, once that is known.
    end: Option<u64>,
    finished_at: Option<Time>,
    counters: ReceiverCounters,
}

impl Receiver {
    /// A receiver that has heard nothing.
    pub fn new(config: ReceiverConfig, tap: Tap) -> Receiver {
        Receiver {
            config,
            session: config.session,
            tap,
            next: 0,
            out_of_order: Ranges::default(),
            recent: [None; SegmentAck::MAX_BLOCKS],
            duplicate: None,
            arrivals: Vec::with_capacity(SegmentAck::MAX_ARRIVALS),
            unacked: 0,
            ce: false,
            due: false,
            deadline: None,
            end: None,
            finished_at: None,
            counters: ReceiverCounters::default(),
        }
    }

    /// A copy that goes on by itself and records with `tap`.
    pub fn fork(&self, tap: Tap) -> Option<Receiver> {
        Some(Receiver { tap, ..self.clone() })
    }

    /// Counts since the start.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// When the last byte of the stream had been delivered, if it has one.
    pub fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    fn on_segment(&mut self, now: Time, segment: Segment, meta: &RxMeta) {
        let from = segment.sequence;
        let to = from + meta.length.saturating_sub(Segment::LEN) as u64;
        if unlikely(from == to) {
            // A handshake: answered at once, and nothing to put together.
            self.session = Some(segment.session);
            self.note(now, &segment, meta.ecn);
            self.due = true;
            return;
        }
        let had_gaps = !self.out_of_order.is_empty();
        let in_order = from <= self.next && to > self.next;
        let full = self.out_of_order.len() >= self.config.ranges;
        if unlikely(!in_order) && to > self.next && full && self.out_of_order.containing(from).is_none() {
            self.counters.buffer_full += 1;
            self.tap.record(now, Event::HostDropped { cause: Dropped::BufferFull });
            return;
        }
        self.session = Some(segment.session);
        if unlikely(segment.last) {
            self.end = Some(to);
        }
        let new = self.accept(from, to);
        self.note(now, &segment, meta.ecn);
        if likely(new) {
            self.counters.packets += 1;
            self.record_arrival(now, &segment, meta.length as u32);
        } else {
            self.counters.duplicates += 1;
            self.tap.record(now, Event::HostDropped { cause: Dropped::Duplicate });
            self.duplicate = self.config.dsack.then_some((from, to)).filter(|_| from < to);
        }
        // RFC 5681 section 4.2: at once where something is missing, was missing or came twice; and at the
        // stream's end, as a closing TCP does.
        if unlikely(!in_order || had_gaps || meta.ecn == Ecn::Ce || self.is_complete()) {
            self.due = true;
        }
        self.schedule(now);
    }

    /// Enters the stream's bytes; true if any are new.
    fn accept(&mut self, from: u64, to: u64) -> bool {
        let before = self.counters.bytes;
        if unlikely(to <= self.next) {
            return false;
        }
        if likely(from <= self.next && self.out_of_order.is_empty()) {
            self.counters.bytes += to - self.next;
            self.next = to;
        } else {
            let (low, bytes) = (from.max(self.next), &mut self.counters.bytes);
            self.out_of_order.insert(low, to, |low, high| *bytes += high - low);
            self.next = self.out_of_order.advance(self.next);
            if from > self.next {
                self.remember(from);
            }
        }
        self.counters.delivered = self.next;
        self.counters.bytes > before
    }

    fn remember(&mut self, from: u64) {
        let last = self.recent.len() - 1;
        let known = self.recent.iter().position(|place| *place == Some(from)).unwrap_or(last);
        self.recent[..=known].rotate_right(1);
        self.recent[0] = Some(from);
    }

    fn note(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        if unlikely(self.arrivals.len() == SegmentAck::MAX_ARRIVALS) {
            self.arrivals.remove(0);
        }
        self.arrivals.put(1, SegmentArrival { packet: segment.packet, at: now.on_wire() });
        self.unacked += 1;
        self.ce = ecn == Ecn::Ce;
    }

    fn record_arrival(&self, now: Time, segment: &Segment, size: u32) {
        if self.tap.wants(Topic::Packets) {
            let owd = RelativeDelay::between(segment.sent, now);
            let packet = segment.packet;
            self.tap.record(
                now,
                Event::PacketReceived { packet, size, stream: 0, frame: u32::MAX, version: 0, owd },
            );
        }
    }

    fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    fn schedule(&mut self, now: Time) {
        if unlikely(self.is_complete()) && self.finished_at.is_none() {
            self.finished_at = Some(now);
        }
        if self.unacked >= self.config.ack_every {
            self.due = true;
        }
        if !self.due && self.deadline.is_none() {
            self.deadline = Some(now + self.config.ack_delay);
        }
    }

    /// Writes an acknowledgement's SACK blocks in the order of RFC 2018 section 4, and returns their number,
    /// from 0 to what the configuration allows.
    fn blocks(&mut self, blocks: &mut [(u64, u64); SegmentAck::MAX_BLOCKS]) -> usize {
        let most = self.config.sack_blocks.clamp(1, SegmentAck::MAX_BLOCKS);
        let mut count = 0;
        if let Some(duplicate) = self.duplicate.take() {
            cold_path();
            (blocks[0], count) = (duplicate, 1);
        }
        let own = count;
        if self.out_of_order.is_empty() {
            if unlikely(self.recent[0].is_some()) {
                self.recent = [None; SegmentAck::MAX_BLOCKS];
            }
            return count;
        }
        for place in self.recent.iter().flatten() {
            let Some(range) = self.out_of_order.containing(*place) else { continue };
            if count < most && !blocks[own..count].contains(&range) {
                (blocks[count], count) = (range, count + 1);
            }
        }
        count
    }

    /// Whether segments may be of this session: until one has come, of any.
    fn expects(&self, session: u32) -> bool {
        self.session.is_none_or(|ours| ours == session)
    }

    /// What is no segment of this session.
    #[cold]
    fn refuse(&mut self, now: Time, datagram: &[u8]) {
        let cause = match wire::peek(datagram) {
            Ok((Kind::Segment, session)) if self.expects(session) => Dropped::Malformed,
            Ok(_) => Dropped::Foreign,
            Err(_) => Dropped::Malformed,
        };
        match cause {
            Dropped::Malformed => self.counters.malformed += 1,
            _ => self.counters.foreign += 1,
        }
        self.tap.record(now, Event::HostDropped { cause });
    }
}

/// The datagram of an acknowledgement with `blocks` SACK blocks is as long as makes its IP packet TCP's: 40
/// bytes, 12 for timestamps, and 4 and 8 for each block (RFC 2018), less the 28 that every datagram travels
/// with.
fn tcp_length(blocks: usize) -> usize {
    24 + if blocks > 0 { 4 + 8 * blocks } else { 0 }
}

impl Endpoint for Receiver {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        match Segment::decode(datagram) {
            Ok(segment) if likely(self.expects(segment.session)) => self.on_segment(now, segment, &meta),
            _ => self.refuse(now, datagram),
        }
    }

    fn wake(&mut self, now: Time) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.due = true;
        }
    }

    fn next_wake(&self) -> Option<Time> {
        self.deadline
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let mut blocks = [(0, 0); SegmentAck::MAX_BLOCKS];
        let count = self.blocks(&mut blocks);
        let blocks = &blocks[..count];
        let head = SegmentAck::write(self.session?, self.next, self.ce, &self.arrivals, blocks, out);
        self.arrivals.clear();
        (self.unacked, self.ce, self.deadline) = (0, false, None);
        self.counters.acks += 1;
        let length = head.max(tcp_length(count));
        if self.tap.wants(Topic::Signals) {
            let sequence = self.counters.acks as u32;
            self.tap.record(now, Event::FeedbackSent { sequence, size: length as u32 });
        }
        Some(TxMeta { head, length, last: true, ..TxMeta::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    const MSS: u64 = 1448;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Hands over segment number `n` and returns the acknowledgement it brought about, if it did at once.
    fn give(receiver: &mut Receiver, now: u64, n: u64) -> Option<SegmentAck> {
        let segment =
            Segment { session: 9, sequence: n * MSS, packet: n, sent: ms(now).on_wire(), last: false };
        let mut out = [0; 1500];
        let head = segment.encode(&mut out);
        let meta = RxMeta { length: Segment::LEN + MSS as usize, ..RxMeta::default() };
        receiver.receive(ms(now), &out[..head], meta);
        ack(receiver, now)
    }

    fn ack(receiver: &mut Receiver, now: u64) -> Option<SegmentAck> {
        let mut out = [0; 1500];
        let meta = receiver.transmit(ms(now), &mut out)?;
        assert!(receiver.transmit(ms(now), &mut out).is_none());
        Some(SegmentAck::decode(&out[..meta.head]).unwrap())
    }

    fn receiver() -> Receiver {
        Receiver::new(ReceiverConfig::default(), Tap::default())
    }

    #[test]
    fn every_second_segment_or_forty_milliseconds() {
        let mut receiver = receiver();
        assert_eq!(give(&mut receiver, 10, 0), None);
        assert_eq!(receiver.next_wake(), Some(ms(50)));
        let both = give(&mut receiver, 11, 1).unwrap();
        assert_eq!((both.ack, both.blocks().len(), receiver.next_wake()), (2 * MSS, 0, None));
        let named: Vec<_> = both.arrivals().iter().map(|a| (a.packet, a.at)).collect();
        assert_eq!(named, [(0, ms(10).on_wire()), (1, ms(11).on_wire())]);
        assert_eq!(give(&mut receiver, 20, 2), None);
        receiver.wake(ms(59));
        assert_eq!(ack(&mut receiver, 59), None);
        receiver.wake(ms(60));
        assert_eq!(ack(&mut receiver, 60).map(|a| a.ack), Some(3 * MSS));
        assert_eq!(receiver.next_wake(), None);
    }

    #[test]
    fn a_handshake_is_answered_at_once_and_delivers_nothing() {
        let mut receiver = receiver();
        let segment = Segment { session: 9, sequence: 0, packet: 0, sent: ms(1).on_wire(), last: false };
        let mut out = [0; 1500];
        let head = segment.encode(&mut out);
        receiver.receive(ms(1), &out[..head], RxMeta { length: Segment::LEN, ..RxMeta::default() });
        let answer = ack(&mut receiver, 1).unwrap();
        assert_eq!((answer.ack, answer.arrivals().len(), answer.blocks().len()), (0, 1, 0));
        assert_eq!((receiver.counters().packets, receiver.counters().duplicates), (0, 0));
        // The first data waits for more, as ever.
        assert_eq!(give(&mut receiver, 2, 0), None);
    }

    #[test]
    fn gaps_are_reported_at_once_the_newest_block_first() {
        let mut receiver = receiver();
        let block = |low: u64, high: u64| (low * MSS, high * MSS);
        assert_eq!(give(&mut receiver, 1, 1).unwrap().blocks(), [block(1, 2)]);
        assert_eq!(give(&mut receiver, 2, 3).unwrap().blocks(), [block(3, 4), block(1, 2)]);
        assert_eq!(give(&mut receiver, 3, 5).unwrap().blocks(), [block(5, 6), block(3, 4), block(1, 2)]);
        // Three blocks are all there is room for, and the oldest goes.
        let ack = give(&mut receiver, 4, 7).unwrap();
        assert_eq!((ack.ack, ack.blocks()), (0, &[block(7, 8), block(5, 6), block(3, 4)][..]));
        assert_eq!(give(&mut receiver, 5, 4).unwrap().blocks(), [block(3, 6), block(7, 8), block(1, 2)]);
        // The hole at the front: acknowledged at once, as is what follows while anything is missing.
        let ack = give(&mut receiver, 6, 0).unwrap();
        assert_eq!((ack.ack, ack.blocks()), (2 * MSS, &[block(3, 6), block(7, 8)][..]));
        assert_eq!(give(&mut receiver, 7, 2).unwrap().ack, 6 * MSS);
        let ack = give(&mut receiver, 8, 6).unwrap();
        assert_eq!((ack.ack, ack.blocks().len()), (8 * MSS, 0));
        assert_eq!(receiver.counters().bytes, 8 * MSS);
        assert_eq!(give(&mut receiver, 9, 8), None);
    }

    #[test]
    fn duplicates_are_reported_first() {
        let mut receiver = receiver();
        give(&mut receiver, 1, 0);
        give(&mut receiver, 1, 2);
        // RFC 2883: below the acknowledgement, and within the block after it.
        assert_eq!(give(&mut receiver, 2, 0).unwrap().blocks(), [(0, MSS), (2 * MSS, 3 * MSS)]);
        assert_eq!(give(&mut receiver, 3, 2).unwrap().blocks(), [(2 * MSS, 3 * MSS), (2 * MSS, 3 * MSS)]);
        assert_eq!(receiver.counters().duplicates, 2);
        assert_eq!(receiver.counters().bytes, 2 * MSS);
    }

    #[test]
    fn a_mark_is_echoed_at_once_and_memory_is_bounded() {
        let config = ReceiverConfig { ranges: 2, ..ReceiverConfig::default() };
        let mut receiver = Receiver::new(config, Tap::default());
        [2, 4, 6, 8].iter().for_each(|&n| assert_eq!(give(&mut receiver, 1, n).is_some(), n < 6));
        assert_eq!((receiver.out_of_order.len(), receiver.counters().buffer_full), (2, 2));
        assert_eq!(give(&mut receiver, 2, 0).map(|a| (a.ack, a.ce)), Some((MSS, false)));
        let mut out = [0; 1500];
        let segment = Segment { session: 9, sequence: MSS, packet: 7, sent: ms(3).on_wire(), last: false };
        let head = segment.encode(&mut out);
        receiver.receive(ms(3), &out[..head], RxMeta { length: 1472, payload: None, ecn: Ecn::Ce });
        assert!(ack(&mut receiver, 3).unwrap().ce);
        assert_eq!(receiver.config.ack_delay, Span::from_millis(40));
    }
}
