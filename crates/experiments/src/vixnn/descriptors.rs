//! ViXNN as packets carry it: a packet for each descriptor of a frame (or of a part of it), or, in ViXNN8, of
//! the same part of eight frames.
//!
//! ```text
//!   ViXNN    frame f:        [descriptor 0][descriptor 1] ... [descriptor 7]
//!   ViXNN8   frames f..f+8:  [descriptor 0, part 0: f, f+1, ... f+7][descriptor 0, part 1: ...] ...
//! ```
//!
//! A lost packet costs a frame an eighth of its bits in one case, and eight frames an eighth of the bits of
//! one part in the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use units::Rng;
use vixnn::packet::{HEADER, Order, cut, place};
use vixnn::{DESCRIPTORS, Decoder, Descriptors, Encoder, Model, Picture, Received};

use super::channel::{Channel, spoil};
use super::pictures::{self, Clip, Quality, quality};
use super::stream::PAYLOAD;

/// Frames that a packet of ViXNN8 is about.
pub(super) const EIGHT: usize = 8;

/// How descriptors are put into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    /// A packet is about eight frames.
    pub eight: bool,
    /// A packet's blocks lie all over the picture, not row by row.
    pub permuted: bool,
}

/// A packet: pieces of one descriptor, each of another frame.
struct Packet {
    /// The first of its frames.
    frame: usize,
    pieces: Vec<(usize, Vec<u8>)>,
}

/// A clip's descriptors.
pub(super) struct Coded {
    model: Arc<Model>,
    clip: Arc<Clip>,
    frames: Vec<Descriptors>,
    /// Quality of each frame if all of it arrives.
    whole: Vec<Quality>,
}

/// The model that tables call `0.3`, `svc` and so on.
pub(super) fn model(short: &str) -> Result<Arc<Model>, String> {
    let known = Model::names();
    let ends = |name: &&&str| {
        **name == short
            || name
                .strip_prefix("fast-")
                .is_some_and(|rest| rest == short || rest.strip_prefix("mdc-") == Some(short))
    };
    let name = known
        .iter()
        .find(ends)
        .ok_or_else(|| format!("no network is called `{short}`; {}", units::instead(short, &known)))?;
    Model::shipped(name).map_err(|error| error.to_string())
}

/// A clip coded by a model; each is coded once.
pub(super) fn coded(clip: &str, short: &str) -> Result<Arc<Coded>, String> {
    type Key = (String, String);
    static KNOWN: Mutex<BTreeMap<Key, Arc<Coded>>> = Mutex::new(BTreeMap::new());
    // Whoever comes second waits: a clip is not coded twice.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (clip.to_owned(), short.to_owned());
    if let Some(coded) = known.get(&key) {
        return Ok(coded.clone());
    }
    let coded = Arc::new(Coded::new(pictures::clip(clip)?, model(short)?)?);
    known.insert(key, coded.clone());
    Ok(coded)
}

impl Coded {
    fn new(clip: Arc<Clip>, model: Arc<Model>) -> Result<Coded, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut encoder = Encoder::new(model.clone(), threads);
        let mut decoder = Decoder::new(model.clone(), threads);
        let frames: Vec<Descriptors> = clip.pictures.iter().map(|picture| encoder.encode(picture)).collect();
        let of = |(picture, frame)| quality(picture, &decoder.decode(&Received::all(frame)));
        let whole = clip.pictures.iter().zip(&frames).map(of).collect::<Result<_, _>>()?;
        Ok(Coded { model, clip, frames, whole })
    }

    /// Bits of a frame.
    pub fn bits(&self) -> f64 {
        self.frames.first().map_or(0.0, |frame| (frame.bits.iter().map(Vec::len).sum::<usize>() * 16) as f64)
    }

    /// The clip's frames, in order.
    pub fn frames(&self) -> &[Descriptors] {
        &self.frames
    }

    fn packets(&self, packing: Packing) -> Vec<Packet> {
        let order = if packing.permuted { Order::Permuted } else { Order::Rows };
        let frames = if packing.eight { EIGHT } else { 1 };
        let most = if packing.eight { HEADER + (PAYLOAD - HEADER) / EIGHT / 2 * 2 } else { PAYLOAD };
        let mut packets = Vec::new();
        for (number, group) in self.frames.chunks(frames).enumerate() {
            let first = number * frames;
            let of_frame =
                |frame: &Descriptors| cut(frame, self.model.fingerprint(), DESCRIPTORS, order, most);
            let cuts: Vec<Vec<Vec<u8>>> = group.iter().map(of_frame).collect();
            for part in 0..cuts[0].len() {
                let pieces = (first..).zip(cuts.iter().map(|cut| cut[part].clone())).collect();
                packets.push(Packet { frame: first, pieces });
            }
        }
        packets
    }

    /// What a receiver has of each frame.
    pub fn received(
        &self,
        packing: Packing,
        channel: Channel,
        rng: &mut Rng,
    ) -> Result<Vec<Received>, String> {
        let packets = self.packets(packing);
        let numbers: Vec<usize> = packets.iter().map(|packet| packet.frame).collect();
        let arrivals = channel.arrivals(&numbers, rng);
        let (width, height) = self.clip.size;
        let mut received = vec![Received::none(width, height); self.frames.len()];
        for (packet, _) in packets.into_iter().zip(arrivals).filter(|(_, arrived)| *arrived) {
            for (frame, mut piece) in packet.pieces {
                spoil(&mut piece, HEADER, channel.errors(frame), rng);
                place(&mut received[frame], &piece).map_err(|error| error.to_string())?;
            }
        }
        Ok(received)
    }

    /// Quality of what is shown of each frame, and the pictures of the frames asked for. Of a frame of which
    /// nothing is there the one before it stays.
    pub fn shown(
        &self,
        received: &[Received],
        keep: &[usize],
    ) -> Result<(Vec<Quality>, BTreeMap<usize, Picture>), String> {
        let mut decoder = Decoder::new(self.model.clone(), 1);
        let (mut qualities, mut kept, mut last) = (Vec::new(), BTreeMap::new(), 0);
        for (frame, there) in received.iter().enumerate() {
            last = if there.share() > 0.0 { frame } else { last };
            let is_whole = last == frame && *there == Received::all(&self.frames[frame]);
            if is_whole && !keep.contains(&frame) {
                qualities.push(self.whole[frame]);
                continue;
            }
            let picture = decoder.decode(&received[last]);
            qualities.push(quality(&self.clip.pictures[frame], &picture)?);
            if keep.contains(&frame) {
                kept.insert(frame, picture);
            }
        }
        Ok((qualities, kept))
    }

    /// As [`received`](Coded::received), of a receiver that gets so many descriptors of each frame: of a
    /// model whose descriptors build on each other the first ones, of others any.
    pub fn of_rate(&self, descriptors: impl Fn(usize) -> usize, first: bool, rng: &mut Rng) -> Vec<Received> {
        let of = |(frame, all): (usize, &Descriptors)| {
            Received::only(all, &subset(descriptors(frame), first, rng))
        };
        self.frames.iter().enumerate().map(of).collect()
    }
}

/// So many descriptors: the first ones, or any.
pub(super) fn subset(count: usize, first: bool, rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..DESCRIPTORS).collect();
    if !first {
        (1..DESCRIPTORS).rev().for_each(|last| all.swap(last, rng.below(last as u64 + 1) as usize));
    }
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vixnn::pictures::tests::drawn;

    fn small() -> Coded {
        let size = (352, 40);
        let pictures: Vec<Picture> = (0..9).map(|shift| drawn(size.0, size.1, shift)).collect();
        let clip = Clip { size, pictures, planes: Vec::new() };
        Coded::new(Arc::new(clip), model("0.3").unwrap()).unwrap()
    }

    #[test]
    fn a_packet_of_eight_frames_costs_each_a_part_of_one_descriptor() {
        let coded = small();
        let (plain, eight) =
            (Packing { eight: false, permuted: false }, Packing { eight: true, permuted: false });
        // 66 blocks, 132 bytes a descriptor: one packet each, of eight frames one, too, and the ninth alone.
        assert_eq!(coded.packets(plain).len(), 9 * 8);
        let packets = coded.packets(eight);
        assert_eq!(packets.len(), 16);
        assert_eq!((packets[0].pieces.len(), packets[15].pieces.len(), packets[15].frame), (8, 1, 8));
        let bytes = |packet: &Packet| {
            packet.pieces.iter().map(|(_, piece)| piece.len() - HEADER).sum::<usize>() + HEADER
        };
        assert!(packets.iter().all(|packet| bytes(packet) <= PAYLOAD));
        assert_eq!(coded.bits(), 66.0 * 128.0);
    }

    #[test]
    fn what_arrives_whole_is_what_was_sent() {
        let coded = small();
        for (eight, permuted) in [(false, false), (true, false), (false, true), (true, true)] {
            let packing = Packing { eight, permuted };
            let received = coded.received(packing, Channel::PERFECT, &mut Rng::stream(1, "perfect")).unwrap();
            let all = coded.frames.iter().map(Received::all);
            assert!(received.iter().zip(all).all(|(received, all)| *received == all), "{packing:?}");
            let (shown, kept) = coded.shown(&received, &[3]).unwrap();
            assert_eq!(shown, coded.whole);
            assert_eq!(kept.keys().collect::<Vec<_>>(), [&3]);
        }
        let nothing = vec![Received::none(352, 40); 9];
        assert_eq!(coded.shown(&nothing, &[]).unwrap().0.len(), 9);
    }

    #[test]
    fn losses_hit_one_frame_or_eight() {
        let coded = small();
        let share = |eight| {
            let packing = Packing { eight, permuted: false };
            let lost = coded.received(packing, Channel::Once(8), &mut Rng::stream(1, "once")).unwrap();
            lost.iter().map(Received::share).collect::<Vec<_>>()
        };
        for shares in [share(false), share(true)] {
            assert!(shares[..8].iter().all(|&share| share == 1.0) && shares[8] < 1.0, "{shares:?}");
        }
        let packing = Packing { eight: true, permuted: false };
        let lost = coded.received(packing, Channel::Loss(0.4), &mut Rng::stream(1, "eight")).unwrap();
        // Nothing of the first eight frames is lost; the ninth alone is in the second group.
        assert_eq!(lost[7], Received::all(&coded.frames[7]));
    }

    #[test]
    fn a_subset_has_no_descriptor_twice() {
        let mut rng = Rng::stream(1, "subset");
        assert_eq!(subset(3, true, &mut rng), [0, 1, 2]);
        let mut any: Vec<usize> = subset(8, false, &mut rng);
        assert_ne!(any, (0..8).collect::<Vec<_>>());
        any.sort_unstable();
        assert_eq!(any, (0..8).collect::<Vec<_>>());
    }
}
