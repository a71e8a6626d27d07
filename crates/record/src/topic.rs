//! What events are about, so that those which nobody wants need not be made.

use std::ops::BitOr;

use crate::Event;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Topic {
    /// A link accepted a packet.
    Arrivals,
    /// A packet left a link's server.
    Departures,
    /// A link dropped a packet.
    Drops,
    /// A packet reached the far end of its path.
    Deliveries,
    /// Packets as they are sent and received.
    Packets,
    /// What senders learn of their packets: acknowledged, lost, not lost after all.
    Fates,
    /// Samples of the round-trip time.
    RoundTrips,
    /// What controllers want.
    Decisions,
    /// Inner quantities of controllers and policies.
    Observations,
    /// Frames, from their capture until they are shown or given up.
    Frames,
    /// Feedback, requests, what a host dropped and what an application read.
    Signals,
}

/// A set of topics.
///
/// ```
/// use framewire_record::{Topic, Topics};
///
/// let wanted = Topics::only(Topic::Frames) | Topics::only(Topic::Packets);
/// assert!(wanted.has(Topic::Packets) && !wanted.has(Topic::Drops));
/// assert!(Topics::ALL.has(Topic::Drops) && Topics::NONE.is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics(u16);

impl Topics {
    /// Holds no topic: what a recorder wants of a node that it has no use for.
    pub const NONE: Topics = Topics(0);
    /// Holds every topic, any that is added later included.
    pub const ALL: Topics = Topics(u16::MAX);

    /// A single topic.
    pub const fn only(topic: Topic) -> Topics {
        Topics(1 << topic as u8)
    }

    /// A single topic, or none.
    pub fn only_if(wanted: bool, topic: Topic) -> Topics {
        if wanted { Topics::only(topic) } else { Topics::NONE }
    }

    /// Whether `topic` is among them.
    #[inline(always)]
    pub const fn has(self, topic: Topic) -> bool {
        self.0 & 1 << topic as u8 != 0
    }

    /// Whether there is none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Topics {
    type Output = Topics;

    fn bitor(self, other: Topics) -> Topics {
        Topics(self.0 | other.0)
    }
}

impl Event {
    /// What it is about.
    // Where an event is made its kind is known, and so is this.
    #[inline(always)]
    pub const fn topic(&self) -> Topic {
        match self {
            Event::LinkEnqueued { .. } => Topic::Arrivals,
            Event::LinkDeparted { .. } => Topic::Departures,
            Event::LinkDropped { .. } => Topic::Drops,
            Event::Delivered { .. } => Topic::Deliveries,
            Event::PacketSent { .. } | Event::PacketReceived { .. } => Topic::Packets,
            Event::PacketAcked { .. } | Event::PacketLost { .. } | Event::LossSpurious { .. } => Topic::Fates,
            Event::Rtt { .. } => Topic::RoundTrips,
            Event::Decision { .. } => Topic::Decisions,
            Event::Observed { .. } => Topic::Observations,
            Event::FrameCaptured { .. }
            | Event::FrameSkipped { .. }
            | Event::FrameEncoded { .. }
            | Event::FrameSent { .. }
            | Event::FrameAssembled { .. }
            | Event::FrameDisplayed { .. }
            | Event::FrameAbandoned { .. }
            | Event::FrameQuality { .. }
            | Event::FrameQualityModelled { .. } => Topic::Frames,
            Event::HostDropped { .. }
            | Event::NackSent { .. }
            | Event::KeyFrameRequested { .. }
            | Event::FeedbackSent { .. }
            | Event::FeedbackReceived { .. }
            | Event::StreamDataMoved { .. } => Topic::Signals,
        }
    }
}
