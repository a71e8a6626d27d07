//! The sans-IO [`Sender`] and [`Receiver`] of interactive video.
//!
//! ```text
//!  Source -> Encoder -> Outbox -> Schedule -> Pacer, window -> datagram ->
//!                                                                          -> ArrivalLog -> feedback ->
//!                                                                          -> Assembly -> Display -> Decoding -> Playout -> Screen
//!  feedback -> transport::Core::heard -> Controller -> Decision -> Pacer
//!                                                               -> RateControl -> Encoder
//!                                     -> Strategy, Recovery -> Outbox
//! ```
//!
//! Both are [`wire::Endpoint`]s: they own no clock and no socket. Small policies decide, each a trait whose
//! methods take a read-only view and return a value: [`RateControl`] (folder `rate/`) says how many bits a
//! capture may have, a [`Strategy`] (`strategy/`) what its tracks make of them and what leaves first; the
//! strategy of a call has a [`Recovery`] (`recovery/`) and a [`Schedule`] (`schedule/`) as its parts. At the
//! receiver there is [`Playout`] (`playout/`).

mod arrivals;
mod assembly;
mod builder;
mod capture;
mod chain;
mod clock;
mod config;
mod counters;
mod decoding;
mod display;
mod feedback;
mod outbox;
mod parity;
pub mod playout;
pub mod preset;
pub mod rate;
mod receiver;
mod receiver_builder;
pub mod recovery;
mod references;
pub mod schedule;
mod sender;
mod shedding;
pub mod strategy;
mod supply;
mod track;
mod unconfirmed;
mod versions;

pub use builder::{BuildError, SenderBuilder};
pub use chain::{capture_of, stream_of, track_of};
pub use config::{ReceiverConfig, SenderConfig};
pub use counters::{ModeCount, ReceiverCounters, SenderCounters};
pub use display::{Screen, Shown};
pub use playout::Playout;
pub use rate::RateControl;
pub use receiver::{Decoders, Receiver};
pub use receiver_builder::ReceiverBuilder;
pub use recovery::Recovery;
pub use schedule::Schedule;
pub use sender::{Policies, Sender};
pub use shedding::{Remedy, SlowEncoder};
pub use strategy::Strategy;
pub use supply::{Supply, Tracks, Video};
pub use versions::{Version, Versions};
