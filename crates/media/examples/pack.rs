//! What an archive's pictures take of a clip: `cargo run --release -p
//! framewire-media --example pack CLIP`.

use std::process::ExitCode;
use std::time::Instant;

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
    let (mut packing, mut unpacking) = (0.0, 0.0);
    while let Some(picture) = clip.next_picture() {
        let begun = Instant::now();
        let packed = Packed::of(&picture);
        packing += begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let back = packed.unpack().expect("what was just packed");
        unpacking += begun.elapsed().as_secs_f64();
        assert!(back == *picture, "without loss");
        (pictures, bytes, samples) = (pictures + 1, bytes + packed.len(), samples + picture.y.len() * 3 / 2);
    }
    let each = |sum: f64| sum / f64::from(pictures);
    println!(
        "{pictures} pictures: {:.0} kB each, {:.2} bits a sample, packed in {:.1} ms, unpacked in {:.1} ms",
        each(bytes as f64) / 1e3,
        bytes as f64 * 8.0 / samples as f64,
        each(packing) * 1e3,
        each(unpacking) * 1e3
    );
    ExitCode::SUCCESS
}
