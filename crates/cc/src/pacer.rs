//! When the next packet may leave: what every endpoint makes of a decision's pacing rate.

use units::{Bytes, Rate, Span, Time};

/// A driver that wakes late may catch up on at most this much: more would be a burst of our own making.
const CATCH_UP: Span = Span::from_millis(1);

/// Spaces packets at a rate. An idle pacer saves nothing up, so that a frame's burst is always paced from its first
/// packet on; `burst` bytes may run ahead of the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When everything sent so far would have left at the rate.
    clear_at: Time,
    rate: Option<Rate>,
    /// How long the burst that may run ahead takes at the rate.
    ahead: Span,
    /// Packets of a bunch, and how many of the present one may still follow at once.
    bunch: u32,
    left: u32,
}

impl Pacer {
    /// Lets `bunch` packets (1 or more) leave together and then waits for as long as all of them take at the rate: what a pacer with a
    /// coarse timer does, and segmentation offload.
    pub fn in_bunches(bunch: u32) -> Pacer {
        Pacer { bunch, ..Pacer::default() }
    }

    /// Sets rate (`None`: unpaced) and burst.
    pub fn apply(&mut self, rate: Option<Rate>, burst: Bytes) {
        self.rate = rate;
        self.ahead = rate.map_or(Span::ZERO, |rate| rate.time_to_send(burst));
    }

    /// The earliest time the next packet may leave.
    #[inline]
    pub fn next(&self) -> Time {
        if self.rate.is_some() && self.left == 0 { self.clear_at - self.ahead } else { Time::ZERO }
    }

    /// A packet of `size` left at `now`.
    #[inline]
    pub fn sent(&mut self, now: Time, size: Bytes) {
        if let Some(rate) = self.rate {
            let cost = rate.time_to_send(size);
            // Idle: start afresh. A little late: keep the schedule, so that lateness does not add up to a lower rate.
            if self.left > 0 {
                self.left -= 1;
                return;
            }
            let base = if now - self.clear_at >= CATCH_UP { now } else { self.clear_at };
            let bunch = self.bunch.max(1);
            self.clear_at = base + cost * i64::from(bunch);
            self.left = bunch - 1;
        }
    }

    /// Nothing follows at once: the rest of a bunch is not owed, and the next one leaves when its time has come.
    #[inline]
    pub fn pause(&mut self) {
        self.left = 0;
    }

    /// The pacing rate, if any.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1250);

    #[test]
    fn packets_leave_at_the_rate_and_idle_time_is_not_saved() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO);
        let mut now = Time::from_millis(500);
        assert!(pacer.next() <= now);
        for _ in 0..3 {
            pacer.sent(now, PACKET);
            assert_eq!(pacer.next(), now + Span::from_millis(1));
            now = pacer.next();
        }
        now += Span::from_millis(100);
        pacer.sent(now, PACKET);
        assert_eq!(pacer.next(), now + Span::from_millis(1));
    }

    #[test]
    fn small_lateness_is_made_up() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO);
        let start = Time::from_millis(1);
        pacer.sent(start, PACKET);
        pacer.sent(pacer.next() + Span::from_micros(200), PACKET);
        assert_eq!(pacer.next(), start + Span::from_millis(2));
    }

    #[test]
    fn bunches_leave_together_at_the_same_rate() {
        let mut pacer = Pacer::in_bunches(3);
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO);
        let start = Time::from_millis(500);
        let mut left = Vec::new();
        for _ in 0..9 {
            let now = pacer.next().max(left.last().copied().unwrap_or(start));
            pacer.sent(now, PACKET);
            left.push(now);
        }
        let ms: Vec<i64> = left.iter().map(|at| (*at - start).as_nanos() / 1_000_000).collect();
        assert_eq!(ms, [0, 0, 0, 3, 3, 3, 6, 6, 6]);
        // A bunch that the window cut short takes as long as a whole one.
        pacer.sent(start + Span::from_millis(9), PACKET);
        pacer.pause();
        assert_eq!(pacer.next(), start + Span::from_millis(12));
    }

    #[test]
    fn a_burst_may_run_ahead() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::new(2500));
        let now = Time::from_millis(500);
        pacer.sent(now, PACKET);
        pacer.sent(now, PACKET);
        assert!(pacer.next() <= now);
        pacer.sent(now, PACKET);
        assert!(pacer.next() > now);
    }
}
