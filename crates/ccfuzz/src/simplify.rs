//! Simpler variants of a network, for [`shrink`](crate::shrink): windows emptied, thinned, moved, gathered
//! into one burst, spread evenly.
//!
//! Windows are as often long as short, on a logarithmic scale, and lie around something that the network has.
//! As mutations of the search, half of all children, such changes made it worse
//! (docs/appendix/reproduction.md), so the search keeps to the thesis'.

use units::Rng;

use crate::genome::{Genome, Outage, Space, within};

/// The shortest window and the shortest move, in microseconds: a packet's time on the links of the thesis.
const SHORTEST: f64 = 1_000.0;
/// Changes at once, at most.
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
    Spread,
}

impl Change {
    const ALL: [Change; 5] = [Change::Empty, Change::Thin, Change::Move, Change::Gather, Change::Spread];

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
    /// One around any item of a list that has some.
    fn around<T: Timed>(list: &[T], space: &Space, rng: &mut Rng) -> Window {
        let end = f64::from(space.end);
        let length = logarithmic(SHORTEST, end, rng);
        let centre = f64::from(list[rng.below(list.len() as u64) as usize].at());
        let from = (centre - length * rng.uniform()).max(0.0) as u32;
        Window { from, to: from.saturating_add(length.ceil() as u32).min(space.end) }
    }
}

impl Genome {
    /// A simpler one, mostly: a few windows are emptied, thinned, moved, gathered or spread. It never has
    /// more than before.
    pub(crate) fn simplified(&self, space: &Space, rng: &mut Rng) -> Genome {
        let mut child = self.clone();
        if child.outages.is_empty() || !child.cross.is_empty() && rng.chance(0.5) {
            change(&mut child.cross, space, rng);
        } else {
            change(&mut child.outages, space, rng);
        }
        child
    }
}

/// Changes a window of a list a few times over, or several windows.
fn change<T: Timed>(list: &mut Vec<T>, space: &Space, rng: &mut Rng) {
    let mut window = None;
    for _ in 0..1 + rng.below(MOST_CHANGES) {
        if list.is_empty() {
            break;
        }
        let same = window.filter(|_| rng.chance(0.5));
        let here = same.unwrap_or_else(|| Window::around(list, space, rng));
        *list = rearranged(list, Change::any(rng), here, space, rng);
        window = Some(here);
    }
}

/// The list with what lies in the window changed, in order. What is moved out of the run is gone.
fn rearranged<T: Timed>(list: &[T], change: Change, window: Window, space: &Space, rng: &mut Rng) -> Vec<T> {
    let stretch = within(list, window.from, window.to);
    let inside = &list[stretch.clone()];
    let inside: Vec<T> = match change {
        Change::Empty => Vec::new(),
        Change::Thin => {
            let kept = rng.uniform();
            inside.iter().copied().filter(|_| rng.chance(kept)).collect()
        }
        Change::Move => {
            let by = distance(space, rng);
            let to = |item: &T| u32::try_from(i64::from(item.at()) + by).ok().filter(|&at| at < space.end);
            inside.iter().filter_map(|item| Some(item.moved(to(item)?))).collect()
        }
        Change::Gather if inside.is_empty() => Vec::new(),
        Change::Gather => {
            let at = inside[rng.below(inside.len() as u64) as usize].at();
            inside.iter().map(|item| item.moved(at)).collect()
        }
        Change::Spread => {
            let gap = f64::from(window.to - window.from) / inside.len() as f64;
            let at = |place: usize| window.from + (place as f64 * gap) as u32;
            inside.iter().enumerate().map(|(place, item)| item.moved(at(place))).collect()
        }
    };
    let mut child = list.to_vec();
    child.splice(stretch, inside);
    child.sort_unstable();
    child
}

/// How far something moves, earlier or later: short distances are as likely as long ones.
fn distance(space: &Space, rng: &mut Rng) -> i64 {
    let by = logarithmic(SHORTEST, f64::from(space.end), rng);
    if rng.chance(0.5) { by as i64 } else { -(by as i64) }
}

/// A number between two, whose logarithm is uniform.
fn logarithmic(least: f64, most: f64, rng: &mut Rng) -> f64 {
    let least = least.min(most);
    least * (most / least).powf(rng.uniform())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genome::Mode;
    use proptest::prelude::*;
    use units::Rng;

    const SPACE: Space =
        Space { end: 10_000_000, slots: 10_000, most_cross: 10_000, most_outages: 50, k_agg: 50_000 };
    const ALL: Mode = Mode { link: true, traffic: true, loss: true, call: true };

    proptest! {
        #[test]
        fn what_is_simplified_has_no_more_than_before(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let parent = Genome::fresh(ALL, &SPACE, &mut rng);
            let child = parent.simplified(&SPACE, &mut rng);
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
        let thinned =
            |seed| rearranged(&list, Change::Thin, window, &SPACE, &mut Rng::stream(seed, "x")).len();
        let thinned: Vec<usize> = (0..20).map(thinned).collect();
        assert!(thinned.iter().all(|count| (80..=100).contains(count)), "{thinned:?}");
        assert!(
            thinned.iter().any(|count| *count < 87) && thinned.iter().any(|count| *count > 93),
            "{thinned:?}"
        );
        let gathered = of(Change::Gather);
        assert!(gathered.chunk_by(|a, b| a == b).any(|burst| burst.len() == 20) && gathered.len() == 100);
        let bunched: Vec<u32> = [2_000_000; 20].into_iter().chain([5_000_000]).collect();
        let spread = rearranged(&bunched, Change::Spread, window, &SPACE, &mut Rng::stream(1, "x"));
        assert!(spread[..20].windows(2).all(|pair| pair[1] - pair[0] == 100_000) && spread[20] == 5_000_000);
        let moved = of(Change::Move);
        assert!(moved != list && moved.len() <= 100 && moved.is_sorted());
    }
}
