//! The repository as the rules see it: its text files, and what cargo says about its crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A text file of the repository.
pub struct Text {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/house lies two folders below the root").to_owned()
}

/// Every text file below the root, in order of path; build products and hidden folders (but for `.ci`) are
/// left out.
pub fn texts() -> Vec<Text> {
    let mut found = Vec::new();
    visit(&root(), "", &mut found);
    found.sort_by(|a: &Text, b: &Text| a.path.cmp(&b.path));
    found
}

/// Every Rust source file.
pub fn sources() -> Vec<Text> {
    texts().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

fn visit(folder: &Path, prefix: &str, found: &mut Vec<Text>) {
    for entry in std::fs::read_dir(folder).expect("the repository is readable").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("a file has a type");
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            let built = ["target", "out", "node_modules", "__pycache__", "corpus"].contains(&name.as_str());
            if !hidden && !built {
                visit(&entry.path(), &format!("{path}/"), found);
            }
        } else if kind.is_file() && !["Cargo.lock", ".git"].contains(&name.as_str()) {
            // What is no UTF-8 is a picture or a recording, and no rule here is about those.
            found.extend(std::fs::read_to_string(entry.path()).ok().map(|text| Text { path, text }));
        }
    }
}

/// What `cargo metadata` says, without the network.
///
/// # Errors
/// What cargo printed, if it fails.
pub fn metadata(extra: &[&str]) -> Result<Value, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--offline"]).args(extra).current_dir(root());
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The resolved graph: of every platform if all of it has been fetched, else of this one.
pub fn resolved() -> Value {
    metadata(&[])
        .or_else(|_| metadata(&["--filter-platform", &host()]))
        .unwrap_or_else(|error| panic!("cargo metadata failed; `cargo fetch` brings what it needs:\n{error}"))
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc -vV names its host").to_owned()
}

/// `value[key]` as text; empty where there is none.
pub fn field<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The elements of a JSON array.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Fails the test with every violation, one a line.
pub fn expect_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}
