//! TCP Vegas: two to four packets of one's own in the queue (Brakmo and Peterson 1995, Linux `tcp_vegas.c`).
//!
//! ```text
//!  once a round:   target = cwnd base / rtt     diff = cwnd - target     (packets in the queue)
//!  diff < alpha: cwnd += 1     diff > beta: cwnd -= 1     in slow start diff > gamma: cwnd = target + 1
//! ```

use units::{Bytes, Span, Time};

use crate::parts::{LossEpoch, packet_rtts, window_rate};
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "vegas",
    summary: "TCP Vegas, paced: two to four packets in the queue",
    needs_frames: false,
    options: &[
        ("alpha", "grows with fewer packets in the queue, 1 to 100 (default 2)"),
        ("beta", "shrinks with more packets in the queue, 1 to 200 (default 4)"),
        ("gamma", "slow start ends with more packets in the queue, 1 to 100 (default 1)"),
    ],
    page: include_str!("vegas.md"),
    build: |options, setup| Ok(Box::new(Vegas::new(Params::read(options)?, setup))),
    receiver: None,
};

/// RFC 6928.
const INITIAL_WINDOW: u64 = 10;
/// Linux: Vegas never goes below two packets ...
const MINIMUM_WINDOW: u64 = 2;
/// ... but a timeout leaves one.
const TIMEOUT_WINDOW: u64 = 1;
/// Linux: a round with no more samples than this is too noisy to judge (one may be a delayed
/// acknowledgement's).
const FEW_SAMPLES: u32 = 2;
/// RFC 9002 section 7.7.
const PACING_GAIN: f64 = 1.25;
/// Twice as fast while the window doubles, as NewReno here.
const PACING_GAIN_SLOW_START: f64 = 2.0;

/// Thresholds in packets; [`Default`] is the paper's and Linux's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Fewer of one's own packets in the queue: one more.
    pub alpha: f64,
    /// More of one's own packets in the queue: one fewer.
    pub beta: f64,
    /// More end slow start.
    pub gamma: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { alpha: 2.0, beta: 4.0, gamma: 1.0 }
    }
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        let d = Params::default();
        let alpha = options.number("alpha", d.alpha, 1.0..=100.0)?;
        let beta = options.number("beta", d.beta.max(alpha), alpha..=200.0)?;
        Ok(Params { alpha, beta, gamma: options.number("gamma", d.gamma, 1.0..=100.0)? })
    }
}

/// What a round trip's packets have shown.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It ends when this packet, or a later one, is acknowledged.
    end: u64,
    /// Smallest round trip in it.
    least: Option<Span>,
    samples: u32,
    /// The window was used.
    used: bool,
}

/// Vegas's state.
#[derive(Clone, Debug)]
pub struct Vegas {
    params: Params,
    datagram: u64,
    window: u64,
    ssthresh: u64,
    /// Smallest round trip ever: the empty path's.
    base: Option<Span>,
    round: Round,
    /// The window was used in the round before.
    was_used: bool,
    /// Not judged by Vegas: recovering from a loss.
    recovering: bool,
    epoch: LossEpoch,
    next_packet: u64,
    active_at: Time,
    timeout: Span,
    srtt: Option<Span>,
}

impl Vegas {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Vegas {
        let datagram = u64::from(setup.mtu.max(1));
        Vegas {
            params,
            datagram,
            window: INITIAL_WINDOW * datagram,
            ssthresh: u64::MAX,
            base: None,
            round: Round::default(),
            was_used: false,
            recovering: false,
            epoch: LossEpoch::default(),
            next_packet: 0,
            active_at: Time::ZERO,
            timeout: Span::from_secs(1),
            srtt: None,
        }
    }

    fn begin_round(&mut self) {
        self.was_used = self.round.used;
        self.round = Round { end: self.next_packet, ..Round::default() };
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    fn sample(&mut self, report: &Report<'_>) {
        let mut take = |rtt: Span| {
            let rtt = rtt.max(Span::from_micros(1));
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.round.least = Some(self.round.least.map_or(rtt, |least| least.min(rtt)));
            self.round.samples = self.round.samples.saturating_add(1);
        };
        let mut rtts = packet_rtts(report).map(|(_, rtt)| rtt).peekable();
        if rtts.peek().is_none() {
            report.latest_rtt.into_iter().for_each(&mut take);
        }
        rtts.for_each(take);
    }

    /// NewReno's answer to a loss, once a round (RFC 9002 appendix B.6).
    fn reduce(&mut self, sent_at: Time, now: Time) {
        if self.epoch.opens(sent_at, now) {
            self.window = (self.window / 2).max(MINIMUM_WINDOW * self.datagram);
            self.ssthresh = self.window;
            self.recovering = true;
        }
    }

    fn time_out(&mut self) {
        self.ssthresh = (self.window / 2).max(MINIMUM_WINDOW * self.datagram);
        self.window = TIMEOUT_WINDOW * self.datagram;
        self.base = None;
        self.recovering = false;
        self.epoch.clear();
        self.begin_round();
    }

    /// Bytes acknowledged that were sent after the last reduction; the first of them ends recovery.
    fn acknowledged(&mut self, report: &Report<'_>) -> u64 {
        let fresh = report.acked.iter().filter(|acked| !self.epoch.covers(acked.sent_at));
        let bytes = fresh.map(|acked| u64::from(acked.size)).sum();
        if bytes > 0 && self.recovering {
            self.recovering = false;
            self.begin_round();
        }
        bytes
    }

    fn double(&mut self, bytes: u64) {
        if self.round.used || self.was_used {
            self.window += bytes.min(self.ssthresh - self.window);
        }
    }

    /// Once a round.
    fn judge(&mut self, acked: u64) {
        let used = self.round.used || self.was_used;
        let more = if used { self.datagram } else { 0 };
        match (self.base, self.round.least) {
            (Some(base), Some(least)) if self.round.samples > FEW_SAMPLES => {
                let target = self.window as f64 * base.as_nanos() as f64 / least.as_nanos() as f64;
                let queued = (self.window as f64 - target) / self.datagram as f64;
                if self.in_slow_start() {
                    if queued > self.params.gamma {
                        self.window = self.window.min(target as u64 + self.datagram);
                        self.lower_ssthresh();
                    } else {
                        self.double(acked);
                    }
                } else if queued > self.params.beta {
                    self.window -= self.datagram.min(self.window);
                    self.lower_ssthresh();
                } else if queued < self.params.alpha {
                    self.window += more;
                }
            }
            _ if self.in_slow_start() => self.double(acked),
            _ => self.window += more,
        }
        self.window = self.window.max(MINIMUM_WINDOW * self.datagram);
        if self.ssthresh != u64::MAX {
            self.ssthresh = self.ssthresh.max(self.window / 4 * 3);
        }
    }

    /// Below the window, so that slow start is over.
    fn lower_ssthresh(&mut self) {
        self.ssthresh = self.ssthresh.min(self.window.saturating_sub(self.datagram));
    }
}

impl Controller for Vegas {
    fn on_sent(&mut self, sent: &Sent) {
        self.next_packet = self.next_packet.max(sent.packet.saturating_add(1));
        let alone = sent.in_flight <= Bytes::new(u64::from(sent.size));
        if alone && sent.now - self.active_at > self.timeout {
            self.base = None;
            self.begin_round();
        }
        self.active_at = sent.now;
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.active_at = report.now;
        self.srtt = Some(report.srtt);
        self.timeout = report.srtt + report.rttvar * 4;
        self.round.used |= report.limited;
        self.sample(report);
        if let Some(last) = report.lost.last() {
            self.reduce(last.sent_at, report.now);
        }
        if report.ce_marks > 0
            && let Some(last) = report.acked.last()
        {
            self.reduce(last.sent_at, report.now);
        }
        if report.persistent_congestion {
            self.time_out();
        }
        let acked = self.acknowledged(report);
        if self.recovering || acked == 0 {
            return;
        }
        if report.acked.last().is_some_and(|last| last.packet >= self.round.end) {
            self.judge(acked);
            self.begin_round();
        } else if self.in_slow_start() {
            self.double(acked);
        }
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.datagram = u64::from(mtu.max(1));
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let gain = if self.in_slow_start() { PACING_GAIN_SLOW_START } else { PACING_GAIN };
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
        if let Some(base) = self.base {
            sink("base_rtt_ms", base.as_millis_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    /// A controller of 1000-byte packets that knows an empty path of 40 ms.
    struct Path {
        vegas: Vegas,
        packet: u64,
        limited: bool,
    }

    impl Path {
        fn new(window: u64, ssthresh: u64) -> Path {
            let mut vegas = Vegas::new(Params::default(), &Setup { mtu: 1000, ..Setup::default() });
            (vegas.window, vegas.ssthresh) = (window * 1000, ssthresh.saturating_mul(1000));
            vegas.base = Some(Span::from_millis(40));
            Path { vegas, packet: 0, limited: true }
        }

        /// A round: `count` packets sent and acknowledged together, all with a round trip of `rtt` ms. The
        /// window in packets.
        fn round(&mut self, count: u64, rtt: i64) -> f64 {
            let first = self.packet;
            let now = Time::from_millis(100 + first);
            for packet in first..first + count {
                let in_flight = Bytes::new(50_000);
                self.vegas.on_sent(&Sent {
                    now,
                    packet,
                    size: 1000,
                    frame: None,
                    in_flight,
                    app_limited: false,
                });
            }
            self.packet += count;
            let acks: Vec<_> = (first..first + count).map(|n| acked(n, 1000)).collect();
            let latest_rtt = Some(Span::from_millis(rtt));
            let limited = self.limited;
            self.vegas.on_feedback(&Report { now, limited, latest_rtt, ..report(&acks, &[]) });
            self.vegas.window as f64 / 1000.0
        }
    }

    #[test]
    fn two_to_four_packets_in_the_queue() {
        // A window of 44 at 40 ms base: diff = 44 (1 - 40 / rtt) is 2 at 41.9 ms and 4 at 44 ms.
        for (rtt, window) in
            [(40, 45.0), (41, 45.0), (42, 44.0), (43, 44.0), (44, 44.0), (45, 43.0), (80, 43.0)]
        {
            assert_eq!(Path::new(44, 10).round(10, rtt), window, "{rtt}");
        }
    }

    #[test]
    fn slow_start_doubles_until_a_packet_waits() {
        let mut path = Path::new(10, u64::MAX);
        assert_eq!(path.round(10, 40), 20.0);
        assert_eq!(path.round(20, 40), 40.0);
        // At 50 ms eight of 40 packets wait: 32 fit, and one.
        assert_eq!(path.round(40, 50), 33.0);
        assert_eq!(path.vegas.ssthresh, 32_000);
        assert_eq!(path.round(33, 40), 34.0);
        // Linux: ssthresh follows at three quarters.
        for _ in 0..20 {
            path.round(30, 40);
        }
        assert_eq!((path.vegas.window, path.vegas.ssthresh), (54_000, 40_500));
    }

    #[test]
    fn few_samples_are_reno() {
        // However long the round trip, two samples judge nothing.
        assert_eq!(Path::new(20, 10).round(2, 80), 21.0);
        assert_eq!(Path::new(20, 10).round(3, 80), 19.0);
    }

    #[test]
    fn an_unused_window_is_held() {
        let mut path = Path::new(20, 10);
        path.limited = false;
        assert_eq!(path.round(5, 40), 20.0);
        assert_eq!(path.round(5, 80), 19.0);
        let mut path = Path::new(10, u64::MAX);
        path.limited = false;
        assert_eq!(path.round(5, 40), 10.0);
    }

    #[test]
    fn a_loss_halves_once_and_suspends_the_judgement() {
        let mut path = Path::new(40, 10);
        path.vegas.on_feedback(&Report { now: Time::from_millis(90), ..report(&[], &[lost(80, 1000)]) });
        path.vegas.on_feedback(&Report { now: Time::from_millis(95), ..report(&[], &[lost(85, 1000)]) });
        assert_eq!(path.vegas.window, 20_000);
        // Packets 0 to 9 left before the loss was seen: no judgement. Those from 91 on end recovery and begin
        // a round.
        assert_eq!(path.round(10, 40), 20.0);
        path.packet = 91;
        path.round(10, 40);
        assert_eq!(path.round(10, 40), 21.0);
    }

    #[test]
    fn a_timeout_leaves_one_packet_and_forgets_the_base() {
        let mut path = Path::new(40, 10);
        let gone = [lost(80, 1000)];
        path.vegas.on_feedback(&Report {
            persistent_congestion: true,
            latest_rtt: None,
            ..report(&[], &gone)
        });
        assert_eq!((path.vegas.window, path.vegas.ssthresh, path.vegas.base), (1_000, 10_000, None));
    }

    #[test]
    fn a_pause_forgets_the_base() {
        let mut path = Path::new(20, 10);
        path.round(10, 40);
        let sent = Sent {
            now: Time::from_secs(9),
            packet: 50,
            size: 1000,
            frame: None,
            in_flight: Bytes::new(1000),
            app_limited: false,
        };
        path.vegas.on_sent(&sent);
        assert_eq!(path.vegas.base, None);
    }
}
