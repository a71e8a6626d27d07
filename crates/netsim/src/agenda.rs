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
//! Deviation: the plan was a heap ordered by (time, sequence of scheduling). Here ties go to the component's
//! number, so the order at one instant does not depend on how often something was rescheduled: recording a
//! run cannot change it.

use std::hint::select_unpredictable;

use units::Time;

/// Next times of a fixed number of components.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Node `i` is the earlier of its children `2 i` and `2 i + 1`; the root is 1. The components are the
    /// leaves, from the middle on, padded to a power of two.
    nodes: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: Time,
    component: u32,
}

impl Agenda {
    /// An agenda of `count` components, none of which wants anything.
    pub fn new(count: usize) -> Agenda {
        let leaves = count.next_power_of_two().max(2);
        let leaf = |node: usize| Entry { time: Time::MAX, component: node.saturating_sub(leaves) as u32 };
        Agenda { nodes: (0..2 * leaves).map(leaf).collect() }
    }

    /// The component that acts next, and when; [`Time::MAX`] if none wants to.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let root = self.nodes[1];
        (root.time, root.component as usize)
    }

    /// `component` wants to act at `time` ([`Time::MAX`]: never).
    #[inline(always)]
    pub fn set(&mut self, component: usize, time: Time) {
        let leaf = component + self.nodes.len() / 2;
        if self.nodes[leaf].time != time {
            self.nodes[leaf].time = time;
            self.rise(leaf);
        }
    }

    /// Plays a changed leaf's matches up to the root. All of them: with many components, neither who wins nor
    /// where the outcome stops changing can be predicted, and a wrong guess costs the processor more than the
    /// matches do. So nothing branches on them, and the opponents' addresses do not depend on who wins.
    #[inline(always)]
    fn rise(&mut self, leaf: usize) {
        let mut winner = self.nodes[leaf];
        let mut node = leaf;
        while node > 1 {
            let other = self.nodes[node ^ 1];
            let on_the_left = node & 1 == 0;
            let stays = (winner.time < other.time) | ((winner.time == other.time) & on_the_left);
            winner.time = select_unpredictable(stays, winner.time, other.time);
            winner.component = select_unpredictable(stays, winner.component, other.component);
            node /= 2;
            self.nodes[node] = winner;
        }
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
