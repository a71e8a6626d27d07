//! What runs gave.

use std::path::PathBuf;
use std::sync::Arc;

use lab::run::{Moment, Still};
use lab::tables::{self, Origin, Series};
use media::RawFrame;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{Frame, of_rows, of_series};
use crate::errors::{guarded, refused, unwritten};
use crate::table::Table;

/// A finished run.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Outcome(Arc<lab::run::Outcome>);

impl From<lab::run::Outcome> for Outcome {
    fn from(outcome: lab::run::Outcome) -> Outcome {
        Outcome(Arc::new(outcome))
    }
}

impl Outcome {
    /// The finished run, as the lab has it.
    pub fn run(&self) -> &lab::run::Outcome {
        &self.0
    }
}

/// Height, width and RGB, three bytes a pixel.
type Picture<'py> = (usize, usize, Bound<'py, PyBytes>);
/// Frame, time of display and begin of the second (both in seconds), the second's mean PSNR, the frame's PSNR
/// (both in dB), the picture captured and the picture shown.
type Kept<'py> = (u32, f64, f64, f64, f64, Picture<'py>, Picture<'py>);

#[pymethods]
impl Outcome {
    /// The run's summary as JSON.
    fn summary(&self) -> String {
        lab::output::json(&self.0).to_string()
    }

    #[getter]
    fn hash(&self) -> &str {
        &self.0.summary.hash
    }

    #[getter]
    fn flows(&self) -> Vec<String> {
        self.0.names()
    }

    /// One of the tables `flows`, `packets`, `frames`, `link` and `decisions`.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        py.detach(|| guarded(|| table(&self.0, name))).map(Table::new)
    }

    /// The report, a page of HTML that needs nothing else.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let run = self.0.clone();
        py.detach(|| guarded(|| Ok(report::output::report(&run.scenario.name, std::slice::from_ref(&run)))))
    }

    /// Writes what `framewire run --out` writes.
    fn write(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| guarded(|| report::output::write_run(&folder, &self.0).map_err(unwritten)))
    }

    /// Pictures of a flow: of its worst second and of a median one; none where no codec made any.
    fn stills<'py>(&self, py: Python<'py>, flow: usize) -> Option<[Kept<'py>; 2]> {
        let stills = self.0.stills.get(flow)?.as_ref()?;
        Some([&stills.worst, &stills.median].map(|moment| kept(py, moment)))
    }
}

fn kept<'py>(py: Python<'py>, moment: &Moment) -> Kept<'py> {
    let Still { frame, shown_at, psnr, source, shown } = &moment.still;
    let (shown_at, begin) = (shown_at.as_secs_f64(), moment.begin.as_secs_f64());
    (*frame, shown_at, begin, moment.mean_psnr, *psnr, picture(py, source), picture(py, shown))
}

fn picture<'py>(py: Python<'py>, of: &RawFrame) -> Picture<'py> {
    (of.height, of.width, PyBytes::new(py, &of.to_rgb()))
}

fn table(run: &lab::run::Outcome, name: &str) -> PyResult<Frame> {
    let (record, names, origin) = (&run.record, run.names(), run.origin());
    Ok(match name {
        "flows" => flows(run, &origin)?,
        "packets" => of_rows(&tables::packet_rows(record, &names), &tables::packet_columns(), &origin),
        "frames" => of_rows(&tables::frame_rows(record, &names), &tables::frame_columns(), &origin),
        "link" => {
            let columns = tables::link_columns(!record.further.is_empty());
            of_rows(&tables::link_rows(record, &names), &columns, &origin)
        }
        "decisions" => of_rows(&tables::decision_rows(record, &names), &tables::decision_columns(), &origin),
        other => return Err(PyKeyError::new_err(other.to_owned())),
    })
}

/// A row per flow, as a sweep of one run has it.
fn flows(run: &lab::run::Outcome, origin: &Origin) -> PyResult<Frame> {
    let plan = sweep::Plan::new(&run.scenario, Vec::new(), vec![run.scenario.seed]).map_err(refused)?;
    let table = sweep::Table::of(&plan, &run.summary.commit, [sweep::Run::of(0, run)]).map_err(refused)?;
    let columns: Vec<Series> = table.columns();
    Ok(of_series(&columns, origin))
}

/// The report of several runs of one scenario that differ in the first flow's controller.
#[pyfunction]
pub fn report_of(py: Python<'_>, title: &str, outcomes: Vec<Bound<'_, Outcome>>) -> PyResult<String> {
    let runs = shared(&outcomes);
    py.detach(|| guarded(|| Ok(report::output::report(title, &runs))))
}

/// Writes what `framewire compare --out` writes.
#[pyfunction]
pub fn write_comparison(
    py: Python<'_>,
    folder: PathBuf,
    title: &str,
    outcomes: Vec<Bound<'_, Outcome>>,
) -> PyResult<()> {
    let runs = shared(&outcomes);
    py.detach(|| guarded(|| report::output::write_comparison(&folder, title, &runs).map_err(unwritten)))
}

fn shared(outcomes: &[Bound<'_, Outcome>]) -> Vec<Arc<lab::run::Outcome>> {
    outcomes.iter().map(|outcome| outcome.get().0.clone()).collect()
}
