//! LEDBAT: a fixed one-way queuing delay, approached in proportion (RFC 6817).
//!
//! ```text
//!  off = (TARGET - queuing) / TARGET        cwnd += GAIN off acked MSS / cwnd        (section 2.4.2)
//! ```

use units::{Bytes, RelativeDelay, Span, Time};

use crate::parts::{Extremum, LossEpoch, OwdBase, window_rate};
use crate::{Acked, Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "ledbat",
    summary: "LEDBAT, a scavenger that keeps 100 ms of queue (RFC 6817)",
    needs_frames: false,
    options: &[
        ("target", "queuing delay aimed for, such as 25ms; 1ms to 1s (default 100ms)"),
        ("gain", "packets a round trip at full distance from the target, 0.01 to 1 (default 1)"),
        ("slow_start", "double until three quarters of the target, on or off (default off)"),
    ],
    page: include_str!("ledbat.md"),
    build: |options, setup| Ok(Box::new(Ledbat::new(Params::read(options)?, setup))),
    receiver: None,
};

/// Section 2.5, INIT_CWND and MIN_CWND.
const INITIAL_WINDOW: f64 = 2.0;
/// Section 2.5.
const MINIMUM_WINDOW: f64 = 2.0;
/// Section 2.4.2: what a congestion timeout leaves.
const TIMEOUT_WINDOW: f64 = 1.0;
/// Section 2.5, ALLOWED_INCREASE: packets above the bytes in flight.
const ALLOWED_INCREASE: f64 = 1.0;
/// Section 2.5, BASE_HISTORY of ten minutes.
const BASE_WINDOW: Span = Span::from_secs(600);
/// Section 2.5, CURRENT_FILTER: the smallest of this many delays (ns-3's length).
const CURRENT: usize = 4;
/// Share of the target at which slow start ends (libutp's practice).
const SLOW_START_END: f64 = 0.75;
/// RFC 9002 section 7.7.
const PACING_GAIN: f64 = 1.25;
/// Twice as fast while the window doubles, as NewReno here.
const PACING_GAIN_SLOW_START: f64 = 2.0;

/// LEDBAT's parameters; [`Default`] is the RFC's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Queuing delay aimed for (section 2.5: 100 ms or less).
    pub target: Span,
    /// Packets a round trip at full distance (section 2.5: 1 or less).
    pub gain: f64,
    /// Doubles at first (section 2.4.2 leaves it open).
    pub slow_start: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params { target: Span::from_millis(100), gain: 1.0, slow_start: false }
    }
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        let d = Params::default();
        let target = options.quantity("target", d.target, "a time such as 25ms")?;
        Ok(Params {
            target: target.clamp(Span::from_millis(1), Span::from_secs(1)),
            gain: options.number("gain", d.gain, 0.01..=1.0)?,
            slow_start: options.switch("slow_start", d.slow_start)?,
        })
    }
}

/// The delays the queue is told by.
#[derive(Clone, Debug)]
struct Delays {
    base: OwdBase,
    current: [Option<RelativeDelay>; CURRENT],
    next: usize,
}

impl Delays {
    fn new() -> Delays {
        Delays { base: OwdBase::new(BASE_WINDOW), current: [None; CURRENT], next: 0 }
    }

    fn sample(&mut self, now: Time, delay: RelativeDelay) {
        self.base.queuing(now, delay);
        self.current[self.next] = Some(delay);
        self.next = (self.next + 1) % CURRENT;
    }

    /// The smallest current delay above the base; nothing before any sample.
    fn queuing(&self) -> Span {
        let Some(base) = self.base.get() else { return Span::ZERO };
        let above = self.current.iter().flatten().map(|&delay| (delay - base).max(Span::ZERO));
        above.min().unwrap_or(Span::ZERO)
    }
}

/// LEDBAT's state.
#[derive(Clone, Debug)]
pub struct Ledbat {
    params: Params,
    /// MSS: bytes of a packet.
    datagram: f64,
    /// cwnd in bytes.
    window: f64,
    slow_start: bool,
    delays: Delays,
    flight: Extremum<Time, u64>,
    epoch: LossEpoch,
    srtt: Option<Span>,
}

impl Ledbat {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Ledbat {
        let datagram = f64::from(setup.mtu.max(1));
        Ledbat {
            params,
            datagram,
            window: INITIAL_WINDOW * datagram,
            slow_start: params.slow_start,
            delays: Delays::new(),
            flight: Extremum::max(),
            epoch: LossEpoch::default(),
            srtt: None,
        }
    }

    /// Distance from the target, from 1 (no queue) to -1.
    fn off_target(&self) -> f64 {
        let (target, queuing) = (self.params.target.as_secs_f64(), self.delays.queuing().as_secs_f64());
        ((target - queuing) / target).max(-1.0)
    }

    fn acknowledge(&mut self, now: Time, acked: &Acked) {
        if let Some(at) = acked.arrived_at {
            self.delays.sample(now, at.delay_since(acked.sent_at));
        }
        let off = self.off_target();
        self.slow_start &= off > 1.0 - SLOW_START_END;
        let bytes = f64::from(acked.size);
        let moved = if self.slow_start {
            bytes
        } else {
            // However large a packet: a window of them moves it by a packet.
            self.params.gain * off * bytes.min(self.window) * self.datagram / self.window
        };
        // Section 2.4.2, max_allowed_cwnd: no growth on what the application does not send.
        let flight = self.flight.get().unwrap_or(0) as f64;
        let most = self.window.max(flight + ALLOWED_INCREASE * self.datagram);
        self.window = (self.window + moved)
            .clamp(MINIMUM_WINDOW * self.datagram, most.max(MINIMUM_WINDOW * self.datagram));
    }

    /// Section 2.4.2: half, at most once a round trip.
    fn reduce(&mut self, sent_at: Time, now: Time) {
        if self.epoch.opens(sent_at, now) {
            self.window = (self.window / 2.0).max(MINIMUM_WINDOW * self.datagram);
            self.slow_start = false;
        }
    }

    fn time_out(&mut self) {
        self.window = TIMEOUT_WINDOW * self.datagram;
        self.epoch.clear();
    }

    fn fly(&mut self, now: Time, in_flight: u64) {
        let round_trip = self.srtt.unwrap_or(Span::from_millis(100));
        self.flight.insert(now, in_flight, now.saturating_sub(round_trip));
    }
}

impl Controller for Ledbat {
    fn on_sent(&mut self, sent: &Sent) {
        self.fly(sent.now, sent.in_flight.get());
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.srtt = Some(report.srtt);
        let settled: u64 = report.acked.iter().map(|acked| u64::from(acked.size)).sum::<u64>()
            + report.lost.iter().map(|lost| u64::from(lost.size)).sum::<u64>();
        // "The amount of data outstanding before this ACK was received".
        self.fly(report.now, report.in_flight.get().saturating_add(settled));
        if let Some(last) = report.lost.last() {
            self.reduce(last.sent_at, report.now);
        }
        if report.ce_marks > 0
            && let Some(last) = report.acked.last()
        {
            self.reduce(last.sent_at, report.now);
        }
        report.acked.iter().for_each(|acked| self.acknowledge(report.now, acked));
        if report.persistent_congestion {
            self.time_out();
        }
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.datagram = f64::from(mtu.max(1));
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let gain = if self.slow_start { PACING_GAIN_SLOW_START } else { PACING_GAIN };
        let window = Bytes::new(self.window as u64);
        Decision {
            window: Some(window),
            pacing: self.srtt.map(|srtt| window_rate(window, srtt, gain)),
            burst: Bytes::new(2 * self.datagram as u64),
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window);
        sink("queuing_ms", self.delays.queuing().as_millis_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    /// A controller of 1000-byte packets with a window of `window` packets, all of it in flight.
    fn ledbat(params: Params, window: f64) -> Ledbat {
        let mut ledbat = Ledbat::new(params, &Setup { mtu: 1000, ..Setup::default() });
        ledbat.window = window * 1000.0;
        ledbat
    }

    /// `count` packets acknowledged with a one-way delay of `delay` ms. The window in packets.
    fn feed(ledbat: &mut Ledbat, first: u64, count: u64, delay: i64) -> f64 {
        let acks: Vec<_> = (first..first + count)
            .map(|n| Acked {
                arrived_at: Some((Time::from_millis(n) + Span::from_millis(delay)).on_wire()),
                ..acked(n, 1000)
            })
            .collect();
        let in_flight = Bytes::new(ledbat.window as u64);
        let now = Time::from_millis(first + count);
        ledbat.on_feedback(&Report { now, in_flight, ..report(&acks, &[]) });
        ledbat.window / 1000.0
    }

    #[test]
    fn the_window_moves_by_the_distance_from_the_target() {
        // Base 20 ms: 20, 70, 120, 170 and 420 ms are 0, 50, 100, 150 and 400 ms of queue, off 1, 1/2, 0,
        // -1/2 and -1.
        for (delay, off) in [(20, 1.0), (70, 0.5), (120, 0.0), (170, -0.5), (420, -1.0)] {
            let mut ledbat = ledbat(Params::default(), 50.0);
            feed(&mut ledbat, 0, 1, 20);
            ledbat.delays.current = [None; CURRENT];
            ledbat.window = 50_000.0;
            let moved = feed(&mut ledbat, 1, 1, delay) - 50.0;
            assert!((moved - off / 50.0).abs() < 1e-9, "{delay}: {moved}");
        }
    }

    #[test]
    fn at_most_a_packet_a_round_trip() {
        let mut ledbat = ledbat(Params::default(), 50.0);
        let grown = feed(&mut ledbat, 0, 50, 20) - 50.0;
        assert!((0.97..=1.0).contains(&grown), "{grown}");
    }

    #[test]
    fn the_current_delay_is_the_least_of_four() {
        let mut ledbat = ledbat(Params::default(), 50.0);
        feed(&mut ledbat, 0, 1, 20);
        let queuing: Vec<_> = [60, 80, 70, 90, 85]
            .iter()
            .enumerate()
            .map(|(n, &delay)| {
                feed(&mut ledbat, 1 + n as u64, 1, delay);
                ledbat.delays.queuing()
            })
            .collect();
        assert_eq!(queuing, [0, 0, 0, 40, 50].map(Span::from_millis));
    }

    #[test]
    fn what_is_not_in_flight_does_not_grow() {
        let mut ledbat = ledbat(Params::default(), 50.0);
        let acks = [acked(1, 1000)];
        ledbat.on_feedback(&Report { in_flight: Bytes::new(9_000), ..report(&acks, &[]) });
        assert_eq!(ledbat.window, 50_000.0);
        // 49 kB in flight and 1 kB acknowledged: up to a packet more than 50 kB.
        ledbat.on_feedback(&Report { in_flight: Bytes::new(49_000), ..report(&acks, &[]) });
        assert_eq!(ledbat.window, 50_020.0);
    }

    #[test]
    fn a_loss_halves_once_a_round_trip_and_a_timeout_leaves_a_packet() {
        let mut ledbat = ledbat(Params::default(), 40.0);
        ledbat.on_feedback(&report(&[], &[lost(3, 1000)]));
        ledbat.on_feedback(&report(&[], &[lost(4, 1000)]));
        assert_eq!(ledbat.window, 20_000.0);
        ledbat.on_feedback(&Report { persistent_congestion: true, ..report(&[], &[lost(5, 1000)]) });
        assert_eq!(ledbat.window, 1_000.0);
        assert_eq!(feed(&mut ledbat, 200, 1, 20), 2.0, "MIN_CWND");
    }

    #[test]
    fn slow_start_ends_at_three_quarters_of_the_target() {
        let mut ledbat = ledbat(Params { slow_start: true, ..Params::default() }, 10.0);
        assert_eq!(feed(&mut ledbat, 0, 10, 20), 20.0);
        assert_eq!(feed(&mut ledbat, 20, 4, 94), 24.0);
        // The fourth delay of 96 ms leaves no smaller one among the last four.
        assert_eq!(feed(&mut ledbat, 40, 3, 96), 27.0);
        assert!(feed(&mut ledbat, 60, 1, 96) < 27.1 && !ledbat.slow_start);
    }
}
