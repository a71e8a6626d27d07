//! Scenarios.

use std::fmt::Display;
use std::path::PathBuf;

use lab::scenario::patch::changed;
use lab::scenario::{self, ScenarioError};
use pyo3::prelude::*;

use crate::controller;
use crate::errors::{guarded, refused};

/// A scenario as its text states it, defaults filled in.
#[pyclass(frozen, module = "framewire._framewire")]
pub struct Scenario(pub scenario::Scenario);

#[pymethods]
impl Scenario {
    /// Reads a file.
    #[staticmethod]
    fn load(file: PathBuf) -> PyResult<Scenario> {
        guarded(|| scenario::Scenario::load(&file).map(Scenario).map_err(unusable))
    }

    /// Reads a text; `file` names it in errors and is where relative paths start.
    #[staticmethod]
    fn parse(text: &str, file: PathBuf) -> PyResult<Scenario> {
        guarded(|| scenario::Scenario::parse(text, &file).map(Scenario).map_err(unusable))
    }

    /// A scenario of fields, given as JSON.
    #[staticmethod]
    fn of_fields(fields: &str, file: PathBuf) -> PyResult<Scenario> {
        guarded(|| {
            let table: toml::Table = serde_json::from_str(fields).map_err(refused)?;
            let text = toml::to_string(&table).map_err(refused)?;
            scenario::Scenario::parse(&text, &file).map(Scenario).map_err(unusable_fields)
        })
    }

    /// The scenario with fields set: pairs of a path and a value in JSON.
    fn changed(&self, changes: Vec<(String, String)>) -> PyResult<Scenario> {
        guarded(|| {
            let value = |(path, value): (String, String)| Ok((path, serde_json::from_str(&value)?));
            let changes: Result<Vec<_>, serde_json::Error> = changes.into_iter().map(value).collect();
            changed(&self.0, &changes.map_err(refused)?).map(Scenario).map_err(unusable)
        })
    }

    /// The scenario with another controller for its first flow.
    fn with_cc(&self, cc: &str) -> PyResult<Scenario> {
        guarded(|| self.0.with_cc(cc).map(Scenario).map_err(unusable))
    }

    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    #[getter]
    fn file(&self) -> PathBuf {
        self.0.file.clone()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    #[getter]
    fn duration(&self) -> f64 {
        self.0.duration.as_secs_f64()
    }

    #[getter]
    fn flows(&self) -> Vec<(String, String)> {
        self.0.flows.iter().map(|flow| (flow.name.clone(), flow.cc.clone())).collect()
    }

    #[getter]
    fn settings(&self) -> String {
        serde_json::to_string(&self.0.settings).expect("settings are plain data")
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        lab::summary::warnings(&self.0)
    }
}

/// What is wrong with a scenario; or what a controller in Python raised when it was made to see whether it
/// can be.
pub fn unusable(error: impl Display) -> PyErr {
    controller::trouble().unwrap_or_else(|| refused(error))
}

/// Without its line, which is one of a text that nobody has seen.
fn unusable_fields(error: ScenarioError) -> PyErr {
    match error.field.as_str() {
        "" => unusable(error.what),
        field => unusable(format!("{field}: {}", error.what)),
    }
}
