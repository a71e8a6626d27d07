//! Nothing is heard: the retransmission timeout of rate-based controllers.

use units::{Span, Time};

/// A timeout is at least this long: as long as the session lets a probe timeout become.
const MIN_TIMEOUT: Span = Span::from_millis(500);
/// Timeouts in a row double up to this many times (RFC 6298 section 5.5).
const MOST_BACKOFF: u32 = 6;

/// Notices that packets are in flight and nothing comes back: srtt + 4 rttvar (RFC 6298 section 2), doubled
/// each time in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// Since when, while something is in flight.
    since: Option<Time>,
    in_a_row: u32,
}

impl Silence {
    /// A packet was sent at `now`.
    pub fn sent(&mut self, now: Time) {
        self.since = self.since.or(Some(now));
    }

    /// A packet was acknowledged at `now`; `waiting` if more are in flight.
    pub fn heard(&mut self, now: Time, waiting: bool) {
        *self = Silence { since: waiting.then_some(now), in_a_row: 0 };
    }

    /// Something is in flight.
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// When the timeout ends, if one runs.
    pub fn due_at(&self, srtt: Span, rttvar: Span) -> Option<Time> {
        let timeout = (srtt + rttvar * 4).max(MIN_TIMEOUT);
        self.since.map(|since| since + timeout * (1 << self.in_a_row.min(MOST_BACKOFF)))
    }

    /// The timeout was reacted to at `now`.
    pub fn reacted(&mut self, now: Time) {
        *self = Silence { since: Some(now), in_a_row: self.in_a_row.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_double_until_something_is_heard() {
        let ms = Time::from_millis;
        let (srtt, rttvar) = (Span::from_millis(40), Span::from_millis(5));
        let mut silence = Silence::default();
        assert_eq!(silence.due_at(srtt, rttvar), None);
        silence.sent(ms(100));
        silence.sent(ms(200));
        assert_eq!(silence.due_at(srtt, rttvar), Some(ms(600)));
        silence.reacted(ms(600));
        assert_eq!(silence.due_at(srtt, rttvar), Some(ms(1600)));
        assert_eq!(silence.due_at(Span::from_millis(700), rttvar), Some(ms(2040)));
        silence.heard(ms(2000), true);
        assert_eq!(silence.due_at(srtt, rttvar), Some(ms(2500)));
        silence.heard(ms(2100), false);
        assert!(silence.due_at(srtt, rttvar).is_none() && !silence.is_waiting());
    }
}
