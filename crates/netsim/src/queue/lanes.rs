//! Many first-in, first-out lanes in one slab, and which lane a flow goes to: what SFQ and FQ-CoDel share.
//!
//! ```text
//! lane 0: head -> node -> node <- tail        nodes are reused, so that memory follows the most packets that ever
//! lane 1: head -> node <- tail                waited, whichever lanes they waited in
//! ```

use units::{Rng, Span, Time};

use super::Backlog;
use super::options::Options;
use super::registry::Setup;
use crate::Packet;
use crate::text::TextError;

const NONE: u32 = u32::MAX;

/// One packet in a lane; a free node's `next` is the next free one.
#[derive(Clone, Copy, Debug)]
struct Node {
    packet: Packet,
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    head: u32,
    tail: u32,
    backlog: Backlog,
}

/// The lanes.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    nodes: Vec<Node>,
    free: u32,
    total: Backlog,
}

impl Lanes {
    /// `count` empty lanes.
    pub fn new(count: u32) -> Lanes {
        let lane = Lane { head: NONE, tail: NONE, backlog: Backlog::default() };
        Lanes { lanes: vec![lane; count as usize], nodes: Vec::new(), free: NONE, total: Backlog::default() }
    }

    /// How many lanes there are.
    pub fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// What waits in all lanes.
    pub fn total(&self) -> Backlog {
        self.total
    }

    /// What waits in one.
    pub fn backlog(&self, lane: u32) -> Backlog {
        self.lanes[lane as usize].backlog
    }

    /// The lane in which most bytes wait; of equals the first.
    pub fn fattest(&self) -> u32 {
        let (mut fattest, mut most) = (0, 0);
        for (lane, Lane { backlog, .. }) in (0..).zip(&self.lanes) {
            if backlog.bytes > most {
                (fattest, most) = (lane, backlog.bytes);
            }
        }
        fattest
    }

    /// Appends `packet` to a lane.
    pub fn push(&mut self, lane: u32, packet: Packet) {
        let lane = &mut self.lanes[lane as usize];
        let node = Node { packet, previous: lane.tail, next: NONE };
        let at = self.free;
        let at = match self.nodes.get_mut(at as usize) {
            Some(slot) => {
                self.free = slot.next;
                *slot = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        match lane.tail {
            NONE => lane.head = at,
            tail => self.nodes[tail as usize].next = at,
        }
        lane.tail = at;
        for backlog in [&mut lane.backlog, &mut self.total] {
            backlog.packets += 1;
            backlog.bytes += u64::from(packet.size);
        }
    }

    /// Takes a lane's oldest packet.
    pub fn pop_front(&mut self, lane: u32) -> Option<Packet> {
        let this = &mut self.lanes[lane as usize];
        let at = this.head;
        let next = self.nodes.get(at as usize)?.next;
        this.head = next;
        match next {
            NONE => this.tail = NONE,
            next => self.nodes[next as usize].previous = NONE,
        }
        Some(self.release(lane, at))
    }

    /// Takes a lane's newest packet.
    pub fn pop_back(&mut self, lane: u32) -> Option<Packet> {
        let this = &mut self.lanes[lane as usize];
        let at = this.tail;
        let previous = self.nodes.get(at as usize)?.previous;
        this.tail = previous;
        match previous {
            NONE => this.head = NONE,
            previous => self.nodes[previous as usize].next = NONE,
        }
        Some(self.release(lane, at))
    }

    fn release(&mut self, lane: u32, at: u32) -> Packet {
        let node = &mut self.nodes[at as usize];
        node.next = self.free;
        self.free = at;
        for backlog in [&mut self.lanes[lane as usize].backlog, &mut self.total] {
            backlog.packets -= 1;
            backlog.bytes -= u64::from(node.packet.size);
        }
        node.packet
    }
}

/// What the option that chooses a [`Hash`] is called, and what it takes.
pub(super) const HASH_OPTION: (&str, &str) = (
    "hash",
    "which flows share a lane: `identity` takes the flow's number (default), `seeded` a random function",
);

/// Which lane a flow goes to.
#[derive(Clone, Debug)]
pub(super) enum Hash {
    /// The flow's number: no two of the first flows ever share a lane.
    Identity,
    /// A function drawn at random: flows may collide, as in the field.
    Seeded { rng: Rng, salt: u64 },
}

impl Hash {
    /// The one an option asks for.
    pub fn read(options: &Options<'_>, setup: &Setup) -> Result<Hash, TextError> {
        Ok(if options.choice("hash", false, &[("identity", false), ("seeded", true)])? {
            Hash::seeded(setup.rng())
        } else {
            Hash::Identity
        })
    }

    fn seeded(mut rng: Rng) -> Hash {
        let salt = rng.next_u64();
        Hash::Seeded { rng, salt }
    }

    /// Draws a new function.
    pub fn perturb(&mut self) {
        if let Hash::Seeded { rng, salt } = self {
            *salt = rng.next_u64();
        }
    }

    /// The lane of `flow` among `lanes`.
    pub fn lane(&self, flow: u16, lanes: u32) -> u32 {
        match self {
            Hash::Identity => u32::from(flow) % lanes,
            Hash::Seeded { salt, .. } => {
                let mixed = mix(salt ^ u64::from(flow));
                ((u128::from(mixed) * u128::from(lanes)) >> 64) as u32
            }
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): each input bit changes half the output's.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Something that is due every `period` from the start of the world on; never if the period is zero.
#[derive(Clone, Debug)]
pub(super) struct Periodic {
    period: Span,
    next: Time,
}

impl Periodic {
    pub fn new(period: Span) -> Periodic {
        let next = if period.is_positive() { Time::ZERO + period } else { Time::MAX };
        Periodic { period, next }
    }

    /// Whether it has come due since the last call; several times count as one.
    pub fn is_due(&mut self, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        let missed = (now - self.next).as_nanos() / self.period.as_nanos();
        self.next += self.period * (missed + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use units::{Rng, Span};

    use super::*;

    proptest! {
        #[test]
        fn lanes_are_deques(steps in prop::collection::vec((0u32..3, 0u32..5, 40u32..1500), 1..300)) {
            let mut lanes = Lanes::new(5);
            let mut model = vec![VecDeque::new(); 5];
            let mut most = 0;
            for (id, (step, lane, size)) in (0u32..).zip(steps) {
                let deque = &mut model[lane as usize];
                let packet = Packet { id, ..Packet::bare(0, size, Time::ZERO) };
                match step {
                    0 => { lanes.push(lane, packet); deque.push_back(packet); }
                    1 => prop_assert_eq!(lanes.pop_front(lane), deque.pop_front()),
                    _ => prop_assert_eq!(lanes.pop_back(lane), deque.pop_back()),
                }
                let bytes = |deque: &VecDeque<Packet>| deque.iter().map(|p| u64::from(p.size)).sum::<u64>();
                for (lane, deque) in (0..).zip(&model) {
                    let expected = Backlog { packets: deque.len() as u32, bytes: bytes(deque) };
                    prop_assert_eq!(lanes.backlog(lane), expected);
                }
                let total = model.iter().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(lanes.total().packets as usize, total);
                prop_assert_eq!(lanes.backlog(lanes.fattest()).bytes, model.iter().map(bytes).max().unwrap());
                most = most.max(total);
                prop_assert_eq!(lanes.nodes.len(), most);
            }
        }
    }

    #[test]
    fn hashes_spread_flows() {
        let seeded = Hash::seeded(Rng::stream(1, "link/queue"));
        let mut seen = [0u32; 16];
        (0..16_000).for_each(|flow| seen[seeded.lane(flow, 16) as usize] += 1);
        assert!(seen.iter().all(|&flows| (850..1_150).contains(&flows)), "{seen:?}");
        assert_eq!((Hash::Identity.lane(7, 1024), Hash::Identity.lane(1_025, 1024)), (7, 1));
    }

    #[test]
    fn periods_are_counted_from_the_start() {
        let ms = Time::from_millis;
        let mut every = Periodic::new(Span::from_millis(10));
        let due = [9, 10, 11, 19, 45, 49, 50].map(|at| every.is_due(ms(at)));
        assert_eq!(due, [false, true, false, false, true, false, true]);
        assert!(!Periodic::new(Span::ZERO).is_due(ms(1_000_000)));
    }
}
