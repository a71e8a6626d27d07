//! Every packet sent, until nothing more can be learnt about it: in flight, acknowledged or given up.

use std::collections::VecDeque;

use cc::{Acked, Delivery, FrameTag, Lost};
use units::{Bytes, Ecn, RemoteTime, Span, Time};
use wire::Feedback;

use crate::rtt::Rtt;

/// Packets remembered at most: 6.5 s at 100 Mbit/s. Older ones in flight are given up.
const CAPACITY: usize = 1 << 16;
/// A packet is lost once one sent this many later has arrived (RFC 9002 section 6.1.1), ...
const PACKET_THRESHOLD: u64 = 3;
/// ... or more, after losses turned out to be reordering (the same section allows adapting), up to this.
const MAX_PACKET_THRESHOLD: u64 = 128;
/// Persistent congestion is this many probe timeouts without anything arriving (RFC 9002 section 7.6.1).
const PERSISTENT: i64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Acked,
    Lost,
}

/// One transmission.
#[derive(Clone, Copy, Debug)]
struct Slot {
    sent_at: Time,
    size: u32,
    state: State,
    frame: Option<FrameTag>,
    delivery: Delivery,
}

/// A transmission to be remembered.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    /// When it left.
    pub sent_at: Time,
    /// UDP payload bytes.
    pub size: u32,
    /// Its frame, if it carries one's bytes.
    pub frame: Option<FrameTag>,
    /// The sender had nothing more to send.
    pub app_limited: bool,
}

/// What one settling found. Kept and cleared by the caller, so that no report allocates.
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
    /// Everything over three probe timeouts was lost.
    pub persistent_congestion: bool,
}

impl Settled {
    fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.spurious.clear();
        self.ce_marks = 0;
        self.persistent_congestion = false;
    }

    /// Nothing happened.
    pub fn is_empty(&self) -> bool {
        self.acked.is_empty() && self.lost.is_empty() && self.spurious.is_empty()
    }
}

/// A report of a packet that was never sent: the whole feedback packet is a lie or of another life.
#[derive(Debug, PartialEq, Eq)]
pub struct NeverSent;

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    slots: VecDeque<Slot>,
    /// Number of the front slot.
    base: u64,
    in_flight: u64,
    /// Everything below is settled (but maybe kept, to tell spurious losses).
    settled_below: u64,
    largest_acked: Option<u64>,
    packet_threshold: u64,
    /// Added to the time threshold after losses turned out to be reordering.
    reordering: Span,
    loss_at: Option<Time>,
    delivered: u64,
    lost: u64,
    /// Delivery samples are bounded by the application until this much is delivered (draft-ietf-ccwg-bbr section 4.1.2).
    app_limited_until: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            slots: VecDeque::new(),
            base: 0,
            in_flight: 0,
            settled_below: 0,
            largest_acked: None,
            packet_threshold: PACKET_THRESHOLD,
            reordering: Span::ZERO,
            loss_at: None,
            delivered: 0,
            lost: 0,
            app_limited_until: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
        }
    }
}

impl Ledger {
    /// The number the next transmission gets.
    #[inline]
    pub fn next_packet(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Bytes in flight.
    #[inline]
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.in_flight)
    }

    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes given up as lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// When the oldest packet in flight must be looked at again, if reordering is still possible for it.
    pub fn loss_at(&self) -> Option<Time> {
        self.loss_at
    }

    /// Remembers a transmission and returns its number.
    #[inline]
    pub fn sent(&mut self, transmission: &Transmission) -> u64 {
        if self.slots.len() == CAPACITY {
            self.forget_oldest();
        }
        if self.in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (transmission.sent_at, transmission.sent_at);
        }
        let number = self.next_packet();
        if transmission.app_limited {
            // What is sent from here on, until all of this is delivered, samples the application as well as the path.
            self.app_limited_until = self.delivered + self.in_flight + u64::from(transmission.size);
        }
        self.in_flight += u64::from(transmission.size);
        self.slots.push_back(Slot {
            sent_at: transmission.sent_at,
            size: transmission.size,
            state: State::InFlight,
            frame: transmission.frame,
            delivery: Delivery {
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_sent_at: self.first_sent_at,
                app_limited: self.delivered < self.app_limited_until,
                in_flight: self.in_flight,
                lost: self.lost,
            },
        });
        number
    }

    fn forget_oldest(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.base += 1;
            self.settled_below = self.settled_below.max(self.base);
            if slot.state == State::InFlight {
                self.in_flight -= u64::from(slot.size);
            }
        }
    }

    /// Settles what `feedback` says, then looks for losses. `gap`: feedback packets before this one are missing, so its
    /// untimed ranges may tell something new.
    ///
    /// # Errors
    /// [`NeverSent`] if it names a packet that was never sent; nothing is changed then.
    pub fn settle(
        &mut self,
        now: Time,
        feedback: &Feedback<'_>,
        gap: bool,
        rtt: &mut Rtt,
        out: &mut Settled,
    ) -> Result<(), NeverSent> {
        out.clear();
        if feedback.newest().is_some_and(|newest| newest >= self.next_packet()) {
            return Err(NeverSent);
        }
        let mut newest_timed = None;
        for arrival in feedback.arrivals() {
            if self.acknowledge(now, arrival.packet, Some(arrival.at), arrival.ecn, out) {
                newest_timed = Some(arrival);
            }
        }
        if gap {
            self.settle_ranges(now, feedback, out);
        }
        if let Some(arrival) = newest_timed {
            let sent_at = self.slots[(arrival.packet - self.base) as usize].sent_at;
            rtt.sample(now - sent_at, feedback.sent - arrival.at);
        }
        if let Some(last) = out.acked.last() {
            self.largest_acked = self.largest_acked.max(Some(last.packet));
        }
        self.find_losses(now, rtt, out);
        self.trim(now, rtt);
        Ok(())
    }

    fn settle_ranges(&mut self, now: Time, feedback: &Feedback<'_>, out: &mut Settled) {
        let timed = out.acked.len();
        for (low, high) in feedback.ranges() {
            for packet in low.max(self.base)..=high {
                self.acknowledge(now, packet, None, Ecn::NotEct, out);
            }
        }
        if out.acked.len() > timed {
            out.acked.sort_unstable_by_key(|acked| acked.packet);
        }
    }

    /// True if this was news of a packet in flight.
    #[inline]
    fn acknowledge(
        &mut self,
        now: Time,
        packet: u64,
        at: Option<RemoteTime>,
        ecn: Ecn,
        out: &mut Settled,
    ) -> bool {
        let Some(slot) = packet.checked_sub(self.base).and_then(|index| self.slots.get_mut(index as usize))
        else {
            return false;
        };
        match slot.state {
            State::Acked => return false,
            State::Lost => {
                slot.state = State::Acked;
                let late = now - slot.sent_at;
                self.learn_reordering(packet, late);
                out.spurious.push(packet);
                return false;
            }
            State::InFlight => slot.state = State::Acked,
        }
        self.in_flight -= u64::from(slot.size);
        self.delivered += u64::from(slot.size);
        self.delivered_at = now;
        self.first_sent_at = slot.sent_at;
        out.ce_marks += u32::from(ecn == Ecn::Ce);
        out.acked.push(Acked {
            packet,
            sent_at: slot.sent_at,
            arrived_at: at,
            size: slot.size,
            ecn,
            frame: slot.frame,
            delivery: slot.delivery,
        });
        true
    }

    /// A loss was none: tolerate this much reordering from now on.
    fn learn_reordering(&mut self, packet: u64, late: Span) {
        let distance = self.largest_acked.map_or(0, |largest| largest.saturating_sub(packet));
        self.packet_threshold = self.packet_threshold.max(distance + 1).min(MAX_PACKET_THRESHOLD);
        self.reordering = self.reordering.max(late / 4);
    }

    /// Looks for packets that can no longer be on their way (RFC 9002 section 6.1), at a report or at
    /// [`loss_at`](Ledger::loss_at).
    pub fn find_losses_at(&mut self, now: Time, rtt: &Rtt, out: &mut Settled) {
        out.clear();
        self.find_losses(now, rtt, out);
    }

    fn find_losses(&mut self, now: Time, rtt: &Rtt, out: &mut Settled) {
        self.loss_at = None;
        let Some(largest) = self.largest_acked else { return };
        // At most one smoothed round trip more than the RFC's 9/8.
        let delay = rtt.loss_delay() + self.reordering.min(rtt.smoothed());
        let mut settled_prefix = true;
        for packet in self.settled_below.max(self.base)..largest {
            let slot = &mut self.slots[(packet - self.base) as usize];
            if slot.state == State::InFlight {
                if largest >= packet + self.packet_threshold || slot.sent_at + delay <= now {
                    slot.state = State::Lost;
                    self.in_flight -= u64::from(slot.size);
                    self.lost += u64::from(slot.size);
                    out.lost.push(Lost {
                        packet,
                        sent_at: slot.sent_at,
                        size: slot.size,
                        frame: slot.frame,
                        delivery: slot.delivery,
                    });
                } else {
                    settled_prefix = false;
                    self.loss_at =
                        Some(self.loss_at.map_or(slot.sent_at + delay, |at| at.min(slot.sent_at + delay)));
                }
            }
            if settled_prefix {
                self.settled_below = packet + 1;
            }
        }
        out.persistent_congestion = is_persistent(&out.lost, rtt);
    }

    /// Forgets what is settled, but keeps losses for two round trips: they may turn out to be reordering.
    fn trim(&mut self, now: Time, rtt: &Rtt) {
        let keep_lost = rtt.smoothed() * 2 + Span::from_millis(100);
        while let Some(slot) = self.slots.front() {
            match slot.state {
                State::InFlight => break,
                State::Lost if slot.sent_at + keep_lost > now => break,
                State::Acked | State::Lost => {
                    self.slots.pop_front();
                    self.base += 1;
                }
            }
        }
        self.settled_below = self.settled_below.max(self.base);
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

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Arrival, FeedbackWriter};

    fn send(ledger: &mut Ledger, count: u64) {
        for _ in 0..count {
            let sent_at = Time::from_millis(ledger.next_packet());
            ledger.sent(&Transmission { sent_at, size: 1000, frame: None, app_limited: false });
        }
    }

    /// Settles a report of `numbers` arriving 20 ms after they left, read back at `now` ms.
    fn report(ledger: &mut Ledger, rtt: &mut Rtt, now: u64, timed: &[u64], ranges: &[(u64, u64)]) -> Settled {
        let arrivals: Vec<_> = timed
            .iter()
            .map(|&packet| Arrival { packet, at: Time::from_millis(packet + 20).on_wire(), ecn: Ecn::NotEct })
            .collect();
        let mut bytes = [0; 1200];
        let sent = Time::from_millis(now - 20);
        let (length, _) = FeedbackWriter::write(&mut bytes, 1, 1, sent, 0, &[], &arrivals, ranges.iter());
        let feedback = Feedback::decode(&bytes[..length]).unwrap();
        let mut out = Settled::default();
        ledger.settle(Time::from_millis(now), &feedback, true, rtt, &mut out).unwrap();
        out
    }

    fn numbers(lost: &[Lost]) -> Vec<u64> {
        lost.iter().map(|l| l.packet).collect()
    }

    #[test]
    fn three_later_arrivals_make_a_loss() {
        let (mut ledger, mut rtt) = (Ledger::default(), Rtt::default());
        send(&mut ledger, 8);
        let out = report(&mut ledger, &mut rtt, 50, &[0, 2, 3], &[(2, 3), (0, 0)]);
        assert_eq!((out.acked.len(), numbers(&out.lost)), (3, vec![]));
        let out = report(&mut ledger, &mut rtt, 51, &[4], &[(2, 4), (0, 0)]);
        assert_eq!((out.acked.len(), numbers(&out.lost)), (1, vec![1]));
        assert_eq!(ledger.in_flight(), Bytes::new(3000));
    }

    #[test]
    fn time_makes_a_loss_and_the_timer_says_when() {
        let (mut ledger, mut rtt) = (Ledger::default(), Rtt::default());
        send(&mut ledger, 3);
        let out = report(&mut ledger, &mut rtt, 42, &[0, 2], &[(2, 2), (0, 0)]);
        assert!(out.lost.is_empty());
        // Sample 40 ms: 9/8 of it after packet 1 left at 1 ms.
        assert_eq!(ledger.loss_at(), Some(Time::from_millis(46)));
        let mut out = Settled::default();
        ledger.find_losses_at(Time::from_millis(46), &rtt, &mut out);
        assert_eq!(numbers(&out.lost), [1]);
        assert_eq!((ledger.loss_at(), ledger.in_flight()), (None, Bytes::ZERO));
    }

    #[test]
    fn a_spurious_loss_widens_the_thresholds() {
        let (mut ledger, mut rtt) = (Ledger::default(), Rtt::default());
        send(&mut ledger, 20);
        assert_eq!(numbers(&report(&mut ledger, &mut rtt, 50, &[0, 6], &[(6, 6), (0, 0)]).lost), [1, 2, 3]);
        assert_eq!(report(&mut ledger, &mut rtt, 51, &[1], &[(6, 6), (0, 1)]).spurious, [1]);
        let out = report(&mut ledger, &mut rtt, 52, &[10], &[(10, 10)]);
        assert_eq!(numbers(&out.lost), [4], "5 and 7 to 9 are within the reordering seen");
    }

    #[test]
    fn ranges_settle_what_lost_reports_would_have_timed() {
        let (mut ledger, mut rtt) = (Ledger::default(), Rtt::default());
        send(&mut ledger, 10);
        let out = report(&mut ledger, &mut rtt, 50, &[9], &[(0, 9)]);
        assert_eq!(out.acked.len(), 10);
        assert_eq!(out.acked.iter().filter(|a| a.arrived_at.is_some()).count(), 1);
        assert!(out.acked.is_sorted_by_key(|a| a.packet));
        assert_eq!(ledger.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn a_report_of_what_was_never_sent_changes_nothing() {
        let (mut ledger, mut rtt) = (Ledger::default(), Rtt::default());
        send(&mut ledger, 4);
        let arrivals = [Arrival { packet: 9, at: RemoteTime::from_nanos(0), ecn: Ecn::NotEct }];
        let mut bytes = [0; 1200];
        let (length, _) =
            FeedbackWriter::write(&mut bytes, 1, 1, Time::ZERO, 0, &[], &arrivals, [(0, 9)].iter());
        let feedback = Feedback::decode(&bytes[..length]).unwrap();
        let mut out = Settled::default();
        assert_eq!(ledger.settle(Time::ZERO, &feedback, true, &mut rtt, &mut out), Err(NeverSent));
        assert_eq!(ledger.in_flight(), Bytes::new(4000));
    }

    #[test]
    fn a_long_unbroken_run_of_losses_is_persistent_congestion() {
        let (mut ledger, mut rtt) = (Ledger::default(), Rtt::default());
        send(&mut ledger, 1000);
        report(&mut ledger, &mut rtt, 40, &[0], &[(0, 0)]);
        let out = report(&mut ledger, &mut rtt, 1050, &[990], &[(990, 990), (0, 0)]);
        assert!(out.persistent_congestion && out.lost.len() > 900);
    }

    #[test]
    fn memory_is_bounded_without_feedback() {
        let mut ledger = Ledger::default();
        send(&mut ledger, 3 * CAPACITY as u64);
        assert_eq!(ledger.slots.len(), CAPACITY);
        assert_eq!(ledger.in_flight(), Bytes::new(CAPACITY as u64 * 1000));
    }
}
