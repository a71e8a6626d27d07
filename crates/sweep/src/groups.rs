//! The runs of a setting together: each figure's mean over seeds with its confidence interval.

use std::path::Path;

use lab::tables::{Kind, Series, Values, write_series};
use serde_json::{Map, Value, json};

use crate::axis::Cell;
use crate::error::SweepError;
use crate::estimate::Estimate;
use crate::figures::{Figure, figures};
use crate::run::Run;
use crate::table::{Table, values};

/// A flow under a setting, over all seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The setting's number in the plan, from 0.
    pub setting: usize,
    /// The flow's place in the scenario, from 1.
    pub flow_number: usize,
    /// The flow's name.
    pub flow: String,
    /// The flow's controller, with options.
    pub cc: String,
    /// The flow's figures of each run, in the order of the seeds; none of a run without this flow.
    runs: Vec<Vec<Cell>>,
}

impl Group {
    /// A figure's values, in the order of the seeds, of the runs that know it.
    ///
    /// # Panics
    /// If there is no such figure.
    pub fn values(&self, name: &str) -> Vec<f64> {
        self.known(place(name))
    }

    /// A figure's mean over the seeds.
    ///
    /// # Panics
    /// If there is no such figure.
    pub fn figure(&self, name: &str) -> Estimate {
        Estimate::of(&self.values(name))
    }

    /// Two figures of each run that knows both, in the order of the seeds.
    ///
    /// # Panics
    /// If there is no such figure.
    pub fn pairs(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        let (x, y) = (place(x), place(y));
        self.runs.iter().filter_map(|cells| Some((cells[x].number()?, cells[y].number()?))).collect()
    }

    /// How many runs there are, one a seed.
    pub fn seeds(&self) -> usize {
        self.runs.len()
    }

    /// Whether any figure, of numbers and texts, differs from seed to seed; none of a single run, which says
    /// nothing of other seeds.
    pub fn seeds_matter(&self) -> Option<bool> {
        let (first, others) = self.runs.split_first()?;
        (!others.is_empty()).then(|| others.iter().any(|run| run != first))
    }

    fn known(&self, figure: usize) -> Vec<f64> {
        self.runs.iter().filter_map(|cells| cells[figure].number()).collect()
    }
}

fn place(name: &str) -> usize {
    figures().iter().position(|figure| figure.name == name).expect("a figure's name")
}

/// The numbers among the figures, with their places.
fn numbers() -> impl Iterator<Item = (usize, &'static Figure)> {
    figures().iter().enumerate().filter(|(_, figure)| figure.is_number())
}

/// A group for each setting and flow, in the order of the plan.
pub fn groups(table: &Table) -> Vec<Group> {
    let seeds = table.plan().seeds().len();
    table.runs().chunks(seeds).enumerate().flat_map(|(setting, runs)| of_setting(setting, runs)).collect()
}

fn of_setting(setting: usize, runs: &[Run]) -> Vec<Group> {
    let flows = runs.iter().map(|run| run.flows.len()).max().unwrap_or(0);
    let cc = place("cc");
    (0..flows)
        .map(|flow| {
            let of: Vec<_> = runs.iter().filter_map(|run| run.flows.get(flow)).collect();
            let (name, first) = of[0];
            Group {
                setting,
                flow_number: flow + 1,
                flow: name.clone(),
                cc: first[cc].text().unwrap_or_default().to_owned(),
                runs: of.iter().map(|(_, cells)| cells.clone()).collect(),
            }
        })
        .collect()
}

/// The file of the groups in a sweep's folder.
pub const NAME: &str = "groups.parquet";

/// Writes the [`group_columns`] to `groups.parquet` in `folder`.
///
/// # Errors
/// [`SweepError::Write`] naming the file.
pub fn write_groups(table: &Table, groups: &[Group], folder: &Path) -> Result<(), SweepError> {
    Ok(write_series(&folder.join(NAME), &group_columns(table, groups), &table.origin())?)
}

/// The columns of `groups.parquet`, a row a group: settings, flow, and of each figure the mean, half the
/// width of its 95 % confidence interval (Student's t; null of fewer than two runs), and how many runs know
/// it.
pub fn group_columns(table: &Table, groups: &[Group]) -> Vec<Series> {
    let series = |name: String, about: &str, values| Series { name, about: about.to_owned(), values };
    let ints =
        |of: fn(&Group) -> usize| Values::Int(groups.iter().map(|group| Some(of(group) as i64)).collect());
    let texts = |of: fn(&Group) -> &String| {
        Values::Text(groups.iter().map(|group| Some(of(group).clone())).collect())
    };
    let mut columns = Vec::new();
    for (at, axis) in table.plan().axes().iter().enumerate() {
        let cells = groups.iter().map(|group| table.plan().cells(group.setting)[at].clone());
        columns.push(series(axis.field.clone(), "setting, as --set takes it", values(axis.kind(), cells)));
    }
    columns.push(series("flow_number".into(), "place of the flow, from 1", ints(|group| group.flow_number)));
    columns.push(series("flow".into(), "name of the flow", texts(|group| &group.flow)));
    columns.push(series("cc".into(), "controller of the flow", texts(|group| &group.cc)));
    columns.push(series("seeds".into(), "runs, one a seed", ints(Group::seeds)));
    for (at, figure) in numbers() {
        let of: Vec<Estimate> = groups.iter().map(|group| Estimate::of(&group.known(at))).collect();
        let about = |what: &str| format!("{what}, over seeds, of {}", figure.about);
        let reals = |of: Vec<Option<f64>>| {
            values(Kind::Real, of.into_iter().map(|v| v.map_or(Cell::None, Cell::Real)))
        };
        let means = reals(of.iter().map(|estimate| estimate.mean).collect());
        let widths = reals(of.iter().map(|estimate| estimate.ci95).collect());
        let counts = Values::Int(of.iter().map(|estimate| Some(estimate.n as i64)).collect());
        let half = "half the width of the 95 % confidence interval of the mean (Student's t)";
        columns.push(series(format!("{}_mean", figure.name), &about("mean"), means));
        columns.push(series(format!("{}_ci95", figure.name), &about(half), widths));
        columns.push(series(format!("{}_n", figure.name), &about("runs that know it"), counts));
    }
    columns
}

/// The groups for programs, as `docs/sweeps.md` documents them.
pub fn groups_json(table: &Table, groups: &[Group]) -> Value {
    let plan = table.plan();
    let group = |group: &Group| {
        let settings = plan.axes().iter().zip(plan.cells(group.setting));
        let settings: Map<String, Value> =
            settings.map(|(axis, cell)| (axis.field.clone(), json!(cell))).collect();
        let figures =
            numbers().map(|(at, figure)| (figure.name.clone(), json!(Estimate::of(&group.known(at)))));
        json!({
            "settings": settings, "flow_number": group.flow_number, "flow": group.flow, "cc": group.cc,
            "seeds": group.seeds(), "seeds_matter": group.seeds_matter(), "figures": figures.collect::<Map<String, Value>>(),
        })
    };
    json!({
        "scenario": plan.base().name, "commit": table.commit(), "settings": plan.base().settings,
        "axes": plan.axes(), "seeds": plan.seeds(), "runs": plan.len(), "warnings": plan.warnings(),
        "groups": groups.iter().map(group).collect::<Vec<_>>(),
    })
}
