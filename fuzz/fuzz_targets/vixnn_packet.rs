//! Arbitrary bytes as a packet of ViXNN, its words coded or not, of one picture or of a group: refused, or
//! placed within its pictures. Whatever it is, cutting it apart loses nothing.
#![no_main]

use vixnn::Received;
use vixnn::packet::{gather, parse, place, split};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    assert_eq!(split(bytes).concat(), bytes);
    let Ok((header, words)) = parse(bytes) else { return };
    let (width, height) = (usize::from(header.width), usize::from(header.height));
    let of_each = words.len() / header.pictures();
    assert!(of_each * header.pictures() == words.len() && header.first as usize + of_each <= header.blocks());
    // A picture of 64 megapixels a run would only be slow.
    if width * height <= 1 << 20 {
        let mut received = Received::none(width, height);
        assert_eq!(place(&mut received, bytes), Ok(()));
        let there = (0..header.blocks()).filter(|&block| received.count(block) == 1).count();
        assert_eq!(there, of_each);
        let gathered = gather(&[bytes], |_, _| true).expect("it is well-formed");
        assert_eq!((gathered.earlier.len() + 1, gathered.ignored), (header.pictures(), 0));
    }
});
