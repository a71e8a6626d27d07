//! Congestion control: the [`Controller`] trait, every controller, and the registry that names them.
//!
//! A controller is a state machine that is told what was sent and what came of it, and says how fast to go on. It has no
//! clock, no socket and no randomness; the session calls it, in virtual and in real time alike.

mod controller;
pub mod fixed;
pub mod gcc;
pub mod newreno;
pub mod options;
pub mod parts;
mod receiver;
pub mod registry;
pub mod sqp;

pub use controller::{Acked, Controller, Decision, Delivery, FrameTag, Lost, Probe, Report, Sent, Setup};
pub use options::{OptionError, Options};
pub use receiver::{Received, ReceiverHalf};
pub use registry::{Entry, REGISTRY, build, build_receiver};
