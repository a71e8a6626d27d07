//! The grid: every controller and rate policy over networks far from the papers' points, held against
//! invariants.
//!
//! ```text
//!  axes, scenario files -> Cell (a scenario) --watch--> Watched
//!                            | Terms::of                  |
//!                            v                            v
//!                          reach: what is asked  ->  invariants: what is found -> Outcome -> table, page, JSON
//! ```
//!
//! `docs/grid.md` is its page: the cells, the invariants with their thresholds, and the rules that spare a
//! cell.

mod axes;
mod covering;
mod drive;
mod invariants;
mod page;
mod reach;
mod terms;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use axes::{AXES, Axis, Group};
pub use drive::{Drive, Memory, Spared, drive, hold};
pub use invariants::{Finding, Invariant, find, judge};
pub use page::render;
pub use reach::{RULES, Rule, excluded, is_in_reach};
pub use terms::Terms;

use lab::scenario::{Scenario, ScenarioError};

/// The rate policies' names.
pub fn policies() -> impl Iterator<Item = &'static str> {
    session::rate::REGISTRY.iter().map(|entry| entry.name)
}

/// A controller with a rate policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Scheme {
    /// The congestion controller, with options.
    pub cc: String,
    /// The rate policy, with options; none where the controller's name brings its own along.
    pub rate: Option<String>,
}

impl Scheme {
    /// Why nothing is asked of this scheme anywhere, if that is so.
    pub fn exempt(&self) -> Option<&'static str> {
        let name = lab::scenario::controller_name(&self.cc);
        (name == "fixed").then_some("`fixed` does not adapt: it is a source of a given rate, no controller")
    }

    /// Every controller of the registry with every rate policy, and what `cc = "default"` stands for where
    /// scenarios know it.
    pub fn all() -> Vec<Scheme> {
        let pairs = cc::registry::REGISTRY.iter().flat_map(|controller| {
            let scheme = |policy: &session::rate::Entry| Scheme {
                cc: controller.name.to_owned(),
                rate: Some(policy.name.to_owned()),
            };
            session::rate::REGISTRY.iter().map(scheme)
        });
        let preset = Scheme { cc: "default".to_owned(), rate: None };
        let known =
            Scenario::parse(&axes::text(&axes::base(), &preset.cc, None), "grid.toml".as_ref()).is_ok();
        let mut all: Vec<Scheme> = known.then_some(preset).into_iter().collect();
        all.extend(pairs.filter(|scheme| scheme.cc != "default"));
        all
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rate {
            Some(rate) => write!(f, "{} {rate}", self.cc),
            None => f.write_str(&self.cc),
        }
    }
}

/// One network.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name: where it differs from the base point, or its file's name.
    pub name: String,
    /// Why it is there.
    pub group: Group,
    /// Its level on each axis, in the order of [`AXES`]; none of a scenario file.
    pub levels: Option<Vec<&'static str>>,
    /// The seed of its runs; the scenario's own if there is none.
    pub seed: Option<u64>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Point(axes::Point),
    File(Box<Scenario>),
}

impl Cell {
    /// The cells of the axes, and the scenario files in `named` if that folder is there.
    ///
    /// # Errors
    /// [`ScenarioError`] if one of the files is not usable.
    pub fn all(named: &Path) -> Result<Vec<Cell>, ScenarioError> {
        let mut cells = Cell::of_axes();
        let mut files: Vec<PathBuf> = std::fs::read_dir(named)
            .map(|folder| folder.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        files.sort();
        for file in files {
            let scenario = Scenario::load(&file)?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let source = Source::File(Box::new(scenario));
            cells.push(Cell { name, group: Group::Named, levels: None, seed: None, source });
        }
        Ok(cells)
    }

    /// The cells of the axes alone.
    pub fn of_axes() -> Vec<Cell> {
        let cell = |(group, point): (Group, axes::Point)| Cell {
            name: axes::name(&point),
            group,
            levels: Some(AXES.iter().zip(point).map(|(axis, level)| axis.levels[level]).collect()),
            seed: None,
            source: Source::Point(point),
        };
        axes::points().into_iter().map(cell).collect()
    }

    /// The cell's scenario with a scheme as its first flow's.
    ///
    /// # Errors
    /// [`ScenarioError`] if the scenario can't take it.
    pub fn scenario(&self, scheme: &Scheme) -> Result<Scenario, ScenarioError> {
        let scenario = match &self.source {
            Source::Point(point) => {
                let text = axes::text(point, &scheme.cc, scheme.rate.as_deref());
                let text = match self.seed {
                    Some(seed) => format!("seed = {seed}\n{text}"),
                    None => text,
                };
                return Scenario::parse(&text, Path::new("grid.toml"));
            }
            Source::File(scenario) => scenario,
        };
        let refuse = |what: String| scenario.error("flow[1]", what);
        let mut table: toml::Table = scenario.text.parse().expect("a scenario was read from this text");
        let flows = table.get_mut("flow").and_then(toml::Value::as_array_mut);
        let flow = flows.and_then(|flows| flows.first_mut()).and_then(toml::Value::as_table_mut);
        let flow = flow.ok_or_else(|| refuse("a cell needs a [[flow]]".to_owned()))?;
        flow.insert("cc".to_owned(), scheme.cc.as_str().into());
        match &scheme.rate {
            Some(rate) => drop(flow.insert("rate".to_owned(), rate.as_str().into())),
            None => drop(flow.remove("rate")),
        }
        if let Some(seed) = self.seed {
            // TOML's integers have a sign: what does not fit is refused by the reader.
            table.insert("seed".to_owned(), toml::Value::Integer(seed as i64));
        }
        let text = toml::to_string(&table).map_err(|error| refuse(error.to_string()))?;
        Scenario::parse(&text, &scenario.file)
    }
}

/// What became of one cell under one scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything that is asked holds.
    Held,
    /// Something that is asked does not hold.
    Failed,
    /// Nothing is asked.
    Excluded,
}

/// A cell's run under a scheme.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Index of the scheme.
    pub scheme: usize,
    /// Index of the cell.
    pub cell: usize,
    /// What was found of what is asked.
    pub findings: Vec<Finding>,
    /// Why invariants are not asked: the rule's name, or the scheme's exemption.
    pub spared: Vec<(Invariant, &'static str)>,
}

impl Outcome {
    /// What it comes to.
    pub fn verdict(&self) -> Verdict {
        match self.findings.as_slice() {
            [] => Verdict::Excluded,
            findings if findings.iter().all(Finding::holds) => Verdict::Held,
            _ => Verdict::Failed,
        }
    }

    /// What does not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.holds())
    }

    /// The same with these invariants alone.
    pub fn only(self, asked: &[Invariant]) -> Outcome {
        let findings = self.findings.into_iter().filter(|finding| asked.contains(&finding.invariant));
        let spared = self.spared.into_iter().filter(|(invariant, _)| asked.contains(invariant));
        Outcome { findings: findings.collect(), spared: spared.collect(), ..self }
    }

    /// What was found of one invariant, if it is asked.
    pub fn of(&self, invariant: Invariant) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.invariant == invariant)
    }
}
