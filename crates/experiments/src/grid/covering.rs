//! A pairwise covering array: few points, in which every two levels of two axes meet.
//!
//! Most faults need one or two unlucky values (Kuhn, Wallace, Gallo: Software fault interactions and
//! implications for software testing, IEEE TSE 30(6), 2004), and a full product of nine axes has 384,000
//! points. Rows are built greedily, one level after another, each the one that covers most pairs still
//! missing (as AETG does: Cohen et al., IEEE TSE 23(7), 1997), without chance.

use std::collections::BTreeSet;

/// Two levels of two axes, the lower axis first.
type Pair = (usize, usize, usize, usize);

/// Rows that cover every pair of levels that some possible point has and `known` points do not.
///
/// A pair counts as having a possible point if `easy` with these two levels is one.
pub fn pairs<const N: usize>(
    levels: &[usize; N],
    easy: &[usize; N],
    known: &[[usize; N]],
    possible: impl Fn(&[usize; N]) -> bool,
) -> Vec<[usize; N]> {
    let with = |mut point: [usize; N], axis: usize, level: usize| {
        point[axis] = level;
        point
    };
    let mut missing: BTreeSet<Pair> = BTreeSet::new();
    for a in 0..N {
        for b in a + 1..N {
            for (i, j) in (0..levels[a]).flat_map(|i| (0..levels[b]).map(move |j| (i, j))) {
                if possible(&with(with(*easy, a, i), b, j)) {
                    missing.insert((a, i, b, j));
                }
            }
        }
    }
    let of = |point: &[usize; N]| -> Vec<Pair> {
        (0..N)
            .flat_map(|a| (a + 1..N).map(move |b| (a, b)))
            .map(|(a, b)| (a, point[a], b, point[b]))
            .collect()
    };
    known.iter().flat_map(of).for_each(|pair| {
        missing.remove(&pair);
    });
    let mut rows = Vec::new();
    while let Some(&(a, i, b, j)) = missing.first() {
        let mut row = with(with(*easy, a, i), b, j);
        let mut set = vec![a, b];
        for axis in (0..N).filter(|axis| ![a, b].contains(axis)) {
            let gain = |level: usize| {
                let pair = |&other: &usize| {
                    let (own, others) = ((axis, level), (other, row[other]));
                    let (low, high) = if axis < other { (own, others) } else { (others, own) };
                    missing.contains(&(low.0, low.1, high.0, high.1))
                };
                set.iter().filter(|other| pair(other)).count()
            };
            let open = (0..levels[axis]).filter(|&level| possible(&with(row, axis, level)));
            // Of equal ones the easy level, else the first.
            let best = open.max_by_key(|&level| (gain(level), level == easy[axis], levels[axis] - level));
            row[axis] = best.unwrap_or(easy[axis]);
            set.push(axis);
        }
        for pair in of(&row) {
            missing.remove(&pair);
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered<const N: usize>(rows: &[[usize; N]], pair: Pair) -> bool {
        rows.iter().any(|row| row[pair.0] == pair.1 && row[pair.2] == pair.3)
    }

    #[test]
    fn every_possible_pair_meets_in_few_rows() {
        let levels = [4, 3, 3, 2, 5];
        // The first axis's last level goes with the second's first only.
        let possible = |point: &[usize; 5]| point[0] != 3 || point[1] == 0;
        let rows = pairs(&levels, &[0; 5], &[], possible);
        assert!(rows.len() <= 26, "{}", rows.len());
        assert!(rows.iter().all(possible));
        for a in 0..5 {
            for b in a + 1..5 {
                for (i, j) in (0..levels[a]).flat_map(|i| (0..levels[b]).map(move |j| (i, j))) {
                    let impossible = (a, b, i) == (0, 1, 3) && j > 0;
                    assert_eq!(covered(&rows, (a, i, b, j)), !impossible, "{a}={i} {b}={j}");
                }
            }
        }
    }

    #[test]
    fn what_is_known_is_not_repeated() {
        let known: Vec<[usize; 2]> = (0..3).flat_map(|i| (0..3).map(move |j| [i, j])).skip(1).collect();
        assert_eq!(pairs(&[3, 3], &[0, 0], &known, |_| true), [[0, 0]]);
    }
}
