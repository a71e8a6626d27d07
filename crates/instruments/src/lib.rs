//! Instruments: what measures this build on this machine, on the real clock.
//!
//! | instrument | what it measures |
//! |---|---|
//! | [`sim`], [`load`], [`controllers`], [`scale`], [`fuzz`], [`predictor`], [`schedule`], [`mod@vixnn`] | the cost of simulated packets, of a load one names, of each controller, of many flows, of a search, of predicting losses, of planning an upload, of a learned codec |
//! | [`live`], [`real`], [`shadow`], [`link`] | what real time adds: the whole chain, the QUIC transport, one scenario in both worlds, the emulated link |
//! | [`recovery`] | what each strategy makes of losses: two processes, an encoder and an emulated link |
//! | [`twin`] | a clip through two processes and an emulated link, beside the simulator |
//! | [`real_lab`] | our flow beside a kernel's TCP instead of ours |
//! | [`vixnn_speed`] | frames of the learned codec for a second of processor time |
//! | [`soak`] | whether a server leaks, grows or starves under honest and hostile peers |
//!
//! None of them prints: results are [`Benchmark`]s and JSON, how far one is goes to a [`Progress`].
//! `framewire bench`, `lab twin`, `lab real` and `soak` take the arguments and print.
#![allow(clippy::disallowed_methods, reason = "instruments read the real clock")]

pub mod allocation;
mod bare;
mod benchmark;
pub mod controllers;
mod dumbbell;
mod failure;
mod floor;
pub mod fuzz;
#[cfg(target_os = "linux")]
pub mod link;
pub mod live;
pub mod load;
mod loopback;
pub mod measure;
pub mod predictor;
mod process;
mod progress;
pub mod real;
#[cfg(target_os = "linux")]
pub mod real_lab;
#[cfg(target_os = "linux")]
pub mod recovery;
pub mod scale;
pub mod schedule;
pub mod shadow;
pub mod sim;
pub mod soak;
#[cfg(target_os = "linux")]
pub mod twin;
#[cfg(target_os = "linux")]
pub mod uploads;
pub mod vixnn;
pub mod vixnn_speed;

pub use benchmark::Benchmark;
pub use failure::Failure;
pub use process::Process;
pub use progress::{Bar, Progress};

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;
