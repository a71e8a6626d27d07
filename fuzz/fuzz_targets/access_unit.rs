//! Arbitrary bytes as a coded frame that is to go into an MP4 file.
#![no_main]

use ingest::mp4::{AccessUnit, header, segment};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(unit) = AccessUnit::read(bytes) else { return };
    assert!(unit.bytes.len() <= 4 + bytes.len() * 4 / 3);
    if let Some(description) = &unit.description {
        assert!(!header(description).is_empty());
    }
    let sample = unit.lasting(3_000);
    assert!(segment(1, 0, &[sample.clone()]).len() > sample.bytes.len());
});
