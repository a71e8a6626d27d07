//! The decoder: a picture of whatever came.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use units::{Span, Time};
use vixnn::packet::{self, Gathered, Group};
use vixnn::{BLOCK, Model, Received, Temporal};

use super::{is_size, refuse};
use crate::{Codec, CodecError, Decoded, Decoder, Earlier, Parts, RawFrame, rgb};

/// Decodes ViXNN. The network is the one whose fingerprint the packets carry: one that is built in, or one
/// that it was given.
///
/// Of a frame of which packets are missing every block shows what came of it; blocks of which nothing came
/// show what they showed in the picture before. A packet that is malformed, or says something else of the
/// frame than its first, counts as missing ([`ignored`](VixnnDecoder::ignored)).
pub struct VixnnDecoder {
    given: Option<Arc<Model>>,
    threads: usize,
    /// The network that was used last.
    network: Option<(u16, vixnn::Decoder)>,
    /// The picture before.
    last: Option<RawFrame>,
    /// What is missing is looked for in up to so many frames before.
    temporal: Option<(u32, Temporal)>,
    /// The number of the frame before.
    before: Option<u32>,
    ignored: u64,
    ready: VecDeque<Decoded>,
}

impl VixnnDecoder {
    /// A decoder that has the built-in networks and the one `given`, run by so many `threads`, at least one.
    pub fn new(given: Option<Arc<Model>>, threads: usize) -> VixnnDecoder {
        VixnnDecoder {
            given,
            threads: threads.max(1),
            network: None,
            last: None,
            temporal: None,
            before: None,
            ignored: 0,
            ready: VecDeque::new(),
        }
    }

    /// Takes missing descriptors of a block from up to so many `frames` before, where those that came say
    /// that the block still looks the same: whatever is wrong is gone after as many.
    pub fn with_temporal(self, frames: u32) -> VixnnDecoder {
        VixnnDecoder { temporal: Some((frames, Temporal::new(frames, Temporal::SHARE))), ..self }
    }

    /// Packets so far that were malformed, or did not fit to the frame that they came with.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Decodes the packets that came of a frame; of a group, gives its last picture. True beside the picture
    /// if some did not count.
    ///
    /// # Errors
    /// [`CodecError`] if none is well-formed, the picture has a size that is not decoded, or nobody knows its
    /// network.
    pub fn decode(&mut self, packets: &[&[u8]]) -> Result<(RawFrame, bool), CodecError> {
        self.decode_all(None, packets).map(|(_, picture, ignored)| (picture, ignored))
    }

    /// The pictures of a group before its last one, oldest first, the last one, and whether some packets did
    /// not count.
    fn decode_all(&mut self, frame: Option<u32>, packets: &[&[u8]]) -> Result<Pictures, CodecError> {
        let gathered = packet::gather(packets, is_size).or_else(|error| {
            self.ignored += packets.len() as u64;
            refuse(error.to_string())
        })?;
        let Gathered { fingerprint, received, earlier, group, ignored } = gathered;
        self.ignored += ignored as u64;
        // The network first: nothing of a stray packet is remembered.
        self.network(fingerprint)?;
        let backs = group.as_ref().map_or(&[][..], Group::backs);
        let interval = Span::from_micros(group.map_or(0, |group| i64::from(group.interval_us())));
        let mut pictures = Vec::with_capacity(earlier.len());
        for (received, &back) in earlier.into_iter().zip(backs) {
            self.skip_to(frame.and_then(|frame| frame.checked_sub(back.into())));
            let picture = self.picture(fingerprint, received)?;
            pictures.push(Earlier { back: back.into(), before: interval * i64::from(back), picture });
        }
        self.skip_to(frame);
        Ok((pictures, self.picture(fingerprint, received)?, ignored > 0))
    }

    /// A picture of what came of it.
    fn picture(&mut self, fingerprint: u16, received: Received) -> Result<RawFrame, CodecError> {
        let (width, height) = (received.width(), received.height());
        let refined = self.temporal.as_mut().map(|(_, temporal)| temporal.refine(&received));
        let received = refined.unwrap_or(received);
        let decoded = self.network(fingerprint)?.decode(&received);
        let mut picture = rgb::from_rgb(decoded.width, decoded.height, &decoded.rgb);
        if let Some(last) = self.last.as_ref().filter(|last| (last.width, last.height) == (width, height)) {
            keep_missing(&mut picture, last, &received);
        }
        self.last = Some(picture.clone());
        Ok(picture)
    }

    /// The network of this fingerprint.
    fn network(&mut self, fingerprint: u16) -> Result<&mut vixnn::Decoder, CodecError> {
        if self.network.as_ref().is_none_or(|(of, _)| *of != fingerprint) {
            let given = self.given.clone().filter(|given| given.fingerprint() == fingerprint);
            let Some(model) = given.or_else(|| Model::of_fingerprint(fingerprint)) else {
                let what = format!(
                    "the frames are of the network {fingerprint:04x}, which is not known here: give its file of weights to the \
                     receiver (--vixnn-model FILE); there are {}",
                    Model::names().join(", ")
                );
                // A stray packet does not end a stream that has been decoded so far.
                return match self.network {
                    None => Err(CodecError::Unavailable { codec: "vixnn", what }),
                    Some(_) => refuse(what),
                };
            };
            self.network = Some((fingerprint, vixnn::Decoder::new(model, self.threads)));
        }
        Ok(&mut self.network.as_mut().expect("it was opened").1)
    }

    /// Frames of which nothing came make what is remembered older, too.
    fn skip_to(&mut self, frame: Option<u32>) {
        let Some(frame) = frame else { return };
        let missed = self.before.map_or(0, |before| frame.saturating_sub(before.saturating_add(1)));
        self.before = Some(frame);
        let size = self.last.as_ref().map(|last| (last.width, last.height));
        if let (Some((frames, temporal)), Some((width, height))) = (&mut self.temporal, size) {
            for _ in 0..missed.min(frames.saturating_add(1)) {
                temporal.refine(&Received::none(width, height));
            }
        }
    }

    fn finish(&mut self, frame: u32, packets: &[&[u8]], complete: bool) {
        let pictures = self.decode_all(Some(frame), packets);
        self.ready.push_back(decoded(frame, complete, pictures));
    }
}

/// The pictures of a group before its last one, oldest first, the last one, and whether some packets did not
/// count.
pub(super) type Pictures = (Vec<Earlier>, RawFrame, bool);

/// What became of a frame of which all packets came, if `complete`.
pub(super) fn decoded(frame: u32, complete: bool, pictures: Result<Pictures, CodecError>) -> Decoded {
    match pictures {
        Ok((earlier, picture, ignored)) => {
            Decoded { frame, picture: Ok(picture), concealed: !complete || ignored, earlier }
        }
        Err(error) => Decoded { concealed: !complete, ..Decoded::whole(frame, Err(error)) },
    }
}

/// Blocks of which nothing came are those of the picture before, which has the same size.
fn keep_missing(picture: &mut RawFrame, last: &RawFrame, received: &Received) {
    let (columns, rows) = received.blocks();
    let missing = (0..columns * rows).filter(|&block| received.count(block) == 0);
    for block in missing {
        let (left, top) = (block % columns * BLOCK, block / columns * BLOCK);
        let (width, height) = (picture.width, picture.height);
        let planes =
            [(&mut picture.y, &last.y, 1), (&mut picture.u, &last.u, 2), (&mut picture.v, &last.v, 2)];
        for (plane, last, by) in planes {
            let (stride, right) = (width / by, (left + BLOCK).min(width) / by);
            for row in top / by..(top + BLOCK).min(height) / by {
                let span = row * stride + left / by..row * stride + right;
                plane[span.clone()].copy_from_slice(&last[span]);
            }
        }
    }
}

impl Decoder for VixnnDecoder {
    fn submit(&mut self, _: Time, frame: u32, coded: Bytes) {
        self.finish(frame, &packet::split(&coded), true);
    }

    fn uses_parts(&self) -> bool {
        true
    }

    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        Some(Codec::stands_alone)
    }

    fn submit_parts(&mut self, _: Time, frame: u32, parts: &Parts) {
        let packets: Vec<&[u8]> = parts.present.iter().map(|part| &part.bytes[..]).collect();
        self.finish(frame, &packets, parts.complete);
    }

    fn poll(&mut self, _: Time) -> Option<Decoded> {
        self.ready.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|_| Time::ZERO)
    }
}
