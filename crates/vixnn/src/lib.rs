//! ViXNN, a learned picture codec of which any part may be lost (Devdeep Ray's thesis, CMU-CS-22-143,
//! chapter 5).
//!
//! An encoder network turns each block of 16x16 pixels into [`DESCRIPTORS`] groups of [`BITS`] bits, the
//! *descriptors*: 0.0625 bits a pixel each, 0.5 together. A decoder network makes a picture of whichever
//! arrived; it was trained with some of them missing. A packet carries bits of one descriptor only, so a lost
//! packet lowers the quality of some blocks and stops nothing.
//!
//! ```text
//! Picture -> Encoder -> Descriptors -> packet::cut -> network -> packet::place -> Received -> Decoder -> Picture
//! ```
//!
//! ```
//! use framewire_vixnn::{Decoder, Encoder, Model, Picture, Received, packet};
//!
//! let model = Model::shipped(Model::DEFAULT)?;
//! let grey = Picture { width: 64, height: 48, rgb: vec![128; 64 * 48 * 3] };
//! let mut encoder = Encoder::new(model.clone(), 1);
//! let descriptors = encoder.encode(&grey);
//! let packets = packet::cut(&descriptors, model.fingerprint(), 8, packet::Order::Rows, 1_200);
//!
//! let mut received = Received::none(64, 48);
//! for payload in packets.iter().skip(3) {
//!     packet::place(&mut received, payload)?;
//! }
//! let shown = Decoder::new(model, 1).decode(&received);
//! assert_eq!((shown.width, shown.height), (64, 48));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What results depend on
//!
//! Each output of a layer is its bias and then its products in the order input channel, row and column of the
//! kernel, added by fused multiplication and addition. The number of threads and the width of a machine's
//! vectors change nothing of it. A processor without such an instruction (x86 before 2013, WebAssembly) rounds
//! each product, and may give another last digit: a bit whose value is close to zero may then differ, and a
//! pixel by one step. Sender and receiver need not agree: what an encoder decides is in the bits.

mod conv;
mod decoder;
mod descriptors;
mod encoder;
pub mod packet;
mod picture;
mod rows;
mod weights;

pub use decoder::Decoder;
pub use descriptors::{Descriptors, Received};
pub use encoder::Encoder;
pub use picture::Picture;
pub use weights::{Model, WeightsError};

/// Descriptors of a block (section 5.5 of the thesis).
pub const DESCRIPTORS: usize = 8;
/// Bits of a descriptor for one block.
pub const BITS: usize = 16;
/// Pixels of a block's side.
pub const BLOCK: usize = 16;
/// Channels between encoder and decoder: every bit of a block.
const WAIST: usize = DESCRIPTORS * BITS;
/// Shortest side of a picture, in pixels: a block.
pub const LEAST_SIDE: usize = BLOCK;
/// Longest side of a picture, in pixels.
pub const MOST_SIDE: usize = 8_192;

#[cfg(test)]
mod tests;
