//! Arbitrary bytes as a packet of ViXNN, its words coded or not: refused, or placed within its picture.
#![no_main]

use vixnn::Received;
use vixnn::packet::{parse, place};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((header, words)) = parse(bytes) else { return };
    let (width, height) = (usize::from(header.width), usize::from(header.height));
    assert!(header.first as usize + words.len() <= header.blocks());
    // A picture of 64 megapixels a run would only be slow.
    if width * height <= 1 << 20 {
        let mut received = Received::none(width, height);
        assert_eq!(place(&mut received, bytes), Ok(()));
        let there = (0..header.blocks()).filter(|&block| received.count(block) == 1).count();
        assert_eq!(there, words.len());
    }
});
