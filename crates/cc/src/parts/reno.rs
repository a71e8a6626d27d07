//! The window of NewReno and of those that only cut it differently.

use units::{Bytes, Span, Time, likely, unlikely};

use super::{HyStart, LossEpoch, window_rate};
use crate::{Acked, Decision, Report, Setup};

/// RFC 9002 section 7.2: ten datagrams, at most 14720 bytes unless two are larger.
const INITIAL_BYTES: u64 = 14_720;
/// RFC 9002 section 7.2.
const MINIMUM_DATAGRAMS: u64 = 2;
/// RFC 9002 section 7.7: a little faster than the window over a round trip, so that pacing does not starve it
/// ...
const PACING_GAIN: f64 = 1.25;
/// ... and twice as fast while the window doubles.
const PACING_GAIN_SLOW_START: f64 = 2.0;

/// A window that doubles a round trip below `ssthresh` and grows by a datagram a round trip above (RFC 9002
/// appendix B), with one reaction to congestion a round. How far it is cut is its owner's business.
#[derive(Clone, Debug)]
pub struct RenoWindow {
    datagram: u64,
    window: u64,
    ssthresh: u64,
    /// Growth in congestion avoidance not yet a whole byte, in units of 1/window.
    growth_left: u64,
    epoch: LossEpoch,
    /// Watches the first slow start, if asked to. Boxed: half of a window's memory, and most have none.
    hystart: Option<Box<HyStart>>,
    srtt: Option<Span>,
}

/// The window a connection starts with.
pub fn initial_window(datagram: u64) -> u64 {
    (10 * datagram).min(INITIAL_BYTES.max(2 * datagram))
}

impl RenoWindow {
    /// A new connection's window; `hystart` leaves the first slow start by RFC 9406.
    pub fn new(setup: &Setup, hystart: bool) -> RenoWindow {
        let datagram = u64::from(setup.mtu);
        RenoWindow {
            datagram,
            window: initial_window(datagram),
            ssthresh: u64::MAX,
            growth_left: 0,
            epoch: LossEpoch::default(),
            hystart: hystart.then(Box::default),
            srtt: None,
        }
    }

    /// Datagrams have at most `mtu` bytes from here on.
    pub fn set_datagram(&mut self, mtu: u32) {
        self.datagram = u64::from(mtu.max(1));
        self.window = self.window.max(self.minimum());
    }

    /// The window, in bytes.
    pub fn bytes(&self) -> u64 {
        self.window
    }

    /// The least it can be.
    pub fn minimum(&self) -> u64 {
        MINIMUM_DATAGRAMS * self.datagram
    }

    /// Whether losses or congestion marks of `report` ask for a cut: once per round, counted by send time
    /// (RFC 9002 appendix B.6).
    pub fn reacts_to(&mut self, report: &Report<'_>) -> bool {
        let lost = report.lost.last().map(|lost| lost.sent_at);
        let marked = report.acked.last().filter(|_| report.ce_marks > 0).map(|acked| acked.sent_at);
        lost.max(marked).is_some_and(|sent_at| self.opens(sent_at, report.now))
    }

    /// Whether congestion met by a packet sent at `sent_at` asks for a cut.
    pub fn opens(&mut self, sent_at: Time, now: Time) -> bool {
        self.epoch.opens(sent_at, now)
    }

    /// When congestion was last reacted to.
    pub fn cut_at(&self) -> Option<Time> {
        self.epoch.start()
    }

    /// Cuts to `ssthresh` (never raises), and grows slowly from there on. Slow start follows if the window is
    /// below it already.
    pub fn cut(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh.max(self.minimum());
        self.window = self.window.min(self.ssthresh);
        self.hystart = None;
    }

    /// Persistent congestion: the least window, and the past forgotten (RFC 9002 appendix B.8).
    pub fn collapse(&mut self) {
        self.window = self.minimum();
        self.epoch.clear();
        self.hystart = None;
    }

    /// Grows by what `report` acknowledges of the packets sent since the last cut, if the sender used the
    /// window.
    #[inline(always)]
    pub fn grow(&mut self, report: &Report<'_>) {
        self.srtt = Some(report.srtt);
        if unlikely(self.hystart.is_some()) {
            self.watch_slow_start(report);
        }
        if likely(report.limited) {
            report.acked.iter().for_each(|acked| self.grow_by(acked));
        }
    }

    #[inline(never)]
    fn watch_slow_start(&mut self, report: &Report<'_>) {
        if self.hystart.as_mut().is_some_and(|hystart| hystart.ends(report)) {
            self.ssthresh = self.window;
            self.hystart = None;
        }
    }

    /// RFC 9002 appendix B.5.
    #[inline(always)]
    fn grow_by(&mut self, acked: &Acked) {
        if unlikely(self.epoch.covers(acked.sent_at)) {
            return;
        }
        let mut bytes = u64::from(acked.size);
        if unlikely(self.window < self.ssthresh) {
            let wanted = self.hystart.as_ref().map_or(bytes, |hystart| hystart.growth(bytes));
            let grown = wanted.min(self.ssthresh - self.window);
            self.window += grown;
            bytes = if grown < wanted { bytes - grown } else { 0 };
        }
        // Congestion avoidance: datagram * bytes / window, with the remainder kept.
        self.growth_left += bytes * self.datagram;
        let more = self.growth_left / self.window;
        self.window += more;
        self.growth_left = rest(self.growth_left, self.window, more);
    }

    /// Window and pacing.
    pub fn decision(&self) -> Decision {
        let gain = if self.window < self.ssthresh { PACING_GAIN_SLOW_START } else { PACING_GAIN };
        let window = Bytes::new(self.window);
        Decision {
            window: Some(window),
            pacing: self.srtt.map(|srtt| window_rate(window, srtt, gain)),
            burst: Bytes::new(2 * self.datagram),
            ..Decision::default()
        }
    }

    /// Names window and threshold.
    pub fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window as f64);
        if self.ssthresh != u64::MAX {
            sink("ssthresh_bytes", self.ssthresh as f64);
        }
    }
}

/// `sum % window`, where a window smaller by `parts` went `parts` times into `sum`: most often a
/// multiplication instead of a division.
#[inline(always)]
fn rest(sum: u64, window: u64, parts: u64) -> u64 {
    match sum.checked_sub(parts.saturating_mul(window)) {
        Some(rest) if likely(rest < window) => rest,
        _ => sum % window,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};
    use proptest::prelude::*;

    fn in_avoidance(datagrams: u64) -> RenoWindow {
        let mut reno = RenoWindow::new(&Setup { mtu: 1000, ..Setup::default() }, false);
        (reno.window, reno.ssthresh) = (datagrams * 1000, datagrams * 1000);
        reno
    }

    proptest! {
        #[test]
        fn the_rest_is_what_a_division_leaves(sum in 0_u64..1 << 40, window in 1_u64..1 << 24) {
            let parts = sum / window;
            prop_assert_eq!(rest(sum, window + parts, parts), sum % (window + parts));
        }
    }

    #[test]
    fn a_window_of_acks_adds_one_datagram() {
        let mut reno = in_avoidance(10);
        let acks: Vec<_> = (0..10).map(|n| acked(n, 1000)).collect();
        reno.grow(&report(&acks, &[]));
        assert!((10_950..=11_000).contains(&reno.window), "{}", reno.window);
    }

    #[test]
    fn slow_start_doubles_and_stops_at_ssthresh() {
        let mut reno = RenoWindow::new(&Setup { mtu: 1000, ..Setup::default() }, false);
        assert_eq!(reno.window, 10_000);
        reno.ssthresh = 15_000;
        let acks: Vec<_> = (0..10).map(|n| acked(n, 1000)).collect();
        reno.grow(&report(&acks, &[]));
        assert!((15_000..15_500).contains(&reno.window), "{}", reno.window);
    }

    #[test]
    fn a_round_is_cut_once_and_grows_nothing() {
        let mut reno = in_avoidance(20);
        assert!(reno.reacts_to(&report(&[], &[lost(3, 1000)])));
        reno.cut(12_000);
        assert!(!reno.reacts_to(&report(&[], &[lost(4, 1000)])));
        // A mark in the same round is the same congestion.
        let acks = [acked(5, 1000)];
        assert!(!reno.reacts_to(&Report { ce_marks: 1, ..report(&acks, &[]) }));
        reno.grow(&report(&acks, &[]));
        assert_eq!(reno.window, 12_000);
        reno.cut(50_000);
        assert_eq!((reno.window, reno.ssthresh), (12_000, 50_000), "never raised");
        reno.cut(0);
        assert_eq!(reno.window, 2_000);
    }
}
