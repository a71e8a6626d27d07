//! The smallest one-way delay over a window of send times (section 4.3).

use std::collections::VecDeque;

use units::{RelativeDelay, Span, Time};

/// A one-way delay, and the size of the packet that took it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Least {
    /// One-way delay of the packet, with the offset of the clocks in it.
    pub delay: RelativeDelay,
    /// Bytes of the packet.
    pub size: u32,
}

/// Nothing older is kept, however long the round trip grows.
const HORIZON: Span = Span::from_secs(10);
/// Entries kept at most; with more, the oldest go (10 s at ~400 new minima a second).
const CAPACITY: usize = 4096;

/// A sliding minimum whose window may also *grow* into the past: sRTT includes queueing, so while a queue
/// stands the window widens by itself and reaches back to before the queue. That is what drains it in the
/// end.
///
/// Kept: the samples with no smaller delay after them, in order of send time, hence also of delay. The first
/// one inside a window is its minimum.
#[derive(Clone, Debug, Default)]
pub struct MinOwd {
    minima: VecDeque<(Time, Least)>,
}

impl MinOwd {
    /// Takes the delay of a packet of `size` bytes sent at `sent`.
    pub fn insert(&mut self, sent: Time, delay: RelativeDelay, size: u32) {
        while let Some(newest) = self.minima.back() {
            if newest.0 > sent {
                return self.insert_before(sent, Least { delay, size });
            }
            if newest.1.delay < delay {
                break;
            }
            self.minima.pop_back();
        }
        self.minima.push_back((sent, Least { delay, size }));
        self.forget(sent);
    }

    /// The same for a packet that was sent before others that were taken.
    #[cold]
    fn insert_before(&mut self, sent: Time, least: Least) {
        let mut at = self.minima.partition_point(|later| later.0 <= sent);
        if self.minima[at].1.delay <= least.delay {
            return;
        }
        while at > 0 && self.minima[at - 1].1.delay >= least.delay {
            self.minima.remove(at - 1);
            at -= 1;
        }
        self.minima.insert(at, (sent, least));
        self.forget(sent);
    }

    fn forget(&mut self, sent: Time) {
        while self.minima.len() > CAPACITY || self.minima.front().is_some_and(|old| old.0 + HORIZON < sent) {
            self.minima.pop_front();
        }
    }

    /// The smallest delay of packets sent at or after `anchor`.
    pub fn since(&self, anchor: Time) -> Option<Least> {
        let first = self.minima.partition_point(|(sent, _)| *sent < anchor);
        self.minima.get(first).map(|(_, least)| *least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delay(ms: u64) -> RelativeDelay {
        Time::from_millis(ms).on_wire().delay_since(Time::ZERO)
    }

    proptest! {
        #[test]
        fn it_equals_the_plain_minimum(samples in prop::collection::vec((0u64..2_000, 0u64..500), 1..80), anchor in 0u64..2_000) {
            let mut min = MinOwd::default();
            samples.iter().for_each(|&(sent, ms)| min.insert(Time::from_millis(sent), delay(ms), 1200));
            let plain = samples.iter().filter(|(sent, _)| *sent >= anchor).map(|(_, ms)| delay(*ms)).min();
            prop_assert_eq!(min.since(Time::from_millis(anchor)).map(|least| least.delay), plain);
        }
    }
}
