//! What comes back: acknowledgements, and what follows from them.

use cc::{Decision, Report};
use record::{Dropped, Event, Real};
use units::{Bytes, Ecn, Rate, Span, Time};
use wire::SegmentAck;

use super::Sender;
use crate::offload::segments;

/// How long beyond two round trips what was given up is remembered, to recognise it should it arrive.
const LATE: Span = Span::from_millis(100);

impl Sender {
    pub(super) fn on_ack(&mut self, now: Time, datagram: &[u8]) {
        let Ok(ack) = SegmentAck::decode(datagram) else { return self.refuse_malformed(now) };
        if self.is_opened(now, &ack) {
            return;
        }
        let outstanding = self.flight.outstanding() > 0;
        if self.flight.settle(now, &ack, self.rtt.least_answer(), &mut self.settled).is_err() {
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
        self.answer_probe();
        self.follow_recovery();
        self.restart_timers(now);
        self.report(now, sampled, false);
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
            for &(end, again) in &self.settled.arrived {
                self.rack.reached(end, again);
            }
            if let Some((packet, sent_at)) = self.settled.newest {
                self.rack.arrived(packet, now - sent_at);
            }
            if self.settled.duplicate {
                self.rack.duplicate(self.flight.una(), self.flight.next());
            }
        }
        sampled
    }

    fn take_back_timeout(&mut self) {
        if self.settled.timeout_was_spurious && self.config.undo {
            self.flight.undo_timeout();
            self.recovery_point = None;
            self.repair_at_once = false;
            self.counters.undone += 1;
        }
    }

    pub(super) fn find_losses(&mut self, now: Time) {
        if !self.uses_rack() {
            self.flight.find_lost_by_sack(self.config.mss, &mut self.settled);
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

    /// Begins a recovery with the first loss, and ends it when all that had been sent by then is acknowledged.
    pub(super) fn follow_recovery(&mut self) {
        if self.recovery_point.is_some_and(|point| self.flight.una() >= point) {
            self.recovery_point = None;
            self.timed_out = false;
            self.rack.recovered();
        }
        if !self.settled.lost.is_empty() && !self.in_recovery() {
            self.counters.recoveries += 1;
            if self.flight.has_waiting() {
                self.recovery_point = Some(self.flight.next());
                self.repair_at_once = true;
            }
        }
    }

    /// Tells the controller and the records what was just settled. `timeout`: the retransmission timeout settled it.
    pub(super) fn report(&mut self, now: Time, sampled: bool, timeout: bool) {
        let marked = |ecn: Ecn| ecn == Ecn::Ce;
        let report = Report {
            now,
            acked: &self.settled.acked,
            lost: &self.settled.lost,
            spurious: &self.settled.spurious,
            in_flight: self.flight.in_flight(),
            limited: std::mem::take(&mut self.limited),
            latest_rtt: self.rtt.latest().filter(|_| sampled),
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.variation(),
            min_rtt: self.rtt.min(),
            ce_marks: self.settled.acked.iter().filter(|acked| marked(acked.ecn)).count() as u32,
            persistent_congestion: timeout,
            recovering: Some(self.in_recovery()),
            delivered: self.flight.delivered(),
            lost_bytes: self.flight.lost(),
            in_order: self.settled.in_order,
            blob: &[],
        };
        self.controller.on_feedback(&report);
        self.counters.lost += self.settled.lost.len() as u64;
        self.counters.spurious += self.settled.spurious.len() as u64;
        self.apply_decision();
        if self.tap.is_on() {
            self.record_settled(now, sampled);
            self.record_decision(now);
        }
    }

    fn record_settled(&self, now: Time, sampled: bool) {
        for acked in &self.settled.acked {
            self.tap.record(now, Event::PacketAcked { packet: acked.packet, size: acked.size });
        }
        for lost in &self.settled.lost {
            self.tap.record(now, Event::PacketLost { packet: lost.packet, size: lost.size });
        }
        for &packet in &self.settled.spurious {
            self.tap.record(now, Event::LossSpurious { packet });
        }
        if let Some(latest) = self.rtt.latest().filter(|_| sampled) {
            self.tap.record(now, Event::Rtt { latest, smoothed: self.rtt.smoothed() });
        }
    }

    pub(super) fn record_decision(&self, now: Time) {
        if !self.tap.is_on() {
            return;
        }
        let Decision { window, pacing, media, .. } = self.decision;
        let window = window.map_or(u64::MAX, Bytes::get);
        let pacing = pacing.filter(|_| self.config.paced).unwrap_or(Rate::MAX);
        let media = media.unwrap_or(Rate::MAX);
        self.tap.record(now, Event::Decision { window, pacing, media });
        self.controller.observe(&mut |name, value| self.observe(now, name, value));
    }

    pub(super) fn observe(&self, now: Time, name: &'static str, value: f64) {
        self.tap.record(now, Event::Observed { name, value: Real(value) });
    }

    #[inline]
    pub(super) fn apply_decision(&mut self) {
        self.decision = self.controller.decision();
        let pacing = self.decision.bulk_pacing().filter(|_| self.config.paced);
        if self.config.offload {
            let together = pacing.map_or(1, |rate| segments(rate, self.config.datagram()));
            return self.pacer.apply_in_bunches(pacing, together);
        }
        self.pacer.apply(pacing, self.decision.burst, self.decision.tick);
    }
}
