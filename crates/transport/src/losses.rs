//! Which packets can no longer be on their way: RFC 9002 section 6.1.

use cc::{Acked, Lost};
use units::{Span, Time};

use crate::ledger::{Arrived, Carried, Ledger, State};
use crate::rtt::Rtt;

/// A packet is lost once one sent this many later has arrived (RFC 9002 section 6.1.1), ...
const PACKET_THRESHOLD: u64 = 3;
/// ... or more, after losses turned out to be reordering (the same section allows adapting), up to this.
const MAX_PACKET_THRESHOLD: u64 = 128;
/// Persistent congestion is this many probe timeouts without anything arriving (RFC 9002 section 7.6.1).
const PERSISTENT: i64 = 3;
/// What was given up is remembered for two round trips and so long, to recognise it should it arrive.
const LATE: Span = Span::from_millis(100);

/// What one report, or one look at the clock, settled. Kept and cleared by its owner, so that no report
/// allocates.
#[derive(Debug, Default)]
pub struct Settled {
    /// Newly acknowledged, by number.
    pub acked: Vec<Acked>,
    /// Newly lost, by number.
    pub lost: Vec<Lost>,
    /// Given up earlier, arrived after all.
    pub spurious: Vec<u64>,
    /// Newly acknowledged packets that were congestion-marked.
    pub ce_marks: u32,
    /// Everything over three probe timeouts was lost (RFC 9002 section 7.6).
    pub persistent_congestion: bool,
}

impl Settled {
    /// Empties every list and keeps its room.
    pub fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.spurious.clear();
        self.ce_marks = 0;
        self.persistent_congestion = false;
    }

    /// Nothing was acknowledged, lost or found to have arrived after all.
    pub fn is_empty(&self) -> bool {
        self.acked.is_empty() && self.lost.is_empty() && self.spurious.is_empty()
    }
}

/// Judges a ledger's packets by what has arrived: too many sent later, or too long ago. Both thresholds widen
/// when a loss turns out to have been reordering.
#[derive(Clone, Debug)]
pub struct LossDetection {
    /// Everything below is settled (but may be remembered, to tell spurious losses).
    settled_below: u64,
    largest_acked: Option<u64>,
    packet_threshold: u64,
    /// Added to the time threshold after losses turned out to be reordering.
    reordering: Span,
    loss_at: Option<Time>,
}

impl Default for LossDetection {
    fn default() -> LossDetection {
        LossDetection {
            settled_below: 0,
            largest_acked: None,
            packet_threshold: PACKET_THRESHOLD,
            reordering: Span::ZERO,
            loss_at: None,
        }
    }
}

impl LossDetection {
    /// When the oldest packet in flight must be looked at again, if reordering is still possible for it.
    pub fn loss_at(&self) -> Option<Time> {
        self.loss_at
    }

    /// Packet `packet` is reported to have arrived: enters it into `out` and returns true if that is news of
    /// a packet in flight.
    #[inline]
    pub fn arrived<T: Carried>(
        &mut self,
        now: Time,
        ledger: &mut Ledger<T>,
        packet: u64,
        arrived: Arrived,
        out: &mut Settled,
    ) -> bool {
        let Some(sent) = ledger.get(packet) else { return false };
        match sent.state {
            State::Acked | State::Moot => return false,
            State::Lost => {
                self.learn_reordering(packet, now - sent.sent_at);
                ledger.settle(packet, State::Acked);
                out.spurious.push(packet);
                return false;
            }
            State::InFlight => {}
        }
        let acked = ledger.acknowledge(now, packet, arrived);
        ledger.sample_from(acked.sent_at);
        out.ce_marks += u32::from(acked.ecn == units::Ecn::Ce);
        out.acked.push(acked);
        true
    }

    /// A loss was none: this much reordering is tolerated from now on.
    fn learn_reordering(&mut self, packet: u64, late: Span) {
        let distance = self.largest_acked.map_or(0, |largest| largest.saturating_sub(packet));
        self.packet_threshold = self.packet_threshold.max(distance + 1).min(MAX_PACKET_THRESHOLD);
        self.reordering = self.reordering.max(late / 4);
    }

    /// Gives up what can't be on its way any more, after a report or at [`loss_at`](LossDetection::loss_at).
    pub fn find<T: Carried>(&mut self, now: Time, ledger: &mut Ledger<T>, rtt: &Rtt, out: &mut Settled) {
        if let Some(last) = out.acked.last() {
            self.largest_acked = self.largest_acked.max(Some(last.packet));
        }
        self.loss_at = None;
        let Some(largest) = self.largest_acked else { return };
        // At most one smoothed round trip more than the RFC's 9/8.
        let delay = rtt.loss_delay() + self.reordering.min(rtt.smoothed());
        let mut settled_prefix = true;
        for packet in self.settled_below.max(ledger.oldest())..largest {
            let Some(sent) = ledger.get(packet).filter(|sent| sent.state == State::InFlight) else {
                self.settled_below = if settled_prefix { packet + 1 } else { self.settled_below };
                continue;
            };
            let overdue_at = sent.sent_at + delay;
            if largest >= packet + self.packet_threshold || overdue_at <= now {
                out.lost.push(ledger.lose(packet));
            } else {
                settled_prefix = false;
                self.loss_at = Some(self.loss_at.map_or(overdue_at, |at| at.min(overdue_at)));
            }
            self.settled_below = if settled_prefix { packet + 1 } else { self.settled_below };
        }
        out.persistent_congestion = is_persistent(&out.lost, rtt);
    }

    /// Forgets what is settled, but remembers losses for two round trips and a little: they may turn out to
    /// be reordering.
    pub fn trim<T: Carried>(&mut self, now: Time, ledger: &mut Ledger<T>, rtt: &Rtt) {
        let keep_lost = rtt.smoothed() * 2 + LATE;
        ledger.forget_while(|_, sent| match sent.state {
            State::InFlight => false,
            State::Lost => sent.sent_at + keep_lost <= now,
            State::Acked | State::Moot => true,
        });
        self.settled_below = self.settled_below.max(ledger.oldest());
    }
}

/// RFC 9002 section 7.6.2: an unbroken run of losses spans more than three probe timeouts.
fn is_persistent(lost: &[Lost], rtt: &Rtt) -> bool {
    let limit = rtt.probe_timeout() * PERSISTENT;
    lost.chunk_by(|a, b| a.packet + 1 == b.packet).any(|run| match run {
        [first, .., last] => last.sent_at - first.sent_at > limit,
        _ => false,
    })
}
