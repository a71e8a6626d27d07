//! The Copa that Pantheon runs: genericCC at d0153f8 (June 2018), by its authors.
//!
//! It keeps the article's target and departs from it in how it moves. Each packet is acknowledged and decides
//! by its own round trip:
//!
//! ```text
//!  W < RTTstanding / (delta dq):  W += v / (delta W)   else   W -= v / (delta W)
//! ```
//!
//! v doubles, from the first round trip on, where most decisions of the last two went the same way, and is
//! one again where they did not (`update_intersend_time` in its `markoviancc.cc`). With delta 0.1 alone on 20
//! Mbit/s and 40 ms it swings by 40 ms and more, where the article's form swings by 3 to 13.

use units::{Bytes, Span, Time};

use super::loss::{self, HeavyLoss};
use super::rtts::Rtts;
use super::{FIRST_RTT, INITIAL_WINDOW, MINIMUM_WINDOW, PACING_GAIN};
use crate::parts::{Extremum, packet_rtts, window_rate};
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};

const OPTIONS: &[(&str, &str)] = &[
    (
        "delta",
        "packets in the queue are about 1.25/delta, 0.004 to 4 (default 0.1); with mode switching the most",
    ),
    ("auto", "mode switching, on (genericCC's auto:0.1) or off (its constant_delta:0.1); default on"),
    ("stands", "its clock for the next packet stands while its window is full, on or off (default on)"),
];

/// The registry's row.
pub const ENTRY: Entry = Entry {
    options: OPTIONS,
    ..super::entry("copa-pantheon", "Copa as Pantheon runs genericCC (do_ss:auto:0.1)", |options, setup| {
        Ok(Box::new(Generic::new(Params::read(options)?, setup)))
    })
};

/// Acknowledgements before the first decision: those of ten probes, twice, less one.
const PROBES: u32 = 19;
/// Weight of a sample in the smoothed round trip (`rtt-window.hh`).
const SMOOTHING: f64 = 1.0 / 16.0;
/// Without an acknowledgement for this long everything starts over (`ctcp.hh`).
const SILENCE: Span = Span::from_secs(2);
/// The queue is nearly empty below this share of the largest one ...
const NEARLY_EMPTY: f64 = 0.1;
/// ... over this many smoothed round trips.
const RTTS: f64 = 4.0;

/// Options of genericCC's Copa, its `delta_conf`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// delta; with mode switching the default mode's, which is the largest.
    pub delta: f64,
    /// Switches between default and competitive mode.
    pub auto: bool,
    /// The clock for the next packet stands still while the window is full (`send_data` in `ctcp.hh`): its
    /// sending loop's, not the controller's.
    pub stands: bool,
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        Ok(Params {
            delta: options.number("delta", 0.1, 0.004..=4.0)?,
            auto: options.switch("auto", true)?,
            stands: options.switch("stands", true)?,
        })
    }
}

/// genericCC's state.
#[derive(Clone, Debug)]
pub struct Generic {
    params: Params,
    /// Bytes of a packet.
    datagram: f64,
    /// In packets.
    window: f64,
    slow_start: bool,
    /// Packets acknowledged, as far as they count for [`PROBES`].
    acked: u32,
    step: Step,
    rtts: Rtts,
    mode: Mode,
    heavy_loss: HeavyLoss,
    /// Losses found since the last acknowledgement; the program sees them with the next one.
    lost: u32,
    heard_at: Option<Time>,
    /// When the window was last seen used.
    used_at: Option<Time>,
}

impl Generic {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Generic {
        Generic {
            params,
            datagram: f64::from(setup.mtu.max(1)),
            window: INITIAL_WINDOW,
            slow_start: true,
            acked: 0,
            step: Step::default(),
            rtts: Rtts::new(),
            mode: Mode::new(params.delta),
            heavy_loss: HeavyLoss::default(),
            lost: 0,
            heard_at: None,
            used_at: None,
        }
    }

    fn start_over(&mut self) {
        let fresh = Setup { mtu: self.datagram as u32, ..Setup::default() };
        *self = Generic { used_at: self.used_at, ..Generic::new(self.params, &fresh) };
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        let smoothed = if self.acked == 0 { rtt } else { self.rtts.smoothed };
        self.rtts.sample(now, rtt, rtt.mul_f64(SMOOTHING) + smoothed.mul_f64(1.0 - SMOOTHING));
        self.mode.sample(now, &self.rtts);
    }

    fn delta(&self) -> f64 {
        if self.params.auto { self.mode.delta() } else { self.params.delta }
    }

    /// The program's `onACK`: a packet with round trip `rtt` is acknowledged, and with it what was lost
    /// before it is known. It is `share` of a whole packet.
    fn acknowledge(&mut self, now: Time, rtt: Span, share: f64) {
        self.sample(now, rtt);
        self.mode.acknowledged(now, rtt);
        if self.acked >= PROBES {
            self.decide(now, share);
        }
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.mode.lost(now);
        }
        if self.heavy_loss.update(now, 1, lost, self.rtts.latest) {
            self.window = (self.window * loss::CUT).max(MINIMUM_WINDOW);
        }
        self.acked = self.acked.saturating_add(1);
    }

    /// Whether the window is below the target: `W dq delta < RTTstanding`, which divides by no delay.
    fn is_below_target(&self) -> bool {
        let (Some(least), Some(standing)) = (self.rtts.least(), self.rtts.standing()) else { return false };
        let queuing = (standing - least).max(Span::ZERO).as_secs_f64();
        self.window * queuing * self.delta() < standing.as_secs_f64()
    }

    fn decide(&mut self, now: Time, share: f64) {
        let up = self.is_below_target();
        let used = self.used_at.is_some_and(|at| now - at <= self.rtts.smoothed);
        if self.slow_start {
            self.slow_start = up;
            self.window += if up && used { share } else { 0.0 };
            return;
        }
        let delta = self.delta();
        let velocity = self.step.take(up, now, self.rtts.latest, self.window * delta);
        let step = share * velocity / (delta * self.window);
        if !up {
            self.window = (self.window - step).max(MINIMUM_WINDOW);
        } else if used {
            self.window += step;
        }
    }
}

impl Controller for Generic {
    fn on_sent(&mut self, sent: &Sent) {
        // Of a flow that belongs to no frame and has always more to send every window is used.
        if sent.frame.is_none() && !sent.app_limited {
            self.used_at = Some(sent.now);
        }
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.lost = self.lost.saturating_add(report.lost.len() as u32);
        if report.limited {
            self.used_at = Some(report.now);
        }
        if report.acked.is_empty() {
            return;
        }
        if self.heard_at.replace(report.now).is_some_and(|at| report.now - at > SILENCE) {
            self.start_over();
            self.heard_at = Some(report.now);
        }
        for (acked, rtt) in packet_rtts(report) {
            self.acknowledge(report.now, rtt, f64::from(acked.size) / self.datagram);
        }
    }

    fn on_mtu(&mut self, mtu: u32) {
        let datagram = f64::from(mtu.max(1));
        self.window = (self.window * self.datagram / datagram).max(MINIMUM_WINDOW);
        self.datagram = datagram;
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        // A packet leaves while fewer than W are out: what is out is W rounded up, not down. That packet
        // decides how far alone it swings: to 60 ms on 20 Mbit/s and 40 ms, or to 40.
        let window = Bytes::new((self.window.ceil() * self.datagram) as u64);
        let standing = self.rtts.standing().unwrap_or(FIRST_RTT);
        // Until the probes are back the first window is spread over the round trip.
        let gain = if self.acked < PROBES { 1.0 } else { PACING_GAIN };
        let pacing = Some(window_rate(window, standing, gain));
        Decision { window: Some(window), pacing, whole_interval: self.params.stands, ..Decision::default() }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window * self.datagram);
        sink("velocity", self.step.velocity);
        sink("delta", self.delta());
        if let (Some(least), Some(standing)) = (self.rtts.least(), self.rtts.standing()) {
            sink("min_rtt_ms", least.as_millis_f64());
            sink("standing_rtt_ms", standing.as_millis_f64());
        }
        sink("competitive", f64::from(self.params.auto && self.mode.competitive));
    }
}

/// The velocity, and what decides it.
#[derive(Clone, Debug)]
struct Step {
    velocity: f64,
    /// Decisions to go up, less those to go down, since `compared_at`.
    balance: i32,
    /// The direction of the last comparison.
    was_up: bool,
    compared_at: Time,
}

impl Default for Step {
    fn default() -> Step {
        Step { velocity: 1.0, balance: 0, was_up: true, compared_at: Time::ZERO }
    }
}

impl Step {
    /// Counts a decision, and returns the velocity to move at: at most `most` (a packet for each
    /// acknowledged), at least one.
    fn take(&mut self, up: bool, now: Time, rtt: Span, most: f64) -> f64 {
        if now - self.compared_at > rtt {
            self.compare();
            self.compared_at = now;
        }
        // Once a decision, not a bound: the program halves it and goes on.
        if self.velocity > most {
            self.velocity /= 2.0;
        }
        self.velocity = self.velocity.max(1.0);
        self.balance = self.balance.saturating_add(if up { 1 } else { -1 });
        self.velocity
    }

    fn compare(&mut self) {
        let balance = std::mem::take(&mut self.balance);
        if balance != 0 && (balance > 0) == self.was_up {
            self.velocity = self.velocity.trunc() * 2.0;
        } else {
            self.velocity = 1.0;
            self.was_up = !self.was_up;
        }
    }
}

/// The mode switch (`is_copa` in `rtt-window.cc`, `update_delta` in `markoviancc.cc`).
#[derive(Clone, Debug)]
struct Mode {
    /// 1/delta of the default mode, and the least of the other.
    default_inverse: f64,
    inverse: f64,
    competitive: bool,
    largest: Extremum<Time, Span>,
    smallest: Extremum<Time, Span>,
    /// When 1/delta last grew, or the default mode last saw an acknowledgement.
    grown_at: Time,
    /// When a loss last halved it.
    lost_at: Time,
}

impl Mode {
    fn new(delta: f64) -> Mode {
        Mode {
            default_inverse: 1.0 / delta,
            inverse: 1.0 / delta,
            competitive: false,
            largest: Extremum::max(),
            smallest: Extremum::min(),
            grown_at: Time::ZERO,
            lost_at: Time::ZERO,
        }
    }

    fn delta(&self) -> f64 {
        1.0 / self.inverse
    }

    fn sample(&mut self, now: Time, rtts: &Rtts) {
        let oldest = now.saturating_sub(rtts.smoothed.mul_f64(RTTS));
        self.largest.insert(now, rtts.latest, oldest);
        self.smallest.insert(now, rtts.latest, oldest);
        if let (Some(least), Some(smallest), Some(largest)) =
            (rtts.least(), self.smallest.get(), self.largest.get())
        {
            // Deviation: above, not at least. Round trips that are all alike are an empty queue; the program,
            // whose clock always wavers, never sees such.
            self.competitive = smallest - least > (largest - least).mul_f64(NEARLY_EMPTY);
        }
    }

    fn acknowledged(&mut self, now: Time, rtt: Span) {
        if !self.competitive {
            // A loss in the other mode holds its delta for a round trip.
            if now - self.lost_at > rtt {
                self.inverse = self.default_inverse;
                self.grown_at = now;
            }
        } else if now - self.grown_at > rtt {
            self.inverse += 1.0;
            self.grown_at = now;
        }
    }

    /// Half, with every acknowledgement that tells of a loss: the program's guard against two a round trip is
    /// handed a round trip of zero.
    fn lost(&mut self, now: Time) {
        if self.competitive {
            self.inverse = (self.inverse / 2.0).max(self.default_inverse);
            self.lost_at = now;
        } else {
            self.inverse = self.default_inverse;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};
    use crate::{Acked, FrameTag};

    /// genericCC on a path of 40 ms, a packet acknowledged every millisecond.
    struct Path {
        copa: Generic,
        now: Time,
    }

    impl Path {
        fn new(auto: bool) -> Path {
            let setup = Setup { mtu: 1000, ..Setup::default() };
            let copa = Generic::new(Params { delta: 0.1, auto, stands: true }, &setup);
            let mut path = Path { copa, now: Time::from_secs(1) };
            let sent = Sent {
                now: path.now,
                packet: 0,
                size: 1000,
                frame: None,
                in_flight: Bytes::new(1000),
                app_limited: false,
            };
            path.copa.on_sent(&sent);
            path
        }

        /// Past the probes and slow start, with a window of `window` packets.
        fn settled(auto: bool, window: f64) -> Path {
            let mut path = Path::new(auto);
            (0..20).for_each(|_| path.ack(40, 0));
            (path.copa.slow_start, path.copa.window) = (false, window);
            (path.copa.step, path.copa.step.compared_at) = (Step::default(), path.now);
            path
        }

        /// A packet with a round trip of `rtt` ms, after `losses` packets that were lost.
        fn ack(&mut self, rtt: i64, losses: u64) {
            self.ack_of(rtt, losses, 1000);
        }

        fn ack_of(&mut self, rtt: i64, losses: u64, size: u32) {
            self.now += Span::from_millis(1);
            let now = self.now;
            self.copa.used_at = Some(now);
            let sent_at = now - Span::from_millis(rtt);
            let arrived_at = Some((now - Span::from_millis(20)).on_wire());
            let acks = [Acked { sent_at, arrived_at, ..acked(9, size) }];
            let gone: Vec<_> = (0..losses).map(|packet| lost(packet, 1000)).collect();
            let latest_rtt = Some(Span::from_millis(rtt));
            self.copa.on_feedback(&Report { now, latest_rtt, ..report(&acks, &gone) });
        }
    }

    #[test]
    fn nothing_is_decided_before_the_probes_are_back() {
        let mut path = Path::new(false);
        (0..19).for_each(|_| path.ack(40, 0));
        assert_eq!(path.copa.window, 10.0);
        path.ack(40, 0);
        assert_eq!(path.copa.window, 11.0);
    }

    #[test]
    fn the_velocity_doubles_from_the_first_round_trip_on() {
        let mut path = Path::settled(false, 100.0);
        let mut seen = Vec::new();
        // A little more than a round trip each: 41 acknowledgements.
        for _ in 0..4 {
            (0..40).for_each(|_| path.ack(40, 0));
            seen.push(path.copa.step.velocity);
        }
        assert_eq!(seen, [1.0, 2.0, 4.0, 8.0]);
        // A queue of 30 ms asks for 10 packets per 30 ms: down, and a velocity of one at the next comparison
        // but one.
        (0..160).for_each(|_| path.ack(70, 0));
        assert!(!path.copa.step.was_up && path.copa.step.velocity < 8.0, "{:?}", path.copa.step);
    }

    #[test]
    fn a_small_packet_moves_the_window_by_its_share() {
        let moved = |size| {
            let mut path = Path::settled(false, 100.0);
            path.ack_of(40, 0, size);
            path.copa.window - 100.0
        };
        assert!((moved(1000) - 0.1).abs() < 1e-9, "{}", moved(1000));
        assert!((moved(200) - 0.02).abs() < 1e-9, "{}", moved(200));
    }

    #[test]
    fn a_step_is_at_most_a_packet_and_halves_on_the_way() {
        let mut step = Step { velocity: 64.0, ..Step::default() };
        let velocities = [0; 4].map(|_| step.take(true, Time::ZERO, Span::from_millis(40), 10.0));
        assert_eq!(velocities, [32.0, 16.0, 8.0, 8.0]);
    }

    #[test]
    fn a_balanced_round_trip_turns_the_direction() {
        let mut step = Step { velocity: 4.0, ..Step::default() };
        step.compare();
        assert_eq!((step.velocity, step.was_up), (1.0, false));
        (step.velocity, step.balance) = (3.5, -1);
        step.compare();
        assert_eq!((step.velocity, step.was_up), (6.0, false));
    }

    #[test]
    fn one_over_delta_grows_by_one_a_round_trip_and_halves_with_every_report_of_losses() {
        let mut path = Path::settled(true, 100.0);
        // Round trips of 50 to 56 ms: never within a tenth of the largest queue.
        for n in 0..220 {
            path.ack(50 + n % 7, 0);
        }
        assert!(path.copa.mode.competitive);
        let grown = 1.0 / path.copa.delta();
        for n in 0..110 {
            path.ack(50 + n % 7, 0);
        }
        assert!((1.0..=3.0).contains(&(1.0 / path.copa.delta() - grown)), "{grown}");
        path.copa.mode.inverse = 80.0;
        path.ack(50, 1);
        path.ack(51, 1);
        assert!((20.0..=21.0).contains(&(1.0 / path.copa.delta())));
        (0..10).for_each(|_| path.ack(50, 1));
        assert_eq!(path.copa.delta(), 0.1, "never above the default");
    }

    #[test]
    fn a_nearly_empty_queue_ends_the_competition() {
        let mut path = Path::settled(true, 100.0);
        (0..300).for_each(|n| path.ack(50 + n % 7, 0));
        assert!(path.copa.mode.competitive && path.copa.delta() < 0.1);
        path.ack(41, 0);
        assert!(!path.copa.mode.competitive);
        assert_eq!(path.copa.delta(), 0.1);
        assert!((0..300).all(|_| {
            path.ack(40, 0);
            !path.copa.mode.competitive
        }));
    }

    #[test]
    fn losses_found_without_an_acknowledgement_wait_for_one() {
        let mut path = Path::settled(true, 100.0);
        let gone: Vec<_> = (0..60).map(|packet| lost(packet, 1000)).collect();
        path.copa.on_feedback(&Report { now: path.now, latest_rtt: None, ..report(&[], &gone) });
        assert!(path.copa.window > 99.0);
        path.now += Span::from_millis(100);
        path.ack(40, 0);
        assert!(path.copa.window < 75.0, "{}", path.copa.window);
    }

    #[test]
    fn two_seconds_without_an_acknowledgement_start_over() {
        let mut path = Path::settled(true, 100.0);
        path.now += Span::from_secs(2);
        path.ack(90, 0);
        assert_eq!((path.copa.window, path.copa.slow_start, path.copa.acked), (10.0, true, 1));
        assert_eq!(path.copa.rtts.least(), Some(Span::from_millis(90)));
    }

    #[test]
    fn a_video_that_leaves_the_window_unused_does_not_widen_it() {
        let mut path = Path::settled(false, 50.0);
        let tag = FrameTag { stream: 0, frame: 1, version: 0, index: 0, count: 2, retransmission: false };
        path.now += Span::from_secs(1);
        path.copa.used_at = None;
        let in_flight = Bytes::new(1000);
        let sent =
            Sent { now: path.now, packet: 30, size: 1000, frame: Some(tag), in_flight, app_limited: false };
        path.copa.on_sent(&sent);
        assert_eq!(path.copa.used_at, None);
    }
}
