//! Reduces a found network to the least that still shows the same.
//!
//! ```text
//! cross packets, outages:  leave out a half, a quarter, ... one at a time (delta debugging), as long as the verdict stays
//! instants:                moved to the coarsest grid that keeps the verdict
//! service:                 made even, stretch by stretch
//! ```

use crate::genome::Genome;
use crate::score::Score;
use crate::search::evaluate_all;
use crate::target::Target;

/// Candidates tried at once: however many threads there are, so that the result does not depend on them.
const BATCH: usize = 8;
/// Grids for instants, in microseconds.
const GRIDS: [u32; 8] = [500_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 1_000];
/// The shortest stretch of a service that is made even, in microseconds.
const SHORTEST_STRETCH: u32 = 100_000;

/// How much of the score may be lost where nothing else is said: a twentieth of the link, for throughput.
pub const TOLERANCE: f64 = 0.05;

/// How to shrink.
#[derive(Clone, Copy, Debug)]
pub struct Shrinking {
    /// What the score without its cost must still be; none keeps all but [`TOLERANCE`].
    pub least: Option<f64>,
    /// Most simulations.
    pub budget: usize,
    /// Most at the same time.
    pub threads: usize,
}

impl Default for Shrinking {
    /// Nearly the same score, 4000 simulations, one at a time.
    fn default() -> Shrinking {
        Shrinking { least: None, budget: 4_000, threads: 1 }
    }
}

/// What shrinking came to.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller network.
    pub genome: Genome,
    /// Its score.
    pub score: Score,
    /// Simulations it took.
    pub evaluations: usize,
}

struct Shrinker<'a> {
    target: &'a Target,
    how: Shrinking,
    least: f64,
    genome: Genome,
    evaluations: usize,
    progress: &'a dyn Fn(usize),
}

/// Shrinks `genome`; `progress` is told how many simulations were done.
pub fn shrink(target: &Target, genome: &Genome, how: Shrinking, progress: &dyn Fn(usize)) -> Shrunk {
    let goal = target.evaluate(genome).goal(&target.weights);
    let least = how.least.unwrap_or(goal - TOLERANCE);
    let mut shrinker = Shrinker { target, how, least, genome: genome.clone(), evaluations: 1, progress };
    shrinker.leave_out(|genome| &mut genome.cross);
    shrinker.leave_out(|genome| &mut genome.outages);
    shrinker.snap();
    // On a grid, packets have become alike, and more of them superfluous.
    shrinker.leave_out(|genome| &mut genome.cross);
    shrinker.even_out();
    let score = target.evaluate(&shrinker.genome);
    Shrunk { score, evaluations: shrinker.evaluations + 1, genome: shrinker.genome }
}

impl Shrinker<'_> {
    fn has_budget(&self) -> bool {
        self.evaluations < self.how.budget
    }

    /// The first of the candidates that keeps the verdict.
    fn first_that_holds(&mut self, candidates: &[Genome]) -> Option<usize> {
        let scores = evaluate_all(self.target, candidates, self.how.threads);
        self.evaluations += candidates.len();
        (self.progress)(self.evaluations);
        scores.iter().position(|score| score.goal(&self.target.weights) >= self.least)
    }

    /// Leaves out what can be left out of a list, in ever smaller pieces.
    fn leave_out<T: Clone>(&mut self, list: fn(&mut Genome) -> &mut Vec<T>) {
        let mut size = list(&mut self.genome).len();
        while size > 0 && self.has_budget() {
            let mut at = 0;
            while at < list(&mut self.genome).len() && self.has_budget() {
                let starts = (0..BATCH).map(|n| at + n * size);
                let length = list(&mut self.genome).len();
                let without = |start: usize| {
                    let mut candidate = self.genome.clone();
                    list(&mut candidate).drain(start..(start + size).min(length));
                    candidate
                };
                let candidates: Vec<Genome> =
                    starts.take_while(|&start| start < length).map(without).collect();
                match self.first_that_holds(&candidates) {
                    Some(index) => {
                        self.genome = candidates[index].clone();
                        at += index * size;
                    }
                    None => at += BATCH * size,
                }
            }
            size /= 2;
        }
    }

    /// Moves cross packets and outages to the coarsest grid that keeps the verdict.
    fn snap(&mut self) {
        let snapped = |grid: u32| {
            let mut candidate = self.genome.clone();
            candidate.cross.iter_mut().for_each(|at| *at -= *at % grid);
            candidate.outages.iter_mut().for_each(|outage| outage.at -= outage.at % grid);
            candidate
        };
        let candidates: Vec<Genome> = GRIDS.into_iter().map(snapped).collect();
        if let Some(index) = self.first_that_holds(&candidates) {
            self.genome = candidates[index].clone();
        }
    }

    /// Makes the service even wherever that keeps the verdict, long stretches first.
    fn even_out(&mut self) {
        if self.genome.service.is_empty() {
            return;
        }
        let end = self.target.space.end;
        let mut stretch = end;
        while stretch >= SHORTEST_STRETCH && self.has_budget() {
            let mut from = 0;
            while from < end && self.has_budget() {
                let starts = (0..BATCH as u32).map(|n| from.saturating_add(n * stretch));
                let candidates: Vec<Genome> = starts
                    .take_while(|&start| start < end)
                    .map(|start| self.evened(start, start.saturating_add(stretch).min(end)))
                    .collect();
                let skipped = match self.first_that_holds(&candidates) {
                    Some(index) => {
                        self.genome = candidates[index].clone();
                        index as u32 + 1
                    }
                    None => BATCH as u32,
                };
                from = from.saturating_add(skipped.saturating_mul(stretch));
            }
            stretch /= 2;
        }
    }

    fn evened(&self, from: u32, to: u32) -> Genome {
        let mut candidate = self.genome.clone();
        let service = &mut candidate.service;
        let range = service.partition_point(|&at| at < from)..service.partition_point(|&at| at < to);
        let count = range.len() as f64;
        let gap = f64::from(to - from) / count.max(1.0);
        for (place, at) in service[range].iter_mut().enumerate() {
            *at = from + ((place as f64 + 0.5) * gap) as u32;
        }
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Preset;
    use crate::{Aim, Weights};
    use lab::scenario::Scenario;
    use std::path::Path;

    fn target(mode: &str) -> Target {
        let text = Preset::find("reno-low-rate").unwrap().scenario().text.replace("\"10s\"", "\"4s\"");
        let scenario = Scenario::parse(&text, Path::new("t.toml")).unwrap();
        Target::new(scenario, mode.parse().unwrap(), Aim::LowThroughput, Weights::default()).unwrap()
    }

    /// Two bursts stall the flow; the rest is noise.
    fn noisy() -> Genome {
        let bursts = [1_600_000, 2_640_000].iter().flat_map(|&at| (0..150).map(move |n| at + n * 30));
        let noise = (0..400).map(|n| n * 9_000);
        let mut cross: Vec<u32> = bursts.chain(noise).collect();
        cross.sort_unstable();
        Genome { cross, ..Genome::default() }
    }

    #[test]
    fn noise_goes_and_the_verdict_stays() {
        let (target, genome) = (target("traffic"), noisy());
        let goal = target.evaluate(&genome).goal(&target.weights);
        let how = Shrinking { budget: 400, threads: 2, ..Shrinking::default() };
        let shrunk = shrink(&target, &genome, how, &|_| {});
        assert!(shrunk.score.goal(&target.weights) >= goal - TOLERANCE);
        assert!(shrunk.genome.cross.len() < genome.cross.len() / 2, "{}", shrunk.genome.cross.len());
        let alone = shrink(&target, &genome, Shrinking { threads: 1, ..how }, &|_| {});
        assert_eq!(alone.genome, shrunk.genome);
    }

    #[test]
    fn a_service_becomes_even_where_it_does_not_matter() {
        let target = target("link");
        let uneven: Vec<u32> = (0..4_000).map(|n| n / 20 * 20_000 + n % 20 * 100).collect();
        let genome = Genome { service: uneven.clone(), ..Genome::default() };
        let how = Shrinking { budget: 100, least: Some(-2.0), ..Shrinking::default() };
        let shrunk = shrink(&target, &genome, how, &|_| {});
        let gaps = shrunk.genome.service.windows(2).map(|pair| pair[1] - pair[0]);
        assert_eq!(gaps.max(), Some(1_000));
        assert_eq!(shrunk.genome.service.len(), uneven.len());
    }
}
