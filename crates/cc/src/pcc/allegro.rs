//! Allegro's rule (NSDI'15): double, then try faster and slower, then move on with growing steps while it
//! helps.

use units::Rng;

use super::monitor::{Length, Outcome, Tag};
use super::probe::{Bounds, Pairs, Start, Tried};
use super::{Learner, Step, utility};

/// No move takes more than half of the rate.
const MOST_CUT: f64 = 0.5;

/// Allegro's constants.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Worth of a rate (Mbit/s) with a loss.
    pub utility: fn(f64, f64) -> f64,
    /// First step of the pairs.
    pub probe: f64,
    /// What the step grows by where pairs disagree ...
    pub probe_growth: f64,
    /// ... up to this.
    pub probe_max: f64,
    /// Pairs that must agree.
    pub pairs: usize,
    /// The n-th move is this times n ...
    pub step: f64,
    /// ... up to this.
    pub step_max: f64,
    /// Results that doubling leaves under way at most.
    pub ahead: u32,
    /// Waits for results at the lower of the rates in question, not at the one tried last.
    pub waits_low: bool,
    /// How long intervals are.
    pub length: Length,
}

/// NSDI'15: eps from 0.01 to 0.05, two pairs, intervals of 1.7 to 2.2 round trips and ten packets.
pub const PAPER: Params = Params {
    utility: utility::allegro,
    probe: 0.01,
    probe_growth: 0.01,
    probe_max: 0.05,
    pairs: 2,
    step: 0.01,
    step_max: f64::INFINITY,
    ahead: 2,
    waits_low: false,
    length: Length { round_trips: (1.7, 2.2), of_smallest: false, datagrams: 10, heard: 0, overtaken: None },
};

/// PCC-Uspace master: kProbingStepSize, kDecisionMadeStepSize, kMaxDecisionMadeStepSize, three groups of
/// intervals of the smallest round trip, with four delays each.
pub const USPACE: Params = Params {
    utility: utility::allegro_uspace,
    probe: 0.05,
    probe_growth: 0.0,
    probe_max: 0.05,
    pairs: 3,
    step: 0.02,
    step_max: 0.10,
    ahead: 1,
    waits_low: true,
    length: Length { round_trips: (1.0, 1.0), of_smallest: true, datagrams: 0, heard: 4, overtaken: None },
};

#[derive(Clone, Debug)]
enum Phase {
    Starting(Start),
    Probing(Pairs),
    Deciding(Moves),
}

/// Moves in one direction, each larger than the one before.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// +1 or -1.
    direction: f64,
    /// Moves made.
    made: u32,
    /// The last one's worth isn't known yet.
    waiting: bool,
    /// The rate after the moves made.
    rate: f64,
    /// The last rate that was worth more than the one before.
    best: Tried,
}

/// Allegro's state.
#[derive(Clone, Debug)]
pub struct Allegro {
    params: Params,
    bounds: Bounds,
    rng: Rng,
    phase: Phase,
    generation: u32,
}

impl Allegro {
    /// Starts at `rate` (Mbit/s).
    pub fn new(params: Params, rate: f64, bounds: Bounds, rng: Rng) -> Allegro {
        let phase = Phase::Starting(Start::at(bounds.hold(rate)));
        Allegro { params, bounds, rng, phase, generation: 0 }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1);
    }

    fn probe(&mut self, base: f64, step: f64) {
        let pairs = Pairs::around(self.bounds.hold(base), step, self.params.pairs, &mut self.rng);
        self.enter(Phase::Probing(pairs));
    }

    fn factor(&self, n: u32, direction: f64) -> f64 {
        let step = (self.params.step * f64::from(n)).min(self.params.step_max);
        (1.0 + direction * step).max(MOST_CUT)
    }

    /// All pairs are in: on, if they agree; again with a larger step, if not.
    fn decide(&mut self, pairs: &Pairs) {
        let direction = match pairs.votes() {
            (faster, _) if faster == pairs.pairs() => 1.0,
            (_, slower) if slower == pairs.pairs() => -1.0,
            _ => {
                return self
                    .probe(pairs.base, (pairs.step + self.params.probe_growth).min(self.params.probe_max));
            }
        };
        let worth: f64 = pairs.results().map(|pair| pair.better().utility).sum();
        let rate = self.bounds.hold(pairs.base * (1.0 + direction * pairs.step));
        let best = Tried { rate, utility: worth / pairs.pairs() as f64 };
        self.enter(Phase::Deciding(Moves { direction, made: 0, waiting: false, rate, best }));
    }
}

impl Learner for Allegro {
    fn next(&mut self) -> Step {
        let (generation, params, bounds) = (self.generation, self.params, self.bounds);
        let judged =
            |rate: f64, index: u32| Step { rate: bounds.hold(rate), tag: Some(Tag { generation, index }) };
        let held = |rate: f64| Step { rate: bounds.hold(rate), tag: None };
        match &mut self.phase {
            // `rate` is what comes next: half of it was tried last.
            Phase::Starting(start) if start.waiting >= params.ahead => {
                held(start.rate / if params.waits_low { 4.0 } else { 2.0 })
            }
            Phase::Starting(start) => {
                let rate = start.rate;
                start.waiting += 1;
                start.rate = bounds.hold(rate * 2.0);
                judged(rate, 0)
            }
            Phase::Probing(pairs) => match pairs.next() {
                Some((rate, index)) => judged(rate, index),
                None if params.waits_low => held(pairs.base * (1.0 - pairs.step)),
                None => held(pairs.base),
            },
            Phase::Deciding(moves) if moves.waiting => {
                held(if params.waits_low { moves.rate.min(moves.best.rate) } else { moves.rate })
            }
            Phase::Deciding(moves) => {
                let mut moves = *moves;
                moves.made += 1;
                moves.waiting = true;
                moves.rate = bounds.hold(moves.rate * self.factor(moves.made, moves.direction));
                self.phase = Phase::Deciding(moves);
                judged(moves.rate, moves.made)
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
            self.probe(sent.clamp(base / 2.0, base), self.params.probe);
            return true;
        }
        let tried = Tried { rate: outcome.asked, utility: (self.params.utility)(outcome.rate, outcome.loss) };
        match &mut self.phase {
            Phase::Starting(_) if outcome.limited => self.enter(Phase::Starting(Start::at(outcome.asked))),
            Phase::Starting(start) => match start.learn(tried, &self.bounds) {
                Some(rate) => self.probe(rate, self.params.probe),
                None => return false,
            },
            Phase::Probing(pairs) if outcome.limited => {
                let (base, step) = (pairs.base, pairs.step);
                self.probe(base, step);
            }
            Phase::Probing(pairs) => {
                if !pairs.learn(tag.index, tried) {
                    return false;
                }
                let pairs = *pairs;
                self.decide(&pairs);
            }
            Phase::Deciding(moves) if outcome.limited || tried.utility <= moves.best.utility => {
                let base = moves.best.rate;
                self.probe(base, self.params.probe);
            }
            Phase::Deciding(moves) => {
                moves.best = tried;
                moves.waiting = false;
            }
        }
        true
    }

    fn silence(&mut self) {
        self.probe(self.base() / 2.0, self.params.probe);
    }

    fn base(&self) -> f64 {
        match &self.phase {
            Phase::Starting(start) => start.base(),
            Phase::Probing(pairs) => pairs.base,
            Phase::Deciding(moves) => moves.best.rate,
        }
    }

    fn length(&self) -> Length {
        self.params.length
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

    fn learner(params: Params) -> Allegro {
        Allegro::new(params, 2.0, Bounds { min: 0.3, max: 100.0 }, Rng::stream(1, "test"))
    }

    fn outcome(rate: f64, loss: f64) -> Outcome {
        Outcome { asked: rate, rate, loss, ..Outcome::default() }
    }

    /// Runs intervals one by one against `loss(rate)` and returns the rates tried.
    fn run(learner: &mut Allegro, intervals: usize, loss: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut rates = Vec::new();
        for _ in 0..intervals {
            let step = learner.next();
            rates.push(step.rate);
            if let Some(tag) = step.tag {
                learner.learn(tag, &outcome(step.rate, loss(step.rate)));
            }
        }
        rates
    }

    #[test]
    fn doubling_ends_at_the_cliff_and_goes_back() {
        let mut allegro = learner(PAPER);
        let rates = run(&mut allegro, 5, |rate| if rate > 20.0 { 1.0 - 20.0 / rate } else { 0.0 });
        assert_eq!(rates, [2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!((allegro.base(), allegro.phase()), (16.0, 1));
    }

    #[test]
    fn the_step_grows_while_pairs_disagree() {
        let mut allegro = learner(PAPER);
        allegro.probe(10.0, PAPER.probe);
        let mut steps = Vec::new();
        for _ in 0..6 {
            let Phase::Probing(pairs) = &allegro.phase else { panic!("{allegro:?}") };
            steps.push((pairs.step * 100.0).round());
            // The same for all rates: neither is better.
            for _ in 0..4 {
                let tag = allegro.next().tag.unwrap();
                allegro.learn(tag, &outcome(10.0, 0.0));
            }
        }
        assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0, 5.0]);
        assert_eq!(allegro.base(), 10.0);
    }

    #[test]
    fn moves_grow_and_the_last_is_taken_back() {
        let mut allegro = learner(PAPER);
        allegro.probe(10.0, PAPER.probe);
        let lossy = |rate: f64| if rate > 11.0 { 0.06 } else { 0.0 };
        run(&mut allegro, 4, lossy);
        assert_eq!((allegro.phase(), allegro.base()), (2, 10.1));
        // 10.1 * 1.01 * 1.02 * 1.03 * 1.04 = 11.15: too much.
        let rates = run(&mut allegro, 4, lossy);
        let expected = [10.201, 10.40502, 10.717_170_6, 11.145_857_4];
        assert!(rates.iter().zip(expected).all(|(rate, at)| (rate - at).abs() < 1e-6), "{rates:?}");
        assert_eq!(allegro.phase(), 1);
        assert!((allegro.base() - 10.717_170_6).abs() < 1e-6);
    }

    #[test]
    fn uspace_waits_for_each_result_and_its_moves_end_at_a_tenth() {
        let mut allegro = learner(USPACE);
        let first = allegro.next();
        assert!(first.tag.is_some());
        assert_eq!(allegro.next(), Step { rate: 1.0, tag: None });
        assert!(!allegro.learn(first.tag.unwrap(), &outcome(2.0, 0.0)));
        assert_eq!(allegro.next().rate, 4.0);
        assert!(
            (allegro.factor(3, 1.0) - 1.06).abs() < 1e-12 && (allegro.factor(9, -1.0) - 0.9).abs() < 1e-12
        );
    }

    #[test]
    fn silence_halves_and_what_the_application_limits_changes_nothing() {
        let mut allegro = learner(PAPER);
        allegro.probe(10.0, PAPER.probe);
        for _ in 0..20 {
            if let Some(tag) = allegro.next().tag {
                allegro.learn(tag, &Outcome { limited: true, ..outcome(1.0, 0.0) });
            }
        }
        assert_eq!((allegro.base(), allegro.phase()), (10.0, 1));
        allegro.silence();
        assert_eq!((allegro.base(), allegro.phase()), (5.0, 1));
        while let Some(tag) = allegro.next().tag {
            allegro.learn(tag, &Outcome { limited: true, ..outcome(3.0, 0.5) });
            if allegro.base() < 5.0 {
                break;
            }
        }
        assert_eq!(allegro.base(), 3.0, "three were sent, and half of them lost");
    }
}
