//! What the two ends of a stream of VP8 keep besides the last frame: the golden and the alternate one.
//!
//! ```text
//!   key frame --------> golden, alternate -- known decoded --> one of them is confirmed, the other one is free
//!   any other frame --> the one that is free -- known decoded --> confirmed, in place of the one before, which is free now
//!                              '----- cannot be decoded --> free
//!   after a loss -----> the next frame is predicted from the confirmed one alone
//! ```
//!
//! Each frame is predicted from one reference only, so that it is known which. Probabilities of symbols stay
//! those of the key frame: else those after a lost frame would be wrong, whatever pictures are kept.

use super::header::Header;
use crate::Peer;

/// What a frame is predicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// The frame before.
    Last,
    /// The golden frame (0) or the alternate one (1).
    Kept(usize),
}

/// What a frame is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub from: Reference,
    /// The golden frame (0) or the alternate one (1) becomes this frame.
    pub replaces: Option<usize>,
}

/// What a coded frame says of references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The frame that it is predicted from; none for a key frame.
    pub refers_to: Option<u32>,
    /// The frame that is kept from this one on.
    pub keeps: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct References {
    /// Capture index of the frame coded last.
    last: Option<u32>,
    /// Those of the golden and the alternate frame, unless the peer can't have them.
    kept: [Option<u32>; 2],
    /// Which of those the peer is known to have.
    confirmed: Option<usize>,
    /// The peer can't have the last frame, and no frame was coded since that is predicted from another one.
    broken: bool,
}

impl References {
    /// What the next frame is to do; nothing if only a key frame helps.
    pub fn plan(&mut self, peer: &Peer) -> Option<Plan> {
        if let Some(from) = peer.broken_from {
            self.broken = true;
            for kept in &mut self.kept {
                *kept = kept.filter(|frame| *frame < from);
            }
            self.confirmed = self.confirmed.filter(|&slot| self.kept[slot].is_some());
        }
        let known = |slot: &usize| {
            self.kept[*slot].is_some_and(|frame| peer.known.is_some_and(|known| frame <= known))
        };
        self.confirmed =
            [0, 1].into_iter().filter(known).max_by_key(|&slot| self.kept[slot]).or(self.confirmed);
        let from = match (self.broken, self.confirmed) {
            (false, _) => Reference::Last,
            (true, Some(slot)) => Reference::Kept(slot),
            (true, None) => return None,
        };
        // The other one, unless it is newer and nothing is known of it yet.
        let other = self.confirmed.map(|slot| 1 - slot);
        let replaces =
            other.filter(|&slot| self.kept[slot] <= self.confirmed.and_then(|slot| self.kept[slot]));
        Some(Plan { from, replaces })
    }

    /// Takes what came out for `frame`, which was asked to follow `plan`.
    ///
    /// # Errors
    /// What it does otherwise.
    pub fn coded(&mut self, frame: u32, plan: Option<Plan>, header: &Header) -> Result<Said, &'static str> {
        if header.key {
            *self = References { last: Some(frame), kept: [Some(frame); 2], ..References::default() };
            return Ok(Said { refers_to: None, keeps: Some(frame) });
        }
        let plan = plan.ok_or("is not the key frame asked for")?;
        if header.replaces != [0, 1].map(|slot| plan.replaces == Some(slot)) || header.copies {
            return Err("replaces other references than it was asked to");
        }
        if header.keeps_entropy || !header.replaces_last {
            return Err("leaves other probabilities or another last frame than it was asked to");
        }
        let refers_to = match plan.from {
            Reference::Last => self.last,
            Reference::Kept(slot) => self.kept[slot],
        };
        if let Some(slot) = plan.replaces {
            self.kept[slot] = Some(frame);
        }
        (self.last, self.broken) = (Some(frame), false);
        Ok(Said { refers_to, keeps: plan.replaces.map(|_| frame) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libvpx writes of a frame that follows `plan`.
    fn header(plan: Option<Plan>) -> Header {
        let replaces = [0, 1].map(|slot| plan.is_none_or(|plan| plan.replaces == Some(slot)));
        Header {
            key: plan.is_none(),
            replaces,
            copies: false,
            keeps_entropy: plan.is_none(),
            replaces_last: true,
        }
    }

    /// Frames 0 to 9, each known to be decoded with the next.
    fn ten() -> References {
        let mut references = References::default();
        for frame in 0..10u32 {
            let plan = references.plan(&Peer { known: frame.checked_sub(1), broken_from: None });
            let plan = plan.filter(|_| frame > 0);
            references.coded(frame, plan, &header(plan)).unwrap();
        }
        references
    }

    #[test]
    fn a_recovery_that_was_left_out_is_made_up_for() {
        let mut references = ten();
        let lost = Peer { known: Some(8), broken_from: Some(9) };
        let plan = references.plan(&lost).unwrap();
        assert!(matches!(plan.from, Reference::Kept(_)));
        // It is left out: nothing comes out, and the next frame is asked for without a word of the loss.
        let again = references.plan(&Peer { known: Some(8), broken_from: None });
        assert_eq!(again, Some(plan));
        let said = references.coded(11, again, &header(again)).unwrap();
        assert_eq!(said.refers_to, Some(8));
        let next = references.plan(&Peer { known: Some(8), broken_from: None }).unwrap();
        assert_eq!(next.from, Reference::Last);
    }

    #[test]
    fn what_libvpx_does_otherwise_is_an_error() {
        let mut references = ten();
        let plan = references.plan(&Peer { known: Some(9), broken_from: None });
        let asked = header(plan);
        for other in [
            Header { copies: true, ..asked },
            Header { keeps_entropy: true, ..asked },
            Header { replaces_last: false, ..asked },
            Header { replaces: [true; 2], ..asked },
        ] {
            assert!(references.coded(10, plan, &other).is_err());
        }
        assert!(references.coded(10, None, &asked).is_err(), "no key frame");
        assert!(references.coded(10, plan, &asked).is_ok());
    }
}
