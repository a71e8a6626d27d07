//! Weights as files: JSON, with how they were made and what they were found to do in front.
//!
//! ```text
//! {
//!   "format": "framewire-loss-network",
//!   "version": 1,
//!   "command": "python -m research.loss_predictor train ...",
//!   "data": "214 runs of 60 s ...",
//!   "seed": 1,
//!   "threshold": 0.9,
//!   "figures": {"auc": 0.9, ...},
//!   "mean": [8 numbers], "deviation": [8 numbers],
//!   "checksum": "0f1e2d3c",
//!   "layers": [
//!     {"kind": "conv", "inputs": 8, "outputs": 32, "kernel": 3, "stride": 1, "weights": [...], "biases": [...]},
//!     {"kind": "dense", "inputs": 64, "outputs": 1, "kernel": 1, "stride": 1, "weights": [...], "biases": [...]}
//!   ]
//! }
//! ```
//!
//! `weights` go by output, input and place in the kernel, as PyTorch has them; a dense layer behind a
//! convolution takes window by window. `checksum` is the CRC-32 (IEEE 802.3) of mean, deviation, and each
//! layer's weights and biases, as 32-bit floats, little endian.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::features::{FEATURES, Input, WINDOWS};
use crate::network::{Layer, Network};
use crate::predictor::{PredictError, Predictor};

const FORMAT: &str = "framewire-loss-network";
const VERSION: u32 = 1;
/// Largest file that is read, in bytes: some five times the shipped one.
const LARGEST: u64 = 2 << 20;
/// Most layers, and inputs or outputs of one: at least twice what was ever tried.
const MOST_LAYERS: usize = 12;
const MOST_WIDE: usize = 1_024;
/// What helps where a file is beyond repair.
const REMAKE: &str = "train it again (docs/loss-predictor.md), or leave the option out for the one built in";

/// How a network was made, and what it was found to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The command that trained it.
    pub command: String,
    /// What it was trained on.
    pub data: String,
    /// The seed of the training.
    pub seed: u64,
    /// The probability from which on a sender should act.
    pub threshold: f32,
    /// Figures on runs that it was not trained on.
    pub figures: BTreeMap<String, f64>,
    /// Means of the squashed features over the training's windows, by which inputs are shifted.
    pub mean: [f32; FEATURES],
    /// Standard deviations of the same, by which they are divided.
    pub deviation: [f32; FEATURES],
}

/// What every version of the format begins with.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u64,
}

/// The fields of a file. Those of [`About`] are named again: serde knows no unknown fields of what is
/// flattened.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    command: String,
    data: String,
    seed: u64,
    threshold: f32,
    figures: BTreeMap<String, f64>,
    mean: [f32; FEATURES],
    deviation: [f32; FEATURES],
    checksum: String,
    layers: Vec<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Conv,
    Dense,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Kind,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    weights: Vec<f32>,
    biases: Vec<f32>,
}

/// Errors about one file.
struct Judge<'a> {
    file: &'a str,
}

impl Judge<'_> {
    fn refuse<T>(
        &self,
        place: impl Into<String>,
        found: impl Into<String>,
        remedy: &str,
    ) -> Result<T, PredictError> {
        // A name or a value from the file may hold a line's end.
        let line = |text: String| text.replace(|c: char| c.is_control(), " ");
        Err(PredictError::File {
            file: line(self.file.to_owned()),
            place: line(place.into()),
            found: line(found.into()),
            remedy: remedy.to_owned(),
        })
    }

    /// What the JSON reader said, which names line and column.
    fn torn<T>(&self, error: &serde_json::Error) -> Result<T, PredictError> {
        let said = error.to_string();
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
        self.refuse(format!("line {} column {}", error.line(), error.column()), what, REMAKE)
    }

    fn within(&self, field: &str, value: f64, low: f64, high: f64) -> Result<(), PredictError> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        self.refuse(field, format!("{value}"), &format!("{low} to {high} is possible; {REMAKE}"))
    }

    fn head(&self, text: &str) -> Result<(), PredictError> {
        let head: Head = serde_json::from_str(text).or_else(|error| self.torn(&error))?;
        if head.format != FORMAT {
            let found =
                if head.format.is_empty() { "missing".to_owned() } else { format!("`{}`", head.format) };
            return self.refuse("format", found, &format!("weights have `{FORMAT}`; {REMAKE}"));
        }
        if head.version != u64::from(VERSION) {
            let found = format!("{}", head.version);
            return self.refuse("version", found, &format!("this build reads {VERSION}; {REMAKE}"));
        }
        Ok(())
    }

    fn numbers(&self, file: &File) -> Result<(), PredictError> {
        self.within("threshold", f64::from(file.threshold), 0.0, 1.0)?;
        for (index, (mean, deviation)) in file.mean.iter().zip(&file.deviation).enumerate() {
            self.within(&format!("mean[{index}]"), f64::from(*mean), -1e3, 1e3)?;
            self.within(&format!("deviation[{index}]"), f64::from(*deviation), 1e-3, 1e3)?;
        }
        self.within("length of layers", file.layers.len() as f64, 1.0, MOST_LAYERS as f64)?;
        let parts = file.layers.iter().enumerate();
        parts.clone().try_for_each(|(index, layer)| self.layer(&format!("layers[{index}]"), layer))?;
        let found = checksum(file);
        if file.checksum != found {
            let said = format!("`{}`; the weights have {found}", file.checksum);
            return self.refuse("checksum", said, REMAKE);
        }
        Ok(())
    }

    fn layer(&self, at: &str, layer: &Written) -> Result<(), PredictError> {
        let field = |name: &str| format!("{at}.{name}");
        let whole =
            |name: &str, value: usize, high: usize| self.within(&field(name), value as f64, 1.0, high as f64);
        whole("inputs", layer.inputs, MOST_WIDE)?;
        whole("outputs", layer.outputs, MOST_WIDE)?;
        whole("kernel", layer.kernel, WINDOWS)?;
        whole("stride", layer.stride, WINDOWS)?;
        let takes = layer.inputs * layer.outputs * layer.kernel;
        let count = |name: &str, found: usize, takes: usize| match found == takes {
            true => Ok(()),
            false => self.refuse(
                field(name),
                format!("{found} numbers"),
                &format!("{takes} belong there; {REMAKE}"),
            ),
        };
        count("weights", layer.weights.len(), takes)?;
        count("biases", layer.biases.len(), layer.outputs)?;
        for (name, numbers) in [("weights", &layer.weights), ("biases", &layer.biases)] {
            for (index, number) in numbers.iter().enumerate() {
                self.within(&format!("{at}.{name}[{index}]"), f64::from(*number), -1e3, 1e3)?;
            }
        }
        Ok(())
    }

    /// The layers, each of which takes what the one before it gives.
    fn chain(&self, file: &File) -> Result<Vec<Layer>, PredictError> {
        let (mut windows, mut width) = (WINDOWS, FEATURES);
        let mut layers = Vec::with_capacity(file.layers.len());
        for (index, written) in file.layers.iter().enumerate() {
            let at = |field: &str| format!("layers[{index}].{field}");
            if written.kind == Kind::Dense {
                (windows, width) = (1, windows * width);
            }
            if written.inputs != width {
                let found = format!("{}", written.inputs);
                return self.refuse(
                    at("inputs"),
                    found,
                    &format!("the layer before it gives {width}; {REMAKE}"),
                );
            }
            if written.kernel > windows {
                let found = format!("{}", written.kernel);
                return self.refuse(at("kernel"), found, &format!("{windows} windows are left; {REMAKE}"));
            }
            (windows, width) = ((windows - written.kernel) / written.stride + 1, written.outputs);
            layers.push(written.layer(windows));
        }
        if (windows, width) != (1, 1) {
            let found = format!("the last one gives {windows} x {width}");
            return self.refuse("layers", found, &format!("one number is the answer; {REMAKE}"));
        }
        Ok(layers)
    }
}

impl Written {
    fn layer(&self, places: usize) -> Layer {
        let Written { inputs, outputs, kernel, stride, .. } = *self;
        let by_place = (0..kernel).flat_map(|place| (0..inputs).map(move |input| (place, input)));
        let of = |(place, input): (usize, usize)| {
            (0..outputs).map(move |output| self.weights[(output * inputs + input) * kernel + place])
        };
        let weights = by_place.flat_map(of).collect();
        Layer { inputs, outputs, kernel, stride, places, weights, biases: self.biases.clone() }
    }
}

/// CRC-32 of all that the answer depends on, in hexadecimal.
fn checksum(file: &File) -> String {
    let of_layers = file.layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.biases));
    let numbers = file.mean.iter().chain(&file.deviation).chain(of_layers);
    let crc = numbers.flat_map(|number| number.to_le_bytes()).fold(!0u32, |crc, byte| {
        // IEEE 802.3, reflected; a bit at a time is fast enough for some ten thousand numbers.
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    format!("{:08x}", !crc)
}

pub(crate) fn parse(text: &str, name: &str) -> Result<Network, PredictError> {
    let judge = Judge { file: name };
    if text.len() as u64 > LARGEST {
        return judge.refuse("size", format!("more than {LARGEST} bytes"), "no network is so large");
    }
    judge.head(text)?;
    let file: File = serde_json::from_str(text).or_else(|error| judge.torn(&error))?;
    judge.numbers(&file)?;
    let layers = judge.chain(&file)?;
    let File { command, data, seed, threshold, figures, mean, deviation, .. } = file;
    Ok(Network::new(About { command, data, seed, threshold, figures, mean, deviation }, layers))
}

pub(crate) fn read(path: &Path) -> Result<Network, PredictError> {
    let judge = Judge { file: &path.to_string_lossy() };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    if let Err(error) = opened {
        return judge.refuse("file", error.to_string(), "name weights that can be read");
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, judge.file),
        // A character may be cut where reading ended.
        Err(_) if bytes.len() as u64 > LARGEST => {
            judge.refuse("size", format!("more than {LARGEST} bytes"), "no network is so large")
        }
        Err(error) => judge.refuse(format!("byte {}", error.valid_up_to()), "no UTF-8", REMAKE),
    }
}

/// What must hold of any text: it is refused in one line that names the file, or it is a network that answers
/// any input with a probability. The body of the fuzz target.
pub fn oracle(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut network = match parse(&text, "fuzz.json") {
        Ok(network) => network,
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("fuzz.json: ") && said.lines().count() == 1, "{said}");
            return;
        }
    };
    for figure in [0.0, 1.0, -1e30, f32::MAX] {
        let said = network.probability(&Input([[figure; FEATURES]; WINDOWS]));
        assert!((0.0..=1.0).contains(&said), "{said}");
    }
}

#[cfg(test)]
mod tests;
