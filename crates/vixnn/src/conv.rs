//! Convolutions. A tile of several channels and columns of the output stays in registers while all its
//! products are added; a machine's widest vectors are used, as found when the program runs.

use std::ops::Range;

use crate::rows::{Rows, Scratch, in_bands};
use crate::weights::Layer;

/// Instructions to compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// What every processor has.
    Portable,
    /// 256-bit vectors with fused multiplication and addition.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// Those that this machine has, the fastest last.
    pub fn here() -> Vec<Instructions> {
        #[allow(unused_mut, reason = "nothing is added elsewhere")]
        let mut here = vec![Instructions::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            here.push(Instructions::Avx2);
            if is_x86_feature_detected!("avx512f") {
                here.push(Instructions::Avx512);
            }
        }
        here
    }

    /// The fastest that this machine has.
    pub fn best() -> Instructions {
        Instructions::here().pop().unwrap_or(Instructions::Portable)
    }

    /// How many output channels a tile has, so that as few as possible of `outputs` are filled up with
    /// nothing.
    fn block(self, outputs: usize) -> usize {
        let choices: &[usize] = match self {
            Instructions::Portable => &[5, 4],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => &[6, 5, 4],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => &[12, 10, 8],
        };
        let wasted = |block: &&usize| outputs.next_multiple_of(**block) - outputs;
        *choices.iter().min_by_key(wasted).expect("there are choices")
    }
}

/// A convolution, its weights in the order in which they are used.
#[derive(Debug)]
struct Convolution {
    instructions: Instructions,
    /// Output channels of a tile.
    block: usize,
    /// By block of output channels, factor, output channel.
    weights: Vec<f32>,
    /// A bias for each output channel, filled up to whole blocks.
    biases: Vec<f32>,
}

impl Convolution {
    fn new(layer: &Layer, instructions: Instructions) -> Convolution {
        let block = instructions.block(layer.outputs);
        let whole = layer.outputs.next_multiple_of(block);
        let factors = layer.inputs * layer.kernel * layer.kernel;
        let weight = |output: usize, factor: usize| match output < layer.outputs {
            true => layer.weights[output * factors + factor],
            false => 0.0,
        };
        let places = (0..whole / block).flat_map(|b| (0..factors).map(move |factor| (b, factor)));
        let weights = places.flat_map(|(b, factor)| (0..block).map(move |o| (b * block + o, factor)));
        let mut biases = layer.biases.clone();
        biases.resize(whole, 0.0);
        let weights = weights.map(|(output, factor)| weight(output, factor)).collect();
        Convolution { instructions, block, weights, biases }
    }
}

/// One row of a convolution's output.
pub(crate) struct Output<'a> {
    values: &'a [f32],
    pitch: usize,
    width: usize,
}

impl Output<'_> {
    /// The columns of one channel.
    #[inline(always)]
    pub fn channel(&self, channel: usize) -> &[f32] {
        &self.values[channel * self.pitch..][..self.width]
    }
}

/// What becomes of a row of output. Implementations are inlined into code for each kind of instructions.
pub(crate) trait Emit: Sync {
    /// What is written.
    type To: Send;
    /// Writes what output row `y` becomes.
    fn emit(&self, output: &Output<'_>, y: usize, to: &mut [Self::To]);
}

/// A convolution over pictures of one size: weights, input, and where what lies.
#[derive(Debug)]
pub(crate) struct Stage {
    convolution: Convolution,
    kernel: usize,
    inputs: usize,
    outputs: usize,
    stride: usize,
    pub input: Rows,
    offsets: Vec<u32>,
    /// Columns and rows of the output.
    width: usize,
    height: usize,
}

/// What the code for each kind of instructions needs to know.
struct Job<'a> {
    stage: &'a Stage,
    /// Floats of a channel's row in the scratch.
    pitch: usize,
    rows: Range<usize>,
    /// Elements of one output row's result.
    row: usize,
}

impl Stage {
    pub fn new(layer: &Layer, stride: usize, instructions: Instructions) -> Stage {
        Stage {
            convolution: Convolution::new(layer, instructions),
            kernel: layer.kernel,
            inputs: layer.inputs,
            outputs: layer.outputs,
            stride,
            input: Rows::default(),
            offsets: Vec::new(),
            width: 0,
            height: 0,
        }
    }

    /// Prepares for an output of so many columns and rows.
    pub fn resize(&mut self, width: usize, height: usize) {
        let input = (width * self.stride, height * self.stride);
        self.input = Rows::new(self.inputs, input, self.kernel, self.stride);
        self.offsets = self.input.layout.offsets(self.kernel);
        (self.width, self.height) = (width, height);
    }

    /// Channels of the output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Computes the output, each row of which becomes `row` elements of `to`.
    pub fn run<E: Emit>(&self, scratches: &mut [Scratch], emit: &E, (to, row): (&mut [E::To], usize)) {
        let pitch = self.width.next_multiple_of(WIDEST);
        in_bands(scratches, (to, row, self.height), |rows, to, scratch| {
            scratch.resize(self.convolution.biases.len() * pitch, 0.0);
            let job = Job { stage: self, pitch, rows, row };
            match self.convolution.instructions {
                Instructions::Portable => portable::band(&job, emit, to, scratch),
                // SAFETY: `Instructions::here` found what these need before the value was made.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => unsafe { avx2::band(&job, emit, to, scratch) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => unsafe { avx512::band(&job, emit, to, scratch) },
            }
        });
    }
}

/// Columns of the widest tile.
const WIDEST: usize = 32;

/// The loops, once for each kind of instructions. A tile is `OC` channels by `VS` vectors of columns.
macro_rules! instructions {
    (
        $name:ident, [$($attribute:meta)?], $vector:ty, $lanes:literal, blocks $($block:literal)|*,
        $splat:expr, $load:expr, $store:expr, $multiply_add:expr
    ) => {
        mod $name {
            use super::*;

            $(#[$attribute])?
            #[inline]
            fn tile<const OC: usize, const VS: usize>(
                offsets: &[u32],
                (weights, biases): (&[f32], &[f32]),
                input: &[f32],
                (out, pitch): (&mut [f32], usize),
            ) {
                let biases: &[f32; OC] = biases.first_chunk().expect("a bias for each channel");
                let mut sums: [[$vector; VS]; OC] = [[$splat(0.0); VS]; OC];
                for o in 0..OC {
                    sums[o] = [$splat(biases[o]); VS];
                }
                for (&offset, weights) in offsets.iter().zip(weights.as_chunks::<OC>().0) {
                    let columns = &input[offset as usize..][..VS * $lanes];
                    let columns = columns.as_chunks::<$lanes>().0;
                    let mut factors = [$splat(0.0); VS];
                    for v in 0..VS {
                        factors[v] = $load(&columns[v]);
                    }
                    for o in 0..OC {
                        let weight = $splat(weights[o]);
                        for v in 0..VS {
                            sums[o][v] = $multiply_add(weight, factors[v], sums[o][v]);
                        }
                    }
                }
                for (o, sums) in sums.iter().enumerate() {
                    let columns = out[o * pitch..][..VS * $lanes].as_chunks_mut::<$lanes>().0;
                    columns.iter_mut().zip(sums).for_each(|(to, &sum)| $store(to, sum));
                }
            }

            /// One row of all output channels.
            $(#[$attribute])?
            #[inline]
            fn row<const OC: usize>(job: &Job<'_>, input: &[f32], out: &mut [f32]) {
                let Stage { convolution, offsets, width, .. } = job.stage;
                let weights = convolution.weights.chunks_exact(OC * offsets.len());
                let blocks = weights.zip(convolution.biases.chunks_exact(OC));
                for (weights, out) in blocks.zip(out.chunks_exact_mut(OC * job.pitch)) {
                    let mut at = 0;
                    while at < *width {
                        let (input, out) = (&input[at..], (&mut out[at..], job.pitch));
                        if width - at > $lanes {
                            tile::<OC, 2>(offsets, weights, input, out);
                            at += 2 * $lanes;
                        } else {
                            tile::<OC, 1>(offsets, weights, input, out);
                            at += $lanes;
                        }
                    }
                }
            }

            $(#[$attribute])?
            pub(super) fn band<E: Emit>(job: &Job<'_>, emit: &E, to: &mut [E::To], scratch: &mut [f32]) {
                for (y, to) in job.rows.clone().zip(to.chunks_exact_mut(job.row)) {
                    let input = job.stage.input.from(y);
                    match job.stage.convolution.block {
                        $($block => row::<$block>(job, input, scratch),)*
                        other => unreachable!("no tile has {other} channels"),
                    }
                    emit.emit(&Output { values: scratch, pitch: job.pitch, width: job.stage.width }, y, to);
                }
            }
        }
    };
}

/// Multiplication and addition of four; rounded once where that is as fast.
#[inline(always)]
fn multiply_add(weight: [f32; 4], factor: [f32; 4], sum: [f32; 4]) -> [f32; 4] {
    std::array::from_fn(|i| match cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
        true => weight[i].mul_add(factor[i], sum[i]),
        false => weight[i] * factor[i] + sum[i],
    })
}

instructions!(
    portable, [], [f32; 4], 4, blocks 5 | 4,
    |x: f32| [x; 4], |from: &[f32; 4]| *from, |to: &mut [f32; 4], v: [f32; 4]| *to = v, multiply_add
);

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

// SAFETY of loads and stores: each goes to an array of as many floats.
#[cfg(target_arch = "x86_64")]
instructions!(
    avx2, [target_feature(enable = "avx2,fma")], __m256, 8, blocks 6 | 5 | 4,
    _mm256_set1_ps,
    |from: &[f32; 8]| unsafe { _mm256_loadu_ps(from.as_ptr()) },
    |to: &mut [f32; 8], v| unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) },
    _mm256_fmadd_ps
);

// SAFETY of loads and stores: as above.
#[cfg(target_arch = "x86_64")]
instructions!(
    avx512, [target_feature(enable = "avx512f")], __m512, 16, blocks 12 | 10 | 8,
    _mm512_set1_ps,
    |from: &[f32; 16]| unsafe { _mm512_loadu_ps(from.as_ptr()) },
    |to: &mut [f32; 16], v| unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) },
    _mm512_fmadd_ps
);
