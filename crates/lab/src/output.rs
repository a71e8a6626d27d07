//! Output folders: report, summary, scenario and tables of a run, or of several side by side. `docs/output.md` lists them.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::files::{WriteError, write_whole};
use crate::report::{ReportData, render};
use crate::run::Outcome;
use crate::tables::write_tables;

/// Writes everything about one run into `folder`, which is made if needed.
///
/// # Errors
/// [`WriteError`] naming what could not be written. Each file is whole or absent.
pub fn write_run(folder: &Path, outcome: &Outcome) -> Result<(), WriteError> {
    write_rows(folder, outcome)?;
    let page = run_report(outcome);
    write_whole(&folder.join("report.html"), |file| file.write_all(page.as_bytes()))
}

/// Writes a comparison into `folder`: one report over all runs, and a folder of rows for each, named `LABEL`.
///
/// # Errors
/// As [`write_run`].
pub fn write_comparison(folder: &Path, title: &str, runs: &[(String, Outcome)]) -> Result<(), WriteError> {
    for (label, outcome) in runs {
        write_rows(&folder.join(folder_name(label)), outcome)?;
    }
    let page = comparison_report(title, runs);
    write_whole(&folder.join("report.html"), |file| file.write_all(page.as_bytes()))?;
    write_json(&folder.join("summary.json"), &comparison_json(runs))
}

/// The report of one run.
pub fn run_report(outcome: &Outcome) -> String {
    render(&ReportData {
        title: outcome.scenario.name.clone(),
        description: outcome.scenario.description.clone(),
        runs: vec![outcome.view(&outcome.scenario.flows[0].name)],
    })
}

/// The report of several runs of one scenario, each with a label that tells it from the others.
///
/// # Panics
/// Without any run.
pub fn comparison_report(title: &str, runs: &[(String, Outcome)]) -> String {
    let description = runs.first().map_or(String::new(), |(_, outcome)| outcome.scenario.description.clone());
    let views = runs.iter().map(|(label, outcome)| outcome.view(label)).collect();
    render(&ReportData { title: title.to_owned(), description, runs: views })
}

/// A comparison for programs: `{"runs": [{"label", "summary"}]}`.
pub fn comparison_json(runs: &[(String, Outcome)]) -> Value {
    let runs: Vec<Value> =
        runs.iter().map(|(label, outcome)| json!({ "label": label, "summary": outcome.summary })).collect();
    json!({ "runs": runs })
}

fn write_rows(folder: &Path, outcome: &Outcome) -> Result<(), WriteError> {
    fs::create_dir_all(folder).map_err(|source| WriteError { path: folder.to_owned(), source })?;
    let summary = serde_json::to_value(&outcome.summary).expect("a summary is plain data");
    write_json(&folder.join("summary.json"), &summary)?;
    write_whole(&folder.join("scenario.toml"), |file| {
        let home = outcome.scenario.file.parent().unwrap_or(Path::new("."));
        // A file of its own line: a path with a line break in it must not become TOML.
        writeln!(file, "# Relative paths start in {home:?}.")?;
        file.write_all(outcome.scenario.text.as_bytes())
    })?;
    write_tables(folder, &outcome.record, &outcome.names(), &outcome.origin())
}

fn write_json(path: &Path, value: &Value) -> Result<(), WriteError> {
    write_whole(path, |file| writeln!(file, "{value:#}"))
}

/// A label as a folder's name: what is neither letter nor digit nor one of `.-_=` becomes `_`.
pub fn folder_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_=".contains(c) { c } else { '_' };
    let name: String = label.chars().map(plain).collect();
    if name.chars().all(|c| c == '.') { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{RunOptions, compare};
    use crate::scenario::Scenario;

    const SCENARIO: &str =
        "duration = \"2s\"\n[link]\nrate = \"5mbit\"\ndelay = \"10ms\"\n[[flow]]\ncc = \"sqp\"\n";

    fn outcomes(ccs: &[&str]) -> Vec<(String, Outcome)> {
        let scenario = Scenario::parse(SCENARIO, Path::new("demo/x.toml")).unwrap();
        let ccs: Vec<String> = ccs.iter().map(|&cc| cc.into()).collect();
        let outcomes = compare(&scenario, &ccs, &RunOptions::default()).unwrap();
        ccs.into_iter().zip(outcomes).collect()
    }

    #[test]
    fn a_comparison_is_written_whole_and_can_be_repeated() {
        let folder = std::env::temp_dir().join(format!("framewire-output-{}", std::process::id()));
        let runs = outcomes(&["sqp", "fixed:rate=1mbit"]);
        write_comparison(&folder, "both", &runs).unwrap();
        let json: Value = serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap();
        assert_eq!(json["runs"][1]["label"], "fixed:rate=1mbit");
        let again = Scenario::load(&folder.join("fixed_rate=1mbit/scenario.toml")).unwrap();
        assert_eq!(again.flows[0].cc, "fixed:rate=1mbit");
        let hash = crate::run::run(&again, &RunOptions::default()).unwrap().summary.hash;
        assert_eq!(json["runs"][1]["summary"]["hash"], hash.as_str());
        for file in ["summary.json", "packets.parquet", "frames.parquet", "link.parquet", "decisions.parquet"]
        {
            assert!(folder.join("sqp").join(file).is_file(), "{file}");
        }
        assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("<title>both</title>"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_report_needs_nothing_else() {
        let runs = outcomes(&["sqp", "newreno"]);
        let page = comparison_report("<both>", &runs);
        for loaded in ["src=", "href=", "@import", "url(", "fetch(", "<link"] {
            assert!(!page.contains(loaded), "the report holds {loaded}");
        }
        assert!(page.contains("prefers-color-scheme:dark") && page.contains("&lt;both&gt;"));
        assert!(page.contains(&runs[0].1.summary.hash) && page.contains("newreno"));
        assert!(!page.contains("NaN") && !page.contains("inf "), "a number went wrong");
        assert!(page.len() < 1_500_000);
    }

    #[test]
    fn labels_make_safe_folders() {
        assert_eq!(folder_name("sqp:target=0.7,window=3"), "sqp_target=0.7_window=3");
        assert_eq!(folder_name("../x"), ".._x");
        assert_eq!(folder_name(".."), "_..");
    }
}
