//! What a loss predictor is worth on runs that it did not see, with the definitions of
//! `docs/loss-predictor.md`: those of `python/research/loss_predictor`, which trained it.
//!
//! ```text
//! stride      |   end   | end+1 ...  end+5 |
//!             ^ 16 windows that the sender has seen
//!                       ^ 50 ms: is a packet sent here lost? (truth)   a trigger at `end` holds here
//! ```

use lab::run::{Fate, Windows};
use predict::{HORIZON, Input, Predictor, Row, STRIDE, WINDOWS};

/// Strides that a prediction looks ahead, and that a trigger holds.
const AHEAD: usize = (HORIZON.as_nanos() / STRIDE.as_nanos()) as usize;
/// Strides at a run's end (two seconds) whose losses may not have been found out when it ended.
const UNSETTLED: usize = 200;
/// A loss after more strides than these (200 ms) without one is the first of an episode.
const QUIET: usize = 20;
/// Strides of 80 ms: five frames at 60 a second (Fig. 4.29 of the thesis).
const FIVE_FRAMES: usize = 8;
/// Thresholds of a trade-off's curve, and the least share of windows that one of them lets through.
const CURVE: (usize, f64) = (40, 1e-4);

/// A run, and what a predictor said of it.
pub(crate) struct Answered<'a> {
    fates: &'a [Fate],
    /// Strides after which a prediction is made: something was heard in the 16 windows, and the truth is
    /// known.
    ends: Vec<usize>,
    /// For each end, whether a packet sent within the horizon after it was lost.
    truths: Vec<bool>,
    /// For each end, the predictor's answer.
    said: Vec<f32>,
}

/// What follows from a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Of windows before a loss, the share at or above the threshold.
    pub recall: f64,
    /// Of windows at or above the threshold, the share before a loss.
    pub precision: f64,
    /// Triggers a second with no loss in the 50 ms that they hold.
    pub false_triggers: f64,
    /// Of lost packets, the share that was sent while a trigger held.
    pub covered: f64,
    /// Of episodes, the share whose first loss was sent while a trigger held.
    pub foretold: f64,
}

/// Whether a packet sent within the horizon after stride `end` was lost.
fn truth(fates: &[Fate], end: usize) -> bool {
    fates[end + 1..=end + AHEAD].iter().any(|fate| fate.lost > 0)
}

/// Strides after which a prediction is made.
fn ends(rows: &[Row]) -> Vec<usize> {
    let heard = |end: &usize| rows[end + 1 - WINDOWS..=*end].iter().any(|row| row[7] == 0.0);
    (WINDOWS - 1..rows.len().saturating_sub(AHEAD + UNSETTLED)).filter(heard).collect()
}

impl<'a> Answered<'a> {
    /// Asks `predictor` after every stride of a run at which a sender would ask.
    pub fn by(predictor: &mut dyn Predictor, seen: &'a Windows) -> Answered<'a> {
        let mut ask = |end: usize| {
            let windows = &seen.rows[end + 1 - WINDOWS..=end];
            predictor.probability(&Input(windows.try_into().expect("as many as an input has")))
        };
        let ends = ends(&seen.rows);
        let said = ends.iter().map(|&end| ask(end)).collect();
        let truths = ends.iter().map(|&end| truth(&seen.fates, end)).collect();
        Answered { fates: &seen.fates, ends, truths, said }
    }

    /// Places in `ends` at which a sender would trigger: while a trigger holds there is no other.
    fn triggers(&self, threshold: f32) -> Vec<usize> {
        let mut free = 0;
        let taken = |&place: &usize| {
            let trigger = self.said[place] >= threshold && self.ends[place] >= free;
            free = if trigger { self.ends[place] + AHEAD } else { free };
            trigger
        };
        (0..self.ends.len()).filter(taken).collect()
    }

    /// Strides right after an end in which the first packet of an episode of losses was sent.
    fn onsets(&self) -> impl Iterator<Item = usize> {
        let mut last = None;
        let first = move |stride: &usize| {
            let quiet = last.is_none_or(|last| stride - last > QUIET);
            last = Some(*stride);
            quiet
        };
        let lossy = (0..self.fates.len()).filter(|&stride| self.fates[stride].lost > 0);
        let known = |stride: &usize| *stride > 0 && self.ends.binary_search(&(stride - 1)).is_ok();
        lossy.filter(first).filter(known)
    }
}

/// Counts of [`judge`], over all runs.
#[derive(Default)]
struct Counts {
    hits: u64,
    alarms: u64,
    losses: u64,
    false_triggers: u64,
    ends: u64,
    covered: u64,
    lost: u64,
    foretold: u64,
    onsets: u64,
}

impl Counts {
    fn add(&mut self, run: &Answered<'_>, threshold: f32) {
        for (&said, &truth) in run.said.iter().zip(&run.truths) {
            self.hits += u64::from(said >= threshold && truth);
            self.alarms += u64::from(said >= threshold);
            self.losses += u64::from(truth);
        }
        let mut held = vec![false; run.fates.len()];
        for place in run.triggers(threshold) {
            self.false_triggers += u64::from(!run.truths[place]);
            held[run.ends[place] + 1..=run.ends[place] + AHEAD].fill(true);
        }
        self.ends += run.ends.len() as u64;
        for next in run.ends.iter().map(|end| end + 1) {
            let lost = u64::from(run.fates[next].lost);
            self.lost += lost;
            self.covered += if held[next] { lost } else { 0 };
        }
        for onset in run.onsets() {
            self.onsets += 1;
            self.foretold += u64::from(held[onset]);
        }
    }
}

/// What follows from `threshold`, counted over all runs together. Not a number where there is nothing to
/// take a share of.
pub(crate) fn judge(runs: &[Answered<'_>], threshold: f32) -> Point {
    let mut counts = Counts::default();
    runs.iter().for_each(|run| counts.add(run, threshold));
    let share = |part: u64, whole: u64| part as f64 / whole as f64;
    let seconds = counts.ends as f64 * STRIDE.as_secs_f64();
    Point {
        recall: share(counts.hits, counts.losses),
        precision: share(counts.hits, counts.alarms),
        false_triggers: counts.false_triggers as f64 / seconds,
        covered: share(counts.covered, counts.lost),
        foretold: share(counts.foretold, counts.onsets),
    }
}

/// Windows judged, and those of them before a loss.
pub(crate) fn windows(runs: &[Answered<'_>]) -> (usize, usize) {
    let of = |run: &Answered<'_>| (run.truths.len(), run.truths.iter().filter(|&&truth| truth).count());
    runs.iter().map(of).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// Every answer and its truth, lowest answer first.
fn ranked(runs: &[Answered<'_>]) -> Vec<(f32, bool)> {
    let each = runs.iter().flat_map(|run| run.said.iter().copied().zip(run.truths.iter().copied()));
    let mut all: Vec<(f32, bool)> = each.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Area under the ROC curve, over all runs together.
pub(crate) fn auc(runs: &[Answered<'_>]) -> f64 {
    area(&ranked(runs))
}

/// The chance that an answer before a loss is above one before none; equal answers count half. Not a number
/// without both kinds.
fn area(ranked: &[(f32, bool)]) -> f64 {
    let (mut below, mut before_loss, mut pairs) = (0.0, 0.0, 0.0);
    for equal in ranked.chunk_by(|a, b| a.0 == b.0) {
        let lossy = equal.iter().filter(|answer| answer.1).count() as f64;
        let quiet = equal.len() as f64 - lossy;
        pairs += lossy * (below + quiet / 2.0);
        below += quiet;
        before_loss += lossy;
    }
    pairs / (below * before_loss)
}

/// Recall over false triggers a second, for thresholds that let through from one in 10,000 windows up to all
/// of them, in equal ratios.
pub(crate) fn trade_off(runs: &[Answered<'_>]) -> Vec<(f64, f64)> {
    let ranked = ranked(runs);
    let Some(last) = ranked.len().checked_sub(1) else { return Vec::new() };
    let (count, least) = CURVE;
    let place = |step: usize| {
        let share = least.powf(1.0 - step as f64 / (count - 1) as f64);
        ((1.0 - share) * last as f64).ceil() as usize
    };
    let mut thresholds: Vec<f32> = (0..count).map(|step| ranked[place(step)].0).collect();
    thresholds.dedup();
    let point = |threshold| {
        let point = judge(runs, threshold);
        (point.false_triggers, point.recall)
    };
    thresholds.into_iter().map(point).collect()
}

/// Of each 80 ms of a run in which a packet was sent that was lost: the share of the packets sent then that
/// were lost, in percent.
pub(crate) fn loss_shares(fates: &[Fate]) -> impl Iterator<Item = f64> {
    fates.chunks_exact(FIVE_FRAMES).filter_map(|fates| {
        let sum = |of: fn(&Fate) -> u32| fates.iter().map(of).sum::<u32>();
        let (sent, lost) = (sum(|fate| fate.sent), sum(|fate| fate.lost));
        (lost > 0).then(|| 100.0 * f64::from(lost) / f64::from(sent))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of `strides` in each of which ten packets are sent, `lost` of them as given by stride.
    fn run(strides: usize, lost: &[(usize, u32)]) -> Windows {
        let mut seen = Windows {
            rows: vec![[1.0, 1.0, 1.0, 0.0, 0.0, 10.0, 0.0, 0.0]; strides],
            fates: vec![Fate { sent: 10, lost: 0 }; strides],
            spurious: 0,
        };
        lost.iter().for_each(|&(stride, lost)| seen.fates[stride].lost = lost);
        seen
    }

    /// Says the mean round trip of the newest window.
    struct Echo;

    impl Predictor for Echo {
        fn probability(&mut self, input: &Input) -> f32 {
            input.0[WINDOWS - 1][2]
        }

        fn threshold(&self) -> f32 {
            0.5
        }
    }

    /// What is said at these strides; elsewhere 0.
    fn saying(seen: &mut Windows, said: &[(usize, f32)]) {
        seen.rows.iter_mut().for_each(|row| row[2] = 0.0);
        said.iter().for_each(|&(stride, said)| seen.rows[stride][2] = said);
    }

    #[test]
    fn the_area_is_the_share_of_pairs_in_order() {
        let of = |answers: &[(f32, bool)]| area(answers);
        assert_eq!(of(&[(0.1, false), (0.2, false), (0.8, true), (0.9, true)]), 1.0);
        assert_eq!(of(&[(0.1, true), (0.9, false)]), 0.0);
        assert_eq!(of(&[(0.5, true), (0.5, false), (0.5, false)]), 0.5);
        // Of six pairs four are in order, one is not, and one is equal.
        assert_eq!(of(&[(0.1, false), (0.3, true), (0.3, false), (0.4, false), (0.6, true)]), 4.5 / 6.0);
        assert!(of(&[(0.1, true)]).is_nan() && of(&[]).is_nan());
    }

    #[test]
    fn an_answer_is_asked_for_where_something_was_heard_and_the_truth_is_known() {
        let mut seen = run(300, &[]);
        // The last of 16 windows, and the last whose horizon ends two seconds before the run's end.
        assert_eq!(ends(&seen.rows), (15..95).collect::<Vec<_>>());
        seen.rows[..20].iter_mut().for_each(|row| row[7] = 1.0);
        seen.rows[50..].iter_mut().for_each(|row| row[7] = 1.0);
        // Heard of in windows 20 to 49: each is seen for 16 strides.
        assert_eq!(ends(&seen.rows), (20..65).collect::<Vec<_>>());
        assert!(ends(&seen.rows[..204]).is_empty());
    }

    #[test]
    fn a_threshold_is_judged_by_what_it_foretells() {
        let mut seen = run(325, &[(40, 4), (44, 1), (80, 2), (200, 9)]);
        // Triggers at 37 (a loss at 40) and 100 (none); 38 is within the first one's hold. The alarm at 30 is
        // below the threshold.
        saying(&mut seen, &[(30, 0.4), (37, 0.9), (38, 0.8), (100, 0.7)]);
        let runs = [Answered::by(&mut Echo, &seen)];
        assert_eq!(runs[0].ends, (15..120).collect::<Vec<_>>());
        assert_eq!(
            runs[0].triggers(0.5).iter().map(|&place| runs[0].ends[place]).collect::<Vec<_>>(),
            [37, 100]
        );
        // Before 40 and 44 are the ends 35 to 43, before 80 are 75 to 79: 14 windows, of which two alarm.
        assert_eq!(windows(&runs), (105, 14));
        // 44 belongs to the episode of 40, and what happened at 200 comes too late to be judged.
        assert_eq!(runs[0].onsets().collect::<Vec<_>>(), [40, 80]);
        let found = judge(&runs, 0.5);
        let seconds = 1.05;
        let expected = Point {
            recall: 2.0 / 14.0,
            precision: 2.0 / 3.0,
            false_triggers: 1.0 / seconds,
            // Held are 38 to 42: four of seven lost packets.
            covered: 4.0 / 7.0,
            foretold: 0.5,
        };
        assert!((found.false_triggers - expected.false_triggers).abs() < 1e-12);
        assert_eq!(Point { false_triggers: expected.false_triggers, ..found }, expected);
        assert!(judge(&runs, 2.0).precision.is_nan());
    }

    #[test]
    fn the_curve_ends_where_every_window_triggers() {
        let mut seen = run(325, &[(40, 4)]);
        saying(&mut seen, &[(37, 0.9), (100, 0.7)]);
        let curve = trade_off(&[Answered::by(&mut Echo, &seen)]);
        // 105 windows, a trigger every five; one of them before the loss.
        assert_eq!(curve.first(), Some(&(0.0, 0.2)));
        let last = curve[curve.len() - 1];
        assert!((last.0 - 20.0 / 1.05).abs() < 1e-9 && last.1 == 1.0, "{curve:?}");
        assert!(trade_off(&[]).is_empty());
    }

    #[test]
    fn of_each_five_frames_with_a_loss_the_share_lost() {
        let seen = run(20, &[(0, 10), (7, 10), (8, 1), (17, 10)]);
        // 17 is in no whole window.
        assert_eq!(loss_shares(&seen.fates).collect::<Vec<_>>(), [25.0, 1.25]);
    }
}
