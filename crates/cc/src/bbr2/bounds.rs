//! How much may be in flight, and how fast it may leave, as losses and marks have it.

use units::Rate;

use super::params::Params;
use crate::bbr::model::Heard;
use crate::parts::{RateSample, Rounds};

/// Stands for no bound, in bytes.
pub const UNBOUNDED: u64 = u64::MAX;

/// `lost` of `in_flight` bytes is more than the path should lose.
pub fn is_too_high(lost: u64, in_flight: u64, threshold: f64) -> bool {
    lost as f64 > threshold * in_flight as f64
}

/// Bytes that were in flight when losses crossed the threshold: within the lost packet of `size` bytes, with
/// which `in_flight` were in flight and `lost` had been lost since it was sent (draft-ietf-ccwg-bbr,
/// "Updating the Model Upon Packet Loss").
pub fn crossing(in_flight: u64, lost: u64, size: u64, threshold: f64) -> u64 {
    let inflight_before = in_flight.saturating_sub(size) as f64;
    let lost_before = lost.saturating_sub(size) as f64;
    let prefix = (threshold * inflight_before - lost_before) / (1.0 - threshold);
    (inflight_before + prefix.max(0.0)) as u64
}

/// Long-term bounds (`hi`), short-term bounds (`lo`), and the last round's deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most in flight that was not too high, in bytes.
    pub inflight_hi: u64,
    /// The same for the rate; marks alone set it.
    pub bw_hi: Rate,
    /// Bounds until the next probe.
    pub inflight_lo: u64,
    pub bw_lo: Rate,
    /// `inflight_hi`, `inflight_lo` and `bw_lo` before losses that may turn out to be none.
    kept: (u64, u64, Rate),
    bw_latest: Rate,
    inflight_latest: u64,
    round: Rounds,
    /// Something was lost in this round.
    pub loss_in_round: bool,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            inflight_hi: UNBOUNDED,
            bw_hi: Rate::MAX,
            inflight_lo: UNBOUNDED,
            bw_lo: Rate::MAX,
            kept: (UNBOUNDED, UNBOUNDED, Rate::MAX),
            bw_latest: Rate::ZERO,
            inflight_latest: 0,
            round: Rounds::default(),
            loss_in_round: false,
        }
    }
}

impl Bounds {
    /// Something was lost: what is delivered in a whole round from here on tells what the path still carries.
    pub fn mark_lost(&mut self, heard: &Heard) {
        if !self.loss_in_round {
            self.round.restart(heard.delivered);
        }
        self.loss_in_round = true;
    }

    /// Takes a sample; true if with it a round ends.
    pub fn take(&mut self, sample: &RateSample, heard: &Heard) -> bool {
        self.bw_latest = self.bw_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.round.update(sample.since, heard.delivered)
    }

    /// A new round begins with `sample`.
    pub fn start_round(&mut self, sample: &RateSample) {
        self.loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (sample.rate, sample.delivered);
    }

    /// Lowers the short-term bounds at the end of a round: after losses to 0.7, but not below what was
    /// delivered; after marks (`ecn` is the share they leave) likewise.
    pub fn adapt(&mut self, params: &Params, max_bw: Rate, window: u64, ecn: Option<f64>) {
        if !self.loss_in_round && ecn.is_none() {
            return;
        }
        let bw = if self.bw_lo == Rate::MAX { max_bw } else { self.bw_lo };
        let inflight = if self.inflight_lo == UNBOUNDED { window } else { self.inflight_lo };
        let scaled = |bytes: u64, share: f64| (bytes as f64 * share) as u64;
        (self.bw_lo, self.inflight_lo) = (bw, inflight);
        if self.loss_in_round {
            self.bw_lo = self.bw_latest.max(bw.mul_f64(params.keep));
            self.inflight_lo = self.inflight_latest.max(scaled(inflight, params.keep));
        }
        if let Some(share) = ecn {
            self.bw_lo = self.bw_lo.min(bw.mul_f64(share));
            self.inflight_lo = self.inflight_lo.min(scaled(inflight, share));
        }
    }

    /// The most delivered in a round lately.
    pub fn inflight_latest(&self) -> u64 {
        self.inflight_latest
    }

    /// Forgets the short-term bounds.
    pub fn reset_lower(&mut self) {
        (self.inflight_lo, self.bw_lo) = (UNBOUNDED, Rate::MAX);
    }

    /// Forgets the round's signals, after a probe that has caused them itself.
    pub fn reset_signals(&mut self) {
        self.loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (Rate::ZERO, 0);
    }

    /// `inflight_hi` less the headroom, in bytes.
    pub fn with_headroom(&self, params: &Params, mtu: u64, least: u64) -> u64 {
        if self.inflight_hi == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((self.inflight_hi as f64 * params.headroom) as u64).max(mtu);
        self.inflight_hi.saturating_sub(headroom).max(least)
    }

    /// Keeps the bounds in case the losses at hand are none.
    pub fn keep(&mut self) {
        self.kept = (self.inflight_hi, self.inflight_lo, self.bw_lo);
    }

    /// Those losses were none: the bounds are at least what they were before them.
    pub fn undo(&mut self) {
        self.loss_in_round = false;
        let (hi, lo, bw) = self.kept;
        self.inflight_hi = self.inflight_hi.max(hi);
        self.inflight_lo = self.inflight_lo.max(lo);
        self.bw_lo = self.bw_lo.max(bw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr2::params::LINUX;

    #[test]
    fn more_than_two_percent_is_too_high() {
        assert!(!is_too_high(2_000, 100_000, 0.02) && is_too_high(2_001, 100_000, 0.02));
        assert!(is_too_high(1, 0, 0.02));
    }

    #[test]
    fn the_crossing_is_where_losses_reach_two_percent() {
        // 98 kB before the packet, 1 kB of it lost: (1960 - 1000)/0.98 = 979.6 bytes more, and 1979.6 of
        // 98979.6 are lost.
        let at = crossing(99_500, 2_500, 1_500, 0.02);
        assert_eq!(at, 98_979);
        let lost = 1_000.0 + (at - 98_000) as f64;
        assert!((lost / at as f64 - 0.02).abs() < 1e-4);
        // Crossed before: nothing of the packet fits.
        assert_eq!(crossing(51_500, 11_500, 1_500, 0.02), 50_000);
    }

    #[test]
    fn short_term_bounds_fall_to_seven_tenths_but_not_below_what_arrives() {
        let mut bounds = Bounds { loss_in_round: true, bw_latest: Rate::from_mbps(2), ..Bounds::default() };
        bounds.adapt(&LINUX, Rate::from_mbps(10), 100_000, None);
        assert_eq!((bounds.bw_lo, bounds.inflight_lo), (Rate::from_mbps(7), 70_000));
        (bounds.bw_latest, bounds.inflight_latest) = (Rate::from_mbps(6), 60_000);
        bounds.adapt(&LINUX, Rate::from_mbps(10), 100_000, None);
        assert_eq!((bounds.bw_lo, bounds.inflight_lo), (Rate::from_mbps(6), 60_000));
        bounds.reset_lower();
        bounds.loss_in_round = false;
        bounds.adapt(&LINUX, Rate::from_mbps(10), 100_000, None);
        assert_eq!(bounds.inflight_lo, UNBOUNDED);
        // All marked: alpha 1, factor 1/3.
        bounds.adapt(&LINUX, Rate::from_mbps(9), 90_000, Some(1.0 - 1.0 / 3.0));
        assert_eq!((bounds.bw_lo, bounds.inflight_lo), (Rate::from_mbps(6), 60_000));
    }

    #[test]
    fn a_spurious_loss_gives_the_bounds_back() {
        let mut bounds = Bounds { inflight_hi: 100_000, ..Bounds::default() };
        bounds.keep();
        (bounds.inflight_hi, bounds.inflight_lo, bounds.bw_lo) = (50_000, 40_000, Rate::from_mbps(3));
        bounds.undo();
        assert_eq!((bounds.inflight_hi, bounds.inflight_lo, bounds.bw_lo), (100_000, UNBOUNDED, Rate::MAX));
    }

    #[test]
    fn headroom_is_fifteen_percent_or_a_packet() {
        let bounds = |inflight_hi| Bounds { inflight_hi, ..Bounds::default() };
        assert_eq!(bounds(100_000).with_headroom(&LINUX, 1000, 4000), 85_000);
        assert_eq!(bounds(6_000).with_headroom(&LINUX, 1000, 4000), 5_000);
        assert_eq!(bounds(4_000).with_headroom(&LINUX, 1000, 4000), 4_000);
        assert_eq!(bounds(UNBOUNDED).with_headroom(&LINUX, 1000, 4000), UNBOUNDED);
    }
}
