//! Named, seeded random streams.
//!
//! Written here rather than taken from a library so that the numbers stay the same for as long as the project
//! does: a library is free to change its generator between versions, and every golden table would move with
//! it.

/// One random stream: xoshiro256++ (Blackman and Vigna 2019), seeded by SplitMix64 over the seed and the
/// stream's name.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream called `name` under `seed`. Streams of different names are independent, so a new consumer
    /// (`"link0/loss"`, `"flow2/jitter"`) never shifts the numbers another one sees.
    pub fn stream(seed: u64, name: &str) -> Rng {
        // FNV-1a turns the name into a number; SplitMix64 spreads it over the state.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut mix = seed ^ hash.rotate_left(32);
        let mut next = || {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Rng { state: [next(), next(), next(), next()] }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `[low, high)`.
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform integer in `[0, n)`; 0 when `n` is 0. Bias is below `n / 2^64`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Normal with mean 0 and standard deviation 1 (Box-Muller; one of the pair is thrown away to stay
    /// stateless).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_independent() {
        let take = |name| {
            let mut rng = Rng::stream(7, name);
            [rng.next_u64(), rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(take("link0/loss"), take("link0/loss"));
        assert_ne!(take("link0/loss"), take("link1/loss"));
    }

    #[test]
    fn moments_are_right() {
        let mut rng = Rng::stream(1, "moments");
        let n = 200_000;
        let mean = |values: &mut dyn FnMut() -> f64| (0..n).map(|_| values()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || rng.uniform()) - 0.5).abs() < 0.005);
        assert!((mean(&mut || rng.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!(mean(&mut || rng.normal()).abs() < 0.01);
        assert!((mean(&mut || rng.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || rng.below(10) as f64) - 4.5).abs() < 0.05);
    }
}
