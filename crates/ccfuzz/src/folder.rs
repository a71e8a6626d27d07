//! A search's folder: where it stands, and what it has found so far.
//!
//! ```text
//! FOLDER/checkpoint                  the search, complete (crate::checkpoint)
//! FOLDER/scenario.toml, finding.json ...   the best network so far (crate::finding)
//! FOLDER/findings/NN/...             of a diverse search: those that behave differently
//! ```

use std::path::{Path, PathBuf};

use lab::files::{WriteError, write_folder};
use serde_json::{Value, json};

use crate::checkpoint;
use crate::faults;
use crate::finding::{self, Finding, FindingError};
use crate::search::{Individual, Report, Search};
use crate::target::Target;

const CHECKPOINT: &str = "checkpoint";

/// The folder of a search under way.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// The score of the network that is written there.
    best: Option<f64>,
}

/// One of the findings of a diverse search.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Where it is written.
    pub folder: PathBuf,
    /// What was found.
    pub finding: Finding,
    /// The target's known faults that it shows.
    pub faults: Vec<&'static str>,
}

impl Kept {
    /// As `framewire fuzz run --json` prints it.
    pub fn json(&self) -> Value {
        json!({ "folder": self.folder, "score": self.finding.record.score, "goal": self.finding.goal(),
                "faults": self.faults })
    }
}

impl Folder {
    /// The folder at `path` of a search that has not begun, or that was read from there.
    pub fn of(path: PathBuf, search: &Search) -> Folder {
        Folder { path, best: search.best().map(|best| best.score.total) }
    }

    /// Where the folder at `path` has its checkpoint.
    pub fn checkpoint(path: &Path) -> PathBuf {
        path.join(CHECKPOINT)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes where the search stands after the generations of `reports`, and its best network if it is a
    /// better one.
    ///
    /// # Errors
    /// [`FindingError`] naming the file that could not be written.
    pub fn keep(&mut self, search: &Search, target: &Target, reports: &[Report]) -> Result<(), FindingError> {
        if let Some((report, evaluations)) = self.risen(search, reports) {
            // An island's best lives on at its first place.
            let genome = search.islands[report.island][0].genome.clone();
            let found =
                Finding::new(target.clone(), genome, search.plan.seed, report.generation, evaluations);
            found.write(&self.path)?;
            self.best = Some(report.best.total);
        }
        checkpoint::write(&Folder::checkpoint(&self.path), search, target).map_err(unwritten)
    }

    /// The last report that has a better best than all before, and the simulations that led there.
    fn risen<'a>(&self, search: &Search, reports: &'a [Report]) -> Option<(&'a Report, u64)> {
        let took = |reports: &[Report]| reports.iter().map(|report| report.evaluations as u64).sum::<u64>();
        let (mut best, mut found) = (self.best, None);
        for (at, report) in reports.iter().enumerate() {
            if best.is_none_or(|best| report.best.total > best) {
                best = Some(report.best.total);
                found = Some((report, search.evaluations - took(&reports[at + 1..])));
            }
        }
        found
    }

    /// The best finding, as it is written there.
    ///
    /// # Errors
    /// [`FindingError`] naming the file that can't be read.
    pub fn best(&self) -> Result<Finding, FindingError> {
        Finding::read(&self.path)
    }

    /// Writes the findings of a diverse search, each as a folder of its own, in the place of those of earlier
    /// generations; none of another.
    ///
    /// # Errors
    /// [`FindingError`] naming the file that could not be written.
    pub fn keep_findings(&self, search: &Search, target: &Target) -> Result<Vec<Kept>, FindingError> {
        if !search.plan.diverse {
            return Ok(Vec::new());
        }
        let folder = self.path.join("findings");
        let refuse = |what| FindingError { path: target.scenario.file.clone(), what };
        let fixed = faults::of(target).map_err(|error| refuse(error.to_string()))?;
        let keep = |(place, found): (usize, &Individual)| {
            let genome = found.genome.clone();
            let faults = faults::shown(target, &fixed, &genome);
            let generation = search.generations.saturating_sub(1);
            let finding =
                Finding::new(target.clone(), genome, search.plan.seed, generation, search.evaluations);
            Kept { folder: folder.join(format!("{:02}", place + 1)), finding, faults }
        };
        let all: Vec<Kept> = search.findings(target).into_iter().enumerate().map(keep).collect();
        write_folder(&folder, &written_before(&folder), |partial| {
            let name = |kept: &Kept| kept.folder.file_name().map(|name| partial.join(name));
            let write = |kept: &Kept| kept.finding.write(&name(kept).unwrap_or_default());
            all.iter()
                .try_for_each(write)
                .map_err(|error| WriteError { path: error.path, source: std::io::Error::other(error.what) })
        })
        .map_err(unwritten)?;
        Ok(all)
    }

    /// What `framewire fuzz run --json` prints, but for the time it took: of the search, the best finding
    /// and some generations.
    pub fn summary(&self, search: &Search, found: &Finding, history: &[Report], several: &[Kept]) -> Value {
        let of = |report: &Report| {
            json!({ "generation": report.generation, "evaluations": report.evaluations, "best": report.best,
                    "worst_20": report.worst_20, "worst_20_used": report.worst_20_used })
        };
        let record = &found.record;
        json!({
            "target": found.target.scenario.name, "mode": record.mode, "score": record.aim,
            "plan": search.plan, "generations": search.generations, "evaluations": search.evaluations,
            "best": { "score": record.score, "goal": found.goal(), "generation": record.generation,
                      "evaluations": record.evaluations },
            "history": history.iter().map(of).collect::<Vec<_>>(), "folder": self.path,
            "findings": several.iter().map(Kept::json).collect::<Vec<_>>(),
        })
    }
}

fn unwritten(error: WriteError) -> FindingError {
    FindingError { path: error.path, what: error.source.to_string() }
}

/// The files of the findings in `folder`, relative to it.
fn written_before(folder: &Path) -> Vec<PathBuf> {
    let findings = finding::all(folder).unwrap_or_default();
    let files =
        findings.iter().flat_map(|finding| std::fs::read_dir(finding).into_iter().flatten().flatten());
    files.filter_map(|file| Some(file.path().strip_prefix(folder).ok()?.to_owned())).collect()
}
