//! Generations.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use experiments::Crew;
use units::Rng;

use crate::behaviour::cleared;
use crate::genome::Genome;
use crate::plan::{Plan, Strategy};
use crate::score::Score;
use crate::stems::{MEMORY, Stem, Stems, order};
use crate::target::Target;

/// Worst networks of a generation whose mean is followed (figure 7.4d).
const FOLLOWED: usize = 20;
/// What counts as a finding does at least this much of the harm that the worst does.
const HALF: f64 = 0.5;
/// Findings that a search lists at most.
const MOST_FINDINGS: usize = 20;
/// Networks that one thread runs after each other, each from where it parts with the one before: more have
/// more in common, and leave less to share out.
const IN_A_ROW: usize = 32;
/// A score that rises by less stands still (1 %, here of the link or of 100 ms; the thesis names no figure).
pub const RISE: f64 = 0.01;

/// A network and how the flow fared in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Individual {
    /// The network: its traffic, outages and delivery times.
    pub genome: Genome,
    /// How the flow fared; higher is worse for it.
    pub score: Score,
}

/// What a generation came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Its number; the first is 0.
    pub generation: u32,
    /// Simulations the generation took.
    pub evaluations: usize,
    /// The best score of the generation.
    pub best: Score,
    /// The island it is on; of several the first.
    pub island: usize,
    /// Mean performance of its best twenty.
    pub worst_20: f64,
    /// Mean share of what was available that the flow used, in its best twenty.
    pub worst_20_used: f64,
}

impl Report {
    /// Of the scores of each island's networks, or of enough of its best.
    pub(crate) fn of(generation: u32, evaluations: usize, scores: &[Vec<Score>]) -> Report {
        let followed = best_of(scores.concat());
        let best = followed[0];
        let has_best = |island: &Vec<Score>| island.iter().any(|score| score.total == best.total);
        let mean = |of: fn(&Score) -> f64| followed.iter().map(of).sum::<f64>() / followed.len() as f64;
        Report {
            generation,
            evaluations,
            best,
            island: scores.iter().position(has_best).expect("the best is one of these"),
            worst_20: mean(|score| score.performance),
            worst_20_used: mean(|score| score.used),
        }
    }
}

/// The scores that are followed, from the highest on; of equals the first.
pub(crate) fn best_of(mut scores: Vec<Score>) -> Vec<Score> {
    scores.sort_by(|a, b| b.total.total_cmp(&a.total));
    scores.truncate(FOLLOWED);
    scores
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    /// How it goes about it.
    pub plan: Plan,
    /// Islands of scored networks, each from its best to its worst; empty before the first generation. In a
    /// diverse search those that behave like a better one come after all others.
    pub islands: Vec<Vec<Individual>>,
    /// Generations so far.
    pub generations: u32,
    /// Simulations so far.
    pub evaluations: u64,
    /// The best score when it last rose by more than `RISE`, and how many generations ago that was.
    pub mark: Option<f64>,
    /// Generations since the best score last rose to [`mark`](Search::mark).
    pub stale: u32,
    /// Runs of networks on the islands, for those of the next generation to branch off. They save time; what
    /// the search finds is the same without them.
    pub(crate) stems: Stems,
}

impl Search {
    /// A search that has not begun.
    pub fn new(plan: Plan) -> Search {
        let (islands, stems) = (Vec::new(), Stems::default());
        Search { plan, islands, generations: 0, evaluations: 0, mark: None, stale: 0, stems }
    }

    /// The best network so far, once there is one.
    pub fn best(&self) -> Option<&Individual> {
        // Of equals the one on the lowest island.
        let bests = self.islands.iter().filter_map(|island| island.first());
        bests.reduce(|best, other| if other.score.total > best.score.total { other } else { best })
    }

    /// The best network of each behaviour, from the best on; at most 20. Those that do less than half as much
    /// harm as the best, beyond what `calm` scores without any disturbance, are no findings.
    pub fn findings(&self, target: &Target) -> Vec<&Individual> {
        let goal = |one: &Individual| one.score.goal(&target.weights);
        let mut all: Vec<&Individual> = self.islands.iter().flatten().collect();
        all.sort_by(|a, b| b.score.total.total_cmp(&a.score.total));
        let (mut found, _) = cleared(all, |one| &one.score);
        let most = found.iter().map(|one| goal(one)).fold(f64::NEG_INFINITY, f64::max);
        found.retain(|one| goal(one) >= target.calm() + HALF * (most - target.calm()));
        found.truncate(MOST_FINDINGS);
        found
    }

    /// Breeds and scores the next generation; the result does not depend on how many threads the crew has.
    /// `visitors` take the place of the first ones of the first generation; `progress` is told how many are
    /// done.
    pub fn step(
        &mut self,
        target: &Target,
        visitors: &[Genome],
        crew: &Crew,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Report {
        let told = |done| {
            progress(done);
            true
        };
        self.step_or_stop(target, visitors, crew, &told).expect("nobody stops it")
    }

    /// As [`step`](Search::step), until `progress` returns `false`. Then the search has to be read from its
    /// [checkpoint](crate::checkpoint) again.
    pub fn step_or_stop(
        &mut self,
        target: &Target,
        visitors: &[Genome],
        crew: &Crew,
        progress: &(dyn Fn(usize) -> bool + Sync),
    ) -> Option<Report> {
        if self.migrates() {
            self.migrate();
        }
        let fresh = self.breed(0..self.plan.islands, target, visitors, crew, progress)?;
        self.generations += 1;
        let report = self.report(fresh);
        self.passed(&report);
        Some(report)
    }

    /// Whether islands exchange networks before the next generation.
    pub(crate) fn migrates(&self) -> bool {
        self.generations > 0 && self.generations.is_multiple_of(self.plan.migrate_every)
    }

    /// Breeds and scores the next generation of some islands; returns how many simulations that took. An
    /// island knows the scores of its own networks alone, so that it may be bred anywhere.
    pub(crate) fn breed(
        &mut self,
        islands: Range<usize>,
        target: &Target,
        visitors: &[Genome],
        crew: &Crew,
        progress: &(dyn Fn(usize) -> bool + Sync),
    ) -> Option<usize> {
        let Plan { per_island, diverse, .. } = self.plan;
        self.islands.resize(self.plan.islands, Vec::new());
        let next = |island| match self.generations {
            0 => self.first(target, visitors, island),
            _ => self.children(target, island),
        };
        let genomes: Vec<Genome> = islands.clone().flat_map(next).collect();
        let of = |island: usize| self.islands[island].iter().map(|one| (&one.genome, one.score)).collect();
        let known: Vec<BTreeMap<&Genome, Score>> = islands.clone().map(of).collect();
        let known = |place: usize, genome: &Genome| known[place / per_island].get(genome).copied();
        let evaluated = evaluate(target, &genomes, &known, &self.stems, crew, progress)?;
        let fresh = evaluated.iter().filter(|one| one.fresh).count();
        let (scores, stems): (Vec<Score>, Vec<_>) =
            evaluated.into_iter().map(|one| (one.score, one.stem)).unzip();
        let mut scored = genomes.into_iter().zip(scores).map(|(genome, score)| Individual { genome, score });
        for island in islands {
            self.islands[island] = ranked(scored.by_ref().take(per_island).collect(), diverse);
        }
        self.keep(stems.into_iter().flatten());
        Some(fresh)
    }

    /// Keeps the runs of networks on the islands for their children, those of the best first: they have most.
    fn keep(&mut self, fresh: impl Iterator<Item = Arc<Stem>>) {
        let all: Vec<Arc<Stem>> = self.stems.iter().cloned().chain(fresh).collect();
        let mut all: BTreeMap<&Genome, &Arc<Stem>> = all.iter().map(|stem| (&stem.genome, stem)).collect();
        let ranks = 0..self.plan.per_island;
        let best = ranks.flat_map(|rank| self.islands.iter().filter_map(move |island| island.get(rank)));
        self.stems = Stems::of(best.filter_map(|one| all.remove(&one.genome).cloned()));
    }

    /// Takes account of a generation.
    pub(crate) fn passed(&mut self, report: &Report) {
        self.evaluations += report.evaluations as u64;
        match self.mark {
            Some(mark) if report.best.total <= mark + RISE => self.stale += 1,
            _ => (self.mark, self.stale) = (Some(report.best.total), 0),
        }
    }

    fn report(&self, evaluations: usize) -> Report {
        let of = |island: &Vec<Individual>| island.iter().map(|one| one.score).collect();
        let scores: Vec<Vec<Score>> = self.islands.iter().map(of).collect();
        Report::of(self.generations - 1, evaluations, &scores)
    }

    fn rng(&self, island: usize, place: usize) -> Rng {
        Rng::stream(self.plan.seed, &format!("ccfuzz/{}/{island}/{place}", self.generations))
    }

    fn fresh(&self, target: &Target, island: usize, place: usize) -> Genome {
        Genome::fresh(target.mode, &target.space, &mut self.rng(island, place))
    }

    fn first(&self, target: &Target, visitors: &[Genome], island: usize) -> Vec<Genome> {
        let at = |place| {
            // Spread over the islands, one each, then a second one each.
            let visitor = visitors.get(place * self.plan.islands + island).cloned();
            visitor.unwrap_or_else(|| self.fresh(target, island, place))
        };
        (0..self.plan.per_island).map(at).collect()
    }

    /// The best of each island take the place of the worst of the next: a ring.
    pub(crate) fn migrate(&mut self) {
        let count = self.plan.leaving();
        let leaving: Vec<Vec<Individual>> =
            self.islands.iter().map(|island| island[..count].to_vec()).collect();
        for (index, migrants) in leaving.into_iter().enumerate() {
            let goal = (index + 1) % self.islands.len();
            let mut island = std::mem::take(&mut self.islands[goal]);
            island.truncate(self.plan.per_island - count);
            island.extend(migrants);
            self.islands[goal] = ranked(island, self.plan.diverse);
        }
    }

    fn children(&self, target: &Target, index: usize) -> Vec<Genome> {
        let island = &self.islands[index];
        let Plan { per_island, anneal, strategy, .. } = self.plan;
        let elite = self.plan.elites();
        let mode = target.mode;
        // A service has one parent (section 7.3.2).
        let two_parents = if mode.traffic || mode.loss { self.plan.crossovers() } else { 0 };
        let child = |place: usize| {
            let mut rng = self.rng(index, place);
            if place < elite {
                return island[place].genome.clone();
            }
            if strategy == Strategy::Random {
                return Genome::fresh(mode, &target.space, &mut rng);
            }
            let parent = &island[pick(island.len(), &mut rng)].genome;
            if place < elite + two_parents {
                let other = &island[pick(island.len(), &mut rng)].genome;
                return parent.crossed(other, &target.space, &mut rng);
            }
            let annealed = (anneal && mode.link).then(|| parent.annealed());
            annealed.as_ref().unwrap_or(parent).mutated(mode, &target.space, &mut rng)
        };
        (0..per_island).map(child).collect()
    }
}

/// Best first; among equals the one bred first. If `diverse`, the best of each behaviour before all others.
fn ranked(mut island: Vec<Individual>, diverse: bool) -> Vec<Individual> {
    island.sort_by(|a, b| b.score.total.total_cmp(&a.score.total));
    if !diverse {
        return island;
    }
    let (mut best, rest) = cleared(island, |one| &one.score);
    best.extend(rest);
    best
}

/// A rank, from 0: each with a probability of one over its number from 1 (section 7.3.5).
fn pick(count: usize, rng: &mut Rng) -> usize {
    let harmonic: f64 = (1..=count).map(|rank| 1.0 / rank as f64).sum();
    let mut left = rng.uniform() * harmonic;
    for rank in 0..count {
        left -= 1.0 / (rank + 1) as f64;
        if left < 0.0 {
            return rank;
        }
    }
    count - 1
}

/// What came of a genome.
struct Evaluated {
    score: Score,
    /// Whether it took a simulation.
    fresh: bool,
    /// Its run, if it took one that others may branch off and there was room for it.
    stem: Option<Arc<Stem>>,
}

/// Scores genomes, in their order; those that are `known` need no simulation. Gives nothing if `progress`
/// returned `false` before the last was scored.
fn evaluate(
    target: &Target,
    genomes: &[Genome],
    known: &dyn Fn(usize, &Genome) -> Option<Score>,
    stems: &Stems,
    crew: &Crew,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Vec<Evaluated>> {
    let (done, stopped, held) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let slots: Vec<Mutex<Option<Evaluated>>> = genomes.iter().map(|_| Mutex::new(None)).collect();
    let settle = |index: usize, evaluated| {
        *slots[index].lock().expect("nothing panics here") = Some(evaluated);
        if !progress(done.fetch_add(1, Ordering::Relaxed) + 1) {
            stopped.store(true, Ordering::Relaxed);
        }
    };
    let mut left = Vec::new();
    for (index, genome) in genomes.iter().enumerate() {
        if stopped.load(Ordering::Relaxed) {
            return None;
        }
        match known(index, genome) {
            Some(score) => settle(index, Evaluated { score, fresh: false, stem: None }),
            None => left.push(index),
        }
    }
    left.sort_by(|&one, &other| order(&genomes[one], &genomes[other]));
    let rows: Vec<&[usize]> = left.chunks((left.len() / (4 * crew.hands())).clamp(1, IN_A_ROW)).collect();
    crew.share(rows.len(), &|row| {
        let mut last: Option<Arc<Stem>> = None;
        for &index in rows[row] {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            let near: Vec<&Stem> = stems.around(&genomes[index]).chain(last.as_deref()).collect();
            let (score, stem) = target.evaluate_beside(&genomes[index], &near);
            let fits = held.fetch_add(stem.bytes(), Ordering::Relaxed) <= MEMORY;
            let stem = Arc::new(stem);
            last = Some(stem.clone());
            settle(index, Evaluated { score, fresh: true, stem: (fits && !stem.is_bare()).then_some(stem) });
        }
    });
    slots.into_iter().map(|slot| slot.into_inner().expect("nothing panics here")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::Behaviour;
    use crate::preset::Preset;
    use lab::scenario::Scenario;
    use std::path::Path;

    /// A run of three seconds: enough to tell one population from another.
    fn short(mode: &str) -> Target {
        let text = Preset::find("reno-low-rate").unwrap().scenario().text.replace("\"10s\"", "\"3s\"");
        let scenario = Scenario::parse(&text, Path::new("short.toml")).unwrap();
        Target::new(scenario, mode.parse().unwrap(), crate::Aim::LowThroughput, crate::Weights::default())
            .unwrap()
    }

    fn small() -> Plan {
        Plan { seed: 5, migrate_every: 3, ..Plan::of_size(12, 3).unwrap() }
    }

    fn searched(target: &Target, plan: Plan, generations: u32, threads: usize) -> Search {
        let mut search = Search::new(plan);
        (0..generations).for_each(|_| _ = search.step(target, &[], &Crew::of(threads), &|_| {}));
        search
    }

    #[test]
    fn ranks_are_picked_by_one_over_rank() {
        let mut rng = Rng::stream(1, "x");
        let mut counts = [0; 25];
        (0..100_000).for_each(|_| counts[pick(25, &mut rng)] += 1);
        // Ranks are drawn in proportion to 1/rank: shares of the first five of twenty-five.
        for (rank, share) in [0.262, 0.131, 0.087, 0.066, 0.052].into_iter().enumerate() {
            assert!((f64::from(counts[rank]) / 1e5 - share).abs() < 0.006, "{counts:?}");
        }
    }

    #[test]
    fn a_search_does_not_depend_on_threads() {
        for mode in ["traffic", "link"] {
            let target = short(mode);
            let (one, many) = (searched(&target, small(), 10, 1), searched(&target, small(), 10, 4));
            assert_eq!(one.islands, many.islands, "{mode}");
            assert_eq!(one.evaluations, many.evaluations);
        }
    }

    #[test]
    fn the_best_is_never_lost_and_known_networks_are_not_run_again() {
        let target = short("traffic");
        let mut search = Search::new(small());
        let mut best = f64::NEG_INFINITY;
        for generation in 0..8 {
            let report = search.step(&target, &[], &Crew::of(2), &|_| {});
            assert!(report.best.total >= best, "{report:?}");
            assert!(report.generation == generation && report.evaluations <= 12);
            assert!(generation == 0 || report.evaluations <= 9, "the elite is known: {report:?}");
            best = report.best.total;
        }
        assert_eq!(search.best().unwrap().score.total, best);
    }

    #[test]
    fn every_score_is_that_of_a_run_from_the_beginning() {
        for mode in ["traffic", "loss", "traffic+loss", "link", "link+traffic"] {
            let target = short(mode);
            let search = searched(&target, Plan { migrate_every: 2, ..small() }, 6, 2);
            assert!(search.stems.iter().count() > 6, "{mode}: nothing to branch off");
            for one in search.islands.iter().flatten() {
                assert_eq!(one.score, target.evaluate(&one.genome), "{mode}");
            }
        }
    }

    #[test]
    fn a_diverse_search_keeps_what_behaves_differently() {
        let target = short("traffic");
        let plan = Plan { diverse: true, ..small() };
        let (one, many) = (searched(&target, plan, 8, 1), searched(&target, plan, 8, 3));
        assert_eq!(one.islands, many.islands);
        let found: Vec<Behaviour> =
            one.findings(&target).iter().map(|found| Behaviour::of(&found.score)).collect();
        assert!(!found.is_empty());
        for (place, behaviour) in found.iter().enumerate() {
            assert!(!found[..place].iter().any(|better| better.is_like(behaviour)), "{found:?}");
        }
        let first = one.best().unwrap().score.total;
        assert!(one.islands.iter().flatten().all(|other| other.score.total <= first));
    }

    #[test]
    fn visitors_come_first_and_stay_if_they_are_good() {
        let target = short("traffic");
        let found = searched(&target, small(), 6, 2).best().unwrap().clone();
        let mut other = Search::new(Plan { seed: 6, ..small() });
        let report = other.step(&target, std::slice::from_ref(&found.genome), &Crew::of(2), &|_| {});
        assert!(report.best.total >= found.score.total);
    }
}
