//! Queue disciplines: what waits at a link, in which order it leaves, and what is dropped.
//!
//! ```text
//! enqueue(now, packet) --> [ backlog ] --> dequeue(now)
//!        |                     |              |
//!        refused               pushed out     dropped by policy (AQM)
//! ```
//!
//! The packet being transmitted is outside the queue: a link holds its queue's limit plus one partly sent
//! packet. Drops at the tail for want of room are [`Dropped::QueueFull`], those a discipline chose are
//! [`Dropped::QueuePolicy`]. Periodic updates (PIE, DualPI2) are caught up with, in order, at the next call:
//! one due at the instant of an arrival or departure comes before it.
//! To add a discipline, write its file here and one row in `registry.rs`.

mod codel;
mod drophead;
mod droptail;
mod dualpi2;
mod fifo;
mod fq_codel;
mod lanes;
mod options;
mod pie;
mod red;
mod registry;
mod room;
mod sfq;
#[cfg(test)]
mod testing;

pub use droptail::{DropTail, Limit};
pub use options::Options;
pub use registry::{Built, Entry, QueueSpec, REGISTRY, Setup};

use record::Dropped;
use units::{Ecn, Time};

use crate::Packet;

/// What waits in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Packets waiting.
    pub packets: u32,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Packets a queue dropped after it had accepted them, and why.
pub type Drops = Vec<(Packet, Dropped)>;

/// A queue discipline. Times never decrease from call to call; a packet's [`entered`](Packet::entered) is the
/// moment it was enqueued, so that `now - entered` is its sojourn.
pub trait Queue: Send {
    /// Takes a packet in, or refuses it with the reason. Packets accepted earlier and pushed out to make room
    /// go to `drops`.
    ///
    /// # Errors
    /// Why the arriving packet was refused.
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) -> Result<(), Dropped>;

    /// The next packet to transmit, perhaps marked. Packets the discipline drops on the way go to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet>;

    /// What waits now.
    fn backlog(&self) -> Backlog;

    /// The limit of a queue that is first in, first out, refuses at the tail what exceeds a limit that is
    /// always the same, and does nothing else. Such a queue need not be asked.
    fn tail_limit(&self) -> Option<Limit> {
        None
    }

    /// A copy that goes on by itself as this one would; none where it can't be copied.
    fn fork(&self) -> Option<Box<dyn Queue>> {
        None
    }
}

/// Marks a packet that can be marked (RFC 3168); whether it could.
fn mark(packet: &mut Packet) -> bool {
    let capable = packet.ecn != Ecn::NotEct;
    if capable {
        packet.ecn = Ecn::Ce;
    }
    capable
}
