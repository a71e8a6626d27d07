//! genericCC's guard against a policer's meltdown (`ReduceOnLoss` in its `estimators.cc`).

use units::{Span, Time};

/// A window of packets is judged once it is longer than this many round trips ...
const RTTS: i64 = 2;
/// ... and than this many packets; ...
const PACKETS: u32 = 20;
/// ... with more than this share of them lost ...
const HEAVY: f64 = 0.3;
/// ... the congestion window is multiplied by this.
pub const CUT: f64 = 0.7;

/// Counts losses and acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeavyLoss {
    since: Time,
    acked: u32,
    lost: u32,
}

impl HeavyLoss {
    /// Takes a report; true if losses have been heavy since the last judgement.
    pub fn update(&mut self, now: Time, acked: u32, lost: u32, rtt: Span) -> bool {
        self.acked = self.acked.saturating_add(acked);
        self.lost = self.lost.saturating_add(lost);
        let all = self.acked.saturating_add(self.lost);
        if now - self.since <= rtt * RTTS || all <= PACKETS {
            return false;
        }
        let heavy = f64::from(self.lost) > HEAVY * f64::from(all);
        *self = HeavyLoss { since: now, ..HeavyLoss::default() };
        heavy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judged_after_two_round_trips_and_twenty_packets() {
        let rtt = Span::from_millis(40);
        let mut losses = HeavyLoss::default();
        assert!(!losses.update(Time::from_millis(81), 10, 10, rtt), "too few");
        assert!(losses.update(Time::from_millis(82), 1, 0, rtt));
        assert!(!losses.update(Time::from_millis(162), 50, 50, rtt), "too early");
        assert!(losses.update(Time::from_millis(163), 0, 0, rtt));
        assert!(!losses.update(Time::from_millis(250), 70, 30, rtt), "30 % is not above 30 %");
    }
}
