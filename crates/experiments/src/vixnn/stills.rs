//! Stills: quality at a number of bits a pixel, of ViXNN and of JPEG and WebP, and what descriptors are worth
//! one by one (figures 5.4 and 5.8).
//!
//! ViXNN has eight rates, one for each number of descriptors. The others are coded at many qualities, and
//! what they have at a rate lies on the line between the two codings beside it. A picture of which a codec
//! has no coding as small as a rate is left out there, for every codec, from the means that are compared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use units::Rng;
use vixnn::packet::{HEADER, Order, cut};
use vixnn::{DESCRIPTORS, Decoder, Descriptors, Encoder, Model, Picture, Received};

use super::descriptors::{model, subset};
use super::pictures::{Quality, kodak, quality, split};
use super::stream::PAYLOAD;
use super::{ffmpeg, jpeg};

/// Pixels of the square that the small set is fitted in (section 5.5.1).
const FIT: usize = 256;
/// Qualities that JPEG and WebP are coded at.
const JPEG: [u32; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 33, 40, 48, 56, 66];
const WEBP: [u32; 15] = [0, 1, 2, 4, 6, 9, 12, 16, 22, 30, 40, 50, 60, 70, 78];

/// Codings by bits a pixel.
pub(super) type Codings = Vec<(f64, Quality)>;
/// Codings of each picture of a set.
pub(super) type Set = Arc<Vec<Codings>>;

/// The pictures of a set, `full` or `small`.
pub(super) fn pictures(set: &str) -> Result<Arc<Vec<Picture>>, String> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Vec<Picture>>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pictures) = known.get(set) {
        return Ok(pictures.clone());
    }
    let fit = match set {
        "full" => None,
        "small" => Some(FIT),
        _ => {
            return Err(format!(
                "no pictures are called `{set}`; {}",
                units::instead(set, &["full", "small"])
            ));
        }
    };
    let pictures = Arc::new(kodak(fit)?);
    known.insert(set.to_owned(), pictures.clone());
    Ok(pictures)
}

/// Codings of each picture of a set by a codec: `jpeg`, `jpeg-420`, `webp`, or ViXNN by a network's name.
pub(super) fn codings(set: &str, codec: &str) -> Result<Set, String> {
    type Key = (String, String);
    static KNOWN: Mutex<BTreeMap<Key, Set>> = Mutex::new(BTreeMap::new());
    let key = (set.to_owned(), codec.to_owned());
    let known = |key: &Key| KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
    if let Some(found) = known(&key) {
        return Ok(found);
    }
    let pictures = pictures(set)?;
    let each = |of: &dyn Fn(&Picture) -> Result<Codings, String>| {
        pictures.iter().map(of).collect::<Result<Vec<_>, _>>()
    };
    let found = match codec {
        "jpeg" => each(&|picture| by_jpeg(picture, false))?,
        "jpeg-420" => each(&|picture| by_jpeg(picture, true))?,
        "webp" => each(&by_webp)?,
        _ => {
            let (model, first) = (model(codec)?, codec.ends_with("svc"));
            (0u32..)
                .zip(pictures.iter())
                .map(|(n, picture)| by_vixnn(picture, &model, first, n))
                .collect::<Result<_, _>>()?
        }
    };
    let found = Arc::new(found);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
    Ok(found)
}

fn pixels(picture: &Picture) -> f64 {
    (picture.width * picture.height) as f64
}

fn by_jpeg(picture: &Picture, halve: bool) -> Result<Codings, String> {
    let coded: Vec<jpeg::Jpeg> = JPEG.iter().map(|&quality| jpeg::code(picture, quality, halve)).collect();
    let all: Vec<u8> = coded.iter().flat_map(|jpeg| jpeg.bytes.iter().copied()).collect();
    let bytes = coded.iter().map(|jpeg| jpeg.scan);
    decoded(picture, &all, "mjpeg", bytes)
}

fn by_webp(picture: &Picture) -> Result<Codings, String> {
    let input = ffmpeg::raw_input("rgb24", picture.width, picture.height);
    let files = WEBP.iter().map(|quality| {
        let quality = quality.to_string();
        let output = ["-pix_fmt", "yuv420p", "-c:v", "libwebp", "-quality", &quality, "-f", "webp", "pipe:1"];
        let arguments = [["-v", "error"].as_slice(), &ffmpeg::borrowed(&input), &output].concat();
        Ok(ffmpeg::run(&arguments, &picture.rgb)?.out)
    });
    let files: Vec<Vec<u8>> = files.collect::<Result<_, String>>()?;
    // Two headers of RIFF stand before the coded picture.
    let bytes = files.iter().map(|file| file.len().saturating_sub(20));
    let mut codings = Codings::new();
    for (file, bytes) in files.iter().zip(bytes) {
        codings.extend(decoded(picture, file, "webp_pipe", [bytes].into_iter())?);
    }
    Ok(codings)
}

/// Codings out of files in a row, read by ffmpeg's `format`.
fn decoded(
    picture: &Picture,
    files: &[u8],
    format: &str,
    bytes: impl ExactSizeIterator<Item = usize>,
) -> Result<Codings, String> {
    let output = ["-fps_mode", "passthrough", "-pix_fmt", "rgb24", "-f", "rawvideo", "pipe:1"];
    let input = ["-v", "error", "-f", format, "-i", "pipe:0"];
    let arguments = [input.as_slice(), &ffmpeg::UPSAMPLING, &output].concat();
    let shown = split(&ffmpeg::run(&arguments, files)?.out, (picture.width, picture.height))?;
    if shown.len() != bytes.len() {
        return Err(format!("ffmpeg read {} of {} pictures", shown.len(), bytes.len()));
    }
    let coding = |(shown, bytes): (&Picture, usize)| {
        Ok((8.0 * bytes as f64 / pixels(picture), quality(picture, shown)?))
    };
    shown.iter().zip(bytes).map(coding).collect()
}

/// With one to all descriptors: the first ones, or any, drawn for each picture and number.
fn by_vixnn(picture: &Picture, model: &Arc<Model>, first: bool, number: u32) -> Result<Codings, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let descriptors = Encoder::new(model.clone(), threads).encode(picture);
    let mut decoder = Decoder::new(model.clone(), threads);
    let bits = descriptors.bits[0].len() as f64 * 16.0;
    let coding = |(count, received): (usize, Received)| {
        let found = quality(picture, &decoder.decode(&received))?;
        Ok((bits * count as f64 / pixels(picture), found))
    };
    (1..).zip(by_count(&descriptors, first, number)).map(coding).collect()
}

/// One to eight descriptors of a picture: the first ones, or any, drawn for each number and count.
pub(super) fn by_count(descriptors: &Descriptors, first: bool, number: u32) -> Vec<Received> {
    let mut rng = Rng::stream(1, &format!("vixnn/stills/{number}"));
    let of = |count| Received::only(descriptors, &subset(count, first, &mut rng));
    (1..=DESCRIPTORS).map(of).collect()
}

/// Quality at so many bits a pixel, on the line between the codings beside it; none where no coding is as
/// small, the best one where none is as large.
fn at(codings: &Codings, bpp: f64) -> Option<Quality> {
    let mut sorted: Vec<&(f64, Quality)> = codings.iter().collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let above = sorted.partition_point(|(bits, _)| *bits <= bpp);
    let before = sorted.get(above.checked_sub(1)?)?;
    let Some(after) = sorted.get(above) else { return Some(before.1) };
    let share = (bpp - before.0) / (after.0 - before.0);
    let between = |a: f64, b: f64| a + share * (b - a);
    Some(Quality { psnr: between(before.1.psnr, after.1.psnr), ssim: between(before.1.ssim, after.1.ssim) })
}

/// What ViXNN has above another codec at its `count` descriptors' rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lead {
    /// dB, and SSIM, in the mean over the pictures that both have a coding of.
    pub psnr: f64,
    pub ssim: f64,
    /// Of all pictures, the share on which ViXNN has the higher SSIM, counting those of which the other has
    /// no coding as small.
    pub wins: f64,
    /// Pictures that both have a coding of.
    pub both: f64,
}

/// ViXNN by `network` beside another codec, with one to eight descriptors.
pub(super) fn leads(set: &str, network: &str, other: &str) -> Result<Vec<Lead>, String> {
    let (ours, other) = (codings(set, network)?, codings(set, other)?);
    let of = |count: usize| {
        let pairs =
            ours.iter().zip(other.iter()).map(|(ours, other)| (ours[count].1, at(other, ours[count].0)));
        let pairs: Vec<(Quality, Option<Quality>)> = pairs.collect();
        let both: Vec<(Quality, Quality)> = pairs.iter().filter_map(|&(a, b)| Some((a, b?))).collect();
        let mean =
            |of: &dyn Fn(&(Quality, Quality)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
        let wins = pairs.iter().filter(|(a, b)| b.is_none_or(|b| a.ssim > b.ssim)).count();
        Lead {
            psnr: mean(&|(a, b)| a.psnr - b.psnr),
            ssim: mean(&|(a, b)| a.ssim - b.ssim),
            wins: wins as f64 / pairs.len() as f64,
            both: both.len() as f64,
        }
    };
    Ok((0..DESCRIPTORS).map(of).collect())
}

/// A codec's mean quality at one to eight descriptors' rates, by bits a pixel; without rates at which it has
/// no coding of some picture, since a mean over the others is of other pictures.
pub(super) fn curve(set: &str, codec: &str) -> Result<Codings, String> {
    let (pictures, codings) = (pictures(set)?, codings(set, codec)?);
    let point = |count: usize| {
        let bits = |picture: &Picture| {
            let blocks = picture.width.div_ceil(16) * picture.height.div_ceil(16);
            (blocks * 16 * count) as f64 / pixels(picture)
        };
        let all = pictures.iter().zip(codings.iter()).map(|(picture, codings)| (bits(picture), codings));
        let all: Vec<(f64, Quality)> =
            all.filter_map(|(bpp, codings)| Some((bpp, at(codings, bpp + 1e-9)?))).collect();
        let mean = |of: &dyn Fn(&(f64, Quality)) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let quality = Quality { psnr: mean(&|(_, q)| q.psnr), ssim: mean(&|(_, q)| q.ssim) };
        (all.len() == pictures.len()).then(|| (mean(&|(bpp, _)| *bpp), quality))
    };
    Ok((1..=DESCRIPTORS).filter_map(point).collect())
}

/// Mean quality of the small set with one to eight descriptors, decoded without scaling by N / N_d.
pub(super) fn unscaled(network: &str) -> Result<Vec<Quality>, String> {
    let (pictures, model) = (pictures("small")?, model(network)?);
    let mut sums = vec![Quality { psnr: 0.0, ssim: 0.0 }; DESCRIPTORS];
    let mut decoder = Decoder::new(model.clone(), 1).unscaled();
    for (number, picture) in (0..).zip(pictures.iter()) {
        let descriptors = Encoder::new(model.clone(), 1).encode(picture);
        let received = by_count(&descriptors, network.ends_with("svc"), number);
        for (received, sum) in received.iter().zip(&mut sums) {
            let found = quality(picture, &decoder.decode(received))?;
            sum.psnr += found.psnr / pictures.len() as f64;
            sum.ssim += found.ssim / pictures.len() as f64;
        }
    }
    Ok(sums)
}

/// Bits a pixel that packets with the first `count` descriptors of a picture of this size carry, without
/// their headers.
pub(super) fn bits_per_pixel(width: usize, height: usize, count: usize) -> Result<f64, String> {
    let model = model("0.3")?;
    let picture = Picture { width, height, rgb: vec![128; width * height * 3] };
    let descriptors = Encoder::new(model.clone(), 1).encode(&picture);
    let packets = cut(&descriptors, model.fingerprint(), count, Order::Rows, PAYLOAD);
    let bytes: usize = packets.iter().map(|packet| packet.len() - HEADER).sum();
    Ok(8.0 * bytes as f64 / pixels(&picture))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_codings_lies_a_line() {
        let coding = |bpp, psnr| (bpp, Quality { psnr, ssim: psnr / 100.0 });
        let codings = vec![coding(0.4, 34.0), coding(0.2, 30.0)];
        assert_eq!(at(&codings, 0.1), None);
        assert_eq!(at(&codings, 0.2).unwrap().psnr, 30.0);
        assert!((at(&codings, 0.3).unwrap().psnr - 32.0).abs() < 1e-9);
        assert_eq!(at(&codings, 0.9).unwrap().ssim, 0.34);
    }

    #[test]
    fn packets_carry_a_sixteenth_of_a_bit_for_each_pixel_and_descriptor() {
        for count in 1..=DESCRIPTORS {
            // Acceptance statement 1; 256x176 are whole blocks.
            assert_eq!(bits_per_pixel(256, 176, count).unwrap(), 0.0625 * count as f64);
        }
    }
}
