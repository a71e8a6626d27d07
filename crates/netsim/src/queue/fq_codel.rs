//! FQ-CoDel (RFC 8290): flows take turns, new ones first, and each has a CoDel of its own.
//!
//! ```text
//! flow --hash--> lane      new: [lane 4]             a lane that was idle; served before all others, once
//!                          old: [lane 7] [lane 3]    a lane whose credits are used up gets a quantum and goes to the end
//! full: the lane with most bytes loses its oldest packets, up to half of it at once
//! ```

use std::collections::VecDeque;

use record::Dropped;
use units::Time;

use super::codel::{self, Control};
use super::droptail::LIMIT_OPTION;
use super::lanes::{HASH_OPTION, Hash, Lanes};
use super::options::Options;
use super::registry::Built;
use super::{Backlog, Drops, Entry, Limit, Queue, Setup};
use crate::Packet;

/// The registry's row.
pub(super) const ENTRY: Entry = Entry {
    name: "fq_codel",
    syntax: "fq_codel, fq_codel:target=13ms,ecn=off, fq_codel:300p,flows=64,hash=seeded",
    summary: "FQ-CoDel (RFC 8290): flows take turns, new ones first, each under CoDel",
    options: &[
        LIMIT_OPTION,
        ("target", "sojourn that is acceptable; default 5ms"),
        ("interval", "how long it may be exceeded: a round trip; default 100ms"),
        ("mtu", "no drop while a flow has no more bytes than this waiting; default 1500B"),
        ("ecn", "marks ECN-capable packets instead of dropping them; default on"),
        (
            "linux",
            "a drop needs more than an interval above target, as in Linux, not just an interval; default off",
        ),
        ("flows", "how many lanes there are; default 1024"),
        ("quantum", "bytes a lane sends in its turn; default 1514B"),
        ("batch", "most packets dropped at once when it is full; default 64"),
        HASH_OPTION,
    ],
    build,
};

fn build(options: &Options<'_>, setup: &Setup) -> Built {
    // RFC 8290 section 5.2 and Linux (`sch_fq_codel.c`): 10240 packets, 32 MB, 1024 flows, an Ethernet frame,
    // 64 packets.
    let limit = Limit { packets: 10_240, bytes: 32 << 20 };
    let control = codel::Parameters { ecn: true, ..codel::Parameters::default() };
    let parameters = Parameters {
        limit: options.limit(setup.reference, limit)?,
        control: codel::read(options, control)?,
        quantum: options.size("quantum", 1514)?.into(),
        batch: options.count("batch", 64, 1..=65_535)?,
    };
    let lanes = options.count("flows", 1024, 1..=65_536)?;
    Ok(Box::new(FqCodel::new(parameters, lanes, Hash::read(options, setup)?)))
}

#[derive(Clone, Copy, Debug)]
struct Parameters {
    limit: Limit,
    control: codel::Parameters,
    quantum: i64,
    batch: u32,
}

/// What a lane has besides packets.
#[derive(Clone, Debug, Default)]
struct Turn {
    credits: i64,
    /// On one of the two lists.
    listed: bool,
    control: Control,
}

/// The queue.
#[derive(Clone)]
struct FqCodel {
    parameters: Parameters,
    hash: Hash,
    lanes: Lanes,
    turns: Vec<Turn>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl FqCodel {
    fn new(parameters: Parameters, lanes: u32, hash: Hash) -> FqCodel {
        let count = lanes as usize;
        FqCodel {
            parameters,
            hash,
            lanes: Lanes::new(lanes),
            turns: vec![Turn::default(); count],
            new: VecDeque::with_capacity(count),
            old: VecDeque::with_capacity(count),
        }
    }

    /// Takes the oldest packets of the lane with most bytes: half of them, or a batch. Returns the lane.
    fn drop_fattest(&mut self, drops: &mut Drops) -> u32 {
        let lane = self.lanes.fattest();
        let half = self.lanes.backlog(lane).bytes / 2;
        let (mut packets, mut bytes) = (0, 0);
        while let Some(packet) = self.lanes.pop_front(lane) {
            packets += 1;
            bytes += u64::from(packet.size);
            drops.push((packet, Dropped::QueueFull));
            if packets >= self.parameters.batch || bytes >= half {
                break;
            }
        }
        self.turns[lane as usize].control.add_drops(packets);
        lane
    }

    /// The lane at `list`'s head has had its turn, or has nothing to send.
    fn pass(&mut self, lane: u32, from_new: bool, keep: bool) {
        if from_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
        if keep { self.old.push_back(lane) } else { self.turns[lane as usize].listed = false }
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) -> Result<(), Dropped> {
        let lane = self.hash.lane(packet.flow, self.lanes.count());
        self.lanes.push(lane, packet);
        let turn = &mut self.turns[lane as usize];
        if !turn.listed {
            (turn.listed, turn.credits) = (true, self.parameters.quantum);
            self.new.push_back(lane);
        }
        while !self.parameters.limit.holds(self.lanes.total()) {
            let victim = self.drop_fattest(drops);
            if victim == lane && self.lanes.backlog(lane).packets == 0 {
                // Its last packet was the arrival.
                return Err(drops.pop().map_or(Dropped::QueueFull, |(_, cause)| cause));
            }
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        loop {
            let from_new = !self.new.is_empty();
            let &lane = if from_new { self.new.front() } else { self.old.front() }?;
            let turn = &mut self.turns[lane as usize];
            if turn.credits <= 0 {
                turn.credits += self.parameters.quantum;
                self.pass(lane, from_new, true);
                continue;
            }
            let lanes = &mut self.lanes;
            let pop = || lanes.pop_front(lane).map(|packet| (packet, lanes.backlog(lane).bytes));
            if let Some(packet) = turn.control.dequeue(&self.parameters.control, now, pop, drops) {
                turn.credits -= i64::from(packet.size);
                return Some(packet);
            }
            // RFC 8290 section 4.2: a new lane that ran empty waits its turn among the old ones, or it could
            // come back as new at once and starve them.
            let keep = from_new && !self.old.is_empty();
            self.pass(lane, from_new, keep);
        }
    }

    fn backlog(&self) -> Backlog {
        self.lanes.total()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use units::{Ecn, Rate};

    use super::*;
    use crate::QueueSpec;

    fn queue(text: &str) -> Box<dyn Queue> {
        let setup = Setup::steady(Rate::from_mbps(10));
        text.parse::<QueueSpec>().unwrap().build(&setup)
    }

    fn packet(flow: u16, id: u32, size: u32) -> Packet {
        Packet { id, ..Packet::bare(flow, size, Time::ZERO) }
    }

    #[test]
    fn f1_new_flows_go_first() {
        const A: u16 = 10;
        const B: u16 = 20;
        const V: u16 = 30;
        let mut queue = queue("fq_codel");
        let mut drops = Drops::new();
        let offer = |queue: &mut dyn Queue, flow, id, size| {
            queue.enqueue(Time::ZERO, packet(flow, id, size), &mut Drops::new()).unwrap();
        };
        let mut take = |queue: &mut dyn Queue, count: usize| -> Vec<_> {
            (0..count)
                .map(|_| queue.dequeue(Time::ZERO, &mut drops).map(|p| (p.flow, p.id)).unwrap())
                .collect()
        };
        (1..=4).for_each(|id| offer(&mut *queue, A, id, 1514));
        assert_eq!(take(&mut *queue, 1), [(A, 1)]);
        offer(&mut *queue, V, 1, 200);
        offer(&mut *queue, B, 1, 1514);
        offer(&mut *queue, B, 2, 1514);
        assert_eq!(take(&mut *queue, 3), [(V, 1), (B, 1), (A, 2)]);
        offer(&mut *queue, V, 2, 200);
        assert_eq!(take(&mut *queue, 4), [(V, 2), (B, 2), (A, 3), (A, 4)]);
        assert_eq!(queue.backlog(), Backlog::default());
    }

    #[test]
    fn when_full_the_fattest_loses_half_or_a_batch() {
        let mut drops = Drops::new();
        let mut fill = |text: &str, fat: u32| {
            let mut queue = queue(text);
            drops.clear();
            for id in 0..fat {
                queue.enqueue(Time::ZERO, packet(1, id, 1000), &mut drops).unwrap();
            }
            let last = queue.enqueue(Time::ZERO, packet(2, 999, 100), &mut drops);
            assert_eq!(last, Ok(()));
            drops.iter().map(|(packet, _)| packet.id).collect::<Vec<_>>()
        };
        assert_eq!(fill("fq_codel:8p", 8), [0, 1, 2, 3]);
        assert_eq!(fill("fq_codel:200p", 200), (0..64).collect::<Vec<_>>());
        assert_eq!(fill("fq_codel:200p,batch=1", 200), [0]);
    }

    #[test]
    fn an_arrival_larger_than_the_queue_is_refused() {
        let mut queue = queue("fq_codel:1000B");
        let mut drops = Drops::new();
        assert!(queue.enqueue(Time::ZERO, packet(1, 1, 1001), &mut drops).is_err());
        assert!(drops.is_empty() && queue.backlog() == Backlog::default());
        assert!(queue.enqueue(Time::ZERO, packet(1, 2, 1000), &mut drops).is_ok());
        assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|packet| packet.id), Some(2));
    }

    #[test]
    fn each_flow_has_its_own_codel() {
        // A flow at 1.6 times its share and one far below: only the first is marked.
        let mut queue = queue("fq_codel");
        let mut drops = Drops::new();
        let mut marked = [0; 2];
        for ms in 0..2_000u64 {
            let now = Time::from_millis(ms);
            let send = |flow| Packet { entered: now, ecn: Ecn::Ect0, ..Packet::bare(flow, 1500, now) };
            queue.enqueue(now, send(0), &mut drops).unwrap();
            if ms % 10 == 0 {
                queue.enqueue(now, send(1), &mut drops).unwrap();
            }
            if ms % 5 != 0 {
                let packet = queue.dequeue(now, &mut drops).unwrap();
                marked[usize::from(packet.flow)] += u32::from(packet.ecn == Ecn::Ce);
            }
        }
        assert!(drops.is_empty() && marked[0] > 10 && marked[1] == 0, "{marked:?}");
    }
}
