//! A finding on disk: an ordinary scenario with its traces, and what is expected of it.
//!
//! ```text
//! FOLDER/scenario.toml    what `framewire run` replays
//! FOLDER/cross.instants   when cross packets arrive      (if there are any)
//! FOLDER/service.trace    when the link serves           (if it varies)
//! FOLDER/target.toml      the scenario without them, which the search began with
//! FOLDER/finding.json     what was sought, what was found, and what is expected of which controller
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};

use lab::files::{WriteError, write_folder, write_whole};
use lab::scenario::Scenario;
use netsim::{Instants, MahimahiTrace};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::call::Call;
use crate::genome::{Genome, Mode, Outage};
use crate::score::{Aim, Score, Weights};
use crate::target::Target;

const CROSS: &str = "cross.instants";
const SERVICE: &str = "service.trace";

/// A network and what it does to a target.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The scenario that was searched, and what was varied around it.
    pub target: Target,
    /// The network: its traffic, outages and delivery times.
    pub genome: Genome,
    /// What is on record about it.
    pub record: Record,
}

/// What `finding.json` says of a finding: target, score, and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What of the network was varied.
    pub mode: Mode,
    /// What the search was for.
    pub aim: Aim,
    /// What the parts of the score weigh.
    pub weights: Weights,
    /// The seed of the search.
    pub seed: u64,
    /// Generation in which it was found, from 0.
    pub generation: u32,
    /// Simulations the search had run by then.
    pub evaluations: u64,
    /// What the target scores in this network; higher is worse for the flow.
    pub score: Score,
    /// Spans in which arriving packets are lost: start and length in microseconds.
    pub outages: Vec<(u32, u32)>,
    /// What the network sets of the call.
    #[serde(default, skip_serializing_if = "Call::is_plain")]
    pub call: Call,
    /// What must hold when it is replayed.
    #[serde(default)]
    pub expect: Vec<Expectation>,
}

/// What must hold when a finding is replayed under a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The controller of the first flow.
    pub cc: String,
    /// The least the score without its cost must be: the finding still shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// The most it may be: the finding is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}

/// A finding that can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct FindingError {
    /// The file that can't be read or written.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

/// How an expectation fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// What the finding's file expects.
    pub expected: Expectation,
    /// What the replay scored.
    pub score: Score,
    /// The score without its cost, which is what is expected.
    pub goal: f64,
}

impl Replayed {
    /// Whether it is as expected.
    pub fn holds(&self) -> bool {
        let least = self.expected.least.is_none_or(|least| self.goal >= least);
        least && self.expected.most.is_none_or(|most| self.goal <= most)
    }
}

impl Finding {
    /// A network that a search came upon.
    pub fn new(target: Target, genome: Genome, seed: u64, generation: u32, evaluations: u64) -> Finding {
        let score = target.evaluate(&genome);
        let outages = genome.outages.iter().map(|outage| (outage.at, outage.lasts)).collect();
        let Target { mode, aim, weights, .. } = target;
        let (call, expect) = (genome.call, Vec::new());
        let record =
            Record { mode, aim, weights, seed, generation, evaluations, score, outages, call, expect };
        Finding { target, genome, record }
    }

    /// The same finding with a simpler network.
    pub fn with_genome(&self, genome: Genome) -> Finding {
        let Record { seed, generation, evaluations, .. } = self.record;
        Finding::new(self.target.clone(), genome, seed, generation, evaluations)
    }

    /// The score without its cost: what a replay is held against.
    pub fn goal(&self) -> f64 {
        self.record.score.goal(&self.record.weights)
    }

    /// Writes the folder's files, in the place of those of an earlier finding: all of them or none.
    ///
    /// # Errors
    /// [`FindingError`] naming the file that could not be written.
    pub fn write(&self, folder: &Path) -> Result<(), FindingError> {
        let old = [CROSS, SERVICE, "target.toml", "scenario.toml", "finding.json"].map(PathBuf::from);
        write_folder(folder, &old, |folder| self.write_files(folder))
            .map_err(|error| FindingError { path: error.path, what: error.source.to_string() })
    }

    fn write_files(&self, folder: &Path) -> Result<(), WriteError> {
        let put =
            |name: &str, text: &str| write_whole(&folder.join(name), |file| file.write_all(text.as_bytes()));
        if let Some(cross) = self.genome.instants() {
            put(CROSS, &cross.to_text())?;
        }
        if let Some(service) = self.genome.trace(&self.target.space) {
            put(SERVICE, &service.to_text())?;
        }
        put("target.toml", &self.target.scenario.text)?;
        put("scenario.toml", &self.scenario_text())?;
        let record = serde_json::to_string_pretty(&self.record).expect("numbers and text");
        put("finding.json", &(record + "\n"))
    }

    /// The target's scenario with what was found written into it.
    fn scenario_text(&self) -> String {
        let mut table: Table = self.target.scenario.text.parse().expect("a scenario was read from this text");
        if self.target.mode.call {
            self.genome.call.write(&mut table).expect("the target took it");
        }
        let link = table.get_mut("link").and_then(Value::as_table_mut).expect("a scenario has a link");
        if !self.genome.service.is_empty() {
            link.remove("rate");
            link.insert("trace".into(), SERVICE.into());
        }
        let ms = |micros: u32| Value::String(format!("{micros}us"));
        let spans = self.genome.outages.iter();
        let spans = spans.map(|o| Value::Array(vec![ms(o.at), ms(o.at.saturating_add(o.lasts))]));
        let blackout = link.entry("blackout").or_insert_with(|| Value::Array(Vec::new()));
        blackout.as_array_mut().expect("a list of spans").extend(spans);
        if blackout.as_array().is_some_and(Vec::is_empty) {
            link.remove("blackout");
        }
        if !self.genome.cross.is_empty() {
            let mut cross = Table::new();
            cross.insert("kind".into(), "listed".into());
            cross.insert("instants".into(), CROSS.into());
            let list = table.entry("cross").or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().expect("a list of sources").push(Value::Table(cross));
        }
        toml::to_string(&table).expect("a table can be written")
    }

    /// Reads a folder.
    ///
    /// # Errors
    /// [`FindingError`] naming the file and what is wrong with it.
    pub fn read(folder: &Path) -> Result<Finding, FindingError> {
        let path = |name: &str| folder.join(name);
        let refuse = |name: &str, what: String| FindingError { path: path(name), what };
        let text = std::fs::read_to_string(path("finding.json"))
            .map_err(|error| refuse("finding.json", error.to_string()))?;
        let record: Record =
            serde_json::from_str(&text).map_err(|error| refuse("finding.json", error.to_string()))?;
        let scenario =
            Scenario::load(&path("target.toml")).map_err(|error| refuse("target.toml", error.to_string()))?;
        let target = Target::new(scenario, record.mode, record.aim, record.weights)
            .map_err(|error| refuse("target.toml", error.to_string()))?;
        let mut genome = Genome::default();
        if path(CROSS).exists() {
            let cross = Instants::open(&path(CROSS)).map_err(|error| refuse(CROSS, error.to_string()))?;
            genome.cross = cross.micros().to_vec();
        }
        if path(SERVICE).exists() {
            let trace =
                MahimahiTrace::open(&path(SERVICE)).map_err(|error| refuse(SERVICE, error.to_string()))?;
            let lines = trace.millis();
            // The last line is the end of the run.
            genome.service = lines[..lines.len() - 1].iter().map(|ms| ms.saturating_mul(1_000)).collect();
        }
        genome.call = record.call;
        genome.outages = record.outages.iter().map(|&(at, lasts)| Outage { at, lasts }).collect();
        Ok(Finding { target, genome, record })
    }

    /// Runs the finding's network under each controller that something is expected of.
    ///
    /// # Errors
    /// [`FindingError`] if there is no such controller.
    pub fn replay(&self) -> Result<Vec<Replayed>, FindingError> {
        self.record.expect.iter().map(|expected| self.replay_under(expected)).collect()
    }

    fn replay_under(&self, expected: &Expectation) -> Result<Replayed, FindingError> {
        let refuse = |what| FindingError { path: self.target.scenario.file.clone(), what };
        let target = self.target.with_cc(&expected.cc).map_err(|error| refuse(error.to_string()))?;
        let score = target.evaluate(&self.genome);
        let goal = score.goal(&self.record.weights);
        Ok(Replayed { expected: expected.clone(), score, goal })
    }
}

/// Folders of `folder` that hold findings, in order of their names.
///
/// # Errors
/// [`FindingError`] if there is no such folder.
pub fn all(folder: &Path) -> Result<Vec<PathBuf>, FindingError> {
    let refuse = |what| FindingError { path: folder.to_owned(), what };
    let entries = std::fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.join("finding.json").is_file());
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use lab::run::{Overlay, RunOptions, meter, run};
    use units::Rng;

    #[test]
    fn what_is_written_runs_and_is_read_again() {
        let text = Preset::find("cubic-burst").unwrap().scenario().text.replace("\"10s\"", "\"4s\"");
        let scenario = Scenario::parse(&text, Path::new("t.toml")).unwrap();
        let mode: Mode = "link+traffic+loss".parse().unwrap();
        let target = Target::new(scenario, mode, Aim::Loss, Weights::default()).unwrap();
        let genome = Genome::fresh(mode, &target.space, &mut Rng::stream(4, "x"));
        let mut finding = Finding::new(target, genome, 4, 2, 99);
        let least = Some(finding.goal());
        finding.record.expect = vec![
            Expectation { cc: "cubic:ssthresh_cap=off".into(), least, most: None },
            Expectation { cc: "fixed:rate=1mbit".into(), least, most: None },
        ];
        let folder = std::env::temp_dir().join(format!("framewire-finding-{}", std::process::id()));
        finding.write(&folder).unwrap();
        let again = Finding::read(&folder).unwrap();
        assert_eq!((&again.record, &again.genome.cross), (&finding.record, &finding.genome.cross));
        let verdicts: Vec<bool> = again.replay().unwrap().iter().map(Replayed::holds).collect();
        assert_eq!(verdicts, [true, false], "a slow flow loses less");
        // The scenario is the same run.
        let scenario = Scenario::load(&folder.join("scenario.toml")).unwrap();
        let window = crate::target::WINDOW;
        let replayed = meter(&scenario, &Overlay::default(), window).unwrap();
        let original =
            meter(&finding.target.scenario, &finding.genome.overlay(&finding.target.space), window);
        assert_eq!(replayed, original.unwrap());
        assert!(run(&scenario, &RunOptions::default()).is_ok());
        assert_eq!(all(folder.parent().unwrap()).unwrap().iter().filter(|path| **path == folder).count(), 1);
        // A simpler one in its place leaves nothing of it: stale cross packets would join the next replay.
        let bare = Genome { cross: Vec::new(), service: Vec::new(), ..finding.genome.clone() };
        finding.with_genome(bare).write(&folder).unwrap();
        assert!(Finding::read(&folder).unwrap().genome.cross.is_empty() && !folder.join(SERVICE).exists());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(Finding::read(&folder).unwrap_err().to_string().contains("finding.json: "));
    }
}
