//! Branch and bound: settles the frames on which the bound is loose, one by one, until the best set is proven
//! or the effort is spent.

use super::dual::{Relaxed, Settled, relax};
use super::search::{Best, climb, feasible};
use super::{Effort, Problem};

/// A share of the objective below which a difference is none (ours): a fifth of what a schedule may miss.
const SAME: f64 = 2e-4;
/// Sets that are tried around that of a node: the root's search has been everywhere near.
const NEAR: usize = 20;

/// Frames of which some are settled, and what is known of the others.
struct Node {
    settled: Settled,
    relaxed: Relaxed,
}

/// The best set that is found, and a bound of all sets' objectives.
pub(super) fn solve(problem: &Problem, effort: Effort) -> (Best, f64) {
    let largest = problem.most.min(problem.budget);
    let settled: Settled = problem.items.iter().map(|item| (item.least > largest).then_some(false)).collect();
    let root = Node { relaxed: relax(problem, &settled, f64::NEG_INFINITY), settled };
    let mut left = effort.0.max(1).saturating_sub(root.relaxed.asked);
    let mut best = Best::nothing(problem);
    for start in starts(problem, &root) {
        best.take(climb(problem, start, &mut left));
    }
    let mut open = vec![root];
    while let Some(node) = take_loosest(&mut open) {
        if node.relaxed.bound <= best.enough() {
            break;
        }
        if left == 0 {
            return (best, node.relaxed.bound);
        }
        let Some(frame) = node.frame() else {
            // Nothing is left to settle: its set is what its bound says.
            best.take_all(problem, &node);
            continue;
        };
        for sent in [true, false] {
            let settled = node.settle(problem, frame, sent);
            if is_possible(problem, &settled) {
                let mut relaxed = relax(problem, &settled, best.enough());
                relaxed.bound = relaxed.bound.min(node.relaxed.bound);
                left = left.saturating_sub(relaxed.asked);
                open.push(Node { settled, relaxed });
                best.look_near(problem, &open[open.len() - 1], &mut left);
            }
        }
    }
    let proven = best.enough();
    (best, proven)
}

/// The node whose bound is highest; of equals the one that was made last.
fn take_loosest(open: &mut Vec<Node>) -> Option<Node> {
    let at = (0..open.len()).max_by(|&x, &y| open[x].relaxed.bound.total_cmp(&open[y].relaxed.bound))?;
    Some(open.swap_remove(at))
}

/// The two best sets of a node that keep to the limits.
fn starts(problem: &Problem, node: &Node) -> Vec<Best> {
    let mut all: Vec<Best> = node.relaxed.sets.iter().filter_map(|set| feasible(problem, set)).collect();
    all.sort_by(|x, y| y.filled.value.total_cmp(&x.filled.value));
    all.truncate(2);
    all
}

/// What is settled can be sent.
fn is_possible(problem: &Problem, settled: &[Option<bool>]) -> bool {
    let sent = problem.items.iter().zip(settled).filter(|&(_, &settled)| settled == Some(true));
    let bytes: f64 = sent.map(|(item, _)| item.least).sum();
    let again = settled[problem.now..].iter().filter(|&&settled| settled == Some(true)).count();
    bytes <= problem.budget && again <= problem.most_again()
}

impl Node {
    /// What is settled, and this frame. Of equal frames of now the first ones are sent, so that one settles
    /// others.
    fn settle(&self, problem: &Problem, frame: usize, sent: bool) -> Settled {
        let mut settled = self.settled.clone();
        settled[frame] = Some(sent);
        let others = if sent { 0..frame } else { frame + 1..problem.now.max(frame + 1) };
        others.filter(|&other| problem.are_equal(other, frame)).for_each(|other| settled[other] = Some(sent));
        settled
    }

    /// The frame to be settled next: one on which the prices are torn, or the first that is open.
    fn frame(&self) -> Option<usize> {
        let torn = self.relaxed.torn.filter(|&frame| self.settled[frame].is_none());
        torn.or_else(|| self.settled.iter().position(Option::is_none))
    }
}

impl Best {
    /// The better of both.
    fn take(&mut self, other: Best) {
        if other.filled.value > self.filled.value {
            *self = other;
        }
    }

    /// A bound at which no set is worth looking for.
    fn enough(&self) -> f64 {
        self.filled.value + SAME * self.filled.value.abs()
    }

    /// The best set of a node, and a few near it.
    fn look_near(&mut self, problem: &Problem, node: &Node, left: &mut usize) {
        let mut near = NEAR.min(*left);
        *left -= near;
        if let Some(start) = starts(problem, node).into_iter().next() {
            self.take(climb(problem, start, &mut near));
        }
        *left += near;
    }

    /// All sets of a node.
    fn take_all(&mut self, problem: &Problem, node: &Node) {
        starts(problem, node).into_iter().for_each(|set| self.take(set));
    }
}
