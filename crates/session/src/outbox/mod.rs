//! Coded frames on their way out: cut into packets, kept until they arrived or stopped mattering.

mod cut;
mod frame;

use std::collections::VecDeque;

use media::Coded;
use units::{Bytes as Size, Span, Time, likely};
use wire::{Class, FrameId};

use crate::rate::Departed;
pub use frame::{FrameInfo, OutFrame};

/// Frames kept at most: a minute at 120 frames/s, as long as any policy lets one wait and the longest
/// deadline lets one be repaired.
const FRAMES: usize = 7200;
/// Payload bytes that a reliable stream may have on its way; while it has more, no further frame is coded:
/// ten seconds at 50 Mbit/s, as much as its receiver keeps of frames in the making.
const MAX_HELD: u64 = 64 << 20;
/// Forgotten frames that are kept for their buffers, at most.
const SPARE: usize = 8;

/// One stream's frames.
#[derive(Debug)]
pub struct Outbox {
    /// The stream's class.
    pub class: Class,
    /// Frames whose last packet has left, for the rate policy to take.
    pub departed: Vec<Departed>,
    /// How long after its lifetime began a frame that has not been sent whole is dropped.
    longest: Span,
    /// Bytes of a packet before its payload.
    header: u64,
    /// In the order of sending, which need not be that of capture.
    // Boxed, for they are long: each would be copied whenever it comes or goes.
    frames: VecDeque<Box<OutFrame>>,
    /// Frames that are forgotten, kept for their buffers.
    spare: VecDeque<Box<OutFrame>>,
    /// Each frame's place in that order, by frame: what comes and goes is nearly always at an end.
    places: VecDeque<(FrameId, u64)>,
    /// The next frame's place.
    next_place: u64,
    /// Payload bytes of all frames.
    held: u64,
    /// Position of the first frame that has packets left to send for the first time.
    sending: usize,
    waiting_packets: usize,
    waiting_bytes: u64,
    /// Packets that are to be sent again and found no room among the repairs.
    wanted: usize,
    /// When the last frame had left whole.
    idle_since: Time,
}

impl Outbox {
    /// An empty outbox of a stream, whose frames may wait `longest` after their lifetime began, and whose
    /// packets have `header` bytes before their payload.
    pub fn new(class: Class, longest: Span, header: usize) -> Outbox {
        Outbox {
            class,
            departed: Vec::new(),
            longest,
            header: header as u64,
            frames: VecDeque::new(),
            spare: VecDeque::new(),
            places: VecDeque::new(),
            next_place: 0,
            held: 0,
            sending: 0,
            waiting_packets: 0,
            waiting_bytes: 0,
            wanted: 0,
            idle_since: Time::ZERO,
        }
    }

    /// Packets have this many bytes before their payload. Nothing is in the outbox yet.
    pub fn set_header(&mut self, header: usize) {
        self.header = header as u64;
    }

    /// Takes a frame, and the bytes and pieces out of what was coded; `room` is the payload a packet carries.
    /// True if one had to go for it that had not been sent whole: what is reliable never goes
    /// ([`is_full`](Outbox::is_full)).
    ///
    /// # Panics
    /// If the frame is in it already.
    pub fn push(&mut self, info: FrameInfo, coded: &mut Coded, now: Time, room: u32) -> bool {
        let crowded = self.frames.len() >= FRAMES && self.class != Class::Reliable;
        let dropped = crowded && self.drop_at(0);
        let mut frame = self.spare.pop_back().unwrap_or_default();
        frame.renew(info, coded, self.next_place, now, room);
        let place = self.place(info.id);
        assert!(place.is_err(), "{:?} is in the outbox already", info.id);
        let (Ok(at) | Err(at)) = place;
        self.places.insert(at, (info.id, self.next_place));
        self.next_place += 1;
        let (packets, bytes) = frame.left(self.header);
        self.waiting_packets += packets;
        self.waiting_bytes += bytes;
        self.held += u64::from(frame.size);
        self.frames.push_back(frame);
        dropped
    }

    /// No further frame should be coded: a reliable stream drops none that it has.
    pub fn is_full(&self) -> bool {
        self.class == Class::Reliable && (self.frames.len() >= FRAMES || self.held >= MAX_HELD)
    }

    /// Packets not yet sent for the first time.
    pub fn waiting_packets(&self) -> usize {
        self.waiting_packets
    }

    /// Datagram bytes of those.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// When the oldest of those came from the encoder.
    pub fn waiting_since(&self) -> Option<Time> {
        self.frames.get(self.sending).map(|frame| frame.ready_at)
    }

    /// Where the frame stands whose packet goes next, if there is one.
    #[inline]
    pub fn sending(&self) -> usize {
        self.sending
    }

    /// The frame that stands at `position`.
    #[inline]
    pub fn at_mut(&mut self, position: usize) -> Option<&mut OutFrame> {
        self.frames.get_mut(position).map(|frame| &mut **frame)
    }

    /// The frame whose packet goes next.
    #[inline]
    pub fn current(&self) -> Option<&OutFrame> {
        self.frames.get(self.sending).map(|frame| &**frame)
    }

    /// A packet of `length` bytes of payload has [left](OutFrame::leave) the current frame, at `now`. `done`:
    /// none of the frame's packets is left.
    #[inline(always)]
    pub fn advance(&mut self, now: Time, length: u32, done: bool) {
        self.waiting_packets -= 1;
        self.waiting_bytes -= u64::from(length) + self.header;
        if done {
            self.depart(now);
        }
    }

    /// The current frame has left whole.
    fn depart(&mut self, now: Time) {
        let Some(frame) = self.frames.get(self.sending) else { return };
        self.departed.push(Departed {
            frame: frame.info.id.frame,
            at: now,
            queued: now - frame.ready_at,
            served: now - frame.ready_at.max(self.idle_since),
            size: Size::new(u64::from(frame.size)),
            sent: Size::new(frame.bytes(self.header)),
            target: frame.target,
            quantiser: frame.quantiser,
        });
        self.sending += 1;
        self.idle_since = now;
    }

    /// Drops every frame that has packets left to send. Returns how many. Of a reliable stream none is.
    pub fn drop_waiting(&mut self) -> u64 {
        if self.class == Class::Reliable {
            return 0;
        }
        let before = self.frames.len();
        while self.frames.len() > self.sending {
            self.drop_at(self.frames.len() - 1);
        }
        (before - self.frames.len()) as u64
    }

    /// Where a frame stands that is still kept.
    #[inline(always)]
    pub fn position(&self, id: FrameId) -> Option<usize> {
        // Mostly it is the frame that is being sent, or the oldest.
        let is_at = |position: usize| self.frames.get(position).is_some_and(|frame| frame.info.id == id);
        if likely(is_at(self.sending)) {
            return Some(self.sending);
        }
        if is_at(0) {
            return Some(0);
        }
        self.position_of_another(id)
    }

    #[inline(never)]
    fn position_of_another(&self, id: FrameId) -> Option<usize> {
        let (_, place) = self.places[self.place(id).ok()?];
        self.frames.binary_search_by_key(&place, |frame| frame.order).ok()
    }

    /// Where a frame's place is noted, or is to be.
    fn place(&self, id: FrameId) -> Result<usize, usize> {
        // Mostly it is the oldest that goes, and a newer one that comes.
        if self.places.front().is_some_and(|&(oldest, _)| oldest == id) {
            return Ok(0);
        }
        if self.places.back().is_none_or(|&(newest, _)| newest < id) {
            return Err(self.places.len());
        }
        self.places.binary_search_by_key(&id, |&(other, _)| other)
    }

    /// A frame still kept.
    #[inline]
    pub fn frame(&self, id: FrameId) -> Option<&OutFrame> {
        self.frames.get(self.position(id)?).map(|frame| &**frame)
    }

    #[inline(never)]
    fn frame_mut(&mut self, id: FrameId) -> Option<&mut OutFrame> {
        let position = self.position(id)?;
        self.at_mut(position)
    }

    /// When a packet last left, and how often it was sent again, if it has left and its frame is still kept.
    pub fn last_sent(&self, id: FrameId, index: u16) -> Option<(Time, u8)> {
        let frame = self.frame(id)?;
        let packet = frame.packets.get(usize::from(index)).filter(|_| index < frame.next)?;
        Some((packet.last_sent, packet.repeats))
    }

    /// A packet was sent again.
    pub fn resent(&mut self, now: Time, id: FrameId, index: u16) {
        if let Some(packet) = self.frame_mut(id).and_then(|f| f.packets.get_mut(usize::from(index))) {
            packet.last_sent = now;
            packet.repeats = packet.repeats.saturating_add(1);
        }
    }

    /// Packet `index` of the `total` of a frame arrived, perhaps not for the first time. What was sent before
    /// a frame was cut anew says nothing of it. True if enough of it has arrived for the whole, which was not
    /// known.
    #[inline(always)]
    pub fn acked(&mut self, id: FrameId, index: u16, total: u16) -> bool {
        // Mostly it is of the oldest.
        let oldest = self.frames.front().is_some_and(|frame| frame.info.id == id);
        let frame = if likely(oldest) { self.at_mut(0) } else { self.frame_mut(id) };
        let Some(frame) = frame.filter(|frame| frame.total() == total) else { return false };
        let Some(packet) = frame.packets.get_mut(usize::from(index)) else { return false };
        let news = !std::mem::replace(&mut packet.arrived, true);
        let spared = std::mem::take(&mut packet.spared);
        frame.spared -= u16::from(spared);
        frame.acked += u16::from(news);
        news && frame.acked == frame.count
    }

    /// A packet is given up (`lost`), or its receiver asks for it: true if parity packets stand in for all
    /// that is lost of its frame, as far as is known. What the receiver misses may be on its way, so that
    /// asking alone proves nothing.
    pub fn spare(&mut self, id: FrameId, index: u16, lost: bool) -> bool {
        let Some(frame) = self.frame_mut(id).filter(|frame| frame.parity > 0) else { return false };
        let Some(packet) = frame.packets.get_mut(usize::from(index)) else { return false };
        if lost && !packet.spared && frame.spared < frame.parity {
            packet.spared = true;
            frame.spared += 1;
            return true;
        }
        !lost
    }

    /// A packet is to be sent again once there is room for it among the repairs.
    pub fn want(&mut self, id: FrameId, index: u16) {
        let packet = self.frame_mut(id).and_then(|frame| frame.packets.get_mut(usize::from(index)));
        let news = packet.is_some_and(|packet| !std::mem::replace(&mut packet.wanted, true));
        self.wanted += usize::from(news);
    }

    /// A packet that is to be sent again, of the oldest frame that has one. Each is named once.
    pub fn take_wanted(&mut self) -> Option<(FrameId, u16)> {
        if self.wanted == 0 {
            return None;
        }
        let found = self.frames.iter_mut().find_map(|frame| {
            let index = frame.packets.iter().position(|packet| packet.wanted)?;
            frame.packets[index].wanted = false;
            Some((frame.info.id, index as u16))
        });
        // What is counted and not found went with its frame.
        self.wanted = if found.is_some() { self.wanted - 1 } else { 0 };
        found
    }

    /// A packet worth repeating though nobody has asked for it: of the newest frame that left whole, after
    /// `since`, and has not arrived whole yet, then of the one before. Each is named once.
    pub fn next_repeat(&mut self, since: Time) -> Option<(FrameId, u16)> {
        let left = self.frames.range_mut(..self.sending).rev();
        let mut recent =
            left.take_while(|frame| frame.packets.last().is_some_and(|last| last.last_sent >= since));
        recent.find_map(|frame| {
            let index =
                (frame.repeated..frame.total()).find(|&index| !frame.packets[usize::from(index)].arrived)?;
            frame.repeated = index + 1;
            Some((frame.info.id, index))
        })
    }

    /// Forgets frames that arrived, or that nobody waits for any more. Returns how many of the latter had not
    /// been sent whole.
    pub fn expire(&mut self, now: Time) -> u64 {
        let mut unsent = 0;
        while self.frames.front().is_some_and(|frame| self.settled(frame, now)) {
            unsent += u64::from(self.drop_at(0));
        }
        // What waits does so no longer because frames before it may still be repaired.
        while self.current().is_some_and(|frame| self.settled(frame, now)) {
            unsent += u64::from(self.drop_at(self.sending));
        }
        unsent
    }

    /// Whether a frame arrived, or is of no use any more.
    fn settled(&self, frame: &OutFrame, now: Time) -> bool {
        frame.arrived() || self.useless_after(frame).is_some_and(|after| after < now)
    }

    /// When a frame stops mattering, whatever becomes of it; a reliable stream's never does.
    fn useless_after(&self, frame: &OutFrame) -> Option<Time> {
        match self.class {
            Class::Reliable => None,
            _ if frame.next == frame.total() => Some(frame.info.deadline),
            _ => Some(frame.info.born + self.longest),
        }
    }

    /// Forgets the frame at `position`. True if it had packets left to send.
    fn drop_at(&mut self, position: usize) -> bool {
        let Some(mut frame) = self.frames.remove(position) else { return false };
        self.forget(&frame);
        let (packets, bytes) = frame.left(self.header);
        self.waiting_packets -= packets;
        self.waiting_bytes -= bytes;
        self.sending -= usize::from(position < self.sending);
        if self.spare.len() < SPARE {
            frame.release();
            self.spare.push_back(frame);
        }
        packets > 0
    }

    fn forget(&mut self, frame: &OutFrame) {
        if let Ok(at) = self.place(frame.info.id) {
            self.places.remove(at);
        }
        self.held -= u64::from(frame.size);
    }

    /// From now on the path carries `room` bytes of payload in a packet. Frames that have not been begun are
    /// cut anew where they must be; of others a packet too long can't be sent any more, and they are
    /// forgotten; a reliable stream sends them anew from the start. Returns how many of those that were
    /// forgotten had not been sent whole.
    pub fn fit(&mut self, room: u32) -> u64 {
        let mut unsent = 0;
        for mut frame in std::mem::take(&mut self.frames) {
            let (fits, begun) = (frame.longest() <= room, frame.next > 0);
            if !fits && begun && self.class != Class::Reliable {
                unsent += u64::from(frame.next < frame.total());
                self.forget(&frame);
                continue;
            }
            if !fits {
                frame.cut(room);
            }
            self.frames.push_back(frame);
        }
        self.sending = self.frames.iter().take_while(|frame| frame.next == frame.total()).count();
        let left = self.frames.iter().map(|frame| frame.left(self.header));
        (self.waiting_packets, self.waiting_bytes) =
            left.fold((0, 0), |sum, frame| (sum.0 + frame.0, sum.1 + frame.1));
        unsent
    }

    /// When [`expire`](Outbox::expire) will next find something to forget, if nothing more arrives.
    #[inline]
    pub fn next_expiry(&self) -> Option<Time> {
        let expiry = |frame: &OutFrame| match frame.arrived() {
            true => Some(Time::ZERO),
            false => self.useless_after(frame).map(|after| after + Span::from_nanos(1)),
        };
        let oldest = self.frames.front().map(|frame| &**frame);
        oldest.into_iter().chain(self.current()).filter_map(expiry).min()
    }

    /// Nothing is left to send or to repair.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests;
