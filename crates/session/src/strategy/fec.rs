//! One track with forward error correction: parity packets in each frame, whether packets are lost or not.
//!
//! A frame of n packets is followed by parity packets of its longest packet's length, n times the share of
//! them, rounded up; any n of all its packets give the frame. They are paid from the rate: at a share of 0.2
//! video gets five sixths of it. What is lost beyond them is the recovery policy's matter, as with [`Live`].
//! This is FEC at its plainest, by frame and at a fixed share; libwebrtc adapts the share to the loss that it
//! measures, and Tambur (NSDI 2023) codes over several frames.

use super::{Live, Order, Strategy, View};
use crate::recovery::{self, Missing, Recovery, Repair};
use crate::schedule::{self, Pick};

/// The share where none is named: one parity packet for five. Our choice, not held against others.
pub const SHARE: f64 = 0.2;

/// [`Live`] with parity packets.
pub struct Fec {
    live: Live,
    share: f64,
}

impl Fec {
    /// A `share` of parity packets, above 0 and at most 1, and this recovery policy for what they can't stand
    /// in for.
    pub fn new(share: f64, recovery: Box<dyn Recovery>) -> Fec {
        Fec { live: Live::with(recovery), share }
    }
}

impl Strategy for Fec {
    fn order(&mut self, view: &View<'_>, orders: &mut [Order]) {
        for order in orders {
            order.rate = view.plan.bitrate.mul_f64(1.0 / (1.0 + self.share));
            order.parity = self.share;
        }
    }
    fn repair(&mut self, view: &recovery::View, missing: &Missing) -> Repair {
        self.live.repair(view, missing)
    }
    #[inline]
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        self.live.pick(view)
    }
    fn refers_back(&self) -> bool {
        self.live.refers_back()
    }
    fn mode(&self) -> &'static str {
        "fec"
    }
}
