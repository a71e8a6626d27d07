//! The host as a receiver's decoder and screen.
//!
//! ```text
//!   Receiver -> Decoder::submit -> waiting -> Decoded::lend -> host's decoder
//!            <- Decoder::poll   <-            Decoded::take_back  (when the host asks for the next frame)
//!            -> Screen::show    -> due     -> Decoded::next_shown -> host's screen
//! ```
//!
//! A decoder is given bytes and a number. When a frame was captured and whether it is a key frame stands in
//! its packets' headers, so [`Noting`] reads those as every packet of the session passes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use media::{CodecError, Decoded, Decoder, Parts, RawFrame};
use session::{Screen, Shown};
use units::{RemoteTime, Time};
use wire::{
    Class, Context, Control, Dialect, Draft, Feedback, KeyFrameRequest, Kind, Media, Nack, Native, Outgoing,
    WireError,
};

/// The only stream that is decoded: the first track of the first capture.
const STREAM: u8 = 0;
/// Frames whose headers are remembered: more than a receiver puts together at once. Of more than that the
/// oldest go.
const NOTES: usize = 2048;
/// Frames to show that the host has not asked for, at most: half a second of them at 120 a second.
const DUE: usize = 64;

/// What a frame's headers say.
#[derive(Clone, Copy, Debug)]
struct Note {
    captured: RemoteTime,
    key: bool,
}

/// A frame with the decoder, from its submission until the receiver has taken back what became of it.
struct Inside {
    frame: u32,
    bytes: Bytes,
    complete: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Lent,
    Done { decodes: bool },
}

/// A frame for the host to decode.
pub struct Lent {
    pub frame: u32,
    pub bytes: Bytes,
    pub complete: bool,
    /// When it was captured, and whether it is a key frame; unknown where headers claimed too many frames.
    pub captured: Option<RemoteTime>,
    pub key: bool,
}

#[derive(Default)]
struct State {
    notes: BTreeMap<u32, Note>,
    /// In the order of decoding. The receiver bounds how many.
    inside: VecDeque<Inside>,
    /// The host's decoder has failed since the last key frame that it was given.
    failed: bool,
    due: VecDeque<Shown>,
}

impl State {
    fn note(&mut self, media: &Media) {
        let Media { captured, frame, .. } = *media;
        self.notes.insert(frame, Note { captured, key: media.is_key() });
        if self.notes.len() > NOTES {
            self.notes.pop_first();
        }
    }
}

/// What a receiver and its host exchange; clones share it.
#[derive(Clone, Default)]
pub struct Decoding(Arc<Mutex<State>>);

impl Decoding {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host is done with the frame it was lent, if it was lent one.
    pub fn take_back(&self) {
        let mut state = self.state();
        let decodes = !state.failed;
        let lent = state.inside.iter_mut().find(|inside| inside.phase == Phase::Lent);
        lent.into_iter().for_each(|inside| inside.phase = Phase::Done { decodes });
    }

    /// The next frame to decode. One at a time is lent.
    pub fn lend(&self) -> Option<Lent> {
        let mut state = self.state();
        let inside = state.inside.iter_mut().find(|inside| inside.phase == Phase::Waiting)?;
        inside.phase = Phase::Lent;
        let (frame, bytes, complete) = (inside.frame, inside.bytes.clone(), inside.complete);
        let note = state.notes.get(&frame).copied();
        // Frames are decoded in order: none before this one will be.
        state.notes = state.notes.split_off(&frame);
        let key = note.is_some_and(|note| note.key);
        state.failed &= !key;
        Some(Lent { frame, bytes, complete, captured: note.map(|note| note.captured), key })
    }

    /// The host's decoder failed.
    pub fn fail(&self) {
        self.state().failed = true;
    }

    /// The next frame that is to be shown.
    pub fn next_shown(&self) -> Option<Shown> {
        self.state().due.pop_front()
    }
}

/// The receiver's decoder.
pub struct HostDecoder {
    pub decoding: Decoding,
    /// The host's decoder makes pictures of frames of which parts are missing.
    pub conceals: bool,
}

impl Decoder for HostDecoder {
    fn submit(&mut self, now: Time, frame: u32, coded: Bytes) {
        let present = vec![media::Part { number: 0, bytes: coded }];
        self.submit_parts(now, frame, &Parts { present, complete: true });
    }

    fn uses_parts(&self) -> bool {
        self.conceals
    }

    fn submit_parts(&mut self, _now: Time, frame: u32, parts: &Parts) {
        let (bytes, complete, phase) = (parts.join(), parts.complete, Phase::Waiting);
        self.decoding.state().inside.push_back(Inside { frame, bytes, complete, phase });
    }

    fn poll(&mut self, _now: Time) -> Option<Decoded> {
        let mut state = self.decoding.state();
        let &Inside { frame, complete, phase: Phase::Done { decodes }, .. } = state.inside.front()? else {
            return None;
        };
        state.inside.pop_front();
        // The picture stays with the host: this one stands for it.
        let picture = if decodes { Ok(RawFrame::filled(2, 2, 0, 128, 128)) } else { Err(failed()) };
        Some(Decoded { concealed: !complete, ..Decoded::whole(frame, picture) })
    }

    fn next_ready(&self) -> Option<Time> {
        // Until the host gives one back nobody knows when; the receiver is woken then.
        let front = self.decoding.state().inside.front().map(|inside| inside.phase);
        front.filter(|phase| matches!(phase, Phase::Done { .. })).map(|_| Time::ZERO)
    }
}

fn failed() -> CodecError {
    CodecError::Codec { codec: "the host's decoder", what: "failed".to_owned() }
}

impl Screen for Decoding {
    fn show(&mut self, _now: Time, shown: &Shown) {
        if shown.stream != STREAM {
            return;
        }
        let mut state = self.state();
        if state.due.len() == DUE {
            state.due.pop_front();
        }
        state.due.push_back(shown.clone());
    }
}

/// The wire format, with a look at the headers of frames.
pub struct Noting(pub Decoding);

impl Dialect for Noting {
    fn header(&self) -> usize {
        Native.header()
    }
    fn least_padding(&self) -> usize {
        Native.least_padding()
    }
    fn peek(&self, datagram: &[u8]) -> Result<(Kind, u32), WireError> {
        Native.peek(datagram)
    }
    fn media(&mut self, datagram: &[u8], context: &Context, media: &mut Media) -> Result<usize, WireError> {
        let header = Native.media(datagram, context, media)?;
        if media.stream == STREAM && media.class != Class::Padding {
            self.0.state().note(media);
        }
        Ok(header)
    }
    fn feedback<'a>(&mut self, datagram: &'a [u8]) -> Result<Feedback<'a>, WireError> {
        Native.feedback(datagram)
    }
    fn nack(&mut self, datagram: &[u8]) -> Result<Nack, WireError> {
        Native.nack(datagram)
    }
    fn key_frame_request(&mut self, datagram: &[u8]) -> Result<KeyFrameRequest, WireError> {
        Native.key_frame_request(datagram)
    }
    fn control<'a>(&mut self, datagram: &'a [u8]) -> Result<Control<'a>, WireError> {
        Native.control(datagram)
    }
    fn write(&mut self, packet: Outgoing<'_>, out: &mut [u8]) -> usize {
        Native.write(packet, out)
    }
    fn write_feedback(
        &mut self,
        draft: &Draft<'_>,
        ranges: &mut dyn Iterator<Item = (u64, u64)>,
        out: &mut [u8],
    ) -> (usize, usize) {
        Native.write_feedback(draft, ranges, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(frames: &[(u32, bool)]) -> (Decoding, HostDecoder) {
        let decoding = Decoding::default();
        let mut decoder = HostDecoder { decoding: decoding.clone(), conceals: false };
        for &(frame, key) in frames {
            let reference = (!key).then(|| wire::FrameId::first(frame - 1));
            let class = Class::Deadline;
            decoding.state().note(&Media { frame, reference, class, ..Media::blank() });
            decoder.submit(Time::ZERO, frame, Bytes::from_static(&[1, 2]));
        }
        (decoding, decoder)
    }

    fn outcome(decoder: &mut HostDecoder) -> Option<(u32, bool)> {
        decoder.poll(Time::ZERO).map(|decoded| (decoded.frame, decoded.picture.is_ok()))
    }

    #[test]
    fn a_frame_counts_as_decoded_once_the_host_asks_for_the_next() {
        let (decoding, mut decoder) = given(&[(3, true), (4, false)]);
        let lent = decoding.lend().unwrap();
        assert_eq!((lent.frame, lent.key, lent.complete, &lent.bytes[..]), (3, true, true, &[1, 2][..]));
        assert_eq!((outcome(&mut decoder), decoder.next_ready()), (None, None));
        decoding.take_back();
        assert_eq!((decoder.next_ready(), outcome(&mut decoder)), (Some(Time::ZERO), Some((3, true))));
        assert_eq!(decoding.lend().map(|lent| (lent.frame, lent.key)), Some((4, false)));
        assert!(decoding.lend().is_none());
    }

    #[test]
    fn what_follows_a_failure_fails_until_a_key_frame() {
        let (decoding, mut decoder) = given(&[(3, true), (4, false), (5, false), (6, true)]);
        for (frame, decodes) in [(3, true), (4, false), (5, false), (6, true)] {
            assert_eq!(decoding.lend().map(|lent| lent.frame), Some(frame));
            if frame == 4 {
                decoding.fail();
            }
            decoding.take_back();
            assert_eq!(outcome(&mut decoder), Some((frame, decodes)));
        }
    }

    #[test]
    fn notes_and_frames_to_show_are_bounded() {
        let mut decoding = Decoding::default();
        for frame in 0..10_000 {
            let class = Class::Deadline;
            decoding.state().note(&Media { frame, class, ..Media::blank() });
            let arrival = session::playout::Arrival::default();
            let (captured, picture) = (RemoteTime::from_nanos(0), None);
            let (stream, version, late, concealed) = (0, 0, false, false);
            decoding.show(
                Time::ZERO,
                &Shown { stream, frame, version, captured, late, arrival, concealed, picture },
            );
        }
        let state = decoding.state();
        assert_eq!((state.notes.len(), state.due.len()), (NOTES, DUE));
        assert_eq!(state.due.front().map(|shown| shown.frame), Some(9_936), "the newest are kept");
    }
}
