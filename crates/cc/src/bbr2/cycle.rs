//! The cycle of PROBE_BW: down, cruise, refill, up.
//!
//! Deviation: what is in flight is taken after a report, as in mvfst and the draft. Linux takes it before,
//! which is much the same where every other packet is acknowledged; where a whole frame is, PROBE_DOWN would
//! never see its end.

use units::{Rate, Span, Time};

use super::bounds::{UNBOUNDED, is_too_high};
use super::{Bbr2, Phase};
use crate::bbr::model::Heard;

/// Time from a probe's end to the next probe: this (bbr_bw_probe_base_us) ...
const WAIT: Span = Span::from_secs(2);
/// ... and up to this more (bbr_bw_probe_rand_us).
const WAIT_SPREAD_S: f64 = 1.0;
/// Or as many rounds as Reno would need to win back half a window of packets, up to this
/// (bbr_bw_probe_max_rounds), ...
const MAX_ROUNDS: u64 = 63;
/// ... less 0 or 1 (bbr_bw_probe_rand_rounds).
const ROUNDS_SPREAD: u64 = 2;
/// PROBE_UP has found no more when this many bandwidth-delay products are in flight (bbr_bw_probe_pif_gain).
const QUEUING: f64 = 1.25;
/// Growth of `inflight_hi` doubles every round, up to 2^30 packets (bbr2_raise_inflight_hi_slope).
const MAX_UP_ROUNDS: u32 = 30;

/// What present acknowledgements tell about the last probe (bbr_ack_phase).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Acks {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The cycle's memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle {
    since: Time,
    wait: Span,
    rounds: u64,
    acks: Acks,
    /// Samples come from a probe, and it has not been found too high: one reaction a probe.
    pub samples: bool,
    /// One of them was good.
    good: bool,
    /// The last probe was too high ...
    prev_too_high: bool,
    /// ... so that this one stopped at the bound, which it might have passed.
    stopped_risky: bool,
    up_rounds: u32,
    /// Bytes acknowledged for each packet that `inflight_hi` rises by.
    up_step: u64,
    up_acked: u64,
}

impl Bbr2 {
    pub(super) fn start_down(&mut self, heard: &Heard) {
        self.bounds.reset_signals();
        self.cycle.rounds = self.rng.below(ROUNDS_SPREAD);
        self.cycle.wait = WAIT + Span::from_secs_f64(self.rng.uniform_in(0.0, WAIT_SPREAD_S));
        self.cycle.since = heard.now;
        self.cycle.acks = Acks::Stopping;
        self.cycle.up_step = UNBOUNDED;
        self.sampler.restart_round(heard);
        self.phase = Phase::Down;
    }

    pub(super) fn start_cruise(&mut self) {
        if self.bounds.inflight_lo != UNBOUNDED {
            self.bounds.inflight_lo = self.bounds.inflight_lo.min(self.bounds.inflight_hi);
        }
        self.phase = Phase::Cruise;
    }

    fn start_refill(&mut self, heard: &Heard) {
        self.bounds.reset_lower();
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0);
        (self.cycle.stopped_risky, self.cycle.good) = (false, false);
        self.cycle.acks = Acks::Refilling;
        self.sampler.restart_round(heard);
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, heard: &Heard) {
        // What arrives from here on was sent with a full pipe: it tells what a probe does.
        self.cycle.samples = true;
        self.cycle.acks = Acks::Starting;
        self.cycle.since = heard.now;
        self.sampler.restart_round(heard);
        self.full.restart(heard.sample.map_or(self.max_bw(), |sample| sample.rate));
        self.phase = Phase::Up;
        self.raise_slope();
    }

    /// PROBE_RTT begins: whatever the last probe did, its feedback ends here.
    pub(super) fn stop_probing(&mut self, heard: &Heard) {
        self.cycle.acks = Acks::Stopping;
        self.sampler.restart_round(heard);
    }

    /// A round has ended.
    pub(super) fn count_round(&mut self) {
        self.cycle.rounds += 1;
    }

    fn raise_slope(&mut self) {
        let packets = 1u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.cycle.up_step = (self.window / packets).max(self.mtu);
    }

    /// Advances the cycle; before the pipe is full there is none.
    pub(super) fn advance(&mut self, heard: &Heard) {
        if !self.full.reached || self.adapt_upper_bounds(heard) {
            return;
        }
        match self.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(heard) => self.start_refill(heard),
            Phase::Down if self.is_time_to_cruise(heard) => self.start_cruise(),
            Phase::Refill if heard.round => self.start_up(heard),
            Phase::Up => self.check_up(heard),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, heard: &Heard) -> bool {
        let packets = self.target_inflight() / self.mtu;
        heard.now - self.cycle.since > self.cycle.wait || self.cycle.rounds >= packets.min(MAX_ROUNDS)
    }

    fn is_time_to_cruise(&self, heard: &Heard) -> bool {
        let headroom = self.bounds.with_headroom(&self.params, self.mtu, self.least());
        heard.in_flight <= headroom && heard.in_flight <= self.inflight(self.max_bw(), 1.0)
    }

    fn check_up(&mut self, heard: &Heard) {
        let risky = self.cycle.prev_too_high && heard.in_flight >= self.bounds.inflight_hi;
        let over = if self.params.plateau { self.is_plateau(heard) } else { self.is_queuing(heard) };
        if risky || over {
            self.cycle.stopped_risky |= risky;
            self.cycle.prev_too_high = false;
            self.start_down(heard);
        }
    }

    fn is_queuing(&self, heard: &Heard) -> bool {
        let long_enough = heard.now - self.cycle.since > self.min_rtt.get().unwrap_or(Span::ZERO);
        long_enough && heard.in_flight >= self.inflight(self.max_bw(), QUEUING)
    }

    /// draft-ietf-ccwg-bbr, IsTimeToGoDown.
    fn is_plateau(&mut self, heard: &Heard) -> bool {
        let rate = heard.sample.map_or(Rate::ZERO, |sample| sample.rate);
        if self.is_cwnd_limited() && self.window >= self.bounds.inflight_hi {
            // It is the bound that keeps the bandwidth from growing.
            self.full.restart(rate);
        } else if heard.sample.is_some() {
            self.full.update(heard, rate);
        }
        self.full.now
    }

    /// Raises or lowers the long-term bounds; true if that has decided the phase.
    fn adapt_upper_bounds(&mut self, heard: &Heard) -> bool {
        if heard.round && self.cycle.acks == Acks::Starting {
            self.cycle.acks = Acks::Feedback;
        }
        if heard.round && self.cycle.acks == Acks::Stopping && self.end_feedback(heard) {
            return true;
        }
        let Some(then) = heard.then else { return false };
        let lost = heard.lost_ever.saturating_sub(then.lost);
        let lossy = lost > 0 && is_too_high(lost, then.in_flight, self.params.loss);
        if lossy || self.marks.is_too_high(heard) {
            if self.cycle.samples {
                self.went_too_high(then.in_flight, heard.app_limited, heard);
            }
            return false;
        }
        self.cycle.good |= self.cycle.samples;
        if self.bounds.inflight_hi != UNBOUNDED && !heard.app_limited {
            self.bounds.inflight_hi = self.bounds.inflight_hi.max(then.in_flight);
            if self.phase == Phase::Up {
                self.grow_inflight_hi(heard);
            }
        }
        if let Some(sample) = heard.sample.filter(|_| self.bounds.bw_hi != Rate::MAX) {
            self.bounds.bw_hi = self.bounds.bw_hi.max(sample.rate);
        }
        false
    }

    /// The last of a probe's feedback is in; true if there is to be another probe at once.
    fn end_feedback(&mut self, heard: &Heard) -> bool {
        self.cycle.samples = false;
        self.cycle.acks = Acks::Init;
        if !self.phase.is_probe_bw() {
            return false;
        }
        if !heard.app_limited {
            self.advance_max_bw();
        }
        // It stopped at the bound and lost nothing there: the path may carry more.
        let again = self.cycle.stopped_risky && !self.cycle.prev_too_high;
        if again {
            self.start_refill(heard);
        }
        again
    }

    /// A probe had `in_flight` bytes in flight, and that was too much.
    pub(super) fn went_too_high(&mut self, in_flight: u64, app_limited: bool, heard: &Heard) {
        self.cycle.prev_too_high = true;
        self.cycle.samples = false;
        if !app_limited {
            let least = self.target_inflight() as f64 * self.params.keep;
            self.bounds.inflight_hi = in_flight.max(least as u64);
            if let Some(share) = self.marks.cut_if_eligible().filter(|_| !self.cycle.good) {
                let bw = if self.bounds.bw_hi == Rate::MAX { self.max_bw() } else { self.bounds.bw_hi };
                self.bounds.bw_hi = bw.mul_f64(share);
            }
        }
        if self.phase == Phase::Up {
            self.start_down(heard);
        }
    }

    /// PROBE_UP fills the bound without harm: raise it, twice as fast each round.
    fn grow_inflight_hi(&mut self, heard: &Heard) {
        if !self.is_cwnd_limited() || self.window < self.bounds.inflight_hi {
            self.cycle.up_acked = 0;
            return;
        }
        self.cycle.up_acked += heard.acked;
        let packets = self.cycle.up_acked / self.cycle.up_step;
        self.cycle.up_acked -= packets * self.cycle.up_step;
        self.bounds.inflight_hi = self.bounds.inflight_hi.saturating_add(packets * self.mtu);
        if heard.round {
            self.raise_slope();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setup;
    use crate::bbr::model::Then;
    use crate::bbr::model::tests::heard;
    use crate::bbr2::{Params, params};

    const MTU: u64 = 1000;

    /// 20 Mbit/s and 40 ms, 100 kB in all, in `phase`.
    fn bbr2(phase: Phase, params: Params) -> Bbr2 {
        let mut bbr = Bbr2::new(params, &Setup { mtu: MTU as u32, ..Setup::default() });
        bbr.max_bws = [Rate::from_mbps(20); 2];
        bbr.min_rtt.update(&heard(0));
        bbr.full.reached = true;
        (bbr.phase, bbr.window) = (phase, 200_000);
        (bbr.cycle.wait, bbr.cycle.acks) = (Span::from_secs(2), Acks::Feedback);
        bbr
    }

    fn flight(ms: u64, in_flight: u64, sent_with: u64, lost: u64) -> Heard {
        let then = Then { in_flight: sent_with, lost: 0 };
        Heard { in_flight, then: Some(then), lost_ever: lost, round: false, ..heard(ms) }
    }

    #[test]
    fn too_much_loss_in_a_probe_sets_the_bound_once() {
        let mut bbr = bbr2(Phase::Up, params::LINUX);
        bbr.cycle.samples = true;
        bbr.advance(&flight(10, 110_000, 120_000, 2_400));
        assert_eq!((bbr.phase, bbr.bounds.inflight_hi), (Phase::Up, UNBOUNDED));
        bbr.advance(&flight(11, 110_000, 120_000, 2_401));
        assert_eq!((bbr.phase, bbr.bounds.inflight_hi), (Phase::Down, 120_000));
        bbr.advance(&flight(12, 110_000, 50_000, 30_000));
        assert_eq!(bbr.bounds.inflight_hi, 120_000);
    }

    #[test]
    fn the_bound_falls_to_seven_tenths_of_the_target_at_most() {
        let mut bbr = bbr2(Phase::Up, params::LINUX);
        bbr.cycle.samples = true;
        bbr.advance(&flight(10, 30_000, 30_000, 20_000));
        // 100 kB and the two packets that PROBE_UP adds.
        assert_eq!(bbr.bounds.inflight_hi, 71_400);
        // What the application limited says nothing of it.
        let mut dry = bbr2(Phase::Up, params::LINUX);
        dry.cycle.samples = true;
        dry.advance(&Heard { app_limited: true, ..flight(10, 110_000, 30_000, 20_000) });
        assert_eq!((dry.phase, dry.bounds.inflight_hi), (Phase::Down, UNBOUNDED));
    }

    #[test]
    fn harmless_flights_raise_the_bound() {
        let mut bbr = bbr2(Phase::Cruise, params::LINUX);
        bbr.bounds.inflight_hi = 90_000;
        bbr.advance(&Heard { app_limited: true, ..flight(10, 95_000, 95_000, 0) });
        assert_eq!(bbr.bounds.inflight_hi, 90_000);
        bbr.advance(&flight(11, 95_000, 95_000, 0));
        assert_eq!(bbr.bounds.inflight_hi, 95_000);
    }

    #[test]
    fn a_full_window_raises_the_bound_by_twice_as_many_packets_each_round() {
        let mut bbr = bbr2(Phase::Refill, params::LINUX);
        bbr.window = 96_000;
        bbr.bounds.inflight_hi = 96_000;
        bbr.filled = [true, true];
        bbr.start_up(&heard(0));
        // A packet for a window acknowledged, then two, then four.
        for (n, packets) in [97, 99, 103].into_iter().enumerate() {
            for part in 0..48 {
                let round = part == 47;
                bbr.window = bbr.bounds.inflight_hi;
                bbr.grow_inflight_hi(&Heard { acked: 2_000, round, ..heard(n as u64) });
            }
            assert_eq!(bbr.bounds.inflight_hi, packets * MTU);
            bbr.cycle.up_step = 96_000 >> (n + 1);
        }
        bbr.filled = [false, false];
        bbr.grow_inflight_hi(&Heard { acked: 96_000, ..heard(9) });
        assert_eq!(bbr.bounds.inflight_hi, 103 * MTU);
    }

    #[test]
    fn time_or_rounds_start_a_probe_and_a_queue_ends_it() {
        let probes = |ms, rounds| {
            let mut bbr = bbr2(Phase::Cruise, params::LINUX);
            bbr.cycle.rounds = rounds;
            bbr.advance(&flight(ms, 90_000, 90_000, 0));
            bbr.phase == Phase::Refill
        };
        assert!(!probes(2000, 62) && probes(2001, 0) && probes(1, 63));
        let mut bbr = bbr2(Phase::Refill, params::LINUX);
        bbr.advance(&Heard { round: true, ..flight(100, 100_000, 100_000, 0) });
        assert_eq!((bbr.phase, bbr.cycle.samples), (Phase::Up, true));
        bbr.advance(&flight(140, 130_000, 130_000, 0));
        assert_eq!(bbr.phase, Phase::Up);
        bbr.advance(&flight(141, 126_999, 130_000, 0));
        assert_eq!(bbr.phase, Phase::Up);
        bbr.advance(&flight(142, 127_000, 130_000, 0));
        assert_eq!(bbr.phase, Phase::Down);
        assert!((2.0..=3.0).contains(&bbr.cycle.wait.as_secs_f64()));
        bbr.advance(&flight(150, 100_001, 130_000, 0));
        assert_eq!(bbr.phase, Phase::Down);
        bbr.advance(&flight(151, 100_000, 130_000, 0));
        assert_eq!(bbr.phase, Phase::Cruise);
    }

    #[test]
    fn a_probe_that_stops_at_the_bound_for_fear_is_followed_by_another() {
        let mut bbr = bbr2(Phase::Up, params::LINUX);
        (bbr.bounds.inflight_hi, bbr.cycle.prev_too_high) = (110_000, true);
        bbr.advance(&flight(10, 110_000, 100_000, 0));
        assert_eq!((bbr.phase, bbr.cycle.stopped_risky), (Phase::Down, true));
        bbr.advance(&Heard { round: true, ..flight(50, 105_000, 100_000, 0) });
        assert_eq!(bbr.phase, Phase::Refill);
    }

    #[test]
    fn max_bw_forgets_a_cycle_at_its_end_unless_the_application_was_dry() {
        let mut bbr = bbr2(Phase::Down, params::LINUX);
        bbr.max_bws = [Rate::from_mbps(20), Rate::from_mbps(15)];
        bbr.cycle.acks = Acks::Stopping;
        bbr.advance(&Heard { round: true, app_limited: true, ..flight(10, 110_000, 100_000, 0) });
        assert_eq!(bbr.max_bw(), Rate::from_mbps(20));
        bbr.cycle.acks = Acks::Stopping;
        bbr.advance(&Heard { round: true, ..flight(50, 110_000, 100_000, 0) });
        assert_eq!(bbr.max_bws, [Rate::from_mbps(15), Rate::ZERO]);
    }
}
