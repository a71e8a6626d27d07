//! Islands apart: between two migrations an island breeds by itself, on whatever machine has a processor.
//!
//! ```text
//! Search --begin--> Round --job(island)--> bytes --work, anywhere--> bytes --join, all islands'--> Search
//! ```
//!
//! Draws are named after generation, island and place, so the search that comes of it is that of
//! [`Search::step`], bit for bit.

use experiments::Crew;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Body, put_network, put_score};
use crate::plan::Plan;
use crate::score::Score;
use crate::search::{Individual, Report, Search, best_of};
use crate::target::Target;

/// Some generations in which islands have nothing to do with each other.
///
/// ```
/// use framewire_ccfuzz::{Crew, Plan, Preset, Search, round::{Round, work}};
///
/// let target = Preset::find("reno-low-rate").expect("it comes along").target();
/// let plan = Plan::of_size(4, 2)?;
/// let (mut here, mut apart) = (Search::new(plan), Search::new(plan));
/// here.step(&target, &[], &Crew::of(1), &|_| {});
/// let round = Round::begin(&apart, 1);
/// // Each of these may run elsewhere.
/// let done = round.jobs(&target).iter().map(|job| work(plan, &target, job, &|| true)).collect::<Result<Vec<_>, _>>()?;
/// let done: Vec<Vec<u8>> = done.into_iter().flatten().collect();
/// (apart, _) = round.join(&target, &done)?;
/// assert_eq!(apart.islands, here.islands);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Round {
    /// The search as the round begins, networks exchanged.
    search: Search,
    generations: u32,
}

/// What opens the bytes of a job, and of what came of it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    island: usize,
    /// Generations before the round.
    from: u32,
    /// Generations of the round.
    generations: u32,
    /// Simulations that each generation took; none in a job.
    evaluations: Vec<usize>,
    networks: usize,
}

impl Round {
    /// The next round of a search: until its islands exchange networks, but `most` generations at most.
    pub fn begin(search: &Search, most: u32) -> Round {
        let mut search = search.clone();
        if search.migrates() {
            search.migrate();
        }
        search.islands.resize(search.plan.islands, Vec::new());
        let every = search.plan.migrate_every;
        Round { generations: (every - search.generations % every).min(most), search }
    }

    /// How many generations it has.
    pub fn generations(&self) -> u32 {
        self.generations
    }

    /// What is to be done for each island, as bytes for [`work`].
    pub fn jobs(&self, target: &Target) -> Vec<Vec<u8>> {
        let Round { search, generations } = self;
        let job = |(island, networks): (usize, &Vec<Individual>)| {
            let (from, generations, evaluations) = (search.generations, *generations, Vec::new());
            let head = Head { island, from, generations, evaluations, networks: networks.len() };
            written(&head, &[], networks, target)
        };
        search.islands.iter().enumerate().map(job).collect()
    }

    /// The search after the round, with a report of each generation, of what came of all jobs, in any order.
    ///
    /// # Errors
    /// What is wrong with the bytes: damaged, of another round, or an island missing or there twice.
    pub fn join(mut self, target: &Target, done: &[Vec<u8>]) -> Result<(Search, Vec<Report>), String> {
        let plan = self.search.plan;
        let kept = plan.per_island.min(best_of(vec![Score::default(); plan.per_island]).len());
        let mut parts = done
            .iter()
            .map(|bytes| read(bytes, kept, target).ok_or("an island's result is damaged"))
            .collect::<Result<Vec<_>, _>>()?;
        parts.sort_by_key(|(head, ..)| head.island);
        let fits = |(island, (head, _, networks)): (usize, &Part)| {
            let whole = head.evaluations.len() == self.generations as usize;
            let same = (head.from, head.generations) == (self.search.generations, self.generations);
            head.island == island && whole && same && networks.len() == plan.per_island
        };
        if parts.len() != plan.islands || !parts.iter().enumerate().all(fits) {
            return Err("the results are not those of every island of this round, once each".to_owned());
        }
        let reports = (0..self.generations as usize).map(|at| {
            let evaluations = parts.iter().map(|(head, ..)| head.evaluations[at]).sum();
            let of = |(_, scores, _): &Part| scores[at * kept..][..kept].to_vec();
            let scores: Vec<Vec<Score>> = parts.iter().map(of).collect();
            self.search.generations += 1;
            let report = Report::of(self.search.generations - 1, evaluations, &scores);
            self.search.passed(&report);
            report
        });
        let reports = reports.collect();
        self.search.islands = parts.into_iter().map(|(.., networks)| networks).collect();
        Ok((self.search, reports))
    }
}

/// Breeds an island through a round, as the bytes of [`Round::jobs`] ask for; returns bytes for
/// [`Round::join`], or nothing if `go_on` returned `false`: it is asked after every network.
///
/// # Errors
/// What is wrong with the bytes.
pub fn work(
    plan: Plan,
    target: &Target,
    job: &[u8],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Vec<u8>>, String> {
    let (mut head, _, networks) = read(job, 0, target).ok_or("an island's job is damaged")?;
    let right = if head.from == 0 { 0 } else { plan.per_island };
    if head.island >= plan.islands || networks.len() != right {
        return Err("an island's job is that of another search".to_owned());
    }
    let island = head.island;
    let mut search = Search { generations: head.from, ..Search::new(plan) };
    search.islands.resize(plan.islands, Vec::new());
    search.islands[island] = networks;
    let (mut followed, crew) = (Vec::new(), Crew::of(1));
    for _ in 0..head.generations {
        let Some(fresh) = search.breed(island..island + 1, target, &[], &crew, &|_| go_on()) else {
            return Ok(None);
        };
        search.generations += 1;
        head.evaluations.push(fresh);
        followed.extend(best_of(search.islands[island].iter().map(|one| one.score).collect()));
    }
    let networks = &search.islands[island];
    head.networks = networks.len();
    Ok(Some(written(&head, &followed, networks, target)))
}

/// What came of a job: the best scores of each generation, and the networks after the last.
type Part = (Head, Vec<Score>, Vec<Individual>);

fn written(head: &Head, followed: &[Score], networks: &[Individual], target: &Target) -> Vec<u8> {
    let mut out = serde_json::to_vec(head).expect("numbers");
    out.push(b'\n');
    followed.iter().for_each(|score| put_score(&mut out, score));
    networks.iter().for_each(|one| put_network(&mut out, one, target.mode.call));
    out
}

/// A job, or what came of it: then with the `kept` best scores of each generation.
fn read(bytes: &[u8], kept: usize, target: &Target) -> Option<Part> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let head: Head = serde_json::from_slice(&bytes[..end]).ok()?;
    let mut body = Body(&bytes[end + 1..]);
    // One at a time, so that what is claimed can't outgrow what is there.
    let scores = (0..head.evaluations.len() * kept).map(|_| body.score()).collect::<Option<_>>()?;
    let networks = (0..head.networks).map(|_| body.network(target.mode.call)).collect::<Option<_>>()?;
    body.0.is_empty().then_some((head, scores, networks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use lab::scenario::Scenario;
    use std::path::Path;

    fn target(mode: &str) -> Target {
        let text = Preset::find("reno-low-rate").unwrap().scenario().text.replace("\"10s\"", "\"3s\"");
        let scenario = Scenario::parse(&text, Path::new("short.toml")).unwrap();
        Target::new(scenario, mode.parse().unwrap(), crate::Aim::LowThroughput, crate::Weights::default())
            .unwrap()
    }

    fn done(round: &Round, target: &Target, plan: Plan) -> Vec<Vec<u8>> {
        let jobs = round.jobs(target);
        // The last first: their order does not matter.
        jobs.iter().rev().map(|job| work(plan, target, job, &|| true).unwrap().unwrap()).collect()
    }

    #[test]
    fn islands_apart_are_the_search_that_stays_together() {
        for (mode, diverse) in [("traffic", false), ("loss", false), ("traffic", true), ("link", false)] {
            let target = target(mode);
            let plan = Plan { seed: 5, migrate_every: 3, diverse, ..Plan::of_size(66, 3).unwrap() };
            let (mut here, mut apart) = (Search::new(plan), Search::new(plan));
            let reports: Vec<Report> =
                (0..8).map(|_| here.step(&target, &[], &Crew::of(2), &|_| {})).collect();
            let mut told = Vec::new();
            let mut sizes = Vec::new();
            while apart.generations < 8 {
                let round = Round::begin(&apart, 8 - apart.generations);
                sizes.push(round.generations());
                let results = done(&round, &target, plan);
                let (next, more) = round.join(&target, &results).unwrap();
                told.extend(more);
                apart = next;
            }
            assert_eq!(sizes, [3, 3, 2]);
            assert_eq!(told, reports, "{mode}");
            let of = |search: &Search| crate::checkpoint::encode(search, &target);
            assert!(of(&apart) == of(&here), "{mode}");
        }
    }

    #[test]
    fn what_is_not_of_the_round_is_refused() {
        let target = target("traffic");
        let plan = Plan { migrate_every: 2, ..Plan::of_size(4, 2).unwrap() };
        let round = Round::begin(&Search::new(plan), 9);
        let results = done(&round, &target, plan);
        let refused = |results: &[Vec<u8>]| round.clone().join(&target, results).is_err();
        assert!(!refused(&results));
        assert!(refused(&results[..1]), "one is missing");
        assert!(refused(&[results[0].clone(), results[0].clone()]), "one is there twice");
        assert!(refused(&[results[0].clone(), results[1][..results[1].len() - 1].to_vec()]), "cut short");
        let (next, _) = round.clone().join(&target, &results).unwrap();
        let later = Round::begin(&next, 9);
        assert!(later.clone().join(&target, &results).is_err(), "of the round before");
        let job = &later.jobs(&target)[0];
        assert!(work(Plan::of_size(6, 2).unwrap(), &target, job, &|| true).is_err(), "another plan");
        assert_eq!(work(plan, &target, job, &|| false), Ok(None));
    }
}
