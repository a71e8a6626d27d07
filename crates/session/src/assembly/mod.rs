//! Frames on their way in.
//!
//! A live stream's oldest frames make room for the newest, where frames or bytes are too many. A reliable
//! stream's make room for none: of its packets those of a frame that can be decoded next always find room,
//! and others only while enough is left for that one. A packet that finds no room is refused before it is
//! acknowledged, so that its sender counts it as lost.

mod frame;

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use units::{Time, apart, likely, unlikely};
use wire::{Class, FrameId, Media, Nack};

pub use frame::Assembling;

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
    /// A parity packet of a frame that does without.
    Spare,
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
    // Boxed, for they are long: each would be copied whenever it comes or goes.
    frames: VecDeque<Box<Assembling>>,
    /// Emptied frames, kept for their buffers.
    spare: VecDeque<Box<Assembling>>,
    /// Frames below are no longer wanted.
    floor: u32,
    /// Frames of a reliable stream that are no longer wanted, and the order in which that came about.
    finished: (BTreeSet<FrameId>, VecDeque<FrameId>),
    newest: Option<u32>,
    held: usize,
    begun: u64,
}

impl Assembly {
    /// Nothing yet of a stream of `class`.
    pub fn new(class: Class) -> Assembly {
        Assembly {
            class,
            frames: VecDeque::new(),
            spare: VecDeque::new(),
            floor: 0,
            finished: Default::default(),
            newest: None,
            held: 0,
            begun: 0,
        }
    }

    /// The stream's class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether a packet with `bytes` of payload to keep can be taken, and what has to go for it. `next` says
    /// whether its frame can be decoded once it is complete.
    #[inline(always)]
    pub fn room_for(&self, media: &Media, bytes: usize, next: impl FnOnce() -> bool) -> Room {
        // Room for the most that it may need, whatever it is, as there nearly always is.
        let most = Assembling::account(media) + bytes + Assembling::PARITY + NEXT;
        if self.frames.len() + 1 < FRAMES && self.held + most <= MAX_BYTES {
            return Room::Free;
        }
        self.make_room_for(&apart(*media), bytes, next())
    }

    /// The same where there may be none.
    #[cold]
    fn make_room_for(&self, media: &Media, bytes: usize, next: bool) -> Room {
        let known = self.find(media.id()).is_some();
        let bytes = bytes + if media.parity().is_some() { Assembling::PARITY } else { 0 };
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

    #[inline]
    fn is_implausible(&self, media: &Media) -> bool {
        let furthest = self.newest.map_or(u32::MAX, |newest| newest.saturating_add(PLAUSIBLE));
        media.count > MAX_PACKETS || media.frame > furthest
    }

    /// Whether the packet's frame is no longer wanted.
    #[inline]
    fn is_stale(&self, media: &Media) -> bool {
        media.frame < self.floor || self.finished.0.contains(&media.id())
    }

    fn find(&self, id: FrameId) -> Option<usize> {
        self.frames.binary_search_by_key(&id, |f| f.id).ok()
    }

    /// Takes a packet of `length` payload bytes, for which there is room ([`room_for`](Assembly::room_for)).
    /// `deadline`: of its frame, if that begins with it.
    #[inline(always)]
    pub fn insert(
        &mut self,
        media: &Media,
        length: usize,
        payload: Option<Bytes>,
        deadline: impl Fn() -> Time,
    ) -> Stored {
        let parity = media.parity();
        if unlikely(self.is_stale(media)) {
            return if parity.is_some() { Stored::Spare } else { Stored::Stale };
        }
        if unlikely(self.is_implausible(media) || media.class != self.class) {
            return Stored::Implausible;
        }
        let at = self.locate(media, &deadline);
        let frame = &mut self.frames[at];
        if unlikely(frame.count != media.count) {
            // Where a path's MTU falls, a reliable frame is cut anew, into more packets, and sent again.
            let again = self.class == Class::Reliable;
            if !again || media.count < frame.count {
                return if again { Stored::Stale } else { Stored::Implausible };
            }
            self.held -= frame.weight;
            frame.restart(&apart(*media), deadline());
            self.held += frame.weight;
            self.begun += 1;
        }
        let before = frame.weight;
        let stored = match parity {
            Some(_) if frame.is_complete() => Err(Stored::Spare),
            Some(parity) => frame.store_parity(parity, length, payload),
            None if frame.has(media.index) => Err(Stored::Duplicate),
            None => {
                frame.store(media, length, payload);
                Ok(())
            }
        };
        if let Err(refused) = stored {
            return refused;
        }
        if unlikely(frame.may_restore()) {
            frame.restore();
        }
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
    #[inline]
    fn locate(&mut self, media: &Media, deadline: &impl Fn() -> Time) -> usize {
        if likely(self.frames.back().is_some_and(|newest| newest.id == media.id())) {
            return self.frames.len() - 1;
        }
        self.locate_another(&apart(*media), deadline())
    }

    #[inline(never)]
    fn locate_another(&mut self, media: &Media, deadline: Time) -> usize {
        let at = self.frames.partition_point(|f| f.id < media.id());
        if self.frames.get(at).is_none_or(|f| f.id != media.id()) {
            let mut frame = self.spare.pop_back().unwrap_or_default();
            frame.restart(media, deadline);
            self.held += frame.weight;
            self.frames.insert(at, frame);
            self.begun += 1;
        }
        at
    }

    /// How often a frame has begun with a packet, or anew.
    #[inline]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The newest frame heard of.
    pub fn newest(&self) -> u32 {
        self.newest.unwrap_or(0)
    }

    /// The frames in the making, oldest first.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &Assembling> {
        self.frames.iter().map(|frame| &**frame)
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

    fn retire(&mut self, frame: Box<Assembling>) {
        self.held -= frame.weight;
        if self.spare.len() < SPARE {
            self.spare.push_back(frame);
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
mod tests;
