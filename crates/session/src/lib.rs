//! The sans-IO [`Sender`] and [`Receiver`] of interactive video.
//!
//! ```text
//!  Source -> Encoder -> Outbox -> Schedule -> Pacer, window -> datagram ->
//!                                                                          -> ArrivalLog -> feedback ->
//!                                                                          -> Assembly -> Display -> Decoding -> Playout -> Screen
//!  feedback -> transport::Core::heard -> Controller -> Decision -> Pacer
//!                                                               -> RateControl -> Encoder
//!                                     -> Recovery -> Outbox
//! ```
//!
//! Both are [`wire::Endpoint`]s: they own no clock and no socket. Four small policies decide, each a trait
//! whose method takes a read-only view and returns a value: [`RateControl`] (folder `rate/`), [`Recovery`]
//! (`recovery/`), [`Schedule`] (`schedule/`) and, at the receiver, [`Playout`] (`playout/`).

mod arrivals;
mod assembly;
mod builder;
mod chain;
mod clock;
mod config;
mod counters;
mod decoding;
mod display;
mod feedback;
mod outbox;
pub mod playout;
pub mod preset;
pub mod rate;
mod receiver;
pub mod recovery;
mod references;
pub mod schedule;
mod sender;
mod shedding;
mod video;

pub use builder::{BuildError, SenderBuilder};
pub use config::{ReceiverConfig, SenderConfig};
pub use counters::{ReceiverCounters, SenderCounters};
pub use display::{Screen, Shown};
pub use playout::Playout;
pub use rate::RateControl;
pub use receiver::Receiver;
pub use recovery::Recovery;
pub use schedule::Schedule;
pub use sender::{Policies, Sender};
pub use shedding::{Remedy, SlowEncoder};
pub use video::{Supply, Video};
