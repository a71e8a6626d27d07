//! TCP by smoltcp, a stack that others wrote and run, in virtual time: flows for comparison, and a target of
//! searches.
//!
//! ```text
//!  Sender:   bytes -> smoltcp's Socket (Reno or CUBIC), Interface -> Wire -> datagram --netsim's link--> receive() of
//!  Receiver: Wire -> Interface, Socket -> the stream's bytes, counted; acknowledgements the same way back
//! ```
//!
//! Everything above the device is smoltcp as it is, with its own settings: Nagle's algorithm,
//! acknowledgements held back for 10 ms, no timestamps, four holes at most in what has arrived. Its clock
//! counts microseconds, its initial sequence numbers follow from a seed, and it reads nothing else from
//! outside, so that the same seed gives the same run, to the byte.
//!
//! A sender of smoltcp's reads no SACK blocks, though its receivers send them.

mod books;
mod clock;
mod config;
mod device;
mod host;
mod receiver;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

pub use books::Counters;
pub use config::{Config, Control};
pub use receiver::Receiver;
pub use segment::HEADER;
pub use sender::Sender;

use record::Tap;

/// Both ends of a connection in virtual time. What the sender does is recorded by `tap`; the receiver's
/// records begin with [`Receiver::recorded`].
pub fn pair(config: &Config, tap: Tap) -> (Sender, Receiver) {
    (Sender::new(config, tap), Receiver::new(config))
}
