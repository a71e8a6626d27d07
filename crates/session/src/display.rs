//! Which complete frames are decoded and shown, and when.

use std::collections::VecDeque;

use media::RawFrame;
use units::{RemoteTime, Span, Time};

use crate::assembly::{Assembling, Assembly};
use crate::decoding::Decoding;
use crate::playout::Arrival;

/// Decoded frames that later ones may refer to: as far back as a packet can say ([`wire::Media::reference`]).
const KEPT: usize = 255;

/// A frame as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Stream.
    pub stream: u8,
    /// Capture index.
    pub frame: u32,
    /// Version.
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
    pub abandoned: Vec<u32>,
    /// The chain is broken: a key frame after this one is needed.
    pub need_key_after: Option<u32>,
}

/// The order of decoding.
#[derive(Debug, Default)]
pub struct Display {
    decoded: Option<u32>,
    /// Frames that were decoded since the last key frame, oldest first.
    kept: VecDeque<u32>,
    /// The last key frame among those.
    key: Option<u32>,
    /// The chain is broken and waits for a key frame, or for one that refers to a frame before the break.
    broken: bool,
}

impl Display {
    /// The last frame given to the decoder.
    pub fn decoded(&self) -> Option<u32> {
        self.decoded
    }

    /// The chain waits for a key frame.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn decodable(&self, frame: &Assembling) -> bool {
        let kept = || self.kept.binary_search(&frame.frame.wrapping_sub(u32::from(frame.reference))).is_ok();
        frame.is_complete() && (frame.key || kept())
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
            let number = frame.frame;
            decoding.submit(now, about(stream, frame), frame.deadline, frame.bytes());
            self.broken = false;
            self.decoded = Some(number);
            if frame.key {
                self.key = Some(number);
                self.kept.clear();
            }
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(number);
            assembly.raise_floor(number + 1, |gone| {
                if gone.frame != number {
                    progress.abandoned.push(gone.frame);
                }
            });
        }
        self.give_up_expired(now, assembly, &mut progress);
        progress
    }

    /// Gives up every frame up to `last`, which breaks the chain.
    pub fn give_up(&mut self, last: u32, assembly: &mut Assembly, progress: &mut Progress) {
        assembly.raise_floor(last + 1, |gone| progress.abandoned.push(gone.frame));
        self.broken = true;
        progress.need_key_after = Some(last);
    }

    /// A frame did not decode, which breaks the chain unless a key frame has followed it already: true if
    /// that is news.
    pub fn failed(&mut self, frame: u32) -> bool {
        let healed = self.key.is_some_and(|key| key > frame);
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
        let newest = assembly.newest();
        let expired = |frame: &&Assembling| frame.deadline < now && frame.frame < newest;
        let expired = assembly.frames().take_while(expired).last().map(|frame| frame.frame);
        if let Some(last) = expired {
            self.give_up(last, assembly, progress);
        }
    }

    /// When [`advance`](Display::advance) will next give something up.
    pub fn next_expiry(&self, assembly: &Assembly) -> Option<Time> {
        let first = assembly.frames().next().filter(|frame| frame.frame < assembly.newest());
        first.map(|frame| frame.deadline + Span::from_nanos(1))
    }
}

/// A frame as it will be shown once it is decoded.
fn about(stream: u8, frame: &Assembling) -> Shown {
    let (captured, version) = (frame.captured, frame.version);
    let arrival = frame.arrival();
    Shown { stream, frame: frame.frame, version, captured, late: false, arrival, picture: None }
}
