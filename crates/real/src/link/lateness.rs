//! How late packets were, as a histogram: a few kilobytes for any number of them.

use units::Span;

/// Bins in each doubling: a quantile is known to within 1/16 of itself.
const PER_OCTAVE: u32 = 16;
/// Up to 2^36 ns, which is 69 s.
const OCTAVES: u32 = 36;

/// A distribution of times from zero up.
#[derive(Clone, Debug)]
pub struct Lateness {
    bins: Vec<u64>,
    count: u64,
    most: Span,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { bins: vec![0; (OCTAVES * PER_OCTAVE) as usize], count: 0, most: Span::ZERO }
    }
}

impl Lateness {
    /// Counts one; what is negative counts as zero.
    pub fn count(&mut self, span: Span) {
        let last = self.bins.len() - 1;
        self.bins[bin(span.as_nanos().max(0) as u64).min(last)] += 1;
        self.count += 1;
        self.most = self.most.max(span);
    }

    /// How many were counted.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The `share` quantile by nearest rank, rounded up to its bin's end; `None` where nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.bins.iter().position(|&count| {
            seen += count;
            seen >= rank
        })?;
        Some(Span::from_nanos(end(reached) as i64).min(self.most))
    }

    /// The largest lateness counted; `None` before the first packet.
    pub fn most(&self) -> Option<Span> {
        (self.count > 0).then_some(self.most)
    }
}

/// The bin of a value: one each up to 15, then 16 in each doubling.
fn bin(ns: u64) -> usize {
    let octave = ns.checked_ilog2().unwrap_or(0).saturating_sub(PER_OCTAVE.ilog2());
    (u64::from(octave * PER_OCTAVE) + (ns >> octave)) as usize
}

/// The largest value of a bin.
fn end(bin: usize) -> u64 {
    let bin = bin as u64;
    let width = u64::from(PER_OCTAVE);
    let octave = (bin / width).saturating_sub(1);
    ((bin - octave * width + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_a_thousand() {
        let mut late = Lateness::default();
        assert_eq!((late.quantile(0.5), late.most()), (None, None));
        (1..=1000).for_each(|us| late.count(Span::from_micros(us)));
        let us = |share| late.quantile(share).unwrap().as_nanos() as f64 / 1e3;
        assert!((500.0..=532.0).contains(&us(0.5)), "{}", us(0.5));
        assert!((990.0..=1000.0).contains(&us(0.99)), "{}", us(0.99));
        assert_eq!((us(1.0), late.len()), (1000.0, 1000));
        late.count(Span::from_secs(1_000_000));
        late.count(Span::from_nanos(-5));
        assert_eq!(late.quantile(0.0), Some(Span::ZERO));
    }

    proptest! {
        #[test]
        fn a_bin_holds_what_is_counted_in_it(ns in 0u64..1 << 36) {
            let end = end(bin(ns));
            prop_assert!(ns <= end && end <= ns + ns / 16, "{ns} in a bin until {end}");
            prop_assert_eq!(bin(end), bin(ns));
            prop_assert_eq!(bin(end + 1), bin(ns) + 1);
        }
    }
}
