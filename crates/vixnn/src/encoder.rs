//! Pictures to descriptors.

use std::sync::Arc;

use crate::conv::{Emit, Instructions, Output, Stage};
use crate::picture::{blocks, mirrored};
use crate::rows::{Layout, Scratch, in_bands};
use crate::{BITS, BLOCK, DESCRIPTORS, Descriptors, Model, Picture};

/// Slope of a leaky ReLU below zero.
const LEAK: f32 = 0.2;

/// A leaky ReLU.
#[inline(always)]
pub(crate) fn leaky(value: f32) -> f32 {
    if value < 0.0 { value * LEAK } else { value }
}

/// Turns pictures into descriptors. Memory is kept between pictures of one size.
#[derive(Debug)]
pub struct Encoder {
    model: Arc<Model>,
    stages: Vec<Stage>,
    scratches: Vec<Scratch>,
    /// Of each block its eight words.
    words: Vec<[u16; DESCRIPTORS]>,
    /// Columns and rows of blocks that the stages are prepared for.
    blocks: (usize, usize),
}

impl Encoder {
    /// An encoder that computes on so many threads (at least one), the caller's among them.
    pub fn new(model: Arc<Model>, threads: usize) -> Encoder {
        Encoder::with(model, threads, Instructions::best())
    }

    pub(crate) fn with(model: Arc<Model>, threads: usize, instructions: Instructions) -> Encoder {
        let strides = [2, 2, 2, 2, 1];
        let stages = model.encoder.iter().zip(strides);
        let stages = stages.map(|(layer, stride)| Stage::new(layer, stride, instructions)).collect();
        let scratches = vec![Scratch::new(); threads.max(1)];
        Encoder { model, stages, scratches, words: Vec::new(), blocks: (0, 0) }
    }

    /// The model it was made with.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// All descriptors of a picture. Sides that are no multiple of [`BLOCK`] are mirrored at the right and
    /// below.
    ///
    /// # Panics
    /// Where the picture is not [whole](Picture::is_whole).
    pub fn encode(&mut self, picture: &Picture) -> Descriptors {
        assert!(picture.is_whole(), "a picture needs sides of 16 to 8192 pixels and three bytes for each");
        let (columns, rows) = blocks(picture.width, picture.height);
        if self.blocks != (columns, rows) {
            for (stage, scale) in self.stages.iter_mut().zip([8, 4, 2, 1, 1]) {
                stage.resize(columns * scale, rows * scale);
            }
            self.words = vec![[0; DESCRIPTORS]; columns * rows];
            self.blocks = (columns, rows);
        }
        self.take(picture);
        for at in 1..self.stages.len() {
            let (before, after) = self.stages.split_at_mut(at);
            let (stage, input) = (&before[at - 1], &mut after[0].input);
            let emit = Activated { channels: stage.outputs(), layout: input.layout };
            stage.run(&mut self.scratches, &emit, (input.inner(), emit.layout.row));
        }
        let heads = self.stages.last().expect("there are five");
        heads.run(&mut self.scratches, &Bits, (&mut self.words, columns));
        let bits = std::array::from_fn(|d| self.words.iter().map(|words| words[d]).collect());
        Descriptors { width: picture.width, height: picture.height, bits }
    }

    /// Writes a picture into the first stage's input.
    fn take(&mut self, picture: &Picture) {
        let (columns, rows) = self.blocks;
        let width = columns * BLOCK;
        let input = &mut self.stages[0].input;
        let layout = input.layout;
        in_bands(&mut self.scratches, (input.inner(), layout.row, rows * BLOCK), |band, to, scratch| {
            scratch.resize(scratch.len().max(width), 0.0);
            for (y, to) in band.zip(to.chunks_exact_mut(layout.row)) {
                let from =
                    &picture.rgb[mirrored(y, picture.height) * picture.width * 3..][..picture.width * 3];
                let pixels = from.as_chunks::<3>().0;
                for channel in 0..3 {
                    let values = &mut scratch[..width];
                    for (value, pixel) in values.iter_mut().zip(pixels) {
                        *value = f32::from(pixel[channel]) / 255.0 - 0.5;
                    }
                    for x in picture.width..width {
                        values[x] = values[mirrored(x, picture.width)];
                    }
                    layout.put(to, channel, values, |value| value);
                }
            }
        });
    }
}

/// Writes a layer's channels behind a leaky ReLU into the next one's input.
struct Activated {
    channels: usize,
    layout: Layout,
}

impl Emit for Activated {
    type To = f32;

    #[inline(always)]
    fn emit(&self, output: &Output<'_>, _: usize, to: &mut [f32]) {
        for channel in 0..self.channels {
            self.layout.put(to, channel, output.channel(channel), leaky);
        }
    }
}

/// Writes bits: 1 where a value is not below zero. tanh, which the thesis has before, changes no sign.
struct Bits;

impl Emit for Bits {
    type To = [u16; DESCRIPTORS];

    #[inline(always)]
    fn emit(&self, output: &Output<'_>, _: usize, to: &mut [Self::To]) {
        to.fill([0; DESCRIPTORS]);
        for channel in 0..DESCRIPTORS * BITS {
            let (d, bit) = (channel / BITS, channel % BITS);
            for (words, &value) in to.iter_mut().zip(output.channel(channel)) {
                words[d] |= u16::from(value >= 0.0) << bit;
            }
        }
    }
}
