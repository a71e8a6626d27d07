//! What is varied: when the link serves, when cross traffic arrives, when packets are lost.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use experiments::Fingerprint;
use lab::run::Overlay;
use netsim::{Instants, MahimahiTrace};
use serde::{Deserialize, Serialize};
use units::{Rng, Time};

use crate::call::Call;
use crate::distribute::distribute;
use crate::simplify::Timed;

/// Smoothing of annealing, in packets (not given in the thesis).
const SIGMA: f64 = 5.0;
/// Beyond this many deviations a Gaussian's weight is below one in a thousand.
const REACH: usize = 18;
/// Outages last from one packet's time on a link of 1.5 Mbit/s and more ...
const SHORTEST_OUTAGE: f64 = 1_000.0;
/// ... to a fifth of a second, what a handover takes; microseconds.
const LONGEST_OUTAGE: f64 = 200_000.0;

/// The number of what a mutation draws anew is at most so many times what it was, and at least one over that.
const LARGEST_CHANGE: f64 = 4.0;

/// Which parts of a genome are varied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mode {
    /// The link's service: as many packets as its mean rate, at other times.
    pub link: bool,
    /// Cross traffic beside the flow.
    pub traffic: bool,
    /// Short outages that drop what arrives, without a queue.
    pub loss: bool,
    /// The call's own settings: deadline, frames a second, rate policy, random loss, round trip, queue.
    pub call: bool,
}

impl FromStr for Mode {
    type Err = String;

    /// `link`, `traffic`, `loss`, `call`, or several of them joined by `+`.
    fn from_str(text: &str) -> Result<Mode, String> {
        let mut mode = Mode::default();
        for part in text.split('+') {
            match part {
                "link" => mode.link = true,
                "traffic" => mode.traffic = true,
                "loss" => mode.loss = true,
                "call" => mode.call = true,
                _ => {
                    return Err(format!(
                        "`{text}` is no mode; write link, traffic, loss, call, or such as traffic+loss"
                    ));
                }
            }
        }
        Ok(mode)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            [("link", self.link), ("traffic", self.traffic), ("loss", self.loss), ("call", self.call)];
        let parts: Vec<&str> = parts.into_iter().filter(|part| part.1).map(|part| part.0).collect();
        f.write_str(&parts.join("+"))
    }
}

impl TryFrom<String> for Mode {
    type Error = String;
    fn try_from(text: String) -> Result<Mode, String> {
        text.parse()
    }
}
impl From<Mode> for String {
    fn from(mode: Mode) -> String {
        mode.to_string()
    }
}

/// The bounds of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// End of the run, in microseconds.
    pub end: u32,
    /// Packets the link serves over the run, in link mode.
    pub slots: usize,
    /// Most cross packets: as many as the link carries over the run.
    pub most_cross: usize,
    /// Most outages that a genome may have.
    pub most_outages: usize,
    /// Spans at least this long, in microseconds, keep their rate within half and twice that around them
    /// (figure 7.3).
    pub k_agg: u32,
}

/// A span in which all that arrives is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outage {
    /// Its start, in microseconds.
    pub at: u32,
    /// Its length, in microseconds.
    pub lasts: u32,
}

/// One network. Instants in microseconds, in order. Parts that the mode does not vary are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Genome {
    /// When the link serves a packet.
    pub service: Vec<u32>,
    /// When a cross packet arrives.
    pub cross: Vec<u32>,
    /// When packets are lost.
    pub outages: Vec<Outage>,
    /// The call's settings.
    pub call: Call,
}

impl Genome {
    /// One of the first generation.
    pub fn fresh(mode: Mode, space: &Space, rng: &mut Rng) -> Genome {
        let mut genome = Genome::default();
        if mode.link {
            genome.service = distribute(space.slots, 0, space.end, Some(space.k_agg), rng);
        }
        if mode.traffic {
            let count = number(space.most_cross, rng);
            genome.cross = distribute(count, 0, space.end, None, rng);
        }
        if mode.loss {
            let count = number(space.most_outages, rng);
            genome.outages = outages(count, 0, space.end, rng);
        }
        if mode.call {
            genome.call = Call::fresh(rng);
        }
        genome
    }

    /// A child of one parent: one side of a random instant is drawn anew, in one of the parts that the mode
    /// varies. The service keeps its number of packets; that of cross packets and outages changes as well
    /// (section 7.3.2 and 7.3.3).
    pub fn mutated(&self, mode: Mode, space: &Space, rng: &mut Rng) -> Genome {
        let cut = 1 + rng.below(u64::from(space.end) - 1) as u32;
        let (from, to) = if rng.chance(0.5) { (0, cut) } else { (cut, space.end) };
        let mut child = self.clone();
        match mode.draw(rng) {
            Part::Service => {
                let stretch = within(&self.service, from, to);
                let redrawn = distribute(stretch.len(), from, to, Some(space.k_agg), rng);
                child.service.splice(stretch, redrawn);
            }
            Part::Cross => {
                let stretch = within(&self.cross, from, to);
                let kept = self.cross.len() - stretch.len();
                let count = changed(stretch.len(), space.most_cross.saturating_sub(kept), rng);
                child.cross.splice(stretch, distribute(count, from, to, None, rng));
            }
            Part::Outages => {
                let starts: Vec<u32> = self.outages.iter().map(|outage| outage.at).collect();
                let stretch = within(&starts, from, to);
                let kept = self.outages.len() - stretch.len();
                let count = changed(stretch.len(), space.most_outages.saturating_sub(kept), rng);
                child.outages.splice(stretch, outages(count, from, to, rng));
            }
            Part::Call => child.call = self.call.mutated(rng),
        }
        child
    }

    /// A child of two: what comes before a random instant from one parent, the rest from the other.
    ///
    /// Deviation: the thesis cuts by number of packets, which are at two different instants in the two
    /// parents; cut at one instant, nothing comes twice or is left out. A service can't be cut, and is one
    /// parent's.
    pub fn crossed(&self, other: &Genome, space: &Space, rng: &mut Rng) -> Genome {
        let cut = rng.below(u64::from(space.end)) as u32;
        let halves = |ours: &[u32], theirs: &[u32]| {
            let (left, right) = (within(ours, 0, cut), within(theirs, cut, u32::MAX));
            [&ours[left], &theirs[right]].concat()
        };
        let early = self.outages.iter().filter(|outage| outage.at < cut);
        let late = other.outages.iter().filter(|outage| outage.at >= cut);
        let mut outages: Vec<Outage> = early.chain(late).copied().collect();
        outages.truncate(space.most_outages);
        let mut cross = halves(&self.cross, &other.cross);
        cross.truncate(space.most_cross);
        // Where calls are not varied nothing is drawn for them.
        let plain = self.call.is_plain() && other.call.is_plain();
        let call = if plain { Call::default() } else { self.call.crossed(other.call, rng) };
        Genome { service: self.service.clone(), cross, outages, call }
    }

    /// With the service smoothed: each instant is the Gaussian mean of those around it, ends reflected. What
    /// the service owes to nothing but chance fades over the generations (section 7.3.2).
    pub fn annealed(&self) -> Genome {
        Genome { service: smooth(&self.service), ..self.clone() }
    }

    /// A number that two different genomes do not share.
    pub fn fingerprint(&self) -> u128 {
        let mut print = Fingerprint::default();
        for list in [&self.service, &self.cross] {
            print.add_bytes(&(list.len() as u64).to_le_bytes());
            list.iter().for_each(|at| print.add_bytes(&at.to_le_bytes()));
        }
        for outage in &self.outages {
            print.add_bytes(&outage.at.to_le_bytes());
            print.add_bytes(&outage.lasts.to_le_bytes());
        }
        if !self.call.is_plain() {
            print.add_bytes(self.call.bytes());
        }
        print.0
    }

    /// What the genome does to a scenario's network.
    pub fn overlay(&self, space: &Space) -> Overlay {
        let time = |micros: u32| Time::from_micros(u64::from(micros));
        let span = |outage: &Outage| (time(outage.at), time(outage.at.saturating_add(outage.lasts)));
        Overlay {
            service: self.trace(space).map(Arc::new),
            cross: self.instants().map(Arc::new),
            outages: self.outages.iter().map(span).collect(),
        }
    }

    /// The service as Mahimahi writes it, in whole milliseconds, rounded up. Its last line is the end of the
    /// run, so that it never repeats within it.
    pub fn trace(&self, space: &Space) -> Option<MahimahiTrace> {
        if self.service.is_empty() {
            return None;
        }
        let lines = self.service.iter().map(|at| at.div_ceil(1_000));
        let end = space.end.div_ceil(1_000);
        MahimahiTrace::from_millis(lines.chain([end]).map(|at| at.min(end)).collect())
    }

    /// The cross packets' instants, if there are any.
    pub fn instants(&self) -> Option<Instants> {
        if self.cross.is_empty() {
            return None;
        }
        Some(Instants::from_micros(self.cross.clone()).expect("a genome's instants are in order"))
    }
}

#[derive(Clone, Copy)]
enum Part {
    Service,
    Cross,
    Outages,
    Call,
}

impl Mode {
    /// One of the parts that are varied. There is at least one.
    fn draw(self, rng: &mut Rng) -> Part {
        let parts = [
            (Part::Service, self.link),
            (Part::Cross, self.traffic),
            (Part::Outages, self.loss),
            (Part::Call, self.call),
        ];
        let varied: Vec<Part> = parts.into_iter().filter(|part| part.1).map(|part| part.0).collect();
        varied[rng.below(varied.len() as u64) as usize]
    }
}

/// Where what happens in `[from, to)` stands in a list.
pub(crate) fn within<T: Timed>(list: &[T], from: u32, to: u32) -> std::ops::Range<usize> {
    list.partition_point(|item| item.at() < from)..list.partition_point(|item| item.at() < to)
}

/// How many packets or outages a network of the first generation has, of `most`.
///
/// The thesis says that the number is variable. Here its logarithm is uniform, so that ten are as likely as a
/// thousand: drawn uniformly, few packets would hardly ever be tried.
fn number(most: usize, rng: &mut Rng) -> usize {
    ((most as f64 + 1.0).powf(rng.uniform()) - 1.0).round() as usize
}

/// What becomes of a number of packets or outages when they are drawn anew, of `most`.
///
/// The thesis says that it is "changed randomly". Here it is multiplied by a factor whose logarithm is
/// uniform: drawn from nothing, it would forget how much traffic the parent had been picked for. None may
/// become some.
fn changed(count: usize, most: usize, rng: &mut Rng) -> usize {
    let factor = LARGEST_CHANGE.powf(2.0 * rng.uniform() - 1.0);
    let wanted = ((count as f64 + 1.0) * factor - 1.0).round();
    (wanted.max(0.0) as usize).min(most)
}

fn outages(count: usize, from: u32, to: u32, rng: &mut Rng) -> Vec<Outage> {
    let starts = distribute(count, from, to, None, rng);
    let lasting = |rng: &mut Rng| SHORTEST_OUTAGE * (LONGEST_OUTAGE / SHORTEST_OUTAGE).powf(rng.uniform());
    let mut outages: Vec<Outage> =
        starts.into_iter().map(|at| Outage { at, lasts: lasting(rng) as u32 }).collect();
    outages.sort_unstable();
    outages
}

fn smooth(instants: &[u32]) -> Vec<u32> {
    let weights: Vec<f64> = (0..=REACH).map(|k| (-0.5 * (k as f64 / SIGMA).powi(2)).exp()).collect();
    let sum = weights[0] + 2.0 * weights[1..].iter().sum::<f64>();
    let last = instants.len() as i64 - 1;
    let reflected = |index: i64| {
        let index = index.abs();
        let index = if index > last { 2 * last - index } else { index };
        f64::from(instants[index.clamp(0, last) as usize])
    };
    let mean = |index: i64| {
        let around = |k: usize| reflected(index - k as i64) + reflected(index + k as i64);
        let total = weights[0] * reflected(index) + (1..=REACH).map(|k| weights[k] * around(k)).sum::<f64>();
        (total / sum) as u32
    };
    // Reflection bends the ends back: where it would, they stay in order.
    let mut smoothed: Vec<u32> = (0..=last).map(mean).collect();
    smoothed.sort_unstable();
    smoothed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Rng;

    const SPACE: Space =
        Space { end: 10_000_000, slots: 10_000, most_cross: 10_000, most_outages: 50, k_agg: 50_000 };
    const ALL: Mode = Mode { link: true, traffic: true, loss: true, call: true };

    fn is_sound(genome: &Genome) -> bool {
        genome.service.is_sorted()
            && genome.cross.is_sorted()
            && genome.outages.is_sorted()
            && genome.cross.len() <= SPACE.most_cross
            && genome.service.iter().chain(&genome.cross).all(|&at| at < SPACE.end)
    }

    /// The instants before or after where a mutation with this seed cuts.
    fn side(instants: &[u32], seed: u64, left: bool) -> Vec<u32> {
        let cut = 1 + Rng::stream(seed, "child").below(u64::from(SPACE.end) - 1) as u32;
        instants.iter().copied().filter(|&at| (at < cut) == left).collect()
    }

    proptest! {
        #[test]
        fn a_service_keeps_its_number_and_one_side(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let link = Mode { link: true, ..Mode::default() };
            let parent = Genome::fresh(link, &SPACE, &mut rng);
            let child = parent.mutated(link, &SPACE, &mut Rng::stream(seed, "child"));
            prop_assert_eq!(child.service.len(), SPACE.slots);
            let (ours, theirs) = (|left| side(&parent.service, seed, left), |left| side(&child.service, seed, left));
            prop_assert!(ours(true) == theirs(true) || ours(false) == theirs(false));
            prop_assert_eq!(ours(true).len(), theirs(true).len());
            prop_assert!(is_sound(&child));
        }

        #[test]
        fn children_stay_within_bounds(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let (a, b) = (Genome::fresh(ALL, &SPACE, &mut rng), Genome::fresh(ALL, &SPACE, &mut rng));
            let child = a.crossed(&b, &SPACE, &mut rng).mutated(ALL, &SPACE, &mut rng).annealed();
            prop_assert!(is_sound(&child));
            prop_assert_eq!(child.service.len(), SPACE.slots);
            let traffic = Mode { traffic: true, ..Mode::default() };
            let mutant = a.mutated(traffic, &SPACE, &mut Rng::stream(seed, "child"));
            let keeps = |left| side(&a.cross, seed, left) == side(&mutant.cross, seed, left);
            prop_assert!(is_sound(&mutant) && (keeps(true) || keeps(false)));
        }
    }

    #[test]
    fn annealing_smooths_and_keeps_the_mean() {
        let instants: Vec<u32> = (0..1000).map(|n| n / 10 * 10_000).collect();
        let gaps = |list: &[u32]| list.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        let smoothed = smooth(&instants);
        assert!(gaps(&smoothed) < 2_000 && gaps(&instants) == 10_000);
        assert_eq!(smoothed.len(), 1000);
        assert!(smoothed[500].abs_diff(instants[500]) < 10_000);
        assert_eq!(smooth(&[]), [] as [u32; 0]);
        assert_eq!(smooth(&[5, 6]).len(), 2);
    }

    #[test]
    fn a_trace_never_repeats_within_the_run() {
        let genome = Genome { service: vec![400, 1_000, 1_001], ..Genome::default() };
        let space = Space { end: 5_000, ..SPACE };
        assert_eq!(genome.trace(&space).unwrap().millis(), [1, 1, 2, 5]);
        assert!(Genome::default().trace(&space).is_none());
    }

    #[test]
    fn modes_read_and_print() {
        for text in ["link", "traffic", "loss", "link+traffic", "traffic+loss", "link+traffic+loss"] {
            assert_eq!(text.parse::<Mode>().unwrap().to_string(), text);
        }
        assert!("lnk".parse::<Mode>().unwrap_err().contains("write link, traffic, loss"));
    }

    #[test]
    fn small_numbers_are_as_likely_as_large_ones() {
        let mut rng = Rng::stream(1, "x");
        let drawn: Vec<usize> = (0..2_000).map(|_| number(10_000, &mut rng)).collect();
        let below = |limit| drawn.iter().filter(|&&n| n < limit).count();
        assert!((900..1_100).contains(&below(100)) && drawn.iter().all(|&n| n <= 10_000), "{}", below(100));
    }

    #[test]
    fn numbers_change_both_ways_and_within_bounds() {
        let mut rng = Rng::stream(1, "x");
        let changes: Vec<usize> = (0..2_000).map(|_| changed(100, 10_000, &mut rng)).collect();
        assert!(changes.iter().all(|n| (24..=403).contains(n)));
        let more = changes.iter().filter(|&&n| n > 100).count();
        assert!((900..1_100).contains(&more), "{more}");
        assert!((0..100).map(|_| changed(0, 9, &mut rng)).max().unwrap() == 3, "none may become some");
        assert!((0..100).all(|_| changed(9, 10, &mut rng) <= 10 && changed(9, 0, &mut rng) == 0));
    }
}
