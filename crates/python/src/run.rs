//! Runs of scenarios, attended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lab::collect::Keep;
use lab::run::{LabError, RunOptions, run_all};
use lab::scenario;
use lab::tables::Tables;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::arrow::of_series;
use crate::attended::attended;
use crate::controller;
use crate::errors::{refused, unwritten};
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::table::Table;

/// Runs scenarios, at most `threads` at a time, and returns their outcomes in the same order. `progress` is
/// told the share done, from 0 to 1.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    scenarios: Vec<Bound<'_, Scenario>>,
    threads: usize,
    tables: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Outcome>> {
    let scenarios: Vec<scenario::Scenario> =
        scenarios.iter().map(|scenario| scenario.get().0.clone()).collect();
    let outcomes = py.detach(|| watched(&scenarios, threads, tables, progress.as_ref()))?;
    Ok(outcomes.into_iter().map(Outcome::from).collect())
}

fn watched(
    scenarios: &[scenario::Scenario],
    threads: usize,
    tables: bool,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Vec<lab::run::Outcome>> {
    let keep = if tables { Keep::Rows } else { Keep::Bounded };
    let mut outcomes = told(progress, |options| {
        run_all(
            scenarios,
            &RunOptions { keep, threads, commit: env!("FRAMEWIRE_COMMIT").to_owned(), ..options },
        )
    })?;
    if !tables {
        outcomes.iter_mut().for_each(|outcome| outcome.tables = Tables::None);
    }
    Ok(outcomes)
}

/// Everything that happened in a run, a row an event: it runs once more.
#[pyfunction]
pub fn events(py: Python<'_>, outcome: &Outcome, progress: Option<Py<PyAny>>) -> PyResult<Table> {
    let of = outcome.run();
    let (columns, hash) =
        py.detach(|| told(progress.as_ref(), |options| lab::run::events(&of.scenario, &options)))?;
    if hash != of.summary.hash {
        return Err(refused(format!(
            "the run can't be repeated: its hash was {}, and now is {hash}; did a controller in Python, or a \
             file that the scenario names, change?",
            of.summary.hash
        )));
    }
    Ok(Table::new(of_series(&columns, &of.origin())))
}

/// Does `work` with options by which it is attended: progress is told, Ctrl-C and the exception of a
/// controller in Python stop it.
fn told<T: Send>(
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(RunOptions<'_>) -> Result<T, LabError> + Send,
) -> PyResult<T> {
    let (stop, share) = (AtomicBool::new(false), AtomicU64::new(0));
    let look = |py: Python<'_>| {
        let share = f64::from_bits(share.load(Ordering::Relaxed));
        progress.map_or(Ok(()), |progress| progress.call1(py, (share,)).map(drop))
    };
    let raised = Mutex::new(None);
    let told = |done: f64| {
        share.store(done.to_bits(), Ordering::Relaxed);
        if let Some(error) = controller::trouble() {
            raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            stop.store(true, Ordering::Relaxed);
        }
    };
    let options = RunOptions { progress: &told, stop: Some(&stop), ..RunOptions::default() };
    let result = attended(&stop, look, || work(options))?;
    if let Some(error) = raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    result.map_err(failed)
}

fn failed(error: LabError) -> PyErr {
    match error {
        LabError::Write(error) => unwritten(error),
        LabError::Stopped => PyKeyboardInterrupt::new_err(()),
        other => refused(other),
    }
}
