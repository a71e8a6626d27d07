//! What is sent in the next period, and how large (thesis section 3.5.2).
//!
//! ```text
//!   maximise  sum over frames of now     w0 Q(s)
//!           + sum over frames of before  w  max(Q(s), R)    R: what the endpoint has
//!           - run cost for each run of neighbouring frames of before that are sent again
//!   with      sum s <= budget, and no more frames of before than of now
//! ```
//!
//! A frame is sent again only if it gets better by some least gain, so that a size that adds nothing is no
//! choice (Deviation: the thesis' maximum allows it, and the sheet's 0.02 keeps a frame from being sent again
//! and again).
//!
//! For a fixed set of frames that is concave with one budget, and exact ([`fill`]): every frame gets bytes
//! until one more is worth the same everywhere. Which frames are in the set is found from the other side: at
//! a price per byte (and per frame sent again) each frame decides for itself, runs by dynamic programming,
//! and what all of them gain is above any schedule's value ([`dual`]). The set at the price where the budget
//! is met is where a local search begins ([`search`]); branch and bound settle what is left, while there is
//! effort ([`branch`]). So a schedule comes with a bound: how much better the best one could be.
//!
//! Deviation: the thesis has Gurobi solve a mixed-integer program of curves in linear pieces.

mod branch;
mod dual;
mod fill;
mod search;
#[cfg(test)]
mod tests;

use crate::Curve;

/// A frame of before that may be sent again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Its capture index.
    pub frame: u32,
    /// What it is worth by its size.
    pub curve: Curve,
    /// SSIM of the version that the endpoint has, 0 if it has none (the thesis' `R`).
    pub quality: f64,
    /// Viewers who would see a better one ([`Delays::beyond`](crate::Delays::beyond)).
    pub weight: f64,
}

/// A period to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Bytes that can be sent in it.
    pub budget: f64,
    /// The curve of each frame that will be captured in it.
    pub future: Vec<Curve>,
    /// What each of those is worth ([`Delays::of_now`](crate::Delays::of_now)).
    pub weight: f64,
    /// Frames that may be sent again, by rising capture index.
    pub past: Vec<Past>,
    /// Least and most bytes of a frame that is sent.
    pub sizes: (f64, f64),
    /// What the SSIM of a frame that is sent again rises by at least.
    pub least_gain: f64,
    /// What each run of neighbouring frames sent again costs (the thesis' regulariser, which it does not
    /// print): a frame far from the one before it is coded badly from it.
    pub run_cost: f64,
}

/// How long a better schedule is looked for: so often all frames are looked at. A count and not a time, so
/// that the same window has the same schedule on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub usize);

impl Default for Effort {
    /// 16,000 looks: below 50 ms on one core with 60 frames of now and 200 of before (`framewire bench
    /// schedule`).
    fn default() -> Effort {
        Effort(16_000)
    }
}

/// A frame of before that is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its capture index.
    pub frame: u32,
    /// How many bytes it is coded with.
    pub size: u32,
}

/// What is sent in a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Bytes of each frame of now, 0 for one that is left out.
    pub future: Vec<u32>,
    /// Frames of before, by rising capture index.
    pub again: Vec<Again>,
    /// The objective, what the endpoint has already included.
    pub value: f64,
    /// No schedule has an objective above this.
    pub bound: f64,
}

impl Schedule {
    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        let again = self.again.iter().map(|again| u64::from(again.size));
        self.future.iter().map(|&size| u64::from(size)).chain(again).sum()
    }

    /// By which share of the best objective this one may be below it, at most; 0: it is the best.
    pub fn gap(&self) -> f64 {
        if self.bound > 0.0 { ((self.bound - self.value) / self.bound).max(0.0) } else { 0.0 }
    }
}

/// Why a window can't be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// Budget, weights, least gain and run cost must be numbers of at least 0.
    Negative,
    /// A frame that is sent has at least a byte, and at most no fewer than at least.
    Sizes,
    /// A frame's SSIM must be 0 to 1.
    Quality(u32),
    /// Frames of before are named by rising capture index.
    Order(u32),
}

/// A frame as the planner sees it: of now (nothing is there yet) or of before.
#[derive(Clone, Copy, Debug)]
struct Item {
    weight: f64,
    curve: Curve,
    /// SSIM that is there without it.
    has: f64,
    /// Of a frame of before: its capture index.
    again: Option<u32>,
    /// Bytes with which it is sent at least; above the most it never is.
    least: f64,
}

impl Item {
    /// What its `size` adds to the objective: nothing if it is not sent, whatever its curve begins with.
    fn gain(&self, size: f64) -> f64 {
        if size == 0.0 {
            return 0.0;
        }
        self.weight * (self.curve.quality(size) - self.has).max(0.0)
    }
}

/// A window, checked and laid out: frames of now, then of before.
struct Problem {
    items: Vec<Item>,
    /// Frames of now.
    now: usize,
    budget: f64,
    most: f64,
    run_cost: f64,
    /// The objective when nothing is sent.
    base: f64,
}

impl Window {
    /// The best schedule that is found with this effort, and how much better the best could be.
    ///
    /// # Errors
    /// [`WindowError`] if a number is out of its range.
    ///
    /// ```
    /// use framewire_vantage::{Curve, Delays, Effort, Past, Window};
    ///
    /// let curve = Curve::new(1e-3, 1.0).unwrap();
    /// let delays = Delays::uniform(30);
    /// // Two seconds at 30 Hz; of a second that is ten seconds old nothing has arrived.
    /// let lost = |frame| Past { frame, curve, quality: 0.0, weight: delays.beyond(10.0) };
    /// let window = Window {
    ///     budget: 300_000.0,
    ///     future: vec![curve; 60],
    ///     weight: delays.of_now(),
    ///     past: (300..330).map(lost).collect(),
    ///     sizes: (200.0, 20_000.0),
    ///     least_gain: 0.02,
    ///     run_cost: 0.02 * delays.of_now(),
    /// };
    /// let schedule = window.solve(Effort::default()).unwrap();
    /// assert_eq!(schedule.again.len(), 30);
    /// assert!(schedule.bytes() <= 300_000 && schedule.gap() < 0.001);
    /// ```
    pub fn solve(&self, effort: Effort) -> Result<Schedule, WindowError> {
        let problem = self.problem()?;
        let (best, bound) = branch::solve(&problem, effort);
        Ok(problem.schedule(&best.filled.sizes, &best.sent, bound))
    }

    fn problem(&self) -> Result<Problem, WindowError> {
        let fine = |n: f64| n.is_finite() && n >= 0.0;
        let weights = self.past.iter().map(|past| past.weight);
        if !weights.chain([self.budget, self.weight, self.least_gain, self.run_cost]).all(fine) {
            return Err(WindowError::Negative);
        }
        let (least, most) = self.sizes;
        if !(most.is_finite() && least >= 1.0 && most >= least) {
            return Err(WindowError::Sizes);
        }
        if let Some(past) = self.past.iter().find(|past| !(0.0..=1.0).contains(&past.quality)) {
            return Err(WindowError::Quality(past.frame));
        }
        if let Some(pair) = self.past.windows(2).find(|pair| pair[0].frame >= pair[1].frame) {
            return Err(WindowError::Order(pair[1].frame));
        }
        let of_now = |&curve: &Curve| {
            let least = curve.size_for(0.0).max(least);
            Item { weight: self.weight, curve, has: 0.0, again: None, least }
        };
        let of_before = |past: &Past| {
            let &Past { frame, curve, quality, weight } = past;
            let least = curve.size_for(quality + self.least_gain).max(least);
            Item { weight, curve, has: quality, again: Some(frame), least }
        };
        let items = self.future.iter().map(of_now).chain(self.past.iter().map(of_before)).collect();
        let base = self.past.iter().map(|past| past.weight * past.quality).sum();
        let (now, budget, run_cost) = (self.future.len(), self.budget, self.run_cost);
        Ok(Problem { items, now, budget, most, run_cost, base })
    }
}

impl Problem {
    /// Frames of before that may be sent at most: as many as of now (thesis section 3.5.2.1), so that coding
    /// them takes no longer.
    fn most_again(&self) -> usize {
        self.now
    }

    /// Whether frame `i` follows the one before it in the list without a gap.
    fn follows(&self, i: usize) -> bool {
        i > self.now && self.items[i].again == self.items[i - 1].again.map(|frame| frame + 1)
    }

    /// Frames of now with the same curve, which are worth the same.
    fn are_equal(&self, i: usize, k: usize) -> bool {
        i == k || (i.max(k) < self.now && self.items[i].curve == self.items[k].curve)
    }

    /// Runs of neighbouring frames of before.
    fn runs(&self, sent: &[bool]) -> usize {
        (self.now..sent.len()).filter(|&i| sent[i] && !(self.follows(i) && sent[i - 1])).count()
    }

    /// Sizes in whole bytes: what is cut off is given to those that lost most of one.
    fn whole(&self, sizes: &[f64]) -> Vec<u32> {
        let mut whole: Vec<u32> = sizes.iter().map(|&size| size as u32).collect();
        let bytes: u64 = whole.iter().map(|&size| u64::from(size)).sum();
        let left = (self.budget as u64).saturating_sub(bytes) as usize;
        let mut by_part: Vec<usize> =
            (0..sizes.len()).filter(|&i| sizes[i].fract() > 0.0 && sizes[i].ceil() <= self.most).collect();
        by_part.sort_by(|&x, &y| sizes[y].fract().total_cmp(&sizes[x].fract()).then(x.cmp(&y)));
        by_part.iter().take(left).for_each(|&i| whole[i] += 1);
        whole
    }

    /// The schedule of these sizes.
    fn schedule(&self, sizes: &[f64], sent: &[bool], bound: f64) -> Schedule {
        let whole = self.whole(sizes);
        let gains = self.items.iter().zip(&whole).map(|(item, &size)| item.gain(f64::from(size)));
        let value = self.base + gains.sum::<f64>() - self.run_cost * self.runs(sent) as f64;
        let again = (self.now..whole.len())
            .filter(|&i| sent[i])
            .filter_map(|i| Some(Again { frame: self.items[i].again?, size: whole[i] }));
        Schedule {
            future: whole[..self.now].to_vec(),
            again: again.collect(),
            value,
            bound: bound.max(value),
        }
    }
}
