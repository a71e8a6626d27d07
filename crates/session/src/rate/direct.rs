//! The controller's rate as it is: what a video call does that knows nothing better.
//!
//! No hysteresis, nothing dropped but by the outbox's own limit: the baselines "GCC" and "Copa" of
//! Vidaptive's paper, in which only the congestion controller is exchanged.
//!
//! A queue at the sender is bounded as libwebrtc bounds its pacer's, to two seconds
//! (`PacingController::kMaxExpectedQueueLength`): what waits is taken off the encoder's rate over that time,
//! and while the oldest packet has waited longer no frame is encoded (`EncoderPaused` of libwebrtc until
//! 2019). `queue=off` takes the bound away: Vidaptive's paper reports baselines whose own queue makes them
//! seconds late.
//!
//! Deviation: libwebrtc sends what waits faster than the estimate, which no controller with a window allows;
//! here the encoder pays.

use cc::{OptionError, Options};
use units::{Rate, Span};

use super::{Entry, Manner, Plan, RateControl, View, WaitLimit};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "direct",
    summary: "the controller's rate as it is; none dropped for waiting",
    options: &[QUEUE],
    build: |options| Ok(Box::new(Direct::build(options)?)),
};

/// The option that `direct` and `webrtc` share.
pub(super) const QUEUE: (&str, &str) = (
    "queue",
    "bound the sender's own queue to two seconds, on or off (libwebrtc on, Vidaptive's baselines off)",
);
/// Only what nobody will ever take is dropped.
pub(super) const FOREVER: Span = Span::from_secs(60);
/// libwebrtc's limit of its pacer's queue.
const LONGEST_QUEUE: Span = Span::from_secs(2);

/// Gives the encoder the controller's rate.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// Holds the sender's own queue to two seconds.
    pub bounded: bool,
}

impl Default for Direct {
    /// With the bound.
    fn default() -> Direct {
        Direct { bounded: true }
    }
}

impl Direct {
    pub(super) fn build(options: &Options) -> Result<Direct, OptionError> {
        Ok(Direct { bounded: options.switch("queue", true)? })
    }
}

impl RateControl for Direct {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let advised = view.cc_rate.unwrap_or(view.limits.1);
        let (low, high) = view.limits;
        if !self.bounded {
            return Plan::new(advised.clamp(low, high), true);
        }
        let draining = Rate::average(view.queued, LONGEST_QUEUE);
        let rate = Rate::from_bps(advised.as_bps().saturating_sub(draining.as_bps()));
        Plan::new(rate.clamp(low, high), view.waited <= LONGEST_QUEUE)
    }

    fn manner(&self) -> Manner {
        Manner { limit: WaitLimit::OfCapture(FOREVER), ..Manner::default() }
    }
}
