//! Round-trip time and the retransmission timeout (RFC 6298).

use units::Span;

/// RFC 6298 section 2.1: before any sample.
const INITIAL_RTO: Span = Span::from_secs(1);
/// What controllers are told before any sample (RFC 9002 section 6.2.2).
const INITIAL_RTT: Span = Span::from_millis(333);
/// RFC 6298 section 2: the clock's granularity. Times here are exact; this keeps the timeout above a constant
/// round trip.
const GRANULARITY: Span = Span::from_millis(1);

/// Smoothed round-trip time and what hangs on it.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    latest: Option<Span>,
    smoothed: Option<Span>,
    variation: Span,
    min: Option<Span>,
    backoff: u32,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt { latest: None, smoothed: None, variation: INITIAL_RTT / 2, min: None, backoff: 0 }
    }
}

impl Rtt {
    /// Takes the round trips of one acknowledgement: that of the oldest segment it acknowledges, which
    /// includes the receiver's delay, for the timeout, and that of the newest one for all else. Ends the
    /// back-off (Karn's second rule).
    #[inline]
    pub fn sample(&mut self, oldest: Span, newest: Span) {
        self.backoff = 0;
        self.latest = Some(newest);
        self.min = Some(self.min.map_or(newest, |min| min.min(newest)));
        match &mut self.smoothed {
            None => (self.smoothed, self.variation) = (Some(oldest), oldest / 2),
            Some(smoothed) => {
                // RFC 6298 section 2.3, in this order.
                self.variation = (self.variation * 3 + (*smoothed - oldest).abs()) / 4;
                *smoothed = (*smoothed * 7 + oldest) / 8;
            }
        }
    }

    /// The retransmission timeout, back-off included.
    #[inline]
    pub fn timeout(&self, min: Span, max: Span) -> Span {
        let base = match self.smoothed {
            None => INITIAL_RTO,
            Some(smoothed) => smoothed + (self.variation * 4).max(GRANULARITY),
        };
        // Saturates long before the shift matters: 60 s are 2^9 times 100 ms.
        (base.max(min) * (1 << self.backoff.min(20))).min(max)
    }

    /// Doubles the timeout until the next sample (RFC 6298 section 5.5).
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// The latest sample, once there is one.
    pub fn latest(&self) -> Option<Span> {
        self.latest
    }
    /// True once there was a sample.
    pub fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }
    /// Smoothed round-trip time.
    #[inline]
    pub fn smoothed(&self) -> Span {
        self.smoothed.unwrap_or(INITIAL_RTT)
    }
    /// Mean deviation.
    pub fn variation(&self) -> Span {
        self.variation
    }
    /// The smallest sample.
    #[inline]
    pub fn min(&self) -> Span {
        self.min.unwrap_or(INITIAL_RTT)
    }
    /// What is too fast to be an answer; nothing before the first sample.
    #[inline]
    pub fn least_answer(&self) -> Span {
        self.min.unwrap_or(Span::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Span = Span::from_millis(200);
    const MAX: Span = Span::from_secs(60);

    fn ms(ms: i64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn smoothing_follows_rfc_6298() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(MIN, MAX), Span::from_secs(1));
        rtt.sample(ms(80), ms(40));
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.min()), (ms(80), ms(40), ms(40)));
        assert_eq!(rtt.timeout(MIN, MAX), ms(240));
        rtt.sample(ms(160), ms(120));
        assert_eq!((rtt.smoothed(), rtt.variation()), (ms(90), ms(50)));
        assert_eq!((rtt.timeout(MIN, MAX), rtt.timeout(Span::from_secs(1), MAX)), (ms(290), ms(1000)));
    }

    #[test]
    fn timeouts_double_up_to_the_limit_until_a_sample() {
        let mut rtt = Rtt::default();
        rtt.sample(ms(40), ms(40));
        let timeouts: Vec<_> = (0..10)
            .map(|_| {
                let timeout = rtt.timeout(Span::from_secs(1), MAX);
                rtt.back_off();
                timeout.as_nanos() / 1_000_000_000
            })
            .collect();
        assert_eq!(timeouts, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        rtt.sample(ms(40), ms(40));
        assert_eq!(rtt.timeout(MIN, MAX), MIN);
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(MIN, MAX), MAX);
    }
}
