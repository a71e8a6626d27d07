//! QUIC in virtual time: quinn's state machine as a pair of [`wire::Endpoint`]s.
//!
//! ```text
//!  Sender (client):   bytes -> a stream -> quinn_proto::Connection -> transmit()   --netsim's link-->   receive() of
//!  Receiver (server): quinn_proto::Connection -> the stream's bytes, counted; echoes of timing probes
//! ```
//!
//! The same seed gives the same run: quinn's random numbers are seeded, connection ids and tokens are ours, the time is what
//! the driver says. With [`Crypto::Null`] a run repeats to the byte. With [`Crypto::Tls`] keys are fresh in each run, so the
//! bytes differ; sizes and times repeat, because every part of the handshake has a fixed size (X25519, Ed25519, no tickets).

mod config;
mod core;
mod labels;
mod null;
mod receiver;
mod seeded;
mod sender;
#[cfg(test)]
mod tests;
mod tls;

use record::Tap;

pub use config::{Crypto, SimulatedConfig};
pub use receiver::Receiver;
pub use sender::Sender;

use crate::Congestion;
use labels::Labels;

/// Both ends of a connection in virtual time: the sender under `congestion`, whose events go to its tap, and the receiver,
/// whose go to `heard`.
pub fn pair(
    config: &SimulatedConfig,
    congestion: Congestion,
    told: Tap,
    heard: Tap,
) -> (Sender, Receiver) {
    let labels = Labels::shared();
    let recorded = told.is_on();
    let sender = Sender::new(config, congestion, told, recorded.then(|| labels.clone()));
    (sender, Receiver::new(config, heard, recorded.then_some(labels)))
}
