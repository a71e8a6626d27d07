//! Runs the points of experiments, as many at a time as asked.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::answers::Measured;
use crate::cache::{Cache, Kept};
use crate::crew::Crew;
use crate::file::{Experiment, ExperimentError};
use crate::measure::{Instrument, measure};
use crate::points::Point;
use crate::probe::Probe;
use crate::rows;
use crate::value::Value;
use lab::collect::Rows;
use lab::run::{RunOptions, Wanted, blank, run_rows};
use lab::scenario::Scenario;
use units::Span;

/// How to run experiments.
pub struct Execution<'a> {
    /// Commit of the program.
    pub commit: String,
    /// Most runs at the same time. Those that have run out of runs help instruments of others.
    pub threads: usize,
    /// Where finished runs are kept, if anywhere.
    pub cache: Option<Cache>,
    /// Whether runs' events are hashed, which takes up to a sixth of their time. A run that is in the cache
    /// without its hash is done again.
    pub hashes: bool,
    /// Told after each run.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
    /// What formulas of runs may ask besides the run.
    pub instruments: &'a [Instrument],
    /// Processor time of the calling thread in seconds, so that rows can say what they cost. Never steers
    /// anything.
    pub cpu_seconds: fn() -> f64,
}

/// How far a laboratory is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Runs that are done.
    pub done: usize,
    /// All that are known to be wanted; what rows ask for may become more.
    pub of: usize,
    /// The experiment of the last one.
    pub experiment: &'a str,
}

/// What an experiment's runs gave.
#[derive(Clone, Debug)]
pub struct Results {
    /// Labels and metrics, one map a seed, of each point that was run.
    pub points: Vec<Measured>,
    /// Event hashes, in the order of points and seeds, where [asked for](Execution::hashes).
    pub hashes: Vec<String>,
    /// Processor seconds the runs took, whenever they were done. A run that several experiments ask for is
    /// counted with the first of them.
    pub seconds: f64,
    /// What was not there to run it, if anything.
    pub missing: Option<String>,
}

/// Virtual time from which on a run that several ask for is done once, and formulas are tried before it. A
/// shorter one is there because a file must have a run: the work is what its formulas do besides, and several
/// do that at the same time.
const WORTH_SHARING: Span = Span::from_secs(1);

/// One run, and who asks for it.
struct Job<'a> {
    asked: Vec<Asked<'a>>,
}

/// A point of an experiment with one of its seeds.
struct Asked<'a> {
    experiment: &'a Experiment,
    scenario: Scenario,
    /// The point's label on each axis, by the axis' name.
    labels: BTreeMap<String, String>,
    /// Its number among all that are asked for.
    number: usize,
}

/// An experiment's points, and what is kept of the runs of those that were done: one a seed.
struct Plan<'a> {
    experiment: &'a Experiment,
    missing: Option<String>,
    points: Vec<Point>,
    kept: Vec<Option<Vec<Kept>>>,
}

/// A point: its experiment's number and its own.
type Place = (usize, usize);

/// Runs `experiments` and returns the results in their order. Results do not depend on the number of threads.
///
/// # Errors
/// The first [`ExperimentError`] in the order of experiments and points.
pub fn execute(experiments: &[Experiment], how: &Execution<'_>) -> Result<Vec<Results>, ExperimentError> {
    let mut plans = plans(experiments)?;
    let all = places(&plans, |plan| (0..plan.points.len()).collect());
    run(&mut plans, &all, 0, how)?;
    Ok(plans.into_iter().map(Plan::gather).collect())
}

/// The same of those points only that the claims of the experiments read: others are there for figures.
/// Claims are held against as many results as are there, again and again, until they ask for no more.
///
/// # Errors
/// The first [`ExperimentError`] in the order of experiments and points.
pub fn execute_for_claims(
    experiments: &[Experiment],
    how: &Execution<'_>,
) -> Result<Vec<Results>, ExperimentError> {
    let mut plans = plans(experiments)?;
    let mut done = 0;
    loop {
        let wanted = places(&plans, |plan| plan.wanted());
        if wanted.is_empty() {
            return Ok(plans.into_iter().map(Plan::gather).collect());
        }
        done += run(&mut plans, &wanted, done, how)?;
    }
}

fn plans(experiments: &[Experiment]) -> Result<Vec<Plan<'_>>, ExperimentError> {
    let plan = |experiment| {
        let missing = Experiment::missing(experiment);
        let points = if missing.is_some() { Vec::new() } else { experiment.points()? };
        Ok(Plan { experiment, missing, kept: points.iter().map(|_| None).collect(), points })
    };
    experiments.iter().map(plan).collect()
}

/// The places of the points that `of` names of each plan.
fn places(plans: &[Plan<'_>], of: fn(&Plan<'_>) -> BTreeSet<usize>) -> Vec<Place> {
    plans.iter().zip(0..).flat_map(|(plan, at)| of(plan).into_iter().map(move |point| (at, point))).collect()
}

impl Plan<'_> {
    /// What those points gave that were run.
    fn measured(&self) -> Vec<Measured> {
        let metrics = |kept: &Vec<Kept>| kept.iter().map(|run| run.metrics.clone()).collect();
        let given = |(point, kept): (&Point, &Option<Vec<Kept>>)| {
            kept.as_ref().map(|kept| (point.labels.clone(), metrics(kept)))
        };
        self.points.iter().zip(&self.kept).filter_map(given).collect()
    }

    /// Numbers of the points that rows still ask for.
    fn wanted(&self) -> BTreeSet<usize> {
        if self.kept.iter().all(Option::is_some) {
            return BTreeSet::new();
        }
        rows::wanted(self.experiment, &self.measured())
    }

    fn gather(self) -> Results {
        let points = self.measured();
        let runs = || self.kept.iter().flatten().flatten();
        Results {
            points,
            hashes: runs().filter_map(|run| run.hash.clone()).collect(),
            seconds: runs().map(|run| run.seconds).sum(),
            missing: self.missing.clone(),
        }
    }
}

/// Runs the points at `places`, behind `done` runs, and says how many runs that was.
fn run(
    plans: &mut [Plan<'_>],
    places: &[Place],
    done: usize,
    how: &Execution<'_>,
) -> Result<usize, ExperimentError> {
    let kept = run_jobs(&jobs(plans, places)?, done, how)?;
    let (runs, mut kept) = (kept.len(), kept.into_iter());
    for &(at, point) in places {
        let plan = &mut plans[at];
        plan.kept[point] = Some(kept.by_ref().take(plan.experiment.seeds as usize).collect());
    }
    Ok(runs)
}

fn jobs<'a>(plans: &[Plan<'a>], places: &[Place]) -> Result<Vec<Job<'a>>, ExperimentError> {
    let (mut jobs, mut known) = (Vec::<Job<'_>>::new(), BTreeMap::new());
    let mut number = 0;
    for &(at, point) in places {
        let Plan { experiment, points, .. } = &plans[at];
        let point = &points[point];
        for seed in 1..=experiment.seeds {
            let labels = experiment.axes.iter().map(|axis| axis.name.clone()).zip(point.labels.clone());
            let (scenario, labels) = (experiment.scenario(point, seed)?, labels.collect());
            let alone = jobs.len();
            let job = match scenario.duration < WORTH_SHARING {
                true => alone,
                false => *known.entry(experiment.run(point, seed)).or_insert(alone),
            };
            if job == alone {
                jobs.push(Job { asked: Vec::new() });
            }
            jobs[job].asked.push(Asked { experiment, scenario, labels, number });
            number += 1;
        }
    }
    Ok(jobs)
}

/// How many runs `experiments` ask for. Nothing is read or unpacked to know it.
pub fn count(experiments: &[Experiment]) -> usize {
    let points = |e: &Experiment| e.axes.iter().map(|axis| axis.labels().len()).product::<usize>();
    let of = |e: &Experiment| e.scenario.as_ref().map_or(0, |_| points(e) * e.seeds as usize);
    experiments.iter().map(of).sum()
}

fn run_jobs(jobs: &[Job<'_>], before: usize, how: &Execution<'_>) -> Result<Vec<Kept>, ExperimentError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(before));
    let threads = how.threads.min(jobs.len());
    let idle = Arc::new(AtomicUsize::new(how.threads - threads));
    let asked = jobs.iter().map(|job| job.asked.len()).sum();
    let slots: Vec<Mutex<Option<Result<Kept, ExperimentError>>>> =
        (0..asked).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            // Each index goes to one thread alone.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let mut run = Shared::new(job, how, Crew::sharing(&idle, how.cpu_seconds));
            for asked in &job.asked {
                let kept = run.answer(asked);
                let failed = kept.is_err();
                *slots[asked.number].lock().expect("nothing panics here") = Some(kept);
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                (how.progress)(Progress { done, of: before + slots.len(), experiment: &asked.experiment.id });
                if failed {
                    // The others need not be begun.
                    next.store(jobs.len(), Ordering::Relaxed);
                    break;
                }
            }
        }
        idle.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().expect("nothing panics here")).collect()
}

/// A job's run, done once somebody has to.
struct Shared<'a> {
    job: &'a Job<'a>,
    how: &'a Execution<'a>,
    crew: Arc<Crew>,
    done: Option<Done>,
}

/// What to ask, which rows it has, and the run's hash.
struct Done {
    probe: Rc<Probe>,
    rows: Rows,
    hash: Option<String>,
}

impl<'a> Shared<'a> {
    fn new(job: &'a Job<'a>, how: &'a Execution<'a>, crew: Crew) -> Shared<'a> {
        Shared { job, how, crew: Arc::new(crew), done: None }
    }

    /// What is kept of the run for who asks for it: from the cache, or measured.
    fn answer(&mut self, asked: &Asked<'_>) -> Result<Kept, ExperimentError> {
        let Asked { experiment, scenario, .. } = asked;
        let cache = self.how.cache.as_ref();
        let kept = cache.and_then(|cache| cache.get(scenario, &experiment.metrics));
        if let Some(kept) = kept.filter(|kept| kept.hash.is_some() || !self.how.hashes) {
            return Ok(kept);
        }
        let begun = (self.how.cpu_seconds)();
        let rows = match &self.done {
            Some(done) => done.rows.clone(),
            None => self.job.rows(),
        };
        let (mut metrics, mut hash) = self.measure(asked, rows)?;
        if self.done.as_ref().is_some_and(|done| !done.rows.cover(&done.probe.asked())) {
            // What a formula asks for depended on what it found.
            (metrics, hash) = self.measure(asked, Rows::all(scenario.flows.len()))?;
        }
        let metrics = metrics.map_err(|what| asked.refuse(what))?;
        let seconds = (self.how.cpu_seconds)() - begun + self.crew.helped();
        let kept = Kept { hash, seconds, metrics };
        if let Some(cache) = cache {
            let put = cache.put(scenario, &experiment.metrics, &kept);
            put.map_err(|error| ExperimentError { failed: true, ..asked.refuse(error.to_string()) })?;
        }
        Ok(kept)
    }

    /// Metrics of the run, which is done unless it was with these rows, and its hash.
    fn measure(
        &mut self,
        asked: &Asked<'_>,
        rows: Rows,
    ) -> Result<(Metrics, Option<String>), ExperimentError> {
        let done = match self.done.take().filter(|done| done.rows == rows) {
            Some(done) => done,
            None => {
                let options = RunOptions { commit: self.how.commit.clone(), ..RunOptions::default() };
                let wanted = Wanted { rows: rows.clone(), hash: self.how.hashes };
                let run = run_rows(&asked.scenario, &options, wanted);
                let run = run.map_err(|error| asked.refuse(error.to_string()))?;
                Done { hash: run.hash.clone(), probe: Rc::new(Probe::new(run)), rows }
            }
        };
        let Asked { labels, experiment, .. } = asked;
        let metrics = measure(&done.probe, labels, &experiment.metrics, self.how.instruments, &self.crew);
        let hash = done.hash.clone();
        self.done = Some(done);
        Ok((metrics, hash))
    }
}

/// Values by name, or what is wrong with a formula.
type Metrics = Result<BTreeMap<String, Value>, String>;

impl Job<'_> {
    /// The rows of its run that somebody will ask for, as far as can be known before.
    fn rows(&self) -> Rows {
        let mut rows = Rows::none(self.asked[0].scenario.flows.len());
        self.asked.iter().for_each(|asked| rows.add(&asked.rows()));
        rows
    }
}

impl Asked<'_> {
    /// The rows that formulas ask of a run in which nothing happened; all, if they don't get to their end or
    /// do other work besides.
    fn rows(&self) -> Rows {
        let probe = Rc::new(Probe::new(blank(&self.scenario)));
        let metrics = &self.experiment.metrics;
        let crew = Arc::new(Crew::of(1));
        let is_tried = self.scenario.duration >= WORTH_SHARING;
        match is_tried && measure(&probe, &self.labels, metrics, &[], &crew).is_ok() {
            true => probe.asked(),
            false => Rows::all(probe.flows()),
        }
    }

    fn refuse(&self, what: String) -> ExperimentError {
        self.experiment.refuse(format!("run {:?}", self.scenario.name), what)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::measure::Reading;

    fn experiment(name: &str, duration: &str, metric: &str) -> Experiment {
        let text = format!(
            "title = \"t\"\nseed = \"ours\"\nsource = \"s\"\nabout = \"a\"\nseeds = 2\n\
             [scenario]\nduration = \"{duration}\"\n[scenario.link]\nrate = \"4mbit\"\ndelay = \"5ms\"\n\
             [[scenario.flow]]\ncc = \"newreno\"\n[metrics]\nx = \"{metric}\"\n"
        );
        Experiment::parse(&text, Path::new(name)).unwrap()
    }

    fn how(threads: usize) -> Execution<'static> {
        let (commit, cpu_seconds) = (String::new(), || 0.0);
        Execution {
            commit,
            threads,
            cache: None,
            hashes: true,
            progress: &|_| {},
            instruments: &[],
            cpu_seconds,
        }
    }

    #[test]
    fn a_run_in_common_is_done_once_and_each_gets_its_own() {
        let how = how(2);
        let [rate, lost, short] = [
            experiment("rate.toml", "1s", "rate(1, 0, 1)"),
            experiment("lost.toml", "1s", "loss(1, 0, 1)"),
            experiment("short.toml", "900ms", "rate(1, 0, 1)"),
        ];
        let both = [rate.clone(), short.clone(), lost.clone(), short];
        let plans = plans(&both).unwrap();
        let all = [(0, 0), (1, 0), (2, 0), (3, 0)];
        let asked: Vec<usize> = jobs(&plans, &all).unwrap().iter().map(|job| job.asked.len()).collect();
        assert_eq!(asked, [2, 2, 1, 1, 1, 1]);
        let together = execute(&both, &how).unwrap();
        for (found, experiment) in [(&together[0], rate), (&together[2], lost)] {
            let alone = &execute(&[experiment], &how).unwrap()[0];
            assert_eq!((&found.points, &found.hashes), (&alone.points, &alone.hashes));
        }
        assert_ne!(together[0].points, together[2].points);
        assert_eq!(together[0].hashes, together[2].hashes);
    }

    #[test]
    fn threads_without_a_run_help_who_has_one_and_their_time_is_counted() {
        fn work(_: &str, crew: &Crew) -> Reading {
            crew.share(4, &|_| {});
            Ok(BTreeMap::from([("x".to_owned(), 1.0)]))
        }
        // Each look at the clock is a second later, on each thread.
        thread_local!(static LOOKS: Cell<f64> = const { Cell::new(0.0) });
        let mut one = experiment("help.toml", "900ms", "work(\\\"\\\").x");
        one.seeds = 1;
        for (threads, seconds) in [(1, 1.0), (3, 3.0)] {
            let instruments = &[Instrument { name: "work", measure: work }];
            let cpu_seconds = || LOOKS.replace(LOOKS.get() + 1.0);
            let how = Execution { instruments, cpu_seconds, ..how(threads) };
            assert_eq!(execute(&[one.clone()], &how).unwrap()[0].seconds, seconds);
        }
    }

    #[test]
    fn only_rows_that_formulas_read_are_kept_whatever_they_ask_for_later() {
        let [plain, later] = [
            experiment("plain.toml", "1s", "rtt_mean(1, 0, 1)"),
            experiment("later.toml", "1s", "if rate(1, 0, 1) > 0.1 { rtt_mean(1, 0, 1) } else { 0.0 }"),
        ];
        let how = how(1);
        let both = [plain.clone(), later.clone()];
        let (all, one) = (plans(&both).unwrap(), plans(std::slice::from_ref(&later)).unwrap());
        let rows = |plans: &[Plan<'_>], places: &[Place]| jobs(plans, places).unwrap()[0].rows();
        let mut expected = Rows::none(1);
        expected.flows[0].packets = true;
        assert_eq!(rows(&one, &[(0, 0)]), expected);
        expected.flows[0].rtt = true;
        assert_eq!(rows(&all, &[(0, 0), (1, 0)]), expected);
        let [plain, later] = [plain, later].map(|one| execute(&[one], &how).unwrap().remove(0));
        assert_eq!((plain.points, plain.hashes), (later.points, later.hashes));
    }

    #[test]
    fn only_points_that_rows_read_are_run_for_them() {
        let text = "title = \"t\"\nseed = \"ours\"\nsource = \"s\"\nabout = \"a\"\n\
                    [scenario]\nduration = \"1s\"\n[scenario.link]\nrate = \"4mbit\"\ndelay = \"5ms\"\n\
                    [[scenario.flow]]\ncc = \"newreno\"\n[metrics]\nx = \"rate(1, 0, 1)\"\n\
                    [[axis]]\nname = \"ms\"\nfields = [\"link.delay\"]\n\
                    values = [\"5ms\", \"10ms\", \"20ms\", \"30ms\", \"40ms\"]\n\
                    [[row]]\nid = \"A-1\"\nkind = \"F\"\nclaim = \"c\"\nband = \">= 0\"\n\
                    measure = 'if at(\"10ms\").x > 0.0 { at(\"40ms\").x } else { at(\"20ms\").x }'\n";
        let experiment = [Experiment::parse(text, Path::new("rows.toml")).unwrap()];
        let told = Mutex::new(Vec::new());
        let how = Execution { progress: &|now| told.lock().unwrap().push((now.done, now.of)), ..how(1) };
        let few = execute_for_claims(&experiment, &how).unwrap();
        assert_eq!(told.lock().unwrap().as_slice(), [(1, 1), (2, 2)]);
        let labels: Vec<&str> = few[0].points.iter().map(|point| point.0[0].as_str()).collect();
        assert_eq!((labels, few[0].hashes.len()), (vec!["10ms", "40ms"], 2));
        let all = execute(&experiment, &how).unwrap();
        assert_eq!(all[0].points.len(), 5);
        let verdicts = |results: &[Results]| rows::check(&experiment[0], &results[0]).unwrap();
        assert_eq!(verdicts(&few)[0].measured, verdicts(&all)[0].measured);
    }
}
