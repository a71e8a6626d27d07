//! Output folders: report, summary, scenario and tables of a run, or of several side by side.
//! `docs/output.md` lists them.

use std::borrow::Borrow;
use std::fs;
use std::path::{Path, PathBuf};

use lab::files::{WriteError, write_folder, write_text};
use lab::output::{comparison_json, folder_names, folders_of, write_data};
use lab::run::Outcome;
use serde_json::Value;

use crate::{ReportData, RunView, render, timeline};

/// Writes everything about one run into `folder`, which is made if needed, in the place of what an earlier
/// run or comparison wrote there.
///
/// # Errors
/// [`WriteError`] naming what could not be written. Then `folder` is as it was before.
pub fn write_run(folder: &Path, outcome: &Outcome) -> Result<(), WriteError> {
    write_folder(folder, &written_before(folder), |folder| {
        write_data(folder, outcome)?;
        if let Some(picture) = timeline(RunView::of(outcome)) {
            write_text(&folder.join("timeline.svg"), &picture)?;
        }
        write_text(
            &folder.join("report.html"),
            &report(&outcome.scenario.name, std::slice::from_ref(outcome)),
        )
    })
}

/// Writes a comparison into `folder`: one report and one summary over all runs, and a folder of rows for
/// each, named after its controller.
///
/// # Errors
/// As [`write_run`].
pub fn write_comparison(
    folder: &Path,
    title: &str,
    outcomes: &[impl Borrow<Outcome>],
) -> Result<(), WriteError> {
    write_folder(folder, &written_before(folder), |folder| {
        let scenarios = outcomes.iter().map(|outcome| &outcome.borrow().scenario);
        for (own, outcome) in folders_of(folder, scenarios).iter().zip(outcomes) {
            write_data(own, outcome.borrow())?;
        }
        write_text(&folder.join("report.html"), &report(title, outcomes))?;
        write_text(&folder.join("summary.json"), &format!("{:#}\n", comparison_json(outcomes)))
    })
}

/// All files that a run has in its folder.
const OF_A_RUN: [&str; 8] = [
    "summary.json",
    "scenario.toml",
    "packets.parquet",
    "frames.parquet",
    "link.parquet",
    "decisions.parquet",
    "timeline.svg",
    "report.html",
];

/// What an earlier run or comparison wrote into `folder`, as its summary says; nothing where there is none of
/// ours.
fn written_before(folder: &Path) -> Vec<PathBuf> {
    let summary = fs::read(folder.join("summary.json")).unwrap_or_default();
    let summary: Value = serde_json::from_slice(&summary).unwrap_or_default();
    let of_a_run = |below: &Path| OF_A_RUN.map(|name| below.join(name));
    if summary["hash"].is_string() {
        return of_a_run(Path::new("")).to_vec();
    }
    let Some(runs) = summary["runs"].as_array() else { return Vec::new() };
    let ccs: Option<Vec<&str>> = runs.iter().map(|run| run["flows"][0]["cc"].as_str()).collect();
    let folders = folder_names(&ccs.unwrap_or_default());
    let top = ["report.html", "summary.json"].map(PathBuf::from);
    top.into_iter().chain(folders.iter().flat_map(|name| of_a_run(Path::new(name)))).collect()
}

/// The report of one run, or of several of one scenario that differ in the first flow's controller.
///
/// # Panics
/// Without any run.
pub fn report(title: &str, outcomes: &[impl Borrow<Outcome>]) -> String {
    render(&ReportData {
        title: title.to_owned(),
        description: outcomes[0].borrow().scenario.description.clone(),
        runs: outcomes.iter().map(|outcome| RunView::of(outcome.borrow())).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::run::{RunOptions, compare};
    use lab::scenario::Scenario;

    const SCENARIO: &str =
        "duration = \"2s\"\n[link]\nrate = \"5mbit\"\ndelay = \"10ms\"\n[[flow]]\ncc = \"sqp\"\n";

    fn outcomes(ccs: &[&str]) -> Vec<Outcome> {
        let scenario = Scenario::parse(SCENARIO, Path::new("demo/x.toml")).unwrap();
        let ccs: Vec<String> = ccs.iter().map(|&cc| cc.into()).collect();
        compare(&scenario, &ccs, &RunOptions::default()).unwrap()
    }

    #[test]
    fn a_comparison_is_written_whole_and_can_be_repeated() {
        let folder = std::env::temp_dir().join(format!("framewire-output-{}", std::process::id()));
        write_comparison(&folder, "both", &outcomes(&["sqp", "fixed:rate=1mbit"])).unwrap();
        let json: Value = serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap();
        assert_eq!(json["runs"][1]["flows"][0]["cc"], "fixed:rate=1mbit");
        let again = Scenario::load(&folder.join("fixed-rate=1mbit/scenario.toml")).unwrap();
        assert_eq!(again.flows[0].cc, "fixed:rate=1mbit");
        let hash = lab::run::run(&again, &RunOptions::default()).unwrap().summary.hash;
        assert_eq!(json["runs"][1]["hash"], hash.as_str());
        for file in ["summary.json", "packets.parquet", "frames.parquet", "link.parquet", "decisions.parquet"]
        {
            assert!(folder.join("sqp").join(file).is_file(), "{file}");
        }
        assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("<title>both</title>"));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Names of what a folder holds, in order; what a subfolder holds counts as one.
    fn listed(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_of_an_earlier_run_stays_beside_a_later_one() {
        let folder = std::env::temp_dir().join(format!("framewire-again-{}", std::process::id()));
        let both = outcomes(&["sqp", "fixed:rate=1mbit"]);
        write_run(&folder, &both[0]).unwrap();
        let run = listed(&folder);
        assert!(run.iter().all(|name| OF_A_RUN.contains(&name.as_str())), "{run:?}");
        fs::write(folder.join("notes.txt"), "theirs").unwrap();
        write_comparison(&folder, "both", &both).unwrap();
        assert_eq!(listed(&folder), ["fixed-rate=1mbit", "notes.txt", "report.html", "sqp", "summary.json"]);
        write_run(&folder, &both[1]).unwrap();
        let mut again = listed(&folder);
        again.retain(|name| name != "notes.txt");
        assert_eq!(again, run);
        // Where the disk is full in between, all is as it was.
        let error = write_folder(&folder, &written_before(&folder), |_| {
            Err(WriteError { path: folder.join("x"), source: std::io::Error::other("disk full") })
        });
        assert!(error.is_err());
        assert_eq!(listed(&folder).len(), run.len() + 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_report_needs_nothing_else() {
        let outcomes = outcomes(&["sqp", "newreno"]);
        let page = report("<both>", &outcomes);
        let page = page.replace("src=\"data:", "");
        for loaded in ["src=", "href=", "@import", "url(", "fetch(", "<link"] {
            assert!(!page.contains(loaded), "the report holds {loaded}");
        }
        assert!(page.contains("prefers-color-scheme:dark") && page.contains("&lt;both&gt;"));
        assert!(page.contains(&outcomes[0].summary.hash) && page.contains("newreno"));
        assert!(!page.contains("NaN") && !page.contains("inf "), "a number went wrong");
        assert!(page.len() < 1_500_000);
    }
}
