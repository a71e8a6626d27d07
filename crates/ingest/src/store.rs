//! The best version of every frame, for as long as a segment may still be made of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use media::{Packed, RawFrame};
use units::{RemoteTime, Span, Time};

use crate::Rating;

/// A frame as it arrives at the endpoint.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When it was captured, by the uploader's clock: which frame it is.
    pub captured: RemoteTime,
    /// Whether it is a better version of a frame of before; else it is one of now.
    pub again: bool,
    /// When it was decoded, by the endpoint's clock.
    pub at: Time,
    /// What the decoder made of it.
    pub picture: Arc<RawFrame>,
    /// How good it is, as soon as that is known.
    pub rating: Rating,
}

/// Which version of which frame: segments of the same ones are the same.
pub type Seen = (Span, u32);

/// One arrival of a frame, for those who want to know what a viewer at any delay could see.
#[derive(Clone, Debug)]
pub struct Note {
    /// From the capture of the frame until it was there, on a path that took no longer than the fastest
    /// frame.
    pub delay: Span,
    /// Whether it was sent again.
    pub again: bool,
    /// How good it is.
    pub rating: Rating,
}

/// A picture, packed where it is not needed soon and others need the room.
#[derive(Debug)]
enum Held {
    Raw(Arc<RawFrame>),
    Packed(Packed),
}

impl Held {
    fn bytes(&self) -> usize {
        match self {
            Held::Raw(picture) => picture.y.len() * 3 / 2,
            Held::Packed(packed) => packed.len(),
        }
    }

    fn picture(&self) -> Option<Arc<RawFrame>> {
        match self {
            Held::Raw(picture) => Some(picture.clone()),
            Held::Packed(packed) => packed.unpack().map(Arc::new),
        }
    }
}

#[derive(Debug, Default)]
struct Frame {
    notes: Vec<Note>,
    /// How many of them were sent again.
    again: u32,
    /// The newest version, which is the best: the uploader sends nothing again that gets no better.
    held: Option<Held>,
    /// How good that is.
    rating: Rating,
}

/// Versions of one frame that are noted at most.
const NOTES: usize = 16;

/// Frames by their media time, within a bound of bytes.
#[derive(Debug)]
pub struct Store {
    frames: BTreeMap<Span, Frame>,
    held: usize,
    most: usize,
    /// Frames from the one time to before the other may be packed; before the first, all are.
    packed_to: Span,
    may_pack_to: Span,
    dropped: u64,
}

impl Store {
    /// A store of at most `most` bytes of pictures. The oldest make way.
    pub fn new(most: usize) -> Store {
        let (packed_to, may_pack_to) = (Span::ZERO, Span::ZERO);
        Store { frames: BTreeMap::new(), held: 0, most, packed_to, may_pack_to, dropped: 0 }
    }

    /// A version of the frame at this media time is there, `delay` after its capture.
    pub fn insert(&mut self, time: Span, delay: Span, arrival: &Arrival) {
        let frame = self.frames.entry(time).or_default();
        if frame.notes.len() < NOTES {
            let rating = arrival.rating.clone();
            frame.notes.push(Note { delay, again: arrival.again, rating });
        }
        // A frame of now that comes after one that was sent again is the poorer one.
        if frame.again > 0 && !arrival.again {
            return;
        }
        frame.again += u32::from(arrival.again);
        frame.rating = arrival.rating.clone();
        self.packed_to = self.packed_to.min(time);
        let held = Held::Raw(arrival.picture.clone());
        self.held += held.bytes();
        self.held -= frame.held.replace(held).map_or(0, |old| old.bytes());
        self.shrink();
    }

    /// A picture out of a segment that an endpoint before this one made. It stands back behind what has
    /// arrived since.
    pub fn restore(&mut self, (time, again): Seen, picture: &RawFrame) {
        let frame = self.frames.entry(time).or_default();
        if frame.held.is_none() {
            let held = Held::Packed(Packed::of(picture));
            self.held += held.bytes();
            (frame.held, frame.again) = (Some(held), again);
            self.shrink();
        }
    }

    /// The versions that there are of frames from `from` to before `to`.
    pub fn seen(&self, from: Span, to: Span) -> Vec<Seen> {
        let frames = self.frames.range(from..to);
        frames.filter(|(_, frame)| frame.held.is_some()).map(|(&time, frame)| (time, frame.again)).collect()
    }

    /// SSIM of the version that there is of the frame at this time, where it is known.
    pub fn ssim(&self, time: Span) -> Option<f64> {
        self.frames.get(&time)?.rating.ssim()
    }

    /// What arrived of the frames from `from` to before `to`, and when.
    pub fn notes(&self, from: Span, to: Span) -> impl Iterator<Item = (Span, &[Note])> {
        self.frames.range(from..to).map(|(&time, frame)| (time, frame.notes.as_slice()))
    }

    /// The picture of the frame at this time.
    pub fn picture(&self, time: Span) -> Option<Arc<RawFrame>> {
        self.frames.get(&time)?.held.as_ref()?.picture()
    }

    /// What lies before this is not needed soon: it may be packed when room is needed. That costs as much as
    /// decoding a frame, so it is put off until then.
    pub fn may_pack(&mut self, before: Span) {
        self.may_pack_to = self.may_pack_to.max(before);
    }

    /// No segment is made of what lies before this any more.
    pub fn forget(&mut self, before: Span) {
        let kept = self.frames.split_off(&before);
        let gone = std::mem::replace(&mut self.frames, kept);
        self.held -= gone.values().filter_map(|frame| frame.held.as_ref()).map(Held::bytes).sum::<usize>();
    }

    /// Bytes of pictures.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Pictures that were dropped for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Makes room: packs what may be, and if that is not enough drops the oldest.
    fn shrink(&mut self) {
        while self.held > self.most && (self.pack_one() || self.drop_one()) {}
    }

    fn pack_one(&mut self) -> bool {
        let raw = |(_, frame): &(&Span, &mut Frame)| matches!(frame.held, Some(Held::Raw(_)));
        let from = self.packed_to.min(self.may_pack_to);
        let Some((&time, frame)) = self.frames.range_mut(from..self.may_pack_to).find(raw) else {
            self.packed_to = self.may_pack_to;
            return false;
        };
        self.packed_to = time;
        if let Some(held) = &mut frame.held
            && let Held::Raw(picture) = held
        {
            let packed = Held::Packed(Packed::of(picture));
            self.held = self.held - held.bytes() + packed.bytes();
            *held = packed;
        }
        true
    }

    fn drop_one(&mut self) -> bool {
        let Some(held) = self.frames.values_mut().find_map(|frame| frame.held.take()) else { return false };
        self.held -= held.bytes();
        self.dropped += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(again: bool, luma: u8) -> Arrival {
        let picture = Arc::new(RawFrame::filled(64, 48, luma, 128, 128));
        let rating = Rating::default();
        Arrival { captured: RemoteTime::from_nanos(0), again, at: Time::ZERO, picture, rating }
    }

    fn luma(store: &Store, ms: i64) -> Option<u8> {
        store.picture(Span::from_millis(ms)).map(|picture| picture.y[0])
    }

    #[test]
    fn the_best_version_is_kept_whatever_the_order() {
        let (mut store, ms) = (Store::new(1 << 20), Span::from_millis);
        store.insert(ms(0), ms(5), &arrival(false, 20));
        store.insert(ms(0), ms(900), &arrival(true, 30));
        store.insert(ms(33), ms(900), &arrival(true, 40));
        store.insert(ms(33), ms(950), &arrival(false, 50));
        assert_eq!((luma(&store, 0), luma(&store, 33), luma(&store, 66)), (Some(30), Some(40), None));
        assert_eq!(store.seen(ms(0), ms(100)), [(ms(0), 1), (ms(33), 1)]);
        store.may_pack(ms(20));
        store.insert(ms(0), ms(1_900), &arrival(true, 60));
        assert_eq!((luma(&store, 0), luma(&store, 33)), (Some(60), Some(40)));
        let notes: Vec<usize> = store.notes(ms(0), ms(100)).map(|(_, notes)| notes.len()).collect();
        assert_eq!(notes, [3, 2]);
        store.forget(ms(33));
        assert_eq!((luma(&store, 0), luma(&store, 33)), (None, Some(40)));
        store.forget(ms(34));
        assert_eq!(store.held(), 0);
    }

    #[test]
    fn pictures_keep_within_their_bound() {
        let one = 64 * 48 * 3 / 2;
        let mut store = Store::new(10 * one);
        for frame in 0..100 {
            store.insert(Span::from_millis(frame), Span::ZERO, &arrival(false, 20));
            assert!(store.held() <= 10 * one);
        }
        assert_eq!((store.dropped(), luma(&store, 89), luma(&store, 90)), (90, None, Some(20)));
    }

    #[test]
    fn what_may_be_packed_is_packed_before_anything_is_dropped() {
        let one = 64 * 48 * 3 / 2;
        let mut store = Store::new(10 * one);
        for frame in 0..100 {
            store.may_pack(Span::from_millis(frame - 5));
            store.insert(Span::from_millis(frame), Span::ZERO, &arrival(false, frame as u8));
            assert!(store.held() <= 10 * one);
        }
        assert_eq!((store.dropped(), luma(&store, 0), luma(&store, 99)), (0, Some(0), Some(99)));
        // A better version of a frame that is packed is packed in its turn.
        for frame in 0..20 {
            store.insert(Span::from_millis(frame), Span::ZERO, &arrival(true, 7));
            assert!(store.held() <= 10 * one);
        }
        assert_eq!((store.dropped(), luma(&store, 0), luma(&store, 50)), (0, Some(7), Some(50)));
    }
}
