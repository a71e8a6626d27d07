//! When the next segment may leave.

use units::{Bytes, Rate, Span, Time};

/// A driver that wakes late may catch up on at most this much.
const CATCH_UP: Span = Span::from_millis(1);

/// Spaces segments at a rate; `burst` bytes may run ahead of it. Idle time is not saved up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When everything sent so far would have left at the rate.
    clear_at: Time,
    rate: Option<Rate>,
    /// How long `burst` bytes take at the rate.
    ahead: Span,
}

impl Pacer {
    /// Sets rate (`None`: unpaced) and burst.
    #[inline]
    pub fn apply(&mut self, rate: Option<Rate>, burst: Bytes) {
        self.rate = rate;
        self.ahead = rate.map_or(Span::ZERO, |rate| rate.time_to_send(burst));
    }

    /// The earliest time the next segment may leave.
    #[inline]
    pub fn next(&self) -> Time {
        if self.rate.is_some() { self.clear_at.saturating_sub(self.ahead) } else { Time::ZERO }
    }

    /// A segment of `size` left at `now`.
    #[inline]
    pub fn sent(&mut self, now: Time, size: Bytes) {
        if let Some(rate) = self.rate {
            let base = if now - self.clear_at >= CATCH_UP { now } else { self.clear_at };
            self.clear_at = base + rate.time_to_send(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_runs_ahead_and_the_rate_holds() {
        let (mut pacer, size) = (Pacer::default(), Bytes::new(1250));
        assert_eq!(pacer.next(), Time::ZERO);
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::new(2500));
        let mut now = Time::from_millis(500);
        let mut left = Vec::new();
        for _ in 0..6 {
            now = now.max(pacer.next());
            left.push((now - Time::from_millis(500)).as_nanos() / 1_000_000);
            pacer.sent(now, size);
        }
        assert_eq!(left, [0, 0, 0, 1, 2, 3]);
    }
}
