//! TCP Westwood+: grows like NewReno, and after a loss sets the window to what the path was measured to hold.
//!
//! ```text
//! ssthresh = bandwidth * smallest round trip;   bandwidth = low-pass of (bytes acknowledged in a round trip / its
//! length)
//! ```

use units::{Span, Time};

use crate::parts::RenoWindow;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};

const OPTIONS: &[(&str, &str)] =
    &[("hystart", "leave the first slow start by HyStart++ (RFC 9406), on or off (default off)")];

/// The registry's row for Westwood+ as Linux has it.
pub const ENTRY: Entry = Entry {
    name: "westwood-plus",
    summary: "TCP Westwood+ with Linux's double low-pass of the bandwidth",
    needs_frames: false,
    options: OPTIONS,
    page: include_str!("westwood.md"),
    build: |options, setup| build(options, setup, Filter::Linux),
    receiver: None,
};

/// The registry's row for Westwood+ as QUIC-DC builds on it.
pub const QUIC_ENTRY: Entry = Entry {
    name: "westwood-plus-quic",
    summary: "Westwood+ with the fast bandwidth filter of QUIC-DC",
    needs_frames: false,
    options: OPTIONS,
    page: include_str!("westwood.md"),
    build: |options, setup| build(options, setup, Filter::Quic),
    receiver: None,
};

fn build(options: &Options, setup: &Setup, filter: Filter) -> Result<Box<dyn Controller>, OptionError> {
    Ok(Box::new(Westwood::new(setup, filter, options.switch("hystart", false)?)))
}

/// Samples are taken over a round trip, and at least this (Linux tcp_westwood.c, TCP_WESTWOOD_RTT_MIN).
const SHORTEST_SAMPLE: Span = Span::from_millis(50);
/// Until there is a sample, NewReno's share is left (RFC 9002 appendix B.1).
const BLIND_REDUCTION: f64 = 0.5;

/// How samples of the bandwidth are smoothed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Two low-passes of 7/8 in a row (Linux tcp_westwood.c).
    Linux,
    /// One of 0.2 (QUIC-DC, eq. 7).
    Quic,
}

/// The bandwidth, in bytes per second, of what is acknowledged.
#[derive(Clone, Debug)]
struct Bandwidth {
    filter: Filter,
    /// When the sample under way began, the bytes acknowledged since, and whether the window was the limit
    /// all the time.
    started_at: Option<Time>,
    bytes: u64,
    limited: bool,
    /// The first low-pass (Linux's bw_ns_est) and the second; there from the first sample on.
    smoothed: Option<(f64, f64)>,
}

impl Bandwidth {
    fn new(filter: Filter) -> Bandwidth {
        Bandwidth { filter, started_at: None, bytes: 0, limited: true, smoothed: None }
    }

    fn get(&self) -> Option<f64> {
        self.smoothed.map(|(_, bandwidth)| bandwidth)
    }

    /// Begins a sample with the next report.
    fn restart(&mut self) {
        (self.started_at, self.bytes, self.limited) = (None, 0, true);
    }

    /// Closes the sample if a round trip has passed, then counts what `report` acknowledges towards the next:
    /// bytes that arrive at its very start belong to the time after it, as those at its end do not belong to
    /// it.
    fn on_report(&mut self, report: &Report<'_>) {
        let started_at = *self.started_at.get_or_insert(report.now);
        let rtt = report.latest_rtt.unwrap_or(report.srtt);
        let length = report.now - started_at;
        if length > rtt.max(SHORTEST_SAMPLE) {
            self.sample(self.bytes as f64 / length.as_secs_f64(), self.limited);
            self.restart();
            self.started_at = Some(report.now);
        }
        self.bytes += report.acked.iter().map(|acked| u64::from(acked.size)).sum::<u64>();
        self.limited &= report.limited;
    }

    /// A sample from a time in which the sender had less to send than it might says something only if it is
    /// higher.
    fn sample(&mut self, sample: f64, limited: bool) {
        self.smoothed = match self.smoothed {
            Some((_, bandwidth)) if !limited && sample < bandwidth => return,
            None => Some((sample, sample)),
            Some((first, second)) if self.filter == Filter::Linux => {
                let first = (7.0 * first + sample) / 8.0;
                Some((first, (7.0 * second + first) / 8.0))
            }
            Some((_, bandwidth)) => {
                let bandwidth = quic_filter(bandwidth, sample);
                Some((bandwidth, bandwidth))
            }
        };
    }
}

/// QUIC-DC's bandwidth filter (QUIC-DC, equation 7).
pub fn quic_filter(bandwidth: f64, sample: f64) -> f64 {
    0.2 * bandwidth + 0.8 * sample
}

/// Westwood+'s state.
#[derive(Clone, Debug)]
pub struct Westwood {
    window: RenoWindow,
    bandwidth: Bandwidth,
    /// Smallest round trip since the last persistent congestion.
    min_rtt: Option<Span>,
    acked_at: Time,
}

impl Westwood {
    /// A new connection's state; `hystart` leaves the first slow start by RFC 9406.
    pub fn new(setup: &Setup, filter: Filter, hystart: bool) -> Westwood {
        Westwood {
            window: RenoWindow::new(setup, hystart),
            bandwidth: Bandwidth::new(filter),
            min_rtt: None,
            acked_at: Time::ZERO,
        }
    }

    /// Bytes the path was measured to hold without a queue.
    fn pipe(&self) -> Option<u64> {
        Some((self.bandwidth.get()? * self.min_rtt?.as_secs_f64()) as u64)
    }

    /// Congestion met by a packet sent at `sent_at`: once a round, the window goes down to what the path
    /// holds.
    pub(crate) fn congested(&mut self, sent_at: Time, now: Time) {
        if self.window.opens(sent_at, now) {
            self.back_off();
        }
    }

    fn back_off(&mut self) {
        let blind = (self.window.bytes() as f64 * BLIND_REDUCTION) as u64;
        self.window.cut(self.pipe().unwrap_or(blind));
    }

    /// When the window was last cut.
    pub(crate) fn cut_at(&self) -> Option<Time> {
        self.window.cut_at()
    }

    /// Measures, then reacts to losses: the first half of a report.
    pub(crate) fn take_losses(&mut self, report: &Report<'_>) {
        if report.persistent_congestion {
            // What was silence says nothing of the bandwidth; the path may be another one (Linux's
            // reset_rtt_min).
            self.bandwidth.restart();
        }
        self.bandwidth.on_report(report);
        if let Some(rtt) = report.latest_rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        if self.window.reacts_to(report) || report.persistent_congestion {
            self.back_off();
        }
        if report.persistent_congestion {
            self.window.collapse();
            self.min_rtt = None;
        }
    }

    /// Grows: the second half of a report.
    pub(crate) fn take_acknowledgements(&mut self, report: &Report<'_>) {
        self.window.grow(report);
        if !report.acked.is_empty() {
            self.acked_at = report.now;
        }
    }
}

impl Controller for Westwood {
    fn on_sent(&mut self, sent: &Sent) {
        // After idling: the silence is not the path's.
        let nothing_else = sent.in_flight.get() <= u64::from(sent.size);
        if nothing_else && sent.now - self.acked_at > SHORTEST_SAMPLE {
            self.bandwidth.restart();
        }
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.take_losses(report);
        self.take_acknowledgements(report);
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
        if let Some(bandwidth) = self.bandwidth.get() {
            sink("bandwidth_bps", 8.0 * bandwidth);
        }
        if let Some(min_rtt) = self.min_rtt {
            sink("min_rtt_ms", min_rtt.as_millis_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    fn filtered(filter: Filter, samples: usize) -> f64 {
        let mut bandwidth = Bandwidth { smoothed: Some((10.0, 10.0)), ..Bandwidth::new(filter) };
        (0..samples).for_each(|_| bandwidth.sample(20.0, true));
        (bandwidth.get().unwrap() * 1e3).round() / 1e3
    }

    #[test]
    fn samples_pass_the_low_passes() {
        // Samples of 20 after 10, through two low-passes of 7/8 in a row (Linux, tcp_westwood.c).
        let linux = [1, 4, 8, 16].map(|n| filtered(Filter::Linux, n));
        assert_eq!(linux, [10.156, 11.207, 13.128, 16.458]);
        assert_eq!([1, 2].map(|n| filtered(Filter::Quic, n)), [18.0, 19.6]);
        let mut first = Bandwidth::new(Filter::Linux);
        first.sample(7.0, true);
        assert_eq!(first.smoothed, Some((7.0, 7.0)), "the first sample is taken as it is");
    }

    /// 1000 bytes acknowledged every 4 ms from `from` to `to` ms, with round trips of 40 ms.
    fn feed(westwood: &mut Westwood, from: u64, to: u64, limited: bool) {
        for now in (from..to).step_by(4) {
            let acks = [acked(now - 40, 1000)];
            westwood.on_feedback(&Report { now: Time::from_millis(now), limited, ..report(&acks, &[]) });
        }
    }

    fn westwood() -> Westwood {
        Westwood::new(&Setup { mtu: 1000, ..Setup::default() }, Filter::Quic, false)
    }

    #[test]
    fn a_loss_leaves_what_the_path_holds() {
        let mut westwood = westwood();
        feed(&mut westwood, 100, 500, true);
        assert_eq!(westwood.bandwidth.get(), Some(250_000.0));
        westwood.on_feedback(&Report { now: Time::from_millis(500), ..report(&[], &[lost(460, 1000)]) });
        assert_eq!(westwood.window.bytes(), 10_000);
        // Below that, a loss costs nothing: the window grows back to it as in slow start.
        westwood.window.cut(4_000);
        westwood.on_feedback(&Report { now: Time::from_millis(504), ..report(&[], &[lost(501, 1000)]) });
        feed(&mut westwood, 548, 572, true);
        assert_eq!(westwood.window.bytes(), 10_000);
    }

    #[test]
    fn before_the_first_sample_a_loss_halves() {
        let mut westwood = westwood();
        westwood.on_feedback(&report(&[], &[lost(60, 1000)]));
        assert_eq!(westwood.window.bytes(), 5_000);
    }

    #[test]
    fn an_idle_or_slow_application_does_not_look_like_a_slow_path() {
        let mut westwood = westwood();
        feed(&mut westwood, 100, 500, true);
        // 250 kB/s before; then one packet every 20 ms.
        for now in (500..1000).step_by(20) {
            let acks = [acked(now - 40, 1000)];
            westwood.on_feedback(&Report {
                now: Time::from_millis(now),
                limited: false,
                ..report(&acks, &[])
            });
        }
        assert_eq!(westwood.bandwidth.get(), Some(250_000.0));
        let sent = Sent {
            now: Time::from_secs(9),
            packet: 1,
            size: 1000,
            frame: None,
            in_flight: units::Bytes::new(1000),
            app_limited: false,
        };
        westwood.on_sent(&sent);
        feed(&mut westwood, 9040, 9400, true);
        let after = westwood.bandwidth.get().unwrap();
        assert!((after / 250_000.0 - 1.0).abs() < 0.01, "{after}");
    }

    #[test]
    fn persistent_congestion_keeps_the_bandwidth_and_asks_for_a_new_round_trip() {
        let mut westwood = westwood();
        feed(&mut westwood, 100, 500, true);
        let (now, latest_rtt) = (Time::from_millis(5500), None);
        let losses = [lost(500, 1000)];
        let collapse = Report { now, latest_rtt, persistent_congestion: true, ..report(&[], &losses) };
        westwood.on_feedback(&collapse);
        assert_eq!((westwood.window.bytes(), westwood.min_rtt), (2_000, None));
        feed(&mut westwood, 5544, 5580, true);
        assert_eq!(westwood.window.bytes(), 10_000 + 1000 / 10, "slow start back to 10, then one step");
    }
}
