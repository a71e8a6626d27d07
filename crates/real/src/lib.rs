//! The real world: sockets and the operating system's clock. The only room that has either.
//!
//! [`Driver`] runs any [`wire::Endpoint`] in real time, over UDP or a [`Channel`] such as QUIC's, making the
//! same calls in the same order as the simulator does in virtual time:
//!
//! ```text
//!            +--> read what has arrived --> receive(stamp, ..)
//!            |                              wake(now) if due
//!  sleep until next_wake,                   transmit(now, ..) until None --> send
//!  a datagram, a Waker  <----------------------------+
//! ```
//!
//! [`quic`] makes such channels, for those who may have one. [`Relay`] runs the simulator's own
//! [`netsim::Link`] on the real clock between two sockets. [`ThreadedEncoder`] and [`ThreadedDecoder`] move
//! codecs to threads of their own, so that coding a picture does not hold up the network.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the room that turns the operating system's clock into Time and that waits"
)]

mod channel;
mod clock;
mod driver;
mod emulated;
mod error;
pub mod http;
#[cfg(target_os = "linux")]
pub mod link;
mod prompt;
pub mod quic;
mod relay;
mod settings;
mod socket;
pub mod storage;
#[cfg(test)]
mod testing;
mod threaded;
pub mod transfer;
mod udp;
mod waker;
pub mod web;

pub use channel::{Arrived, Channel, ChannelStats, Ended, Inbox, InboxCounters, STEADY_DATAGRAM, Unsent};
pub use clock::Clock;
pub use driver::Driver;
pub use error::RealError;
pub use prompt::Prompt;
pub use relay::{Relay, RelayCounters, RelaySettings};
pub use settings::{Counters, Limits, Peer, REFUSED, Settings};
pub use threaded::{CodecTimes, Newest, Prefetched, ThreadedDecoder, ThreadedEncoder};
pub use waker::{Stop, Waker};
