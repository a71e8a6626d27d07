//! Finds token-bucket policers: two stretches of heavy loss at one and the same rate (tcp_bbr.c
//! bbr_lt_bw_sampling).

use units::{Rate, Span, Time, likely, unlikely};

use super::model::Heard;

/// bbr_lt_intvl_min_rtts: a stretch has this many rounds at least, and four times as many at most.
const LEAST_ROUNDS: u32 = 4;
/// bbr_lt_loss_thresh: lossy is 50/256 of what was delivered.
const LOSSY: f64 = 50.0 / 256.0;
/// bbr_lt_bw_ratio: the two rates differ by no more than this share ...
const ALIKE: f64 = 1.0 / 8.0;
/// ... or by no more than this (bbr_lt_bw_diff).
const ALIKE_RATE: Rate = Rate::from_kbps(4);
/// bbr_lt_bw_max_rtts: rounds that the policed rate is believed in.
const BELIEVED_ROUNDS: u32 = 48;
/// A stretch shorter than this says nothing.
const SHORTEST: Span = Span::from_millis(1);

/// Finds a token-bucket policer by two intervals of heavy loss at the same throughput.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policer {
    sampling: bool,
    believed: bool,
    rate: Option<Rate>,
    rounds: u32,
    since: Time,
    delivered: u64,
    lost: u64,
}

impl Policer {
    /// The policed rate, while there seems to be a policer.
    pub fn rate(&self) -> Option<Rate> {
        self.rate.filter(|_| self.believed)
    }

    /// Takes a report; true if a policed rate has been believed in for long enough, so that probing starts
    /// again.
    pub fn update(&mut self, heard: &Heard, probing: bool) -> bool {
        if unlikely(self.believed) {
            self.rounds += u32::from(probing && heard.round);
            let over = self.rounds >= BELIEVED_ROUNDS;
            if over {
                *self = Policer::default();
            }
            return over;
        }
        if likely(!self.sampling) {
            // The first loss says that the bucket is empty; before, bursts pass that the policer would not
            // sustain.
            if likely(heard.lost == 0) {
                return false;
            }
            self.start(heard);
        }
        if heard.app_limited {
            *self = Policer::default();
            return false;
        }
        self.rounds += u32::from(heard.round);
        if self.rounds > 4 * LEAST_ROUNDS {
            *self = Policer::default();
        } else if self.rounds >= LEAST_ROUNDS && heard.lost > 0 {
            self.judge(heard);
        }
        false
    }

    fn start(&mut self, heard: &Heard) {
        self.sampling = true;
        (self.since, self.rounds) = (heard.now, 0);
        (self.delivered, self.lost) = (heard.delivered, heard.lost_ever);
    }

    /// A stretch ends with a loss: the bucket is empty again.
    fn judge(&mut self, heard: &Heard) {
        let delivered = heard.delivered.saturating_sub(self.delivered);
        let lost = heard.lost_ever.saturating_sub(self.lost);
        let elapsed = heard.now - self.since;
        if delivered == 0 || (lost as f64) < LOSSY * delivered as f64 || elapsed < SHORTEST {
            return;
        }
        let rate = Rate::average(units::Bytes::new(delivered), elapsed);
        if let Some(before) = self.rate {
            let difference = before.as_bps().abs_diff(rate.as_bps());
            if difference as f64 <= ALIKE * before.as_f64() || difference <= ALIKE_RATE.as_bps() {
                self.rate = Some(Rate::from_f64((before.as_f64() + rate.as_f64()) / 2.0));
                (self.believed, self.rounds) = (true, 0);
                return;
            }
        }
        self.rate = Some(rate);
        self.start(heard);
    }

    /// Starts over.
    pub fn reset(&mut self) {
        *self = Policer::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr::model::tests::heard;

    /// A report a round of 40 ms: `delivered` bytes arrived in it, `lost` did not.
    struct Path {
        ms: u64,
        delivered: u64,
        lost: u64,
    }

    impl Path {
        fn round(&mut self, delivered: u64, lost: u64) -> Heard {
            (self.ms, self.delivered, self.lost) =
                (self.ms + 40, self.delivered + delivered, self.lost + lost);
            Heard { lost, delivered: self.delivered, lost_ever: self.lost, ..heard(self.ms) }
        }
    }

    #[test]
    fn two_lossy_stretches_at_one_rate_are_a_policer_for_48_rounds() {
        let (mut policer, mut path) = (Policer::default(), Path { ms: 0, delivered: 0, lost: 0 });
        // The first report starts the first stretch; each then ends with its fourth round. 20 kB in 40 ms are
        // 4 Mbit/s.
        for _ in 0..8 {
            assert_eq!(policer.rate(), None);
            policer.update(&path.round(20_000, 5_000), true);
        }
        let rate = policer.rate().unwrap().as_f64() / 1e6;
        assert!((rate - 4.0).abs() < 0.5, "{rate}");
        let over = (1..=60).find(|_| policer.update(&path.round(20_000, 0), true));
        assert_eq!((over, policer.rate()), (Some(48), None));
    }

    #[test]
    fn little_loss_other_rates_and_a_dry_application_are_no_policer() {
        let run = |rounds: &mut dyn FnMut(u64) -> (u64, u64, bool)| {
            let (mut policer, mut path) = (Policer::default(), Path { ms: 0, delivered: 0, lost: 0 });
            (0..60).any(|n| {
                let (delivered, lost, app_limited) = rounds(n);
                policer.update(&Heard { app_limited, ..path.round(delivered, lost) }, true);
                policer.rate().is_some()
            })
        };
        assert!(!run(&mut |_| (20_000, 3_000, false)));
        assert!(!run(&mut |n| (20_000, 5_000, n % 3 == 2)));
        assert!(!run(&mut |n| (20_000 << (n / 4 % 2), 11_000, false)));
        assert!(run(&mut |_| (20_000, 5_000, false)));
    }
}
