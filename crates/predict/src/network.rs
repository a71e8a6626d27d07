//! A small convolutional network, evaluated.

use std::path::Path;

use crate::features::{FEATURES, Input, WINDOWS};
use crate::file::{self, About};
use crate::predictor::{PredictError, Predictor};

/// Figures are clipped so far from their mean, in standard deviations: nothing larger was seen in training.
const CLIP: f32 = 8.0;

/// A step of the network: a convolution over windows, or a dense layer, which is one over a single window.
/// Activations lie window by window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    /// Windows that go into one.
    pub kernel: usize,
    pub stride: usize,
    /// Windows that come out.
    pub places: usize,
    /// By window of the kernel, input and output: what one input adds to all outputs lies together.
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

/// Outputs that are summed up at a time: their sums stay in registers, four of the sixteen that x86-64 has.
const TOGETHER: usize = 16;

impl Layer {
    /// Each output's terms are added in the order of the inputs, however many outputs are taken at a time.
    fn run(&self, from: &[f32], to: &mut [f32]) {
        let span = self.kernel * self.inputs;
        for (place, out) in to[..self.places * self.outputs].chunks_exact_mut(self.outputs).enumerate() {
            out.copy_from_slice(&self.biases);
            let seen = &from[place * self.stride * self.inputs..][..span];
            let (blocks, rest) = out.as_chunks_mut::<TOGETHER>();
            let first = blocks.len() * TOGETHER;
            for (block, sums) in blocks.iter_mut().enumerate() {
                self.add_block(seen, block * TOGETHER, sums);
            }
            if rest.is_empty() {
                continue;
            }
            for (value, weights) in seen.iter().zip(self.weights.chunks_exact(self.outputs)) {
                rest.iter_mut().zip(&weights[first..]).for_each(|(sum, weight)| *sum += value * weight);
            }
        }
    }

    /// Adds what the inputs `seen` give to the outputs from number `first` on.
    fn add_block(&self, seen: &[f32], first: usize, sums: &mut [f32; TOGETHER]) {
        let mut added = *sums;
        for (value, weights) in seen.iter().zip(self.weights.chunks_exact(self.outputs)) {
            let weights: &[f32; TOGETHER] = weights[first..][..TOGETHER].try_into().expect("so many");
            for (sum, weight) in added.iter_mut().zip(weights) {
                *sum += value * weight;
            }
        }
        *sums = added;
    }
}

/// A trained network: convolutions and dense layers with ReLU between them and a logistic function at the
/// end. Evaluating one allocates nothing.
///
/// ```
/// use framewire_predict::{Input, Network, Predictor};
///
/// let mut network = Network::shipped();
/// let quiet = network.probability(&Input::default());
/// assert!((0.0..=1.0).contains(&quiet));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub(crate) about: About,
    pub(crate) layers: Vec<Layer>,
    /// Activations before and after a layer.
    buffers: [Vec<f32>; 2],
}

impl Network {
    /// Of layers whose sizes fit each other.
    pub(crate) fn new(about: About, layers: Vec<Layer>) -> Network {
        let sizes = layers.iter().map(|layer| layer.places * layer.outputs);
        let buffer = vec![0.0; sizes.fold(WINDOWS * FEATURES, usize::max)];
        Network { about, layers, buffers: [buffer.clone(), buffer] }
    }

    /// The network that ships with the crate.
    pub fn shipped() -> Network {
        let text = include_str!("../weights/cnn.json");
        Network::parse(text, "cnn.json").expect("the shipped network is tested")
    }

    /// Reads a file of weights.
    ///
    /// # Errors
    /// [`PredictError::File`] if there is no such file, or it holds anything but a network of this version.
    pub fn read(path: &Path) -> Result<Network, PredictError> {
        file::read(path)
    }

    /// A network from the text of a file; `name` stands for the file in errors.
    ///
    /// # Errors
    /// [`PredictError::File`] if the text is anything but a network of this version.
    pub fn parse(text: &str, name: &str) -> Result<Network, PredictError> {
        file::parse(text, name)
    }

    /// How it was made, and what it was found to do.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Weights and biases together.
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(|layer| layer.weights.len() + layer.biases.len()).sum()
    }
}

/// Squashed, so that a round trip of a hundred times the least is not a hundred times the evidence.
fn squash(figure: f32) -> f32 {
    figure.abs().ln_1p().copysign(figure)
}

impl Predictor for Network {
    fn probability(&mut self, input: &Input) -> f32 {
        let Network { about, layers, buffers: [from, to] } = self;
        for (row, to) in input.0.iter().zip(from.chunks_exact_mut(FEATURES)) {
            for (index, (figure, to)) in row.iter().zip(to).enumerate() {
                let scaled = (squash(*figure) - about.mean[index]) / about.deviation[index];
                *to = scaled.clamp(-CLIP, CLIP);
            }
        }
        let last = layers.len() - 1;
        for (index, layer) in layers.iter().enumerate() {
            layer.run(from, to);
            if index < last {
                to[..layer.places * layer.outputs].iter_mut().for_each(|value| *value = value.max(0.0));
            }
            std::mem::swap(from, to);
        }
        let probability = 1.0 / (1.0 + (-from[0]).exp());
        // Weights that overflow know nothing.
        if probability.is_nan() { 0.0 } else { probability }
    }

    fn threshold(&self) -> f32 {
        self.about.threshold
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// What `python/research/loss_predictor` writes beside the weights.
    #[derive(Deserialize)]
    struct Check {
        inputs: Vec<[[f32; FEATURES]; WINDOWS]>,
        outputs: Vec<f32>,
    }

    #[test]
    fn a_layer_adds_in_the_order_of_its_inputs_however_many_outputs_it_has() {
        for outputs in [1, 7, 16, 24, 33] {
            let (inputs, kernel, stride, places) = (5, 3, 2, 4);
            let number = |n: usize| ((n * 7919 % 1013) as f32 - 506.0) / 97.0;
            let weights: Vec<f32> = (0..kernel * inputs * outputs).map(number).collect();
            let biases: Vec<f32> = (0..outputs).map(|n| number(n + 31)).collect();
            let layer = Layer { inputs, outputs, kernel, stride, places, weights, biases };
            let from: Vec<f32> = (0..(kernel + stride * places) * inputs).map(|n| number(n + 5)).collect();
            let mut to = vec![0.0; places * outputs];
            layer.run(&from, &mut to);
            for (index, said) in to.iter().enumerate() {
                let (place, output) = (index / outputs, index % outputs);
                let terms = (0..kernel * inputs)
                    .map(|n| from[place * stride * inputs + n] * layer.weights[n * outputs + output]);
                let sum = terms.fold(layer.biases[output], |sum, term| sum + term);
                assert_eq!(said.to_bits(), sum.to_bits(), "{outputs} outputs, number {index}");
            }
        }
    }

    #[test]
    fn it_says_what_pytorch_said() {
        let check: Check = serde_json::from_str(include_str!("../weights/cnn.check.json")).unwrap();
        let mut network = Network::shipped();
        assert!(check.inputs.len() >= 16 && check.inputs.len() == check.outputs.len());
        let mut spread = (1.0f32, 0.0f32);
        for (input, expected) in check.inputs.into_iter().zip(check.outputs) {
            let said = network.probability(&Input(input));
            assert!((said - expected).abs() < 1e-4, "{said}, not {expected}");
            spread = (spread.0.min(said), spread.1.max(said));
        }
        assert!(spread.0 < 0.3 && spread.1 > 0.7, "the inputs do not tell networks apart: {spread:?}");
    }
}
