//! ViXNN by the crate of its name, where the feature `vixnn` is on.

use super::registry::Entry;
use super::{Codec, CodecConfig, CodecOptions};
use crate::{CodecError, Decoder, Encoder};
#[cfg(feature = "vixnn")]
use crate::{VixnnConfig, VixnnDecoder, VixnnEncoder, open_model};

pub(super) const CODEC: Codec = Codec(&Entry {
    name: "vixnn",
    summary: "ViXNN, a learned codec: every packet decodes alone, and whatever arrives makes a picture",
    // No browser has it; the name is only for two ends that agree on one.
    web_name: "vixnn",
    slices: true,
    standalone: true,
    options: &["model", "order", "threads", "entropy", "group", "temporal"],
    begins,
    check,
    encoder,
    decoder,
});

/// The magic of a packet. A key frame of VP8 could begin so, too, of a version that libvpx does not make; its
/// start code tells them apart.
fn begins(coded: &[u8]) -> bool {
    coded.starts_with(b"VX") && !matches!(coded, [_, _, _, 0x9d, 0x01, 0x2a, ..])
}

fn check() -> Result<(), CodecError> {
    if cfg!(feature = "vixnn") {
        return Ok(());
    }
    let what = "it was not built into this command; `cargo build --release -p framewire-cli --features vixnn` does so";
    Err(CodecError::Codec { codec: "vixnn", what: what.to_owned() })
}

#[cfg(feature = "vixnn")]
fn encoder(config: &CodecConfig, options: &CodecOptions) -> Result<Box<dyn Encoder>, CodecError> {
    let base = VixnnConfig::new(config.width, config.height, config.interval);
    Ok(Box::new(VixnnEncoder::new(VixnnConfig {
        max: config.max,
        payload: config.slices.unwrap_or(base.payload),
        latency: config.latency.unwrap_or(base.latency),
        model: options.model.as_deref().map_or(Ok(base.model), |name| open_model(name).map(Some))?,
        order: options.order.unwrap_or(base.order),
        threads: options.threads.unwrap_or(base.threads),
        entropy: options.entropy.unwrap_or(base.entropy),
        group: options.group.unwrap_or(base.group),
        ..base
    })?))
}

#[cfg(feature = "vixnn")]
fn decoder(options: &CodecOptions) -> Result<Box<dyn Decoder>, CodecError> {
    let model = options.model.as_deref().map(open_model).transpose()?;
    let decoder = VixnnDecoder::new(model, options.threads.unwrap_or(1));
    Ok(Box::new(match options.temporal {
        Some(frames) => decoder.with_temporal(frames),
        None => decoder,
    }))
}

#[cfg(not(feature = "vixnn"))]
fn encoder(_: &CodecConfig, _: &CodecOptions) -> Result<Box<dyn Encoder>, CodecError> {
    Err(check().expect_err("it is not built"))
}

#[cfg(not(feature = "vixnn"))]
fn decoder(_: &CodecOptions) -> Result<Box<dyn Decoder>, CodecError> {
    Err(check().expect_err("it is not built"))
}
