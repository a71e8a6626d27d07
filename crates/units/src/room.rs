//! Room in lists that there are many of.

use std::collections::VecDeque;

/// A list that many keep one of each. Left alone it doubles when it is full, so that a quarter of what many
/// flows keep would be room that none of them uses.
pub trait Sparing {
    /// Makes room for one more item, if there is none: a quarter of what is there, and `least` at least.
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

#[cold]
fn more(length: usize, least: usize) -> usize {
    (length / 4).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_grows_by_a_quarter() {
        let mut list = VecDeque::new();
        let mut rooms = Vec::new();
        for item in 0..30 {
            list.room_for_one(4);
            list.push_back(item);
            rooms.push(list.capacity());
        }
        rooms.dedup();
        assert_eq!(rooms, [4, 8, 12, 16, 20, 25, 31]);
    }
}
