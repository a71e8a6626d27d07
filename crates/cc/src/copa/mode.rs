//! Copa-Auto: whoever shares the queue fills it or not, and delta follows (paper section 2.2, "competing with
//! buffer-filling schemes").

use units::{Span, Time};

use super::rtts::Rtts;
use crate::Report;
use crate::parts::{Extremum, LossEpoch};

/// "Nearly empty" is below this share of the largest recent queue (paper section 2.2, genericCC's `is_copa`).
const NEARLY_EMPTY: f64 = 0.1;
/// RTTmax is the largest over this many round trips (both).
const MAX_RTTS: f64 = 4.0;
/// 1/delta stays below this without any loss: enough for every window there is.
const MOST_AGGRESSIVE: f64 = 1e6;

/// How an empty queue is recognised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Round trips without a nearly empty queue that mean a competitor.
    pub rtts: f64,
    /// By the smallest raw sample over those round trips (genericCC), not by RTTstanding (paper).
    pub raw: bool,
}

/// Mode and delta.
#[derive(Clone, Debug)]
pub struct ModeSwitch {
    detection: Detection,
    /// 1/delta of the default mode, and the least of the other.
    default_inverse: f64,
    inverse: f64,
    competitive: bool,
    empty_at: Option<Time>,
    largest: Extremum<Time, Span>,
    smallest: Extremum<Time, Span>,
    epoch: LossEpoch,
    /// The round trip without loss, at whose end 1/delta grows, began here.
    since: Time,
}

impl ModeSwitch {
    /// In default mode with `delta`.
    pub fn new(detection: Detection, delta: f64) -> ModeSwitch {
        ModeSwitch {
            detection,
            default_inverse: 1.0 / delta,
            inverse: 1.0 / delta,
            competitive: false,
            empty_at: None,
            largest: Extremum::max(),
            smallest: Extremum::min(),
            epoch: LossEpoch::default(),
            since: Time::ZERO,
        }
    }

    /// The present mode's delta: Copa aims for 1/delta packets in the queue.
    pub fn delta(&self) -> f64 {
        1.0 / self.inverse
    }

    /// Whether a competitor is supposed.
    pub fn is_competitive(&self) -> bool {
        self.competitive
    }

    /// After a pause: what the queue was before says nothing.
    pub fn restart(&mut self) {
        self.empty_at = None;
        self.largest.clear();
        self.smallest.clear();
    }

    /// Takes a report whose round trip `rtts` has seen already.
    pub fn update(&mut self, report: &Report<'_>, rtts: &Rtts) {
        let (Some(least), Some(standing)) = (rtts.least(), rtts.standing()) else { return };
        let now = report.now;
        if report.latest_rtt.is_some() {
            let over = |n: f64| now.saturating_sub(rtts.smoothed.mul_f64(n));
            self.largest.insert(now, rtts.latest, over(MAX_RTTS));
            self.smallest.insert(now, rtts.latest, over(self.detection.rtts));
            self.detect(now, least, standing, rtts.smoothed);
        }
        self.adapt(report, rtts.smoothed);
    }

    fn detect(&mut self, now: Time, least: Span, standing: Span, smoothed: Span) {
        let threshold = (self.largest.get().unwrap_or(least) - least).mul_f64(NEARLY_EMPTY);
        let empty_at = *self.empty_at.get_or_insert(now);
        // Deviation: "at most", not "below". Without any queue at all both sides are zero, and that is an
        // empty queue.
        let competitive = if self.detection.raw {
            self.smallest.get().unwrap_or(least) - least > threshold
        } else if standing - least <= threshold {
            self.empty_at = Some(now);
            false
        } else {
            now - empty_at > smoothed.mul_f64(self.detection.rtts)
        };
        if competitive && !self.competitive {
            self.since = now;
        }
        self.competitive = competitive;
    }

    /// Section 2.2: additive increase of 1/delta a round trip, half on a loss, never below the default.
    /// genericCC's guard against two halvings a round trip has no effect (it is handed a round trip of zero);
    /// here it has.
    fn adapt(&mut self, report: &Report<'_>, smoothed: Span) {
        if !self.competitive {
            self.inverse = self.default_inverse;
            return;
        }
        if let Some(last) = report.lost.last() {
            self.since = report.now;
            if self.epoch.opens(last.sent_at, report.now) {
                self.inverse = (self.inverse / 2.0).max(self.default_inverse);
            }
        } else if report.now - self.since >= smoothed {
            self.since = report.now;
            self.inverse = (self.inverse + 1.0).min(MOST_AGGRESSIVE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{lost, report};

    const PAPER: Detection = Detection { rtts: 5.0, raw: false };
    const GENERIC: Detection = Detection { rtts: 4.0, raw: true };

    /// A switch that sees `rtt` every 10 ms, smoothed to 40 ms.
    struct Seen {
        switch: ModeSwitch,
        rtts: Rtts,
        now: Time,
    }

    impl Seen {
        fn new(detection: Detection) -> Seen {
            Seen { switch: ModeSwitch::new(detection, 0.5), rtts: Rtts::new(), now: Time::ZERO }
        }

        fn see(&mut self, rtt: i64, loses: Option<u64>) -> &ModeSwitch {
            self.now += Span::from_millis(10);
            let rtt = Span::from_millis(rtt);
            self.rtts.sample(self.now, rtt, Span::from_millis(40));
            let gone: Vec<_> = loses.iter().map(|&packet| lost(packet, 1000)).collect();
            let report = report(&[], &gone);
            self.switch.update(&crate::Report { now: self.now, latest_rtt: Some(rtt), ..report }, &self.rtts);
            &self.switch
        }
    }

    #[test]
    fn five_round_trips_without_an_empty_queue_are_a_competitor() {
        let mut seen = Seen::new(PAPER);
        assert!(!seen.see(40, None).is_competitive());
        // The queue stands at 44 to 50 ms: RTTstanding is never below 44, a tenth of RTTmax - RTTmin is 1 ms.
        // The sample of 40 ms leaves RTTstanding after 20 ms; five round trips are 200 ms.
        for n in 0..22 {
            assert!(!seen.see(44 + n % 7, None).is_competitive(), "{n}");
        }
        assert!(seen.see(44, None).is_competitive());
        assert!(!seen.see(41, None).is_competitive(), "1 ms is nearly empty");
    }

    #[test]
    fn generic_form_looks_at_four_round_trips_of_raw_samples() {
        let mut seen = Seen::new(GENERIC);
        seen.see(40, None);
        for n in 0..16 {
            assert!(!seen.see(44 + n % 7, None).is_competitive(), "{n}");
        }
        assert!(seen.see(44, None).is_competitive());
    }

    #[test]
    fn no_queue_at_all_is_an_empty_queue() {
        for detection in [PAPER, GENERIC] {
            let mut seen = Seen::new(detection);
            assert!((0..200).all(|_| !seen.see(40, None).is_competitive()));
        }
    }

    #[test]
    fn aggressiveness_grows_by_one_a_round_trip_and_halves_once_in_one() {
        let mut seen = Seen::new(PAPER);
        seen.see(40, None);
        for n in 0..23 {
            seen.see(44 + n % 7, None);
        }
        assert_eq!(seen.switch.inverse, 2.0);
        for _ in 0..24 {
            seen.see(50, None);
        }
        assert_eq!(seen.switch.inverse, 8.0);
        // Packets 400 and 410 left (at 400 and 410 ms) before the first loss was found.
        seen.see(50, Some(400));
        assert_eq!(seen.switch.inverse, 4.0);
        seen.see(50, Some(410));
        assert_eq!(seen.switch.inverse, 4.0);
        for _ in 0..3 {
            seen.see(50, None);
        }
        assert_eq!(seen.switch.inverse, 4.0, "the round trip with the loss does not count");
        seen.see(50, Some(495));
        assert_eq!(seen.switch.inverse, 2.0);
        seen.see(50, Some(590));
        assert_eq!(seen.switch.delta(), 0.5, "never above the default");
        assert_eq!(seen.see(40, None).delta(), 0.5);
    }
}
