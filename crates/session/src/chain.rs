//! One track at the receiver: its frames in the making, its decoder, and what it still asks for.

use units::Time;
use wire::{Class, FrameId};

use crate::assembly::{Assembling, Assembly};
use crate::config::ReceiverConfig;
use crate::decoding::Decoding;
use crate::display::{Display, Progress};

/// Captures of a session at most: stream numbers beyond are malformed. Each costs its buffers.
pub const CAPTURES: u8 = 4;
/// Tracks of a capture at most.
const TRACKS: u8 = crate::strategy::TRACKS as u8;

/// The capture that a stream shows; its low four bits ([`wire::Media::stream`]).
pub const fn capture_of(stream: u8) -> u8 {
    stream & 15
}

/// The track of that capture whose frames a stream carries: its high four bits.
pub const fn track_of(stream: u8) -> u8 {
    stream >> 4
}

/// Whether a session may carry a stream of this number.
pub const fn is_allowed(stream: u8) -> bool {
    capture_of(stream) < CAPTURES && track_of(stream) < TRACKS
}

/// The stream number of a capture's track.
pub const fn stream_of(capture: u8, track: u8) -> u8 {
    track << 4 | capture
}

/// Assembly and decoder of one track.
pub struct Chain {
    /// The stream's number.
    pub stream: u8,
    /// Frames in the making.
    pub assembly: Assembly,
    /// When a packet of it was last heard.
    pub heard: Time,
    /// The order of decoding.
    pub display: Display,
    /// The track's decoder.
    pub decoding: Decoding,
    /// The frame after the newest that is decoded.
    pub next_decoded: u32,
    /// No further frame fitted into the decoder when it was last looked at.
    pub waited: bool,
    /// The last request for a key frame.
    pub key_sequence: u16,
    /// A key frame is wanted: after this frame, asked for next at this time.
    pub key_wanted: Option<(u32, Time)>,
}

impl Chain {
    /// Nothing yet of a stream, which `decoding` decodes.
    pub fn new(stream: u8, class: Class, decoding: Decoding) -> Chain {
        Chain {
            stream,
            assembly: Assembly::new(class),
            heard: Time::ZERO,
            display: Display::default(),
            decoding,
            next_decoded: 0,
            waited: false,
            key_sequence: 0,
            key_wanted: None,
        }
    }

    /// Gives the decoder what can be decoded, and gives up what can't be any more.
    pub fn advance(&mut self, now: Time, config: &ReceiverConfig) -> Progress {
        let settled = self.settles_at().is_some_and(|at| at <= now);
        self.display.advance(now, self.stream, &mut self.assembly, &mut self.decoding, (config, settled))
    }

    /// Whether a frame that has just begun to arrive lets another be shown as it is: one whose packets decode
    /// each alone ([`media::Decoder::standalone`]).
    pub fn begins(&self, id: FrameId) -> bool {
        let of = |frame: &&Assembling| frame.id == id && frame.have == 1;
        self.decoding.standalone().is_some() && self.assembly.frames().any(|frame| of(&frame))
    }

    /// Something is missing, or would not decode, that what has arrived since is predicted from.
    pub fn is_stuck(&self) -> bool {
        if self.display.is_broken() {
            return true;
        }
        let mut frames = self.assembly.frames();
        frames
            .next()
            .is_some_and(|oldest| oldest.is_complete() || oldest.has_gap() || frames.next().is_some())
    }

    /// A frame of this number will likely be decoded soon: the one before it is, so that neither a loss nor a
    /// backlog holds it up, and the track leaves no frames out.
    pub fn may_bring(&self, frame: u32) -> bool {
        !self.is_stuck() && self.next_decoded >= frame
    }

    /// When [`advance`](Chain::advance) will next give something up.
    pub fn next_expiry(&self) -> Option<Time> {
        Time::first(self.display.next_expiry(&self.assembly), self.settles_at())
    }

    /// What this end wants of the clock for the chain's sake: to give frames up, to ask for a key frame, to
    /// take what was decoded.
    pub fn next_wake(&self) -> Option<Time> {
        let asks = Time::first(self.next_expiry(), self.key_wanted.map(|(_, at)| at));
        Time::first(asks, self.decoding.next_ready())
    }

    /// Whether that changes only with a packet that begins or completes a frame, or with a call.
    pub fn is_quiet(&self) -> bool {
        self.decoding.is_foreseeable() && self.decoding.pace().is_none()
    }

    /// When a coding of several frames, of which something is missing, is shown as it is: nothing more of the
    /// stream has arrived for one frame's time. To wait for the next one, as with single frames, would take
    /// as long again as the coding spans.
    fn settles_at(&self) -> Option<Time> {
        let pace = self.decoding.pace()?;
        self.display.has_part(&self.assembly, &self.decoding).then(|| self.heard + pace)
    }

    /// The chain is broken: a key frame after `frame` is needed. A stream whose frames are each sent once
    /// gets none for asking.
    pub fn want_key(&mut self, after: u32, now: Time) {
        if self.assembly.class() != Class::OneShot {
            self.key_wanted = Some((after, now));
        }
    }
}
