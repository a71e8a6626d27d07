//! How fast ViXNN codes and decodes, as an instrument of the lab (figure 5.11 of the thesis).

use experiments::{Instrument, Reading};
use vixnn::{Decoder, Encoder, Model, Picture, Received};

use crate::measure::thread_time;

/// `vixnn_speed("WIDTHxHEIGHT")`: frames for a second of processor time on one core, as `encode` and
/// `decode`, and their multiplications and additions, as `encode_gmac` and `decode_gmac`.
pub const INSTRUMENT: Instrument = Instrument { name: "vixnn_speed", measure: |size, _| measure(size) };

/// Frames that are timed.
const FRAMES: u32 = 3;

fn measure(size: &str) -> Reading {
    let sides = size.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let is_side = |side: usize| (16..=8192).contains(&side);
    let (width, height) = sides
        .filter(|&(width, height)| is_side(width) && is_side(height))
        .ok_or_else(|| format!("`{size}` is no size; write 640x480, with sides of 16 to 8192 pixels"))?;
    let model = Model::shipped(Model::DEFAULT).map_err(|error| error.to_string())?;
    let sample = |at: usize| (at / 3 % width * 3 + at / 3 / width * 5 + at % 3 * 80) as u8;
    let picture = Picture { width, height, rgb: (0..width * height * 3).map(sample).collect() };
    let (mut encoder, mut decoder) = (Encoder::new(model.clone(), 1), Decoder::new(model.clone(), 1));
    // The first frame allocates.
    let mut received = Received::all(&encoder.encode(&picture));
    decoder.decode(&received);
    let per_second = |frames: &mut dyn FnMut()| {
        let begun = thread_time();
        (0..FRAMES).for_each(|_| frames());
        f64::from(FRAMES) / (thread_time() - begun).as_secs_f64()
    };
    let encode = per_second(&mut || received = Received::all(&encoder.encode(&picture)));
    let decode = per_second(&mut || {
        decoder.decode(&received);
    });
    let (encoder_macs, decoder_macs) = model.macs(width, height);
    let found = [
        ("encode", encode),
        ("decode", decode),
        ("encode_gmac", encoder_macs as f64 / 1e9),
        ("decode_gmac", decoder_macs as f64 / 1e9),
    ];
    Ok(found.into_iter().map(|(name, number)| (name.to_owned(), number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_measured_and_nothing_else() {
        let found = measure("64x48").unwrap();
        assert!(found.values().all(|&number| number > 0.0), "{found:?}");
        for bad in ["64", "64x", "8x8", "99999x16"] {
            assert!(measure(bad).is_err(), "{bad}");
        }
    }
}
