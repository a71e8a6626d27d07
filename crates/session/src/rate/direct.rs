//! The controller's rate as it is: what a video call does that knows nothing better.
//!
//! No hysteresis, nothing dropped but by the outbox's own limit: the baselines "GCC" and "Copa" of Vidaptive's paper, in which only the
//! congestion controller is exchanged.
//!
//! A queue at the sender is bounded as libwebrtc bounds its pacer's, to two seconds (`PacingController::kMaxExpectedQueueLength`): what waits is
//! taken off the encoder's rate over that time, and while the oldest packet has waited longer no frame is encoded (`EncoderPaused` of
//! libwebrtc until 2019).
//!
//! Deviation: libwebrtc sends what waits faster than the estimate, which no controller with a window allows; here the encoder pays.

use units::{Rate, Span};

use super::{Entry, Manner, Plan, RateControl, View, WaitLimit};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "direct",
    summary: "the controller's rate as it is; none dropped for waiting",
    options: &[],
    build: |_| Ok(Box::new(Direct)),
};

/// Only what nobody will ever take is dropped.
pub(super) const FOREVER: Span = Span::from_secs(60);
/// libwebrtc's limit of its pacer's queue.
const LONGEST_QUEUE: Span = Span::from_secs(2);

/// The controller's rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl RateControl for Direct {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let advised = view.cc_rate.unwrap_or(view.limits.1);
        let draining = Rate::average(view.queued, LONGEST_QUEUE);
        let rate = Rate::from_bps(advised.as_bps().saturating_sub(draining.as_bps()));
        Plan::new(rate.clamp(view.limits.0, view.limits.1), view.waited <= LONGEST_QUEUE)
    }

    fn manner(&self) -> Manner {
        Manner { limit: WaitLimit::OfCapture(FOREVER), ..Manner::default() }
    }
}
