//! Round trips, counted by packets.

/// Counts round trips: one ends when a packet is acknowledged that was sent after the round began (BBR's
/// definition: its `delivered` at send time has reached what had been delivered at the start of the round).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    next: u64,
    count: u64,
}

impl Rounds {
    /// A packet was acknowledged that was sent when `delivered_then` bytes had been delivered, of `delivered`
    /// now: true if a round ends with it.
    pub fn update(&mut self, delivered_then: u64, delivered: u64) -> bool {
        let ends = delivered_then >= self.next;
        if ends {
            self.restart(delivered);
            self.count += 1;
        }
        ends
    }

    /// Begins a round now without ending one.
    pub fn restart(&mut self, delivered: u64) {
        self.next = delivered;
    }

    /// Rounds that have ended.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_a_packet_sent_in_it() {
        let mut rounds = Rounds::default();
        assert!(rounds.update(0, 1000));
        assert!(!rounds.update(0, 2000) && !rounds.update(999, 3000));
        assert!(rounds.update(1000, 4000));
        assert!(!rounds.update(3999, 5000));
        assert_eq!(rounds.count(), 2);
    }
}
