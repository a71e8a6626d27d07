//! Vivace's rule as PCC-Uspace master has it, which is also Proteus': pairs vote on a direction, then the
//! rate moves along the gradient between one interval and the next while that helps.

use units::Rng;

use super::monitor::{Length, Outcome, Tag};
use super::probe::{Bounds, Pair, Pairs, Start, Tried};
use super::trend::Trend;
use super::{Learner, Step, utility};

/// kMinSendingRate, in Mbit/s.
pub const MIN_RATE: f64 = 0.5;
/// kMinRateChange, in Mbit/s.
const MIN_CHANGE: f64 = 0.5;
/// kProbingStepSize.
const PROBE: f64 = 0.05;
/// kInitialMaxStepSize: the first bound on a change, as a share of the rate ...
const BOUND: f64 = 0.05;
/// ... and kIncrementalStepSize, what each time at the bound adds.
const BOUND_STEP: f64 = 0.05;
/// kRateChangeAmplifyExponent.
const AMPLIFY: f64 = 1.2;
/// The bound is raised at most this often; the rate has long met its own bounds then.
const MOST_RAISED: u32 = 1 << 10;

/// What primary and scavenger differ in.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Weight of the latency gradient.
    pub latency: f64,
    /// Pairs of intervals that vote on a direction.
    pub pairs: usize,
    /// Gives way: deviation costs, and the majority may slow down but only all may speed up.
    pub scavenger: bool,
}

/// Vivace, Proteus-P: three pairs; the majority may speed up, only all may slow down.
pub const PRIMARY: Params = Params { latency: utility::LATENCY, pairs: 3, scavenger: false };
/// Proteus-S: two pairs.
pub const SCAVENGER: Params = Params { latency: utility::LATENCY, pairs: 2, scavenger: true };

/// An interval of the smallest round trip that goes on until four of its packets are acknowledged
/// (kMinReliableRtt).
///
/// Deviation: the filter for bursts of acknowledgements, and the longer interval where it strikes, are left
/// out: delays are taken from the receiver's timestamps, which such bursts do not touch.
const LENGTH: Length =
    Length { round_trips: (1.0, 1.0), of_smallest: true, datagrams: 0, heard: 4, overtaken: None };

#[derive(Clone, Debug)]
enum Phase {
    Starting(Start),
    Probing(Pairs),
    Deciding(Course),
}

/// Moving in one direction.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// +1 or -1.
    direction: f64,
    /// Moves in this direction, the first included.
    rounds: u32,
    rate: f64,
    last: Tried,
    sent: bool,
}

/// The state of PCC-Uspace's Vivace.
#[derive(Clone, Debug)]
pub struct Uspace {
    params: Params,
    bounds: Bounds,
    rng: Rng,
    phase: Phase,
    trend: Trend,
    /// How many times the bound on changes has been raised.
    raised: u32,
    generation: u32,
}

impl Uspace {
    /// Starts at `rate` (Mbit/s).
    pub fn new(params: Params, rate: f64, bounds: Bounds, rng: Rng) -> Uspace {
        let phase = Phase::Starting(Start::at(bounds.hold(rate)));
        Uspace { params, bounds, rng, phase, trend: Trend::default(), raised: 0, generation: 0 }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1);
    }

    fn probe(&mut self, base: f64) {
        let pairs = Pairs::around(self.bounds.hold(base), PROBE, self.params.pairs, &mut self.rng);
        self.enter(Phase::Probing(pairs));
    }

    fn worth(&mut self, outcome: &Outcome) -> f64 {
        let counted = self.trend.filter(outcome);
        let worth = utility::vivace(outcome.rate, counted.slope, outcome.loss, self.params.latency);
        let penalty = utility::unsteadiness(outcome.rate, counted.deviation);
        if self.params.scavenger { worth - penalty } else { worth }
    }

    /// +1, -1, or 0 without a decision.
    fn vote(&self, pairs: &Pairs) -> f64 {
        let ((faster, slower), all) = (pairs.votes(), pairs.pairs());
        let majority = |votes: usize| votes > all / 2;
        let (up, down) = match self.params.scavenger {
            false => (majority(faster), slower == all),
            true => (faster == all, majority(slower)),
        };
        f64::from(i8::from(up)) - f64::from(i8::from(down))
    }

    /// The change of rate for a gradient (utility per Mbit/s), in Mbit/s, never negative.
    fn change(&mut self, rate: f64, gradient: f64, rounds: Option<u32>) -> f64 {
        // The code divides integers: 1, 1, 2, 2, 3, 3 ...
        let amplifier = rounds.map_or(1.0, |rounds| f64::from(rounds.div_ceil(2)).powf(AMPLIFY));
        if rounds.is_none() {
            self.raised = 0;
        }
        let wanted = if gradient.is_finite() { gradient.abs() * amplifier } else { f64::MAX };
        let bound = (BOUND + BOUND_STEP * f64::from(self.raised)) * rate;
        if wanted > bound {
            self.raised = (self.raised + 1).min(MOST_RAISED);
        } else {
            self.raised = self.raised.saturating_sub(1);
        }
        wanted.min(bound).max(MIN_CHANGE)
    }

    fn decide(&mut self, pairs: &Pairs) {
        let direction = self.vote(pairs);
        if direction == 0.0 {
            return self.probe(pairs.base);
        }
        let agreeing = |pair: &Pair| pair.direction() == direction;
        let gain: f64 =
            pairs.results().filter(agreeing).map(|p| (p.faster.utility - p.slower.utility).abs()).sum();
        let gradient = gain / pairs.pairs() as f64 / (2.0 * pairs.step * pairs.base);
        let Some(last) = pairs.results().filter(agreeing).last().map(|pair| pair.better()) else { return };
        let stepped = pairs.base * (1.0 + direction * PROBE);
        let rate = stepped + direction * self.change(stepped, gradient, None);
        self.go(Course { direction, rounds: 1, rate, last, sent: false });
    }

    /// Moves on, or starts over where the rate is at its smallest.
    fn go(&mut self, course: Course) {
        if course.rate <= self.bounds.min {
            self.raised = 0;
            return self.enter(Phase::Starting(Start::at(self.bounds.min)));
        }
        self.enter(Phase::Deciding(Course { rate: self.bounds.hold(course.rate), ..course }));
    }

    fn judge(&mut self, course: Course, tried: Tried) {
        let (gain, moved) = (tried.utility - course.last.utility, tried.rate - course.last.rate);
        let gradient = if moved == 0.0 { 0.0 } else { gain / moved };
        if gradient * course.direction > 0.0 {
            let rounds = course.rounds.saturating_add(1);
            let rate = course.rate + course.direction * self.change(course.rate, gradient, Some(rounds));
            return self.go(Course { rounds, rate, last: tried, sent: false, ..course });
        }
        let back = self.change(course.rate, gradient, Some(1));
        self.probe(course.rate - course.direction * back);
    }
}

impl Learner for Uspace {
    fn next(&mut self) -> Step {
        let (generation, bounds) = (self.generation, self.bounds);
        let judged =
            |rate: f64, index: u32| Step { rate: bounds.hold(rate), tag: Some(Tag { generation, index }) };
        let held = |rate: f64| Step { rate: bounds.hold(rate), tag: None };
        match &mut self.phase {
            Phase::Starting(start) if start.waiting > 0 => held(start.rate),
            Phase::Starting(start) => {
                start.waiting = 1;
                judged(start.rate, 0)
            }
            Phase::Probing(pairs) => match pairs.next() {
                Some((rate, index)) => judged(rate, index),
                None => held(pairs.base),
            },
            Phase::Deciding(course) if course.sent => held(course.rate),
            Phase::Deciding(course) => {
                course.sent = true;
                judged(course.rate, 0)
            }
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
                None => start.rate = self.bounds.hold(outcome.asked * 2.0),
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
                self.decide(&pairs);
            }
            Phase::Deciding(course) if outcome.limited => {
                let base = course.last.rate;
                self.probe(base);
            }
            Phase::Deciding(course) => {
                let course = *course;
                self.judge(course, tried);
            }
        }
        true
    }

    fn silence(&mut self) {
        self.raised = 0;
        self.probe(self.base() / 2.0);
    }

    fn base(&self) -> f64 {
        match &self.phase {
            Phase::Starting(start) => start.rate,
            Phase::Probing(pairs) => pairs.base,
            Phase::Deciding(course) => course.rate,
        }
    }

    fn length(&self) -> Length {
        LENGTH
    }

    fn phase(&self) -> u8 {
        match self.phase {
            Phase::Starting(_) => 0,
            Phase::Probing(_) => 1,
            Phase::Deciding(_) => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learner(params: Params) -> Uspace {
        Uspace::new(params, 2.0, Bounds { min: 0.5, max: 100.0 }, Rng::stream(1, "test"))
    }

    #[test]
    fn changes_are_half_a_megabit_at_least_and_bounded() {
        let mut rule = learner(PRIMARY);
        assert_eq!(rule.change(20.0, 0.1, None), 0.5);
        let shares: Vec<_> = (2..5).map(|n| rule.change(20.0, 100.0, Some(n))).collect();
        assert!(shares.iter().zip([1.0, 2.0, 3.0]).all(|(got, at)| (got - at).abs() < 1e-9), "{shares:?}");
        // ((rounds + 1) / 2)^1.2 with an integer quotient: 3 rounds are 2^1.2.
        assert!((rule.change(20.0, 1.0, Some(3)) - 2f64.powf(1.2)).abs() < 1e-9);
        assert_eq!(rule.raised, 2);
    }

    #[test]
    fn a_primary_speeds_up_by_majority_and_a_scavenger_slows_down_by_it() {
        for (params, faster_wins, direction) in [
            (PRIMARY, 2, 1.0),
            (PRIMARY, 1, 0.0),
            (PRIMARY, 0, -1.0),
            (SCAVENGER, 2, 1.0),
            (SCAVENGER, 1, 0.0),
        ] {
            let rule = learner(params);
            let mut pairs = Pairs::around(10.0, PROBE, params.pairs, &mut Rng::stream(1, "test"));
            while let Some((rate, place)) = pairs.next() {
                let sign = if (place as usize) / 2 < faster_wins { 1.0 } else { -1.0 };
                pairs.learn(place, Tried { rate, utility: sign * rate });
            }
            assert_eq!(rule.vote(&pairs), direction, "{faster_wins}");
        }
    }

    #[test]
    fn it_finds_the_capacity_by_the_growth_of_delay() {
        let mut rule = learner(PRIMARY);
        let mut bases = Vec::new();
        for _ in 0..1000 {
            let step = rule.next();
            let slope = (step.rate / 20.0 - 1.0).max(0.0);
            if let Some(tag) = step.tag {
                let seen = Outcome { samples: 50, rtt: 0.04, slope, ..Outcome::default() };
                rule.learn(tag, &Outcome { asked: step.rate, rate: step.rate, ..seen });
            }
            bases.push(rule.base());
        }
        let mean = bases[500..].iter().sum::<f64>() / 500.0;
        assert!((17.0..20.5).contains(&mean), "{mean}");
    }
}
