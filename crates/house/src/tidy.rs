//! Nothing half-done and nothing that only one machine understands.

use crate::determinism::code_only;
use crate::tree;

/// Longer files have become two.
const MOST_LINES: usize = 600;
/// And longer functions.
const MOST_LINES_OF_A_FUNCTION: usize = 80;
/// A change is one line of the changelog, of at most so many characters.
const MOST_OF_A_CHANGE: usize = 200;

// Spelt in halves, so that this file passes its own rules.
const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const UNFINISHED_CODE: [&str; 3] = ["todo!", "unimplemented!", "#[ignore"];
const FOLDERS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
const DATA: &str = concat!("../sha", "red");
const DATA_VARIABLE: &str = "FRAMEWIRE_DATA";

/// Whether `line` holds an absolute path into a folder that only some machines have.
fn has_local_path(line: &str) -> bool {
    FOLDERS.iter().any(|folder| {
        line.match_indices(folder).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + folder.len()..].chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || "_.".contains(c))
                && after.is_some_and(|c| c.is_ascii_lowercase() || c == '.')
        })
    })
}

/// The data folder beside the checkout may be named where, and only where, the variable that overrides it is.
fn stray_data(lines: &[&str], at: usize) -> bool {
    let near = &lines[at.saturating_sub(8)..lines.len().min(at + 9)];
    lines[at].contains(DATA) && !near.iter().any(|line| line.contains(DATA_VARIABLE))
}

/// The width that rustfmt keeps code to.
fn width() -> usize {
    let settings = include_str!("../../../rustfmt.toml");
    let width = settings.lines().find_map(|line| line.strip_prefix("max_width = "));
    width.and_then(|width| width.trim().parse().ok()).expect("rustfmt.toml has a max_width")
}

/// Lines of comments in prose that are wider than code may be. Tables and drawings need their width, and have
/// it.
fn wide_comments(text: &str) -> Vec<usize> {
    let (most, mut drawing) = (width(), false);
    let wide = |(number, line): (usize, &str)| {
        let said = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
        drawing ^= said.starts_with("```");
        (line.chars().count() > most && !drawing && !said.starts_with('|')).then_some(number)
    };
    (1..).zip(text.lines()).filter_map(wide).collect()
}

/// A function in a source file: the line it begins on, and lines from its name to its last brace.
struct Function {
    name: String,
    at: usize,
    lines: usize,
}

/// Where the body after a function's head begins, if there is one; a semicolon within brackets is of an
/// array's type.
fn begin_of_body(head: &str) -> Option<usize> {
    let mut brackets = 0;
    let (at, c) = head.char_indices().find(|&(_, c)| {
        brackets += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        brackets == 0 && "{;".contains(c)
    })?;
    (c == '{').then_some(at)
}

/// The functions with a body in source that has neither comments nor strings.
fn functions(code: &str) -> Vec<Function> {
    let begins = |at: usize| at == 0 || !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let found = code.match_indices("fn ").filter(|(at, _)| begins(*at)).filter_map(|(at, _)| {
        let rest = &code[at + 3..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let body = begin_of_body(rest).filter(|_| !name.is_empty())?;
        let mut depth = 0;
        let end = rest[body..].char_indices().find_map(|(at, c)| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            (depth == 0).then_some(body + at)
        })?;
        let lines = |text: &str| text.matches('\n').count() + 1;
        Some(Function { name, at: lines(&code[..at]), lines: lines(&rest[..end]) })
    });
    found.collect()
}

fn violations(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut refuse = |what: &str| found.push(format!("{path}:{} {what}", index + 1));
        if UNFINISHED_WORDS.iter().any(|word| line.contains(word)) {
            refuse("has something left to do");
        }
        if has_local_path(line) {
            refuse("holds a path of one machine");
        }
        if stray_data(&lines, index) {
            refuse("names the data folder outside its lookup");
        }
    }
    if path.ends_with(".rs") {
        let code = code_only(text);
        found
            .extend(UNFINISHED_CODE.iter().filter(|w| code.contains(**w)).map(|w| format!("{path} has {w}")));
        found.extend(functions(&code).into_iter().filter(|f| f.lines > MOST_LINES_OF_A_FUNCTION).map(|f| {
            format!(
                "{path}:{} `{}` has {} lines, more than {MOST_LINES_OF_A_FUNCTION}",
                f.at, f.name, f.lines
            )
        }));
        let wide = wide_comments(text).into_iter();
        found.extend(wide.map(|at| format!("{path}:{at} is a comment wider than {}", width())));
        if lines.len() > MOST_LINES {
            found.push(format!("{path} has {} lines, more than {MOST_LINES}", lines.len()));
        }
    }
    found
}

/// Lines of a changelog that are neither a heading, nor blank, nor one change in one line. Above the first
/// release the page says what it is.
fn long_changes(page: &str) -> Vec<usize> {
    let lines = (1..).zip(page.lines()).skip_while(|(_, line)| !line.starts_with("## "));
    let fine = |line: &str| {
        line.is_empty()
            || line.starts_with("## ")
            || line.starts_with("* ") && line.chars().count() <= MOST_OF_A_CHANGE
    };
    lines.filter(|(_, line)| !fine(line)).map(|(number, _)| number).collect()
}

#[test]
fn a_change_is_one_line() {
    let page = include_str!("../../../CHANGELOG.md");
    assert!(page.contains("\n* "), "there are no changes");
    let long = long_changes(page).into_iter();
    tree::expect_none(
        "changes that take more than a line",
        &long.map(|at| format!("CHANGELOG.md:{at}")).collect::<Vec<_>>(),
    );
    let long = format!("# C\n\nText.\n\n## 1\n\n* a\n  more\n* {}\n", "x".repeat(MOST_OF_A_CHANGE));
    assert_eq!(long_changes(&long), [8, 9]);
}

#[test]
fn nothing_is_half_done_or_local() {
    let found: Vec<_> = tree::texts().iter().flat_map(|file| violations(&file.path, &file.text)).collect();
    tree::expect_none("untidy", &found);
}

#[test]
fn every_crate_takes_the_workspace_lints_and_licence() {
    let manifests = tree::texts().into_iter();
    let manifests = manifests.filter(|f| f.path.starts_with("crates/") && f.path.ends_with("/Cargo.toml"));
    let lacking = manifests.filter_map(|file| {
        let fine =
            file.text.contains("[lints]\nworkspace = true") && file.text.contains("license.workspace = true");
        (!fine).then(|| format!("{} does not inherit the workspace's lints and licence", file.path))
    });
    tree::expect_none("manifests", &lacking.collect::<Vec<_>>());
}

#[test]
fn each_kind_of_untidiness_is_seen() {
    let work = FOLDERS[0];
    assert_eq!(violations("a.md", &format!("see {work}notes"))[0], "a.md:1 holds a path of one machine");
    assert!(violations("a.md", &format!("https://example.org{work}notes and {work}")).is_empty());
    assert_eq!(violations("a.rs", &format!("// {}: later", UNFINISHED_WORDS[0])).len(), 1);
    assert_eq!(violations("a.rs", "fn f() { todo!() }"), ["a.rs has todo!"]);
    assert_eq!(violations("a.rs", "#[ignore = \"slow\"]"), ["a.rs has #[ignore"]);
    assert_eq!(violations("a.rs", &"\n".repeat(601)), ["a.rs has 601 lines, more than 600"]);
    let long =
        |lines: usize| format!("trait T {{ fn f(); }}\nfn g(x: [u8; 2]) {{ {}}}", "{}\n".repeat(lines));
    assert_eq!(violations("a.rs", &long(80)), ["a.rs:2 `g` has 81 lines, more than 80"]);
    assert!(violations("a.rs", &long(79)).is_empty());
    let wide = format!("/// {}", "word ".repeat(22));
    assert_eq!(violations("a.rs", &wide), ["a.rs:1 is a comment wider than 110"]);
    assert!(violations("a.rs", &format!("//! ```text\n{wide}\n//! ```")).is_empty());
    assert_eq!(violations("a.rs", &format!("\"{DATA}/data\"")).len(), 1);
    assert!(violations("a.rs", &format!("var(\"{DATA_VARIABLE}\")\n\"{DATA}/data\"")).is_empty());
}
