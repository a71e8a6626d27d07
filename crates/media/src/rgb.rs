//! Between a picture of 4:2:0 and interleaved RGB, for codecs that code colours.
//!
//! Planes hold video levels by ITU-R BT.601 (luma 16 to 235, differences 16 to 240), as everywhere in this
//! crate; RGB is full range. A chroma sample lies in the middle of its four luma samples (JFIF, MPEG-1): it
//! is the mean of four colours on the way there, and on the way back each pixel takes nine sixteenths of the
//! nearest sample, three of the next either way, and one of the diagonal one. Everything is reckoned in
//! integers, so that it is the same everywhere.

use crate::RawFrame;

/// Bits behind the point of the matrix.
const SHIFT: i32 = 16;
const HALF: i32 = 1 << (SHIFT - 1);
/// 255 / 219, and BT.601's matrix times 255 / 224 (its luma weights are 0.299, 0.587 and 0.114).
const LUMA: i32 = 76_309;
const RED_BY_V: i32 = 104_597;
const GREEN_BY_U: i32 = 25_675;
const GREEN_BY_V: i32 = 53_279;
const BLUE_BY_U: i32 = 132_201;
/// The other way: Y, U and V by red, green and blue.
const FORWARD: [[i32; 3]; 3] =
    [[16_829, 33_039, 6_416], [-9_714, -19_070, 28_784], [28_784, -24_103, -4_681]];

fn clamp(value: i32) -> u8 {
    value.clamp(0, 255) as u8
}

/// A chroma plane at a pixel of luma, in sixteenths.
fn chroma(plane: &[u8], (width, height): (usize, usize), x: usize, y: usize) -> i32 {
    let near = |at: usize, most: usize| {
        let nearest = at / 2;
        let next = if at.is_multiple_of(2) { nearest.saturating_sub(1) } else { (nearest + 1).min(most - 1) };
        (nearest, next)
    };
    let ((x0, x1), (y0, y1)) = (near(x, width), near(y, height));
    let at = |x: usize, y: usize| i32::from(plane[y * width + x]);
    9 * at(x0, y0) + 3 * (at(x1, y0) + at(x0, y1)) + at(x1, y1)
}

/// The picture as RGB, three bytes a pixel, row by row.
pub(crate) fn to_rgb(picture: &RawFrame) -> Vec<u8> {
    let half = (picture.width / 2, picture.height / 2);
    let mut rgb = Vec::with_capacity(3 * picture.width * picture.height);
    for y in 0..picture.height {
        for x in 0..picture.width {
            let luma = LUMA * (i32::from(picture.y[y * picture.width + x]) - 16) + HALF;
            let u = (chroma(&picture.u, half, x, y) + 8) / 16 - 128;
            let v = (chroma(&picture.v, half, x, y) + 8) / 16 - 128;
            let red = luma + RED_BY_V * v;
            let green = luma - GREEN_BY_U * u - GREEN_BY_V * v;
            let blue = luma + BLUE_BY_U * u;
            rgb.extend([red, green, blue].map(|colour| clamp(colour >> SHIFT)));
        }
    }
    rgb
}

/// The picture of even sides whose RGB this is.
///
/// # Panics
/// If a side is odd or zero, or `rgb` has not three bytes a pixel.
pub(crate) fn from_rgb(width: usize, height: usize, rgb: &[u8]) -> RawFrame {
    assert_eq!(rgb.len(), 3 * width * height, "three bytes a pixel");
    let mut picture = RawFrame::filled(width, height, 16, 128, 128);
    let project = |weights: [i32; 3], colour: [i32; 3]| -> i32 {
        weights.iter().zip(colour).map(|(weight, colour)| weight * colour).sum()
    };
    let colour = |x: usize, y: usize| {
        let at = 3 * (y * width + x);
        [rgb[at], rgb[at + 1], rgb[at + 2]].map(i32::from)
    };
    for y in 0..height {
        for x in 0..width {
            picture.y[y * width + x] = clamp(16 + ((project(FORWARD[0], colour(x, y)) + HALF) >> SHIFT));
        }
    }
    for y in 0..height / 2 {
        for x in 0..width / 2 {
            let four = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(dx, dy)| colour(2 * x + dx, 2 * y + dy));
            let sum = four.iter().fold([0; 3], |sum, one| std::array::from_fn(|i| sum[i] + one[i]));
            let mean = |weights| clamp(128 + ((project(weights, sum) + 4 * HALF) >> (SHIFT + 2)));
            let at = y * (width / 2) + x;
            (picture.u[at], picture.v[at]) = (mean(FORWARD[1]), mean(FORWARD[2]));
        }
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{quality, testing};

    fn of_one(y: u8, u: u8, v: u8) -> [u8; 3] {
        to_rgb(&RawFrame::filled(4, 4, y, u, v))[..3].try_into().unwrap()
    }

    #[test]
    fn primaries_are_those_of_the_recommendation() {
        // BT.601's colour bars at full amplitude.
        assert_eq!(of_one(16, 128, 128), [0, 0, 0]);
        assert_eq!(of_one(235, 128, 128), [255, 255, 255]);
        for (yuv, rgb) in
            [([81, 90, 240], [255, 0, 0]), ([145, 54, 34], [0, 255, 0]), ([41, 240, 110], [0, 0, 255])]
        {
            let near = |a: u8, b: u8| a.abs_diff(b) <= 2;
            assert!(of_one(yuv[0], yuv[1], yuv[2]).iter().zip(rgb).all(|(&a, b)| near(a, b)), "{yuv:?}");
            let back = from_rgb(2, 2, &rgb.repeat(4));
            assert!([back.y[0], back.u[0], back.v[0]].iter().zip(yuv).all(|(&a, b)| near(a, b)), "{rgb:?}");
        }
    }

    #[test]
    fn there_and_back_is_nearly_the_same_picture() {
        let grey = RawFrame { u: vec![128; 48 * 16], v: vec![128; 48 * 16], ..testing::textured(96, 32, 1) };
        let back = from_rgb(96, 32, &to_rgb(&grey));
        assert!(grey.y.iter().zip(&back.y).all(|(a, b)| a.clamp(&16, &235).abs_diff(*b) <= 1));
        // Colours are blurred by their coarser grid.
        let picture = testing::textured(96, 64, 2);
        let back = from_rgb(96, 64, &to_rgb(&picture));
        let psnr = quality(&picture, &back).unwrap().psnr_y;
        assert!(psnr > 30.0, "{psnr}");
    }
}
