//! Round-trip time as RFC 9002 section 5 estimates it.

use units::Span;

/// Before any sample: shorter than RFC 9002's 333 ms, because a sender of live video is judged by its first
/// second.
const INITIAL: Span = Span::from_millis(100);
/// RFC 9002 section 6.1.2: timers have at least this granularity.
const GRANULARITY: Span = Span::from_millis(1);
/// How long the receiver may hold feedback back (this project's own by 20 ms, with scheduling slack).
const MAX_ACK_DELAY: Span = Span::from_millis(25);
/// Loss after this much reordering in time, in eighths of a round trip (RFC 9002 section 6.1.2: 9/8).
const TIME_THRESHOLD_EIGHTHS: i64 = 9;

/// Smoothed round-trip time and what hangs on it.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    latest: Option<Span>,
    smoothed: Span,
    variation: Span,
    min: Span,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt::starting_at(INITIAL)
    }
}

impl Rtt {
    /// An estimate that says `initial` until there is a sample.
    pub fn starting_at(initial: Span) -> Rtt {
        Rtt { latest: None, smoothed: initial, variation: initial / 2, min: initial }
    }

    /// Takes a sample; `held` is how long the receiver kept the acknowledgement back.
    #[inline]
    pub fn sample(&mut self, sample: Span, held: Span) {
        if self.latest.replace(sample).is_none() {
            (self.smoothed, self.variation, self.min) = (sample, sample / 2, sample);
            return;
        }
        self.min = self.min.min(sample);
        let held = held.max(Span::ZERO).min(MAX_ACK_DELAY);
        let adjusted = if sample >= self.min + held { sample - held } else { sample };
        self.variation = (self.variation * 3 + (self.smoothed - adjusted).abs()) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// The latest sample, once there is one.
    #[inline]
    pub fn latest(&self) -> Option<Span> {
        self.latest
    }
    /// Smoothed round-trip time.
    #[inline]
    pub fn smoothed(&self) -> Span {
        self.smoothed
    }
    /// Mean deviation.
    #[inline]
    pub fn variation(&self) -> Span {
        self.variation
    }
    /// The smallest sample.
    #[inline]
    pub fn min(&self) -> Span {
        self.min
    }
    /// A packet sent this long before one that arrived is lost.
    #[inline]
    pub fn loss_delay(&self) -> Span {
        let base = self.smoothed.max(self.latest.unwrap_or(Span::ZERO));
        (base * TIME_THRESHOLD_EIGHTHS / 8).max(GRANULARITY)
    }
    /// The probe timeout before back-off (RFC 9002 section 6.2.1).
    #[inline]
    pub fn probe_timeout(&self) -> Span {
        self.smoothed + (self.variation * 4).max(GRANULARITY) + MAX_ACK_DELAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_follows_rfc_9002() {
        let mut rtt = Rtt::default();
        rtt.sample(Span::from_millis(40), Span::ZERO);
        assert_eq!((rtt.smoothed(), rtt.variation()), (Span::from_millis(40), Span::from_millis(20)));
        rtt.sample(Span::from_millis(64), Span::from_millis(8));
        assert_eq!(rtt.smoothed(), Span::from_millis(42));
        assert_eq!(rtt.variation(), Span::from_millis(19));
        assert_eq!(rtt.min(), Span::from_millis(40));
    }

    #[test]
    fn a_lying_receiver_cannot_push_a_sample_below_the_minimum() {
        let mut rtt = Rtt::default();
        rtt.sample(Span::from_millis(40), Span::ZERO);
        rtt.sample(Span::from_millis(41), Span::from_secs(1));
        assert!(rtt.smoothed() >= Span::from_millis(40));
    }
}
