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
//! One entry a component, changed in place: nothing is ever stale, and changing one costs log2(n) comparisons.
//!
//! Deviation: the plan was a heap ordered by (time, sequence of scheduling). Here ties go to the component's number, so the
//! order at one instant does not depend on how often something was rescheduled: recording a run cannot change it.

use units::Time;

/// Next times of a fixed number of components.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// Times of the components, padded to a power of two.
    times: Vec<Time>,
    /// Winners; node `i` has children `2 i` and `2 i + 1`, the root is 1. Nodes of the lowest level index `times`.
    winners: Vec<u32>,
}

impl Agenda {
    /// An agenda of `count` components, none of which wants anything.
    pub fn new(count: usize) -> Agenda {
        let leaves = count.next_power_of_two().max(2);
        let mut agenda = Agenda { times: vec![Time::MAX; leaves], winners: vec![0; leaves] };
        (1..leaves).rev().for_each(|node| agenda.winners[node] = agenda.winner(node));
        agenda
    }

    /// The component that acts next, and when; [`Time::MAX`] if none wants to.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let winner = self.winners[1] as usize;
        (self.times[winner], winner)
    }

    /// `component` wants to act at `time` ([`Time::MAX`]: never).
    #[inline]
    pub fn set(&mut self, component: usize, time: Time) {
        if self.times[component] == time {
            return;
        }
        self.times[component] = time;
        let mut node = (component + self.times.len()) / 2;
        while node > 0 {
            let (before, after) = (self.winners[node], self.winner(node));
            self.winners[node] = after;
            // Where this component neither won nor wins, nothing above has changed.
            if before != component as u32 && after != component as u32 {
                return;
            }
            node /= 2;
        }
    }

    fn winner(&self, node: usize) -> u32 {
        let leaves = self.times.len();
        let (left, right) = if 2 * node >= leaves {
            (2 * node - leaves, 2 * node + 1 - leaves)
        } else {
            (self.winners[2 * node] as usize, self.winners[2 * node + 1] as usize)
        };
        (if self.times[right] < self.times[left] { right } else { left }) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest_and_lowest(
            count in 1usize..40, changes in prop::collection::vec((0usize..40, 0u64..20), 1..200)
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
