//! When each component of the world wants to act next.
//!
//! ```text
//!   3.1 (1)   never        4.0  2.9                the top: looked through by whoever asks
//!    |          |           who acts all the time stands here
//!   5.0  3.1  7.2  ...    never  never ...         nodes of eight; above each, its earliest, and who that is
//! ```
//!
//! One entry a component, changed in place: nothing is ever stale, and changing one looks through as many
//! nodes as there are levels below the top, or up to the first whose earliest entry stays. Few components, as
//! one flow's, all stand in the top; of many, the last ones may.
//!
//! Deviation: the plan was a heap ordered by (time, sequence of scheduling). Here ties go to the component's
//! number, so the order at one instant does not depend on how often something was rescheduled: recording a
//! run cannot change it.

use units::{Time, fetch_line, likely, unlikely};

/// Entries of a node: one cache line.
const WIDTH: usize = 8;
/// Bits of an entry that say where in its node it stands.
const PLACE: u64 = WIDTH as u64 - 1;
/// What is added to each time, and that of an entry that never acts: between them numbers are the bits of
/// floating-point numbers, positive, finite and normal, which lie in the same order.
const BIAS: u64 = f64::MIN_POSITIVE.to_bits();
const NEVER: u64 = f64::MAX.to_bits() & !PLACE;

/// Next times of a fixed number of components.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    top: Node,
    /// How many components are not busy: the first busy one's number.
    others: usize,
    /// The components of lower numbers stand below the top, ...
    far: usize,
    /// ... the others in it, at their number less this.
    shift: usize,
    /// The levels below the top, the components' first; none where all of them stand in the top.
    below: Vec<Level>,
}

/// The nodes of a level. Entries beyond the last component stay idle.
#[derive(Clone, Debug)]
struct Level {
    nodes: Vec<Node>,
    /// The place of each node's earliest entry, 0 to 7.
    leaders: Vec<u8>,
}

/// Who of a node's eight wants to act, and when, in one number each: the time, and the place in the low bits,
/// so that the earlier, and among equals the lower, is the smaller. Times beyond 36 years are never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Node([u64; WIDTH]);

impl Node {
    /// A node of which no entry ever acts.
    const IDLE: Node =
        Node([NEVER, NEVER | 1, NEVER | 2, NEVER | 3, NEVER | 4, NEVER | 5, NEVER | 6, NEVER | 7]);

    /// The earliest entry. Neither who it is nor whether it is another than before can be predicted, and a
    /// wrong guess costs the processor more than to look at all: nothing branches. Of floating-point numbers
    /// the smaller is one instruction, of others three. One after the other: by pairs compilers would look at
    /// two in one load, for which a processor waits where one of them was just written. And from the last on:
    /// hosts, which stand before links, are entered last.
    #[inline(always)]
    fn first(&self) -> u64 {
        let [others @ .., last] = self.0.map(f64::from_bits);
        let earliest = |one: f64, other: f64| if one < other { one } else { other };
        others.into_iter().rfold(last, earliest).to_bits()
    }

    /// Enters when `number`, whose place in the node its low bits are, wants to act.
    #[inline(always)]
    fn put(&mut self, number: usize, key: u64) {
        let place = number % WIDTH;
        self.0[place] = key | place as u64;
    }

    /// Whether the entry at one place comes after that at another one.
    #[inline(always)]
    fn is_behind(&self, place: usize, other: u8) -> bool {
        self.0[place] > self.0[usize::from(other) % WIDTH]
    }

    /// Whether that is what it wants already.
    #[inline(always)]
    fn holds(&self, number: usize, key: u64) -> bool {
        let place = number % WIDTH;
        self.0[place] == key | place as u64
    }
}

/// So many components at most stand in the top of an agenda that has others below.
const NEAR: usize = WIDTH / 2;

impl Agenda {
    /// An agenda of `others` components and, numbered after them, `busy` ones, which act all the time. None
    /// wants anything yet.
    pub fn new(others: usize, busy: usize) -> Agenda {
        let count = others + busy;
        let near = if count <= WIDTH || busy <= NEAR { busy } else { 0 };
        let far = if count <= WIDTH { 0 } else { count - near };
        let (mut below, mut size) = (Vec::new(), far);
        while size > WIDTH - near {
            size = size.div_ceil(WIDTH);
            below.push(Level { nodes: vec![Node::IDLE; size], leaders: vec![0; size] });
        }
        Agenda { top: Node::IDLE, others, far, shift: count.saturating_sub(WIDTH), below }
    }

    /// The number of the first component that acts all the time.
    #[inline(always)]
    pub fn first_busy(&self) -> usize {
        self.others
    }

    /// The component that acts next, and when, if any wants to.
    #[inline(always)]
    pub fn first(&self) -> Option<(Time, usize)> {
        let first = self.top.first();
        if unlikely(first >= NEVER) {
            return None;
        }
        let mut number = (first & PLACE) as usize + self.shift;
        if unlikely(number < self.far) {
            number = self.descend(number - self.shift);
        }
        Some((Time::from_nanos((first - BIAS) / WIDTH as u64), number))
    }

    /// The component that comes first in the top's node of this number.
    #[inline(always)]
    fn descend(&self, mut number: usize) -> usize {
        for level in self.below.iter().rev() {
            number = number * WIDTH + usize::from(level.leaders[number]);
        }
        number
    }

    /// `component` wants to act at `time` ([`Time::MAX`]: never).
    #[inline(always)]
    pub fn set(&mut self, component: usize, time: Time) {
        // The time where entries have it, above the place.
        let key = time.as_nanos().min((NEVER - BIAS) / WIDTH as u64) * WIDTH as u64 + BIAS;
        if likely(component >= self.far) {
            self.top.put(component - self.shift, key);
        } else {
            self.climb(component, key);
        }
    }

    /// Has brought into the caches where `component` is entered, if that is not in the top.
    #[inline(always)]
    pub fn fetch(&self, component: usize) {
        if let Some(node) = self.below.first().and_then(|level| level.nodes.get(component / WIDTH)) {
            fetch_line(node);
        }
    }

    /// Enters a component's next time, and on every level above it what then comes first. Where that is what
    /// came first before, nothing changes further up.
    #[inline(always)]
    fn climb(&mut self, mut number: usize, mut key: u64) {
        for level in &mut self.below {
            let (node, place) = (number / WIDTH, number % WIDTH);
            let (entries, leader) = (&mut level.nodes[node], &mut level.leaders[node]);
            if entries.holds(place, key) {
                return;
            }
            entries.put(place, key);
            // Of many most come after another one of their node, before and after the change.
            if place != usize::from(*leader) && entries.is_behind(place, *leader) {
                return;
            }
            let first = entries.first();
            *leader = (first & PLACE) as u8;
            (number, key) = (node, first & !PLACE);
        }
        self.top.put(number, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest_and_lowest(
            (count, busy) in (prop_oneof![1usize..10, 60usize..70, 510usize..520], 0usize..6),
            changes in prop::collection::vec((0usize..520, prop_oneof![9 => 0u64..20, 1 => Just(u64::MAX)]), 1..200)
        ) {
            let busy = busy.min(count);
            let mut agenda = Agenda::new(count - busy, busy);
            let mut times = vec![Time::MAX; count];
            for (component, time) in changes {
                let (component, time) = (component % count, Time::from_nanos(time));
                agenda.set(component, time);
                times[component] = time;
                let wanting = times.iter().enumerate().filter(|(_, at)| **at < Time::MAX);
                let expected = wanting.map(|(n, &at)| (at, n)).min();
                prop_assert_eq!(agenda.first(), expected);
            }
        }
    }
}
