//! Simpler variants of a network, for [`shrink`](crate::shrink): windows emptied, thinned, moved, gathered into one burst.
//!
//! Windows are as often long as short, on a logarithmic scale, and half of them lie around something that the network has. As mutations
//! of the search, half of all children, such changes made it worse (docs/reproduction.md), so the search keeps to the thesis'.

use units::Rng;

use crate::genome::{Genome, Outage, Space, within};

/// The shortest window, in microseconds: a few packets' time on the links of the thesis.
const SHORTEST: f64 = 10_000.0;
/// The shortest move, in microseconds: a packet's time there.
const NEAREST: f64 = 1_000.0;
/// Windows that change at once, at most.
const MOST_CHANGES: u64 = 3;

/// Something that happens at an instant.
pub(crate) trait Timed: Copy + Ord {
    /// When, in microseconds.
    fn at(self) -> u32;
    /// The same at another instant.
    fn moved(self, at: u32) -> Self;
}

impl Timed for u32 {
    fn at(self) -> u32 {
        self
    }
    fn moved(self, at: u32) -> u32 {
        at
    }
}

impl Timed for Outage {
    fn at(self) -> u32 {
        self.at
    }
    fn moved(self, at: u32) -> Outage {
        Outage { at, ..self }
    }
}

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Empty,
    Thin,
    Move,
    Gather,
}

impl Change {
    const ALL: [Change; 4] = [Change::Empty, Change::Thin, Change::Move, Change::Gather];

    fn any(rng: &mut Rng) -> Change {
        Change::ALL[rng.below(Change::ALL.len() as u64) as usize]
    }
}

/// A stretch of time, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: u32,
    to: u32,
}

impl Window {
    fn around<T: Timed>(list: &[T], space: &Space, rng: &mut Rng) -> Window {
        let end = f64::from(space.end);
        let length = SHORTEST.min(end) * (end / SHORTEST).max(1.0).powf(rng.uniform());
        let centre = match list.len() {
            0 => end * rng.uniform(),
            _ if rng.chance(0.5) => end * rng.uniform(),
            count => f64::from(list[rng.below(count as u64) as usize].at()),
        };
        let from = (centre - length * rng.uniform()).max(0.0) as u32;
        Window { from, to: from.saturating_add(length.ceil() as u32).min(space.end) }
    }
}

impl Genome {
    /// A simpler one, mostly: a few windows are emptied, thinned, moved or gathered. It never has more than before.
    pub(crate) fn lessened(&self, space: &Space, rng: &mut Rng) -> Genome {
        let mut child = self.clone();
        for _ in 0..1 + rng.below(MOST_CHANGES) {
            if child.outages.is_empty() || !child.cross.is_empty() && rng.chance(0.5) {
                child.cross = changed(&child.cross, space, rng);
            } else {
                child.outages = changed(&child.outages, space, rng);
            }
        }
        child
    }
}

fn changed<T: Timed>(list: &[T], space: &Space, rng: &mut Rng) -> Vec<T> {
    let window = Window::around(list, space, rng);
    rearranged(list, Change::any(rng), window, space, rng)
}

/// The list with what lies in the window changed, in order. What is moved out of the run is gone.
fn rearranged<T: Timed>(list: &[T], change: Change, window: Window, space: &Space, rng: &mut Rng) -> Vec<T> {
    let stretch = within(list, window.from, window.to);
    let inside = &list[stretch.clone()];
    let inside: Vec<T> = match change {
        Change::Empty => Vec::new(),
        Change::Thin => inside.iter().copied().filter(|_| rng.chance(0.5)).collect(),
        Change::Move => {
            let by = distance(space, rng);
            let to = |item: &T| u32::try_from(i64::from(item.at()) + by).ok().filter(|&at| at < space.end);
            inside.iter().filter_map(|item| Some(item.moved(to(item)?))).collect()
        }
        Change::Gather => inside.iter().map(|item| item.moved(inside[0].at())).collect(),
    };
    let mut child = list.to_vec();
    child.splice(stretch, inside);
    child.sort_unstable();
    child
}

/// How far something moves, earlier or later: short ways are as likely as long ones.
fn distance(space: &Space, rng: &mut Rng) -> i64 {
    let way = NEAREST * (f64::from(space.end) / NEAREST).max(1.0).powf(rng.uniform());
    if rng.chance(0.5) { way as i64 } else { -(way as i64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genome::Mode;
    use proptest::prelude::*;
    use units::Rng;

    const SPACE: Space =
        Space { end: 10_000_000, slots: 10_000, most_cross: 10_000, most_outages: 50, k_agg: 50_000 };
    const ALL: Mode = Mode { link: true, traffic: true, loss: true };

    proptest! {
        #[test]
        fn what_is_lessened_has_no_more_than_before(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let parent = Genome::fresh(ALL, &SPACE, &mut rng);
            let child = parent.lessened(&SPACE, &mut rng);
            prop_assert!(child.cross.is_sorted() && child.outages.is_sorted());
            prop_assert!(child.cross.iter().all(|&at| at < SPACE.end));
            prop_assert!(child.cross.len() <= parent.cross.len() && child.outages.len() <= parent.outages.len());
            prop_assert_eq!(child.service, parent.service);
        }
    }

    #[test]
    fn each_change_does_what_it_is_called() {
        let list: Vec<u32> = (0..100).map(|n| n * 100_000).collect();
        let window = Window { from: 2_000_000, to: 4_000_000 };
        let of = |change| rearranged(&list, change, window, &SPACE, &mut Rng::stream(1, "x"));
        let emptied = of(Change::Empty);
        assert_eq!((emptied.len(), within(&emptied, window.from, window.to).len()), (80, 0));
        assert!((81..100).contains(&of(Change::Thin).len()));
        assert_eq!(of(Change::Gather).iter().filter(|&&at| at == 2_000_000).count(), 20);
        let moved = of(Change::Move);
        assert!(moved != list && moved.len() <= 100 && moved.is_sorted());
    }
}
