//! Vivace as the authors' program for its article has it (PCC-Uspace, branch NSDI-2018, on UDT), whose binary
//! is Pantheon's `vivace`.
//!
//! ```text
//!  starting   doubled once the last interval was worth more
//!  searching  two pairs around the base, one where the last changes went the same way; then the base until all is known
//!  moving     where the gradient asks for more than a tenth: from interval to interval, as long as it does
//! ```

use units::Rng;

use super::monitor::{Length, Outcome, Tag};
use super::probe::{Bounds, Pairs, Start, Tried};
use super::{Learner, Step, utility};

/// kMinRateMbps: the base is never lower.
pub const MIN_RATE: f64 = 1.3;
/// `getkDelta`: pairs are this share of the base apart from it ...
const PROBE: f64 = 0.05;
/// ... and this much at least, in Mbit/s; `decide`: no change is smaller.
const LEAST: f64 = 0.5;
/// kInitialBoundary: the first bound on a change, as a share of the base ...
const BOUND: f64 = 0.05;
/// ... and kBoundaryIncrement, what each time at the bound adds.
const BOUND_STEP: f64 = 0.06;
/// A larger share than this is a move, whose worth is measured before another pair is sent.
const MOVE: f64 = 0.1;
/// Changes of sign that `swing_buffer` remembers at most: as many steps in one direction leave the amplifier
/// alone.
const SWINGS: u32 = 2;
/// Pairs of a search that share this loss at most have it dealt out evenly.
const EVEN_LOSS: f64 = 0.01;
/// An interval that lost more than this halves the base.
const EMERGENCY: f64 = 0.5;
/// Amplifiers and bounds grow no further: the rate has long met its own bounds.
const MOST: f64 = 1024.0;

/// `start_monitor`: a round trip, and ten packets.
///
/// Deviation: of the smoothed round trip, not of the last interval's mean.
const LENGTH: Length =
    Length { round_trips: (1.0, 1.0), of_smallest: false, datagrams: 10, heard: 0, overtaken: Some(1) };

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "in a box, each search and each interval would allocate one")]
enum Phase {
    Starting(Start),
    Searching(Search),
    Moving(Move),
}

#[derive(Clone, Debug)]
struct Search {
    pairs: Pairs,
    /// What became of them, by place.
    seen: [Option<Outcome>; 4],
    /// Number of the first of its intervals, once it has begun.
    first: Option<u32>,
    /// Number of the last interval that was sent at the base.
    waiting: Option<u32>,
}

/// From the reference to a rate more than a tenth away.
#[derive(Clone, Copy, Debug)]
struct Move {
    direction: f64,
    from: f64,
    to: f64,
    /// The interval that tells what `from` is worth, until it does.
    reference: Result<f64, u32>,
    /// The interval that tells what `to` is worth, once begun, until it does.
    target: Option<Result<f64, u32>>,
}

/// Turns gradients into changes of rate (`decide`).
#[derive(Clone, Copy, Debug, Default)]
struct Climb {
    last: f64,
    amplifier: f64,
    raised: f64,
    swings: u32,
    /// Changes in the same direction, in a row.
    trend: u32,
}

impl Climb {
    /// What a gradient is multiplied by: slopes of 1, 2, 4 and 8 in turn.
    fn gain(amplifier: f64) -> f64 {
        match amplifier {
            a if a < 3.0 => a + 1.0,
            a if a < 6.0 => 2.0 * a - 2.0,
            a if a < 9.0 => 4.0 * a - 14.0,
            a => 8.0 * a - 50.0,
        }
    }

    fn turned(&mut self) {
        (self.amplifier, self.raised, self.trend) = (0.0, 0.0, 0);
        self.swings = (self.swings + 1).min(SWINGS);
    }

    fn went_on(&mut self) {
        self.trend = self.trend.saturating_add(1);
        if self.swings == 0 {
            let growth = if self.amplifier > 3.0 { 0.5 } else { 1.0 };
            self.amplifier = (self.amplifier + growth).min(MOST);
        }
        self.swings = self.swings.saturating_sub(1);
    }

    /// The change of `base` (Mbit/s) for a gradient, in Mbit/s.
    fn change(&mut self, base: f64, gradient: f64) -> f64 {
        let gradient = if gradient.is_finite() { gradient } else { 0.0 };
        let agreement = gradient * self.last;
        if agreement < 0.0 {
            self.turned();
        }
        let wanted = gradient * Climb::gain(self.amplifier);
        if agreement > 0.0 {
            self.went_on();
        }
        let bound = (BOUND + BOUND_STEP * self.raised) * base;
        let step = (self.raised + if wanted.abs() > bound { 1.0 } else { -1.0 }).clamp(0.0, MOST);
        self.raised = if agreement < 0.0 { 0.0 } else { step };
        self.last = match gradient {
            0.0 => 0.0,
            _ => gradient.signum() * wanted.abs().min(bound).max(LEAST),
        };
        self.last
    }

    /// What was learned contradicts itself: the next search is a single pair, and its direction neither old
    /// nor new.
    fn undecided(&mut self) {
        (self.trend, self.last) = (2, 0.0);
    }
}

/// The rule's state.
#[derive(Clone, Debug)]
pub struct VivaceUdt {
    latency: f64,
    bounds: Bounds,
    rng: Rng,
    phase: Phase,
    base: f64,
    climb: Climb,
    /// Number of the interval that begins next.
    next: u32,
    /// Intervals before this one were sent before the last emergency.
    stopped: u32,
    /// The interval under way goes on at the base.
    retuned: bool,
}

impl VivaceUdt {
    /// Starts at `rate` (Mbit/s); `latency` weighs the delay's slope.
    pub fn new(latency: f64, rate: f64, bounds: Bounds, rng: Rng) -> VivaceUdt {
        let base = bounds.hold(rate);
        let phase = Phase::Starting(Start::at(base));
        let climb = Climb::default();
        VivaceUdt { latency, bounds, rng, phase, base, climb, next: 0, stopped: 0, retuned: false }
    }

    fn worth(&self, outcome: &Outcome, loss: f64) -> f64 {
        utility::vivace_udt(outcome.rate, outcome.slope, loss, self.latency)
    }

    /// Searches around `base` from the next interval on; the one under way goes on there.
    fn search(&mut self, base: f64) {
        self.base = self.bounds.hold(base);
        self.retuned = true;
        let pairs = if self.climb.trend >= 1 { 1 } else { 2 };
        let step = PROBE.max(LEAST / self.base);
        let pairs = Pairs::around(self.base, step, pairs, &mut self.rng);
        let search = Search { pairs, seen: [None; 4], first: None, waiting: None };
        self.phase = Phase::Searching(search);
    }

    fn start(&mut self, mut start: Start, outcome: &Outcome) {
        if outcome.limited {
            self.phase = Phase::Starting(Start::at(outcome.asked));
            return;
        }
        match start
            .learn(Tried { rate: outcome.asked, utility: self.worth(outcome, outcome.loss) }, &self.bounds)
        {
            Some(best) => self.search(best),
            None => {
                self.base = start.base();
                start.rate = self.bounds.hold(outcome.asked * 2.0);
                self.phase = Phase::Starting(start);
            }
        }
    }

    fn collect(&mut self, mut search: Search, number: u32, outcome: &Outcome) {
        let count = 2 * search.pairs.pairs();
        let place = search.first.and_then(|first| number.checked_sub(first)).map(|place| place as usize);
        let Some(place) = place.filter(|place| *place < count) else { return };
        if outcome.limited {
            return self.search(self.base);
        }
        search.seen[place] = Some(*outcome);
        if search.seen.iter().flatten().count() == count {
            self.decide(&mut search);
        } else {
            self.phase = Phase::Searching(search);
        }
    }

    fn decide(&mut self, search: &mut Search) {
        let all: f64 = search.seen.iter().flatten().map(|seen| seen.loss).sum();
        let even = Some(all / (2 * search.pairs.pairs()) as f64).filter(|even| *even <= EVEN_LOSS);
        for (place, seen) in search.seen.iter().enumerate() {
            let Some(seen) = seen else { continue };
            let utility = self.worth(seen, even.unwrap_or(seen.loss));
            search.pairs.learn(place as u32, Tried { rate: seen.asked, utility });
        }
        let (faster, slower) = search.pairs.votes();
        if faster == slower {
            self.climb.undecided();
            return self.search(self.base);
        }
        let gain: f64 = search.pairs.results().map(|pair| pair.faster.utility - pair.slower.utility).sum();
        let gradient = gain / search.pairs.pairs() as f64 / (2.0 * search.pairs.step * self.base);
        self.step(gradient, search.waiting.map_or(Err(self.next), Err), self.base);
    }

    /// Changes the rate along a gradient: at once if by little, by a move if by much. `reference` is the
    /// interval that tells what the base is worth, or that worth.
    fn step(&mut self, gradient: f64, reference: Result<f64, u32>, from: f64) {
        let change = self.climb.change(self.base, gradient);
        if change / self.base <= MOVE {
            return self.search(self.base + change);
        }
        let (direction, to) = (change.signum(), self.bounds.hold(from + change));
        self.phase = Phase::Moving(Move { direction, from, to, reference, target: None });
    }

    fn moved(&mut self, mut moving: Move, number: u32, outcome: &Outcome) {
        if outcome.limited {
            return self.search(moving.from);
        }
        let worth = self.worth(outcome, outcome.loss);
        if moving.reference == Err(number) {
            moving.reference = Ok(worth);
        }
        if moving.target == Some(Err(number)) {
            moving.target = Some(Ok(worth));
        }
        let (Ok(before), Some(Ok(after))) = (moving.reference, moving.target) else {
            self.phase = Phase::Moving(moving);
            return;
        };
        let gradient = (after - before) / (moving.to - moving.from);
        self.base = moving.to;
        if gradient * moving.direction > 0.0 {
            self.step(gradient, Ok(after), moving.to);
        } else {
            let change = self.climb.change(self.base, gradient);
            self.search(self.base + change);
        }
    }

    /// An emergency stop: true if this interval, sent since the last one, lost more than half.
    fn stop(&mut self, number: u32, outcome: &Outcome) -> bool {
        if outcome.loss <= EMERGENCY || number < self.stopped {
            return false;
        }
        self.stopped = self.next.saturating_sub(1);
        self.search(self.base / 2.0);
        true
    }
}

impl Learner for VivaceUdt {
    fn next(&mut self) -> Step {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let rate = match &mut self.phase {
            Phase::Starting(start) => start.rate,
            Phase::Searching(search) => match search.pairs.next() {
                Some((rate, _)) => {
                    search.first.get_or_insert(number);
                    rate
                }
                None => {
                    search.waiting = Some(number);
                    self.base
                }
            },
            Phase::Moving(moving) => {
                moving.target.get_or_insert(Err(number));
                moving.to
            }
        };
        Step { rate: self.bounds.hold(rate), tag: Some(Tag { generation: 0, index: number }) }
    }

    fn learn(&mut self, tag: Tag, outcome: &Outcome) -> bool {
        // Doubling falls back to half of its last rate by itself.
        if !matches!(self.phase, Phase::Starting(_)) && self.stop(tag.index, outcome) {
            return false;
        }
        match self.phase.clone() {
            // Intervals that repeat the last rate while its worth is awaited tell nothing.
            Phase::Starting(start) if outcome.asked == start.rate => self.start(start, outcome),
            Phase::Starting(_) => {}
            Phase::Searching(search) => self.collect(search, tag.index, outcome),
            Phase::Moving(moving) => self.moved(moving, tag.index, outcome),
        }
        false
    }

    fn retuned(&mut self) -> Option<f64> {
        std::mem::take(&mut self.retuned).then_some(self.base)
    }

    fn silence(&mut self) {
        self.climb = Climb::default();
        self.search(self.base / 2.0);
    }

    fn base(&self) -> f64 {
        self.base
    }

    fn length(&self) -> Length {
        LENGTH
    }

    fn phase(&self) -> u8 {
        match self.phase {
            Phase::Starting(_) => 0,
            Phase::Searching(_) => 1,
            Phase::Moving(_) => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learner() -> VivaceUdt {
        VivaceUdt::new(utility::LATENCY, 1.6, Bounds { min: MIN_RATE, max: 100.0 }, Rng::stream(1, "test"))
    }

    fn outcome(rate: f64, slope: f64, loss: f64) -> Outcome {
        Outcome { asked: rate, rate, slope, loss, ..Outcome::default() }
    }

    #[test]
    fn the_amplifier_grows_slower_and_its_gain_faster() {
        let gains: Vec<_> = [0.0, 2.0, 3.0, 5.0, 6.0, 8.5, 9.0, 10.0].map(Climb::gain).into();
        assert_eq!(gains, [1.0, 3.0, 4.0, 8.0, 10.0, 20.0, 22.0, 30.0]);
        let mut climb = Climb { last: 1.0, ..Climb::default() };
        let amplifiers: Vec<_> = (0..6)
            .map(|_| {
                climb.change(1e6, 1.0);
                climb.amplifier
            })
            .collect();
        assert_eq!(amplifiers, [1.0, 2.0, 3.0, 4.0, 4.5, 5.0]);
    }

    #[test]
    fn changes_are_half_a_megabit_at_least_and_bounded() {
        let mut climb = Climb::default();
        assert_eq!(climb.change(20.0, 0.01), 0.5);
        // 5, 11, 17 % of 20.
        let bounded: Vec<_> = (0..3).map(|_| climb.change(20.0, 100.0)).collect();
        assert!(bounded.iter().zip([1.0, 2.2, 3.4]).all(|(got, at)| (got - at).abs() < 1e-9), "{bounded:?}");
        // A change of sign begins anew, and the next two steps in its direction are not amplified.
        assert!((climb.change(20.0, -0.7) - -0.7).abs() < 1e-9);
        assert_eq!((climb.amplifier, climb.raised, climb.swings), (0.0, 0.0, 1));
        climb.change(20.0, -0.7);
        assert_eq!((climb.amplifier, climb.swings, climb.trend), (0.0, 0, 1));
        assert_eq!(climb.change(20.0, 0.0), 0.0);
    }

    #[test]
    fn pairs_are_half_a_megabit_apart_below_ten() {
        let mut rule = learner();
        for (base, step) in [(2.0, 0.25), (5.0, 0.1), (20.0, 0.05)] {
            rule.search(base);
            let Phase::Searching(search) = &rule.phase else { panic!("{rule:?}") };
            assert!((search.pairs.step - step).abs() < 1e-12 && search.pairs.pairs() == 2);
        }
    }

    #[test]
    fn doubling_waits_for_each_result() {
        let mut rule = learner();
        let mut rates = Vec::new();
        for _ in 0..6 {
            let (first, again) = (rule.next(), rule.next());
            assert_eq!(first.rate, again.rate);
            rates.push(first.rate);
            let slope = if first.rate > 20.0 { 0.3 } else { 0.0 };
            rule.learn(first.tag.unwrap(), &outcome(first.rate, slope, 0.0));
            if rule.phase() == 1 {
                break;
            }
        }
        assert_eq!(rates, [1.6, 3.2, 6.4, 12.8, 25.6]);
        assert_eq!(rule.base(), 12.8);
    }

    #[test]
    fn a_large_gradient_moves_on_from_interval_to_interval() {
        let mut rule = learner();
        rule.search(20.0);
        // Free path: the worth is x^0.9, its gradient 0.67 at 20: below the bound of a tenth, so searches
        // follow.
        let mut phases = Vec::new();
        for _ in 0..80 {
            let step = rule.next();
            rule.learn(step.tag.unwrap(), &outcome(step.rate, 0.0, 0.0));
            rule.retuned();
            phases.push(rule.phase());
        }
        assert!(rule.base() > 40.0, "{}", rule.base());
        assert!(phases.contains(&2), "the amplifier makes steps of more than a tenth in the end");
    }

    #[test]
    fn losing_more_than_half_halves_once() {
        let mut rule = learner();
        rule.search(20.0);
        let steps: Vec<_> = (0..3).map(|_| rule.next()).collect();
        rule.learn(steps[0].tag.unwrap(), &outcome(20.0, 0.0, 0.6));
        assert_eq!((rule.base(), rule.retuned()), (10.0, Some(10.0)));
        rule.learn(steps[1].tag.unwrap(), &outcome(20.0, 0.0, 0.6));
        assert_eq!(rule.base(), 10.0, "sent before the stop");
        rule.learn(steps[2].tag.unwrap(), &outcome(20.0, 0.0, 0.6));
        assert_eq!(rule.base(), 5.0);
    }

    #[test]
    fn it_finds_the_capacity_by_the_growth_of_delay() {
        let mut rule = learner();
        let mut bases = Vec::new();
        for _ in 0..1000 {
            let step = rule.next();
            let slope = (step.rate / 20.0 - 1.0).max(0.0);
            rule.learn(step.tag.unwrap(), &outcome(step.rate, slope, 0.0));
            rule.retuned();
            bases.push(rule.base());
        }
        let mean = bases[500..].iter().sum::<f64>() / 500.0;
        assert!((17.0..21.0).contains(&mean), "{mean}");
    }
}
