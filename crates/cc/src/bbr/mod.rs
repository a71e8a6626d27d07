//! BBR version 1: send at the measured bandwidth, with at most two bandwidth-delay products in flight.
//!
//! ```text
//!  report -> model.rs    what arrived: sample, round; smallest round trip; full pipe; aggregation
//!         -> policer.rs  a rate that losses say is policed
//!         -> stale.rs    samples as ns-3 took them, which CC-Fuzz found to stall it
//!         -> STARTUP -> DRAIN -> PROBE_BW <-> PROBE_RTT    (this file)
//!         -> control.rs  pacing, quantum, loss recovery
//! ```
//!
//! `model.rs` and `control.rs` serve [`bbr2`](crate::bbr2) as well. Constants are those of Linux's tcp_bbr.c
//! where nothing else is said; its names stand in brackets.

pub(crate) mod control;
pub(crate) mod model;
mod policer;
mod stale;

use units::{Rate, Rng, Span, Time, cold_path, likely, unlikely};

use crate::parts::Extremum;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use control::{INITIAL_PACKETS, MIN_PACKETS, Pacing, Recovery, media, observe};
use model::{Dwell, ExtraAcked, FullPipe, Heard, MinRtt, Sampler, bdp, full_gain, left_dry};
use policer::Policer;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "bbr",
    summary: "BBR version 1: bandwidth and round-trip time, probed every 8 round trips and 10 s (Linux)",
    needs_frames: false,
    options: &[
        ("startup_gain", "pacing and window gain of STARTUP, 1.5 to 4 (default 2.885)"),
        ("cwnd_gain", "window in bandwidth-delay products, 1 to 4 (default 2)"),
        ("bw_rounds", "rounds the bandwidth's maximum is kept, 2 to 100 (default 10)"),
        ("min_rtt_window", "the smallest round trip is kept for this long, such as 10s"),
        ("policer", "look for policers, on or off (default on)"),
        (
            "round_guard",
            "rounds end only on packets a round trip old, on (default) or off, as Linux and ns-3",
        ),
        (
            "stale_samples",
            "bandwidth is sampled as by ns-3 until 2024, invalid samples and all, on or off (default off)",
        ),
        (
            "timeout_probe",
            "PROBE_RTT at a retransmission timeout, the CC-Fuzz thesis' fix, on or off (default off)",
        ),
    ],
    page: include_str!("bbr.md"),
    build: |options, setup| Ok(Box::new(Bbr::new(Params::read(options)?, setup))),
    receiver: None,
};

/// Gains of PROBE_BW's phases (bbr_pacing_gain): a quarter faster, a quarter slower, then at the bandwidth.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// PROBE_BW begins in any phase but the slow one (bbr_cycle_rand).
const FIRST_PHASES: u64 = 7;
/// Rounds each of the two aggregation slots lasts (bbr_extra_acked_win_rtts).
const EXTRA_ROUNDS: u32 = 5;
/// Packets that are padded to the window while probing, so that small windows rise at all
/// (bbr_quantization_budget).
const PROBE_PACKETS: u64 = 2;
/// Quanta in flight beside the path: in the sender's queues and the receiver's (the same place).
const QUANTA: u64 = 3;
/// Pace at 99 % of the bandwidth (bbr_pacing_margin_percent).
const PACING_SHARE: f64 = 0.99;

/// BBR's parameters; [`Default`] is Linux's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Pacing and window gain of STARTUP: 2/ln 2, the least that doubles the rate every round
    /// (bbr_high_gain).
    pub startup_gain: f64,
    /// Bandwidth-delay products in flight in PROBE_BW (bbr_cwnd_gain).
    pub cwnd_gain: f64,
    /// Rounds the bandwidth's maximum is kept (bbr_bw_rtts).
    pub bw_rounds: u64,
    /// How long the smallest round-trip time is kept (bbr_min_rtt_win_sec).
    pub min_rtt_window: Span,
    /// Whether policers are looked for, whose token rate is then kept to.
    pub policer: bool,
    /// A round ends only on a packet at least a round trip old. Without, an acknowledgement of an original
    /// that is put down to its retransmission ends one at once (CC-Fuzz, thesis section 7.4.1).
    pub round_guard: bool,
    /// Bandwidth is sampled as ns-3 did when the same place was written (`stale.rs`).
    pub stale_samples: bool,
    /// A retransmission timeout begins PROBE_RTT, so that what is in flight comes in before more is sent
    /// again (the same place's fix).
    pub timeout_probe: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            startup_gain: 2.885,
            cwnd_gain: 2.0,
            bw_rounds: 10,
            min_rtt_window: Span::from_secs(10),
            policer: true,
            round_guard: true,
            stale_samples: false,
            timeout_probe: false,
        }
    }
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        let d = Params::default();
        let window = options.quantity("min_rtt_window", d.min_rtt_window, "a time such as 10s")?;
        Ok(Params {
            startup_gain: options.number("startup_gain", d.startup_gain, 1.5..=4.0)?,
            cwnd_gain: options.number("cwnd_gain", d.cwnd_gain, 1.0..=4.0)?,
            bw_rounds: options.number("bw_rounds", d.bw_rounds as f64, 2.0..=100.0)? as u64,
            min_rtt_window: window.max(Span::from_secs(1)),
            policer: options.switch("policer", d.policer)?,
            round_guard: options.switch("round_guard", d.round_guard)?,
            stale_samples: options.switch("stale_samples", d.stale_samples)?,
            timeout_probe: options.switch("timeout_probe", d.timeout_probe)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// A window in packets, before [padding](Bbr::padded).
#[derive(Clone, Copy, Debug)]
struct Target {
    /// Bandwidth, smallest round trip, gain, and bytes for aggregation.
    of: (Rate, Option<Span>, f64, u64),
    packets: u64,
}

/// BBR's state for one flow: its model of the path, the phase it is in, and what it allows.
#[derive(Clone, Debug)]
pub struct Bbr {
    params: Params,
    mtu: u64,
    mode: Mode,
    /// In bytes.
    window: u64,
    /// What the window grows to, as last worked out: few reports change anything of it.
    target: Option<Target>,
    sampler: Sampler,
    max_bw: Extremum<u64, Rate>,
    min_rtt: MinRtt,
    full: FullPipe,
    extra: ExtraAcked,
    policer: Policer,
    recovery: Recovery,
    /// The first round of recovery: one packet out for one that left the network.
    conservation: bool,
    dwell: Dwell,
    pacing: Pacing,
    /// Index into [`CYCLE`], and since when.
    phase: usize,
    phase_since: Time,
    idle_restart: bool,
    /// The sender had nothing more to send after its last packet.
    ran_dry: bool,
    /// Pacing has changed between reports.
    changed_at: Option<Time>,
    media: Rate,
    rng: Rng,
}

impl Bbr {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Bbr {
        let mtu = u64::from(setup.mtu.max(1));
        let window = INITIAL_PACKETS * mtu;
        Bbr {
            params,
            mtu,
            mode: Mode::Startup,
            window,
            target: None,
            sampler: Sampler::new(params.round_guard, params.stale_samples),
            max_bw: Extremum::max(),
            min_rtt: MinRtt::new(params.min_rtt_window, params.min_rtt_window),
            full: FullPipe::default(),
            extra: ExtraAcked::default(),
            policer: Policer::default(),
            recovery: Recovery::default(),
            conservation: false,
            dwell: Dwell::default(),
            pacing: Pacing::new(window, mtu, params.startup_gain, PACING_SHARE),
            phase: 0,
            phase_since: Time::ZERO,
            idle_restart: false,
            ran_dry: false,
            changed_at: None,
            media: setup.initial.max(Rate::from_bps(1)),
            rng: Rng::stream(setup.seed, "bbr"),
        }
    }

    fn largest_bw(&self) -> Rate {
        self.max_bw.get().unwrap_or(Rate::ZERO)
    }

    fn bw(&self) -> Rate {
        match self.policer.rate() {
            Some(rate) => {
                cold_path();
                rate
            }
            None => self.largest_bw(),
        }
    }

    fn bdp(&self, bw: Rate, gain: f64) -> u64 {
        self.min_rtt.get().map_or(INITIAL_PACKETS * self.mtu, |min_rtt| bdp(bw, min_rtt, gain))
    }

    /// `packets` and what is in the hosts: three quanta, an even number of packets, and two more while
    /// probing; in bytes.
    fn padded(&self, packets: u64) -> u64 {
        let packets = (packets + QUANTA * self.pacing.quantum()).next_multiple_of(2);
        let probing = self.mode == Mode::ProbeBw && self.phase == 0;
        (packets + if probing { PROBE_PACKETS } else { 0 }) * self.mtu
    }

    /// What is in flight where phases end: `gain` times the bandwidth-delay product, and what is in the
    /// hosts.
    fn inflight(&self, gain: f64) -> u64 {
        self.padded(self.bdp(self.largest_bw(), gain).div_ceil(self.mtu))
    }

    /// What is in flight when the pipe is full although the application ran dry.
    fn full_inflight(&self) -> u64 {
        let gain = full_gain(self.mode == Mode::Startup, self.pacing_gain());
        self.bdp(self.largest_bw(), gain).max(MIN_PACKETS * self.mtu)
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => self.params.startup_gain,
            Mode::Drain => 1.0 / self.params.startup_gain,
            Mode::ProbeBw if self.policer.rate().is_none() => CYCLE[self.phase],
            Mode::ProbeBw | Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            // DRAIN keeps STARTUP's window: it is the pace that drains.
            Mode::Startup | Mode::Drain => self.params.startup_gain,
            Mode::ProbeBw => self.params.cwnd_gain,
            Mode::ProbeRtt => 1.0,
        }
    }

    fn recover(&mut self, report: &Report<'_>, heard: &mut Heard) {
        let recovering = self.recovery.is_on();
        let turn = self.recovery.update(report);
        self.conservation &= !heard.round && !turn.exited;
        if unlikely(turn.exited) {
            self.window = self.window.max(self.recovery.saved());
        }
        if unlikely(turn.undone) {
            self.full.restart(Rate::ZERO);
            self.policer.reset();
        }
        if unlikely(turn.entered || turn.timeout) {
            self.recovery.save(self.window, !turn.entered || self.mode == Mode::ProbeRtt);
        }
        if unlikely(turn.entered) {
            self.conservation = true;
            self.sampler.restart_round(heard);
            self.window = heard.in_flight + heard.acked;
        } else if unlikely(recovering && !turn.exited) {
            self.window = self.window.saturating_sub(heard.lost);
        }
        if unlikely(turn.timeout) {
            self.window = self.mtu;
            self.conservation = false;
            self.full.restart(Rate::ZERO);
            heard.round = true;
            if self.params.timeout_probe && self.mode != Mode::ProbeRtt {
                self.enter_probe_rtt();
            }
        }
    }

    fn update_bw(&mut self, heard: &Heard) {
        if self.params.policer && (heard.sample.is_some() || heard.lost > 0) {
            let over = self.policer.update(heard, self.mode == Mode::ProbeBw);
            if unlikely(over) {
                self.enter_probe_bw(heard.now);
            }
        }
        if let Some(sample) = heard.sample
            && (!heard.app_limited || sample.rate >= self.largest_bw())
        {
            let round = self.sampler.rounds();
            self.max_bw.insert(round, sample.rate, round.saturating_sub(self.params.bw_rounds));
        }
    }

    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.phase = CYCLE.len() - 1 - self.rng.below(FIRST_PHASES) as usize;
        self.next_phase(now);
    }

    fn next_phase(&mut self, now: Time) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_since = now;
    }

    fn cycle(&mut self, heard: &Heard) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let long_enough = heard.now - self.phase_since > self.min_rtt.get().unwrap_or(Span::ZERO);
        let over = match self.pacing_gain() {
            // Where a quarter more does not fit the buffer, losses end the phase.
            gain if gain > 1.0 => {
                long_enough && (heard.lost > 0 || heard.prior_in_flight >= self.inflight(gain))
            }
            gain if gain < 1.0 => long_enough || heard.prior_in_flight <= self.inflight(1.0),
            _ => long_enough,
        };
        if over {
            self.next_phase(heard.now);
        }
    }

    fn drain(&mut self, heard: &Heard) {
        if unlikely(self.mode == Mode::Startup) && self.full.reached {
            self.mode = Mode::Drain;
        }
        if unlikely(self.mode == Mode::Drain) && heard.in_flight <= self.inflight(1.0) {
            self.enter_probe_bw(heard.now);
        }
    }

    fn probe_rtt(&mut self, heard: &Heard) {
        let expired = self.min_rtt.update(heard);
        if unlikely(expired) && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.recovery.save(self.window, self.recovery.is_on());
            self.enter_probe_rtt();
        }
        if unlikely(self.mode == Mode::ProbeRtt)
            && self.dwell.update(heard, MIN_PACKETS * self.mtu, &mut self.sampler)
        {
            self.leave_probe_rtt(heard.now);
        }
        if heard.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn enter_probe_rtt(&mut self) {
        self.mode = Mode::ProbeRtt;
        self.dwell = Dwell::default();
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        self.min_rtt.refreshed(now);
        self.window = self.window.max(self.recovery.saved());
        if self.full.reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// The window's bandwidth-delay products and `extra` bytes, in packets.
    fn target_packets(&mut self, bw: Rate, extra: u64) -> u64 {
        let of = (bw, self.min_rtt.get(), self.cwnd_gain(), extra);
        match self.target {
            Some(target) if likely(target.of == of) => target.packets,
            _ => {
                cold_path();
                let packets = (self.bdp(bw, self.cwnd_gain()) + extra).div_ceil(self.mtu);
                self.target = Some(Target { of, packets });
                packets
            }
        }
    }

    fn set_window(&mut self, heard: &Heard, bw: Rate) {
        if unlikely(self.conservation) {
            self.window = self.window.max(heard.in_flight + heard.acked);
        } else if heard.acked > 0 {
            let extra = if self.full.reached { self.extra.get(bw) } else { 0 };
            let packets = self.target_packets(bw, extra);
            let target = self.padded(packets);
            if self.full.reached {
                self.window = (self.window + heard.acked).min(target);
            } else if self.window < target || heard.delivered < INITIAL_PACKETS * self.mtu {
                self.window += heard.acked;
            }
            self.window = self.window.max(MIN_PACKETS * self.mtu);
        }
        if unlikely(self.mode == Mode::ProbeRtt) {
            self.window = self.window.min(MIN_PACKETS * self.mtu);
        }
        self.window = self.window.max(self.mtu);
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, sent: &Sent) {
        let idle = sent.in_flight.get() <= u64::from(sent.size);
        if unlikely(idle && self.ran_dry) {
            self.idle_restart = true;
            self.extra.restart(sent.now);
            if self.mode == Mode::ProbeBw {
                self.pacing.set(self.bw(), 1.0);
                self.changed_at = Some(sent.now);
            }
        }
        self.ran_dry = sent.app_limited;
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let full = if unlikely(left_dry(report)) { self.full_inflight() } else { 0 };
        let mut heard = self.sampler.hear(report, full);
        self.recover(report, &mut heard);
        self.update_bw(&heard);
        let bw = self.bw();
        self.extra.update(&heard, bw, self.window, self.mtu, EXTRA_ROUNDS);
        self.cycle(&heard);
        self.full.update(&heard, self.largest_bw());
        self.drain(&heard);
        self.probe_rtt(&heard);
        let gain = self.pacing_gain();
        self.pacing.update(bw, gain, self.full.reached, self.window, report.srtt);
        self.set_window(&heard, bw);
        // PROBE_RTT is over in 200 ms: the encoder keeps its rate, else the picture would change twice for
        // nothing.
        if likely(self.mode != Mode::ProbeRtt) {
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
        self.target = None;
        self.pacing.set_mtu(self.mtu);
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        self.pacing.decision(self.window, self.media)
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        let (state, rounds) = (self.mode as u8, self.sampler.rounds());
        observe(sink, self.window, state, rounds, self.bw(), self.pacing_gain(), self.min_rtt.get());
    }
}

#[cfg(test)]
pub(crate) mod replay;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{lost, report};
    use model::tests::heard;
    use units::Bytes;

    /// 20 Mbit/s and 40 ms in PROBE_BW, with packets of 1500 bytes.
    fn cruising() -> Bbr {
        let mut bbr = Bbr::new(Params::default(), &Setup { mtu: 1500, ..Setup::default() });
        bbr.max_bw.insert(0, Rate::from_mbps(20), 0);
        bbr.min_rtt.update(&heard(0));
        bbr.full.reached = true;
        bbr.mode = Mode::ProbeBw;
        (bbr.phase, bbr.window) = (2, 204_000);
        bbr.pacing.set(Rate::from_mbps(20), 1.0);
        bbr
    }

    #[test]
    fn windows_have_room_for_the_hosts() {
        // 66.7 packets; and three quanta of two; even.
        let mut bbr = cruising();
        assert_eq!(bbr.inflight(1.0) / 1500, 74);
        assert_eq!(bbr.inflight(2.0) / 1500, 140);
        bbr.phase = 0;
        assert_eq!(bbr.inflight(1.25) / 1500, 92);
    }

    #[test]
    fn phases_last_a_round_trip_or_until_the_pipe_is_as_full_as_wanted() {
        let ends = |phase, ms, prior_in_flight, lost| {
            let mut bbr = cruising();
            bbr.phase = phase;
            bbr.cycle(&Heard { prior_in_flight, lost, ..heard(ms) });
            bbr.phase != phase
        };
        // At the bandwidth: time alone.
        assert!(!ends(2, 40, 200_000, 1500) && ends(2, 41, 0, 0));
        // Faster: time, and either enough in flight or losses.
        assert!(!ends(0, 40, 200_000, 0) && !ends(0, 41, 137_999, 0));
        assert!(ends(0, 41, 138_000, 0) && ends(0, 41, 0, 1500));
        // Slower: time, or little enough in flight.
        assert!(!ends(1, 40, 111_001, 0) && ends(1, 41, 200_000, 0) && ends(1, 1, 111_000, 0));
    }

    #[test]
    fn the_cycle_begins_anywhere_but_with_the_slow_phase() {
        let mut bbr = cruising();
        let mut seen = [false; CYCLE.len()];
        for _ in 0..500 {
            bbr.enter_probe_bw(Time::ZERO);
            seen[bbr.phase] = true;
        }
        assert_eq!(seen, [true, false, true, true, true, true, true, true]);
    }

    #[test]
    fn a_loss_conserves_packets_for_a_round_and_then_gives_the_window_back() {
        use crate::controller::tests::acked;
        let mut bbr = cruising();
        let at = |ms| Time::from_millis(ms);
        let mut hear = |ms, acks: &[crate::Acked], losses: &[crate::Lost]| {
            let in_flight = Bytes::new(90_000);
            bbr.on_feedback(&Report { now: at(ms), in_flight, delivered: 1_000_000, ..report(acks, losses) });
            bbr.window
        };
        assert_eq!(hear(100, &[acked(55, 1500)], &[lost(50, 1500)]), 91_500);
        assert_eq!(hear(101, &[acked(56, 1500)], &[lost(51, 1500)]), 91_500);
        // Sent after the loss was noticed: recovery is over, and the window what it was, and a packet more.
        assert_eq!(hear(141, &[acked(101, 1500)], &[]), 205_500);
    }

    #[test]
    fn an_idle_sender_starts_again_at_the_bandwidth_and_owes_no_probe() {
        let mut bbr = cruising();
        bbr.phase = 0;
        let sent = |ms, app_limited| Sent {
            now: Time::from_millis(ms),
            packet: 0,
            size: 1500,
            frame: None,
            in_flight: Bytes::new(1500),
            app_limited,
        };
        bbr.pacing.set(Rate::from_mbps(20), 1.25);
        bbr.on_sent(&sent(10, true));
        assert_eq!(bbr.decision().pacing, Some(Rate::from_kbps(24_750)));
        bbr.on_sent(&sent(12_000, false));
        assert_eq!(bbr.decision().pacing, Some(Rate::from_kbps(19_800)));
        assert_eq!(bbr.next_timer(), Some(Time::from_millis(12_000)));
        bbr.probe_rtt(&heard(12_040));
        assert_eq!((bbr.mode, bbr.idle_restart), (Mode::ProbeBw, false));
    }

    #[test]
    fn a_timeout_empties_the_pipe_if_asked_to() {
        let mode_after = |timeout_probe| {
            let mut bbr = Bbr { params: Params { timeout_probe, ..Params::default() }, ..cruising() };
            let losses = [lost(50, 1500)];
            let report = report(&[], &losses);
            bbr.on_feedback(&Report { persistent_congestion: true, ..report });
            bbr.mode
        };
        assert_eq!((mode_after(false), mode_after(true)), (Mode::ProbeBw, Mode::ProbeRtt));
    }

    #[test]
    fn probe_rtt_holds_four_packets_and_the_encoder_its_rate() {
        let mut bbr = cruising();
        bbr.on_feedback(&Report { now: Time::from_millis(50), ..report(&[], &[]) });
        let media = bbr.decision().media;
        bbr.on_feedback(&Report { now: Time::from_millis(10_100), ..report(&[], &[]) });
        let decision = bbr.decision();
        assert_eq!((decision.window, decision.media), (Some(Bytes::new(6_000)), media));
    }
}
