//! The largest or smallest value over a sliding window.

use std::collections::VecDeque;

/// Entries kept at most. Beyond, the two newest are merged (the better value under the later key), which
/// makes a value live longer by less than a hundredth of the window.
const CAPACITY: usize = 256;

/// A windowed minimum or maximum. Keys are times or round numbers, and do not decrease; values are compared
/// with `PartialOrd`, so floats work (without NaN).
#[derive(Clone, Debug)]
pub struct Extremum<K, V> {
    /// Every value no later one is as good as, oldest first: the front is the best.
    entries: VecDeque<(K, V)>,
    /// Whether the largest is the best.
    largest: bool,
}

impl<K: Copy + PartialOrd, V: Copy + PartialOrd> Extremum<K, V> {
    /// A windowed minimum.
    pub fn min() -> Extremum<K, V> {
        Extremum { entries: VecDeque::new(), largest: false }
    }

    /// A windowed maximum.
    pub fn max() -> Extremum<K, V> {
        Extremum { entries: VecDeque::new(), largest: true }
    }

    #[inline(always)]
    fn is_better(&self, one: V, other: V) -> bool {
        if self.largest { one > other } else { one < other }
    }

    /// Takes a value, and forgets those with keys before `oldest`.
    pub fn insert(&mut self, key: K, value: V, oldest: K) {
        self.expire(oldest);
        while self.entries.back().is_some_and(|&(_, last)| !self.is_better(last, value)) {
            self.entries.pop_back();
        }
        let full = self.entries.len() == CAPACITY;
        match self.entries.back_mut() {
            Some(last) if full => last.0 = key,
            _ => self.entries.push_back((key, value)),
        }
    }

    /// Forgets values with keys before `oldest`.
    pub fn expire(&mut self, oldest: K) {
        while self.entries.front().is_some_and(|(key, _)| *key < oldest) {
            self.entries.pop_front();
        }
    }

    /// The best value in the window.
    pub fn get(&self) -> Option<V> {
        self.entries.front().map(|(_, value)| *value)
    }

    /// The key of the best value.
    pub fn key(&self) -> Option<K> {
        self.entries.front().map(|(key, _)| *key)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_plain_extremum(steps in prop::collection::vec((0u64..20, 0u32..100), 1..200), window in 1u64..100) {
            let (mut min, mut max) = (Extremum::min(), Extremum::max());
            let (mut now, mut all) = (0, Vec::new());
            for (step, value) in steps {
                now += step;
                let oldest = now.saturating_sub(window);
                min.insert(now, value, oldest);
                max.insert(now, value, oldest);
                all.push((now, value));
                let inside = || all.iter().filter(|(at, _)| *at >= oldest).map(|(_, value)| *value);
                prop_assert_eq!(min.get(), inside().min());
                prop_assert_eq!(max.get(), inside().max());
            }
        }
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut min = Extremum::min();
        (0..100_000u64).for_each(|n| min.insert(n, n, 0));
        assert_eq!((min.entries.len(), min.get()), (CAPACITY, Some(0)));
        min.insert(100_000, 100_000, 99_000);
        assert!(min.get().is_some());
    }
}
