//! Runs the points of experiments, as many at a time as asked.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::{Cache, Kept};
use crate::file::{Experiment, ExperimentError};
use crate::measure::{Instrument, Measured, measure};
use crate::probe::Probe;
use crate::value::Value;
use lab::run::{RunOptions, run_rows};
use lab::scenario::Scenario;
use units::Span;

/// How to run experiments.
pub struct Execution<'a> {
    /// Commit of the program.
    pub commit: String,
    /// Most runs at the same time.
    pub threads: usize,
    /// Where finished runs are kept, if anywhere.
    pub cache: Option<Cache>,
    /// Told how many runs are done, and of which experiment the last was.
    pub progress: &'a (dyn Fn(usize, &str) + Sync),
    /// What formulas of runs may ask besides the run.
    pub instruments: &'a [Instrument],
    /// Processor time of the calling thread in seconds, so that rows can say what they cost. Never steers
    /// anything.
    pub cpu_seconds: fn() -> f64,
}

/// What an experiment's runs gave.
#[derive(Clone, Debug)]
pub struct Results {
    /// Each point's labels and metrics, one map a seed.
    pub points: Vec<Measured>,
    /// Event hashes, in the order of points and seeds.
    pub hashes: Vec<String>,
    /// Processor seconds the runs took, whenever they were done. A run that several experiments ask for is
    /// counted with the first of them.
    pub seconds: f64,
    /// What was not there to run it, if anything.
    pub missing: Option<String>,
}

/// Virtual time from which on a run that several ask for is done once. A shorter one is there because a file
/// must have a run: the work is what its formulas do besides, and several do that at the same time.
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

/// Runs `experiments` and returns the results in their order. Results do not depend on the number of threads.
///
/// # Errors
/// The first [`ExperimentError`] in the order of experiments and points.
pub fn execute(experiments: &[Experiment], how: &Execution<'_>) -> Result<Vec<Results>, ExperimentError> {
    let kept = run_jobs(&jobs(experiments)?, how)?;
    let mut kept = kept.into_iter();
    experiments.iter().map(|experiment| gather(experiment, &mut kept)).collect()
}

fn jobs(experiments: &[Experiment]) -> Result<Vec<Job<'_>>, ExperimentError> {
    let (mut jobs, mut known) = (Vec::<Job<'_>>::new(), BTreeMap::new());
    let mut number = 0;
    for experiment in experiments.iter().filter(|experiment| experiment.missing().is_none()) {
        for point in experiment.points()? {
            for seed in 1..=experiment.seeds {
                let labels = experiment.axes.iter().map(|axis| axis.name.clone()).zip(point.labels.clone());
                let (scenario, labels) = (experiment.scenario(&point, seed)?, labels.collect());
                let alone = jobs.len();
                let job = match scenario.duration < WORTH_SHARING {
                    true => alone,
                    false => *known.entry(experiment.run(&point, seed)).or_insert(alone),
                };
                if job == alone {
                    jobs.push(Job { asked: Vec::new() });
                }
                jobs[job].asked.push(Asked { experiment, scenario, labels, number });
                number += 1;
            }
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

fn gather(
    experiment: &Experiment,
    kept: &mut impl Iterator<Item = Kept>,
) -> Result<Results, ExperimentError> {
    let missing = experiment.missing();
    let mut results = Results { points: Vec::new(), hashes: Vec::new(), seconds: 0.0, missing };
    if results.missing.is_some() {
        return Ok(results);
    }
    for point in experiment.points()? {
        let runs: Vec<Kept> = kept.take(experiment.seeds as usize).collect();
        results.seconds += runs.iter().map(|run| run.seconds).sum::<f64>();
        results.hashes.extend(runs.iter().map(|run| run.hash.clone()));
        let metrics: Vec<BTreeMap<String, Value>> = runs.into_iter().map(|run| run.metrics).collect();
        results.points.push((point.labels, metrics));
    }
    Ok(results)
}

fn run_jobs(jobs: &[Job<'_>], how: &Execution<'_>) -> Result<Vec<Kept>, ExperimentError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let asked = jobs.iter().map(|job| job.asked.len()).sum();
    let slots: Vec<Mutex<Option<Result<Kept, ExperimentError>>>> =
        (0..asked).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            // Each index goes to one thread alone.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let mut run = Shared::default();
            for asked in &job.asked {
                let kept = answer(asked, &mut run, how);
                let failed = kept.is_err();
                *slots[asked.number].lock().expect("nothing panics here") = Some(kept);
                (how.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, &asked.experiment.id);
                if failed {
                    // The others need not be begun.
                    next.store(jobs.len(), Ordering::Relaxed);
                    break;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..how.threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().expect("nothing panics here")).collect()
}

/// A job's run, once somebody had to do it: what to ask, and its hash.
type Shared = Option<(Rc<Probe>, String)>;

/// What is kept of a run for who asks for it: from the cache, or measured in `run`, which is done if it was
/// not yet.
fn answer(asked: &Asked<'_>, run: &mut Shared, how: &Execution<'_>) -> Result<Kept, ExperimentError> {
    let Asked { experiment, scenario, labels, .. } = asked;
    let cached = how.cache.as_ref().and_then(|cache| cache.get(scenario, &experiment.metrics));
    if let Some(kept) = cached {
        return Ok(kept);
    }
    let refuse = |what: String| experiment.refuse(format!("run {:?}", scenario.name), what);
    let begun = (how.cpu_seconds)();
    let (probe, hash) = match run {
        Some(run) => run,
        None => {
            let options = RunOptions { commit: how.commit.clone(), ..RunOptions::default() };
            let found = run_rows(scenario, &options).map_err(|error| refuse(error.to_string()))?;
            let hash = found.hash.clone();
            run.insert((Rc::new(Probe::new(found)), hash))
        }
    };
    let metrics = measure(probe, labels, &experiment.metrics, how.instruments).map_err(refuse)?;
    let kept = Kept { hash: hash.clone(), seconds: (how.cpu_seconds)() - begun, metrics };
    if let Some(cache) = &how.cache {
        let put = cache.put(scenario, &experiment.metrics, &kept);
        put.map_err(|error| ExperimentError { failed: true, ..refuse(error.to_string()) })?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn experiment(name: &str, duration: &str, metric: &str) -> Experiment {
        let text = format!(
            "title = \"t\"\nseed = \"ours\"\nsource = \"s\"\nabout = \"a\"\nseeds = 2\n\
             [scenario]\nduration = \"{duration}\"\n[scenario.link]\nrate = \"4mbit\"\ndelay = \"5ms\"\n\
             [[scenario.flow]]\ncc = \"newreno\"\n[metrics]\nx = \"{metric}\"\n"
        );
        Experiment::parse(&text, Path::new(name)).unwrap()
    }

    #[test]
    fn a_run_in_common_is_done_once_and_each_gets_its_own() {
        let how = Execution {
            commit: String::new(),
            threads: 2,
            cache: None,
            progress: &|_, _| {},
            instruments: &[],
            cpu_seconds: || 0.0,
        };
        let [rate, lost, short] = [
            experiment("rate.toml", "1s", "rate(1, 0, 1)"),
            experiment("lost.toml", "1s", "loss(1, 0, 1)"),
            experiment("short.toml", "900ms", "rate(1, 0, 1)"),
        ];
        let both = [rate.clone(), short.clone(), lost.clone(), short];
        let asked: Vec<usize> = jobs(&both).unwrap().iter().map(|job| job.asked.len()).collect();
        assert_eq!(asked, [2, 2, 1, 1, 1, 1]);
        let together = execute(&both, &how).unwrap();
        for (found, experiment) in [(&together[0], rate), (&together[2], lost)] {
            let alone = &execute(&[experiment], &how).unwrap()[0];
            assert_eq!((&found.points, &found.hashes), (&alone.points, &alone.hashes));
        }
        assert_ne!(together[0].points, together[2].points);
        assert_eq!(together[0].hashes, together[2].hashes);
    }
}
