//! One run of a plan, as rows.

use lab::collect::Keep;
use lab::run::{Outcome, RunOptions};
use lab::summary::narrowest;
use serde::{Deserialize, Serialize};

use crate::axis::Cell;
use crate::error::SweepError;
use crate::figures::{Parts, figures};
use crate::plan::Plan;

/// What a run of a plan gave: plain data, for a line of JSON.
///
/// ```
/// use framewire_sweep::{Cell, Run};
///
/// let flows = vec![("sqp".to_owned(), vec![Cell::Real(0.1), Cell::None])];
/// let run = Run { run: 3, seed: 7, hash: "0f1e2d3c4b5a6978".into(), flows };
/// assert_eq!(Run::from_line(&run.to_line()), Some(run));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its number in the plan, from 0.
    pub run: usize,
    /// The seed of its random streams.
    pub seed: u64,
    /// Its event hash.
    pub hash: String,
    /// Its flows in the scenario's order: name and figures, in the order of the table's columns.
    pub flows: Vec<(String, Vec<Cell>)>,
}

impl Run {
    /// What `outcome` gave, as run `run` of a plan.
    pub fn of(run: usize, outcome: &Outcome) -> Run {
        let summary = lab::output::json(outcome);
        // Where there are several links, a flow's row tells of the one that holds it back.
        let link = |index: usize| match summary.get("links") {
            Some(links) => &links[narrowest(&outcome.scenario, index, &outcome.rates)],
            None => &summary["link"],
        };
        let row = |(index, flow): (usize, &serde_json::Value)| {
            let parts = Parts { flow, link: link(index), jain: &summary["jain"] };
            let name = flow["name"].as_str().unwrap_or_default().to_owned();
            (name, figures().iter().map(|figure| figure.cell(&parts)).collect())
        };
        let flows = summary["flows"].as_array().into_iter().flatten().enumerate().map(row).collect();
        Run { run, seed: outcome.scenario.seed, hash: outcome.summary.hash.clone(), flows }
    }

    /// As one line of JSON, without its end. Numbers survive to the last bit.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a run is plain data")
    }

    /// Reads such a line; nothing if it is none.
    pub fn from_line(line: &str) -> Option<Run> {
        serde_json::from_str(line).ok()
    }
}

/// Runs run `index` of `plan` and keeps its figures. The same plan, index and program give the same run,
/// whatever else runs. `commit` is that of the program.
///
/// # Errors
/// [`SweepError::Run`] naming the setting.
pub fn run_one(plan: &Plan, index: usize, commit: &str) -> Result<Run, SweepError> {
    let scenario = plan.scenario(index)?;
    // Figures as `framewire run` gives them, whose memory is bounded in the same way; tables are not written.
    let options = RunOptions { commit: commit.to_owned(), keep: Keep::Bounded, ..RunOptions::default() };
    let outcome = lab::run::run(&scenario, &options).map_err(|source| {
        let (setting, seed) = plan.run(index);
        SweepError::Run { setting: format!("{} seed={seed}", plan.name(setting)).trim().to_owned(), source }
    })?;
    Ok(Run::of(index, &outcome))
}
