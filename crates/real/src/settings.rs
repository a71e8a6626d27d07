//! What a driver is told, and what it tells.

use std::net::SocketAddr;

use units::{Span, Time};

use crate::Clock;

/// Whom a driver talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// This address; the system drops what comes from others.
    At(SocketAddr),
    /// Whoever sends the first packet that opens a session (media or a hello); what comes from others, then
    /// or later, is counted and dropped.
    First,
}

/// How a driver works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The clock the endpoint lives by.
    pub clock: Clock,
    /// Read and write many datagrams at a time, with kernel arrival times and ECN, where the system can
    /// (Linux). Without, one at a time by the standard library.
    pub batched: bool,
    /// Don't sleep for less than this, but keep looking: exact to a microsecond or so for a core's full
    /// attention.
    pub spin: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { clock: Clock::shared(), batched: true, spin: Span::ZERO }
    }
}

/// A peer whose machine refuses packets (ICMP port unreachable) is gone after this long without an answer:
/// longer than news of a datagram that was under way when the peer last answered.
pub const REFUSED: Span = Span::from_secs(2);

/// When a run ends by itself, and how often it reports. By default never, and five times a second.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// End at this time on the driver's clock.
    pub until: Option<Time>,
    /// Fail if nothing at all has come from the peer for this long after the start.
    pub patience: Option<Span>,
    /// Fail if a peer that was heard once has left what is sent without any answer for this long, or for
    /// [`REFUSED`] where its machine says that nothing listens on the port any more. Time in which nothing is
    /// sent does not count.
    pub silence: Option<Span>,
    /// Time between calls of `on_tick`.
    pub tick: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { until: None, patience: None, silence: None, tick: Span::from_millis(200) }
    }
}

/// What a driver did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes (UDP payload).
    pub sent_bytes: u64,
    /// Datagrams handed to the endpoint.
    pub received: u64,
    /// Their bytes (UDP payload).
    pub received_bytes: u64,
    /// Of those, how many the kernel stamped with their arrival time.
    pub stamped: u64,
    /// Datagrams dropped because they came from another address than the peer's, or before there was a peer
    /// and opened no session.
    pub foreign: u64,
    /// Datagrams dropped because they were longer than any packet.
    pub oversize: u64,
    /// Times the system would take no more datagrams and we waited for room.
    pub blocked: u64,
    /// Datagrams the system refused to send (too long for the route, no route at the moment).
    pub unsent: u64,
    /// Times the peer's machine said that nothing listens on the port.
    pub refused: u64,
    /// Reads of the socket that found something.
    pub reads: u64,
    /// Writes to the socket.
    pub writes: u64,
}
