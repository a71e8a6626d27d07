//! Every strategy by name. Scenario files, `send`, `serve` and the documentation grow from this table.

use cc::OptionError;

use super::{Backup, Live, Strategy};
use crate::recovery;

/// One row: a strategy, or a preset of one.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Builds one. Its Deadline tracks, if it has any, recover by the policy of this name.
    pub build: fn(&str) -> Result<Box<dyn Strategy>, OptionError>,
}

/// All of them, in the order they are listed to people; the first is what a flow uses that names none.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "live",
        summary: "one track; its losses are answered by the recovery policy",
        build: |recovery| Ok(Box::new(Live::with(recovery::build(recovery)?))),
    },
    Entry {
        name: "backup",
        summary: "two tracks: predicted frames that are sent until they arrive, and small key frames that are sent once",
        build: |_| Ok(Box::new(Backup)),
    },
];

/// Builds the strategy called `name`, whose Deadline tracks recover by the policy called `recovery`.
///
/// # Errors
/// [`OptionError`] if there is none of that name.
pub fn build(name: &str, recovery: &str) -> Result<Box<dyn Strategy>, OptionError> {
    let entry = REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| OptionError::Name {
        what: "strategy",
        found: name.to_owned(),
        instead: units::instead(name, &REGISTRY.iter().map(|entry| entry.name).collect::<Vec<_>>()),
    })?;
    (entry.build)(recovery)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::TRACKS;

    #[test]
    fn every_entry_builds_and_a_wrong_one_is_told_what_there_is() {
        for entry in REGISTRY {
            let strategy = (entry.build)("retransmit").unwrap();
            assert!((1..=TRACKS).contains(&strategy.tracks().len()), "{}", entry.name);
        }
        let error = build("fec", "retransmit").err().unwrap().to_string();
        assert_eq!(error, "no strategy is called `fec`; there are live, backup");
        assert!(build("live", "fec").err().unwrap().to_string().starts_with("no recovery policy"));
    }
}
