//! What goes out: repairs first, then new data, as window and pacing allow.

use transport::Leaving;
use units::{Bytes, Time, cold_path, likely, unlikely};
use wire::{Segment, TxMeta};

use super::{Probe, Sender};
use crate::config::SenderConfig;
use crate::flight::Outgoing;

impl SenderConfig {
    /// Bytes of a full segment's datagram (UDP payload): what a controller's set-up calls the MTU.
    pub fn datagram(&self) -> u32 {
        self.mss + Segment::LEN as u32
    }
}

impl Sender {
    /// Payload of the next new segment: what there is to send, as far as the peer's window reaches.
    #[inline]
    pub(super) fn fresh_payload(&self) -> Option<u32> {
        let waiting = self.application.written() - self.flight.next();
        let room = (self.flight.una() + self.config.receive_window).saturating_sub(self.flight.next());
        let payload = waiting.min(u64::from(self.config.mss)) as u32;
        (payload > 0 && u64::from(payload) <= room && self.flight.has_room()).then_some(payload)
    }

    /// With nothing in flight something may always go: a window below a datagram would be the end.
    #[inline]
    fn window_allows(&self, size: u32) -> bool {
        let in_flight = self.flight.in_flight();
        unlikely(in_flight == Bytes::ZERO) || self.control.window_allows(in_flight, u64::from(size))
    }

    /// Something would leave if its time had come.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        if unlikely(self.opening.is_some()) {
            return false;
        }
        if unlikely(self.probe_due) {
            return true;
        }
        let repair = self.flight.has_waiting();
        if unlikely(repair) && self.repair_at_once {
            return true;
        }
        (likely(self.fresh_payload().is_some()) || repair) && self.window_allows(self.config.datagram())
    }

    #[inline]
    pub(super) fn transmit_segment(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.is_held(now) {
            return None;
        }
        let size = self.transmit_allowed(now, out)?;
        let (length, ecn, last) = (size as usize, self.config.ecn, self.is_held(now));
        Some(TxMeta { head: Segment::LEN, length, ecn, last, ..TxMeta::default() })
    }

    /// True if pacing lets nothing leave at `now`. That counts as limited (RFC 9002 section 7.8).
    #[inline(always)]
    fn is_held(&mut self, now: Time) -> bool {
        let held = self.pacer.next() > now;
        if held {
            // Once is enough until the next report.
            if unlikely(!self.control.is_limited())
                && (self.flight.has_waiting() || self.fresh_payload().is_some())
            {
                self.control.limit();
            }
            self.pacer.pause();
        }
        held
    }

    /// Writes the header of the next segment, whose time has come, if there is one and the window has room
    /// for it; returns its datagram's bytes.
    #[inline(always)]
    fn transmit_allowed(&mut self, now: Time, out: &mut [u8]) -> Option<u32> {
        if unlikely(std::mem::take(&mut self.probe_due)) {
            return self.transmit_probe(now, out);
        }
        if let Some(size) = self.flight.waiting_size() {
            cold_path();
            if !self.repair_at_once && !self.window_allows(size) {
                self.control.limit();
                return self.pause();
            }
            self.repair_at_once = false;
            let outgoing = self.flight.resend(now);
            return Some(self.dispatch(now, outgoing, true, out));
        }
        let Some(payload) = self.fresh_payload() else {
            cold_path();
            let dry = self.application.written() == self.flight.next();
            if dry && self.window_allows(self.config.datagram()) {
                self.flight.limit_by_application();
            }
            return self.pause();
        };
        if unlikely(!self.window_allows(payload + Segment::LEN as u32)) {
            self.control.limit();
            return self.pause();
        }
        Some(self.transmit_fresh(now, payload, out))
    }

    /// Nothing leaves, and nothing follows at once what left before.
    #[inline]
    fn pause(&mut self) -> Option<u32> {
        self.pacer.pause();
        None
    }

    #[inline(always)]
    fn transmit_fresh(&mut self, now: Time, payload: u32, out: &mut [u8]) -> u32 {
        let end = self.flight.next() + u64::from(payload);
        let last = unlikely(end == self.application.written()) && self.application.is_closed();
        let outgoing = self.flight.send(now, payload, last);
        let size = self.dispatch(now, outgoing, false, out);
        self.schedule_probe(now);
        size
    }

    /// RFC 8985 section 7.3: new data if there is any, else the last segment again.
    #[cold]
    fn transmit_probe(&mut self, now: Time, out: &mut [u8]) -> Option<u32> {
        let end = self.flight.next();
        self.counters.probes += 1;
        if let Some(payload) = self.fresh_payload() {
            self.probe = Some(Probe { end, doubled: None });
            return Some(self.transmit_fresh(now, payload, out));
        }
        let Some((outgoing, doubled)) = self.flight.probe(now) else { return self.pause() };
        self.probe = Some(Probe { end, doubled: Some(doubled) });
        Some(self.dispatch(now, outgoing, true, out))
    }

    /// Enters a transmission everywhere and writes its header; returns its datagram's bytes.
    #[inline(always)]
    fn dispatch(&mut self, now: Time, outgoing: Outgoing, again: bool, out: &mut [u8]) -> u32 {
        let Outgoing { packet, start, size, last, head } = outgoing;
        self.pacer.sent(now, Bytes::new(u64::from(size)));
        // RFC 6298 section 5.1; and, as Linux does, afresh when the first segment is sent again.
        if unlikely(self.timeout_at == Time::MAX || (again && head)) {
            self.timeout_at = now + self.timeout();
        }
        self.counters.packets += 1;
        self.counters.bytes += u64::from(size);
        self.counters.retransmissions += u64::from(again);
        let app_limited = !self.flight.has_waiting() && self.application.written() == self.flight.next();
        let leaving = Leaving { now, packet, size, frame: None, retransmission: again, app_limited };
        self.control.sent(&leaving, self.flight.ledger());
        let segment =
            Segment { session: self.config.session, sequence: start, packet, sent: now.on_wire(), last };
        segment.encode(out);
        size
    }
}
