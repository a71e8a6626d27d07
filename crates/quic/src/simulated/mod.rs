//! QUIC in virtual time: quinn's state machine as a pair of [`wire::Endpoint`]s.
//!
//! ```text
//!  Sender (client):   bytes -> a stream -> quinn_proto::Connection -> transmit()   --netsim's link-->   receive() of
//!  Receiver (server): quinn_proto::Connection -> the stream's bytes, counted; echoes of timing probes
//! ```
//!
//! The same seed gives the same run: quinn's random numbers are seeded, connection ids and tokens are ours,
//! the time is what the driver says. With [`Crypto::Null`] a run repeats to the byte. With [`Crypto::Tls`]
//! keys are fresh in each run, so the bytes differ; sizes and times repeat, because every part of the
//! handshake has a fixed size (X25519, Ed25519, no tickets).

mod config;
mod core;
mod labels;
mod null;
mod own;
mod receiver;
mod seeded;
mod sender;
#[cfg(test)]
mod tests;
mod tls;

use record::Tap;

pub use config::{Crypto, SimulatedConfig};
pub use own::{QUINNS, quinns};
pub use receiver::Receiver;
pub use sender::{Factory, Sender};

use crate::Congestion;
use labels::Labels;
use sender::Controller;

/// Both ends of a connection in virtual time, the sender under `congestion`. What it does is recorded by
/// `tap`; the receiver's records begin with [`Receiver::recorded`].
pub fn pair(config: &SimulatedConfig, congestion: Congestion, tap: Tap) -> (Sender, Receiver) {
    let labels = tap.is_on().then(Labels::shared);
    let sender = Sender::new(config, Controller::Ours(congestion), tap, labels.clone());
    (sender, Receiver::new(config, labels))
}

/// Both ends of a connection under a controller of quinn's own ([`quinns`]). Recorded as under one of ours.
pub fn pair_under(config: &SimulatedConfig, factory: Factory, tap: Tap) -> (Sender, Receiver) {
    let labels = tap.is_on().then(Labels::shared);
    let sender = Sender::new(config, Controller::Quinns(factory), tap, labels.clone());
    (sender, Receiver::new(config, labels))
}
