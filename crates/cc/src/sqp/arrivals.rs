//! The rate at which packets have arrived of late, by the receiver's clock.

use std::collections::VecDeque;

use units::{RemoteTime, Span};

/// Packets remembered: as many of 1200 bytes as arrive in 200 ms at 49 Mbit/s. At higher rates the rate comes
/// out too low, which is safe for a lower bound.
const REMEMBERED: usize = 1024;

/// The latest packets that arrived.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// In the order in which they were heard of.
    packets: VecDeque<(RemoteTime, u32)>,
    bytes: u64,
    latest: Option<RemoteTime>,
}

impl Arrivals {
    /// A packet of `size` bytes arrived at `at`; what arrived longer than `over` before the latest is
    /// forgotten.
    pub fn insert(&mut self, at: RemoteTime, size: u32, over: Span) {
        let latest = self.latest.map_or(at, |latest| latest.max(at));
        self.latest = Some(latest);
        self.packets.push_back((at, size));
        self.bytes += u64::from(size);
        let outdated = |(at, _): &(RemoteTime, u32)| latest - *at >= over;
        while self.packets.len() > REMEMBERED || self.packets.front().is_some_and(outdated) {
            let (_, size) = self.packets.pop_front().expect("one was looked at");
            self.bytes -= u64::from(size);
        }
    }

    /// What arrived within `over` before the latest packet, in bit/s.
    pub fn rate(&self, over: Span) -> f64 {
        self.bytes as f64 * 8.0 / over.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    const OVER: Span = Span::from_millis(200);

    #[test]
    fn it_counts_what_arrived_within_the_time() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.rate(OVER), 0.0);
        (0..100).for_each(|n| arrivals.insert(Time::from_millis(10 * n).on_wire(), 1000, OVER));
        assert_eq!(arrivals.rate(OVER), 20.0 * 8_000.0 / 0.2);
        // Nothing for a second: one packet is all there is.
        arrivals.insert(Time::from_millis(2_000).on_wire(), 1000, OVER);
        assert_eq!(arrivals.rate(OVER), 8_000.0 / 0.2);
    }

    #[test]
    fn memory_is_bounded() {
        let mut arrivals = Arrivals::default();
        (0..10_000).for_each(|_| arrivals.insert(Time::from_millis(5).on_wire(), 100, OVER));
        assert_eq!(arrivals.packets.len(), REMEMBERED);
        assert_eq!(arrivals.bytes, 100 * REMEMBERED as u64);
    }
}
