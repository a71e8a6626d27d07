//! Pictures as the codec takes and gives them.

use crate::{BLOCK, LEAST_SIDE, MOST_SIDE};

/// A picture in RGB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a row, from [`LEAST_SIDE`] to [`MOST_SIDE`].
    pub width: usize,
    /// Rows, in the same range.
    pub height: usize,
    /// Red, green, blue of each pixel, row by row, 0 to 255 (full range).
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Whether the sides are in range and there are as many bytes as they say. Only such a picture is encoded.
    pub fn is_whole(&self) -> bool {
        is_size(self.width, self.height) && self.rgb.len() == self.width * self.height * 3
    }
}

/// Whether a picture may have these sides, in pixels.
pub(crate) fn is_size(width: usize, height: usize) -> bool {
    let sides = LEAST_SIDE..=MOST_SIDE;
    sides.contains(&width) && sides.contains(&height)
}

/// Columns and rows of blocks that cover a picture of these sides.
pub(crate) fn blocks(width: usize, height: usize) -> (usize, usize) {
    (width.div_ceil(BLOCK), height.div_ceil(BLOCK))
}

/// The place within `0..side` that place `at` of a longer row shows, mirrored at the last pixel, which is not
/// repeated.
pub(crate) fn mirrored(at: usize, side: usize) -> usize {
    if at < side { at } else { 2 * (side - 1) - at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_mirrored_at_its_last_pixel() {
        assert_eq!([15, 16, 17, 31].map(|at| mirrored(at, 17)), [15, 16, 15, 1]);
        assert_eq!(blocks(17, 16), (2, 1));
    }

    #[test]
    fn only_whole_pictures_of_allowed_sides_count() {
        let picture = |width, height, bytes| Picture { width, height, rgb: vec![0; bytes] };
        assert!(picture(16, 17, 816).is_whole());
        assert!(!picture(16, 17, 815).is_whole() && !picture(15, 16, 720).is_whole());
        assert!(!picture(8_193, 16, 8_193 * 48).is_whole());
    }
}
