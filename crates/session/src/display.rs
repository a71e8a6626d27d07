//! Which complete frames are decoded and shown, and when.

use std::collections::VecDeque;

use media::RawFrame;
use units::{RemoteTime, Span, Time};
use wire::{Class, FrameId};

use crate::assembly::{Assembling, Assembly};
use crate::config::ReceiverConfig;
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
    /// It is shown after its deadline.
    pub late: bool,
    /// How it came to be complete.
    pub arrival: Arrival,
    /// Some of the picture is made up, or predicted from such a picture.
    pub concealed: bool,
    /// The picture, where there is a decoder.
    // Apart: most of what a frame is copied by otherwise, and a simulated one has none.
    pub picture: Option<Box<RawFrame>>,
}

/// What the viewer looks at.
pub trait Screen: Send {
    /// Shows a frame; called in order, each frame at most once.
    fn show(&mut self, now: Time, shown: &Shown);
    /// A decoded frame will never be shown, for a better coding of it or a newer frame is shown instead: what
    /// its picture holds can be freed. Each decoded frame comes here or to [`show`](Screen::show), or still
    /// waits for its time.
    fn discard(&mut self, now: Time, unseen: &Shown) {
        let _ = (now, unseen);
    }
}

/// What one look at the assembly found.
#[derive(Debug, Default)]
pub struct Progress {
    /// Frames given up.
    pub abandoned: Vec<FrameId>,
    /// Frames handed to the decoder though parts of them are missing.
    pub concealed: u64,
    /// The chain is broken: a key frame after this one is needed.
    pub need_key_after: Option<u32>,
}

/// The order of decoding.
#[derive(Debug, Default)]
pub struct Display {
    newest: Option<FrameId>,
    /// Frames that were decoded since the last key frame, in that order, each with whether it is exact:
    /// nothing of it, or of what it is predicted from, was missing.
    kept: VecDeque<(FrameId, bool)>,
    /// The last key frame among those.
    key: Option<FrameId>,
    /// The chain is broken and waits for a key frame, or for one that refers to a frame before the break.
    broken: bool,
    /// The last frame is not exact: a key frame is wanted, or one that refers to an exact one.
    damaged: bool,
}

impl Display {
    /// The last frame given to the decoder.
    pub fn newest(&self) -> Option<FrameId> {
        self.newest
    }

    /// The chain waits for a key frame.
    pub fn is_broken(&self) -> bool {
        self.broken || self.damaged
    }

    fn decodable(&self, frame: &Assembling) -> bool {
        frame.is_complete() && self.may_decode(frame.reference)
    }

    /// Whether a frame that is predicted from `reference` can be decoded once it is complete.
    pub fn may_decode(&self, reference: Option<FrameId>) -> bool {
        reference.is_none_or(|reference| self.kept.iter().rev().any(|&(kept, _)| kept == reference))
    }

    /// Gives the decoder what can be decoded, and gives up what can't be any more. `settled`: no more will
    /// come of a frame that is incomplete.
    pub fn advance(
        &mut self,
        now: Time,
        stream: u8,
        assembly: &mut Assembly,
        decoding: &mut Decoding,
        (config, settled): (&ReceiverConfig, bool),
    ) -> Progress {
        let mut progress = Progress::default();
        while !decoding.is_full() {
            let ready = assembly.frames().find(|frame| self.decodable(frame));
            let incomplete = self.incomplete(now, assembly, decoding, (config, settled));
            // What needs nothing but itself comes before a newer frame that is whole.
            let first = |alone: bool, id: FrameId| ready.is_none_or(|ready| alone && id < ready.id);
            if let Some((frame, alone)) = incomplete.filter(|(frame, alone)| first(*alone, frame.id)) {
                let (id, key) = (frame.id, frame.reference.is_none());
                decoding.submit_parts(now, about(stream, frame), frame.deadline, &frame.usable());
                progress.concealed += 1;
                // Nothing is predicted from a frame of this kind.
                progress.need_key_after = Some(id.frame).filter(|_| !alone);
                self.decoded(id, key, alone, assembly, &mut progress);
            } else if let Some(frame) = ready {
                let id = frame.id;
                let exact = frame.reference.is_none_or(|reference| self.is_exact(reference));
                let key = frame.reference.is_none();
                // Where one packet ends and the next begins is known here, and not by their bytes.
                match decoding.standalone().and_then(|tell| frame.packets(tell)) {
                    Some(parts) => decoding.submit_parts(now, about(stream, frame), frame.deadline, &parts),
                    None => decoding.submit(now, about(stream, frame), frame.deadline, frame.bytes()),
                }
                self.decoded(id, key, exact, assembly, &mut progress);
            } else {
                break;
            }
        }
        self.give_up_expired(now, assembly, &mut progress);
        progress
    }

    /// A frame was given to the decoder; those before it will not be.
    fn decoded(
        &mut self,
        id: FrameId,
        key: bool,
        exact: bool,
        assembly: &mut Assembly,
        progress: &mut Progress,
    ) {
        (self.broken, self.damaged) = (false, !exact);
        progress.need_key_after = progress.need_key_after.filter(|_| !exact);
        self.newest = Some(id);
        if key {
            self.key = Some(id);
            self.kept.clear();
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((id, exact));
        if assembly.class() == Class::Reliable {
            return assembly.finish(id);
        }
        assembly.raise_floor(id.frame.saturating_add(1), |gone| {
            if gone.id != id {
                progress.abandoned.push(gone.id);
            }
        });
    }

    fn is_exact(&self, id: FrameId) -> bool {
        self.kept.iter().rev().find(|(kept, _)| *kept == id).is_some_and(|&(_, exact)| exact)
    }

    /// The oldest frame of which parts are missing, if it is to be shown as it is: what it is predicted from
    /// was decoded, and no repair can come in time. And whether its packets decode each alone.
    ///
    /// A sender sends the frames of a stream in order. So one whose packets decode alone is as good as it
    /// gets when the next one begins: it is shown then. Packets of it that the network has put behind those
    /// of the next one come too late, as do repairs. To wait for those until the next one is whole would be
    /// of no use: that one would be due as well, and be shown in its place.
    fn incomplete<'a>(
        &self,
        now: Time,
        assembly: &'a Assembly,
        decoding: &Decoding,
        (config, settled): (&ReceiverConfig, bool),
    ) -> Option<(&'a Assembling, bool)> {
        let conceals = config.conceal && decoding.uses_parts();
        let standalone = decoding.standalone();
        if assembly.class() == Class::Reliable || !conceals && standalone.is_none() {
            return None;
        }
        let alone = |frame: &Assembling| standalone.is_some_and(|tell| frame.stands_alone(tell));
        let fits = |frame: &&Assembling| {
            let usable = alone(frame) || conceals && frame.is_usable();
            usable && !frame.is_complete() && self.may_decode(frame.reference)
        };
        let frame = assembly.frames().find(fits)?;
        let (alone, repaired) = (alone(frame), config.nack && assembly.class() == Class::Deadline);
        let mut newer = assembly.frames().filter(|other| other.id > frame.id);
        let followed = if alone {
            settled || newer.next().is_some()
        } else {
            !repaired && newer.any(Assembling::is_complete)
        };
        (frame.deadline < now || followed).then_some((frame, alone))
    }

    /// Whether there is an incomplete frame that can be shown as it is, since its packets decode each alone.
    pub fn has_part(&self, assembly: &Assembly, decoding: &Decoding) -> bool {
        let Some(tell) = decoding.standalone().filter(|_| assembly.class() != Class::Reliable) else {
            return false;
        };
        let fits = |frame: &Assembling| {
            !frame.is_complete() && frame.stands_alone(tell) && self.may_decode(frame.reference)
        };
        assembly.frames().any(fits)
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
    Shown { stream, frame: number, version, captured, late: false, arrival, concealed: false, picture: None }
}
