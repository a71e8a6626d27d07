//! Every controller by name. The command line, scenario files, documentation and the conformance suite all
//! grow from here.

use std::sync::RwLock;

use crate::{
    Controller, OptionError, Options, ReceiverHalf, Setup, bbr, bbr2, copa, cubic, entry_called, fixed, gcc,
    ledbat, newreno, nimbus, pcc, quic_dc, rocc, scream, sprout, sqp, vegas, westwood,
};

/// Makes a controller of options and set-up.
pub type Build = fn(&Options, &Setup) -> Result<Box<dyn Controller>, OptionError>;

/// Makes a receiver half of the same options and set-up.
pub type BuildReceiver = fn(&Options, &Setup) -> Result<Box<dyn ReceiverHalf>, OptionError>;

/// One row: a controller, or a preset of one.
pub struct Entry {
    /// What it is called on the command line and in scenarios.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// It learns from frames' bursts: a backlogged flow gives it nothing to learn from.
    pub needs_frames: bool,
    /// The options it takes, each with a line of help.
    pub options: &'static [(&'static str, &'static str)],
    /// Its page in the manual, Markdown: idea, source, presets, deviations. Also the module's documentation.
    pub page: &'static str,
    /// Builds a controller of this preset from a flow's setup and options.
    pub build: Build,
    /// Builds its receiver half, if it has one.
    pub receiver: Option<BuildReceiver>,
}

/// All of them, in the order they are listed to people.
pub const REGISTRY: &[Entry] = &[
    sqp::ENTRY,
    sqp::ROBUST,
    gcc::ENTRY,
    gcc::LEGACY,
    gcc::RMCAT_02,
    gcc::CARLUCCI,
    copa::ENTRY,
    copa::ENTRY_01,
    copa::ENTRY_004,
    copa::ENTRY_09,
    copa::ENTRY_AUTO,
    copa::ENTRY_AUTO_4,
    copa::ENTRY_PANTHEON,
    bbr::ENTRY,
    bbr2::ENTRY,
    bbr2::MVFST,
    bbr2::V3,
    cubic::ENTRY,
    newreno::ENTRY,
    westwood::ENTRY,
    westwood::QUIC_ENTRY,
    quic_dc::ENTRY,
    pcc::PCC,
    pcc::PCC_USPACE,
    pcc::PCC_PANTHEON,
    pcc::VIVACE,
    pcc::VIVACE_USPACE,
    pcc::VIVACE_PANTHEON,
    pcc::PROTEUS_P,
    pcc::PROTEUS_S,
    rocc::ENTRY,
    rocc::ENTRY_KERNEL,
    sprout::ENTRY,
    sprout::CUMULATIVE,
    scream::ENTRY,
    nimbus::ENTRY,
    vegas::ENTRY,
    ledbat::ENTRY,
    fixed::ENTRY,
];

/// Those of this process alone, the latest last.
static LOCAL: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// Why a controller is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unregistered {
    /// The name is that of a row of [`REGISTRY`].
    #[error("`{0}` is a controller that comes along; choose another name")]
    Taken(String),
    /// Options could not be written after such a name.
    #[error("`{0}` is no name of a controller: write letters, digits, `-`, `_` and `.`")]
    Name(String),
}

/// Registers a controller for this process alone: [`build`] finds it by its name from here on, in the place
/// of one that was registered under the same name before. For hosts that bring controllers of their own,
/// before anything runs: a run that names it is as reproducible as what `entry` builds.
///
/// # Errors
/// [`Unregistered`] if the name is taken or could not be written where controllers are named.
pub fn register(entry: Entry) -> Result<(), Unregistered> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if entry.name.is_empty() || !entry.name.chars().all(plain) {
        return Err(Unregistered::Name(entry.name.to_owned()));
    }
    if REGISTRY.iter().any(|row| row.name == entry.name) {
        return Err(Unregistered::Taken(entry.name.to_owned()));
    }
    LOCAL.write().expect("nobody panics while holding it").push(Box::leak(Box::new(entry)));
    Ok(())
}

/// Builds the controller that `options` names.
///
/// ```
/// use framewire_cc::{Decision, Setup, build};
/// use units::Rate;
///
/// let setup = Setup { initial: Rate::from_mbps(3), ..Setup::default() };
/// let gcc = build(&"gcc:loss_v2=off".parse()?, &setup)?;
/// let Decision { media, pacing, .. } = gcc.decision();
/// assert!(media.is_some() && pacing > media, "it paces faster than the encoder makes");
///
/// let wrong = build(&"gcc:loss=off".parse()?, &setup).err().unwrap();
/// assert!(wrong.to_string().contains("loss_v2"), "{wrong}");
/// # Ok::<(), framewire_cc::OptionError>(())
/// ```
///
/// `transport::Core` calls the controller for a host that has a transport of its own.
///
/// # Errors
/// [`OptionError`] if there is none of that name, or it does not take the options.
pub fn build(options: &Options, setup: &Setup) -> Result<Box<dyn Controller>, OptionError> {
    (find(options)?.build)(options, setup)
}

/// Builds the receiver half of the controller that `options` names, if it has one.
///
/// # Errors
/// As [`build`].
pub fn build_receiver(
    options: &Options,
    setup: &Setup,
) -> Result<Option<Box<dyn ReceiverHalf>>, OptionError> {
    find(options)?.receiver.map(|build| build(options, setup)).transpose()
}

fn find(options: &Options) -> Result<&'static Entry, OptionError> {
    let local = LOCAL.read().expect("nobody panics while holding it");
    let local = local.iter().rev().find(|entry| entry.name == options.name).copied();
    let entry = local.map_or_else(
        || entry_called("congestion controller", &options.name, REGISTRY, |entry| entry.name),
        Ok,
    )?;
    options.check_keys(entry.options)?;
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_and_starts_with_something_to_send() {
        for entry in REGISTRY {
            let controller = build(&Options::of(entry.name), &Setup::default()).unwrap();
            let decision = controller.decision();
            assert!(decision.window.is_none_or(|w| w.get() > 0), "{}", entry.name);
            assert!(decision.pacing.is_none_or(|p| p.as_bps() > 0), "{}", entry.name);
        }
    }

    #[test]
    fn a_host_registers_controllers_of_its_own() {
        let entry = |name| Entry { name, page: "", ..fixed::ENTRY };
        assert!(build(&Options::of("of-a-host"), &Setup::default()).is_err());
        register(entry("of-a-host")).unwrap();
        register(entry("of-a-host")).unwrap();
        build(&"of-a-host:rate=2mbit".parse().unwrap(), &Setup::default()).unwrap();
        assert_eq!(register(entry("sqp")), Err(Unregistered::Taken("sqp".into())));
        assert_eq!(register(entry("a:b")), Err(Unregistered::Name("a:b".into())));
    }

    #[test]
    fn an_unknown_name_is_told_the_likely_ones() {
        let text = |name| build(&Options::of(name), &Setup::default()).err().unwrap().to_string();
        assert_eq!(
            text("bbr9"),
            "no congestion controller is called `bbr9`; did you mean `bbr`, `bbr2` or `bbr3`?"
        );
        let far = format!("there are {}, sqp, ", REGISTRY.len());
        assert!(text("quantum").contains(&far), "{}", text("quantum"));
    }
}
