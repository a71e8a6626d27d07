//! One reaction a round trip.

use units::Time;

/// Guards against reacting twice to what one window of packets met (RFC 9002 section 7.3.2): a congestion
/// signal counts only if its packet was sent after the last reaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossEpoch {
    start: Option<Time>,
}

impl LossEpoch {
    /// A packet sent at `sent_at` met congestion: true if that opens a new epoch (at `now`), false if the
    /// current one covers it.
    pub fn opens(&mut self, sent_at: Time, now: Time) -> bool {
        let opens = !self.covers(sent_at);
        if opens {
            self.start = Some(now);
        }
        opens
    }

    /// A packet sent at `sent_at` belongs to the window that was reacted to already. "At or before": with
    /// equal times a second reaction would follow the first.
    pub fn covers(&self, sent_at: Time) -> bool {
        self.start.is_some_and(|start| sent_at <= start)
    }

    /// When the current epoch began.
    pub fn start(&self) -> Option<Time> {
        self.start
    }

    /// Forgets the epoch, as after persistent congestion (RFC 9002 appendix B.8).
    pub fn clear(&mut self) {
        self.start = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_round_by_send_time() {
        let ms = Time::from_millis;
        let mut epoch = LossEpoch::default();
        assert!(epoch.opens(ms(10), ms(50)));
        assert!(!epoch.opens(ms(20), ms(60)) && !epoch.opens(ms(50), ms(90)));
        assert!(epoch.opens(ms(51), ms(91)));
        epoch.clear();
        assert!(epoch.opens(ms(1), ms(99)));
    }
}
