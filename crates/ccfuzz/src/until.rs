//! When a search ends.

use crate::score::Score;
use crate::search::{Report, Search};
use crate::stems::Stems;
use crate::target::Target;

/// A search goes on until one of these is reached.
///
/// ```
/// use framewire_ccfuzz::{Crew, Plan, Preset, Search, Until};
///
/// let target = Preset::find("reno-low-rate").expect("it comes along").target();
/// let mut search = Search::new(Plan::of_size(4, 2)?);
/// let until = Until { generations: 2, ..Until::default() };
/// while !until.is_reached(&search, &target) {
///     search.step(&target, &[], &Crew::of(1), &|_| {});
/// }
/// assert_eq!(search.generations, 2);
/// # Ok::<(), framewire_ccfuzz::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// Generations at most.
    pub generations: u32,
    /// A score of the best network, without what the network costs, that is enough.
    pub goal: Option<f64>,
    /// Generations in a row in which the best score has not risen by [`RISE`](crate::RISE).
    pub patience: Option<u32>,
}

impl Default for Until {
    /// Fifty generations, whatever they find: as many as `framewire fuzz run` breeds.
    fn default() -> Until {
        Until { generations: 50, goal: None, patience: None }
    }
}

impl Until {
    /// Whether the search has gone on for long enough.
    pub fn is_reached(&self, search: &Search, target: &Target) -> bool {
        self.holds(search, search.best().map(|best| best.score), target)
    }

    /// Of generations that were bred at once from `before` on: after how many it is reached. None if not
    /// after the last, either.
    pub fn within(&self, before: &Search, target: &Target, reports: &[Report]) -> Option<usize> {
        let mut search = Search { islands: Vec::new(), stems: Stems::default(), ..*before };
        let passed = |report: &Report| {
            search.generations += 1;
            search.passed(report);
            self.holds(&search, Some(report.best), target)
        };
        reports.iter().position(passed).map(|at| at + 1)
    }

    fn holds(&self, search: &Search, best: Option<Score>, target: &Target) -> bool {
        let enough = |goal: f64| best.is_some_and(|best| best.goal(&target.weights) >= goal);
        let stands = self.patience.is_some_and(|patience| search.stale >= patience);
        search.generations >= self.generations || stands || self.goal.is_some_and(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::preset::Preset;
    use lab::scenario::Scenario;
    use std::path::Path;

    #[test]
    fn generations_bred_at_once_end_where_they_end_one_by_one() {
        let text = Preset::find("reno-low-rate").unwrap().scenario().text.replace("\"10s\"", "\"3s\"");
        let scenario = Scenario::parse(&text, Path::new("short.toml")).unwrap();
        let weights = crate::Weights::default();
        let target =
            Target::new(scenario, "traffic".parse().unwrap(), crate::Aim::LowThroughput, weights).unwrap();
        let plan = Plan { seed: 5, ..Plan::of_size(12, 3).unwrap() };
        let mut search = Search::new(plan);
        let reports: Vec<Report> =
            (0..8).map(|_| search.step(&target, &[], &crate::Crew::of(2), &|_| {})).collect();
        let goal = |at: usize| Some(reports[at].best.goal(&target.weights));
        let all = Until { generations: 9, ..Until::default() };
        for until in [
            all,
            Until { generations: 3, ..all },
            Until { patience: Some(2), ..all },
            Until { goal: goal(4), ..all },
            Until { goal: goal(0), patience: Some(1), ..all },
        ] {
            let mut one = Search::new(plan);
            while one.generations < 8 && !until.is_reached(&one, &target) {
                one.step(&target, &[], &crate::Crew::of(2), &|_| {});
            }
            let ended = until.within(&Search::new(plan), &target, &reports);
            assert_eq!(ended.unwrap_or(8), one.generations as usize, "{until:?}");
        }
        assert_eq!(all.within(&Search::new(plan), &target, &reports), None);
    }
}
