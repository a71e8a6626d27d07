//! The delay-based rate controller: a state machine of increase, decrease and hold (draft-ietf-rmcat-gcc-02
//! section 5.5).

use units::{Span, Time};

use super::capacity::Capacity;
use super::detector::Signal;

/// Draft section 5.5, and Carlucci 2016's range of 1.005 to 1.3: growth a second far from the capacity.
pub const GROWTH: f64 = 1.08;
/// Draft section 5.6, beta.
pub const BETA: f64 = 0.85;
/// Added to the round trip to make the response time (draft section 5.5).
const REACTION: Span = Span::from_millis(100);
/// Stands for the round trip until one is known (libwebrtc `kDefaultRtt`).
pub const DEFAULT_RTT: Span = Span::from_millis(200);
/// One step grows over at most this (draft section 5.5).
const LONGEST_STEP: Span = Span::from_secs(1);
/// The rate stays below this many times the received one (draft section 5.5) ...
const HEADROOM: f64 = 1.5;
/// ... plus this (libwebrtc).
const HEADROOM_OFFSET: f64 = 10e3;
/// The frame rate and packet size (in bits) that near-capacity growth is reckoned with (draft section 5.5).
const FRAMES: f64 = 30.0;
const PACKET_BITS: f64 = 1200.0 * 8.0;
/// Least step near capacity (draft section 5.5), and of multiplicative growth (libwebrtc), in bit/s.
const LEAST_STEP: f64 = 1000.0;
/// Least growth near capacity, in bit/s a second (libwebrtc).
const LEAST_SLOPE: f64 = 4000.0;
/// Over-use before a received rate is known halves the rate this often (libwebrtc).
const BLIND_CUT: Span = Span::from_millis(200);
/// A cut waits for the round trip, within these bounds, after the last change (libwebrtc) ...
const CUT_WAIT: (Span, Span) = (Span::from_millis(10), Span::from_millis(200));
/// ... unless the received rate is below this share of the rate.
const COLLAPSE: f64 = 0.5;

/// Which rules the rate follows: the draft's, libwebrtc's of 2015, or today's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Those of draft-ietf-rmcat-gcc-02, section 5.5.
    Draft,
    /// libwebrtc's `AimdRateControl` of 2015 and 2016, beside the receiver: a cut whenever the estimator asks
    /// for one, half a packet a response time or step near capacity.
    Beside,
    /// libwebrtc's `AimdRateControl` as it is now.
    Code,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increase,
    Decrease,
    Hold,
}

/// Constants of a rate controller.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Which rules the rate follows.
    pub rules: Rules,
    /// Share of the received rate that a cut leaves.
    pub beta: f64,
    /// Growth a second far from the capacity.
    pub growth: f64,
    /// Rate at first and its bounds, in bit/s.
    pub initial: f64,
    /// Lowest rate, in bit/s.
    pub min: f64,
    /// Highest rate, in bit/s.
    pub max: f64,
}

/// The delay-based rate A: held, decreased or increased by what the detector says.
#[derive(Clone, Copy, Debug)]
pub struct RateControl {
    params: Params,
    /// A, in bit/s.
    rate: f64,
    state: State,
    capacity: Capacity,
    rtt: Span,
    changed_at: Option<Time>,
    cut_at: Option<Time>,
}

impl RateControl {
    /// A controller at `params.initial`.
    pub fn new(params: Params) -> RateControl {
        // The draft starts in Increase; the code holds until the first signal.
        let state = if params.rules == Rules::Draft { State::Increase } else { State::Hold };
        RateControl {
            rate: params.initial.clamp(params.min, params.max),
            params,
            state,
            capacity: Capacity::default(),
            rtt: DEFAULT_RTT,
            changed_at: None,
            cut_at: None,
        }
    }

    /// The delay-based rate A, in bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The average received rate at cuts in bit/s, if it is remembered.
    pub fn capacity(&self) -> Option<f64> {
        self.capacity.average()
    }

    /// Learns the round trip.
    pub fn set_rtt(&mut self, rtt: Span) {
        self.rtt = rtt.max(Span::ZERO);
    }

    /// A probe measured `bps`: go there. It says what the path carried, not that it was full: what is known
    /// of the capacity stays, and without it growth stays multiplicative (libwebrtc
    /// `AimdRateControl::SetEstimate`).
    pub fn set_probed(&mut self, now: Time, bps: f64) {
        self.set(bps);
        self.changed_at = Some(now);
    }

    /// Takes the detector's word and the received rate in bit/s (if known yet). `frozen`: the application
    /// sends less than it may, so that nothing speaks for more. True if this was a cut.
    pub fn update(&mut self, now: Time, signal: Signal, received: Option<f64>, frozen: bool) -> bool {
        match (signal, self.state) {
            (Signal::Over, _) => return self.over_use(now, received),
            (Signal::Under, _) | (Signal::Normal, State::Decrease) => self.state = State::Hold,
            (Signal::Normal, State::Hold) => {
                self.state = State::Increase;
                self.changed_at = Some(now);
            }
            (Signal::Normal, State::Increase) => {}
        }
        if self.state == State::Increase {
            self.increase(now, received, frozen);
        }
        false
    }

    fn over_use(&mut self, now: Time, received: Option<f64>) -> bool {
        let Some(received) = received else {
            let waited = self.changed_at.is_none_or(|at| now - at >= BLIND_CUT);
            if waited {
                self.cut_to(now, self.rate / 2.0);
            }
            return waited;
        };
        if !self.may_cut(now, received) {
            return false;
        }
        let mut target = self.params.beta * received;
        if self.params.rules != Rules::Draft {
            if let Some(average) = self.capacity.average().filter(|_| target > self.rate) {
                target = self.params.beta * average;
            }
            if self.capacity.near().is_some_and(|(low, _)| received < low) {
                self.capacity.clear();
            }
        }
        self.capacity.on_over_use(received);
        self.cut_to(now, target);
        true
    }

    /// Once a response time (draft); once a round trip of 10 to 200 ms, or at once where half is missing
    /// (code). Beside the receiver the first sight of over-use and the clock may also cut: the estimator
    /// decides.
    fn may_cut(&self, now: Time, received: f64) -> bool {
        match self.params.rules {
            Rules::Draft => self.cut_at.is_none_or(|at| now - at >= self.rtt + REACTION),
            Rules::Beside => true,
            Rules::Code => self.may_cut_further(now, received),
        }
    }

    /// Whether over-use that lasts is reason for another cut, where `received` bit/s arrive (libwebrtc
    /// `TimeToReduceFurther`).
    pub fn may_cut_further(&self, now: Time, received: f64) -> bool {
        let wait = self.rtt.clamp(CUT_WAIT.0, CUT_WAIT.1);
        self.changed_at.is_none_or(|at| now - at >= wait) || received < COLLAPSE * self.rate
    }

    fn cut_to(&mut self, now: Time, bps: f64) {
        self.set(bps.min(self.rate));
        self.state = if self.params.rules == Rules::Draft { State::Decrease } else { State::Hold };
        (self.changed_at, self.cut_at) = (Some(now), Some(now));
    }

    fn increase(&mut self, now: Time, received: Option<f64>, frozen: bool) {
        let near = self.capacity.near().zip(received);
        if near.is_some_and(|((_, high), received)| received > high) {
            self.capacity.clear();
        }
        let step = self.changed_at.map_or(Span::ZERO, |at| (now - at).clamp(Span::ZERO, LONGEST_STEP));
        let added = match self.is_near(received) {
            true => self.additive(step),
            false => self.multiplicative(step),
        };
        // Deviation from the draft, which would also lower the rate to this cap: an application that pauses
        // would then have to climb at 8 % a second from what it sent.
        let cap = received.map_or(f64::MAX, |received| self.cap(received));
        let cap = if frozen { self.rate } else { cap };
        self.set(self.rate.max((self.rate + added).min(cap)));
        self.changed_at = Some(now);
    }

    fn is_near(&self, received: Option<f64>) -> bool {
        let Some((low, high)) = self.capacity.near() else { return false };
        match self.params.rules {
            Rules::Draft => received.is_some_and(|received| (low..=high).contains(&received)),
            Rules::Beside | Rules::Code => true,
        }
    }

    fn cap(&self, received: f64) -> f64 {
        HEADROOM * received + if self.params.rules == Rules::Code { HEADROOM_OFFSET } else { 0.0 }
    }

    fn multiplicative(&self, step: Span) -> f64 {
        let added = self.rate * (self.params.growth.powf(step.as_secs_f64()) - 1.0);
        if self.params.rules != Rules::Draft && step.is_positive() { added.max(LEAST_STEP) } else { added }
    }

    /// Draft, and beside the receiver: at most half a packet a response time. Code: half a packet too, for
    /// its response time is doubled.
    fn additive(&self, step: Span) -> f64 {
        let frame = self.rate / FRAMES;
        let packet = frame / (frame / PACKET_BITS).ceil().max(1.0);
        let response = (self.rtt + REACTION).as_secs_f64();
        match self.params.rules {
            Rules::Draft | Rules::Beside => {
                (0.5 * (step.as_secs_f64() / response).min(1.0) * packet).max(LEAST_STEP)
            }
            Rules::Code => (packet / (2.0 * response)).max(LEAST_SLOPE) * step.as_secs_f64(),
        }
    }

    fn set(&mut self, bps: f64) {
        self.rate = bps.clamp(self.params.min, self.params.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(rules: Rules, initial: f64) -> RateControl {
        RateControl::new(Params { rules, beta: BETA, growth: GROWTH, initial, min: 30e3, max: 100e6 })
    }

    /// Seconds of 50 ms steps without over-use until the rate is `to`, everything being received.
    fn ramp(rules: Rules, from: f64, to: f64) -> f64 {
        let mut control = control(rules, from);
        let steps = (0..).find(|&n| {
            let received = Some(control.rate());
            control.update(Time::from_millis(50 * n), Signal::Normal, received, false);
            control.rate() >= to
        });
        steps.unwrap() as f64 * 0.05
    }

    #[test]
    fn eight_percent_a_second() {
        // ln(18) / ln(1.08) and ln(60) / ln(1.08): 1 to 18 Mbit/s 37.6 s, 0.3 to 18 Mbit/s 53 s.
        for rules in [Rules::Draft, Rules::Code] {
            assert!((ramp(rules, 1e6, 18e6) - 37.6).abs() < 0.5, "{}", ramp(rules, 1e6, 18e6));
            assert!((ramp(rules, 0.3e6, 18e6) - 53.2).abs() < 1.0, "{}", ramp(rules, 0.3e6, 18e6));
        }
    }

    #[test]
    fn a_cut_leaves_0_85_of_what_arrives_and_then_holds() {
        for rules in [Rules::Draft, Rules::Code] {
            let mut control = control(rules, 2e6);
            assert!(control.update(Time::from_millis(500), Signal::Over, Some(1e6), false));
            assert_eq!(control.rate(), 850e3);
            assert!(!control.update(Time::from_millis(505), Signal::Over, Some(0.9e6), false));
            control.update(Time::from_millis(510), Signal::Under, Some(1e6), false);
            control.update(Time::from_secs(2), Signal::Under, Some(1e6), false);
            assert_eq!(control.rate(), 850e3);
            assert!(control.update(Time::from_secs(3), Signal::Over, Some(3e6), false));
            assert!(control.rate() <= 850e3, "never up");
        }
    }

    #[test]
    fn near_capacity_growth_is_half_a_packet_a_response() {
        // Half a packet a response time (the draft's section 5.5): 34 kbit/s a second at 20 Mbit/s, 40 ms.
        let mut code = control(Rules::Code, 20e6);
        code.set_rtt(Span::from_millis(40));
        assert!(
            (code.additive(Span::from_secs(1)) - 34e3).abs() < 100.0,
            "{}",
            code.additive(Span::from_secs(1))
        );
        // At 100 kbit/s a packet is 3333 bits: 11.9 kbit/s a second; the floor is 4.
        code.set(100e3);
        assert!((code.additive(Span::from_secs(1)) - 11.9e3).abs() < 10.0);
        let mut draft = control(Rules::Draft, 20e6);
        draft.set_rtt(Span::from_millis(40));
        assert!((draft.additive(Span::from_secs(1)) - 4762.0).abs() < 1.0, "half of 9524 bits");
        assert_eq!(draft.additive(Span::from_millis(1)), 1000.0);
    }

    #[test]
    fn growth_stops_at_1_5_times_the_received_rate_and_in_alr() {
        let mut control = control(Rules::Code, 2e6);
        for n in 0..100 {
            control.update(Time::from_millis(100 * n), Signal::Normal, Some(1.5e6), false);
        }
        assert_eq!(control.rate(), 2.26e6);
        control.update(Time::from_secs(11), Signal::Normal, Some(9e6), true);
        assert_eq!(control.rate(), 2.26e6);
    }

    #[test]
    fn a_probe_is_no_sign_of_the_capacity() {
        let mut control = control(Rules::Code, 1e6);
        control.set_probed(Time::ZERO, 5e6);
        assert_eq!((control.rate(), control.capacity()), (5e6, None));
        for n in 0..=20 {
            control.update(Time::from_millis(50 * n), Signal::Normal, Some(5e6), false);
        }
        assert!((control.rate() / 5e6 - GROWTH).abs() < 1e-3, "{}", control.rate());
    }

    #[test]
    fn over_use_before_anything_is_measured_halves() {
        let mut control = control(Rules::Code, 2e6);
        control.update(Time::from_millis(100), Signal::Over, None, false);
        control.update(Time::from_millis(200), Signal::Over, None, false);
        assert_eq!(control.rate(), 1e6);
        control.update(Time::from_millis(301), Signal::Over, None, false);
        assert_eq!(control.rate(), 0.5e6);
    }
}
