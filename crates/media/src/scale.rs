//! Pictures at another size: down before a frame is coded with fewer rows, up again before it is looked at.
//!
//! Each plane is resampled by itself, bicubic (Catmull-Rom), with the kernel widened on the way down so that
//! nothing aliases. A plane's samples are taken to fill it evenly, so that the chroma of a scaled picture
//! lies where that of the original did.

use std::borrow::Cow;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::{CodecError, RawFrame};

/// Width and height in pixels of a picture of `full` size with about `height` rows: the same shape, both
/// sides even, no larger than `full` and not below 16.
pub fn size_of_height(full: (usize, usize), height: u16) -> (usize, usize) {
    let (width, rows) = full;
    let wanted = usize::from(height);
    if wanted >= rows {
        return full;
    }
    let even = |pixels: usize| pixels.next_multiple_of(2);
    let across = (width * wanted + rows / 2) / rows.max(1);
    (even(across).max(16).min(width), even(wanted).max(16).min(rows))
}

/// Scales pictures.
#[derive(Default)]
pub struct Scaler {
    resizer: Resizer,
}

impl Scaler {
    /// The picture at `width` times `height` pixels: itself, if it has them already.
    ///
    /// # Errors
    /// [`CodecError`] if a side is odd or zero, or the picture's planes do not have its size.
    pub fn fit<'a>(
        &mut self,
        picture: &'a RawFrame,
        (width, height): (usize, usize),
    ) -> Result<Cow<'a, RawFrame>, CodecError> {
        if (picture.width, picture.height) == (width, height) {
            return Ok(Cow::Borrowed(picture));
        }
        let odd = |side: usize| side == 0 || !side.is_multiple_of(2);
        if [width, height, picture.width, picture.height].into_iter().any(odd) {
            return refuse(format!(
                "{}x{} cannot become {width}x{height}: 4:2:0 needs even sides",
                picture.width, picture.height
            ));
        }
        let (from, to) = ((picture.width, picture.height), (width, height));
        let half = |(width, height): (usize, usize)| (width / 2, height / 2);
        Ok(Cow::Owned(RawFrame {
            width,
            height,
            y: self.plane(&picture.y, from, to)?,
            u: self.plane(&picture.u, half(from), half(to))?,
            v: self.plane(&picture.v, half(from), half(to))?,
        }))
    }

    fn plane(
        &mut self,
        samples: &[u8],
        from: (usize, usize),
        to: (usize, usize),
    ) -> Result<Vec<u8>, CodecError> {
        let source = ImageRef::new(from.0 as u32, from.1 as u32, samples, PixelType::U8)
            .or_else(|error| refuse(error.to_string()))?;
        let mut out = Image::new(to.0 as u32, to.1 as u32, PixelType::U8);
        let bicubic =
            ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom)).use_alpha(false);
        self.resizer.resize(&source, &mut out, &bicubic).or_else(|error| refuse(error.to_string()))?;
        Ok(out.into_vec())
    }
}

fn refuse<T>(what: String) -> Result<T, CodecError> {
    Err(CodecError::Codec { codec: "scaler", what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality;
    use proptest::prelude::*;

    #[test]
    fn the_ladder_keeps_the_shape() {
        let of =
            |full, heights: &[u16]| -> Vec<_> { heights.iter().map(|&h| size_of_height(full, h)).collect() };
        let sizes = of((1920, 1080), &[1080, 720, 540, 360, 270, 180]);
        assert_eq!(sizes, [(1920, 1080), (1280, 720), (960, 540), (640, 360), (480, 270), (320, 180)]);
        assert_eq!(of((960, 720), &[2160, 540, 270]), [(960, 720), (720, 540), (360, 270)]);
        assert_eq!(of((720, 1280), &[720]), [(406, 720)]);
    }

    proptest! {
        #[test]
        fn any_size_is_even_and_within_the_full_one(
            width in 8usize..2_000, height in 8usize..1_100, wanted in 0u16..1_200
        ) {
            let full = (2 * width, 2 * height);
            let (w, h) = size_of_height(full, wanted);
            prop_assert!(w % 2 == 0 && h % 2 == 0 && w <= full.0 && h <= full.1 && w >= 16 && h >= 16);
        }
    }

    #[test]
    fn a_flat_picture_stays_flat_and_detail_comes_back_as_far_as_it_can() {
        let mut scaler = Scaler::default();
        let flat = RawFrame::filled(64, 48, 90, 30, 200);
        assert_eq!(*scaler.fit(&flat, (32, 24)).unwrap(), RawFrame::filled(32, 24, 90, 30, 200));
        assert!(matches!(scaler.fit(&flat, (64, 48)), Ok(Cow::Borrowed(_))));
        // What has no detail finer than the smaller size survives both ways.
        let mut smooth = RawFrame::filled(256, 144, 0, 128, 128);
        let wave =
            |i: usize| 128.0 + 60.0 * ((i % 256) as f64 / 9.0).sin() + 50.0 * ((i / 256) as f64 / 7.0).cos();
        smooth.y.iter_mut().enumerate().for_each(|(i, sample)| *sample = wave(i) as u8);
        let mut there_and_back = |size| {
            let small = scaler.fit(&smooth, size).unwrap().into_owned();
            assert_eq!((small.width, small.height), size);
            let back = scaler.fit(&small, (256, 144)).unwrap().into_owned();
            quality(&smooth, &back).unwrap().psnr_y
        };
        let (half, eighth) = (there_and_back((128, 72)), there_and_back((32, 18)));
        assert!(half > 45.0 && half > eighth, "{half} dB at a half, {eighth} dB at an eighth");
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let mut scaler = Scaler::default();
        let picture = RawFrame::filled(64, 48, 90, 30, 200);
        assert!(scaler.fit(&picture, (31, 24)).unwrap_err().to_string().contains("even sides"));
        assert!(scaler.fit(&picture, (0, 24)).is_err());
        let broken = RawFrame { y: vec![0; 7], ..picture };
        assert!(scaler.fit(&broken, (32, 24)).is_err());
    }
}
