//! What an experiment's file says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use crate::data;
use lab::scenario::plainly;

/// An experiment that could not be read or run. Displays as `file: where: what is wrong`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {place}: {what}", file.display())]
pub struct ExperimentError {
    /// The experiment's file.
    pub file: PathBuf,
    /// The field or the claim that is wrong.
    pub place: String,
    /// What is wrong, and what would be accepted.
    pub what: String,
    /// Nothing is wrong with what was asked for; doing it failed, as on a full disk.
    pub failed: bool,
}

/// An experiment as its file states it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The file's name without its ending.
    #[serde(skip)]
    pub id: String,
    /// A line for people.
    pub title: String,
    /// The document whose figure or table this is: `000` to `004`, a part of one such as `003-ccfuzz`, or
    /// `ours`.
    pub seed: String,
    /// Where in the document.
    pub source: String,
    /// What is shown, in a paragraph.
    pub about: String,
    /// Runs of every point, with seeds 1, 2, ...
    #[serde(default = "one")]
    pub seeds: u64,
    /// What must be on this machine besides what axes name, or the claims are skipped: `data:FILE`, or `x264`
    /// (an ffmpeg with it).
    #[serde(default)]
    pub needs: Vec<String>,
    /// The scenario, as `docs/scenario.md` has it, before any axis changes it. Without one nothing is run:
    /// the claims are about theory.
    #[serde(default)]
    pub scenario: Option<Table>,
    /// What is varied; every combination is run.
    #[serde(default, rename = "axis")]
    pub axes: Vec<Axis>,
    /// What is measured in each run: formulas by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, String>,
    /// The claims that are held against its runs.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// The plots that a report draws of its runs.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
    /// Where the file is.
    #[serde(skip)]
    pub file: PathBuf,
}

/// One thing that is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name, for plots and tables.
    pub name: String,
    /// Fields that get each of `values`.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Their values; each is a point, labelled with itself.
    #[serde(default)]
    pub values: Vec<Value>,
    /// Points that change several fields in their own way.
    #[serde(default)]
    pub points: Vec<Change>,
    /// The points instead, where a file of real data that one of `points` names is not on this machine.
    #[serde(default)]
    pub otherwise: Vec<Change>,
}

/// A point of an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What it is called.
    pub label: String,
    /// Fields and their values.
    pub set: BTreeMap<String, Value>,
}

/// A claim, and what is held against it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The claim's name in the table of targets.
    pub id: String,
    /// `N` printed in the text, `F` read from a figure or a sentence, `D` follows from the paper's own
    /// equations, `O` ours.
    pub kind: String,
    /// What the paper says.
    pub claim: String,
    /// A formula over the measured points.
    pub measure: String,
    /// What counts as the same.
    pub band: Band,
    /// A formula that must hold besides.
    #[serde(default)]
    pub also: Option<String>,
    /// The unit of both.
    #[serde(default)]
    pub unit: String,
}

/// A plot of a metric over the points of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The plot's heading.
    pub title: String,
    /// The axis along x; without one, each point's `y` is a curve of its own. Where `y` is a list, there is a
    /// line of its distribution for what the other axes say, of the values of all points along this one.
    #[serde(default)]
    pub x: Option<String>,
    /// The metric along y.
    pub y: String,
    /// Along x, equal distances are equal ratios.
    #[serde(default)]
    pub log: bool,
    /// What stands at the axes.
    pub x_label: String,
    /// What stands at the axes.
    pub y_label: String,
    /// Only points with these labels, on axes by name.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// The paper's own numbers: lines by name, each a list of `[x, y]`.
    #[serde(default)]
    pub paper: BTreeMap<String, Vec<(f64, f64)>>,
}

fn one() -> u64 {
    1
}

/// What counts as holding.
#[derive(Clone, Debug, PartialEq)]
pub enum Band {
    /// Between two numbers, both included; infinite where only one is given.
    Between(f64, f64),
    /// The formula says so itself.
    True,
}

impl FromStr for Band {
    type Err = String;

    /// `17.1..18.4`, `>= 0.9`, `<= 20`, `true`.
    fn from_str(text: &str) -> Result<Band, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let text = text.trim();
        let band = if text == "true" {
            Some(Band::True)
        } else if let Some(least) = text.strip_prefix(">=") {
            number(least).map(|least| Band::Between(least, f64::INFINITY))
        } else if let Some(most) = text.strip_prefix("<=") {
            number(most).map(|most| Band::Between(f64::NEG_INFINITY, most))
        } else {
            text.split_once("..").and_then(|(a, b)| Some(Band::Between(number(a)?, number(b)?)))
        };
        let ordered = band.filter(|band| !matches!(band, Band::Between(a, b) if a > b));
        ordered.ok_or_else(|| format!("`{text}` is no band; write 17.1..18.4, >= 0.9, <= 20 or true"))
    }
}

impl std::fmt::Display for Band {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Band::True => f.write_str("true"),
            Band::Between(a, f64::INFINITY) => write!(f, ">= {a}"),
            Band::Between(f64::NEG_INFINITY, b) => write!(f, "<= {b}"),
            Band::Between(a, b) => write!(f, "{a}..{b}"),
        }
    }
}

impl<'de> Deserialize<'de> for Band {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Band, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// [`ExperimentError`] naming the file and what is wrong with it.
    pub fn load(file: &Path) -> Result<Experiment, ExperimentError> {
        let refuse = |what: String| ExperimentError {
            file: file.to_owned(),
            place: "the file".into(),
            what,
            failed: false,
        };
        let text = fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
        Experiment::parse(&text, file)
    }

    /// Reads an experiment from its text.
    ///
    /// # Errors
    /// As [`load`](Experiment::load).
    pub fn parse(text: &str, file: &Path) -> Result<Experiment, ExperimentError> {
        let line_of = |span: Option<std::ops::Range<usize>>| {
            span.map_or("the file".into(), |span| {
                let before = &text[..span.start.min(text.len())];
                format!("line {}", 1 + before.matches('\n').count())
            })
        };
        let mut experiment: Experiment = toml::from_str(text).map_err(|error| ExperimentError {
            file: file.to_owned(),
            place: line_of(error.span()),
            what: plainly(&error.message().replace('\n', " ")),
            failed: false,
        })?;
        experiment.id = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        experiment.file = file.to_owned();
        experiment.check()?;
        Ok(experiment)
    }

    /// Every experiment of a folder, by name.
    ///
    /// # Errors
    /// The first that can't be read, or that there is no such folder.
    pub fn all(folder: &Path) -> Result<Vec<Experiment>, ExperimentError> {
        let refuse = |what: String| ExperimentError {
            file: folder.to_owned(),
            place: "the folder".into(),
            what: format!("{what}; experiments are the *.toml files of the project's folder `experiments`"),
            failed: false,
        };
        let entries = fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        files.sort();
        files.iter().map(|file| Experiment::load(file)).collect()
    }

    pub(crate) fn refuse(&self, place: impl Into<String>, what: impl Into<String>) -> ExperimentError {
        ExperimentError { file: self.file.clone(), place: place.into(), what: what.into(), failed: false }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        if self.seeds == 0 {
            return Err(self.refuse("seeds", "0; a point is run at least once"));
        }
        for axis in &self.axes {
            let sugared = !axis.fields.is_empty() && !axis.values.is_empty();
            if sugared != axis.points.is_empty() {
                let what = "an axis has either `fields` and `values`, or `points`";
                return Err(self.refuse(format!("axis {}", axis.name), what));
            }
        }
        if let Some(need) = self.needs.iter().find(|need| !data::is_need(need)) {
            return Err(
                self.refuse("needs", format!("`{need}`; `data:FILE`, `ffmpeg` and `x264` are possible"))
            );
        }
        for plot in &self.plots {
            let known = |name: &String| self.axes.iter().any(|axis| axis.name == *name);
            if !self.metrics.contains_key(&plot.y) || !plot.x.iter().chain(plot.only.keys()).all(known) {
                let what = "its `y` is no metric, or one of its axes does not exist";
                return Err(self.refuse(format!("plot {}", plot.title), what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_read_and_print() {
        for text in ["17.1..18.4", ">= 0.9", "<= 20", "true", "-3..5"] {
            assert_eq!(text.parse::<Band>().unwrap().to_string(), text);
        }
        for bad in ["", "5", "5..3", ">= x", "0..inf"] {
            assert!(bad.parse::<Band>().is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_say_where() {
        let error = |text: &str| Experiment::parse(text, Path::new("x.toml")).unwrap_err().to_string();
        let head = "title=\"t\"\nseed=\"000\"\nsource=\"s\"\nabout=\"a\"\n";
        assert!(error(&format!("{head}tiTle=1\n")).starts_with("x.toml: line 5: unknown field `tiTle`"));
        let rest = "[scenario]\n[metrics]\n[[axis]]\nname=\"cc\"\n";
        let what = error(&format!("{head}{rest}"));
        assert_eq!(what, "x.toml: axis cc: an axis has either `fields` and `values`, or `points`");
    }
}
