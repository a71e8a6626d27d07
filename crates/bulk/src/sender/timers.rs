//! What time brings: retransmission timeouts, tail loss probes, the end of RACK's patience, new transfers.

use units::{Span, Time, unlikely};

use super::Sender;
use super::opening::Opening;
use crate::rack::Rack;
use crate::rtt::Rtt;
use transport::Pacer;

/// RFC 8985 section 7.2: the probe timeout before any round-trip sample.
const FIRST_PROBE: Span = Span::from_secs(1);

impl Sender {
    pub(super) fn timeout(&self) -> Span {
        self.rtt.timeout(self.config.rto_min, self.config.rto_max)
    }

    /// After an acknowledgement: RFC 6298 sections 5.2 and 5.3, and RFC 8985 section 7.2.
    #[inline]
    pub(super) fn restart_timers(&mut self, now: Time) {
        if unlikely(self.flight.outstanding() == 0) {
            (self.timeout_at, self.probe_at, self.loss_at) = (Time::MAX, Time::MAX, Time::MAX);
            self.probe_due = false;
            return;
        }
        if self.settled.advanced {
            self.timeout_at = now + self.timeout();
        }
        if !self.settled.acked.is_empty() {
            self.schedule_probe(now);
        }
    }

    /// RFC 8985 section 7.2: two round trips after the last news, unless losses are known or a probe is out.
    #[inline]
    pub(super) fn schedule_probe(&mut self, now: Time) {
        self.probe_at = Time::MAX;
        if !self.uses_rack() || self.probe.is_some() || self.in_recovery() || self.flight.has_gaps() {
            return;
        }
        let mut after = if self.rtt.is_known() { self.rtt.smoothed() * 2 } else { FIRST_PROBE };
        if self.flight.outstanding() == 1 {
            after += self.config.ack_delay;
        }
        self.probe_at = self.timeout_at.min(now + after);
    }

    pub(super) fn run_timers(&mut self, now: Time) {
        if unlikely(self.loss_at <= now) {
            self.settled.clear();
            self.find_losses(now);
            if !self.settled.is_empty() {
                self.follow_recovery();
                self.report(now, false, false);
            }
        }
        if unlikely(self.probe_at <= now) {
            self.probe_at = Time::MAX;
            self.probe_due = true;
            // RFC 8985 section 7.3: the timeout counts from the probe on.
            self.timeout_at = now + self.timeout();
        }
        if unlikely(self.timeout_at <= now) {
            self.time_out(now);
        }
        if self.control.run_timer(now) {
            self.apply_decision();
            self.record_decision(now);
        }
    }

    /// RFC 6298 sections 5.4 to 5.6.
    fn time_out(&mut self, now: Time) {
        self.counters.timeouts += 1;
        (self.probe, self.probe_at, self.probe_due, self.loss_at) = (None, Time::MAX, false, Time::MAX);
        let patience = self.uses_rack().then(|| self.patience());
        self.flight.time_out(now, patience, &mut self.settled);
        self.recovery_point = Some(self.flight.next());
        (self.repair_at_once, self.timed_out) = (true, true);
        self.rtt.back_off();
        self.timeout_at = now + self.timeout();
        self.observe(now, "rto_s", self.timeout().as_secs_f64());
        self.report(now, false, true);
    }

    pub(super) fn start_transfer(&mut self, now: Time) {
        let first = self.application.written() == 0;
        if !self.application.start(now) || first {
            return;
        }
        if let Some(make) = &mut self.fresh {
            self.control.replace(make());
            (self.rtt, self.rack) = (Rtt::default(), Rack::default());
            self.pacer = Pacer::in_bunches(self.config.bunch);
            self.opening = self.config.handshake.then(Opening::default);
            (self.recovery_point, self.probe, self.timed_out) = (None, None, false);
            self.apply_decision();
        }
    }
}
