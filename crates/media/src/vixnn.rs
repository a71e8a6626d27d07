//! ViXNN between the session and the crate that has the networks: how many descriptors a frame may have, its
//! packets, and a picture of those that came. Only with the feature `vixnn`.
//!
//! ```text
//! RawFrame -> RGB -> vixnn::Encoder -> Descriptors -> 1..m of 8 -> packets, one descriptor each = Coded::pieces
//!                                       '- m: as many as bitrate * interval has room for, at least one
//! packets that came -> vixnn::Received -> vixnn::Decoder -> RGB -> RawFrame
//!                                          '- blocks of which nothing came: those of the picture before
//! ```
//!
//! With a `group`, the packets of up to eight frames are one coded frame, which has the number of the last of
//! them ([`Coded::earlier`](crate::Coded)).
//!
//! Without a network ([`VixnnEncoder::modelled`], [`VixnnModelDecoder`]) the packets are as many and as
//! large, and a recorded [`VixnnTable`] says how what came of a frame would look.
//!
//! Every frame is a key frame, and each of its packets decodes alone. Unless packets are entropy coded, the
//! size of a frame depends on the picture's sides and on what is asked for, never on what the picture shows:
//! a run's hash does not depend on the last digit that a network's arithmetic gives.

mod cut;
mod decoder;
mod model;
mod recording;
mod table;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use units::{Bytes as Size, Rate, Span, Time};
use vixnn::packet::Group;
use vixnn::{Descriptors, Model, Picture, packet};

use cut::Cut;
pub use decoder::VixnnDecoder;
pub use model::{VixnnLooks, VixnnModelDecoder};
pub use recording::{RecordedVixnn, record_vixnn_table};
pub use table::{Qualities, VixnnLook, VixnnTable};

use crate::codec::PacketOrder;
use crate::{Ask, CodecError, Coded, Encoder, RawFrame, rgb};

/// How to set up a [`VixnnEncoder`].
#[derive(Clone, Debug)]
pub struct VixnnConfig {
    /// Picture width in pixels: even, 16 to 3840.
    pub width: usize,
    /// Picture height in pixels: even, 16 to 2160.
    pub height: usize,
    /// Usual time between frames; each [`Ask`] brings its own.
    pub interval: Span,
    /// Higher asks are held to this rate.
    pub max: Rate,
    /// A packet has room for this many bytes, 64 to 65,000.
    pub payload: usize,
    /// Time from submitting a frame until it is ready. In virtual time this stands for the time encoding
    /// takes; in real time, where encoding takes its time itself, it is zero.
    pub latency: Span,
    /// The network; [`Model::DEFAULT`] if `None`.
    pub model: Option<Arc<Model>>,
    /// In which order a packet names its blocks.
    pub order: PacketOrder,
    /// Threads that run the network, at least 1. The bits do not depend on it.
    pub threads: usize,
    /// Whether packets are entropy coded: more descriptors for the same bytes, and frames whose sizes depend
    /// on what they show.
    pub entropy: bool,
    /// How many consecutive frames share their packets, 1 to 8 (the thesis' ViXNN and ViXNN8); not together
    /// with `entropy`.
    pub group: usize,
}

impl VixnnConfig {
    /// Defaults for pictures of this size, `interval` apart: the default network, packets of 1,100 bytes that
    /// name blocks row by row, one thread, 10 ms latency (which CIF keeps within on one core).
    pub fn new(width: usize, height: usize, interval: Span) -> VixnnConfig {
        VixnnConfig {
            width,
            height,
            interval,
            max: Rate::from_mbps(200),
            payload: 1_100,
            latency: Span::from_millis(10),
            model: None,
            order: PacketOrder::Rows,
            threads: 1,
            entropy: false,
            group: 1,
        }
    }

    fn check(&self) -> Result<(), CodecError> {
        if !is_size(self.width, self.height) {
            return refuse(format!(
                "{}x{} is not an even size from 16x16 to {}x{}",
                self.width, self.height, LARGEST.0, LARGEST.1
            ));
        }
        if !self.interval.is_positive() {
            return refuse(format!("an interval of {} between frames", self.interval));
        }
        if !PAYLOADS.contains(&self.payload) {
            return refuse(format!("packets of {} bytes; {PAYLOADS:?} are possible", self.payload));
        }
        if self.threads == 0 {
            return refuse("no thread; at least 1 is needed".to_owned());
        }
        if !(1..=packet::GROUP).contains(&self.group) {
            return refuse(format!("groups of {} frames; 1 to {} are possible", self.group, packet::GROUP));
        }
        if self.group > 1 && self.entropy {
            return refuse("packets of a group are not entropy coded: leave out one of the two".to_owned());
        }
        if self.group > 1 && self.interval > LONGEST_INTERVAL {
            let most = LONGEST_INTERVAL;
            return refuse(format!("a group of frames {} apart; {most} is possible", self.interval));
        }
        Ok(())
    }
}

/// Longer and shorter side of the largest picture, in pixels, that is encoded or decoded: what a packet says
/// of its picture costs its receiver as much as such a picture at most.
const LARGEST: (usize, usize) = (3840, 2160);
/// Bytes that a packet may have room for.
const PAYLOADS: std::ops::RangeInclusive<usize> = 64..=65_000;
/// Time between two frames at most that a group's packets can say: 16 bits of [`TICK`].
const LONGEST_INTERVAL: Span = Span::from_micros(655_350);
/// What they say it in.
const TICK: Span = Span::from_micros(10);
/// A group ends before a frame that was captured so many frames after its first: others were left out, and
/// what is there has waited long enough.
const LONGEST_GROUP: u32 = 2 * packet::GROUP as u32;

/// Whether pictures of such sides are coded: even ones, since [`RawFrame`] has no others.
fn is_size(width: usize, height: usize) -> bool {
    let side = |n: usize, most: usize| n.is_multiple_of(2) && (16..=most).contains(&n);
    side(width.max(height), LARGEST.0) && side(width.min(height), LARGEST.1)
}

fn refuse<T>(what: String) -> Result<T, CodecError> {
    Err(CodecError::Codec { codec: "vixnn", what })
}

/// A network by the name of one that is built in, or by the path of a file of weights (`*.safetensors`).
///
/// # Errors
/// [`CodecError`] if there is none of this name, or the file has none.
pub fn open_model(name: &str) -> Result<Arc<Model>, CodecError> {
    let path = Path::new(name);
    let file = path.extension().is_some_and(|extension| extension == "safetensors");
    let model = if file { Model::read(path).map(Arc::new) } else { Model::shipped(name) };
    model.or_else(|error| refuse(error.to_string()))
}

/// The file of the network that an encoder with this `model` of its
/// [`CodecOptions`](crate::CodecOptions) has, for a decoder elsewhere.
///
/// # Errors
/// As [`open_model`].
pub fn model_file(name: Option<&str>) -> Result<Vec<u8>, CodecError> {
    let name = name.unwrap_or(Model::DEFAULT);
    // Read first: what is no network is refused with words.
    open_model(name)?;
    match Model::shipped_file(name) {
        Ok(file) => Ok(file.to_vec()),
        Err(_) => std::fs::read(name).or_else(|error| refuse(format!("{name}: {error}"))),
    }
}

impl From<PacketOrder> for packet::Order {
    fn from(order: PacketOrder) -> packet::Order {
        match order {
            PacketOrder::Rows => packet::Order::Rows,
            PacketOrder::Permuted => packet::Order::Permuted,
        }
    }
}

/// What makes packets of pictures.
enum Coding {
    /// A network, through which every picture goes.
    Network(vixnn::Encoder),
    /// None: every word is zero, whatever there is to see. The packets of the last group, or of a frame, are
    /// kept, since others differ in nothing.
    Blank(Option<(Option<Group>, Cut)>),
}

/// The encoder. The same pictures and asks give the same bytes on one machine, and frames of the same sizes
/// on any.
pub struct VixnnEncoder {
    coding: Coding,
    fingerprint: u16,
    config: VixnnConfig,
    /// Frames of a group that is not full, ...
    held: Vec<Ask>,
    /// ... and their pictures, where there are any.
    pictures: Vec<Descriptors>,
    ready: VecDeque<(Time, Coded)>,
}

impl VixnnEncoder {
    /// Opens an encoder.
    ///
    /// # Errors
    /// [`CodecError`] if the configuration is out of range, or the default network is wanted and not built
    /// in.
    pub fn new(config: VixnnConfig) -> Result<VixnnEncoder, CodecError> {
        config.check()?;
        let model = match &config.model {
            Some(model) => model.clone(),
            None => Model::shipped(Model::DEFAULT).or_else(|error| refuse(error.to_string()))?,
        };
        let fingerprint = model.fingerprint();
        let coding = Coding::Network(vixnn::Encoder::new(model, config.threads));
        Ok(VixnnEncoder::of(coding, fingerprint, config))
    }

    /// An encoder without a network: frames have the sizes and packets that they would have with one, of
    /// which all words are zero, and pictures are not asked for. [`VixnnModelDecoder`] says how they would
    /// look.
    ///
    /// # Errors
    /// [`CodecError`] if the configuration is out of range or asks for entropy coding, whose sizes depend on
    /// the pictures.
    pub fn modelled(config: VixnnConfig, table: &VixnnTable) -> Result<VixnnEncoder, CodecError> {
        config.check()?;
        if config.entropy {
            return refuse("without pictures nothing is entropy coded".to_owned());
        }
        Ok(VixnnEncoder::of(Coding::Blank(None), table.fingerprint, config))
    }

    fn of(coding: Coding, fingerprint: u16, config: VixnnConfig) -> VixnnEncoder {
        let (held, pictures) = (Vec::new(), Vec::new());
        VixnnEncoder { coding, fingerprint, config, held, pictures, ready: VecDeque::new() }
    }

    fn interval(&self, ask: &Ask) -> Span {
        if ask.interval.is_positive() { ask.interval } else { self.config.interval }
    }

    /// Bytes that a frame may have.
    fn budget(&self, ask: &Ask) -> u64 {
        let budget = ask.bitrate.min(self.config.max).bytes_in(self.interval(ask));
        // Each frame is predicted from nothing.
        ask.largest.map_or(budget, |largest: Size| largest.min(budget)).get()
    }

    /// The packets of all descriptors of what was held.
    fn cut(&mut self, group: Option<Group>) -> Cut {
        let pictures = std::mem::take(&mut self.pictures);
        let Coding::Blank(last) = &mut self.coding else {
            return Cut::of(&pictures, group, self.fingerprint, &self.config);
        };
        if last.as_ref().is_none_or(|(of, _)| *of != group) {
            let count = group.map_or(1, |group| group.pictures());
            let blank = vec![cut::blank(self.config.width, self.config.height); count];
            *last = Some((group, Cut::of(&blank, group, self.fingerprint, &self.config)));
        }
        let (_, cut) = last.as_ref().expect("it was made");
        cut.clone()
    }

    /// Codes what is held, which is something.
    fn finish(&mut self, now: Time) {
        let asks = std::mem::take(&mut self.held);
        let Some((last, earlier)) = asks.split_last() else { return };
        let backs: Vec<u8> = earlier.iter().map(|ask| (last.frame - ask.frame) as u8).collect();
        let ticks = self.interval(last).min(LONGEST_INTERVAL).as_nanos() / TICK.as_nanos();
        // One alone is no group.
        let group = Group::new(ticks as u16, &backs).ok();
        let budget = asks.iter().map(|ask| self.budget(ask)).sum();
        let (payload, pieces) = self.cut(group).within(budget);
        let size = pieces.last().copied().unwrap_or(0);
        let (payload, target) = (Some(payload), last.bitrate.min(self.config.max));
        let earlier = earlier.len() as u32;
        let coded =
            Coded { key: true, target, payload, pieces, apart: true, earlier, ..Coded::of_size(last, size) };
        self.ready.push_back((now + self.config.latency, coded));
    }
}

impl Encoder for VixnnEncoder {
    fn submit(&mut self, now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let (width, height) = (self.config.width, self.config.height);
        if let Some(picture) = picture
            && (picture.width, picture.height) != (width, height)
        {
            let (found_width, found_height) = (picture.width, picture.height);
            return Err(CodecError::Size { width, height, found_width, found_height });
        }
        if picture.is_none() && matches!(self.coding, Coding::Network(_)) {
            return refuse(format!("frame {} came without a picture", ask.frame));
        }
        let fits =
            |first: &Ask, last: &Ask| (last.frame + 1..first.frame + LONGEST_GROUP).contains(&ask.frame);
        if let [first, ..] = &self.held[..]
            && let [.., last] = &self.held[..]
            && !fits(first, last)
        {
            self.finish(now);
        }
        if let (Coding::Network(encoder), Some(picture)) = (&mut self.coding, picture) {
            let rgb = rgb::to_rgb(picture);
            self.pictures.push(encoder.encode(&Picture { width, height, rgb }));
        }
        self.held.push(*ask);
        if self.held.len() >= self.config.group {
            self.finish(now);
        }
        Ok(())
    }

    fn poll(&mut self, now: Time) -> Option<Coded> {
        let due = self.ready.front().is_some_and(|(at, _)| *at <= now);
        if due { self.ready.pop_front().map(|(_, coded)| coded) } else { None }
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|(at, _)| *at)
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn flush(&mut self, now: Time) {
        self.finish(now);
    }
}

#[cfg(test)]
mod tests;
