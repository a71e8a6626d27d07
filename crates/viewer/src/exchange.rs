//! What the receiver hands out to the page and takes back from it: the browser is its decoders and its
//! screen.
//!
//! Pictures stay with the browser. Both sides speak of them by a number, the picture's id, which runs through
//! all tracks and versions of a session. An id is handed out with a coded frame ([`Exchange::take_coded`]);
//! once its picture is there ([`Exchange::decoded`]), the id comes back exactly once: with a frame to show
//! ([`Exchange::take_due`]), or to be freed ([`Exchange::take_discarded`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{BufMut, Bytes, BytesMut};
use media::{CodecError, Decoded, Decoder, Part, Parts, RawFrame};
use record::{Event, NodeId, Recorder};
use session::strategy::TRACKS;
use session::{Screen, Shown, capture_of, stream_of, track_of};
use units::{RelativeDelay, RemoteTime, Span, Time};

/// The capture that the page shows: it has one canvas. Each of its tracks has a decoder, those of others have
/// none.
const CAPTURE: u8 = 0;

/// A frame the page shall decode.
#[derive(Clone, Debug)]
pub struct Coded {
    /// What its picture will be called.
    pub id: u32,
    /// The track it belongs to, below [`TRACKS`]; each has a decoder of its own.
    pub track: u8,
    /// The frame's number: its capture index, the same in every track.
    pub frame: u32,
    /// The coded frame, whole, or its packets ([`framed`]).
    pub bytes: Bytes,
    /// The bytes are packets that decode each alone, as many as came.
    pub packets: bool,
}

/// Packets behind each other, each behind its length in two bytes, big endian: a page's decoder of such
/// packets takes them so.
fn framed(packets: &Parts) -> Bytes {
    let mut bytes = BytesMut::with_capacity(packets.present.iter().map(|part| part.bytes.len() + 2).sum());
    for Part { bytes: packet, .. } in &packets.present {
        // None is longer than a datagram.
        let Ok(length) = u16::try_from(packet.len()) else { continue };
        bytes.put_u16(length);
        bytes.extend_from_slice(packet);
    }
    bytes.freeze()
}

/// A frame the page shall show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The number under which its picture was decoded.
    pub id: u32,
    /// The track it was decoded from.
    pub track: u8,
    /// The frame's number.
    pub frame: u32,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// After its deadline.
    pub late: bool,
}

/// Frames to show that the page has not asked for yet, at most; it asks after every call.
const DUE: usize = 64;
/// The queue's delay is measured from the smallest one-way delay of the last one to two of these: long enough
/// to meet an empty queue, short enough that 200 ppm of drift between the clocks stays below 4 ms.
const WINDOW: Span = Span::from_secs(10);

/// Pictures of a track so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pictures {
    /// Handed out to be decoded.
    pub coded: u64,
    /// Decoded by the browser.
    pub decoded: u64,
    /// Drawn on the canvas, or about to be.
    pub shown: u64,
}

/// A frame with the decoder, here or there.
struct Inside {
    id: u32,
    frame: u32,
    /// Whether it was decoded, once that is known.
    decodes: Option<bool>,
}

/// What is known of one track.
#[derive(Default)]
struct Track {
    /// In the order of decoding. The receiver bounds how many.
    inside: VecDeque<Inside>,
    pictures: Pictures,
}

#[derive(Default)]
struct State {
    /// To be decoded.
    coded: VecDeque<Coded>,
    tracks: [Track; TRACKS],
    /// Of the next coded frame.
    next_id: u32,
    due: VecDeque<Due>,
    /// Pictures that will never be shown. The page has handed in each of them, so no peer makes this grow.
    discarded: VecDeque<u32>,
    /// Frames of the first track that were given up.
    abandoned: u64,
    queue: Queue,
    numbers: Numbers,
}

/// One-way delays above the smallest.
#[derive(Default)]
struct Queue {
    current: Option<RelativeDelay>,
    previous: Option<RelativeDelay>,
    turned_at: Time,
    sum: Span,
    count: i64,
}

impl Queue {
    fn insert(&mut self, at: Time, owd: RelativeDelay) {
        if at - self.turned_at > WINDOW {
            (self.previous, self.current, self.turned_at) = (self.current, None, at);
        }
        let current = self.current.map_or(owd, |least| least.min(owd));
        self.current = Some(current);
        self.sum += owd - self.previous.map_or(current, |previous| previous.min(current));
        self.count += 1;
    }

    fn take_mean(&mut self) -> Option<Span> {
        let (sum, count) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.count));
        (count > 0).then(|| sum / count)
    }
}

/// Packet numbers that arrived: what a receiver knows of losses without being told (RFC 3550 appendix A.3).
#[derive(Default)]
struct Numbers {
    /// The first that came, and the highest.
    seen: Option<(u64, u64)>,
}

impl Numbers {
    fn insert(&mut self, packet: u64) {
        let (first, highest) = self.seen.unwrap_or((packet, packet));
        self.seen = Some((first, highest.max(packet)));
    }

    /// Packets sent from the first that came to the highest, whether they came or not.
    fn expected(&self) -> u64 {
        self.seen.map_or(0, |(first, highest)| highest - first + 1)
    }
}

/// The place of exchange; clones share it.
#[derive(Clone, Default)]
pub struct Exchange(Arc<Mutex<State>>);

impl Exchange {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("a page has one thread")
    }

    /// The next frame for the browser's decoder.
    pub fn take_coded(&self) -> Option<Coded> {
        self.state().coded.pop_front()
    }

    /// The next frame for the screen.
    pub fn take_due(&self) -> Option<Due> {
        self.state().due.pop_front()
    }

    /// The next picture that will never be shown.
    pub fn take_discarded(&self) -> Option<u32> {
        self.state().discarded.pop_front()
    }

    /// A decoder for a stream that is new, if the page shows its capture.
    pub fn decoder(&self, stream: u8) -> Option<Box<dyn Decoder>> {
        let track = track_of(stream);
        let shown = capture_of(stream) == CAPTURE && usize::from(track) < TRACKS;
        shown.then(|| Box::new(OneTrack { exchange: self.clone(), track }) as Box<dyn Decoder>)
    }

    /// Pictures of a track so far.
    pub fn pictures(&self, track: usize) -> Pictures {
        self.state().tracks.get(track).map_or_else(Pictures::default, |track| track.pictures)
    }

    /// Frames that were given up, for want of packets or of time to decode them. Only the first track counts:
    /// what another one lacks is no loss to who sees the first.
    pub fn abandoned(&self) -> u64 {
        self.state().abandoned
    }

    /// The mean of what packets waited in queues since this was last asked.
    pub fn take_queue(&self) -> Option<Span> {
        self.state().queue.take_mean()
    }

    /// Packets that were sent, as far as their numbers tell: from the first that arrived to the highest.
    pub fn expected(&self) -> u64 {
        self.state().numbers.expected()
    }

    /// A decoder of the browser gave picture `id` back; false if nobody waits for it. Decoders keep the
    /// order: earlier frames of the track that it has not given back are lost.
    pub fn decoded(&self, id: u32) -> bool {
        let mut state = self.state();
        let find = |track: &Track| {
            track.inside.iter().position(|inside| inside.id == id && inside.decodes.is_none())
        };
        let Some((track, at)) = state.tracks.iter_mut().find_map(|track| find(track).map(|at| (track, at)))
        else {
            return false;
        };
        for inside in track.inside.iter_mut().take(at) {
            inside.decodes.get_or_insert(false);
        }
        track.inside[at].decodes = Some(true);
        track.pictures.decoded += 1;
        true
    }

    /// A decoder gave up picture `id`, and goes on with the next.
    pub fn undecodable(&self, id: u32) {
        let mut state = self.state();
        let mut inside = state.tracks.iter_mut().flat_map(|track| &mut track.inside);
        if let Some(inside) = inside.find(|inside| inside.id == id) {
            inside.decodes.get_or_insert(false);
        }
    }

    /// The browser's decoder of a track failed: what it held will not come back.
    pub fn decoder_failed(&self, track: u8) {
        let mut state = self.state();
        state.coded.retain(|coded| coded.track != track);
        let inside = state.tracks.get_mut(usize::from(track)).map(|track| &mut track.inside);
        for inside in inside.into_iter().flatten() {
            inside.decodes.get_or_insert(false);
        }
    }
}

/// The decoder of one track.
struct OneTrack {
    exchange: Exchange,
    track: u8,
}

impl OneTrack {
    fn hand_out(&self, frame: u32, bytes: Bytes, packets: bool) {
        let mut state = self.exchange.state();
        let id = state.next_id;
        state.next_id = id.wrapping_add(1);
        state.coded.push_back(Coded { id, track: self.track, frame, bytes, packets });
        let track = &mut state.tracks[usize::from(self.track)];
        track.inside.push_back(Inside { id, frame, decodes: None });
        track.pictures.coded += 1;
    }
}

impl Decoder for OneTrack {
    fn submit(&mut self, _now: Time, frame: u32, coded: Bytes) {
        self.hand_out(frame, coded, false);
    }

    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        Some(vixnn::packet::begins)
    }

    // Only of standalone packets: it does not use parts of other frames.
    fn submit_parts(&mut self, _now: Time, frame: u32, parts: &Parts) {
        self.hand_out(frame, framed(parts), true);
    }

    fn poll(&mut self, _now: Time) -> Option<Decoded> {
        let mut state = self.exchange.state();
        let inside = &mut state.tracks[usize::from(self.track)].inside;
        let &Inside { id, frame, decodes } = inside.front()?;
        let decodes = decodes?;
        inside.pop_front();
        let what = || CodecError::Codec { codec: "page", what: "no picture".to_owned() };
        let picture = if decodes { Ok(stand_in(id)) } else { Err(what()) };
        Some(Decoded::whole(frame, picture))
    }

    fn next_ready(&self) -> Option<Time> {
        // While one is in the making nobody knows; the page wakes the receiver when it is done.
        let due = |inside: &Inside| if inside.decodes.is_some() { Time::ZERO } else { Time::MAX };
        self.exchange.state().tracks[usize::from(self.track)].inside.front().map(due)
    }
}

/// What stands for a picture that stays with the browser: its four samples of luma are the picture's id.
fn stand_in(id: u32) -> RawFrame {
    RawFrame { y: id.to_be_bytes().to_vec(), ..RawFrame::filled(2, 2, 0, 128, 128) }
}

/// The picture that this one stands for.
fn id_of(picture: Option<&RawFrame>) -> Option<u32> {
    Some(u32::from_be_bytes(*picture?.y.first_chunk()?))
}

impl Screen for Exchange {
    fn show(&mut self, _now: Time, shown: &Shown) {
        // Frames of other captures have no pictures here.
        let Some(id) = id_of(shown.picture.as_deref()) else { return };
        let mut state = self.state();
        if state.due.len() == DUE
            && let Some(Due { id, .. }) = state.due.pop_front()
        {
            state.discarded.push_back(id);
        }
        let &Shown { stream, frame, captured, late, .. } = shown;
        let track = track_of(stream);
        if let Some(track) = state.tracks.get_mut(usize::from(track)) {
            track.pictures.shown += 1;
        }
        state.due.push_back(Due { id, track, frame, captured, late });
    }

    fn discard(&mut self, _now: Time, unseen: &Shown) {
        self.state().discarded.extend(id_of(unseen.picture.as_deref()));
    }
}

impl Recorder for Exchange {
    fn record(&mut self, at: Time, _node: NodeId, event: &Event) {
        match *event {
            Event::PacketReceived { packet, owd, .. } => {
                let mut state = self.state();
                state.queue.insert(at, owd);
                state.numbers.insert(packet);
            }
            Event::FrameAbandoned { stream, .. } if stream == stream_of(CAPTURE, 0) => {
                self.state().abandoned += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange and the decoders of its first two tracks, which were given these frames in turn.
    fn with(frames: &[(usize, u32)]) -> (Exchange, [Box<dyn Decoder>; 2]) {
        let exchange = Exchange::default();
        let mut decoders = [0, 16].map(|stream| exchange.decoder(stream).unwrap());
        for &(track, frame) in frames {
            decoders[track].submit(Time::ZERO, frame, Bytes::from_static(&[1]));
        }
        (exchange, decoders)
    }

    fn outcomes(decoder: &mut Box<dyn Decoder>) -> Vec<(u32, bool)> {
        let poll = || decoder.poll(Time::ZERO).map(|decoded| (decoded.frame, decoded.picture.is_ok()));
        std::iter::from_fn(poll).collect()
    }

    #[test]
    fn numbers_tell_what_was_sent_whatever_the_order() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.expected(), 0);
        [7, 8, 11, 10].into_iter().for_each(|packet| numbers.insert(packet));
        assert_eq!(numbers.expected(), 5, "7 to 11, of which 9 is missing");
        // One from before the first is no loss of ours.
        numbers.insert(3);
        assert_eq!(numbers.expected(), 5);
    }

    #[test]
    fn frames_come_back_in_order_and_skipped_ones_are_lost() {
        let (exchange, [mut decoder, _]) = with(&[(0, 3), (0, 4), (0, 5), (0, 6)]);
        assert_eq!(decoder.next_ready(), Some(Time::MAX));
        let coded = std::iter::from_fn(|| exchange.take_coded());
        assert!(coded.map(|coded| (coded.id, coded.frame)).eq([(0, 3), (1, 4), (2, 5), (3, 6)]));
        assert_eq!([0, 0, 2, 99].map(|id| exchange.decoded(id)), [true, false, true, false]);
        assert_eq!(decoder.next_ready(), Some(Time::ZERO));
        assert_eq!(outcomes(&mut decoder), [(3, true), (4, false), (5, true)]);
        exchange.decoder_failed(0);
        assert_eq!(outcomes(&mut decoder), [(6, false)]);
        assert_eq!(decoder.next_ready(), None);
        assert_eq!(exchange.pictures(0), Pictures { coded: 4, decoded: 2, shown: 0 });
    }

    #[test]
    fn packets_that_decode_alone_are_handed_out_with_their_lengths() {
        let (exchange, [mut decoder, _]) = with(&[(0, 1)]);
        let part = |number, bytes: &'static [u8]| Part { number, bytes: Bytes::from_static(bytes) };
        let parts = Parts { present: vec![part(0, b"VX1"), part(2, b"VX23")], complete: false };
        decoder.submit_parts(Time::ZERO, 2, &parts);
        decoder.submit_parts(Time::ZERO, 3, &parts);
        let tell = decoder.standalone().unwrap();
        assert!(tell(b"VX1") && !tell(&[0, 0, 1, 0x65]) && !decoder.uses_parts());
        let coded = Vec::from_iter(std::iter::from_fn(|| exchange.take_coded()));
        assert!(coded.iter().map(|coded| coded.packets).eq([false, true, true]));
        assert_eq!(coded[1].bytes[..], *b"\0\x03VX1\0\x04VX23");
        // One of them is undecodable, and the decoder goes on.
        exchange.undecodable(1);
        exchange.undecodable(77);
        assert!(exchange.decoded(2) && !exchange.decoded(1));
        assert_eq!(outcomes(&mut decoder), [(1, false), (2, false), (3, true)]);
    }

    #[test]
    fn a_track_that_fails_leaves_the_other_alone() {
        let (exchange, [mut first, mut second]) = with(&[(0, 1), (1, 1), (0, 2), (1, 2)]);
        exchange.decoder_failed(0);
        assert_eq!(outcomes(&mut first), [(1, false), (2, false)]);
        let coded = std::iter::from_fn(|| exchange.take_coded());
        assert!(coded.map(|coded| (coded.track, coded.id)).eq([(1, 1), (1, 3)]), "what it has not taken");
        assert!(exchange.decoded(3));
        assert_eq!(outcomes(&mut second), [(1, false), (2, true)]);
        exchange.decoder_failed(200);
    }

    #[test]
    fn only_tracks_of_the_capture_on_the_canvas_are_decoded() {
        let exchange = Exchange::default();
        let decoded = (0..=u8::MAX).filter(|&stream| exchange.decoder(stream).is_some());
        assert_eq!(decoded.collect::<Vec<_>>(), [0, 16, 32, 48]);
    }

    #[test]
    fn a_page_that_does_not_ask_is_told_which_pictures_to_free() {
        let exchange = Exchange::default();
        let mut screen = exchange.clone();
        let shown = |id: u32| Shown {
            stream: 16,
            frame: id,
            version: 0,
            captured: Time::ZERO.on_wire(),
            late: false,
            arrival: session::playout::Arrival::default(),
            concealed: false,
            picture: Some(Box::new(stand_in(id + 7_000_000))),
        };
        (0..DUE as u32 + 1).for_each(|id| screen.show(Time::ZERO, &shown(id)));
        screen.discard(Time::ZERO, &shown(500));
        screen.show(Time::ZERO, &Shown { picture: None, ..shown(501) });
        let freed = std::iter::from_fn(|| exchange.take_discarded());
        assert_eq!(freed.collect::<Vec<_>>(), [7_000_000, 7_000_500]);
        let due = std::iter::from_fn(|| exchange.take_due()).map(|due| (due.track, due.id));
        assert!(due.eq((1..=DUE as u32).map(|id| (1, id + 7_000_000))));
    }

    #[test]
    fn queueing_is_what_exceeds_the_smallest_delay() {
        let mut exchange = Exchange::default();
        let mut packet = |at: Time, ms: i64| {
            let owd = RelativeDelay::between(RemoteTime::from_nanos(-ms * 1_000_000), Time::ZERO);
            let event = Event::PacketReceived { packet: 0, size: 1, stream: 0, frame: 0, version: 0, owd };
            exchange.record(at, NodeId(0), &event);
            exchange.take_queue().map(|span| span.as_millis_f64())
        };
        assert_eq!(packet(Time::from_secs(1), 100), Some(0.0));
        assert_eq!(packet(Time::from_secs(2), 130), Some(30.0));
        assert_eq!(packet(Time::from_secs(11), 120), Some(20.0), "the window before still counts");
        assert_eq!(packet(Time::from_secs(22), 140), Some(20.0), "and is forgotten after that");
        assert_eq!(exchange.take_queue(), None);
    }
}
