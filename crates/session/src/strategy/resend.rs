//! One track of predicted frames that are sent until they arrive: the receiver holds back what follows a lost
//! packet, and catches up when it has come (thesis section 4.4.2, packet retransmissions).

use wire::Class;

use super::Strategy;
use crate::recovery::{self, Missing, Repair};
use crate::schedule::{self, Pick, Schedule};

/// A reliable track, repairs first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resend;

impl Strategy for Resend {
    fn tracks(&self, _: u8) -> &'static [Class] {
        &[Class::Reliable]
    }
    fn repair(&mut self, _: &recovery::View, _: &Missing) -> Repair {
        // A reliable track does not ask: it is sent until it arrives.
        Repair::Leave
    }
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        schedule::Live.pick(view)
    }
    fn mode(&self) -> &'static str {
        "resend"
    }
}
