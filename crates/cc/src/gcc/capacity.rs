//! What the path was seen to carry when it was full.

/// Weight of a rate seen at over-use (draft-ietf-rmcat-gcc-02 section 5.5: smoothing 0.95).
const WEIGHT: f64 = 0.05;
/// Bounds of the variance over the mean, in kbit/s (libwebrtc).
const VARIANCE: (f64, f64) = (0.4, 2.5);
/// "Near" is within this many standard deviations (draft section 5.5).
const NEAR: f64 = 3.0;

/// Average and variance of the received rate at decreases, in kbit/s inside.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    average: Option<f64>,
    /// Variance divided by the average, in kbit/s.
    variance: f64,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity { average: None, variance: VARIANCE.0 }
    }
}

impl Capacity {
    /// Over-use at a received rate of `bps`.
    pub fn on_over_use(&mut self, bps: f64) {
        let kbps = bps / 1e3;
        let average = self.average.map_or(kbps, |average| (1.0 - WEIGHT) * average + WEIGHT * kbps);
        let error = average - kbps;
        let scaled = error * error / average.max(1.0);
        self.variance = ((1.0 - WEIGHT) * self.variance + WEIGHT * scaled).clamp(VARIANCE.0, VARIANCE.1);
        self.average = Some(average);
    }

    /// Forgets the average.
    pub fn clear(&mut self) {
        self.average = None;
    }

    /// The average, in bit/s.
    pub fn average(&self) -> Option<f64> {
        self.average.map(|kbps| kbps * 1e3)
    }

    /// The range that is near the average, in bit/s.
    pub fn near(&self) -> Option<(f64, f64)> {
        self.average.map(|kbps| {
            let spread = NEAR * (self.variance * kbps).sqrt();
            ((kbps - spread).max(0.0) * 1e3, (kbps + spread) * 1e3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_three_deviations() {
        let mut capacity = Capacity::default();
        assert_eq!(capacity.near(), None);
        capacity.on_over_use(1e6);
        // sqrt(0.4 * 1000) = 20 kbit/s.
        assert_eq!(capacity.near(), Some((940e3, 1060e3)));
        capacity.on_over_use(2e6);
        assert_eq!(capacity.average(), Some(1.05e6));
        capacity.clear();
        assert_eq!(capacity.near(), None);
    }
}
