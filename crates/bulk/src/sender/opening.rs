//! The handshake: an empty segment goes out, and nothing else until it is answered.
//!
//! What it is for here is what it tells: the round trip a connection begins with is that of a small packet a
//! round trip before the first data, so that a flow that joins others knows of a shorter one than its own
//! data will ever meet.
//!
//! Deviation: one empty segment of 52 bytes and an acknowledgement stand for TCP's SYN and SYN-ACK of 60 (RFC
//! 9293 section 3.5).

use units::{Span, Time};
use wire::{Segment, TxMeta};

use super::Sender;

/// RFC 6298 section 2.1: before there is a round-trip sample.
const FIRST_TIMEOUT: Span = Span::from_secs(1);

/// A handshake that was not answered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    sent_at: Time,
    attempts: u32,
    /// When it goes out, or once more.
    due_at: Time,
}

impl Sender {
    /// When the handshake leaves; [`Time::MAX`] once it is answered, or while there is nothing to send.
    #[inline]
    pub(super) fn opens_at(&self) -> Time {
        self.opening.filter(|_| self.fresh_payload().is_some()).map_or(Time::MAX, |opening| opening.due_at)
    }

    pub(super) fn transmit_opening(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.opens_at() > now {
            return None;
        }
        let opening = self.opening.as_mut()?;
        // Saturates at the greatest timeout long before the shift matters.
        let patience = (FIRST_TIMEOUT * (1 << opening.attempts.min(20))).min(self.config.rto_max);
        *opening = Opening { sent_at: now, attempts: opening.attempts + 1, due_at: now + patience };
        let segment = Segment {
            session: self.config.session,
            sequence: self.flight.next(),
            packet: self.flight.ledger().next_packet(),
            sent: now.on_wire(),
            last: false,
        };
        let head = segment.encode(out);
        Some(TxMeta { head, length: Segment::LEN, ..TxMeta::default() })
    }

    /// True if the latest acknowledgement answers the handshake. Sent twice, it gives no round-trip sample
    /// (Karn's rule).
    #[inline]
    pub(super) fn is_opened(&mut self, now: Time) -> bool {
        let Some(opening) = self.opening else { return false };
        if opening.attempts == 0 || self.ack.ack != self.flight.next() {
            return false;
        }
        self.opening = None;
        let sampled = opening.attempts == 1;
        if sampled {
            self.rtt.sample(now - opening.sent_at, now - opening.sent_at);
        }
        self.settled.clear();
        self.report(now, sampled, false);
        true
    }
}
