//! Reports on their way, until their sender hears that they arrived.

use std::collections::VecDeque;

use units::{Sparing, Time, unlikely};

/// Reports remembered at most. With more on their way, or four billion numbers beyond the first one's, newer
/// ones are not remembered: one that follows confirms what they said, a round trip later.
pub const MOST: u32 = 64;
/// Room for so many runs, and instants, at first.
const ROOM: usize = 8;

/// Reports of which there is no word yet, by number.
///
/// All that a backlog has under way is a run or two, most often, which are kept here: a list of every report
/// would be walked through again and again, and stay in no first cache.
#[derive(Debug)]
pub struct Unconfirmed {
    /// The first report's number, which every packet is held against: none is a number beyond all.
    first: u32,
    /// How many there are.
    count: u32,
    /// The number that theirs are counted from: what the oldest one reported when none was before it.
    origin: u64,
    /// The largest packet number that a report named of which there is word.
    confirmed: u64,
    /// Empty only where no report is.
    oldest: Run,
    /// Empty where the oldest run is the only one.
    newest: Run,
    /// The runs between them.
    others: VecDeque<Run>,
    /// When each report left, while anybody wants to know.
    left_at: VecDeque<Time>,
    timed: bool,
}

/// Reports of which each is numbered one higher than the one before, and reached as much further.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The first one's number; of an empty run it may be anything, as the next two may.
    sequence: u32,
    /// The largest packet number that it reported, counted from [`Unconfirmed::origin`].
    largest: u32,
    /// How much further each reached than the one before; of a run of one it may be anything.
    step: u32,
    count: u32,
}

impl Run {
    /// What the report reached that is `after` more than the first one.
    #[inline(always)]
    fn reached(self, after: u32) -> u32 {
        self.largest.wrapping_add(self.step.wrapping_mul(after))
    }

    /// Takes in a report behind its last one, if that goes on as the others do.
    #[inline(always)]
    fn takes_in(&mut self, sequence: u32, largest: u32) -> bool {
        if self.count == 1 {
            self.step = largest - self.largest;
        }
        let goes_on = sequence == self.sequence + self.count && largest == self.reached(self.count);
        self.count += u32::from(goes_on);
        goes_on
    }

    /// Takes off the reports up to `sequence`, which is the first one's or a later one. Returns how many, and
    /// what the last of them reached.
    #[inline(always)]
    fn take_off(&mut self, sequence: u32) -> (u32, u32) {
        let others = (sequence - self.sequence).min(self.count - 1);
        let (count, reached) = (others + 1, self.reached(others));
        self.largest = self.reached(count);
        self.sequence += count;
        self.count -= count;
        (count, reached)
    }
}

impl Default for Unconfirmed {
    fn default() -> Unconfirmed {
        Unconfirmed {
            first: u32::MAX,
            count: 0,
            origin: 0,
            confirmed: 0,
            oldest: Run::default(),
            newest: Run::default(),
            others: VecDeque::new(),
            left_at: VecDeque::new(),
            timed: true,
        }
    }
}

impl Unconfirmed {
    /// Nobody wants to know any more when reports left.
    pub fn forget_times(&mut self) {
        self.timed = false;
        self.left_at = VecDeque::new();
    }

    /// The report numbered `sequence` leaves at `now`, higher than all before, and names packets up to
    /// `largest`, no fewer than they. Remembers it, if there is room.
    #[inline(always)]
    pub fn remember(&mut self, now: Time, sequence: u32, largest: u64) {
        if unlikely(self.count == 0) {
            (self.first, self.origin) = (sequence, largest);
        }
        if self.count < MOST
            && let Ok(largest) = u32::try_from(largest - self.origin)
        {
            self.count += 1;
            let last = if self.newest.count > 0 { &mut self.newest } else { &mut self.oldest };
            if !last.takes_in(sequence, largest) {
                self.begin_run(Run { sequence, largest, step: 0, count: 1 });
            }
            if self.timed {
                self.left_at.put(ROOM, now);
            }
        }
    }

    #[inline(never)]
    fn begin_run(&mut self, run: Run) {
        if self.oldest.count == 0 {
            self.oldest = run;
        } else {
            let last = std::mem::replace(&mut self.newest, run);
            if last.count > 0 {
                self.others.put(ROOM, last);
            }
        }
    }

    /// The largest packet number that a report named of which there is word.
    #[inline(always)]
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// The sender has heard the report numbered `sequence`, and need not be told again what it and those
    /// before it said. Returns when the latest of those left that this is the first word of, unless
    /// [that is forgotten](Unconfirmed::forget_times).
    #[inline(always)]
    pub fn hear(&mut self, sequence: u32) -> Option<Time> {
        // Whatever a packet says: of no reports there is no word.
        if sequence < self.first || unlikely(self.count == 0) {
            return None;
        }
        let (mut heard, mut reached) = self.oldest.take_off(sequence);
        self.first = self.oldest.sequence;
        if unlikely(self.oldest.count == 0) {
            (heard, reached) = self.hear_more(sequence, heard, reached);
        }
        self.count -= heard;
        self.confirmed = self.origin + u64::from(reached);
        if self.timed { self.left_at.drain(..heard as usize).next_back() } else { None }
    }

    /// All of the oldest run was heard. Does the same of the next ones, and returns the new sums.
    #[inline(never)]
    fn hear_more(&mut self, sequence: u32, mut heard: u32, mut reached: u32) -> (u32, u32) {
        while self.oldest.count == 0 {
            let newest = || std::mem::take(&mut self.newest);
            self.oldest = self.others.pop_front().unwrap_or_else(newest);
            if self.oldest.count == 0 {
                self.first = u32::MAX;
                return (heard, reached);
            }
            if self.oldest.sequence <= sequence {
                let (count, last) = self.oldest.take_off(sequence);
                (heard, reached) = (heard + count, last);
            }
        }
        self.first = self.oldest.sequence;
        (heard, reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Runs tell of reports what a list of them tells.
        #[test]
        fn runs_are_a_list(
            timed in any::<bool>(),
            steps in prop::collection::vec((0u8..8, 1u32..4, prop_oneof![9 => 0u64..3, 1 => Just(1 << 32)]), 1..400),
        ) {
            let (mut reports, mut list) = (Unconfirmed::default(), VecDeque::<(u32, u64, Time)>::new());
            if !timed {
                reports.forget_times();
            }
            let (mut sequence, mut largest, mut origin, mut confirmed) = (0, 7, 0, 0);
            for (at, (kind, by, further)) in (0..).zip(steps) {
                let now = Time::from_millis(at);
                if kind < 6 {
                    // Most are numbered one higher and reach two further; some numbers are left out.
                    sequence += if kind == 0 { by } else { 1 };
                    largest += if kind < 2 { further } else { 2 };
                    if list.is_empty() {
                        origin = largest;
                    }
                    if list.len() < MOST as usize && largest - origin <= u64::from(u32::MAX) {
                        list.push_back((sequence, largest, now));
                    }
                    reports.remember(now, sequence, largest);
                } else {
                    // Of any report, also of those heard long ago, not remembered, or never written.
                    let heard = match kind {
                        6 => sequence.saturating_sub(20 * by),
                        _ if by == 1 => u32::MAX,
                        _ => sequence,
                    };
                    let count = list.iter().take_while(|report| report.0 <= heard).count();
                    let last = list.drain(..count).next_back();
                    confirmed = last.map_or(confirmed, |(_, largest, _)| largest);
                    prop_assert_eq!(reports.hear(heard), last.map(|(.., left)| left).filter(|_| timed));
                    prop_assert_eq!(reports.confirmed(), confirmed);
                }
                prop_assert_eq!(reports.count as usize, list.len());
            }
        }
    }

    #[test]
    fn what_a_backlog_has_under_way_is_one_run() {
        let mut reports = Unconfirmed::default();
        reports.forget_times();
        for number in 1..1000 {
            reports.remember(Time::ZERO, number, 2 * u64::from(number));
            reports.hear(number.saturating_sub(40));
        }
        assert_eq!((reports.count, reports.oldest.count, reports.others.capacity()), (40, 40, 0));
        assert_eq!(reports.left_at.capacity(), 0);
    }
}
