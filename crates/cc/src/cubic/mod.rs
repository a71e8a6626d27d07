//! CUBIC (RFC 9438) with HyStart++ (RFC 9406): after a cut the window follows a cubic of time, whose plateau
//! is where the loss was.
//!
//! ```text
//! W(t) = C (t - K)^3 + W_max,   K = cbrt((W_max - cwnd_epoch) / C)
//! ```

mod curve;

use units::{Bytes, Span, Time};

use self::curve::{Curve, MAXIMUM, MINIMUM};
use crate::parts::{HyStart, LossEpoch, initial_window, window_rate};
use crate::{Acked, Controller, Decision, Entry, Lost, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "cubic",
    summary: "CUBIC (RFC 9438) with HyStart++ (RFC 9406), paced",
    needs_frames: false,
    options: &[
        ("hystart", "leave the first slow start by HyStart++, on or off (default on)"),
        ("fast_convergence", "a lower plateau after a loss below the last one, on or off (default on)"),
        (
            "ssthresh_cap",
            "slow start stops at ssthresh within an acknowledgement, on (default) or off, as ns-3",
        ),
    ],
    page: include_str!("cubic.md"),
    build: |options, setup| {
        let fast_convergence = options.switch("fast_convergence", true)?;
        let capped = options.switch("ssthresh_cap", true)?;
        let cubic = Cubic::new(setup, options.switch("hystart", true)?, fast_convergence);
        Ok(Box::new(Cubic { capped, ..cubic }))
    },
    receiver: None,
};

/// Windows a round trip in congestion avoidance and in slow start (Linux's tcp_pacing_ca_ratio and
/// tcp_pacing_ss_ratio).
const PACING_GAIN: f64 = 1.2;
const PACING_GAIN_SLOW_START: f64 = 2.0;
/// RFC 6298 section 2.4: the least retransmission timeout. An idle sender's window is old after one (RFC 5681
/// section 4.1).
const LEAST_TIMEOUT: Span = Span::from_secs(1);

/// The last cut, until its cause is known to be real.
#[derive(Clone, Copy, Debug)]
struct Episode {
    before: Curve,
    epoch: LossEpoch,
    /// Numbers of the first and last packet whose loss counts to it, and how many have not arrived after all.
    first: u64,
    last: u64,
    missing: u64,
}

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    datagram: f64,
    curve: Curve,
    epoch: LossEpoch,
    episode: Option<Episode>,
    hystart: Option<HyStart>,
    fast_convergence: bool,
    /// Slow start stops at ssthresh within an acknowledgement. ns-3's does not (CC-Fuzz, thesis section
    /// 7.4.2).
    capped: bool,
    srtt: Option<Span>,
    rttvar: Span,
    reported_at: Time,
    sent_at: Time,
}

impl Cubic {
    /// A new connection's state; `hystart` leaves the first slow start by RFC 9406, `fast_convergence` makes
    /// room for newcomers (RFC 9438 section 4.7).
    pub fn new(setup: &Setup, hystart: bool, fast_convergence: bool) -> Cubic {
        let datagram = u64::from(setup.mtu);
        Cubic {
            datagram: datagram as f64,
            curve: Curve::new(initial_window(datagram) as f64 / datagram as f64),
            epoch: LossEpoch::default(),
            episode: None,
            hystart: hystart.then(HyStart::default),
            fast_convergence,
            capped: true,
            srtt: None,
            rttvar: Span::ZERO,
            reported_at: Time::ZERO,
            sent_at: Time::ZERO,
        }
    }

    /// Cuts once per round, counted by send time. Remembers what to restore if `lost` were none.
    fn congested(&mut self, sent_at: Time, now: Time, lost: &[Lost]) {
        let (before, epoch) = (self.curve, self.epoch);
        if !self.epoch.opens(sent_at, now) {
            return;
        }
        self.curve.cut(self.fast_convergence);
        self.hystart = None;
        let fresh = || lost.iter().filter(|lost| !epoch.covers(lost.sent_at));
        self.episode = fresh().map(|lost| lost.packet).min().map(|first| Episode {
            before,
            epoch,
            first,
            last: first,
            missing: 0,
        });
    }

    fn count_lost(&mut self, lost: &[Lost]) {
        let Some(episode) = &mut self.episode else { return };
        for lost in lost.iter().filter(|lost| lost.packet >= episode.first) {
            episode.last = episode.last.max(lost.packet);
            episode.missing = episode.missing.saturating_add(1);
        }
    }

    /// RFC 9438 section 4.9: all that was lost has arrived after all, so nothing was. A window larger by now
    /// stays.
    fn forgive(&mut self, spurious: &[u64]) {
        let Some(episode) = &mut self.episode else { return };
        let ours = |packet: &&u64| (episode.first..=episode.last).contains(*packet);
        let arrived = spurious.iter().filter(ours).count() as u64;
        episode.missing = episode.missing.saturating_sub(arrived);
        let Episode { before, epoch, missing: 0, .. } = *episode else { return };
        self.episode = None;
        if self.curve.cwnd < before.cwnd {
            (self.curve, self.epoch) = (before, epoch);
        }
    }

    fn take_losses(&mut self, report: &Report<'_>) {
        self.forgive(report.spurious);
        if let Some(last) = report.lost.last() {
            self.congested(last.sent_at, report.now, report.lost);
            self.count_lost(report.lost);
        }
        if report.ce_marks > 0
            && let Some(last) = report.acked.last()
        {
            self.congested(last.sent_at, report.now, &[]);
            self.episode = None;
        }
        if report.persistent_congestion {
            self.curve.collapse();
            self.hystart = None;
        }
    }

    fn take_acknowledgements(&mut self, report: &Report<'_>) {
        if self.hystart.as_mut().is_some_and(|hystart| hystart.ends(report)) {
            (self.curve.ssthresh, self.curve.prior) = (self.curve.cwnd, self.curve.cwnd);
            self.hystart = None;
        }
        if report.limited {
            self.grow(report, self.counted(report));
        } else if let Some(started_at) = &mut self.curve.started_at {
            // RFC 9438 section 5.8: time in which the window was not the limit does not move along the curve.
            *started_at += report.now - self.reported_at;
        }
    }

    /// Bytes that let the window grow: those of packets sent since the last cut. In ns-3's slow start, all
    /// that an acknowledgement moved by.
    fn counted(&self, report: &Report<'_>) -> u64 {
        if !self.capped && self.curve.in_slow_start() {
            return report.in_order;
        }
        let fresh = |acked: &&Acked| !self.epoch.covers(acked.sent_at);
        report.acked.iter().filter(fresh).map(|acked| u64::from(acked.size)).sum()
    }

    fn grow(&mut self, report: &Report<'_>, bytes: u64) {
        let mut segments = bytes as f64 / self.datagram;
        if self.curve.in_slow_start() {
            // Clipped at ssthresh, the rest counts as congestion avoidance: one acknowledgement after a
            // timeout can cover hundreds of segments.
            let slowed = self.hystart.as_ref().map(|hystart| hystart.growth(bytes) as f64 / self.datagram);
            let wanted = slowed.unwrap_or(segments);
            let room = if self.capped { self.curve.ssthresh - self.curve.cwnd } else { f64::INFINITY };
            let grown = wanted.min(room);
            self.curve.cwnd += grown;
            segments = if grown < wanted { segments - grown } else { 0.0 };
        }
        if segments > 0.0 {
            self.curve.avoid(report.now, report.srtt, segments.min(self.curve.cwnd));
        }
        self.curve.cwnd = self.curve.cwnd.clamp(MINIMUM, MAXIMUM);
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, sent: &Sent) {
        let nothing_else = sent.in_flight <= Bytes::new(u64::from(sent.size));
        let timeout = (self.srtt.unwrap_or(Span::ZERO) + self.rttvar * 4).max(LEAST_TIMEOUT);
        if nothing_else && sent.now - self.sent_at > timeout {
            self.curve.restart(initial_window(self.datagram as u64) as f64 / self.datagram);
        }
        self.sent_at = sent.now;
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        (self.srtt, self.rttvar) = (Some(report.srtt), report.rttvar);
        self.take_losses(report);
        self.take_acknowledgements(report);
        self.reported_at = report.now;
    }

    fn on_mtu(&mut self, mtu: u32) {
        let datagram = f64::from(mtu.max(1));
        let factor = self.datagram / datagram;
        self.curve.rescale(factor);
        if let Some(episode) = &mut self.episode {
            episode.before.rescale(factor);
        }
        self.datagram = datagram;
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let gain = if self.curve.in_slow_start() { PACING_GAIN_SLOW_START } else { PACING_GAIN };
        let window = Bytes::new((self.curve.cwnd * self.datagram) as u64);
        Decision {
            window: Some(window),
            pacing: self.srtt.map(|srtt| window_rate(window, srtt, gain)),
            burst: Bytes::new(2 * self.datagram as u64),
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.curve.cwnd * self.datagram);
        if self.curve.ssthresh.is_finite() {
            sink("ssthresh_bytes", self.curve.ssthresh * self.datagram);
        }
        sink("w_max_bytes", self.curve.w_max * self.datagram);
        sink("w_est_bytes", self.curve.w_est * self.datagram);
        sink("k_seconds", self.curve.k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    fn cubic(cwnd: f64) -> Cubic {
        let mut cubic = Cubic::new(&Setup { mtu: 1000, ..Setup::default() }, false, true);
        (cubic.curve.cwnd, cubic.curve.ssthresh) = (cwnd, cwnd);
        cubic
    }

    #[test]
    fn a_round_that_follows_the_curve_meets_it() {
        let mut cubic = cubic(70.0);
        (cubic.curve.w_max, cubic.curve.prior) = (1000.0, 1000.0);
        cubic.reported_at = Time::from_millis(100);
        // 100 round trips of 40 ms with a window of acknowledgements each, in ten reports.
        for tick in 0..1000u64 {
            let size = (cubic.curve.cwnd * 100.0) as u32;
            let now = Time::from_millis(100 + 4 * tick);
            cubic.on_feedback(&Report { now, ..report(&[acked(100 + 4 * tick, size)], &[]) });
        }
        let meant = cubic.curve.cubic(3.996);
        assert!((cubic.curve.cwnd / meant - 1.0).abs() < 0.01, "{} {meant}", cubic.curve.cwnd);
    }

    #[test]
    fn as_fast_as_reno_on_a_short_path() {
        // At 10 segments and 1 ms the cubic is flat: a window of acknowledgements adds alpha, and 1 from the
        // last cut's window on.
        let mut cubic = cubic(10.0);
        (cubic.curve.w_max, cubic.curve.prior) = (11.0, 10.6);
        let round = |cubic: &mut Cubic, n: u64| {
            let acks = [acked(200 + n, (1000.0 * cubic.curve.cwnd) as u32)];
            cubic.on_feedback(&Report {
                srtt: Span::from_millis(1),
                now: Time::from_millis(200 + n),
                ..report(&acks, &[])
            });
            cubic.curve.cwnd
        };
        let seen = [0, 1, 2].map(|n| (round(&mut cubic, n) * 100.0).round());
        assert_eq!(seen, [1053.0, 1106.0, 1206.0]);
    }

    #[test]
    fn a_cut_by_three_tenths_once_a_round_and_a_lower_plateau_if_below_the_last() {
        let mut cubic = cubic(100.0);
        cubic.on_feedback(&report(&[], &[lost(3, 1000)]));
        cubic.on_feedback(&report(&[], &[lost(4, 1000)]));
        assert_eq!((cubic.curve.cwnd, cubic.curve.w_max), (70.0, 100.0));
        cubic.on_feedback(&Report { now: Time::from_millis(300), ..report(&[], &[lost(200, 1000)]) });
        assert_eq!((cubic.curve.cwnd, cubic.curve.w_max), (49.0, 59.5));
    }

    #[test]
    fn one_acknowledgement_of_much_does_not_jump_over_ssthresh() {
        // cubic.md section 8: cwnd 1, ssthresh 50, one acknowledgement of 300 segments.
        let mut cubic = cubic(1.0);
        (cubic.curve.ssthresh, cubic.curve.prior) = (50.0, 71.4);
        cubic.on_feedback(&report(&[acked(1, 300_000)], &[]));
        assert!((50.0..=51.0).contains(&cubic.curve.cwnd), "{}", cubic.curve.cwnd);
    }

    #[test]
    fn without_the_cap_it_does_as_in_ns3() {
        let mut cubic = Cubic { capped: false, ..cubic(1.0) };
        cubic.curve.ssthresh = 50.0;
        // Selectively acknowledged before, so that only the first segment is news.
        let acks = [acked(1, 1000)];
        cubic.on_feedback(&Report { in_order: 300_000, ..report(&acks, &[]) });
        assert_eq!(cubic.curve.cwnd, 301.0);
    }

    #[test]
    fn losses_that_were_none_are_taken_back() {
        let mut cubic = cubic(100.0);
        cubic.on_feedback(&report(&[], &[lost(3, 1000), lost(4, 1000)]));
        cubic.on_feedback(&Report { spurious: &[3], ..report(&[], &[]) });
        assert_eq!(cubic.curve.cwnd, 70.0, "one of two may be real");
        cubic.on_feedback(&Report { spurious: &[4], ..report(&[], &[]) });
        assert_eq!((cubic.curve.cwnd, cubic.curve.ssthresh, cubic.curve.w_max), (100.0, 100.0, 0.0));
        // The window is not in an epoch any more: a real loss cuts it at once.
        cubic.on_feedback(&report(&[], &[lost(5, 1000)]));
        assert_eq!(cubic.curve.cwnd, 70.0);
        // A mark says that the queue was there: nothing to take back.
        let acks = [acked(6, 1000)];
        cubic.on_feedback(&Report { ce_marks: 1, ..report(&acks, &[]) });
        cubic.on_feedback(&Report { spurious: &[5], ..report(&[], &[]) });
        assert_eq!(cubic.curve.cwnd, 70.0);
    }

    #[test]
    fn time_without_use_of_the_window_does_not_count() {
        let mut cubic = cubic(70.0);
        (cubic.curve.w_max, cubic.curve.prior) = (100.0, 100.0);
        let at = |now: u64, limited: bool, cubic: &mut Cubic| {
            let acks = [acked(now, 1000)];
            cubic.on_feedback(&Report { now: Time::from_millis(now), limited, ..report(&acks, &[]) });
        };
        at(1000, true, &mut cubic);
        let after = cubic.curve.cwnd;
        (1..100).for_each(|n| at(1000 + 100 * n, false, &mut cubic));
        assert_eq!((cubic.curve.cwnd, cubic.curve.started_at), (after, Some(Time::from_millis(10_900))));
    }

    #[test]
    fn persistent_congestion_and_idling_begin_again_below_what_was() {
        let mut cubic = cubic(100.0);
        cubic.on_feedback(&Report { persistent_congestion: true, ..report(&[], &[lost(3, 1000)]) });
        assert_eq!((cubic.curve.cwnd, cubic.curve.ssthresh, cubic.curve.w_max), (2.0, 70.0, 0.0));
        let mut cubic = self::cubic(100.0);
        let sent = |now: u64| Sent {
            now: Time::from_millis(now),
            packet: now,
            size: 1000,
            frame: None,
            in_flight: Bytes::new(1000),
            app_limited: false,
        };
        cubic.on_sent(&sent(900));
        assert_eq!(cubic.curve.cwnd, 100.0);
        cubic.on_sent(&sent(1901));
        assert_eq!((cubic.curve.cwnd, cubic.curve.ssthresh), (10.0, 100.0));
    }
}
