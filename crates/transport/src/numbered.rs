//! Items that follow each other in number, the oldest forgotten first.

use std::collections::VecDeque;

use units::{Sparing, fetch_line, unlikely};

/// Items that there is room for at first.
const ROOM: usize = 8;
/// Once so many times what there is room for has entered, room that was not needed meanwhile is given back. A
/// ring walks through all of its memory, however little of it is in use: what slow start once needed would
/// keep the caches busy for good.
const LAPS: u64 = 2;
/// Room for so many is never given back: windows of a few packets come and go.
const KEPT: usize = 32;

/// Items by number.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    items: VecDeque<T>,
    /// The number of the oldest item.
    oldest: u64,
    /// Most items that there were since room was last looked at, ...
    peak: usize,
    /// ... and when it is looked at next: once the item before this number has entered.
    review_at: u64,
}

impl<T: Copy> Numbered<T> {
    /// No items yet, and room for `room`; what of it is never needed may be given back later.
    pub fn with_room(room: usize) -> Numbered<T> {
        let review_at = LAPS * room.max(ROOM) as u64;
        Numbered { items: VecDeque::with_capacity(room), oldest: 0, peak: 0, review_at }
    }

    /// The number of the oldest item; [`next`](Numbered::next) if there is none.
    #[inline(always)]
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The number that the next item gets.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.oldest + self.items.len() as u64
    }

    /// How many items there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The item of this number.
    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.items.get(number.checked_sub(self.oldest)? as usize)
    }

    /// The item of this number, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.items.get_mut(number.checked_sub(self.oldest)? as usize)
    }

    /// Items and their numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (self.oldest..).zip(&self.items)
    }

    /// The number of the first item of which `is_before` is false, which is true of none behind it.
    pub fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> u64 {
        self.oldest + self.items.partition_point(is_before) as u64
    }

    /// Enters an item and returns its number.
    #[inline(always)]
    pub fn enter(&mut self, item: T) -> u64 {
        let number = self.next();
        if unlikely(self.items.len() == self.items.capacity()) {
            self.grow();
        }
        self.items.push_back(item);
        number
    }

    /// Makes room for another item.
    // It is not shown the item: see `Sparing::put`.
    #[cold]
    fn grow(&mut self) {
        self.items.room_for_one(ROOM);
        self.review_at = self.next() + 1 + LAPS * self.items.capacity() as u64;
    }

    /// Forgets the oldest item.
    #[inline(always)]
    pub fn forget_oldest(&mut self) -> Option<T> {
        let oldest = self.items.pop_front()?;
        self.oldest += 1;
        Some(oldest)
    }

    /// Forgets all items before this number, which is none below the oldest one's.
    ///
    /// # Panics
    /// If it is beyond the next one's.
    #[inline(always)]
    pub fn forget_before(&mut self, number: u64) {
        self.peak = self.peak.max(self.len());
        self.items.drain(..(number - self.oldest) as usize);
        self.oldest = number;
    }

    /// Gives room back that was not needed for long. To be called where items are forgotten.
    #[inline]
    pub fn look_at_room(&mut self) {
        self.peak = self.peak.max(self.len());
        if unlikely(self.next() >= self.review_at) {
            self.review();
        }
    }

    /// Gives room back of which three quarters were not needed, and keeps twice what was: what a window that
    /// was halved needs again.
    #[cold]
    fn review(&mut self) {
        let wanted = KEPT.max(2 * self.peak);
        if 2 * wanted <= self.items.capacity() {
            self.items.shrink_to(wanted);
        }
        self.peak = 0;
        self.review_at = self.next() + LAPS * self.items.capacity() as u64;
    }

    /// Has brought into the caches the oldest items, `count` of them and the one behind, and where as many
    /// will enter next.
    #[inline(always)]
    pub fn fetch(&self, count: usize) {
        // None begins where a line of the caches does: each ends in the line in which the next one begins.
        if let (Some(oldest), Some(newest)) = (self.items.front(), self.items.back()) {
            let (oldest, newest) = (std::ptr::from_ref(oldest), std::ptr::from_ref(newest));
            (0..=count + 1).for_each(|next| fetch_line(oldest.wrapping_add(next)));
            (1..=count + 1).for_each(|next| fetch_line(newest.wrapping_add(next)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn room_that_slow_start_needed_is_given_back_and_bursts_keep_theirs() {
        let mut items = Numbered::with_room(0);
        let burst = |items: &mut Numbered<u64>, count: u64| {
            (0..count).for_each(|item| _ = items.enter(item));
            items.look_at_room();
            items.forget_before(items.next());
            items.items.capacity()
        };
        assert!(burst(&mut items, 1000) >= 1000);
        (0..100).for_each(|_| _ = burst(&mut items, 100));
        let settled = burst(&mut items, 100);
        assert!((100..=200).contains(&settled), "room for {settled}");
        (0..1000).for_each(|_| assert_eq!(burst(&mut items, 100), settled));
    }

    proptest! {
        /// Items enter and are forgotten, many and few at once, so that places are added and given back.
        #[test]
        fn items_are_what_entered_by_number(
            steps in prop::collection::vec((0_u64..200, 0_u64..300), 1..40),
            room in 0_usize..40,
        ) {
            let (mut items, mut expected) = (Numbered::with_room(room), Vec::<(u64, u64)>::new());
            for (entering, forgotten) in steps {
                for _ in 0..entering {
                    let item = 7 * items.next();
                    expected.push((items.enter(item), item));
                }
                let before = items.next().min(items.oldest() + forgotten);
                items.forget_before(before);
                items.look_at_room();
                expected.retain(|&(number, _)| number >= before);
                prop_assert!(items.iter().map(|(number, &item)| (number, item)).eq(expected.iter().copied()));
                prop_assert_eq!(items.len(), expected.len());
                let (oldest, next) = (items.oldest(), items.next());
                prop_assert!(expected.first().is_none_or(|first| first.0 == oldest));
                for number in [0, oldest.wrapping_sub(1), oldest, next.saturating_sub(1), next, u64::MAX] {
                    let item = expected.iter().find(|known| known.0 == number).map(|known| known.1);
                    prop_assert_eq!(items.get(number).copied(), item);
                    prop_assert_eq!(items.get_mut(number).copied(), item);
                }
                for least in [0, 7 * oldest, 7 * next.saturating_sub(3), u64::MAX] {
                    let first = expected.iter().find(|known| known.1 >= least).map_or(next, |known| known.0);
                    prop_assert_eq!(items.partition_point(|&item| item < least), first);
                }
            }
        }
    }
}
