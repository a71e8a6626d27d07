//! Who may import whom. The rule is the block of arrows in `ARCHITECTURE.md` itself, so that the picture and
//! the law cannot drift apart: a line `a, b -> c d` lets `a` and `b` import `c` and `d`; `*` stands for every
//! crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Rooms that run in any world: not even their tests may reach up to these.
const LOW: [&str; 6] = ["units", "wire", "cc", "media", "record", "netsim"];
const HIGH: [&str; 6] = ["lab", "report", "experiments", "cli", "real", "instruments"];

/// One crate importing another.
struct Import {
    from: String,
    to: String,
    dev: bool,
}

/// `framewire-units` is the room `units`; `framewire` itself, the library, is the room `framewire`.
fn room(package: &str) -> String {
    match package.strip_prefix("framewire") {
        Some(rest) if !rest.is_empty() => rest.trim_start_matches('-').to_owned(),
        _ => package.to_owned(),
    }
}

fn allowed(page: &str) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, to) in page.lines().filter_map(|line| line.split_once("->")) {
        for name in from.split(',') {
            let targets = to.split_whitespace().map(str::to_owned);
            arrows.entry(name.trim().to_owned()).or_default().extend(targets);
        }
    }
    arrows
}

/// The first fenced block after the heading that starts with `## Arrows`.
fn arrow_block(page: &str) -> Option<&str> {
    let (_, section) = page.split_once("## Arrows")?;
    section.split("```").nth(1)
}

fn violation(arrows: &Arrows, import: &Import) -> Option<String> {
    let Import { from, to, dev } = import;
    if *dev {
        let upward = LOW.contains(&from.as_str()) && HIGH.contains(&to.as_str());
        return upward.then(|| format!("{from} tests itself with {to}, which lies above it"));
    }
    let known = arrows.get(from);
    let fine = known.is_some_and(|to_set| to_set.contains(to) || to_set.contains("*"));
    (!fine).then(|| format!("{from} -> {to} is no arrow of ARCHITECTURE.md"))
}

/// Arrows that no crate needs: what `ARCHITECTURE.md` lists and cargo does not know of. `*` stands for
/// whatever there is.
fn idle(arrows: &Arrows, imports: &[Import]) -> Vec<String> {
    let used = |from: &str, to: &str| {
        to == "*" || imports.iter().any(|import| !import.dev && (import.from == from && import.to == to))
    };
    let listed = arrows.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (from, to)));
    let idle = listed.filter(|(from, to)| !used(from, to));
    idle.map(|(from, to)| {
        format!("{from} -> {to} stands in ARCHITECTURE.md, and {from} does not import {to}")
    })
    .collect()
}

fn imports() -> (Vec<String>, Vec<Import>) {
    let metadata = tree::metadata(&["--no-deps"]).expect("cargo metadata works without the network");
    let packages = tree::items(&metadata["packages"]);
    let rooms = packages.iter().map(|package| room(tree::field(package, "name"))).collect();
    let of = |package: &serde_json::Value| {
        let from = room(tree::field(package, "name"));
        let own = tree::items(&package["dependencies"]).iter().filter(|d| !tree::field(d, "path").is_empty());
        own.map(|dependency| Import {
            from: from.clone(),
            to: room(tree::field(dependency, "name")),
            dev: tree::field(dependency, "kind") == "dev",
        })
        .collect::<Vec<_>>()
    };
    (rooms, packages.iter().flat_map(of).collect())
}

#[test]
fn imports_follow_the_arrows() {
    let page =
        std::fs::read_to_string(tree::root().join("ARCHITECTURE.md")).expect("there is an ARCHITECTURE.md");
    let arrows = allowed(arrow_block(&page).expect("ARCHITECTURE.md has a block of arrows"));
    let (rooms, imports) = imports();
    assert!(rooms.contains(&"units".to_owned()) && !imports.is_empty(), "cargo saw no workspace");
    let unknown = rooms.iter().filter(|room| !arrows.contains_key(*room));
    let unknown = unknown.map(|room| format!("{room} has no line in ARCHITECTURE.md's arrows"));
    let broken = imports.iter().filter_map(|import| violation(&arrows, import));
    tree::expect_none("imports outside the arrows", &unknown.chain(broken).collect::<Vec<_>>());
}

#[test]
fn every_arrow_is_used() {
    let page =
        std::fs::read_to_string(tree::root().join("ARCHITECTURE.md")).expect("there is an ARCHITECTURE.md");
    let arrows = allowed(arrow_block(&page).expect("ARCHITECTURE.md has a block of arrows"));
    tree::expect_none("arrows that nothing uses", &idle(&arrows, &imports().1));
}

#[test]
fn an_idle_arrow_is_named() {
    let arrows = allowed("cc, wire -> units\ncli -> *\n");
    let import = |dev| Import { from: "wire".to_owned(), to: "units".to_owned(), dev };
    let said = |room| format!("{room} -> units stands in ARCHITECTURE.md, and {room} does not import units");
    assert_eq!(idle(&arrows, &[import(false)]), [said("cc")]);
    assert_eq!(idle(&arrows, &[import(true)]), [said("cc"), said("wire")]);
}

#[test]
fn a_forbidden_import_is_named() {
    let arrows = allowed("cc, wire -> units\nnetsim -> wire\ncli -> *\n");
    let import = |from: &str, to: &str, dev| Import { from: from.to_owned(), to: to.to_owned(), dev };
    let judge = |from, to, dev| violation(&arrows, &import(from, to, dev));
    assert_eq!(judge("cc", "units", false), None);
    assert_eq!(judge("cli", "netsim", false), None);
    assert_eq!(judge("netsim", "cc", false).unwrap(), "netsim -> cc is no arrow of ARCHITECTURE.md");
    assert_eq!(judge("units", "wire", false).unwrap(), "units -> wire is no arrow of ARCHITECTURE.md");
    assert_eq!(judge("session", "netsim", true), None);
    assert_eq!(judge("cc", "lab", true).unwrap(), "cc tests itself with lab, which lies above it");
}
