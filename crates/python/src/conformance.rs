//! What every controller must stand, for controllers in Python as for those in Rust.

use experiments::conformance::faults_of;
use pyo3::prelude::*;

use crate::errors::{guarded, refused};
use crate::outcome::Outcome;
use crate::scenario::{Scenario, unusable};

/// The runs that show how `cc` stands what it must.
#[pyfunction]
pub fn conformance(cc: &str) -> PyResult<Vec<Scenario>> {
    let of = |fault: &experiments::conformance::Fault| fault.scenario(cc).map(Scenario).map_err(unusable);
    guarded(|| faults_of(cc).map(of).collect())
}

/// The verdicts on these runs, in the same order, as JSON.
#[pyfunction]
pub fn verdicts(cc: &str, outcomes: Vec<Bound<'_, Outcome>>) -> PyResult<String> {
    guarded(|| {
        let all = faults_of(cc).zip(&outcomes).map(|(fault, outcome)| fault.judge(outcome.get().run()));
        serde_json::to_string(&all.collect::<Vec<_>>()).map_err(refused)
    })
}
