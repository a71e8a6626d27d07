//! Results for programs: JSON, and a run's folder of rows. `docs/json.md` and `docs/output.md` are the
//! references.

use std::borrow::Borrow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::files::{WriteError, write_text};
use crate::run::Outcome;
use crate::scenario::Scenario;
use crate::tables::{Tables, write_tables};

/// A run for programs, as `docs/json.md` documents it.
pub fn json(outcome: &Outcome) -> Value {
    serde_json::to_value(&outcome.summary).expect("a summary is plain data")
}

/// A comparison for programs: `{"runs": [...]}`, each as [`json()`] has it.
pub fn comparison_json(outcomes: &[impl Borrow<Outcome>]) -> Value {
    json!({ "runs": outcomes.iter().map(|outcome| json(outcome.borrow())).collect::<Vec<_>>() })
}

/// Writes a run's summary, scenario and tables into `folder`, which is made if needed: what programs read.
///
/// # Errors
/// [`WriteError`] naming what could not be written.
pub fn write_data(folder: &Path, outcome: &Outcome) -> Result<(), WriteError> {
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

/// The folder of each run of a comparison in `folder`: named after its first flow's controller.
pub fn folders_of<'a>(folder: &Path, scenarios: impl Iterator<Item = &'a Scenario>) -> Vec<PathBuf> {
    let ccs: Vec<&str> = scenarios.map(|scenario| scenario.flows[0].cc.as_str()).collect();
    folder_names(&ccs).iter().map(|name| folder.join(name)).collect()
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
pub fn folder_names(ccs: &[&str]) -> Vec<String> {
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

    #[test]
    fn names_make_safe_folders() {
        assert_eq!(folder_name("sqp:target=0.7,window=3"), "sqp-target=0.7-window=3");
        assert_eq!(folder_name("../x"), "-x");
        assert_eq!(folder_name(".."), "-");
        assert_eq!(folder_names(&["sqp", "fixed", "sqp"]), ["sqp", "fixed", "sqp-2"]);
    }
}
