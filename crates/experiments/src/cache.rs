//! Runs that were done already.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::value::Value;
use lab::files::{WriteError, write_whole};
use lab::scenario::Scenario;
use units::Fingerprint;

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The hash of the run's events, as 16 hexadecimal digits, if anybody has asked for it.
    pub hash: Option<String>,
    /// Processor seconds it took.
    pub seconds: f64,
    /// The run's metrics by name.
    pub metrics: BTreeMap<String, Value>,
}

/// A folder of finished runs, found again by scenario, metrics and program.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    program: String,
}

impl Cache {
    /// The cache in `folder` for runs of `program`: its commit, or whatever else names exactly this code.
    pub fn new(folder: &Path, program: &str) -> Cache {
        Cache { folder: folder.to_owned(), program: program.to_owned() }
    }

    fn place(&self, scenario: &Scenario, metrics: &BTreeMap<String, String>) -> PathBuf {
        let mut key = Fingerprint::default();
        key.add(&self.program);
        key.add(&scenario.text);
        key.add(&scenario.file.to_string_lossy());
        for file in scenario.files() {
            // One that can't be read is the run's matter.
            key.add_bytes(&std::fs::read(file).unwrap_or_default());
        }
        for (name, formula) in metrics {
            key.add(name);
            key.add(formula);
        }
        self.folder.join(format!("{key}.json"))
    }

    pub(crate) fn get(&self, scenario: &Scenario, metrics: &BTreeMap<String, String>) -> Option<Kept> {
        serde_json::from_slice(&std::fs::read(self.place(scenario, metrics)).ok()?).ok()
    }

    pub(crate) fn put(
        &self,
        scenario: &Scenario,
        metrics: &BTreeMap<String, String>,
        kept: &Kept,
    ) -> Result<(), WriteError> {
        let text = serde_json::to_vec(kept).expect("numbers and names");
        let problem = |source| WriteError { path: self.folder.clone(), source };
        std::fs::create_dir_all(&self.folder).map_err(problem)?;
        write_whole(&self.place(scenario, metrics), |file| file.write_all(&text))
    }
}
