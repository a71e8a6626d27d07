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

/// A sample beyond this, 36 years less a bit, counts as it: eight of them can be added.
const LONGEST: Span = Span::from_nanos(i64::MAX / 8);

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
        let initial = initial.max(Span::ZERO).min(LONGEST);
        Rtt { latest: None, smoothed: initial, variation: initial / 2, min: initial }
    }

    /// Takes a sample, which is not negative; `held` is how long the receiver kept the acknowledgement back.
    #[inline]
    pub fn sample(&mut self, sample: Span, held: Span) {
        let sample = sample.max(Span::ZERO).min(LONGEST);
        if self.latest.replace(sample).is_none() {
            (self.smoothed, self.variation, self.min) = (sample, sample / 2, sample);
            return;
        }
        self.min = self.min.min(sample);
        let held = held.max(Span::ZERO).min(MAX_ACK_DELAY);
        let adjusted = if sample >= self.min + held { sample - held } else { sample };
        // None is negative, and no sum is too large.
        let [smoothed, variation, adjusted] =
            [self.smoothed, self.variation, adjusted].map(|span| span.as_nanos() as u64);
        self.variation = nanos((variation * 3 + smoothed.abs_diff(adjusted)) / 4);
        self.smoothed = nanos((smoothed * 7 + adjusted) / 8);
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
        // No sum is too large, as none is of a sample's.
        let [smoothed, variation] = [self.smoothed, self.variation].map(Span::as_nanos);
        Span::from_nanos(smoothed + (variation * 4).max(GRANULARITY.as_nanos()) + MAX_ACK_DELAY.as_nanos())
    }
}

#[inline]
fn nanos(nanos: u64) -> Span {
    Span::from_nanos(nanos as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Section 5.3's arithmetic, as it stands there.
        #[test]
        fn it_smooths_as_the_rfc_says_whatever_the_samples(
            samples in prop::collection::vec((prop_oneof![0..1_000_000_000_i64, any::<i64>()], any::<i64>()), 1..50),
        ) {
            let (mut rtt, mut plain) = (Rtt::default(), None::<(i128, i128, i128)>);
            for (sample, held) in samples {
                rtt.sample(Span::from_nanos(sample), Span::from_nanos(held));
                let sample = i128::from(sample.max(0).min(LONGEST.as_nanos()));
                plain = Some(match plain {
                    None => (sample, sample / 2, sample),
                    Some((smoothed, variation, min)) => {
                        let min = sample.min(min);
                        let held = i128::from(held).clamp(0, i128::from(MAX_ACK_DELAY.as_nanos()));
                        let adjusted = if sample >= min + held { sample - held } else { sample };
                        let variation = (variation * 3 + (smoothed - adjusted).abs()) / 4;
                        ((smoothed * 7 + adjusted) / 8, variation, min)
                    }
                });
                let told = [rtt.smoothed(), rtt.variation(), rtt.min()].map(|span| i128::from(span.as_nanos()));
                prop_assert_eq!(plain, Some(told.into()));
            }
        }
    }

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
