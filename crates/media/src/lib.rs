//! Pictures before and after a codec: [`RawFrame`], [`Coded`], the [`Encoder`], [`Decoder`] and [`Source`] traits, real codecs,
//! clip readers, picture quality and a model of an encoder.

mod frame;
mod traits;

pub use frame::RawFrame;
pub use traits::{Ask, CodecError, Coded, Decoder, Encoder, Quality, Source};
