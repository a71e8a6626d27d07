use proptest::prelude::*;

use super::dual::relax;
use super::fill::fill;
use super::*;

const LEAST: f64 = 200.0;
const SIZES: (f64, f64) = (LEAST, 20_000.0);

fn toy() -> Window {
    // A frame stands for a second: 2 a Mbit/s are 125,000 bytes in it.
    let curve = Curve::new(2.0 / 125_000.0, 1.0).unwrap();
    let past = (0..10).map(|frame| Past { frame, curve, quality: 0.5, weight: 1.0 });
    Window {
        budget: 10.0 * 3.0 * 125_000.0,
        future: vec![curve; 10],
        weight: 2.0,
        past: past.collect(),
        sizes: (LEAST, 1e6),
        least_gain: 0.0,
        run_cost: 0.0,
    }
}

/// S3V-1 to 3, the thesis' example (sections 3.4.1 and 3.4.2.2): half a Mbit/s for ten seconds, then three.
#[test]
fn the_toy_has_the_printed_split() {
    let window = toy();
    let quality = |mbit: f64| window.future[0].quality(mbit * 125_000.0);
    assert!((quality(1.75) - 0.777).abs() <= 0.001, "all at the mean rate");
    assert!(((quality(0.5) + quality(3.0)) / 2.0 - 0.679).abs() <= 0.001, "each at its time's rate");
    let problem = window.problem().unwrap();
    let all = fill(&problem, &[true; 20]).unwrap();
    let mbit = |i: usize| all.sizes[i] / 125_000.0;
    let closed = (7.0 * 2f64.sqrt() - 1.0) / (2.0 + 2.0 * 2f64.sqrt());
    assert!((mbit(0) - closed).abs() < 1e-4 && (mbit(0) - 1.84).abs() <= 0.005);
    assert!((mbit(10) - 1.16).abs() <= 0.005);
    let now = (quality(0.5) + quality(mbit(0))) / 2.0;
    let later = (quality(mbit(10)) + quality(mbit(0))) / 2.0;
    assert!((now - 0.643).abs() <= 0.001 && (later - 0.742).abs() <= 0.001, "{now} {later}");
}

/// The printed split sends all ten seconds again. The objective is higher with nine of them: what the first
/// half a Mbit/s of a frame buys is there already.
#[test]
fn the_toys_best_schedule_leaves_a_second_as_it_is() {
    let window = toy();
    let all = fill(&window.problem().unwrap(), &[true; 20]).unwrap();
    let schedule = window.solve(Effort::default()).unwrap();
    assert_eq!(schedule.again.len(), 9);
    assert!(schedule.value > all.value && schedule.value < all.value * 1.001);
}

prop_compose! {
    fn curve()(quality in 0.3..0.995f64, size in 500.0..9_000.0f64, share in 0.0..0.9f64) -> Curve {
        // Through a point, with a part of its `1 / (1 - Q)` there without any bytes.
        let at = 1.0 / (1.0 - quality);
        Curve::new(at * (1.0 - share) / size, at * share).unwrap()
    }
}

fn past() -> impl Strategy<Value = Vec<Past>> {
    let quality = prop_oneof![Just(0.0), 0.0..0.99f64];
    let one = (curve(), quality, 0.0..30.0f64, 1..4u32);
    prop::collection::vec(one, 0..9).prop_map(|all| {
        let mut frame = 0;
        let mut one = |(curve, quality, weight, step): (Curve, f64, f64, u32)| {
            frame += step;
            Past { frame, curve, quality, weight }
        };
        all.into_iter().map(&mut one).collect()
    })
}

fn window() -> impl Strategy<Value = Window> {
    let run_cost = prop_oneof![Just(0.0), 0.0..5.0f64];
    let least_gain = prop_oneof![Just(0.0), Just(0.02)];
    (prop::collection::vec(curve(), 0..5), past(), 0.0..60_000.0f64, run_cost, least_gain).prop_map(
        |(future, past, budget, run_cost, least_gain)| Window {
            budget,
            future,
            weight: 31.0,
            past,
            sizes: SIZES,
            least_gain,
            run_cost,
        },
    )
}

/// What cutting each size to whole bytes may cost: less than a byte of each frame, worth `w a` at most.
fn of_bytes(window: &Window) -> f64 {
    let now = window.future.iter().map(|curve| window.weight * curve.a());
    now.chain(window.past.iter().map(|past| past.weight * past.curve.a())).sum()
}

/// The best objective over all sets of frames.
fn by_every_set(window: &Window) -> f64 {
    let problem = window.problem().unwrap();
    let n = problem.items.len();
    let mut best = f64::NEG_INFINITY;
    for set in 0..1u32 << n {
        let sent: Vec<bool> = (0..n).map(|i| set >> i & 1 == 1).collect();
        let again = sent[problem.now..].iter().filter(|&&sent| sent).count();
        if again <= problem.most_again()
            && let Some(filled) = fill(&problem, &sent)
        {
            best = best.max(filled.value);
        }
    }
    best
}

/// The best objective of sizes in whole steps, by dynamic programming over frames, bytes, frames sent again
/// and whether the frame before is sent: nothing that the planner uses.
fn by_steps(window: &Window, step: f64) -> f64 {
    let steps = (window.budget / step) as usize;
    let most = (window.sizes.1 / step) as usize;
    let again = window.future.len();
    let unset = f64::NEG_INFINITY;
    let at = |bytes: usize, count: usize, joined: usize| (bytes * (again + 1) + count) * 2 + joined;
    let mut best = vec![unset; (steps + 1) * (again + 1) * 2];
    best[0] = 0.0;
    let items = window.future.iter().map(|&curve| (None, curve, 0.0, window.weight));
    let items = items.chain(window.past.iter().map(|p| (Some(p.frame), p.curve, p.quality, p.weight)));
    let mut last = None;
    for (frame, curve, has, weight) in items {
        let mut next = vec![unset; best.len()];
        let follows = frame.is_some_and(|frame: u32| last == frame.checked_sub(1) && last.is_some());
        for (bytes, count, joined) in
            (0..=steps).flat_map(|b| (0..=again).flat_map(move |c| [(b, c, 0), (b, c, 1)]))
        {
            let value = best[at(bytes, count, joined)];
            if value == unset {
                continue;
            }
            let leave = at(bytes, count, 0);
            next[leave] = f64::max(next[leave], value);
            let counts = usize::from(frame.is_some());
            if count + counts > again {
                continue;
            }
            let least_gain = if frame.is_some() { window.least_gain } else { 0.0 };
            let run = if frame.is_none() || (follows && joined == 1) { 0.0 } else { window.run_cost };
            for size in 1..=most.min(steps - bytes) {
                let to = at(bytes + size, count + counts, counts);
                if (size as f64) * step < curve.size_for(has + least_gain) {
                    continue;
                }
                let gain = weight * (curve.quality(size as f64 * step) - has);
                next[to] = f64::max(next[to], value + gain - run);
            }
        }
        (best, last) = (next, frame);
    }
    let base: f64 = window.past.iter().map(|past| past.weight * past.quality).sum();
    base + best.into_iter().fold(unset, f64::max)
}

proptest! {
    #[test]
    fn a_schedule_keeps_to_the_budget_and_below_its_bound(window in window()) {
        let schedule = window.solve(Effort::default()).unwrap();
        prop_assert!(schedule.bytes() as f64 <= window.budget);
        prop_assert!(schedule.again.len() <= window.future.len());
        prop_assert_eq!(schedule.future.len(), window.future.len());
        let fine = |&size: &u32| size == 0 || (200..=20_000).contains(&size);
        prop_assert!(schedule.future.iter().all(fine));
        prop_assert!(schedule.again.iter().all(|again| fine(&again.size) && again.size > 0));
        prop_assert!(schedule.again.windows(2).all(|pair| pair[0].frame < pair[1].frame));
        let base: f64 = window.past.iter().map(|past| past.weight * past.quality).sum();
        prop_assert!(base <= schedule.value && schedule.value <= schedule.bound);
        prop_assert_eq!(&schedule, &window.solve(Effort::default()).unwrap());
    }

    #[test]
    fn no_set_of_frames_is_better_by_a_thousandth_and_none_is_above_the_bound(window in window()) {
        let best = by_every_set(&window);
        let schedule = window.solve(Effort::default()).unwrap();
        prop_assert!(schedule.value >= best * 0.999 - of_bytes(&window), "{} {best}", schedule.value);
        prop_assert!(schedule.bound >= best - 1e-6 * best.abs(), "{} {best}", schedule.bound);
    }

    #[test]
    fn dynamic_programming_finds_nothing_better(window in window()) {
        let window = Window { budget: window.budget / 4.0, ..window };
        let best = by_steps(&window, LEAST);
        let schedule = window.solve(Effort::default()).unwrap();
        prop_assert!(schedule.value >= best * 0.999 - of_bytes(&window), "{} {best}", schedule.value);
        prop_assert!(schedule.bound >= best - 1e-6 * best.abs(), "{} {best}", schedule.bound);
    }

    #[test]
    fn at_a_filled_sets_sizes_no_byte_is_worth_more_elsewhere(window in window()) {
        let problem = window.problem().unwrap();
        let all = vec![true; problem.items.len()];
        let Some(filled) = fill(&problem, &all) else { return Ok(()) };
        let smooth = |i: usize, size: f64| {
            let Item { weight, curve, .. } = problem.items[i];
            weight * (1.0 - 1.0 / (curve.a() * size + curve.b()).max(1e-9))
        };
        let total = |sizes: &[f64]| (0..sizes.len()).map(|i| smooth(i, sizes[i])).sum::<f64>();
        let best = total(&filled.sizes);
        for (from, to) in (0..all.len()).flat_map(|i| (0..all.len()).map(move |k| (i, k))) {
            let mut sizes = filled.sizes.clone();
            sizes[from] -= 1.0;
            sizes[to] += 1.0;
            if from != to && sizes[from] >= problem.items[from].least && sizes[to] <= SIZES.1 {
                prop_assert!(total(&sizes) <= best + 1e-6);
            }
        }
        let bytes: f64 = filled.sizes.iter().sum();
        let full = filled.sizes.iter().all(|&size| size >= SIZES.1 - 1e-3);
        prop_assert!(bytes <= window.budget && (full || bytes >= window.budget - 1.0));
    }
}

#[test]
fn a_window_that_is_none_is_refused() {
    let fine = toy();
    let refused = |change: fn(&mut Window)| {
        let mut window = fine.clone();
        change(&mut window);
        window.solve(Effort::default()).unwrap_err()
    };
    assert_eq!(refused(|w| w.budget = f64::NAN), WindowError::Negative);
    assert_eq!(refused(|w| w.run_cost = -1.0), WindowError::Negative);
    assert_eq!(refused(|w| w.past[3].weight = f64::INFINITY), WindowError::Negative);
    assert_eq!(refused(|w| w.sizes = (0.0, 10.0)), WindowError::Sizes);
    assert_eq!(refused(|w| w.sizes = (20.0, 10.0)), WindowError::Sizes);
    assert_eq!(refused(|w| w.past[2].quality = 1.5), WindowError::Quality(2));
    assert_eq!(refused(|w| w.past.swap(4, 5)), WindowError::Order(4));
    let nothing = Window { future: Vec::new(), past: Vec::new(), ..fine.clone() };
    assert_eq!(nothing.solve(Effort::default()).unwrap().bytes(), 0);
    assert_eq!(relax(&nothing.problem().unwrap(), &[], f64::NEG_INFINITY).bound, 0.0);
}
