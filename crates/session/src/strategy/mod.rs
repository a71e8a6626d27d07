//! What each track makes of a captured frame, and what leaves first.
//!
//! A capture feeds one track or several: the same pictures in two encoders, say, one predicted and one of key
//! frames only. The rate policy says how many bits the capture may have; the strategy divides them among its
//! tracks, answers losses and orders what leaves. It hears what happens and may change its mind by it: its
//! [`mode`](Strategy::mode) is recorded whenever it changes.
//!
//! `docs/add-a-strategy.md` walks through writing one.

mod alarms;
mod backup;
mod fec;
mod live;
mod prism;
pub mod registry;
mod resend;
mod unchained;

pub use backup::Backup;
pub use fec::Fec;
pub use live::Live;
pub use prism::Prism;
pub use registry::{Entry, REGISTRY, build, fallback};
pub use resend::Resend;
pub use unchained::Unchained;

use units::{Bytes, Rate, Span, Time};
use wire::{Class, FrameId};

use crate::rate::Plan;
use crate::recovery::{self, Missing, Repair};
use crate::schedule::{self, Pick};

/// Tracks of a capture at most.
pub const TRACKS: usize = 4;

/// One track, as a strategy sees it.
#[derive(Clone, Copy, Debug)]
pub struct TrackView {
    /// Its stream's number.
    pub stream: u8,
    /// How hard the session tries to deliver it.
    pub class: Class,
    /// Packets waiting to be sent for the first time.
    pub waiting: usize,
    /// Datagram bytes of those.
    pub waiting_bytes: Bytes,
    /// How long the oldest of them has waited.
    pub waited: Span,
    /// A frame was given up that what follows is predicted from.
    pub cut: bool,
}

/// What a strategy sees when a frame was captured.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time, by the sender's clock.
    pub now: Time,
    /// The capture's number.
    pub capture: u8,
    /// The frame's capture index.
    pub frame: u32,
    /// Time between frames.
    pub interval: Span,
    /// Columns and rows of its pictures, 0 where they are not known.
    pub picture: (u16, u16),
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// What the rate policy allows the capture.
    pub plan: Plan,
    /// Datagram bytes that wait to be sent again.
    pub repairs: Bytes,
    /// The capture's tracks, in the order the strategy named them.
    pub tracks: &'a [TrackView],
}

/// What a frame may be predicted from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The frame before it in its track, or what answers a loss.
    #[default]
    Chain,
    /// The newest frame of its track that is known to have arrived, with all that it depends on. A key frame
    /// if there is none, or if the encoder can't refer back ([`Strategy::refers_back`]).
    Acked,
    /// Nothing: a key frame.
    Nothing,
}

/// What a track makes of the frame. It starts as the whole of the rate policy's plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Code it, or leave it out.
    pub encode: bool,
    /// Datagram bits a second to fill.
    pub rate: Rate,
    /// What it may be predicted from.
    pub base: Base,
    /// The most bytes that it may have as a key frame, if there is a limit.
    pub largest_key: Option<Bytes>,
    /// Parity packets that protect it, as a share of the packets it is cut into, at most 1: rounded up, 255
    /// at most. They are sent beside [`rate`](Order::rate). A lost packet that one stands in for is not
    /// [repaired](Strategy::repair).
    pub parity: f64,
}

impl Order {
    /// All that `plan` allows.
    pub fn whole(plan: &Plan) -> Order {
        let &Plan { encode, bitrate: rate, largest_key, .. } = plan;
        Order { encode, rate, base: Base::Chain, largest_key, parity: 0.0 }
    }
}

/// What a strategy hears of its packets and of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// A frame was captured.
    Captured {
        /// The capture's number.
        capture: u8,
        /// The frame's capture index.
        frame: u32,
    },
    /// A frame came out of its track's encoder, and waits to be sent.
    Coded {
        /// The frame's stream.
        stream: u8,
        /// Frame and version.
        id: FrameId,
        /// Its bytes, without headers.
        size: u32,
        /// Whether it decodes without any other frame.
        key: bool,
        /// SSIM against its source, where the encoder knows it.
        ssim: Option<f64>,
    },
    /// A packet of a frame arrived.
    Acked {
        /// The frame's stream.
        stream: u8,
        /// Frame and version.
        id: FrameId,
        /// All of the frame has arrived now.
        complete: bool,
    },
    /// A packet of a frame was given up.
    Lost {
        /// The frame's stream.
        stream: u8,
        /// Frame and version.
        id: FrameId,
    },
    /// The receiver asks for packets of a frame.
    Asked {
        /// The frame's stream.
        stream: u8,
        /// Frame and version.
        id: FrameId,
    },
    /// Nothing has been heard for so long that something may be lost: a probe leaves for an answer.
    Suspected,
    /// What leaves within the next 50 ms is likely to be lost, says the strategy's own predictor
    /// ([`Strategy::take_watch`]). Heard before each captured frame that this holds for.
    Foretold,
    /// The receiver can't decode a stream after this frame.
    Stuck {
        /// The stream's number.
        stream: u8,
        /// The last frame that it got.
        after: u32,
    },
}

/// Divides a capture among its tracks, answers losses, orders what leaves.
pub trait Strategy: Send {
    /// The tracks it has the capture of this number coded in, the first of which is what a viewer looks at
    /// if all goes well: at least one, at most [`TRACKS`].
    fn tracks(&self, capture: u8) -> &'static [Class] {
        let _ = capture;
        &[Class::Deadline]
    }
    /// Takes notice. Nothing has to be done about it.
    fn hear(&mut self, now: Time, news: &News) {
        let _ = (now, news);
    }
    /// What each track makes of a captured frame; `orders` has one for each of [`View::tracks`].
    fn order(&mut self, view: &View<'_>, orders: &mut [Order]) {
        let _ = (view, orders);
    }
    /// What to do about a packet of a [`Class::Deadline`] track that is missing. Those of the other classes
    /// are the sender's matter: a reliable packet is sent until it arrives, one of [`Class::OneShot`] never
    /// again.
    fn repair(&mut self, view: &recovery::View, missing: &Missing) -> Repair;
    /// Which packet leaves next, where one may. Not asked where there is nothing to choose between: packets
    /// of one track, and neither repairs nor padding.
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick;
    /// Whether encoders are to keep frames that the peer has, for [`Repair::Refer`].
    fn refers_back(&self) -> bool {
        false
    }
    /// What foresees losses for it, if it has such a thing: its sender takes it once, tells it of every
    /// packet and passes its alarms on ([`News::Foretold`]).
    fn take_watch(&mut self) -> Option<predict::Watch> {
        None
    }
    /// What it is at, for those who look at a run.
    fn mode(&self) -> &'static str {
        "live"
    }
}
