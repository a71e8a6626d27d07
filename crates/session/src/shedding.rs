//! What a sender gives up where its encoder takes longer for a frame than a frame lasts: rows first, then
//! frames.
//!
//! ```text
//!   usual = median of what the last nine frames of one size cost      (the lower one of two)
//!   usual > 1.1 interval   the encoder is too slow, until usual < 0.9 interval:
//!                          at most the rung below rows * sqrt(0.6 interval / usual) from now on, where there is one;
//!                          and one frame at a time, what is captured meanwhile is left out
//!   usual * (above / rows)^2 < 0.5 interval, five seconds after the last change
//!                          the highest such rung again; where that did not hold, the next try is twice as far off
//! ```
//!
//! A median, since a key frame costs more than those between: it may be coded several times until it is small
//! enough. Until two frames of a size are out nothing is known, and the encoder is given one at a time: the
//! first may take it seconds.
//!
//! Only an encoder that says what a frame cost it ([`media::Coded::took`]) is watched. One that gives frames
//! back late but keeps up, as a pipeline does, is not slow; nor is a model, whose latency is a setting.

use std::collections::VecDeque;
use std::fmt;

use units::{Span, Time};

use crate::rate::Ladder;

/// An encoder that is too slow for its pictures, and what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowEncoder {
    /// What a frame cost when that was found ...
    pub cost: Span,
    /// ... coded with this many rows; 0 if they are not known.
    pub rows: u16,
    /// Time between captured frames.
    pub interval: Span,
    /// What the sender gives up.
    pub remedy: Remedy,
}

/// What a sender gives up for an encoder that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Pictures are coded with this many rows at most.
    Rows(u16),
    /// Frames are left out while the encoder is at one.
    Frames,
}

impl fmt::Display for SlowEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = if self.rows > 0 { format!(" of {} rows", self.rows) } else { String::new() };
        let (cost, interval) = (self.cost.as_millis_f64(), self.interval.as_millis_f64());
        write!(
            f,
            "the encoder is too slow: a frame{size} costs it {cost:.0} ms, and there is one every {interval:.0} ms; "
        )?;
        match self.remedy {
            Remedy::Rows(rows) => write!(f, "coding at most {rows} rows from now on"),
            Remedy::Frames => write!(f, "leaving out the frames it has no time for"),
        }
    }
}

/// Above this share of the interval an encoder falls behind, ...
const SLOW: f64 = 1.1;
/// ... and below this one it keeps up again; between them nothing changes, so that a cost of one interval
/// does not go back and forth.
const STEADY: f64 = 0.9;
/// Share of the interval that fewer rows are to cost: room for key frames and for what else the machine does,
/// ...
const AIM: f64 = 0.6;
/// ... and that more rows may be expected to cost for them to be tried: less, so that a try is not the next
/// one's reason.
const RAISE: f64 = 0.5;
/// Frames that the usual cost is taken of: four slow ones, of a machine that was busy for as long, change
/// nothing.
const FRAMES: usize = 9;
/// Frames of a size without which nothing is known of it.
const LEAST: usize = 2;
/// Frames in the encoder at most, of one that is not known to be slow; with more, capture waits.
const MOST: usize = 8;
/// More rows are tried after this long at first, and this long at most: each change costs a key frame.
const RAISE_AFTER: (Span, Span) = (Span::from_secs(5), Span::from_secs(300));

/// The state of one stream.
#[derive(Debug)]
pub struct Shedding {
    interval: Span,
    /// The source's rows; 0 where they can't be made fewer.
    full: u16,
    /// Rows at most, once an encoder was too slow for more.
    limit: Option<u16>,
    /// Rows of the frames in `costs`.
    rows: u16,
    /// What the latest frames cost, in seconds.
    costs: VecDeque<f64>,
    /// Nothing is known to come out of the encoder by now that says what it costs.
    silent: bool,
    /// When the limit last changed.
    changed_at: Option<Time>,
    raise_after: Span,
    found: Option<SlowEncoder>,
    /// When that was found.
    found_at: Time,
}

impl Shedding {
    /// Nothing is given up yet, of frames `interval` apart that have `full` rows; 0 of frames whose rows
    /// can't be made fewer.
    pub fn new(interval: Span, full: u16) -> Shedding {
        Shedding {
            interval,
            full,
            limit: None,
            rows: full,
            costs: VecDeque::new(),
            silent: false,
            changed_at: None,
            raise_after: RAISE_AFTER.0,
            found: None,
            found_at: Time::ZERO,
        }
    }

    /// The rows to code with, where the rate policy wants `planned`.
    pub fn rows(&self, planned: Option<u16>) -> Option<u16> {
        [planned, self.limit].into_iter().flatten().min()
    }

    /// Whether an encoder that has `inside` frames may be given another, while packets of earlier ones are
    /// `waiting` to leave. One that is not known to keep up is given one at a time, and only when what it
    /// made before has left: a frame may be so large, for a rate that nobody knows yet, that the next would
    /// be planned with next to nothing.
    pub fn is_open(&self, inside: usize, waiting: bool) -> bool {
        let leaving_out = self.found.is_some_and(|found| found.remedy == Remedy::Frames);
        let shrinking = self.limit.is_some_and(|limit| limit < self.rows);
        let known = self.silent || self.costs.len() >= LEAST && !leaving_out && !shrinking;
        if known { inside < MOST } else { inside == 0 && !waiting }
    }

    /// The encoder that is too slow, if it is.
    pub fn found(&self) -> Option<SlowEncoder> {
        self.found
    }

    /// A frame of `rows` has come out of the encoder, which says that it was busy with it for `took`.
    pub fn came_out(&mut self, now: Time, rows: u16, took: Option<Span>) {
        self.silent = took.is_none();
        let Some(took) = took else { return };
        if rows != self.rows {
            (self.rows, self.costs) = (rows, VecDeque::new());
        }
        if self.costs.len() == FRAMES {
            self.costs.pop_front();
        }
        self.costs.push_back(took.as_secs_f64());
        if self.costs.len() < LEAST {
            return;
        }
        let share = self.usual() / self.interval.as_secs_f64();
        // Frames of more rows than the limit went in before it was set.
        let bound = self.limit.is_none_or(|limit| rows <= limit);
        if share > SLOW && bound {
            self.lower(now, share);
        } else if share < STEADY && bound {
            // A machine that is busy now and then is not told of each time.
            if now - self.found_at >= RAISE_AFTER.0 {
                self.steady();
            }
            if self.limit == Some(rows) && self.changed_at.is_some_and(|at| now - at >= self.raise_after) {
                self.raise(now, share);
            }
        }
    }

    /// The median of the costs.
    fn usual(&self) -> f64 {
        let mut sorted = Vec::from_iter(self.costs.iter().copied());
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[(sorted.len() - 1) / 2]
    }

    /// The encoder takes `share` of the interval, which is too much.
    fn lower(&mut self, now: Time, share: f64) {
        let wanted = f64::from(self.rows) * (AIM / share).sqrt();
        let rungs =
            || Ladder::CALLS.heights().iter().copied().filter(|&rung| rung < self.rows && self.full > 0);
        let rung = rungs().find(|&rung| f64::from(rung) <= wanted).or(rungs().next_back());
        let remedy = rung.map_or(Remedy::Frames, Remedy::Rows);
        if self.found.is_none_or(|found| found.remedy != remedy) {
            let cost = Span::from_secs_f64(self.usual());
            self.found = Some(SlowEncoder { cost, rows: self.rows, interval: self.interval, remedy });
            self.found_at = now;
        }
        if rung.is_some() {
            if self.changed_at.is_some_and(|at| now - at < self.raise_after) {
                // What was tried last did not hold.
                self.raise_after = (self.raise_after * 2).min(RAISE_AFTER.1);
            }
            (self.limit, self.changed_at) = (rung, Some(now));
        }
    }

    /// No frame needs to be left out any more.
    fn steady(&mut self) {
        let limit = self.limit;
        self.found = self
            .found
            .and_then(|found| limit.map(|rows| SlowEncoder { remedy: Remedy::Rows(rows), ..found }));
    }

    /// The encoder takes `share` of the interval, and perhaps not too much with more rows.
    fn raise(&mut self, now: Time, share: f64) {
        let costs = |rows: u16| share * (f64::from(rows) / f64::from(self.rows)).powi(2);
        let above =
            Ladder::CALLS.heights().iter().copied().filter(|&rung| rung > self.rows && rung < self.full);
        let Some(best) = std::iter::once(self.full).chain(above).find(|&rows| costs(rows) < RAISE) else {
            return;
        };
        (self.limit, self.changed_at) = (Some(best).filter(|&best| best < self.full), Some(now));
        self.steady();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(20);

    /// An encoder that codes one frame at a time.
    #[derive(Default)]
    struct Machine {
        inside: VecDeque<(Time, u16, Span)>,
        free: Time,
        captured: i64,
    }

    impl Machine {
        /// Captures `frames` frames and gives the encoder those that it may have, a frame of 1000 rows
        /// costing it `cost`, and every 50th three times as much. Returns how many it was given, and the rows
        /// of the last.
        fn run(&mut self, shedding: &mut Shedding, frames: i64, cost: Span) -> (u32, Option<u16>) {
            let (mut given, mut last) = (0, None);
            for _ in 0..frames {
                let now = Time::ZERO + INTERVAL * self.captured;
                self.captured += 1;
                while let Some(&(out, rows, took)) = self.inside.front().filter(|&&(out, ..)| out <= now) {
                    shedding.came_out(out, rows, Some(took));
                    self.inside.pop_front();
                }
                if shedding.is_open(self.inside.len(), false) {
                    let rows = shedding.rows(None);
                    let share = rows.map_or(1.0, |rows| (f64::from(rows) / 1000.0).powi(2));
                    let took = cost.mul_f64(share * if given % 50 == 0 { 3.0 } else { 1.0 });
                    self.free = self.free.max(now) + took;
                    self.inside.push_back((self.free, rows.unwrap_or(shedding.full), took));
                    (given, last) = (given + 1, rows);
                }
            }
            (given, last)
        }
    }

    #[test]
    fn an_encoder_that_keeps_up_is_left_alone() {
        let mut shedding = Shedding::new(INTERVAL, 1000);
        let (given, rows) = Machine::default().run(&mut shedding, 1_000, Span::from_millis(17));
        assert!(given >= 997 && rows.is_none(), "{given} frames of {rows:?} rows");
        assert_eq!(shedding.found(), None);
    }

    #[test]
    fn an_encoder_that_says_nothing_of_its_cost_is_left_alone() {
        let mut shedding = Shedding::new(INTERVAL, 1000);
        assert!(!shedding.is_open(1, false) && !shedding.is_open(0, true) && shedding.is_open(0, false));
        for frame in 0..20 {
            shedding.came_out(Time::from_millis(100 * frame), 1000, None);
            assert!(shedding.is_open(7, true) && !shedding.is_open(8, false));
        }
        assert_eq!((shedding.found(), shedding.rows(None)), (None, None));
    }

    #[test]
    fn rows_go_first_and_come_back_when_there_is_time_for_them() {
        let (mut shedding, mut machine) = (Shedding::new(INTERVAL, 1000), Machine::default());
        let (given, rows) = machine.run(&mut shedding, 500, Span::from_millis(60));
        // Three intervals a frame: 12 of 20 ms with 447 rows, and 360 is the rung below.
        assert!(given > 480 && rows == Some(360), "{given} frames of {rows:?} rows");
        assert_eq!(shedding.found().unwrap().remedy, Remedy::Rows(360));
        let told = shedding.found().unwrap().to_string();
        assert!(told.starts_with(
            "the encoder is too slow: a frame of 1000 rows costs it 60 ms, and there is one every 20 ms"
        ));
        let (given, rows) = machine.run(&mut shedding, 500, Span::from_millis(5));
        assert!(given > 490 && rows.is_none(), "{given} frames of {rows:?} rows");
        assert_eq!(shedding.found(), None);
    }

    #[test]
    fn rows_that_did_not_hold_are_tried_less_and_less_often() {
        let (mut shedding, mut changes) = (Shedding::new(INTERVAL, 1000), 0);
        // Cheap with 360 rows, and far too slow with more.
        let (mut rows, mut now) = (None, Time::ZERO);
        while now < Time::from_secs(600) {
            now += INTERVAL;
            let took = if shedding.rows(None) == Some(360) { 1 } else { 60 };
            shedding.came_out(now, shedding.rows(None).unwrap_or(1000), Some(Span::from_millis(took)));
            changes += u32::from(rows != shedding.rows(None));
            rows = shedding.rows(None);
        }
        // Tries after 5, 10, 20, 40, 80, 160 and 285 s at least: up and down again each time.
        assert!((9..=15).contains(&changes), "{changes}");
    }

    #[test]
    fn frames_go_where_rows_cannot() {
        let (mut shedding, mut machine) = (Shedding::new(INTERVAL, 0), Machine::default());
        let (given, _) = machine.run(&mut shedding, 500, Span::from_millis(50));
        // 10 s by 60 ms: three intervals, for the clock of captures is 20 ms.
        assert!((150..=167).contains(&given), "{given}");
        assert_eq!(shedding.found().map(|found| found.remedy), Some(Remedy::Frames));
        assert_eq!(machine.run(&mut shedding, 500, Span::from_millis(5)).0, 500);
        assert_eq!(shedding.found(), None);
    }
}
