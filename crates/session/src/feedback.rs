//! What the receiver reports, and when.

use units::{Span, Sparing, Time, apart, fetch_line, likely, unlikely};
use wire::{Arrival, Draft, Spoken, Written};

use crate::arrivals::ArrivalLog;
use crate::config::ReceiverConfig;
use crate::unconfirmed::Unconfirmed;

/// Arrivals waiting to be reported at most; a report is due long before.
const WAITING: usize = 1024;
/// Beyond this many arrivals in a report, those of the report before are not repeated.
const REPEAT_BELOW: usize = 56;
/// Room for so many arrivals at first: a backlogged flow is reported every other packet.
const ARRIVALS: usize = 2;

/// Collects arrivals and writes reports.
#[derive(Debug, Default)]
pub struct Reporter {
    /// Not reported yet, by number.
    fresh: Vec<Arrival>,
    /// In the last report, by number: repeated once, so that one lost report costs no receive time.
    reported: Vec<Arrival>,
    merged: Vec<Arrival>,
    sequence: u32,
    /// Of which there is no word yet. Every number below the largest that others named is known to the
    /// sender, as far as it ever will be.
    unconfirmed: Unconfirmed,
    due_at: Option<Time>,
    media: u32,
    padding: u32,
}

impl Reporter {
    /// A packet arrived; `padding` tells its class, `urgent` that its news should not wait, `filling` that
    /// some of higher numbers were there before it.
    #[inline(always)]
    pub fn arrived(
        &mut self,
        now: Time,
        arrival: Arrival,
        padding: bool,
        urgent: bool,
        filling: bool,
        config: &ReceiverConfig,
    ) {
        if likely(self.fresh.len() < WAITING) {
            if unlikely(filling) {
                self.fresh.room_for_one(ARRIVALS);
                let at = self.fresh.partition_point(|a| a.packet < arrival.packet);
                self.fresh.insert(at, apart(arrival));
            } else {
                // What lies there is not looked at: it may be in no cache.
                debug_assert!(self.fresh.last().is_none_or(|last| last.packet < arrival.packet));
                self.fresh.put(ARRIVALS, arrival);
            }
        }
        self.padding += u32::from(padding);
        self.media += u32::from(!padding);
        let full = (self.media >= config.feedback_packets) | (self.padding >= config.feedback_padding);
        if urgent || full {
            self.due_at = Some(now);
        } else if self.due_at.is_none() {
            self.due_at = Some(now + config.feedback_delay);
        }
    }

    /// The sender has heard the report numbered `sequence`. Says how long ago the latest of those left that
    /// this is the first word of, unless [that is forgotten](Reporter::forget_times).
    #[inline(always)]
    pub fn confirm(&mut self, now: Time, sequence: u32) -> Option<Span> {
        self.unconfirmed.hear(sequence).map(|left| now - left)
    }

    /// Nobody wants to know any more how long ago reports left.
    pub fn forget_times(&mut self) {
        self.unconfirmed.forget_times();
    }

    /// Has brought into the caches where the next arrivals are entered.
    pub fn expect(&self) {
        // A list that never held anything is nowhere, and a processor looks for nowhere for long.
        if self.fresh.capacity() > 0 {
            fetch_line(self.fresh.as_ptr());
        }
    }

    /// The last report's number; 0 before the first.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// When the next report is due.
    pub fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    /// Whether a report is due at `now`.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    /// Writes a report with what `draft` says besides number and arrivals; returns its number
    /// and what of it was written.
    #[inline(always)]
    pub fn write(
        &mut self,
        draft: &Draft<'_>,
        log: &ArrivalLog,
        dialect: &mut Spoken,
        out: &mut [u8],
    ) -> (u32, Written) {
        self.sequence += 1;
        if likely(self.reported.is_empty()) {
            let draft = Draft { sequence: self.sequence, arrivals: &self.fresh, ..*draft };
            if let Some(written) =
                dialect.write_plain_feedback(&draft, log.down_to(self.unconfirmed.confirmed()), out)
            {
                self.turn(draft.sent, 0, log.largest().unwrap_or(0));
                return (self.sequence, written);
            }
        }
        (self.sequence, self.write_any(&apart(*draft), log, dialect, out))
    }

    /// The same of any report, plain or not.
    // Apart, so that what a backlog reports stays in registers.
    #[inline(never)]
    fn write_any(
        &mut self,
        draft: &Draft<'_>,
        log: &ArrivalLog,
        dialect: &mut Spoken,
        out: &mut [u8],
    ) -> Written {
        let repeat = !self.reported.is_empty() && self.reported.len() + self.fresh.len() <= REPEAT_BELOW;
        if repeat {
            self.merge();
        }
        let arrivals = if repeat { &self.merged } else { &self.fresh };
        let draft = Draft { sequence: self.sequence, arrivals, ..*draft };
        let written = dialect.write_feedback(&draft, || log.down_to(self.unconfirmed.confirmed()), out);
        let (now, left) = (draft.sent, arrivals.len() - written.arrivals);
        if unlikely(left > 0 && repeat) {
            std::mem::swap(&mut self.merged, &mut self.fresh);
        }
        self.turn(now, left, log.largest().unwrap_or(0));
        written
    }

    /// Merges what the last report said with what is new.
    fn merge(&mut self) {
        self.merged.clear();
        self.merged.extend_from_slice(&self.reported);
        self.merged.extend_from_slice(&self.fresh);
        if !self.merged.is_sorted_by_key(|a| a.packet) {
            self.merged.sort_unstable_by_key(|a| a.packet);
        }
    }

    /// What was written has been reported; the last `left` arrivals did not fit and go at once.
    #[inline(always)]
    fn turn(&mut self, now: Time, left: usize, largest: u64) {
        if likely(left == 0) {
            if self.media == 0 {
                // A backlogged flow is reported every other packet: the ranges will do where a report is
                // lost.
                self.reported.clear();
            } else {
                std::mem::swap(&mut self.reported, &mut self.fresh);
            }
            self.fresh.clear();
            self.due_at = None;
        } else {
            self.reported.clear();
            self.fresh.drain(..self.fresh.len() - left);
            self.due_at = Some(now);
        }
        (self.media, self.padding) = (0, 0);
        self.unconfirmed.remember(now, self.sequence, largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Novelty;
    use crate::unconfirmed::MOST;
    use units::Ecn;
    use wire::Feedback;

    fn arrival(now: Time, packet: u64) -> Arrival {
        Arrival { packet, at: now.on_wire(), ecn: Ecn::NotEct }
    }

    fn arrive(reporter: &mut Reporter, log: &mut ArrivalLog, ms: u64, packet: u64) {
        let filling = log.insert(packet) == Novelty::Filling;
        let config = ReceiverConfig::default();
        let now = Time::from_millis(ms);
        reporter.arrived(now, arrival(now, packet), false, false, filling, &config);
    }

    fn written(reporter: &mut Reporter, log: &ArrivalLog, ms: u64) -> (Vec<u64>, Vec<(u64, u64)>) {
        let mut out = [0; 1200];
        let sent = Time::from_millis(ms);
        let draft = Draft { session: 1, sequence: 0, sent, refused: 0, blob: &[], arrivals: &[] };
        let (_, written) = reporter.write(&draft, log, &mut Spoken::default(), &mut out);
        let feedback = Feedback::decode(&out[..written.length]).unwrap();
        (feedback.arrivals().map(|a| a.packet).collect(), feedback.ranges().collect())
    }

    #[test]
    fn arrivals_are_reported_twice_and_ranges_until_confirmed() {
        let (mut reporter, mut log) = (Reporter::default(), ArrivalLog::default());
        [5, 7, 6].iter().for_each(|&p| arrive(&mut reporter, &mut log, 10, p));
        assert_eq!(reporter.due_at(), Some(Time::from_millis(30)));
        assert_eq!(written(&mut reporter, &log, 30), (vec![5, 6, 7], vec![(5, 7)]));
        assert_eq!(reporter.due_at(), None);
        arrive(&mut reporter, &mut log, 40, 9);
        assert_eq!(written(&mut reporter, &log, 41), (vec![5, 6, 7, 9], vec![(9, 9), (5, 7)]));
        assert_eq!(
            reporter.confirm(Time::from_millis(47), 2),
            Some(Span::from_millis(6)),
            "report 2 left at 41"
        );
        assert_eq!(reporter.confirm(Time::from_millis(48), 2), None);
        arrive(&mut reporter, &mut log, 50, 11);
        assert_eq!(written(&mut reporter, &log, 51), (vec![9, 11], vec![(11, 11), (9, 9)]));
    }

    #[test]
    fn every_second_padding_packet_is_reported_at_once() {
        let (mut reporter, config) = (Reporter::default(), ReceiverConfig::default());
        let now = Time::from_millis(3);
        reporter.arrived(now, arrival(now, 1), true, false, false, &config);
        assert_eq!(reporter.due_at(), Some(now + Span::from_millis(20)));
        reporter.arrived(now, arrival(now, 2), true, false, false, &config);
        assert_eq!(reporter.due_at(), Some(now));
    }

    #[test]
    fn ranges_are_confirmed_however_many_reports_are_on_their_way() {
        let (mut reporter, mut log) = (Reporter::default(), ArrivalLog::default());
        let on_their_way = 10 * u64::from(MOST);
        for n in 0..20 * on_their_way {
            // Every arrival leaves a gap, and its report is heard after `on_their_way` further ones.
            arrive(&mut reporter, &mut log, n, 2 * n);
            reporter.confirm(Time::from_millis(n), n.saturating_sub(on_their_way) as u32);
            let ranges = log.down_to(reporter.unconfirmed.confirmed()).count() as u64;
            assert!(ranges <= 2 * on_their_way + u64::from(MOST), "{ranges} after {n}");
            written(&mut reporter, &log, n);
        }
        assert!(reporter.unconfirmed.confirmed() > 0);
    }

    #[test]
    fn ranges_are_confirmed_however_far_numbers_go_meanwhile() {
        let (mut reporter, mut log) = (Reporter::default(), ArrivalLog::default());
        let step = 1 << 20;
        for n in 1..10_000 {
            // A report is always on its way, so numbers are counted from the first one's until they can't be.
            arrive(&mut reporter, &mut log, n, (1 << 40) + n * step);
            written(&mut reporter, &log, n);
            reporter.confirm(Time::from_millis(n), n.saturating_sub(2) as u32);
            let behind = log.largest().unwrap() - reporter.unconfirmed.confirmed();
            assert!(n < 3 || (2 * step..=5 * step).contains(&behind), "{behind} after {n}");
        }
    }

    #[test]
    fn what_does_not_fit_follows_at_once() {
        let (mut reporter, mut log) = (Reporter::default(), ArrivalLog::default());
        (0..900).for_each(|p| arrive(&mut reporter, &mut log, p, 2 * p));
        let mut seen = Vec::new();
        for _ in 0..100 {
            if reporter.due_at().is_none() {
                break;
            }
            seen.extend(written(&mut reporter, &log, 1000).0);
        }
        assert_eq!(seen, (0..900).map(|p| 2 * p).collect::<Vec<_>>());
    }
}
