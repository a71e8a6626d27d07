//! Clips over a bad network: what is shown of ViXNN and of H.264, frame by frame (figures 5.5 to 5.7 and
//! 5.10).
//!
//! ```text
//!   vixnn, vixnn8 [permuted] [network]   a descriptor a packet; of a frame, or of a part of eight frames
//!   gop1, gop8, intra [whole]            x264 in slices that fit a packet; `whole`, as x264 does unless told
//!                                        otherwise, with one slice a frame, cut wherever a packet is full
//!   fec [whole]                          gop8 at 7/10 of the rate, three packets of parity to every seven
//!   openh264                             our live codec in slices, a key frame every eight frames
//! ```
//!
//! All send as many bits: those of ViXNN's eight descriptors, without packet headers. `fec` counts its
//! parity. Deviation: the thesis does not say that its FEC has to pay for the parity; here it does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use units::Rng;
use vixnn::Picture;

use super::channel::{Channel, DATA, GROUP, spoil};
use super::descriptors::{Packing, coded, model};
use super::h264::{self, Coding};
use super::ours;
use super::pictures::{Clip, Quality, clip, quality};
use super::stream::Stream;

/// The network that stands for ViXNN where none is named (section 5.5.2).
const USUAL: &str = "0.3";
/// Frames over which results are taken: short clips are sent as often as it takes, each time with other
/// losses.
const LEAST_FRAMES: usize = 300;

/// Who codes a clip, and how it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Codec {
    Descriptors { packing: Packing, network: String },
    H264 { coding: Coding, sliced: bool, repaired: bool },
    Ours,
}

/// What is shown of a clip.
pub(super) struct Shown {
    /// Of each frame.
    pub qualities: Vec<Quality>,
    /// The frames that were asked for.
    pub kept: BTreeMap<usize, Picture>,
}

/// Mean and least quality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub psnr: f64,
    pub ssim: f64,
    pub least_psnr: f64,
    pub least_ssim: f64,
}

impl Codec {
    /// Reads a codec's name.
    pub fn parse(text: &str) -> Result<Codec, String> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let whole = text.ends_with(" whole");
        let h264 = |coding, repaired| Codec::H264 { coding, sliced: !whole, repaired };
        let codec = match first {
            "vixnn" | "vixnn8" => {
                let (permuted, networks): (Vec<&str>, Vec<&str>) =
                    words.by_ref().partition(|word| *word == "permuted");
                let packing = Packing { eight: first == "vixnn8", permuted: !permuted.is_empty() };
                let network = networks.first().copied().unwrap_or(USUAL).to_owned();
                model(&network)?;
                Codec::Descriptors { packing, network }
            }
            "gop1" => h264(Coding::Gop1, false),
            "gop8" => h264(Coding::Gop8, false),
            "intra" => h264(Coding::Intra, false),
            "fec" => h264(Coding::Gop8, true),
            "openh264" => Codec::Ours,
            _ => {
                let known = ["vixnn", "vixnn8", "gop1", "gop8", "intra", "fec", "openh264"];
                return Err(format!("no codec is called `{text}`; {}", units::instead(first, &known)));
            }
        };
        let is_h264 = matches!(codec, Codec::H264 { .. });
        match words.find(|word| !(is_h264 && *word == "whole")) {
            Some(word) => Err(format!("`{word}` after `{first}`, which takes no more words")),
            None => Ok(codec),
        }
    }

    /// Sends a clip, and says what is shown of it; `draw` numbers the network's chances.
    pub fn send(&self, name: &str, channel: Channel, draw: u64, keep: &[usize]) -> Result<Shown, String> {
        // Networks are compared under the same losses.
        let packed = match self {
            Codec::Descriptors { packing, .. } => format!("{packing:?}"),
            other => format!("{other:?}"),
        };
        let mut rng = Rng::stream(draw, &format!("vixnn/{name}/{packed}/{channel:?}"));
        let source = clip(name)?;
        match self {
            Codec::Descriptors { packing, network } => {
                let coded = coded(name, network)?;
                let received = coded.received(*packing, channel, &mut rng)?;
                let (qualities, kept) = coded.shown(&received, keep)?;
                Ok(Shown { qualities, kept })
            }
            Codec::H264 { coding, sliced, repaired } => {
                let stream = self.stream(name, *coding, *sliced, *repaired)?;
                let received = transmitted(&stream, channel, *repaired, &mut rng);
                held(&source, h264::decode(&received, source.size)?, keep)
            }
            Codec::Ours => {
                let frames = ours::coded(name, &source, bits(&source))?;
                held(&source, ours::shown(&source, &frames, channel, &mut rng)?, keep)
            }
        }
    }

    /// A clip coded by x264; each is coded once.
    fn stream(
        &self,
        name: &str,
        coding: Coding,
        sliced: bool,
        repaired: bool,
    ) -> Result<Arc<Stream>, String> {
        static KNOWN: Mutex<BTreeMap<String, Arc<Stream>>> = Mutex::new(BTreeMap::new());
        let key = format!("{name} {self:?}");
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = known.get(&key) {
            return Ok(stream.clone());
        }
        let source = clip(name)?;
        let share = if repaired { DATA as f64 / GROUP as f64 } else { 1.0 };
        let stream = Arc::new(h264::code(&source, coding, share * bits(&source), sliced)?);
        known.insert(key, stream.clone());
        Ok(stream)
    }

    /// Bits a pixel that it sends of a clip.
    pub fn rate(&self, name: &str) -> Result<f64, String> {
        let source = clip(name)?;
        let pixels = (source.size.0 * source.size.1 * source.pictures.len()) as f64;
        let bits = match self {
            Codec::Descriptors { network, .. } => coded(name, network)?.bits() * source.pictures.len() as f64,
            Codec::H264 { coding, sliced, repaired } => {
                let share = if *repaired { GROUP as f64 / DATA as f64 } else { 1.0 };
                self.stream(name, *coding, *sliced, *repaired)?.bits() as f64 * share
            }
            Codec::Ours => {
                let frames = ours::coded(name, &source, bits(&source))?;
                frames.iter().flat_map(|frame| &frame.slices).map(|slice| 8.0 * slice.len() as f64).sum()
            }
        };
        Ok(bits / pixels)
    }
}

/// Bits of a frame with all descriptors.
fn bits(clip: &Clip) -> f64 {
    (clip.size.0.div_ceil(16) * clip.size.1.div_ceil(16) * 128) as f64
}

/// A stream as it comes out of the network.
fn transmitted(stream: &Stream, channel: Channel, repaired: bool, rng: &mut Rng) -> Stream {
    let mut packets = stream.packets();
    let frames: Vec<usize> = packets.iter().map(|packet| packet.frame).collect();
    let arrivals = if repaired { channel.repaired(&frames, rng) } else { channel.arrivals(&frames, rng) };
    for packet in &mut packets {
        // The first byte is the unit's header.
        spoil(&mut packet.bytes, 1, channel.errors(packet.frame), rng);
    }
    stream.received(packets.into_iter().zip(arrivals))
}

/// Quality of what is seen, if a picture stays until there is another one.
fn held(clip: &Clip, shown: Vec<Option<Picture>>, keep: &[usize]) -> Result<Shown, String> {
    let first = clip.pictures.first().ok_or("a clip without pictures")?;
    let grey = Picture { rgb: vec![128; first.rgb.len()], ..first.clone() };
    let (mut qualities, mut kept, mut seen) = (Vec::new(), BTreeMap::new(), grey);
    for (frame, (original, picture)) in clip.pictures.iter().zip(shown).enumerate() {
        seen = picture.unwrap_or(seen);
        qualities.push(quality(original, &seen)?);
        if keep.contains(&frame) {
            kept.insert(frame, seen.clone());
        }
    }
    Ok(Shown { qualities, kept })
}

impl Summary {
    /// Summary over all frames of a clip.
    pub fn of(qualities: &[Quality]) -> Summary {
        let mean = |of: fn(&Quality) -> f64| qualities.iter().map(of).sum::<f64>() / qualities.len() as f64;
        let least = |of: fn(&Quality) -> f64| qualities.iter().map(of).fold(f64::INFINITY, f64::min);
        Summary {
            psnr: mean(|q| q.psnr),
            ssim: mean(|q| q.ssim),
            least_psnr: least(|q| q.psnr),
            least_ssim: least(|q| q.ssim),
        }
    }
}

/// A clip sent by a codec over a channel, as often as it takes to see 300 frames; once where there is no
/// chance in it. Each is looked at once in a process.
pub(super) fn summary(name: &str, codec: &str, channel: Channel) -> Result<Summary, String> {
    type Slot = Arc<OnceLock<Result<Summary, String>>>;
    static KNOWN: Mutex<BTreeMap<String, Slot>> = Mutex::new(BTreeMap::new());
    let key = format!("{name}/{codec}/{channel:?}");
    let slot = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
    let found = slot.get_or_init(|| {
        let codec = Codec::parse(codec)?;
        let frames = clip(name)?.pictures.len().max(1);
        let draws = if channel == Channel::PERFECT { 1 } else { LEAST_FRAMES.div_ceil(frames) };
        let mut all = Vec::new();
        for draw in 1..=draws {
            all.extend(codec.send(name, channel, draw as u64, &[])?.qualities);
        }
        Ok(Summary::of(&all))
    });
    found.clone()
}

/// SSIM that each frame lacks against a network without losses.
pub(super) fn lacking(name: &str, codec: &Codec, channel: Channel) -> Result<Vec<f64>, String> {
    let free = codec.send(name, Channel::PERFECT, 1, &[])?.qualities;
    let lossy = codec.send(name, channel, 1, &[])?.qualities;
    Ok(free.iter().zip(&lossy).map(|(free, lossy)| free.ssim - lossy.ssim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vixnn::pictures::tests::drawn;
    use crate::vixnn::stream::tests::small;

    #[test]
    fn names_are_read() {
        let vixnn = |eight, permuted, network: &str| Codec::Descriptors {
            packing: Packing { eight, permuted },
            network: network.to_owned(),
        };
        assert_eq!(Codec::parse("vixnn"), Ok(vixnn(false, false, "0.3")));
        assert_eq!(Codec::parse("vixnn8 permuted 0.3"), Ok(vixnn(true, true, "0.3")));
        assert!(Codec::parse("gop9").unwrap_err().contains("gop"));
        assert!(Codec::parse("vixnn 0.99").is_err() && Codec::parse("gop8 0.3").is_err());
        assert!(Codec::parse("vixnn whole").is_err() && Codec::parse("openh264 whole").is_err());
        let whole = Codec::H264 { coding: Coding::Gop8, sliced: false, repaired: true };
        assert_eq!(Codec::parse("fec whole"), Ok(whole));
    }

    #[test]
    fn a_picture_stays_until_there_is_another() {
        let pictures: Vec<Picture> = (0..3).map(|shift| drawn(32, 32, shift)).collect();
        let clip = Clip { size: (32, 32), pictures: pictures.clone(), planes: Vec::new() };
        let shown =
            held(&clip, vec![Some(pictures[0].clone()), None, Some(pictures[2].clone())], &[1]).unwrap();
        assert_eq!(shown.kept[&1], pictures[0]);
        let summary = Summary::of(&shown.qualities);
        assert_eq!(summary.least_psnr, quality(&pictures[1], &pictures[0]).unwrap().psnr);
        assert!((summary.psnr - (2.0 * media::PSNR_CAP + summary.least_psnr) / 3.0).abs() < 1e-9);
        let nothing = held(&clip, vec![None; 3], &[]).unwrap();
        assert!(nothing.qualities.iter().all(|quality| quality.psnr < 20.0));
    }

    #[test]
    fn of_a_damaged_stream_the_first_frames_are_whole() {
        let stream = Stream::parse(&small()).unwrap();
        let all = Stream { frames: stream.frames.iter().cycle().take(20).cloned().collect(), ..stream };
        let lost = transmitted(&all, Channel::Loss(1.0), false, &mut Rng::stream(1, "all"));
        assert!((0..8).all(|frame| lost.frames[frame] == all.frames[frame]));
        assert!((8..20).all(|frame| lost.frames[frame].is_empty()));
        let wrong = transmitted(&all, Channel::Errors(0.5), false, &mut Rng::stream(1, "wrong"));
        let first =
            |stream: &Stream| stream.frames.iter().flatten().map(|slice| slice[0]).collect::<Vec<_>>();
        assert_eq!(first(&wrong), first(&all));
        assert_ne!(wrong.frames[8..], all.frames[8..]);
    }
}
