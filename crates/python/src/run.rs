//! Runs of scenarios, attended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lab::collect::Keep;
use lab::run::{LabError, RunOptions, run_all};
use lab::scenario;
use lab::tables::Tables;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::attended::attended;
use crate::controller;
use crate::errors::{refused, unwritten};
use crate::outcome::Outcome;
use crate::scenario::Scenario;

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
    let keep = if tables { Keep::Rows } else { Keep::Bounded };
    let commit = env!("FRAMEWIRE_COMMIT").to_owned();
    let options =
        RunOptions { commit, keep, progress: &told, stop: Some(&stop), threads, ..RunOptions::default() };
    let result = attended(&stop, look, || run_all(scenarios, &options))?;
    if let Some(error) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut outcomes = result.map_err(failed)?;
    if !tables {
        outcomes.iter_mut().for_each(|outcome| outcome.tables = Tables::None);
    }
    Ok(outcomes)
}

fn failed(error: LabError) -> PyErr {
    match error {
        LabError::Write(error) => unwritten(error),
        LabError::Stopped => PyKeyboardInterrupt::new_err(()),
        other => refused(other),
    }
}
