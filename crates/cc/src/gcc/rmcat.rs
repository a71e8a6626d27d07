//! The sender half of the receiver-side forms: the loss-based controller under the receiver's limit.

use units::{Bytes, Time};

use crate::{Controller, Decision, Report, Sent, Setup};

use super::loss::{Losses, Silence};
use super::remb;
use super::{PACE, TICK};

/// Carlucci 2016 section 2.2: As by the losses, then As = min(As, Ar).
#[derive(Clone, Debug)]
pub struct Rmcat {
    /// As, in bit/s.
    rate: f64,
    /// Ar, in bit/s, once told.
    limit: Option<f64>,
    losses: Losses,
    silence: Silence,
    bounds: (f64, f64),
}

impl Rmcat {
    /// A new session's state.
    pub fn new(setup: &Setup, losses: Losses) -> Rmcat {
        let bounds = super::bounds(setup);
        Rmcat {
            rate: setup.initial.as_f64().clamp(bounds.0, bounds.1),
            limit: None,
            losses,
            silence: Silence::default(),
            bounds,
        }
    }

    fn set(&mut self, bps: f64) {
        let limited = self.limit.map_or(bps, |limit| bps.min(limit));
        self.rate = limited.clamp(self.bounds.0, self.bounds.1);
    }
}

impl Controller for Rmcat {
    fn on_sent(&mut self, sent: &Sent) {
        self.silence.on_sent(sent.now);
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        if !report.acked.is_empty() {
            self.silence.on_feedback(report.now, report.in_flight > Bytes::ZERO);
        }
        self.limit = remb::decode(report.blob).or(self.limit);
        let rate = self.losses.update(report, self.rate);
        self.set(rate);
    }

    fn on_timer(&mut self, now: Time) {
        if let Some(factor) = self.silence.step(now) {
            self.set(self.rate * factor);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.silence.next()
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        Decision { tick: TICK, ..super::decision(self.rate, PACE) }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("target_bps", self.rate);
        sink("loss_fraction", self.losses.fraction());
        if let Some(limit) = self.limit {
            sink("remb_bps", limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loss::Reports;
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    #[test]
    fn the_smaller_of_both_rates() {
        let mut rmcat = Rmcat::new(&Setup::default(), Losses::Equation(Reports::default()));
        let acks: Vec<_> = (0..99).map(|n| acked(n, 1000)).collect();
        let at = |ms, blob| Report { now: Time::from_millis(ms), blob, ..report(&acks, &[]) };
        rmcat.on_feedback(&at(0, &[]));
        rmcat.on_feedback(&at(1000, &[]));
        assert!((rmcat.rate - 2.1e6).abs() < 1.0);
        let remb = remb::encode(1.5e6);
        rmcat.on_feedback(&at(1001, &remb));
        assert!((rmcat.rate - 1.5e6).abs() < 10.0);
        // The limit stands until another one comes.
        rmcat.on_feedback(&at(2000, &[]));
        assert!((rmcat.rate - 1.5e6).abs() < 10.0);
        let losses: Vec<_> = (0..33).map(|n| lost(n, 1000)).collect();
        rmcat.on_feedback(&Report { lost: &losses, ..at(3000, &[]) });
        assert!((rmcat.rate - 1.5e6 * 0.875).abs() < 10.0, "{}", rmcat.rate);
    }
}
