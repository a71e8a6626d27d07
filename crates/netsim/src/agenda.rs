//! When each component of the world wants to act next.
//!
//! ```text
//!             3.1 (2)                 a winner tree over the components' next times:
//!            /       \                the root is the earliest, ties go to the lower number
//!       5.0 (0)     3.1 (2)
//!       /    \       /    \
//!     5.0    7.2   3.1    never
//! ```
//!
//! One entry a component, changed in place: nothing is ever stale, and changing one costs log2(n)
//! comparisons.
//!
//! A few components, such as one flow's, are not worth a tree: their times are written down, and whoever asks
//! looks at all of them. A component that acts changes three times or so.
//!
//! Deviation: the plan was a heap ordered by (time, sequence of scheduling). Here ties go to the component's
//! number, so the order at one instant does not depend on how often something was rescheduled: recording a
//! run cannot change it.

use std::hint::select_unpredictable;

use units::Time;

/// Up to so many leaves no matches are played.
const FEW: usize = 8;

/// Next times of a fixed number of components.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Node `i` is the earlier of its children `2 i` and `2 i + 1`, which stand together here, in place `i`;
    /// the root is 1. The components are the leaves, from the middle on, padded to a power of two. Of a [few]
    /// only the leaves mean something.
    ///
    /// [few]: FEW
    pairs: Vec<[Entry; 2]>,
}

/// Who wants to act, and when, in one number: the earlier, and among equals the lower, is the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    #[inline(always)]
    fn new(time: Time, component: usize) -> Entry {
        Entry(u128::from(time.as_nanos()) << 64 | component as u128)
    }

    #[inline(always)]
    fn time(self) -> Time {
        Time::from_nanos((self.0 >> 64) as u64)
    }
}

impl Agenda {
    /// An agenda of `count` components, none of which wants anything.
    pub fn new(count: usize) -> Agenda {
        let leaves = count.next_power_of_two().max(2);
        let leaf = |node: usize| Entry::new(Time::MAX, node.saturating_sub(leaves));
        Agenda { pairs: (0..leaves).map(|place| [leaf(2 * place), leaf(2 * place + 1)]).collect() }
    }

    /// The component that acts next, and when; [`Time::MAX`] if none wants to.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let first = if self.pairs.len() <= FEW { self.first_of_few() } else { self.pairs[0][1] };
        (first.time(), first.0 as u64 as usize)
    }

    #[inline(always)]
    fn first_of_few(&self) -> Entry {
        let leaves = &self.pairs[self.pairs.len() / 2..];
        leaves.iter().fold(Entry(u128::MAX), |first, &[one, other]| {
            let earlier = select_unpredictable(one < other, one, other);
            select_unpredictable(earlier < first, earlier, first)
        })
    }

    /// `component` wants to act at `time` ([`Time::MAX`]: never).
    ///
    /// All matches up to the root are played anew: with many components, neither who wins nor where the
    /// outcome stops changing can be predicted, and a wrong guess costs the processor more than the matches
    /// do. So nothing branches on them, and the opponents' addresses do not depend on who wins.
    #[inline(always)]
    pub fn set(&mut self, component: usize, time: Time) {
        let leaf = component + self.pairs.len();
        let (mut place, mut side) = (leaf / 2, leaf % 2);
        let mut winner = Entry::new(time, component);
        if self.pairs.len() <= FEW {
            self.pairs[place][side] = winner;
            return;
        }
        if self.pairs[place][side] == winner {
            return;
        }
        while place > 0 {
            let pair = &mut self.pairs[place];
            pair[side] = winner;
            let other = pair[side ^ 1];
            winner = select_unpredictable(winner < other, winner, other);
            (place, side) = (place / 2, place % 2);
        }
        self.pairs[0][1] = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest_and_lowest(
            count in 1usize..40,
            changes in prop::collection::vec((0usize..40, 0u64..20), 1..200)
        ) {
            let mut agenda = Agenda::new(count);
            let mut times = vec![Time::MAX; count];
            for (component, time) in changes {
                let (component, time) = (component % count, Time::from_nanos(time));
                agenda.set(component, time);
                times[component] = time;
                let expected = times.iter().enumerate().map(|(n, &at)| (at, n)).min().unwrap();
                prop_assert_eq!(agenda.first(), expected);
            }
        }
    }
}
