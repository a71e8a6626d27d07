//! First in, first out, in places that are written and read where they lie: what waits in a link has a cache
//! line and a half, which would take longer to hand over than all else that is done to it.

use std::ops::Range;

use units::{Sparing, fetch_line, unlikely};

/// Items in their order, each in two parts: a brief one, of which a cache line holds several, for what is
/// asked of items that are far from leaving, and the rest. The rest of what left last can still be
/// [read](Ring::left) until the next one enters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring<B, T> {
    /// The items: as many as `length`, from `first` on and round the end. In the other places is what has
    /// left, or what never was an item.
    places: Vec<T>,
    /// Their brief parts, at the same places.
    briefs: Vec<B>,
    first: usize,
    length: usize,
    /// Where what left last lies.
    left: usize,
}

impl<B: Copy + Default, T: Default> Ring<B, T> {
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

    /// Its brief part.
    #[inline(always)]
    pub fn brief(&self, others: usize) -> Option<B> {
        if others < self.length { self.briefs.get(self.place(others)).copied() } else { None }
    }

    /// Where all but the first `others` lie, in two pieces.
    #[inline(always)]
    fn pieces(&self, others: usize) -> (Range<usize>, Range<usize>) {
        let (begin, end) = (self.first + others.min(self.length), self.first + self.length);
        match end.checked_sub(self.places.len()) {
            Some(end) => match begin.checked_sub(self.places.len()) {
                Some(begin) => (begin..end, 0..0),
                None => (begin..self.places.len(), 0..end),
            },
            None => (begin..end, 0..0),
        }
    }

    /// The brief parts of all but the first `others`, in the two pieces in which they lie.
    #[inline(always)]
    pub fn briefs_behind(&self, others: usize) -> (&[B], &[B]) {
        let (near, far) = self.pieces(others);
        (&self.briefs[near], &self.briefs[far])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (near, far) = self.pieces(0);
        self.places[near].iter().chain(&self.places[far])
    }

    /// The place of one more behind the last, to be written: what lies there is of an item that left. Room is
    /// made as [`Sparing::room_for_one`] makes it.
    #[inline(always)]
    pub fn enter(&mut self, least: usize) -> (&mut B, &mut T) {
        if unlikely(self.length == self.places.len()) {
            self.grow(least);
        }
        let place = self.place(self.length);
        self.length += 1;
        (&mut self.briefs[place], &mut self.places[place])
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        self.places.rotate_left(self.first);
        self.briefs.rotate_left(self.first);
        self.places.room_for_one(least);
        self.places.resize_with(self.places.capacity(), T::default);
        self.briefs.reserve_exact(self.places.len() - self.briefs.len());
        self.briefs.resize(self.places.len(), B::default());
        (self.first, self.left) = (0, self.length);
    }

    /// The first one leaves, if there is one. Returns what [left](Ring::left) last, and the brief part of the
    /// first one now, of which the rest is fetched.
    #[inline(always)]
    pub fn leave(&mut self) -> (Option<&T>, Option<B>) {
        if unlikely(self.length == 0) {
            return (self.left(), None);
        }
        // Not read again where it was just written.
        let (left, first, length) = (self.first, self.place(1), self.length - 1);
        (self.left, self.first, self.length) = (left, first, length);
        self.fetch(first);
        (self.places.get(left), if length > 0 { self.briefs.get(first).copied() } else { None })
    }

    /// Has what lies at a place brought into the caches, whatever it is.
    #[inline(always)]
    fn fetch(&self, place: usize) {
        let start = self.places.as_ptr().wrapping_add(place);
        fetch_line(start);
        fetch_line(start.wrapping_add(1).cast::<u8>().wrapping_sub(1));
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
            let (mut ring, mut queue) = (Ring::<u8, usize>::default(), VecDeque::new());
            for (number, enters) in steps.into_iter().enumerate() {
                if enters {
                    let (brief, place) = ring.enter(2);
                    (*brief, *place) = (number as u8, number);
                    queue.push_back(number);
                } else {
                    let left = queue.pop_front();
                    let (out, front) = ring.leave();
                    prop_assert!(left.is_none() || out.copied() == left);
                    prop_assert_eq!(front, queue.front().map(|&number| number as u8));
                    prop_assert!(left.is_none() || ring.left().copied() == left);
                }
                prop_assert_eq!(ring.len(), queue.len());
                prop_assert_eq!(ring.get(0), queue.front());
                prop_assert_eq!(ring.get(queue.len()), None);
                prop_assert!(ring.iter().eq(&queue));
                let (near, far) = ring.briefs_behind(number % 5);
                let briefs = queue.iter().map(|&number| number as u8);
                prop_assert!(near.iter().chain(far).copied().eq(briefs.clone().skip(number % 5)));
                prop_assert_eq!(ring.brief(number % 5), briefs.clone().nth(number % 5));
            }
        }
    }
}
