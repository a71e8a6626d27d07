//! The window of RFC 9438, in segments.

use units::{Span, Time};

/// RFC 9438 section 5, in segments/s^3.
const C: f64 = 0.4;
/// RFC 9438 section 4.6, beta_cubic.
const BETA: f64 = 0.7;
/// RFC 9438 section 4.3: what makes the Reno-like estimate with this beta as fast as Reno, in segments a
/// round trip.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// RFC 9438 section 4.2: a round trip adds at most half the window.
const MOST_GROWTH: f64 = 1.5;
/// RFC 9002 section 7.2, in segments.
pub(super) const MINIMUM: f64 = 2.0;
/// No path holds more segments in flight; keeps everything finite whatever is acknowledged.
pub(super) const MAXIMUM: f64 = 1e7;
/// RFC 2861 section 3.1: ssthresh remembers this share of a window that idling shrinks.
const REMEMBERED: f64 = 0.75;

/// Windows in segments, all that a spurious loss restores (RFC 9438 section 4.9).
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    pub(super) cwnd: f64,
    pub(super) ssthresh: f64,
    /// W_max; 0 where the next stage must begin at its plateau (first stage, after persistent congestion).
    pub(super) w_max: f64,
    /// K, in seconds.
    pub(super) k: f64,
    /// When this stage of congestion avoidance began, moved on by the time in which the sender was limited
    /// otherwise.
    pub(super) started_at: Option<Time>,
    /// W_est: what Reno would have.
    pub(super) w_est: f64,
    /// cwnd_prior: the window at the last cut.
    pub(super) prior: f64,
}

impl Curve {
    /// Slow start without end at `cwnd`.
    pub(super) fn new(cwnd: f64) -> Curve {
        let ssthresh = f64::INFINITY;
        Curve { cwnd, ssthresh, w_max: 0.0, k: 0.0, started_at: None, w_est: cwnd, prior: cwnd }
    }

    /// The same windows in segments of another size: `factor` times as many of them. A stage of congestion
    /// avoidance begins anew, for K is of segments.
    pub(super) fn rescale(&mut self, factor: f64) {
        for window in [&mut self.cwnd, &mut self.ssthresh, &mut self.w_max, &mut self.w_est, &mut self.prior]
        {
            *window *= factor;
        }
        self.cwnd = self.cwnd.clamp(MINIMUM, MAXIMUM);
        self.started_at = None;
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 9438 section 4.2, the start of a stage.
    fn begin(&mut self, now: Time) -> Time {
        self.w_max = self.w_max.max(self.cwnd);
        self.k = ((self.w_max - self.cwnd) / C).cbrt();
        self.w_est = self.cwnd;
        self.started_at = Some(now);
        now
    }

    /// RFC 9438 section 4.2, figure 1; `t` in seconds since the start of the stage.
    pub(super) fn cubic(&self, t: f64) -> f64 {
        C * (t - self.k).powi(3) + self.w_max
    }

    /// RFC 9438 sections 4.3 to 4.5, for `segments` newly acknowledged.
    pub(super) fn avoid(&mut self, now: Time, srtt: Span, segments: f64) {
        let started_at = self.started_at.unwrap_or_else(|| self.begin(now));
        let t = (now - started_at).as_secs_f64();
        let alpha = if self.w_est >= self.prior { 1.0 } else { ALPHA };
        self.w_est = (self.w_est + alpha * segments / self.cwnd).min(MAXIMUM);
        if self.cubic(t) < self.w_est {
            // Deviation: never down. The RFC assigns; just after the curves cross that could lose part of a
            // segment.
            self.cwnd = self.cwnd.max(self.w_est);
        } else {
            let target = self.cubic(t + srtt.as_secs_f64()).clamp(self.cwnd, MOST_GROWTH * self.cwnd);
            self.cwnd += (target - self.cwnd) / self.cwnd * segments;
        }
    }

    /// Idle for so long that the window says nothing any more (RFC 5681 section 4.1, RFC 2861 section 3.1).
    pub(super) fn restart(&mut self, window: f64) {
        if self.cwnd > window {
            self.ssthresh = self.ssthresh.max(REMEMBERED * self.cwnd);
            (self.cwnd, self.started_at) = (window, None);
        }
    }

    /// RFC 9438 section 4.6; section 4.7 if `fast_convergence`.
    pub(super) fn cut(&mut self, fast_convergence: bool) {
        let converging = fast_convergence && self.cwnd < self.w_max;
        self.w_max = if converging { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.prior = self.cwnd;
        self.ssthresh = (BETA * self.cwnd).max(MINIMUM);
        self.cwnd = self.ssthresh;
        self.started_at = None;
    }

    /// RFC 9438 section 4.8, after a [`cut`](Curve::cut): the least window, and the next stage begins at its
    /// plateau.
    pub(super) fn collapse(&mut self) {
        (self.cwnd, self.w_max, self.started_at) = (MINIMUM, 0.0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avoiding(cwnd: f64) -> Curve {
        Curve { ssthresh: cwnd, ..Curve::new(cwnd) }
    }

    #[test]
    fn the_curve_of_the_sheet() {
        // cubic.md section 7.3: w_max 100, cwnd 70 give K = 4.217 s, W(0) = 70, W(K) = 100, W(2K) = 130.
        let mut curve = avoiding(70.0);
        curve.w_max = 100.0;
        curve.begin(Time::ZERO);
        assert_eq!((curve.k * 1000.0).round(), 4217.0);
        let seen = [0.0, curve.k, 2.0 * curve.k].map(|t| (curve.cubic(t) * 1e6).round() / 1e6);
        assert_eq!(seen, [70.0, 100.0, 130.0]);
        // Section 7.1: from 266.7 to 186.7 segments, K = 5.85 s.
        let mut curve = avoiding(266.7);
        curve.cut(true);
        curve.begin(Time::ZERO);
        assert_eq!(((curve.cwnd * 10.0).round(), (curve.k * 100.0).round()), (1867.0, 585.0));
    }
}
