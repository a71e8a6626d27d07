//! Scenario errors: one line that names file, line, field and what would be accepted.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

/// A scenario that could not be read. Displays as `file:line: field: what is wrong`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, as given.
    pub file: PathBuf,
    /// The line, from 1; `None` where the file could not be read at all.
    pub line: Option<usize>,
    /// The field, for example `link.delay` or `flow[2].cc`; empty where the trouble is with the whole file.
    pub field: String,
    /// What is wrong with it, and what would be accepted.
    pub what: String,
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// A field that makes no sense, found after parsing. `field` is a path as [`ScenarioError::field`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub field: String,
    pub what: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, what: impl Into<String>) -> Problem {
        Problem { field: field.into(), what: what.into() }
    }

    /// Pins the problem to the line of `text` that holds its field, or the closest table around it.
    pub fn locate(self, file: PathBuf, text: &str) -> ScenarioError {
        let line = fields(text)
            .into_iter()
            .filter(|field| self.field == field.path || self.field.starts_with(&format!("{}.", field.path)))
            .max_by_key(|field| field.path.len())
            .map_or(1, |field| line_of(text, field.span.start));
        ScenarioError { file, line: Some(line), field: self.field, what: self.what }
    }
}

/// What serde or the TOML parser found, with the field it stumbled over; or the field that the message begins
/// with, where it took more than one to see what is wrong.
pub(super) fn from_toml(file: PathBuf, text: &str, error: &toml::de::Error) -> ScenarioError {
    let fields = fields(text);
    if let Some((path, what)) = error.message().split_once(": ")
        && fields.iter().any(|field| field.path == path)
    {
        return Problem::new(path, what).locate(file, text);
    }
    let span = error.span().unwrap_or(0..0);
    let around = fields
        .into_iter()
        .filter(|field| field.span.start <= span.start && span.end <= field.span.end)
        .min_by_key(|field| (field.span.len(), std::cmp::Reverse(field.path.len())));
    let field = around.map_or(String::new(), |field| field.path);
    let what = plainly(&error.message().trim().lines().collect::<Vec<_>>().join(", "));
    ScenarioError { file, line: Some(line_of(text, span.start)), field, what }
}

/// serde's words for people who know TOML and not Rust: types by what is written, and of a name that there is
/// not what was meant.
pub fn plainly(message: &str) -> String {
    if let Some((before, expected)) = message.split_once(", expected ") {
        let unknown =
            before.strip_prefix("unknown field `").or_else(|| before.strip_prefix("unknown variant `"));
        if let Some(found) = unknown.and_then(|rest| rest.strip_suffix('`')) {
            let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            return format!("{before}; {}", units::instead(found, &known));
        }
        let plain = TYPES.iter().find(|(name, _)| *name == expected).map_or(expected, |(_, plain)| plain);
        return format!("{before}, expected {plain}");
    }
    message.to_owned()
}

/// What serde calls a type, and how such a value is written.
const TYPES: [(&str, &str); 13] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0 on"),
    ("usize", "a whole number from 0 on"),
    ("i64", "a whole number"),
    ("f64", "a number such as 1.5"),
    ("a string", "text in quotes"),
    ("path string", "a path in quotes"),
    ("a boolean", "true or false"),
    ("a sequence", "a list in brackets"),
    ("a tuple of size 2", "a pair in brackets"),
    ("a tuple of size 3", "three values in brackets"),
];

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// A field of the file and the bytes it spans, key included.
struct Field {
    path: String,
    span: Range<usize>,
}

/// Every field of `text`, as far as it is TOML.
fn fields(text: &str) -> Vec<Field> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    walk_table("", table.get_ref(), &mut found);
    found
}

fn walk_table(prefix: &str, table: &DeTable<'_>, found: &mut Vec<Field>) {
    for (key, value) in table {
        let dot = if prefix.is_empty() { "" } else { "." };
        let path = format!("{prefix}{dot}{}", key.get_ref());
        let (key_span, value_span) = (key.span(), value.span());
        // A key of a header may be repeated far from its value: only the bytes of a plain `key = value` are
        // one stretch.
        let start = if key_span.start < value_span.start { key_span.start } else { value_span.start };
        found.push(Field { path: path.clone(), span: start..value_span.end.max(key_span.end) });
        walk_value(&path, value.get_ref(), found);
    }
}

fn walk_value(path: &str, value: &DeValue<'_>, found: &mut Vec<Field>) {
    match value {
        DeValue::Table(table) => walk_table(path, table, found),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}[{}]", i + 1);
                found.push(Field { path: path.clone(), span: item.span() });
                walk_value(&path, item.get_ref(), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rusts_words_do_not_show() {
        for (serde, plain) in [
            (
                "unknown field `rat`, expected one of `rate`, `burst`, `peak`",
                "unknown field `rat`; did you mean `rate`?",
            ),
            (
                "unknown variant `quick`, expected `tcp` or `quic`",
                "unknown variant `quick`; did you mean `quic`?",
            ),
            (
                "invalid type: string \"x\", expected u16",
                "invalid type: string \"x\", expected a whole number from 0 to 65535",
            ),
            (
                "invalid type: integer `1`, expected a string",
                "invalid type: integer `1`, expected text in quotes",
            ),
            ("missing field `duration`", "missing field `duration`"),
        ] {
            assert_eq!(plainly(serde), plain);
        }
    }
}
