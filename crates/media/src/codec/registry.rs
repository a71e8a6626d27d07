//! Every codec by name. Scenario files, the command line and the recognition of streams grow from this
//! table: a codec is a file beside this one and a line here.

use super::{Codec, CodecConfig, CodecOptions, h264, vixnn, vp8};
use crate::{CodecError, Decoder, Encoder};

/// What a row gives: an encoder or a decoder, or why there is none.
type Opened<T> = Result<Box<T>, CodecError>;

/// One row.
pub(super) struct Entry {
    /// What it is called on the command line and in scenarios.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Its name in WebCodecs, with profile and level where it has any, which stands for it where two ends
    /// agree on one.
    pub web_name: &'static str,
    /// Whether frames can be cut into slices that fit a packet each ([`CodecConfig::slices`]).
    pub slices: bool,
    /// Whether every frame comes in packets that each decode alone and begin as its key frames do, asked for
    /// or not.
    pub standalone: bool,
    /// Names of the options that it has ([`CodecOptions`]).
    pub options: &'static [&'static str],
    /// Whether `coded` begins as its key frames do. No two rows may claim the same bytes.
    pub begins: fn(&[u8]) -> bool,
    /// Whether this build has it; if not, an error that says how to build it.
    pub check: fn() -> Result<(), CodecError>,
    /// Opens an encoder for pictures of the configured size.
    pub encoder: fn(&CodecConfig, &CodecOptions) -> Opened<dyn Encoder>,
    /// Opens a decoder.
    pub decoder: fn(&CodecOptions) -> Opened<dyn Decoder>,
}

/// All of them; the first is what is sent where none is named.
pub(super) const REGISTRY: &[Codec] = &[h264::CODEC, vp8::CODEC, vixnn::CODEC];
