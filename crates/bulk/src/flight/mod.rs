//! The scoreboard: every segment from the first that is not acknowledged on, and every transmission of
//! theirs.
//!
//! ```text
//! segments       [una ........ sacked ... lost ... sacked ........ next)     in order of the stream, a ring
//!                    |latest
//! transmissions  ... 17  18  19  20  21 ...                                   in order of sending, a ring
//!                        ^-------------previous
//! ```
//!
//! A segment's bytes count as in flight once for each transmission that is neither given up nor known to have
//! arrived: RFC 6675's pipe.

mod attribute;
mod losses;

use std::collections::VecDeque;

use cc::{Acked, Lost};
use transport::{Carried, Ledger, State};
use units::{Bytes, Span, Time, likely, unlikely};
use wire::{Segment, SegmentAck};

use crate::config::Attribution;
use crate::ranges::Ranges;

/// Transmissions remembered at most. Older ones in flight are given up.
const CAPACITY: usize = 1 << 17;
/// Segments outstanding at most, each of which may have been sent several times: 47 MB of full ones.
const SEGMENTS: usize = CAPACITY / 4;
/// Room from the start: 256 segments are a window of 74 Mbit/s over 40 ms. Larger windows make it grow.
const ROOM: usize = 256;
/// No transmission.
const NONE: u64 = u64::MAX;

/// What a transmission carries.
#[derive(Clone, Copy, Debug)]
struct Piece {
    segment: u64,
    /// The segment's transmission before, or [`NONE`].
    previous: u64,
}

impl Carried for Piece {}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Outstanding,
    /// Given up, and to be sent again.
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u64,
    end: u64,
    standing: Standing,
    last: bool,
    /// It was sent more than once.
    again: bool,
    /// Its latest transmission.
    packet: u64,
}

/// A segment about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// Number of the transmission.
    pub packet: u64,
    pub start: u64,
    /// Datagram bytes.
    pub size: u32,
    pub last: bool,
    /// It is the first segment that is not acknowledged.
    pub head: bool,
}

/// What one acknowledgement, or one search for losses, found. Kept and cleared by the owner, so that nothing
/// allocates.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// Newly arrived, by number of transmission.
    pub acked: Vec<Acked>,
    /// Newly given up, by number of transmission.
    pub lost: Vec<Lost>,
    /// Given up earlier, arrived after all.
    pub spurious: Vec<u64>,
    /// Something new was acknowledged in order: so many bytes.
    pub advanced: bool,
    pub in_order: u64,
    /// A duplicate was reported.
    pub duplicate: bool,
    /// Oldest and newest send time among what can be timed.
    pub timed: Option<(Time, Time)>,
    /// When the first of the transmissions named had been sent, what TCP's timestamp would echo; only where
    /// nothing can be timed.
    pub echoed: Option<Time>,
    /// A segment that was sent once arrived after one that lies above it (RFC 8985 section 6.2, step 3).
    pub reordered: bool,
    /// The newest transmission that is sure to have arrived.
    pub newest: Option<(u64, Time)>,
    /// A transmission from before the last timeout brought its segment after all.
    pub timeout_was_spurious: bool,
}

impl Default for Settled {
    fn default() -> Settled {
        Settled {
            acked: Vec::with_capacity(ROOM),
            lost: Vec::with_capacity(ROOM),
            spurious: Vec::with_capacity(ROOM),
            advanced: false,
            in_order: 0,
            duplicate: false,
            timed: None,
            echoed: None,
            reordered: false,
            newest: None,
            timeout_was_spurious: false,
        }
    }
}

impl Settled {
    pub fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.spurious.clear();
        (self.advanced, self.duplicate, self.timeout_was_spurious) = (false, false, false);
        self.reordered = false;
        (self.timed, self.echoed, self.newest, self.in_order) = (None, None, None, 0);
    }

    pub fn is_empty(&self) -> bool {
        self.acked.is_empty() && self.lost.is_empty() && self.spurious.is_empty()
    }
}

/// An acknowledgement of what was never sent: a lie, or of another life.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// The scoreboard.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    attribution: Attribution,
    segments: VecDeque<Slot>,
    /// Number of the front segment.
    first: u64,
    ledger: Ledger<Piece>,
    /// Everything below is acknowledged.
    una: u64,
    /// Everything below has been sent.
    next: u64,
    /// Highest byte that has arrived (RFC 8985's RACK.fack).
    forward: u64,
    sacked: Ranges,
    fresh: Vec<(u64, u64)>,
    /// Segments waiting to be sent again, none of them below `resend_from`.
    waiting: u64,
    resend_from: u64,
    /// Transmissions below are not in flight.
    settled_below: u64,
    /// Segments below have been judged by RFC 6675's rule.
    judged_below: u64,
    /// The first segment at the last timeout, and the next transmission's number then.
    timeout: Option<(u64, u64)>,
}

impl Flight {
    pub fn new(attribution: Attribution) -> Flight {
        Flight {
            attribution,
            segments: VecDeque::with_capacity(ROOM),
            first: 0,
            ledger: Ledger::with_room(CAPACITY, 4 * ROOM),
            una: 0,
            next: 0,
            forward: 0,
            sacked: Ranges::default(),
            fresh: Vec::with_capacity(ROOM),
            waiting: 0,
            resend_from: 0,
            settled_below: 0,
            judged_below: 0,
            timeout: None,
        }
    }

    /// Everything below is acknowledged.
    #[inline]
    pub fn una(&self) -> u64 {
        self.una
    }
    /// Everything below has been sent.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }
    /// Every transmission that is not settled yet, with what the reports about it need.
    #[inline]
    pub fn ledger(&self) -> &Ledger<impl Carried> {
        &self.ledger
    }
    /// Bytes in flight.
    #[inline]
    pub fn in_flight(&self) -> Bytes {
        self.ledger.in_flight()
    }
    /// Segments sent and not acknowledged in order.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.segments.len()
    }
    /// Another segment may be sent without outgrowing the scoreboard.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.segments.len() < SEGMENTS
    }
    /// Something has arrived out of order.
    #[inline]
    pub fn has_gaps(&self) -> bool {
        !self.sacked.is_empty()
    }
    /// Some segment waits to be sent again.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }
    /// The application has nothing more to send, though it may: samples say as much about it as about the
    /// path.
    pub fn limit_by_application(&mut self) {
        // Until more than this is delivered (draft-ietf-ccwg-bbr section 4.1.2).
        self.ledger.limit_by_application(self.ledger.delivered() + self.ledger.in_flight().get() + 1);
    }

    /// Sends the next `payload` bytes of the stream; `last`: it ends with them.
    #[inline]
    pub fn send(&mut self, now: Time, payload: u32, last: bool) -> Outgoing {
        // Nothing outstanding, rather than nothing in flight: what a timeout gave up may still arrive.
        if unlikely(self.segments.is_empty()) {
            self.ledger.begin_sample(now);
        }
        let start = self.next;
        self.next += u64::from(payload);
        let standing = Standing::Outstanding;
        self.segments.push_back(Slot { start, end: self.next, standing, last, again: false, packet: NONE });
        self.dispatch(now, self.first + self.segments.len() as u64 - 1)
    }

    /// Datagram bytes of the first segment that waits to be sent again.
    #[inline]
    pub fn waiting_size(&mut self) -> Option<u32> {
        if likely(self.waiting == 0) {
            return None;
        }
        self.resend_from = self.resend_from.max(self.first);
        while self.slot(self.resend_from).standing != Standing::Lost {
            self.resend_from += 1;
        }
        Some(size(self.slot(self.resend_from)))
    }

    /// Sends the first segment that waits again. There must be one.
    #[inline(never)]
    pub fn resend(&mut self, now: Time) -> Outgoing {
        self.waiting_size().expect("a segment waits to be sent again");
        self.dispatch(now, self.resend_from)
    }

    /// Sends the last segment again that has not arrived, though it may still be in flight (RFC 8985 section
    /// 7.3); returns the transmission it doubles, too.
    #[cold]
    pub fn probe(&mut self, now: Time) -> Option<(Outgoing, u64)> {
        let arrived = |slot: &Slot| slot.standing == Standing::Arrived;
        let index = self.segments.iter().rposition(|slot| !arrived(slot))?;
        let doubled = self.segments[index].packet;
        Some((self.dispatch(now, self.first + index as u64), doubled))
    }

    fn slot(&self, segment: u64) -> &Slot {
        &self.segments[(segment - self.first) as usize]
    }

    #[inline(always)]
    fn dispatch(&mut self, now: Time, segment: u64) -> Outgoing {
        if unlikely(self.ledger.is_full()) {
            self.forget_oldest();
        }
        let packet = self.ledger.next_packet();
        let slot = &mut self.segments[(segment - self.first) as usize];
        if unlikely(slot.standing == Standing::Lost) {
            slot.standing = Standing::Outstanding;
            self.waiting -= 1;
        }
        let previous = std::mem::replace(&mut slot.packet, packet);
        slot.again = previous != NONE;
        let size = size(slot);
        let (start, last, head) = (slot.start, slot.last, segment == self.first);
        self.ledger.send(now, size, Piece { segment, previous });
        Outgoing { packet, start, size, last, head }
    }

    /// Settles what `ack` says; losses are looked for separately. `least`: an answer that comes faster is
    /// none.
    ///
    /// # Errors
    /// [`NeverSent`] if it names what was never sent; nothing is changed then.
    #[inline(always)]
    pub fn settle(
        &mut self,
        now: Time,
        ack: &SegmentAck,
        least: Span,
        out: &mut Settled,
    ) -> Result<(), NeverSent> {
        out.clear();
        let unsent = |&(_, end): &(u64, u64)| end > self.next;
        if unlikely(
            ack.ack > self.next
                || ack.beyond_arrivals() > self.ledger.next_packet()
                || ack.blocks().iter().any(unsent),
        ) {
            return Err(NeverSent);
        }
        if unlikely(self.timeout.is_some()) {
            self.note_spurious_timeout(ack, out);
        }
        self.settle_in_order(now, ack, least, out);
        if unlikely(!ack.blocks().is_empty()) {
            self.settle_blocks(now, ack, least, out);
        }
        self.settle_duplicates(now, ack, out);
        if out.acked.len() > 1 && unlikely(!out.acked.is_sorted_by_key(|acked| acked.packet)) {
            out.acked.sort_unstable_by_key(|acked| acked.packet);
        }
        if unlikely(out.timed.is_none()) {
            out.echoed = ack.arrivals().first().and_then(|first| self.sent_at(first.packet));
        }
        if let Some(newest) = out.acked.last() {
            self.ledger.sample_from(newest.sent_at);
        }
        Ok(())
    }

    #[inline(always)]
    fn settle_in_order(&mut self, now: Time, ack: &SegmentAck, least: Span, out: &mut Settled) {
        while let Some(&front) = self.segments.front()
            && front.end <= ack.ack
        {
            self.segments.pop_front();
            self.first += 1;
            if likely(front.standing != Standing::Arrived) {
                self.deliver(now, front, ack, least, out);
            }
        }
        if ack.ack > self.una {
            out.in_order = ack.ack - self.una;
            self.una = ack.ack;
            out.advanced = true;
            self.sacked.advance(self.una);
        }
    }

    #[cold]
    fn settle_blocks(&mut self, now: Time, ack: &SegmentAck, least: Span, out: &mut Settled) {
        let mut blocks = ack.blocks();
        if is_duplicate(ack) {
            out.duplicate = true;
            blocks = &blocks[1..];
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        for &(from, to) in blocks {
            self.sacked.insert(from.max(self.una), to, |low, high| fresh.push((low, high)));
        }
        for (low, high) in fresh.drain(..) {
            let mut index = self.segments.partition_point(|slot| slot.start < low);
            while let Some(slot) = self.segments.get(index)
                && slot.end <= high
            {
                if slot.standing != Standing::Arrived {
                    self.deliver_above(now, self.first + index as u64, ack, least, out);
                }
                index += 1;
            }
        }
        self.fresh = fresh;
    }

    /// A segment has arrived before others that were sent earlier.
    #[cold]
    fn deliver_above(&mut self, now: Time, segment: u64, ack: &SegmentAck, least: Span, out: &mut Settled) {
        let slot = &mut self.segments[(segment - self.first) as usize];
        let before = *slot;
        slot.standing = Standing::Arrived;
        self.deliver(now, before, ack, least, out);
    }

    /// Forgets what nothing more can be learnt of; what was given up, and doubles, are kept for a while.
    #[inline(always)]
    pub fn trim(&mut self, now: Time, keep: Span) {
        let (segments, first) = (&self.segments, self.first);
        // The latest transmission of a segment that waits is needed.
        let needed =
            |packet, segment| segment >= first && segments[(segment - first) as usize].packet == packet;
        self.ledger.forget_while(|packet, sent| match sent.state {
            State::InFlight => false,
            State::Acked => true,
            State::Lost | State::Moot => sent.sent_at + keep <= now && !needed(packet, sent.carried.segment),
        });
        self.settled_below = self.settled_below.max(self.ledger.oldest());
    }

    fn forget_oldest(&mut self) {
        let oldest = self.ledger.oldest();
        if self.ledger.get(oldest).is_some_and(|sent| sent.state == State::InFlight) {
            self.give_up(oldest);
        }
        self.ledger.forget_oldest();
        self.settled_below = self.settled_below.max(self.ledger.oldest());
    }
}

#[inline]
fn size(slot: &Slot) -> u32 {
    (slot.end - slot.start) as u32 + Segment::LEN as u32
}

/// The first block reports a duplicate: it lies below the acknowledgement or within the second one (RFC 2883
/// section 4).
fn is_duplicate(ack: &SegmentAck) -> bool {
    match *ack.blocks() {
        [(_, to), ..] if to <= ack.ack => true,
        [(from, to), (low, high), ..] => low <= from && to <= high,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
