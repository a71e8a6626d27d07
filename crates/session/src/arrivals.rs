//! Which packet numbers have arrived.

use std::collections::VecDeque;

use units::{Span, Sparing, Time, likely, unlikely};

/// Ranges remembered; with more, the lowest go, and numbers below count as stale.
const RANGES: usize = 256;
/// What was still missing so long after a later number had arrived may be forgotten: senders wait for two
/// round trips and 100 ms, and each loss makes a range.
const OVERDUE: Span = Span::from_secs(10);
/// Of which there is room for so many at first.
const ROOM: usize = 32;
/// A number this far beyond the largest can only be wrong: at 10 kpacket/s it is a gap of 100 s.
const PLAUSIBLE: u64 = 1 << 20;
/// Packets so far below the newest, and farther, may be too old to tell: half of what 32 bits hold, so that
/// ranges are seldom counted anew.
const REACH: u64 = 1 << 31;

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
    /// Those below it, lowest first, counted from `origin`: a receiver that has lost much keeps hundreds.
    older: VecDeque<(u32, u32)>,
    origin: u64,
    /// Numbers below are too old to tell; never below `origin`.
    floor: u64,
    /// The largest number when [`forget`](ArrivalLog::forget) last did something, ...
    mark: u64,
    /// ... and from when on it will again.
    forget_at: Time,
}

impl ArrivalLog {
    /// Enters the number of a packet that arrived, and says whether it is new.
    #[inline(always)]
    pub fn insert(&mut self, packet: u64) -> Novelty {
        if let Some(newest) = &mut self.newest
            && likely(packet == newest.1 + 1)
        {
            newest.1 = packet;
            return Novelty::Next;
        }
        self.insert_elsewhere(packet)
    }

    /// The same of any but the next in order.
    #[inline(never)]
    fn insert_elsewhere(&mut self, packet: u64) -> Novelty {
        let Some(newest) = &mut self.newest else {
            self.newest = Some((packet, packet));
            self.start_from(packet.saturating_sub(REACH));
            return Novelty::Next;
        };
        if packet > newest.1 + PLAUSIBLE {
            return Novelty::FarFuture;
        }
        if packet > newest.1 {
            let last = std::mem::replace(newest, (packet, packet));
            self.keep(last);
            return Novelty::AfterGap;
        }
        let newest = *newest;
        self.insert_below(packet, newest)
    }

    /// The newest range becomes the last of the older ones.
    fn keep(&mut self, last: (u64, u64)) {
        if last.1 - self.origin > u64::from(u32::MAX) {
            self.start_from(last.1 - REACH);
        }
        let (low, high) = (self.offset(last.0.max(self.floor)), self.offset(last.1));
        self.older.put(ROOM, (low, high));
        self.bound();
    }

    /// Numbers below `origin` are too old to tell from now on, and others are counted from it.
    #[cold]
    fn start_from(&mut self, origin: u64) {
        let by = origin - self.origin;
        self.older.retain_mut(|range| {
            let moved = |number: u32| u64::from(number).saturating_sub(by) as u32;
            let kept = u64::from(range.1) >= by;
            *range = (moved(range.0), moved(range.1));
            kept
        });
        self.origin = origin;
        self.floor = self.floor.max(origin);
    }

    /// A number as `older` has it.
    fn offset(&self, packet: u64) -> u32 {
        u32::try_from(packet - self.origin).expect("ranges are kept within reach of their origin")
    }

    fn insert_below(&mut self, packet: u64, newest: (u64, u64)) -> Novelty {
        if packet < self.floor {
            return Novelty::Stale;
        }
        if packet >= newest.0 {
            return Novelty::Duplicate;
        }
        if packet - self.origin > u64::from(u32::MAX) {
            self.start_from(packet - REACH);
        }
        let number = self.offset(packet);
        // The first range that ends at or after the packet: one of the older ones, or else the newest.
        let at = self.older.partition_point(|range| range.1 < number);
        if self.older.get(at).is_some_and(|next| next.0 <= number) {
            return Novelty::Duplicate;
        }
        let next = self.older.get(at).map_or(newest.0, |next| self.origin + u64::from(next.0));
        let joins_next = next == packet + 1;
        let before = at.checked_sub(1).filter(|&before| self.older[before].1 + 1 == number);
        match (before, joins_next) {
            (Some(before), true) => {
                let (low, _) = self.older[before];
                self.older.remove(before);
                self.begin_at(before, low);
            }
            (Some(before), false) => self.older[before].1 = number,
            (None, true) => self.begin_at(at, number),
            (None, false) => {
                self.older.room_for_one(ROOM);
                self.older.insert(at, (number, number));
            }
        }
        self.bound();
        Novelty::Filling
    }

    /// The range at `at`, behind the older ones the newest, begins at `low`.
    fn begin_at(&mut self, at: usize, low: u32) {
        match self.older.get_mut(at) {
            Some(range) => range.0 = low,
            None => self.newest = self.newest.map(|(_, high)| (self.origin + u64::from(low), high)),
        }
    }

    fn bound(&mut self) {
        while self.older.len() >= RANGES {
            self.forget_lowest();
        }
    }

    /// Forgets what has been missing for ten seconds and more: numbers so far below are too old to tell from
    /// now on. To be called with each gap, since what lies between gaps takes no memory.
    pub fn forget(&mut self, now: Time) {
        let Some(largest) = self.largest().filter(|_| now >= self.forget_at) else { return };
        let overdue = std::mem::replace(&mut self.mark, largest);
        self.forget_at = now + OVERDUE;
        while self.older.front().is_some_and(|range| self.origin + u64::from(range.1) < overdue) {
            self.forget_lowest();
        }
    }

    fn forget_lowest(&mut self) {
        if let Some((_, high)) = self.older.pop_front() {
            self.floor = self.origin + u64::from(high) + 1;
        }
    }

    /// The largest packet number that arrived.
    pub fn largest(&self) -> Option<u64> {
        self.newest.map(|range| range.1)
    }

    /// One of the older ranges, unless it ends below `floor`.
    // Apart, and not shown the iterator, which then lies in registers.
    #[inline(never)]
    fn older_range(&self, older: usize, floor: u64) -> Option<(u64, u64)> {
        let (low, high) = self.older[older];
        let (low, high) = (self.origin + u64::from(low), self.origin + u64::from(high));
        (high >= floor).then_some((low, high))
    }

    /// Ranges from the largest down to the one that holds `floor`.
    pub fn down_to(&self, floor: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
        let next = self.newest.filter(|newest| newest.1 >= floor);
        DownTo { log: self, floor, next, older: self.older.len() }
    }
}

/// Ranges from the largest down. Older ones end below the newest: most reports need not look at any.
#[derive(Clone)]
struct DownTo<'a> {
    log: &'a ArrivalLog,
    floor: u64,
    next: Option<(u64, u64)>,
    /// How many of the older ones may follow.
    older: usize,
}

impl Iterator for DownTo<'_> {
    type Item = (u64, u64);

    #[inline(always)]
    fn next(&mut self) -> Option<(u64, u64)> {
        let range = self.next?;
        self.next = None;
        if unlikely(range.0 > self.floor) && self.older > 0 {
            self.older -= 1;
            self.next = self.log.older_range(self.older, self.floor);
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_equals_a_set(
            from in prop_oneof![Just(0), Just(u64::from(u32::MAX) - 100), Just(REACH - 100), Just(1 << 40)],
            packets in prop::collection::vec(0u64..200, 1..300),
        ) {
            let (mut log, mut set) = (ArrivalLog::default(), BTreeSet::new());
            for packet in packets.into_iter().map(|packet| from + packet) {
                let new = !matches!(log.insert(packet), Novelty::Duplicate);
                prop_assert_eq!(new, set.insert(packet));
            }
            let listed: BTreeSet<u64> = log.down_to(0).flat_map(|(low, high)| low..=high).collect();
            prop_assert_eq!(&listed, &set);
            let adjacent = |pair: &[(u64, u64)]| pair[0].0 <= pair[1].1 + 1;
            let ranges: Vec<_> = log.down_to(0).collect();
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

    #[test]
    fn what_is_missing_for_long_is_forgotten_and_nothing_else() {
        let (mut log, mut gaps) = (ArrivalLog::default(), Vec::new());
        for ms in (0..120_000).step_by(500) {
            // Two arrive and one does not, twice a second.
            let now = Time::from_millis(ms);
            let number = 3 * ms / 500;
            log.insert(number);
            assert_eq!(log.insert(number + 1), Novelty::Next);
            log.forget(now);
            gaps.push((now, number + 2));
            let ranges = log.down_to(0).count();
            assert!(ranges <= 41, "{ranges} at {now:?}");
            for &(at, gap) in &gaps {
                let novelty = log.clone().insert(gap);
                if now - at < OVERDUE {
                    assert!(matches!(novelty, Novelty::Next | Novelty::Filling), "{gap} at {now:?}");
                } else if now - at > OVERDUE * 2 + Span::from_secs(1) {
                    assert_eq!(novelty, Novelty::Stale, "{gap} at {now:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_without_end_and_those_out_of_reach() {
        let mut log = ArrivalLog::default();
        let after = |log: &mut ArrivalLog, packet: u64| {
            let missing = log.largest().map_or(0, |largest| packet - largest - 1);
            (0..missing / PLAUSIBLE).for_each(|_| _ = log.insert(log.largest().unwrap_or(0) + PLAUSIBLE));
            log.insert(packet)
        };
        [3, 5, 9].into_iter().for_each(|packet| _ = log.insert(packet));
        // A run of five billion, as if each had arrived.
        log.newest = Some((9, 5_000_000_000));
        assert_eq!(log.insert(5_000_000_002), Novelty::AfterGap);
        assert_eq!((log.insert(5), log.insert(8)), (Novelty::Stale, Novelty::Stale));
        assert_eq!(log.insert(4_999_999_999), Novelty::Duplicate);
        assert_eq!(log.insert(5_000_000_001), Novelty::Filling);
        let kept = (5_000_000_000 - REACH, 5_000_000_002);
        assert_eq!(log.down_to(0).collect::<Vec<_>>(), [kept]);
        // A gap that is wider than what is in reach.
        let far = kept.1 + 2 * REACH + 77;
        assert_eq!(after(&mut log, far), Novelty::AfterGap);
        assert_eq!(log.insert(far - 2), Novelty::Filling);
        assert_eq!((log.insert(far), log.insert(far - 1)), (Novelty::Duplicate, Novelty::Filling));
        let ranges: Vec<_> = log.down_to(0).collect();
        assert_eq!(ranges[0], (far - 2, far));
        assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0), "{ranges:?}");
        log = ArrivalLog { newest: Some((1 << 33, 1 << 33)), ..ArrivalLog::default() };
        assert_eq!(log.insert((1 << 33) - 2), Novelty::Filling);
        assert_eq!(log.insert(7), Novelty::Stale);
        assert_eq!(log.down_to(0).count(), 2);
    }
}
