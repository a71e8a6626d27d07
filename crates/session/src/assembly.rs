//! Frames on their way in.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use units::{RemoteTime, Time};
use wire::{Media, Nack};

/// Frames in the making at most: a second at 60 frames/s.
const FRAMES: usize = 64;
/// Packets a frame may claim to have: 10 MB of it.
const MAX_PACKETS: u16 = 8192;
/// Payload bytes held at most, over all frames in the making.
const MAX_BYTES: usize = 64 << 20;
/// Frame numbers this far beyond the newest can only be wrong: ten minutes at 60 frames/s.
const PLAUSIBLE: u32 = 36_000;

/// One frame in the making.
#[derive(Debug, Default)]
pub struct Assembling {
    /// Capture index.
    pub frame: u32,
    /// Version.
    pub version: u8,
    /// Packets it has.
    pub count: u16,
    /// Packets that arrived.
    pub have: u16,
    /// Decodes alone.
    pub key: bool,
    /// How many frames back its reference lies.
    pub reference: u8,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// When it stops being worth showing, on our clock.
    pub deadline: Time,
    /// When it was last asked for.
    pub asked_at: Option<Time>,
    /// Bytes so far.
    pub size: u32,
    arrived: Vec<u64>,
    highest: u16,
    parts: Vec<Bytes>,
}

impl Assembling {
    fn restart(&mut self, media: &Media, deadline: Time) {
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut parts = std::mem::take(&mut self.parts);
        arrived.clear();
        arrived.resize(usize::from(media.count).div_ceil(64), 0);
        parts.clear();
        *self = Assembling {
            frame: media.frame,
            version: media.version,
            count: media.count,
            key: media.key,
            reference: media.reference,
            captured: media.captured,
            deadline,
            arrived,
            parts,
            ..Assembling::default()
        };
    }

    fn has(&self, index: u16) -> bool {
        self.arrived[usize::from(index / 64)] >> (index % 64) & 1 == 1
    }

    /// Every packet has arrived.
    pub fn is_complete(&self) -> bool {
        self.have == self.count
    }

    fn store(&mut self, index: u16, length: usize, payload: Option<Bytes>) {
        self.arrived[usize::from(index / 64)] |= 1 << (index % 64);
        self.have += 1;
        self.size += length as u32;
        self.highest = self.highest.max(index);
        if let Some(payload) = payload {
            if self.parts.len() <= usize::from(index) {
                self.parts.resize(usize::from(index) + 1, Bytes::new());
            }
            self.parts[usize::from(index)] = payload;
        }
    }

    /// The frame's bytes, if they are real.
    pub fn bytes(&self) -> Option<Bytes> {
        match self.parts.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => {
                let mut whole = BytesMut::with_capacity(self.size as usize);
                many.iter().for_each(|part| whole.extend_from_slice(part));
                Some(whole.freeze())
            }
        }
    }

    /// Asks for what is missing: up to the highest packet seen, or (`whole`) to the end. At most 65 packets at a time.
    fn missing(&self, session: u32, stream: u8, whole: bool) -> Option<Nack> {
        let end = if whole { self.count } else { self.highest };
        let mut gaps = (0..end).filter(|&index| !self.has(index));
        let first = gaps.next()?;
        let more = gaps
            .filter(|index| index - first <= 64)
            .fold(0, |bits, index| bits | 1u64 << (index - first - 1));
        Some(Nack { session, stream, frame: self.frame, first, more })
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Kept; its frame still misses others.
    Kept,
    /// Kept, and its frame is complete.
    Complete,
    /// Already there.
    Duplicate,
    /// Its frame is no longer wanted.
    Stale,
    /// Its frame can't be right.
    Implausible,
    /// No room.
    Full,
}

/// One stream's frames in the making, by capture index.
#[derive(Debug, Default)]
pub struct Assembly {
    frames: VecDeque<Assembling>,
    /// Emptied frames, kept for their buffers.
    spare: Vec<Assembling>,
    /// Frames below are no longer wanted.
    floor: u32,
    newest: u32,
    held: usize,
}

impl Assembly {
    /// Takes a packet of `length` payload bytes.
    pub fn insert(&mut self, media: &Media, length: usize, payload: Option<Bytes>, deadline: Time) -> Stored {
        if media.frame < self.floor {
            return Stored::Stale;
        }
        if media.count > MAX_PACKETS || media.frame > self.newest.saturating_add(PLAUSIBLE) {
            return Stored::Implausible;
        }
        let bytes = payload.as_ref().map_or(0, Bytes::len);
        if self.held + bytes > MAX_BYTES {
            return Stored::Full;
        }
        let Some(at) = self.locate(media, deadline) else { return Stored::Full };
        let frame = &mut self.frames[at];
        if frame.count != media.count || frame.version != media.version {
            return Stored::Implausible;
        }
        if frame.has(media.index) {
            return Stored::Duplicate;
        }
        frame.store(media.index, length, payload);
        self.held += bytes;
        self.newest = self.newest.max(media.frame);
        if frame.is_complete() { Stored::Complete } else { Stored::Kept }
    }

    /// Position of the packet's frame, begun if need be; `None` if there are too many.
    fn locate(&mut self, media: &Media, deadline: Time) -> Option<usize> {
        let at = self.frames.partition_point(|f| f.frame < media.frame);
        if self.frames.get(at).is_some_and(|f| f.frame == media.frame) {
            return Some(at);
        }
        if self.frames.len() == FRAMES {
            return None;
        }
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.restart(media, deadline);
        self.frames.insert(at, frame);
        Some(at)
    }

    /// The newest frame heard of.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// The frames in the making, oldest first.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &Assembling> {
        self.frames.iter()
    }

    /// Forgets every frame below `floor`, and accepts none any more. `dropped` is called with each that was not shown.
    pub fn raise_floor(&mut self, floor: u32, mut dropped: impl FnMut(&Assembling)) {
        while self.frames.front().is_some_and(|frame| frame.frame < floor) {
            if let Some(frame) = self.frames.pop_front() {
                dropped(&frame);
                self.held -= frame.parts.iter().map(Bytes::len).sum::<usize>();
                self.spare.push(frame);
            }
        }
        self.floor = self.floor.max(floor);
    }

    /// What to ask for again of the frames after `decoded`, each at most every `interval`; `push` takes the requests.
    pub fn nacks(
        &mut self,
        now: Time,
        interval: units::Span,
        session: u32,
        stream: u8,
        decoded: Option<u32>,
        mut push: impl FnMut(Nack),
    ) {
        let newest = self.newest;
        let mut previous = decoded;
        for frame in &mut self.frames {
            let due = frame.asked_at.is_none_or(|at| now - at >= interval);
            let wanted = due && !frame.is_complete() && frame.deadline > now;
            if let Some(nack) = wanted.then(|| frame.missing(session, stream, frame.frame < newest)).flatten()
            {
                frame.asked_at = Some(now);
                push(nack);
            }
            // The frame it is predicted from has not been heard of at all: ask for its first 65 packets.
            let needed = frame.frame - u32::from(frame.reference).min(frame.frame);
            let unheard = frame.reference > 0 && previous.is_some_and(|previous| previous < needed);
            if unheard && due {
                frame.asked_at = Some(now);
                push(Nack { session, stream, frame: needed, first: 0, more: u64::MAX });
            }
            previous = Some(frame.frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Span;
    use wire::Class;

    fn media(frame: u32, index: u16, count: u16) -> Media {
        Media {
            session: 1,
            packet: 0,
            sent: RemoteTime::from_nanos(0),
            feedback_seen: 0,
            stream: 0,
            class: Class::Deadline,
            frame,
            version: 0,
            index,
            count,
            captured: RemoteTime::from_nanos(0),
            deadline: Span::from_millis(400),
            reference: 1,
            key: false,
            retransmission: false,
            alone: false,
        }
    }

    const LATER: Time = Time::from_millis(400);

    #[test]
    fn a_frame_completes_in_any_order_and_once() {
        let mut assembly = Assembly::default();
        let part = |b: u8| Some(Bytes::from(vec![b; 2]));
        assert_eq!(assembly.insert(&media(3, 2, 3), 2, part(3), LATER), Stored::Kept);
        assert_eq!(assembly.insert(&media(3, 0, 3), 2, part(1), LATER), Stored::Kept);
        assert_eq!(assembly.insert(&media(3, 0, 3), 2, part(1), LATER), Stored::Duplicate);
        assert_eq!(assembly.insert(&media(3, 1, 3), 2, part(2), LATER), Stored::Complete);
        assert_eq!(assembly.frames().next().unwrap().bytes().unwrap(), &[1, 1, 2, 2, 3, 3][..]);
        assembly.raise_floor(4, |_| ());
        assert_eq!(assembly.insert(&media(3, 0, 3), 2, None, LATER), Stored::Stale);
        assert_eq!(assembly.held, 0);
    }

    #[test]
    fn nacks_name_gaps_and_unheard_frames() {
        let mut assembly = Assembly::default();
        for (frame, index) in [(5, 0), (5, 2), (5, 3), (7, 0)] {
            assembly.insert(&media(frame, index, 5), 100, None, LATER);
        }
        let mut asked = Vec::new();
        assembly.nacks(Time::ZERO, Span::from_millis(50), 1, 0, Some(4), |nack| asked.push(nack));
        assert_eq!((asked[0].frame, asked[0].wanted().collect::<Vec<_>>()), (5, vec![1, 4]));
        assert_eq!((asked[1].frame, asked[1].first, asked[1].more), (6, 0, u64::MAX));
        asked.clear();
        assembly.nacks(Time::from_millis(49), Span::from_millis(50), 1, 0, Some(4), |nack| asked.push(nack));
        assert!(asked.is_empty());
    }

    proptest! {
        #[test]
        fn hostile_packets_stay_within_bounds(packets in prop::collection::vec((any::<u32>(), any::<u16>(), 1u16..), 0..500)) {
            let mut assembly = Assembly::default();
            for (frame, index, count) in packets {
                assembly.insert(&media(frame, index % count, count), 1000, Some(Bytes::from_static(&[0; 1000])), LATER);
                prop_assert!(assembly.frames.len() <= FRAMES && assembly.held <= MAX_BYTES);
            }
        }
    }
}
