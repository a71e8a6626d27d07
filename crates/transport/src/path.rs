//! How long a datagram may be: what is configured, what the driver's path carries, and a guard against black
//! holes.

use units::{Span, Time};

/// Every path carries datagrams of this size, in bytes: QUIC's 1200 (RFC 9000 section 14) less what a
/// transport around them adds.
pub const LEAST_PATH: usize = 1150;
/// With nothing acknowledged for so long, as long as a probe for an answer waits at most, long datagrams are
/// under suspicion, ...
const UNHEARD: Span = Span::from_millis(500);
/// ... for as long as a black hole of quinn's keeps it from searching again.
const NARROW_FOR: Span = Span::from_secs(60);

/// The longest datagram at present.
#[derive(Clone, Copy, Debug)]
pub struct PathMtu {
    configured: usize,
    path: usize,
    /// The lesser of the two: each packet asks several times.
    least: usize,
    /// Until this time datagrams are at most [`LEAST_PATH`] bytes: the path may be a black hole for longer
    /// ones (RFC 8899 section 4.3).
    narrow_until: Time,
    /// Since when something has been in flight, and nothing was acknowledged.
    unheard_since: Time,
}

impl PathMtu {
    /// Datagrams of at most `configured` bytes, on a path of which nothing is known.
    pub fn new(configured: usize) -> PathMtu {
        let (narrow_until, unheard_since) = (Time::ZERO, Time::ZERO);
        PathMtu { configured, path: usize::MAX, least: configured, narrow_until, unheard_since }
    }

    /// The longest datagram at present, in bytes.
    #[inline]
    pub fn get(&self) -> usize {
        self.least
    }

    /// Something was acknowledged, or is in flight again after nothing was.
    #[inline]
    pub fn restart(&mut self, now: Time) {
        self.unheard_since = now;
    }

    /// The driver took datagrams of `room` bytes before, too.
    #[inline]
    pub fn is(&self, room: usize) -> bool {
        self.path == room
    }

    /// The driver takes datagrams of `room` bytes; `known`: because its path does, not because that is all
    /// that it could ever take. `waiting`: something is in flight. Returns true if datagrams must be shorter
    /// than before.
    #[inline]
    pub fn fit(&mut self, now: Time, room: usize, known: bool, waiting: bool) -> bool {
        let narrow = known && self.is_narrow(now, waiting);
        let before = self.get();
        self.path = if narrow { LEAST_PATH } else { room.max(LEAST_PATH) };
        self.least = self.configured.min(self.path);
        before > self.path
    }

    /// A path on which nothing arrives any more may carry less than it did. A transport that finds its MTU
    /// needs acknowledgements to notice, and there are none while all packets are too long.
    fn is_narrow(&mut self, now: Time, waiting: bool) -> bool {
        if waiting && now - self.unheard_since > UNHEARD {
            self.narrow_until = now + NARROW_FOR;
        }
        now < self.narrow_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_swallows_everything_is_narrow_for_a_minute() {
        let mut mtu = PathMtu::new(1440);
        let at = Time::from_millis;
        assert!(!mtu.fit(at(0), 1440, true, true));
        assert_eq!(mtu.get(), 1440);
        assert!(mtu.fit(at(501), 1440, true, true));
        assert_eq!(mtu.get(), LEAST_PATH);
        mtu.restart(at(600));
        assert!(!mtu.fit(at(60_500), 1440, true, false));
        assert_eq!(mtu.get(), LEAST_PATH);
        assert!(!mtu.fit(at(61_000), 1440, true, false));
        assert_eq!(mtu.get(), 1440);
    }

    #[test]
    fn a_driver_that_offers_all_there_is_knows_nothing_of_its_path() {
        let mut mtu = PathMtu::new(1200);
        for _ in 0..2 {
            assert!(!mtu.fit(Time::from_secs(9), 65_535, false, true));
            assert_eq!((mtu.get(), mtu.is(65_535), mtu.is(1200)), (1200, true, false));
        }
    }
}
