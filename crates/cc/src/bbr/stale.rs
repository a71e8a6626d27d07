//! The delivery-rate sample as ns-3 took it when CC-Fuzz was written, for its mutant of BBR (thesis section
//! 7.4.1).
//!
//! ns-3 keeps one sample for a connection's life and fills it in anew as packets are acknowledged
//! (`TcpRateLinux`, up to its version 3.41 of February 2024). Two things about it were mended since:
//!
//! * The time that acknowledging took is counted from the *previous* sample's snapshot (its issue 1026), and
//!   after a sample that was found invalid there is none: it is counted from the beginning of the simulation.
//! * BBR takes an invalid sample for a valid one with the last rate (its issue 735).
//!
//! So when originals are acknowledged just after their spurious retransmissions, every other sample is
//! shorter than a round trip and repeats the last rate, those between are as long as the simulation and hold
//! one packet, and each ends a round. Ten of them, and the bandwidth is what one packet makes of the whole
//! time: some kilobits a second, for good.

use units::{Rate, Span, Time, likely, unlikely};

use crate::Report;
use crate::parts::RateSample;

/// A sample that outlives its acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaleSample {
    newest: RateSample,
    /// When the snapshot of the newest packet was taken; `None` once a sample was invalid.
    prior: Option<Time>,
    send_elapsed: Span,
    ack_elapsed: Span,
}

impl StaleSample {
    /// What ns-3 would have told its BBR about this report.
    #[inline]
    pub fn update(&mut self, report: &Report<'_>) -> Option<RateSample> {
        report.acked.first()?;
        for acked in report.acked {
            let then = &acked.delivery;
            if self.newest.since == 0 || then.delivered > self.newest.since {
                self.ack_elapsed = report.now - self.prior.unwrap_or(Time::ZERO);
                self.send_elapsed = acked.sent_at - then.first_sent_at;
                self.prior = Some(then.delivered_at);
                self.newest.since = then.delivered;
            }
        }
        let interval = self.send_elapsed.max(self.ack_elapsed);
        if unlikely(interval < report.min_rtt) {
            self.prior = None;
        }
        let sample = RateSample::new(self.newest.since, report.delivered, interval);
        let valid = self.prior.is_some() && interval.is_positive();
        let rate = if likely(valid) { sample.rate } else { self.newest.rate };
        self.newest = RateSample { rate, ..sample };
        Some(self.newest).filter(|sample| sample.rate > Rate::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, report};
    use crate::{Acked, Delivery};

    /// A packet of 1500 bytes, sent at `sent_ms`, when so many bytes had been delivered, the last of them at
    /// `at_ms`.
    fn packet(sent_ms: u64, delivered: u64, at_ms: u64) -> [Acked; 1] {
        let (delivered_at, first_sent_at) = (Time::from_millis(at_ms), Time::from_millis(at_ms));
        let delivery = Delivery { delivered, delivered_at, first_sent_at, ..Delivery::default() };
        [Acked { delivery, ..acked(sent_ms, 1500) }]
    }

    #[test]
    fn what_is_invalid_repeats_and_what_follows_takes_the_whole_time() {
        let mut stale = StaleSample::default();
        let mut rate = |now_ms, acked: &[Acked], delivered| {
            let now = Time::from_millis(now_ms);
            stale
                .update(&Report { now, delivered, min_rtt: Span::from_millis(40), ..report(acked, &[]) })
                .unwrap()
                .rate
        };
        // The first counts from the beginning: 60 kB in 4 s. The second from the first one's snapshot: 60 kB
        // in 50 ms.
        assert_eq!(rate(4_000, &packet(3_960, 600_000, 3_960), 660_000), Rate::from_kbps(120));
        assert_eq!(rate(4_010, &packet(3_970, 615_000, 3_970), 675_000), Rate::from_kbps(9_600));
        // After a second's silence packets are sent again, and their originals acknowledged at once: one
        // packet in a second, ...
        let first = packet(4_999, 676_500, 4_990);
        assert_eq!(rate(5_000, &first, 678_000), Rate::from_f64(1_500.0 * 8.0 / 1.03));
        // ... too short, so the last rate once more, ...
        let again = packet(5_000, 678_000, 5_000);
        assert_eq!(rate(5_001, &again, 679_500), Rate::from_f64(1_500.0 * 8.0 / 1.03));
        // ... and then one in five seconds.
        let after = packet(5_001, 679_500, 5_001);
        assert_eq!(rate(5_002, &after, 681_000), Rate::from_f64(1_500.0 * 8.0 / 5.002));
    }
}
