//! Which share of the CC-Rate the encoder should have got over the last second (Vidaptive, section 3.4 and
//! appendix A.1).
//!
//! ```text
//!  k_i  = d_i / alpha_i                      a frame's delay in the pacer, had it had the whole CC-Rate
//!  F(a) = #{i: a k_i <= tau} / N             frames that would not have made the encoder pause
//!  B(a) = min(a mean(k) / interval, 1)       how full they would have kept the pacer
//!  alpha* = the a in [alpha_min, alpha_max] with the largest  lambda/(1 - lambda) F(a) + B(a)
//! ```
//!
//! F falls in steps at tau/k_i and B rises, so that the largest value is at one of these or at alpha_max.
//!
//! Deviation: Algorithm 1 as printed tests `K[i] <= tau` and adds `K[i]/N` whatever alpha is tried, leaves
//! out the interval and returns the old alpha; here it does what the text derives. Where even alpha_min would
//! make every frame late it finds no candidate and returns alpha_max; here that counts as an outage.

/// What the search trades off, and between which bounds. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Weight of frame rate against bitrate, 0 or more and below 1.
    pub lambda: f64,
    /// Longest delay in the pacer that does not pause the encoder.
    pub tau: f64,
    /// Smallest share of the rate that the encoder may be given.
    pub least: f64,
    /// Largest share of the rate that the encoder may be given.
    pub most: f64,
}

/// What a share would have meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The share of the CC-Rate that the encoder would have got, 0 to 1.
    pub alpha: f64,
    /// F: frames that would not have paused the encoder, 0 to 1.
    pub frames: f64,
    /// B: how full the pacer would have been, 0 to 1.
    pub bitrate: f64,
}

impl Search {
    /// The best share for frames with these `delays` (`k_i`, ascending, at least one) that come every
    /// `interval`; of equally good ones the smallest. `None` if every frame would have been late with any
    /// share.
    pub fn best(&self, delays: &[f64], interval: f64) -> Option<Score> {
        let late = self.tau / self.least;
        if delays.first().is_none_or(|&k| k > late) {
            return None;
        }
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let score = |alpha: f64, limit: f64| Score {
            alpha,
            frames: delays.partition_point(|&k| k <= limit) as f64 / delays.len() as f64,
            bitrate: (alpha * mean / interval).min(1.0),
        };
        let mut best = score(self.most, self.tau / self.most);
        // Ascending delays are descending shares: the last of equals is the smallest.
        for &k in delays.iter().filter(|&&k| k > self.tau / self.most && k <= late) {
            // Asked as "k <= k", not as "alpha k <= tau": the quotient is rounded.
            let candidate = score(self.tau / k, k);
            if self.value(&candidate) >= self.value(&best) {
                best = candidate;
            }
        }
        Some(best)
    }

    /// The objective.
    fn value(&self, score: &Score) -> f64 {
        self.lambda / (1.0 - self.lambda) * score.frames + score.bitrate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: f64 = 1.0 / 30.0;

    fn search(lambda: f64) -> Search {
        Search { lambda, tau: 0.033, least: 0.05, most: 1.0 }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    /// Delays in ms at a share, as `k` in seconds.
    fn delays(ms: &[f64], alpha: f64) -> Vec<f64> {
        let mut k: Vec<f64> = ms.iter().map(|d| d / 1e3 / alpha).collect();
        k.sort_unstable_by(f64::total_cmp);
        k
    }

    /// What lambda 0.2, 0.5, 0.7 and 0.99 choose.
    fn chosen(k: &[f64]) -> [f64; 4] {
        [0.2, 0.5, 0.7, 0.99].map(|lambda| search(lambda).best(k, INTERVAL).unwrap().alpha)
    }

    fn holds(k: &[f64], expected: [f64; 4]) {
        let found = chosen(k);
        assert!(found.iter().zip(expected).all(|(&a, b)| close(a, b)), "{found:?}");
    }

    fn scores(k: &[f64], lambda: f64, frames: f64, bitrate: f64) {
        let found = search(lambda).best(k, INTERVAL).unwrap();
        assert!(close(found.frames, frames) && close(found.bitrate, bitrate), "{found:?}");
    }

    #[test]
    fn v1_all_frames_in_time() {
        let k = delays(&[20.0; 20], 0.8);
        holds(&k, [1.0; 4]);
        scores(&k, 0.5, 1.0, 0.75);
    }

    #[test]
    fn v2_two_of_twenty_late() {
        let k = delays(&[[20.0; 18].as_slice(), &[60.0; 2]].concat(), 0.8);
        holds(&k, [1.0, 1.0, 1.0, 0.44]);
        scores(&k, 0.5, 0.9, 0.9);
        scores(&k, 0.99, 1.0, 0.396);
    }

    #[test]
    fn v3_half_of_them_late() {
        let k = delays(&[[20.0; 10], [40.0; 10]].concat(), 0.8);
        holds(&k, [1.0, 0.66, 0.66, 0.66]);
        scores(&k, 0.2, 0.5, 1.0);
        scores(&k, 0.5, 1.0, 0.7425);
    }

    #[test]
    fn v5_nothing_would_have_been_in_time() {
        assert_eq!(search(0.5).best(&delays(&[700.0; 20], 0.5), INTERVAL), None);
        assert_eq!(search(0.5).best(&[], INTERVAL), None);
    }

    #[test]
    fn v6_a_ramp() {
        let ramp: Vec<f64> = (1..=30).map(|n| 2.0 * f64::from(n)).collect();
        let k = delays(&ramp, 1.0);
        holds(&k, [1.0, 0.55, 0.55, 0.55]);
        scores(&k, 0.2, 0.5333, 0.93);
        scores(&k, 0.5, 1.0, 0.5115);
    }

    proptest! {
        /// No share on a fine grid is better than the one found.
        #[test]
        fn nothing_beats_the_best(
            mut k in prop::collection::vec(0.0f64..2.0, 1..60), lambda in 0.0f64..0.99, tau in 0.005f64..1.0
        ) {
            k.sort_unstable_by(f64::total_cmp);
            let search = Search { tau, ..search(lambda) };
            let value = |alpha: f64| {
                let frames = k.iter().filter(|&&k| alpha * k <= tau).count() as f64 / k.len() as f64;
                let mean = k.iter().sum::<f64>() / k.len() as f64;
                lambda / (1.0 - lambda) * frames + (alpha * mean / INTERVAL).min(1.0)
            };
            let grid = (0..=950).map(|n| value(0.05 + f64::from(n) / 1e3)).fold(0.0, f64::max);
            match search.best(&k, INTERVAL) {
                None => prop_assert!(k[0] * 0.05 > tau),
                Some(best) => {
                    prop_assert!((0.05..=1.0).contains(&best.alpha));
                    prop_assert!(search.value(&best) >= grid - 1e-9, "{best:?} {grid}");
                }
            }
        }
    }
}
