//! What goes together: a controller, a rate policy and a recovery policy under one name.
//!
//! Written where a controller is named, a preset brings the two policies along, unless they are given:
//!
//! ```
//! # use framewire_session as session;
//! use session::preset::Choice;
//!
//! let all = Choice::of(Some("default"), None, None);
//! assert_eq!(all.rate, "budget");
//! let mine = Choice::of(Some("default"), Some("direct"), None);
//! assert_eq!((mine.controller, mine.rate.as_str()), (all.controller, "direct"));
//! // A controller by its own name is what the papers have: under the live policy, with retransmission.
//! assert_eq!(Choice::of(Some("gcc"), None, None).rate, "live");
//! ```

use units::Rate;

use crate::{rate, recovery, strategy};

/// A controller and the policies that go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The congestion controller, with options.
    pub controller: &'static str,
    /// The rate policy, with options.
    pub rate: &'static str,
    /// The recovery policy.
    pub recovery: &'static str,
    /// The lowest rate of a flow that names none: what a picture of 180 rows and five frames a second takes.
    pub least: Rate,
}

/// What a flow uses that names no controller.
pub const DEFAULT: Preset = Preset {
    name: "default",
    summary: "what a flow uses that names nothing: a controller, a rate policy and a recovery policy that go together",
    controller: "sqp-robust",
    rate: "budget",
    recovery: "retransmit",
    least: Rate::from_kbps(50),
};

/// All presets.
pub const PRESETS: &[Preset] = &[DEFAULT];

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// What a flow runs under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The congestion controller, with options.
    pub controller: String,
    /// The rate policy, with options.
    pub rate: String,
    /// The recovery policy.
    pub recovery: String,
    /// The strategy's name, with options.
    pub strategy: String,
    /// The preset it comes from, if any.
    pub preset: Option<&'static Preset>,
}

impl Choice {
    /// What a flow runs under that is told so much. Without a controller, or where it is a preset's name, the
    /// preset decides what is not given; else the first rate policy and the first recovery policy of their
    /// registries do.
    pub fn of(controller: Option<&str>, rate: Option<&str>, recovery: Option<&str>) -> Choice {
        let preset = find(controller.unwrap_or(DEFAULT.name));
        let (usual_rate, usual_recovery) = match preset {
            Some(preset) => (preset.rate, preset.recovery),
            None => (rate::REGISTRY[0].name, recovery::REGISTRY[0].name),
        };
        Choice {
            controller: preset.map(|preset| preset.controller).or(controller).unwrap_or_default().to_owned(),
            rate: rate.unwrap_or(usual_rate).to_owned(),
            recovery: recovery.unwrap_or(usual_recovery).to_owned(),
            strategy: strategy::REGISTRY[0].name.to_owned(),
            preset,
        }
    }
}

impl Choice {
    /// The same under this strategy, where one is given.
    #[must_use]
    pub fn with_strategy(self, strategy: Option<&str>) -> Choice {
        Choice { strategy: strategy.map_or(self.strategy, str::to_owned), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_names_what_there_is() {
        for preset in PRESETS {
            let built = cc::build(&preset.controller.parse().unwrap(), &cc::Setup::default());
            assert!(built.is_ok(), "{}", preset.controller);
            assert!(rate::build(&preset.rate.parse().unwrap()).is_ok(), "{}", preset.rate);
            assert!(recovery::build(preset.recovery).is_ok(), "{}", preset.recovery);
            let taken = cc::build(&cc::Options::of(preset.name), &cc::Setup::default());
            assert!(taken.is_err(), "{} is a controller's name as well", preset.name);
        }
    }

    #[test]
    fn what_is_given_counts_and_a_flow_that_names_nothing_gets_the_default() {
        let nothing = Choice::of(None, None, None);
        assert_eq!(nothing, Choice::of(Some("default"), None, None));
        assert_eq!(nothing.preset, Some(&DEFAULT));
        let own = Choice::of(Some("copa:delta=0.1"), None, Some("none"));
        assert_eq!(
            (own.controller.as_str(), own.rate.as_str(), own.recovery.as_str()),
            ("copa:delta=0.1", "live", "none")
        );
        assert_eq!(own.preset, None);
        assert_eq!(Choice::of(None, Some("vidaptive"), None).rate, "vidaptive");
    }
}
