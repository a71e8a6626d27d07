//! A host's own clock as seen from the world's: a constant offset and a constant drift.

use crate::{Span, Time, likely};

const BILLION: i128 = 1_000_000_000;

/// Maps world time to a host's clock and back: `local = world + offset + world * drift`.
///
/// The offset is never negative (a host's clock origin lies at or before the world's), so that local time
/// stays representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HostClock {
    offset: u64,
    drift_ppb: i64,
}

impl HostClock {
    /// A clock `offset` ahead of the world's (negative offsets count as zero) that gains `drift_ppm` parts
    /// per million.
    pub fn new(offset: Span, drift_ppm: f64) -> HostClock {
        HostClock { offset: offset.as_nanos().max(0) as u64, drift_ppb: (drift_ppm * 1e3).round() as i64 }
    }

    #[inline(always)]
    fn is_the_worlds(&self) -> bool {
        self.offset | self.drift_ppb as u64 == 0
    }

    /// What this host's clock shows at world time `world`.
    #[inline]
    pub fn local(&self, world: Time) -> Time {
        if likely(self.is_the_worlds()) || world == Time::MAX { world } else { self.shown_at(world) }
    }

    fn shown_at(&self, world: Time) -> Time {
        let shown = (i128::from(world.as_nanos()) * self.per_billion()).div_euclid(BILLION);
        Time::from_nanos((shown + i128::from(self.offset)).max(0) as u64)
    }

    /// The earliest world time at which this host's clock shows at least `local`.
    #[inline]
    pub fn world(&self, local: Time) -> Time {
        if likely(self.is_the_worlds()) || local == Time::MAX { local } else { self.earliest(local) }
    }

    fn earliest(&self, local: Time) -> Time {
        // `local` rounds down, so its inverse rounds up: a wake-up that came too early would be asked for
        // again at the same instant, for ever.
        let shown = i128::from(local.as_nanos()) - i128::from(self.offset);
        Time::from_nanos((-(-shown * BILLION).div_euclid(self.per_billion())).max(0) as u64)
    }

    /// Nanoseconds that this clock shows in a billion of the world's.
    fn per_billion(&self) -> i128 {
        BILLION + i128::from(self.drift_ppb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A slow clock once rounded up where its inverse rounded down, and woke a host a nanosecond late.
    #[test]
    fn a_slow_clock_wakes_no_later_than_it_shows() {
        let (clock, t) = (HostClock::new(Span::ZERO, -310.612), Time::from_nanos(2_732_458_897_273));
        assert!(clock.world(clock.local(t)) <= t);
    }

    proptest! {
        #[test]
        fn world_is_the_earliest_inverse(
            offset in 0i64..20_000_000_000_000, ppm in -500.0f64..500.0, t in 0u64..5_000_000_000_000
        ) {
            let clock = HostClock::new(Span::from_nanos(offset), ppm);
            let local = clock.local(Time::from_nanos(t));
            let world = clock.world(local);
            prop_assert!(clock.local(world) >= local);
            prop_assert!(world <= Time::from_nanos(t));
            prop_assert!(world == Time::ZERO || clock.local(Time::from_nanos(world.as_nanos() - 1)) < local);
        }
    }
}
