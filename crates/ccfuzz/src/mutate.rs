//! Children of one parent.
//!
//! ```text
//! half of them:   one side of a random instant is drawn anew                            (section 7.3.2 and 7.3.3)
//! the others:     a window is drawn anew, emptied, thinned, moved, gathered or repeated
//! ```
//!
//! Deviation: the thesis has the first kind alone. It keeps half of what the parent was good for, on average, so that hardly any child
//! of a good parent is better, and nothing in it repeats a burst that works or moves one to where it hits. Windows are as often long
//! as short, on a logarithmic scale, and half of them lie around something that the parent has.

use units::Rng;

use crate::distribute::distribute;
use crate::genome::{Genome, Mode, Outage, Part, Space, draw_outages, number, within};

/// The share of children in which a window changes instead of a side.
const LOCAL: f64 = 0.5;
/// The shortest window, in microseconds: a few packets' time on the links of the thesis.
const SHORTEST: f64 = 10_000.0;
/// The shortest move, in microseconds: a packet's time there.
const NEAREST: f64 = 1_000.0;

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
    Redraw,
    Empty,
    Thin,
    Move,
    Gather,
    Repeat,
}

impl Change {
    const ALL: [Change; 6] =
        [Change::Redraw, Change::Empty, Change::Thin, Change::Move, Change::Gather, Change::Repeat];
    /// Those that leave no more than there was.
    const LESSER: [Change; 4] = [Change::Empty, Change::Thin, Change::Move, Change::Gather];

    fn any(of: &[Change], rng: &mut Rng) -> Change {
        of[rng.below(of.len() as u64) as usize]
    }
}

/// A stretch of time, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: u32,
    to: u32,
}

impl Window {
    fn any<T: Timed>(local: bool, list: &[T], space: &Space, rng: &mut Rng) -> Window {
        if local { Window::around(list, space, rng) } else { Window::side(space, rng) }
    }

    fn side(space: &Space, rng: &mut Rng) -> Window {
        let cut = 1 + rng.below(u64::from(space.end) - 1) as u32;
        if rng.chance(0.5) { Window { from: 0, to: cut } } else { Window { from: cut, to: space.end } }
    }

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
    /// A child of one parent, in one of the parts that the mode varies. The service keeps its number of packets.
    pub fn mutated(&self, mode: Mode, space: &Space, rng: &mut Rng) -> Genome {
        let mut child = self.clone();
        let local = rng.chance(LOCAL);
        match mode.draw(rng) {
            Part::Service => {
                let window = Window::any::<u32>(local, &[], space, rng);
                let stretch = within(&self.service, window.from, window.to);
                let redrawn = distribute(stretch.len(), window.from, window.to, Some(space.k_agg), rng);
                child.service.splice(stretch, redrawn);
            }
            Part::Cross => {
                let fresh = |count, window: Window, rng: &mut Rng| {
                    distribute(count, window.from, window.to, None, rng)
                };
                child.cross = changed(&self.cross, space.most_cross, local, space, rng, fresh);
            }
            Part::Outages => {
                let fresh =
                    |count, window: Window, rng: &mut Rng| draw_outages(count, window.from, window.to, rng);
                child.outages = changed(&self.outages, space.most_outages, local, space, rng, fresh);
            }
        }
        child
    }

    /// A simpler one, mostly: up to three windows are emptied, thinned, moved or gathered.
    pub(crate) fn lessened(&self, space: &Space, rng: &mut Rng) -> Genome {
        let mut child = self.clone();
        for _ in 0..1 + rng.below(3) {
            let change = Change::any(&Change::LESSER, rng);
            if child.outages.is_empty() || !child.cross.is_empty() && rng.chance(0.5) {
                let window = Window::around(&child.cross, space, rng);
                child.cross = rearranged(&child.cross, change, window, space, rng);
            } else {
                let window = Window::around(&child.outages, space, rng);
                child.outages = rearranged(&child.outages, change, window, space, rng);
            }
        }
        child
    }
}

fn changed<T: Timed>(
    list: &[T],
    most: usize,
    local: bool,
    space: &Space,
    rng: &mut Rng,
    fresh: impl FnOnce(usize, Window, &mut Rng) -> Vec<T>,
) -> Vec<T> {
    let window = Window::any(local, list, space, rng);
    let stretch = within(list, window.from, window.to);
    // Where there is nothing, there is nothing to change either.
    let change = if local && !stretch.is_empty() { Change::any(&Change::ALL, rng) } else { Change::Redraw };
    let mut child = if change == Change::Redraw {
        let kept = list.len() - stretch.len();
        let count = number(most, kept, window.to - window.from, space.end, rng);
        let mut child = list.to_vec();
        child.splice(stretch, fresh(count, window, rng));
        child
    } else {
        rearranged(list, change, window, space, rng)
    };
    child.truncate(most);
    child
}

/// The list with what lies in the window changed, in order. What is moved out of the run is gone.
fn rearranged<T: Timed>(list: &[T], change: Change, window: Window, space: &Space, rng: &mut Rng) -> Vec<T> {
    let stretch = within(list, window.from, window.to);
    let inside = &list[stretch.clone()];
    let moved = |by: i64| {
        inside.iter().filter_map(move |item| {
            let at = u32::try_from(i64::from(item.at()) + by).ok().filter(|&at| at < space.end)?;
            Some(item.moved(at))
        })
    };
    let inside: Vec<T> = match change {
        Change::Redraw | Change::Empty => Vec::new(),
        Change::Thin => inside.iter().copied().filter(|_| rng.chance(0.5)).collect(),
        Change::Move => moved(distance(space, rng)).collect(),
        Change::Gather => inside.iter().map(|item| item.moved(inside[0].at())).collect(),
        Change::Repeat => inside.iter().copied().chain(moved(distance(space, rng))).collect(),
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
    use proptest::prelude::*;
    use units::Rng;

    const SPACE: Space =
        Space { end: 10_000_000, slots: 10_000, most_cross: 10_000, most_outages: 50, k_agg: 50_000 };
    const ALL: Mode = Mode { link: true, traffic: true, loss: true };

    fn is_sound(genome: &Genome) -> bool {
        genome.service.is_sorted()
            && genome.cross.is_sorted()
            && genome.outages.is_sorted()
            && genome.cross.len() <= SPACE.most_cross
            && genome.outages.len() <= SPACE.most_outages
            && genome.service.iter().chain(&genome.cross).all(|&at| at < SPACE.end)
            && genome.outages.iter().all(|outage| outage.at < SPACE.end)
    }

    /// Entries of a list that are in the other as well.
    fn shared(a: &[u32], b: &[u32]) -> usize {
        a.iter().filter(|at| b.binary_search(at).is_ok()).count()
    }

    proptest! {
        #[test]
        fn a_service_keeps_its_number_and_all_but_one_window(seed: u64) {
            let link = Mode { link: true, ..Mode::default() };
            let parent = Genome::fresh(link, &SPACE, &mut Rng::stream(seed, "parent"));
            let child = parent.mutated(link, &SPACE, &mut Rng::stream(seed, "child"));
            prop_assert_eq!(child.service.len(), SPACE.slots);
            let mut again = Rng::stream(seed, "child");
            let local = again.chance(LOCAL);
            link.draw(&mut again);
            let Window { from, to } = Window::any::<u32>(local, &[], &SPACE, &mut again);
            let outside = |of: &Genome| -> Vec<u32> {
                of.service.iter().copied().filter(|at| !(from..to).contains(at)).collect()
            };
            prop_assert_eq!(outside(&child), outside(&parent));
            prop_assert!(is_sound(&child));
        }

        #[test]
        fn children_stay_within_bounds(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let (a, b) = (Genome::fresh(ALL, &SPACE, &mut rng), Genome::fresh(ALL, &SPACE, &mut rng));
            let mut child = a.crossed(&b, &SPACE, &mut rng).annealed();
            for _ in 0..10 {
                child = child.mutated(ALL, &SPACE, &mut rng);
                prop_assert!(is_sound(&child));
            }
            prop_assert_eq!(child.service.len(), SPACE.slots);
        }

        #[test]
        fn what_is_lessened_has_no_more_than_before(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let parent = Genome::fresh(ALL, &SPACE, &mut rng);
            let child = parent.lessened(&SPACE, &mut rng);
            prop_assert!(is_sound(&child));
            prop_assert!(child.cross.len() <= parent.cross.len() && child.outages.len() <= parent.outages.len());
            prop_assert_eq!(child.service, parent.service);
        }
    }

    #[test]
    fn each_change_does_what_it_is_called() {
        let list: Vec<u32> = (0..100).map(|n| n * 100_000).collect();
        let window = Window { from: 2_000_000, to: 4_000_000 };
        let of = |change| rearranged(&list, change, window, &SPACE, &mut Rng::stream(1, "x"));
        let inside = |list: &[u32]| within(list, window.from, window.to).len();
        assert_eq!((of(Change::Empty).len(), inside(&of(Change::Empty))), (80, 0));
        assert!((81..100).contains(&of(Change::Thin).len()));
        let gathered = of(Change::Gather);
        assert_eq!(gathered.iter().filter(|&&at| at == 2_000_000).count(), 20);
        assert!(of(Change::Repeat).len() > 100 && shared(&list, &of(Change::Repeat)) == 100);
        let moved = of(Change::Move);
        assert!(moved != list && moved.len() <= 100 && moved.is_sorted());
    }
}
