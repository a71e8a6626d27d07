//! What the lab's experiments ask of CC-Fuzz: `ccfuzz("search bbr-stall generations=10 ...")` and the like in
//! their formulas.
//!
//! | text | numbers |
//! |---|---|
//! | `plan` | the settings of a search and of its network |
//! | `distribute` | counts and ratios of DISTPACKETS over five seeds |
//! | `search TARGET ...` | what a search found, and when |
//! | `compare TARGET ... seeds=5` | medians of the best score, genetic and random, of as many simulations |
//! | `thrift TARGET ... seeds=5` | medians of the best network's cross packets and harm, with and without the trace score |
//! | `distinct TARGET ...` | ways to fail shown by the findings of a diverse search, and by the twenty best of one that is not |
//! | `shrink TARGET ... budget=10000` | cross packets of what a search found, and of what shrinking left |
//!
//! Settings are `KEY=VALUE`: `cc`, `mode`, `seed`, `population`, `islands`, `generations`, `budget`,
//! `random`, `free`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use experiments::{Crew, Instrument};
use units::Rng;

use crate::distribute::distribute_seen;
use crate::faults;
use crate::genome::Genome;
use crate::plan::{Plan, Strategy};
use crate::preset::Preset;
use crate::score::Weights;
use crate::search::{Individual, Report, Search};
use crate::shrink::{Shrinking, shrink};
use crate::stems::Stems;
use crate::target::Target;

/// CC-Fuzz as an instrument of the lab.
pub const INSTRUMENT: Instrument = Instrument { name: "ccfuzz", measure };

type Numbers = BTreeMap<String, f64>;
type Searched = Arc<OnceLock<(Search, Vec<Report>)>>;

/// Searches that were asked for, by name. One takes seconds to do and some hundred kilobytes to keep.
static SEARCHES: Mutex<BTreeMap<String, Searched>> = Mutex::new(BTreeMap::new());

fn measure(text: &str, crew: &Crew) -> Result<Numbers, String> {
    let mut words = text.split_whitespace();
    match words.next() {
        Some("plan") => Ok(plan()),
        Some("distribute") => Ok(distributed()),
        Some("search") => Ok(Errand::read(words, crew)?.search()),
        Some("compare") => Ok(Errand::read(words, crew)?.compare()),
        Some("thrift") => Ok(Errand::read(words, crew)?.thrift()),
        Some("distinct") => Errand::read(words, crew)?.distinct(),
        Some("shrink") => Ok(Errand::read(words, crew)?.shrink()),
        _ => {
            let known = "plan, distribute, search, compare, thrift, distinct and shrink";
            Err(format!("`{text}` is nothing ccfuzz measures; it knows {known}"))
        }
    }
}

fn numbers(pairs: impl IntoIterator<Item = (&'static str, f64)>) -> Numbers {
    pairs.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
}

fn plan() -> Numbers {
    let plan = Plan::default();
    let scenario = Preset::find("bbr-stall").expect("it is in the list").scenario();
    let stack = scenario.flows[0].tcp().expect("it is a flow of TCP's").stack.config;
    numbers([
        ("population", plan.population() as f64),
        ("islands", plan.islands as f64),
        ("elite", plan.elite as f64),
        ("crossover", plan.crossover),
        ("migrants", plan.migrants),
        ("migrate_every", f64::from(plan.migrate_every)),
        ("mbit", scenario.link.rate.unwrap_or_default().as_f64() / 1e6),
        ("delay_ms", scenario.link.delay.unwrap_or_default().as_millis_f64()),
        ("least_timeout_s", stack.rto_min.as_secs_f64()),
    ])
}

/// 10 000 packets over 10 s, as figure 7.3 has them.
fn distributed() -> Numbers {
    let (mut exact, mut least, mut most) = (0.0, f64::INFINITY, 0.0_f64);
    for seed in 1..=5 {
        let mut rng = Rng::stream(seed, "figure 7.3");
        let instants = distribute_seen(10_000, 0, 10_000_000, Some(50_000), &mut rng, |ratios| {
            least = least.min(ratios.left).min(ratios.right);
            most = most.max(ratios.left).max(ratios.right);
        });
        exact += f64::from(instants.len() == 10_000 && instants.is_sorted());
    }
    numbers([("exact", exact), ("least", least), ("most", most)])
}

/// A search that a formula asks for.
struct Errand<'a> {
    crew: &'a Crew,
    /// What says which search it is.
    name: String,
    target: Target,
    plan: Plan,
    generations: u32,
    seeds: u64,
    /// Simulations that shrinking may take.
    budget: usize,
}

impl<'a> Errand<'a> {
    fn read<'b>(mut words: impl Iterator<Item = &'b str>, crew: &'a Crew) -> Result<Errand<'a>, String> {
        let name = words.next().unwrap_or_default();
        let preset = Preset::find(name).ok_or_else(|| format!("no target is called `{name}`"))?;
        let settings: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
        let mut target = preset.target();
        if let Some(mode) = settings.get("mode") {
            target.mode = mode.parse()?;
        }
        if settings.contains_key("free") {
            target.weights = Weights { trace: 0.0, ..Weights::default() };
        }
        if let Some(cc) = settings.get("cc") {
            target = target.with_cc(cc).map_err(|error| error.to_string())?;
        }
        let number = |key: &str, usual: u64| match settings.get(key) {
            Some(text) => text.parse().map_err(|_| format!("`{key}={text}` is no whole number")),
            None => Ok(usual),
        };
        let size = Plan::of_size(number("population", 500)? as usize, number("islands", 20)? as usize);
        let plan = size.map_err(|error| error.to_string())?;
        let of_search = |(key, _): &(&&str, &&str)| !["seeds", "budget"].contains(*key);
        let name = format!("{name} {:?}", settings.iter().filter(of_search).collect::<Vec<_>>());
        let random = settings.contains_key("random");
        let strategy = if random { Strategy::Random } else { Strategy::Genetic };
        let plan = Plan { seed: number("seed", 1)?, strategy, ..plan };
        Ok(Errand {
            crew,
            name,
            target,
            plan,
            generations: number("generations", 50)? as u32,
            seeds: number("seeds", 5)?,
            budget: number("budget", 10_000)? as usize,
        })
    }

    /// The search, which several formulas may ask for, and its generations.
    fn run(&self) -> (Search, Vec<Report>) {
        let mut known = SEARCHES.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.entry(self.name.clone()).or_default().clone();
        drop(known);
        let whole = || {
            let (search, reports) = self.go_on(Search::new(self.plan), self.generations);
            // Nobody goes on with it.
            (Search { stems: Stems::default(), ..search }, reports)
        };
        place.get_or_init(whole).clone()
    }

    /// A search so many generations later, and these.
    fn go_on(&self, mut search: Search, generations: u32) -> (Search, Vec<Report>) {
        let reports = (0..generations).map(|_| search.step(&self.target, &[], self.crew, &|_| {})).collect();
        (search, reports)
    }

    /// The first generation of a search.
    fn first(&self, plan: Plan) -> Search {
        self.go_on(Search::new(plan), self.generations.min(1)).0
    }

    fn search(&self) -> Numbers {
        let (search, reports) = self.run();
        let best = search.best().expect("there was a generation");
        let goal = |report: &Report| report.best.goal(&self.target.weights);
        let found = reports.iter().position(|report| report.best.total >= best.score.total).unwrap_or(0);
        let last = reports[reports.len() - 1];
        numbers([
            ("generation", found as f64),
            ("evaluations", search.evaluations as f64),
            ("goal", goal(&last)),
            ("performance", best.score.performance),
            ("stall", best.score.stall),
            ("used", best.score.used),
            ("cross", f64::from(best.score.cross)),
            ("timeouts", f64::from(best.score.timeouts)),
            ("worst_20", last.worst_20),
            ("worst_20_used", last.worst_20_used),
            ("after", after(&self.target.course(&best.genome))),
        ])
    }

    fn compare(&self) -> Numbers {
        let bests = (1..=self.seeds).map(|seed| {
            // The first generation is random whatever comes of it.
            let first = self.first(Plan { seed, ..self.plan });
            let best = |strategy| {
                let begun = Search { plan: Plan { strategy, ..first.plan }, ..first.clone() };
                let (search, _) = self.go_on(begun, self.generations.saturating_sub(1));
                search.best().expect("there was a generation").score.total
            };
            (best(Strategy::Genetic), best(Strategy::Random))
        });
        let (genetic, random) = bests.unzip();
        numbers([("genetic", median(genetic)), ("random", median(random))])
    }

    /// What the trace score saves, and what that costs.
    fn thrift(&self) -> Numbers {
        let calm = |errand: &Errand<'_>| errand.target.evaluate(&Genome::default()).performance;
        let mut target = self.target.clone();
        target.weights.trace = 0.0;
        let free = Errand { target, name: format!("{} for free", self.name), ..*self };
        let both = [self, &free];
        let calm = both.map(calm);
        let (mut cross, mut harm) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
        for seed in 1..=self.seeds {
            let plan = Plan { seed, ..self.plan };
            let first = self.first(plan);
            for (place, errand) in both.iter().enumerate() {
                let (search, _) = errand.go_on(beside(&first, plan), self.generations);
                let score = search.best().expect("there was a generation").score;
                cross[place].push(f64::from(score.cross));
                harm[place].push(score.performance - calm[place]);
            }
        }
        let ([cross, free_cross], [harm, free_harm]) = (cross.map(median), harm.map(median));
        numbers([("cross", cross), ("harm", harm), ("free_cross", free_cross), ("free_harm", free_harm)])
    }

    /// What shrinking leaves of what a search found.
    fn shrink(&self) -> Numbers {
        let (search, _) = self.run();
        let found = search.best().expect("there was a generation");
        let how = Shrinking { budget: self.budget, ..Shrinking::by(self.crew) };
        let shrunk = shrink(&self.target, &found.genome, how, &|_| true);
        numbers([
            ("before", f64::from(found.score.cross)),
            ("after", f64::from(shrunk.score.cross)),
            ("share", f64::from(shrunk.score.cross) / f64::from(found.score.cross)),
            ("evaluations", shrunk.evaluations as f64),
        ])
    }

    /// How many ways to fail a search comes upon that don't need each other: by its findings if it is
    /// diverse, by its best networks if it is not.
    fn distinct(&self) -> Result<Numbers, String> {
        const BEST: usize = 20;
        let fixed = faults::of(&self.target).map_err(|error| error.to_string())?;
        let count = |genomes: Vec<&Genome>| {
            let shown = genomes.iter().map(|genome| faults::shown(&self.target, &fixed, genome));
            faults::independent(&Vec::from_iter(shown.collect::<BTreeSet<_>>())) as f64
        };
        let first = self.first(self.plan);
        let run = |plan| self.go_on(beside(&first, plan), self.generations).0;
        let diverse = run(Plan { diverse: true, ..self.plan });
        let found: Vec<&Genome> = diverse.findings(&self.target).iter().map(|one| &one.genome).collect();
        let findings = found.len() as f64;
        let plain = run(self.plan);
        let mut best: Vec<&Individual> = plain.islands.iter().flatten().collect();
        best.sort_by(|a, b| b.score.total.total_cmp(&a.score.total));
        let best = best.iter().take(BEST).map(|one| &one.genome).collect();
        Ok(numbers([("diverse", count(found)), ("findings", findings), ("plain", count(best))]))
    }
}

/// A search that has not begun. The networks of its first generation are those that `first` has run, so only
/// what comes after their last snapshots is run again.
fn beside(first: &Search, plan: Plan) -> Search {
    Search { stems: first.stems.clone(), ..Search::new(plan) }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Mean use from the first window of the first second below a twentieth to the end: what is left after the
/// trigger. One if the flow never stalls for a second.
fn after(course: &[f64]) -> f64 {
    const STALLED: f64 = 0.05;
    let trigger = course.windows(2).position(|pair| pair.iter().all(|&used| used < STALLED));
    trigger.map_or(1.0, |at| course[at..].iter().sum::<f64>() / (course.len() - at) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Numbers, String> {
        measure(text, &Crew::of(2))
    }

    #[test]
    fn what_formulas_ask_is_answered_or_refused() {
        assert_eq!(asked("plan").unwrap()["population"], 500.0);
        let ratios = asked("distribute").unwrap();
        assert!(ratios["exact"] == 5.0 && ratios["least"] >= 0.5 && ratios["most"] <= 2.0);
        let found = asked("search reno-low-rate population=4 islands=2 generations=2 seed=3").unwrap();
        assert!(found["evaluations"] >= 5.0 && found["after"] <= 1.0, "{found:?}");
        assert!(asked("compare cubic-burst population=4 islands=2 generations=2 seeds=1").is_ok());
        for (text, what) in
            [("x", "knows plan"), ("search x", "no target"), ("search bbr-delay seed=x", "whole number")]
        {
            assert!(asked(text).unwrap_err().contains(what), "{text}");
        }
    }

    #[test]
    fn searches_that_begin_alike_end_as_each_does_alone() {
        let crew = Crew::of(2);
        let text = "cubic-burst population=6 islands=2 generations=3 seeds=1";
        let errand = Errand::read(text.split_whitespace(), &crew).unwrap();
        let compared = errand.compare();
        for (strategy, name) in [(Strategy::Genetic, "genetic"), (Strategy::Random, "random")] {
            let plan = Plan { strategy, seed: 1, ..errand.plan };
            let (alone, _) = errand.go_on(Search::new(plan), errand.generations);
            assert_eq!(compared[name], alone.best().unwrap().score.total, "{name}");
        }
    }

    #[test]
    fn a_search_that_several_ask_for_is_done_once() {
        let crew = Crew::of(1);
        let errand = |text: &str| Errand::read(text.split_whitespace(), &crew).unwrap();
        let first = errand("cubic-burst population=4 islands=2 generations=2 seed=77");
        let (search, reports) = first.run();
        let again = errand("cubic-burst seed=77 generations=2 islands=2 population=4 budget=9");
        assert_eq!((again.run().1, &again.name), (reports.clone(), &first.name));
        // What is known of a search is what it gives, were it another's.
        let known = errand("cubic-burst population=4 islands=2 generations=2 seed=79");
        let place = SEARCHES.lock().unwrap().entry(known.name.clone()).or_default().clone();
        assert!(place.set((search.clone(), reports)).is_ok(), "nobody has asked for it");
        assert_eq!(known.run().0.islands, search.islands);
        // It would be another one in each of these.
        for text in [
            "cubic-burst seed=78 generations=2",
            "cubic-burst free=1 generations=2",
            "bbr-stall generations=2",
        ] {
            let other = errand(&format!("{text} population=4 islands=2"));
            assert_ne!(other.run().0.islands, search.islands, "{text}");
        }
    }

    #[test]
    fn the_trigger_is_where_it_stops() {
        assert!((after(&[1.0, 0.0, 1.0, 0.0, 0.0, 0.3]) - 0.1).abs() < 1e-9);
        assert_eq!(after(&[1.0, 0.0, 1.0]), 1.0);
    }
}
