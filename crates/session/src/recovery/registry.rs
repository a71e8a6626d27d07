//! Every recovery policy by name. Scenario files and the documentation grow from this table.

use cc::OptionError;

use super::{KeyFrames, Nack, NewestAcked, NoRepair, Recovery, Retransmit};

/// One row: a recovery policy.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Builds the policy.
    pub build: fn() -> Box<dyn Recovery>,
}

/// All of them, in the order they are listed to people; the first is what a flow uses that names none.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "retransmit",
        summary: "a lost packet is sent again while it can arrive before its frame's deadline; later a key frame is coded",
        build: || Box::new(Retransmit),
    },
    Entry {
        name: "nack",
        summary: "a lost packet is sent again up to ten times, whatever its frame's deadline; then a key frame is coded (libwebrtc)",
        build: || Box::new(Nack),
    },
    Entry {
        name: "none",
        summary: "nothing is sent again: what a path does to a stream; the receiver still asks for key frames",
        build: || Box::new(NoRepair),
    },
    Entry {
        name: "newest-acked",
        summary: "nothing is sent again: after a loss the next frame is predicted from the newest one that is known to have arrived",
        build: || Box::new(NewestAcked),
    },
    Entry {
        name: "key-frames",
        summary: "nothing is sent again: after a loss the next frame is a key frame",
        build: || Box::new(KeyFrames),
    },
];

/// Builds the policy called `name`.
///
/// # Errors
/// [`OptionError`] if there is none of that name.
pub fn build(name: &str) -> Result<Box<dyn Recovery>, OptionError> {
    let entry = cc::entry_called("recovery policy", name, REGISTRY, |entry| entry.name)?;
    Ok((entry.build)())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_and_a_wrong_one_is_told_what_there_is() {
        assert!(REGISTRY.iter().all(|entry| build(entry.name).is_ok()));
        let error = build("fec").err().unwrap().to_string();
        assert_eq!(
            error,
            "no recovery policy is called `fec`; there are retransmit, nack, none, newest-acked, key-frames"
        );
    }
}
