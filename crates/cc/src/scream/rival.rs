//! How much queuing delay to put up with: more where loss-based flows keep the queue full (the draft's
//! "Competing Flows Compensation").

use std::collections::VecDeque;

use units::{Span, Time};

/// QDELAY_TARGET_LO, in seconds.
pub const TARGET_LOW: f64 = 0.06;
/// QDELAY_TARGET_HI, in seconds.
const TARGET_HIGH: f64 = 0.4;
/// Samples for the variance and, of these, the newest for the mean.
const HISTORY: usize = 200;
const RECENT: usize = 50;
/// How often a sample is taken: left open by the draft, 50 ms in `SCReAM-CPP-implementation`.
const INTERVAL: Span = Span::from_millis(50);
/// Weight of a round trip in the rate of round trips with losses, from the same place.
const LOSS_GAIN: f64 = 0.02;
/// Above this share of round trips with losses a loss-based flow is taken to be there.
const LOSSY: f64 = 0.002;
/// Below this variance (of delays over TARGET_LOW) the queue is steady.
const STEADY: f64 = 0.2;

/// The delay target and what it is made of.
#[derive(Clone, Debug)]
pub struct DelayTarget {
    seconds: f64,
    adjust: bool,
    history: VecDeque<f64>,
    sampled_at: Option<Time>,
    loss_rate: f64,
    lossy_round: bool,
    round_at: Option<Time>,
}

impl DelayTarget {
    /// The lowest target; it stays there unless it may `adjust`.
    pub fn new(adjust: bool) -> DelayTarget {
        DelayTarget {
            seconds: TARGET_LOW,
            adjust,
            history: VecDeque::with_capacity(HISTORY),
            sampled_at: None,
            loss_rate: 0.0,
            lossy_round: false,
            round_at: None,
        }
    }

    /// The target, in seconds.
    pub fn get(&self) -> f64 {
        self.seconds
    }

    /// A report: whether it tells of losses, the smoothed round trip and the queuing delay in seconds.
    pub fn update(&mut self, now: Time, losses: bool, srtt: Span, delay: f64) {
        self.lossy_round |= losses;
        if self.round_at.is_none_or(|at| now - at > srtt) {
            self.round_at = Some(now);
            let lossy = if std::mem::take(&mut self.lossy_round) { 1.0 } else { 0.0 };
            self.loss_rate += LOSS_GAIN * (lossy - self.loss_rate);
        }
        if self.adjust && self.sampled_at.is_none_or(|at| now - at >= INTERVAL) {
            self.sampled_at = Some(now);
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back(delay / TARGET_LOW);
            self.adjust();
        }
    }

    fn adjust(&mut self) {
        let mean = |samples: usize| self.history.iter().rev().take(samples).sum::<f64>() / samples as f64;
        let all = mean(self.history.len());
        let variance =
            self.history.iter().map(|d| (d - all).powi(2)).sum::<f64>() / self.history.len() as f64;
        let proposed = (mean(self.history.len().min(RECENT)) + variance.sqrt()) * TARGET_LOW;
        self.seconds = if self.loss_rate > LOSSY {
            1.5 * proposed
        } else if variance < STEADY {
            proposed
        } else if proposed < TARGET_LOW {
            (self.seconds * 0.5).max(proposed)
        } else {
            self.seconds * 0.9
        }
        .clamp(TARGET_LOW, TARGET_HIGH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(adjust: bool, losses: bool, delay: impl Fn(u64) -> f64) -> f64 {
        let mut target = DelayTarget::new(adjust);
        for n in 0..400 {
            target.update(Time::from_millis(50 * n), losses && n % 100 == 0, Span::from_millis(40), delay(n));
        }
        target.get()
    }

    #[test]
    fn a_full_queue_with_losses_raises_the_target() {
        // 120 ms steady: 1.5 times that with losses, that without, and never more than 400 ms.
        assert!((after(true, true, |_| 0.12) - 0.18).abs() < 1e-9);
        assert!((after(true, false, |_| 0.12) - 0.12).abs() < 1e-9);
        assert!((after(true, true, |_| 0.5) - TARGET_HIGH).abs() < 1e-9);
        assert_eq!(after(false, true, |_| 0.12), TARGET_LOW);
    }

    #[test]
    fn a_queue_that_comes_and_goes_does_not() {
        assert_eq!(after(true, false, |n| if n % 20 < 10 { 0.2 } else { 0.0 }), TARGET_LOW);
        assert_eq!(after(true, false, |_| 0.01), TARGET_LOW);
    }
}
