//! Congestion control: the [`Controller`] trait, every controller, and the registry that names them.
//!
//! A controller is a state machine that is told what was sent and what came of it, and says how fast to go
//! on. It has no clock, no socket and no randomness; the session calls it, in virtual and in real time alike.

pub mod bbr;
pub mod bbr2;
mod controller;
pub mod copa;
pub mod cubic;
pub mod fixed;
pub mod gcc;
pub mod ledbat;
pub mod newreno;
pub mod nimbus;
pub mod options;
pub mod parts;
pub mod pcc;
pub mod quic_dc;
mod receiver;
pub mod registry;
pub mod rocc;
pub mod scream;
pub mod sprout;
pub mod sqp;
pub mod vegas;
pub mod westwood;

pub use controller::{Acked, Controller, Decision, Delivery, FrameTag, Lost, Probe, Report, Sent, Setup};
pub use options::{OptionError, Options, entry_called};
pub use receiver::{Received, ReceiverHalf};
pub use registry::{Entry, REGISTRY, Unregistered, build, build_receiver, register};
