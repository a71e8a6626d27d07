//! One frame on its way out: what is known of it, and how it is cut into packets.

use bytes::Bytes;
use media::{Coded, Quantiser};
use units::{Rate, Time};
use wire::{Class, FrameId, Media};

use super::cut::Cut;
use crate::parity;

/// What the session knows about a frame besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameInfo {
    /// Which frame of its stream.
    pub id: FrameId,
    /// When it was captured.
    pub captured: Time,
    /// When its lifetime begins: with its capture, later by what a slow encoder held it up.
    pub born: Time,
    /// When it stops being worth showing.
    pub deadline: Time,
    /// What it is predicted from; `None`: a key frame.
    pub reference: Option<FrameId>,
    /// Rows it is coded with; 0 if they are not known.
    pub height: u16,
    /// Parity packets that protect it, as a share of those it is cut into ([`crate::parity`]).
    pub parity: f64,
}

/// One frame, cut into packets.
#[derive(Debug, Default)]
pub struct OutFrame {
    /// What is known of it.
    pub info: FrameInfo,
    /// When it came from the encoder.
    pub ready_at: Time,
    /// Packets it is cut into.
    pub count: u16,
    /// Parity packets behind those.
    pub(super) parity: u16,
    /// Their payloads, where the frame's are real.
    shards: Vec<Bytes>,
    /// Index of the next packet that has not left yet.
    pub next: u16,
    /// Its place in the order of sending.
    pub(super) order: u64,
    pub(super) size: u32,
    pub(super) target: Rate,
    pub(super) quantiser: Option<Quantiser>,
    payload: Option<Bytes>,
    /// Ends of the encoder's pieces, where it names any.
    pieces: Vec<u32>,
    /// Where the packets' payloads end.
    cut: Cut,
    pub(super) packets: Vec<OutPacket>,
    /// How many are known to have arrived, parity packets among them.
    pub(super) acked: u16,
    /// How many are lost and need not be sent again: a parity packet stands in for each.
    pub(super) spared: u16,
    /// Packets that were repeated unasked, from the first on.
    pub(super) repeated: u16,
}

/// What became of a packet of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutPacket {
    /// When it last left.
    pub(super) last_sent: Time,
    /// How often it was sent again.
    pub(super) repeats: u8,
    /// It is known to have arrived.
    pub(super) arrived: bool,
    /// It is to be sent again, and there was no room for it among the repairs.
    pub(super) wanted: bool,
    /// It is lost, and a parity packet stands in for it.
    pub(super) spared: bool,
}

impl OutFrame {
    /// Becomes another frame: it takes the bytes and pieces out of what was coded, and the buffers of
    /// this frame, whatever they hold.
    pub(super) fn renew(
        &mut self,
        info: FrameInfo,
        coded: &mut Coded,
        order: u64,
        ready_at: Time,
        room: u32,
    ) {
        let size = coded.size.max(1);
        let room = if info.parity > 0.0 { parity::longest(room) } else { room };
        let cut = Cut::at_pieces(&coded.pieces, room, coded.apart);
        let cut = cut.unwrap_or_else(|| Cut::evenly(size, room));
        let count = cut.count();
        let parity = parity::packets(count, info.parity);
        let (mut packets, mut shards) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.shards));
        packets.clear();
        shards.clear();
        packets.resize(usize::from(count + parity), OutPacket::default());
        *self = OutFrame {
            info,
            ready_at,
            count,
            parity,
            shards,
            next: 0,
            order,
            size,
            target: coded.target,
            quantiser: coded.quantiser,
            payload: coded.payload.take(),
            pieces: std::mem::take(&mut coded.pieces),
            cut,
            packets,
            acked: 0,
            spared: 0,
            repeated: 0,
        };
        if parity > 0 && self.payload.is_some() {
            let parts: Vec<Bytes> = (0..count).filter_map(|index| self.part(index).1).collect();
            self.shards = parity::protect(&parts, parity);
        }
    }

    /// Frees what its packets carry.
    pub(super) fn release(&mut self) {
        self.payload = None;
        self.shards.clear();
    }

    /// Packets it has, parity packets among them.
    pub fn total(&self) -> u16 {
        self.count + self.parity
    }

    /// Cuts it into packets of at most `room` bytes, whatever the encoder's pieces, without parity packets.
    pub(super) fn cut(&mut self, room: u32) {
        self.cut = Cut::evenly(self.size, room);
        self.count = self.cut.count();
        (self.parity, self.shards) = (0, Vec::new());
        (self.next, self.acked, self.spared, self.repeated) = (0, 0, 0, 0);
        self.packets = vec![OutPacket::default(); usize::from(self.count)];
    }

    /// The longest of its packets' payloads.
    pub(super) fn longest(&self) -> u32 {
        if self.parity > 0 { parity::shard(self.cut.longest()) } else { self.cut.longest() }
    }

    /// Bytes of all its packets, each with a header of `header`.
    pub(super) fn bytes(&self, header: u64) -> u64 {
        let parity = u64::from(self.parity) * u64::from(self.longest());
        u64::from(self.size) + parity + u64::from(self.total()) * header
    }

    /// What is left to send for the first time: packets, and their bytes, each with a header of `header`.
    pub(super) fn left(&self, header: u64) -> (usize, u64) {
        let packets = self.total() - self.next;
        let parity = packets.min(self.parity);
        let fresh = if self.next < self.count { self.cut.after(self.next) } else { 0 };
        let longest = if parity > 0 { self.longest() } else { 0 };
        let bytes = u64::from(fresh) + u64::from(parity) * u64::from(longest);
        (usize::from(packets), bytes + u64::from(packets) * header)
    }

    /// Whether a packet's payload is made of whole pieces ([`wire::Media::alone`]).
    #[inline(always)]
    pub fn is_alone(&self, index: u16) -> bool {
        !self.pieces.is_empty() && self.is_whole_pieces(index)
    }

    #[inline(never)]
    fn is_whole_pieces(&self, index: u16) -> bool {
        if index >= self.count {
            return false;
        }
        let (start, end) = self.cut.span(index);
        let borders = |at: u32| self.pieces.binary_search(&at).is_ok();
        (start == 0 || borders(start)) && borders(end)
    }

    /// Which of the encoder's pieces a packet's payload begins in; of a parity packet how many the frame has
    /// of those ([`wire::Media::part`]).
    #[inline]
    pub fn piece(&self, index: u16) -> u8 {
        if index >= self.count {
            return self.parity as u8;
        }
        if self.pieces.is_empty() {
            return 0;
        }
        let start = self.cut.span(index).0;
        self.pieces.partition_point(|&end| end <= start).min(255) as u8
    }

    /// Its next packet leaves `now`: true if none is left behind it.
    #[inline(always)]
    pub fn leave(&mut self, now: Time) -> bool {
        self.packets[usize::from(self.next)].last_sent = now;
        self.next += 1;
        self.next == self.total()
    }

    /// Nothing of it has left yet: it is worth repairing until `until` at least.
    pub fn begin(&mut self, until: Time) {
        debug_assert_eq!(self.next, 0, "something of it has left");
        self.info.deadline = self.info.deadline.max(until);
    }

    /// The header of packet `index`, of a frame of `stream`, but for what each transmission has of its own.
    #[inline(always)]
    pub fn media(&self, stream: u8, class: Class, index: u16) -> Media {
        let FrameInfo { id, captured, deadline, reference, .. } = self.info;
        Media {
            stream,
            class,
            frame: id.frame,
            version: id.version,
            index,
            count: self.count,
            part: self.piece(index),
            captured: captured.on_wire(),
            deadline: deadline - captured,
            reference,
            alone: self.is_alone(index),
            ..Media::blank()
        }
    }

    /// Length and bytes of a packet's payload.
    #[inline(always)]
    pub fn part(&self, index: u16) -> (usize, Option<Bytes>) {
        if index >= self.count {
            return (self.longest() as usize, self.shards.get(usize::from(index - self.count)).cloned());
        }
        let (start, end) = self.cut.span(index);
        let bytes = self.payload.as_ref().map(|payload| payload.slice(start as usize..end as usize));
        ((end - start) as usize, bytes)
    }

    /// Enough of it is known to have arrived for the whole.
    pub(super) fn arrived(&self) -> bool {
        self.acked >= self.count
    }
}
