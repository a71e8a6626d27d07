//! Descriptors to pictures.

use std::sync::Arc;

use crate::conv::{Emit, Instructions, Output, Stage};
use crate::encoder::leaky;
use crate::picture::blocks;
use crate::rows::{Layout, Scratch, in_bands};
use crate::{BITS, BLOCK, DESCRIPTORS, Model, Picture, Received};

/// Turns what arrived into pictures. Memory is kept between pictures of one size.
#[derive(Debug)]
pub struct Decoder {
    model: Arc<Model>,
    stages: Vec<Stage>,
    scratches: Vec<Scratch>,
    /// Red, green and blue of whole blocks.
    pixels: Vec<u8>,
    scaled: bool,
    /// Columns and rows of blocks that the stages are prepared for.
    blocks: (usize, usize),
}

impl Decoder {
    /// A decoder that computes on so many threads (at least one), the caller's among them.
    pub fn new(model: Arc<Model>, threads: usize) -> Decoder {
        Decoder::with(model, threads, Instructions::best())
    }

    pub(crate) fn with(model: Arc<Model>, threads: usize, instructions: Instructions) -> Decoder {
        let stages = model.decoder.iter().map(|layer| Stage::new(layer, 1, instructions)).collect();
        let scratches = vec![Scratch::new(); threads.max(1)];
        Decoder { model, stages, scratches, pixels: Vec::new(), scaled: true, blocks: (0, 0) }
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

    /// The picture of what arrived. Where nothing of a block did, its surroundings and the network's idea of
    /// nothing, a grey, are shown.
    pub fn decode(&mut self, received: &Received) -> Picture {
        let (width, height) = (received.width(), received.height());
        let (columns, rows) = blocks(width, height);
        if self.blocks != (columns, rows) {
            for (stage, scale) in self.stages.iter_mut().zip([1, 2, 4, 8]) {
                stage.resize(columns * scale, rows * scale);
            }
            self.pixels = vec![0; columns * rows * BLOCK * BLOCK * 3];
            self.blocks = (columns, rows);
        }
        self.take(received);
        for at in 1..self.stages.len() {
            let (before, after) = self.stages.split_at_mut(at);
            let (stage, input) = (&before[at - 1], &mut after[0].input);
            let emit = Shuffled { channels: stage.outputs() / 4, layout: input.layout };
            stage.run(&mut self.scratches, &emit, (input.inner(), 2 * emit.layout.row));
        }
        let line = columns * BLOCK * 3;
        let last = self.stages.last().expect("there are four");
        last.run(&mut self.scratches, &Pixels, (&mut self.pixels, 2 * line));
        let mut rgb = Vec::with_capacity(width * height * 3);
        let lines = self.pixels.chunks_exact(line).take(height);
        lines.for_each(|line| rgb.extend_from_slice(&line[..width * 3]));
        Picture { width, height, rgb }
    }

    /// Writes -1 and 1 for bits, times 8 over the number of present descriptors, and 0 for what is missing,
    /// into the first stage's input.
    fn take(&mut self, received: &Received) {
        let (columns, rows) = self.blocks;
        let scaled = self.scaled;
        let input = &mut self.stages[0].input;
        let layout = input.layout;
        in_bands(&mut self.scratches, (input.inner(), layout.row, rows), |band, to, scratch| {
            scratch.resize(scratch.len().max(2 * columns), 0.0);
            let (factors, values) = scratch[..2 * columns].split_at_mut(columns);
            for (y, to) in band.zip(to.chunks_exact_mut(layout.row)) {
                let masks = &received.masks()[y * columns..][..columns];
                for d in 0..DESCRIPTORS {
                    for (factor, mask) in factors.iter_mut().zip(masks) {
                        let scale = if scaled { DESCRIPTORS as f32 / mask.count_ones() as f32 } else { 1.0 };
                        *factor = if mask >> d & 1 == 1 { scale } else { 0.0 };
                    }
                    let words = &received.words(d)[y * columns..][..columns];
                    for bit in 0..BITS {
                        for ((value, factor), word) in values.iter_mut().zip(&*factors).zip(words) {
                            *value = if word >> bit & 1 == 1 { *factor } else { -*factor };
                        }
                        layout.put(to, d * BITS + bit, values, |value| value);
                    }
                }
            }
        });
    }
}

/// Writes a layer's channels behind a leaky ReLU, four by four as the pixels of 2x2, into the next one's
/// input.
struct Shuffled {
    channels: usize,
    layout: Layout,
}

impl Emit for Shuffled {
    type To = f32;

    #[inline(always)]
    fn emit(&self, output: &Output<'_>, _: usize, to: &mut [f32]) {
        let (upper, lower) = to.split_at_mut(self.layout.row);
        for channel in 0..self.channels {
            let part = |number: usize| output.channel(channel * 4 + number);
            self.layout.put_pair(upper, channel, [part(0), part(1)], leaky);
            self.layout.put_pair(lower, channel, [part(2), part(3)], leaky);
        }
    }
}

/// Writes two rows of pixels.
struct Pixels;

impl Emit for Pixels {
    type To = u8;

    #[inline(always)]
    fn emit(&self, output: &Output<'_>, _: usize, to: &mut [u8]) {
        let (upper, lower) = to.split_at_mut(to.len() / 2);
        for (line, row) in [(upper, 0), (lower, 2)] {
            for channel in 0..3 {
                let part = |number: usize| output.channel(channel * 4 + number);
                let pairs = line.as_chunks_mut::<6>().0.iter_mut();
                for ((pair, &a), &b) in pairs.zip(part(row)).zip(part(row + 1)) {
                    (pair[channel], pair[3 + channel]) = (level(a), level(b));
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
    (255.0 / (1.0 + exp) + 0.5) as u8
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
