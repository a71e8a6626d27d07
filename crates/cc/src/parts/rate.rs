//! Delivery-rate samples (draft-ietf-ccwg-bbr section 4.1, draft-cheng-iccrg-delivery-rate-estimation).

use units::{Rate, Span};

use crate::{Acked, Report};

/// What one report says about the rate at which the path delivers. Of the packet that it hangs on
/// ([`sampled`]) a report says the rest: whether the rate is only a lower bound, for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Bytes delivered over `interval`, as a rate.
    pub rate: Rate,
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// The longer of the times it took to send them and to hear of them, so that neither compressed
    /// acknowledgements nor a slow sender inflate the rate.
    pub interval: Span,
    /// Bytes that had been delivered over the connection's life when the interval began.
    pub since: u64,
}

/// The packet that a report's sample hangs on: the one sent last among those acknowledged.
#[inline]
pub fn sampled<'a>(report: &Report<'a>) -> Option<&'a Acked> {
    debug_assert!(report.acked.is_sorted_by_key(|acked| (acked.delivery.delivered, acked.packet)));
    report.acked.last()
}

/// The sample of a report, if it acknowledges anything and the interval is long enough to mean something: an
/// interval shorter than the smallest round trip can only be an artefact.
#[inline]
pub fn rate_sample(report: &Report<'_>) -> Option<RateSample> {
    let base = sampled(report)?;
    let then = &base.delivery;
    let interval = (base.sent_at - then.first_sent_at).max(report.now - then.delivered_at);
    if interval < report.min_rtt || !interval.is_positive() {
        return None;
    }
    Some(RateSample::new(then.delivered, report.delivered, interval))
}

impl RateSample {
    /// `delivered` bytes over the connection's life now, of which there were `since` an `interval` ago.
    pub(crate) fn new(since: u64, delivered: u64, interval: Span) -> RateSample {
        let delivered = delivered.saturating_sub(since);
        let rate = Rate::from_f64(delivered as f64 * 8.0 / interval.as_secs_f64());
        RateSample { rate, delivered, interval, since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delivery;
    use crate::controller::tests::{acked, report};
    use units::Time;

    #[test]
    fn the_longer_of_sending_and_hearing_counts() {
        let then = Delivery {
            delivered: 10_000,
            delivered_at: Time::from_millis(50),
            first_sent_at: Time::from_millis(10),
            ..Delivery::default()
        };
        let acks = [Acked { delivery: then, ..acked(90, 1000) }];
        let report = Report { delivered: 20_000, ..report(&acks, &[]) };
        // Sent over 80 ms, heard of over 50 ms: 10 kB in 80 ms are 1 Mbit/s.
        let sample = rate_sample(&report).unwrap();
        assert_eq!((sample.rate, sample.interval), (Rate::from_mbps(1), Span::from_millis(80)));
        // Less than the smallest round trip (40 ms) says nothing.
        let hasty = [Acked {
            delivery: Delivery {
                delivered_at: Time::from_millis(99),
                first_sent_at: Time::from_millis(89),
                ..then
            },
            ..acked(90, 1000)
        }];
        assert!(rate_sample(&Report { acked: &hasty, ..report }).is_none());
        assert!(rate_sample(&Report { acked: &[], ..report }).is_none());
    }
}
