//! No dependency has a known vulnerability. The advisories are the RustSec database, a folder
//! `crates/NAME/RUSTSEC-YEAR-NUMBER.md` of TOML front matter; `make test` fetches it where it can be reached
//! and names it in `FRAMEWIRE_ADVISORIES`. Without it this check says that it was skipped.

use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};

use crate::tree;

/// What an advisory says about one version of its package.
#[derive(Debug, PartialEq)]
enum Verdict {
    Clear,
    /// Nothing is broken, but for example nobody maintains it.
    Notice(String),
    Vulnerable(String),
}

fn front_matter(advisory: &str) -> Option<toml::Table> {
    advisory.split("```toml").nth(1)?.split("```").next()?.parse().ok()
}

fn listed(table: &toml::Table, key: &str, version: &Version) -> bool {
    let requirements =
        table.get("versions").and_then(|versions| versions.get(key)).and_then(|list| list.as_array());
    let texts = requirements.into_iter().flatten().filter_map(|requirement| requirement.as_str());
    texts.filter_map(|text| VersionReq::parse(text).ok()).any(|requirement| requirement.matches(version))
}

fn judge(table: &toml::Table, version: &Version) -> Verdict {
    let advisory = table.get("advisory").and_then(|a| a.as_table());
    let field = |key| advisory.and_then(|a| a.get(key)).and_then(|v| v.as_str());
    let withdrawn = advisory.is_some_and(|a| a.contains_key("withdrawn"));
    if withdrawn || listed(table, "patched", version) || listed(table, "unaffected", version) {
        return Verdict::Clear;
    }
    let id = field("id").unwrap_or("an advisory without id").to_owned();
    match field("informational") {
        Some(kind) if kind != "unsound" => Verdict::Notice(format!("{id} ({kind})")),
        _ => Verdict::Vulnerable(id),
    }
}

fn advisories(database: &Path, package: &str) -> Vec<toml::Table> {
    let folder = std::fs::read_dir(database.join("crates").join(package));
    let files = folder.into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter_map(|path| front_matter(&std::fs::read_to_string(path).ok()?)).collect()
}

fn database() -> Option<PathBuf> {
    std::env::var_os("FRAMEWIRE_ADVISORIES")
        .map(PathBuf::from)
        .filter(|folder| folder.join("crates").is_dir())
}

#[test]
fn no_dependency_is_known_to_be_vulnerable() {
    let Some(database) = database() else {
        println!("skipped: FRAMEWIRE_ADVISORIES names no advisory database");
        return;
    };
    let mut vulnerable = Vec::new();
    for package in tree::items(&tree::resolved()["packages"]) {
        let (name, text) = (tree::field(package, "name"), tree::field(package, "version"));
        let version = Version::parse(text).expect("cargo's versions are semantic");
        for advisory in advisories(&database, name) {
            match judge(&advisory, &version) {
                Verdict::Clear => {}
                Verdict::Notice(what) => println!("note: {name} {version}: {what}"),
                Verdict::Vulnerable(id) => {
                    vulnerable.push(format!("{name} {version}: {id}; `cargo update -p {name}`"))
                }
            }
        }
    }
    tree::expect_none("known vulnerabilities (https://rustsec.org/advisories)", &vulnerable);
}

#[test]
fn versions_are_judged_by_what_is_patched() {
    let text = "```toml\n[advisory]\nid = \"RUSTSEC-2020-0001\"\npackage = \"x\"\n[versions]\n\
                patched = [\">= 1.2.3\"]\nunaffected = [\"< 1.0.0\"]\n```\n# Words\n";
    let judge_at = |text: &str, version: &str| judge(&front_matter(text).unwrap(), &version.parse().unwrap());
    assert_eq!(judge_at(text, "1.2.2"), Verdict::Vulnerable("RUSTSEC-2020-0001".to_owned()));
    assert_eq!(judge_at(text, "1.2.3"), Verdict::Clear);
    assert_eq!(judge_at(text, "0.9.0"), Verdict::Clear);
    let notice = text.replace("package", "informational = \"unmaintained\"\npackage");
    assert_eq!(judge_at(&notice, "1.0.0"), Verdict::Notice("RUSTSEC-2020-0001 (unmaintained)".to_owned()));
    assert_eq!(
        judge_at(&text.replace("package", "withdrawn = \"2021-01-01\"\npackage"), "1.0.0"),
        Verdict::Clear
    );
}
