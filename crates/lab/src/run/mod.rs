//! Runs scenarios: builds the world, lets it run, and turns its events into an [`Outcome`].

mod build;
mod meter;
mod pictures;
mod quic;
mod smoltcp;
mod supply;
mod tcp;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netsim::{RateProcess, World};
use record::{Fan, Hash, Shared};
use units::{Span, Time};
use wire::Media;

use crate::collect::{Collector, Keep};
use crate::files::WriteError;
use crate::report::RunView;
use crate::scenario::{Scenario, ScenarioError};
use crate::summary::{Context, Provenance, Summary, summarise};
use crate::tables::Origin;

pub use build::{Endpoints, bottleneck, endpoints};
pub use meter::{FlowMeter, FrameTimes, Metered, Overlay, meter, meter_frames};
pub use watch::{FrameLife, SAMPLE, WINDOW, Watched, watch};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario, or a file it names, is not usable.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is no such congestion controller.
    #[error(transparent)]
    Controller(#[from] cc::OptionError),
    /// A result could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// How to run.
pub struct RunOptions<'a> {
    /// Commit of the program, for the results.
    pub commit: String,
    /// How much to keep.
    pub keep: Keep,
    /// Told the share done, from 0 to 1, about two hundred times a run; from several threads if there are several runs.
    pub progress: &'a (dyn Fn(f64) + Sync),
    /// Most runs at the same time.
    pub threads: usize,
}

impl Default for RunOptions<'_> {
    /// Everything kept, no progress, one run at a time, commit unknown.
    fn default() -> Self {
        RunOptions { commit: "unknown".to_owned(), keep: Keep::Rows, progress: &|_| {}, threads: 1 }
    }
}

/// A finished run.
pub struct Outcome {
    /// What was run.
    pub scenario: Scenario,
    /// Its numbers.
    pub summary: Summary,
    /// Its rows.
    pub record: Collector,
    /// Each flow's time between frames.
    pub intervals: Vec<Span>,
    /// The bottleneck's rate.
    pub rate: RateProcess,
}

impl Outcome {
    /// The run as a report sees it. `label` tells it from others: usually its controller.
    pub fn view(&self, label: impl Into<String>) -> RunView<'_> {
        RunView {
            label: label.into(),
            summary: &self.summary,
            record: &self.record,
            scenario: &self.scenario,
            intervals: &self.intervals,
            rate: &self.rate,
        }
    }

    /// What tables say about where they come from.
    pub fn origin(&self) -> Origin {
        let summary = &self.summary;
        let pairs = [
            ("scenario", self.scenario.text.clone()),
            ("scenario_name", summary.scenario.clone()),
            ("seed", summary.seed.to_string()),
            ("commit", summary.commit.clone()),
            ("hash", summary.hash.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).to_vec()
    }

    /// The flows' names, in order.
    pub fn names(&self) -> Vec<String> {
        self.scenario.flows.iter().map(|flow| flow.name.clone()).collect()
    }
}

/// Steps of virtual time between two reports of progress.
const STEPS: i64 = 200;

/// Runs `scenario`. The same scenario and seed give the same hash whatever else runs.
///
/// # Errors
/// [`LabError::Scenario`] if something the scenario names can't be opened or built.
pub fn run(scenario: &Scenario, options: &RunOptions<'_>) -> Result<Outcome, LabError> {
    let layout = build::layout(scenario);
    let recorder = Arc::new(Mutex::new(Fan(Hash::default(), Collector::new(&layout, options.keep))));
    let shared: Shared = recorder.clone();
    let world = World::new(scenario.seed, Some(shared));
    let mut built = build::build(scenario, world, &Overlay::default())?;
    for step in 1..=STEPS {
        let share = step as f64 / STEPS as f64;
        let until = if step == STEPS { scenario.duration } else { scenario.duration.mul_f64(share) };
        built.world.run_until(Time::ZERO + until);
        (options.progress)(share);
    }
    if let Some((index, what)) = built.originals.iter().find_map(|(i, o)| Some((i, o.trouble()?))) {
        return Err(scenario.error(format!("flow[{}].encoder.clip", index + 1), what).into());
    }
    let Fan(hash, record) = std::mem::take(&mut *recorder.lock().expect("no recorder panics"));
    let context = Context {
        scenario,
        provenance: Provenance {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            commit: options.commit.clone(),
            hash: hash.hex(),
        },
        intervals: &built.intervals,
        rate: &built.rate,
        header: Media::LEN as u32,
    };
    let summary = summarise(&record, &context);
    Ok(Outcome { scenario: scenario.clone(), summary, record, intervals: built.intervals, rate: built.rate })
}

/// Runs several scenarios, at most `options.threads` at a time, and returns their outcomes in the same order.
///
/// # Errors
/// The first error in the order of the scenarios.
pub fn run_all(scenarios: &[Scenario], options: &RunOptions<'_>) -> Result<Vec<Outcome>, LabError> {
    let next = AtomicUsize::new(0);
    let shares: Vec<Mutex<f64>> = scenarios.iter().map(|_| Mutex::new(0.0)).collect();
    let slots: Vec<Mutex<Option<Result<Outcome, LabError>>>> =
        scenarios.iter().map(|_| Mutex::new(None)).collect();
    let told = |index: usize, share: f64| {
        *shares[index].lock().expect("nothing panics here") = share;
        let sum: f64 = shares.iter().map(|s| *s.lock().expect("nothing panics here")).sum();
        (options.progress)(sum / shares.len() as f64);
    };
    let work = || {
        loop {
            // Each index goes to one thread alone.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = scenarios.get(index) else { break };
            let progress = |share| told(index, share);
            let one = RunOptions { progress: &progress, commit: options.commit.clone(), ..*options };
            *slots[index].lock().expect("nothing panics here") = Some(run(scenario, &one));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(scenarios.len()) {
            scope.spawn(work);
        }
        work();
    });
    let taken = slots.into_iter().map(|slot| slot.into_inner().expect("nothing panics here"));
    taken.map(|outcome| outcome.expect("every scenario was taken by a thread")).collect()
}

/// Runs `scenario` once for each controller of `ccs`, in place of its first flow's.
///
/// # Errors
/// As [`run_all`]; also if a controller does not exist.
pub fn compare(
    scenario: &Scenario,
    ccs: &[String],
    options: &RunOptions<'_>,
) -> Result<Vec<Outcome>, LabError> {
    let scenarios: Result<Vec<Scenario>, _> = ccs.iter().map(|cc| scenario.with_cc(cc)).collect();
    run_all(&scenarios?, options)
}

#[cfg(test)]
mod tests;
