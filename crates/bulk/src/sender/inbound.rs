//! What comes back: acknowledgements, and what follows from them.

use record::{Dropped, Event, Real};
use transport::{News, RoundTrips};
use units::{Ecn, Span, Time, unlikely};

use super::Sender;
use crate::flight::Settled;
use crate::offload::segments;

/// How long beyond two round trips what was given up is remembered, to recognise it should it arrive.
const LATE: Span = Span::from_millis(100);

impl Sender {
    #[inline]
    pub(super) fn on_ack(&mut self, now: Time) {
        if unlikely(self.opening.is_some()) && self.is_opened(now) {
            return;
        }
        let outstanding = self.flight.outstanding() > 0;
        if unlikely(self.flight.settle(now, &self.ack, self.rtt.least_answer(), &mut self.settled).is_err()) {
            self.counters.implausible += 1;
            self.tap.record(now, Event::HostDropped { cause: Dropped::FarFuture });
            return;
        }
        self.counters.acks += 1;
        self.counters.duplicate_acks += u64::from(outstanding && !self.settled.advanced);
        self.counters.dsacks += u64::from(self.settled.duplicate);
        self.counters.acked_bytes = self.flight.una();
        let sampled = self.take_sample(now);
        self.take_back_timeout();
        self.find_losses(now);
        if unlikely(self.probe.is_some()) {
            self.answer_probe();
        }
        self.follow_recovery();
        self.restart_timers(now);
        self.report_here(now, sampled, false);
        // Until a timeout is repaired, all that it gave up may still turn out to have arrived.
        let keep = if self.timed_out { Span::MAX } else { self.rtt.smoothed() * 2 + LATE };
        self.flight.trim(now, keep);
        if self.settled.advanced
            && let Some(done) = self.application.acknowledged(now, self.flight.una())
        {
            let seconds = (done.finished - done.started).as_secs_f64();
            self.observe(now, "transfer_bytes", done.bytes as f64);
            self.observe(now, "transfer_s", seconds);
        }
    }

    #[inline]
    fn take_sample(&mut self, now: Time) -> bool {
        let echo = self.settled.echoed.filter(|_| self.config.timestamps && self.settled.advanced);
        let timed = self.settled.timed.or(echo.map(|echo| (echo, echo)));
        let sampled = timed.is_some();
        if let Some((oldest, newest)) = timed {
            self.rtt.sample(now - oldest, now - newest);
        }
        if self.uses_rack() {
            if unlikely(self.settled.reordered) {
                self.rack.reordered();
            }
            if let Some((packet, sent_at)) = self.settled.newest {
                self.rack.arrived(packet, now - sent_at);
            }
            if unlikely(self.settled.duplicate) {
                self.rack.duplicate(self.flight.una(), self.flight.next());
            }
        }
        sampled
    }

    fn take_back_timeout(&mut self) {
        if unlikely(self.settled.timeout_was_spurious) && self.config.undo {
            self.flight.undo_timeout();
            self.recovery_point = None;
            self.repair_at_once = false;
            self.counters.undone += 1;
        }
    }

    pub(super) fn find_losses(&mut self, now: Time) {
        if !self.uses_rack() {
            // Without gaps there is nothing that later arrivals could tell.
            if unlikely(self.flight.has_gaps()) {
                self.flight.find_lost_by_sack(self.config.mss, &mut self.settled);
            }
        } else if let Some(newest) = self.rack.newest() {
            let patience = self.patience();
            self.loss_at = self.flight.find_lost_by_time(now, newest, patience, &mut self.settled);
        }
    }

    pub(super) fn patience(&self) -> Span {
        let pressing = self.in_recovery() || self.flight.is_pressing(self.config.mss);
        self.rack.patience(pressing, self.rtt.min(), self.rtt.smoothed())
    }

    /// RFC 8985 section 7.4: a loss that only the probe repaired is a loss all the same.
    fn answer_probe(&mut self) {
        let Some(probe) = self.probe else { return };
        let needed = match probe.doubled {
            None => (self.flight.una() >= probe.end).then_some(false),
            Some(doubled) => self.flight.was_needed(doubled, probe.end, self.settled.duplicate),
        };
        if let (Some(true), Some(doubled)) = (needed, probe.doubled) {
            self.flight.lose_doubled(doubled, &mut self.settled);
            self.settled.lost.sort_unstable_by_key(|lost| lost.packet);
        }
        if needed.is_some() {
            self.probe = None;
        }
    }

    /// Begins a recovery with the first loss, and ends it when all that had been sent by then is
    /// acknowledged.
    pub(super) fn follow_recovery(&mut self) {
        if unlikely(self.recovery_point.is_some_and(|point| self.flight.una() >= point)) {
            self.recovery_point = None;
            self.timed_out = false;
            self.rack.recovered();
        }
        if unlikely(!self.settled.lost.is_empty()) && !self.in_recovery() {
            self.counters.recoveries += 1;
            if self.flight.has_waiting() {
                self.recovery_point = Some(self.flight.next());
                self.repair_at_once = true;
            }
        }
    }

    /// As [`report_here`](Sender::report_here), for timers.
    #[cold]
    pub(super) fn report(&mut self, now: Time, sampled: bool, timeout: bool) {
        self.report_here(now, sampled, timeout);
    }

    /// Tells the controller and the records what was just settled. `timeout`: the retransmission timeout
    /// settled it.
    #[inline(always)]
    fn report_here(&mut self, now: Time, sampled: bool, timeout: bool) {
        let Settled { acked, lost, spurious, in_order, .. } = &self.settled;
        let marked = || acked.iter().filter(|acked| acked.ecn == Ecn::Ce).count() as u32;
        let news = News {
            acked,
            lost,
            spurious,
            ce_marks: if unlikely(self.ack.ce) { marked() } else { 0 },
            persistent_congestion: timeout,
            recovering: Some(self.in_recovery()),
            in_order: *in_order,
            blob: &[],
        };
        let rtt = RoundTrips {
            latest: self.rtt.latest().filter(|_| sampled),
            smoothed: self.rtt.smoothed(),
            variation: self.rtt.variation(),
            min: self.rtt.min(),
        };
        self.control.report(now, &news, self.flight.ledger(), &rtt);
        self.counters.lost += lost.len() as u64;
        self.counters.spurious += spurious.len() as u64;
        self.control.record_settled(now, &news, &rtt);
        self.apply_decision();
        self.record_decision(now);
    }

    pub(super) fn record_decision(&self, now: Time) {
        let pacing = self.control.decision().pacing.filter(|_| self.config.paced);
        self.control.record_decision(now, pacing);
    }

    pub(super) fn observe(&self, now: Time, name: &'static str, value: f64) {
        self.tap.record(now, Event::Observed { name, value: Real(value) });
    }

    #[inline]
    pub(super) fn apply_decision(&mut self) {
        let decision = self.control.decision();
        let pacing = decision.bulk_pacing().filter(|_| self.config.paced);
        if self.config.offload {
            let together = pacing.map_or(1, |rate| segments(rate, self.config.datagram()));
            return self.pacer.apply_in_bunches(pacing, together);
        }
        self.pacer.apply(pacing, decision.burst, decision.tick);
    }
}
