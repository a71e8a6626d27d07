//! NewReno as QUIC has it (RFC 9002 section 7 and appendix B): slow start, one segment per round trip, half
//! on a loss.

use units::unlikely;

use crate::parts::RenoWindow;
use crate::{Controller, Decision, Entry, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "newreno",
    summary: "NewReno for QUIC (RFC 9002 appendix B), paced",
    needs_frames: false,
    options: &[("hystart", "leave the first slow start by HyStart++ (RFC 9406), on or off (default off)")],
    page: include_str!("newreno.md"),
    build: |options, setup| Ok(Box::new(NewReno::new(setup, options.switch("hystart", false)?))),
    receiver: None,
};

/// RFC 9002 appendix B.1, kLossReductionFactor.
const LOSS_REDUCTION: f64 = 0.5;

/// NewReno's state.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: RenoWindow,
}

impl NewReno {
    /// A new connection's state; `hystart` leaves the first slow start by RFC 9406.
    pub fn new(setup: &Setup, hystart: bool) -> NewReno {
        NewReno { window: RenoWindow::new(setup, hystart) }
    }

    /// Losses or congestion marks were reported.
    // Apart: of most reports nothing follows but growth.
    #[inline(never)]
    fn react(&mut self, report: &Report<'_>) {
        if self.window.reacts_to(report) {
            self.window.cut((self.window.bytes() as f64 * LOSS_REDUCTION) as u64);
        }
        if report.persistent_congestion {
            self.window.collapse();
        }
    }
}

impl Controller for NewReno {
    fn on_sent(&mut self, _: &Sent) {}

    fn follows_sending(&self) -> bool {
        false
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        if unlikely(!report.lost.is_empty() | (report.ce_marks > 0) | report.persistent_congestion) {
            self.react(report);
        }
        self.window.grow(report);
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.window.set_datagram(mtu);
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        self.window.decision()
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        self.window.observe(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    #[test]
    fn two_losses_in_a_round_halve_once() {
        let mut reno = NewReno::new(&Setup { mtu: 1000, ..Setup::default() }, false);
        reno.on_feedback(&report(&[], &[lost(3, 1000)]));
        reno.on_feedback(&report(&[], &[lost(4, 1000)]));
        assert_eq!(reno.window.bytes(), 5_000);
    }

    #[test]
    fn unused_window_does_not_grow_and_persistent_congestion_collapses_it() {
        let mut reno = NewReno::new(&Setup { mtu: 1000, ..Setup::default() }, false);
        let acks = [acked(1, 1000)];
        reno.on_feedback(&Report { limited: false, ..report(&acks, &[]) });
        assert_eq!(reno.window.bytes(), 10_000);
        reno.on_feedback(&Report { persistent_congestion: true, ..report(&[], &[lost(3, 1000)]) });
        assert_eq!(reno.window.bytes(), 2_000);
    }
}
