//! Allegro as the authors' first public program has it (modong/pcc, on UDT), which is Pantheon's `pcc`.
//!
//! Interval after interval is sent without a pause, and all are numbered. The rule waits for the numbers it
//! is interested in while the last rate goes on:
//!
//! ```text
//!  starting  0   1   2 ...         doubled each time, whatever is known by then
//!  guessing  n n+1 n+2 n+3         two pairs around the base; n+4 ... go on as n+3
//!  moving    n                     the first interval that begins after the move; the one under way changes its rate too
//! ```

use units::{Rng, Span};

use super::monitor::{Length, Outcome, Tag};
use super::probe::{Bounds, Pairs, Start, Tried};
use super::{Learner, Step, utility};

/// GRANULARITY: the step of the first guess, and what each further guess and each further move adds.
const STEP: f64 = 0.01;
/// MAX_COUNTINOUS_GUESS: guesses in a row that grow; then the step starts over.
const GUESSES: u32 = 5;
/// NUMBER_OF_PROBE, in pairs.
const PAIRS: usize = 2;
/// The first interval counts this much: its round trips are the first there are.
const FIRST: f64 = 0.5;

/// The receiver's `processData`: a message tells of so many packets, and there is none before.
const MESSAGE: u32 = 20;
/// `CUDT::open`: before any sample the round trip is ten times UDT's clock (m_iSYNInterval).
///
/// Deviation: the program moves on from it by an eighth of each sample, here the first sample replaces it.
const FIRST_RTT: Span = Span::from_millis(100);
/// `start_monitor`: 1.5 to 1.7 smoothed round trips, and ten packets.
///
/// Deviation: drawn from the whole range, not from 1.5, 1.6, 1.7; and an interval ends by time, not with the
/// packet that would be its last at the rate it began with.
const LENGTH: Length =
    Length { round_trips: (1.5, 1.7), of_smallest: false, datagrams: 10, heard: 0, overtaken: Some(MESSAGE) };

#[derive(Clone, Debug)]
enum Phase {
    Starting(Start),
    Guessing(Guess),
    Moving(Moves),
}

/// Two pairs around the base.
#[derive(Clone, Debug)]
struct Guess {
    /// Guesses in a row, this one included.
    round: u32,
    pairs: Pairs,
    /// Number of the first of its intervals, once it has begun.
    first: Option<u32>,
}

/// Moves in one direction, the n-th by n %.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// +1 or -1.
    direction: f64,
    /// Size of the last move, in steps.
    size: u32,
    /// Number of the interval that will tell what the last move was worth.
    target: u32,
    /// What the move before was worth, unless this is the first.
    worth: Option<f64>,
}

/// The rule's state.
#[derive(Clone, Debug)]
pub struct AllegroUdt {
    /// The utility sees the round trip; without, it is the article's.
    sees_rtt: bool,
    bounds: Bounds,
    rng: Rng,
    phase: Phase,
    /// The rate in question, in Mbit/s.
    base: f64,
    /// The rate of the interval under way, in Mbit/s.
    sending: f64,
    /// Number of the interval that begins next.
    next: u32,
    /// Round trip behind the last interval judged, in seconds.
    rtt: Option<f64>,
    /// The interval under way goes on at `sending`, which has changed.
    retuned: bool,
}

impl AllegroUdt {
    /// Starts at `rate` (Mbit/s). `sees_rtt`: the utility pays for the round trip; without, it is the
    /// article's.
    pub fn new(sees_rtt: bool, rate: f64, bounds: Bounds, rng: Rng) -> AllegroUdt {
        let base = bounds.hold(rate);
        let phase = Phase::Starting(Start::at(base));
        AllegroUdt { sees_rtt, bounds, rng, phase, base, sending: base, next: 0, rtt: None, retuned: false }
    }

    /// Experiments around `base` begin with the next interval.
    fn guess(&mut self, base: f64, round: u32) {
        let round = if round > GUESSES { 1 } else { round };
        self.base = self.bounds.hold(base);
        let pairs = Pairs::around(self.base, STEP * f64::from(round), PAIRS, &mut self.rng);
        self.phase = Phase::Guessing(Guess { round, pairs, first: None });
    }

    /// From now on at the base.
    fn retune(&mut self, base: f64) {
        self.base = self.bounds.hold(base);
        (self.sending, self.retuned) = (self.base, true);
    }

    /// The base moves `size` steps in the direction; what that is worth the next interval will tell.
    fn go(&mut self, direction: f64, size: u32, worth: Option<f64>) {
        self.retune(self.base * (1.0 + direction * STEP * f64::from(size)));
        self.phase = Phase::Moving(Moves { direction, size, target: self.next, worth });
    }

    /// What an interval was worth, by its loss, its rate and the round trip behind it.
    fn worth(&mut self, number: u32, outcome: &Outcome) -> f64 {
        let before = self.rtt.unwrap_or(outcome.next_rtt);
        let rtt = if outcome.next_rtt > 0.0 { outcome.next_rtt } else { before };
        self.rtt = (rtt > 0.0).then_some(rtt);
        let worth = if self.sees_rtt {
            utility::allegro_udt(outcome.rate, outcome.loss, before, rtt)
        } else {
            utility::allegro(outcome.rate, outcome.loss)
        };
        if number == 0 { worth * FIRST } else { worth }
    }

    fn start(&mut self, mut start: Start, outcome: &Outcome, worth: f64) {
        if outcome.limited {
            self.phase = Phase::Starting(Start::at(outcome.asked));
            return;
        }
        match start.learn(Tried { rate: outcome.asked, utility: worth }, &self.bounds) {
            Some(best) => {
                self.retune(best);
                self.guess(best, 1);
            }
            None => {
                self.base = start.base();
                self.phase = Phase::Starting(start);
            }
        }
    }

    fn judge(&mut self, mut guess: Guess, number: u32, outcome: &Outcome, worth: f64) {
        let place =
            guess.first.and_then(|first| number.checked_sub(first)).filter(|place| *place < 2 * PAIRS as u32);
        let Some(place) = place else { return };
        if outcome.limited {
            return self.guess(self.base, guess.round);
        }
        let complete = guess.pairs.learn(place, Tried { rate: outcome.asked, utility: worth });
        if complete {
            self.decide(&guess);
        } else {
            self.phase = Phase::Guessing(guess);
        }
    }

    /// A pair that is of two minds counts as one for the slower.
    fn decide(&mut self, guess: &Guess) {
        let size = guess.round / 2 + 1;
        match guess.pairs.votes().0 {
            PAIRS => self.go(1.0, size, None),
            0 => self.go(-1.0, size, None),
            _ => self.guess(self.base, guess.round + 1),
        }
    }

    fn move_on(&mut self, moves: Moves, outcome: &Outcome, worth: f64) {
        if outcome.limited {
            return self.guess(self.base, 1);
        }
        if moves.worth.is_none_or(|before| worth > before) {
            // The second move is two steps, whatever the first was.
            let size = if moves.worth.is_none() { 2 } else { moves.size + 1 };
            return self.go(moves.direction, size, Some(worth));
        }
        self.retune(self.base * (1.0 - moves.direction * STEP * f64::from(moves.size)));
        self.guess(self.base, 1);
    }
}

impl Learner for AllegroUdt {
    fn next(&mut self) -> Step {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        match &mut self.phase {
            Phase::Starting(start) => {
                self.sending = start.rate;
                start.rate = self.bounds.hold(start.rate * 2.0);
            }
            Phase::Guessing(guess) => {
                if let Some((rate, _)) = guess.pairs.next() {
                    guess.first.get_or_insert(number);
                    self.sending = self.bounds.hold(rate);
                }
            }
            Phase::Moving(_) => {}
        }
        Step { rate: self.sending, tag: Some(Tag { generation: 0, index: number }) }
    }

    fn learn(&mut self, tag: Tag, outcome: &Outcome) -> bool {
        let worth = self.worth(tag.index, outcome);
        match self.phase.clone() {
            Phase::Starting(start) => self.start(start, outcome, worth),
            Phase::Guessing(guess) => self.judge(guess, tag.index, outcome, worth),
            Phase::Moving(moves) if tag.index == moves.target => self.move_on(moves, outcome, worth),
            Phase::Moving(_) => {}
        }
        false
    }

    fn retuned(&mut self) -> Option<f64> {
        std::mem::take(&mut self.retuned).then_some(self.sending)
    }

    fn silence(&mut self) {
        self.guess(self.base / 2.0, 1);
    }

    fn base(&self) -> f64 {
        self.base
    }

    fn length(&self) -> Length {
        LENGTH
    }

    fn first_rtt(&self) -> Option<Span> {
        Some(FIRST_RTT)
    }

    fn phase(&self) -> u8 {
        match self.phase {
            Phase::Starting(_) => 0,
            Phase::Guessing(_) => 1,
            Phase::Moving(_) => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learner() -> AllegroUdt {
        AllegroUdt::new(true, 2.0, Bounds { min: 0.3, max: 100.0 }, Rng::stream(1, "test"))
    }

    fn outcome(rate: f64, loss: f64, next_rtt: f64) -> Outcome {
        Outcome { asked: rate, rate, loss, next_rtt, ..Outcome::default() }
    }

    /// Sends intervals; each result comes while the next interval is under way. Returns the rates they began
    /// with.
    fn run(rule: &mut AllegroUdt, intervals: usize, seen: impl Fn(f64) -> (f64, f64)) -> Vec<f64> {
        let mut begun: Vec<Step> = vec![rule.next()];
        for _ in 1..intervals {
            let last = *begun.last().unwrap();
            begun.push(rule.next());
            let (loss, rtt) = seen(last.rate);
            rule.learn(last.tag.unwrap(), &outcome(last.rate, loss, rtt));
            if let Some(rate) = rule.retuned() {
                assert_eq!(rate, rule.sending);
            }
        }
        begun.iter().map(|step| step.rate).collect()
    }

    #[test]
    fn doubling_does_not_wait_and_goes_back_to_the_best() {
        let mut rule = learner();
        let cliff = |rate: f64| (if rate > 20.0 { 1.0 - 20.0 / rate } else { 0.0 }, 0.04);
        let rates = run(&mut rule, 6, cliff);
        // What 32 was worth is known while 64 is being sent.
        assert_eq!(rates, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!((rule.base(), rule.phase(), rule.sending), (16.0, 1, 16.0));
    }

    #[test]
    fn a_growing_round_trip_ends_doubling_without_any_loss() {
        let mut rule = learner();
        run(&mut rule, 6, |rate| (0.0, if rate > 20.0 { 0.08 } else { 0.04 }));
        assert_eq!((rule.base(), rule.phase()), (16.0, 1));
    }

    #[test]
    fn without_the_round_trip_only_losses_end_doubling() {
        let mut rule = AllegroUdt { sees_rtt: false, ..learner() };
        run(&mut rule, 6, |rate| (if rate > 50.0 { 0.5 } else { 0.0 }, rate / 100.0));
        assert_eq!((rule.base(), rule.phase()), (32.0, 0));
    }

    #[test]
    fn guesses_grow_to_five_per_cent_and_start_over() {
        let mut rule = learner();
        rule.guess(10.0, 1);
        let mut steps = Vec::new();
        for n in 0..7 {
            let Phase::Guessing(guess) = &rule.phase else { panic!("{rule:?}") };
            steps.push((guess.pairs.step * 100.0).round() as u32);
            let faster_first = n % 2 == 0;
            for place in 0..4 {
                let step = rule.next();
                // The first pair is for one direction, the second for the other.
                let liked = ((place < 2) == faster_first) == (step.rate > 10.0);
                rule.learn(step.tag.unwrap(), &outcome(step.rate, if liked { 0.0 } else { 0.2 }, 0.04));
            }
        }
        assert_eq!(steps, [1, 2, 3, 4, 5, 1, 2]);
        assert_eq!(rule.base(), 10.0);
    }

    #[test]
    fn the_rate_of_the_last_guess_goes_on_until_all_is_known() {
        let mut rule = learner();
        rule.guess(10.0, 1);
        let begun: Vec<Step> = (0..6).map(|_| rule.next()).collect();
        assert_eq!((begun[4].rate, begun[5].rate), (begun[3].rate, begun[3].rate));
        assert_eq!(begun[5].tag.unwrap().index, 5);
    }

    #[test]
    fn moves_grow_by_a_step_and_the_last_is_taken_back() {
        let mut rule = learner();
        // Not the first interval, which counts half.
        rule.next = 1;
        rule.guess(10.0, 1);
        let lossy = |rate: f64| (if rate > 11.0 { 0.06 } else { 0.0 }, 0.04);
        run(&mut rule, 5, lossy);
        // Both pairs preferred the faster rate; the fifth interval was under way and changed its rate.
        assert_eq!((rule.phase(), rule.next), (2, 6));
        assert!((rule.sending - 10.1).abs() < 1e-9);
        // 1.01, 1.02, 1.03, 1.04: 11.15 is too much, and 4 % of it are taken off.
        let mut bases = Vec::new();
        for _ in 0..4 {
            let step = rule.next();
            rule.next();
            rule.learn(Tag { generation: 0, index: rule.next - 1 }, &outcome(step.rate, 0.9, 0.04));
            let (loss, rtt) = lossy(step.rate);
            rule.learn(step.tag.unwrap(), &outcome(step.rate, loss, rtt));
            bases.push(rule.base());
        }
        let expected = [10.302, 10.611_06, 11.035_502_4, 10.594_082_3];
        assert!(bases.iter().zip(expected).all(|(base, at)| (base - at).abs() < 1e-6), "{bases:?}");
        assert_eq!(rule.phase(), 1);
    }

    #[test]
    fn silence_halves_and_what_the_application_limits_changes_nothing() {
        let mut rule = learner();
        rule.guess(10.0, 1);
        for _ in 0..20 {
            let step = rule.next();
            rule.learn(step.tag.unwrap(), &Outcome { limited: true, ..outcome(1.0, 0.0, 0.04) });
        }
        assert_eq!((rule.base(), rule.phase()), (10.0, 1));
        rule.silence();
        assert_eq!((rule.base(), rule.phase()), (5.0, 1));
    }
}
