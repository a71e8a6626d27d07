//! Builds controllers for quinn.

use std::sync::Arc;

use cc::{OptionError, Options, Setup};
use quinn_proto::congestion::{Controller, ControllerFactory};
use record::Tap;
use units::Rate;

use crate::adapter::Adapter;
use crate::clock::{Epoch, Moment};
use crate::state::State;

/// Why a controller cannot run under quinn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CongestionError {
    /// There is none of that name, or it does not take the options.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// It needs what QUIC's streams do not give it.
    #[error("{name} does not run under QUIC: it {what}; those that do: {others}")]
    Unsuitable {
        /// The controller's name.
        name: String,
        /// What it lacks.
        what: &'static str,
        /// The names of those that would run.
        others: String,
    },
}

/// A congestion controller of ours for quinn's `TransportConfig::congestion_controller_factory`: each
/// connection gets one of its own.
#[derive(Clone)]
pub struct Congestion {
    options: Options,
    setup: Setup,
    epoch: Option<Epoch>,
    tap: Tap,
}

/// Controllers that make use of one-way delays. For all others probes would be a waste.
const TIMED: [&str; 2] = ["quic-dc", "ledbat"];

/// Controllers that take a round trip of each packet, by its arrival, and are not worth probes: the
/// acknowledgement's arrival stands in.
const PER_PACKET: [&str; 1] = ["copa-pantheon"];

/// Controllers that learn from the rate they pace at: under quinn's own pacing they would measure something
/// else.
const PACED: [&str; 9] = [
    "pcc",
    "pcc-uspace",
    "pcc-pantheon",
    "vivace",
    "vivace-uspace",
    "vivace-pantheon",
    "proteus-p",
    "proteus-s",
    "nimbus",
];

impl Congestion {
    /// The controller that `text` names, as everywhere: `"newreno"`, `"quic-dc:threshold=20ms"`.
    ///
    /// # Errors
    /// [`CongestionError`] if there is no such controller, it does not take the options, or it cannot run
    /// under quinn, which limits by window and paces by window and round trip alone.
    pub fn new(text: &str) -> Result<Arc<Congestion>, CongestionError> {
        // QUIC's streams take what the window gives; nothing of an encoder bounds them.
        let setup = Setup { max: Rate::from_mbps(100_000), ..Setup::default() };
        Congestion::with(text, setup).map(Arc::new)
    }

    /// As [`new`](Congestion::new), with a set-up of one's own; its `mtu` is replaced by the path's.
    ///
    /// # Errors
    /// As [`new`](Congestion::new).
    pub fn with(text: &str, setup: Setup) -> Result<Congestion, CongestionError> {
        let options: Options = text.parse()?;
        cc::build(&options, &setup)?;
        if let Some(what) = lacks(&options.name) {
            let others = Congestion::names().collect::<Vec<_>>().join(", ");
            return Err(CongestionError::Unsuitable { name: options.name, what, others });
        }
        Ok(Congestion { options, setup, epoch: None, tap: Tap::default() })
    }

    /// The names of the controllers that run under quinn, in the order they are listed to people.
    pub fn names() -> impl Iterator<Item = &'static str> {
        cc::REGISTRY.iter().map(|entry| entry.name).filter(|name| lacks(name).is_none())
    }

    /// Times begin at `epoch` instead of with the connection, and events are recorded by `tap`.
    pub fn recorded(self, epoch: Epoch, tap: Tap) -> Congestion {
        Congestion { epoch: Some(epoch), tap, ..self }
    }

    /// Whether the controller makes use of one-way delays, so that probes are worth sending
    /// ([`Timing`](crate::Timing)).
    pub fn is_timed(&self) -> bool {
        TIMED.contains(&self.options.name.as_str())
    }

    fn adapter(&self, now: Moment, mtu: u16) -> Adapter {
        let setup = Setup { mtu: u32::from(mtu), ..self.setup };
        let controller = cc::build(&self.options, &setup).expect("it was built before");
        let per_packet = PER_PACKET.contains(&self.options.name.as_str());
        let state = State::new(controller, u32::from(mtu), per_packet, self.tap.clone());
        Adapter::new(state, self.epoch.unwrap_or(Epoch::at(now)))
    }
}

/// What the controller called `name` needs and quinn does not have.
fn lacks(name: &str) -> Option<&'static str> {
    let entry = cc::REGISTRY.iter().find(|entry| entry.name == name)?;
    if entry.needs_frames {
        return Some("learns from frames' bursts");
    }
    if entry.receiver.is_some() {
        return Some("has a receiver half of its own");
    }
    if PACED.contains(&name) {
        return Some("learns from the rate it paces at, and quinn paces by window and round trip");
    }
    let built = (entry.build)(&Options::of(name), &Setup::default()).ok()?;
    built.decision().window.is_none().then_some("sets a rate and no window")
}

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, now: Moment, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(self.adapter(now, current_mtu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_run_and_the_rest_says_why_not() {
        let names: Vec<_> = Congestion::names().collect();
        for name in ["newreno", "cubic", "bbr2", "copa", "westwood-plus-quic", "quic-dc"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert!(TIMED.iter().all(|name| names.contains(name)), "{names:?}");
        assert!(PER_PACKET.iter().all(|name| names.contains(name)), "{names:?}");
        assert!(PACED.iter().all(|name| cc::REGISTRY.iter().any(|entry| entry.name == *name)));
        let refusal = |text: &str| Congestion::new(text).err().unwrap().to_string();
        assert!(
            refusal("sqp").starts_with("sqp does not run under QUIC: it learns from frames' bursts; those")
        );
        assert!(refusal("gcc").contains("sets a rate and no window"), "{}", refusal("gcc"));
        assert!(refusal("bbr9").starts_with("no congestion controller is called `bbr9`"));
    }

    #[test]
    fn each_connection_has_a_controller_of_its_own_and_copies_share_it() {
        let congestion = Congestion::new("newreno").unwrap();
        let epoch = Epoch::any();
        let now = epoch.moment(units::Time::ZERO);
        let mut one = congestion.clone().build(now, 1200);
        let other = congestion.build(now, 1200);
        let copy = one.clone_box();
        one.on_sent(now, 1200, 0);
        let totals = |of| crate::Timing::of(of).unwrap().totals();
        assert_eq!((totals(copy).sent, totals(other).sent), (1, 0));
        assert_eq!(one.initial_window(), 12_001);
    }
}
