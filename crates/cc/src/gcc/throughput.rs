//! The received rate over a second of packets (libwebrtc `RobustThroughputEstimator`), and the choice between
//! it and samples.

use std::collections::VecDeque;

use units::{RemoteTime, Span};

use super::received::Acknowledged;

/// Packets older than this go, ...
const WINDOW: Span = Span::from_secs(1);
/// ... but this many stay ...
const KEPT: usize = 20;
/// ... for this long at most.
const LONGEST: Span = Span::from_secs(5);
/// No more packets than this are kept.
const MOST: usize = 500;
/// Packets until there is a rate.
const LEAST: usize = 10;
/// A packet that is this much older than the newest one: the clock was set.
const REORDERED: Span = Span::from_secs(1);
/// No rate is taken over less.
const SHORTEST: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: RemoteTime,
    sent: RemoteTime,
    size: u32,
}

/// What arrived within a second, less its longest gap, but never more than was sent.
#[derive(Clone, Debug, Default)]
pub struct Throughput {
    /// By arrival.
    window: VecDeque<Arrival>,
    /// The latest send time among those that have gone.
    gone: Option<RemoteTime>,
}

impl Throughput {
    /// `size` bytes sent at `sent` arrived at `at`.
    pub fn insert(&mut self, at: RemoteTime, sent: RemoteTime, size: u32) {
        if self.window.back().is_some_and(|last| last.at - at > REORDERED) {
            self.window.clear();
            self.gone = None;
        }
        let place = self.window.partition_point(|arrival| arrival.at <= at);
        self.window.insert(place, Arrival { at, sent, size });
        while self.overfull() {
            let gone = self.window.pop_front().map(|arrival| arrival.sent);
            self.gone = self.gone.max(gone);
        }
    }

    fn overfull(&self) -> bool {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else { return false };
        let (packets, span) = (self.window.len(), last.at - first.at);
        packets > MOST || span > LONGEST || packets > KEPT && span > WINDOW
    }

    /// The rate in bit/s; `None` until there are enough packets.
    pub fn rate(&self) -> Option<f64> {
        (self.window.len() >= LEAST)
            .then(|| self.sending().map_or(self.arriving(), |bps| bps.min(self.arriving())))
    }

    /// n packets are n - 1 intervals: the first one's size came before them. The longest gap, which may be a
    /// pause of the path, counts as the second longest.
    fn arriving(&self) -> f64 {
        let (mut bytes, mut over) = (0, Span::ZERO);
        let (mut longest, mut second) = (Span::ZERO, Span::ZERO);
        for (before, arrival) in self.window.iter().zip(self.window.iter().skip(1)) {
            let gap = arrival.at - before.at;
            bytes += u64::from(arrival.size);
            over += gap;
            second = second.max(gap.min(longest));
            longest = longest.max(gap);
        }
        rate(bytes, over - longest + second)
    }

    /// The same by send times, where the last one's size comes after them; unknown from a few packets. One
    /// sent before some that have gone was overtaken.
    fn sending(&self) -> Option<f64> {
        let counted = self.window.iter().filter(|arrival| self.gone.is_none_or(|gone| arrival.sent >= gone));
        let (mut packets, mut bytes) = (0, 0);
        let mut ends: Option<(RemoteTime, Arrival)> = None;
        for arrival in counted {
            (packets, bytes) = (packets + 1, bytes + u64::from(arrival.size));
            let (first, last) = ends.unwrap_or((arrival.sent, *arrival));
            ends = Some((first.min(arrival.sent), if arrival.sent > last.sent { *arrival } else { last }));
        }
        let (first, last) = ends.filter(|_| packets >= LEAST)?;
        Some(rate(bytes - u64::from(last.size), last.sent - first))
    }
}

fn rate(bytes: u64, over: Span) -> f64 {
    bytes as f64 * 8.0 / over.max(SHORTEST).as_secs_f64()
}

/// How the send-side form measures the received rate.
#[derive(Clone, Debug)]
pub enum Received {
    /// Samples of 150 ms.
    Samples(Acknowledged),
    /// A second of packets.
    Second(Throughput),
}

impl Received {
    /// `size` bytes sent at `sent` arrived at `at`.
    pub fn insert(&mut self, at: RemoteTime, sent: RemoteTime, size: u32) {
        match self {
            Received::Samples(samples) => samples.insert(at, size),
            Received::Second(second) => second.insert(at, sent, size),
        }
    }

    /// The application sends freely again.
    pub fn expect_fast_change(&mut self) {
        if let Received::Samples(samples) = self {
            samples.expect_fast_change();
        }
    }

    /// The rate in bit/s, if it is known yet.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Received::Samples(samples) => samples.rate(),
            Received::Second(second) => second.rate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> RemoteTime {
        RemoteTime::from_nanos(ms * 1_000_000)
    }

    fn near(throughput: &Throughput, bps: f64) -> bool {
        throughput.rate().is_some_and(|rate| (rate / bps - 1.0).abs() < 1e-6)
    }

    #[test]
    fn ten_packets_are_a_rate_and_a_second_is_its_memory() {
        // 1000 bytes every 10 ms are 0.8 Mbit/s.
        let mut throughput = Throughput::default();
        (0..9).for_each(|n| throughput.insert(ms(10 * n + 50), ms(10 * n), 1000));
        assert_eq!(throughput.rate(), None);
        (9..200).for_each(|n| throughput.insert(ms(10 * n + 50), ms(10 * n), 1000));
        assert!(near(&throughput, 0.8e6), "{:?}", throughput.rate());
        // Half of it, for a second and its first packet.
        (0..52).for_each(|n| throughput.insert(ms(2000 + 20 * n + 50), ms(2000 + 20 * n), 1000));
        assert!(near(&throughput, 0.4e6), "{:?}", throughput.rate());
    }

    #[test]
    fn a_pause_of_the_path_does_not_count_and_a_burst_after_it_is_not_faster_than_sent() {
        let mut throughput = Throughput::default();
        (0..50).for_each(|n| throughput.insert(ms(10 * n + 50), ms(10 * n), 1000));
        // The next 30 arrive together 300 ms later.
        (50..80).for_each(|n| throughput.insert(ms(850), ms(10 * n), 1000));
        assert!(near(&throughput, 0.8e6), "{:?}", throughput.rate());
    }

    #[test]
    fn a_clock_that_was_set_starts_afresh() {
        let mut throughput = Throughput::default();
        (0..50).for_each(|n| throughput.insert(ms(10_000 + 10 * n), ms(10 * n), 1000));
        throughput.insert(ms(0), ms(500), 1000);
        assert_eq!(throughput.rate(), None);
        (1..700).for_each(|n| throughput.insert(ms(n), ms(n + 500), 10_000_000));
        assert!(throughput.window.len() <= MOST && throughput.rate().is_some_and(f64::is_finite));
    }
}
