//! Pictures to descriptors.

use std::sync::Arc;

use crate::conv::Instructions;
use crate::network::{Emit, Network, Output, Source};
use crate::picture::{blocks, mirrored};
use crate::rows::Layout;
use crate::{BITS, BLOCK, DESCRIPTORS, Descriptors, Model, Picture};

/// Strides of the layers, and how many columns and rows of each one's output a block has.
const STRIDES: [usize; 5] = [2, 2, 2, 2, 1];
const SCALES: [usize; 5] = [8, 4, 2, 1, 1];

/// Turns pictures into descriptors. Memory is kept between pictures of one size.
#[derive(Debug)]
pub struct Encoder {
    model: Arc<Model>,
    network: Network,
    /// Of each block its eight words.
    words: Vec<[u16; DESCRIPTORS]>,
}

impl Encoder {
    /// An encoder that computes on so many threads (at least one), the caller's among them.
    pub fn new(model: Arc<Model>, threads: usize) -> Encoder {
        Encoder::with(model, threads, Instructions::best())
    }

    pub(crate) fn with(model: Arc<Model>, threads: usize, instructions: Instructions) -> Encoder {
        let layers: Vec<_> = model.encoder.iter().zip(STRIDES).collect();
        let network = Network::new(&layers, threads, instructions);
        Encoder { model, network, words: Vec::new() }
    }

    /// The model it was made with.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// All descriptors of a picture. Where its sides are no multiples of [`BLOCK`], it is continued to the
    /// right and below by its mirror image.
    ///
    /// # Panics
    /// Where the picture is not [whole](Picture::is_whole).
    pub fn encode(&mut self, picture: &Picture) -> Descriptors {
        assert!(picture.is_whole(), "a picture needs sides of 16 to 8192 pixels and three bytes for each");
        let (columns, rows) = blocks(picture.width, picture.height);
        self.network.resize((columns, rows), &SCALES);
        self.words.resize(columns * rows, [0; DESCRIPTORS]);
        self.network.run((&Pixels { picture, columns }, &Bits), &mut self.words, (1, columns));
        let bits = std::array::from_fn(|d| self.words.iter().map(|words| words[d]).collect());
        Descriptors { width: picture.width, height: picture.height, bits }
    }
}

/// A picture as the network takes it, from -0.5 to 0.5.
struct Pixels<'a> {
    picture: &'a Picture,
    /// Of blocks.
    columns: usize,
}

impl Source for Pixels<'_> {
    #[inline(always)]
    fn fill(&self, y: usize, layout: &Layout, to: &mut [f32], memory: &mut Vec<f32>) {
        let (picture, width) = (self.picture, self.columns * BLOCK);
        memory.resize(width, 0.0);
        let row = &picture.rgb[mirrored(y, picture.height) * picture.width * 3..][..picture.width * 3];
        for channel in 0..3 {
            let values = memory.iter_mut().zip(row.as_chunks::<3>().0);
            values.for_each(|(value, pixel)| *value = f32::from(pixel[channel]) / 255.0 - 0.5);
            for x in picture.width..width {
                memory[x] = memory[mirrored(x, picture.width)];
            }
            layout.put(to, channel, memory, |value| value);
        }
    }
}

/// Bits: 1 where a value is not below zero. The thesis has tanh before, which changes no sign.
struct Bits;

impl Emit for Bits {
    type To = [u16; DESCRIPTORS];

    #[inline(always)]
    fn emit(&self, output: &Output<'_>, to: &mut [Self::To]) {
        to.fill([0; DESCRIPTORS]);
        for channel in 0..DESCRIPTORS * BITS {
            let (d, bit) = (channel / BITS, channel % BITS);
            for (words, &value) in to.iter_mut().zip(output.channel(channel)) {
                words[d] |= u16::from(value >= 0.0) << bit;
            }
        }
    }
}
