//! A run is a function of scenario, seed and commit. So no crate that runs in virtual time names an
//! operating-system clock, a source of randomness that nobody seeded, or a collection whose order changes
//! from run to run. Clippy forbids the calls; this scan forbids the very names, in tests too, where clippy
//! would need the crate to compile first.

use crate::tree;

/// Crates that face the world outside and may ask it for the time, and an example of a host's own loop. They
/// still may not iterate hash maps.
const WORLDLY: [&str; 5] = [
    "crates/real/",
    "crates/instruments/",
    "crates/cli/",
    "crates/house/",
    "crates/framewire/examples/embed.rs",
];

/// quinn and smoltcp are told the time as instants, so one file each turns those into our times; clippy still
/// forbids to ask for them.
const NAMES_INSTANTS: [&str; 2] = ["crates/quic/src/clock.rs", "crates/smol/src/clock.rs"];

const CLOCKS_AND_CHANCE: [&str; 7] =
    ["Instant", "SystemTime", "thread_rng", "getrandom", "from_entropy", "OsRng", "RandomState"];
const UNORDERED: [&str; 2] = ["HashMap", "HashSet"];

/// Source with comments and the contents of string and character literals blanked out; lines keep their
/// numbers.
pub fn code_only(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest),
            'r' if !ends_in_word(&out) => raw_string(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.push(' ');
            out.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
            rest = &rest[skipped..];
        }
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn quoted(text: &str) -> usize {
    let mut escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return at + 1,
            _ => escaped = at > 0 && byte == b'\\' && !escaped,
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|&byte| byte == b'#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = body.find(&format!("\"{}", "#".repeat(hashes)))?;
    Some(2 + hashes + end + 1 + hashes)
}

/// The length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first != '\\' {
        return chars.next().filter(|&(_, c)| c == '\'').map(|(at, _)| at + 1);
    }
    chars.next()?;
    chars.find(|&(_, c)| c == '\'').map(|(at, _)| at + 1)
}

/// Lines of `code` that contain one of `words` as a whole word, with the word.
pub fn lines_with<'a>(code: &str, words: &'a [&'a str]) -> Vec<(usize, &'a str)> {
    let has =
        |line: &str, word: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word);
    let hits = |(number, line): (usize, &str)| {
        words.iter().filter(|word| has(line, word)).map(|word| (number + 1, *word)).collect::<Vec<_>>()
    };
    code.lines().enumerate().flat_map(hits).collect()
}

fn violations(path: &str, source: &str) -> Vec<String> {
    let code = code_only(source);
    let worldly = WORLDLY.iter().any(|folder| path.starts_with(folder));
    let mut clocks = if worldly { Vec::new() } else { lines_with(&code, &CLOCKS_AND_CHANCE) };
    clocks.retain(|(_, word)| !NAMES_INSTANTS.contains(&path) || *word != "Instant");
    let unordered = lines_with(&code, &UNORDERED);
    let named = clocks.into_iter().chain(unordered);
    let mut found: Vec<_> = named.map(|(line, word)| format!("{path}:{line} names {word}")).collect();
    if !worldly && code.contains("rand::random") {
        found.push(format!("{path} draws random numbers nobody seeded"));
    }
    found
}

#[test]
fn runs_depend_on_scenario_seed_and_commit_alone() {
    let sources: Vec<_> =
        tree::sources().into_iter().filter(|file| file.path.starts_with("crates/")).collect();
    assert!(sources.iter().any(|file| file.path == "crates/units/src/rng.rs"), "no sources found");
    let found = sources.iter().flat_map(|file| violations(&file.path, &file.text)).collect::<Vec<_>>();
    tree::expect_none("clocks, chance or unordered collections", &found);
}

#[test]
fn code_is_seen_and_prose_is_not() {
    let source = concat!(
        "// HashMap\nlet a = \"HashMap \\\" HashMap\"; /* HashMap /* nested */ HashMap */ let b = '\"';\n",
        "let c = r#\"HashMap\"#; fn f<'a>(x: &'a str) {}\nuse std::collections::HashMap; let d = '\\'';\n",
        "let my_HashMap_like = 1; let for_ = \"\n\n\"; SystemTime::now();\n"
    );
    assert_eq!(
        violations("crates/x/src/a.rs", source),
        ["crates/x/src/a.rs:7 names SystemTime", "crates/x/src/a.rs:4 names HashMap"]
    );
    assert_eq!(violations("crates/real/src/a.rs", source), ["crates/real/src/a.rs:4 names HashMap"]);
    assert_eq!(violations("crates/x/src/b.rs", "let x: u8 = rand::random();").len(), 1);
}
