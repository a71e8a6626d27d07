//! The controller's rate as it is: what a video call does that knows nothing better.
//!
//! No hysteresis, no frame skipped, nothing dropped but by the outbox's own limit: the baselines "GCC" and "Copa" of Vidaptive's
//! paper, in which only the congestion controller is exchanged.

use units::Span;

use super::{Entry, Manner, Plan, RateControl, View, WaitLimit};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "direct",
    summary: "the controller's rate as it is; no frame is skipped, none dropped for waiting",
    options: &[],
    build: |_| Ok(Box::new(Direct)),
};

/// Only what nobody will ever take is dropped.
pub(super) const FOREVER: Span = Span::from_secs(60);

/// The controller's rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl RateControl for Direct {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let rate = view.cc_rate.unwrap_or(view.limits.1);
        Plan::new(rate.clamp(view.limits.0, view.limits.1), true)
    }

    fn manner(&self) -> Manner {
        Manner { limit: WaitLimit::OfCapture(FOREVER), ..Manner::default() }
    }
}
