//! PCC-Uspace's noise filters: which growth and which deviation of the round trip are worth a penalty.

use std::collections::VecDeque;

use super::monitor::Outcome;
use crate::parts::Line;

/// Intervals a trend is drawn through (kRttHistoryLen).
const HISTORY: usize = 6;
/// Weight of a new value in the moving averages (kAlpha).
const WEIGHT: f64 = 0.1;
/// Trends beyond this many deviations are real (kInflationToleranceGain).
const DEVIATIONS: f64 = 2.0;
/// A trend this many times smaller than the smallest so far starts the averages over (kBeta).
const RESTART: f64 = 100.0;
/// Trends this small (1e-6 us per interval, in seconds) can't be averaged from.
const SMALLEST_TREND: f64 = 1e-12;
/// An interval's deviation is real beyond this many deviations of deviations ...
const UNSTEADY: f64 = 4.0;
/// ... and beyond a millisecond.
const LEAST_UNSTEADY: f64 = 1e-3;

/// Slopes of the delay below this count as flat, as in Vivace's paper (NSDI'18, rate control).
///
/// Deviation: PCC-Uspace has no such floor. Frames differ in size, so packets do, and a link takes its time
/// for each; on a quiet path that alone makes trends that the filters below let through and the latency term
/// then makes everything of.
pub const FLAT: f64 = 0.01;

/// What of an interval's delays counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filtered {
    /// Growth of the delay in s/s, zero where it may be noise.
    pub slope: f64,
    /// Deviation of the delay in seconds, zero where it may be noise.
    pub deviation: f64,
}

/// A moving average of a quantity and of how much it moves.
#[derive(Clone, Copy, Debug, Default)]
struct Moving {
    mean: f64,
    change: f64,
    last: f64,
}

impl Moving {
    fn add(&mut self, value: f64) {
        self.change += WEIGHT * ((value - self.last).abs() - self.change);
        self.mean += WEIGHT * (value - self.mean);
        self.last = value;
    }
}

/// The filters' memory.
#[derive(Clone, Debug, Default)]
pub struct Trend {
    delays: VecDeque<f64>,
    slopes: Moving,
    least: f64,
    deviations: Option<Moving>,
}

impl Trend {
    /// Judges one interval, in the order they were sent.
    pub fn filter(&mut self, outcome: &Outcome) -> Filtered {
        if outcome.samples < 2 {
            return Filtered::default();
        }
        // A slope smaller than the scatter around it, relative to the round trip, is noise.
        let scatter = outcome.residual / outcome.rtt.max(1e-6);
        let mut steep = scatter < outcome.slope.abs();
        let mut unsteady = steep;
        if self.delays.len() == HISTORY {
            self.delays.pop_front();
        }
        self.delays.push_back(outcome.delay);
        if self.delays.len() == HISTORY {
            let trend = self.trend();
            let beyond = self.is_beyond(trend);
            steep |= beyond && trend > 0.0;
            unsteady |= beyond | self.is_unsteady(outcome.deviation);
        }
        Filtered {
            slope: if steep && outcome.slope >= FLAT { outcome.slope } else { 0.0 },
            deviation: if unsteady { outcome.deviation } else { 0.0 },
        }
    }

    /// Growth of the mean delay per interval.
    fn trend(&self) -> f64 {
        let mut line = Line::default();
        let first = self.delays.front().copied().unwrap_or_default();
        self.delays.iter().enumerate().for_each(|(n, delay)| line.add(n as f64, delay - first));
        line.slope().unwrap_or(0.0)
    }

    fn is_beyond(&mut self, trend: f64) -> bool {
        if self.least < SMALLEST_TREND || trend.abs() < self.least / RESTART {
            self.slopes = Moving { mean: 0.0, change: trend.abs(), last: trend };
            self.least = trend.abs();
            return false;
        }
        self.least = self.least.min(trend.abs());
        let beyond = (trend - self.slopes.mean).abs() > DEVIATIONS * self.slopes.change;
        if !beyond {
            self.slopes.add(trend);
        }
        beyond
    }

    fn is_unsteady(&mut self, deviation: f64) -> bool {
        let first = Moving { mean: deviation, change: deviation / 2.0, last: deviation };
        let known = self.deviations.get_or_insert(first);
        let unsteady = deviation > known.mean + UNSTEADY * known.change && deviation > LEAST_UNSTEADY;
        if !unsteady {
            known.add(deviation);
        }
        unsteady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(delay: f64, slope: f64, residual: f64) -> Outcome {
        Outcome { delay, slope, residual, deviation: residual, samples: 20, rtt: 0.04, ..Outcome::default() }
    }

    #[test]
    fn noise_is_free_and_growth_is_not() {
        let mut trend = Trend::default();
        // 1 ms of scatter in 40 ms of round trip hides a slope of 0.02 ...
        for n in 0..30 {
            let seen = trend.filter(&outcome(f64::from(n % 3) * 1e-4, 0.02, 1e-3));
            assert_eq!(seen.slope, 0.0, "{n}");
        }
        // ... but not one of 0.05, and not that intervals grow slower and slower.
        assert_eq!(trend.filter(&outcome(0.0, 0.05, 1e-3)).slope, 0.05);
        let caught = (1..6).any(|n| trend.filter(&outcome(f64::from(n) * 2e-3, 0.02, 1e-3)).slope > 0.0);
        assert!(caught, "{trend:?}");
    }
}
