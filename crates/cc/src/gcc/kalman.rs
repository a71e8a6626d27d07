//! Arrival-time filters: what part of the delay variation is a queue that grows.

use crate::parts::Extremum;

use super::detector::Signal;

/// Groups over which the highest group rate is sought (libwebrtc `kMinFramePeriodHistoryLength`; the draft's
/// K is open).
const RATE_GROUPS: u64 = 60;
/// Residuals beyond this many standard deviations count as that many (draft section 5.3).
const OUTLIER: f64 = 3.0;
/// The group rate at which the noise filters' constants hold, per ms (draft section 5.3: 30 frames per
/// second).
const NEUTRAL_PER_MS: f64 = 30.0 / 1000.0;

/// The smallest interval between departures of recent groups: the inverse of the draft's `f_max`.
#[derive(Clone, Debug)]
struct Interval {
    least: Extremum<u64, f64>,
    groups: u64,
}

impl Default for Interval {
    fn default() -> Interval {
        Interval { least: Extremum::min(), groups: 0 }
    }
}

impl Interval {
    fn update(&mut self, departure_ms: f64) -> f64 {
        self.groups += 1;
        self.least.insert(self.groups, departure_ms.max(0.0), self.groups.saturating_sub(RATE_GROUPS - 1));
        self.least.get().unwrap_or(departure_ms)
    }
}

/// The scalar filter of draft-ietf-rmcat-gcc-02 section 5.3: `d = m + noise`.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// m, in ms a group.
    estimate: f64,
    /// e: variance of its error.
    error: f64,
    /// var_v, in ms^2.
    noise: f64,
    /// chi: weight of the newest residual in `noise` at 30 groups/s.
    chi: f64,
    interval: Interval,
}

impl Scalar {
    /// q: how much m wanders, in ms^2 a group.
    const WANDER: f64 = 1e-3;
    /// e(0).
    const ERROR: f64 = 0.1;
    /// var_v never falls below, in ms^2.
    const LEAST_NOISE: f64 = 1.0;

    /// A filter with m = 0; `chi` is 0.001 to 0.1 (draft section 5.3).
    pub fn new(chi: f64) -> Scalar {
        Scalar {
            estimate: 0.0,
            error: Self::ERROR,
            noise: Self::LEAST_NOISE,
            chi,
            interval: Interval::default(),
        }
    }

    /// Takes a group's delay variation; returns m.
    pub fn update(&mut self, delay_ms: f64, departure_ms: f64) -> f64 {
        let residual = delay_ms - self.estimate;
        let predicted = self.error + Self::WANDER;
        let gain = predicted / (self.noise + predicted);
        self.estimate += gain * residual;
        self.error = (1.0 - gain) * predicted;
        let least = self.interval.update(departure_ms);
        let keep = (1.0 - self.chi).powf(least * NEUTRAL_PER_MS);
        let bound = OUTLIER * self.noise.sqrt();
        let seen = residual.clamp(-bound, bound);
        self.noise = (keep * self.noise + (1.0 - keep) * seen * seen).max(Self::LEAST_NOISE);
        self.estimate
    }
}

/// The filter of libwebrtc's receive-side estimator up to 2017: `d = slope * (bytes more) + offset + noise`.
#[derive(Clone, Debug)]
pub struct Planar {
    /// Inverse capacity, in ms a byte.
    slope: f64,
    /// Growth of the queue, in ms a group.
    offset: f64,
    before: f64,
    /// Covariance of the error of both.
    error: [[f64; 2]; 2],
    /// How much both wander in a group.
    wander: [f64; 2],
    mean_noise: f64,
    noise: f64,
    groups: u32,
    interval: Interval,
}

impl Planar {
    const ERROR: [[f64; 2]; 2] = [[100.0, 0.0], [0.0, 0.1]];
    const SLOPE_WANDERS: f64 = 1e-13;
    /// While the signal and the offset's direction disagree the offset may wander this much more.
    const TURNING: f64 = 10.0;
    /// Weight of the newest residual at 30 groups/s for the first groups, and after.
    const WEIGHTS: [f64; 2] = [0.01, 0.002];
    const EARLY_GROUPS: u32 = 300;
    const COUNTED: u32 = 1000;
    const SCALED: u32 = 60;

    /// A filter that has seen nothing, whose offset wanders by `wander` ms^2 a group.
    pub fn new(wander: f64) -> Planar {
        Planar {
            slope: 8.0 / 512.0,
            offset: 0.0,
            before: 0.0,
            error: Self::ERROR,
            wander: [Self::SLOPE_WANDERS, wander],
            mean_noise: 0.0,
            noise: 50.0,
            groups: 0,
            interval: Interval::default(),
        }
    }

    /// Takes a group; returns the tested quantity `min(groups, 60) * offset`, in ms.
    pub fn update(&mut self, delay_ms: f64, size: i64, departure_ms: f64, signal: Signal) -> f64 {
        let least = self.interval.update(departure_ms);
        self.groups = (self.groups + 1).min(Self::COUNTED);
        self.predict(signal);
        let h = size as f64;
        let [[a, b], [c, d]] = self.error;
        let projected = [a * h + b, c * h + d];
        let residual = delay_ms - self.slope * h - self.offset;
        if signal == Signal::Normal {
            self.learn_noise(residual, least);
        }
        let gain = projected.map(|p| p / (self.noise + h * projected[0] + projected[1]));
        let mut error = [[0.0; 2]; 2];
        for row in 0..2 {
            let (first, second) = (f64::from(row == 0) - gain[row] * h, f64::from(row == 1) - gain[row]);
            error[row] = [first * a + second * c, first * b + second * d];
        }
        // Rounding must not turn a variance negative.
        self.error = if error[0][0] > 0.0 && error[1][1] > 0.0 { error } else { Self::ERROR };
        self.slope += gain[0] * residual;
        self.before = self.offset;
        self.offset += gain[1] * residual;
        f64::from(self.groups.min(Self::SCALED)) * self.offset
    }

    fn predict(&mut self, signal: Signal) {
        let turning = signal == Signal::Over && self.offset < self.before
            || signal == Signal::Under && self.offset > self.before;
        self.error[0][0] += self.wander[0];
        self.error[1][1] += self.wander[1] * if turning { 1.0 + Self::TURNING } else { 1.0 };
    }

    fn learn_noise(&mut self, residual: f64, least_ms: f64) {
        let bound = OUTLIER * self.noise.sqrt();
        let seen = residual.clamp(-bound, bound);
        let weight = Self::WEIGHTS[usize::from(self.groups > Self::EARLY_GROUPS)];
        let keep = (1.0 - weight).powf(least_ms * NEUTRAL_PER_MS);
        self.mean_noise = keep * self.mean_noise + (1.0 - keep) * seen;
        let square = (self.mean_noise - seen).powi(2);
        self.noise = (keep * self.noise + (1.0 - keep) * square).max(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: f64 = 1000.0 / 30.0;

    fn after(delay: f64, groups: &[u32]) -> Vec<f64> {
        let mut filter = Scalar::new(0.01);
        let all: Vec<f64> = (0..100).map(|_| filter.update(delay, FRAME)).collect();
        groups.iter().map(|&n| all[n as usize - 1]).collect()
    }

    #[test]
    fn the_scalar_filter_to_the_digit() {
        // The draft's filter (section 5.3), worked out for 20 ms a group.
        let seen = after(20.0, &[1, 2, 5, 10, 20]);
        for (m, expected) in seen.iter().zip([1.835, 3.271, 6.159, 8.693, 10.834]) {
            assert!((m - expected).abs() < 5e-4, "{m} {expected}");
        }
        assert!((after(5.0, &[100])[0] - 4.68).abs() < 5e-3);
        assert_eq!(after(0.0, &[100]), [0.0]);
    }

    #[test]
    fn the_planar_filter_tells_size_from_queue() {
        // Sizes alternate; a 4 Mbit/s link needs 2 us a byte, so 1000 bytes more or less are 2 ms.
        let (mut steady, mut growing) = (Planar::new(1e-3), Planar::new(1e-3));
        let (mut x, mut y) = (0.0, 0.0);
        for n in 0..600 {
            let size = if n % 2 == 0 { 1000 } else { -1000 };
            let delay = size as f64 * 0.002;
            x = steady.update(delay, size, FRAME, Signal::Normal);
            y = growing.update(delay + 1.0, size, FRAME, Signal::Normal);
        }
        assert!(x.abs() < 1.0 && (steady.slope - 0.002).abs() < 1e-4, "{x} {}", steady.slope);
        assert!((y - 60.0).abs() < 6.0, "1 ms a group, times 60: {y}");
    }
}
