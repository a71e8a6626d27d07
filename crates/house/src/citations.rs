//! What a comment or a page cites is there: no page, and no source file with its folder, that the repository
//! does not hold.

use std::collections::BTreeSet;

use crate::tree;

/// These rules make up names.
const LEFT_OUT: [&str; 1] = ["crates/house/"];
/// What a page tells its reader to write.
const TO_BE_WRITTEN: [&str; 1] = ["crates/cc/src/aimd.rs"];

/// What a line says to its reader: of Rust the comment, of pages everything.
fn prose<'a>(path: &str, line: &'a str) -> &'a str {
    match path.ends_with(".rs") {
        true => line.find("//").map_or("", |at| &line[at..]),
        false => line,
    }
}

/// Names of files in a line: pages (`x.md`), and sources with a folder before them (`cc/x.rs`). Addresses of
/// other hosts are not meant, nor are patterns such as `NAME.md`.
fn cited(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
    line.split(move |c| !is_part(c)).filter_map(|word| {
        let word = word.trim_matches(|c| ".:-/".contains(c));
        let name = word.rsplit('/').next().unwrap_or_default();
        let stem =
            name.strip_suffix(".md").or_else(|| name.strip_suffix(".rs").filter(|_| word.contains('/')))?;
        let pattern = !stem.contains(|c: char| c.is_ascii_lowercase()) && !KNOWN_BY_CAPITALS.contains(&stem);
        let elsewhere = word.contains(':') || stem.is_empty();
        (!pattern && !elsewhere).then_some(word)
    })
}

/// Pages whose names are written in capitals; other such names stand for any name.
const KNOWN_BY_CAPITALS: [&str; 5] = ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SOURCES"];

/// Whether the repository holds a file whose path ends so, folder by folder.
fn is_held(paths: &BTreeSet<String>, word: &str) -> bool {
    let word = word.trim_start_matches("../").trim_start_matches("./");
    paths.iter().any(|path| {
        path == word || path.ends_with(&format!("/{word}")) || inner(path).ends_with(&format!("/{word}"))
    })
}

/// A source's path without the folder `src`, as people say it: `session/assembly.rs`.
fn inner(path: &str) -> String {
    path.replace("/src/", "/")
}

#[test]
fn what_is_cited_is_there() {
    let texts = tree::texts();
    let paths: BTreeSet<String> = texts.iter().map(|file| file.path.clone()).collect();
    let spoken = |path: &str| [".rs", ".md", ".toml", ".ts"].iter().any(|ending| path.ends_with(ending));
    let mut dead = Vec::new();
    for file in texts
        .iter()
        .filter(|file| spoken(&file.path) && !LEFT_OUT.iter().any(|folder| file.path.starts_with(folder)))
    {
        for (number, line) in (1..).zip(file.text.lines()) {
            let words = cited(prose(&file.path, line))
                .filter(|word| !is_held(&paths, word) && !TO_BE_WRITTEN.contains(word));
            dead.extend(words.map(|word| format!("{}:{number} cites {word}, which is not there", file.path)));
        }
    }
    tree::expect_none("citations that lead nowhere", &dead);
}

#[test]
fn citations_are_found_and_patterns_are_not() {
    let found = |line: &'static str| cited(line).collect::<Vec<_>>();
    assert_eq!(found("// links.md section 1; see `docs/grid.md`."), ["links.md", "docs/grid.md"]);
    assert_eq!(found("(`crates/cc/src/NAME.rs`, lib.rs) and README.md"), ["README.md"]);
    assert_eq!(found("https://example.org/a/b.md"), [""; 0]);
    let paths = BTreeSet::from(["crates/session/src/assembly.rs".to_owned(), "docs/grid.md".to_owned()]);
    assert!(
        is_held(&paths, "session/assembly.rs") && is_held(&paths, "grid.md") && !is_held(&paths, "rid.md")
    );
    assert_eq!(prose("a.rs", "let x = \"y.md\"; // z.md"), "// z.md");
}
