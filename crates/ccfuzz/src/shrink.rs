//! Reduces a found network to the least that still shows the same.
//!
//! ```text
//! until nothing goes any more:
//!   leave out   cross packets and outages in ever smaller pieces, one at a time (delta debugging)
//!   simplify    windows emptied, thinned, moved, gathered, spread at random, as long as that leaves no more packets
//! then, to be read:
//!   gather      the packets of a window into one burst
//!   snap        bursts and outages to the coarsest grid of instants
//!   smooth      the service (annealing), and make it even, stretch by stretch
//! ```
//!
//! The same is shown where nine tenths of the harm are left and the flow behaves alike. Harm is what the
//! network scores, without its cost, beyond what the flow scores without any disturbance; behaviour is
//! [`Behaviour`]. A controller named as free of the fault must stay below that score.
//!
//! Changes that leave as many packets as before are taken, too: most of what can go can't go from where it
//! is, and a network that drifts among its equals comes by places from which it can.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use experiments::Crew;
use units::Rng;

use crate::behaviour::Behaviour;
use crate::genome::{Genome, within};
use crate::score::Score;
use crate::simplify::Timed;
use crate::stems::Stem;
use crate::target::Target;

/// Candidates tried at once: however many threads there are, so that the result does not depend on them.
const BATCH: usize = 8;
/// Grids for instants, in microseconds.
const GRIDS: [u32; BATCH] = [500_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 1_000];
/// The shortest stretch of a service that is made even, in microseconds.
const SHORTEST_STRETCH: u32 = 100_000;
/// Batches of random changes that take nothing away after which there are no more, at least ...
const PATIENCE: usize = 30;
/// ... and this share of all runs so far: what comes off late comes off slowly.
const PATIENT_SHARE: f64 = 0.5;
/// The share of the budget that is left for making what is left readable.
const FOR_READING: f64 = 0.2;
/// Times a service is smoothed at most: it hardly changes after as many.
const SMOOTHINGS: usize = 50;

/// The share of the harm that may be lost where nothing else is said.
pub const TOLERANCE: f64 = 0.1;

/// How to shrink.
#[derive(Clone, Copy, Debug)]
pub struct Shrinking<'a> {
    /// What the score without its cost must still be, however the flow behaves; none keeps all of the harm
    /// but [`TOLERANCE`], and the behaviour.
    pub least: Option<f64>,
    /// The same without the fault: these must stay below that.
    pub gone: &'a [Target],
    /// Most simulations that shrinking may take.
    pub budget: usize,
    /// Who does them.
    pub crew: &'a Crew,
}

impl<'a> Shrinking<'a> {
    /// Nearly the same harm, 10 000 simulations.
    pub fn by(crew: &'a Crew) -> Shrinking<'a> {
        Shrinking { least: None, gone: &[], budget: 10_000, crew }
    }
}

/// What shrinking came to.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left of the network.
    pub genome: Genome,
    /// What the target scores in what is left of the network.
    pub score: Score,
    /// What its score without its cost had to be.
    pub least: f64,
    /// Simulations of all candidates. A batch counts whole, though those behind the one that was taken may
    /// not have been run: so the number, and what is left, do not depend on threads.
    pub evaluations: usize,
}

/// What came of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// It does less harm, or the flow behaves otherwise.
    Differs,
    /// The same is shown; so it is where the fault is mended.
    Stays,
    /// The same is shown, and gone where the fault is mended.
    Shows,
}

/// What a candidate must still show.
struct Verdict<'a> {
    target: &'a Target,
    /// The same without the fault.
    gone: &'a [Target],
    /// What the target must score at least, and those without the fault less.
    least: f64,
    /// How the flow must still behave, if that matters.
    like: Option<Behaviour>,
}

/// Runs of one network: of the target, then of those without the fault, as far as they were asked.
type Runs = Vec<Stem>;

impl Verdict<'_> {
    /// What comes of a candidate, which is run from where it parts with the network whose runs are `near`.
    /// Its own runs come with it, for those that follow if it is taken.
    fn of(&self, candidate: &Genome, near: &Runs) -> (Tried, Runs) {
        let mut runs = Runs::new();
        let mut score = |target: &Target| {
            let near: Vec<&Stem> = near.get(runs.len()).into_iter().collect();
            let (score, run) = target.evaluate_beside(candidate, &near);
            runs.push(run);
            score
        };
        let tried = if !self.is_same(&score(self.target)) {
            Tried::Differs
        } else if self.gone.iter().all(|other| score(other).goal(&other.weights) < self.least) {
            Tried::Shows
        } else {
            Tried::Stays
        };
        (tried, runs)
    }

    /// Whether it does the harm it must, and behaves as it must.
    fn is_same(&self, score: &Score) -> bool {
        let alike = self.like.is_none_or(|like| like.is_like(&Behaviour::of(score)));
        alike && score.goal(&self.target.weights) >= self.least
    }
}

struct Shrinker<'a> {
    verdict: Verdict<'a>,
    crew: &'a Crew,
    genome: Genome,
    /// Those of the network as it is now.
    runs: Runs,
    evaluations: usize,
    /// Simulations until the present stage ends.
    budget: usize,
    progress: &'a dyn Fn(usize) -> bool,
    stopped: bool,
}

/// Shrinks `genome`; `progress` is told how many simulations were done. Once it returns `false`, what is left
/// by then is returned.
pub fn shrink(
    target: &Target,
    genome: &Genome,
    how: Shrinking<'_>,
    progress: &dyn Fn(usize) -> bool,
) -> Shrunk {
    let (score, run) = target.evaluate_beside(genome, &[]);
    let goal = score.goal(&target.weights);
    let harm = (goal - target.calm()).max(0.0);
    let least = how.least.unwrap_or(goal - TOLERANCE * harm);
    let like = how.least.is_none().then(|| Behaviour::of(&score));
    let genome = genome.clone();
    let budget = (how.budget as f64 * (1.0 - FOR_READING)) as usize;
    let (evaluations, stopped) = (1, false);
    let verdict = Verdict { target, gone: how.gone, least, like };
    let (crew, runs) = (how.crew, vec![run]);
    let mut shrinker = Shrinker { verdict, crew, genome, runs, evaluations, budget, progress, stopped };
    loop {
        let before = (size(&shrinker.genome), shrinker.genome.call);
        shrinker.make_plain();
        shrinker.leave_out(|genome| &mut genome.cross);
        shrinker.leave_out(|genome| &mut genome.outages);
        shrinker.simplify();
        if (size(&shrinker.genome), shrinker.genome.call) == before || !shrinker.has_budget() {
            break;
        }
    }
    shrinker.budget = how.budget;
    shrinker.gather();
    shrinker.snap(|genome| &mut genome.cross);
    shrinker.snap(|genome| &mut genome.outages);
    shrinker.smooth();
    shrinker.even_out();
    let score = target.evaluate(&shrinker.genome);
    Shrunk { score, least, evaluations: shrinker.evaluations + 1, genome: shrinker.genome }
}

/// Packets and outages.
fn size(genome: &Genome) -> usize {
    genome.cross.len() + genome.outages.len()
}

impl Shrinker<'_> {
    fn has_budget(&self) -> bool {
        self.evaluations < self.budget && !self.stopped
    }

    /// Goes on with the first of the candidates that keeps the verdict. Its place.
    fn take_first(&mut self, candidates: &[Genome]) -> Option<usize> {
        let (verdict, near) = (&self.verdict, &self.runs);
        let mut tried =
            try_in_order(candidates.len(), self.crew, &|place| verdict.of(&candidates[place], near));
        let found = tried.iter().position(|(one, _)| *one == Tried::Shows);
        let same = tried.iter().filter(|(one, _)| *one != Tried::Differs).count();
        self.evaluations += candidates.len() + same * verdict.gone.len();
        self.stopped |= !(self.progress)(self.evaluations);
        if let Some(place) = found {
            self.genome = candidates[place].clone();
            self.runs = tried.swap_remove(place).1;
        }
        found
    }

    /// Leaves to the target what can be left to it of the call's settings, one by one.
    fn make_plain(&mut self) {
        let plainer = |genome: &Genome| -> Vec<Genome> {
            genome.call.plainer().into_iter().map(|call| Genome { call, ..genome.clone() }).collect()
        };
        while !self.genome.call.is_plain()
            && self.has_budget()
            && self.take_first(&plainer(&self.genome)).is_some()
        {}
    }

    /// Leaves out what can be left out of a list, in ever smaller pieces.
    fn leave_out<T: Clone>(&mut self, list: fn(&mut Genome) -> &mut Vec<T>) {
        let mut size = list(&mut self.genome).len();
        while size > 0 && self.has_budget() {
            let mut at = 0;
            while at < list(&mut self.genome).len() && self.has_budget() {
                let starts = (0..BATCH).map(|n| at + n * size);
                let length = list(&mut self.genome).len();
                let without = |start: usize| {
                    let mut candidate = self.genome.clone();
                    list(&mut candidate).drain(start..(start + size).min(length));
                    candidate
                };
                let candidates: Vec<Genome> =
                    starts.take_while(|&start| start < length).map(without).collect();
                match self.take_first(&candidates) {
                    Some(index) => at += index * size,
                    None => at += BATCH * size,
                }
            }
            size /= 2;
        }
    }

    /// Random changes to windows that leave fewer packets, or as many: the fewest that keep the verdict.
    fn simplify(&mut self) {
        let mut shrunk = self.evaluations;
        for round in 0.. {
            let before = size(&self.genome);
            if before == 0 || !self.has_patience(shrunk) || !self.has_budget() {
                break;
            }
            let candidates = self.simplified(round);
            if self.take_first(&candidates).is_some() && size(&self.genome) < before {
                shrunk = self.evaluations;
            }
        }
    }

    /// Whether to go on after what was taken away last went at run `shrunk`.
    fn has_patience(&self, shrunk: usize) -> bool {
        let share = (self.evaluations as f64 * PATIENT_SHARE) as usize;
        self.evaluations - shrunk < share.max(PATIENCE * BATCH)
    }

    /// Different networks that have no more packets, those with the fewest first.
    fn simplified(&self, round: u64) -> Vec<Genome> {
        let mut rng = Rng::stream(round, &format!("ccfuzz/shrink/{}", self.evaluations));
        let drawn = (0..BATCH).map(|_| self.genome.simplified(&self.verdict.target.space, &mut rng));
        let mut candidates: Vec<Genome> = drawn.filter(|one| *one != self.genome).collect();
        candidates.sort_by_key(size);
        candidates
    }

    /// Puts the packets of a window into one burst, at its first or its last packet, wherever that keeps the
    /// verdict: long windows first.
    fn gather(&mut self) {
        for length in GRIDS {
            let mut at = 0;
            while let Some(&from) = self.genome.cross.get(at).filter(|_| self.has_budget()) {
                let stretch = within(&self.genome.cross, from, from.saturating_add(length));
                let end = stretch.end;
                let burst = |instant: u32| {
                    let mut candidate = self.genome.clone();
                    candidate.cross[stretch.clone()].fill(instant);
                    candidate
                };
                let last = self.genome.cross[end - 1];
                if last > from {
                    self.take_first(&[burst(from), burst(last)]);
                }
                at = end;
            }
        }
    }

    /// Moves each burst, and each outage, to the coarsest grid that keeps the verdict.
    fn snap<T: Timed>(&mut self, list: fn(&mut Genome) -> &mut Vec<T>) {
        let mut at = 0;
        while self.has_budget()
            && let Some(&first) = list(&mut self.genome).get(at)
        {
            let length = list(&mut self.genome)[at..].iter().take_while(|one| one.at() == first.at()).count();
            let snapped = |grid: u32| {
                let mut candidate = self.genome.clone();
                let goal = first.at() - first.at() % grid;
                list(&mut candidate)[at..at + length].iter_mut().for_each(|one| *one = one.moved(goal));
                list(&mut candidate).sort_unstable();
                candidate
            };
            let candidates: Vec<Genome> = GRIDS.into_iter().map(snapped).collect();
            self.take_first(&candidates);
            at += length;
        }
    }

    /// Makes the service even wherever that keeps the verdict, long stretches first.
    fn even_out(&mut self) {
        if self.genome.service.is_empty() {
            return;
        }
        let end = self.verdict.target.space.end;
        let mut stretch = end;
        while stretch >= SHORTEST_STRETCH && self.has_budget() {
            let mut from = 0;
            while from < end && self.has_budget() {
                let starts = (0..BATCH as u32).map(|n| from.saturating_add(n * stretch));
                let candidates: Vec<Genome> = starts
                    .take_while(|&start| start < end)
                    .map(|start| self.evened(start, start.saturating_add(stretch).min(end)))
                    .collect();
                let skipped = match self.take_first(&candidates) {
                    Some(index) => index as u32 + 1,
                    None => BATCH as u32,
                };
                from = from.saturating_add(skipped.saturating_mul(stretch));
            }
            stretch /= 2;
        }
    }

    fn evened(&self, from: u32, to: u32) -> Genome {
        let mut candidate = self.genome.clone();
        let service = &mut candidate.service;
        let range = service.partition_point(|&at| at < from)..service.partition_point(|&at| at < to);
        let count = range.len() as f64;
        let gap = f64::from(to - from) / count.max(1.0);
        for (place, at) in service[range].iter_mut().enumerate() {
            *at = from + ((place as f64 + 0.5) * gap) as u32;
        }
        candidate
    }

    /// Smooths the service for as long as that keeps the verdict.
    fn smooth(&mut self) {
        for _ in 0..SMOOTHINGS {
            let candidate = self.genome.annealed();
            let is_even = candidate.service == self.genome.service;
            if is_even || !self.has_budget() || self.take_first(&[candidate]).is_none() {
                break;
            }
        }
    }
}

/// Tries candidates up to and with the first that [shows the same](Tried::Shows), or all, and says what came
/// of each of those.
fn try_in_order<T: Send>(
    count: usize,
    crew: &Crew,
    judge: &(dyn Fn(usize) -> (Tried, T) + Sync),
) -> Vec<(Tried, T)> {
    let end = AtomicUsize::new(count);
    let slots: Vec<Mutex<Option<(Tried, T)>>> = (0..count).map(|_| Mutex::new(None)).collect();
    crew.share(count, &|place| {
        if place >= end.load(Ordering::Relaxed) {
            return;
        }
        let judged = judge(place);
        let shows = judged.0 == Tried::Shows;
        *slots[place].lock().expect("nothing panics here") = Some(judged);
        if shows {
            end.fetch_min(place + 1, Ordering::Relaxed);
        }
    });
    let tried = slots.into_iter().map(|slot| slot.into_inner().expect("nothing panics here"));
    tried.take(end.into_inner()).map(|one| one.expect("all up to the one taken were tried")).collect()
}

/// Bursts of cross packets: when, and how many.
pub fn bursts(genome: &Genome) -> Vec<(u32, usize)> {
    genome.cross.chunk_by(|a, b| a == b).map(|burst| (burst[0], burst.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use crate::{Aim, Weights};
    use lab::scenario::Scenario;
    use std::path::Path;

    fn target(mode: &str) -> Target {
        let text = Preset::find("reno-low-rate").unwrap().scenario().text.replace("\"10s\"", "\"4s\"");
        let scenario = Scenario::parse(&text, Path::new("t.toml")).unwrap();
        Target::new(scenario, mode.parse().unwrap(), Aim::LowThroughput, Weights::default()).unwrap()
    }

    /// Two bursts stall the flow; the rest is noise.
    fn noisy() -> Genome {
        let bursts = [1_600_000, 2_640_000].iter().flat_map(|&at| (0..150).map(move |n| at + n * 30));
        let noise = (0..400).map(|n| n * 9_000);
        let mut cross: Vec<u32> = bursts.chain(noise).collect();
        cross.sort_unstable();
        Genome { cross, ..Genome::default() }
    }

    #[test]
    fn noise_goes_and_the_verdict_stays() {
        let (target, genome) = (target("traffic"), noisy());
        let before = target.evaluate(&genome);
        let goal = before.goal(&target.weights);
        let [two, one] = [2, 1].map(Crew::of);
        let how = Shrinking { budget: 1_000, ..Shrinking::by(&two) };
        let shrunk = shrink(&target, &genome, how, &|_| true);
        assert!(shrunk.score.goal(&target.weights) >= goal - TOLERANCE * (goal - target.calm()));
        assert!(Behaviour::of(&before).is_like(&Behaviour::of(&shrunk.score)), "{:?}", shrunk.score);
        assert!(shrunk.genome.cross.len() < genome.cross.len() / 2, "{}", shrunk.genome.cross.len());
        assert!(bursts(&shrunk.genome).len() < 40, "{:?}", bursts(&shrunk.genome));
        let alone = shrink(&target, &genome, Shrinking { crew: &one, ..how }, &|_| true);
        assert_eq!(alone.genome, shrunk.genome);
    }

    #[test]
    fn nothing_behind_the_first_that_shows_the_same_is_tried_alone() {
        use Tried::{Differs, Shows, Stays};
        let of = [Differs, Stays, Shows, Differs, Shows];
        for threads in 1..4 {
            let asked = AtomicUsize::new(0);
            let judge = |place: usize| {
                asked.fetch_add(1, Ordering::Relaxed);
                (of[place], place)
            };
            let tried = try_in_order(of.len(), &Crew::of(threads), &judge);
            let right = |count| (0..count).map(|place| (of[place], place)).collect::<Vec<_>>();
            assert!(tried == right(3), "{threads} threads");
            assert!(threads > 1 || asked.into_inner() == 3);
            assert!(try_in_order(2, &Crew::of(threads), &|place| (of[place], place)) == right(2));
        }
    }

    #[test]
    fn what_a_fix_would_not_take_away_is_not_left() {
        let (target, genome) = (target("traffic"), noisy());
        // The same controller is no fix: nothing can be left out without its verdict.
        let crew = Crew::of(1);
        let how = Shrinking { budget: 60, gone: std::slice::from_ref(&target), ..Shrinking::by(&crew) };
        assert_eq!(shrink(&target, &genome, how, &|_| true).genome, genome);
    }

    #[test]
    fn a_service_becomes_even_where_it_does_not_matter() {
        let target = target("link");
        let uneven: Vec<u32> = (0..4_000).map(|n| n / 20 * 20_000 + n % 20 * 100).collect();
        let genome = Genome { service: uneven.clone(), ..Genome::default() };
        let crew = Crew::of(2);
        let how = Shrinking { budget: 100, least: Some(-2.0), ..Shrinking::by(&crew) };
        let shrunk = shrink(&target, &genome, how, &|_| true);
        let gaps = shrunk.genome.service.windows(2).map(|pair| pair[1] - pair[0]);
        assert_eq!(gaps.max(), Some(1_000));
        assert_eq!(shrunk.genome.service.len(), uneven.len());
    }
}
