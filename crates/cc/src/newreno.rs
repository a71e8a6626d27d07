//! NewReno as QUIC has it (RFC 9002 section 7 and appendix B): slow start, one segment per round trip, half on a loss.

use units::{Bytes, Span, Time};

use crate::parts::{LossEpoch, window_rate};
use crate::{Acked, Controller, Decision, Entry, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "newreno",
    summary: "NewReno for QUIC (RFC 9002 appendix B), paced",
    needs_frames: false,
    options: &[],
    page: include_str!("newreno.md"),
    build: |_, setup| Ok(Box::new(NewReno::new(setup))),
    receiver: None,
};

/// RFC 9002 section 7.2: ten datagrams, at most 14720 bytes unless two are larger.
const INITIAL_WINDOW_BYTES: u64 = 14_720;
/// RFC 9002 section 7.2.
const MINIMUM_WINDOW_DATAGRAMS: u64 = 2;
/// RFC 9002 appendix B.1, kLossReductionFactor.
const LOSS_REDUCTION: f64 = 0.5;
/// RFC 9002 section 7.7: a little faster than the window over a round trip, so that pacing does not starve it ...
const PACING_GAIN: f64 = 1.25;
/// ... and twice as fast while the window doubles.
const PACING_GAIN_SLOW_START: f64 = 2.0;

/// NewReno's state.
#[derive(Clone, Debug)]
pub struct NewReno {
    datagram: u64,
    window: u64,
    ssthresh: u64,
    /// Fraction of a byte the window has grown by in congestion avoidance, in units of 1/window.
    growth_left: u64,
    epoch: LossEpoch,
    srtt: Option<Span>,
}

impl NewReno {
    /// A new connection's state.
    pub fn new(setup: &Setup) -> NewReno {
        let datagram = u64::from(setup.mtu);
        let window = (10 * datagram).min(INITIAL_WINDOW_BYTES.max(2 * datagram));
        NewReno {
            datagram,
            window,
            ssthresh: u64::MAX,
            growth_left: 0,
            epoch: LossEpoch::default(),
            srtt: None,
        }
    }

    fn minimum(&self) -> u64 {
        MINIMUM_WINDOW_DATAGRAMS * self.datagram
    }

    /// RFC 9002 appendix B.5, OnPacketAcked.
    fn grow(&mut self, acked: &Acked) {
        if self.epoch.covers(acked.sent_at) {
            return;
        }
        let mut bytes = u64::from(acked.size);
        if self.window < self.ssthresh {
            let doubled = bytes.min(self.ssthresh - self.window);
            self.window += doubled;
            bytes -= doubled;
        }
        // Congestion avoidance: datagram * bytes / window, with the remainder kept.
        self.growth_left += bytes * self.datagram;
        self.window += self.growth_left / self.window;
        self.growth_left %= self.window;
    }

    /// RFC 9002 appendix B.6, OnCongestionEvent: once per round, counted by send time.
    fn reduce(&mut self, sent_at: Time, now: Time) {
        if !self.epoch.opens(sent_at, now) {
            return;
        }
        self.ssthresh = ((self.window as f64 * LOSS_REDUCTION) as u64).max(self.minimum());
        self.window = self.ssthresh;
    }
}

impl Controller for NewReno {
    fn on_sent(&mut self, _: &Sent) {}

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.srtt = Some(report.srtt);
        if let Some(last) = report.lost.last() {
            self.reduce(last.sent_at, report.now);
        }
        if report.ce_marks > 0
            && let Some(last) = report.acked.last()
        {
            self.reduce(last.sent_at, report.now);
        }
        if report.persistent_congestion {
            self.window = self.minimum();
            self.epoch.clear();
        }
        if report.limited {
            report.acked.iter().for_each(|acked| self.grow(acked));
        }
    }

    fn decision(&self) -> Decision {
        let gain = if self.window < self.ssthresh { PACING_GAIN_SLOW_START } else { PACING_GAIN };
        let window = Bytes::new(self.window);
        Decision {
            window: Some(window),
            pacing: self.srtt.map(|srtt| window_rate(window, srtt, gain)),
            burst: Bytes::new(2 * self.datagram),
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window as f64);
        if self.ssthresh != u64::MAX {
            sink("ssthresh_bytes", self.ssthresh as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    fn in_avoidance(datagrams: u64) -> NewReno {
        let mut reno = NewReno::new(&Setup { mtu: 1000, ..Setup::default() });
        (reno.window, reno.ssthresh) = (datagrams * 1000, datagrams * 1000);
        reno
    }

    #[test]
    fn a_window_of_acks_adds_one_datagram() {
        let mut reno = in_avoidance(10);
        let acks: Vec<_> = (0..10).map(|n| acked(n, 1000)).collect();
        reno.on_feedback(&report(&acks, &[]));
        assert!((10_950..=11_000).contains(&reno.window), "{}", reno.window);
    }

    #[test]
    fn two_losses_in_a_round_halve_once() {
        let mut reno = in_avoidance(20);
        reno.on_feedback(&report(&[], &[lost(3, 1000)]));
        reno.on_feedback(&report(&[], &[lost(4, 1000)]));
        assert_eq!(reno.window, 10_000);
    }

    #[test]
    fn slow_start_doubles_and_stops_at_ssthresh() {
        let mut reno = NewReno::new(&Setup { mtu: 1000, ..Setup::default() });
        assert_eq!(reno.window, 10_000);
        reno.ssthresh = 15_000;
        let acks: Vec<_> = (0..10).map(|n| acked(n, 1000)).collect();
        reno.on_feedback(&report(&acks, &[]));
        assert!((15_000..15_500).contains(&reno.window), "{}", reno.window);
    }

    #[test]
    fn unused_window_does_not_grow_and_persistent_congestion_collapses_it() {
        let mut reno = in_avoidance(10);
        let acks = [acked(1, 1000)];
        reno.on_feedback(&Report { limited: false, ..report(&acks, &[]) });
        assert_eq!(reno.window, 10_000);
        reno.on_feedback(&Report { persistent_congestion: true, ..report(&[], &[lost(3, 1000)]) });
        assert_eq!(reno.window, 2_000);
    }
}
