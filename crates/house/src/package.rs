//! Every crate can be packed and built from its package: its manifest says what a registry asks for, and its
//! code includes nothing from outside its folder.

use std::path::{Component, Path};

use serde_json::Value;

use crate::determinism::code_only;
use crate::tree;

/// What a package's manifest lacks for a registry to take it.
fn lacking(package: &Value) -> Vec<String> {
    let name = tree::field(package, "name");
    let mut found = Vec::new();
    for key in ["description", "license", "rust_version"] {
        if tree::field(package, key).is_empty() {
            found.push(format!("{name} has no {key}"));
        }
    }
    // Those for tests alone are left out of a package where they name no version.
    let ours = tree::items(&package["dependencies"]).iter().filter(|dependency| {
        !tree::field(dependency, "path").is_empty() && tree::field(dependency, "kind") != "dev"
    });
    let open = ours.filter(|dependency| tree::field(dependency, "req") == "*");
    found.extend(
        open.map(|dependency| format!("{name} names no version of {}", tree::field(dependency, "name"))),
    );
    found
}

/// Where `include_str!` and `include_bytes!` lead, seen from the source's folder, outside its tests.
fn included(text: &str) -> Vec<&str> {
    let code = code_only(text);
    // Strings are blanked out in `code`, line for line: what is left of a call there is one.
    let calls = text.lines().zip(code.lines());
    let calls = calls.take_while(|(_, code)| !code.starts_with("#[cfg(test)]"));
    calls
        .filter(|(_, code)| ["include_str!(", "include_bytes!("].iter().any(|call| code.contains(call)))
        .filter_map(|(line, _)| line.split("include_").nth(1)?.split('"').nth(1))
        .collect()
}

/// Whether `target`, seen from the folder of the file at `path`, lies outside that file's crate
/// (`crates/NAME`).
fn leaves(path: &str, target: &str) -> bool {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut parts: Vec<_> = Vec::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_owned()),
            _ => {}
        }
    }
    let own: Vec<_> = Path::new(path).iter().take(2).collect();
    parts.len() < own.len() || parts.iter().zip(&own).any(|(part, own)| part != own)
}

/// Sources that a package is built from: not its tests, and none of this crate, which is nothing but tests.
fn is_built(path: &str) -> bool {
    path.starts_with("crates/")
        && !path.starts_with("crates/house/")
        && !path.contains("/tests/")
        && !path.ends_with("/tests.rs")
}

#[test]
fn every_crate_says_what_a_registry_asks_for() {
    let metadata = tree::metadata(&["--no-deps"]).expect("cargo metadata works without the network");
    let packages = tree::items(&metadata["packages"]);
    assert!(packages.len() > 10, "cargo saw no workspace");
    tree::expect_none("manifests of packages", &packages.iter().flat_map(lacking).collect::<Vec<_>>());
}

#[test]
fn no_crate_includes_what_lies_outside_it() {
    let sources = tree::sources().into_iter().filter(|file| is_built(&file.path));
    let found = sources.flat_map(|file| {
        let out: Vec<_> =
            included(&file.text).into_iter().filter(|target| leaves(&file.path, target)).collect();
        out.into_iter().map(|target| format!("{} includes {target}", file.path)).collect::<Vec<_>>()
    });
    tree::expect_none("files that a package lacks", &found.collect::<Vec<_>>());
}

#[test]
fn what_a_package_lacks_is_named() {
    let package = serde_json::json!({
        "name": "a", "description": "A", "license": null, "rust_version": "1.91",
        "dependencies": [
            { "name": "b", "path": "b", "req": "*", "kind": null },
            { "name": "c", "path": "c", "req": "^0.1.0", "kind": null },
            { "name": "d", "path": "d", "req": "*", "kind": "dev" },
        ],
    });
    assert_eq!(lacking(&package), ["a has no license", "a names no version of b"]);
    let source = "const A: &str = include_str!(\"../a.md\");\n// include_str!(\"b.md\")\n#[cfg(test)]\nmod tests {\n    include_str!(\"c.md\")\n}";
    assert_eq!(included(source), ["../a.md"]);
    assert!(
        !leaves("crates/a/src/b.rs", "../tables/c.json") && leaves("crates/a/src/b.rs", "../../b/src/c.rs")
    );
    assert!(leaves("crates/a/src/b/c.rs", "../../../../docs/d.md") && !leaves("crates/a/build.rs", "e.md"));
    assert!(is_built("crates/a/src/b.rs") && !is_built("crates/a/src/b/tests.rs"));
}
