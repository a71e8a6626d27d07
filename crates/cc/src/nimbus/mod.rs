//! Nimbus: a small pulse on the sending rate tells whether the cross traffic is elastic (arXiv 1802.08730,
//! SIGCOMM 2022).
//!
//! ```text
//!   acknowledged -> flow.rs      S, R: send and receive rate of the same packets
//!                   z = mu S / R - S            the cross traffic
//!                -> detector.rs  does z move at the pulse's frequency?
//!          no:  rate = S + 0.8 (mu - S - z) + 0.5 (mu / x) (x_min + d - x)       delay mode
//!          yes: rate = window / x                competitive.rs
//!                -> pulse.rs     + 0.25 mu for a quarter of a period, - 0.083 mu for the rest
//! ```

mod competitive;
mod detector;
mod flow;
mod pulse;

use units::{Bytes, Rate, Span, Time};

use crate::parts::Silence;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use competitive::Window;
use detector::Detector;
use flow::{Flow, Rates};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "nimbus",
    summary: "Nimbus: pulses tell elastic cross traffic, delay control otherwise (arXiv 1802.08730)",
    needs_frames: false,
    options: &[
        ("mu", "rate of the link where it is known, such as 20mbit (default: the most received so far)"),
        ("target", "queuing delay aimed for in delay mode, such as 20ms (default 12.5ms)"),
        ("switch", "change modes, on or off (default on; off stays in delay mode)"),
    ],
    page: include_str!("nimbus.md"),
    build: |options, setup| Ok(Box::new(Nimbus::new(Params::read(options)?, setup))),
    receiver: None,
};

/// Rates are measured and set this often (code: `measurement_interval`).
const TICK: Span = Span::from_millis(10);
/// Ticks made up for after a late one, at most.
const MOST_TICKS: u32 = 20;
/// Weights of delay mode's two terms (paper; code: alpha, beta).
const FILL: f64 = 0.8;
const DRAIN: f64 = 0.5;
/// The rate never falls below this share of the link's (code).
const FLOOR: f64 = 0.05;
/// Frequencies of the pulse in Hz (code).
const COMPETITIVE_HZ: f64 = 5.0;
const DELAY_HZ: f64 = 6.0;
/// Elasticity above which, and below which, the mode changes (code).
const ELASTIC: f64 = 2.25;
const INELASTIC: f64 = 2.0;
/// No change of mode so early (code) ...
const SETTLING: Span = Span::from_secs(15);
/// ... and none back to delay mode so soon after the last (code).
const DWELL: Span = Span::from_secs(5);
/// Weight of a new received rate in the average whose maximum is mu (code).
const MU_WEIGHT: f64 = 0.2;
/// Without a queue of this much the link does not tell what else it carries.
const QUEUE: Span = Span::from_millis(1);
/// Slow start ends where the path delivers less than this share of what was sent.
const SATURATED: f64 = 0.9;
/// Weight of a tick in what was asked and sent: 200 ms, a period of the pulse.
const USE_WEIGHT: f64 = 0.05;
/// The application limits us where it sends less than this share of what it may.
const LIMITED: f64 = 0.8;
/// In flight at most, in rate x round trip (code).
const WINDOW_GAIN: f64 = 2.0;
const MIN_WINDOW_DATAGRAMS: u64 = 20;
/// Before any sample.
const INITIAL_RTT: Span = Span::from_millis(100);

/// Nimbus' parameters.
#[derive(Clone, Copy, Debug)]
struct Params {
    /// The link's rate in bit/s, if given.
    mu: Option<f64>,
    /// d_t: queuing delay aimed for (paper: 12.5 ms).
    target: Span,
    switch: bool,
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        let mu = options.quantity("mu", Rate::ZERO, "a rate such as 20mbit")?;
        Ok(Params {
            mu: (mu > Rate::ZERO).then(|| mu.as_f64()),
            target: options.quantity("target", Span::from_micros(12_500), "a time such as 20ms")?,
            switch: options.switch("switch", true)?,
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Doubling each round trip until the path is saturated.
    Starting,
    Delay,
    Competitive(Window),
}

#[derive(Clone, Debug)]
struct Nimbus {
    params: Params,
    setup: Setup,
    mode: Mode,
    switched_at: Time,
    started_at: Option<Time>,
    ticked_at: Time,
    flow: Flow,
    rates: Rates,
    /// mu, and the average it is the maximum of, in bit/s.
    mu: f64,
    received: f64,
    /// z, in bit/s, and its last value that a queue vouched for.
    cross: f64,
    seen_cross: f64,
    detector: Detector,
    elasticity: f64,
    /// Without the pulse, in bit/s.
    base: f64,
    rate: f64,
    /// Averages of what was allowed and what was sent, in bit/s, and bytes sent since the last tick.
    asked: f64,
    used: f64,
    sent: u64,
    rtt: Option<Span>,
    srtt: Span,
    rttvar: Span,
    min_rtt: Span,
    silence: Silence,
}

impl Nimbus {
    fn new(params: Params, setup: &Setup) -> Nimbus {
        let rate = setup.initial.max(setup.min).as_f64().max(1.0);
        Nimbus {
            params,
            setup: *setup,
            mode: Mode::Starting,
            switched_at: Time::ZERO,
            started_at: None,
            ticked_at: Time::ZERO,
            flow: Flow::default(),
            rates: Rates::default(),
            mu: params.mu.unwrap_or(0.0),
            received: 0.0,
            cross: 0.0,
            seen_cross: 0.0,
            detector: Detector::new(),
            elasticity: 0.0,
            base: rate,
            rate,
            asked: 0.0,
            used: 0.0,
            sent: 0,
            rtt: None,
            srtt: INITIAL_RTT,
            rttvar: Span::ZERO,
            min_rtt: INITIAL_RTT,
            silence: Silence::default(),
        }
    }

    fn queuing(&self) -> Span {
        self.rtt.map_or(Span::ZERO, |rtt| (rtt - self.min_rtt).max(Span::ZERO))
    }

    fn hold(&self, bps: f64) -> f64 {
        let floor = self.setup.min.as_f64().max(FLOOR * self.mu).max(1.0);
        if bps.is_finite() { bps.min(self.setup.max.as_f64()).max(floor) } else { floor }
    }

    fn frequency(&self) -> f64 {
        if matches!(self.mode, Mode::Competitive(_)) { COMPETITIVE_HZ } else { DELAY_HZ }
    }

    fn is_limited(&self) -> bool {
        self.used < LIMITED * self.asked
    }

    /// What was sent of what was allowed in one tick.
    fn measure_use(&mut self) {
        let sent = self.sent as f64 * 8.0 / TICK.as_secs_f64();
        self.sent = 0;
        self.asked += USE_WEIGHT * (self.rate - self.asked);
        self.used += USE_WEIGHT * (sent - self.used);
    }

    /// S, R, mu and z.
    fn measure_path(&mut self) {
        let Some(rates) = self.flow.rates(self.srtt) else { return };
        self.rates = rates;
        self.received += MU_WEIGHT * (rates.received - self.received);
        if self.params.mu.is_none() {
            self.mu = self.mu.max(self.received);
        }
        self.cross = (self.mu * rates.sent / rates.received - rates.sent).clamp(0.0, self.mu);
        // Deviation: the code's detector takes z with an empty queue too; but then it is what the link has to
        // spare, and moves with our own pulse.
        if self.queuing() >= QUEUE {
            self.seen_cross = self.cross;
        }
    }

    fn tick(&mut self, now: Time) {
        self.measure_use();
        self.measure_path();
        let limited = self.is_limited();
        // A pulse that the application does not fill proves nothing.
        if !limited && !matches!(self.mode, Mode::Starting) {
            self.detector.push(self.seen_cross, self.mu, self.rates.received);
            if let Some(elasticity) = self.detector.update(self.frequency(), self.mu) {
                self.elasticity = elasticity;
                self.choose_mode(now);
            }
        }
        let wanted = self.wanted();
        self.base = self.hold(if limited { wanted.min(self.base) } else { wanted });
        let elapsed = (now - self.started_at.unwrap_or(now)).as_secs_f64();
        let pulse = match self.mode {
            Mode::Starting => 0.0,
            _ => self.mu * pulse::pulse(elapsed, self.frequency()),
        };
        self.rate = self.hold(self.base + pulse);
    }

    /// The rate before the pulse.
    fn wanted(&mut self) -> f64 {
        let rtt = self.rtt.unwrap_or(INITIAL_RTT).max(Span::from_millis(1)).as_secs_f64();
        match &self.mode {
            Mode::Starting if self.is_saturated() => {
                self.mode = Mode::Delay;
                self.received.min(self.base)
            }
            Mode::Starting => {
                self.base * (TICK.as_secs_f64() / self.srtt.as_secs_f64().max(1e-3)).min(1.0).exp2()
            }
            Mode::Delay => {
                let spare = self.mu - self.rates.sent - self.cross;
                let room = self.params.target.as_secs_f64() - self.queuing().as_secs_f64();
                self.rates.sent + FILL * spare + DRAIN * self.mu / rtt * room
            }
            Mode::Competitive(window) => window.datagrams() * f64::from(self.setup.mtu) * 8.0 / rtt,
        }
    }

    /// Deviation: the code sends 2 MB/s for the first second. Here the rate doubles until the path delivers
    /// less than was sent or queues twice the delay aimed for.
    fn is_saturated(&self) -> bool {
        let short = self.rates.sent > 0.0 && self.rates.received < SATURATED * self.rates.sent;
        short && self.queuing() >= self.params.target || self.queuing() >= self.params.target * 2
    }

    fn choose_mode(&mut self, now: Time) {
        let settled = now - self.started_at.unwrap_or(now) >= SETTLING;
        if !self.params.switch || !settled {
            return;
        }
        match self.mode {
            Mode::Delay if self.elasticity > ELASTIC => {
                // The rate of before the elastic traffic pushed us aside.
                let before = self.detector.received_before().unwrap_or(self.base).max(self.rates.received);
                let rtt = self.rtt.unwrap_or(INITIAL_RTT).as_secs_f64();
                let datagrams = before * rtt / 8.0 / f64::from(self.setup.mtu.max(1));
                (self.mode, self.switched_at) = (Mode::Competitive(Window::at(datagrams)), now);
            }
            Mode::Competitive(_) if self.elasticity < INELASTIC && now - self.switched_at >= DWELL => {
                (self.mode, self.switched_at) = (Mode::Delay, now);
            }
            _ => {}
        }
    }

    fn compete(&mut self, report: &Report<'_>) {
        let limited = self.is_limited();
        let mtu = f64::from(self.setup.mtu.max(1));
        let Mode::Competitive(window) = &mut self.mode else { return };
        if let Some(last) = report.lost.last() {
            window.lost(last.sent_at, report.now);
        }
        if !limited {
            let bytes: u64 = report.acked.iter().map(|acked| u64::from(acked.size)).sum();
            window.acked(report.now, bytes as f64 / mtu, report.srtt);
        }
    }

    fn silence_at(&self) -> Option<Time> {
        self.silence.due_at(self.srtt, self.rttvar)
    }

    fn tick_at(&self) -> Option<Time> {
        (self.silence.is_waiting() && self.started_at.is_some()).then(|| self.ticked_at + TICK)
    }
}

impl Controller for Nimbus {
    fn on_sent(&mut self, sent: &Sent) {
        if !self.silence.is_waiting() {
            self.ticked_at = sent.now;
        }
        self.started_at.get_or_insert(sent.now);
        self.silence.sent(sent.now);
        self.sent += u64::from(sent.size);
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        (self.srtt, self.rttvar, self.min_rtt) = (report.srtt, report.rttvar, report.min_rtt);
        self.rtt = report.latest_rtt.or(self.rtt);
        if !report.acked.is_empty() {
            self.silence.heard(report.now, report.in_flight > Bytes::ZERO);
        }
        report.acked.iter().for_each(|acked| self.flow.acked(acked));
        if !report.lost.is_empty() && matches!(self.mode, Mode::Starting) {
            self.mode = Mode::Delay;
        }
        self.compete(report);
    }

    fn on_timer(&mut self, now: Time) {
        let mut ticks = 0;
        while let Some(at) = self.tick_at().filter(|at| *at <= now) {
            self.ticked_at = if ticks < MOST_TICKS { at } else { now };
            self.tick(self.ticked_at);
            ticks += 1;
        }
        if self.silence_at().is_some_and(|at| at <= now) {
            self.silence.reacted(now);
            self.flow.clear();
            self.rates = Rates { sent: self.base / 2.0, received: self.base / 2.0 };
            self.base = self.hold(self.base / 2.0);
            self.rate = self.base;
            if let Mode::Competitive(window) = &mut self.mode {
                *window = Window::at(window.datagrams() / 2.0);
            }
        }
    }

    fn next_timer(&self) -> Option<Time> {
        Time::first(self.tick_at(), self.silence_at())
    }

    fn on_mtu(&mut self, mtu: u32) {
        if let Mode::Competitive(window) = &mut self.mode {
            window.rescale(f64::from(self.setup.mtu.max(1)) / f64::from(mtu.max(1)));
        }
        self.setup.mtu = mtu;
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let pacing = Rate::from_f64(self.rate);
        // Media at the base, and the pulse on top of it where there is one: the frames of a pulse are what
        // fills it.
        let media = Rate::from_f64(self.rate.max(self.base));
        let flight = media.mul_f64(WINDOW_GAIN).bytes_in(self.srtt);
        Decision {
            window: Some(flight.max(Bytes::new(MIN_WINDOW_DATAGRAMS * u64::from(self.setup.mtu.max(1))))),
            pacing: Some(pacing),
            media: Some(media),
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("nimbus_base_bps", self.base);
        sink("nimbus_mu_bps", self.mu);
        sink("nimbus_cross_bps", self.seen_cross);
        sink("nimbus_elasticity", self.elasticity);
        let mode = match self.mode {
            Mode::Starting => 0.0,
            Mode::Delay => 1.0,
            Mode::Competitive(_) => 2.0,
        };
        sink("nimbus_mode", mode);
    }
}
