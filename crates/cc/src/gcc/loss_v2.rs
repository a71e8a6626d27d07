//! The loss-based estimator of present libwebrtc: the bandwidth under which the losses seen are the
//! likeliest.
//!
//! Each observation of 250 ms or more says how fast was sent and how much of it was lost. A candidate
//! bandwidth explains it by `p = inherent + (1 - inherent) max(0, (rate - bandwidth) / rate)`; the likeliest
//! of a few candidates is taken, higher ones being preferred a little. All constants are the defaults of
//! `LossBasedBweV2`.

use std::collections::VecDeque;

use units::{Span, Time};

/// Observations kept.
const WINDOW: usize = 20;
/// Each at least this long.
const OBSERVATION: Span = Span::from_millis(250);
/// Weight of an observation relative to the next newer one.
const AGING: f64 = 0.9;
/// Observations until the estimate counts.
const LEAST: u64 = 3;
/// Candidates relative to the current estimate.
const FACTORS: [f64; 3] = [1.02, 1.0, 0.95];
/// One damped Newton step on the inherent loss.
const NEWTON_STEP: f64 = 0.75;
/// Inherent loss: at first, least, and most: an offset plus this over the bandwidth (bit/s).
const INHERENT: f64 = 0.01;
const INHERENT_LEAST: f64 = 1e-3;
const INHERENT_OFFSET: f64 = 0.05;
const INHERENT_BALANCE: f64 = 75e3;
/// Preference for higher bandwidths, per kbit/s and per logarithm of it ...
const BIAS: f64 = 0.0002;
const LOG_BIAS: f64 = 0.02;
/// ... which turns into its opposite around this average loss, over about this width.
const BIAS_LOSS: f64 = 0.15;
const BIAS_WIDTH: f64 = 0.002;
/// Above an average loss of the offset the estimate is at most the balance (bit/s) over the excess.
const INSTANT_OFFSET: f64 = 0.05;
const INSTANT_BALANCE: f64 = 75e3;
/// While losses limit, the estimate grows by at most this ...
const RISE: f64 = 1.3;
/// ... each so long.
const RISE_WINDOW: Span = Span::from_millis(300);
/// Losses are never certain nor impossible.
const PROBABLE: (f64, f64) = (1e-6, 1.0 - 1e-6);

/// What limits the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The delay-based estimate; losses don't.
    Delay,
    /// Losses, and the estimate rises.
    Rising,
    /// Losses, and it falls or stays.
    Falling,
}

/// What one feedback settled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settled {
    /// Packets, lost ones included.
    pub packets: u64,
    /// Packets lost.
    pub lost: u64,
    /// Bytes, lost ones included.
    pub bytes: u64,
    /// Earliest and latest send time among them.
    pub sent: Option<(Time, Time)>,
}

impl Settled {
    /// Adds a packet of `size` bytes that arrived or was lost.
    pub fn add(&mut self, sent_at: Time, size: u32, lost: bool) {
        self.packets += 1;
        self.lost += u64::from(lost);
        self.bytes += u64::from(size);
        let (first, last) = self.sent.unwrap_or((sent_at, sent_at));
        self.sent = Some((first.min(sent_at), last.max(sent_at)));
    }
}

#[derive(Clone, Copy, Debug)]
struct Observation {
    packets: f64,
    lost: f64,
    /// Sending rate in bit/s.
    rate: f64,
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    /// bit/s.
    bandwidth: f64,
    inherent: f64,
}

impl Channel {
    fn loss(&self, rate: f64) -> f64 {
        let excess = if rate > self.bandwidth { (rate - self.bandwidth) / rate } else { 0.0 };
        (self.inherent + (1.0 - self.inherent) * excess).clamp(PROBABLE.0, PROBABLE.1)
    }

    fn feasible(self) -> Channel {
        let most = (INHERENT_OFFSET + INHERENT_BALANCE / self.bandwidth.max(1.0)).min(1.0);
        Channel { inherent: self.inherent.max(INHERENT_LEAST).min(most), ..self }
    }
}

/// The estimator. Rates are in bit/s.
#[derive(Clone, Debug)]
pub struct LossV2 {
    /// Newest first.
    observations: VecDeque<Observation>,
    count: u64,
    partial: Settled,
    observed_at: Option<Time>,
    best: Option<Channel>,
    limit: Limit,
    estimate: f64,
    /// The estimate's ceiling while losses limit, and since when it holds.
    ceiling: Option<(Time, f64)>,
    bounds: (f64, f64),
}

impl LossV2 {
    /// An estimator of rates within `bounds`.
    pub fn new(bounds: (f64, f64)) -> LossV2 {
        LossV2 {
            observations: VecDeque::with_capacity(WINDOW + 1),
            count: 0,
            partial: Settled::default(),
            observed_at: None,
            best: None,
            limit: Limit::Delay,
            estimate: bounds.1,
            ceiling: None,
            bounds,
        }
    }

    /// The estimate, never above `delay`, the delay-based one.
    pub fn estimate(&self, delay: f64) -> f64 {
        if self.count < LEAST || self.best.is_none() { delay } else { self.estimate.min(delay) }
    }

    /// What limits the estimate.
    pub fn limit(&self) -> Limit {
        if self.count < LEAST { Limit::Delay } else { self.limit }
    }

    /// Share of packets lost of late, newer ones counting more.
    pub fn average_loss(&self) -> f64 {
        let weighed = |value: fn(&Observation) -> f64| self.weighed().map(|(w, o)| w * value(o)).sum::<f64>();
        let packets = weighed(|o| o.packets);
        if packets > 0.0 { weighed(|o| o.lost) / packets } else { 0.0 }
    }

    /// Starts over at `bps`: a probe measured it, or nothing has been learnt yet.
    pub fn set(&mut self, bps: f64) {
        let inherent = self.best.map_or(INHERENT, |best| best.inherent);
        self.best = Some(Channel { bandwidth: bps, inherent });
        (self.estimate, self.limit) = (bps, Limit::Delay);
    }

    /// Forgets every observation and goes on from `bps`, rising by [`RISE`] at most.
    pub fn restart(&mut self, bps: f64) {
        self.observations.clear();
        (self.partial, self.observed_at) = (Settled::default(), None);
        self.best = Some(Channel { bandwidth: bps, inherent: INHERENT });
        (self.estimate, self.limit, self.ceiling) = (bps, Limit::Falling, None);
    }

    /// Takes feedback. `delay` is the delay-based estimate, `received` the acknowledged rate, unless the
    /// application limits it.
    pub fn update(&mut self, settled: &Settled, delay: f64, received: Option<f64>) {
        if !self.observe(settled) {
            return;
        }
        let Some(now) = self.observed_at else { return };
        let current = *self.best.get_or_insert(Channel { bandwidth: delay, inherent: INHERENT });
        let loss = self.average_loss();
        let mut best = self.likeliest(current, delay, received, loss);
        if loss > best.inherent {
            // Losses that the channel does not explain: no time to rise.
            best.bandwidth = best.bandwidth.min(current.bandwidth);
        }
        if self.limit != Limit::Delay
            && let Some((since, most)) = self.ceiling
            && now - since < RISE_WINDOW
        {
            best.bandwidth = best.bandwidth.min(most);
        }
        let bounded = best.bandwidth.min(self.instant(loss)).min(delay).max(self.bounds.0);
        self.best = Some(best);
        self.judge(now, bounded, delay, best.bandwidth);
    }

    fn judge(&mut self, now: Time, bounded: f64, delay: f64, best: f64) {
        let rising = bounded > self.estimate || bounded == self.estimate && self.limit == Limit::Rising;
        let limits = bounded < delay && bounded < self.bounds.1;
        self.limit = match (limits, self.limit != Limit::Delay && rising) {
            (true, true) => Limit::Rising,
            (true, false) => Limit::Falling,
            (false, _) => Limit::Delay,
        };
        self.estimate = bounded;
        let over = self.ceiling.is_none_or(|(since, _)| now - since > RISE_WINDOW);
        if self.limit != Limit::Delay && over {
            self.ceiling = Some((now, (best * RISE).max(self.bounds.0)));
        }
    }

    /// True if an observation is complete.
    fn observe(&mut self, settled: &Settled) -> bool {
        let Some((first, last)) = settled.sent else { return false };
        self.partial.packets += settled.packets;
        self.partial.lost += settled.lost;
        self.partial.bytes += settled.bytes;
        let since = *self.observed_at.get_or_insert(first);
        let duration = last - since;
        if duration < OBSERVATION {
            return false;
        }
        let observation = Observation {
            packets: self.partial.packets as f64,
            lost: self.partial.lost as f64,
            rate: self.partial.bytes as f64 * 8.0 / duration.as_secs_f64(),
        };
        self.observations.push_front(observation);
        self.observations.truncate(WINDOW);
        self.count += 1;
        (self.partial, self.observed_at) = (Settled::default(), Some(last));
        true
    }

    /// Observations with their weights.
    fn weighed(&self) -> impl Iterator<Item = (f64, &Observation)> {
        self.observations.iter().scan(1.0, |weight, observation| {
            let this = *weight;
            *weight *= AGING;
            Some((this, observation))
        })
    }

    fn likeliest(&self, current: Channel, delay: f64, received: Option<f64>, loss: f64) -> Channel {
        let most = match self.ceiling {
            Some((_, most)) if self.limit != Limit::Delay => most,
            _ => self.bounds.1,
        };
        let rest = [received, Some(delay).filter(|delay| *delay > current.bandwidth)];
        let candidates = FACTORS.map(|factor| Some(factor * current.bandwidth)).into_iter().chain(rest);
        let mut best = (f64::NEG_INFINITY, current);
        for bandwidth in candidates.flatten() {
            let bandwidth = bandwidth.min(current.bandwidth.max(most)).max(self.bounds.0);
            let candidate = self.refined(Channel { bandwidth, ..current }.feasible());
            let objective = self.objective(&candidate, loss);
            if objective > best.0 {
                best = (objective, candidate);
            }
        }
        best.1
    }

    /// One Newton step of the likelihood in the inherent loss.
    fn refined(&self, channel: Channel) -> Channel {
        let (mut first, mut second) = (0.0, 0.0);
        for (weight, observation) in self.weighed() {
            let p = channel.loss(observation.rate);
            let (lost, arrived) = (observation.lost, observation.packets - observation.lost);
            first += weight * (lost / p - arrived / (1.0 - p));
            second -= weight * (lost / (p * p) + arrived / ((1.0 - p) * (1.0 - p)));
        }
        let second = if second < 0.0 { second } else { -1e-6 };
        Channel { inherent: channel.inherent - NEWTON_STEP * first / second, ..channel }.feasible()
    }

    fn objective(&self, channel: &Channel, loss: f64) -> f64 {
        let kbps = channel.bandwidth / 1e3;
        let fade = (BIAS_LOSS - loss) / (BIAS_WIDTH + (BIAS_LOSS - loss).abs());
        let bias = fade * (BIAS * kbps + LOG_BIAS * (1.0 + kbps).ln());
        let likelihood = |(weight, observation): (f64, &Observation)| {
            let p = channel.loss(observation.rate);
            let (lost, arrived) = (observation.lost, observation.packets - observation.lost);
            weight * (lost * p.ln() + arrived * (1.0 - p).ln() + bias * observation.packets)
        };
        self.weighed().map(likelihood).sum()
    }

    fn instant(&self, loss: f64) -> f64 {
        if loss > INSTANT_OFFSET { INSTANT_BALANCE / (loss - INSTANT_OFFSET) } else { self.bounds.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `seconds` of observations of 250 ms at the estimate's own rate, of which `loss(rate)` is lost.
    fn settle(delay: f64, seconds: u64, loss: impl Fn(f64) -> f64) -> LossV2 {
        let mut estimator = LossV2::new((30e3, 100e6));
        let mut at = Time::from_millis(0);
        estimator.update(&Settled { packets: 1, bytes: 1000, sent: Some((at, at)), lost: 0 }, delay, None);
        for _ in 0..4 * seconds {
            let rate = estimator.estimate(delay);
            let next = at + OBSERVATION;
            let bytes = (rate * 0.25 / 8.0) as u64;
            let packets = bytes / 1000 + 1;
            let lost = (packets as f64 * loss(rate)).round() as u64;
            let received = Some(rate * (1.0 - loss(rate)));
            let sent = Some((at + Span::from_millis(1), next));
            estimator.update(&Settled { packets, lost, bytes, sent }, delay, received);
            at = next;
        }
        estimator
    }

    #[test]
    fn without_loss_the_delay_based_estimate_rules() {
        let estimator = settle(5e6, 10, |_| 0.0);
        assert_eq!((estimator.estimate(5e6), estimator.limit()), (5e6, Limit::Delay));
    }

    #[test]
    fn random_loss_of_two_percent_is_put_up_with() {
        let estimator = settle(5e6, 20, |_| 0.02);
        assert!(estimator.estimate(5e6) > 4.5e6, "{}", estimator.estimate(5e6));
    }

    #[test]
    fn loss_from_too_high_a_rate_is_answered() {
        // A policer of 2 Mbit/s under a delay-based estimate of 5.
        let estimator = settle(5e6, 20, |rate| ((rate - 2e6) / rate).max(0.0));
        let rate = estimator.estimate(5e6);
        assert!((1.2e6..2.4e6).contains(&rate), "{rate}");
    }

    #[test]
    fn heavy_loss_caps_at_once() {
        let mut estimator = settle(5e6, 5, |_| 0.0);
        for n in 0..3 {
            let at = Time::from_secs(6) + OBSERVATION * n;
            let settled =
                Settled { packets: 100, lost: 50, bytes: 100_000, sent: Some((at, at + OBSERVATION)) };
            estimator.update(&settled, 5e6, Some(1e6));
        }
        let capped = INSTANT_BALANCE / (estimator.average_loss() - INSTANT_OFFSET);
        assert!(estimator.estimate(5e6) <= capped.max(30e3) + 1.0);
        assert_eq!(estimator.limit(), Limit::Falling);
    }

    #[test]
    fn too_few_observations_say_nothing() {
        let mut estimator = LossV2::new((30e3, 100e6));
        let at = Time::from_secs(1);
        let settled = Settled { packets: 10, lost: 10, bytes: 10_000, sent: Some((at, at + OBSERVATION)) };
        estimator.update(&settled, 5e6, None);
        assert_eq!((estimator.estimate(5e6), estimator.limit()), (5e6, Limit::Delay));
    }
}
