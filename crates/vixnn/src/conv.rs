//! Convolutions. A tile of several channels and columns of the output stays in registers while all its
//! products are added; a machine's widest vectors are used, as found when the program runs.

use crate::network::{Emit, Job, Source, Worker, strip_with};
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
            let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
            if avx512 && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq") {
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
pub(crate) struct Convolution {
    /// Output channels of a tile.
    block: usize,
    /// By block of output channels, factor, output channel.
    weights: Vec<f32>,
    /// A bias for each output channel, filled up to whole blocks.
    biases: Vec<f32>,
}

impl Convolution {
    /// Output channels, filled up to whole tiles.
    pub fn channels(&self) -> usize {
        self.biases.len()
    }

    pub fn new(layer: &Layer, instructions: Instructions) -> Convolution {
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
        Convolution { block, weights, biases }
    }
}

/// Columns of the widest tile: an output's rows are filled up to whole ones.
pub(crate) const WIDEST: usize = 32;

/// What one row of a convolution is computed of.
pub(crate) struct Row<'a> {
    pub convolution: &'a Convolution,
    /// Where each factor lies from the input's beginning.
    pub offsets: &'a [u32],
    pub input: &'a [f32],
    /// Columns of the output.
    pub width: usize,
    /// Floats from one channel's columns to the next one's.
    pub pitch: usize,
}

/// Computes one block row of a network's output.
pub(crate) fn strip<S: Source, E: Emit>(
    instructions: Instructions,
    job: &Job<'_, S, E>,
    at: usize,
    worker: &mut Worker,
    to: &mut [E::To],
) {
    match instructions {
        Instructions::Portable => portable::strip(job, at, worker, to),
        // SAFETY: `Instructions::here` found what these need before the value was made.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2::strip(job, at, worker, to) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::strip(job, at, worker, to) },
    }
}

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
                // By number: a reference to the sums, passed on, would keep them in memory all the while.
                for o in 0..OC {
                    let columns = out[o * pitch..][..VS * $lanes].as_chunks_mut::<$lanes>().0;
                    for v in 0..VS {
                        $store(&mut columns[v], sums[o][v]);
                    }
                }
            }

            /// One row of all output channels.
            $(#[$attribute])?
            #[inline]
            fn row<const OC: usize>(of: &Row<'_>, out: &mut [f32]) {
                let weights = of.convolution.weights.chunks_exact(OC * of.offsets.len());
                let blocks = weights.zip(of.convolution.biases.chunks_exact(OC));
                for (weights, out) in blocks.zip(out.chunks_exact_mut(OC * of.pitch)) {
                    let mut at = 0;
                    while at < of.width {
                        let (input, out) = (&of.input[at..], (&mut out[at..], of.pitch));
                        if of.width - at > $lanes {
                            tile::<OC, 2>(of.offsets, weights, input, out);
                            at += 2 * $lanes;
                        } else {
                            tile::<OC, 1>(of.offsets, weights, input, out);
                            at += $lanes;
                        }
                    }
                }
            }

            $(#[$attribute])?
            pub(super) fn strip<S: Source, E: Emit>(
                job: &Job<'_, S, E>,
                at: usize,
                worker: &mut Worker,
                to: &mut [E::To],
            ) {
                strip_with(job, at, worker, to, |of: &Row<'_>, out: &mut [f32]| match of.convolution.block {
                    $($block => row::<$block>(of, out),)*
                    other => unreachable!("no tile has {other} channels"),
                });
            }
        }
    };
}

/// 128-bit vectors of WebAssembly, in place of what every processor has. Multiplication and addition are
/// rounded as the browser's processor does it fastest, where that is allowed.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vectors {
    use std::arch::wasm32::{f32x4_splat, v128, v128_load, v128_store};

    pub type Four = v128;

    #[inline(always)]
    pub fn splat(x: f32) -> v128 {
        f32x4_splat(x)
    }

    #[inline(always)]
    pub fn load(from: &[f32; 4]) -> v128 {
        // SAFETY: four floats are there, wherever they lie.
        unsafe { v128_load(from.as_ptr().cast()) }
    }

    #[inline(always)]
    pub fn store(to: &mut [f32; 4], v: v128) {
        // SAFETY: as above.
        unsafe { v128_store(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    pub fn multiply_add(weight: v128, factor: v128, sum: v128) -> v128 {
        #[cfg(target_feature = "relaxed-simd")]
        return std::arch::wasm32::f32x4_relaxed_madd(weight, factor, sum);
        #[cfg(not(target_feature = "relaxed-simd"))]
        std::arch::wasm32::f32x4_add(std::arch::wasm32::f32x4_mul(weight, factor), sum)
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
instructions!(
    portable, [], vectors::Four, 4, blocks 5 | 4,
    vectors::splat, vectors::load, vectors::store, vectors::multiply_add
);

/// Multiplication and addition of four; rounded once where that is as fast.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline(always)]
fn multiply_add(weight: [f32; 4], factor: [f32; 4], sum: [f32; 4]) -> [f32; 4] {
    std::array::from_fn(|i| match cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
        true => weight[i].mul_add(factor[i], sum[i]),
        false => weight[i] * factor[i] + sum[i],
    })
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
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
    avx512, [target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")], __m512, 16, blocks 12 | 10 | 8,
    _mm512_set1_ps,
    |from: &[f32; 16]| unsafe { _mm512_loadu_ps(from.as_ptr()) },
    |to: &mut [f32; 16], v| unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) },
    _mm512_fmadd_ps
);
