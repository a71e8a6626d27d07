//! Clips and stills as RGB, and how good one picture is beside another.
//!
//! ```text
//!   clip -> ffmpeg -> planes of 4:2:0 -> H.264
//!             '-----> RGB, 8 bits ----> ViXNN        what is shown, as RGB --> PSNR over R, G and B
//!                                                                         '-> luma --> SSIM
//! ```
//!
//! Everything is measured in RGB against the clip's RGB, H.264 too: what it decodes goes through the same
//! conversion as the clip did.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use media::RawFrame;
use vixnn::Picture;

use super::ffmpeg;
use crate::data::data_file;

/// The clips: what formulas call them, and where they lie. The thesis has akiyo, foreman, coastguard and bus;
/// the last two are not in the data, and mobile and carphone stand in for them.
const CLIPS: [(&str, &str); 4] = [
    ("akiyo", "video/cif-classics/akiyo_cif.mp4"),
    ("foreman", "video/cif-classics/foreman_cif_test_cif_I_CABAC_slice.264"),
    ("mobile", "video/cif-classics/mobile_cif_CVPCMNL1_SVA_C.264"),
    ("carphone", "video/cif-classics/carphone_qcif_pristine.mp4"),
];
/// Frames of a clip that are used, at most. Mobile has 30, carphone 120.
const FRAMES: usize = 300;
/// Pictures of the Kodak suite.
const KODAK: usize = 24;

/// A clip in memory.
pub(super) struct Clip {
    /// Width and height in pixels.
    pub size: (usize, usize),
    /// Its pictures as RGB.
    pub pictures: Vec<Picture>,
    /// The planes of the same pictures in 4:2:0, one after the other.
    pub planes: Vec<u8>,
}

/// How good a picture is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quality {
    /// PSNR over the samples of R, G and B, in dB.
    pub psnr: f64,
    /// SSIM of luma, by [`media::quality`]'s convention.
    pub ssim: f64,
}

/// The clips' names, in their order.
pub(super) fn clips() -> impl Iterator<Item = &'static str> {
    CLIPS.iter().map(|(name, _)| *name)
}

/// A clip by its name; each is read once.
pub(super) fn clip(name: &str) -> Result<Arc<Clip>, String> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Clip>>> = Mutex::new(BTreeMap::new());
    // Whoever comes second waits.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(clip) = known.get(name) {
        return Ok(clip.clone());
    }
    let (_, file) = CLIPS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        format!("no clip is called `{name}`; {}", units::instead(name, &clips().collect::<Vec<_>>()))
    })?;
    let clip = Arc::new(read_clip(&data_file(file))?);
    known.insert(name.to_owned(), clip.clone());
    Ok(clip)
}

fn read_clip(path: &Path) -> Result<Clip, String> {
    let size = size_of(path)?;
    let most = FRAMES.to_string();
    let read = |format: &str| {
        let file = format!("file:{}", path.display());
        let output =
            ["-fps_mode", "passthrough", "-frames:v", &most, "-pix_fmt", format, "-f", "rawvideo", "-"];
        let input = ["-v", "error", "-threads", "1", "-i", &file];
        let all = [input.as_slice(), &ffmpeg::UPSAMPLING, &output].concat();
        Ok::<_, String>(ffmpeg::run(&all, &[])?.out)
    };
    let pictures = split(&read("rgb24")?, size)?;
    Ok(Clip { size, pictures, planes: read("yuv420p")? })
}

/// Width and height of a clip or picture.
fn size_of(path: &Path) -> Result<(usize, usize), String> {
    let file = format!("file:{}", path.display());
    let frame = ["-v", "error", "-i", &file, "-frames:v", "1", "-f", "framecrc", "-"];
    let text = String::from_utf8_lossy(&ffmpeg::run(&frame, &[])?.out).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("#dimensions 0: "));
    let size = line.and_then(|size| size.split_once('x'));
    let size = size.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    size.ok_or_else(|| format!("{}: ffmpeg finds no pictures in it", path.display()))
}

/// Pictures out of RGB samples, one after the other.
pub(super) fn split(rgb: &[u8], (width, height): (usize, usize)) -> Result<Vec<Picture>, String> {
    let bytes = width * height * 3;
    if bytes == 0 || rgb.is_empty() || !rgb.len().is_multiple_of(bytes) {
        return Err(format!("{} bytes are no pictures of {width}x{height}", rgb.len()));
    }
    Ok(rgb.chunks_exact(bytes).map(|rgb| Picture { width, height, rgb: rgb.to_vec() }).collect())
}

/// The Kodak suite, fitted in a square of `fit` pixels a side where one is given.
pub(super) fn kodak(fit: Option<usize>) -> Result<Vec<Picture>, String> {
    (1..=KODAK).map(|number| still(&data_file(&format!("images/kodak/kodim{number:02}.png")), fit)).collect()
}

fn still(path: &Path, fit: Option<usize>) -> Result<Picture, String> {
    let (width, height) = size_of(path)?;
    let longest = width.max(height);
    let size = match fit.filter(|&fit| fit < longest) {
        Some(fit) => ((width * fit).div_ceil(longest), (height * fit).div_ceil(longest)),
        None => (width, height),
    };
    let (file, scale) =
        (format!("file:{}", path.display()), format!("scale={}:{}:flags=area", size.0, size.1));
    let all = ["-v", "error", "-i", &file, "-vf", &scale, "-pix_fmt", "rgb24", "-f", "rawvideo", "-"];
    let mut pictures = split(&ffmpeg::run(&all, &[])?.out, size)?;
    pictures.pop().ok_or_else(|| format!("{}: no picture", path.display()))
}

/// How good `shown` is beside `original`, which has the same size.
pub(super) fn quality(original: &Picture, shown: &Picture) -> Result<Quality, String> {
    if (original.width, original.height) != (shown.width, shown.height) {
        return Err(format!(
            "a picture of {}x{} beside one of {}x{}",
            shown.width, shown.height, original.width, original.height
        ));
    }
    let error = media::squared_error(&original.rgb, &shown.rgb);
    let all = media::quality(&luma(original), &luma(shown)).map_err(|error| error.to_string())?;
    // Equal chroma has an SSIM of 1, and "All" weights the planes 4:1:1.
    let ssim = (6.0 * all.ssim - 2.0) / 4.0;
    Ok(Quality { psnr: media::psnr(error as f64 / original.rgb.len() as f64), ssim })
}

/// Luma of RGB (BT.601's weights, full range, in 1/256), under chroma that is the same for every picture. A
/// last odd column or row, which 4:2:0 can't have, is left out.
fn luma(picture: &Picture) -> RawFrame {
    let (width, height) = (picture.width / 2 * 2, picture.height / 2 * 2);
    let mut frame = RawFrame::filled(width, height, 0, 128, 128);
    for (row, rgb) in frame.y.chunks_exact_mut(width).zip(picture.rgb.chunks_exact(picture.width * 3)) {
        let (pixels, _) = rgb.as_chunks();
        for (y, &[red, green, blue]) in row.iter_mut().zip(pixels) {
            // At most 256 * 255.
            let sum = 77 * u16::from(red) + 150 * u16::from(green) + 29 * u16::from(blue);
            *y = ((sum + 128) >> 8) as u8;
        }
    }
    frame
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A picture with something in it.
    pub fn drawn(width: usize, height: usize, shift: usize) -> Picture {
        let sample = |i: usize| {
            let (x, y, plane) = ((i / 3) % width + shift, i / 3 / width, i % 3);
            ((x * 5 + y * 3 + plane * 40 + (x / 8 + y / 8) % 2 * 90) % 256) as u8
        };
        Picture { width, height, rgb: (0..width * height * 3).map(sample).collect() }
    }

    #[test]
    fn quality_is_of_rgb_and_of_luma() {
        let picture = drawn(49, 35, 0);
        let same = quality(&picture, &picture).unwrap();
        assert!(same.psnr == media::PSNR_CAP && (same.ssim - 1.0).abs() < 1e-9, "{same:?}");
        let mut darker = picture.clone();
        darker.rgb.iter_mut().for_each(|sample| *sample = sample.saturating_sub(10).max(10));
        let worse = quality(&picture, &darker).unwrap();
        assert!((28.0..30.0).contains(&worse.psnr), "ten levels are 28.1 dB: {worse:?}");
        assert!((0.9..0.9999).contains(&worse.ssim), "{worse:?}");
        assert!(quality(&picture, &drawn(48, 36, 0)).is_err());
        assert!(split(&[0; 10], (2, 2)).is_err() && split(&[], (2, 2)).is_err());
    }
}
