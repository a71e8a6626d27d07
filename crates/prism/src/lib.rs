//! Prism's decision tables (Devdeep Ray, "Integrating Video Codec Design and Network Transport for Emerging
//! Internet Video Streaming Applications", CMU-CS-22-143, chapter 4; "the thesis" below). While a sender
//! recovers from a loss: how much of its rate goes into key frames, each of which can be shown at once, and
//! how much keeps the predicted stream alive, whose quality is better and comes back slowly.
//!
//! ```text
//!   clips --> encodes --> Recording --> Model --> greedy --> Table --> file --> a sender's lookup
//!             (feature    qualities     next      decides    (rate before, rate during, frame) -> split
//!              `encodes`) of frames     quality
//! ```
//!
//! A sender needs [`Table`] alone, which has no dependency beyond numbers and JSON. What makes tables is pure
//! too, but for the encoders, which the feature `encodes` brings. docs/prism-tables.md says how the tables
//! that ship were made and how good they are.

#[cfg(feature = "encodes")]
mod cache;
#[cfg(feature = "encodes")]
pub mod encodes;
mod file;
pub mod greedy;
mod model;
mod shipped;
pub mod study;
#[cfg(feature = "encodes")]
pub mod survey;
mod table;
#[cfg(feature = "encodes")]
mod x264;

pub use file::oracle;
pub use model::{Model, Quality, Recording, Run, Step, exponential, predict};
pub use shipped::Tables;
pub use table::{About, Fitted, MOST_FRAMES, MOST_STEPS, Origin, Pictures, Split, Table, TableError};
