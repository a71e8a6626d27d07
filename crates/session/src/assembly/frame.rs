//! One frame in the making, and what parity packets make good of it.

use bytes::{Bytes, BytesMut};
use media::{Part, Parts};
use units::{RemoteTime, Time};
use wire::{FrameId, Media, Nack};

use super::Stored;
use crate::parity;
use crate::playout::Arrival;

/// One frame in the making.
#[derive(Debug, Default)]
pub struct Assembling {
    /// Which frame of its stream.
    pub id: FrameId,
    /// Packets that it was cut into.
    pub count: u16,
    /// How many of those arrived, or were restored from parity.
    // Wider than `count`: beside it the two would be read as one, and a processor stalls on what half of was
    // just written.
    pub have: u32,
    /// What it is predicted from; `None`: a key frame.
    pub reference: Option<FrameId>,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// When it stops being worth showing, on our clock.
    pub deadline: Time,
    /// When it was last asked for.
    pub asked_at: Option<Time>,
    /// When it was first asked for.
    pub(super) requested: Option<Time>,
    /// When its last packet arrived.
    pub(super) completed: Time,
    /// A packet of it arrived as a retransmission.
    repaired: bool,
    /// Payload bytes of those.
    pub size: u32,
    /// Bytes of memory it takes: payloads, and the account of them.
    pub(super) weight: usize,
    arrived: Vec<u64>,
    highest: u16,
    parts: Vec<Bytes>,
    /// Of each of those the piece that it begins with, if it is useful without the others.
    pieces: Vec<Option<u8>>,
    parity: Parity,
}

/// Parity packets of a frame that has not arrived whole.
#[derive(Debug, Default)]
struct Parity {
    /// How many there are of its frame, as the first that arrived says.
    of: u16,
    /// Bytes of each one's payload, likewise.
    length: usize,
    /// Those that arrived, each with its number and, where payloads are real, its bytes.
    arrived: Vec<(u16, Option<Bytes>)>,
    /// They did not fit to the frame's packets: whoever sends these is not a sender of ours.
    broken: bool,
}

impl Assembling {
    pub(super) fn restart(&mut self, media: &Media, deadline: Time) {
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

    /// Bytes of memory that keep account of a parity packet.
    pub(super) const PARITY: usize = size_of::<(u16, Option<Bytes>)>();

    /// Bytes of memory that keep account of a frame of so many packets, whatever arrives of it.
    pub(super) fn account(media: &Media) -> usize {
        usize::from(media.count) * (size_of::<Bytes>() + size_of::<Option<u8>>())
            + usize::from(media.count).div_ceil(64) * size_of::<u64>()
    }

    pub(super) fn has(&self, index: u16) -> bool {
        self.arrived[usize::from(index / 64)] >> (index % 64) & 1 == 1
    }

    /// Each of its packets has arrived or was restored.
    pub fn is_complete(&self) -> bool {
        self.have == u32::from(self.count)
    }

    /// A packet is missing before one that has arrived.
    pub fn has_gap(&self) -> bool {
        self.have <= u32::from(self.highest)
    }

    /// How it came to be complete.
    pub fn arrival(&self) -> Arrival {
        let Assembling { completed, repaired, requested, .. } = *self;
        Arrival { completed, repaired, repair: requested.map(|at| completed - at) }
    }

    #[inline(always)]
    pub(super) fn store(&mut self, media: &Media, length: usize, payload: Option<Bytes>) {
        let index = media.index;
        self.arrived[usize::from(index / 64)] |= 1 << (index % 64);
        self.have += 1;
        self.repaired |= media.retransmission;
        self.size += length as u32;
        self.highest = self.highest.max(index);
        self.keep(index, payload, media.alone.then_some(media.part));
    }

    /// Keeps a parity packet that was not there and fits to those that were.
    #[inline(never)]
    pub(super) fn store_parity(
        &mut self,
        (number, of): (u16, u16),
        length: usize,
        payload: Option<Bytes>,
    ) -> Result<(), Stored> {
        let Parity { of: known, length: shard, arrived, broken } = &mut self.parity;
        if arrived.is_empty() {
            (*known, *shard) = (of, length);
        }
        if *broken || !parity::is_shard(length) || (*known, *shard) != (of, length) {
            return Err(Stored::Implausible);
        }
        if arrived.iter().any(|&(other, _)| other == number) {
            return Err(Stored::Duplicate);
        }
        self.weight += payload.as_ref().map_or(0, Bytes::len) + Assembling::PARITY;
        arrived.push((number, payload));
        Ok(())
    }

    /// Whether something is missing, and there are parity packets enough to restore it.
    #[inline]
    pub(super) fn may_restore(&self) -> bool {
        let parity = self.parity.arrived.len();
        parity > 0 && (1..=parity).contains(&(usize::from(self.count) - self.have as usize))
    }

    /// Restores what is missing from parity packets; there must be [enough](Assembling::may_restore) of them.
    #[cold]
    pub(super) fn restore(&mut self) {
        let Parity { of, length, arrived, .. } = std::mem::take(&mut self.parity);
        let indices: Vec<u16> = (0..self.count).filter(|&index| !self.has(index)).collect();
        let shards: Vec<_> =
            arrived.into_iter().filter_map(|(number, bytes)| Some((number, bytes?))).collect();
        if shards.is_empty() {
            // Payloads are but lengths: nearly equal ones.
            let longest = parity::longest(length as u32).max(1);
            return indices.iter().for_each(|&index| self.restored(index, longest, None));
        }
        let whole = (0..self.count).filter(|&index| self.has(index));
        let kept = whole.filter_map(|index| Some((index, self.parts.get(usize::from(index))?)));
        let Some(restored) = parity::recover(self.count, of, &indices, kept, &shards) else {
            self.parity.broken = true;
            return;
        };
        for (index, payload) in indices.into_iter().zip(restored) {
            self.restored(index, payload.len() as u32, Some(payload));
        }
    }

    fn restored(&mut self, index: u16, length: u32, payload: Option<Bytes>) {
        self.arrived[usize::from(index / 64)] |= 1 << (index % 64);
        self.have += 1;
        self.size += length;
        self.highest = self.highest.max(index);
        self.keep(index, payload, None);
    }

    /// Keeps a packet's bytes, where they are real.
    #[inline(always)]
    fn keep(&mut self, index: u16, payload: Option<Bytes>, piece: Option<u8>) {
        if let Some(payload) = payload {
            self.keep_bytes(index, payload, piece);
        }
    }

    #[inline(never)]
    fn keep_bytes(&mut self, index: u16, payload: Bytes, piece: Option<u8>) {
        let index = usize::from(index);
        self.weight += payload.len();
        if self.parts.len() <= index {
            self.parts.resize(index + 1, Bytes::new());
            self.pieces.resize(index + 1, None);
        }
        (self.parts[index], self.pieces[index]) = (payload, piece);
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

    /// Whether one of its packets is made of whole pieces and decodes without any other, as `tell` says
    /// ([`media::Decoder::standalone`]).
    pub fn stands_alone(&self, tell: fn(&[u8]) -> bool) -> bool {
        self.parts.iter().zip(&self.pieces).any(|(bytes, piece)| piece.is_some() && tell(bytes))
    }

    /// All packets of the frame, if it is whole and each of them begins as one that decodes without any
    /// other.
    pub fn packets(&self, tell: fn(&[u8]) -> bool) -> Option<Parts> {
        let alone =
            self.is_complete() && !self.parts.is_empty() && self.parts.iter().all(|bytes| tell(bytes));
        let numbered = self.parts.iter().zip(&self.pieces);
        alone.then(|| Parts {
            present: numbered
                .map(|(bytes, piece)| Part { number: piece.unwrap_or_default(), bytes: bytes.clone() })
                .collect(),
            complete: true,
        })
    }

    /// Asks for what is missing: up to the highest packet seen, or (`whole`) to the end. At most 65 packets
    /// at a time.
    pub(super) fn missing(&self, session: u32, stream: u8, whole: bool) -> Option<Nack> {
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
