//! What an encoder makes of a picture, and what of it arrived.

use crate::DESCRIPTORS;
use crate::picture::{blocks, is_size};

/// All descriptors of one picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Pixels of a row of the picture.
    pub width: usize,
    /// Rows of the picture, in pixels.
    pub height: usize,
    /// Of each descriptor its bits of every block, row by row; bit `k` of a word is the descriptor's bit `k`.
    pub bits: [Vec<u16>; DESCRIPTORS],
}

impl Descriptors {
    /// Columns and rows of blocks.
    pub fn blocks(&self) -> (usize, usize) {
        blocks(self.width, self.height)
    }
}

/// The descriptors of one picture that a receiver has: of each block any of the eight.
///
/// ```
/// use framewire_vixnn::Received;
///
/// let mut received = Received::none(32, 16);
/// received.set(3, 1, 0xbeef);
/// assert_eq!((received.present(3, 1), received.present(3, 0)), (Some(0xbeef), None));
/// assert_eq!((received.count(1), received.count(0)), (1, 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    width: usize,
    height: usize,
    bits: [Vec<u16>; DESCRIPTORS],
    /// Of each block the descriptors that are there, as bits.
    present: Vec<u8>,
}

impl Received {
    /// Nothing of a picture of these sides in pixels.
    ///
    /// # Panics
    /// Where a side is not of [`crate::LEAST_SIDE`] to [`crate::MOST_SIDE`] pixels; a packet's header never
    /// says so.
    pub fn none(width: usize, height: usize) -> Received {
        assert!(is_size(width, height), "{width}x{height} is no size of a picture");
        let (columns, rows) = blocks(width, height);
        let count = columns * rows;
        let bits = std::array::from_fn(|_| vec![0; count]);
        Received { width, height, bits, present: vec![0; count] }
    }

    /// Everything of a picture.
    pub fn all(descriptors: &Descriptors) -> Received {
        Received::only(descriptors, &[0, 1, 2, 3, 4, 5, 6, 7])
    }

    /// The named descriptors of a picture, whole.
    ///
    /// # Panics
    /// Where one is not below [`DESCRIPTORS`], or the picture's size is none.
    pub fn only(descriptors: &Descriptors, kept: &[usize]) -> Received {
        let mut received = Received::none(descriptors.width, descriptors.height);
        for &d in kept {
            for (block, &bits) in descriptors.bits[d].iter().enumerate().take(received.present.len()) {
                received.set(d, block, bits);
            }
        }
        received
    }

    /// Pixels of a row of the picture.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of the picture, in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns and rows of blocks.
    pub fn blocks(&self) -> (usize, usize) {
        blocks(self.width, self.height)
    }

    /// Loses a descriptor of every block.
    pub fn drop_descriptor(&mut self, d: usize) {
        self.present.iter_mut().for_each(|present| *present &= !(1 << d));
    }

    /// Notes the bits of descriptor `d` of a block, counted row by row.
    ///
    /// # Panics
    /// Where the descriptor is not below [`DESCRIPTORS`] or the picture has no such block.
    pub fn set(&mut self, d: usize, block: usize, bits: u16) {
        self.bits[d][block] = bits;
        self.present[block] |= 1 << d;
    }

    /// The bits of descriptor `d` of a block, if they are there.
    ///
    /// # Panics
    /// As [`Received::set`].
    pub fn present(&self, d: usize, block: usize) -> Option<u16> {
        let bits = self.bits[d][block];
        (self.present[block] >> d & 1 == 1).then_some(bits)
    }

    /// How many descriptors of a block are there: the thesis' `N_d`, which section 5.4.2 has for a whole
    /// picture. Here it is a block's, since a packet may carry some rows only.
    pub fn count(&self, block: usize) -> usize {
        self.present[block].count_ones() as usize
    }

    /// The share of all descriptors of all blocks that is there, 0 to 1.
    pub fn share(&self) -> f64 {
        let there: usize = (0..self.present.len()).map(|block| self.count(block)).sum();
        there as f64 / (self.present.len() * DESCRIPTORS) as f64
    }

    /// Of each block, row by row, its present descriptors: bit `d` is set where descriptor `d` is there.
    pub fn masks(&self) -> &[u8] {
        &self.present
    }

    /// A descriptor's words; where it is not present they mean nothing.
    pub(crate) fn words(&self, d: usize) -> &[u16] {
        &self.bits[d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> Descriptors {
        let bits = std::array::from_fn(|d| (0..6).map(|block| (d * 100 + block) as u16).collect());
        Descriptors { width: 40, height: 20, bits }
    }

    #[test]
    fn what_is_kept_is_there_and_nothing_else() {
        let received = Received::only(&numbered(), &[2, 5]);
        for block in 0..6 {
            let there: Vec<_> = (0..8).filter_map(|d| received.present(d, block)).collect();
            assert_eq!(there, [200 + block as u16, 500 + block as u16]);
            assert_eq!(received.count(block), 2);
        }
        assert_eq!(received.share(), 0.25);
    }

    #[test]
    fn a_dropped_descriptor_is_gone_from_every_block() {
        let mut received = Received::all(&numbered());
        received.drop_descriptor(0);
        received.drop_descriptor(0);
        assert!((0..6).all(|block| received.count(block) == 7 && received.present(0, block).is_none()));
    }
}
