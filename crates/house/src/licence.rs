//! Every dependency's licence lets us pass the whole on. A licence is an SPDX expression: `OR` leaves us the
//! choice, `AND` binds us to both, and an exception added by `WITH` only ever allows more.

use crate::tree;

/// Licences a dependency may carry: permissive ones, and MPL-2.0, which asks for changes to its own files
/// only.
const ALLOWED: [&str; 12] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MPL-2.0",
    "Zlib",
    "Unicode-3.0",
    "0BSD",
    "CC0-1.0",
    "Unlicense",
    "BSL-1.0",
];

/// A reader of SPDX expressions that computes whether what it reads is acceptable.
struct Expression<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
}

impl<'a> Expression<'a> {
    fn new(words: Vec<&'a str>) -> Expression<'a> {
        Expression { words: words.into_iter().peekable() }
    }

    fn follows(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    fn either(&mut self) -> Option<bool> {
        let mut fine = self.both()?;
        while self.follows("OR") || self.follows("/") {
            fine |= self.both()?;
        }
        Some(fine)
    }

    fn both(&mut self) -> Option<bool> {
        let mut fine = self.one()?;
        while self.follows("AND") {
            fine &= self.one()?;
        }
        Some(fine)
    }

    fn one(&mut self) -> Option<bool> {
        if self.follows("(") {
            let fine = self.either()?;
            return self.follows(")").then_some(fine);
        }
        let name = self.words.next().filter(|word| !["OR", "AND", "WITH", ")", "/"].contains(word))?;
        if self.follows("WITH") {
            self.words.next()?;
        }
        // `MPL-2.0+`: that version or a later one, as we like.
        Some(ALLOWED.contains(&name.strip_suffix('+').unwrap_or(name)))
    }
}

/// Whether the expression leaves us a choice we may take; `None` if it is not an SPDX expression.
fn acceptable(expression: &str) -> Option<bool> {
    // Older manifests write `MIT/Apache-2.0` for a choice.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " / ");
    let mut reader = Expression::new(spaced.split_whitespace().collect());
    let verdict = reader.either()?;
    reader.words.next().is_none().then_some(verdict)
}

fn refusal(name: &str, version: &str, licence: &str) -> Option<String> {
    let why = match (licence, acceptable(licence)) {
        ("", _) => "states no licence".to_owned(),
        (_, Some(true)) => return None,
        (_, Some(false)) => format!("is under {licence}"),
        (_, None) => format!("is under `{licence}`, which is no SPDX expression"),
    };
    Some(format!("{name} {version} {why}; allowed are {}", ALLOWED.join(", ")))
}

#[test]
fn every_dependency_may_be_passed_on() {
    let metadata = tree::resolved();
    let packages = tree::items(&metadata["packages"]);
    assert!(
        packages.iter().any(|package| tree::field(package, "name") == "serde_json"),
        "cargo saw no graph"
    );
    let field = |package, key| tree::field(package, key);
    let refused =
        packages.iter().filter_map(|p| refusal(field(p, "name"), field(p, "version"), field(p, "license")));
    tree::expect_none("licences we may not pass on", &refused.collect::<Vec<_>>());
    println!("licences of {} packages are fine", packages.len());
}

#[test]
fn expressions_are_read_by_spdx_rules() {
    for fine in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
        "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
    ] {
        assert_eq!(acceptable(fine), Some(true), "{fine}");
    }
    for refused in
        ["GPL-3.0-only", "MIT AND GPL-3.0-only", "MIT AND (GPL-2.0-only OR AGPL-3.0-only)", "SSPL-1.0"]
    {
        assert_eq!(acceptable(refused), Some(false), "{refused}");
    }
    for broken in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "AND MIT", "MIT)", "Apache-2.0 WITH"] {
        assert_eq!(acceptable(broken), None, "{broken}");
    }
}

#[test]
fn a_refusal_names_crate_version_licence_and_what_would_do() {
    let message = refusal("leftpad", "1.0.0", "GPL-3.0-only").unwrap();
    assert!(
        message.starts_with("leftpad 1.0.0 is under GPL-3.0-only; allowed are MIT, Apache-2.0,"),
        "{message}"
    );
    assert!(refusal("nameless", "0.1.0", "").unwrap().starts_with("nameless 0.1.0 states no licence"));
}
