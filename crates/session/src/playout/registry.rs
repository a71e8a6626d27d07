//! Every playout policy by name. Scenario files, the command line and the documentation grow from this table.

use cc::{OptionError, Options};

use super::{Playout, adaptive, at_once, fixed};

/// One row: a playout policy, or a preset of one.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The options it takes, each with a line of help.
    pub options: &'static [(&'static str, &'static str)],
    /// Builds the policy from options.
    pub build: fn(&Options) -> Result<Box<dyn Playout>, OptionError>,
}

/// All of them, in the order they are listed to people; the first is the default.
pub const REGISTRY: &[Entry] = &[at_once::ENTRY, fixed::ENTRY, adaptive::ENTRY];

/// Builds the policy that `options` names: `fixed:delay=100ms`.
///
/// # Errors
/// [`OptionError`] if there is none of that name, or it does not take the options.
pub fn build(options: &Options) -> Result<Box<dyn Playout>, OptionError> {
    let entry = cc::entry_called("playout policy", &options.name, REGISTRY, |entry| entry.name)?;
    options.check_keys(entry.options)?;
    (entry.build)(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_and_a_wrong_one_is_told_what_there_is() {
        for entry in REGISTRY {
            assert!(build(&Options::of(entry.name)).is_ok(), "{}", entry.name);
            let error = build(&format!("{}:nonsense=1", entry.name).parse().unwrap()).err().unwrap();
            assert!(error.to_string().starts_with(&format!("{} has no option `nonsense`", entry.name)));
        }
        let error = build(&Options::of("adaptiv")).err().unwrap().to_string();
        assert_eq!(error, "no playout policy is called `adaptiv`; did you mean `adaptive`?");
        let error = build(&Options::of("smooth")).err().unwrap().to_string();
        assert_eq!(error, "no playout policy is called `smooth`; there are at-once, fixed, adaptive");
        let error = build(&"fixed:delay=100".parse().unwrap()).err().unwrap().to_string();
        assert_eq!(
            error,
            "option `delay` of fixed is `100`; it must be a time from 0ms to 60s, such as 100ms"
        );
    }
}
