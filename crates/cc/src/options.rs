//! Options of a controller, or of a session's policy, as text: `sqp:target=0.7,window=3`.

use std::str::FromStr;

/// The name of a controller or policy and the options written after it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Its (or the preset's) name.
    pub name: String,
    pairs: Vec<(String, String)>,
}

/// An option that can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Nothing of this name.
    #[error("no {what} is called `{found}`; {instead}")]
    Name {
        /// What was wanted: a congestion controller, a rate policy.
        what: &'static str,
        /// What was written.
        found: String,
        /// What to write instead: names like it, or what there is.
        instead: String,
    },
    /// The text is not `name:key=value,key=value`.
    #[error("`{0}` is not an option; write NAME:KEY=VALUE,KEY=VALUE")]
    Syntax(String),
    /// It has no such option.
    #[error("{controller} has no option `{key}`; {instead}")]
    Unknown {
        /// The controller or policy.
        controller: String,
        /// What was written.
        key: String,
        /// What to write instead: options like it, or all there are.
        instead: String,
    },
    /// A controller of the host's own could not be made of them.
    #[error("{controller} can't be made: {what}")]
    Unmade {
        /// The name it was registered under.
        controller: String,
        /// What it says of the options.
        what: String,
    },
    /// The value is not what the option takes.
    #[error("option `{key}` of {controller} is `{value}`; it must be {expected}")]
    Value {
        /// The controller or policy.
        controller: String,
        /// The option's name.
        key: String,
        /// The value that was written.
        value: String,
        /// What would be accepted.
        expected: String,
    },
}

/// The entry of a registry that is called `found`; `what` says what the registry holds.
///
/// # Errors
/// [`OptionError::Name`] if there is none of that name.
pub fn entry_called<'a, E>(
    what: &'static str,
    found: &str,
    registry: &'a [E],
    name: impl Fn(&E) -> &'static str,
) -> Result<&'a E, OptionError> {
    registry.iter().find(|entry| name(entry) == found).ok_or_else(|| {
        let instead = units::instead(found, &registry.iter().map(name).collect::<Vec<_>>());
        OptionError::Name { what, found: found.to_owned(), instead }
    })
}

impl FromStr for Options {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Options, OptionError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').ok_or_else(|| OptionError::Syntax(part.to_owned()))?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        };
        let pairs =
            rest.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect::<Result<_, _>>()?;
        Ok(Options { name: name.trim().to_owned(), pairs })
    }
}

impl Options {
    /// Options of `name` with none set.
    pub fn of(name: &str) -> Options {
        Options { name: name.to_owned(), pairs: Vec::new() }
    }

    /// Every key must be one of `known`.
    ///
    /// # Errors
    /// [`OptionError::Unknown`] naming the first that isn't.
    pub fn check_keys(&self, known: &[(&str, &str)]) -> Result<(), OptionError> {
        match self.pairs.iter().find(|(key, _)| !known.iter().any(|(name, _)| name == key)) {
            None => Ok(()),
            Some((key, _)) => Err(OptionError::Unknown {
                controller: self.name.clone(),
                key: key.clone(),
                instead: units::instead(key, &known.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
            }),
        }
    }

    /// Whether the option is set.
    pub fn is_set(&self, key: &str) -> bool {
        self.text(key).is_some()
    }

    /// What is written for the option, if it is set.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The error that says that the value written for `key` is not what is `expected`.
    pub fn refuse(&self, key: &str, expected: String) -> OptionError {
        let value = self.text(key).unwrap_or_default().to_owned();
        OptionError::Value { controller: self.name.clone(), key: key.to_owned(), value, expected }
    }

    /// A number within `range`, or `default` where the option is not set.
    ///
    /// # Errors
    /// [`OptionError::Value`] if it is no number or outside the range.
    pub fn number(
        &self,
        key: &str,
        default: f64,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<f64, OptionError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        match text.parse() {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(self.refuse(key, format!("a number from {} to {}", range.start(), range.end()))),
        }
    }

    /// `on` or `off` (also `true`, `false`), or `default`.
    ///
    /// # Errors
    /// [`OptionError::Value`] if it is neither.
    pub fn switch(&self, key: &str, default: bool) -> Result<bool, OptionError> {
        match self.text(key) {
            None => Ok(default),
            Some("on" | "true") => Ok(true),
            Some("off" | "false") => Ok(false),
            Some(_) => Err(self.refuse(key, "on or off".to_owned())),
        }
    }

    /// A quantity with a unit, or `default`.
    ///
    /// # Errors
    /// [`OptionError::Value`] if it does not parse; `expected` says what would.
    pub fn quantity<T: FromStr>(&self, key: &str, default: T, expected: &str) -> Result<T, OptionError> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| self.refuse(key, expected.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_and_refuse_clearly() {
        let options: Options = "sqp:target=0.7,undershoot=off".parse().unwrap();
        assert_eq!(options.name, "sqp");
        assert_eq!(options.number("target", 0.9, 0.1..=1.0), Ok(0.7));
        assert_eq!(options.number("window", 2.0, 0.5..=16.0), Ok(2.0));
        assert_eq!(options.switch("undershoot", true), Ok(false));
        let error = options.number("target", 0.9, 0.8..=1.0).unwrap_err().to_string();
        assert_eq!(error, "option `target` of sqp is `0.7`; it must be a number from 0.8 to 1");
        let error = options.check_keys(&[("target", "")]).unwrap_err().to_string();
        assert_eq!(error, "sqp has no option `undershoot`; there are target");
        assert!("sqp:target".parse::<Options>().is_err());
    }
}
