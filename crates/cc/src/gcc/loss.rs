//! The loss-based controller of the draft (section 6), and what silence does.

use std::collections::VecDeque;

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
/// Reports are 360 / (kbit/s) seconds apart (RFC 3550 section 6.2, the reduced minimum), within these bounds:
/// what that gives at 2 Mbit/s, the most a session of Carlucci 2016 sent, and browsers' RTCP interval for
/// video.
const REPORT_RATE: f64 = 360e3;
const REPORT_INTERVAL: (f64, f64) = (0.18, 1.0);

/// As of the draft. Feedback comes per frame here; it is gathered into reports as far apart as RTCP's, for
/// equation 2 acts once a report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reports {
    arrived: u64,
    lost: u64,
    began: Option<Time>,
    /// Share lost in the last report.
    fraction: f64,
    /// How far apart reports are; `None`: as RFC 3550's reduced minimum has it.
    interval: Option<Span>,
}

impl Reports {
    /// Takes feedback; returns the factor that `rate` (bit/s) is to be multiplied with if it completes a
    /// report.
    pub fn update(&mut self, report: &Report<'_>, rate: f64) -> Option<f64> {
        self.arrived += report.acked.len() as u64;
        self.lost += report.lost.len() as u64;
        // Late is not lost: RTCP's fraction counts what arrived, whenever it was sent.
        self.lost = self.lost.saturating_sub(report.spurious.len() as u64);
        let began = *self.began.get_or_insert(report.now);
        let reduced = (REPORT_RATE / rate.max(1.0)).clamp(REPORT_INTERVAL.0, REPORT_INTERVAL.1);
        let interval = self.interval.map_or(reduced, Span::as_secs_f64);
        let all = self.arrived + self.lost;
        if all == 0 || (report.now - began).as_secs_f64() < interval {
            return None;
        }
        self.fraction = self.lost as f64 / all as f64;
        let Reports { fraction, interval, .. } = *self;
        *self = Reports { fraction, interval, began: Some(report.now), ..Reports::default() };
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

/// libwebrtc's loss-based controller of 2013 to 2016 (`SendSideBandwidthEstimation`): equation 2's three
/// zones, but a rise of 8 % over the least rate of the last second however often reports come, and a pause
/// after each cut.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    reports: Reports,
    /// Rates, rising from the front; each was the least since it was entered.
    least: VecDeque<(Time, f64)>,
    cut_at: Option<Time>,
}

/// `kBweIncreaseIntervalMs`, ...
const RISE_OVER: Span = Span::from_secs(1);
/// ... the rise over that, and what is added, in bit/s.
const BROWSER_RISE: (f64, f64) = (1.08, 1000.0);
/// `kBweDecreaseIntervalMs`: a round trip more than this lies between cuts.
const CUT_PAUSE: Span = Span::from_millis(300);

/// `kDefaultVideoReportInterval` of libwebrtc's `rtcp_sender.cc` (December 2021): the reduced minimum is for
/// who sends video itself. Deviation: always the mean of what it draws, from half to one and a half of it.
const ONE_WAY: Span = Span::from_secs(1);

impl Browser {
    /// As where the far end only receives.
    pub fn one_way() -> Browser {
        Browser { reports: Reports { interval: Some(ONE_WAY), ..Reports::default() }, ..Browser::default() }
    }

    /// Takes feedback; returns the rate in bit/s that follows `rate` if it completes a report.
    pub fn update(&mut self, report: &Report<'_>, rate: f64) -> Option<f64> {
        let factor = self.reports.update(report, rate)?;
        let now = report.now;
        while self.least.front().is_some_and(|(at, _)| now - *at >= RISE_OVER) {
            self.least.pop_front();
        }
        while self.least.back().is_some_and(|(_, least)| rate <= *least) {
            self.least.pop_back();
        }
        self.least.push_back((now, rate));
        if factor > 1.0 {
            let least = self.least.front().map_or(rate, |(_, least)| *least);
            return Some(BROWSER_RISE.0 * least + BROWSER_RISE.1);
        }
        let may_cut = self.cut_at.is_none_or(|at| now - at >= CUT_PAUSE + report.srtt);
        if factor < 1.0 && may_cut {
            self.cut_at = Some(now);
            return Some(factor * rate);
        }
        Some(rate)
    }
}

/// Which of the two.
#[derive(Clone, Debug)]
pub enum Losses {
    /// A step with every report.
    Equation(Reports),
    /// The step of browsers, which rises over a second and pauses after a cut.
    Browser(Browser),
}

impl Losses {
    /// The rate in bit/s that follows `rate` after feedback.
    pub fn update(&mut self, report: &Report<'_>, rate: f64) -> f64 {
        match self {
            Losses::Equation(reports) => reports.update(report, rate).map_or(rate, |factor| factor * rate),
            Losses::Browser(browser) => browser.update(report, rate).unwrap_or(rate),
        }
    }

    /// Share lost in the last report.
    pub fn fraction(&self) -> f64 {
        match self {
            Losses::Equation(reports) => reports.fraction(),
            Losses::Browser(browser) => browser.reports.fraction(),
        }
    }
}

/// Without feedback for this long ...
const SILENT: Span = Span::from_secs(3);
/// ... the rate falls by this factor ...
const SILENCE_FACTOR: f64 = 0.8;
/// ... this often (libwebrtc `RttBasedBackoff`). Deviation for the draft, which says nothing of lost
/// feedback.
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

    /// Feedback came; `waiting`: packets are still unheard of. True if it ended a silence that had lowered
    /// the rate.
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
    fn one_who_only_receives_reports_every_second() {
        let mut browser = Browser::one_way();
        let acks: Vec<_> = (0..8).map(|n| acked(n, 1000)).collect();
        let losses = [lost(8, 1000), lost(9, 1000)];
        let mut at =
            |ms| browser.update(&Report { now: Time::from_millis(ms), ..report(&acks, &losses) }, 20e6);
        assert_eq!([0, 180, 999].map(&mut at), [None; 3]);
        assert_eq!(at(1000), Some(18e6));
        assert_eq!([1180, 1999].map(&mut at), [None; 2]);
        assert_eq!(at(2000), Some(18e6));
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
    fn a_browser_rises_by_8_percent_a_second_and_pauses_between_cuts() {
        let (mut browser, mut rate) = (Browser::default(), 1e6);
        let acks: Vec<_> = (0..95).map(|n| acked(n, 1000)).collect();
        let at = |ms| Report { now: Time::from_millis(ms), ..report(&acks, &[]) };
        for ms in (0..=5_400).step_by(360) {
            rate = browser.update(&at(ms), rate).unwrap_or(rate);
        }
        assert!((1.08f64.powi(5) * 1e6..1.08f64.powi(6) * 1e6 + 6e3).contains(&rate), "{rate}");
        let losses: Vec<_> = (0..23).map(|n| lost(95 + n, 1000)).collect();
        let cuts: Vec<_> = [5_780, 5_960, 6_140]
            .map(|ms| browser.update(&Report { lost: &losses, ..at(ms) }, 2e6))
            .into_iter()
            .flatten()
            .collect();
        assert!(cuts[0] < 1.81e6 && cuts[1] == 2e6, "{cuts:?}");
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
