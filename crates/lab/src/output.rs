//! Output folders: report, summary, scenario and tables of a run, or of several side by side.
//! `docs/output.md` lists them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::{WriteError, write_folder, write_whole};
use crate::report::{ReportData, render, timeline};
use crate::run::Outcome;
use crate::scenario::Scenario;
use crate::tables::{Tables, write_tables};

/// Writes everything about one run into `folder`, which is made if needed, in the place of what an earlier
/// run or comparison wrote there.
///
/// # Errors
/// [`WriteError`] naming what could not be written. Then `folder` is as it was before.
pub fn write_run(folder: &Path, outcome: &Outcome) -> Result<(), WriteError> {
    write_folder(folder, &written_before(folder), |folder| {
        write_rows(folder, outcome)?;
        if let Some(picture) = timeline(outcome.view(&outcome.scenario.flows[0].cc)) {
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
pub fn write_comparison(folder: &Path, title: &str, outcomes: &[Outcome]) -> Result<(), WriteError> {
    write_folder(folder, &written_before(folder), |folder| {
        let scenarios = outcomes.iter().map(|outcome| &outcome.scenario);
        for (own, outcome) in folders_of(folder, scenarios).iter().zip(outcomes) {
            write_rows(own, outcome)?;
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

/// The folder of each run of a comparison in `folder`: named after its first flow's controller.
pub fn folders_of<'a>(folder: &Path, scenarios: impl Iterator<Item = &'a Scenario>) -> Vec<PathBuf> {
    let ccs: Vec<&str> = scenarios.map(|scenario| scenario.flows[0].cc.as_str()).collect();
    folder_names(&ccs).iter().map(|name| folder.join(name)).collect()
}

/// The report of one run, or of several of one scenario that differ in the first flow's controller.
///
/// # Panics
/// Without any run.
pub fn report(title: &str, outcomes: &[Outcome]) -> String {
    render(&ReportData {
        title: title.to_owned(),
        description: outcomes[0].scenario.description.clone(),
        runs: outcomes.iter().map(|outcome| outcome.view(&outcome.scenario.flows[0].cc)).collect(),
    })
}

/// A run for programs, as `docs/json.md` documents it.
pub fn json(outcome: &Outcome) -> Value {
    serde_json::to_value(&outcome.summary).expect("a summary is plain data")
}

/// A comparison for programs: `{"runs": [...]}`, each as [`json()`] has it.
pub fn comparison_json(outcomes: &[Outcome]) -> Value {
    json!({ "runs": outcomes.iter().map(json).collect::<Vec<_>>() })
}

fn write_rows(folder: &Path, outcome: &Outcome) -> Result<(), WriteError> {
    fs::create_dir_all(folder).map_err(|source| WriteError { path: folder.to_owned(), source })?;
    write_text(&folder.join("summary.json"), &format!("{:#}\n", json(outcome)))?;
    let home = outcome.scenario.file.parent().filter(|home| !home.as_os_str().is_empty());
    // Quoted, so that a path with a line break in it does not become TOML.
    let home = home.map_or(String::new(), |home| format!("# Relative paths start in {home:?}.\n"));
    write_text(&folder.join("scenario.toml"), &format!("{home}{}", outcome.scenario.text))?;
    match &outcome.tables {
        Tables::OfRecord => write_tables(folder, &outcome.record, &outcome.names(), &outcome.origin()),
        Tables::Files(files) => files.place(folder),
        Tables::None => Ok(()),
    }
}

/// Writes a page, and makes its folder if needed.
///
/// # Errors
/// [`WriteError`] naming what could not be written. The file is whole or absent.
pub fn write_page(path: &Path, page: &str) -> Result<(), WriteError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| WriteError { path: folder.to_owned(), source })?;
    }
    write_text(path, page)
}

fn write_text(path: &Path, text: &str) -> Result<(), WriteError> {
    write_whole(path, |file| file.write_all(text.as_bytes()))
}

/// A controller or scenario's name as the name of a folder: what is neither letter nor digit nor one of
/// `-_.=` becomes `-`.
pub fn folder_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.=".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    match name.trim_start_matches('.') {
        "" => "-".to_owned(),
        name => name.to_owned(),
    }
}

/// A folder for each controller, numbered where one is compared with itself.
fn folder_names(ccs: &[&str]) -> Vec<String> {
    let twins = |index: usize| ccs[..index].iter().filter(|cc| **cc == ccs[index]).count();
    let number = |index| match twins(index) {
        0 => String::new(),
        before => format!("-{}", before + 1),
    };
    ccs.iter().enumerate().map(|(index, cc)| folder_name(cc) + number(index).as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunOptions, compare};

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
        let hash = crate::run::run(&again, &RunOptions::default()).unwrap().summary.hash;
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

    #[test]
    fn names_make_safe_folders() {
        assert_eq!(folder_name("sqp:target=0.7,window=3"), "sqp-target=0.7-window=3");
        assert_eq!(folder_name("../x"), "-x");
        assert_eq!(folder_name(".."), "-");
        assert_eq!(folder_names(&["sqp", "fixed", "sqp"]), ["sqp", "fixed", "sqp-2"]);
    }
}
