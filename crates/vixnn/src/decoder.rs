//! Descriptors to pictures.

use std::sync::Arc;

use crate::conv::Instructions;
use crate::network::{Emit, Network, Output, Source};
use crate::picture::blocks;
use crate::rows::Layout;
use crate::{BITS, BLOCK, DESCRIPTORS, Model, Picture, Received};

/// How many columns and rows of each layer's output a block has.
const SCALES: [usize; 4] = [1, 2, 4, 8];

/// Turns what arrived into pictures. Memory is kept between pictures of one size.
#[derive(Debug)]
pub struct Decoder {
    model: Arc<Model>,
    network: Network,
    /// Red, green and blue of whole blocks.
    pixels: Vec<u8>,
    scaled: bool,
}

impl Decoder {
    /// A decoder that computes on so many threads (at least one), the caller's among them.
    pub fn new(model: Arc<Model>, threads: usize) -> Decoder {
        Decoder::with(model, threads, Instructions::best())
    }

    pub(crate) fn with(model: Arc<Model>, threads: usize, instructions: Instructions) -> Decoder {
        // 0: no stride, but a depth-to-space behind.
        let layers: Vec<_> = model.decoder.iter().map(|layer| (layer, 0)).collect();
        let network = Network::new(&layers, threads, instructions);
        Decoder { model, network, pixels: Vec::new(), scaled: true }
    }

    /// The same without the factor of 8 over the number of present descriptors (section 5.4.2 of the thesis),
    /// to see what it is worth.
    pub fn unscaled(mut self) -> Decoder {
        self.scaled = false;
        self
    }

    /// The model it was made with.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The picture of what arrived. Where nothing of a block did, the network shows what it makes of zeros
    /// and the blocks around.
    pub fn decode(&mut self, received: &Received) -> Picture {
        let (width, height) = (received.width(), received.height());
        let (columns, rows) = blocks(width, height);
        let line = columns * BLOCK * 3;
        self.network.resize((columns, rows), &SCALES);
        self.pixels.resize(rows * BLOCK * line, 0);
        let source = Factors { received, columns, scaled: self.scaled };
        self.network.run((&source, &Pixels), &mut self.pixels, (8, 2 * line));
        let mut rgb = Vec::with_capacity(width * height * 3);
        let lines = self.pixels.chunks_exact(line).take(height);
        lines.for_each(|line| rgb.extend_from_slice(&line[..width * 3]));
        Picture { width, height, rgb }
    }
}

/// -1 and 1 for bits, times 8 over the number of present descriptors of the block; 0 for what is missing.
struct Factors<'a> {
    received: &'a Received,
    columns: usize,
    scaled: bool,
}

impl Source for Factors<'_> {
    #[inline(always)]
    fn fill(&self, y: usize, layout: &Layout, to: &mut [f32], memory: &mut Vec<f32>) {
        let columns = self.columns;
        memory.resize(2 * columns, 0.0);
        let (factors, values) = memory.split_at_mut(columns);
        let masks = &self.received.masks()[y * columns..][..columns];
        for d in 0..DESCRIPTORS {
            for (factor, mask) in factors.iter_mut().zip(masks) {
                let scale = if self.scaled { DESCRIPTORS as f32 / mask.count_ones() as f32 } else { 1.0 };
                *factor = if mask >> d & 1 == 1 { scale } else { 0.0 };
            }
            let words = &self.received.words(d)[y * columns..][..columns];
            for bit in 0..BITS {
                for ((value, factor), word) in values.iter_mut().zip(&*factors).zip(words) {
                    *value = if word >> bit & 1 == 1 { *factor } else { -*factor };
                }
                layout.put(to, d * BITS + bit, values, |value| value);
            }
        }
    }
}

/// Two lines of pixels.
struct Pixels;

/// Columns of output, each of two pixels, that are turned at a time.
const AT_A_TIME: usize = 64;

impl Emit for Pixels {
    type To = u8;

    #[inline(always)]
    fn emit(&self, output: &Output<'_>, to: &mut [u8]) {
        let (upper, lower) = to.split_at_mut(to.len() / 2);
        let width = output.channel(0).len();
        let mut levels = [[0; AT_A_TIME]; 12];
        for start in (0..width).step_by(AT_A_TIME) {
            let end = width.min(start + AT_A_TIME);
            for (channel, levels) in levels.iter_mut().enumerate() {
                for (to, &value) in levels.iter_mut().zip(&output.channel(channel)[start..end]) {
                    *to = level(value);
                }
            }
            for (line, row) in [(&mut *upper, 0), (&mut *lower, 2)] {
                let [a, b, c, d, e, f] = [0, 4, 8, 1, 5, 9].map(|part| &levels[part + row]);
                let pairs = line[start * 6..end * 6].as_chunks_mut::<6>().0;
                for (x, pair) in pairs.iter_mut().enumerate().take(AT_A_TIME) {
                    *pair = [a[x], b[x], c[x], d[x], e[x], f[x]];
                }
            }
        }
    }
}

/// 255 / (1 + exp(-value)), rounded. A power of two is split into exponent and a polynomial for the rest, so
/// that every machine gives the same; the error is below a hundredth of a step.
#[inline(always)]
fn level(value: f32) -> u8 {
    // Adding and subtracting 1.5 * 2^23 rounds to a whole number.
    const WHOLE: f32 = 12_582_912.0;
    let power = (-value * std::f32::consts::LOG2_E).clamp(-30.0, 30.0);
    let shifted = power + WHOLE;
    let rest = power - (shifted - WHOLE);
    // exp(rest * ln 2) by its series; |rest| <= 1/2.
    let x = rest * std::f32::consts::LN_2;
    let series = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))));
    let exponent = shifted.to_bits().wrapping_sub(WHOLE.to_bits()).wrapping_add(127) << 23;
    let exp = series * f32::from_bits(exponent);
    // Rounded as above; the low bits are the number.
    (255.0 / (1.0 + exp) + WHOLE).to_bits() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_logistic_function() {
        for step in -4_000..=4_000 {
            let value = step as f32 / 200.0;
            let exact = 255.0 / (1.0 + f64::from(-value).exp());
            let near = f64::from(level(value)) - exact;
            assert!(near.abs() < 0.51, "{value}: {} instead of {exact}", level(value));
        }
        assert_eq!([f32::MAX, f32::MIN, f32::INFINITY, 0.0].map(level), [255, 0, 255, 128]);
    }
}
