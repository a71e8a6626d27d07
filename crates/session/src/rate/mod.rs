//! From the controller's decision to the encoder's bitrate, and how the sender behaves between frames.

mod advice;
mod budget;
mod direct;
mod ladder;
mod live;
pub mod registry;
pub mod vidaptive;
mod webrtc;

pub use advice::advice;
pub use budget::Budget;
pub use direct::Direct;
pub use ladder::Ladder;
pub use live::Live;
pub use registry::{Entry, REGISTRY, build};
pub use vidaptive::Vidaptive;
pub use webrtc::WebRtc;

pub use transport::cc_rate;

use media::Quantiser;
use units::{Bytes, Rate, Span, Time};

/// What a policy sees when a frame is about to be captured, or a kept one can be encoded after all.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time, by the sender's clock.
    pub now: Time,
    /// The stream's number within the session.
    pub stream: u8,
    /// The frame's capture index in it.
    pub frame: u32,
    /// Time between frames.
    pub interval: Span,
    /// The controller's rate ([`cc_rate`]); none only of a controller that limits nothing.
    pub cc_rate: Option<Rate>,
    /// Bytes waiting to be sent.
    pub queued: Bytes,
    /// Bytes sent and not heard of: at most so much stands in the network.
    pub in_flight: Bytes,
    /// How long the oldest of those has waited.
    pub waited: Span,
    /// A frame has been given up that what follows is predicted from: nothing can be shown before this one, a
    /// key frame, arrives.
    pub cut: bool,
    /// The controller's window has room for a packet.
    pub open: bool,
    /// The longest wait the session puts up with before it skips a frame.
    pub patience: Span,
    /// The session's lowest and highest media rate.
    pub limits: (Rate, Rate),
    /// The source's height in rows; 0 where there are no pictures, or none that may be scaled.
    pub height: u16,
    /// Frames of the stream that left whole since its last plan.
    pub departed: &'a [Departed],
}

/// A frame whose last packet has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departed {
    /// Capture index.
    pub frame: u32,
    /// When its last packet left.
    pub at: Time,
    /// From the moment the encoder handed it over until then.
    pub queued: Span,
    /// From the moment it was the oldest that waited until then.
    pub served: Span,
    /// Coded size, without headers.
    pub size: Bytes,
    /// Datagram bytes of its packets, each sent once.
    pub sent: Bytes,
    /// Bitrate it was encoded at, in bits of coded picture.
    pub target: Rate,
    /// What it was quantised with, where that is known.
    pub quantiser: Option<Quantiser>,
}

/// What to do with the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Datagram bits per second to fill.
    pub bitrate: Rate,
    /// Encode it, or leave it out.
    pub encode: bool,
    /// A frame that is left out may still be encoded when everything that waits has left, should that be
    /// within this long after its capture and no newer one have come.
    pub keep: Span,
    /// Largest a key frame should be, if there is a limit.
    pub largest_key: Option<Bytes>,
    /// Rows to code it with, 16 to [`View::height`]; `None` for all. Where it differs from the frame before
    /// it is a key frame.
    pub height: Option<u16>,
}

impl Plan {
    /// Encode at `bitrate`, or leave the frame out for good.
    pub fn new(bitrate: Rate, encode: bool) -> Plan {
        Plan { bitrate, encode, keep: Span::ZERO, largest_key: None, height: None }
    }
}

/// How a sender behaves between frames; the same from the first packet to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// A window over the round trip is not taken for less than this ([`cc_rate`]).
    pub floor: Rate,
    /// The CC-Rate is by the latest round trip where that is shorter than the smoothed one, which stays long
    /// for seconds after an outage.
    pub fresh: bool,
    /// Packets leave at [`cc_rate`], evenly, instead of the controller's own pacing, which leaves room for
    /// bursts.
    pub even: bool,
    /// A packet leaves while less than the window is in flight, though not all of it may fit (libwebrtc's
    /// `PacingController::Congested`, Vidaptive section 3.2); else it must fit (RFC 9002 section 7). Dummies
    /// must, either way.
    pub spill: bool,
    /// While nothing is acknowledged, probes for an answer leave at least this often and take along a packet
    /// of a frame that waits, whatever the window (RFC 9002 section 6.2.4): when the path comes back,
    /// something fresh is in its queue already.
    pub probe: Option<Span>,
    /// How long what waits may wait, and since when.
    pub limit: WaitLimit,
    /// What can't be decoded any more, because a frame before it was given up, is dropped when the key frame
    /// is due that mends the chain, and not repaired (libwebrtc's pacer: `keyframe_flushing`).
    pub flush: bool,
    /// What is sent while there is nothing to send.
    pub dummies: Option<Dummies>,
}

impl Default for Manner {
    /// The controller's pacing; frames not sent within a second of their capture are dropped; no dummies.
    fn default() -> Manner {
        Manner {
            floor: Rate::ZERO,
            fresh: false,
            even: false,
            spill: false,
            probe: None,
            limit: WaitLimit::OfCapture(LONGEST_WAIT),
            flush: false,
            dummies: None,
        }
    }
}

/// A frame that could not be sent whole within this long after its capture is dropped. Dropping it at its
/// deadline would save less than it costs: the chain breaks, and the key frame that mends it is larger than
/// what waits.
pub const LONGEST_WAIT: Span = Span::from_secs(1);

/// When waiting packets are dropped, and a key frame asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitLimit {
    /// Frame by frame, so long after the capture of each.
    OfCapture(Span),
    /// All at once, when the oldest packet has waited for so long (Vidaptive's encoder reset).
    OfOldest(Span),
}

/// Packets without content that keep the flow at the controller's rate, so that it learns what the link
/// carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dummies {
    /// Datagram bytes of each.
    pub size: Bytes,
    /// None leave this long before a camera frame is due, ...
    pub before: Span,
    /// ... and this long after it unless its packets have been queued.
    pub after: Span,
    /// None leave when everything together would exceed this.
    pub most: Rate,
    /// They repeat packets of the last round trip, where there are any, instead of carrying nothing.
    pub repeat: bool,
}

/// Decides each frame's bitrate, or that there be none.
pub trait RateControl: Send {
    /// Plans one frame.
    fn plan(&mut self, view: &View<'_>) -> Plan;
    /// What holds between frames; asked once.
    fn manner(&self) -> Manner {
        Manner::default()
    }
    /// Names inner quantities for plots after each plan; nothing may read them back.
    fn observe(&self, _sink: &mut dyn FnMut(&'static str, f64)) {}
}
