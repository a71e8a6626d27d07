//! What the figures of the thesis' chapter 4 show, of clips whose qualities are known: how far predicted
//! frames are above key frames, how well the model predicts, what a table gains, and how near it comes to the
//! best choice for one place.

use serde::Serialize;

use crate::greedy::{Goal, Pair, Place, optimum, worth};
use crate::model::{Quality, Recording, Step, exponential, predict};
use crate::table::Table;

/// Mean qualities at one rate, for Fig. 4.1 and 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The rate in bit/s.
    pub bps: u64,
    /// Mean SSIM of key frames.
    pub key: f64,
    /// Mean SSIM of a predicted stream, from its steady state on.
    pub predicted: f64,
}

impl Gap {
    /// How much of the key frames' distortion (1 - SSIM) the predicted stream does not have.
    pub fn less_distortion(&self) -> f64 {
        1.0 - (1.0 - self.predicted) / (1.0 - self.key)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Frames after which a predicted stream counts as steady: half a second at 60 Hz. Clips that are shorter
/// than twice that have half of themselves.
const SETTLING: usize = 30;

/// The frames of a clip from which on a predicted stream is steady.
pub fn steady_from(frames: usize) -> usize {
    SETTLING.min(frames / 2)
}

/// Key frames beside predicted ones, at each recorded rate.
pub fn gaps(recording: &Recording) -> Vec<Gap> {
    let columns = recording.rates.iter().zip(&recording.key).zip(&recording.steady);
    columns
        .map(|((rate, key), steady)| {
            let from = steady_from(key.len());
            Gap { bps: rate.as_bps(), key: mean(&key[from..]), predicted: mean(&steady[from..]) }
        })
        .collect()
}

/// Relative errors of predicted SSIM, each list in rising order (Fig. 4.10).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Of the black-box model.
    pub model: Vec<f64>,
    /// Of exponential relaxation, whose constant is the best for each schedule.
    pub exponential: Vec<f64>,
}

/// Share of errors that count as small (acceptance 3 and Fig. 4.10: one per cent of the true SSIM).
pub const SMALL: f64 = 0.01;

impl Errors {
    /// Adds the errors over a schedule that was coded: its first frame is where the prediction begins.
    ///
    /// # Panics
    /// If there are fewer frames of truth than of the schedule.
    pub fn add(&mut self, quality: &dyn Quality, start: usize, steps: &[Step], truth: &[f64]) {
        let Some((_, steps)) = steps.split_first() else { return };
        let (begin, truth) = (truth[0], &truth[1..=steps.len()]);
        let of = |found: Vec<f64>| -> Vec<f64> {
            found
                .iter()
                .zip(truth)
                .map(|(found, truth)| (found - truth).abs() / truth.abs().max(1e-6))
                .collect()
        };
        self.model.extend(of(predict(quality, start + 1, begin, steps)));
        self.exponential.extend(of(exponential(quality, start + 1, begin, steps, truth)));
        self.model.sort_by(f64::total_cmp);
        self.exponential.sort_by(f64::total_cmp);
    }

    /// The errors of several clips together.
    #[must_use]
    pub fn join(all: &[&Errors]) -> Errors {
        let pool = |of: fn(&Errors) -> &Vec<f64>| {
            let mut pool: Vec<f64> = all.iter().flat_map(|errors| of(errors).clone()).collect();
            pool.sort_by(f64::total_cmp);
            pool
        };
        Errors { model: pool(|errors| &errors.model), exponential: pool(|errors| &errors.exponential) }
    }

    /// Share of the sorted `errors` that are at most [`SMALL`].
    pub fn small(errors: &[f64]) -> f64 {
        errors.partition_point(|&error| error <= SMALL) as f64 / errors.len().max(1) as f64
    }

    /// Mean of the model's errors and of the exponential's.
    pub fn means(&self) -> (f64, f64) {
        (mean(&self.model), mean(&self.exponential))
    }
}

/// A value of a sorted list at this share of its length; zero of none.
pub fn at_share(sorted: &[f64], share: f64) -> f64 {
    match sorted.len() {
        0 => 0.0,
        n => sorted[((n - 1) as f64 * share).round() as usize],
    }
}

/// The part of key-frame recovery's distortion that a table's decisions avoid, as a mean over places, both
/// outcomes weighted as the goal says: 0 for none, below it if they add some.
pub fn gain(places: &[Place<'_>], table: &Table, pair: Pair, frames: usize, goal: &Goal) -> f64 {
    let key_only = vec![pair.during as u8; frames];
    let row = &table.row(pair.before, pair.during)[..frames];
    let sum = |decisions: &[u8]| {
        places.iter().map(|place| worth(place, pair, decisions, goal).dssim(goal.weight)).sum::<f64>()
    };
    1.0 - sum(row) / sum(&key_only)
}

/// [`gain`] of a table for every pair whose rate during recovery is at least half of that before and no
/// higher, and for every length of a recovery: what Fig. 4.17 compares two tables by.
pub fn gains(places: &[Place<'_>], table: &Table, goal: &Goal) -> Vec<f64> {
    let pairs = (1..=table.steps()).flat_map(usual);
    let lengths = |pair| (1..=table.frames()).map(move |frames| (pair, frames));
    pairs.flat_map(lengths).map(|(pair, frames)| gain(places, table, pair, frames, goal)).collect()
}

/// The pairs whose rate during recovery is at least half of that before and no higher, which Fig. 4.16a
/// aggregates over.
fn usual(before: usize) -> impl Iterator<Item = Pair> {
    (before.div_ceil(2)..=before).map(move |during| Pair { before, during })
}

/// Mean gain for each rate before (in steps) over recoveries of half the longest (Fig. 4.16a).
pub fn gain_by_before(places: &[Place<'_>], table: &Table, goal: &Goal) -> Vec<(usize, f64)> {
    let frames = table.frames().div_ceil(2);
    let at = |before| {
        let gains: Vec<f64> = usual(before).map(|pair| gain(places, table, pair, frames, goal)).collect();
        (before, mean(&gains))
    };
    (1..=table.steps()).map(at).collect()
}

/// Mean gain for each length of a recovery, over the same pairs (Fig. 4.16c).
pub fn gain_by_frames(places: &[Place<'_>], table: &Table, goal: &Goal) -> Vec<(usize, f64)> {
    let at = |frames| {
        let gains: Vec<f64> =
            (1..=table.steps()).flat_map(usual).map(|pair| gain(places, table, pair, frames, goal)).collect();
        (frames, mean(&gains))
    };
    (1..=table.frames()).map(at).collect()
}

/// How near a table comes to the best choice for each place (Fig. 4.16b), each list in rising order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Nearness {
    /// The table's objective over the optimum's.
    pub objective: Vec<f64>,
    /// The table's mean DSSIM over the optimum's, less one: a stricter measure, since most of an objective of
    /// high SSIM is had by any choice.
    pub excess_dssim: Vec<f64>,
}

/// Of the steps of a table, every so many-th takes part in [`nearness`]: an optimum takes a thousand times as
/// long as a lookup.
const THINNED: usize = 4;

/// Holds a table against [`optimum`], for recoveries of a third, two thirds and all of the longest one.
pub fn nearness(places: &[Place<'_>], table: &Table, goal: &Goal) -> Nearness {
    let mut near = Nearness::default();
    let befores = (THINNED..=table.steps()).step_by(THINNED);
    for pair in befores.flat_map(|before| usual(before).step_by(THINNED.div_ceil(2))) {
        for frames in (1..=3).map(|third| (table.frames() * third).div_ceil(3)) {
            for place in places {
                let best = worth(place, pair, &optimum(place, pair, frames, goal), goal);
                let ours = worth(place, pair, &table.row(pair.before, pair.during)[..frames], goal);
                near.objective.push(ours.objective(goal.weight) / best.objective(goal.weight));
                near.excess_dssim.push(ours.dssim(goal.weight) / best.dssim(goal.weight) - 1.0);
            }
        }
    }
    near.objective.sort_by(f64::total_cmp);
    near.excess_dssim.sort_by(f64::total_cmp);
    near
}

/// Qualities of two streams of the same frames, the rate above one of them (Fig. 4.4).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// What the lines are, in order.
    pub labels: Vec<String>,
    /// SSIM of each frame, a list a line.
    pub ssim: Vec<Vec<f64>>,
}

/// Everything that is shown of one style.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Study {
    /// Name of the style, as its table has it.
    pub style: String,
    /// The clips' names, with their frames.
    pub clips: Vec<String>,
    /// One step of the first clip's rates, in bit/s.
    pub step_bps: u64,
    /// Fig. 4.1 and 4.3, of the first clip.
    pub gaps: Vec<Gap>,
    /// Fig. 4.4a, of the first clip: a key frame every 15 frames.
    pub insertion: Course,
    /// Fig. 4.4b, of the first clip: the rate doubled at frame 30, and back at 60.
    pub change: Course,
    /// Fig. 4.10.
    pub errors: Errors,
    /// Fig. 4.16a: rate before in steps, gain of the style's own table.
    pub gain_by_before: Vec<(usize, f64)>,
    /// Fig. 4.16c: frames of the recovery, gain.
    pub gain_by_frames: Vec<(usize, f64)>,
    /// The same with the global table (Fig. 4.17).
    pub gain_of_global: Vec<(usize, f64)>,
    /// Fig. 4.16b.
    pub nearness: Nearness,
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::greedy::decide_all;
    use crate::model::tests::Formula;
    use crate::table::tests::about;

    const GOAL: Goal = Goal { horizon: 30, weight: 0.5, frames: 6 };

    fn table(places: &[Place<'_>]) -> Table {
        Table::new(about(), Rate::from_mbps(1), 8, GOAL.frames, decide_all(places, 8, &GOAL, &|_| ()))
    }

    #[test]
    fn efficient_prediction_gains_more_and_the_table_is_near_the_optimum() {
        let gains = |key: f64| {
            let quality = Formula { key, speed: 0.1 };
            let places = [Place { quality: &quality, frame: 30, step: Rate::from_mbps(1) }];
            let table = table(&places);
            let near = nearness(&places, &table, &GOAL);
            assert!(
                at_share(&near.objective, 0.5) > 0.97
                    && near.objective.iter().all(|ratio| *ratio <= 1.0 + 1e-9)
            );
            assert!(near.excess_dssim[0] > -1e-9);
            let by_frames = gain_by_frames(&places, &table, &GOAL);
            assert_eq!(by_frames.len(), GOAL.frames);
            mean(&gain_by_before(&places, &table, &GOAL).iter().map(|(_, gain)| *gain).collect::<Vec<f64>>())
        };
        let (costly, cheap) = (gains(0.2), gains(0.8));
        assert!(costly > 0.1 && costly > 2.0 * cheap, "{costly} {cheap}");
    }

    #[test]
    fn errors_are_relative_and_counted() {
        let formula = Formula { key: 0.3, speed: 0.25 };
        let steps: Vec<Step> = (0..40u64).map(|k| Step::Predicted(Rate::from_mbps(1 + k / 10))).collect();
        let truth = [vec![0.8], predict(&formula, 1, 0.8, &steps[1..])].concat();
        let mut errors = Errors::default();
        errors.add(&formula, 0, &steps, &truth);
        assert_eq!((errors.model.len(), Errors::small(&errors.model)), (39, 1.0));
        // The truth, but a twentieth higher.
        let higher: Vec<f64> =
            truth.iter().enumerate().map(|(k, q)| if k == 0 { *q } else { q * 1.05 }).collect();
        errors.add(&formula, 0, &steps, &higher);
        assert_eq!(Errors::small(&errors.model), 0.5);
        assert!((errors.means().0 - 0.05 / 1.05 / 2.0).abs() < 1e-3);
        assert_eq!(Errors::join(&[&errors, &errors]).model.len(), 2 * 78);
    }

    #[test]
    fn gaps_are_means_from_the_steady_state_on() {
        let column = |first: f64, then: f64| [vec![first; 30], vec![then; 70]].concat();
        let recording = Recording {
            rates: vec![Rate::from_mbps(1)],
            key: vec![column(0.1, 0.8)],
            steady: vec![column(0.1, 0.9)],
            runs: Vec::new(),
        };
        let gap = gaps(&recording)[0];
        assert!((gap.less_distortion() - 0.5).abs() < 1e-9, "{gap:?}");
        assert_eq!(steady_from(40), 20);
    }
}
