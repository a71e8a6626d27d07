//! CC-Fuzz: a search for the network that a controller can't take; its islands may be bred by other
//! processes, a round at a time.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccfuzz::finding::{Finding, FindingError};
use ccfuzz::round::{Round, work};
use ccfuzz::shrink::{Shrinking, shrink};
use ccfuzz::{Folder, Preset, Report, Request, Strategy, Until, checkpoint};
use experiments::Crew;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::attended::attended;
use crate::controller::{is_class, trouble};
use crate::errors::{guarded, refused, unwritten};
use crate::scenario::{Scenario, unusable};
use crate::sweeping::program;

fn unkept(error: FindingError) -> PyErr {
    trouble().unwrap_or_else(|| unwritten(error))
}

/// What is tested, what is varied around it, and what is sought.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Target(ccfuzz::Target);

#[pymethods]
impl Target {
    /// Of a scenario, or of the preset of that name; what is none is its own.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "a person asks for so much; Python gives each by its name")]
    fn new(
        py: Python<'_>,
        scenario: Option<&Scenario>,
        preset: &str,
        cc: Option<String>,
        mode: Option<&str>,
        score: Option<&str>,
        expression: Option<String>,
        reference: Option<Vec<String>>,
        free: bool,
    ) -> PyResult<Target> {
        let preset = match scenario {
            Some(_) => None,
            None => Some(Preset::named(preset).map_err(refused)?),
        };
        let given = scenario.map(|scenario| scenario.0.clone());
        let scenario = given.or(preset.map(Preset::scenario)).expect("one of the two is there");
        let mode = mode.map(str::parse).transpose().map_err(refused)?;
        let aim = score.map(str::parse).transpose().map_err(refused)?;
        let request = Request { cc, mode, aim, expression, reference, duration: None, free };
        let made = || guarded(|| request.target(scenario, preset).map(Target).map_err(unusable));
        let target = py.detach(made)?;
        // Its trial run may have ended in an exception.
        trouble().map_or(Ok(target), Err)
    }

    /// What its folder is called after.
    #[getter]
    fn name(&self) -> String {
        lab::output::folder_name(&self.0.scenario.name)
    }
}

/// How a search goes about it.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct SearchPlan(ccfuzz::Plan);

#[pymethods]
impl SearchPlan {
    #[new]
    fn new(
        population: usize,
        islands: usize,
        seed: u64,
        random: bool,
        diverse: bool,
    ) -> PyResult<SearchPlan> {
        let plan = ccfuzz::Plan::of_size(population, islands).map_err(refused)?;
        let strategy = if random { Strategy::Random } else { Strategy::Genetic };
        Ok(SearchPlan(ccfuzz::Plan { seed, strategy, diverse, ..plan }))
    }
}

/// A search in a folder.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Search {
    target: ccfuzz::Target,
    until: Until,
    state: Mutex<State>,
}

struct State {
    /// None while a generation is bred, and for good where that was interrupted.
    search: Option<ccfuzz::Search>,
    folder: Folder,
    history: Vec<Report>,
    round: Option<Round>,
    /// Generations of the next round, where the last one went too far.
    most: u32,
}

impl State {
    fn search(&self) -> PyResult<&ccfuzz::Search> {
        self.search
            .as_ref()
            .ok_or_else(|| refused("this search was interrupted; begin from its folder again"))
    }
}

#[pymethods]
impl Search {
    /// One that begins, or the one that stands in `folder` if it is the same; the folder is made.
    #[new]
    fn new(
        py: Python<'_>,
        target: &Target,
        plan: &SearchPlan,
        folder: PathBuf,
        fresh: bool,
        until: (u32, Option<f64>, Option<u32>),
    ) -> PyResult<Search> {
        let (generations, goal, patience) = until;
        let until = Until { generations, goal, patience };
        py.detach(|| {
            guarded(|| {
                let search = begun(&target.0, plan.0, &folder, fresh)?;
                let folder = Folder::of(folder, &search);
                let (history, search) = (Vec::new(), Some(search));
                let state = State { search, folder, history, round: None, most: generations };
                Ok(Search { target: target.0.clone(), until, state: Mutex::new(state) })
            })
        })
    }

    /// Goes on to the end, on so many threads. `progress` is told the share done.
    fn run(&self, py: Python<'_>, threads: usize, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let (stop, share) = (AtomicBool::new(false), AtomicU64::new(0));
        let raised = Mutex::new(None);
        let look = |py: Python<'_>| {
            let share = f64::from_bits(share.load(Ordering::Relaxed));
            progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (share,)).map(drop))
        };
        let told = |done: f64| {
            share.store(done.to_bits(), Ordering::Relaxed);
            // Asked for in the thread that ran the network.
            if let Some(error) = trouble() {
                raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                stop.store(true, Ordering::Relaxed);
            }
            !stop.load(Ordering::Relaxed)
        };
        py.detach(|| {
            let result = attended(&stop, look, || self.go_on(threads, &told));
            match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(error) => Err(error),
                None => result?,
            }
        })
    }

    /// What is to be done for each island until they meet again, for [`Islands::work`]; nothing at the end.
    fn jobs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let jobs = py.detach(|| guarded(|| self.begin_round()))?;
        Ok(jobs.iter().map(|job| PyBytes::new(py, job)).collect())
    }

    /// Takes what came of all jobs, in any order.
    fn join(&self, py: Python<'_>, done: Vec<Vec<u8>>) -> PyResult<()> {
        py.detach(|| guarded(|| self.end_round(&done)))
    }

    /// Generations so far, of the round that is under way, and at most.
    #[getter]
    fn generations(&self) -> PyResult<(u32, u32, u32)> {
        let state = self.state();
        let round = state.round.as_ref().map_or(0, Round::generations);
        Ok((state.search()?.generations, round, self.until.generations))
    }

    /// What another process needs to breed islands of it, and what must be equal there.
    fn blank<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, (String, String, String))> {
        let cc = self.target.scenario.flows.iter().map(|flow| &flow.cc);
        if let Some(cc) = cc.chain(&self.target.scenario.score.reference).find(|cc| is_class(cc)) {
            return Err(refused(format!(
                "`{cc}` is a class of this process; other processes search controllers of \
                 framewire.controllers() alone, framewire.fuzz(...) searches it here"
            )));
        }
        let mut target = self.target.clone();
        // Others have another working directory.
        target.scenario.file = std::path::absolute(&target.scenario.file)?;
        let plan = self.state().search()?.plan;
        let bytes = checkpoint::encode(&ccfuzz::Search::new(plan), &target);
        Ok((PyBytes::new(py, &bytes), prints(py, &self.target)?))
    }

    /// Writes what a diverse search found, and returns the summary, in JSON.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            guarded(|| {
                let state = self.state();
                let search = state.search()?;
                let found = state.folder.best().map_err(unkept)?;
                let several = state.folder.keep_findings(search, &self.target).map_err(unkept)?;
                Ok(state.folder.summary(search, &found, &state.history, &several).to_string())
            })
        })
    }
}

impl Search {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on(&self, threads: usize, told: &(dyn Fn(f64) -> bool + Sync)) -> PyResult<()> {
        let mut state = self.state();
        let population = state.search()?.plan.population() as f64;
        let crew = Crew::of(threads);
        while !self.until.is_reached(state.search()?, &self.target) {
            let mut search = state.search.take().expect("it was looked at just now");
            let before = f64::from(search.generations);
            let told = |count| told((before + count as f64 / population) / f64::from(self.until.generations));
            // Interrupted: whoever did that says so.
            let Some(report) = search.step_or_stop(&self.target, &[], &crew, &told) else { return Ok(()) };
            state.folder.keep(&search, &self.target, std::slice::from_ref(&report)).map_err(unkept)?;
            state.history.push(report);
            state.search = Some(search);
        }
        // Few generations may have been enough.
        told(1.0);
        Ok(())
    }

    fn begin_round(&self) -> PyResult<Vec<Vec<u8>>> {
        let mut state = self.state();
        let search = state.search()?;
        if self.until.is_reached(search, &self.target) {
            return Ok(Vec::new());
        }
        let most = state.most.min(self.until.generations - search.generations);
        let round = Round::begin(search, most);
        let jobs = round.jobs(&self.target);
        state.round = Some(round);
        Ok(jobs)
    }

    fn end_round(&self, done: &[Vec<u8>]) -> PyResult<()> {
        let mut state = self.state();
        let round = state.round.take().ok_or_else(|| refused("no round is under way; ask for jobs first"))?;
        let (after, reports) = round.join(&self.target, done).map_err(refused)?;
        if let Some(enough) = self.until.within(state.search()?, &self.target, &reports)
            && enough < reports.len()
        {
            // Too far: islands are not kept generation by generation. The same again, up to there.
            state.most = enough as u32;
            return Ok(());
        }
        state.folder.keep(&after, &self.target, &reports).map_err(unkept)?;
        state.history.extend(reports);
        state.search = Some(after);
        Ok(())
    }
}

/// Where a search of `target` by `plan` stands in `folder`: at its begin where there is none, or if `fresh`.
fn begun(
    target: &ccfuzz::Target,
    plan: ccfuzz::Plan,
    folder: &Path,
    fresh: bool,
) -> PyResult<ccfuzz::Search> {
    std::fs::create_dir_all(folder).map_err(|error| unwritten(format!("{}: {error}", folder.display())))?;
    let path = Folder::checkpoint(folder);
    if fresh || !path.exists() {
        return Ok(ccfuzz::Search::new(plan));
    }
    let (search, of) = checkpoint::read(&path).map_err(unusable)?;
    let same = [
        ("scenario", of.scenario.text == target.scenario.text),
        ("mode", of.mode == target.mode),
        ("score", of.aim == target.aim),
        ("free", of.weights == target.weights),
        ("plan (population, islands, seed, random or diverse)", search.plan == plan),
    ];
    let others: Vec<&str> = same.into_iter().filter(|(_, same)| !same).map(|(what, _)| what).collect();
    if others.is_empty() {
        return Ok(search);
    }
    Err(refused(format!(
        "{} holds another search: its {} differs; fresh=True forgets it, out= begins elsewhere",
        folder.display(),
        others.join(", its ")
    )))
}

/// What decides a network's score: the scenario, files that it names, and the code.
fn prints(py: Python<'_>, target: &ccfuzz::Target) -> PyResult<(String, String, String)> {
    let scenario = &target.scenario;
    let plan = sweep::Plan::new(scenario, Vec::new(), vec![scenario.seed]).map_err(refused)?;
    let [scenarios, files] = plan.prints().clone();
    Ok((scenarios, files, program(py)?))
}

/// Islands of a search that another process leads.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Islands {
    target: ccfuzz::Target,
    plan: ccfuzz::Plan,
}

#[pymethods]
impl Islands {
    /// Of the bytes of [`Search::blank`].
    #[new]
    fn new(py: Python<'_>, blank: &[u8]) -> PyResult<Islands> {
        let (search, target) = py.detach(|| guarded(|| checkpoint::decode(blank).map_err(refused)))?;
        Ok(Islands { target, plan: search.plan })
    }

    #[getter]
    fn prints(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        prints(py, &self.target)
    }

    /// Does a job. Ctrl-C is heard between two networks.
    fn work<'py>(&self, py: Python<'py>, job: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let stop = AtomicBool::new(false);
        let goes_on = || !stop.load(Ordering::Relaxed);
        let done = || work(self.plan, &self.target, job, &goes_on);
        let done = py.detach(|| attended(&stop, |_| Ok(()), done))?.map_err(refused)?;
        Ok(done.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

/// Shrinks the finding in `folder` into `out`, and returns what is left as JSON. Ctrl-C is heard between
/// runs, and then nothing is written.
#[pyfunction]
pub fn shrink_finding(
    py: Python<'_>,
    folder: PathBuf,
    out: PathBuf,
    least: Option<f64>,
    budget: usize,
    threads: usize,
) -> PyResult<String> {
    let stop = AtomicBool::new(false);
    let work = || {
        let found = Finding::read(&folder).map_err(unusable)?;
        // A class's exceptions stay in the thread that ran it: this one.
        let threads = if is_class(&found.target.scenario.flows[0].cc) { 1 } else { threads };
        let crew = Crew::of(threads);
        let how = Shrinking { least, budget, ..Shrinking::by(&crew) };
        let mut raised = Ok(());
        let told = RefCell::new(&mut raised);
        let goes_on = |_| {
            if let Some(error) = trouble() {
                **told.borrow_mut() = Err(error);
                return false;
            }
            !stop.load(Ordering::Relaxed)
        };
        let shrunk = shrink(&found.target, &found.genome, how, &goes_on);
        raised?;
        if stop.load(Ordering::Relaxed) {
            return Ok(String::new());
        }
        let smaller = found.with_genome(shrunk.genome);
        smaller.write(&out).map_err(unkept)?;
        Ok(json!({ "folder": out, "score": smaller.record.score, "goal": smaller.goal() }).to_string())
    };
    py.detach(|| attended(&stop, |_| Ok(()), work))?
}
