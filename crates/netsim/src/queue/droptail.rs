//! DropTail: first in, first out, and what does not fit is refused at the tail.

use record::Dropped;
use units::{Bytes, Rate, Span, Time};

use super::fifo::Fifo;
use super::options::FOLLOW;
use super::room::Room;
use super::{Backlog, Drops, Entry, Queue};
use crate::Packet;
use crate::text::TextError;

/// What the option of every limited queue is called, and what it takes.
pub(super) const LIMIT_OPTION: (&str, &str) =
    ("limit", "most that waits: 100p, 300kB or 120ms, or several; the word `limit=` may be left out");

/// What the option of queues is called whose limit may follow the link's rate.
pub(super) const FOLLOW_OPTION: (&str, &str) = (
    FOLLOW,
    "a limit in time is one at the link's rate of the moment, also when it slows; without it at the fastest rate",
);

/// The registry's row.
pub(super) const ENTRY: Entry = Entry {
    name: "droptail",
    syntax: "droptail:100p, droptail:300kB, droptail:120ms, droptail:300ms,follow",
    summary: "first in, first out; refuses what exceeds a limit in packets, bytes or time at the reference rate",
    options: &[LIMIT_OPTION, FOLLOW_OPTION],
    build: |options, setup| {
        let room = options.room(setup)?;
        if room.is_unlimited() {
            return Err(TextError::new("droptail", "a queue by itself", "a limit after it: droptail:100p"));
        }
        Ok(Box::new(DropTail { packets: Fifo::default(), room }))
    },
};

/// The registry's row of a queue without a limit.
pub(super) const INFINITE: Entry = Entry {
    name: "infinite",
    syntax: "infinite",
    summary: "first in, first out without a limit",
    options: &[],
    build: |_, _| Ok(Box::new(DropTail::new(Limit::NONE))),
};

/// How much a queue holds. A packet is accepted if and only if it fits every limit that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Most packets that may wait.
    pub packets: u32,
    /// Most bytes that may wait, IP headers included.
    pub bytes: u64,
}

/// The largest IP packet of Ethernet (RFC 894).
const FULL_PACKET: Bytes = Bytes::new(1500);

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit { packets: u32::MAX, bytes: u64::MAX };

    /// At most `packets` packets.
    pub fn packets(packets: u32) -> Limit {
        Limit { packets, ..Limit::NONE }
    }

    /// At most `bytes` bytes.
    pub fn bytes(bytes: Bytes) -> Limit {
        Limit { bytes: bytes.get(), ..Limit::NONE }
    }

    /// What a link of `rate` sends in `time`: 120 ms at 20 Mbit/s are 300 kB. For a link whose rate varies
    /// the bytes are fixed at a reference rate (RFC 8867 does the same), so the time they stand for changes
    /// with the rate. Never less than one full packet of 1500 bytes, else a slow link would pass nothing at
    /// all.
    pub fn time(time: Span, rate: Rate) -> Limit {
        Limit::bytes(rate.bytes_in(time).max(FULL_PACKET))
    }

    /// Whether a packet of `size` bytes fits on top of `backlog`.
    pub fn admits(self, backlog: Backlog, size: u32) -> bool {
        (backlog.packets < self.packets) & (backlog.bytes + u64::from(size) <= self.bytes)
    }

    /// Whether `backlog` is within the limit.
    pub fn holds(self, backlog: Backlog) -> bool {
        backlog.packets <= self.packets && backlog.bytes <= self.bytes
    }

    /// Whichever of two limits is reached first.
    pub fn and(self, other: Limit) -> Limit {
        Limit { packets: self.packets.min(other.packets), bytes: self.bytes.min(other.bytes) }
    }
}

/// A first-in, first-out queue with a [`Limit`].
#[derive(Clone, Debug)]
pub struct DropTail {
    packets: Fifo,
    room: Room,
}

impl DropTail {
    /// An empty queue that holds `limit`.
    pub fn new(limit: Limit) -> DropTail {
        DropTail { packets: Fifo::default(), room: Room::fixed(limit) }
    }

    /// The limit at `now`, within which all that waits is.
    #[inline(always)]
    fn limit(&mut self, now: Time, drops: &mut Drops) -> Limit {
        if !self.room.is_fixed() {
            self.shrink(now, drops);
        }
        self.room.latest()
    }

    /// Drops the newest packets where the limit has come down: they would wait for longer than it says.
    #[cold]
    fn shrink(&mut self, now: Time, drops: &mut Drops) {
        let limit = self.room.at(now);
        while !limit.holds(self.packets.backlog()) {
            let newest = self.packets.pop_newest().expect("an empty queue is within every limit");
            drops.push((newest, Dropped::QueueFull));
        }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) -> Result<(), Dropped> {
        let limit = self.limit(now, drops);
        if !limit.admits(self.packets.backlog(), packet.size) {
            return Err(Dropped::QueueFull);
        }
        self.packets.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.limit(now, drops);
        self.packets.pop()
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn tail_limit(&self) -> Option<Limit> {
        self.room.is_fixed().then(|| self.room.latest())
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_limits_are_bytes_at_the_nominal_rate() {
        // RFC 8867: 300 ms, at 1, 2, 10 and 100 Mbit/s; SQP's 120 ms at 20 Mbit/s.
        for (mbps, ms, bytes) in [
            (1, 300, 37_500),
            (2, 300, 75_000),
            (10, 300, 375_000),
            (100, 300, 3_750_000),
            (20, 120, 300_000),
        ] {
            let limit = Limit::time(Span::from_millis(ms), Rate::from_mbps(mbps));
            assert_eq!(limit.bytes, bytes);
        }
    }

    proptest! {
        #[test]
        fn limits_hold_and_order_is_kept(
            packets in 1u32..20, bytes in 500u64..20_000,
            steps in prop::collection::vec((any::<bool>(), 40u32..1500), 1..300)
        ) {
            let limit = Limit { packets, bytes };
            let mut queue = DropTail::new(limit);
            let mut drops = Drops::new();
            let mut waiting = VecDeque::new();
            for (n, (enqueue, size)) in steps.into_iter().enumerate() {
                let before = queue.backlog();
                if enqueue {
                    let packet = Packet { id: n as u32, ..Packet::bare(0, size, Time::ZERO) };
                    let fits = before.packets < limit.packets && before.bytes + u64::from(size) <= limit.bytes;
                    prop_assert_eq!(queue.enqueue(Time::ZERO, packet, &mut drops).is_ok(), fits);
                    if fits { waiting.push_back(packet.id); }
                } else {
                    prop_assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|p| p.id), waiting.pop_front());
                }
                let backlog = queue.backlog();
                prop_assert!(backlog.packets <= limit.packets && backlog.bytes <= limit.bytes);
                prop_assert_eq!(backlog.packets as usize, waiting.len());
            }
            prop_assert!(drops.is_empty());
        }
    }
}
