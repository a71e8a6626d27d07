//! Room in lists that there are many of.

use std::collections::VecDeque;

/// A list that many keep one of each. Left alone it doubles when it is full, so that a quarter of what many
/// flows keep would be room that none of them uses.
pub trait Sparing {
    /// Makes room for one more item, if there is none: a quarter of what is there, of a list of 1024 items
    /// and more an eighth, and `least` at least.
    fn room_for_one(&mut self, least: usize);
}

impl<T> Sparing for Vec<T> {
    #[inline]
    fn room_for_one(&mut self, least: usize) {
        if self.len() == self.capacity() {
            self.reserve_exact(more(self.len(), least));
        }
    }
}

impl<T> Sparing for VecDeque<T> {
    #[inline]
    fn room_for_one(&mut self, least: usize) {
        if self.len() == self.capacity() {
            self.reserve_exact(more(self.len(), least));
        }
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
            list.room_for_one(4);
            list.push_back(item);
            rooms.push(list.capacity());
        }
        rooms.dedup();
        assert_eq!(rooms[..7], [4, 8, 12, 16, 20, 25, 31]);
        assert_eq!(rooms[rooms.len() - 6..], [1164, 1309, 1472, 1656, 1863, 2095]);
    }
}
