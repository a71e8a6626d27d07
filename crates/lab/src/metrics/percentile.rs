//! Percentiles, and the handful of numbers that stand for a distribution.

/// The `p`-th percentile (0 to 100) of ascending `sorted` values by nearest rank: the smallest value with at
/// least `p` per cent of all values at or below it. `None` without values.
pub fn nearest_rank(sorted: &[f64], p: f64) -> Option<f64> {
    nearest_place(sorted.len(), p).map(|place| sorted[place])
}

/// Where that value stands among `count` of them, from 0 on. `None` if there are none.
pub fn nearest_place(count: usize, p: f64) -> Option<usize> {
    let rank = (p / 100.0 * count as f64).ceil() as usize;
    (count > 0).then(|| rank.clamp(1, count) - 1)
}

/// The percentile as Pantheon computes it (NumPy's `nearest` interpolation): the value at the index nearest
/// to `p / 100 * (n - 1)`, halves to the even index. Differs from [`nearest_rank`] by at most one rank.
pub fn pantheon_percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let index = (p / 100.0 * last as f64).round_ties_even() as usize;
    sorted.get(index.min(last)).copied()
}

/// A distribution in five numbers, in the unit of the values; percentiles by [`nearest_rank`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
    /// 10th percentile.
    pub p10: f64,
    /// The median (50th percentile).
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`, which need no order; `None` without any. Values that are no numbers are left
    /// out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| !v.is_nan()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |p| nearest_rank(&sorted, p);
        Some(Spread {
            count: sorted.len(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p5: at(5.0)?,
            p10: at(10.0)?,
            p50: at(50.0)?,
            p90: at(90.0)?,
            p95: at(95.0)?,
            p99: at(99.0)?,
            max: *sorted.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_picks_a_value_that_occurred() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(nearest_rank(&values, 0.0), Some(1.0));
        assert_eq!(nearest_rank(&values, 50.0), Some(5.0));
        assert_eq!(nearest_rank(&values, 90.0), Some(9.0));
        assert_eq!(nearest_rank(&values, 91.0), Some(10.0));
        assert_eq!(nearest_rank(&values, 100.0), Some(10.0));
        assert_eq!(nearest_rank(&[], 50.0), None);
    }

    #[test]
    fn pantheon_rounds_to_the_nearest_index() {
        // numpy.percentile([1, 2, 3, 4], 50, interpolation='nearest') is 3: index 1.5 goes to the even 2.
        assert_eq!(pantheon_percentile(&[1.0, 2.0, 3.0, 4.0], 50.0), Some(3.0));
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(pantheon_percentile(&values, 95.0), Some(95.0));
        assert_eq!(pantheon_percentile(&[], 95.0), None);
    }

    #[test]
    fn a_spread_ignores_order_and_missing_values() {
        let spread = Spread::of([3.0, f64::NAN, 1.0, 2.0]).unwrap();
        assert_eq!((spread.count, spread.mean, spread.p50, spread.max), (3, 2.0, 2.0, 3.0));
        assert_eq!(Spread::of([f64::NAN]), None);
    }
}
