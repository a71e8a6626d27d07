//! RACK's state (RFC 8985 section 6): which transmission that arrived was sent last, and how much reordering
//! to wait for.
//!
//! RACK orders segments by send time and, within one instant, by sequence; transmissions are numbered in just
//! that order.

use units::Span;

/// RFC 8985 section 6.2.4: recoveries for which a widened reordering window is kept.
const PERSIST: u32 = 16;
/// RFC 5681 and RFC 8985 section 6.2.4: as many segments selectively acknowledged end the wait for
/// reordering.
pub(crate) const DUP_THRESH: u64 = 3;

/// The state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// The newest transmission known to have arrived, and its round trip.
    newest: Option<(u64, Span)>,
    reordering_seen: bool,
    multiplier: u32,
    persist: u32,
    /// Duplicates reported below this byte count only once.
    round_end: Option<u64>,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack { newest: None, reordering_seen: false, multiplier: 1, persist: 0, round_end: None }
    }
}

impl Rack {
    /// Transmission `packet` arrived; the news came `rtt` after it was sent (RFC 8985 section 6.2, step 2).
    #[inline]
    pub fn arrived(&mut self, packet: u64, rtt: Span) {
        if self.newest.is_none_or(|(newest, _)| packet > newest) {
            self.newest = Some((packet, rtt));
        }
    }

    /// A segment that was sent once arrived after one that lies above it (step 3).
    pub fn reordered(&mut self) {
        self.reordering_seen = true;
    }

    /// A duplicate was reported: a retransmission was for nothing, so wait for more reordering (step 4). One
    /// a round trip.
    pub fn duplicate(&mut self, acked: u64, sent: u64) {
        if self.round_end.is_none_or(|end| acked >= end) {
            self.round_end = Some(sent);
            self.multiplier = (self.multiplier + 1).min(256);
            self.persist = PERSIST;
        }
    }

    /// A recovery has ended.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// The newest transmission known to have arrived.
    pub fn newest(&self) -> Option<u64> {
        self.newest.map(|(packet, _)| packet)
    }

    /// How long after it was sent a transmission is lost, if a later one has arrived. `pressing`: in
    /// recovery, or [`DUP_THRESH`] segments are selectively acknowledged.
    #[inline]
    pub fn patience(&self, pressing: bool, min_rtt: Span, srtt: Span) -> Span {
        let rtt = self.newest.map_or(Span::ZERO, |(_, rtt)| rtt);
        if pressing && !self.reordering_seen {
            return rtt;
        }
        rtt + (min_rtt * i64::from(self.multiplier) / 4).min(srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn the_newest_counts_and_a_quarter_is_waited() {
        let mut rack = Rack::default();
        rack.arrived(7, ms(44));
        rack.arrived(5, ms(80));
        assert_eq!(rack.newest(), Some(7));
        assert_eq!(rack.patience(false, ms(40), ms(50)), ms(54));
        assert_eq!(rack.patience(true, ms(40), ms(50)), ms(44));
    }

    #[test]
    fn reordering_and_duplicates_widen_the_window() {
        let mut rack = Rack::default();
        rack.arrived(7, ms(40));
        assert_eq!(rack.patience(true, ms(40), ms(50)), ms(40));
        rack.reordered();
        assert_eq!(rack.patience(true, ms(40), ms(50)), ms(50));
        // Once a round; no more than a smoothed round trip; forgotten after 16 recoveries.
        rack.duplicate(1000, 9000);
        rack.duplicate(8999, 20_000);
        assert_eq!(rack.patience(true, ms(40), ms(50)), ms(60));
        (0..10).for_each(|n| rack.duplicate(9000 + n * 20_000, 9000 + (n + 1) * 20_000));
        assert_eq!(rack.patience(true, ms(40), ms(50)), ms(90));
        (0..16).for_each(|_| rack.recovered());
        assert_eq!(rack.patience(true, ms(40), ms(50)), ms(50));
    }
}
