//! BBR version 2, with presets for mvfst's and for version 3: version 1's model, bounded by what losses and
//! marks have taught.
//!
//! ```text
//!  report -> ../bbr/model.rs  what arrived: sample, round; smallest round trip; full pipe; aggregation
//!         -> bounds.rs        inflight_hi, inflight_lo, bw_lo
//!         -> marks.rs         share of congestion marks
//!         -> cycle.rs         PROBE_BW: down, cruise, refill, up
//!         -> STARTUP -> DRAIN -> PROBE_BW <-> PROBE_RTT    (this file)
//! ```
//!
//! Constants are tcp_bbr2.c's where nothing else is said; its names stand in brackets.

mod bounds;
mod cycle;
mod marks;
pub mod params;

use units::{Rate, Rng, Time};

use crate::bbr::control::{INITIAL_PACKETS, MIN_PACKETS, Pacing, Recovery, media, observe};
use crate::bbr::model::{Dwell, ExtraAcked, FullPipe, Heard, MinRtt, Sampler, bdp, full_gain, left_dry};
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use bounds::{Bounds, UNBOUNDED, crossing, is_too_high};
use cycle::Cycle;
use marks::Marks;
pub use params::Params;

/// The registry's row for Linux's version 2.
pub const ENTRY: Entry = Entry {
    name: "bbr2",
    summary: "BBR version 2: bandwidth and round-trip time within bounds that losses teach (Linux v2alpha)",
    needs_frames: false,
    options: params::OPTIONS,
    page: include_str!("bbr2.md"),
    build: |options, setup| build(params::LINUX, options, setup),
    receiver: None,
};

/// The registry's row for mvfst's version 2.
pub const MVFST: Entry = Entry {
    name: "bbr2-mvfst",
    summary: "BBR version 2 with mvfst's constants (QUIC)",
    build: |options, setup| build(params::MVFST, options, setup),
    ..ENTRY
};

/// The registry's row for version 3.
pub const V3: Entry = Entry {
    name: "bbr3",
    summary: "BBR version 3: version 2 with the IETF draft's constants",
    build: |options, setup| build(params::V3, options, setup),
    ..ENTRY
};

fn build(preset: Params, options: &Options, setup: &Setup) -> Result<Box<dyn Controller>, OptionError> {
    Ok(Box::new(Bbr2::new(preset.with(options)?, setup)))
}

/// Share of a bandwidth-delay product in flight in PROBE_RTT (bbr_probe_rtt_cwnd_gain).
const PROBE_RTT_GAIN: f64 = 0.5;
/// Rounds an aggregation slot lasts (bbr_extra_acked_win_rtts), and while the pipe fills
/// (bbr_extra_acked_in_startup).
const EXTRA_ROUNDS: u32 = 5;
const EXTRA_ROUNDS_STARTUP: u32 = 1;
/// Quanta a window has room for (bbr_quantization_budget), and packets more while probing.
const QUANTA: u64 = 3;
const PROBE_PACKETS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Phase {
    fn is_probe_bw(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    /// Losses may be of our own making.
    fn is_probing(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }
}

/// BBRv2's state for one flow: its model of the path with bounds from losses and ECN, its phase, and what it
/// allows.
#[derive(Clone, Debug)]
pub struct Bbr2 {
    params: Params,
    mtu: u64,
    phase: Phase,
    /// In bytes.
    window: u64,
    sampler: Sampler,
    /// Of the last probe's cycle, and of this one.
    max_bws: [Rate; 2],
    min_rtt: MinRtt,
    full: FullPipe,
    extra: ExtraAcked,
    bounds: Bounds,
    cycle: Cycle,
    marks: Marks,
    recovery: Recovery,
    /// Reports of loss in this round of STARTUP.
    loss_events: u32,
    dwell: Dwell,
    pacing: Pacing,
    idle_restart: bool,
    /// The sender had nothing more to send after its last packet.
    ran_dry: bool,
    /// Pacing has changed between reports.
    changed_at: Option<Time>,
    /// The window was full in this round, and in the one before.
    filled: [bool; 2],
    media: Rate,
    rng: Rng,
}

impl Bbr2 {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Bbr2 {
        let mtu = u64::from(setup.mtu.max(1));
        let window = INITIAL_PACKETS * mtu;
        Bbr2 {
            params,
            mtu,
            phase: Phase::Startup,
            window,
            sampler: Sampler::default(),
            max_bws: [Rate::ZERO; 2],
            min_rtt: MinRtt::new(params.min_rtt_window, params.probe_rtt),
            full: FullPipe::default(),
            extra: ExtraAcked::default(),
            bounds: Bounds::default(),
            cycle: Cycle::default(),
            marks: Marks::new(params.ecn),
            recovery: Recovery::default(),
            loss_events: 0,
            dwell: Dwell::default(),
            pacing: Pacing::new(window, mtu, params.startup_pacing, params.share),
            idle_restart: false,
            ran_dry: false,
            changed_at: None,
            filled: [false; 2],
            media: setup.initial.max(Rate::from_bps(1)),
            rng: Rng::stream(setup.seed, "bbr2"),
        }
    }

    fn max_bw(&self) -> Rate {
        self.max_bws[0].max(self.max_bws[1])
    }

    /// A probe's cycle is over: its samples are the older ones now. Without any the older ones stay.
    fn advance_max_bw(&mut self) {
        if self.max_bws[1] > Rate::ZERO {
            self.max_bws = [self.max_bws[1], Rate::ZERO];
        }
    }

    fn bw(&self) -> Rate {
        self.max_bw().min(self.bounds.bw_lo).min(self.bounds.bw_hi)
    }

    fn least(&self) -> u64 {
        MIN_PACKETS * self.mtu
    }

    fn bdp(&self, bw: Rate, gain: f64) -> u64 {
        self.min_rtt.get().map_or(INITIAL_PACKETS * self.mtu, |min_rtt| bdp(bw, min_rtt, gain))
    }

    /// At least what the hosts need; a little more while probing, so that small windows rise at all.
    fn padded(&self, bytes: u64) -> u64 {
        let least = (QUANTA * self.pacing.quantum() * self.mtu).max(self.least());
        let probing = if self.phase == Phase::Up { PROBE_PACKETS * self.mtu } else { 0 };
        bytes.max(least) + probing
    }

    fn inflight(&self, bw: Rate, gain: f64) -> u64 {
        self.padded(self.bdp(bw, gain))
    }

    /// The bandwidth-delay product, or the window where congestion has cut it below.
    fn target_inflight(&self) -> u64 {
        self.inflight(self.bw(), 1.0).min(self.window)
    }

    fn is_cwnd_limited(&self) -> bool {
        self.filled[0] || self.filled[1]
    }

    /// What is in flight when the pipe is full although the application ran dry.
    fn full_inflight(&self) -> u64 {
        let gain = full_gain(self.phase == Phase::Startup, self.pacing_gain());
        self.bdp(self.max_bw(), gain).max(MIN_PACKETS * self.mtu)
    }

    fn pacing_gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => self.params.startup_pacing,
            Phase::Drain => self.params.drain,
            Phase::Up => self.params.up,
            Phase::Down => self.params.down,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.phase {
            Phase::Startup | Phase::Drain => self.params.startup_cwnd,
            Phase::Up => self.params.up_cwnd,
            Phase::Down | Phase::Cruise | Phase::Refill => self.params.cwnd,
            Phase::ProbeRtt => 1.0,
        }
    }

    /// Looks at each lost packet: did the flight that it ended lose too much, and from where on?
    fn mark_losses(&mut self, report: &Report<'_>, heard: &Heard) {
        if report.lost.is_empty() {
            return;
        }
        self.bounds.mark_lost(heard);
        let mut lost = report.lost_bytes.saturating_sub(heard.lost);
        for packet in report.lost {
            let (then, size) = (packet.delivery, u64::from(packet.size));
            lost = lost.saturating_add(size);
            let since = lost.saturating_sub(then.lost);
            if self.cycle.samples && is_too_high(since, then.in_flight, self.params.loss) {
                let in_flight = crossing(then.in_flight, since, size, self.params.loss);
                self.went_too_high(in_flight, then.app_limited, heard);
            }
        }
    }

    /// No packet conservation here: the bounds are the answer to loss. The window is saved for timeouts.
    fn recover(&mut self, report: &Report<'_>) {
        let turn = self.recovery.update(report);
        if turn.exited {
            self.window = self.window.max(self.recovery.saved());
        }
        if turn.undone {
            self.full.restart(Rate::ZERO);
            self.bounds.undo();
        }
        if turn.entered || turn.timeout {
            self.recovery.save(self.window, !turn.entered || self.phase == Phase::ProbeRtt);
        }
        if turn.entered {
            self.bounds.keep();
        }
        if turn.timeout {
            self.full.restart(Rate::ZERO);
            if !self.phase.is_probing() && self.bounds.inflight_lo == UNBOUNDED {
                self.bounds.inflight_lo = self.recovery.saved();
            }
            self.window = self.mtu;
        }
    }

    /// Bandwidth, and the signals that short-term bounds and the end of STARTUP hang on.
    fn update_signals(&mut self, heard: &Heard, recovering: bool) {
        self.loss_events += u32::from(heard.lost > 0);
        let Some(sample) = heard.sample else { return };
        if !heard.app_limited || sample.rate >= self.max_bw() {
            self.max_bws[1] = self.max_bws[1].max(sample.rate);
        }
        if !self.bounds.take(&sample, heard) {
            return;
        }
        let ecn = self.marks.take_cut();
        if !self.phase.is_probing() {
            self.bounds.adapt(&self.params, self.max_bw(), self.window, ecn);
        }
        self.check_startup_losses(heard, recovering);
        self.bounds.start_round(&sample);
    }

    fn check_startup_losses(&mut self, heard: &Heard, recovering: bool) {
        let events = std::mem::take(&mut self.loss_events);
        let Some(then) = heard.then.filter(|_| !self.full.reached && recovering) else { return };
        let lost = heard.lost_ever.saturating_sub(then.lost);
        if events >= self.params.startup_losses && is_too_high(lost, then.in_flight, self.params.loss) {
            self.leave_startup();
        }
    }

    /// STARTUP went too far.
    fn leave_startup(&mut self) {
        self.full.reached = true;
        self.bounds.inflight_hi = self.inflight(self.max_bw(), 1.0).max(self.bounds.inflight_latest());
    }

    fn drain(&mut self, heard: &Heard) {
        if self.phase == Phase::Startup && self.full.reached {
            self.phase = Phase::Drain;
            self.bounds.reset_signals();
        }
        if self.phase == Phase::Drain && heard.in_flight <= self.inflight(self.max_bw(), 1.0) {
            self.start_down(heard);
        }
    }

    fn probe_rtt_window(&self) -> u64 {
        self.bdp(self.bw(), PROBE_RTT_GAIN).max(self.least())
    }

    fn probe_rtt(&mut self, heard: &Heard) {
        let expired = self.min_rtt.update(heard);
        if expired && !self.idle_restart && self.phase != Phase::ProbeRtt {
            self.phase = Phase::ProbeRtt;
            self.recovery.save(self.window, self.recovery.is_on());
            self.dwell = Dwell::default();
            self.stop_probing(heard);
        }
        if self.phase == Phase::ProbeRtt {
            let limit = self.probe_rtt_window();
            if self.dwell.update(heard, limit, &mut self.sampler) {
                self.leave_probe_rtt(heard);
            }
        }
        if heard.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn leave_probe_rtt(&mut self, heard: &Heard) {
        self.min_rtt.refreshed(heard.now);
        self.window = self.window.max(self.recovery.saved());
        self.bounds.reset_lower();
        if self.full.reached {
            // Less than a bandwidth-delay product is in flight: no need to go down, but the probe's clock
            // starts anew.
            self.start_down(heard);
            self.start_cruise();
        } else {
            self.phase = Phase::Startup;
        }
    }

    fn set_window(&mut self, heard: &Heard) {
        if heard.acked > 0 {
            let bw = self.bw();
            let target = self.padded(self.bdp(bw, self.cwnd_gain()) + self.extra.get(bw));
            if self.full.reached {
                self.window = (self.window + heard.acked).min(target);
            } else if self.window < target || heard.delivered < INITIAL_PACKETS * self.mtu {
                self.window += heard.acked;
            }
            self.window = self.window.max(self.least());
        }
        if self.phase == Phase::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let hi = match self.phase {
            Phase::Startup | Phase::Drain => UNBOUNDED,
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.inflight_hi,
            Phase::Cruise | Phase::ProbeRtt => {
                self.bounds.with_headroom(&self.params, self.mtu, self.least())
            }
        };
        let cap = hi.min(self.bounds.inflight_lo).max(self.least());
        self.window = self.window.min(cap).max(self.mtu);
    }
}

impl Controller for Bbr2 {
    fn on_sent(&mut self, sent: &Sent) {
        let in_flight = sent.in_flight.get();
        if in_flight <= u64::from(sent.size) && self.ran_dry {
            self.idle_restart = true;
            self.extra.restart(sent.now);
            if self.phase.is_probe_bw() {
                self.pacing.set(self.bw(), 1.0);
                self.changed_at = Some(sent.now);
            }
        }
        self.ran_dry = sent.app_limited;
        self.filled[0] |= in_flight + self.mtu > self.window;
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let full = if left_dry(report) { self.full_inflight() } else { 0 };
        let heard = self.sampler.hear(report, full);
        let recovering = self.recovery.is_on();
        self.recover(report);
        self.mark_losses(report, &heard);
        if heard.round {
            self.count_round();
            self.filled = [false, self.filled[0]];
        }
        if self.marks.update(report, &heard, self.min_rtt.get()) && !self.full.reached {
            self.leave_startup();
        }
        self.update_signals(&heard, recovering || self.recovery.is_on());
        let rounds = if self.full.reached { EXTRA_ROUNDS } else { EXTRA_ROUNDS_STARTUP };
        let bw = self.bw();
        self.extra.update(&heard, bw, self.window, self.mtu, rounds);
        if !self.full.reached {
            self.full.update(&heard, self.max_bw());
        }
        self.drain(&heard);
        self.advance(&heard);
        self.probe_rtt(&heard);
        let gain = self.pacing_gain();
        self.pacing.update(self.bw(), gain, self.full.reached, self.window, report.srtt);
        self.set_window(&heard);
        // PROBE_RTT is over in 200 ms: the encoder keeps its rate, else the picture would change twice for
        // nothing.
        if self.phase != Phase::ProbeRtt {
            self.media = media(self.pacing.get(), self.window, report.srtt);
        }
    }

    fn on_timer(&mut self, _: Time) {
        self.changed_at = None;
    }

    fn next_timer(&self) -> Option<Time> {
        self.changed_at
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.mtu = u64::from(mtu.max(1));
        self.pacing.set_mtu(self.mtu);
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        self.pacing.decision(self.window, self.media)
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        let (state, rounds) = (self.phase as u8, self.sampler.rounds());
        observe(sink, self.window, state, rounds, self.bw(), self.pacing_gain(), self.min_rtt.get());
        if self.bounds.inflight_hi != UNBOUNDED {
            sink("bbr_inflight_hi_bytes", self.bounds.inflight_hi as f64);
        }
        if self.bounds.inflight_lo != UNBOUNDED {
            sink("bbr_inflight_lo_bytes", self.bounds.inflight_lo as f64);
        }
    }
}
