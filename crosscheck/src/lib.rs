//! One simulated path, and two implementations of GCC that hear of the same packets: ours, and the crate
//! `goog_cc`. In [`video`], the same for Vidaptive.

mod ours;
mod path;
mod theirs;
pub mod video;

pub use ours::Ours;
pub use path::{Load, Path, run};
pub use theirs::Theirs;

use units::{Span, Time};

/// A packet, and when it arrived, if it did.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its number.
    pub number: u64,
    /// Bytes.
    pub size: u32,
    /// When it was sent, in whole microseconds.
    pub sent: Time,
    /// When it arrived, on the sender's clock, in whole microseconds.
    pub arrived: Option<Time>,
}

/// What the sender learns at once: every packet up to the last that arrived, each told once.
#[derive(Clone, Debug)]
pub struct Feedback {
    /// When the sender learns it.
    pub at: Time,
    /// In the order in which they were sent.
    pub packets: Vec<Packet>,
    /// The smoothed round trip (RFC 9002 section 5.3).
    pub srtt: Span,
    /// Bytes sent and not yet told of.
    pub in_flight: u64,
}

/// An implementation.
pub trait Estimator {
    /// `packet` leaves; `in_flight` counts it.
    fn on_sent(&mut self, packet: &Packet, in_flight: u64);
    /// Feedback came.
    fn on_feedback(&mut self, feedback: &Feedback);
    /// Called every 25 ms (libwebrtc's process interval).
    fn on_tick(&mut self, now: Time);
    /// The target rate in bit/s.
    fn target(&self) -> f64;
}

/// What came of an implementation.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Target after each feedback: seconds, Mbit/s.
    pub targets: Vec<(f64, f64)>,
    /// Queuing delay of each packet that arrived, by arrival: seconds, ms.
    pub queue: Vec<(f64, f64)>,
}

impl Trace {
    /// The target at `at` seconds.
    pub fn at(&self, at: f64) -> f64 {
        let later = self.targets.partition_point(|sample| sample.0 <= at);
        self.targets[later.max(1) - 1].1
    }

    /// The mean target in `[from, to)`.
    pub fn mean(&self, from: f64, to: f64) -> f64 {
        mean(self.targets.iter().filter(|sample| (from..to).contains(&sample.0)).map(|sample| sample.1))
    }

    /// The mean queuing delay in `[from, to)`.
    pub fn mean_queue(&self, from: f64, to: f64) -> f64 {
        mean(self.queue.iter().filter(|sample| (from..to).contains(&sample.0)).map(|sample| sample.1))
    }

    /// Falls of the target by more than 5 %: what over-use does. Seconds, Mbit/s after it.
    pub fn cuts(&self) -> Vec<(f64, f64)> {
        let falls = |pair: &&[(f64, f64)]| pair[1].1 < 0.95 * pair[0].1;
        self.targets.windows(2).filter(falls).map(|pair| pair[1]).collect()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}
