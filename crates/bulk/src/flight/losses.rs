//! Which transmissions can no longer be on their way.

use cc::Lost;
use transport::State;
use units::{Span, Time};

use super::{Flight, NONE, Settled, Standing};
use crate::rack::DUP_THRESH;

impl Flight {
    /// Bytes selectively acknowledged make it pressing to repair: [`DUP_THRESH`] segments' worth (RFC 8985
    /// section 6.2.4).
    pub fn is_pressing(&self, mss: u32) -> bool {
        let (mut bytes, enough) = (0, DUP_THRESH * u64::from(mss));
        self.sacked.descending().any(|(from, to)| {
            bytes += to - from;
            bytes >= enough
        })
    }

    /// RFC 6675 section 4, IsLost: three ranges, or more than two segments' bytes, have arrived above.
    /// Applies to first transmissions only: section 5 leaves lost retransmissions to the timeout.
    #[cold]
    pub fn find_lost_by_sack(&mut self, mss: u32, out: &mut Settled) {
        let (mut bytes, mut ranges) = (0, 0);
        let edge = self.sacked.descending().find(|(from, to)| {
            bytes += to - from;
            ranges += 1;
            ranges >= DUP_THRESH || bytes > (DUP_THRESH - 1) * u64::from(mss)
        });
        let Some((edge, _)) = edge else { return };
        let mut segment = self.judged_below.max(self.first);
        while let Some(slot) = self.segments.get((segment - self.first) as usize).copied()
            && slot.start < edge
        {
            let first_time =
                || self.ledger.get(slot.packet).is_some_and(|sent| sent.carried.previous == NONE);
            if slot.standing == Standing::Outstanding && first_time() {
                self.lose(slot.packet, out);
            }
            segment += 1;
        }
        self.judged_below = segment;
    }

    /// RFC 8985 section 6.2, step 5: sent before transmission `newest`, which arrived, and at least
    /// `patience` ago. Returns when the next one would have to be given up; [`Time::MAX`] for never.
    pub fn find_lost_by_time(&mut self, now: Time, newest: u64, patience: Span, out: &mut Settled) -> Time {
        let mut packet = self.settled_below.max(self.ledger.oldest());
        let mut due = Time::MAX;
        while packet < newest {
            if let Some(sent) = self.ledger.get(packet).filter(|sent| sent.state == State::InFlight) {
                if sent.sent_at + patience > now {
                    due = sent.sent_at + patience;
                    break;
                }
                self.lose(packet, out);
            }
            packet += 1;
        }
        self.settled_below = self.settled_below.max(packet);
        due
    }

    /// The retransmission timeout: the first segment is lost, and with it all that was sent at least
    /// `patience` ago (RFC 8985 section 6.3), or everything without one (RFC 6675 section 5.1).
    pub fn time_out(&mut self, now: Time, patience: Option<Span>, out: &mut Settled) {
        out.clear();
        let head = self.segments.front().map_or(NONE, |slot| slot.packet);
        self.timeout = Some((self.first, self.ledger.next_packet()));
        let mut left = None;
        for packet in self.settled_below.max(self.ledger.oldest())..self.ledger.next_packet() {
            if let Some(sent) = self.ledger.get(packet).filter(|sent| sent.state == State::InFlight) {
                if packet == head || patience.is_none_or(|patience| sent.sent_at + patience <= now) {
                    self.lose(packet, out);
                } else {
                    left = left.or(Some(packet));
                }
            }
        }
        self.settled_below = left.unwrap_or(self.ledger.next_packet());
        self.distrust_sack();
        // The first segment is sent again even if its last transmission is forgotten.
        self.requeue(self.first);
        self.judged_below = self.judged_below.max(self.first + self.segments.len() as u64);
    }

    /// The first segment can't have arrived: where it is said to have, the receiver has thrown away what it
    /// acknowledged selectively, and nothing it said of that holds (RFC 2018 section 8).
    fn distrust_sack(&mut self) {
        if self.segments.front().is_none_or(|slot| slot.standing != Standing::Arrived) {
            return;
        }
        self.sacked.clear();
        for slot in self.segments.iter_mut().filter(|slot| slot.standing == Standing::Arrived) {
            slot.standing = Standing::Lost;
            self.waiting += 1;
        }
        self.resend_from = self.first;
    }

    /// The timeout was spurious: what was given up and not sent again since is in flight.
    pub fn undo_timeout(&mut self) {
        for index in 0..self.segments.len() {
            let slot = &mut self.segments[index];
            if slot.standing == Standing::Lost && slot.packet >= self.ledger.oldest() {
                slot.standing = Standing::Outstanding;
                self.waiting -= 1;
                self.ledger.settle(slot.packet, State::InFlight);
            }
        }
        // Losses from before the timeout are found again.
        (self.settled_below, self.judged_below) = (self.ledger.oldest(), self.first);
    }

    /// A transmission whose segment arrived by another one is known to have been lost.
    pub fn lose_doubled(&mut self, packet: u64, out: &mut Settled) {
        self.ledger.settle(packet, State::InFlight);
        self.lose(packet, out);
    }

    fn lose(&mut self, packet: u64, out: &mut Settled) {
        let lost = self.give_up(packet);
        out.lost.push(lost);
    }

    pub(super) fn give_up(&mut self, packet: u64) -> Lost {
        let lost = self.ledger.lose(packet);
        let segment = self.ledger.get(packet).map(|sent| sent.carried.segment);
        if let Some(segment) = segment.filter(|&segment| segment >= self.first)
            && self.slot(segment).packet == packet
        {
            self.requeue(segment);
        }
        lost
    }

    fn requeue(&mut self, segment: u64) {
        let Some(slot) = self.segments.get_mut((segment - self.first) as usize) else { return };
        if slot.standing == Standing::Outstanding {
            slot.standing = Standing::Lost;
            self.waiting += 1;
            self.resend_from = self.resend_from.min(segment);
        }
    }
}
