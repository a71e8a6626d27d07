//! A frame's number burned into its picture, so that frames can be matched end to end outside our own
//! process: after a codec, on a screen recording, in another program.
//!
//! ```text
//!   12 x 4 blocks of 8x8 pixels in the top left corner, black (16) for 0 and white (235) for 1, chroma grey:
//!   32 bits of id, most significant first, then 16 bits of checksum (CRC-16/CCITT-FALSE of the id's 4 bytes)
//! ```
//!
//! Blocks are aligned to the codec's 8x8 grid and a bit is read from the mean of the block's middle, so what
//! is left of them at the coarsest quantiser is enough. The checksum starts at 0xFFFF, so that neither a
//! black nor a white corner reads as an id.

use crate::RawFrame;

/// Side of a block in pixels.
const BLOCK: usize = 8;
/// Blocks across and down.
const ACROSS: usize = 12;
const DOWN: usize = 4;
/// Black and white of broadcast-range luma.
const BLACK: u8 = 16;
const WHITE: u8 = 235;
/// A block whose middle is nearer than this to grey is no bit.
const CONTRAST: f64 = 30.0;

/// Smallest width and height of a picture that can carry a barcode, in pixels.
pub const BARCODE_SIZE: (usize, usize) = (ACROSS * BLOCK, DOWN * BLOCK);

fn checksum(id: u32) -> u16 {
    id.to_be_bytes().iter().fold(0xffff, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

fn fits(frame: &RawFrame) -> bool {
    frame.width >= BARCODE_SIZE.0 && frame.height >= BARCODE_SIZE.1
}

fn fill(plane: &mut [u8], stride: usize, left: usize, top: usize, side: usize, value: u8) {
    for row in top..top + side {
        plane[row * stride + left..][..side].fill(value);
    }
}

/// Burns `id` into the top left corner, over what was there. False, and nothing done, if the picture is
/// smaller than [`BARCODE_SIZE`].
pub fn burn(frame: &mut RawFrame, id: u32) -> bool {
    if !fits(frame) {
        return false;
    }
    let word = u64::from(id) << 16 | u64::from(checksum(id));
    let (luma, chroma) = (frame.width, frame.width / 2);
    for cell in 0..ACROSS * DOWN {
        let bit = word >> (ACROSS * DOWN - 1 - cell) & 1;
        let (left, top) = (cell % ACROSS * BLOCK, cell / ACROSS * BLOCK);
        fill(&mut frame.y, luma, left, top, BLOCK, if bit == 1 { WHITE } else { BLACK });
        fill(&mut frame.u, chroma, left / 2, top / 2, BLOCK / 2, 128);
        fill(&mut frame.v, chroma, left / 2, top / 2, BLOCK / 2, 128);
    }
    true
}

/// One bit, from the mean of the middle 4x4 pixels of a block; `None` if it is neither black nor white.
fn bit(frame: &RawFrame, cell: usize) -> Option<u64> {
    let (left, top) = (cell % ACROSS * BLOCK + 2, cell / ACROSS * BLOCK + 2);
    let row = |row: usize| &frame.y[(top + row) * frame.width + left..][..4];
    let sum: u32 = (0..4).flat_map(row).map(|&p| u32::from(p)).sum();
    let level = f64::from(sum) / 16.0 - f64::from(BLACK / 2 + WHITE / 2);
    (level.abs() >= CONTRAST).then_some(u64::from(level > 0.0))
}

/// The id burned into a picture, if there is one and its checksum is right.
pub fn read(frame: &RawFrame) -> Option<u32> {
    if !fits(frame) {
        return None;
    }
    let word = (0..ACROSS * DOWN).try_fold(0, |word, cell| Some(word << 1 | bit(frame, cell)?))?;
    let id = (word >> 16) as u32;
    (checksum(id) == word as u16).then_some(id)
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    #[test]
    fn checksum_is_the_published_one() {
        // CRC-16/CCITT-FALSE of "123456789" is 0x29B1 (catalogue of parametrised CRCs); the same loop over
        // four bytes.
        let crc = |bytes: &[u8]| {
            bytes
                .chunks(4)
                .fold(None, |_, b| Some(checksum(u32::from_be_bytes(b.try_into().unwrap()))))
                .unwrap()
        };
        assert_eq!(crc(b"\0\0\0\0"), 0x84c0);
    }

    #[test]
    fn what_is_burned_is_read() {
        let mut rng = Rng::stream(1, "ids");
        for id in [0, 1, u32::MAX, 0x8000_0000].into_iter().chain((0..500).map(|_| rng.next_u64() as u32)) {
            let mut frame = RawFrame::filled(96, 32, 77, 100, 90);
            assert!(burn(&mut frame, id));
            assert_eq!(read(&frame), Some(id));
        }
    }

    #[test]
    fn pictures_without_a_barcode_read_as_none() {
        for luma in [0, 16, 128, 235, 255] {
            assert_eq!(read(&RawFrame::filled(128, 64, luma, 128, 128)), None);
        }
        let mut tiny = RawFrame::filled(94, 64, 0, 0, 0);
        assert!(!burn(&mut tiny, 5));
        assert_eq!(read(&tiny), None);
        let mut rng = Rng::stream(2, "noise");
        let mut frame = RawFrame::filled(96, 32, 0, 0, 0);
        for _ in 0..300 {
            frame.y.iter_mut().for_each(|p| *p = rng.below(256) as u8);
            assert_eq!(read(&frame), None);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut frame = RawFrame::filled(96, 32, 0, 0, 0);
        burn(&mut frame, 123_456);
        for cell in 0..48 {
            let mut broken = frame.clone();
            let (left, top) = (cell % 12 * 8, cell / 12 * 8);
            let now = broken.y[top * 96 + left];
            fill(&mut broken.y, 96, left, top, 8, if now == BLACK { WHITE } else { BLACK });
            assert_eq!(read(&broken), None);
        }
    }

    #[cfg(feature = "codecs")]
    #[test]
    fn it_survives_h264_at_500_kbit() {
        use crate::{Ask, Encoder, H264Config, H264Decoder, H264Encoder, Source};
        use crate::{SyntheticConfig, SyntheticGame};
        use std::sync::Arc;
        use units::{Rate, Span, Time};

        let interval = Span::from_nanos(33_333_333);
        let config = SyntheticConfig { interval, seed: 2, ..SyntheticConfig::new(640, 360) };
        let mut game = SyntheticGame::new(config);
        let bitrate = Rate::from_kbps(500);
        let config = H264Config { initial: bitrate, ..H264Config::new(640, 360, interval) };
        let (mut encoder, mut decoder) = (H264Encoder::new(config).unwrap(), H264Decoder::new().unwrap());
        let mut rng = Rng::stream(3, "ids");
        let mut bytes = 0;
        for frame in 0..150 {
            let id = rng.next_u64() as u32;
            let mut picture = RawFrame::clone(&game.next_picture().unwrap());
            burn(&mut picture, id);
            let ask =
                Ask { frame, bitrate, interval, key: frame == 0, largest: None, height: None, peer: None };
            encoder.submit(Time::ZERO, Some(&Arc::new(picture)), &ask).unwrap();
            let coded = encoder.poll(Time::MAX).unwrap();
            bytes += u64::from(coded.size);
            let seen = decoder.decode(&coded.payload.unwrap()).unwrap().unwrap();
            assert_eq!(read(&seen), Some(id), "frame {frame}");
        }
        println!("barcode: 150 of 150 ids read at {:.0} kbit/s", bytes as f64 * 8.0 / 5.0 / 1e3);
        assert!(bytes * 8 / 5 < 1_200_000, "the rate was not low: {} bit/s", bytes * 8 / 5);
    }
}
