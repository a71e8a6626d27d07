//! Which complete frames are decoded and shown, and when.

use std::collections::VecDeque;

use media::RawFrame;
use units::{RemoteTime, Span, Time};
use wire::{Class, FrameId};

use crate::assembly::{Assembling, Assembly};
use crate::decoding::Decoding;
use crate::playout::Arrival;

/// Decoded frames that later ones may refer to: as far back as a sender lets them, and more than any codec
/// keeps pictures of.
const KEPT: usize = 255;

/// A frame as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The stream's number within the session.
    pub stream: u8,
    /// Capture index.
    pub frame: u32,
    /// Which version of the frame it is; 0 is the first that was coded.
    pub version: u8,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// After its deadline.
    pub late: bool,
    /// How it came to be complete.
    pub arrival: Arrival,
    /// The picture, where there is a decoder.
    pub picture: Option<RawFrame>,
}

/// What the viewer looks at.
pub trait Screen: Send {
    /// Shows a frame; called in order, each frame at most once.
    fn show(&mut self, now: Time, shown: &Shown);
}

/// What one look at the assembly found.
#[derive(Debug, Default)]
pub struct Progress {
    /// Frames given up.
    pub abandoned: Vec<FrameId>,
    /// The chain is broken: a key frame after this one is needed.
    pub need_key_after: Option<u32>,
}

/// The order of decoding.
#[derive(Debug, Default)]
pub struct Display {
    decoded: Option<FrameId>,
    /// Frames that were decoded since the last key frame, in that order.
    kept: VecDeque<FrameId>,
    /// The last key frame among those.
    key: Option<FrameId>,
    /// The chain is broken and waits for a key frame, or for one that refers to a frame before the break.
    broken: bool,
}

impl Display {
    /// The last frame given to the decoder.
    pub fn decoded(&self) -> Option<FrameId> {
        self.decoded
    }

    /// The chain waits for a key frame.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn decodable(&self, frame: &Assembling) -> bool {
        frame.is_complete() && self.may_decode(frame.reference)
    }

    /// Whether a frame that is predicted from `reference` can be decoded once it is complete.
    pub fn may_decode(&self, reference: Option<FrameId>) -> bool {
        reference.is_none_or(|reference| self.kept.iter().rev().any(|&kept| kept == reference))
    }

    /// Gives the decoder what can be decoded, and gives up what can't be any more.
    pub fn advance(
        &mut self,
        now: Time,
        stream: u8,
        assembly: &mut Assembly,
        decoding: &mut Decoding,
    ) -> Progress {
        let mut progress = Progress::default();
        while !decoding.is_full() {
            let Some(frame) = assembly.frames().find(|frame| self.decodable(frame)) else { break };
            let (id, key) = (frame.id, frame.reference.is_none());
            decoding.submit(now, about(stream, frame), frame.deadline, frame.bytes());
            self.broken = false;
            self.decoded = Some(id);
            if key {
                self.key = Some(id);
                self.kept.clear();
            }
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(id);
            if assembly.class() == Class::Reliable {
                assembly.finish(id);
                continue;
            }
            assembly.raise_floor(id.frame.saturating_add(1), |gone| {
                if gone.id != id {
                    progress.abandoned.push(gone.id);
                }
            });
        }
        self.give_up_expired(now, assembly, &mut progress);
        progress
    }

    /// Gives up every frame up to `last`, which breaks the chain.
    pub fn give_up(&mut self, last: u32, assembly: &mut Assembly, progress: &mut Progress) {
        assembly.raise_floor(last.saturating_add(1), |gone| progress.abandoned.push(gone.id));
        self.broken = true;
        progress.need_key_after = Some(last);
    }

    /// A frame did not decode, which breaks the chain unless a key frame has followed it already: true if
    /// that is news.
    pub fn failed(&mut self, frame: u32) -> bool {
        let healed = self.key.is_some_and(|key| key.frame > frame);
        let news = !self.broken && !healed;
        self.broken |= news;
        if !healed {
            // A decoder that has failed knows nothing of what it decoded before.
            self.kept.clear();
        }
        news
    }

    /// Frames whose deadline passed before they could be decoded break the chain. The newest is spared: a
    /// path may be slower than a deadline and still deliver everything in order.
    fn give_up_expired(&mut self, now: Time, assembly: &mut Assembly, progress: &mut Progress) {
        if assembly.class() == Class::Reliable {
            return;
        }
        let newest = assembly.newest();
        let expired = |frame: &&Assembling| frame.deadline < now && frame.id.frame < newest;
        let expired = assembly.frames().take_while(expired).last().map(|frame| frame.id.frame);
        if let Some(last) = expired {
            self.give_up(last, assembly, progress);
        }
    }

    /// When [`advance`](Display::advance) will next give something up.
    pub fn next_expiry(&self, assembly: &Assembly) -> Option<Time> {
        if assembly.class() == Class::Reliable {
            return None;
        }
        let first = assembly.frames().next().filter(|frame| frame.id.frame < assembly.newest());
        first.map(|frame| frame.deadline + Span::from_nanos(1))
    }
}

/// A frame as it will be shown once it is decoded.
fn about(stream: u8, frame: &Assembling) -> Shown {
    let FrameId { frame: number, version } = frame.id;
    let (captured, arrival) = (frame.captured, frame.arrival());
    Shown { stream, frame: number, version, captured, late: false, arrival, picture: None }
}
