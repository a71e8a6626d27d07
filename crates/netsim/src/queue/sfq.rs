//! Stochastic fairness queuing (McKenney 1990) as Linux has it: flows take turns, a quantum of bytes each.
//!
//! ```text
//! flow --hash--> lane     round: [lane 7] [lane 3] [lane 9] ...   the first sends while its allotment is positive,
//!                                                                then gets a quantum more and goes to the end
//! full: the newest (or oldest) packet of the longest lane goes
//! ```
//!
//! Deviations: allotments are bytes, where Linux counts units of 8 bytes, rounded up. When a full queue holds
//! one packet of each flow the newest goes, as from any other longest lane, where Linux drops the one that
//! would be served next.

use std::collections::VecDeque;

use record::Dropped;
use units::{Span, Time};

use super::droptail::LIMIT_OPTION;
use super::lanes::{HASH_OPTION, Hash, Lanes, Periodic};
use super::options::Options;
use super::registry::Built;
use super::{Backlog, Drops, Entry, Limit, Queue, Setup};
use crate::Packet;

/// The registry's row.
pub(super) const ENTRY: Entry = Entry {
    name: "sfq",
    syntax: "sfq, sfq:300p,depth=300, sfq:headdrop,hash=seeded,perturb=10s",
    summary: "stochastic fairness queuing as in Linux: flows take turns, the longest loses when it is full",
    options: &[
        LIMIT_OPTION,
        ("depth", "most packets of a lane; default 127"),
        ("flows", "most lanes in use at once; default 128"),
        ("divisor", "how many lanes there are; default 1024"),
        ("quantum", "bytes a lane sends in its turn; default 1514B"),
        ("perturb", "how often a seeded hash is drawn anew; default 0s, never"),
        ("headdrop", "drops a lane's oldest packet instead of its newest"),
        HASH_OPTION,
    ],
    build,
};

fn build(options: &Options<'_>, setup: &Setup) -> Built {
    // Linux (`sch_sfq.c`): SFQ_DEFAULT_FLOWS, SFQ_MAX_DEPTH for depth and limit, SFQ_DEFAULT_HASH_DIVISOR,
    // and as quantum an Ethernet frame.
    let parameters = Parameters {
        limit: options.limit(setup.reference, Limit::packets(127))?,
        depth: options.count("depth", 127, 1..=65_535)?,
        flows: options.count("flows", 128, 1..=65_536)?,
        quantum: options.size("quantum", 1514)?.into(),
        headdrop: options.switch("headdrop", false)?,
    };
    let lanes = Lanes::new(options.count("divisor", 1024, 1..=65_536)?);
    let perturb = options.time_or_zero("perturb", Span::ZERO)?;
    Ok(Box::new(Sfq::new(parameters, lanes, Hash::read(options, setup)?, perturb)))
}

#[derive(Clone, Copy, Debug)]
struct Parameters {
    limit: Limit,
    depth: u32,
    flows: u32,
    quantum: i64,
    headdrop: bool,
}

/// The queue.
#[derive(Clone)]
struct Sfq {
    parameters: Parameters,
    hash: Hash,
    perturb: Periodic,
    lanes: Lanes,
    allotments: Vec<i64>,
    /// Lanes that are not empty, in the order of their turns.
    round: VecDeque<u32>,
    lengths: Lengths,
    /// Packets on their way to other lanes.
    moved: Vec<Packet>,
}

impl Sfq {
    fn new(parameters: Parameters, lanes: Lanes, hash: Hash, perturb: Span) -> Sfq {
        let count = lanes.count() as usize;
        Sfq {
            hash,
            perturb: Periodic::new(perturb),
            allotments: vec![0; count],
            round: VecDeque::with_capacity(count.min(parameters.flows as usize)),
            lengths: Lengths::new(count, parameters.depth),
            lanes,
            moved: Vec::new(),
            parameters,
        }
    }

    /// Draws the hash anew when it is time, and moves what waits to its new lane; flows keep their order.
    fn rehash(&mut self, now: Time, drops: &mut Drops) {
        if !self.perturb.is_due(now) {
            return;
        }
        self.hash.perturb();
        let mut moved = std::mem::take(&mut self.moved);
        while let Some(lane) = self.round.pop_front() {
            moved.extend(std::iter::from_fn(|| self.lanes.pop_front(lane)));
            self.lengths.set(lane, 0);
        }
        for packet in moved.drain(..) {
            if let Err(cause) = self.admit(packet, drops) {
                drops.push((packet, cause));
            }
        }
        self.moved = moved;
    }

    fn admit(&mut self, packet: Packet, drops: &mut Drops) -> Result<(), Dropped> {
        let lane = self.hash.lane(packet.flow, self.lanes.count());
        let length = self.lanes.backlog(lane).packets;
        if length == 0 {
            if self.round.len() >= self.parameters.flows as usize {
                return Err(Dropped::QueueFull);
            }
            self.round.push_back(lane);
            self.allotments[lane as usize] = self.parameters.quantum;
        } else if length >= self.parameters.depth {
            if !self.parameters.headdrop {
                return Err(Dropped::QueueFull);
            }
            drops.extend(self.lanes.pop_front(lane).map(|oldest| (oldest, Dropped::QueueFull)));
        }
        self.lanes.push(lane, packet);
        self.lengths.set(lane, self.lanes.backlog(lane).packets);
        Ok(())
    }

    /// Drops a packet of the longest lane.
    fn drop_longest(&mut self) -> Option<Packet> {
        let lane = self.lengths.longest()?;
        let headdrop = self.parameters.headdrop;
        let victim = if headdrop { self.lanes.pop_front(lane) } else { self.lanes.pop_back(lane) };
        let length = self.lanes.backlog(lane).packets;
        self.lengths.set(lane, length);
        if length == 0 {
            self.round.retain(|&other| other != lane);
        }
        victim
    }
}

impl Queue for Sfq {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) -> Result<(), Dropped> {
        self.rehash(now, drops);
        self.admit(packet, drops)?;
        let mut refused = false;
        while !self.parameters.limit.holds(self.lanes.total()) {
            let Some(victim) = self.drop_longest() else { break };
            if victim == packet && !refused {
                refused = true;
            } else {
                drops.push((victim, Dropped::QueueFull));
            }
        }
        if refused { Err(Dropped::QueueFull) } else { Ok(()) }
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.rehash(now, drops);
        loop {
            let &lane = self.round.front()?;
            let allotment = &mut self.allotments[lane as usize];
            if *allotment <= 0 {
                *allotment += self.parameters.quantum;
                self.round.rotate_left(1);
                continue;
            }
            let packet = self.lanes.pop_front(lane)?;
            *allotment -= i64::from(packet.size);
            let length = self.lanes.backlog(lane).packets;
            self.lengths.set(lane, length);
            if length == 0 {
                self.round.pop_front();
            }
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.lanes.total()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

const NONE: u32 = u32::MAX;

/// Lanes by length, so that the longest is found at once: for each length a list of lanes, the one that
/// reached it last in front.
#[derive(Clone)]
struct Lengths {
    first: Vec<u32>,
    lanes: Vec<Ranked>,
    longest: u32,
}

#[derive(Clone, Copy)]
struct Ranked {
    length: u32,
    before: u32,
    after: u32,
}

impl Lengths {
    /// `count` lanes without a packet, none of which ever holds more than `most`.
    fn new(count: usize, most: u32) -> Lengths {
        let ranked = Ranked { length: 0, before: NONE, after: NONE };
        Lengths { first: vec![NONE; most as usize + 1], lanes: vec![ranked; count], longest: 0 }
    }

    /// The longest lane; of equals the one that became so last. `None` if all are empty.
    fn longest(&self) -> Option<u32> {
        (self.longest > 0).then(|| self.first[self.longest as usize])
    }

    /// `lane` now holds `length` packets.
    fn set(&mut self, lane: u32, length: u32) {
        self.unlink(lane);
        let first = if length > 0 { std::mem::replace(&mut self.first[length as usize], lane) } else { NONE };
        self.lanes[lane as usize] = Ranked { length, before: NONE, after: first };
        if let Some(next) = self.lanes.get_mut(first as usize) {
            next.before = lane;
        }
        self.longest = self.longest.max(length);
        while self.longest > 0 && self.first[self.longest as usize] == NONE {
            self.longest -= 1;
        }
    }

    fn unlink(&mut self, lane: u32) {
        let Ranked { length, before, after } = self.lanes[lane as usize];
        if length == 0 {
            return;
        }
        match self.lanes.get_mut(before as usize) {
            Some(previous) => previous.after = after,
            None => self.first[length as usize] = after,
        }
        if let Some(next) = self.lanes.get_mut(after as usize) {
            next.before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sfq(limit: u32) -> Sfq {
        let parameters = Parameters {
            limit: Limit::packets(limit),
            depth: 127,
            flows: 128,
            quantum: 1514,
            headdrop: false,
        };
        Sfq::new(parameters, Lanes::new(1024), Hash::Identity, Span::ZERO)
    }

    /// Enqueues packets written as `A1` (1514 bytes) or `b1` (500 bytes); returns what was dropped meanwhile.
    fn offer(queue: &mut Sfq, packets: &str) -> Vec<String> {
        let mut drops = Drops::new();
        for (id, name) in (0..).zip(packets.split(' ')) {
            let (flow, number) = name.split_at(1);
            let size = if flow.to_ascii_uppercase() == flow { 1514 } else { 500 };
            let flow = u16::from(flow.to_ascii_uppercase().as_bytes()[0]);
            let id = id * 10 + number.parse::<u32>().unwrap();
            let packet = Packet { id, ..Packet::bare(flow, size, Time::ZERO) };
            if let Err(cause) = queue.enqueue(Time::ZERO, packet, &mut drops) {
                drops.push((packet, cause));
            }
        }
        drops.iter().map(|(packet, _)| name(packet)).collect()
    }

    fn name(packet: &Packet) -> String {
        format!("{}{}", char::from(packet.flow as u8), packet.id % 10)
    }

    fn order(queue: &mut Sfq) -> String {
        let packets = std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut Drops::new()));
        packets.map(|packet| name(&packet)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn s1_turns_are_a_quantum_long() {
        let mut queue = sfq(127);
        assert!(offer(&mut queue, "A1 A2 A3 b1 b2 b3 b4 C1 C2").is_empty());
        assert_eq!(order(&mut queue), "A1 B1 B2 B3 B4 C1 A2 C2 A3");
    }

    #[test]
    fn s2_the_longest_loses_its_newest() {
        let mut queue = sfq(5);
        assert_eq!(offer(&mut queue, "A1 A2 A3 A4 B1 A5 B2 C1"), ["A5", "A4", "A3"]);
        assert_eq!(order(&mut queue), "A1 B1 C1 A2 B2");
    }

    #[test]
    fn headdrop_loses_the_oldest_and_depth_bounds_a_flow() {
        let mut queue = sfq(5);
        queue.parameters.headdrop = true;
        assert_eq!(offer(&mut queue, "A1 A2 A3 A4 B1 A5 B2 C1"), ["A1", "A2", "A3"]);
        assert_eq!(order(&mut queue), "A4 B1 C1 A5 B2");
        queue.parameters.depth = 2;
        assert_eq!(offer(&mut queue, "A1 A2 A3 B1"), ["A1"]);
        queue.parameters.headdrop = false;
        assert_eq!(offer(&mut queue, "A4 B2 B3"), ["A4", "B3"]);
        assert_eq!(order(&mut queue), "A2 B1 A3 B2");
    }

    #[test]
    fn no_more_flows_than_allowed() {
        let mut queue = sfq(127);
        queue.parameters.flows = 2;
        assert_eq!(offer(&mut queue, "A1 B1 C1 A2"), ["C1"]);
        assert_eq!(order(&mut queue), "A1 B1 A2");
        assert!(offer(&mut queue, "C2").is_empty());
    }

    #[test]
    fn a_new_hash_keeps_packets_and_the_order_of_flows() {
        let setup = Setup::steady(units::Rate::ZERO);
        let spec: crate::QueueSpec = "sfq:divisor=7,hash=seeded,perturb=10ms".parse().unwrap();
        let mut queue = spec.build(&setup);
        let mut drops = Drops::new();
        let mut last = [None; 20];
        let mut check = |packet: Packet| {
            let last = last[usize::from(packet.flow)].replace(packet.id);
            assert!(last < Some(packet.id));
        };
        for id in 0..10_000u32 {
            let now = Time::from_micros(u64::from(id) * 100);
            let packet = Packet { id, ..Packet::bare((id * 7 % 20) as u16, 1_000, now) };
            let _ = queue.enqueue(now, packet, &mut drops);
            if id % 2 == 0 {
                check(queue.dequeue(now, &mut drops).unwrap());
            }
        }
        while let Some(packet) = queue.dequeue(Time::from_secs(2), &mut drops) {
            check(packet);
        }
    }
}
