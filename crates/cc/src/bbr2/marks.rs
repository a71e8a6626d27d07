//! How much of what arrives is congestion-marked, for paths that mark like DCTCP's (tcp_bbr2.c
//! bbr2_update_ecn_alpha).

use units::{Ecn, Span};

use crate::Report;
use crate::bbr::model::Heard;

/// bbr_ecn_max_rtt_us: marks count where the smallest round trip is no longer.
const LONGEST_RTT: Span = Span::from_millis(5);
/// bbr_ecn_alpha_gain.
const GAIN: f64 = 1.0 / 16.0;
/// bbr_ecn_factor: full marking cuts by a third.
const FACTOR: f64 = 1.0 / 3.0;
/// bbr_ecn_thresh: this share marked says inflight is too high.
const TOO_HIGH: f64 = 0.5;
/// bbr_full_ecn_cnt: STARTUP ends after this many such rounds.
const STARTUP_ROUNDS: u32 = 2;

/// Bytes delivered and bytes of them marked, up to some instant.
type Count = (u64, u64);

/// The share of marks.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    enabled: bool,
    eligible: bool,
    alpha: f64,
    marked: u64,
    /// At the start of this round and of the one before.
    starts: [Count; 2],
    high_rounds: u32,
    in_round: bool,
}

impl Marks {
    /// Starts with full marking assumed, so that the first marks are answered at once (bbr_ecn_alpha_init).
    pub fn new(enabled: bool) -> Marks {
        Marks {
            enabled,
            eligible: false,
            alpha: 1.0,
            marked: 0,
            starts: [(0, 0); 2],
            high_rounds: 0,
            in_round: false,
        }
    }

    /// Takes a report; true if STARTUP should end for what it says.
    pub fn update(&mut self, report: &Report<'_>, heard: &Heard, min_rtt: Option<Span>) -> bool {
        let marked = report.acked.iter().filter(|acked| acked.ecn == Ecn::Ce);
        let marked: u64 = marked.map(|acked| u64::from(acked.size)).sum();
        self.marked = self.marked.saturating_add(marked);
        self.in_round |= marked > 0;
        if !heard.round || heard.delivered <= self.starts[0].0 {
            return false;
        }
        self.eligible |= self.enabled && min_rtt.is_some_and(|rtt| rtt <= LONGEST_RTT);
        let share = self.share_since(self.starts[0], heard);
        self.alpha = ((1.0 - GAIN) * self.alpha + GAIN * share).min(1.0);
        self.starts = [(heard.delivered, self.marked), self.starts[0]];
        self.high_rounds = if share >= TOO_HIGH { self.high_rounds + 1 } else { 0 };
        self.eligible && self.high_rounds >= STARTUP_ROUNDS
    }

    fn share_since(&self, (delivered, marked): Count, heard: &Heard) -> f64 {
        let delivered = heard.delivered.saturating_sub(delivered).max(1);
        ((self.marked - marked) as f64 / delivered as f64).min(1.0)
    }

    /// So much is marked that inflight is too high.
    ///
    /// Deviation: over the present round and the one before instead of since the sample's packet was sent;
    /// the snapshots carry no count of marks.
    pub fn is_too_high(&self, heard: &Heard) -> bool {
        self.eligible && self.share_since(self.starts[1], heard) >= TOO_HIGH
    }

    /// What to cut to for the marks of the round that ends, if there were any.
    pub fn take_cut(&mut self) -> Option<f64> {
        let marked = std::mem::take(&mut self.in_round);
        (marked && self.eligible).then(|| self.cut())
    }

    /// What to cut a bound to that was exceeded by a probe, if marks count.
    pub fn cut_if_eligible(&self) -> Option<f64> {
        self.eligible.then(|| self.cut())
    }

    fn cut(&self) -> f64 {
        1.0 - self.alpha * FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Acked;
    use crate::bbr::model::tests::heard;
    use crate::controller::tests::{acked, report};

    #[test]
    fn marks_count_on_short_paths_only() {
        let ce = [Acked { ecn: Ecn::Ce, ..acked(1, 1000) }, acked(2, 1000)];
        let run = |min_rtt| {
            let mut marks = Marks::new(true);
            let ends = [1u64, 2].map(|n| {
                marks.update(&report(&ce, &[]), &Heard { delivered: 2000 * n, ..heard(n) }, Some(min_rtt))
            });
            let last = Heard { delivered: 4000, ..heard(3) };
            (ends, marks.is_too_high(&last), marks.take_cut())
        };
        assert_eq!(run(Span::from_millis(6)), ([false, false], false, None));
        let (ends, too_high, cut) = run(Span::from_millis(1));
        assert!(ends == [false, true] && too_high);
        // alpha: 1 -> 15/16 + 1/32 -> 15/16 of that + 1/32.
        let alpha = (15.0 / 16.0 + 1.0 / 32.0) * 15.0 / 16.0 + 1.0 / 32.0;
        assert!((cut.unwrap() - (1.0 - alpha / 3.0)).abs() < 1e-12);
    }
}
