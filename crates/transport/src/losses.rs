//! Which packets can no longer be on their way: RFC 9002 section 6.1.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

use cc::{Acked, Lost};
use units::{Span, Sparing, Time, likely, unlikely};

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
/// ... unless so many packets have been sent since: as many as a ledger of this crate's cores remembers, so
/// that no report can make more work.
const FORGOTTEN: u64 = 1 << 16;
/// Losses that there is room for at first, where there is any.
const ROOM: usize = 8;

/// Nothing was settled.
static NOTHING: Settled = Settled {
    acked: Vec::new(),
    lost: Vec::new(),
    spurious: Vec::new(),
    ce_marks: 0,
    persistent_congestion: false,
};

thread_local! {
    /// Lists that no report fills at present, for the next one of this thread, whichever core hears it.
    static SPARE: Cell<Option<Box<Settled>>> = const { Cell::new(None) };
}

/// What one report, or one look at the clock, settled. The lists keep their room from one report to the next,
/// so that none allocates.
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

/// Lists that a core fills while it hears a report, and gives back once its host has looked at them. They
/// are needed only that long, so a thread's cores share them: those of a thousand cores would take a kilobyte
/// each, and be in no cache when they are wanted.
#[derive(Debug, Default)]
pub(crate) struct Lent(Option<Box<Settled>>);

impl Lent {
    /// What was settled last, or nothing, if that was given back.
    #[inline]
    pub(crate) fn get(&self) -> &Settled {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    /// Empty lists: those that are still here, or the thread's, or new ones (in a thread that ends, always).
    #[inline]
    pub(crate) fn take(&mut self) -> Box<Settled> {
        let spare = || SPARE.try_with(Cell::take).ok().flatten();
        let mut settled = self.0.take().or_else(spare).unwrap_or_default();
        settled.clear();
        settled
    }

    /// Filled lists, for the host to look at.
    #[inline]
    pub(crate) fn show(&mut self, settled: Box<Settled>) {
        self.0 = Some(settled);
    }

    /// The host has looked at them.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if let Some(settled) = self.0.take()
            && let Ok(Some(others)) = SPARE.try_with(|spare| spare.replace(Some(settled)))
        {
            leave(others);
        }
    }
}

/// Two cores of a thread had lists at once: one pair is enough.
#[cold]
fn leave(settled: Box<Settled>) {
    drop(settled);
}

/// Judges a ledger's packets by what has arrived: too many sent later, or too long ago. Both thresholds widen
/// when a loss turns out to have been reordering.
#[derive(Clone, Debug)]
pub struct LossDetection {
    /// Everything below is settled (but may be remembered, to tell spurious losses), and so is what the
    /// ledger has forgotten.
    settled_below: u64,
    /// One more than the largest number that was acknowledged; 0 before any was.
    acked_below: u64,
    packet_threshold: u64,
    /// Added to the time threshold after losses turned out to be reordering.
    reordering: Span,
    /// When it looks again; [`Time::MAX`] for never.
    loss_at: Time,
    /// Given up and no longer in the ledger, by number: each may still turn out to have been reordered.
    given_up: VecDeque<GivenUp>,
}

#[derive(Clone, Copy, Debug)]
struct GivenUp {
    packet: u64,
    sent_at: Time,
}

impl Default for LossDetection {
    fn default() -> LossDetection {
        LossDetection {
            settled_below: 0,
            acked_below: 0,
            packet_threshold: PACKET_THRESHOLD,
            reordering: Span::ZERO,
            loss_at: Time::MAX,
            given_up: VecDeque::new(),
        }
    }
}

impl LossDetection {
    /// When the oldest packet in flight must be looked at again, if reordering is still possible for it.
    pub fn loss_at(&self) -> Option<Time> {
        (self.loss_at < Time::MAX).then_some(self.loss_at)
    }

    /// Packets are reported to have arrived: enters those into `out` of which that is news.
    #[inline(always)]
    pub fn arrived<T: Carried>(
        &mut self,
        now: Time,
        ledger: &mut Ledger<T>,
        packets: impl Iterator<Item = (u64, Arrived)>,
        out: &mut Settled,
    ) {
        let (mut run, mut ce_marks) = (ledger.begin_run(), out.ce_marks);
        for (packet, arrived) in packets {
            let news = likely(ledger.join_run(&mut run, packet, arrived, &mut out.acked)) || {
                ledger.end_run(now, run);
                // Reports repeat themselves: what was forgotten is no news, unless it was given up.
                let may_be = packet >= ledger.oldest() || !self.given_up.is_empty();
                let news = may_be && self.arrived_behind(now, ledger, packet, arrived, out);
                run = ledger.begin_run();
                news
            };
            ce_marks += u32::from(news & (arrived.ecn == units::Ecn::Ce));
        }
        ledger.end_run(now, run);
        out.ce_marks = ce_marks;
    }

    /// The same of a packet before which others are missing, or of which something is known. Returns whether
    /// it was in flight.
    #[inline(never)]
    fn arrived_behind<T: Carried>(
        &mut self,
        now: Time,
        ledger: &mut Ledger<T>,
        packet: u64,
        arrived: Arrived,
        out: &mut Settled,
    ) -> bool {
        match ledger.acknowledge_in_flight(now, packet, arrived, &mut out.acked) {
            Ok(()) => true,
            Err(state) => {
                if state == Some(State::Lost) || state.is_none() && !self.given_up.is_empty() {
                    self.arrived_late(now, ledger, packet, out);
                }
                false
            }
        }
    }

    /// The number of the oldest packet of which news is news.
    #[inline]
    pub fn oldest<T: Carried>(&self, ledger: &Ledger<T>) -> u64 {
        self.given_up.front().map_or(ledger.oldest(), |lost| lost.packet)
    }

    /// A packet arrived that was given up, if it is one.
    #[cold]
    fn arrived_late<T: Carried>(
        &mut self,
        now: Time,
        ledger: &mut Ledger<T>,
        packet: u64,
        out: &mut Settled,
    ) {
        let sent_at = if let Some(sent) = ledger.get(packet) {
            let sent_at = sent.sent_at;
            ledger.settle(packet, State::Acked);
            sent_at
        } else {
            let at = self.given_up.binary_search_by_key(&packet, |lost| lost.packet);
            let Some(lost) = at.ok().and_then(|at| self.given_up.remove(at)) else { return };
            lost.sent_at
        };
        self.learn_reordering(packet, now - sent_at);
        out.spurious.push(packet);
    }

    /// A loss was none: this much reordering is tolerated from now on.
    fn learn_reordering(&mut self, packet: u64, late: Span) {
        let distance = self.acked_below.saturating_sub(packet + 1);
        self.packet_threshold = self.packet_threshold.max(distance + 1).min(MAX_PACKET_THRESHOLD);
        self.reordering = self.reordering.max(late / 4);
    }

    /// The newest packet of a report that had news: which others are lost is told by it. To be called before
    /// [`find`](LossDetection::find).
    #[inline(always)]
    pub fn reached(&mut self, packet: u64) {
        self.acked_below = self.acked_below.max(packet + 1);
    }

    /// Gives up what can't be on its way any more, after a report or at [`loss_at`](LossDetection::loss_at).
    #[inline(always)]
    pub fn find<T: Carried>(&mut self, now: Time, ledger: &mut Ledger<T>, rtt: &Rtt, out: &mut Settled) {
        self.loss_at = Time::MAX;
        let from = self.settled_below.max(ledger.oldest());
        if likely(from >= self.acked_below) {
            // All that was in flight up to the largest number has arrived.
            out.persistent_congestion = false;
            return;
        }
        self.look_through(from..self.acked_below - 1, now, ledger, rtt, out);
    }

    /// Looks at every packet before the largest that was acknowledged.
    #[inline(never)]
    fn look_through<T: Carried>(
        &mut self,
        before: Range<u64>,
        now: Time,
        ledger: &mut Ledger<T>,
        rtt: &Rtt,
        out: &mut Settled,
    ) {
        let largest = before.end;
        // At most one smoothed round trip more than the RFC's 9/8.
        let delay = rtt.loss_delay() + self.reordering.min(rtt.smoothed());
        let mut settled_prefix = true;
        for packet in before {
            let Some(sent) = ledger.get(packet).filter(|sent| sent.state == State::InFlight) else {
                self.settled_below = if settled_prefix { packet + 1 } else { self.settled_below };
                continue;
            };
            let overdue_at = sent.sent_at + delay;
            if unlikely(largest >= packet + self.packet_threshold || overdue_at <= now) {
                out.lost.put(ROOM, ledger.lose(packet));
            } else {
                settled_prefix = false;
                self.loss_at = self.loss_at.min(overdue_at);
            }
            self.settled_below = if settled_prefix { packet + 1 } else { self.settled_below };
        }
        out.persistent_congestion = !out.lost.is_empty() && is_persistent(&out.lost, rtt);
    }

    /// Forgets what is settled, but remembers losses for two round trips and a little: they may turn out to
    /// be reordering.
    #[inline(always)]
    pub fn trim<T: Carried>(&mut self, now: Time, ledger: &mut Ledger<T>, rtt: &Rtt) {
        // Beyond what has arrived all are in flight.
        if likely(self.given_up.is_empty() & (ledger.oldest() >= self.acked_below)) {
            ledger.look_at_room();
        } else {
            self.forget(now, ledger, rtt);
        }
    }

    // Apart: of most reports nothing is left to forget.
    #[inline(never)]
    fn forget<T: Carried>(&mut self, now: Time, ledger: &mut Ledger<T>, rtt: &Rtt) {
        let keep = rtt.smoothed() * 2 + LATE;
        let far = ledger.next_packet().saturating_sub(FORGOTTEN);
        while self.given_up.front().is_some_and(|lost| lost.sent_at + keep <= now || lost.packet < far) {
            self.given_up.pop_front();
        }
        let given_up = &mut self.given_up;
        ledger.forget_while(|packet, sent| {
            if unlikely(sent.state == State::Lost) && sent.sent_at + keep > now && packet >= far {
                given_up.put(ROOM, GivenUp { packet, sent_at: sent.sent_at });
            }
            sent.state != State::InFlight
        });
    }
}

/// RFC 9002 section 7.6.2: an unbroken run of losses spans more than three probe timeouts.
#[cold]
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
    use proptest::prelude::*;
    use units::Ecn;

    /// Packets given up, and when they left, as long as news of them is news: the rule itself.
    #[derive(Default)]
    struct Remembered(Vec<(u64, Time)>);

    impl Remembered {
        /// What a report of `packets` finds to have been reordered.
        fn find(&mut self, packets: &[u64]) -> Vec<u64> {
            let found = |packet: &&u64| self.0.iter().any(|lost| lost.0 == **packet);
            let spurious: Vec<u64> = packets.iter().filter(found).copied().collect();
            self.0.retain(|lost| !spurious.contains(&lost.0));
            spurious
        }

        fn trim(&mut self, now: Time, rtt: &Rtt) {
            self.0.retain(|lost| lost.1 + rtt.smoothed() * 2 + LATE > now);
        }
    }

    #[test]
    fn what_lies_far_back_is_forgotten_however_short_ago_it_left() {
        let (mut ledger, mut losses) = (Ledger::<()>::new(1 << 20), LossDetection::default());
        let (rtt, mut out) = (Rtt::default(), Settled::default());
        let mut oldest = Vec::new();
        for sent in [8, FORGOTTEN, 8] {
            (0..sent).for_each(|_| _ = ledger.send(Time::ZERO, 100, ()));
            out.clear();
            let last = ledger.next_packet() - 1;
            let arrived = [(last, Arrived::default())].into_iter();
            losses.arrived(Time::from_millis(1), &mut ledger, arrived, &mut out);
            losses.reached(last);
            losses.find(Time::from_millis(1), &mut ledger, &rtt, &mut out);
            losses.trim(Time::from_millis(1), &mut ledger, &rtt);
            oldest.push(losses.oldest(&ledger));
        }
        assert_eq!(oldest, [0, 8, 16]);
    }

    proptest! {
        /// What was given up is known again for two round trips and a little, wherever it is kept, and the
        /// ledger keeps no more than lies behind the oldest packet in flight.
        #[test]
        fn what_was_given_up_is_known_again(
            steps in prop::collection::vec((1_u64..60, 0_u32..3, prop::collection::vec(0_u64..24, 0..4)), 1..200),
        ) {
            let (mut ledger, mut losses) = (Ledger::<()>::new(1 << 16), LossDetection::default());
            let (mut rtt, mut out, mut expected) = (Rtt::default(), Settled::default(), Remembered::default());
            let mut now = Time::ZERO;
            for (ms, sent, back) in steps {
                now += Span::from_millis(ms as i64);
                (0..sent).for_each(|_| _ = ledger.send(now, 1000, ()));
                let next = ledger.next_packet();
                let mut packets: Vec<u64> = back.iter().filter_map(|back| next.checked_sub(1 + back)).collect();
                packets.sort_unstable();
                packets.dedup();
                out.clear();
                let flies = |packet: &u64| ledger.get(*packet).is_some_and(|sent| sent.state == State::InFlight);
                let news: Vec<u64> = packets.iter().copied().filter(flies).collect();
                let (in_flight, delivered) = (ledger.in_flight().get(), ledger.delivered());
                let ecn = |packet: u64| if packet.is_multiple_of(3) { Ecn::Ce } else { Ecn::NotEct };
                let arrived = packets.iter().map(|&packet| (packet, Arrived { at: None, ecn: ecn(packet) }));
                losses.arrived(now, &mut ledger, arrived, &mut out);
                prop_assert!(out.acked.iter().map(|acked| acked.packet).eq(news.iter().copied()));
                prop_assert_eq!(out.ce_marks as usize, news.iter().filter(|&&packet| ecn(packet) == Ecn::Ce).count());
                let bytes = 1000 * news.len() as u64;
                prop_assert_eq!((ledger.in_flight().get(), ledger.delivered()), (in_flight - bytes, delivered + bytes));
                let newest = out.acked.last().map_or(ledger.sampled_from(), |newest| newest.sent_at);
                prop_assert_eq!(ledger.sampled_from(), newest);
                prop_assert_eq!(&out.spurious, &expected.find(&packets));
                if let Some(newest) = out.acked.last() {
                    losses.reached(newest.packet);
                    rtt.sample(Span::from_millis(ms as i64), Span::ZERO);
                }
                losses.find(now, &mut ledger, &rtt, &mut out);
                losses.trim(now, &mut ledger, &rtt);
                expected.0.extend(out.lost.iter().map(|lost| (lost.packet, lost.sent_at)));
                expected.trim(now, &rtt);
                prop_assert!(ledger.iter().next().is_none_or(|(_, oldest)| oldest.state == State::InFlight));
                let oldest = expected.0.iter().map(|lost| lost.0).min().unwrap_or(ledger.oldest());
                prop_assert_eq!(losses.oldest(&ledger), oldest.min(ledger.oldest()));
            }
        }
    }
}
