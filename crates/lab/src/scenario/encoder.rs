//! A flow's encoder, as its scenario has it.

use media::{Codec, CodecOptions, PacketOrder, Table};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use units::{Rate, Span};

use super::PictureSize;
use super::error::Problem;

/// Which encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncoderKind {
    /// The model: frame sizes and qualities from a recorded table, no pictures.
    #[default]
    Model,
    /// ViXNN without pictures: its packets, and qualities by what arrives, from a recorded table.
    VixnnModel,
    /// A codec over real pictures, by its name.
    Codec(Codec),
}

impl<'de> Deserialize<'de> for EncoderKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EncoderKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.as_str() {
            MODEL => return Ok(EncoderKind::Model),
            VIXNN_MODEL => return Ok(EncoderKind::VixnnModel),
            _ => {}
        }
        Codec::by_name(&name).map(EncoderKind::Codec).ok_or_else(|| {
            let codecs = Codec::ALL.iter().map(|codec| codec.name());
            let known: Vec<&str> = [MODEL, VIXNN_MODEL].into_iter().chain(codecs).collect();
            D::Error::custom(format!("no encoder is called `{name}`; {}", units::instead(&name, &known)))
        })
    }
}

/// What scenarios call the model.
const MODEL: &str = "model";
/// What they call that of ViXNN.
const VIXNN_MODEL: &str = "vixnn-model";

/// What the model starts from; single parameters change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behaviour {
    /// Every frame is exactly as large as it should be.
    #[default]
    Perfect,
    /// As the encoder behaved that the table was recorded from.
    #[serde(alias = "openh264")]
    Recorded,
}

/// A flow's encoder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Encoder {
    /// A model or a real codec, by name.
    pub kind: EncoderKind,
    /// Frames per second, 1 to 240; by default 60, and a clip's own rate.
    pub fps: Option<f64>,
    /// Time from capture to coded frame; by default the encoder's own.
    #[serde(deserialize_with = "super::text::optional")]
    pub latency: Option<Span>,
    /// Model: the recorded clip its sizes and qualities come from. Of ViXNN's also a file of its own
    /// (`*.json`), by its path relative to the scenario's folder.
    pub table: String,
    /// Model: what it starts from.
    pub behaviour: Behaviour,
    /// Model: time constant with which frame sizes follow the target, either way.
    #[serde(deserialize_with = "super::text::optional")]
    pub lag: Option<Span>,
    /// Model: ... towards a higher target, ...
    #[serde(deserialize_with = "super::text::optional")]
    pub lag_up: Option<Span>,
    /// ... and towards a lower one.
    #[serde(deserialize_with = "super::text::optional")]
    pub lag_down: Option<Span>,
    /// Model: mean frame size over what was asked for.
    pub bias: Option<f64>,
    /// Model: largest excess of a frame, as a fraction.
    pub overshoot: Option<f64>,
    /// Model: largest shortfall of a frame, as a fraction.
    pub undershoot: Option<f64>,
    /// Model: how much the recorded content moves frame sizes; 0 not at all, 1 as recorded.
    pub content: Option<f64>,
    /// Model: standard deviation of the logarithm of frame sizes.
    pub noise: Option<f64>,
    /// Model: size of key frames relative to others.
    pub key_ratio: Option<f64>,
    /// Model: spans in which the content needs no more than a rate (a menu): `[["17s", "19s", "2mbit"]]`.
    #[serde(deserialize_with = "super::text::triples")]
    pub cap: Vec<(Span, Span, Rate)>,
    /// Codec: a clip's path, relative to the scenario's folder, or `"synthetic"`. It repeats until the run
    /// ends.
    pub clip: String,
    /// Codec: picture size of the synthetic source (by default 1280x720), or to scale a clip to (needs
    /// ffmpeg).
    #[serde(deserialize_with = "super::text::optional")]
    pub size: Option<PictureSize>,
    /// Codec: cut frames into slices that fit a packet each.
    pub slices: bool,
    /// Codec: burn each frame's number into its picture, and check that it is the one shown.
    pub barcode: bool,
    /// ViXNN: the network, one that is built in by its name, or a file of weights by its path relative to the
    /// scenario's folder.
    pub model: Option<String>,
    /// ViXNN: in which order a packet names its blocks.
    #[serde(deserialize_with = "super::text::some_parsed")]
    pub order: Option<PacketOrder>,
    /// ViXNN: threads that run the network, 1 to 64; one by default. The run does not depend on it.
    pub threads: Option<usize>,
    /// ViXNN: the decoder takes missing descriptors from up to so many frames before, 1 to 64, where those
    /// that came say that a block still looks the same; by default it does not.
    pub temporal: Option<u32>,
    /// ViXNN: how many consecutive frames share their packets, 1 to 8; by default each has its own.
    pub group: Option<usize>,
}

impl Encoder {
    /// What only some codecs are told.
    pub fn options(&self) -> CodecOptions {
        CodecOptions {
            model: self.model.clone(),
            order: self.order,
            threads: self.threads,
            temporal: self.temporal,
            // Frames' sizes would depend on how a processor rounds, and with them a run's hash.
            entropy: None,
            group: self.group,
        }
    }

    /// Whether its frames come in packets that decode alone: slices, or of a codec that has no others.
    pub fn has_slices(&self) -> bool {
        match self.kind {
            EncoderKind::Model => self.slices,
            EncoderKind::VixnnModel => true,
            EncoderKind::Codec(codec) => self.slices || codec.is_standalone(),
        }
    }

    /// What only some codecs are told must be told to one of them.
    pub(super) fn check_options(&self, at: &str) -> Result<(), Problem> {
        let has: &[&str] = match self.kind {
            EncoderKind::Model => &[],
            // Its network is the table's, and no thread runs it.
            EncoderKind::VixnnModel => &["order", "group"],
            EncoderKind::Codec(codec) => codec.options(),
        };
        if let Some(name) = self.options().given().find(|name| !has.contains(name)) {
            let of = Codec::ALL.iter().filter(|codec| codec.options().contains(&name));
            let of: Vec<String> = of.map(|codec| format!("kind = \"{}\"", codec.name())).collect();
            if self.kind == EncoderKind::VixnnModel {
                let what = format!("what was recorded does not say; only {} has it", of.join(", "));
                return Err(Problem::new(format!("{at}.{name}"), what));
            }
            return Err(Problem::new(format!("{at}.{name}"), format!("only {} has it", of.join(", "))));
        }
        let numbers = [
            ("threads", self.threads, 64),
            ("temporal", self.temporal.map(|frames| frames as usize), 64),
            ("group", self.group, 8),
        ];
        let wrong = numbers.into_iter().find_map(|(name, number, most)| {
            let number = number.filter(|number| !(1..=most).contains(number))?;
            Some(Problem::new(format!("{at}.{name}"), format!("{number} is not between 1 and {most}")))
        });
        wrong.map_or(Ok(()), Err)
    }

    /// Whether there is such a table; files are read when a run begins.
    pub(super) fn check_table(&self, at: &str) -> Result<(), Problem> {
        let (of, known) = match self.kind {
            EncoderKind::VixnnModel => (" of ViXNN", vixnn_tables()),
            _ => ("", Table::names().collect()),
        };
        let name = self.table.as_str();
        let file = self.kind == EncoderKind::VixnnModel && name.ends_with(".json");
        if file || known.contains(&name) {
            return Ok(());
        }
        let what = format!("no table{of} is called `{name}`; {}", units::instead(name, &known));
        Err(Problem::new(format!("{at}.table"), what))
    }
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder {
            kind: EncoderKind::Model,
            fps: None,
            latency: None,
            table: "big_buck_bunny".to_owned(),
            behaviour: Behaviour::Perfect,
            lag: None,
            lag_up: None,
            lag_down: None,
            bias: None,
            overshoot: None,
            undershoot: None,
            content: None,
            noise: None,
            key_ratio: None,
            cap: Vec::new(),
            clip: SYNTHETIC.to_owned(),
            size: None,
            slices: false,
            barcode: false,
            model: None,
            order: None,
            threads: None,
            temporal: None,
            group: None,
        }
    }
}

/// Tables of ViXNN that ship, by name.
fn vixnn_tables() -> Vec<&'static str> {
    #[cfg(feature = "vixnn")]
    return media::VixnnTable::names().collect();
    #[cfg(not(feature = "vixnn"))]
    Vec::new()
}

/// The name of the synthetic source where a clip's path could stand.
pub const SYNTHETIC: &str = "synthetic";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;

    fn kind(name: &str) -> Result<EncoderKind, String> {
        let flow = format!("[[flow]]\n[flow.encoder]\nkind = \"{name}\"\n");
        let text = format!("duration = \"9s\"\n[link]\ndelay = \"20ms\"\n{flow}");
        let scenario = Scenario::parse(&text, Path::new("x.toml")).map_err(|error| error.to_string())?;
        Ok(scenario.flows[0].video().expect("it is the usual source").encoder.kind)
    }

    #[test]
    fn every_codec_is_an_encoder_and_the_page_names_it() {
        let page = include_str!("../../../../docs/scenario.md");
        for &codec in Codec::ALL {
            assert_eq!(kind(codec.name()), Ok(EncoderKind::Codec(codec)));
            assert!(page.contains(&format!("\"{}\"", codec.name())), "docs/scenario.md lacks {codec:?}");
        }
        assert_eq!(kind("model"), Ok(EncoderKind::Model));
        assert_eq!(kind("vixnn-model"), Ok(EncoderKind::VixnnModel));
        let refusal = kind("h265").unwrap_err();
        assert!(
            refusal.starts_with("x.toml:6: flow[1].encoder.kind: no encoder is called `h265`; did you mean")
        );
    }

    fn refusal(lines: &str) -> String {
        let text = format!("duration = \"9s\"\n[link]\ndelay = \"20ms\"\n[[flow]]\n{lines}\n");
        Scenario::parse(&text, Path::new("x.toml")).expect_err("should be refused").to_string()
    }

    #[test]
    fn what_a_codec_has_no_option_for_is_refused() {
        assert_eq!(
            refusal("[flow.encoder]\nkind = \"h264\"\norder = \"rows\""),
            "x.toml:7: flow[1].encoder.order: only kind = \"vixnn\" has it"
        );
        assert_eq!(
            refusal("[flow.encoder]\nmodel = \"fast-mdc-0.3\""),
            "x.toml:6: flow[1].encoder.model: only kind = \"vixnn\" has it"
        );
        let vixnn = |line: &str| refusal(&format!("[flow.encoder]\nkind = \"vixnn\"\n{line}"));
        assert!(vixnn("threads = 0").ends_with("flow[1].encoder.threads: 0 is not between 1 and 64"));
        assert!(vixnn("temporal = 65").ends_with("flow[1].encoder.temporal: 65 is not between 1 and 64"));
        assert!(vixnn("group = 9").ends_with("flow[1].encoder.group: 9 is not between 1 and 8"));
        assert!(vixnn("order = \"spiral\"").contains("there are rows and permuted"));
        let model = |line: &str| refusal(&format!("[flow.encoder]\nkind = \"vixnn-model\"\n{line}"));
        assert!(model("temporal = 8").contains("what was recorded does not say; only kind = \"vixnn\""));
        assert!(model("table = \"film\"").contains("no table of ViXNN is called `film`"));
        assert!(model("group = 9").ends_with("flow[1].encoder.group: 9 is not between 1 and 8"));
        // Packets that decode alone are concealed like slices.
        assert!(refusal("conceal = true").contains("or kind = \"vixnn\""));
        let concealing = "conceal = true\nencoder = { kind = \"vixnn\" }\nnack = 1";
        assert!(refusal(concealing).contains("nack"), "nothing else is wrong");
    }
}
