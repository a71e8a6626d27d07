//! Room in lists that there are many of.

use std::collections::VecDeque;

use crate::unlikely;

/// A list that many keep one of each. Left alone it doubles when it is full, so that a quarter of what many
/// flows keep would be room that none of them uses.
pub trait Sparing {
    /// What the list holds.
    type Item;

    /// Makes room for one more item, if there is none: a quarter of what is there, of a list of 1024 items
    /// and more an eighth, and `least` at least.
    fn room_for_one(&mut self, least: usize);

    /// Makes room for an item like that and appends it. Growth is taken to be rare, which a list's own `push`
    /// does not say to the compiler. Whatever makes room never sees the item: one that might have to be shown
    /// to it is put together in memory first and then copied, and a processor stalls where it reads at once
    /// by sixteen bytes what was just written by eight.
    fn put(&mut self, least: usize, item: Self::Item);
}

impl<T> Sparing for Vec<T> {
    type Item = T;

    #[inline(always)]
    fn room_for_one(&mut self, least: usize) {
        if unlikely(self.len() == self.capacity()) {
            self.reserve_exact(more(self.len(), least));
        }
    }
    #[inline(always)]
    fn put(&mut self, least: usize, item: T) {
        self.room_for_one(least);
        self.push(item);
    }
}

impl<T> Sparing for VecDeque<T> {
    type Item = T;

    #[inline(always)]
    fn room_for_one(&mut self, least: usize) {
        if unlikely(self.len() == self.capacity()) {
            self.reserve_exact(more(self.len(), least));
        }
    }
    #[inline(always)]
    fn put(&mut self, least: usize, item: T) {
        self.room_for_one(least);
        self.push_back(item);
    }
}

/// Items from which on a list grows by an eighth: what it is copied for is little of what it holds for long.
const LONG: usize = 1024;

#[cold]
fn more(length: usize, least: usize) -> usize {
    (length / if length < LONG { 4 } else { 8 }).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_grows_by_a_quarter_and_a_long_one_by_an_eighth() {
        let mut list = VecDeque::new();
        let mut rooms = Vec::new();
        for item in 0..2000 {
            list.put(4, item);
            rooms.push(list.capacity());
        }
        rooms.dedup();
        assert_eq!(rooms[..7], [4, 8, 12, 16, 20, 25, 31]);
        assert_eq!(rooms[rooms.len() - 6..], [1164, 1309, 1472, 1656, 1863, 2095]);
    }
}
