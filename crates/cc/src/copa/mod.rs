//! Copa (NSDI 2018): the window moves towards a rate of one packet per delta times the queuing delay.
//!
//! ```text
//!  dq = RTTstanding - RTTmin     target = 1 / (delta dq)     rate = cwnd / RTTstanding
//!  rate <= target:  cwnd += v / (delta cwnd)   else   cwnd -= v / (delta cwnd)      for each packet acknowledged
//! ```
//!
//! `rtts.rs` has the round-trip filters, `velocity.rs` the step v, `mode.rs` the switch that makes it
//! Copa-Auto; `generic.rs` is genericCC, which moves otherwise.

mod generic;
mod loss;
mod mode;
mod rtts;
mod velocity;

use units::{Bytes, Span, Time};

use crate::parts::{Extremum, packet_rtts, window_rate};
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use loss::HeavyLoss;
use mode::{Detection, ModeSwitch};
use rtts::Rtts;
use velocity::{Direction, Velocity};

const OPTIONS: &[(&str, &str)] = &[
    ("delta", "packets in the queue are about 1.25/delta, 0.004 to 4"),
    ("latest", "queuing delay from the latest round trip, as mvfst has it, on or off (default off)"),
    ("patience", "round trips in one direction before the velocity doubles, 1 to 8 (default 3)"),
    ("heavy_loss", "cut the window where over 30 % is lost, as genericCC does, on or off"),
    ("packets", "a round-trip sample of each packet instead of each report, on or off (default off)"),
    ("new_path", "forget RTTmin when the round trip grew by half for good, on or off (default off)"),
];

const AUTO_OPTIONS: &[(&str, &str)] = &[
    OPTIONS[0],
    OPTIONS[1],
    OPTIONS[2],
    OPTIONS[3],
    OPTIONS[4],
    OPTIONS[5],
    ("rtts", "round trips without a nearly empty queue that mean a competitor, 1 to 20"),
];

const fn entry(name: &'static str, summary: &'static str, build: crate::registry::Build) -> Entry {
    let page = include_str!("copa.md");
    Entry { name, summary, needs_frames: false, options: OPTIONS, page, build, receiver: None }
}

/// The paper's delta.
pub const ENTRY: Entry = entry("copa", "Copa, delta 0.5 (NSDI 2018)", |o, s| Params::plain(0.5).build(o, s));
/// Pantheon's delta, mode switching off: Copa-0.1 of arXiv 2207.11857.
pub const ENTRY_01: Entry =
    entry("copa-0.1", "Copa, delta 0.1 (Pantheon's)", |o, s| Params::plain(0.1).build(o, s));
/// The delta of Facebook's report on video uploads.
pub const ENTRY_004: Entry =
    entry("copa-0.04", "Copa, delta 0.04 (Facebook's deployment)", |o, s| Params::plain(0.04).build(o, s));
/// Vidaptive's delta.
pub const ENTRY_09: Entry =
    entry("copa-0.9", "Copa, delta 0.9 (Vidaptive's)", |o, s| Params::plain(0.9).build(o, s));
/// With the paper's mode switch.
pub const ENTRY_AUTO: Entry = Entry {
    options: AUTO_OPTIONS,
    ..entry("copa-auto", "Copa with mode switching as in the paper", |o, s| Params::auto().build(o, s))
};
/// With genericCC's mode switch.
pub const ENTRY_AUTO_4: Entry = Entry {
    options: AUTO_OPTIONS,
    ..entry("copa-auto-4", "Copa with mode switching as in genericCC", |o, s| Params::generic().build(o, s))
};

/// What Pantheon runs.
pub const ENTRY_PANTHEON: Entry = generic::ENTRY;

/// Ten packets, as RFC 6928 and mvfst have it, and genericCC's number of probe packets.
const INITIAL_WINDOW: f64 = 10.0;
/// genericCC and mvfst.
const MINIMUM_WINDOW: f64 = 2.0;
/// Paper section 2.1: pacing at twice the window's rate never limits the window.
const PACING_GAIN: f64 = 2.0;
/// The round trip to pace the first window over.
const FIRST_RTT: Span = Span::from_millis(100);
/// mvfst, and the paper's "three RTTs".
const PATIENCE: u32 = 3;

/// What the presets differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// delta, per packet of the setup's datagram size; with mode switching the default mode's.
    pub delta: f64,
    /// Mode switching, if on.
    pub switching: Option<Detection>,
    /// Queuing delay from the latest round trip instead of RTTstanding.
    pub latest: bool,
    /// Comparisons with the same direction before the velocity doubles.
    pub patience: u32,
    /// genericCC's cut on heavy loss.
    pub heavy_loss: bool,
    /// A sample of each packet, not one of each report. The difference is a video's: a report covers a frame,
    /// whose last packet has always waited behind the others. With a sample of each packet the queue within a
    /// frame goes unseen.
    pub packets: bool,
    /// RTTmin gives way to a round trip that stays half as long again.
    pub new_path: bool,
}

impl Params {
    /// The paper's, without mode switching.
    pub fn plain(delta: f64) -> Params {
        Params {
            delta,
            switching: None,
            latest: false,
            patience: PATIENCE,
            heavy_loss: false,
            packets: false,
            new_path: false,
        }
    }

    /// The paper's with mode switching (section 2.2: five round trips).
    pub fn auto() -> Params {
        Params { switching: Some(Detection { rtts: 5.0, raw: false }), ..Params::plain(0.5) }
    }

    /// genericCC's mode switching (`rtt-window.cc`: four round trips of raw samples).
    pub fn generic() -> Params {
        let switching = Some(Detection { rtts: 4.0, raw: true });
        Params { switching, heavy_loss: true, ..Params::plain(0.5) }
    }

    fn build(self, options: &Options, setup: &Setup) -> Result<Box<dyn Controller>, OptionError> {
        let mut params = Params {
            delta: options.number("delta", self.delta, 0.004..=4.0)?,
            latest: options.switch("latest", self.latest)?,
            patience: options.number("patience", f64::from(self.patience), 1.0..=8.0)? as u32,
            heavy_loss: options.switch("heavy_loss", self.heavy_loss)?,
            packets: options.switch("packets", self.packets)?,
            new_path: options.switch("new_path", self.new_path)?,
            ..self
        };
        if let Some(detection) = &mut params.switching {
            detection.rtts = options.number("rtts", detection.rtts, 1.0..=20.0)?;
        }
        Ok(Box::new(Copa::new(params, setup)))
    }
}

/// Copa's state.
#[derive(Clone, Debug)]
pub struct Copa {
    params: Params,
    /// Bytes of a packet.
    datagram: f64,
    /// cwnd in packets; fractions matter, for a step is a few hundredths.
    window: f64,
    slow_start: bool,
    velocity: Velocity,
    rtts: Rtts,
    mode: Option<ModeSwitch>,
    heavy_loss: HeavyLoss,
    /// When the window was last seen used.
    used_at: Option<Time>,
    /// The most that was in flight over the last round trip.
    peak_in_flight: Extremum<Time, u64>,
    /// When anything was last sent or heard.
    active_at: Time,
    /// A pause longer than this is one.
    timeout: Span,
    /// Bytes delivered so far.
    delivered: u64,
}

impl Copa {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Copa {
        Copa {
            params,
            datagram: f64::from(setup.mtu.max(1)),
            window: INITIAL_WINDOW,
            slow_start: true,
            velocity: Velocity::new(INITIAL_WINDOW, params.patience),
            rtts: Rtts::new(),
            mode: params.switching.map(|detection| ModeSwitch::new(detection, params.delta)),
            heavy_loss: HeavyLoss::default(),
            used_at: None,
            peak_in_flight: Extremum::max(),
            active_at: Time::ZERO,
            timeout: Span::from_secs(1),
            delivered: 0,
        }
    }

    fn delta(&self) -> f64 {
        self.mode.as_ref().map_or(self.params.delta, ModeSwitch::delta)
    }

    /// Whether the rate is at or below the target: `cwnd dq delta <= RTTstanding`, which divides by no delay.
    fn direction(&self) -> Option<Direction> {
        let (least, standing) = (self.rtts.least()?, self.rtts.standing()?);
        let seen = if self.params.latest { self.rtts.latest } else { standing };
        let queuing = (seen - least).max(Span::ZERO).as_secs_f64();
        let below = self.window * queuing * self.delta() <= standing.as_secs_f64();
        Some(if below { Direction::Up } else { Direction::Down })
    }

    /// The window was used within the last round trip.
    fn is_used(&self, now: Time) -> bool {
        self.used_at.is_some_and(|at| now - at <= self.rtts.smoothed)
    }

    /// The window has not run ahead of what was in flight within the last round trip, as it may where pacing
    /// holds packets back: by a packet at most, in slow start by as much again (Linux,
    /// `tcp_is_cwnd_limited`).
    fn is_followed(&self) -> bool {
        let peak = self.peak_in_flight.get().unwrap_or(0) as f64 / self.datagram;
        self.window <= if self.slow_start { 2.0 * peak } else { peak + 1.0 }
    }

    fn acknowledge(&mut self, report: &Report<'_>) {
        let Some(direction) = self.direction() else { return };
        let (used, followed) = (self.is_used(report.now), self.is_followed());
        let packets = report.acked.iter().map(|acked| f64::from(acked.size)).sum::<f64>() / self.datagram;
        if self.slow_start && direction == Direction::Up {
            self.window += if used && followed { packets } else { 0.0 };
            self.velocity.reset(self.window, report.delivered);
            return;
        }
        self.slow_start = false;
        self.velocity.decided(direction, report.delivered, self.window);
        // Never more than what was acknowledged: no faster than slow start.
        let velocity = if followed || direction == Direction::Down { self.velocity.get() } else { 1.0 };
        let step = (velocity * packets / (self.delta() * self.window)).min(packets);
        match direction {
            Direction::Up if used => self.window += step,
            Direction::Up => {}
            Direction::Down => self.window = (self.window - step).max(MINIMUM_WINDOW),
        }
        let then = report.acked.iter().map(|acked| acked.delivery.delivered).max().unwrap_or(0);
        self.velocity.acked(then, report.delivered, self.window, used && followed);
    }

    /// After a timeout nothing is left to go by but RTTmin.
    fn collapse(&mut self) {
        self.window = MINIMUM_WINDOW;
        self.slow_start = true;
        self.velocity.reset(self.window, self.delivered);
    }

    /// The window is kept over a pause, for pacing spreads it; what it was gaining or the queue was doing is
    /// void.
    fn pause(&mut self) {
        self.velocity.reset(self.window, self.delivered);
        if let Some(mode) = &mut self.mode {
            mode.restart();
        }
    }

    fn limit_losses(&mut self, report: &Report<'_>) {
        let (acked, lost) = (report.acked.len() as u32, report.lost.len() as u32);
        if self.heavy_loss.update(report.now, acked, lost, self.rtts.latest) && self.params.heavy_loss {
            self.window = (self.window * loss::CUT).max(MINIMUM_WINDOW);
            self.velocity.reset(self.window, self.delivered);
        }
    }
}

impl Controller for Copa {
    fn on_sent(&mut self, sent: &Sent) {
        let alone = sent.in_flight <= Bytes::new(u64::from(sent.size));
        if alone && sent.now - self.active_at > self.timeout {
            self.pause();
        }
        self.active_at = sent.now;
        self.peak_in_flight.insert(
            sent.now,
            sent.in_flight.get(),
            sent.now.saturating_sub(self.rtts.smoothed),
        );
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        (self.active_at, self.delivered) = (report.now, report.delivered);
        self.timeout = report.srtt + report.rttvar * 4;
        if report.limited {
            self.used_at = Some(report.now);
        }
        if let Some(latest) = report.latest_rtt {
            if self.params.packets {
                packet_rtts(report).for_each(|(_, rtt)| self.rtts.sample(report.now, rtt, report.srtt));
            }
            self.rtts.sample(report.now, latest, report.srtt);
        }
        if let Some(mode) = &mut self.mode {
            mode.update(report, &self.rtts);
        }
        if report.persistent_congestion {
            self.collapse();
        }
        self.limit_losses(report);
        if !report.acked.is_empty() {
            self.acknowledge(report);
        }
        if self.params.new_path && self.window <= MINIMUM_WINDOW {
            self.rtts.forget_another_path(report.now);
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
        let window = Bytes::new((self.window * self.datagram) as u64);
        let pacing = match self.rtts.standing() {
            Some(standing) => window_rate(window, standing, PACING_GAIN),
            None => window_rate(window, FIRST_RTT, 1.0),
        };
        Decision { window: Some(window), pacing: Some(pacing), ..Decision::default() }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window * self.datagram);
        sink("velocity", self.velocity.get());
        sink("delta", self.delta());
        if let (Some(least), Some(standing)) = (self.rtts.least(), self.rtts.standing()) {
            sink("min_rtt_ms", least.as_millis_f64());
            sink("standing_rtt_ms", standing.as_millis_f64());
        }
        if let Some(mode) = &self.mode {
            sink("competitive", f64::from(mode.is_competitive()));
        }
    }
}

#[cfg(test)]
mod tests;
