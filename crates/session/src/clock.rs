//! Where the sender's times fall on the receiver's clock.

use units::{RelativeDelay, RemoteTime, Span, Time, unlikely};

/// Each of two windows: long enough to meet an empty queue, short enough that 200 ppm of drift stays below 2
/// ms.
const WINDOW: Span = Span::from_secs(5);

/// The smallest one-way delay of the last five to ten seconds, taken as the offset between the clocks. It
/// includes the path's own delay, which can't be told apart from the offset: times of capture come out late
/// by it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offset {
    current: Option<RelativeDelay>,
    previous: Option<RelativeDelay>,
    turned_at: Time,
}

impl Offset {
    /// Takes a packet's times.
    pub fn insert(&mut self, sent: RemoteTime, now: Time) {
        if unlikely(now - self.turned_at > WINDOW) {
            (self.previous, self.current, self.turned_at) = (self.current, None, now);
        }
        let delay = RelativeDelay::between(sent, now);
        self.current = Some(self.current.map_or(delay, |min| min.min(delay)));
    }

    /// When `at` was, on our clock; `None` before the first packet.
    pub fn localise(&self, at: RemoteTime) -> Option<Time> {
        let min = match (self.current, self.previous) {
            (Some(current), Some(previous)) => current.min(previous),
            (one, other) => one.or(other)?,
        };
        Some(min.localise(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_drift_and_forgets() {
        let mut offset = Offset::default();
        let at = |ms: i64| RemoteTime::from_nanos(ms * 1_000_000);
        offset.insert(at(-5_000), Time::from_millis(30));
        offset.insert(at(-4_990), Time::from_millis(90));
        assert_eq!(offset.localise(at(-5_000)), Some(Time::from_millis(30)));
        // Ten seconds on, the path has become 10 ms longer for good.
        for second in 1..=12u64 {
            offset.insert(at(-5_000 + second as i64 * 1_000), Time::from_millis(40 + second * 1_000));
        }
        assert_eq!(offset.localise(at(7_000)), Some(Time::from_millis(12_040)));
    }
}
