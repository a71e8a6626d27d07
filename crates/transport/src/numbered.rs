//! Items that follow each other in number, the oldest forgotten first.

use std::ops::Range;

use units::{fetch_line, unlikely};

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
    /// Where they lie, that of number `n` at `n` modulo how many places there are: a power of two, or none
    /// before the first item.
    places: Vec<T>,
    /// The number of the oldest item, ...
    oldest: u64,
    /// ... and of the next one.
    next: u64,
    /// Most items that there were since room was last looked at, ...
    peak: usize,
    /// ... and when it is looked at next: once the item before this number has entered.
    review_at: u64,
}

impl<T: Copy> Numbered<T> {
    /// No items yet, and room for `room`; what of it is never needed may be given back later.
    pub fn with_room(room: usize) -> Numbered<T> {
        let review_at = LAPS * room.max(ROOM) as u64;
        Numbered { places: Vec::with_capacity(room), oldest: 0, next: 0, peak: 0, review_at }
    }

    /// The number of the oldest item; [`next`](Numbered::next) if there is none.
    #[inline(always)]
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The number that the next item gets.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The numbers of the items.
    #[inline(always)]
    pub fn numbers(&self) -> Range<u64> {
        self.oldest..self.next
    }

    /// How many items there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    /// What lies where the item of this number does, if it is one of them: else something else.
    #[inline(always)]
    pub fn at(&self, number: u64) -> Option<&T> {
        self.places.get(self.place(number))
    }

    /// The item of this number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&T> {
        if self.numbers().contains(&number) { self.at(number) } else { None }
    }

    /// The item of this number, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        if self.numbers().contains(&number) { self.places.get_mut(place) } else { None }
    }

    /// Items and their numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.numbers().filter_map(|number| Some((number, self.at(number)?)))
    }

    /// The number of the first item of which `is_before` is false, which is true of none behind it.
    pub fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> u64 {
        let Range { mut start, mut end } = self.numbers();
        while start < end {
            let middle = start + (end - start) / 2;
            if self.at(middle).is_some_and(&is_before) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }

    /// Enters an item and returns its number. Where room must be made for it, `other` makes what lies in
    /// places that have no item yet.
    // What makes room does not see the item: see `units::Sparing::put`.
    #[inline(always)]
    pub fn enter(&mut self, item: T, other: impl FnOnce() -> T) -> u64 {
        if unlikely(self.len() == self.places.len()) {
            self.grow(other);
        }
        let (number, place) = (self.next, self.place(self.next));
        self.places[place] = item;
        self.next = number + 1;
        number
    }

    #[cold]
    fn grow(&mut self, other: impl FnOnce() -> T) {
        let places = self.places.capacity().max(2 * self.places.len()).max(ROOM).next_power_of_two();
        self.move_to(places, other());
        self.review_at = self.next + 1 + LAPS * places as u64;
    }

    /// Moves the items to so many places, a power of two; in the others lies `other`.
    fn move_to(&mut self, places: usize, other: T) {
        let mut moved = vec![other; places];
        for (number, item) in self.iter() {
            moved[number as usize & (places - 1)] = *item;
        }
        self.places = moved;
    }

    /// Forgets all items before this number.
    #[inline(always)]
    pub fn forget_before(&mut self, number: u64) {
        self.peak = self.peak.max(self.len());
        self.oldest = number.clamp(self.oldest, self.next);
    }

    /// Gives room back that was not needed for long. To be called where items are forgotten.
    #[inline]
    pub fn look_at_room(&mut self) {
        self.peak = self.peak.max(self.len());
        if unlikely(self.next >= self.review_at) {
            self.review();
        }
    }

    /// Gives room back of which half was not needed, and keeps twice what was: a window that was halved comes
    /// back.
    #[cold]
    fn review(&mut self) {
        let wanted = KEPT.max(2 * self.peak).next_power_of_two();
        if wanted < self.places.len() {
            self.move_to(wanted, self.places[0]);
        }
        self.peak = 0;
        self.review_at = self.next + LAPS * self.places.len() as u64;
    }

    /// Has brought into the caches where `items` lie, that of this number and those behind it. Where the
    /// places end something else is fetched.
    #[inline(always)]
    pub fn fetch(&self, number: u64, items: usize) {
        let first = self.places.as_ptr().wrapping_add(self.place(number));
        // None begins where a line of the caches does, so that the last one ends in one more.
        (0..=items).for_each(|next| fetch_line(first.wrapping_add(next)));
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
            (0..count).for_each(|item| _ = items.enter(item, || 0));
            items.look_at_room();
            items.forget_before(items.next());
            items.places.len()
        };
        assert_eq!(burst(&mut items, 1000), 1024);
        (0..100).for_each(|_| _ = burst(&mut items, 100));
        (0..1000).for_each(|_| assert_eq!(burst(&mut items, 100), 256));
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
                    expected.push((items.enter(item, || u64::MAX), item));
                }
                let before = items.oldest() + forgotten;
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
