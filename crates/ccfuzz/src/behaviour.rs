//! What a network does to a flow, as a place in a space of symptoms: two networks that show the same fault
//! lie close together there, however different their packets are.
//!
//! ```text
//! (share used, longest stall, share lost, delay, timeouts)   each from 0 to 1
//! alike: no two of them differ by a fifth or more
//! ```
//!
//! A search that keeps to the best of those alike (clearing, Petrowski 1996) is left with one network for
//! each behaviour, as the cells of an archive of elites (Mouret and Clune 2015) would have, without cells'
//! borders between two that are alike.

use crate::score::Score;

/// Networks that differ by less in every symptom are alike.
const ALIKE: f64 = 0.2;
/// More timeouts than this are as bad as this many: a timeout that starts at a second lasts over four minutes
/// by then.
const MOST_TIMEOUTS: f64 = 8.0;

/// What a network does to a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour([f64; 5]);

impl Behaviour {
    /// What a score says of it.
    pub fn of(score: &Score) -> Behaviour {
        let timeouts = f64::from(score.timeouts) / MOST_TIMEOUTS;
        let symptoms = [score.used, score.stall, score.loss, score.delay, timeouts];
        Behaviour(symptoms.map(|symptom| symptom.clamp(0.0, 1.0)))
    }

    /// Whether the two can't be told apart.
    pub fn is_like(&self, other: &Behaviour) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| (a - b).abs() < ALIKE)
    }
}

/// Splits what is ordered from best to worst into the best of each behaviour and the rest, both in order.
pub(crate) fn cleared<T>(ordered: Vec<T>, score: impl Fn(&T) -> &Score) -> (Vec<T>, Vec<T>) {
    let mut seen: Vec<Behaviour> = Vec::new();
    ordered.into_iter().partition(|one| {
        let behaviour = Behaviour::of(score(one));
        let fresh = !seen.iter().any(|better| better.is_like(&behaviour));
        if fresh {
            seen.push(behaviour);
        }
        fresh
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(used: f64, timeouts: u32) -> Score {
        Score { used, timeouts, ..Score::default() }
    }

    #[test]
    fn one_symptom_is_enough_to_tell_two_apart() {
        let is_like = |a: Score, b: Score| Behaviour::of(&a).is_like(&Behaviour::of(&b));
        assert!(is_like(score(0.5, 3), score(0.6, 3)));
        assert!(!is_like(score(0.5, 3), score(0.8, 3)) && !is_like(score(0.5, 0), score(0.5, 2)));
        assert!(is_like(score(0.5, 9), score(0.5, 90)));
    }

    #[test]
    fn the_best_of_each_behaviour_comes_first() {
        let ordered = vec![(1, score(0.1, 0)), (2, score(0.15, 0)), (3, score(0.9, 0)), (4, score(0.8, 0))];
        let (best, rest) = cleared(ordered, |one| &one.1);
        let names = |list: &[(i32, Score)]| list.iter().map(|one| one.0).collect::<Vec<_>>();
        assert_eq!((names(&best), names(&rest)), (vec![1, 3], vec![2, 4]));
    }
}
