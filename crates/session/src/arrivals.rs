//! Which packet numbers have arrived.

use std::collections::VecDeque;

/// Ranges remembered; with more, the lowest go, and numbers below count as stale.
const RANGES: usize = 256;
/// A number this far beyond the largest can only be wrong: at 10 kpacket/s it is a gap of 100 s.
const PLAUSIBLE: u64 = 1 << 20;

/// What a packet number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// New and the next in order.
    Next,
    /// New, but numbers before it are missing.
    AfterGap,
    /// New, filling a gap.
    Filling,
    /// Seen before.
    Duplicate,
    /// Too old to tell.
    Stale,
    /// Implausibly large.
    FarFuture,
}

/// The arrived numbers as ranges `(low, high)`, inclusive, never adjacent.
#[derive(Clone, Debug, Default)]
pub struct ArrivalLog {
    /// The range of the largest number: nearly every packet only makes it longer.
    newest: Option<(u64, u64)>,
    /// Those below it, lowest first.
    older: VecDeque<(u64, u64)>,
    floor: u64,
}

impl ArrivalLog {
    /// Enters the number of a packet that arrived, and says whether it is new.
    #[inline]
    pub fn insert(&mut self, packet: u64) -> Novelty {
        let Some(newest) = &mut self.newest else {
            self.newest = Some((packet, packet));
            return Novelty::Next;
        };
        if packet == newest.1 + 1 {
            newest.1 = packet;
            return Novelty::Next;
        }
        if packet > newest.1 + PLAUSIBLE {
            return Novelty::FarFuture;
        }
        if packet > newest.1 {
            self.older.push_back(std::mem::replace(newest, (packet, packet)));
            self.bound();
            return Novelty::AfterGap;
        }
        self.insert_below(packet)
    }

    fn insert_below(&mut self, packet: u64) -> Novelty {
        if packet < self.floor {
            return Novelty::Stale;
        }
        // The first range that ends at or after the packet: one of the older ones, or else the newest.
        let at = self.older.partition_point(|range| range.1 < packet);
        let Some(next) = self.older.get_mut(at).or(self.newest.as_mut()) else { return Novelty::Next };
        if next.0 <= packet {
            return Novelty::Duplicate;
        }
        let joins_next = next.0 == packet + 1;
        if joins_next {
            next.0 = packet;
        }
        let previous = at.checked_sub(1).filter(|&before| self.older[before].1 + 1 == packet);
        match (previous, joins_next) {
            (Some(before), true) => {
                let low = self.older.remove(before).map_or(packet, |range| range.0);
                if let Some(joined) = self.older.get_mut(before).or(self.newest.as_mut()) {
                    joined.0 = low;
                }
            }
            (Some(before), false) => self.older[before].1 = packet,
            (None, true) => {}
            (None, false) => self.older.insert(at, (packet, packet)),
        }
        self.bound();
        Novelty::Filling
    }

    fn bound(&mut self) {
        while self.older.len() >= RANGES {
            if let Some((_, high)) = self.older.pop_front() {
                self.floor = high + 1;
            }
        }
    }

    /// The largest packet number that arrived.
    pub fn largest(&self) -> Option<u64> {
        self.newest.map(|range| range.1)
    }

    /// Ranges from the largest down to the one that holds `floor`.
    pub fn down_to(&self, floor: u64) -> impl Iterator<Item = &(u64, u64)> + Clone {
        // Older ones end below the newest: most reports need not look at any.
        let further = self.newest.is_some_and(|newest| newest.0 > floor);
        let older = self.older.range(if further { 0 } else { self.older.len() }..).rev();
        self.newest.iter().chain(older).take_while(move |range| range.1 >= floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_equals_a_set(packets in prop::collection::vec(0u64..200, 1..300)) {
            let (mut log, mut set) = (ArrivalLog::default(), BTreeSet::new());
            for packet in packets {
                let new = !matches!(log.insert(packet), Novelty::Duplicate);
                prop_assert_eq!(new, set.insert(packet));
            }
            let listed: BTreeSet<u64> = log.down_to(0).flat_map(|&(low, high)| low..=high).collect();
            prop_assert_eq!(&listed, &set);
            let adjacent = |pair: &[(u64, u64)]| pair[0].0 <= pair[1].1 + 1;
            let ranges: Vec<_> = log.down_to(0).copied().collect();
            prop_assert!(!ranges.windows(2).any(adjacent));
        }
    }

    #[test]
    fn kinds_of_novelty_and_bounded_memory() {
        let mut log = ArrivalLog::default();
        assert_eq!(log.insert(7), Novelty::Next);
        assert_eq!(log.insert(8), Novelty::Next);
        assert_eq!(log.insert(11), Novelty::AfterGap);
        assert_eq!(log.insert(9), Novelty::Filling);
        assert_eq!(log.insert(9), Novelty::Duplicate);
        assert_eq!(log.insert(11 + PLAUSIBLE + 1), Novelty::FarFuture);
        (0..10_000).for_each(|n| {
            log.insert(20 + 2 * n);
        });
        assert_eq!(log.down_to(0).count(), RANGES);
        assert_eq!(log.insert(12), Novelty::Stale);
    }
}
