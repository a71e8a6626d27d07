//! Documentation that points to a file points to one that exists, and to a heading that it has.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use crate::tree;

/// Targets of `[text](target)` and `![text](target)` outside fenced code, without anchors; links to elsewhere
/// are left out.
fn relative_links(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    let targets =
        prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split([')', ' ']).next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with(['#', '<']));
    local
        .filter(|target| !target.starts_with("mailto:"))
        .filter_map(|target| target.split('#').next())
        .collect()
}

fn broken(path: &str, page: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
    let dead = relative_links(page).into_iter().filter(|target| !exists(&folder.join(target)));
    dead.map(|target| format!("{path} links to {target}, which does not exist")).collect()
}

/// Links with an anchor, outside fenced code and to pages of ours: the page (empty: the same), the heading.
fn anchors(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let prose = page.split("```").step_by(2);
    let targets =
        prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split([')', ' ']).next());
    let ours = targets.filter(|target| !target.contains("://")).filter_map(|target| target.split_once('#'));
    ours.filter(|(file, _)| file.is_empty() || file.ends_with(".md"))
}

/// The anchors that GitHub makes of a page's headings: lower case, without punctuation, hyphens for blanks.
fn headings(page: &str) -> Vec<String> {
    let prose = page.split("```").step_by(2).flat_map(str::lines);
    let titles = prose.filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    titles
        .map(|title| title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Links of the page at `path` to a heading that the page they name, of all `pages`, lacks.
fn astray(path: &str, pages: &BTreeMap<String, String>) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let lost = anchors(&pages[path]).filter(|(file, heading)| {
        let page = if file.is_empty() { path.to_owned() } else { plain(&folder.join(file)) };
        pages.get(&page).is_some_and(|text| !headings(text).iter().any(|known| known == heading))
    });
    lost.map(|(file, heading)| format!("{path} links to {file}#{heading}, a heading that is not there"))
        .collect()
}

#[test]
fn every_anchor_is_a_heading() {
    let pages = tree::texts().into_iter().filter(|file| file.path.ends_with(".md"));
    let pages: BTreeMap<_, _> = pages.map(|file| (file.path, file.text)).collect();
    let lost: Vec<_> = pages.keys().flat_map(|path| astray(path, &pages)).collect();
    tree::expect_none("links to headings", &lost);
}

#[test]
fn a_lost_heading_is_named() {
    let page = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let pages = BTreeMap::from([
        page("docs/a.md", "# A\n[b](b.md#the-papers-f-1) [c](b.md#lost) [up](../c.md#c) [here](#a)"),
        page("docs/b.md", "## The paper's `F` (1)\n"),
        page("c.md", "# C\n"),
    ]);
    assert_eq!(astray("docs/a.md", &pages), ["docs/a.md links to b.md#lost, a heading that is not there"]);
}

#[test]
fn every_relative_link_leads_somewhere() {
    let root = tree::root();
    let pages: Vec<_> = tree::texts().into_iter().filter(|file| file.path.ends_with(".md")).collect();
    assert!(pages.iter().any(|file| file.path == "README.md"), "there is no README.md");
    let dead = pages.iter().flat_map(|file| broken(&file.path, &file.text, |path| root.join(path).exists()));
    tree::expect_none("dead links", &dead.collect::<Vec<_>>());
}

#[test]
fn a_dead_link_is_named() {
    let page = "[a](b.md#x) ![p](images/p.png) [w](https://x.org/y) [s](#here)\n```\n[c](code.md)\n```\n[d](../up.md)";
    assert_eq!(relative_links(page), ["b.md", "images/p.png", "../up.md"]);
    let found = broken("docs/a.md", page, |path| path == Path::new("docs/b.md") || path.ends_with("up.md"));
    assert_eq!(found, ["docs/a.md links to images/p.png, which does not exist"]);
}
