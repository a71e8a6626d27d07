//! What must hold of every run, and how badly it does not.
//!
//! | name | holds if | why this threshold |
//! |---|---|---|
//! | picture | no gap of more than 2 s plus 4 round trips, once the link has carried twice the least rate for 5 s | a key frame asked for and sent again is there after two round trips; longer than 2 s a person takes for broken |
//! | use | half of the link (or of the flow's highest rate) in the second half of the run | a fair controller may leave room; less than half is bandwidth thrown away |
//! | whole | no frame left out after the first 5 s | nothing happens on a steady link that a sender could not have foreseen |
//! | queue | never full (80 %) for more than 10 s on end | a sawtooth drains within seconds; what stands longer stands for good |
//! | honest | what the receiver reported as arrived and then refused is answered within 1 s plus 4 round trips | its sender will not repeat it otherwise |
//! | recovery | after a fault a new picture within 2 s, 4 round trips and a full queue's time, half the old rate within 10 s and 20 round trips | the picture as above; doubling once in two round trips from a thousandth takes 20 |
//!
//! `docs/grid.md` says the same to users. Whether an invariant is asked of a cell at all is
//! [`reach`](super::reach)'s matter.

use serde::{Deserialize, Serialize};
use units::{Span, Time};

use super::reach;
use super::terms::Terms;
use lab::run::{FrameLife, SAMPLE, WINDOW, Watched};

/// The link must have been able for so long before anything is asked; also what a flow has to find its feet.
pub const GRACE: Span = Span::from_secs(5);
/// The longest a picture may stand still, besides [`ROUND_TRIPS`].
const STILL: Span = Span::from_secs(2);
/// What "a few round trips" are: a loss is heard of, asked about, answered, and that once more.
const ROUND_TRIPS: i64 = 4;
/// A frame shown so long after its deadline is no sign of life.
const TOO_LATE: Span = Span::from_secs(2);
/// Twice the least rate is what a link must carry.
pub const ENOUGH: f64 = 2.0;
/// Share of the link to be used.
const USED: f64 = 0.5;
/// A queue is at its limit from this share of it on: one of few packets is seldom filled to the last byte.
const FULL: f64 = 0.8;
/// The longest a queue may be at its limit.
const STANDING: Span = Span::from_secs(10);
/// The longest that something refused may go unanswered, besides [`ROUND_TRIPS`].
const ANSWER: Span = Span::from_secs(1);
/// The rate is back within this, ...
pub const RATE_BACK: Span = Span::from_secs(10);
/// ... and so many round trips, ...
pub const RATE_ROUND_TRIPS: i64 = 20;
/// ... when it is this share of what it was.
const SHARE_BACK: f64 = 0.5;
/// Nothing is found more than so many times worse than allowed, so that means of scores stay numbers.
const WORST: f64 = 100.0;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Invariant {
    /// Frames keep being shown.
    Picture,
    /// The link is used.
    Use,
    /// No frame is left out.
    Whole,
    /// The queue is not full for good.
    Queue,
    /// What was reported as arrived is not silently refused.
    Honest,
    /// A fault's end is recovered from.
    Recovery,
}

impl Invariant {
    /// All of them, in the order of tables.
    pub const ALL: [Invariant; 6] = [
        Invariant::Picture,
        Invariant::Use,
        Invariant::Whole,
        Invariant::Queue,
        Invariant::Honest,
        Invariant::Recovery,
    ];

    /// Its name in tables, filters and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::Picture => "picture",
            Invariant::Use => "use",
            Invariant::Whole => "whole",
            Invariant::Queue => "queue",
            Invariant::Honest => "honest",
            Invariant::Recovery => "recovery",
        }
    }

    /// What its number counts.
    pub fn unit(self) -> &'static str {
        match self {
            Invariant::Use => "of the link",
            Invariant::Whole => "frames",
            _ => "s",
        }
    }
}

/// What was found of one invariant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The invariant that was held against the run.
    pub invariant: Invariant,
    /// What was measured, in [`Invariant::unit`].
    pub value: f64,
    /// What is allowed: at most, of `use` at least.
    pub limit: f64,
    /// How badly: up to 1 it holds, beyond it is broken by so much.
    pub badness: f64,
}

impl Finding {
    fn at_most(invariant: Invariant, value: f64, limit: f64) -> Finding {
        Finding { invariant, value, limit, badness: (value / limit).min(WORST) }
    }

    /// Whether the invariant holds.
    pub fn holds(&self) -> bool {
        self.badness <= 1.0
    }
}

/// What is found of every invariant that is asked of these terms.
pub fn judge(terms: &Terms, watched: &Watched) -> Vec<Finding> {
    let asked = Invariant::ALL.into_iter().filter(|&invariant| reach::excluded(invariant, terms).is_none());
    asked.map(|invariant| find(invariant, terms, watched)).collect()
}

/// What is found of one invariant, whether it is asked or not.
pub fn find(invariant: Invariant, terms: &Terms, watched: &Watched) -> Finding {
    match invariant {
        Invariant::Picture => picture(terms, watched),
        Invariant::Use => used(terms, watched),
        Invariant::Whole => whole(terms, watched),
        Invariant::Queue => queue(terms, watched),
        Invariant::Honest => {
            let limit = ANSWER + terms.rtt * ROUND_TRIPS;
            Finding::at_most(invariant, watched.unanswered.as_secs_f64(), limit.as_secs_f64())
        }
        Invariant::Recovery => recovery(terms, watched),
    }
}

/// The longest allowed gap between pictures.
fn longest_gap(terms: &Terms) -> Span {
    STILL + terms.rtt * ROUND_TRIPS + terms.interval
}

/// When a viewer saw something worth seeing.
fn shown(terms: &Terms, frames: &[FrameLife]) -> Vec<Time> {
    let fresh = |frame: &FrameLife| {
        let (captured, shown) = (frame.captured?, frame.shown?);
        (shown - captured <= terms.deadline + TOO_LATE).then_some(shown)
    };
    let mut shown: Vec<Time> = frames.iter().filter_map(fresh).collect();
    shown.sort_unstable();
    shown
}

/// Whether the link carries enough for the flow's least rate, window by window.
fn able(terms: &Terms, watched: &Watched) -> Vec<bool> {
    let needed = terms.least.as_f64() * ENOUGH * WINDOW.as_secs_f64() / 8.0;
    let windows = watched.capacity.iter().zip(&watched.cross);
    windows
        .map(|(&capacity, &cross)| capacity.saturating_sub(cross) as f64 / f64::from(terms.flows) >= needed)
        .collect()
}

/// The stretches of time in which the link had been able for [`GRACE`], while the flow was on for as long.
fn judged(terms: &Terms, watched: &Watched) -> Vec<(Time, Time)> {
    let able = able(terms, watched);
    let (mut stretches, mut since) = (Vec::new(), None);
    for (window, &is_able) in able.iter().chain(&[false]).enumerate() {
        let at = Time::ZERO + WINDOW * window as i64;
        if is_able {
            since.get_or_insert(at);
        } else if let Some(begin) = since.take() {
            let from = begin.max(terms.start) + GRACE;
            let to = at.min(terms.end);
            if from < to {
                stretches.push((from, to));
            }
        }
    }
    stretches
}

fn picture(terms: &Terms, watched: &Watched) -> Finding {
    let shown = shown(terms, &watched.frames);
    let mut longest = Span::ZERO;
    for (from, to) in judged(terms, watched) {
        let inside = &shown[shown.partition_point(|at| *at < from)..shown.partition_point(|at| *at <= to)];
        let mut last = from;
        for &at in inside.iter().chain(&[to]) {
            longest = longest.max(at - last);
            last = at;
        }
    }
    Finding::at_most(Invariant::Picture, longest.as_secs_f64(), longest_gap(terms).as_secs_f64())
}

/// What could be used: the link, what random loss leaves of it, and no more than the flow may send.
fn used(terms: &Terms, watched: &Watched) -> Finding {
    let middle = terms.start + (terms.end - terms.start) / 2;
    let bits = carried(watched, middle, terms.end);
    let span = (terms.end - middle).as_secs_f64();
    let usable = terms.rate.as_f64().min(terms.most.as_f64()) * (1.0 - terms.loss);
    let share = bits / (span * usable);
    let badness = (USED / share.max(USED / WORST)).min(WORST);
    Finding { invariant: Invariant::Use, value: share, limit: USED, badness }
}

/// Bits of the first flow that arrived in the whole windows from one instant to another, scaled to all of
/// that time.
fn carried(watched: &Watched, from: Time, to: Time) -> f64 {
    let width = WINDOW.as_nanos() as u64;
    let first = from.as_nanos().div_ceil(width);
    let last = (to.as_nanos() / width).min(watched.carried.len() as u64);
    if first >= last {
        return 0.0;
    }
    let bytes: u64 = watched.carried[first as usize..last as usize].iter().sum();
    let covered = WINDOW.as_secs_f64() * (last - first) as f64;
    bytes as f64 * 8.0 * (to - from).as_secs_f64() / covered
}

fn whole(terms: &Terms, watched: &Watched) -> Finding {
    let from = terms.start + GRACE;
    // What was captured at the very end may still be under way.
    let to = terms.end.saturating_sub(longest_gap(terms));
    let counted = |frame: &&FrameLife| frame.captured.is_some_and(|at| from <= at && at < to);
    let all = watched.frames.iter().filter(counted).count();
    let left_out = watched.frames.iter().filter(counted).filter(|frame| frame.is_left_out()).count();
    let share = left_out as f64 / all.max(1) as f64;
    // One frame breaks it; from there on its share among all says how badly.
    let badness = if left_out == 0 { 0.0 } else { 1.001 + 9.0 * share };
    Finding { invariant: Invariant::Whole, value: left_out as f64, limit: 0.0, badness }
}

fn queue(terms: &Terms, watched: &Watched) -> Finding {
    let room = terms.room.map_or(f64::INFINITY, |room| room as f64);
    let places = terms.places.map_or(f64::INFINITY, f64::from);
    let full = |backlog: &netsim::queue::Backlog| {
        (backlog.bytes as f64 / room).max(f64::from(backlog.packets) / places) >= FULL
    };
    let longest = watched.backlog.chunk_by(|a, b| full(a) == full(b)).filter(|run| full(&run[0]));
    let longest = longest.map(<[_]>::len).max().unwrap_or(0) as f64 * SAMPLE.as_secs_f64();
    Finding::at_most(Invariant::Queue, longest, STANDING.as_secs_f64())
}

/// The worse of picture and rate after each fault.
fn recovery(terms: &Terms, watched: &Watched) -> Finding {
    let worst = terms
        .faults
        .iter()
        .flat_map(|&(from, to)| [picture_back(terms, watched, to), rate_back(terms, watched, (from, to))]);
    let none = Finding::at_most(Invariant::Recovery, 0.0, STILL.as_secs_f64());
    worst.fold(none, |worst, found| if found.badness > worst.badness { found } else { worst })
}

/// How long after a fault a picture taken since was seen.
fn picture_back(terms: &Terms, watched: &Watched, over: Time) -> Finding {
    let since = watched.frames.iter().filter(|frame| frame.captured.is_some_and(|at| at >= over));
    let first = since.filter_map(|frame| frame.shown).min().unwrap_or(terms.end).max(over);
    let limit = longest_gap(terms) + terms.drain();
    Finding::at_most(Invariant::Recovery, (first - over).as_secs_f64(), limit.as_secs_f64())
}

/// How long after a fault the rate of a second was half of what it had been before.
fn rate_back(terms: &Terms, watched: &Watched, (from, over): (Time, Time)) -> Finding {
    let second = Span::from_secs(1);
    let before = carried(watched, from.saturating_sub(GRACE).max(terms.start), from);
    let before = before / (from - from.saturating_sub(GRACE).max(terms.start)).as_secs_f64();
    let width = WINDOW.as_nanos() as u64;
    let ends = (over.as_nanos().div_ceil(width)..).map(|n| Time::from_nanos(n * width) + second);
    let mut ends = ends.take_while(|end| *end <= terms.end);
    let back = ends.find(|&end| carried(watched, end.saturating_sub(second), end) >= SHARE_BACK * before);
    let value = back.unwrap_or(terms.end).max(over) - over;
    let limit = RATE_BACK + terms.rtt * RATE_ROUND_TRIPS;
    let found = Finding::at_most(Invariant::Recovery, value.as_secs_f64(), limit.as_secs_f64());
    // One that never came back within the run is broken, however short the rest of the run was.
    let badness = if back.is_none() { found.badness.max(2.0) } else { found.badness };
    Finding { badness, ..found }
}
