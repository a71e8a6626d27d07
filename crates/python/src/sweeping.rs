//! Sweeps: a plan, its runs as lines that travel between processes, and the tables made of them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lab::Fingerprint;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sweep::{Axis, Group, Options, Run, SweepError, groups, groups_json, page};

use crate::arrow;
use crate::attended::attended;
use crate::controller::is_class;
use crate::errors::{guarded, refused, unwritten};
use crate::scenario::Scenario;
use crate::table::Table;

const COMMIT: &str = env!("FRAMEWIRE_COMMIT");

/// What names exactly this code, as the command does it: the commit; where the sources differ from it, the
/// module's own bytes as well.
pub fn program(py: Python<'_>) -> PyResult<String> {
    static KNOWN: PyOnceLock<String> = PyOnceLock::new();
    let found = KNOWN.get_or_try_init(py, || {
        if !COMMIT.ends_with('+') && COMMIT != "unknown" {
            return Ok(COMMIT.to_owned());
        }
        let file: PathBuf = py.import("framewire._framewire")?.getattr("__file__")?.extract()?;
        let mut fingerprint = Fingerprint::default();
        fingerprint.add_bytes(&std::fs::read(file)?);
        PyResult::Ok(format!("{COMMIT}{fingerprint}"))
    })?;
    Ok(found.clone())
}

fn raised(error: SweepError) -> PyErr {
    match error.is_input() {
        true => refused(error),
        false => unwritten(error),
    }
}

/// What is to be run: every combination of the axes' values, each with every seed.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Plan(sweep::Plan);

#[pymethods]
impl Plan {
    /// Of a scenario, fields with their values as text, and seeds. Every scenario of it is read and checked.
    #[new]
    fn new(base: &Scenario, axes: Vec<(String, Vec<String>)>, seeds: Vec<u64>) -> PyResult<Plan> {
        let varied = axes.iter().filter(|(field, _)| field.ends_with(".cc")).flat_map(|(_, values)| values);
        let own = base.0.flows.iter().map(|flow| &flow.cc).chain(varied).find(|cc| is_class(cc));
        if let Some(cc) = own {
            // Its exceptions would have to end a run that a journal is to hold.
            return Err(refused(format!(
                "`{cc}` is a class of this process; a sweep, which others may continue, takes controllers of \
                 framewire.controllers() alone"
            )));
        }
        let axes = axes.into_iter().map(|(field, values)| Axis::new(field, values)).collect();
        guarded(|| sweep::Plan::new(&base.0, axes, seeds).map(Plan).map_err(raised))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }

    /// What decides the runs: of scenarios, of files that they name, and of the code. Where they are equal,
    /// runs are.
    #[getter]
    fn prints(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        let [scenarios, files] = self.0.prints().clone();
        Ok((scenarios, files, program(py)?))
    }

    /// Runs some of the plan, one after the other, and returns each as a line. Ctrl-C is heard between two
    /// runs.
    fn lines(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Vec<String>> {
        if let Some(index) = indices.iter().find(|index| **index >= self.0.len()) {
            return Err(refused(format!("run {index} of {}; they are counted from 0", self.0.len())));
        }
        let stop = AtomicBool::new(false);
        let work = || {
            let going = indices.iter().take_while(|_| !stop.load(Ordering::Relaxed));
            going
                .map(|&index| sweep::run_one(&self.0, index, COMMIT).map(|run| run.to_line()))
                .collect::<Result<Vec<_>, SweepError>>()
        };
        py.detach(|| attended(&stop, |_| Ok(()), work))?.map_err(raised)
    }

    /// Runs what is missing in `folder`, `jobs` at a time, and writes tables and report there. `progress` is
    /// told how many runs are done.
    fn drive(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        jobs: usize,
        fresh: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Swept> {
        let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
        let look = |py: Python<'_>| {
            let done = done.load(Ordering::Relaxed);
            progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (done,)).map(drop))
        };
        let options = Options {
            jobs,
            commit: COMMIT.to_owned(),
            program: program(py)?,
            fresh,
            progress: &|count, _| done.store(count, Ordering::Relaxed),
            stop: &|| stop.load(Ordering::Relaxed),
        };
        let work = || {
            let table = sweep::run(&self.0, &folder, &options)?;
            Swept::written(table, &folder)
        };
        py.detach(|| attended(&stop, look, work))?.map_err(raised)
    }
}

/// What is done of a plan, on disk.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Journal {
    plan: Py<Plan>,
    folder: PathBuf,
    done: Mutex<(sweep::Journal, Vec<Run>)>,
}

#[pymethods]
impl Journal {
    /// That of `plan` in `folder`, which is made; begun where there is none, or if `fresh`.
    #[new]
    fn new(py: Python<'_>, plan: Py<Plan>, folder: PathBuf, fresh: bool) -> PyResult<Journal> {
        std::fs::create_dir_all(&folder)
            .map_err(|error| unwritten(format!("{}: {error}", folder.display())))?;
        let of = &plan.borrow(py).0;
        let program = program(py)?;
        let done = guarded(|| sweep::Journal::open(&folder, of, &program, fresh).map_err(raised))?;
        Ok(Journal { plan: plan.clone_ref(py), folder, done: Mutex::new(done) })
    }

    /// Numbers of the runs that are not done.
    fn missing(&self, py: Python<'_>) -> Vec<usize> {
        let plan = self.plan.borrow(py);
        let mut missing = vec![true; plan.0.len()];
        self.done.lock().expect("nothing panics here").1.iter().for_each(|run| missing[run.run] = false);
        (0..missing.len()).filter(|&index| missing[index]).collect()
    }

    /// Adds runs that are done, as [`Plan::lines`] gives them.
    fn append(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<()> {
        let runs = lines.iter().map(|line| {
            let run = Run::from_line(line).filter(|run| run.run < self.plan.borrow(py).0.len());
            run.ok_or_else(|| refused("a line that is no run of this plan"))
        });
        let runs: Vec<Run> = runs.collect::<PyResult<_>>()?;
        let (journal, done) = &mut *self.done.lock().expect("nothing panics here");
        for run in runs {
            journal.append(&run).map_err(raised)?;
            done.push(run);
        }
        Ok(())
    }

    /// Writes tables and report of all runs.
    fn finish(&self, py: Python<'_>) -> PyResult<Swept> {
        let runs = self.done.lock().expect("nothing panics here").1.clone();
        let plan = self.plan.borrow(py);
        guarded(|| {
            let table = sweep::Table::of(&plan.0, COMMIT, runs).map_err(raised)?;
            Swept::written(table, &self.folder).map_err(raised)
        })
    }
}

/// A sweep that is done.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Swept {
    table: sweep::Table,
    groups: Vec<Group>,
}

impl Swept {
    fn written(table: sweep::Table, folder: &Path) -> Result<Swept, SweepError> {
        let groups = groups(&table);
        table.write(folder)?;
        sweep::write_groups(&table, &groups, folder)?;
        page::write(&table, &groups, folder)?;
        Ok(Swept { table, groups })
    }
}

#[pymethods]
impl Swept {
    /// A row a flow and run.
    fn runs(&self) -> Table {
        Table::new(arrow::of_series(&self.table.columns(), &self.table.origin()))
    }

    /// A row a flow and setting, over the seeds.
    fn groups(&self) -> Table {
        Table::new(arrow::of_series(&sweep::group_columns(&self.table, &self.groups), &self.table.origin()))
    }

    fn json(&self) -> String {
        groups_json(&self.table, &self.groups).to_string()
    }

    fn report(&self) -> String {
        page::render(&self.table, &self.groups)
    }
}
