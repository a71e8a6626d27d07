//! What is lost stays lost: the next frame is predicted from the newest one that the peer is known to have.

use wire::Class;

use super::{Missing, Recovery, Repair, View};

/// Instead of a repair or a key frame, a frame that refers further back. The stream goes on after one round
/// trip, as after a repair, and nothing is sent twice; the frames between the loss and that one are not
/// shown. WiVRn streams to headsets this way (github.com/WiVRn/WiVRn: each frame refers to one that the
/// headset has acknowledged).
///
/// Where the encoder can't refer back, a key frame is coded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewestAcked;

impl Recovery for NewestAcked {
    fn repair(&mut self, view: &View, missing: &Missing) -> Repair {
        match missing.class {
            Class::Padding | Class::OneShot => Repair::Leave,
            Class::Deadline => Repair::Refer,
            Class::Reliable => super::retransmit::Retransmit.repair(view, missing),
        }
    }

    fn refers_back(&self) -> bool {
        true
    }
}

/// A key frame at once for each loss that breaks the chain: what [`NewestAcked`] saves, and what it does
/// where the encoder can't refer back.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFrames;

impl Recovery for KeyFrames {
    fn repair(&mut self, view: &View, missing: &Missing) -> Repair {
        match missing.class {
            Class::Deadline => Repair::KeyFrame,
            _ => NewestAcked.repair(view, missing),
        }
    }
}
