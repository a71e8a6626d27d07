//! What the text forms share: `name:value,key=value` as scenario files and the command line write queues,
//! loss processes and cross traffic.

use std::str::FromStr;

/// A text form that could not be read: what was written, what it was meant to be, and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}; accepted: {accepted}")]
pub struct TextError {
    /// What was written.
    pub found: String,
    /// What it was meant to be ("a queue").
    pub expected: &'static str,
    /// What would have been accepted.
    pub accepted: String,
}

impl TextError {
    pub(crate) fn new(found: &str, expected: &'static str, accepted: impl Into<String>) -> TextError {
        TextError { found: found.to_owned(), expected, accepted: accepted.into() }
    }
}

/// `name:rest` split at the first colon; `rest` is empty where there is none.
pub(crate) fn split_name(text: &str) -> (&str, &str) {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    (name.trim(), rest.trim())
}

/// The comma-separated parts of `text`, each with its key (empty for a bare value), blanks left out.
pub(crate) fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| {
        let (key, value) = part.split_once('=').unwrap_or(("", part));
        (key.trim(), value.trim())
    })
}

/// A probability written as `1%` or `0.01`.
pub(crate) fn probability(text: &str) -> Result<f64, TextError> {
    let refuse = || TextError::new(text, "a probability", "a number from 0 to 1 or a percentage such as 1%");
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let value = number.trim().parse::<f64>().map_err(|_| refuse())? * scale;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(refuse()) }
}

/// A quantity with its unit.
pub(crate) fn quantity<T: FromStr>(
    text: &str,
    expected: &'static str,
    accepted: &str,
) -> Result<T, TextError> {
    text.parse().map_err(|_| TextError::new(text, expected, accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_read_both_ways() {
        assert_eq!(probability("2.5%").unwrap(), 0.025);
        assert_eq!(probability("0.5").unwrap(), 0.5);
        for bad in ["", "%", "101%", "-1%", "NaN", "1.5"] {
            assert!(probability(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_carry_their_keys() {
        let read: Vec<_> = parts("5mbit, size = 1200B,,fixed").collect();
        assert_eq!(read, [("", "5mbit"), ("size", "1200B"), ("", "fixed")]);
    }
}
