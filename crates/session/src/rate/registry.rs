//! Every rate policy by name. Scenario files, the command line and the documentation grow from this table.

use cc::{OptionError, Options};

use super::{RateControl, budget, direct, live, vidaptive, webrtc};

/// One row: a policy, or a preset of one.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The options it takes, each with a line of help.
    pub options: &'static [(&'static str, &'static str)],
    /// Builds the policy from options.
    pub build: fn(&Options) -> Result<Box<dyn RateControl>, OptionError>,
}

/// All of them, in the order they are listed to people; the first is the default.
pub const REGISTRY: &[Entry] =
    &[live::ENTRY, budget::ENTRY, direct::ENTRY, webrtc::ENTRY, vidaptive::ENTRY, vidaptive::PAPER];

/// Builds the policy that `options` names: `vidaptive:lambda=0.7,tau=33ms`.
///
/// # Errors
/// [`OptionError`] if there is none of that name, or it does not take the options.
pub fn build(options: &Options) -> Result<Box<dyn RateControl>, OptionError> {
    let entry = cc::entry_called("rate policy", &options.name, REGISTRY, |entry| entry.name)?;
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
        let error = build(&Options::of("vidaptiv")).err().unwrap().to_string();
        assert_eq!(error, "no rate policy is called `vidaptiv`; did you mean `vidaptive`?");
        let error = build(&Options::of("none")).err().unwrap().to_string();
        assert!(
            error.starts_with("no rate policy is called `none`; there are live, budget, direct,"),
            "{error}"
        );
    }
}
