//! The loss-based controller of the draft (section 6), and what silence does.

use units::{Span, Time};

use crate::Report;

/// Above this share of losses the rate falls, ...
const HIGH: f64 = 0.10;
/// ... below this one it rises ...
const LOW: f64 = 0.02;
/// ... by this factor a report (draft section 6; Carlucci 2016 equation 2).
const RISE: f64 = 1.05;
/// Share of the losses that is taken off the rate.
const FALL: f64 = 0.5;
/// Reports are 360 / (kbit/s) seconds apart (RFC 3550 section 6.2, the reduced minimum), within these bounds: what that
/// gives at 2 Mbit/s, the most a session of Carlucci 2016 sent, and browsers' RTCP interval for video.
const REPORT_RATE: f64 = 360e3;
const REPORT_INTERVAL: (f64, f64) = (0.18, 1.0);

/// As of the draft. Feedback comes per frame here; it is gathered into reports as far apart as RTCP's, for equation 2
/// acts once a report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reports {
    arrived: u64,
    lost: u64,
    began: Option<Time>,
    /// Share lost in the last report.
    fraction: f64,
}

impl Reports {
    /// Takes feedback; returns the factor that `rate` (bit/s) is to be multiplied with if it completes a report.
    pub fn update(&mut self, report: &Report<'_>, rate: f64) -> Option<f64> {
        self.arrived += report.acked.len() as u64;
        self.lost += report.lost.len() as u64;
        // Late is not lost: RTCP's fraction counts what arrived, whenever it was sent.
        self.lost = self.lost.saturating_sub(report.spurious.len() as u64);
        let began = *self.began.get_or_insert(report.now);
        let interval = (REPORT_RATE / rate.max(1.0)).clamp(REPORT_INTERVAL.0, REPORT_INTERVAL.1);
        let all = self.arrived + self.lost;
        if all == 0 || (report.now - began).as_secs_f64() < interval {
            return None;
        }
        self.fraction = self.lost as f64 / all as f64;
        *self = Reports { fraction: self.fraction, began: Some(report.now), ..Reports::default() };
        Some(factor(self.fraction))
    }

    /// Share lost in the last report.
    pub fn fraction(&self) -> f64 {
        self.fraction
    }
}

/// Carlucci 2016 equation 2: what a report of `fraction` lost multiplies the rate with.
pub fn factor(fraction: f64) -> f64 {
    if fraction > HIGH {
        1.0 - FALL * fraction
    } else if fraction < LOW {
        RISE
    } else {
        1.0
    }
}

/// Without feedback for this long ...
const SILENT: Span = Span::from_secs(3);
/// ... the rate falls by this factor ...
const SILENCE_FACTOR: f64 = 0.8;
/// ... this often (libwebrtc `RttBasedBackoff`). Deviation for the draft, which says nothing of lost feedback.
const SILENCE_STEP: Span = Span::from_secs(1);

/// Backs off where no feedback comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    next: Option<Time>,
    stepped: bool,
}

impl Silence {
    /// A packet left: silence is counted from the first that nothing is heard of.
    pub fn on_sent(&mut self, now: Time) {
        self.next.get_or_insert(now + SILENT);
    }

    /// Feedback came; `waiting`: packets are still unheard of. True if it ended a silence that had lowered the rate.
    pub fn on_feedback(&mut self, now: Time, waiting: bool) -> bool {
        self.next = waiting.then(|| now + SILENT);
        std::mem::take(&mut self.stepped)
    }

    /// When the rate falls next.
    pub fn next(&self) -> Option<Time> {
        self.next
    }

    /// The factor due at `now`, if one is.
    pub fn step(&mut self, now: Time) -> Option<f64> {
        self.next.filter(|at| *at <= now)?;
        (self.next, self.stepped) = (Some(now + SILENCE_STEP), true);
        Some(SILENCE_FACTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    #[test]
    fn s2_17_the_three_zones() {
        assert_eq!(factor(0.2), 0.9);
        assert_eq!([factor(0.10), factor(0.05), factor(0.02)], [1.0; 3]);
        assert_eq!(factor(0.0199), 1.05);
        assert_eq!(factor(1.0), 0.5);
    }

    #[test]
    fn a_report_a_third_of_a_second_at_1_mbit() {
        let mut reports = Reports::default();
        let acks: Vec<_> = (0..8).map(|n| acked(n, 1000)).collect();
        let losses = [lost(8, 1000), lost(9, 1000)];
        let at = |ms| Report { now: Time::from_millis(ms), ..report(&acks, &losses) };
        assert_eq!([0, 100, 359].map(|ms| reports.update(&at(ms), 1e6)), [None; 3]);
        assert_eq!(reports.update(&at(360), 1e6), Some(0.9));
        assert_eq!(reports.fraction(), 0.2);
        assert_eq!(reports.update(&at(539), 20e6), None);
        assert_eq!(reports.update(&at(540), 20e6), Some(0.9));
    }

    #[test]
    fn silence_steps_each_second_after_three() {
        let mut silence = Silence::default();
        silence.on_sent(Time::from_millis(500));
        silence.on_sent(Time::from_millis(900));
        assert_eq!(silence.next(), Some(Time::from_millis(3500)));
        assert_eq!(silence.step(Time::from_millis(3499)), None);
        assert_eq!(silence.step(Time::from_millis(3500)), Some(0.8));
        assert_eq!(silence.next(), Some(Time::from_millis(4500)));
        assert!(silence.on_feedback(Time::from_millis(4000), false));
        assert_eq!(silence.next(), None);
        assert!(!silence.on_feedback(Time::from_millis(4001), false));
    }
}
