//! Arbitrary bytes as a Y4M clip: whatever pictures it holds have the size its header says.
#![no_main]

use media::Y4mReader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mut clip) = Y4mReader::new(bytes, "fuzz.y4m") else { return };
    let header = clip.header();
    while let Ok(Some(picture)) = clip.next_frame() {
        assert_eq!((picture.width, picture.height), (header.width, header.height));
        assert_eq!(picture.y.len(), header.width * header.height);
    }
});
