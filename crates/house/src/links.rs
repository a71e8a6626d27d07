//! Documentation that points to a file points to one that exists.

use std::path::Path;

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
