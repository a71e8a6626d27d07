//! Networks as files: safetensors, half precision, tensors named as PyTorch names them.
//!
//! | tensors | what they are |
//! |---|---|
//! | `encoder.layers.{0,2,4,6}.{weight,bias}` | convolutions of stride 2, each followed by a leaky ReLU |
//! | `encoder.layers.8.{weight,bias}` | the eight heads as one 1x1 convolution; channel = descriptor * 16 + bit |
//! | `decoder.layers.{0,3,6,9}.{weight,bias}` | convolutions of stride 1, each followed by a depth-to-space of 2x2 |
//!
//! Metadata: `format` (`framewire-vixnn`), `version` (`1`), `name`, `size` and `drop` for people, `checksum`
//! (CRC-32, IEEE 802.3, of the file's data, in hexadecimal).

use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use safetensors::tensor::{Metadata, SafeTensors};
use safetensors::{Dtype, SafeTensorError};

use crate::picture::blocks;
use crate::{BLOCK, WAIST};

const FORMAT: &str = "framewire-vixnn";
const VERSION: &str = "1";
/// Largest file that is read, in bytes: some five times that of the thesis' size.
const LARGEST: u64 = 16 << 20;
/// Most channels of a layer, and the largest side of a kernel.
const MOST_WIDE: usize = 1_024;
const LARGEST_KERNEL: usize = 7;
/// Numbers of the convolutions among PyTorch's layers; the others have no weights.
const ENCODER_LAYERS: [usize; 5] = [0, 2, 4, 6, 8];
const DECODER_LAYERS: [usize; 4] = [0, 3, 6, 9];
/// What helps where a file is beyond repair.
const REMAKE: &str = "export the network again, or use a shipped one";

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// No shipped model has this name.
    #[error("no ViXNN model is called `{name}`; there are {}", .known.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Names of the shipped models.
        known: Vec<&'static str>,
    },
    /// The file can't be read.
    #[error("{path}: {error}; name a file of weights (*.safetensors) or a shipped model")]
    Unreadable {
        /// The path as it was given.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The bytes are no network of this kind. The text says what is wrong and what helps.
    #[error("weights of ViXNN: {0}")]
    Malformed(String),
}

fn refuse<T>(what: impl Into<String>, remedy: &str) -> Result<T, WeightsError> {
    Err(WeightsError::Malformed(format!("{}; {remedy}", what.into())))
}

/// A convolution with its weights by output, input, row and column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub kernel: usize,
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

impl Layer {
    fn macs(&self) -> u64 {
        (self.inputs * self.outputs * self.kernel * self.kernel) as u64
    }
}

/// An encoder and a decoder network.
///
/// ```
/// use framewire_vixnn::Model;
///
/// let unknown = Model::shipped("slow").err().map(|error| error.to_string());
/// assert!(unknown.is_some_and(|text| text.starts_with("no ViXNN model is called `slow`; there are")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    name: String,
    fingerprint: u16,
    pub(crate) encoder: [Layer; 5],
    pub(crate) decoder: [Layer; 4],
}

/// A model that is built in.
#[cfg_attr(not(feature = "shipped"), allow(dead_code, reason = "there is none"))]
struct Shipped {
    name: &'static str,
    bytes: &'static [u8],
    parsed: OnceLock<Arc<Model>>,
}

/// Builds in files under `weights/`.
macro_rules! ship {
    ($($name:literal),* $(,)?) => {
        /// The models that are built in, the default first.
        static SHIPPED: [Shipped; <[&str]>::len(&[$($name),*])] = [$(Shipped {
            name: $name,
            bytes: include_bytes!(concat!("../weights/", $name, ".safetensors")),
            parsed: OnceLock::new(),
        }),*];
    };
}

#[cfg(not(feature = "shipped"))]
ship![];

#[cfg(feature = "shipped")]
ship![
    "fast-mdc-0.3",
    "fast-mdc-0.1",
    "fast-mdc-0.5",
    "fast-mdc-0",
    "fast-svc",
    "fast-mdc-0.5-grey",
    "fast-mdc-0.5-levels",
    "paper-mdc-0.3",
];

/// Fingerprints of the shipped, in the same order.
static FINGERPRINTS: LazyLock<Vec<u16>> =
    LazyLock::new(|| SHIPPED.iter().map(|shipped| crc32fast::hash(shipped.bytes) as u16).collect());

impl Shipped {
    fn model(&self) -> Result<Arc<Model>, WeightsError> {
        if let Some(model) = self.parsed.get() {
            return Ok(model.clone());
        }
        let model = Arc::new(Model::parse(self.bytes)?);
        Ok(self.parsed.get_or_init(|| model).clone())
    }
}

fn find(name: &str) -> Result<&'static Shipped, WeightsError> {
    let found = SHIPPED.iter().find(|shipped| shipped.name == name);
    found.ok_or_else(|| WeightsError::Unknown { name: name.into(), known: Model::names() })
}

impl Model {
    /// The model to use where none is named: small enough for real time, trained with each descriptor missing
    /// three times out of ten.
    pub const DEFAULT: &str = "fast-mdc-0.3";

    /// A model that is built in. It is read once and shared.
    ///
    /// # Errors
    /// [`WeightsError::Unknown`], which lists the names.
    pub fn shipped(name: &str) -> Result<Arc<Model>, WeightsError> {
        find(name)?.model()
    }

    /// The file of a model that is built in, as [`Model::parse`] takes it.
    ///
    /// # Errors
    /// As [`Model::shipped`].
    pub fn shipped_file(name: &str) -> Result<&'static [u8], WeightsError> {
        Ok(find(name)?.bytes)
    }

    /// Names of the built-in models; none without the feature `shipped`.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|shipped| shipped.name).collect()
    }

    /// The built-in model of this fingerprint, if there is one.
    pub fn of_fingerprint(fingerprint: u16) -> Option<Arc<Model>> {
        let at = FINGERPRINTS.iter().position(|&known| known == fingerprint)?;
        SHIPPED[at].model().ok()
    }

    /// The model in a file's bytes.
    ///
    /// # Errors
    /// [`WeightsError::Malformed`] where they are no such file, torn, of another version or with other
    /// shapes.
    pub fn parse(bytes: &[u8]) -> Result<Model, WeightsError> {
        if bytes.len() as u64 > LARGEST {
            return refuse(format!("{} bytes, more than {LARGEST}", bytes.len()), REMAKE);
        }
        let torn = |error: SafeTensorError| {
            WeightsError::Malformed(format!("no whole safetensors file ({error}); fetch it again"))
        };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(torn)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(torn)?;
        let name = check_metadata(&metadata, &bytes[bytes.len() - metadata.data_len()..])?;
        let expected = 2 * (ENCODER_LAYERS.len() + DECODER_LAYERS.len());
        if tensors.len() != expected {
            return refuse(format!("{} tensors, not {expected}", tensors.len()), REMAKE);
        }
        let mut encoder = Vec::new();
        let mut inputs = 3;
        for number in ENCODER_LAYERS {
            let layer = read_layer(&tensors, &format!("encoder.layers.{number}"), inputs)?;
            inputs = layer.outputs;
            encoder.push(layer);
        }
        let mut decoder = Vec::new();
        for number in DECODER_LAYERS {
            let layer = read_layer(&tensors, &format!("decoder.layers.{number}"), inputs)?;
            if layer.outputs % 4 != 0 {
                return refuse(
                    format!(
                        "decoder.layers.{number} has {} outputs, which is no multiple of 4",
                        layer.outputs
                    ),
                    REMAKE,
                );
            }
            inputs = layer.outputs / 4;
            decoder.push(layer);
        }
        let encoder: [Layer; 5] = encoder.try_into().expect("as many as there are numbers");
        let decoder: [Layer; 4] = decoder.try_into().expect("as many as there are numbers");
        for (what, found, wanted) in [
            ("outputs of encoder.layers.8", encoder[4].outputs, WAIST),
            ("kernel of encoder.layers.8", encoder[4].kernel, 1),
            ("outputs of decoder.layers.9", decoder[3].outputs, 12),
        ] {
            if found != wanted {
                return refuse(format!("{what}: {found}, not {wanted}"), REMAKE);
            }
        }
        Ok(Model { name, fingerprint: crc32fast::hash(bytes) as u16, encoder, decoder })
    }

    /// The model in a file.
    ///
    /// # Errors
    /// As [`Model::parse`], and [`WeightsError::Unreadable`].
    pub fn read(path: &Path) -> Result<Model, WeightsError> {
        let unreadable = |error| WeightsError::Unreadable { path: path.display().to_string(), error };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > LARGEST {
            return refuse(format!("{} has {size} bytes, more than {LARGEST}", path.display()), REMAKE);
        }
        Model::parse(&std::fs::read(path).map_err(unreadable)?)
    }

    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names the model on the wire: the low bits of the file's CRC-32.
    pub fn fingerprint(&self) -> u16 {
        self.fingerprint
    }

    /// Multiplications and additions for one picture of these sides in pixels: encoder, decoder.
    pub fn macs(&self, width: usize, height: usize) -> (u64, u64) {
        let (columns, rows) = blocks(width, height);
        let pixels = (columns * rows * BLOCK * BLOCK) as u64;
        let encoder = (self.encoder.iter().zip([4, 16, 64, 256, 256]))
            .map(|(layer, share)| pixels / share * layer.macs())
            .sum();
        let decoder = self
            .decoder
            .iter()
            .zip([256, 64, 16, 4])
            .map(|(layer, share)| pixels / share * layer.macs())
            .sum();
        (encoder, decoder)
    }
}

/// Checks what is written about a file; its name.
fn check_metadata(metadata: &Metadata, data: &[u8]) -> Result<String, WeightsError> {
    let Some(said) = metadata.metadata() else {
        return refuse("no metadata", REMAKE);
    };
    let field = |key: &str| said.get(key).map(String::as_str).unwrap_or_default();
    if field("format") != FORMAT {
        return refuse(format!("format `{}`, not `{FORMAT}`", field("format")), REMAKE);
    }
    if field("version") != VERSION {
        let remedy = "a later Framewire may read it";
        return refuse(format!("version `{}`, and only `{VERSION}` is known", field("version")), remedy);
    }
    let found = format!("{:08x}", crc32fast::hash(data));
    if !field("checksum").eq_ignore_ascii_case(&found) {
        let what = format!("the data's checksum is {found}, not `{}` as the file says", field("checksum"));
        return refuse(what, "fetch it again");
    }
    match field("name") {
        "" => refuse("no name", REMAKE),
        name if name.len() > 64 || !name.chars().all(|c| c.is_ascii_graphic()) => {
            refuse("a name that is no word of at most 64 characters", REMAKE)
        }
        name => Ok(name.to_owned()),
    }
}

/// A convolution with so many input channels.
fn read_layer(tensors: &SafeTensors<'_>, name: &str, inputs: usize) -> Result<Layer, WeightsError> {
    let weight = format!("{name}.weight");
    let (shape, weights) = read_tensor(tensors, &weight)?;
    let &[outputs, read, kernel, width] = shape.as_slice() else {
        return refuse(format!("{weight} has {} dimensions, not 4", shape.len()), REMAKE);
    };
    let is_fine = read == inputs
        && (1..=MOST_WIDE).contains(&outputs)
        && kernel == width
        && kernel % 2 == 1
        && kernel <= LARGEST_KERNEL;
    if !is_fine {
        let what = format!("{weight} is {outputs}x{read}x{kernel}x{width}");
        let wanted = format!(
            "wanted are at most {MOST_WIDE} outputs, {inputs} inputs and an odd, square kernel of at most {LARGEST_KERNEL}"
        );
        return refuse(what, &format!("{wanted}; {REMAKE}"));
    }
    let (shape, biases) = read_tensor(tensors, &format!("{name}.bias"))?;
    if shape != [outputs] {
        return refuse(format!("{name}.bias has the shape {shape:?}, not [{outputs}]"), REMAKE);
    }
    Ok(Layer { inputs, outputs, kernel, weights, biases })
}

/// A tensor of finite half-precision numbers: shape, numbers.
fn read_tensor(tensors: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f32>), WeightsError> {
    let Ok(tensor) = tensors.tensor(name) else {
        return refuse(format!("no tensor {name}"), REMAKE);
    };
    if tensor.dtype() != Dtype::F16 {
        return refuse(format!("{name} is of {:?}, not F16", tensor.dtype()), REMAKE);
    }
    let numbers = tensor.data().as_chunks::<2>().0.iter();
    let numbers: Vec<f32> = numbers.map(|&bytes| half::f16::from_le_bytes(bytes).to_f32()).collect();
    if !numbers.iter().all(|number| number.is_finite()) {
        return refuse(format!("{name} holds numbers that are not finite"), REMAKE);
    }
    Ok((tensor.shape().to_vec(), numbers))
}

#[cfg(test)]
pub(crate) mod samples {
    //! Small networks of arbitrary weights, as files.

    use safetensors::tensor::{Dtype, TensorView, serialize};

    use super::*;

    /// Tensors by name, each with its shape.
    pub type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

    /// Of a small network: widths that fill no tile, kernels of 5, 3 and 1.
    pub fn tensors() -> Tensors {
        let encoder =
            ENCODER_LAYERS.iter().zip([(3, 7, 5), (7, 12, 3), (12, 10, 3), (10, 25, 3), (25, 128, 1)]);
        let decoder = DECODER_LAYERS.iter().zip([(128, 24, 3), (6, 20, 3), (5, 8, 1), (2, 12, 5)]);
        let encoder = encoder.map(|(number, layer)| (format!("encoder.layers.{number}"), layer));
        let decoder = decoder.map(|(number, layer)| (format!("decoder.layers.{number}"), layer));
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut tensors = Tensors::new();
        for (name, (inputs, outputs, kernel)) in encoder.chain(decoder) {
            let factors = inputs * kernel * kernel;
            let scale = 2.0 / (factors as f32).sqrt();
            let weights = (0..outputs * factors).map(|_| draw() * scale).collect();
            tensors.push((format!("{name}.weight"), vec![outputs, inputs, kernel, kernel], weights));
            tensors.push((
                format!("{name}.bias"),
                vec![outputs],
                (0..outputs).map(|_| draw() * 0.1).collect(),
            ));
        }
        tensors
    }

    /// A file of these, with `said` about it in place of what should be.
    pub fn file_of(tensors: &Tensors, said: &[(&str, &str)]) -> Vec<u8> {
        let halves = |numbers: &[f32]| -> Vec<u8> {
            numbers.iter().flat_map(|&number| half::f16::from_f32(number).to_le_bytes()).collect()
        };
        let bytes: Vec<_> = tensors.iter().map(|(_, _, numbers)| halves(numbers)).collect();
        let views = || {
            tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
                (name.clone(), TensorView::new(Dtype::F16, shape.clone(), bytes).unwrap())
            })
        };
        let plain = serialize(views(), None).unwrap();
        let (_, metadata) = SafeTensors::read_metadata(&plain).unwrap();
        let checksum = format!("{:08x}", crc32fast::hash(&plain[plain.len() - metadata.data_len()..]));
        let mut fields =
            vec![("format", FORMAT), ("version", VERSION), ("name", "sample"), ("checksum", &checksum)];
        fields.retain(|(key, _)| said.iter().all(|(other, _)| other != key));
        fields.extend(said);
        let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        serialize(views(), Some(fields)).unwrap()
    }

    pub fn file() -> Vec<u8> {
        file_of(&tensors(), &[])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is said of a file.
    fn refusal(bytes: &[u8]) -> String {
        Model::parse(bytes).unwrap_err().to_string()
    }

    /// The sample's file with another tensor in place of one.
    fn with(name: &str, shape: &[usize], number: f32) -> Vec<u8> {
        let mut tensors = samples::tensors();
        let tensor = tensors.iter_mut().find(|(known, _, _)| known == name).unwrap();
        *tensor = (name.into(), shape.to_vec(), vec![number; shape.iter().product()]);
        samples::file_of(&tensors, &[])
    }

    #[test]
    fn every_shipped_model_is_read_and_found_by_its_fingerprint() {
        for name in Model::names() {
            let model = Model::shipped(name).unwrap();
            assert_eq!(model.name(), name);
            assert!(Arc::ptr_eq(&model, &Model::of_fingerprint(model.fingerprint()).unwrap()));
            assert!(Arc::ptr_eq(&model, &Model::shipped(name).unwrap()));
        }
        assert_eq!(Model::names()[0], Model::DEFAULT);
    }

    #[test]
    fn work_is_counted_by_the_pixels_of_whole_blocks() {
        let model = Model::shipped(Model::DEFAULT).unwrap();
        let (encoder, decoder) = model.macs(1_280, 720);
        assert_eq!((encoder / 10_000_000, decoder / 10_000_000), (156, 160));
        assert_eq!(model.macs(1_279, 705), (encoder, decoder));
    }

    #[test]
    fn errors_name_what_is_wrong_and_what_helps() {
        for (bytes, words) in [
            (samples::file_of(&samples::tensors(), &[("format", "pickle")]), ["format `pickle`", "export"]),
            (samples::file_of(&samples::tensors(), &[("version", "2")]), ["version `2`", "later Framewire"]),
            (samples::file_of(&samples::tensors(), &[("checksum", "0")]), ["checksum is", "fetch it again"]),
            (samples::file_of(&samples::tensors(), &[("name", "")]), ["no name", "export"]),
            (samples::file_of(&samples::tensors()[1..].to_vec(), &[]), ["17 tensors, not 18", "export"]),
            (with("encoder.layers.2.weight", &[12, 8, 3, 3], 0.0), ["12x8x3x3", "7 inputs"]),
            (with("encoder.layers.2.weight", &[12, 7, 4, 4], 0.0), ["12x7x4x4", "odd, square"]),
            (with("encoder.layers.2.weight", &[12, 7, 9], 0.0), ["3 dimensions", "export"]),
            (with("encoder.layers.8.bias", &[127], 0.0), ["[127], not [128]", "export"]),
            (with("decoder.layers.0.bias", &[24], f32::INFINITY), ["not finite", "export"]),
            (b"PK".to_vec(), ["no whole safetensors file", "fetch it again"]),
        ] {
            let said = refusal(&bytes);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
        let path = Path::new("no/such.safetensors");
        let said = Model::read(path).unwrap_err().to_string();
        assert!(said.contains("no/such.safetensors") && said.contains("a shipped model"), "{said}");
    }

    #[test]
    fn a_torn_or_changed_file_is_refused() {
        let file = samples::file();
        Model::parse(&file).unwrap();
        for length in (0..file.len()).step_by(37) {
            refusal(&file[..length]);
        }
        for at in (file.len() / 2..file.len()).step_by(997) {
            let mut changed = file.clone();
            changed[at] ^= 4;
            assert!(refusal(&changed).contains("checksum"));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Model::parse(&bytes).is_err());
        }

        #[test]
        fn arbitrary_changes_of_the_header_are_read_or_refused(
            (at, byte) in (0_usize..2_400, any::<u8>()),
        ) {
            let mut file = samples::file();
            file[at] = byte;
            let _ = Model::parse(&file);
        }
    }
}
