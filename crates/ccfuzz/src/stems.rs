//! Networks that begin alike: each is run from where it parts with one that was run before.
//!
//! ```text
//! in order    ----a------------     kept from the generation before
//!             ----+--b---------     from a, where b begins to differ
//!             ----+--+----c----     from b
//!             -+------d--------     from c, whose beginning is a's
//! ```
//!
//! In this order a network has more in common with its neighbours than with any other. Scores are to the bit
//! those of runs from the beginning.

use std::cmp::Ordering;
use std::sync::Arc;

use lab::run::Trunk;

use crate::genome::{Genome, Outage};

/// Bytes of runs that a search holds for those to come, and at most as many again of the generation under
/// way. About: what runs have in common is counted in each. The thesis' five hundred networks need as much.
pub(crate) const MEMORY: u64 = 256 << 20;

/// A network that was run, for others to branch off.
#[derive(Debug)]
pub(crate) struct Stem {
    pub genome: Genome,
    /// The run of the flow under test.
    pub own: Option<Trunk>,
    /// Those of the first reference controllers, as far as they were asked.
    pub references: Vec<Trunk>,
}

impl Stem {
    /// The run of the reference of this number, or of the flow under test.
    pub fn trunk(&self, reference: Option<usize>) -> Option<&Trunk> {
        match reference {
            None => self.own.as_ref(),
            Some(index) => self.references.get(index),
        }
    }

    /// Bytes that its runs hold, about.
    pub fn bytes(&self) -> u64 {
        self.own.iter().chain(&self.references).map(Trunk::bytes).sum()
    }

    /// Whether nothing can branch off it.
    pub fn is_bare(&self) -> bool {
        self.own.as_ref().is_none_or(Trunk::is_bare)
    }
}

/// Stems in the order of their networks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stems(Vec<Arc<Stem>>);

impl Stems {
    /// The first of these, as many as take no more than [`MEMORY`] together.
    pub fn of(stems: impl IntoIterator<Item = Arc<Stem>>) -> Stems {
        let mut held = 0;
        let fits = |stem: &Arc<Stem>| {
            held += stem.bytes();
            held <= MEMORY
        };
        let mut stems: Vec<Arc<Stem>> = stems.into_iter().take_while(fits).collect();
        stems.sort_by(|one, other| order(&one.genome, &other.genome));
        Stems(stems)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stem>> {
        self.0.iter()
    }

    /// The two between which `genome` stands.
    pub fn around(&self, genome: &Genome) -> impl Iterator<Item = &Stem> {
        let place = self.0.partition_point(|stem| order(&stem.genome, genome).is_lt());
        self.0[place.saturating_sub(1)..].iter().take(2).map(|stem| &**stem)
    }
}

/// By what happens first in them; of two that are alike until one ends, the one that goes on comes first.
pub(crate) fn order(one: &Genome, other: &Genome) -> Ordering {
    let whole = one.call.bytes().cmp(other.call.bytes()).then_with(|| one.service.cmp(&other.service));
    whole.then_with(|| {
        let cross = first_two(&one.cross, &other.cross, u32::MAX);
        let outages = first_two(&one.outages, &other.outages, Outage { at: u32::MAX, lasts: u32::MAX });
        // Whichever differs first decides.
        if cross.0.min(cross.1) <= outages.0.at.min(outages.1.at) {
            cross.0.cmp(&cross.1)
        } else {
            outages.0.cmp(&outages.1)
        }
    })
}

/// The first two items in which the lists differ, with `end` for that of a list which ends there.
fn first_two<T: PartialEq + Copy>(one: &[T], other: &[T], end: T) -> (T, T) {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let at = |list: &[T]| list.get(same).copied().unwrap_or(end);
    (at(one), at(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Mode, Space};
    use units::Rng;

    const SPACE: Space =
        Space { end: 10_000_000, slots: 1_000, most_cross: 40, most_outages: 10, k_agg: 50_000 };

    /// Everything that happens, in its order, and at last the end.
    fn story(genome: &Genome) -> Vec<Outage> {
        let cross = genome.cross.iter().map(|&at| Outage { at, lasts: 0 });
        let outages = genome.outages.iter().map(|outage| Outage { lasts: outage.lasts + 1, ..*outage });
        let mut story: Vec<Outage> = cross.chain(outages).collect();
        story.sort_unstable();
        story.push(Outage { at: u32::MAX, lasts: 0 });
        story
    }

    /// Until when the two are the same.
    fn parting(one: &Genome, other: &Genome) -> u32 {
        let (one, other) = (story(one), story(other));
        let differ = one.iter().zip(&other).find(|(one, other)| one != other);
        differ.map_or(u32::MAX, |(one, other)| one.at.min(other.at))
    }

    proptest! {
        #[test]
        fn a_network_has_most_in_common_with_those_beside_it(seed: u64, count in 2..30_usize) {
            let mode = Mode { traffic: true, loss: true, ..Mode::default() };
            let mut rng = Rng::stream(seed, "x");
            let mut family = vec![Genome::fresh(mode, &SPACE, &mut rng)];
            while family.len() < count {
                let parent = family[rng.below(family.len() as u64) as usize].clone();
                family.push(parent.mutated(mode, &SPACE, &mut rng));
            }
            let late = family.pop().unwrap();
            let stem = |genome: &Genome| {
                Arc::new(Stem { genome: genome.clone(), own: None, references: Vec::new() })
            };
            let stems = Stems::of(family.iter().map(stem));
            let most = family.iter().map(|genome| parting(genome, &late)).max();
            let beside = stems.around(&late).map(|stem| parting(&stem.genome, &late)).max();
            prop_assert_eq!(beside, most);
        }
    }
}
