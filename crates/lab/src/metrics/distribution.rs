//! A distribution whose values come one by one, in memory that does not grow with how many there are.

use std::collections::BTreeMap;

use super::{Spread, nearest_rank};

/// Bits of a value's significand that a bucket keeps: a bucket is `2^-14` of its value wide, so a percentile
/// read from its middle is within 0.003 % of the true one.
const KEPT_BITS: u32 = 14;
/// Buckets of a page are counted together; pages are made as values fall into them.
const PAGE_BITS: u32 = 12;
const DROPPED_BITS: u32 = f64::MANTISSA_DIGITS - 1 - KEPT_BITS;

/// Values as they come: each one while there are at most `limit`, and how many fell into each bucket from
/// then on.
#[derive(Clone, Debug)]
pub struct Distribution {
    limit: usize,
    exact: Vec<f64>,
    buckets: Option<Buckets>,
}

#[derive(Clone, Debug)]
struct Buckets {
    pages: BTreeMap<u64, Box<[u64; 1 << PAGE_BITS]>>,
    count: u64,
    sum: f64,
    least: f64,
    most: f64,
}

impl Distribution {
    /// A distribution that keeps each of up to `limit` values.
    pub fn of_at_most(limit: usize) -> Distribution {
        Distribution { limit, exact: Vec::new(), buckets: None }
    }

    /// Adds a value; one that is no number is left out.
    pub fn push(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        match &mut self.buckets {
            Some(buckets) => buckets.push(value),
            None if self.exact.len() < self.limit => self.exact.push(value),
            None => {
                let mut buckets = Buckets::default();
                std::mem::take(&mut self.exact).into_iter().chain([value]).for_each(|v| buckets.push(v));
                self.buckets = Some(buckets);
            }
        }
    }

    /// Whether every value is still known.
    pub fn is_exact(&self) -> bool {
        self.buckets.is_none()
    }

    /// Bytes of memory held.
    pub fn held(&self) -> usize {
        let pages = self.buckets.as_ref().map_or(0, |buckets| buckets.pages.len());
        self.exact.capacity() * size_of::<f64>() + pages * (size_of::<u64>() << PAGE_BITS)
    }

    /// The values in ascending order with how many there are of each; a bucket's values count as its middle.
    pub fn counted(&self) -> Vec<(f64, u64)> {
        match &self.buckets {
            Some(buckets) => buckets.counted(),
            None => self.sorted().into_iter().map(|value| (value, 1)).collect(),
        }
    }

    /// The five numbers; of a distribution that is not exact, the percentiles are within 0.003 %. `None`
    /// without any value.
    pub fn spread(&self) -> Option<Spread> {
        match &self.buckets {
            Some(buckets) => Some(buckets.spread()),
            None => Spread::of(self.exact.iter().copied()),
        }
    }

    /// The `p`-th percentile by nearest rank.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        match &self.buckets {
            Some(buckets) => Some(buckets.percentiles(&[p])[0]),
            None => nearest_rank(&self.sorted(), p),
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.exact.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }
}

impl Default for Buckets {
    fn default() -> Buckets {
        let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
        Buckets { pages: BTreeMap::new(), count: 0, sum: 0.0, least, most }
    }
}

/// Numbers in the order of [`f64::total_cmp`]: the bits of positive values as they are above all negative
/// ones, whose bits run down.
fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits | 1 << 63 }
}

fn value_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

impl Buckets {
    fn push(&mut self, value: f64) {
        let bucket = ordered(value) >> DROPPED_BITS;
        let page = self.pages.entry(bucket >> PAGE_BITS).or_insert_with(|| Box::new([0; 1 << PAGE_BITS]));
        page[(bucket & ((1 << PAGE_BITS) - 1)) as usize] += 1;
        self.count += 1;
        self.sum += value;
        (self.least, self.most) = (self.least.min(value), self.most.max(value));
    }

    fn counted(&self) -> Vec<(f64, u64)> {
        let middle = |page: u64, place: usize| {
            let bucket = page << PAGE_BITS | place as u64;
            let value = value_of(bucket << DROPPED_BITS | 1 << (DROPPED_BITS - 1));
            value.clamp(self.least, self.most)
        };
        let of_page = |(page, counts): (u64, &[u64])| -> Vec<(f64, u64)> {
            let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.map(|(place, &count)| (middle(page, place), count)).collect()
        };
        self.pages.iter().map(|(&page, counts)| (page, &counts[..])).flat_map(of_page).collect()
    }

    /// Nearest ranks of ascending percentages.
    fn percentiles(&self, wanted: &[f64]) -> Vec<f64> {
        let mut counted = self.counted().into_iter();
        let (mut value, mut below) = (self.least, 0);
        let mut at = |p: f64| {
            let rank = ((p / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count);
            while below < rank {
                let (next, count) = counted.next().expect("the counts add up");
                (value, below) = (next, below + count);
            }
            value
        };
        wanted.iter().map(|&p| at(p)).collect()
    }

    fn spread(&self) -> Spread {
        let found = self.percentiles(&[5.0, 10.0, 50.0, 90.0, 95.0, 99.0]);
        let [p5, p10, p50, p90, p95, p99] = found[..] else { unreachable!("six were asked for") };
        let mean = self.sum / self.count as f64;
        Spread { count: self.count as usize, mean, p5, p10, p50, p90, p95, p99, max: self.most }
    }
}

/// How steady a sender is: [`coefficient_of_variation`](super::coefficient_of_variation) of whole numbers
/// that come one by one. Each is kept while there are at most `limit`; from then on their sums are, which are
/// exact, too.
#[derive(Clone, Debug, Default)]
pub struct Variation {
    limit: usize,
    exact: Vec<f64>,
    sums: Option<(u64, u128, u128)>,
}

impl Variation {
    /// Of values, each of up to `limit` of which are kept.
    pub fn of_at_most(limit: usize) -> Variation {
        Variation { limit, ..Variation::default() }
    }

    /// Adds a value.
    pub fn push(&mut self, value: u64) {
        if self.sums.is_none() && self.exact.len() < self.limit {
            return self.exact.push(value as f64);
        }
        let (count, sum, squares) = self.sums.get_or_insert_default();
        for value in std::mem::take(&mut self.exact).into_iter().map(|value| value as u64).chain([value]) {
            *count += 1;
            *sum += u128::from(value);
            *squares += u128::from(value) * u128::from(value);
        }
    }

    /// Bytes of memory held.
    pub fn held(&self) -> usize {
        self.exact.capacity() * size_of::<f64>()
    }

    /// Standard deviation over mean; `None` where the mean is zero or there are no values.
    pub fn coefficient(&self) -> Option<f64> {
        let Some((count, sum, squares)) = self.sums else {
            return super::coefficient_of_variation(&self.exact);
        };
        // n^2 times the variance, without rounding.
        let spread = u128::from(count) * squares - sum * sum;
        (sum > 0).then(|| (spread as f64).sqrt() / sum as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(limit: usize, values: &[f64]) -> Distribution {
        let mut distribution = Distribution::of_at_most(limit);
        values.iter().for_each(|&value| distribution.push(value));
        distribution
    }

    proptest! {
        #[test]
        fn buckets_are_as_narrow_as_they_say(values in prop::collection::vec(-1e9f64..1e9, 1..300)) {
            let (exact, coarse) = (filled(300, &values).spread().unwrap(), filled(0, &values));
            prop_assert!(!coarse.is_exact());
            let coarse = coarse.spread().unwrap();
            let pairs = [
                (exact.p5, coarse.p5), (exact.p10, coarse.p10), (exact.p50, coarse.p50), (exact.p90, coarse.p90),
                (exact.p95, coarse.p95), (exact.p99, coarse.p99),
            ];
            for (exact, coarse) in pairs {
                prop_assert!((exact - coarse).abs() <= 3.1e-5 * exact.abs(), "{} for {}", coarse, exact);
            }
            prop_assert_eq!((exact.count, exact.max), (coarse.count, coarse.max));
            prop_assert!((exact.mean - coarse.mean).abs() <= 1e-9 * 1e9);
        }

        #[test]
        fn sums_vary_as_their_values_do(values in prop::collection::vec(0u64..1_000_000, 1..300)) {
            let of = |limit| {
                let mut variation = Variation::of_at_most(limit);
                values.iter().for_each(|&value| variation.push(value));
                variation.coefficient().unwrap_or(-1.0)
            };
            prop_assert!((of(300) - of(10)).abs() < 1e-9, "{} and {}", of(300), of(10));
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_values() {
        let mut delays = Distribution::of_at_most(1_000);
        (0..100_000u32).for_each(|k| delays.push(20.0 + f64::from(k % 9_973) * 0.01));
        let held = delays.held();
        (0..1_000_000u32).for_each(|k| delays.push(20.0 + f64::from(k % 99_991) * 0.001));
        assert_eq!(delays.held(), held);
        assert!(held < 1 << 20, "{held} bytes for values from 20 to 120");
    }

    #[test]
    fn few_values_are_kept_as_they_are() {
        let values = [3.0, f64::NAN, 1.0, 2.0];
        assert_eq!(filled(3, &values).spread(), Spread::of(values));
        assert_eq!(filled(3, &values).counted(), [(1.0, 1), (2.0, 1), (3.0, 1)]);
        assert_eq!(filled(3, &values).percentile(50.0), Some(2.0));
        assert_eq!((filled(3, &[]).spread(), filled(0, &[f64::NAN]).spread()), (None, None));
    }
}
