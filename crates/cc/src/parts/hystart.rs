//! HyStart++ (RFC 9406): leaves slow start when the round trip grows, before the queue overflows.
//!
//! ```text
//! slow start --min RTT of a round up by 1/8--> conservative slow start (a quarter of the growth) --5 rounds--> the end
//!      ^------------min RTT below the one at entry------------'
//! ```

use units::{RelativeDelay, Span};

use super::Rounds;
use crate::Report;

/// Smallest rise of the round trip that counts (RFC 9406 section 4.3, MIN_RTT_THRESH) ...
const LEAST_RISE: Span = Span::from_millis(4);
/// ... and the largest rise asked for (MAX_RTT_THRESH) ...
const MOST_RISE: Span = Span::from_millis(16);
/// ... of this part of the round trip in between (MIN_RTT_DIVISOR).
const RISE_DIVISOR: i64 = 8;
/// Samples a round needs before its minimum counts (N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// Conservative slow start grows this many times slower (CSS_GROWTH_DIVISOR) ...
const GROWTH_DIVISOR: u64 = 4;
/// ... and lasts this many rounds (CSS_ROUNDS).
const CONSERVATIVE_ROUNDS: u32 = 5;

/// Watches one slow start. All senders here are paced, so growth per acknowledgement has no limit of its own
/// (L is infinite).
///
/// Deviation: every acknowledged packet gives a sample, not every acknowledgement, with the time that the
/// receiver held it back taken out by its timestamps. Feedback that comes once a frame would give two or
/// three samples a round, never eight.
#[derive(Clone, Debug, Default)]
pub struct HyStart {
    rounds: Rounds,
    /// Smallest round trip of the last round and of this one, and samples in this one.
    last: Option<Span>,
    current: Option<Span>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Growth is slowed, in case the rise was jitter.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// Smallest round trip when it began.
    baseline: Span,
    /// Rounds it has seen the end of; the one it began in counts.
    rounds: u32,
}

impl HyStart {
    /// Takes a report; true if slow start is over.
    pub fn ends(&mut self, report: &Report<'_>) -> bool {
        let newest = report
            .acked
            .iter()
            .rev()
            .find_map(|acked| Some(acked.arrived_at?.delay_since(acked.sent_at)))
            .zip(report.latest_rtt);
        for acked in report.acked {
            if self.rounds.update(acked.delivery.delivered, report.delivered) && self.next_round() {
                return true;
            }
            if let Some((arrived_at, newest)) = acked.arrived_at.zip(newest) {
                self.sample(round_trip(arrived_at.delay_since(acked.sent_at), newest));
            }
        }
        false
    }

    /// How much the window may grow by for `bytes` acknowledged.
    pub fn growth(&self, bytes: u64) -> u64 {
        if self.conservative.is_some() { bytes / GROWTH_DIVISOR } else { bytes }
    }

    fn next_round(&mut self) -> bool {
        self.last = self.current.take();
        self.samples = 0;
        self.conservative.as_mut().is_some_and(|conservative| {
            conservative.rounds += 1;
            conservative.rounds >= CONSERVATIVE_ROUNDS
        })
    }

    fn sample(&mut self, rtt: Span) {
        let current = self.current.map_or(rtt, |current| current.min(rtt));
        self.current = Some(current);
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return;
        }
        match (self.conservative, self.last) {
            (Some(Conservative { baseline, .. }), _) if current < baseline => self.conservative = None,
            (None, Some(last)) if current >= last + rise(last) => {
                self.conservative = Some(Conservative { baseline: current, rounds: 0 });
            }
            _ => {}
        }
    }
}

/// The rise over a round trip of `last` that counts as a queue.
fn rise(last: Span) -> Span {
    (last / RISE_DIVISOR).max(LEAST_RISE).min(MOST_RISE)
}

/// A packet's round trip, of its one-way delay and of the delay and round trip of the packet the report was
/// sent for.
fn round_trip(delay: RelativeDelay, (newest, rtt): (RelativeDelay, Span)) -> Span {
    (rtt + (delay - newest)).max(Span::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Acked;
    use crate::controller::tests::{acked, report};

    /// A round of `count` packets with round trips of `rtt`: true if slow start ends.
    fn round(hystart: &mut HyStart, number: u64, rtt: f64, count: u64) -> bool {
        let rtt = Span::from_secs_f64(rtt * 1e-3);
        (0..count).any(|n| {
            let mut ack = acked(number * 100 + n, 1000);
            // The first of a round was sent when all of the round before was delivered.
            ack.delivery.delivered = if n == 0 { number * 100_000 } else { number * 100_000 - 1 };
            let delivered = if n == 0 { (number + 1) * 100_000 } else { number * 100_000 + n };
            hystart.ends(&Report { latest_rtt: Some(rtt), delivered, ..report(&[ack], &[]) })
        })
    }

    #[test]
    fn an_eighth_more_slows_growth_and_five_rounds_end_it() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, 1, 40.0, 10) && !round(&mut hystart, 2, 44.9, 10));
        assert_eq!(hystart.growth(1000), 1000, "4.9 ms are less than an eighth of 40");
        // An eighth of 44.9 is 5.6: too few samples first, then enough.
        assert!(!round(&mut hystart, 3, 50.6, 7));
        assert_eq!(hystart.growth(1000), 1000);
        assert!(!round(&mut hystart, 4, 56.95, 10));
        assert_eq!(hystart.growth(1000), 250);
        // The round it began in counts: four more follow, and the next one's first packet ends it.
        assert!((5..9).all(|n| !round(&mut hystart, n, 57.0, 10)));
        assert!(round(&mut hystart, 9, 57.0, 10));
    }

    #[test]
    fn jitter_is_forgiven() {
        let mut hystart = HyStart::default();
        assert!(!round(&mut hystart, 1, 40.0, 10) && !round(&mut hystart, 2, 46.0, 10));
        assert_eq!(hystart.growth(1000), 250);
        assert!(!round(&mut hystart, 3, 45.0, 10));
        assert_eq!(hystart.growth(1000), 1000);
    }

    #[test]
    fn the_rise_is_an_eighth_within_4_and_16_ms() {
        let ms = Span::from_millis;
        assert_eq!([8, 32, 80, 128, 400].map(|last| rise(ms(last))), [4, 4, 10, 16, 16].map(ms));
    }

    #[test]
    fn a_packet_the_receiver_held_back_gives_its_own_round_trip() {
        // Packet 1 took 20 ms and waited 8 ms for packet 9, which took 22: the report's 44 ms are the
        // latter's.
        let early = acked(1, 1000);
        let late = Acked { arrived_at: acked(11, 1000).arrived_at, ..acked(9, 1000) };
        let mut hystart = HyStart::default();
        let acks = [early, late];
        let latest_rtt = Some(Span::from_millis(44));
        hystart.ends(&Report { latest_rtt, delivered: 2000, ..report(&acks, &[]) });
        assert_eq!(hystart.current, Some(Span::from_millis(42)));
    }
}
