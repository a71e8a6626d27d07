//! VP8 by the system's libvpx, where the feature `vpx` is on.

use super::registry::Entry;
use super::{Codec, CodecConfig, CodecOptions};
use crate::{CodecError, Decoder, Encoder};
#[cfg(feature = "vpx")]
use crate::{Vp8Config, Vp8Decoder, Vp8Encoder};

pub(super) const CODEC: Codec = Codec(&Entry {
    name: "vp8",
    summary: "VP8 by libvpx, if the command was built with `--features vpx`",
    web_name: "vp8",
    slices: false,
    standalone: false,
    options: &[],
    // RFC 6386 section 9.1: three bytes, then its start code. Those three are no start code of Annex B: such
    // a frame of VP8 would never be shown.
    begins: |coded| {
        matches!(coded, [tag, _, _, 0x9d, 0x01, 0x2a, ..] if tag & 1 == 0)
            && !matches!(coded, [0, 0, 1, ..] | [0, 0, 0, 1, ..])
    },
    check,
    encoder,
    decoder,
});

fn check() -> Result<(), CodecError> {
    if cfg!(feature = "vpx") {
        return Ok(());
    }
    let what = "VP8 was not built into this command; `cargo build --release -p framewire-cli --features vpx` does so, and \
                needs libvpx (Debian, Ubuntu: apt-get install libvpx-dev pkg-config)";
    Err(CodecError::Codec { codec: "libvpx", what: what.to_owned() })
}

#[cfg(feature = "vpx")]
fn encoder(config: &CodecConfig, _: &CodecOptions) -> Result<Box<dyn Encoder>, CodecError> {
    let base = Vp8Config::new(config.width, config.height, config.interval);
    Ok(Box::new(Vp8Encoder::new(Vp8Config {
        initial: config.initial,
        max: config.max,
        latency: config.latency.unwrap_or(base.latency),
        ..base
    })?))
}

#[cfg(feature = "vpx")]
fn decoder(_: &CodecOptions) -> Result<Box<dyn Decoder>, CodecError> {
    Ok(Box::new(Vp8Decoder::new()?))
}

#[cfg(not(feature = "vpx"))]
fn encoder(_: &CodecConfig, _: &CodecOptions) -> Result<Box<dyn Encoder>, CodecError> {
    Err(check().expect_err("it is not built"))
}

#[cfg(not(feature = "vpx"))]
fn decoder(_: &CodecOptions) -> Result<Box<dyn Decoder>, CodecError> {
    Err(check().expect_err("it is not built"))
}
