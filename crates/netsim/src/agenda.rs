//! When each component of the world wants to act next.
//!
//! ```text
//!   3.1 (1)   never        4.0  2.9                the top: looked through by whoever asks
//!    |          |           who acts all the time stands here
//!   5.0  3.1  7.2  ...    never  never ...         nodes of eight; above each, its earliest, and who that is
//! ```
//!
//! One entry a component, changed in place: changing one looks through as many nodes as there are levels
//! below the top, or up to the first whose earliest entry stays. Few components, as one flow's, all stand in
//! the top; of many, the last ones may. No entry is later than what its component wants. It may be earlier
//! only where some dozens of components put off what they want (`Agenda::put_off`).
//!
//! Deviation: the plan was a heap ordered by (time, sequence of scheduling). Here ties go to the component's
//! number, so the order at one instant does not depend on how often something was rescheduled: recording a
//! run cannot change it.

use units::{Span, Time, fetch_line, likely, unlikely};

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
    /// The components of lower numbers may stand where they were when they are [put off](Agenda::put_off): no
    /// more than 64, ...
    lenient: usize,
    /// ... of which those may that have their bit here.
    early: u64,
    /// The lowest level, the components'; empty where all of them stand in the top.
    leaves: Level,
    /// The levels between that and the top, from below.
    above: Vec<Level>,
}

/// The nodes of a level. Entries beyond the last component stay idle.
#[derive(Clone, Debug, Default)]
struct Level {
    nodes: Vec<Node>,
    /// The place of each node's earliest entry, 0 to 7.
    leaders: Vec<u8>,
}

impl Level {
    fn new(nodes: usize) -> Level {
        Level { nodes: vec![Node::IDLE; nodes], leaders: vec![0; nodes] }
    }

    /// Enters when `number` wants to act. Returns who is to be entered on the level above, and when, if what
    /// comes first in its node is not what did.
    #[inline(always)]
    fn enter(&mut self, number: usize, key: u64) -> Option<(usize, u64)> {
        let (node, place) = (number / WIDTH, number % WIDTH);
        let (entries, leader) = (&mut self.nodes[node], &mut self.leaders[node]);
        if entries.holds(place, key) {
            return None;
        }
        entries.put(place, key);
        // Of many most come after another one of their node, before and after the change.
        if place != usize::from(*leader) && entries.is_behind(place, *leader) {
            return None;
        }
        let first = entries.first();
        *leader = (first & PLACE) as u8;
        Some((node, first & !PLACE))
    }
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

/// A time as entries have it, above the place.
#[inline(always)]
fn key(time: Time) -> u64 {
    time.as_nanos().min((NEVER - BIAS) / WIDTH as u64) * WIDTH as u64 + BIAS
}

/// What is put off stays where it is if it comes up so long from now, or later. Paced packets lie less far
/// apart, and are put off by so little that to be asked twice would cost more than it spares.
const LEEWAY: Span = Span::from_millis(5);
/// So many components at most stand in the top of an agenda that has others below.
const NEAR: usize = WIDTH / 2;

impl Agenda {
    /// An agenda of `others` components and, numbered after them, `busy` ones, which act all the time. None
    /// wants anything yet.
    pub fn new(others: usize, busy: usize) -> Agenda {
        let count = others + busy;
        let near = if count <= WIDTH || busy <= NEAR { busy } else { 0 };
        let far = if count <= WIDTH { 0 } else { count - near };
        let leaves = Level::new(far.div_ceil(WIDTH));
        let (mut above, mut size) = (Vec::new(), leaves.nodes.len());
        while size > WIDTH - near {
            size = size.div_ceil(WIDTH);
            above.push(Level::new(size));
        }
        // With more levels what is spared in them is spent on looking.
        let lenient = if above.is_empty() { far } else { 0 };
        Agenda {
            top: Node::IDLE,
            others,
            far,
            shift: count.saturating_sub(WIDTH),
            lenient,
            early: 0,
            leaves,
            above,
        }
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
        for level in self.above.iter().rev() {
            number = number * WIDTH + usize::from(level.leaders[number]);
        }
        number * WIDTH + usize::from(self.leaves.leaders[number])
    }

    /// `component` wants to act at `time` ([`Time::MAX`]: never).
    #[inline(always)]
    pub fn set(&mut self, component: usize, time: Time) {
        let key = key(time);
        if likely(component >= self.far) {
            self.top.put(component - self.shift, key);
        } else {
            self.climb(component, key);
        }
    }

    /// As [`set`](Agenda::set), but that `component` may come up earlier, [`LEEWAY`] after `now` or later: it
    /// must be asked then when it really wants to. What is put off again and again, as most timers are,
    /// changes nothing meanwhile.
    #[inline(always)]
    pub fn put_off(&mut self, component: usize, time: Time, now: Time) {
        if likely(component >= self.far) || component >= self.lenient {
            self.set(component, time);
        } else if self.comes_up(component, now, time) {
            self.early |= 1 << component;
        } else {
            self.early &= !(1 << component);
            self.climb(component, key(time));
        }
    }

    /// Whether an entry below the top comes up at `time` or before it, and not before [`LEEWAY`] has gone by
    /// since `now`: then it may stay.
    #[inline(always)]
    fn comes_up(&self, component: usize, now: Time, time: Time) -> bool {
        self.leaves.nodes.get(component / WIDTH).is_some_and(|node| {
            let at = (node.0[component % WIDTH] - BIAS) / WIDTH as u64;
            let soon = now.as_nanos().wrapping_add(LEEWAY.as_nanos() as u64);
            at >= soon && at <= time.as_nanos()
        })
    }

    /// Whether a component that comes up may want to act later only: it was [put off](Agenda::put_off).
    #[inline(always)]
    pub fn may_be_early(&self, component: usize) -> bool {
        component < self.lenient && self.early >> component & 1 != 0
    }

    /// Has brought into the caches where `component` is entered, if that is not in the top.
    #[inline(always)]
    pub fn fetch(&self, component: usize) {
        if let Some(node) = self.leaves.nodes.get(component / WIDTH) {
            fetch_line(node);
        }
    }

    /// Enters a component's next time, and on every level above it what then comes first. Where that is what
    /// came first before, nothing changes further up.
    #[inline(always)]
    fn climb(&mut self, component: usize, key: u64) {
        let Some(mut first) = self.leaves.enter(component, key) else { return };
        for level in &mut self.above {
            let Some(next) = level.enter(first.0, first.1) else { return };
            first = next;
        }
        self.top.put(first.0, first.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_put_off_stays_where_it_is_unless_that_is_soon() {
        let first_of = |hosts: usize, wanted_ms: u64| {
            let mut agenda = Agenda::new(hosts, 2);
            agenda.set(0, Time::from_millis(wanted_ms));
            agenda.put_off(0, Time::from_millis(20), Time::ZERO);
            agenda.first().map(|(at, _)| at.as_nanos() / 1_000_000)
        };
        assert_eq!((first_of(20, 5), first_of(20, 4)), (Some(5), Some(20)));
        // Few stand in the top, and of a crowd each is entered anew.
        assert_eq!((first_of(2, 5), first_of(200, 5)), (Some(20), Some(20)));
    }

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

        /// Who is put off may come up early, and never late: once it was asked what it wants, all come up in
        /// the order of their times.
        #[test]
        fn who_is_put_off_comes_up_early_at_most(
            (count, busy) in (prop_oneof![1usize..10, 20usize..70], 0usize..6),
            changes in prop::collection::vec((0usize..70, 0u64..20, 0u64..3), 1..300)
        ) {
            let busy = busy.min(count);
            let mut agenda = Agenda::new(count - busy, busy);
            let (mut times, mut now) = (vec![Time::MAX; count], Time::ZERO);
            for (component, wait, gone) in changes {
                now += Span::from_millis(gone as i64);
                let component = component % count;
                times[component] = if wait == 0 { Time::MAX } else { now + Span::from_millis(wait as i64) };
                agenda.put_off(component, times[component], now);
                while let Some((at, early)) = agenda.first().filter(|&(at, who)| at < times[who]) {
                    prop_assert!(agenda.may_be_early(early), "{early} at {at:?}");
                    agenda.set(early, times[early]);
                }
                let wanting = times.iter().enumerate().filter(|(_, at)| **at < Time::MAX);
                prop_assert_eq!(agenda.first(), wanting.map(|(n, &at)| (at, n)).min());
            }
        }
    }
}
