//! DISTPACKETS: spreads packets over time by splitting time and number in two, over and over (CC-Fuzz thesis,
//! figure 7.2).
//!
//! ```text
//! n packets in [from, to):  draw where to cut the time and how many go left; with local rates, until both sides' rates lie
//! within half and twice the whole's; then the same on either side, down to single packets, which go in the middle
//! ```
//!
//! Deviation: the printed loop leaves spans below k_agg by `break` and never returns; the return belongs
//! after the loop. A cut at either end is drawn again, and spans below two microseconds are filled without
//! one.

use units::Rng;

/// A side's rate is at least this share of the whole's, and at most its inverse (figure 7.2).
const LEAST_RATIO: f64 = 0.5;
/// Below this span, in microseconds, there is no instant left to cut at.
const INDIVISIBLE: u32 = 2;

/// Rates of the two sides of a checked cut, as multiples of the whole's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Of the earlier side.
    pub left: f64,
    /// Of the later side.
    pub right: f64,
}

/// A stretch that waits for its packets.
#[derive(Clone, Copy)]
struct Piece {
    count: usize,
    from: u32,
    to: u32,
}

/// `count` instants in `[from, to)`, in microseconds, in order. `k_agg` bounds the rates of spans at least as
/// long; `None` bounds none, which allows bursts of any size.
pub fn distribute(count: usize, from: u32, to: u32, k_agg: Option<u32>, rng: &mut Rng) -> Vec<u32> {
    distribute_seen(count, from, to, k_agg, rng, |_| {})
}

/// As [`distribute`]; `seen` is told every cut that had to keep to the bounds.
pub fn distribute_seen(
    count: usize,
    from: u32,
    to: u32,
    k_agg: Option<u32>,
    rng: &mut Rng,
    mut seen: impl FnMut(Ratios),
) -> Vec<u32> {
    let mut instants = Vec::with_capacity(count);
    let mut pieces = vec![Piece { count, from, to }];
    while let Some(piece) = pieces.pop() {
        match piece.count {
            0 => {}
            1 => instants.push(piece.from + (piece.to - piece.from) / 2),
            count if piece.to - piece.from < INDIVISIBLE => {
                instants.extend(std::iter::repeat_n(piece.from, count));
            }
            _ => {
                let (left, right) = cut(piece, k_agg, rng, &mut seen);
                pieces.extend([right, left]);
            }
        }
    }
    instants
}

fn cut(piece: Piece, k_agg: Option<u32>, rng: &mut Rng, seen: &mut impl FnMut(Ratios)) -> (Piece, Piece) {
    let Piece { count, from, to } = piece;
    let bounded = k_agg.is_some_and(|k_agg| to - from >= k_agg);
    loop {
        let at = from + 1 + rng.below(u64::from(to - from - 1)) as u32;
        let left = rng.below(count as u64 + 1) as usize;
        let halves = (Piece { count: left, from, to: at }, Piece { count: count - left, from: at, to });
        if !bounded {
            return halves;
        }
        let ratios = Ratios { left: halves.0.rate() / piece.rate(), right: halves.1.rate() / piece.rate() };
        let fits = |ratio: f64| (LEAST_RATIO..=1.0 / LEAST_RATIO).contains(&ratio);
        if fits(ratios.left) && fits(ratios.right) {
            seen(ratios);
            return halves;
        }
    }
}

impl Piece {
    fn rate(&self) -> f64 {
        self.count as f64 / f64::from(self.to - self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Rng;

    proptest! {
        #[test]
        fn count_order_and_ends_are_exact(
            count in 0usize..3_000, from in 0u32..1_000, span in 1u32..10_000_000, bounded: bool, seed: u64
        ) {
            let spread = || distribute(count, from, from + span, bounded.then_some(50_000), &mut Rng::stream(seed, "x"));
            let instants = spread();
            prop_assert_eq!(instants.len(), count);
            prop_assert!(instants.is_sorted());
            prop_assert!(instants.iter().all(|&at| (from..from + span).contains(&at)));
            prop_assert_eq!(instants, spread());
        }

        #[test]
        fn checked_cuts_keep_to_half_and_twice(seed: u64, count in 2usize..12_000) {
            let mut checked = 0;
            let mut rng = Rng::stream(seed, "x");
            let instants = distribute_seen(count, 0, 10_000_000, Some(50_000), &mut rng, |ratios| {
                checked += 1;
                assert!([ratios.left, ratios.right].iter().all(|ratio| (0.5..=2.0).contains(ratio)));
            });
            prop_assert!(checked > 0 && instants.len() == count);
        }
    }

    #[test]
    fn rates_over_half_a_second_vary_as_in_the_sheet() {
        // 10 000 packets in 10 s give windows of 500 ms between 2.6 and 37 Mbit/s in three seeds.
        for seed in 0..3 {
            let instants = distribute(10_000, 0, 10_000_000, Some(50_000), &mut Rng::stream(seed, "sheet"));
            let mut windows = [0u32; 20];
            instants.iter().for_each(|at| windows[(at / 500_000) as usize] += 1);
            let mbps = |packets: &u32| f64::from(*packets) * 12_000.0 / 0.5 / 1e6;
            assert!(windows.iter().map(mbps).all(|rate| (0.5..80.0).contains(&rate)), "{windows:?}");
            assert_eq!(windows.iter().sum::<u32>(), 10_000);
        }
    }

    #[test]
    fn one_packet_goes_in_the_middle() {
        let mut rng = Rng::stream(1, "x");
        assert_eq!(distribute(1, 100, 200, None, &mut rng), [150]);
        assert_eq!(distribute(3, 7, 8, None, &mut rng), [7, 7, 7]);
    }
}
