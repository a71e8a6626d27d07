//! A mean over seeds, and how far off it may be.

use serde::Serialize;

/// A figure over the seeds of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Arithmetic mean of the runs that know the figure; none if none does.
    pub mean: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean, by Student's t with `n` - 1 degrees of
    /// freedom: the interval is mean ± this. None of fewer than two runs.
    pub ci95: Option<f64>,
    /// Runs that know the figure.
    pub n: usize,
}

impl Estimate {
    /// Of some values; the same values in the same order give the same bits.
    ///
    /// ```
    /// # use framewire_sweep::Estimate;
    /// let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
    /// assert_eq!((estimate.mean, estimate.n), (Some(2.0), 3));
    /// // t(0.975, 2) = 4.3027 times 1 / sqrt(3).
    /// assert!((estimate.ci95.unwrap() - 2.484).abs() < 1e-3);
    /// assert_eq!(Estimate::of(&[1.0]).ci95, None);
    /// ```
    pub fn of(values: &[f64]) -> Estimate {
        let n = values.len();
        let Some(&first) = values.first() else { return Estimate::default() };
        if values.iter().all(|&value| value == first) {
            // Nothing is left to rounding: a third of three times 0.1 is not 0.1.
            return Estimate { mean: Some(first), ci95: (n > 1).then_some(0.0), n };
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let error = (squares / (n - 1) as f64 / n as f64).sqrt();
        Estimate { mean: Some(mean), ci95: Some(student(n - 1) * error), n }
    }

    /// Mean and half width in another unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Estimate {
        let scale = |value: Option<f64>| value.map(|value| value * factor);
        Estimate { mean: scale(self.mean), ci95: scale(self.ci95), n: self.n }
    }
}

/// The 97.5th percentile of Student's distribution with 1 to 10 degrees of freedom (Abramowitz and Stegun,
/// Handbook of Mathematical Functions, table 26.10).
const OF_FEW: [f64; 10] =
    [12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139];
/// That of the normal distribution.
const NORMAL: f64 = 1.959963984540054;

/// The 97.5th percentile of Student's distribution: from the table, and beyond by the expansion of equation
/// 26.7.5 of the same book, to within 2e-5.
fn student(freedom: usize) -> f64 {
    if let Some(t) = OF_FEW.get(freedom - 1) {
        return *t;
    }
    let (z, v) = (NORMAL, freedom as f64);
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5) - 1920.0 * z.powi(3) - 945.0 * z)
            / 92_160.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / v) + z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_tables() {
        for (freedom, t) in
            [(1, 12.7062), (4, 2.7764), (11, 2.20099), (19, 2.09302), (29, 2.04523), (99, 1.98422)]
        {
            assert!((student(freedom) - t).abs() < 5e-5, "{freedom}: {}", student(freedom));
        }
        assert!((student(1_000_000) - NORMAL).abs() < 1e-5);
    }

    #[test]
    fn of_one_run_nothing_is_known_about_others() {
        assert_eq!(Estimate::of(&[]), Estimate { mean: None, ci95: None, n: 0 });
        assert_eq!(Estimate::of(&[5.0]), Estimate { mean: Some(5.0), ci95: None, n: 1 });
        assert_eq!(Estimate::of(&[0.1; 3]), Estimate { mean: Some(0.1), ci95: Some(0.0), n: 3 });
        assert_eq!(Estimate::of(&[1.0, 3.0]).scaled(2.0).mean, Some(4.0));
    }
}
