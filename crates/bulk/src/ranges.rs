//! Byte ranges: what has arrived out of order, at either end.

use std::collections::VecDeque;

/// Ranges from (included) to (excluded), in order, neither overlapping nor touching.
#[derive(Clone, Debug)]
pub struct Ranges {
    ranges: VecDeque<(u64, u64)>,
}

/// Room for ranges from the start; more than that makes it grow.
const ROOM: usize = 128;

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges { ranges: VecDeque::with_capacity(ROOM) }
    }
}

impl Ranges {
    /// Enters a range and calls `fresh` with each part of it that is new, in order.
    #[inline]
    pub fn insert(&mut self, from: u64, to: u64, mut fresh: impl FnMut(u64, u64)) {
        if from >= to {
            return;
        }
        // Nearly always the newest range grows.
        match self.ranges.back_mut() {
            None => {
                fresh(from, to);
                self.ranges.push_back((from, to));
            }
            Some(last) if from > last.1 => {
                fresh(from, to);
                self.ranges.push_back((from, to));
            }
            Some(last) if from >= last.0 => {
                if to > last.1 {
                    fresh(last.1.max(from), to);
                    last.1 = to;
                }
            }
            Some(_) => self.insert_inside(from, to, fresh),
        }
    }

    fn insert_inside(&mut self, from: u64, to: u64, mut fresh: impl FnMut(u64, u64)) {
        // The ranges that touch the new one are merged into it.
        let first = self.ranges.partition_point(|range| range.1 < from);
        let end = self.ranges.partition_point(|range| range.0 <= to);
        let mut at = from;
        for &(low, high) in self.ranges.range(first..end) {
            if at < low {
                fresh(at, low.min(to));
            }
            at = at.max(high);
        }
        if at < to {
            fresh(at, to);
        }
        if first == end {
            self.ranges.insert(first, (from, to));
            return;
        }
        let merged = (from.min(self.ranges[first].0), to.max(self.ranges[end - 1].1));
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..end);
    }

    /// Forgets everything below `floor`; a range that begins at or below it and ends above is taken out
    /// whole. Returns where what is contiguous from `floor` ends.
    #[inline]
    pub fn advance(&mut self, mut floor: u64) -> u64 {
        while let Some(&(from, to)) = self.ranges.front() {
            if from > floor {
                break;
            }
            floor = floor.max(to);
            self.ranges.pop_front();
        }
        floor
    }

    /// The range that holds the byte at `place`.
    pub fn containing(&self, place: u64) -> Option<(u64, u64)> {
        let at = self.ranges.partition_point(|range| range.1 <= place);
        self.ranges.get(at).copied().filter(|range| range.0 <= place)
    }

    /// True if nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// From the highest range down.
    pub fn descending(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().rev().copied()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_equals_a_set(steps in prop::collection::vec((0u64..200, 0u64..30, 0u8..10), 1..100)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            let mut floor = 0;
            for (from, size, kind) in steps {
                if kind == 0 {
                    floor = ranges.advance(floor);
                    let reached = (0..floor).chain(set.iter().copied()).collect::<BTreeSet<_>>();
                    prop_assert!((0..floor).all(|byte| reached.contains(&byte)));
                    set.retain(|byte| *byte >= floor);
                }
                let (from, to) = (from.max(floor), (from + size).max(floor));
                let mut new = Vec::new();
                ranges.insert(from, to, |low, high| new.extend(low..high));
                let expected: Vec<u64> = (from..to).filter(|byte| set.insert(*byte)).collect();
                prop_assert_eq!(new, expected);
                let held: BTreeSet<u64> = ranges.ranges.iter().flat_map(|&(low, high)| low..high).collect();
                prop_assert_eq!(&held, &set);
                prop_assert!(ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }

    #[test]
    fn advancing_takes_what_is_contiguous() {
        let mut ranges = Ranges::default();
        [(10, 20), (30, 40), (50, 60)].iter().for_each(|&(from, to)| ranges.insert(from, to, |_, _| ()));
        assert_eq!(ranges.containing(35), Some((30, 40)));
        assert_eq!((ranges.containing(40), ranges.containing(5)), (None, None));
        assert_eq!((ranges.advance(10), ranges.len()), (20, 2));
        assert_eq!((ranges.advance(45), ranges.len()), (45, 1));
        assert_eq!(ranges.descending().collect::<Vec<_>>(), [(50, 60)]);
    }
}
