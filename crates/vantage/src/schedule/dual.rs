//! The bound: what all frames gain if bytes, and frames sent again, have a price.

use super::Problem;

/// Halvings of a price's range at most, and the share of a price that its range is not narrowed below.
const HALVINGS: usize = 40;
const NARROW: f64 = 1e-9;
/// Golden sections of the range of a frame's price: to a hundred-thousandth of it.
const SECTIONS: usize = 24;
const GOLDEN: f64 = 0.618_033_988_75;

/// What the prices say.
#[derive(Clone, Debug)]
pub(super) struct Relaxed {
    /// No schedule's objective is above this.
    pub bound: f64,
    /// Sets of frames at prices at and around those that meet the budget, the nearest first.
    pub sets: Vec<Vec<bool>>,
    /// A frame that is sent at a price a little lower and not at one a little higher, if there is one: where
    /// the bound is loose.
    pub torn: Option<usize>,
    /// How often all frames were asked at a price.
    pub asked: usize,
}

/// What is settled of each frame: sent, not sent, or neither.
pub(super) type Settled = Vec<Option<bool>>;

/// What every frame decides at a price.
struct Answer {
    sent: Vec<bool>,
    bytes: f64,
    again: usize,
    /// What they gain above the prices; with the budget's price an upper bound of any schedule's gain.
    value: f64,
}

/// A window's frames and what is settled of them.
struct Market<'a> {
    problem: &'a Problem,
    settled: &'a [Option<bool>],
    /// The least bound that any price gave; above what is sent if nothing is.
    bound: f64,
    /// A bound at which nothing more needs to be known.
    enough: f64,
    asked: usize,
}

/// Prices of a byte beside the one that meets the budget, whose sets are tried too.
const AROUND: [f64; 8] = [0.999, 1.001, 0.95, 1.05, 0.85, 1.18, 0.7, 1.4];

/// Bound and sets of the frames that are not settled. Once the bound is down at `enough`, no more is looked
/// for: such a set of frames has nothing to offer.
pub(super) fn relax(problem: &Problem, settled: &[Option<bool>], enough: f64) -> Relaxed {
    let enough = enough - problem.base;
    let mut market = Market { problem, settled, bound: f64::INFINITY, enough, asked: 0 };
    let (price, of_frame) = market.prices();
    let bound = problem.base + market.bound;
    if market.bound <= enough {
        return Relaxed { bound, sets: Vec::new(), torn: None, asked: market.asked };
    }
    let around = std::iter::once(1.0).chain(AROUND);
    let mut sets: Vec<Vec<bool>> = around.map(|factor| market.ask(price * factor, of_frame).sent).collect();
    let torn = market.torn(price, of_frame);
    sets.dedup();
    Relaxed { bound, sets, torn, asked: market.asked }
}

impl Market<'_> {
    /// The prices of a byte, and of a frame sent again, at which the bound is lowest.
    fn prices(&mut self) -> (f64, f64) {
        let (price, of_none) = self.by_bytes(0.0);
        if self.bound <= self.enough || self.ask(price * 0.9999, 0.0).again <= self.problem.most_again() {
            return (price, 0.0);
        }
        // The bound at the best price of a byte is convex in that of a frame: golden sections.
        let (mut low, mut high) =
            (0.0, self.problem.items.iter().map(|item| item.weight).fold(0.0, f64::max));
        let mut best = (of_none, price, 0.0);
        let (mut left, mut right) = (high - GOLDEN * high, GOLDEN * high);
        let (mut of_left, mut of_right) = (self.at(left, &mut best), self.at(right, &mut best));
        for _ in 0..SECTIONS {
            if self.bound <= self.enough {
                break;
            }
            if of_left <= of_right {
                (high, right, of_right) = (right, left, of_left);
                left = high - GOLDEN * (high - low);
                of_left = self.at(left, &mut best);
            } else {
                (low, left, of_left) = (left, right, of_right);
                right = low + GOLDEN * (high - low);
                of_right = self.at(right, &mut best);
            }
        }
        (best.1, best.2)
    }

    /// The least bound at a price of a frame; `best` keeps the least of all, and its prices.
    fn at(&mut self, of_frame: f64, best: &mut (f64, f64, f64)) -> f64 {
        let (price, bound) = self.by_bytes(of_frame);
        if bound < best.0 {
            *best = (bound, price, of_frame);
        }
        bound
    }

    /// The least price of a byte at which the frames fit the budget, at this price of a frame sent again, and
    /// the least bound that any price on the way there gave.
    fn by_bytes(&mut self, of_frame: f64) -> (f64, f64) {
        let mut least = f64::INFINITY;
        if self.fits(0.0, of_frame, &mut least) {
            return (0.0, least);
        }
        // No frame gains more than its weight, and none has less than the least bytes.
        let steepest = self.problem.items.iter().map(|item| item.weight / item.least);
        let (mut low, mut high) = (0.0, steepest.fold(0.0, f64::max));
        self.fits(high, of_frame, &mut least);
        for _ in 0..HALVINGS {
            if self.bound <= self.enough || high - low < NARROW * high {
                break;
            }
            // By ratio while the range is wide: prices span many orders of magnitude.
            let middle = if low > 0.0 { (low * high).sqrt() } else { high / 1e3 };
            if self.fits(middle, of_frame, &mut least) { high = middle } else { low = middle }
        }
        (high, least)
    }

    fn fits(&mut self, price: f64, of_frame: f64, least: &mut f64) -> bool {
        let answer = self.ask(price, of_frame);
        let of_frames = of_frame * self.problem.most_again() as f64;
        *least = least.min(answer.value + price * self.problem.budget + of_frames);
        self.bound = self.bound.min(*least);
        answer.bytes <= self.problem.budget
    }

    /// Of the frames on which a slightly lower and a slightly higher price differ, that with most bytes. Of
    /// equal frames of now, of which the first ones are sent, the first of those that the budget is too small
    /// for.
    fn torn(&mut self, price: f64, of_frame: f64) -> Option<usize> {
        // Where frames have a price it is known to some digits only.
        let (less, more) = (of_frame * 0.99, of_frame * 1.01);
        let (cheap, dear) = (self.ask(price * 0.9999, less), self.ask(price * 1.0001, more));
        let differ: Vec<usize> = (0..cheap.sent.len()).filter(|&i| cheap.sent[i] != dear.sent[i]).collect();
        let bytes = |i: usize| self.problem.items[i].best(self.problem, price).0;
        let most = differ.iter().copied().max_by(|&x, &y| bytes(x).total_cmp(&bytes(y)))?;
        let equal: Vec<usize> = differ.into_iter().filter(|&i| self.problem.are_equal(i, most)).collect();
        let fit = ((self.problem.budget - dear.bytes) / bytes(most)).max(0.0) as usize;
        Some(equal[fit.min(equal.len() - 1)])
    }

    /// What each frame does at a price of a byte and of a frame sent again; runs by dynamic programming.
    fn ask(&mut self, price: f64, of_frame: f64) -> Answer {
        self.asked += 1;
        let Problem { items, now, .. } = self.problem;
        let best: Vec<(f64, f64)> = items.iter().map(|item| item.best(self.problem, price)).collect();
        let is_sent = |i: usize| self.settled[i].unwrap_or(best[i].1 > 0.0);
        let mut sent: Vec<bool> = (0..*now).map(is_sent).collect();
        let mut value: f64 = (0..*now).filter(|&i| sent[i]).map(|i| best[i].1).sum();
        let (chosen, of_runs) = self.runs(&best[*now..], of_frame);
        value += of_runs;
        sent.extend(chosen);
        let bytes = best.iter().zip(&sent).map(|(&(size, _), &sent)| if sent { size } else { 0.0 }).sum();
        let again = sent[*now..].iter().filter(|&&sent| sent).count();
        Answer { sent, bytes, again, value }
    }

    /// Which frames of before are worth their price and that of their runs, and what they gain above both.
    fn runs(&self, best: &[(f64, f64)], of_frame: f64) -> (Vec<bool>, f64) {
        // Best value up to a frame that is left out, or sent; and of each frame whether the one before it is
        // sent in the best sequence that leaves it out, or sends it.
        let (problem, never) = (self.problem, f64::NEG_INFINITY);
        let (mut out, mut sent) = (0.0, never);
        let mut before = Vec::with_capacity(best.len());
        for (k, &(_, value)) in best.iter().enumerate() {
            let joined = if problem.follows(problem.now + k) { sent } else { sent - problem.run_cost };
            let begun = out - problem.run_cost;
            before.push((sent > out, joined > begun));
            (out, sent) = (f64::max(out, sent), value - of_frame + f64::max(begun, joined));
            match self.settled[problem.now + k] {
                Some(true) => out = never,
                Some(false) => sent = never,
                None => {}
            }
        }
        let mut chosen = vec![false; best.len()];
        let mut is_sent = sent > out;
        let value = f64::max(out, sent);
        for k in (0..best.len()).rev() {
            chosen[k] = is_sent;
            is_sent = if is_sent { before[k].1 } else { before[k].0 };
        }
        (chosen, value)
    }
}

impl super::Item {
    /// Its best size at a price of a byte, and what it gains above the price; below what anything is worth
    /// if it is never sent.
    pub(super) fn best(&self, problem: &Problem, price: f64) -> (f64, f64) {
        if self.least > problem.most {
            return (0.0, f64::NEG_INFINITY);
        }
        let free = match (price > 0.0, self.weight > 0.0) {
            (true, true) => self.curve.size_at_slope(price / self.weight),
            (false, true) => problem.most,
            (_, false) => self.least,
        };
        let size = free.clamp(self.least, problem.most);
        (size, self.gain(size) - price * size)
    }
}
