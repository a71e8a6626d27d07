//! What an archive's pictures take of a clip: `cargo run --release -p
//! framewire-media --example pack CLIP`.

use std::process::ExitCode;

use framewire_media as media;
use media::{Clip, ClipOptions, Packed, Source};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: pack CLIP");
        return ExitCode::from(2);
    };
    let mut clip = match Clip::open(path.as_ref(), ClipOptions::default()) {
        Ok(clip) => clip,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let (mut pictures, mut bytes, mut samples) = (0u32, 0, 0);
    while let Some(picture) = clip.next_picture() {
        let packed = Packed::of(&picture);
        let back = packed.unpack().expect("what was just packed");
        assert!(back == *picture, "without loss");
        (pictures, bytes, samples) = (pictures + 1, bytes + packed.len(), samples + picture.y.len() * 3 / 2);
    }
    let (each, bits) = (bytes as f64 / f64::from(pictures) / 1e3, bytes as f64 * 8.0 / samples as f64);
    println!("{pictures} pictures: {each:.0} kB each, {bits:.2} bits a sample");
    ExitCode::SUCCESS
}
