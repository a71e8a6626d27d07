//! What a link carried while it paused: the flow's own rate over a stretch of frames that waited, once their
//! queue is gone.

use units::{RelativeDelay, RemoteTime, Span};

use super::frames::FrameBurst;

/// A frame whose first packet waited for longer, and for longer than a frame interval, met a pause or a queue
/// of more than one frame. Less passes between bunches of packets on Wi-Fi and LTE while nothing is wrong.
const PAUSED: Span = Span::from_millis(20);

/// A stretch of frames that waited.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// When the frame before it had arrived.
    from: RemoteTime,
    /// When its latest packet arrived.
    until: RemoteTime,
    /// Bits that arrived.
    bits: f64,
    /// Rate at which its first frame was sent, in bit/s.
    sent_at: f64,
}

/// Follows the frames in the order in which they settle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    stretch: Option<Stretch>,
    latest: Option<RemoteTime>,
}

impl Pauses {
    /// A frame sent at `rate` (in bit/s) arrived; a packet that waits for nothing takes `least`, and frames
    /// are `interval` apart. Where it found nothing in the queue of the frames before, and those had waited:
    /// the rate that those were carried at, or were sent at, whichever is lower.
    pub fn settled(
        &mut self,
        burst: &FrameBurst,
        least: RelativeDelay,
        rate: f64,
        interval: Span,
    ) -> Option<f64> {
        let (first, last) = burst.received?;
        let from = self.latest.replace(self.latest.map_or(last, |latest| latest.max(last)))?;
        let alone = from.delay_since(burst.first_sent) <= least;
        let ended = if alone { self.stretch.take() } else { None };
        let waited = first.delay_since(burst.first_sent) - least >= PAUSED.max(interval);
        if waited || self.stretch.is_some() {
            let stretch = self.stretch.get_or_insert(Stretch { from, until: last, bits: 0.0, sent_at: rate });
            stretch.until = stretch.until.max(last);
            let arrived = f64::from(burst.arrived) / f64::from(burst.count.max(1));
            stretch.bits += burst.bytes as f64 * 8.0 * arrived;
        }
        let ended = ended?;
        let seconds = (ended.until - ended.from).as_secs_f64();
        (seconds > 0.0).then(|| (ended.bits / seconds).min(ended.sent_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    const INTERVAL: Span = Span::from_millis(17);
    const OWD: Span = Span::from_millis(20);
    const RATE: f64 = 4e6;

    fn least() -> RelativeDelay {
        (Time::ZERO + OWD).on_wire().delay_since(Time::ZERO)
    }

    /// Frames at `RATE`, one an interval, the n-th arriving after `wait(n)`; what is given for each.
    fn settle(frames: i64, wait: impl Fn(i64) -> Span) -> Vec<Option<f64>> {
        let mut pauses = Pauses::default();
        let settle = |n: i64| {
            let sent = Time::ZERO + INTERVAL * n;
            let at = (sent + OWD + wait(n)).on_wire();
            let burst = FrameBurst {
                id: (0, n as u32, 0),
                first_sent: sent,
                last_sent: sent,
                bytes: (RATE * INTERVAL.as_secs_f64() / 8.0) as u64,
                full: RATE * INTERVAL.as_secs_f64(),
                first_bytes: 1000,
                count: 8,
                sent: 8,
                arrived: 8,
                lost: 0,
                untimed: false,
                received: Some((at, at)),
            };
            pauses.settled(&burst, least(), RATE, INTERVAL)
        };
        (0..frames).map(settle).collect()
    }

    #[test]
    fn a_pause_that_ends_leaves_the_rate_it_was_carried_at() {
        // Frames 3 to 8 arrive together, when the ninth leaves.
        let wait = |n| if (3..9).contains(&n) { INTERVAL * (9 - n) } else { Span::ZERO };
        let given = settle(12, wait);
        let carried: Vec<_> = given.iter().enumerate().filter(|(_, rate)| rate.is_some()).collect();
        assert_eq!(carried.len(), 1, "{given:?}");
        // Six frames in seven intervals: the one before arrived at once.
        let (frame, rate) = (carried[0].0, carried[0].1.unwrap());
        assert!(frame >= 9 && (rate / RATE - 6.0 / 7.0).abs() < 0.02, "{carried:?}");
    }

    #[test]
    fn a_queue_that_grows_or_stands_leaves_nothing() {
        assert_eq!(settle(100, |n| INTERVAL * n), vec![None; 100]);
        assert_eq!(settle(100, |_| Span::from_millis(60)), vec![None; 100]);
        // Behind others' packets, never behind its own.
        assert_eq!(settle(100, |_| Span::from_millis(15)), vec![None; 100]);
    }
}
