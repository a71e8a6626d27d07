//! From qualities to decisions: the thesis' greedy choice (section 4.5.2, equations 4.2 to 4.4), what a
//! choice is worth, and the best choice for one place.
//!
//! A recovery of `n` frames at the rate B codes frame k as a key frame of `x[k]` and as a predicted one of
//! `B - x[k]`. If the loss was true, the key frames are shown, if it was a false alarm, the predicted ones;
//! from then on the predicted stream goes on at B:
//!
//! ```text
//!   O1 = sum of Q_I(x[k])     + sum of Q_P over the K frames after       a true loss, weight w
//!   O2 = sum of Q_P(B - x[k]) + the same                                 a false alarm, weight 1 - w
//! ```
//!
//! The greedy choice for a frame takes it for the last one of the recovery.
//!
//! Deviations: the thesis prints O2 with one frame more than O1, which would weigh false alarms more; here
//! both have K + 1 terms. Its Q_P has x where the rate of the predicted frames is meant, B - x. And it does
//! not say what becomes of the predicted stream once x = B: here it ends, later frames of the recovery are
//! key frames alone, and after it frames are predicted from the last of them.

use units::Rate;

use crate::model::Quality;

/// What is to be good, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Frames after the recovery that count (K).
    pub horizon: usize,
    /// Weight of true losses, 0 to 1 (w).
    pub weight: f64,
    /// Frames of the longest recovery (D).
    pub frames: usize,
}

impl Default for Goal {
    /// K = 60 frames, a second of the thesis' clips (it states none), w = 0.5 as in all of its plots, D =
    /// 10 as in its example.
    fn default() -> Goal {
        Goal { horizon: 60, weight: 0.5, frames: 10 }
    }
}

/// A place in a clip at which a recovery begins.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// What its frames look like.
    pub quality: &'a dyn Quality,
    /// First frame of the recovery.
    pub frame: usize,
    /// One step of rates, for this clip's pictures.
    pub step: Rate,
}

impl Place<'_> {
    fn rate(&self, steps: usize) -> Rate {
        Rate::from_bps(self.step.as_bps() * steps as u64)
    }

    /// Of the frames of the horizon that follow `frame`, at the rate `during`.
    fn tail(&self, goal: &Goal, during: Rate, frame: usize, last: f64) -> f64 {
        let mut last = last;
        let mut sum = 0.0;
        for at in frame + 1..=frame + goal.horizon {
            last = self.quality.next(during, at, last);
            sum += last;
        }
        sum
    }
}

/// Rates before and during a recovery, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Of the stream until the recovery.
    pub before: usize,
    /// Of both streams together while it lasts, and of the one that goes on.
    pub during: usize,
}

/// The predicted stream within a recovery.
#[derive(Clone, Copy)]
struct State {
    /// Quality of its last frame.
    last: f64,
    /// It has ended: only key frames are sent.
    ended: bool,
}

/// One frame of a recovery.
struct Shown {
    key: f64,
    predicted: f64,
    after: State,
}

fn begin(place: &Place<'_>, pair: Pair) -> State {
    let before = place.frame.saturating_sub(1);
    State { last: place.quality.steady(place.rate(pair.before), before), ended: false }
}

fn show(place: &Place<'_>, pair: Pair, frame: usize, x: usize, state: State) -> Shown {
    let key = place.quality.key(place.rate(x), frame);
    if x >= pair.during || state.ended {
        return Shown { key, predicted: key, after: State { last: key, ended: true } };
    }
    let predicted = place.quality.next(place.rate(pair.during - x), frame, state.last);
    Shown { key, predicted, after: State { last: predicted, ended: false } }
}

/// The greedy decisions for one pair of rates: steps of key frames, frame by frame, with the mean objective
/// over `places` as what is to be largest.
///
/// # Panics
/// If there is no place.
pub fn decide(places: &[Place<'_>], pair: Pair, goal: &Goal) -> Vec<u8> {
    assert!(!places.is_empty(), "decisions need a place");
    let mut states: Vec<State> = places.iter().map(|place| begin(place, pair)).collect();
    let mut decisions = Vec::with_capacity(goal.frames);
    for k in 0..goal.frames {
        let least = if states[0].ended { pair.during } else { 1 };
        let worth = |x: usize| -> f64 {
            let each = places.iter().zip(&states).map(|(place, &state)| {
                let frame = place.frame + k;
                let shown = show(place, pair, frame, x, state);
                let tail = place.tail(goal, place.rate(pair.during), frame, shown.after.last);
                goal.weight * shown.key + (1.0 - goal.weight) * shown.predicted + tail
            });
            each.sum()
        };
        let best = best_of(least..=pair.during, worth);
        for (place, state) in places.iter().zip(&mut states) {
            *state = show(place, pair, place.frame + k, best, *state).after;
        }
        decisions.push(best as u8);
    }
    decisions
}

/// The smallest of the candidates that are worth most.
fn best_of(candidates: impl Iterator<Item = usize>, worth: impl Fn(usize) -> f64) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for x in candidates {
        let worth = worth(x);
        if worth > best.1 {
            best = (x, worth);
        }
    }
    best.0
}

/// Every decision of a table with so many steps, as [`crate::Table::new`] takes them. `done` is told how many
/// of the pairs of rates are decided.
pub fn decide_all(places: &[Place<'_>], steps: usize, goal: &Goal, done: &dyn Fn(usize)) -> Vec<u8> {
    let pairs = (1..=steps).flat_map(|before| (1..=steps).map(move |during| Pair { before, during }));
    let mut all = Vec::with_capacity(steps * steps * goal.frames);
    for (count, pair) in (1..).zip(pairs) {
        all.extend(decide(places, pair, goal));
        done(count);
    }
    all
}

/// What a recovery looks like to the viewer, as sums of quality over its frames and the horizon after them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// If the loss was true.
    pub real: f64,
    /// If it was a false alarm.
    pub spurious: f64,
    /// Frames in each sum.
    pub frames: usize,
}

impl Worth {
    /// The objective, with this weight of true losses.
    pub fn objective(&self, weight: f64) -> f64 {
        weight * self.real + (1.0 - weight) * self.spurious
    }

    /// The objective as a mean distance from a perfect picture: DSSIM, (1 - SSIM) / 2.
    pub fn dssim(&self, weight: f64) -> f64 {
        (1.0 - self.objective(weight) / self.frames as f64) / 2.0
    }
}

/// What these decisions are worth in a recovery that takes as many frames as there are decisions.
pub fn worth(place: &Place<'_>, pair: Pair, decisions: &[u8], goal: &Goal) -> Worth {
    let mut state = begin(place, pair);
    let (mut real, mut spurious) = (0.0, 0.0);
    for (frame, &x) in (place.frame..).zip(decisions) {
        let x = if state.ended { pair.during } else { usize::from(x) };
        let shown = show(place, pair, frame, x, state);
        (real, spurious, state) = (real + shown.key, spurious + shown.predicted, shown.after);
    }
    let last = place.frame + decisions.len().saturating_sub(1);
    let tail = place.tail(goal, place.rate(pair.during), last, state.last);
    Worth { real: real + tail, spurious: spurious + tail, frames: decisions.len() + goal.horizon }
}

/// Sweeps over all frames after which [`optimum`] stops at the latest. It needs two or three.
const MOST_SWEEPS: usize = 20;

/// The best decisions for one place and a recovery of just `frames` frames, as far as coordinate descent
/// finds them: one decision after the other is set to its best value, with the others as they are, until
/// none changes. It begins at the greedy decisions of this place, at an even split and at key frames alone,
/// and keeps the best end. Not proven to be the best of all; for two and three frames a test compares it
/// with every schedule there is.
pub fn optimum(place: &Place<'_>, pair: Pair, frames: usize, goal: &Goal) -> Vec<u8> {
    let objective = |decisions: &[u8]| worth(place, pair, decisions, goal).objective(goal.weight);
    let greedy = decide(std::slice::from_ref(place), pair, &Goal { frames, ..*goal });
    let half = vec![pair.during.div_ceil(2) as u8; frames];
    let ends = [greedy, half, vec![pair.during as u8; frames]].map(|begin| descend(begin, pair, &objective));
    ends.into_iter().max_by(|a, b| objective(a).total_cmp(&objective(b))).expect("three began")
}

fn descend(mut decisions: Vec<u8>, pair: Pair, objective: &dyn Fn(&[u8]) -> f64) -> Vec<u8> {
    for _ in 0..MOST_SWEEPS {
        let before = decisions.clone();
        for k in 0..decisions.len() {
            let with = |x: usize| {
                let mut changed = decisions.clone();
                changed[k] = x as u8;
                objective(&changed)
            };
            let (now, best) = (usize::from(decisions[k]), best_of(1..=pair.during, with));
            if with(best) > with(now) {
                decisions[k] = best as u8;
            }
        }
        if decisions == before {
            break;
        }
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::Formula;

    const STEPS: usize = 6;

    fn place(quality: &Formula) -> Place<'_> {
        Place { quality, frame: 20, step: Rate::from_mbps(1) }
    }

    fn pairs() -> impl Iterator<Item = Pair> {
        (1..=STEPS).flat_map(|before| (1..=STEPS).map(move |during| Pair { before, during }))
    }

    /// Key frames need three times the rate; the predicted stream goes a tenth of the way in a frame.
    const SLOW: Formula = Formula { key: 0.3, speed: 0.1 };

    #[test]
    fn coordinate_descent_finds_what_an_exhaustive_search_finds() {
        let goal = Goal { horizon: 30, ..Goal::default() };
        for pair in pairs() {
            for frames in 2..=3usize {
                let objective =
                    |decisions: &[u8]| worth(&place(&SLOW), pair, decisions, &goal).objective(goal.weight);
                let all = (0..pair.during.pow(frames as u32)).map(|mut number| {
                    let digit = || {
                        let digit = number % pair.during;
                        number /= pair.during;
                        digit as u8 + 1
                    };
                    objective(&std::iter::repeat_with(digit).take(frames).collect::<Vec<u8>>())
                });
                let best = all.fold(f64::NEG_INFINITY, f64::max);
                let found = objective(&optimum(&place(&SLOW), pair, frames, &goal));
                assert!((best - found).abs() < 1e-9, "{pair:?} {frames}: {best} {found}");
            }
        }
    }

    #[test]
    fn the_greedy_choice_is_nearly_the_best_and_hardly_worse_than_key_frames() {
        let goal = Goal::default();
        for pair in pairs() {
            let greedy = decide(&[place(&SLOW)], pair, &goal);
            let objective =
                |decisions: &[u8]| worth(&place(&SLOW), pair, decisions, &goal).objective(goal.weight);
            let best = objective(&optimum(&place(&SLOW), pair, goal.frames, &goal));
            assert!(objective(&greedy) >= 0.97 * best, "{pair:?}: {greedy:?}");
            // Section 4.7.1.3 of the thesis: only slightly worse than key frames from the beginning.
            let key_only = objective(&[pair.during as u8; 10]);
            assert!(objective(&greedy) >= 0.998 * key_only, "{pair:?}: {greedy:?}");
        }
    }

    #[test]
    fn what_only_a_false_alarm_would_want_goes_into_the_predicted_stream() {
        let goal = Goal { weight: 0.0, ..Goal::default() };
        // Where the stream was worse than a key frame, a key frame is what helps it.
        for pair in pairs().filter(|pair| pair.before >= pair.during && pair.during > 1) {
            assert_eq!(decide(&[place(&SLOW)], pair, &goal), [1; 10], "{pair:?}");
        }
    }

    #[test]
    fn a_predicted_stream_that_is_no_better_is_given_up() {
        // Key frames as good as predicted ones, which take up what they were told at once.
        let like_keys = Formula { key: 1.0, speed: 1.0 };
        let goal = Goal { horizon: 0, ..Goal::default() };
        for pair in pairs() {
            assert_eq!(decide(&[place(&like_keys)], pair, &goal)[0] as usize, pair.during, "{pair:?}");
        }
    }

    #[test]
    fn once_the_predicted_stream_has_ended_only_key_frames_follow() {
        let worth_of = |decisions: &[u8]| {
            worth(&place(&SLOW), Pair { before: 4, during: 4 }, decisions, &Goal::default())
        };
        assert_eq!(worth_of(&[4, 1, 2]), worth_of(&[4, 4, 4]));
        assert!(worth_of(&[2, 2, 2]).spurious > worth_of(&[4, 4, 4]).spurious);
        let worth = worth_of(&[4, 4, 4]);
        assert_eq!((worth.real, worth.frames), (worth.spurious, 63));
        assert!((worth.dssim(0.3) - (1.0 - worth.real / 63.0) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_table_has_a_row_for_every_pair() {
        let goal = Goal { horizon: 10, frames: 3, ..Goal::default() };
        let told = std::cell::Cell::new(0);
        let all = decide_all(&[place(&SLOW)], 3, &goal, &|count| told.set(count));
        assert_eq!((all.len(), told.get()), (27, 9));
        assert_eq!(all[3..6], decide(&[place(&SLOW)], Pair { before: 1, during: 2 }, &goal));
    }
}
