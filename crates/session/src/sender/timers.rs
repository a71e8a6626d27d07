//! What time brings: frames to capture, losses to declare, silence to break.

use units::{Bytes, Span, Time};
use wire::Media;

use super::Sender;
use crate::config::SenderConfig;
use crate::rate;

/// Probe timeouts back off to at most this, so that a path that comes back is noticed within it.
const MAX_PROBE_TIMEOUT: Span = Span::from_millis(500);

impl Sender {
    pub(super) fn capture(&mut self, now: Time) {
        let room = self.room();
        let config = SenderConfig { mtu: self.mtu(), ..self.config };
        for index in 0..self.videos.len() {
            self.videos[index].collect(now, room, &mut self.counters, &self.tap);
            if self.videos[index].capture_at().is_some_and(|at| at <= now) {
                let view = self.rate_view(now, index);
                let plan = self.policies.rate.plan(&view);
                let wander = self.decision.frame_jitter.mul_f64(self.rng.uniform_in(-1.0, 1.0));
                let (counters, tap) = (&mut self.counters, &self.tap);
                self.videos[index].capture(now, plan, wander, &config, counters, tap);
                self.videos[index].collect(now, room, counters, tap);
            }
            self.fresh[index] = self.videos[index].outbox.waiting_packets();
        }
    }

    pub(super) fn rate_view(&self, now: Time, index: usize) -> rate::View {
        let outbox = &self.videos[index].outbox;
        rate::View {
            now,
            advice: self.decision.media,
            window: self.decision.window,
            srtt: self.rtt.smoothed(),
            queued: Bytes::new(outbox.waiting_bytes()) + self.repair_bytes(),
            waited: outbox.waiting_since().map_or(Span::ZERO, |since| now - since),
            patience: self.config.patience,
            limits: self.limits,
        }
    }

    /// Payload a packet carries.
    pub(super) fn room(&self) -> u32 {
        (self.mtu() - Media::LEN) as u32
    }

    pub(super) fn expire(&mut self, now: Time) {
        for (index, video) in self.videos.iter_mut().enumerate() {
            let unsent = video.outbox.expire(now);
            if unsent > 0 {
                self.counters.expired += unsent;
                video.want_key();
            }
            self.fresh[index] = video.outbox.waiting_packets();
        }
    }

    pub(super) fn probe_timeout_at(&self) -> Option<Time> {
        let backed_off = self.rtt.probe_timeout() * (1 << self.timeouts_in_a_row.min(6));
        (self.ledger.in_flight() > Bytes::ZERO).then(|| self.last_sent_at + backed_off.min(MAX_PROBE_TIMEOUT))
    }

    pub(super) fn run_timers(&mut self, now: Time) {
        if self.ledger.loss_at().is_some_and(|at| at <= now) {
            self.ledger.find_losses_at(now, &self.rtt, &mut self.settled);
            if !self.settled.is_empty() {
                self.report(now, &[]);
            }
        }
        if !self.probe_due && self.probe_timeout_at().is_some_and(|at| at <= now) {
            self.probe_due = true;
            self.timeouts_in_a_row += 1;
            self.counters.timeouts += 1;
        }
        if self.controller.next_timer().is_some_and(|at| at <= now) {
            self.controller.on_timer(now);
            self.apply_decision();
            self.record_decision(now);
        }
    }
}
