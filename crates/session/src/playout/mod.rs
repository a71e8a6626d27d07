//! When a frame that is ready is shown.
//!
//! Frames become ready unevenly: packets wait in queues, and a frame with a lost packet is complete a round
//! trip later than the ones that its repair holds up behind it. A policy gives each frame its time; what is
//! due is shown, and of several frames that are due at once only the newest. `docs/playout.md` compares the
//! policies.

mod adaptive;
mod at_once;
mod fixed;
mod queue;
pub mod registry;
#[cfg(test)]
mod tests;

pub use adaptive::Adaptive;
pub use at_once::AtOnce;
pub use fixed::Fixed;
pub(crate) use queue::Queue;
pub use registry::{Entry, REGISTRY, build};

use units::{RemoteTime, Span, Time};

/// How a frame came to be complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When its last packet arrived.
    pub completed: Time,
    /// A packet of it arrived as a retransmission.
    pub repaired: bool,
    /// From the first request for what was missing until the frame was complete; none where nothing was asked
    /// for.
    pub repair: Option<Span>,
}

/// A frame that could be shown, as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// When the frame is ready: complete, every frame it is predicted from decoded, and decoded itself.
    pub now: Time,
    /// When it was captured, on the sender's clock.
    pub captured: RemoteTime,
    /// When it was captured, on our clock, late by the smallest one-way delay of the last seconds.
    pub captured_local: Time,
    /// How it came to be complete.
    pub arrival: Arrival,
}

/// Gives each frame of one stream the time at which it is shown.
///
/// The receiver asks once a frame, in the order of capture, when the frame is ready. A policy owns no clock
/// and shows nothing: it may look at what it was told before, and returns a time. A time in the past means
/// now. A frame whose time comes at once with a newer one's is never shown.
///
/// ```
/// use framewire_session::playout::{self, Arrival, Ready};
/// use units::{Span, Time};
///
/// let mut policy = playout::build(&"fixed:delay=100ms".parse()?)?;
/// let (captured, now) = (Time::from_millis(500), Time::from_millis(530));
/// let frame = Ready { now, captured: captured.on_wire(), captured_local: captured, arrival: Arrival::default() };
/// assert_eq!(policy.due(&frame), captured + Span::from_millis(100));
/// # Ok::<(), cc::OptionError>(())
/// ```
pub trait Playout: Send + std::fmt::Debug {
    /// When to show `frame`, at [`Ready::now`] or later.
    fn due(&mut self, frame: &Ready) -> Time;

    /// The same policy with the same settings for another stream, of which it knows nothing yet.
    fn fresh(&self) -> Box<dyn Playout>;
}
