//! What to do about packets that did not arrive.

mod nack;
mod newest_acked;
pub mod registry;
mod retransmit;

pub use nack::Nack;
pub use newest_acked::{KeyFrames, NewestAcked};
pub use registry::{Entry, REGISTRY, build};
pub use retransmit::{NoRepair, Retransmit};

use units::{Span, Time};
use wire::{Class, FrameId};

/// One packet that is missing at the receiver, as far as the sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The frame's stream.
    pub stream: u8,
    /// The frame it belongs to.
    pub id: FrameId,
    /// Its index in the frame.
    pub index: u16,
    /// The stream's class.
    pub class: Class,
    /// When this packet of the frame last left.
    pub last_sent: Time,
    /// How often it was sent again, at most 255.
    pub repeats: u8,
    /// When the frame stops being worth showing.
    pub deadline: Time,
}

/// What a policy sees.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The time, by the sender's clock.
    pub now: Time,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// How long a packet queued now waits before it leaves.
    pub queue: Span,
}

/// The answer to one missing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Send it again.
    Resend,
    /// Too late: break the chain with a key frame.
    KeyFrame,
    /// Leave it lost, and predict the next frame from the newest one that is known to have arrived with all
    /// it builds on.
    Refer,
    /// Nothing (it is on its way, or not worth it).
    Leave,
}

/// Answers losses, one missing packet at a time.
pub trait Recovery: Send {
    /// What to do about `missing`.
    fn repair(&mut self, view: &View, missing: &Missing) -> Repair;
    /// Whether encoders are to keep frames that the peer has, for [`Repair::Refer`].
    fn refers_back(&self) -> bool {
        false
    }
}
