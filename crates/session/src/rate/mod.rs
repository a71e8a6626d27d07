//! From the controller's advice to the encoder's bitrate.

mod live;

pub use live::Live;

use units::{Bytes, Rate, Span, Time};

/// What a policy sees when a frame is about to be captured.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// When.
    pub now: Time,
    /// The controller's advice, if it gives one: datagram bits.
    pub advice: Option<Rate>,
    /// Its window, if it has one.
    pub window: Option<Bytes>,
    /// Smoothed round-trip time.
    pub srtt: Span,
    /// Bytes waiting to be sent.
    pub queued: Bytes,
    /// How long the oldest of those has waited.
    pub waited: Span,
    /// The longest wait the session puts up with before it skips a frame.
    pub patience: Span,
    /// The session's lowest and highest media rate.
    pub limits: (Rate, Rate),
}

/// What to do with the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Datagram bits per second to fill.
    pub bitrate: Rate,
    /// Encode it, or leave it out.
    pub encode: bool,
}

/// Decides each frame's bitrate, or that there be none.
pub trait RateControl: Send {
    /// Plans one frame.
    fn plan(&mut self, view: &View) -> Plan;
}
