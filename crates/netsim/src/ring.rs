//! First in, first out, in places that are written and read where they lie: what waits in a link has a cache
//! line and a half, which would take longer to hand over than all else that is done to it.

use units::{Sparing, unlikely};

/// Items in their order. What left last can still be [read](Ring::left) until the next one enters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring<T> {
    /// The items: as many as `length`, from `first` on and round the end. In the other places is what has
    /// left, or what never was an item.
    places: Vec<T>,
    first: usize,
    length: usize,
    /// Where what left last lies.
    left: usize,
}

impl<T: Default> Ring<T> {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Where the item behind `others` lies.
    #[inline(always)]
    fn place(&self, others: usize) -> usize {
        let place = self.first + others;
        // Where the ring begins anew can't be predicted, so nothing branches: of a place before the end the
        // other number is beyond all.
        place.min(place.wrapping_sub(self.places.len()))
    }

    /// The item behind the first `others`.
    #[inline(always)]
    pub fn get(&self, others: usize) -> Option<&T> {
        if others < self.length { self.places.get(self.place(others)) } else { None }
    }

    /// All but the first `others`, in the two pieces in which they lie.
    #[inline(always)]
    pub fn behind(&self, others: usize) -> (&[T], &[T]) {
        let (begin, end) = (self.first + others.min(self.length), self.first + self.length);
        match end.checked_sub(self.places.len()) {
            Some(end) => match begin.checked_sub(self.places.len()) {
                Some(begin) => (&self.places[begin..end], &[]),
                None => (&self.places[begin..], &self.places[..end]),
            },
            None => (&self.places[begin..end], &[]),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (near, far) = self.behind(0);
        near.iter().chain(far)
    }

    /// The place of one more behind the last, to be written: what lies there is of an item that left. Room is
    /// made as [`Sparing::room_for_one`] makes it.
    #[inline(always)]
    pub fn enter(&mut self, least: usize) -> &mut T {
        if unlikely(self.length == self.places.len()) {
            self.grow(least);
        }
        let place = self.place(self.length);
        self.length += 1;
        &mut self.places[place]
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        self.places.rotate_left(self.first);
        self.places.room_for_one(least);
        self.places.resize_with(self.places.capacity(), T::default);
        (self.first, self.left) = (0, self.length);
    }

    /// The first one leaves, if there is one. Returns what [left](Ring::left) last, and the first one now.
    #[inline(always)]
    pub fn leave(&mut self) -> (Option<&T>, Option<&T>) {
        if unlikely(self.length == 0) {
            return (self.left(), None);
        }
        // Not read again where it was just written.
        let (left, first, length) = (self.first, self.place(1), self.length - 1);
        (self.left, self.first, self.length) = (left, first, length);
        (self.places.get(left), if length > 0 { self.places.get(first) } else { None })
    }

    /// What left last, if nothing has entered since.
    #[inline(always)]
    pub fn left(&self) -> Option<&T> {
        self.places.get(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_enters_first_leaves_first(steps in prop::collection::vec(any::<bool>(), 0..300)) {
            let (mut ring, mut queue) = (Ring::<usize>::default(), VecDeque::new());
            for (number, enters) in steps.into_iter().enumerate() {
                if enters {
                    *ring.enter(2) = number;
                    queue.push_back(number);
                } else {
                    let left = queue.pop_front();
                    let (out, front) = ring.leave();
                    prop_assert!(left.is_none() || out.copied() == left);
                    prop_assert_eq!(front, queue.front());
                    prop_assert!(left.is_none() || ring.left().copied() == left);
                }
                prop_assert_eq!(ring.len(), queue.len());
                prop_assert_eq!(ring.get(0), queue.front());
                prop_assert_eq!(ring.get(queue.len()), None);
                prop_assert!(ring.iter().eq(&queue));
                let (near, far) = ring.behind(number % 5);
                prop_assert!(near.iter().chain(far).eq(queue.iter().skip(number % 5)));
            }
        }
    }
}
