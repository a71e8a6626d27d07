//! SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2): a reference window that shrinks in proportion to
//! queuing delay, marks or losses, and a media rate made of it.
//!
//! ```text
//!  losses, marks, delay -> reduce: x 0.7, x (1 - alpha/2), or by a datagram or so where the delay is over 30 ms
//!  bytes acknowledged   -> grow:   a datagram a round trip + 2 %, less near the last ceiling and while a queue shows
//!  window / srtt        -> media rate; packets leave at 1.5 times that, up to five windows in flight
//! ```
//!
//! Section titles below are the draft's; `rival.rs` holds its delay target, `frames.rs` its frame sizes.

mod frames;
mod rival;

use units::{Bytes, Rate, Span, Time};

use crate::parts::OwdBase;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use frames::FrameSizes;
use rival::DelayTarget;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "scream",
    summary: "SCReAM v2: self-clocked rate adaptation for media (draft-johansson-ccwg-rfc8298bis-screamv2)",
    needs_frames: false,
    options: &[
        ("l4s", "answer marks as L4S wants it, on or off (default off: as classic ECN)"),
        ("compete", "raise the delay target against loss-based flows, on or off (default on)"),
        ("overhead", "in flight at most this many reference windows, 1 to 8 (default 5)"),
        (
            "tolerance",
            "losses below this share count only beside a queue, 0 to 0.1 (default 0; Ericsson's code 0.01)",
        ),
    ],
    page: include_str!("scream.md"),
    build: |options, setup| Ok(Box::new(Scream::new(Params::read(options)?, setup))),
    receiver: None,
};

/// MIN_REF_WND, in bytes.
const MIN_WINDOW: f64 = 3000.0;
/// Far above any path; keeps the arithmetic finite.
const MAX_WINDOW: f64 = 1e10;
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 1.5;
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
/// POST_CONGESTION_DELAY_RTT.
const CAUTIOUS_ROUNDS: i64 = 100;
/// MUL_INCREASE_FACTOR.
const GROWTH: f64 = 0.02;
const VIRTUAL_RTT: Span = Span::from_millis(25);
/// L4S_AVG_G_UP, L4S_AVG_G_DOWN and how often they apply at most.
const ALPHA_UP: f64 = 1.0 / 8.0;
const ALPHA_DOWN: f64 = 1.0 / 128.0;
const ALPHA_INTERVAL: Span = Span::from_millis(10);
/// Below this share of marks L4S is taken to be inactive ("Reference Window Increase").
const UNMARKED: f64 = 0.0001;
/// QDELAY_AVG_G.
const DELAY_GAIN: f64 = 0.25;
/// "Reference Window Reduction": the inflection point moves at most once in so many round trips.
const INFLECTION_ROUNDS: i64 = 10;
/// BASE_HISTORY of RFC 6817, to which the draft refers for delays.
const BASE_HISTORY: Span = Span::from_secs(600);
const BYTES_IN_FLIGHT_LIMIT: f64 = 0.9;
const BYTES_IN_FLIGHT_LIMIT_COMPENSATION: f64 = 1.5;
/// PACKET_OVERHEAD, in bytes.
const PACKET_OVERHEAD: f64 = 20.0;
const PACING_HEADROOM: f64 = 1.5;
/// RATE_PACE_MIN.
const MIN_PACING: Rate = Rate::from_kbps(50);

#[derive(Clone, Copy, Debug)]
struct Params {
    l4s: bool,
    compete: bool,
    /// REF_WND_OVERHEAD.
    overhead: f64,
    /// kLossRateThreshold of Ericsson's code since June 2026; the draft has none.
    tolerance: f64,
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        Ok(Params {
            l4s: options.switch("l4s", false)?,
            compete: options.switch("compete", true)?,
            overhead: options.number("overhead", 5.0, 1.0..=8.0)?,
            tolerance: options.number("tolerance", 0.0, 0.0..=0.1)?,
        })
    }
}

/// SCReAM's state. Windows in bytes, delays in seconds.
#[derive(Clone, Debug)]
pub struct Scream {
    params: Params,
    mss: f64,
    limits: (Rate, Rate),
    initial: Rate,
    interval: Span,
    /// ref_wnd; `None` until a round trip is known.
    window: Option<f64>,
    /// ref_wnd_i, the window at the last congestion, and when it was taken.
    inflection: (f64, Option<Time>),
    srtt: Span,
    base: OwdBase,
    delay: f64,
    /// qdelay_avg and when it was updated.
    delay_avg: (f64, Option<Time>),
    target: DelayTarget,
    marks: Marks,
    in_flight: f64,
    /// Most bytes in flight in this round trip and the one before, and when this one began.
    peak: (f64, f64, Option<Time>),
    /// Losses or marks since the last reaction.
    pending: (bool, bool),
    /// Smoothed share of packets lost.
    loss_rate: f64,
    /// Last time losses or marks were detected, and last time the window was reduced.
    detected_at: Option<Time>,
    reacted_at: Option<Time>,
    frames: FrameSizes,
    media: Rate,
}

/// l4s_alpha: the share of packets marked ("Receiving ECN-CE for L4S").
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    alpha: f64,
    delivered: u32,
    marked: u32,
    updated_at: Option<Time>,
}

impl Marks {
    fn update(&mut self, now: Time, delivered: u32, marked: u32, srtt: Span) {
        self.delivered = self.delivered.saturating_add(delivered);
        self.marked = self.marked.saturating_add(marked).min(self.delivered);
        if self.delivered == 0 || !is_over(self.updated_at, now, srtt.min(ALPHA_INTERVAL)) {
            return;
        }
        let share = f64::from(self.marked) / f64::from(self.delivered);
        self.alpha = if share >= self.alpha {
            self.alpha + ALPHA_UP * (share - self.alpha)
        } else {
            (1.0 - ALPHA_DOWN) * self.alpha
        };
        *self = Marks { alpha: self.alpha, updated_at: Some(now), ..Marks::default() };
    }
}

/// Whether at least `span` has passed since `then`, if that ever was.
fn is_over(then: Option<Time>, now: Time, span: Span) -> bool {
    then.is_none_or(|then| now - then >= span)
}

impl Scream {
    fn new(params: Params, setup: &Setup) -> Scream {
        let initial = setup.initial.max(Rate::from_bps(1));
        Scream {
            params,
            mss: f64::from(setup.mtu.max(1)),
            limits: (setup.min.max(Rate::from_bps(1)), setup.max.max(setup.min).max(Rate::from_bps(1))),
            initial,
            interval: setup.frame_interval,
            window: None,
            inflection: (1.0, None),
            srtt: Span::ZERO,
            base: OwdBase::new(BASE_HISTORY),
            delay: 0.0,
            delay_avg: (0.0, None),
            target: DelayTarget::new(params.compete),
            marks: Marks::default(),
            in_flight: 0.0,
            peak: (0.0, 0.0, None),
            pending: (false, false),
            loss_rate: 0.0,
            detected_at: None,
            reacted_at: None,
            frames: FrameSizes::default(),
            media: initial,
        }
    }

    /// The window over `mss`, at most 1: small windows move more gently (ref_wnd_ratio).
    fn smallness(&self, window: f64) -> f64 {
        (self.mss / window).min(1.0)
    }

    /// How far the window is from where congestion last was: 0.1 near it, 1 far from it (scl_t).
    fn distance(&self, window: f64) -> f64 {
        let scale = 8.0 * (window - self.inflection.0) / self.inflection.0;
        (scale * scale).clamp(0.1, 1.0)
    }

    /// "Detecting Increased Queue Delay": slow up, fast down.
    fn measure(&mut self, report: &Report<'_>) {
        let newest = report.acked.iter().rev().find_map(|acked| Some((acked.arrived_at?, acked.sent_at)));
        if let Some((arrived_at, sent_at)) = newest {
            self.delay = self.base.queuing(report.now, arrived_at.delay_since(sent_at)).as_secs_f64();
        }
        let (average, at) = self.delay_avg;
        if is_over(at, report.now, self.srtt.min(VIRTUAL_RTT)) {
            let average =
                if self.delay < average { self.delay } else { average + DELAY_GAIN * (self.delay - average) };
            self.delay_avg = (average, Some(report.now));
        }
        self.target.update(report.now, !report.lost.is_empty(), self.srtt, self.delay);
        self.marks.update(report.now, report.acked.len() as u32, report.ce_marks, self.srtt);
    }

    /// The share of marks that the queuing delay stands for, if it stands for any (l4s_alpha_v).
    fn virtual_marks(&self) -> Option<f64> {
        let half = self.target.get() / 2.0;
        let few = 2.0 * self.mss / (self.media.as_f64() / 8.0 * self.srtt.as_secs_f64());
        let congested = self.delay > half && self.marks.alpha < few;
        let excess = (self.delay_avg.0 - half) / half;
        congested.then(|| if excess > 0.0 { (2.0 * few * excess).min(1.0) } else { 0.0 })
    }

    /// Whether losses in this report ask for a reduction: once a round trip (the draft's text, and Ericsson's
    /// code), where more than the tolerated share is lost or a queue shows.
    fn is_loss_event(&mut self, report: &Report<'_>, window: f64) -> bool {
        let gain = (self.params.tolerance / 4.0).min(self.mss / window / 2.0);
        for share in report.acked.iter().map(|_| 0.0).chain(report.lost.iter().map(|_| 1.0)) {
            self.loss_rate += gain * (share - self.loss_rate);
        }
        let counts = self.params.tolerance == 0.0
            || self.loss_rate > self.params.tolerance
            || self.delay_avg.0 > self.target.get() / 4.0;
        !report.lost.is_empty() && counts && is_over(self.reacted_at, report.now, self.srtt)
    }

    /// "Reference Window Reduction". The draft's text wants one a round trip, its code one in 25 ms or a
    /// round trip, whichever is shorter: for marks and delay the code holds here.
    fn reduce(&mut self, now: Time, window: f64) -> f64 {
        if self.pending != (false, false) {
            self.detected_at = Some(now);
        }
        if !is_over(self.reacted_at, now, self.srtt.min(VIRTUAL_RTT)) {
            return window;
        }
        let (lost, marked) = std::mem::take(&mut self.pending);
        let delayed = if lost || marked { None } else { self.virtual_marks() };
        if !lost && !marked && delayed.is_none() {
            return window;
        }
        let distance = self.distance(window);
        if is_over(self.inflection.1, now, self.srtt * INFLECTION_ROUNDS) {
            self.inflection = (window, Some(now));
        }
        let gentle = (1.0 - self.smallness(window)).max(0.5);
        let mut reduced = if lost { window * BETA_LOSS } else { window };
        if marked && self.params.l4s {
            reduced = self.answer_marks(now, reduced, gentle, distance);
        } else if marked {
            reduced *= BETA_ECN;
        }
        reduced *= 1.0 - delayed.unwrap_or(0.0) / 2.0 * gentle;
        self.reacted_at = Some(now);
        reduced.max(MIN_WINDOW)
    }

    /// The L4S answer to marks: in proportion to their share.
    fn answer_marks(&self, now: Time, window: f64, gentle: f64, distance: f64) -> f64 {
        let empty = self.delay < self.target.get() / 4.0;
        let backoff = self.marks.alpha / 2.0 * gentle * if empty { distance.max(0.25) } else { 1.0 };
        let forgotten = is_over(self.reacted_at, now, self.srtt.max(VIRTUAL_RTT) * CAUTIOUS_ROUNDS);
        let window = if forgotten && self.peak.1 > 0.0 { window.min(self.peak.1) } else { window };
        window * (1.0 - backoff)
    }

    /// "Reference Window Increase", by `bytes` acknowledged without a mark.
    fn grow(&self, now: Time, window: f64, bytes: f64) -> f64 {
        let quiet = self.detected_at.map_or(1.0, |at| {
            let cautious = self.srtt.max(VIRTUAL_RTT) * CAUTIOUS_ROUNDS;
            ((now - at).as_secs_f64() / cautious.as_secs_f64()).clamp(0.0, 1.0)
        });
        let distance = self.distance(window);
        let short = (self.srtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        let mut increment = bytes * self.smallness(window) * short * short;
        increment *= distance.max(0.25) * (1.0 - self.smallness(window)).max(0.5);
        if self.marks.alpha < UNMARKED {
            increment *= (1.0 - self.delay_avg.0 / (self.target.get() / 4.0)).max(0.1);
        }
        increment *= 1.0 + GROWTH * window / self.mss * quiet * distance;
        let grown = window + increment;
        let allowed = self.mss + self.peak.0.max(self.peak.1) * BYTES_IN_FLIGHT_HEAD_ROOM;
        if grown <= allowed && self.media < self.limits.1 { grown.min(MAX_WINDOW) } else { window }
    }

    /// "Media Rate Control": the window over the round trip, less where more than that is in flight already.
    fn rate(&self, window: f64, flight: f64) -> Rate {
        let mut factor = 1.0;
        if self.delay / self.target.get() > 0.25 && flight > BYTES_IN_FLIGHT_LIMIT {
            factor /= (flight / BYTES_IN_FLIGHT_LIMIT).min(BYTES_IN_FLIGHT_LIMIT_COMPENSATION);
        }
        factor *= 1.0 - (self.smallness(window) - 0.1).clamp(0.0, 0.2);
        factor *= self.mss / (self.mss + PACKET_OVERHEAD);
        let srtt = self.srtt.max(Span::from_micros(1)).as_secs_f64();
        Rate::from_f64(factor * 8.0 * window / srtt).clamp(self.limits.0, self.limits.1)
    }

    /// Follows bytes in flight through the round trips.
    fn follow(&mut self, now: Time, in_flight: u64) {
        self.in_flight = in_flight as f64;
        if is_over(self.peak.2, now, self.srtt) {
            self.peak = (self.in_flight, self.peak.0, Some(now));
        }
        self.peak.0 = self.peak.0.max(self.in_flight);
    }
}

impl Controller for Scream {
    fn on_sent(&mut self, sent: &Sent) {
        self.follow(sent.now, sent.in_flight.get());
        if let Some(tag) = sent.frame.filter(|tag| !tag.retransmission) {
            let asked = self.media.bytes_in(self.interval).get() as f64;
            let last = tag.index.checked_add(1).is_none_or(|next| next >= tag.count);
            self.frames.sent(tag.stream, tag.frame, sent.size, last, asked.max(1.0));
        }
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let now = report.now;
        self.srtt = report.srtt;
        let started = self.initial.bytes_in(self.srtt.max(Span::ZERO)).get() as f64;
        let window = self.window.unwrap_or(started.clamp(MIN_WINDOW, MAX_WINDOW));
        let flight = self.in_flight / window;
        self.measure(report);
        self.pending.0 |= self.is_loss_event(report, window);
        self.pending.1 |= report.ce_marks > 0;
        let acked = report.acked.iter().filter(|acked| acked.ecn != units::Ecn::Ce).map(|acked| acked.size);
        let bytes: u64 = acked.chain(report.lost.iter().map(|lost| lost.size)).map(u64::from).sum();
        let window = self.reduce(now, window);
        let window = self.grow(now, window, bytes as f64);
        self.window = Some(window);
        self.media = self.rate(window, flight);
        self.follow(now, report.in_flight.get());
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.mss = f64::from(mtu.max(1));
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let slack = self.params.overhead * self.frames.high();
        let window = self.window.map(|window| Bytes::new((window * slack).max(self.mss) as u64));
        Decision {
            window,
            pacing: Some(self.media.max(MIN_PACING).mul_f64(PACING_HEADROOM)),
            media: Some(self.media),
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("ref_wnd_bytes", self.window.unwrap_or(0.0));
        sink("inflection_bytes", self.inflection.0);
        sink("queue_ms", self.delay * 1e3);
        sink("queue_avg_ms", self.delay_avg.0 * 1e3);
        sink("queue_target_ms", self.target.get() * 1e3);
        sink("l4s_alpha", self.marks.alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Acked;
    use crate::controller::tests::{acked, lost, report};

    const PARAMS: Params = Params { l4s: false, compete: true, overhead: 5.0, tolerance: 0.0 };

    /// 100 datagrams of 1000 bytes, all in flight, far from any ceiling, round trip 40 ms, 20 Mbit/s.
    fn full() -> Scream {
        let setup = Setup { mtu: 1000, ..Setup::default() };
        Scream {
            window: Some(100_000.0),
            srtt: Span::from_millis(40),
            in_flight: 80_000.0,
            peak: (80_000.0, 80_000.0, Some(Time::from_millis(100))),
            media: Rate::from_mbps(20),
            ..Scream::new(PARAMS, &setup)
        }
    }

    fn window(scream: &Scream) -> f64 {
        scream.window.unwrap()
    }

    fn at(ms: u64) -> Report<'static> {
        Report { now: Time::from_millis(ms), in_flight: Bytes::new(80_000), ..report(&[], &[]) }
    }

    #[test]
    fn it_starts_at_the_initial_rate() {
        let mut scream = Scream::new(PARAMS, &Setup::default());
        assert_eq!(scream.decision().media, Some(Rate::from_mbps(2)));
        scream.on_feedback(&at(50));
        // 2 Mbit/s over 40 ms.
        assert_eq!(window(&scream), 10_000.0);
        assert_eq!(scream.decision().window, Some(Bytes::new(50_000)));
    }

    #[test]
    fn a_window_acknowledged_adds_a_datagram_and_two_percent() {
        let mut scream = full();
        let acks: Vec<Acked> = (0..100).map(|n| acked(n, 1000)).collect();
        scream.on_feedback(&Report { acked: &acks, ..at(120) });
        // 1000 bytes x (1 - 1/100), x (1 + 0.02 x 100).
        assert!((window(&scream) - 102_970.0).abs() < 1.0, "{}", window(&scream));
    }

    #[test]
    fn growth_waits_for_bytes_in_flight() {
        let mut scream = full();
        (scream.in_flight, scream.peak) = (10_000.0, (10_000.0, 10_000.0, Some(Time::from_millis(100))));
        let acks: Vec<Acked> = (0..100).map(|n| acked(n, 1000)).collect();
        scream.on_feedback(&Report { acked: &acks, ..at(120) });
        assert_eq!(window(&scream), 100_000.0, "16 datagrams would be allowed");
    }

    #[test]
    fn losses_cost_three_tenths_once_a_round_trip_and_marks_a_fifth() {
        let gone = [lost(1, 1000)];
        let mut scream = full();
        scream.on_feedback(&Report { lost: &gone, ..at(120) });
        assert!((window(&scream) - 70_000.0).abs() < 300.0, "{}", window(&scream));
        scream.on_feedback(&Report { lost: &gone, ..at(159) });
        assert!(window(&scream) > 70_000.0, "the same round trip");
        scream.on_feedback(&at(165));
        assert!(window(&scream) > 70_000.0, "and it is not made up for");
        scream.on_feedback(&Report { lost: &gone, ..at(166) });
        assert!((window(&scream) - 49_000.0).abs() < 300.0, "{}", window(&scream));
        assert_eq!(scream.inflection.0, 100_000.0, "taken at most once in ten round trips");
        let mut marked = full();
        marked.on_feedback(&Report { ce_marks: 1, ..at(120) });
        assert!((window(&marked) - 80_000.0).abs() < 1.0, "{}", window(&marked));
    }

    #[test]
    fn tolerated_losses_cost_nothing_without_a_queue() {
        let gone = [lost(1, 1000)];
        let mut scream = Scream { params: Params { tolerance: 0.01, ..PARAMS }, ..full() };
        scream.on_feedback(&Report { lost: &gone, ..at(120) });
        assert!(window(&scream) >= 100_000.0, "{}", window(&scream));
        scream.delay_avg = (0.02, Some(Time::from_millis(199)));
        scream.on_feedback(&Report { lost: &gone, ..at(200) });
        assert!(window(&scream) < 71_000.0, "{}", window(&scream));
    }

    #[test]
    fn l4s_marks_cost_half_their_share() {
        let mut scream = Scream { params: Params { l4s: true, ..PARAMS }, ..full() };
        scream.reacted_at = Some(Time::ZERO);
        let acks: Vec<Acked> = (0..10).map(|n| acked(n, 1000)).collect();
        scream.on_feedback(&Report { acked: &acks, ce_marks: 4, ..at(120) });
        assert!((scream.marks.alpha - 0.4 / 8.0).abs() < 1e-9);
        // 5 % / 2, x (1 - 1/100): 2475 bytes, less what ten datagrams make it grow by.
        assert!((window(&scream) - 97_525.0).abs() < 300.0, "{}", window(&scream));
        scream.on_feedback(&Report { acked: &acks, ..at(131) });
        assert!((scream.marks.alpha - 0.05 * 127.0 / 128.0).abs() < 1e-9);
    }

    #[test]
    fn delay_shrinks_the_window_from_half_the_target_on() {
        let with = |ms: i64| {
            let mut scream = full();
            scream.on_feedback(&Report { acked: &[acked(0, 1)], ..at(100) });
            scream.window = Some(100_000.0);
            (scream.media, scream.delay_avg.0) = (Rate::from_mbps(20), ms as f64 / 1e3);
            let late = Acked {
                arrived_at: Some((Time::from_millis(31) + Span::from_millis(20 + ms - 1)).on_wire()),
                ..acked(30, 1)
            };
            scream.on_feedback(&Report { acked: &[late], ..at(130) });
            window(&scream) - 100_000.0
        };
        assert!(with(25) >= 0.0);
        // At 45 ms the excess is half: marks of 2 x 2/100 x 0.5, halved: a datagram less 1 %; at 60 ms twice
        // that.
        assert!((with(45) + 990.0).abs() < 30.0, "{}", with(45));
        assert!((with(60) + 1980.0).abs() < 60.0, "{}", with(60));
    }
}
