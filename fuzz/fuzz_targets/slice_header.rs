//! Arbitrary bytes as coded pictures of H.264, one after the other: whatever is read of their references is
//! within the standard's bounds.
#![no_main]

use media::{Reference, SliceReader};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut reader = SliceReader::default();
    // Parameter sets of one picture stay for the next.
    for picture in bytes.chunks(64.max(bytes.len() / 3)) {
        let Ok(header) = reader.read(picture) else { continue };
        assert!(header.frame_num < header.modulus && header.modulus <= 1 << 16);
        if let Some(Reference::Short(frame_num)) = header.reference {
            assert!(frame_num < header.modulus);
        }
    }
});
