//! The table of a sweep: a row per flow and run.

use std::path::Path;

use lab::tables::{Kind, Origin, Series, Values, write_series};
use serde_json::json;

use crate::axis::Cell;
use crate::error::SweepError;
use crate::figures::{COLUMNS_OF_RUN, figures};
use crate::plan::Plan;
use crate::run::Run;

/// All runs of a plan, in the plan's order.
#[derive(Clone, Debug)]
pub struct Table {
    plan: Plan,
    commit: String,
    runs: Vec<Run>,
}

impl PartialEq for Table {
    /// Whether the rows are the same.
    fn eq(&self, other: &Table) -> bool {
        self.runs == other.runs && self.columns() == other.columns()
    }
}

impl Table {
    /// The file of the rows in a sweep's folder.
    pub const NAME: &str = "runs.parquet";

    /// The table of `plan` out of its runs, which may come from anywhere in any order; the same run may be
    /// there more than once. `commit` is that of the program that made them.
    ///
    /// # Errors
    /// [`SweepError::Runs`] if a run is missing, is not of this plan, or is there twice and differs.
    pub fn of(plan: &Plan, commit: &str, runs: impl IntoIterator<Item = Run>) -> Result<Table, SweepError> {
        let mut places: Vec<Option<Run>> = vec![None; plan.len()];
        for run in runs {
            let index = run.run;
            let refuse = |what: &str| Err(SweepError::Runs(format!("run {index} {what}")));
            let Some(place) = places.get_mut(index) else { return refuse("is not of this plan") };
            let width = figures().len();
            if run.seed != plan.run(index).1 || run.flows.iter().any(|(_, cells)| cells.len() != width) {
                return refuse("is not of this plan: its seed or its figures are others");
            }
            if place.as_ref().is_some_and(|known| *known != run) {
                return refuse("is there twice, and the two differ: was the same code run everywhere?");
            }
            *place = Some(run);
        }
        let missing = places.iter().filter(|place| place.is_none()).count();
        if missing > 0 {
            let first = places.iter().position(Option::is_none).unwrap_or_default();
            return Err(SweepError::Runs(format!("{missing} runs are missing, the first is run {first}")));
        }
        Ok(Table {
            plan: plan.clone(),
            commit: commit.to_owned(),
            runs: places.into_iter().flatten().collect(),
        })
    }

    /// What was run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The commit of the program.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// The runs, in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The columns: `run`, `seed`, `hash`, one for each axis under its path, `flow_number` (from 1), `flow`,
    /// and the figures.
    pub fn columns(&self) -> Vec<Series> {
        let rows = || self.runs.iter().flat_map(|run| (0..run.flows.len()).map(move |flow| (run, flow)));
        let [run, seed, hash, number, flow] = COLUMNS_OF_RUN;
        let ints = |of: fn(&(&Run, usize)) -> i64| Values::Int(rows().map(|row| Some(of(&row))).collect());
        let texts = |of: fn((&Run, usize)) -> &str| {
            Values::Text(rows().map(|row| Some(of(row).to_owned())).collect())
        };
        let series =
            |name: &str, about: &str, values| Series { name: name.into(), about: about.into(), values };
        let mut columns = vec![
            series(run, "number of the run in the plan, from 0", ints(|row| row.0.run as i64)),
            series(seed, "seed of all random streams", ints(|row| row.0.seed as i64)),
            series(hash, "event hash of the run", texts(|row| &row.0.hash)),
        ];
        let settings: Vec<Vec<Cell>> =
            (0..self.plan.settings_count()).map(|at| self.plan.cells(at)).collect();
        for (at, axis) in self.plan.axes().iter().enumerate() {
            let cell = |row: (&Run, usize)| settings[self.plan.run(row.0.run).0][at].clone();
            let about = "setting, as --set takes it; null where the field is taken away";
            columns.push(series(&axis.field, about, values(axis.kind(), rows().map(cell))));
        }
        columns.push(series(
            number,
            "place of the flow in the scenario, from 1",
            ints(|row| row.1 as i64 + 1),
        ));
        columns.push(series(flow, "name of the flow", texts(|(run, flow)| &run.flows[flow].0)));
        for (at, figure) in figures().iter().enumerate() {
            let cells = rows().map(|(run, flow)| run.flows[flow].1[at].clone());
            columns.push(series(&figure.name, &figure.about, values(figure.kind, cells)));
        }
        columns
    }

    /// Writes the table to `runs.parquet` in `folder`. The same rows make the same bytes.
    ///
    /// # Errors
    /// [`SweepError::Write`] naming the file.
    pub fn write(&self, folder: &Path) -> Result<(), SweepError> {
        Ok(write_series(&folder.join(Table::NAME), &self.columns(), &self.origin())?)
    }

    /// Where the rows come from, for a file's metadata.
    pub fn origin(&self) -> Origin {
        let base = self.plan.base();
        let pairs = [
            ("scenario", base.text.clone()),
            ("scenario_name", base.name.clone()),
            ("settings", json!(base.settings).to_string()),
            ("axes", json!(self.plan.axes()).to_string()),
            ("seeds", json!(self.plan.seeds()).to_string()),
            ("commit", self.commit.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).to_vec()
    }
}

/// Cells of one kind as a column.
pub(crate) fn values(kind: Kind, cells: impl Iterator<Item = Cell>) -> Values {
    match kind {
        Kind::Int => Values::Int(
            cells.map(|cell| if let Cell::Int(value) = cell { Some(value) } else { None }).collect(),
        ),
        Kind::Real => Values::Real(cells.map(|cell| cell.number()).collect()),
        Kind::Text | Kind::Flag => Values::Text(
            cells.map(|cell| if let Cell::Text(text) = cell { Some(text) } else { None }).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use crate::run::run_one;
    use lab::scenario::Scenario;

    fn plan() -> Plan {
        let text = "duration = \"1s\"\n[link]\nrate = \"2mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n\
                    [[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";
        let base = Scenario::parse(text, Path::new("base.toml")).unwrap();
        Plan::new(&base, vec![Axis::new("link.loss", ["", "0.01"])], vec![1, 2]).unwrap()
    }

    #[test]
    fn runs_come_in_any_order_from_anywhere() {
        let plan = plan();
        let mut runs: Vec<Run> = (0..4).map(|index| run_one(&plan, index, "c").unwrap()).collect();
        let table = Table::of(&plan, "c", runs.clone()).unwrap();
        let travelled =
            runs.iter().rev().chain(&runs[1..2]).map(|run| Run::from_line(&run.to_line()).unwrap());
        assert_eq!(Table::of(&plan, "c", travelled).unwrap(), table);
        let refused = |runs: Vec<Run>| Table::of(&plan, "c", runs).unwrap_err().to_string();
        assert_eq!(refused(runs[..2].to_vec()), "2 runs are missing, the first is run 2");
        let mut other = runs[0].clone();
        other.hash = "0".to_owned();
        assert!(refused([&runs[..], &[other]].concat()).starts_with("run 0 is there twice"));
        runs[3].run = 4;
        assert_eq!(refused(runs), "run 4 is not of this plan");
    }

    #[test]
    fn a_row_is_a_flow_with_its_settings_and_figures() {
        let plan = plan();
        let runs = (0..4).map(|index| run_one(&plan, index, "c").unwrap());
        let table = Table::of(&plan, "c", runs).unwrap();
        let columns = table.columns();
        let column = |name: &str| &columns.iter().find(|series| series.name == name).unwrap().values;
        assert_eq!(*column("seed"), Values::Int([1, 1, 2, 2, 1, 1, 2, 2].map(Some).to_vec()));
        let (none, some) = (None, Some(0.01));
        assert_eq!(*column("link.loss"), Values::Real(vec![none, none, none, none, some, some, some, some]));
        let Values::Text(flows) = column("flow") else { panic!("names") };
        assert_eq!(flows[..2], [Some("sqp".to_owned()), Some("cubic".to_owned())]);
        let Values::Real(delays) = column("frame_delay_ms_p95") else { panic!("delays") };
        assert!(delays[0].is_some() && delays[1].is_none(), "TCP has no frames: {delays:?}");
        let Values::Int(sent) = column("packets_sent") else { panic!("counts") };
        assert!(sent.iter().all(|sent| sent.is_some_and(|sent| sent > 50)), "{sent:?}");
    }
}
