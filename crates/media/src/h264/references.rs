//! What OpenH264 keeps as long-term references, and what it must be told of them.
//!
//! ```text
//!   key picture ------------------------------------------------> confirmed (OpenH264 takes it for received; here it must be known first)
//!   a picture is marked --> pending -- known decoded: SUCCESS --> confirmed, in place of the one before
//!                              '------ cannot be decoded: FAILED --> forgotten, and another one is marked
//!   recovery asked for --> the next picture is predicted from the confirmed one
//! ```
//!
//! There are two slots. OpenH264 marks a picture of its own choice and no other until it has heard what
//! became of that one. It marks the one before the picture that says so, or that picture itself: either way
//! the peer keeps it once it has decoded the one that says so.

use super::slice::{Marking, Reference, SliceError, SliceHeader, SliceReader};
use crate::Peer;

/// A picture that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// Its capture index.
    frame: u32,
    frame_num: u32,
    /// Capture index of the picture that says that it is kept.
    since: u32,
}

/// What OpenH264 must hear of the picture it marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feedback {
    /// `idr_pic_id` of the key picture before it.
    pub idr: u32,
    /// The `frame_num` of its slice header (ITU-T H.264 section 7.4.3).
    pub frame_num: u32,
    /// The peer has it.
    pub success: bool,
}

/// What a coded picture says of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The frame that it is predicted from; none for a key picture.
    pub refers_to: Option<u32>,
    /// The frame that is kept from this picture on.
    pub keeps: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct References {
    reader: SliceReader,
    idr: u32,
    /// The last picture: its `frame_num` and capture index.
    last: Option<(u32, u32)>,
    slots: [Option<Kept>; 2],
    /// The slot whose picture recovery is predicted from.
    confirmed: usize,
    /// The slot whose picture OpenH264 wants to hear of.
    pending: Option<usize>,
    /// What it was told with the picture that is coded now, and heeds after it.
    told: Option<bool>,
}

impl References {
    /// What OpenH264 is to hear before the next picture.
    pub fn feedback(&mut self, peer: &Peer) -> Option<Feedback> {
        let pending = self.slots[self.pending?]?;
        let decoded = peer.known.is_some_and(|known| known >= pending.since);
        let broken = peer.broken_from.is_some_and(|from| pending.since >= from);
        self.told = (decoded || broken).then_some(decoded && !broken);
        let (idr, frame_num) = (self.idr, pending.frame_num);
        self.told.map(|success| Feedback { idr, frame_num, success })
    }

    /// `idr_pic_id` and `frame_num` of the picture that the next one can be predicted from, if the peer has
    /// one.
    pub fn recovery(&self, peer: &Peer) -> Option<(u32, u32)> {
        let kept = self.slots[self.confirmed]?;
        let decoded = peer.known.is_some_and(|known| known >= kept.since);
        let intact = peer.broken_from.is_none_or(|from| kept.since < from);
        (decoded && intact).then_some((self.idr, kept.frame_num))
    }

    /// Takes what came out for `frame`.
    pub fn coded(&mut self, frame: u32, coded: &[u8]) -> Result<Said, SliceError> {
        let header = self.reader.read(coded)?;
        let refers_to = match header.reference {
            None => None,
            Some(Reference::Short(frame_num)) => Some(self.short(frame_num)?),
            Some(Reference::Long(index)) => Some(self.long(index)?.frame),
        };
        match header.idr {
            Some(idr) => (self.idr, self.slots, self.pending, self.told) = (idr, [None; 2], None, None),
            None => self.heed(),
        }
        let keeps = self.mark(frame, &header)?;
        self.last = Some((header.frame_num, frame));
        Ok(Said { refers_to, keeps })
    }

    /// What was told before this picture counts after it.
    fn heed(&mut self) {
        let Some((pending, success)) = self.pending.zip(self.told.take()) else { return };
        self.pending = None;
        if success {
            self.confirmed = pending;
        } else {
            self.slots[pending] = None;
        }
    }

    fn short(&self, frame_num: u32) -> Result<u32, SliceError> {
        let last = self.last.filter(|&(last, _)| last == frame_num);
        last.map(|(_, frame)| frame).ok_or(SliceError::Missing("the picture it is predicted from"))
    }

    fn long(&self, index: u32) -> Result<Kept, SliceError> {
        let kept = self.slots.get(index as usize).copied().flatten();
        kept.ok_or(SliceError::Missing("the long-term reference it is predicted from"))
    }

    /// Follows what the header does to the slots; the frame that is kept from now on, if it begins with this
    /// one.
    fn mark(&mut self, frame: u32, header: &SliceHeader) -> Result<Option<u32>, SliceError> {
        let mut keeps = None;
        for &marking in &header.marking {
            let (kept, index) = match marking {
                Marking::KeepThis(index) => {
                    (Kept { frame, frame_num: header.frame_num, since: frame }, index)
                }
                Marking::Keep(frame_num, index) => {
                    (Kept { frame: self.short(frame_num)?, frame_num, since: frame }, index)
                }
                Marking::Unused(_) | Marking::Limit(_) => continue,
                Marking::LongUnused(_) | Marking::Reset => {
                    return Err(SliceError::Unsupported("what OpenH264 never does to references"));
                }
            };
            let index = index as usize;
            *self.slots.get_mut(index).ok_or(SliceError::Unsupported("a third long-term reference"))? =
                Some(kept);
            keeps = Some(kept.frame);
            match header.idr {
                Some(_) => self.confirmed = index,
                None => self.pending = Some(index),
            }
        }
        Ok(keeps)
    }
}
