//! From a set of frames to the best one in its neighbourhood.

use super::Problem;
use super::fill::{Filled, fill};

/// Frames of each kind that are combined: the most promising to add and to leave out.
const PROMISING: usize = 10;
/// Neighbours that a run gives up or takes on in one move, at most.
const LONGEST: usize = 8;

/// A set of frames, its sizes and what it is worth.
pub(super) struct Best {
    pub sent: Vec<bool>,
    pub filled: Filled,
}

impl Best {
    /// Nothing is sent.
    pub fn nothing(problem: &Problem) -> Best {
        let sent = vec![false; problem.items.len()];
        let filled = fill(problem, &sent).expect("nothing has no bytes");
        Best { sent, filled }
    }
}

/// A change of a set: these frames change sides.
type Move = Vec<usize>;

/// The set, without its least valuable frames if they are too many or too large together.
pub(super) fn feasible(problem: &Problem, set: &[bool]) -> Option<Best> {
    let mut by_worth: Vec<usize> = (0..set.len()).filter(|&i| set[i]).collect();
    let worth = |i: usize| problem.items[i].weight * (1.0 - problem.items[i].has);
    by_worth.sort_by(|&x, &y| worth(y).total_cmp(&worth(x)).then(x.cmp(&y)));
    let (mut sent, mut bytes, mut again) = (vec![false; set.len()], 0.0, 0);
    for i in by_worth {
        let (least, of_before) = (problem.items[i].least, usize::from(i >= problem.now));
        if bytes + least <= problem.budget && again + of_before <= problem.most_again() {
            (sent[i], bytes, again) = (true, bytes + least, again + of_before);
        }
    }
    let filled = fill(problem, &sent)?;
    Some(Best { sent, filled })
}

/// Takes the first better neighbour until there is none, or `left` are tried.
pub(super) fn climb(problem: &Problem, mut best: Best, left: &mut usize) -> Best {
    'better: loop {
        for change in moves(problem, &best) {
            if *left == 0 {
                return best;
            }
            *left -= 1;
            let mut sent = best.sent.clone();
            change.iter().for_each(|&i| sent[i] = !sent[i]);
            let Some(filled) = fill(problem, &sent) else { continue };
            if filled.value > best.filled.value + 1e-12 * best.filled.value.abs() {
                best = Best { sent, filled };
                continue 'better;
            }
        }
        return best;
    }
}

/// Changes that may better a set, the most promising first: by what they are worth at the price that its
/// last byte has.
fn moves(problem: &Problem, best: &Best) -> Vec<Move> {
    let worth: Vec<f64> = (0..problem.items.len()).map(|i| flip(problem, best, i)).collect();
    let mut order: Vec<usize> = (0..worth.len()).collect();
    order.sort_by(|&x, &y| worth[y].total_cmp(&worth[x]).then(x.cmp(&y)));
    let adds: Vec<usize> = order.iter().copied().filter(|&i| !best.sent[i]).take(PROMISING).collect();
    let drops: Vec<usize> = order.iter().copied().filter(|&i| best.sent[i]).take(PROMISING).collect();
    let mut all: Vec<Move> = adds.iter().chain(&drops).map(|&i| vec![i]).collect();
    all.extend(adds.iter().flat_map(|&add| drops.iter().map(move |&drop| vec![drop, add])));
    all.extend(of_runs(problem, &best.sent));
    let again = best.sent[problem.now..].iter().filter(|&&sent| sent).count();
    let fits = |change: &Move| {
        let more = change.iter().filter(|&&i| i >= problem.now && !best.sent[i]).count();
        let fewer = change.iter().filter(|&&i| i >= problem.now && best.sent[i]).count();
        again + more <= problem.most_again() + fewer
    };
    let mut ranked: Vec<(f64, Move)> = all
        .into_iter()
        .filter(fits)
        .map(|change| {
            let mut sent = best.sent.clone();
            change.iter().for_each(|&i| sent[i] = !sent[i]);
            let runs = problem.runs(&sent) as f64 - problem.runs(&best.sent) as f64;
            (change.iter().map(|&i| worth[i]).sum::<f64>() - problem.run_cost * runs, change)
        })
        .collect();
    ranked.sort_by(|x, y| y.0.total_cmp(&x.0));
    ranked.into_iter().map(|(_, change)| change).collect()
}

/// What it is worth that frame `i` changes sides, at the set's price and without its run.
fn flip(problem: &Problem, best: &Best, i: usize) -> f64 {
    let (item, price) = (&problem.items[i], best.filled.price);
    if best.sent[i] {
        let size = best.filled.sizes[i];
        return price * size - item.gain(size);
    }
    item.best(problem, price).1
}

/// Runs that grow, shrink, move by a frame, vanish, or begin where there is a gap of a few frames.
fn of_runs(problem: &Problem, sent: &[bool]) -> Vec<Move> {
    let mut all = Vec::new();
    let end = sent.len();
    let mut i = problem.now;
    while i < end {
        let mut last = i;
        while last + 1 < end && problem.follows(last + 1) && sent[last + 1] == sent[i] {
            last += 1;
        }
        let length = last - i + 1;
        if sent[i] {
            all.push((i..=last).collect());
            let before = i > problem.now && problem.follows(i);
            let after = last + 1 < end && problem.follows(last + 1);
            if before {
                all.push(vec![i - 1, last]);
            }
            if after {
                all.push(vec![i, last + 1]);
            }
            for k in 2..=LONGEST.min(length) {
                all.push((i..i + k).collect());
                all.push((last + 1 - k..=last).collect());
            }
        } else {
            for k in 2..=LONGEST.min(length) {
                all.push((i..i + k).collect());
                all.push((last + 1 - k..=last).collect());
            }
            all.push((i..=last).collect());
        }
        i = last + 1;
    }
    all
}
