//! Frames on their way in.
//!
//! A live stream's oldest frames make room for the newest, where frames or bytes are too many. A reliable
//! stream's make room for none: of its packets those of a frame that can be decoded next always find room,
//! and others only while enough is left for that one. A packet that finds no room is refused before it is
//! acknowledged, so that its sender counts it as lost.

use std::collections::{BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use media::{Part, Parts};
use units::{RemoteTime, Time};
use wire::{Class, FrameId, Media, Nack};

use crate::playout::Arrival;

/// Frames in the making at most. A frame is complete after a round trip for each time that one of its packets
/// is lost, and those captured meanwhile wait for it: 8 s of them at 120 frames/s, more than a viewer at any
/// deadline waits for a repair instead of a key frame.
const FRAMES: usize = 1024;
/// Packets a frame may claim to have: 10 MB of it.
const MAX_PACKETS: u16 = 8192;
/// Bytes held at most, over all frames in the making: payloads, and what keeps account of them.
const MAX_BYTES: usize = 64 << 20;
/// Emptied frames kept for their buffers.
const SPARE: usize = 32;
/// Room that a reliable stream keeps free for the frame to be decoded next: the largest there may be, and
/// what keeps account of it.
const NEXT: usize =
    MAX_PACKETS as usize * (wire::MAX_DATAGRAM + size_of::<Bytes>() + size_of::<Option<u8>>());
/// Frames of a reliable stream that were finished, whose packets may come twice. Packets are told apart by
/// number already; what is sent again under another number is on its way for a few round trips at most.
const FINISHED: usize = 4096;
/// Frame numbers this far beyond the newest can only be wrong: ten minutes at 60 frames/s.
const PLAUSIBLE: u32 = 36_000;

/// One frame in the making.
#[derive(Debug, Default)]
pub struct Assembling {
    /// Which frame of its stream.
    pub id: FrameId,
    /// Packets it has.
    pub count: u16,
    /// Packets that arrived.
    pub have: u16,
    /// What it is predicted from; `None`: a key frame.
    pub reference: Option<FrameId>,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// When it stops being worth showing, on our clock.
    pub deadline: Time,
    /// When it was last asked for.
    pub asked_at: Option<Time>,
    /// When it was first asked for.
    requested: Option<Time>,
    /// When its last packet arrived.
    completed: Time,
    /// A packet of it arrived as a retransmission.
    repaired: bool,
    /// Payload bytes that arrived so far.
    pub size: u32,
    /// Bytes of memory it takes: payloads, and the account of them.
    weight: usize,
    arrived: Vec<u64>,
    highest: u16,
    parts: Vec<Bytes>,
    /// Of each of those the piece that it begins with, if it is useful without the others.
    pieces: Vec<Option<u8>>,
}

impl Assembling {
    fn restart(&mut self, media: &Media, deadline: Time) {
        let mut arrived = std::mem::take(&mut self.arrived);
        let mut parts = std::mem::take(&mut self.parts);
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        arrived.clear();
        arrived.resize(usize::from(media.count).div_ceil(64), 0);
        parts.clear();
        *self = Assembling {
            id: media.id(),
            count: media.count,
            reference: media.reference,
            captured: media.captured,
            deadline,
            weight: Assembling::account(media),
            arrived,
            parts,
            pieces,
            ..Assembling::default()
        };
    }

    /// Bytes of memory that keep account of a frame of so many packets, whatever arrives of it.
    fn account(media: &Media) -> usize {
        usize::from(media.count) * (size_of::<Bytes>() + size_of::<Option<u8>>())
            + usize::from(media.count).div_ceil(64) * size_of::<u64>()
    }

    fn has(&self, index: u16) -> bool {
        self.arrived[usize::from(index / 64)] >> (index % 64) & 1 == 1
    }

    /// Every packet has arrived.
    pub fn is_complete(&self) -> bool {
        self.have == self.count
    }

    /// A packet is missing before one that has arrived.
    pub fn has_gap(&self) -> bool {
        self.have <= self.highest
    }

    /// How it came to be complete.
    pub fn arrival(&self) -> Arrival {
        let Assembling { completed, repaired, requested, .. } = *self;
        Arrival { completed, repaired, repair: requested.map(|at| completed - at) }
    }

    fn store(&mut self, media: &Media, length: usize, payload: Option<Bytes>) {
        let index = media.index;
        self.arrived[usize::from(index / 64)] |= 1 << (index % 64);
        self.have += 1;
        self.size += length as u32;
        self.highest = self.highest.max(index);
        if let Some(payload) = payload {
            self.weight += payload.len();
            if self.parts.len() <= usize::from(index) {
                self.parts.resize(usize::from(index) + 1, Bytes::new());
                self.pieces.resize(usize::from(index) + 1, None);
            }
            self.parts[usize::from(index)] = payload;
            self.pieces[usize::from(index)] = media.alone.then_some(media.part);
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

    /// What of the frame can be decoded without the rest: its packets that are made of whole pieces.
    pub fn usable(&self) -> Parts {
        let kept = self.parts.iter().zip(&self.pieces);
        let present = kept
            .filter_map(|(bytes, piece)| piece.map(|number| Part { number, bytes: bytes.clone() }))
            .collect();
        Parts { present, complete: self.is_complete() }
    }

    /// Whether there is anything of that kind, and of a key frame what it begins with: without its parameters
    /// the rest means nothing.
    pub fn is_usable(&self) -> bool {
        let begins = self.pieces.first().is_some_and(Option::is_some);
        if self.reference.is_none() { begins } else { self.pieces.iter().any(Option::is_some) }
    }

    /// Asks for what is missing: up to the highest packet seen, or (`whole`) to the end. At most 65 packets
    /// at a time.
    fn missing(&self, session: u32, stream: u8, whole: bool) -> Option<Nack> {
        let end = if whole { self.count } else { self.highest };
        let mut gaps = (0..end).filter(|&index| !self.has(index));
        let first = gaps.next()?;
        let more = gaps
            .filter(|index| index - first <= 64)
            .fold(0, |bits, index| bits | 1u64 << (index - first - 1));
        let FrameId { frame, version } = self.id;
        Some(Nack { session, stream, frame, version, first, more })
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
}

/// Whether there is room for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room as it stands.
    Free,
    /// There is once every frame up to this one is given up.
    Beyond(u32),
    /// The packet's own frame would have to go.
    None,
}

/// One stream's frames in the making, by capture index and version.
#[derive(Debug)]
pub struct Assembly {
    class: Class,
    frames: VecDeque<Assembling>,
    /// Emptied frames, kept for their buffers.
    spare: Vec<Assembling>,
    /// Frames below are no longer wanted.
    floor: u32,
    /// Frames of a reliable stream that are no longer wanted, and the order in which that came about.
    finished: (BTreeSet<FrameId>, VecDeque<FrameId>),
    newest: Option<u32>,
    held: usize,
}

impl Assembly {
    /// Nothing yet of a stream of `class`.
    pub fn new(class: Class) -> Assembly {
        Assembly {
            class,
            frames: VecDeque::new(),
            spare: Vec::new(),
            floor: 0,
            finished: Default::default(),
            newest: None,
            held: 0,
        }
    }

    /// The stream's class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether a packet with `bytes` of payload to keep can be taken, and what has to go for it. `next`: its
    /// frame can be decoded once it is complete.
    pub fn room_for(&self, media: &Media, bytes: usize, next: bool) -> Room {
        let known = self.find(media.id()).is_some();
        if self.is_stale(media) || !known && self.is_implausible(media) {
            return Room::Free;
        }
        if self.class == Class::Reliable {
            let (frames, reserve) = if next { (FRAMES, 0) } else { (FRAMES - 1, NEXT) };
            let account = if known { 0 } else { Assembling::account(media) };
            let fits =
                (known || self.frames.len() < frames) && self.held + account + bytes + reserve <= MAX_BYTES;
            return if fits { Room::Free } else { Room::None };
        }
        let (mut frames, mut held) = (self.frames.len(), self.held + bytes);
        if !known {
            frames += 1;
            held += Assembling::account(media);
        }
        let mut beyond = None;
        for oldest in &self.frames {
            if frames <= FRAMES && held <= MAX_BYTES {
                break;
            }
            if oldest.id.frame >= media.frame {
                return Room::None;
            }
            frames -= 1;
            held -= oldest.weight;
            beyond = Some(oldest.id.frame);
        }
        match beyond {
            _ if frames > FRAMES || held > MAX_BYTES => Room::None,
            Some(frame) => Room::Beyond(frame),
            None => Room::Free,
        }
    }

    fn is_implausible(&self, media: &Media) -> bool {
        let furthest = self.newest.map_or(u32::MAX, |newest| newest.saturating_add(PLAUSIBLE));
        media.count > MAX_PACKETS || media.frame > furthest
    }

    /// Whether the packet's frame is no longer wanted.
    fn is_stale(&self, media: &Media) -> bool {
        media.frame < self.floor || self.finished.0.contains(&media.id())
    }

    fn find(&self, id: FrameId) -> Option<usize> {
        self.frames.binary_search_by_key(&id, |f| f.id).ok()
    }

    /// Takes a packet of `length` payload bytes, for which there is room ([`room_for`](Assembly::room_for)).
    pub fn insert(&mut self, media: &Media, length: usize, payload: Option<Bytes>, deadline: Time) -> Stored {
        if self.is_stale(media) {
            return Stored::Stale;
        }
        if self.is_implausible(media) || media.class != self.class {
            return Stored::Implausible;
        }
        let at = self.locate(media, deadline);
        let frame = &mut self.frames[at];
        if frame.count != media.count {
            // Where a path's MTU falls, a reliable frame is cut anew, into more packets, and sent again.
            let again = self.class == Class::Reliable;
            if !again || media.count < frame.count {
                return if again { Stored::Stale } else { Stored::Implausible };
            }
            self.held -= frame.weight;
            frame.restart(media, deadline);
            self.held += frame.weight;
        }
        if frame.has(media.index) {
            return Stored::Duplicate;
        }
        frame.repaired |= media.retransmission;
        let before = frame.weight;
        frame.store(media, length, payload);
        self.held += frame.weight - before;
        self.newest = self.newest.max(Some(media.frame));
        if frame.is_complete() { Stored::Complete } else { Stored::Kept }
    }

    /// Every packet of a frame has arrived, the last of them `now`: the frame's size in bytes.
    pub fn completed(&mut self, id: FrameId, now: Time) -> u32 {
        let Some(at) = self.find(id) else { return 0 };
        self.frames[at].completed = now;
        self.frames[at].size
    }

    /// Position of the packet's frame, begun if need be.
    fn locate(&mut self, media: &Media, deadline: Time) -> usize {
        let at = self.frames.partition_point(|f| f.id < media.id());
        if self.frames.get(at).is_none_or(|f| f.id != media.id()) {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.restart(media, deadline);
            self.held += frame.weight;
            self.frames.insert(at, frame);
        }
        at
    }

    /// The newest frame heard of.
    pub fn newest(&self) -> u32 {
        self.newest.unwrap_or(0)
    }

    /// The frames in the making, oldest first.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &Assembling> {
        self.frames.iter()
    }

    /// Forgets every frame below `floor`, and accepts none any more. `dropped` is called with each that was
    /// not shown.
    pub fn raise_floor(&mut self, floor: u32, mut dropped: impl FnMut(&Assembling)) {
        while self.frames.front().is_some_and(|frame| frame.id.frame < floor) {
            if let Some(frame) = self.frames.pop_front() {
                dropped(&frame);
                self.retire(frame);
            }
        }
        self.floor = self.floor.max(floor);
    }

    /// Forgets one frame, which was decoded; those before it may still come.
    pub fn finish(&mut self, id: FrameId) {
        let frame = self.find(id).and_then(|at| self.frames.remove(at));
        frame.into_iter().for_each(|frame| self.retire(frame));
        let (finished, order) = &mut self.finished;
        finished.insert(id);
        order.push_back(id);
        if finished.len() > FINISHED
            && let Some(oldest) = order.pop_front()
        {
            finished.remove(&oldest);
        }
    }

    fn retire(&mut self, frame: Assembling) {
        self.held -= frame.weight;
        if self.spare.len() < SPARE {
            self.spare.push(frame);
        }
    }

    /// What to ask for again of the frames after `decoded`, each at most every `interval`; `push` takes the
    /// requests: nothing of a stream that repeats nothing. True while anything is missing that could still be
    /// shown in time.
    pub fn nacks(
        &mut self,
        now: Time,
        interval: units::Span,
        session: u32,
        stream: u8,
        decoded: Option<FrameId>,
        mut push: impl FnMut(Nack),
    ) -> bool {
        if self.class == Class::OneShot {
            return false;
        }
        let newest = self.newest();
        let mut previous = decoded;
        let mut missing = false;
        for frame in &mut self.frames {
            let due = frame.asked_at.is_none_or(|at| now - at >= interval);
            let wanted = !frame.is_complete() && frame.deadline > now;
            missing |= wanted;
            let nack =
                (due && wanted).then(|| frame.missing(session, stream, frame.id.frame < newest)).flatten();
            if let Some(nack) = nack {
                frame.asked_at = Some(now);
                frame.requested.get_or_insert(now);
                push(nack);
            }
            // The frame it is predicted from has not been heard of at all: ask for its first 65 packets. Of a
            // reliable stream, whose frames need not come in order, its sender finds out.
            let unheard = frame.reference.filter(|&needed| {
                self.class != Class::Reliable && previous.is_some_and(|previous| previous < needed)
            });
            missing |= unheard.is_some() && frame.deadline > now;
            if let Some(FrameId { frame: needed, version }) = unheard.filter(|_| due) {
                frame.asked_at = Some(now);
                push(Nack { session, stream, frame: needed, version, first: 0, more: u64::MAX });
            }
            previous = Some(frame.id);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Span;

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
            part: 0,
            captured: RemoteTime::from_nanos(0),
            deadline: Span::from_millis(400),
            reference: frame.checked_sub(1).map(FrameId::first),
            retransmission: false,
            alone: false,
        }
    }

    const LATER: Time = Time::from_millis(400);

    /// Takes a packet as a receiver does; false if it was refused.
    fn take(assembly: &mut Assembly, media: &Media) -> bool {
        match assembly.room_for(media, 1000, false) {
            Room::Free => {}
            Room::Beyond(frame) => assembly.raise_floor(frame + 1, |_| ()),
            Room::None => return false,
        }
        assembly.insert(media, 1000, Some(Bytes::from_static(&[0; 1000])), LATER);
        true
    }

    #[test]
    fn an_old_frame_is_refused_where_only_newer_ones_could_make_room() {
        let mut assembly = Assembly::new(Class::Deadline);
        (1..=FRAMES as u32).for_each(|frame| assert!(take(&mut assembly, &media(frame, 0, 2))));
        assert_eq!(assembly.room_for(&media(0, 0, 2), 1000, false), Room::None);
        assert_eq!(
            assembly.room_for(&media(1, 1, 2), 1000, false),
            Room::Free,
            "its frame has its place already"
        );
        assert_eq!(assembly.room_for(&media(5_000, 0, 2), 1000, false), Room::Beyond(1));
    }

    #[test]
    fn a_frame_completes_in_any_order_and_once() {
        let mut assembly = Assembly::new(Class::Deadline);
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
        let mut assembly = Assembly::new(Class::Deadline);
        for (frame, index) in [(5, 0), (5, 2), (5, 3), (7, 0)] {
            assembly.insert(&media(frame, index, 5), 100, None, LATER);
        }
        let mut asked = Vec::new();
        assembly
            .nacks(Time::ZERO, Span::from_millis(50), 1, 0, Some(FrameId::first(4)), |nack| asked.push(nack));
        assert_eq!((asked[0].frame, asked[0].wanted().collect::<Vec<_>>()), (5, vec![1, 4]));
        assert_eq!((asked[1].frame, asked[1].first, asked[1].more), (6, 0, u64::MAX));
        asked.clear();
        assembly.nacks(Time::from_millis(49), Span::from_millis(50), 1, 0, Some(FrameId::first(4)), |nack| {
            asked.push(nack)
        });
        assert!(asked.is_empty());
    }

    fn reliable(frame: u32, index: u16, count: u16) -> Media {
        Media { class: Class::Reliable, ..media(frame, index, count) }
    }

    #[test]
    fn a_reliable_frame_that_is_cut_anew_begins_anew() {
        let mut assembly = Assembly::new(Class::Reliable);
        let part = || Some(Bytes::from_static(b"ab"));
        assert_eq!(assembly.insert(&reliable(3, 1, 2), 2, part(), LATER), Stored::Kept);
        assert_eq!(assembly.insert(&reliable(3, 2, 3), 2, part(), LATER), Stored::Kept, "now of three");
        assert_eq!(assembly.insert(&reliable(3, 0, 2), 2, part(), LATER), Stored::Stale, "cut as before");
        assert_eq!(assembly.insert(&reliable(3, 0, 3), 2, part(), LATER), Stored::Kept);
        assert_eq!(assembly.insert(&reliable(3, 1, 3), 2, part(), LATER), Stored::Complete);
        assembly.finish(FrameId::first(3));
        assert_eq!(assembly.insert(&reliable(3, 1, 3), 2, part(), LATER), Stored::Stale);
        assert_eq!((assembly.held, assembly.frames.len()), (0, 0));
    }

    proptest! {
        /// Whatever a reliable stream holds, nothing of it goes, and the frame to be decoded next always
        /// finds room.
        #[test]
        fn a_reliable_stream_keeps_all_it_has_and_room_for_the_next_frame(
            packets in prop::collection::vec((1u32..3_000, any::<u16>()), 0..3_000)
        ) {
            let mut assembly = Assembly::new(Class::Reliable);
            let mut kept = 0;
            for (frame, index) in packets {
                let count = 1 + (frame * 7 % 600) as u16;
                let media = reliable(frame, index % count, count);
                if assembly.room_for(&media, 1_400, false) == Room::Free {
                    let stored = assembly.insert(&media, 1_400, Some(Bytes::from_static(&[0; 1_400])), LATER);
                    kept += usize::from(matches!(stored, Stored::Kept | Stored::Complete));
                }
                prop_assert!(assembly.frames.len() <= FRAMES && assembly.held <= MAX_BYTES);
            }
            prop_assert_eq!(kept, assembly.frames.iter().map(|frame| usize::from(frame.have)).sum::<usize>());
            for index in 0..MAX_PACKETS {
                let media = reliable(0, index, MAX_PACKETS);
                prop_assert_eq!(assembly.room_for(&media, 1_400, true), Room::Free);
                assembly.insert(&media, 1_400, Some(Bytes::from_static(&[0; 1_400])), LATER);
            }
        }

        #[test]
        fn hostile_packets_stay_within_bounds(packets in prop::collection::vec((any::<u32>(), any::<u16>(), 1u16..), 0..500)) {
            let mut assembly = Assembly::new(Class::Deadline);
            for (frame, index, count) in packets {
                take(&mut assembly, &media(frame, index % count, count));
                prop_assert!(assembly.frames.len() <= FRAMES && assembly.held <= MAX_BYTES);
                prop_assert_eq!(assembly.held, assembly.frames.iter().map(|frame| frame.weight).sum::<usize>());
            }
        }

        /// A live stream goes on whatever is missing of it: the newest frame always finds room.
        #[test]
        fn a_newer_frame_is_never_refused(missing in prop::collection::vec(any::<bool>(), FRAMES..FRAMES + 200)) {
            let mut assembly = Assembly::new(Class::Deadline);
            for (frame, &missing) in (0..).zip(&missing) {
                prop_assert!(take(&mut assembly, &media(frame, 0, 2)));
                prop_assert!(missing || take(&mut assembly, &media(frame, 1, 2)));
            }
            prop_assert_eq!(assembly.newest() as usize, missing.len() - 1);
        }
    }
}
