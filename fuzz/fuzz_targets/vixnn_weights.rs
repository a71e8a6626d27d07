//! Arbitrary bytes as weights of ViXNN: refused, or a network that encodes and decodes.
#![no_main]

use std::sync::Arc;

use vixnn::{Decoder, Encoder, Model, Picture, Received};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::parse(bytes) else { return };
    let model = Arc::new(model);
    let grey = Picture { width: 16, height: 16, rgb: vec![128; 16 * 16 * 3] };
    let descriptors = Encoder::new(model.clone(), 1).encode(&grey);
    assert!(Decoder::new(model, 1).decode(&Received::all(&descriptors)).is_whole());
});
