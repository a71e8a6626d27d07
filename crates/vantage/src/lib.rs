//! Vantage (Devdeep Ray's thesis, CMU-CS-22-143, chapter 3): one upload for viewers at every delay.
//!
//! Part of what the network carries goes into frames of now, and part into better versions of frames that
//! were sent poor or not at all: those who watch a few seconds later see them. Every few seconds a
//! [`Window`] is solved: which frames of before are sent again, and how large every frame is.
//!
//! ```text
//!   frames coded and arrived -> Engine -> what the next frame may have, and what is sent again
//!                                 '-- every period: Window::solve -> Schedule
//! ```
//!
//! `docs/vantage.md` has the measurements.

mod archive;
mod curve;
mod engine;
mod network;
mod schedule;
mod viewers;

pub use curve::{Curve, CurveError, Estimate};
pub use engine::{Engine, Settings};
pub use schedule::{Again, Effort, Past, Schedule, Window, WindowError};
pub use viewers::{Delays, DelaysError};
