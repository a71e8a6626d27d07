//! DropHead: first in, first out, and what does not fit pushes out the oldest packets.
//!
//! Those who caused the queue hear of it a queue's length earlier than with DropTail (Mahimahi's `drophead`).

use record::Dropped;
use units::Time;

use super::droptail::{FOLLOW_OPTION, LIMIT_OPTION};
use super::fifo::Fifo;
use super::room::Room;
use super::{Backlog, Drops, Entry, Limit, Queue};
use crate::Packet;
use crate::text::TextError;

/// The registry's row.
pub(super) const ENTRY: Entry = Entry {
    name: "drophead",
    syntax: "drophead:100p, drophead:300kB, drophead:120ms, drophead:300ms,follow",
    summary: "first in, first out; makes room by dropping the oldest packets",
    options: &[LIMIT_OPTION, FOLLOW_OPTION],
    build: |options, setup| {
        let room = options.room(setup)?;
        if room.is_unlimited() {
            return Err(TextError::new("drophead", "a queue by itself", "a limit after it: drophead:100p"));
        }
        Ok(Box::new(DropHead { packets: Fifo::default(), room }))
    },
};

/// A first-in, first-out queue that drops at its head.
#[derive(Clone, Debug)]
pub struct DropHead {
    packets: Fifo,
    room: Room,
}

impl DropHead {
    /// Drops the oldest packets where the limit has come down.
    fn shrink(&mut self, now: Time, drops: &mut Drops) -> Limit {
        let limit = self.room.at(now);
        while !limit.holds(self.packets.backlog()) {
            let oldest = self.packets.pop().expect("an empty queue is within every limit");
            drops.push((oldest, Dropped::QueueFull));
        }
        limit
    }
}

impl Queue for DropHead {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) -> Result<(), Dropped> {
        let limit = self.shrink(now, drops);
        while !limit.admits(self.packets.backlog(), packet.size) {
            // Nothing left to push out: it is larger than the whole queue.
            let oldest = self.packets.pop().ok_or(Dropped::QueueFull)?;
            drops.push((oldest, Dropped::QueueFull));
        }
        self.packets.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.shrink(now, drops);
        self.packets.pop()
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let mut queue =
            DropHead { packets: Fifo::default(), room: Room::fixed(Limit { packets: 3, bytes: 4_000 }) };
        let mut drops = Drops::new();
        let mut offer = |id, size| {
            drops.clear();
            let packet = Packet { id, ..Packet::bare(0, size, Time::ZERO) };
            let refused = queue.enqueue(Time::ZERO, packet, &mut drops).is_err();
            (drops.iter().map(|(packet, _)| packet.id).collect::<Vec<_>>(), refused)
        };
        (0..3).for_each(|id| assert_eq!(offer(id, 1_000), (vec![], false)));
        assert_eq!(offer(3, 1_000), (vec![0], false));
        assert_eq!(offer(4, 3_000), (vec![1, 2], false));
        assert_eq!(offer(5, 4_001), (vec![3, 4], true));
    }
}
