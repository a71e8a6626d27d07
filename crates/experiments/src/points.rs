//! The points of an experiment: every combination of its axes.

use std::path::Path;

use toml::{Table, Value};

use crate::data;
use crate::file::{Axis, Experiment, ExperimentError};
use lab::scenario::{Scenario, patch};

/// One combination of the axes' points: a run.
#[derive(Clone, Debug)]
pub struct Point {
    /// A label for each axis, in the axes' order.
    pub labels: Vec<String>,
    scenario: Table,
}

impl Point {
    fn seeded(&self, seed: u64) -> Table {
        let mut table = self.scenario.clone();
        table.insert("seed".into(), Value::Integer(seed as i64));
        table
    }
}

/// An axis' points as fields to set.
type Changes = Vec<(String, Vec<(String, Value)>)>;

impl Axis {
    fn changes(&self) -> Changes {
        let each = |value: &Value| {
            let set = self.fields.iter().map(|field| (field.clone(), value.clone())).collect();
            (label(value), set)
        };
        let real = self.points.iter().flat_map(|point| point.set.values());
        let lacking = real.filter_map(Value::as_str).any(data::is_missing);
        let own = if lacking && !self.otherwise.is_empty() { &self.otherwise } else { &self.points };
        let own = own.iter().map(|point| {
            let set = point.set.iter().map(|(field, value)| (field.clone(), value.clone())).collect();
            (point.label.clone(), set)
        });
        self.values.iter().map(each).chain(own).collect()
    }

    /// The labels of its points.
    pub fn labels(&self) -> Vec<String> {
        self.changes().into_iter().map(|(label, _)| label).collect()
    }
}

fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Experiment {
    /// The first need that is not met, or file of real data that is named and neither on this machine nor
    /// replaced by an axis' `otherwise`.
    pub fn missing(&self) -> Option<String> {
        if let Some(need) = self.needs.iter().find(|need| data::is_lacking(need)) {
            return Some(need.clone());
        }
        let values = self.axes.iter().flat_map(Axis::changes).flat_map(|(_, set)| set);
        values.filter_map(|(_, value)| value.as_str().map(str::to_owned)).find(|text| data::is_missing(text))
    }

    /// The labels of every point, in the order of [`points`](Experiment::points).
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        if self.scenario.is_none() {
            return Vec::new();
        }
        let with = |all: Vec<Vec<String>>, axis: &Axis| {
            let labels = axis.labels();
            let each = |one: &Vec<String>| {
                labels
                    .iter()
                    .map(|label| [one.as_slice(), std::slice::from_ref(label)].concat())
                    .collect::<Vec<_>>()
            };
            all.iter().flat_map(each).collect()
        };
        self.axes.iter().fold(vec![Vec::new()], with)
    }

    /// Every combination of the axes, the last axis fastest.
    ///
    /// # Errors
    /// [`ExperimentError`] if an axis sets a field that can't be.
    pub fn points(&self) -> Result<Vec<Point>, ExperimentError> {
        let Some(scenario) = self.scenario.clone() else { return Ok(Vec::new()) };
        let mut points = vec![Point { labels: Vec::new(), scenario }];
        for axis in &self.axes {
            let changes = axis.changes();
            let mut next = Vec::with_capacity(points.len() * changes.len());
            for point in &points {
                for (label, set) in &changes {
                    let mut point = point.clone();
                    for (field, value) in set {
                        let place = || format!("axis {}: {field}", axis.name);
                        let value = data::resolve(value).map_err(|what| self.refuse(place(), what))?;
                        patch::set(&mut point.scenario, field, value)
                            .map_err(|what| self.refuse(place(), what))?;
                    }
                    point.labels.push(label.clone());
                    next.push(point);
                }
            }
            points = next;
        }
        Ok(points)
    }

    /// What a point's run is but for its name: where files are looked for, and the scenario's text.
    pub(crate) fn run(&self, point: &Point, seed: u64) -> (Option<&Path>, String) {
        let mut table = point.seeded(seed);
        table.remove("name");
        (self.file.parent(), toml::to_string(&table).expect("a table can be written"))
    }

    /// The scenario of a point, run with `seed`.
    ///
    /// # Errors
    /// [`ExperimentError`] if it makes no sense as a scenario.
    pub fn scenario(&self, point: &Point, seed: u64) -> Result<Scenario, ExperimentError> {
        let mut table = point.seeded(seed);
        table.insert("name".into(), format!("{} {}", self.id, point.labels.join(" ")).trim().into());
        let text = toml::to_string(&table).expect("a table can be written");
        let scenario = Scenario::parse(&text, &self.file);
        // What formulas ask of a link, they ask of the only one.
        let single = |scenario: Scenario| scenario.require_one_link("an experiment").map(|()| scenario);
        scenario.and_then(single).map_err(|error| {
            let place = format!("scenario at {:?}: {}", point.labels.join(", "), error.field);
            self.refuse(place, error.what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = r#"
title = "t"
seed = "ours"
source = "s"
about = "a"
[scenario]
duration = "1s"
[scenario.link]
rate = "1mbit"
delay = "5ms"
[[scenario.flow]]
cc = "sqp"
[[axis]]
name = "cc"
fields = ["flow[1].cc"]
values = ["sqp", "newreno"]
[[axis]]
name = "rtt"
points = [{ label = "10", set = { "link.delay" = "5ms" } }, { label = "40", set = { "link.delay" = "20ms" } }]
[metrics]
x = "1"
"#;

    #[test]
    fn every_combination_is_a_scenario() {
        let experiment = Experiment::parse(TEXT, Path::new("e.toml")).unwrap();
        let points = experiment.points().unwrap();
        let labels: Vec<_> = points.iter().map(|point| point.labels.join("/")).collect();
        assert_eq!(labels, ["sqp/10", "sqp/40", "newreno/10", "newreno/40"]);
        assert!(experiment.labels().iter().eq(points.iter().map(|point| &point.labels)));
        let scenario = experiment.scenario(&points[3], 7).unwrap();
        assert_eq!((scenario.seed, scenario.flows[0].cc.as_str()), (7, "newreno"));
        assert_eq!(scenario.link.delay, Some(units::Span::from_millis(20)));
        let bad = TEXT.replace("values = [\"sqp\", \"newreno\"]", "values = [\"sqq\"]");
        let experiment = Experiment::parse(&bad, Path::new("e.toml")).unwrap();
        let error = experiment.scenario(&experiment.points().unwrap()[0], 1).unwrap_err().to_string();
        assert!(error.starts_with("e.toml: scenario at \"sqq, 10\": flow[1].cc: no congestion"), "{error}");
    }

    #[test]
    fn formulas_are_about_a_single_link() {
        let link = |name: &str| format!("[[scenario.link]]\nname = \"{name}\"\ndelay = \"5ms\"\n");
        let several = TEXT.replace(
            "[scenario.link]\nrate = \"1mbit\"\ndelay = \"5ms\"\n",
            &[link("a"), link("b")].concat(),
        );
        let several = several.replace("link.delay", "link[1].delay");
        let experiment = Experiment::parse(&several, Path::new("e.toml")).unwrap();
        let error = experiment.scenario(&experiment.points().unwrap()[0], 1).unwrap_err().to_string();
        assert!(error.contains("link[2]: an experiment knows a single bottleneck"), "{error}");
    }
}
