//! Arbitrary bytes as a frame of VP8, after none and after themselves: whatever picture comes out is whole.
#![no_main]

use media::{Codec, Vp8Decoder};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Vp8Decoder::new().expect("libvpx starts");
    for _ in 0..2 {
        let Ok(picture) = decoder.decode(bytes) else { continue };
        assert_eq!(Codec::of_key_frame(bytes), Some(Codec::Vp8), "the first can only be a key frame");
        assert_eq!(picture.y.len(), picture.width * picture.height);
        assert_eq!((picture.u.len() * 4, picture.v.len() * 4), (picture.y.len(), picture.y.len()));
    }
});
