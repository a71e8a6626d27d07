//! Runs scenarios: builds the world, lets it run, and turns its events into an [`Outcome`].

mod build;
mod meter;
mod pauses;
mod pictures;
mod quic;
mod smoltcp;
mod stills;
mod supply;
mod tcp;
mod traces;
mod trunk;
mod watch;
mod windows;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use netsim::{RateProcess, World};
use record::{Fan, Hash, Recorder, Reentrant, Shared};
use units::{Span, Time};
use wire::Media;

use self::build::Built;

use crate::collect::{Collector, Keep, Rows};
use crate::files::WriteError;
use crate::scenario::{Scenario, ScenarioError};
use crate::stream::{Left, Limits, Recording, Settings};
use crate::summary::{Context, Plan, Provenance, Summary};
use crate::tables::{Events, Origin, Series, Tables};

pub use build::{Endpoints, bottleneck, endpoints, queue_of};
pub use meter::{FlowMeter, FrameTimes, Metered, Overlay, meter, meter_frames};
pub use stills::{Moment, Still, Stills};
pub use trunk::{Trunk, meter_from};
pub use watch::{FrameLife, SAMPLE, WINDOW, Watched, watch};
pub use windows::{Fate, Windows, windows};

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
    /// Somebody asked for it to end ([`RunOptions::stop`]).
    #[error("stopped before its end")]
    Stopped,
}

/// How to run.
pub struct RunOptions<'a> {
    /// Commit of the program, for the results.
    pub commit: String,
    /// How much to keep.
    pub keep: Keep,
    /// Told the share done, from 0 to 1, about two hundred times a run; from several threads if there are
    /// several runs.
    pub progress: &'a (dyn Fn(f64) + Sync),
    /// Looked at as often: once it is set, runs end with [`LabError::Stopped`] and leave nothing behind.
    pub stop: Option<&'a AtomicBool>,
    /// Most runs at the same time.
    pub threads: usize,
    /// When rows leave memory, if they are [`Keep::Bounded`].
    pub limits: Limits,
    /// For each scenario the folder into which rows that leave memory are written, until then beside their
    /// places.
    pub tables: Option<&'a [PathBuf]>,
}

impl Default for RunOptions<'_> {
    /// Everything kept, no progress, one run at a time, commit unknown.
    fn default() -> Self {
        RunOptions {
            commit: "unknown".to_owned(),
            keep: Keep::Rows,
            progress: &|_| {},
            stop: None,
            threads: 1,
            limits: Limits::default(),
            tables: None,
        }
    }
}

/// A finished run.
pub struct Outcome {
    /// What was run.
    pub scenario: Scenario,
    /// The run's figures.
    pub summary: Summary,
    /// Its rows, or what is left of them where they took too much memory ([`Keep::Bounded`]).
    pub record: Collector,
    /// The run's tables, as far as they were written.
    pub tables: Tables,
    /// Each flow's time between frames.
    pub intervals: Vec<Span>,
    /// The rate of each shared link, in the scenario's order: of the bottleneck, or of several links.
    pub rates: Vec<RateProcess>,
    /// A few pictures of each flow, where there were any.
    pub stills: Vec<Option<Stills>>,
}

impl Outcome {
    /// What tables say about where they come from.
    pub fn origin(&self) -> Origin {
        let summary = &self.summary;
        let provenance = Provenance {
            scenario: summary.scenario.clone(),
            seed: summary.seed,
            commit: summary.commit.clone(),
            hash: summary.hash.clone(),
        };
        origin(&self.scenario, &provenance)
    }

    /// The flows' names, in order.
    pub fn names(&self) -> Vec<String> {
        self.scenario.flows.iter().map(|flow| flow.name.clone()).collect()
    }
}

fn origin(scenario: &Scenario, provenance: &Provenance) -> Origin {
    let Provenance { scenario: name, seed, commit, hash } = provenance.clone();
    let pairs = [
        ("scenario", scenario.text.clone()),
        ("scenario_name", name),
        ("seed", seed.to_string()),
        ("commit", commit),
        ("hash", hash),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).to_vec()
}

/// Steps of virtual time between two reports of progress.
const STEPS: i64 = 200;

/// Runs `scenario`. The same scenario and seed give the same hash whatever else runs.
///
/// ```
/// use std::path::Path;
///
/// use framewire_lab::run::{RunOptions, run};
/// use framewire_lab::scenario::Scenario;
///
/// let text = r#"
/// duration = "3s"
/// [link]
/// rate = "5mbit"
/// delay = "20ms"
/// queue = "droptail:100ms"
/// [[flow]]
/// cc = "sqp"
/// "#;
/// let scenario = Scenario::parse(text, Path::new("example.toml"))?;
/// let outcome = run(&scenario, &RunOptions::default())?;
/// let flow = &outcome.summary.flows[0];
/// assert!(flow.throughput_bps > 1e6 && flow.loss == Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`LabError::Scenario`] if something the scenario names can't be opened or built, [`LabError::Write`] if
/// rows that leave memory can't be written.
pub fn run(scenario: &Scenario, options: &RunOptions<'_>) -> Result<Outcome, LabError> {
    run_watched(scenario, options, &mut |_| {})
}

/// The same, with a look at what is recorded after each step of virtual time.
pub(crate) fn run_watched(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    look: &mut dyn FnMut(&Recording),
) -> Result<Outcome, LabError> {
    let recording = Recording::new(&build::layout(scenario), options.keep);
    let Played { built, hash, recording } = play(scenario, options, Fan(Hash::default(), recording), look)?;
    let hash = hash.hex();
    let context = Context {
        plan: Plan { scenario, intervals: &built.intervals, header: Media::LEN as u32 },
        provenance: Provenance {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            commit: options.commit.clone(),
            hash,
        },
        rates: &built.rates,
    };
    let Left { summary, record, tables } =
        recording.finish(&context, &origin(scenario, &context.provenance))?;
    let of_flow = |index| built.originals.iter().find(|(flow, _)| *flow == index);
    let stills = (0..scenario.flows.len()).map(|index| of_flow(index)?.1.album().stills()).collect();
    let Built { intervals, rates, .. } = built;
    Ok(Outcome { scenario: scenario.clone(), summary, record, tables, intervals, rates, stills })
}

/// A finished run as its rows alone, for those who ask them what they want to know: a [`Summary`] costs a
/// tenth of a run.
pub struct Run {
    /// What was run.
    pub scenario: Scenario,
    /// Hash of all events, as 16 hexadecimal digits: the same for the same run. `None` if nobody wanted it.
    pub hash: Option<String>,
    /// Its packets, frames and decisions, as far as they were kept.
    pub record: Collector,
    /// Each flow's time between frames.
    pub intervals: Vec<Span>,
    /// The rate of each shared link, in the scenario's order.
    pub rates: Vec<RateProcess>,
}

/// What [`run_rows`] makes of a run's events.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The rows to keep.
    pub rows: Rows,
    /// Whether to hash all events: every one must be made then, which takes up to a sixth of the run's time.
    pub hash: bool,
}

/// Runs `scenario` and keeps what is wanted, whatever `options` say of that. It changes nothing of the run.
/// Where no hash is wanted, events that no row needs are not made, and nothing is counted of them.
///
/// # Errors
/// As [`run`].
pub fn run_rows(scenario: &Scenario, options: &RunOptions<'_>, wanted: Wanted) -> Result<Run, LabError> {
    let one = RunOptions { keep: Keep::Rows, commit: options.commit.clone(), ..*options };
    let recording = Recording::of(&build::layout(scenario), wanted.rows);
    let recorder = Fan(wanted.hash.then(Hash::default), recording);
    let Played { built, hash, recording } = play(scenario, &one, recorder, &mut |_| {})?;
    let hash = hash.map(|hash| hash.hex());
    let Built { intervals, rates, .. } = built;
    Ok(Run { scenario: scenario.clone(), hash, record: recording.into_rows(), intervals, rates })
}

/// A run of `scenario` in which nothing happened, to find out what would be asked of one: it has no rows, and
/// nothing that it says of intervals and rates means anything.
pub fn blank(scenario: &Scenario) -> Run {
    let flows = scenario.flows.len();
    Run {
        scenario: scenario.clone(),
        hash: None,
        record: Collector::of(&build::layout(scenario), Rows::none(flows)),
        intervals: vec![Span::from_millis(1); flows],
        rates: vec![RateProcess::Infinite; scenario.link.iter().len()],
    }
}

/// A run that is over, before anything is made of its events.
struct Played<H> {
    built: Built,
    hash: H,
    recording: Recording,
}

/// Runs `scenario` to its end, with a look after each step of virtual time.
fn play<H: Recorder + Default + Send + 'static>(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    recorder: Fan<H, Recording>,
    look: &mut dyn FnMut(&Recording),
) -> Result<Played<H>, LabError> {
    let recorder = Arc::new(Reentrant::new(recorder));
    let shared: Shared = recorder.clone();
    let world = World::new(scenario.seed, Some(shared));
    let mut built = build::build(scenario, world, &Overlay::default())?;
    if options.keep == Keep::Bounded {
        let settings = Settings {
            scenario: scenario.clone(),
            intervals: built.intervals.clone(),
            header: Media::LEN as u32,
            limits: options.limits,
            tables: options.tables.and_then(<[_]>::first).cloned(),
        };
        recorder.with(|recorder| recorder.1.bound(settings));
    }
    step_through(&mut built.world, scenario, options, &mut || {
        recorder.with(|Fan(_, recording)| {
            look(recording);
            recording.trouble().map_or(Ok(()), |trouble| Err(trouble.into()))
        })
    })?;
    if let Some((index, what)) = built.originals.iter().find_map(|(i, o)| Some((i, o.trouble()?))) {
        return Err(scenario.error(format!("flow[{}].encoder.clip", index + 1), what).into());
    }
    let Fan(hash, recording) = recorder.with(std::mem::take);
    Ok(Played { built, hash, recording })
}

/// Runs a world to the scenario's end, with a look after each step of virtual time.
fn step_through(
    world: &mut World,
    scenario: &Scenario,
    options: &RunOptions<'_>,
    look: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<(), LabError> {
    for step in 1..=STEPS {
        let share = step as f64 / STEPS as f64;
        let until = if step == STEPS { scenario.duration } else { scenario.duration.mul_f64(share) };
        world.run_until(Time::ZERO + until);
        (options.progress)(share);
        if options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(LabError::Stopped);
        }
        look()?;
    }
    Ok(())
}

/// Everything that happens in a run, as the columns of a table, a row an event, and the run's event hash. An
/// event takes some 900 bytes, and a packet of video is some seven.
///
/// # Errors
/// As [`run`].
pub fn events(scenario: &Scenario, options: &RunOptions<'_>) -> Result<(Vec<Series>, String), LabError> {
    let names = scenario.flows.iter().map(|flow| flow.name.clone()).collect();
    let table = Events::new(build::layout(scenario), names);
    let recorder = Arc::new(Reentrant::new(Fan(Hash::default(), table)));
    let shared: Shared = recorder.clone();
    let mut built = build::build(scenario, World::new(scenario.seed, Some(shared)), &Overlay::default())?;
    step_through(&mut built.world, scenario, options, &mut || Ok(()))?;
    // The world holds the other end.
    drop(built);
    let Fan(hash, table) = Arc::into_inner(recorder).expect("the world is gone").into_inner();
    Ok((table.columns(), hash.hex()))
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
            let tables = options.tables.map(|folders| &folders[index..=index]);
            let one = RunOptions { progress: &progress, commit: options.commit.clone(), tables, ..*options };
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
