//! Pictures as JPEG, to be looked at: baseline, sequential, Huffman-coded (ITU-T T.81), straight from the
//! planes of 4:2:0.
//!
//! Planes hold video levels (luma 16 to 235), JPEG full ones (JFIF): they are stretched. One table of each
//! kind, Annex K's for luma, serves all planes, which costs a few per cent in length.

use crate::RawFrame;

/// Table K.1.
const QUANTA: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17,
    22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78,
    87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];
/// Figure 5: where the coefficients lie that are coded one after the other.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];
/// Table K.3: how many codes have each length from 1 on, and what they stand for.
const DC: ([u8; 16], &[u8]) =
    ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
/// Table K.5.
const AC: ([u8; 16], &[u8]) = (
    [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
    &[
        0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22,
        0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33,
        0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34,
        0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55,
        0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76,
        0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96,
        0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5,
        0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4,
        0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1,
        0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
);
/// A run of sixteen zeros, and the end of a block.
const SIXTEEN_ZEROS: u8 = 0xf0;
const END: u8 = 0x00;

/// The picture as a JPEG file. `quality` is from 1 to 100, as libjpeg counts it.
///
/// ```
/// # use framewire_media as media;
/// let grey = media::RawFrame::filled(32, 16, 126, 128, 128);
/// let file = media::jpeg(&grey, 80);
/// assert!(file.starts_with(&[0xff, 0xd8]) && file.ends_with(&[0xff, 0xd9]));
/// ```
pub fn jpeg(picture: &RawFrame, quality: u8) -> Vec<u8> {
    let quanta = quanta(quality);
    let mut out = header(picture, &quanta);
    let mut bits = Bits { out: &mut out, held: 0, count: 0 };
    let (dc, ac) = (codes(&DC), codes(&AC));
    let half = (picture.width / 2, picture.height / 2);
    let planes = [
        Plane {
            samples: &picture.y,
            width: picture.width,
            height: picture.height,
            zero: 16.0,
            range: 219.0,
            middle: 128.0,
        },
        Plane { samples: &picture.u, width: half.0, height: half.1, zero: 128.0, range: 224.0, middle: 0.0 },
        Plane { samples: &picture.v, width: half.0, height: half.1, zero: 128.0, range: 224.0, middle: 0.0 },
    ];
    let mut before = [0; 3];
    for top in 0..picture.height.div_ceil(16) {
        for left in 0..picture.width.div_ceil(16) {
            // Four blocks of luma, then one of each difference.
            let luma = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(x, y)| (0, 2 * left + x, 2 * top + y));
            for (plane, x, y) in luma.into_iter().chain([(1, left, top), (2, left, top)]) {
                let block = transformed(&planes[plane].block(x, y), &quanta);
                bits.block(&block, &mut before[plane], &dc, &ac);
            }
        }
    }
    bits.finish();
    out.extend([0xff, 0xd9]);
    out
}

/// libjpeg's scale: 50 is the table itself.
fn quanta(quality: u8) -> [u16; 64] {
    let quality = u32::from(quality.clamp(1, 100));
    let percent = if quality < 50 { 5_000 / quality } else { 200 - 2 * quality };
    QUANTA.map(|quantum| ((u32::from(quantum) * percent + 50) / 100).clamp(1, 255) as u16)
}

fn header(picture: &RawFrame, quanta: &[u16; 64]) -> Vec<u8> {
    let mut out = vec![0xff, 0xd8];
    let mut segment = |marker: u8, body: &[u8]| {
        out.extend([0xff, marker]);
        out.extend((body.len() as u16 + 2).to_be_bytes());
        out.extend(body);
    };
    segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    let table: Vec<u8> = std::iter::once(0).chain(ZIGZAG.map(|at| quanta[at] as u8)).collect();
    segment(0xdb, &table);
    let [rows, columns] = [picture.height, picture.width].map(|side| (side as u16).to_be_bytes());
    // Luma has twice as many samples either way.
    let planes = [1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0];
    segment(0xc0, &[&[8], rows.as_slice(), columns.as_slice(), &[3], planes.as_slice()].concat());
    for (class, (counts, values)) in [(0x00, DC), (0x10, AC)] {
        segment(0xc4, &[&[class], counts.as_slice(), values].concat());
    }
    segment(0xda, &[3, 1, 0, 2, 0, 3, 0, 0, 63, 0]);
    out
}

/// The code of each value, and its length; Annex C.
fn codes((counts, values): &([u8; 16], &[u8])) -> [(u16, u8); 256] {
    let mut table = [(0, 0); 256];
    let (mut code, mut values) = (0u16, values.iter());
    for (length, count) in (1..).zip(counts) {
        for value in values.by_ref().take(usize::from(*count)) {
            table[usize::from(*value)] = (code, length);
            code += 1;
        }
        code <<= 1;
    }
    table
}

struct Plane<'a> {
    samples: &'a [u8],
    width: usize,
    height: usize,
    /// The level that stands for nothing, the range of levels, and what is taken off before the transform.
    zero: f32,
    range: f32,
    middle: f32,
}

impl Plane<'_> {
    /// The block in this place, around zero; beyond the edges, the edge goes on.
    fn block(&self, x: usize, y: usize) -> [f32; 64] {
        std::array::from_fn(|at| {
            let column = (8 * x + at % 8).min(self.width - 1);
            let row = (8 * y + at / 8).min(self.height - 1);
            let level = f32::from(self.samples[row * self.width + column]);
            ((level - self.zero) * 255.0 / self.range).clamp(self.middle - 128.0, self.middle + 127.0)
                - self.middle
        })
    }
}

/// The cosine transform of a block, quantised, in the order of coding (A.3.3 and A.3.4).
fn transformed(block: &[f32; 64], quanta: &[u16; 64]) -> [i32; 64] {
    let rows: [f32; 64] =
        std::array::from_fn(|at| (0..8).map(|x| block[at / 8 * 8 + x] * BASIS[at % 8][x]).sum());
    let both: [f32; 64] =
        std::array::from_fn(|at| (0..8).map(|y| rows[y * 8 + at % 8] * BASIS[at / 8][y]).sum());
    ZIGZAG.map(|at| (both[at] / f32::from(quanta[at])).round() as i32)
}

/// `C(u) / 2 cos((2 x + 1) u pi / 16)` by `u` and `x`.
const BASIS: [[f32; 8]; 8] = {
    // Half the cosines of 0, 1, ... 8 sixteenths of pi.
    const HALF: [f32; 9] = [
        0.5,
        0.490_392_64,
        0.461_939_77,
        0.415_734_8,
        0.353_553_4,
        0.277_785_12,
        0.191_341_71,
        0.097_545_16,
        0.0,
    ];
    let mut table = [[HALF[4]; 8]; 8];
    let mut u = 1;
    while u < 8 {
        let mut x = 0;
        while x < 8 {
            // The cosine falls over eight sixteenths, and is mirrored at each end.
            let angle = (2 * x + 1) * u % 32;
            let angle = if angle > 16 { 32 - angle } else { angle };
            table[u][x] = if angle > 8 { -HALF[16 - angle] } else { HALF[angle] };
            x += 1;
        }
        u += 1;
    }
    table
};

/// Bits on their way into a file.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    held: u32,
    count: u8,
}

impl Bits<'_> {
    fn push(&mut self, value: u16, length: u8) {
        self.held = (self.held << length) | u32::from(value);
        self.count += length;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.out.push(byte);
            // So that data is not taken for a marker.
            if byte == 0xff {
                self.out.push(0);
            }
            self.held &= (1 << self.count) - 1;
        }
    }

    fn finish(mut self) {
        let missing = (8 - self.count) % 8;
        self.push((1 << missing) - 1, missing);
    }

    /// F.1.2: the difference of the mean to the block's before, then runs of zeros and what ends them.
    fn block(&mut self, block: &[i32; 64], before: &mut i32, dc: &[(u16, u8); 256], ac: &[(u16, u8); 256]) {
        let difference = block[0] - *before;
        *before = block[0];
        self.number(difference, 0, dc);
        let mut zeros = 0;
        for &coefficient in &block[1..] {
            if coefficient == 0 {
                zeros += 1;
                continue;
            }
            while zeros >= 16 {
                let (code, length) = ac[usize::from(SIXTEEN_ZEROS)];
                self.push(code, length);
                zeros -= 16;
            }
            self.number(coefficient, zeros, ac);
            zeros = 0;
        }
        if zeros > 0 {
            let (code, length) = ac[usize::from(END)];
            self.push(code, length);
        }
    }

    /// A number after a run of zeros: the code of run and length, then the number's bits.
    fn number(&mut self, number: i32, zeros: u8, codes: &[(u16, u8); 256]) {
        let length = (32 - number.unsigned_abs().leading_zeros()) as u8;
        let (code, bits) = codes[usize::from((zeros << 4) | length)];
        self.push(code, bits);
        let low = if number < 0 { number - 1 } else { number };
        self.push((low & ((1 << length) - 1)) as u16, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, SyntheticConfig, SyntheticGame};
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// The planes of a file as ffmpeg decodes it, at video levels.
    fn decoded(file: &[u8]) -> Option<Vec<u8>> {
        let arguments = [
            "-v",
            "error",
            "-i",
            "-",
            "-vf",
            "scale=out_range=tv",
            "-pix_fmt",
            "yuv420p",
            "-f",
            "rawvideo",
            "-",
        ];
        let mut ffmpeg = Command::new("ffmpeg");
        let ffmpeg = ffmpeg.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut ffmpeg = ffmpeg.ok()?;
        ffmpeg.stdin.take()?.write_all(file).ok()?;
        Some(ffmpeg.wait_with_output().ok()?.stdout)
    }

    #[test]
    fn another_decoder_sees_the_picture() {
        // No side is a multiple of a block's.
        let config = SyntheticConfig::new(326, 182);
        let picture = SyntheticGame::new(config).next_picture().expect("it never ends");
        let file = jpeg(&picture, 90);
        assert!(file.len() < picture.y.len(), "{} bytes", file.len());
        let Some(seen) = decoded(&file) else {
            eprintln!("skipped: there is no ffmpeg");
            return;
        };
        let planes = [picture.y.as_slice(), &picture.u, &picture.v].concat();
        assert_eq!(seen.len(), planes.len());
        let squares: f64 =
            seen.iter().zip(&planes).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        let psnr = 10.0 * (255.0 * 255.0 * planes.len() as f64 / squares).log10();
        assert!(psnr > 30.0, "{psnr:.1} dB");
    }

    #[test]
    fn less_quality_is_shorter() {
        let picture =
            SyntheticGame::new(SyntheticConfig::new(320, 180)).next_picture().expect("it never ends");
        let lengths = [95, 80, 50, 10].map(|quality| jpeg(&picture, quality).len());
        assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}");
    }

    #[test]
    fn the_code_tables_are_complete() {
        for table in [DC, AC] {
            let codes = codes(&table);
            assert_eq!(codes.iter().filter(|code| code.1 > 0).count(), table.1.len());
            // Kraft's sum: all but one code of the longest length is used.
            let sum: u32 = codes.iter().filter(|code| code.1 > 0).map(|code| 1 << (16 - code.1)).sum();
            assert!(sum < 1 << 16, "{sum}");
        }
    }
}
