//! H.264 by OpenH264, whose source comes with this crate.

use super::registry::Entry;
use super::{Codec, CodecConfig, CodecOptions};
use crate::{CodecError, Encoder, H264Config, H264Decoder, H264Encoder};

pub(super) const CODEC: Codec = Codec(&Entry {
    name: "h264",
    summary: "H.264, constrained baseline, by OpenH264",
    // Constrained baseline at the level our encoder announces.
    web_name: "avc1.42E034",
    slices: true,
    standalone: false,
    options: &[],
    // A start code of Annex B.
    begins: |coded| matches!(coded, [0, 0, 1, ..] | [0, 0, 0, 1, ..]),
    check: || Ok(()),
    encoder,
    decoder: |_| Ok(Box::new(H264Decoder::new()?)),
});

fn encoder(config: &CodecConfig, _: &CodecOptions) -> Result<Box<dyn Encoder>, CodecError> {
    let base = H264Config::new(config.width, config.height, config.interval);
    Ok(Box::new(H264Encoder::new(H264Config {
        initial: config.initial,
        max: config.max,
        slices: config.slices,
        latency: config.latency.unwrap_or(base.latency),
        ..base
    })?))
}
