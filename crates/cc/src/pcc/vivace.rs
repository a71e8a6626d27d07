//! Vivace's rule (NSDI'18): a pair of intervals gives the utility's gradient, and the rate climbs along it.

use units::Rng;

use super::monitor::{Length, Outcome, Tag};
use super::probe::{Bounds, Pairs, Start, Tried};
use super::trend::FLAT;
use super::{Learner, Step, utility};

/// Results that doubling waits for at most before it holds its rate.
const AHEAD: u32 = 2;
/// Consecutive steps up to which the amplifier grows by one each, beyond by two (NSDI'18, rate control).
const GENTLE_STEPS: u32 = 3;

/// Vivace's constants.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Weight of the latency gradient.
    pub latency: f64,
    /// Step of the pairs, as a share of the rate.
    pub probe: f64,
    /// theta_0: Mbit/s of change for a gradient of one, before amplification.
    pub conversion: f64,
    /// omega_0: the first bound on a change, as a share of the rate ...
    pub bound: f64,
    /// ... and delta, what each time at the bound adds.
    pub bound_step: f64,
    /// How long intervals are.
    pub length: Length,
}

/// NSDI'18. Intervals of fewer than ten packets tell no gradient, and last longer.
pub const PAPER: Params = Params {
    latency: utility::LATENCY,
    probe: 0.05,
    conversion: 1.0,
    bound: 0.05,
    bound_step: 0.1,
    length: Length { round_trips: (1.0, 1.0), of_smallest: false, datagrams: 10, heard: 0, overtaken: None },
};

#[derive(Clone, Debug)]
enum Phase {
    Starting(Start),
    Probing(Pairs),
}

/// Turns gradients into changes of rate.
#[derive(Clone, Copy, Debug, Default)]
struct Climb {
    /// Direction of the last step: +1, -1, or 0.
    direction: f64,
    /// tau: steps in that direction, in a row.
    steps: u32,
    /// k: how many times the bound has been raised.
    raised: u32,
}

impl Climb {
    /// m(tau).
    fn amplifier(steps: u32) -> f64 {
        f64::from(if steps <= GENTLE_STEPS { steps } else { 2 * steps - GENTLE_STEPS })
    }

    /// The change at `rate` (Mbit/s) for a gradient, in Mbit/s.
    fn step(&mut self, rate: f64, gradient: f64, params: &Params) -> f64 {
        let direction = if gradient == 0.0 || !gradient.is_finite() { 0.0 } else { gradient.signum() };
        if direction != self.direction {
            *self = Climb { direction, ..Climb::default() };
        }
        if direction == 0.0 {
            return 0.0;
        }
        self.steps = self.steps.saturating_add(1).min(1 << 16);
        let change = params.conversion * Climb::amplifier(self.steps) * gradient.abs();
        let bound = (params.bound + f64::from(self.raised) * params.bound_step) * rate;
        if change > bound {
            self.raised = self.raised.saturating_add(1).min(1 << 16);
            return direction * bound;
        }
        // As many as the change needs.
        self.raised =
            (((change / rate - params.bound) / params.bound_step).ceil().max(0.0) as u32).min(self.raised);
        direction * change
    }
}

/// Vivace's state.
#[derive(Clone, Debug)]
pub struct Vivace {
    params: Params,
    bounds: Bounds,
    rng: Rng,
    phase: Phase,
    climb: Climb,
    generation: u32,
}

impl Vivace {
    /// Starts at `rate` (Mbit/s).
    pub fn new(params: Params, rate: f64, bounds: Bounds, rng: Rng) -> Vivace {
        let phase = Phase::Starting(Start::at(bounds.hold(rate)));
        Vivace { params, bounds, rng, phase, climb: Climb::default(), generation: 0 }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1);
    }

    fn probe(&mut self, base: f64) {
        let pairs = Pairs::around(self.bounds.hold(base), self.params.probe, 1, &mut self.rng);
        self.enter(Phase::Probing(pairs));
    }

    fn worth(&self, outcome: &Outcome) -> f64 {
        let slope = if outcome.slope.abs() < FLAT { 0.0 } else { outcome.slope };
        utility::vivace(outcome.rate, slope, outcome.loss, self.params.latency)
    }

    fn climb(&mut self, pairs: &Pairs) {
        let gain: f64 = pairs.results().map(|pair| pair.faster.utility - pair.slower.utility).sum();
        let gradient = gain / (2.0 * pairs.step * pairs.base);
        let change = self.climb.step(pairs.base, gradient, &self.params);
        // A bound of more than the whole rate is no bound; half of it is cut at most.
        self.probe((pairs.base + change).max(pairs.base / 2.0));
    }
}

impl Learner for Vivace {
    fn next(&mut self) -> Step {
        let (generation, bounds) = (self.generation, self.bounds);
        let judged =
            |rate: f64, index: u32| Step { rate: bounds.hold(rate), tag: Some(Tag { generation, index }) };
        match &mut self.phase {
            Phase::Starting(start) if start.waiting >= AHEAD => {
                Step { rate: bounds.hold(start.rate / 2.0), tag: None }
            }
            Phase::Starting(start) => {
                let rate = start.rate;
                start.waiting += 1;
                start.rate = bounds.hold(rate * 2.0);
                judged(rate, 0)
            }
            Phase::Probing(pairs) => match pairs.next() {
                Some((rate, index)) => judged(rate, index),
                None => Step { rate: pairs.base, tag: None },
            },
        }
    }

    fn learn(&mut self, tag: Tag, outcome: &Outcome) -> bool {
        if tag.generation != self.generation {
            return false;
        }
        if let Some(sent) = outcome.excess() {
            // Kept, the rate would never be filled, and nothing ever be learned of it. As after a silence it
            // is halved at most.
            let base = self.base();
            self.probe(sent.clamp(base / 2.0, base));
            return true;
        }
        let tried = Tried { rate: outcome.asked, utility: self.worth(outcome) };
        match &mut self.phase {
            Phase::Starting(_) if outcome.limited => self.enter(Phase::Starting(Start::at(outcome.asked))),
            Phase::Starting(start) => match start.learn(tried, &self.bounds) {
                Some(rate) => self.probe(rate),
                None => return false,
            },
            Phase::Probing(pairs) if outcome.limited => {
                let base = pairs.base;
                self.probe(base);
            }
            Phase::Probing(pairs) => {
                if !pairs.learn(tag.index, tried) {
                    return false;
                }
                let pairs = *pairs;
                self.climb(&pairs);
            }
        }
        true
    }

    fn silence(&mut self) {
        self.climb = Climb::default();
        self.probe(self.base() / 2.0);
    }

    fn base(&self) -> f64 {
        match &self.phase {
            Phase::Starting(start) => start.base(),
            Phase::Probing(pairs) => pairs.base,
        }
    }

    fn length(&self) -> Length {
        self.params.length
    }

    fn phase(&self) -> u8 {
        match self.phase {
            Phase::Starting(_) => 0,
            Phase::Probing(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_amplifier_doubles_its_growth_after_three_steps() {
        let grown: Vec<_> = (1..=6).map(Climb::amplifier).collect();
        assert_eq!(grown, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    }

    #[test]
    fn changes_are_bounded_and_the_bound_follows() {
        let mut climb = Climb::default();
        // 1 Mbit/s and more wanted at 10 Mbit/s: 5, 15, 25 % are allowed.
        let shares: Vec<_> = (0..3).map(|_| climb.step(10.0, 10.0, &PAPER)).collect();
        assert!(shares.iter().zip([0.5, 1.5, 2.5]).all(|(got, at)| (got - at).abs() < 1e-12), "{shares:?}");
        // 5 * 0.1 Mbit/s are 5 % of 10: nothing beyond omega_0 is needed.
        assert!((climb.step(10.0, 0.1, &PAPER) - 0.5).abs() < 1e-12);
        assert_eq!((climb.steps, climb.raised), (4, 0));
        // A change of sign begins anew.
        assert!((climb.step(10.0, -0.1, &PAPER) - -0.1).abs() < 1e-12);
        assert_eq!((climb.steps, climb.raised), (1, 0));
        assert_eq!(climb.step(10.0, 0.0, &PAPER), 0.0);
    }

    #[test]
    fn it_climbs_while_the_path_is_free_and_falls_where_delay_grows() {
        let bounds = Bounds { min: 0.3, max: 100.0 };
        let mut vivace = Vivace::new(PAPER, 2.0, bounds, Rng::stream(1, "test"));
        let mut bases = Vec::new();
        for _ in 0..400 {
            let step = vivace.next();
            let slope = (step.rate / 20.0 - 1.0).max(0.0);
            if let Some(tag) = step.tag {
                let outcome = Outcome { asked: step.rate, rate: step.rate, slope, ..Outcome::default() };
                vivace.learn(tag, &outcome);
            }
            bases.push(vivace.base());
        }
        let mean = bases[200..].iter().sum::<f64>() / 200.0;
        assert!((18.0..20.0).contains(&mean), "{mean}");
    }
}
