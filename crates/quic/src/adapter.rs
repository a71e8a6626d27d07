//! A controller of ours as quinn wants one.

use std::any::Any;
use std::sync::{Arc, Mutex};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerMetrics};

use crate::clock::{Epoch, Moment};
use crate::state::State;
use crate::timing::Timing;

/// quinn's controller, around one of ours.
///
/// Copies share the state: quinn copies a controller when the peer's address changes while the path probably
/// did not, and to show it to the application. For a new path it has [`Congestion`](crate::Congestion) build
/// a new one.
pub struct Adapter {
    timing: Timing,
    initial_window: u64,
}

impl Adapter {
    pub(crate) fn new(mut state: State, epoch: Epoch) -> Adapter {
        let initial_window = state.window();
        Adapter { timing: Timing::new(Arc::new(Mutex::new(state)), epoch), initial_window }
    }

    pub(crate) fn copy(&self) -> Adapter {
        Adapter { timing: self.timing.clone(), initial_window: self.initial_window }
    }

    /// The connection's timing, and a look at its controller.
    pub fn timing(&self) -> Timing {
        self.timing.clone()
    }
}

impl Controller for Adapter {
    fn on_sent(&mut self, now: Moment, bytes: u64, _last_packet_number: u64) {
        let now = self.timing.epoch().time(now);
        self.timing.state().on_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Moment, sent: Moment, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        let epoch = self.timing.epoch();
        let size = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.timing.state().on_ack(epoch.time(now), epoch.time(sent), size, app_limited);
    }

    fn on_end_acks(&mut self, now: Moment, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        let now = self.timing.epoch().time(now);
        self.timing.state().on_end_acks(now, in_flight, app_limited);
    }

    fn on_congestion_event(&mut self, now: Moment, sent: Moment, is_persistent: bool, lost_bytes: u64) {
        let epoch = self.timing.epoch();
        self.timing.state().on_congestion(epoch.time(now), epoch.time(sent), is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.timing.state().on_mtu(u32::from(new_mtu));
    }

    fn window(&self) -> u64 {
        self.timing.state().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut state = self.timing.state();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = state.window();
        metrics.pacing_rate = state.decision().pacing.map(|rate| rate.as_bps());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.copy())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
