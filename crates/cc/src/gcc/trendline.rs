//! The trendline filter of libwebrtc: the slope of the smoothed accumulated delay.

use std::collections::VecDeque;

use units::RemoteTime;

use crate::parts::Line;

/// Weight of the past in the smoothed delay.
const SMOOTHING: f64 = 0.9;
/// What a slope in ms per ms is multiplied by to be comparable with the threshold ...
const GAIN: f64 = 4.0;
/// ... times the number of groups seen, up to this.
const SCALED: u32 = 60;

/// The filter. The constants are libwebrtc's `TrendlineEstimator`.
#[derive(Clone, Debug)]
pub struct Trendline {
    window: usize,
    accumulated_ms: f64,
    smoothed_ms: f64,
    /// Arrival and smoothed delay of the last groups.
    points: VecDeque<(RemoteTime, f64)>,
    groups: u32,
    slope: f64,
}

impl Trendline {
    /// A filter over `window` groups (libwebrtc: 20), at least two.
    pub fn new(window: usize) -> Trendline {
        Trendline {
            window: window.max(2),
            accumulated_ms: 0.0,
            smoothed_ms: 0.0,
            points: VecDeque::with_capacity(window + 1),
            groups: 0,
            slope: 0.0,
        }
    }

    /// Takes a group's delay variation; returns the tested quantity `min(groups, 60) * slope * 4`.
    pub fn update(&mut self, delay_ms: f64, arrived: RemoteTime) -> f64 {
        self.groups = (self.groups + 1).min(SCALED);
        self.accumulated_ms += delay_ms;
        self.smoothed_ms = SMOOTHING * self.smoothed_ms + (1.0 - SMOOTHING) * self.accumulated_ms;
        self.points.push_back((arrived, self.smoothed_ms));
        if self.points.len() > self.window {
            self.points.pop_front();
        }
        if self.points.len() == self.window {
            self.slope = self.fit().unwrap_or(self.slope);
        }
        f64::from(self.groups) * self.slope * GAIN
    }

    fn fit(&self) -> Option<f64> {
        // Relative to the first point: the sums of squares keep their precision.
        let &(start, base) = self.points.front()?;
        let mut line = Line::default();
        self.points.iter().for_each(|&(at, delay)| line.add((at - start).as_millis_f64(), delay - base));
        line.slope()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    fn tested(delay_ms: f64, groups: u32) -> f64 {
        let mut filter = Trendline::new(20);
        let at = |n: u32| RemoteTime::from_nanos(0) + Span::from_micros(33_333) * i64::from(n);
        (0..groups).map(|n| filter.update(delay_ms, at(n))).last().unwrap()
    }

    #[test]
    fn a_slope_of_0_052_is_a_threshold_of_12_5() {
        // At 60 groups and more 12.5 is 0.052 ms/ms, 6 is 0.025.
        let slope = |threshold: f64| threshold / (60.0 * GAIN);
        assert!((slope(12.5) - 0.052).abs() < 5e-4 && (slope(6.0) - 0.025).abs() < 5e-4);
        // A queue that grows by 2 ms a group of 33.3 ms (the smoothing has caught up): 0.06 * 60 * 4.
        assert!((tested(2.0, 200) - 14.4).abs() < 0.1, "{}", tested(2.0, 200));
        assert_eq!(tested(0.0, 200), 0.0);
        assert_eq!(tested(2.0, 19), 0.0, "no slope before the window is full");
    }
}
