//! What few descriptors show, if they were trained to show less of a picture (section 5.4.4, figure 5.9).
//!
//! `0.5` learned to show the picture whatever arrived; `0.5-grey` its luma, and `0.5-levels` four levels of
//! each colour, where at most half of the descriptors are there.

use vixnn::{DESCRIPTORS, Decoder, Encoder, Picture};

use super::descriptors::model;
use super::pictures::quality;
use super::stills::{by_count, pictures};

/// Networks of the figure.
pub(super) const NETWORKS: [&str; 3] = ["0.5", "0.5-grey", "0.5-levels"];
/// Levels of a colour that `levels` learned to show (`python/research/vixnn/train.py`).
const LEVELS: [f64; 4] = [0.0, 85.0, 170.0, 255.0];

/// How pictures look, in the mean over a set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Few {
    /// Beside the original: dB, and SSIM of luma.
    pub psnr: f64,
    pub ssim: f64,
    /// Largest less smallest of a pixel's three colours, over the same of the originals: 0 is grey.
    pub colour: f64,
    /// Distance of a colour from the nearest of the four levels, of 255.
    pub off_levels: f64,
}

/// The small set decoded of one to eight descriptors, any of them.
pub(super) fn few(network: &str) -> Result<Vec<Few>, String> {
    let (pictures, model) = (pictures("small")?, model(network)?);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut decoder = Decoder::new(model.clone(), threads);
    let mut encoder = Encoder::new(model, threads);
    let share = 1.0 / pictures.len() as f64;
    let original = pictures.iter().map(colour).sum::<f64>() * share;
    let mut sums = vec![Few::default(); DESCRIPTORS];
    for (number, picture) in (0..).zip(pictures.iter()) {
        let received = by_count(&encoder.encode(picture), false, number);
        for (received, sum) in received.iter().zip(&mut sums) {
            let shown = decoder.decode(received);
            let found = quality(picture, &shown)?;
            sum.psnr += found.psnr * share;
            sum.ssim += found.ssim * share;
            sum.colour += colour(&shown) * share / original;
            sum.off_levels += off_levels(&shown) * share;
        }
    }
    Ok(sums)
}

fn colour(picture: &Picture) -> f64 {
    let spread = |rgb: &[u8]| f64::from(rgb.iter().max().unwrap_or(&0) - rgb.iter().min().unwrap_or(&0));
    picture.rgb.chunks_exact(3).map(spread).sum::<f64>() / (picture.rgb.len() / 3) as f64
}

fn off_levels(picture: &Picture) -> f64 {
    let off = |value: &u8| LEVELS.iter().map(|level| (f64::from(*value) - level).abs()).fold(255.0, f64::min);
    picture.rgb.iter().map(off).sum::<f64>() / picture.rgb.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_has_no_colour_and_levels_are_not_off() {
        let of = |rgb: [u8; 3]| Picture { width: 2, height: 1, rgb: [rgb, rgb].concat() };
        assert_eq!((colour(&of([40, 40, 40])), colour(&of([10, 30, 110]))), (0.0, 100.0));
        assert_eq!(off_levels(&of([0, 170, 255])), 0.0);
        assert!((off_levels(&of([10, 80, 240])) - 10.0).abs() < 1e-9);
    }
}
