//! quinn's own controllers in virtual time, with the records that ours leave.
//!
//! ```text
//! quinn -- every call --> Beside --> quinn's controller: its window is the answer
//!                                '-> Adapter, State: packets, acknowledgements, losses, round trips, that window; recorded
//! ```

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cc::{Decision, Report, Sent};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use record::Tap;
use units::Bytes;

use super::sender::Factory;
use crate::adapter::Adapter;
use crate::clock::{Epoch, Moment};
use crate::state::State;

/// The controllers that quinn brings, under the names that ours of the same kind have.
pub const QUINNS: [&str; 3] = ["newreno", "cubic", "bbr"];

/// The controller of quinn's called `name`, with its own settings.
///
/// quinn's BBR draws the phase its cycle begins with from the operating system's randomness, so that runs
/// under it differ.
pub fn quinns(name: &str) -> Option<Factory> {
    match name {
        "newreno" => Some(Arc::new(NewRenoConfig::default())),
        "cubic" => Some(Arc::new(CubicConfig::default())),
        "bbr" => Some(Arc::new(BbrConfig::default())),
        _ => None,
    }
}

/// Makes recorded controllers of quinn's.
pub(super) struct Recorded {
    pub factory: Factory,
    pub epoch: Epoch,
    pub tap: Tap,
}

impl ControllerFactory for Recorded {
    fn build(self: Arc<Self>, now: Moment, current_mtu: u16) -> Box<dyn Controller> {
        let quinns = self.factory.clone().build(now, current_mtu);
        let window = Arc::new(AtomicU64::new(quinns.window()));
        let state =
            State::new(Box::new(Mirror(window.clone())), u32::from(current_mtu), false, self.tap.clone());
        Box::new(Beside { quinns, records: Adapter::new(state, self.epoch), window })
    }
}

/// Shows another controller's window as its own.
struct Mirror(Arc<AtomicU64>);

impl cc::Controller for Mirror {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_feedback(&mut self, _: &Report<'_>) {}

    fn decision(&self) -> Decision {
        Decision { window: Some(Bytes::new(self.0.load(Ordering::Relaxed))), ..Decision::default() }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.0.load(Ordering::Relaxed) as f64);
    }
}

/// A controller of quinn's, and beside it the books that records are made from.
struct Beside {
    quinns: Box<dyn Controller>,
    records: Adapter,
    window: Arc<AtomicU64>,
}

impl Beside {
    fn note(&self) {
        self.window.store(self.quinns.window(), Ordering::Relaxed);
    }
}

impl Controller for Beside {
    fn on_sent(&mut self, now: Moment, bytes: u64, last: u64) {
        self.quinns.on_sent(now, bytes, last);
        self.note();
        self.records.on_sent(now, bytes, last);
    }

    fn on_ack(&mut self, now: Moment, sent: Moment, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.quinns.on_ack(now, sent, bytes, app_limited, rtt);
        self.note();
        self.records.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Moment, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.quinns.on_end_acks(now, in_flight, app_limited, largest);
        self.note();
        self.records.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Moment, sent: Moment, is_persistent: bool, lost_bytes: u64) {
        self.quinns.on_congestion_event(now, sent, is_persistent, lost_bytes);
        self.note();
        self.records.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.quinns.on_mtu_update(new_mtu);
        self.records.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.quinns.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.quinns.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let records = self.records.copy();
        Box::new(Beside { quinns: self.quinns.clone_box(), records, window: self.window.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.quinns.initial_window()
    }

    /// The books: whoever looks for the connection's timing finds it there.
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        Box::new(self.records)
    }
}
