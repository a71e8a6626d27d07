//! What only some codecs can be told, and how people write it after a codec's name.

use std::fmt;
use std::str::FromStr;

use super::Codec;

/// In which order a packet names its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketOrder {
    /// Row by row: what a lost packet leaves out lies together.
    #[default]
    Rows,
    /// A fixed shuffle: what a lost packet leaves out is spread over the picture.
    Permuted,
}

impl PacketOrder {
    /// Both, in the order they are listed to people.
    pub const ALL: [PacketOrder; 2] = [PacketOrder::Rows, PacketOrder::Permuted];

    /// What it is called on the command line and in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            PacketOrder::Rows => "rows",
            PacketOrder::Permuted => "permuted",
        }
    }
}

impl FromStr for PacketOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<PacketOrder, String> {
        let found = PacketOrder::ALL.into_iter().find(|order| order.name() == text);
        found.ok_or_else(|| format!("`{text}` is not an order; there are rows and permuted"))
    }
}

/// Threads of a codec at most that has the option.
const MOST_THREADS: usize = 64;
/// Frames that may share their packets at most.
const MOST_GROUP: usize = 8;
/// Frames that a decoder may look back at most.
const MOST_TEMPORAL: u32 = 64;

/// What only some codecs can be told ([`Codec::options`]); by default what suits each.
///
/// ```
/// use framewire_media::CodecOptions;
///
/// let options: CodecOptions = "model=fast-mdc-0.3,threads=2".parse()?;
/// assert_eq!((options.model.as_deref(), options.threads), (Some("fast-mdc-0.3"), Some(2)));
/// assert!("threads=0".parse::<CodecOptions>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodecOptions {
    /// ViXNN: the network, by the name of one that is built in or by the path of a file of weights
    /// (`*.safetensors`). Of a decoder: one more that it has, besides those built in.
    pub model: Option<String>,
    /// ViXNN: in which order packets name their blocks. A packet says which, so a decoder needs no such
    /// option.
    pub order: Option<PacketOrder>,
    /// ViXNN: threads that run the network, 1 to 64. The pictures do not depend on it.
    pub threads: Option<usize>,
    /// ViXNN: whether packets are entropy coded, so that a frame has more descriptors for its bytes. Frames'
    /// sizes then depend on what they show. A packet says so itself; a decoder needs no such option.
    pub entropy: Option<bool>,
    /// ViXNN: how many consecutive frames share their packets, 1 to 8: fewer bytes of headers and fewer
    /// packets, for so many frames' time of delay. A packet says so itself; a decoder needs no such option.
    pub group: Option<usize>,
    /// ViXNN, of a decoder: missing descriptors of a block are taken from up to so many frames before, 1 to
    /// 64, where those that came say that it still looks the same (`vixnn::Temporal`). By default they are
    /// not, as in the thesis.
    pub temporal: Option<u32>,
}

impl CodecOptions {
    /// Names of those that are given.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("model", self.model.is_some()),
            ("order", self.order.is_some()),
            ("threads", self.threads.is_some()),
            ("entropy", self.entropy.is_some()),
            ("group", self.group.is_some()),
            ("temporal", self.temporal.is_some()),
        ];
        given.into_iter().filter_map(|(name, given)| given.then_some(name))
    }

    /// Sets one by its name.
    ///
    /// # Errors
    /// A sentence if there is none of this name, or `value` is not one of its values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "model" if !value.is_empty() => self.model = Some(value.to_owned()),
            "model" => return Err("model: the name of one that is built in, or a file".to_owned()),
            "order" => self.order = Some(value.parse()?),
            "threads" => {
                let threads = value.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
                let refused = || format!("threads: `{value}` is not a number from 1 to {MOST_THREADS}");
                self.threads = Some(threads.ok_or_else(refused)?);
            }
            "entropy" => {
                self.entropy = match value {
                    "on" => Some(true),
                    "off" => Some(false),
                    _ => return Err(format!("entropy: `{value}` is neither on nor off")),
                };
            }
            "group" => {
                let group = value.parse().ok().filter(|group| (1..=MOST_GROUP).contains(group));
                let refused = || format!("group: `{value}` is not a number of frames from 1 to {MOST_GROUP}");
                self.group = Some(group.ok_or_else(refused)?);
            }
            "temporal" => {
                let frames = value.parse().ok().filter(|frames| (1..=MOST_TEMPORAL).contains(frames));
                let refused =
                    || format!("temporal: `{value}` is not a number of frames from 1 to {MOST_TEMPORAL}");
                self.temporal = Some(frames.ok_or_else(refused)?);
            }
            _ => {
                return Err(format!(
                    "no option is called `{name}`; there are model, order, threads, entropy, group, temporal"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for CodecOptions {
    type Err = String;

    /// Reads `model=NAME,order=permuted`.
    fn from_str(text: &str) -> Result<CodecOptions, String> {
        let mut options = CodecOptions::default();
        for part in text.split(',').map(str::trim) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` has no `=`"))?;
            options.set(name.trim(), value.trim())?;
        }
        Ok(options)
    }
}

/// A codec and what it is told: `h264`, or `vixnn:model=fast-mdc-0.3,order=permuted`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodecChoice {
    /// Which codec.
    pub codec: Codec,
    /// What it is told.
    pub options: CodecOptions,
}

impl FromStr for CodecChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<CodecChoice, String> {
        let (name, options) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let codec = Codec::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = Codec::ALL.iter().map(|codec| codec.name()).collect();
            format!("no codec is called `{name}`; {}", units::instead(name, &known))
        })?;
        let options = options.map_or_else(|| Ok(CodecOptions::default()), str::parse)?;
        codec.check_options(&options).map_err(|error| error.to_string())?;
        Ok(CodecChoice { codec, options })
    }
}

impl fmt::Display for CodecChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.codec.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_named_with_its_options() {
        let choice: CodecChoice = "vixnn:model=a.safetensors,order=permuted,threads=3".parse().unwrap();
        let options = CodecOptions {
            model: Some("a.safetensors".to_owned()),
            order: Some(PacketOrder::Permuted),
            threads: Some(3),
            ..CodecOptions::default()
        };
        assert_eq!((choice.codec.name(), choice.options), ("vixnn", options));
        assert_eq!("h264".parse(), Ok(CodecChoice::default()));
    }

    #[test]
    fn what_a_codec_is_not_told_is_said() {
        let refused = |text: &str| text.parse::<CodecChoice>().unwrap_err();
        assert!(refused("h265").starts_with("no codec is called `h265`; did you mean `h264`"));
        assert!(refused("h264:model=x").contains("it has no option `model`"));
        assert!(
            refused("vixnn:modell=x").contains("there are model, order, threads, entropy, group, temporal")
        );
        assert_eq!("vixnn:entropy=on".parse::<CodecChoice>().unwrap().options.entropy, Some(true));
        assert!(refused("vixnn:order=spiral").contains("there are rows and permuted"));
        for wrong in [
            "vixnn:",
            "vixnn:threads=0",
            "vixnn:threads=65",
            "vixnn:temporal=0",
            "vixnn:threads",
            "vixnn:entropy=yes",
            "vixnn:group=0",
            "vixnn:group=9",
            "vixnn:model=",
        ] {
            refused(wrong);
        }
    }
}
