//! What a driver needs of a transport of datagrams that has a connection: QUIC, or WebTransport over it.
//!
//! ```text
//!   driver's thread                                the transport's own threads
//!  endpoint --> Channel::send  -------------------> paced by nobody again, sent at once
//!           <-- Inbox: stamped, bounded <---------- Inbox::put, which rings the driver's Waker
//!           <-- Inbox::ended                <------ Inbox::end, likewise
//! ```
//!
//! A channel keeps no queue worth the name. The endpoint's pacer decides when a packet goes; a datagram that
//! the transport can't send at once is stale by the time it could, so the oldest waiting one is dropped for a
//! new one.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{BufMut, Bytes, BytesMut};
use units::{Ecn, Span, Time};
use wire::Refusal;

use crate::driver::{Port, Take};
use crate::error::RealError;
use crate::settings::Counters;
use crate::socket::{self, Outgoing, SLOT};
use crate::{Clock, Waker};

/// A datagram length that every QUIC path carries, in bytes: QUIC's minimum of 1200 (RFC 9000 section 14)
/// less a short header with the longest connection ID (1 + 20 + 4), the AEAD's tag (16) and the DATAGRAM
/// frame's head (1 + 8).
///
/// A sender that keeps to it need not care when a path's MTU changes. WebTransport takes up to
/// [8 more](https://www.rfc-editor.org/rfc/rfc9297#section-2.1) off it for its session's number.
pub const STEADY_DATAGRAM: usize = 1200 - 25 - 16 - 9;

/// A connection that carries datagrams.
pub trait Channel: Send + Sync {
    /// Sends one datagram now. Older ones that still wait to be sent are dropped where there is no room.
    ///
    /// # Errors
    /// [`Unsent`] if this one was not taken.
    fn send(&self, datagram: Bytes) -> Result<(), Unsent>;
    /// Whether a datagram of `length` bytes would be sent without an older one being dropped for it. A driver
    /// waits until it would. True of transports that can't tell.
    fn has_room(&self, length: usize) -> bool {
        let _ = length;
        true
    }
    /// The longest datagram that can be sent at present, in bytes; 0 while none can. It follows the path's
    /// MTU.
    fn max_datagram(&self) -> usize;
    /// Where what arrives waits, and where the end is noted.
    fn inbox(&self) -> &Inbox;
    /// The transport's own view of the path.
    fn stats(&self) -> ChannelStats;
    /// Our end of it.
    fn local(&self) -> SocketAddr;
    /// The peer's present address; it may move.
    fn peer(&self) -> SocketAddr;
    /// Says goodbye and closes. `text` is for people at the other end.
    fn close(&self, text: &str);
}

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// Longer than the path carries.
    #[error("a datagram of {length} bytes is longer than the {max} that the path carries")]
    Oversize {
        /// Its length in bytes.
        length: usize,
        /// What would have been taken.
        max: usize,
    },
    /// The channel is closed.
    #[error("the connection is closed")]
    Closed,
}

/// What a transport knows of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Smoothed round trip, by the transport's acknowledgements.
    pub rtt: Span,
    /// The path's MTU in bytes (UDP payload) as far as discovered.
    pub mtu: u16,
    /// Packets that the transport gave up.
    pub lost: u64,
    /// UDP datagrams sent, acknowledgements and all.
    pub udp_sent: u64,
    /// ... and their bytes.
    pub udp_sent_bytes: u64,
    /// UDP datagrams received.
    pub udp_received: u64,
    /// ... and their bytes.
    pub udp_received_bytes: u64,
}

/// Why a channel ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We closed it.
    Local,
    /// The peer said goodbye.
    Bye(String),
    /// The peer asks to be connected to again.
    Reload,
    /// The peer turned us away, or we them.
    Refused(Refusal, String),
    /// Nothing was heard for this long.
    Silent(Span),
    /// The peer knows nothing of the connection: it was started anew.
    Restarted,
    /// The peer closed it with a code that means nothing to us.
    Closed {
        /// The code it closed with.
        code: u64,
        /// The reason it gave, for people.
        text: String,
    },
    /// The transport failed.
    Failed(String),
}

impl Ended {
    /// Names of the kinds of ends, for programs, in the order of [`kind`](Ended::kind).
    pub const KINDS: [&'static str; 8] =
        ["local", "bye", "reload", "refused", "silent", "restarted", "closed", "failed"];

    /// The number of its kind among [`KINDS`](Ended::KINDS).
    pub fn kind(&self) -> usize {
        match self {
            Ended::Local => 0,
            Ended::Bye(_) => 1,
            Ended::Reload => 2,
            Ended::Refused(..) => 3,
            Ended::Silent(_) => 4,
            Ended::Restarted => 5,
            Ended::Closed { .. } => 6,
            Ended::Failed(_) => 7,
        }
    }

    /// Whether it was meant to end.
    pub fn is_orderly(&self) -> bool {
        matches!(self, Ended::Local | Ended::Bye(_))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Local => write!(f, "we closed the connection"),
            Ended::Bye(text) if text.is_empty() => write!(f, "the peer is done"),
            Ended::Bye(text) => write!(f, "the peer is done: {}", plain(text)),
            Ended::Reload => write!(f, "the peer is about to be replaced; connect again"),
            Ended::Refused(_, text) => write!(f, "{}", plain(text)),
            Ended::Silent(span) => write!(f, "the peer has been silent for {span}; is it still reachable?"),
            Ended::Restarted => write!(f, "the peer was started anew and has forgotten us; connect again"),
            Ended::Closed { code, text } => {
                write!(f, "the peer closed the connection with code {code}: {}", plain(text))
            }
            Ended::Failed(text) => write!(f, "the connection failed: {}", plain(text)),
        }
    }
}

/// A peer's words fit to be printed: one line, without characters that move a terminal's cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A datagram that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When the transport handed it over, on the inbox's clock.
    pub at: Time,
    /// The datagram's payload.
    pub bytes: Vec<u8>,
}

/// Datagrams between a transport's threads and a driver's, and how it all ended.
#[derive(Debug)]
pub struct Inbox {
    clock: Clock,
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arrived>,
    bytes: usize,
    counters: InboxCounters,
    ended: Option<Ended>,
}

/// What an inbox did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounters {
    /// Datagrams that arrived.
    pub received: u64,
    /// The oldest of them, dropped because the driver did not take them.
    pub overflowed: u64,
    /// Datagrams longer than any packet, or empty; dropped.
    pub unfit: u64,
}

/// Most bytes that wait for a driver: 80 ms at 100 Mbit/s. A driver late by more than that has worse
/// problems.
pub(crate) const WAITING_BYTES: usize = 1 << 20;
/// What a waiting datagram costs beside its bytes, so that tiny ones are bounded too.
const EACH: usize = 64;

impl Inbox {
    /// An empty inbox whose arrivals are stamped by `clock`.
    ///
    /// # Errors
    /// Where the system has no means to wake a thread.
    pub fn new(clock: Clock) -> io::Result<Inbox> {
        Ok(Inbox { clock, waker: Waker::new()?, state: Mutex::default() })
    }

    /// Takes a datagram in and wakes the driver. A full inbox drops its oldest.
    pub fn put(&self, datagram: &[u8]) {
        let at = self.clock.now();
        let mut state = self.state();
        state.counters.received += 1;
        if datagram.is_empty() || datagram.len() > wire::MAX_DATAGRAM {
            state.counters.unfit += 1;
            return;
        }
        state.bytes += datagram.len() + EACH;
        // A copy: the transport's buffer may be a large one that many datagrams share and each of them would
        // keep.
        state.waiting.push_back(Arrived { at, bytes: datagram.to_vec() });
        while state.bytes > WAITING_BYTES {
            let Some(oldest) = state.waiting.pop_front() else { break };
            state.bytes -= oldest.bytes.len() + EACH;
            state.counters.overflowed += 1;
        }
        drop(state);
        self.waker.wake();
    }

    /// Notes why the channel ended, if nothing was noted before, and wakes the driver.
    pub fn end(&self, why: Ended) {
        self.state().ended.get_or_insert(why);
        self.waker.wake();
    }

    /// Why the channel ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.state().ended.clone()
    }

    /// What was done so far.
    pub fn counters(&self) -> InboxCounters {
        self.state().counters
    }

    /// Rings when something was put in or the channel ended.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The clock arrivals are stamped by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes all that waits.
    pub fn take(&self) -> VecDeque<Arrived> {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }
}

/// Between a driver and the wire there is another thread to wake, which costs as much as sending several
/// packets; those of half a millisecond go together. That is a burst of two at 40 Mbit/s, where RFC 9002
/// section 7.7 allows ten.
const GRAIN: Span = Span::from_micros(500);

/// A channel as a driver's way to its peer.
pub(crate) struct ChannelPort(Arc<dyn Channel>);

impl ChannelPort {
    pub fn new(channel: Arc<dyn Channel>) -> ChannelPort {
        ChannelPort(channel)
    }
}

impl Port for ChannelPort {
    fn local(&self) -> SocketAddr {
        self.0.local()
    }

    fn peer(&self) -> Option<SocketAddr> {
        Some(self.0.peer())
    }

    fn room(&self) -> usize {
        // A path that carries nothing at the moment is no reason to write half a header.
        self.0.max_datagram().clamp(STEADY_DATAGRAM, SLOT)
    }

    fn receive(&mut self, counters: &mut Counters, take: &mut Take<'_>) -> Result<bool, RealError> {
        // The end is looked at first: what came before it is still taken below.
        let ended = self.0.inbox().ended();
        let arrived = self.0.inbox().take();
        counters.reads += u64::from(!arrived.is_empty());
        arrived.iter().for_each(|datagram| take(&datagram.bytes, Some(datagram.at), Ecn::NotEct));
        match ended {
            Some(ended) => Err(RealError::Ended { peer: self.0.peer(), ended }),
            None => Ok(false),
        }
    }

    fn send(&mut self, datagrams: &[Outgoing], counters: &mut Counters) -> Result<usize, RealError> {
        for (done, datagram) in datagrams.iter().enumerate() {
            if !self.0.has_room(datagram.meta.length) {
                counters.blocked += 1;
                return Ok(done);
            }
            let mut bytes = BytesMut::with_capacity(datagram.meta.length);
            datagram.pieces().iter().for_each(|piece| bytes.put_slice(piece));
            match self.0.send(bytes.freeze()) {
                Ok(()) => {
                    counters.sent += 1;
                    counters.sent_bytes += datagram.meta.length as u64;
                }
                // The end itself is found where it is noted, with its reason.
                Err(Unsent::Oversize { .. } | Unsent::Closed) => counters.unsent += 1,
            }
        }
        counters.writes += 1;
        Ok(datagrams.len())
    }

    fn grain(&self) -> Span {
        GRAIN
    }

    fn wait(&self, _blocked: bool, waker: &Waker, timeout: Span) {
        socket::wait(&[], false, waker, timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_keeps_the_newest_and_knows_what_it_dropped() {
        let inbox = Inbox::new(Clock::starting_now()).unwrap();
        for k in 0..2_000u16 {
            inbox.put(&[&k.to_be_bytes()[..], &[0; 998]].concat());
        }
        let waiting = inbox.take();
        assert_eq!(waiting.len(), WAITING_BYTES / (1_000 + EACH));
        assert_eq!(waiting.back().unwrap().bytes[..2], 1_999u16.to_be_bytes());
        assert!(waiting.iter().zip(waiting.iter().skip(1)).all(|(a, b)| a.at <= b.at));
        let overflowed = 2_000 - waiting.len() as u64;
        assert_eq!(inbox.counters(), InboxCounters { received: 2_000, overflowed, unfit: 0 });
        assert!(inbox.take().is_empty());
    }

    #[test]
    fn empty_and_over_long_datagrams_do_not_get_in() {
        let inbox = Inbox::new(Clock::starting_now()).unwrap();
        inbox.put(&[]);
        inbox.put(&[0; wire::MAX_DATAGRAM + 1]);
        inbox.put(&[0; wire::MAX_DATAGRAM]);
        assert_eq!((inbox.take().len(), inbox.counters().unfit), (1, 2));
    }

    #[test]
    fn the_first_reason_stays_and_is_printable() {
        let inbox = Inbox::new(Clock::starting_now()).unwrap();
        inbox.end(Ended::Bye("enough\n\x1b[2J".to_owned()));
        inbox.end(Ended::Restarted);
        let ended = inbox.ended().unwrap();
        assert!(ended.is_orderly());
        assert_eq!(ended.to_string(), "the peer is done: enough  [2J");
        assert!(inbox.waker().take());
    }
}
