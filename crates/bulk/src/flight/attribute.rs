//! Which transmission brought a segment.

use transport::{Arrived, State, Transmission};
use units::{Ecn, Span, Sparing, Time, likely, unlikely};
use wire::SegmentAck;

use super::{Flight, NONE, Piece, ROOM, Settled, Slot, Standing};
use crate::config::Attribution;

impl Flight {
    /// When a transmission was sent, if it is remembered.
    pub(super) fn sent_at(&self, packet: u64) -> Option<Time> {
        self.ledger.get(packet).map(|sent| sent.sent_at)
    }

    /// A segment has arrived, which until now was as `slot` says. Settles its transmissions and says which
    /// one brought it.
    #[inline(always)]
    pub(super) fn deliver(
        &mut self,
        now: Time,
        slot: Slot,
        ack: &SegmentAck,
        least: Span,
        out: &mut Settled,
    ) {
        let Slot { start, end, standing, again, packet: latest, .. } = slot;
        self.waiting -= u64::from(standing == Standing::Lost);
        if unlikely(latest < self.ledger.oldest()) {
            // Forgotten for want of room: it counts, but says nothing.
            return self.ledger.count_delivered(now, end - start);
        }
        if likely(end > self.forward) {
            self.forward = end;
        } else {
            out.reordered |= !again && end < self.forward;
        }
        let (chosen, sure) =
            if unlikely(again) { self.judge(latest, now, ack, least) } else { (latest, true) };
        let sent_at = self.acknowledge(now, chosen, ack, out);
        take_times(now, (chosen, sent_at), sure, ack, least, out);
    }

    /// Of a segment that was sent several times: the transmission that its arrival is put down to, and
    /// whether that is sure. The others are settled.
    #[cold]
    fn judge(&mut self, latest: u64, now: Time, ack: &SegmentAck, least: Span) -> (u64, bool) {
        let chosen = self.attribute(latest, now, ack, least);
        self.settle_others(latest, chosen);
        (chosen, self.attribution == Attribution::Transmission && is_named(ack, chosen))
    }

    /// The transmission the arrival of its segment is put down to.
    fn attribute(&self, latest: u64, now: Time, ack: &SegmentAck, least: Span) -> u64 {
        if self.attribution == Attribution::Segment {
            return latest;
        }
        let named = self.chain(latest).find(|(packet, _)| is_named(ack, *packet));
        // The acknowledgement that named it was lost: then the latest that was sent long enough ago.
        let plausible = || self.chain(latest).find(|(_, sent)| now - sent.sent_at >= least);
        named.or_else(plausible).or_else(|| self.chain(latest).last()).map_or(latest, |(packet, _)| packet)
    }

    /// A segment's transmissions, the latest first, as far as they are remembered.
    fn chain(&self, latest: u64) -> impl Iterator<Item = (u64, &Transmission<Piece>)> {
        let known = |packet| self.ledger.get(packet).map(|sent| (packet, sent));
        std::iter::successors(known(latest), move |(_, sent)| {
            known(sent.carried.previous).filter(|_| sent.carried.previous != NONE)
        })
    }

    /// The other transmissions of a segment that arrived are moot.
    fn settle_others(&mut self, latest: u64, chosen: u64) {
        let mut packet = latest;
        while let Some(sent) = self.ledger.get(packet).copied() {
            if sent.state == State::InFlight && packet != chosen {
                self.ledger.settle(packet, State::Moot);
            }
            packet = sent.carried.previous;
        }
    }

    /// Transmission `packet` arrived; it is in flight no more. Returns when it was sent.
    #[inline(always)]
    fn acknowledge(&mut self, now: Time, packet: u64, ack: &SegmentAck, out: &mut Settled) -> Time {
        let arrival = ack.arrivals().iter().find(|arrival| arrival.packet == packet);
        let newest = || ack.arrivals().last().is_some_and(|newest| newest.packet == packet);
        let ecn = if unlikely(ack.ce) && newest() { Ecn::Ce } else { Ecn::NotEct };
        let arrived = Arrived { at: arrival.map(|arrival| arrival.at), ecn };
        let (acked, before) = self.ledger.acknowledge_from(now, packet, arrived);
        if unlikely(before == State::Lost) {
            out.spurious.push(packet);
        }
        out.acked.put(ROOM, acked);
        acked.sent_at
    }

    /// Transmissions named whose segments arrived by another one: with a snapshot for each, they are
    /// acknowledged like any other, and what was given up is known to have been given up for nothing.
    pub(super) fn settle_duplicates(&mut self, now: Time, ack: &SegmentAck, out: &mut Settled) {
        if self.attribution == Attribution::Segment {
            return;
        }
        for arrival in ack.arrivals() {
            let lost = match self.ledger.get(arrival.packet).map(|sent| sent.state) {
                Some(State::Moot) => false,
                Some(State::Lost) if self.has_arrived(arrival.packet) => true,
                _ => continue,
            };
            self.acknowledge(now, arrival.packet, ack, out);
            if lost {
                // Its segment's bytes were acknowledged already.
                out.acked.pop();
            }
        }
    }

    fn has_arrived(&self, packet: u64) -> bool {
        self.ledger.get(packet).is_some_and(|sent| {
            let segment = sent.carried.segment;
            segment < self.first || self.slot(segment).standing == Standing::Arrived
        })
    }

    /// The first segment of the last timeout arrived by a transmission from before it (RFC 3522 section 3).
    pub(super) fn note_spurious_timeout(&mut self, ack: &SegmentAck, out: &mut Settled) {
        let Some((head, next)) = self.timeout else { return };
        let original = |packet: u64| {
            packet < next && self.ledger.get(packet).is_some_and(|sent| sent.carried.segment == head)
        };
        if ack.arrivals().iter().any(|arrival| original(arrival.packet)) {
            out.timeout_was_spurious = true;
        }
        if out.timeout_was_spurious || ack.arrivals().iter().any(|arrival| arrival.packet >= next) {
            self.timeout = None;
        }
    }

    /// A tail loss probe is out: whether its segment's earlier transmission `doubled` must have been lost.
    /// `None` while that is not known. Where arrivals are attributed, the probe's says so; where not, an
    /// acknowledgement beyond `end` without a report of a duplicate does (RFC 8985 section 7.4).
    pub(crate) fn was_needed(&self, doubled: u64, end: u64, duplicate: bool) -> Option<bool> {
        if duplicate && self.una >= end {
            return Some(false);
        }
        match (self.attribution, self.ledger.get(doubled).map(|sent| sent.state)) {
            (Attribution::Transmission, Some(State::Moot)) => Some(true),
            (_, None | Some(State::Acked | State::Lost)) => Some(false),
            (Attribution::Segment, Some(State::Moot)) if self.una > end => Some(true),
            _ => None,
        }
    }
}

/// What the arrival of `packet`, sent at the instant beside it, says about round trips. `sure`: it was this
/// very transmission. If not, the segment gives no sample (Karn's rule), and RACK takes it only if it is not
/// too fast and nothing older brought the acknowledgement about (RFC 8985 section 6.2, step 2).
#[inline(always)]
fn take_times(
    now: Time,
    (packet, sent_at): (u64, Time),
    sure: bool,
    ack: &SegmentAck,
    least: Span,
    out: &mut Settled,
) {
    if likely(sure) {
        out.timed = Some(match out.timed {
            None => (sent_at, sent_at),
            Some((oldest, newest)) => (oldest.min(sent_at), newest.max(sent_at)),
        });
    }
    let echoed = || ack.arrivals().last().is_some_and(|newest| newest.packet >= packet);
    let counts = sure || (now - sent_at >= least && echoed());
    if counts && out.newest.is_none_or(|(newest, _)| packet > newest) {
        out.newest = Some((packet, sent_at));
    }
}

fn is_named(ack: &SegmentAck, packet: u64) -> bool {
    ack.arrivals().iter().any(|arrival| arrival.packet == packet)
}
