//! Whether the cross traffic answers the pulse.

use std::f64::consts::TAU;

/// Samples of the spectrum: 5 s rounded up to a power of two (code `should_switch_flow_mode`).
const SAMPLES: usize = 512;
/// Frequencies that are looked at together.
const TOGETHER: usize = 8;
/// Seconds between samples (code `measurement_interval`).
pub const SPACING: f64 = 0.01;
/// Half the width in Hz of what counts as the pulse's frequency.
const PEAK: f64 = 0.5;
/// The other frequencies it is compared with: from this far above it ...
const ABOVE: f64 = 1.5;
/// ... to this far below twice as much.
const BELOW_TWICE: f64 = 0.5;
/// The spectrum is taken every fifth sample, for the processor's sake ...
const EVERY: usize = 5;
/// ... with the weight of five: the code's 0.01 each.
const WEIGHT: f64 = 0.049;
/// Less cross traffic than this share of the link is inelastic, whatever its spectrum.
const LEAST_CROSS: f64 = 0.1;
/// The peak of the cross traffic must be this share of the peak of all traffic but ours, else it is scaled
/// down ...
const LEAST_PEAK: f64 = 0.25;
/// ... from at most this.
const MOST_SCALED: f64 = 3.0;

/// A ring of evenly spaced samples.
#[derive(Clone, Debug)]
struct Ring {
    samples: Vec<f64>,
    next: usize,
}

impl Ring {
    fn new() -> Ring {
        Ring { samples: Vec::with_capacity(SAMPLES), next: 0 }
    }

    fn push(&mut self, value: f64) {
        if self.samples.len() < SAMPLES {
            self.samples.push(value);
        } else {
            self.samples[self.next] = value;
        }
        self.next = (self.next + 1) % SAMPLES;
    }

    /// Oldest first.
    fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        let split = if self.samples.len() < SAMPLES { 0 } else { self.next };
        self.samples[split..].iter().chain(&self.samples[..split]).copied()
    }

    /// Magnitudes of frequencies of the full ring, of `first`, `first + 1`, ... (more than none) cycles in
    /// all, by Goertzel's recursion. Whole cycles do not see the mean, and a magnitude does not see where the
    /// ring begins. Each recursion waits for its own last step: several at once cost no more than one.
    fn magnitudes(&self, first: usize) -> [f64; TOGETHER] {
        let turns: [f64; TOGETHER] =
            std::array::from_fn(|at| 2.0 * (TAU * (first + at) as f64 / SAMPLES as f64).cos());
        let (mut last, mut before) = ([0.0; TOGETHER], [0.0; TOGETHER]);
        for &value in &self.samples {
            let next = std::array::from_fn(|at| value + turns[at] * last[at] - before[at]);
            (before, last) = (last, next);
        }
        std::array::from_fn(|at| {
            let (last, before) = (last[at], before[at]);
            (last * last + before * before - turns[at] * last * before).max(0.0).sqrt()
        })
    }

    /// The largest magnitude between two frequencies, the first excluded.
    fn peak(&self, from: f64, to: f64) -> f64 {
        let bins = SAMPLES as f64 * SPACING;
        let (first, last) = ((from * bins).floor() as usize + 1, (to * bins).floor() as usize);
        let groups = (first..=last).step_by(TOGETHER);
        let largest = |from: usize| {
            let magnitudes = self.magnitudes(from);
            magnitudes.into_iter().take(last + 1 - from).fold(0.0, f64::max)
        };
        groups.map(largest).fold(0.0, f64::max)
    }
}

/// The detector's memory.
#[derive(Clone, Debug)]
pub struct Detector {
    cross: Ring,
    others: Ring,
    received: Ring,
    elasticity: f64,
}

impl Detector {
    /// Nothing seen yet.
    pub fn new() -> Detector {
        Detector { cross: Ring::new(), others: Ring::new(), received: Ring::new(), elasticity: 1.0 }
    }

    /// Takes a sample: the cross traffic `z`, the link's rate `mu` and what we receive of it.
    pub fn push(&mut self, cross: f64, mu: f64, received: f64) {
        self.cross.push(cross);
        self.others.push(mu - received);
        self.received.push(received);
    }

    /// The rate received five seconds ago, before what is happening now began.
    pub fn received_before(&self) -> Option<f64> {
        self.received.iter().next()
    }

    /// Updates the elasticity for a pulse at `frequency` on a link of `mu`; `None` until the ring is full,
    /// and between spectra.
    pub fn update(&mut self, frequency: f64, mu: f64) -> Option<f64> {
        if self.cross.samples.len() < SAMPLES || !self.cross.next.is_multiple_of(EVERY) {
            return None;
        }
        let recent = self.cross.iter().skip(SAMPLES * 3 / 4).sum::<f64>() / (SAMPLES / 4) as f64;
        if recent < LEAST_CROSS * mu {
            self.elasticity = 0.0;
        }
        let ratio = self.ratio(frequency);
        self.elasticity += WEIGHT * (ratio - self.elasticity);
        Some(self.elasticity)
    }

    /// The pulse's frequency against its neighbours in the cross traffic's spectrum.
    pub fn ratio(&self, frequency: f64) -> f64 {
        let at = self.cross.peak(frequency - PEAK, frequency + PEAK);
        let beside = self.cross.peak(frequency + ABOVE, 2.0 * frequency - BELOW_TWICE);
        let others = self.others.peak(frequency - PEAK, frequency + PEAK);
        let ratio = at / beside.max(1.0);
        // An error in the link's rate looks like cross traffic at our own frequency; it is small beside our
        // own pulse.
        if at < LEAST_PEAK * others { ratio.min(MOST_SCALED) * at / (LEAST_PEAK * others) } else { ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    fn fed(z: impl Fn(f64) -> f64) -> Detector {
        let mut detector = Detector::new();
        (0..600).for_each(|n| {
            let seconds = f64::from(n) * SPACING;
            detector.push(z(seconds), 20e6, 20e6 - z(seconds));
        });
        detector
    }

    #[test]
    fn goertzel_finds_a_sine_and_nothing_else() {
        let bin = (5.0 * SAMPLES as f64 * SPACING).round();
        let frequency = bin / (SAMPLES as f64 * SPACING);
        let detector = fed(|t| 3.0 + 2.0 * (TAU * frequency * t).sin());
        // Magnitude of a sine of amplitude a over n samples: a n / 2.
        let at = detector.cross.magnitudes(bin as usize)[0];
        assert!((at - SAMPLES as f64).abs() < 1e-6 * at, "{at}");
        assert!(detector.cross.magnitudes(bin as usize + 7)[0] < 1e-6 * at);
    }

    #[test]
    fn traffic_that_answers_stands_out_of_noise() {
        let noise: Vec<f64> = {
            let mut rng = Rng::stream(1, "noise");
            (0..600).map(|_| 1e6 * rng.normal()).collect()
        };
        let at = |t: f64| noise[(t / SPACING).round() as usize];
        let elastic = fed(|t| 10e6 + at(t) + 1e6 * (TAU * 5.0 * t).sin());
        let inelastic = fed(|t| 10e6 + at(t));
        assert!(elastic.ratio(5.0) > 2.25, "{}", elastic.ratio(5.0));
        assert!(inelastic.ratio(5.0) < 2.0, "{}", inelastic.ratio(5.0));
    }

    #[test]
    fn little_cross_traffic_is_inelastic() {
        let mut detector = fed(|t| 1e6 + 0.9e6 * (TAU * 5.0 * t).sin());
        detector.elasticity = 5.0;
        let seen = (0..EVERY).find_map(|_| {
            detector.push(1e6, 20e6, 19e6);
            detector.update(5.0, 20e6)
        });
        assert!(seen.unwrap() < 2.0);
    }
}
