//! What Sprout believes about the link: a probability for each of 256 packet rates (Winstein et al., NSDI
//! 2013).
//!
//! ```text
//! evolve    p <- p M                the rate wanders (Brownian), an outage tends to stay one
//! observe   p_i <- p_i Poisson(k; rate_i * 20 ms)
//! forecast  smallest n with P(deliveries over 1, 2 ... 8 ticks <= n) >= 5 %
//! ```
//!
//! Constants are those of keithw/sprout (`receiver.hh`, `process.cc`), which are the paper's.

use std::sync::OnceLock;

/// Rates the belief distinguishes.
const BINS: usize = 256;
/// Fastest rate, in packets/s.
const FASTEST: f64 = 1000.0;
const WIDTH: f64 = FASTEST / BINS as f64;
/// The rate's Brownian motion, in packets/s per square root of a second.
const WANDER: f64 = 200.0;
/// Outages end at this rate, per second.
const ESCAPE: f64 = 1.0;
/// One tick, in seconds.
const TICK: f64 = 0.02;
/// Ticks a forecast looks ahead.
pub const TICKS: usize = 8;
/// Deliveries in one tick that are tabulated: 0 to 29.
const ARRIVALS: usize = 30;
/// The Gaussian is cut off at this many standard deviations.
const SUPPORT: f64 = 5.0;

/// Counts next to the last forecast that are looked at together: as many sums as one that waits for itself
/// leaves a processor room for.
const NEAR: usize = 8;

/// Cumulative deliveries, in packets, over 1 to 8 ticks: each is exceeded with the forecast's confidence.
pub type Counts = [u8; TICKS];

/// The forecast of a belief that knows nothing: what a sender starts with.
pub const PRIOR: Counts = [0, 1, 3, 4, 5, 6, 8, 9];

/// Everything that does not depend on what arrives.
struct Tables {
    /// In packets/tick: the Poisson parameter of each rate.
    means: Vec<f64>,
    logs: Vec<f64>,
    kernel: Vec<Row>,
    /// For a horizon of `n + 1` ticks: P(deliveries <= k), at `k * BINS + bin`.
    cumulative: Vec<Vec<f64>>,
}

/// Where the rate of one bin may be a tick later.
struct Row {
    first: usize,
    mass: Vec<f64>,
}

/// A bin's middle, in packets/s. The first bin is the outage: nothing at all arrives.
fn middle(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { (bin as f64 + 0.5) * WIDTH }
}

fn bin_of(rate: f64) -> usize {
    ((rate / WIDTH).max(0.0) as usize).min(BINS - 1)
}

/// The standard normal distribution function, by a series about 0 (Marsaglia 2004); good to 1e-12 within the
/// support.
fn normal(x: f64) -> f64 {
    if x.abs() > SUPPORT + 1.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

/// One row of the transition matrix: a Gaussian about the bin's middle whose tails the outermost bins absorb.
/// An outage stays one unless it ends (the row does not add up to 1: a belief is normalised after each step,
/// as in the reference).
fn transitions(bin: usize) -> Row {
    let deviation = WANDER * TICK.sqrt();
    let (from, reach) = (middle(bin), SUPPORT * deviation);
    let (first, last) = (bin_of(from - reach), bin_of(from + reach));
    let below = |edge: usize| match edge {
        0 => 0.0,
        BINS => 1.0,
        edge => normal((edge as f64 * WIDTH - from) / deviation),
    };
    let escape = -(-ESCAPE * TICK).exp_m1();
    let mass = (first..=last)
        .map(|to| match (bin, to) {
            (0, 0) => 1.0 - escape,
            (0, _) => escape,
            _ => 1.0,
        } * (below(to + 1) - below(to)))
        .collect();
    Row { first, mass }
}

fn evolve(kernel: &[Row], p: &mut [f64; BINS]) {
    let mut next = [0.0; BINS];
    for (row, &weight) in kernel.iter().zip(p.iter()).filter(|(_, weight)| **weight > 0.0) {
        let targets = &mut next[row.first..row.first + row.mass.len()];
        targets.iter_mut().zip(&row.mass).for_each(|(target, mass)| *target += weight * mass);
    }
    *p = next;
    normalise(p);
}

/// A belief that holds nothing possible (it can only come from rounding) starts over.
fn normalise(p: &mut [f64; BINS]) {
    let sum: f64 = p.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        p.iter_mut().for_each(|value| *value /= sum);
    } else {
        *p = [1.0 / BINS as f64; BINS];
    }
}

/// Poisson probabilities of 0 to 29 deliveries.
fn deliveries(mean: f64) -> [f64; ARRIVALS] {
    let mut out = [0.0; ARRIVALS];
    out[0] = (-mean).exp();
    for count in 1..ARRIVALS {
        out[count] = out[count - 1] * mean / count as f64;
    }
    out
}

fn convolve(old: &[f64], tick: &[f64; ARRIVALS]) -> Vec<f64> {
    let mut out = vec![0.0; old.len() + ARRIVALS - 1];
    for (at, weight) in old.iter().enumerate() {
        out[at..at + ARRIVALS].iter_mut().zip(tick).for_each(|(sum, p)| *sum += weight * p);
    }
    out
}

/// The cumulative distribution of deliveries for every horizon, for a rate that is in `start` now. The rate
/// wanders after each tick, so that the first tick is at the rate of now (as the reference has it).
fn horizons(start: usize, kernel: &[Row], ticks: &[[f64; ARRIVALS]]) -> Vec<Vec<f64>> {
    let mut p = [0.0; BINS];
    p[start] = 1.0;
    let mut total = vec![1.0];
    let mut out = Vec::with_capacity(TICKS);
    for _ in 0..TICKS {
        let mut mixed = [0.0; ARRIVALS];
        for (tick, weight) in ticks.iter().zip(&p).filter(|(_, weight)| **weight > 0.0) {
            mixed.iter_mut().zip(tick).for_each(|(sum, p)| *sum += weight * p);
        }
        total = convolve(&total, &mixed);
        let mut sum = 0.0;
        out.push(
            total
                .iter()
                .map(|p| {
                    sum += p;
                    sum
                })
                .collect(),
        );
        evolve(kernel, &mut p);
    }
    out
}

impl Tables {
    /// The tables, made once per process: they depend on nothing.
    fn get() -> &'static Tables {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        TABLES.get_or_init(Tables::new)
    }

    /// The chance, by bin, of at most `k` deliveries up to the end of a horizon.
    fn column(&self, horizon: usize, k: usize) -> &[f64; BINS] {
        let table = &self.cumulative[horizon];
        table[k * BINS..].first_chunk().expect("tables have whole columns")
    }

    fn new() -> Tables {
        let means: Vec<f64> = (0..BINS).map(|bin| middle(bin) * TICK).collect();
        let kernel: Vec<Row> = (0..BINS).map(transitions).collect();
        let ticks: Vec<_> = means.iter().map(|&mean| deliveries(mean)).collect();
        let mut cumulative: Vec<Vec<f64>> =
            (1..=TICKS).map(|n| vec![0.0; (n * (ARRIVALS - 1) + 1) * BINS]).collect();
        for bin in 0..BINS {
            for (table, distribution) in cumulative.iter_mut().zip(horizons(bin, &kernel, &ticks)) {
                distribution.iter().enumerate().for_each(|(k, p)| table[k * BINS + bin] = *p);
            }
        }
        Tables { logs: means.iter().map(|mean| mean.ln()).collect(), means, kernel, cumulative }
    }
}

/// The first number from `low` to `high` that `reaches`, or `high`.
fn first(mut low: usize, mut high: usize, reaches: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let k = (low + high) / 2;
        if reaches(k) { high = k } else { low = k + 1 }
    }
    low
}

/// A distribution over the link's rate, in packets a second, updated tick by tick.
#[derive(Clone, Debug)]
pub struct Belief {
    p: [f64; BINS],
    /// The last forecast: the next one is looked for around it.
    last: Counts,
}

impl Default for Belief {
    /// Every rate is as likely as any other.
    fn default() -> Belief {
        Belief { p: [1.0 / BINS as f64; BINS], last: PRIOR }
    }
}

impl Belief {
    /// Moves the belief on by a tick.
    pub fn evolve(&mut self) {
        evolve(&Tables::get().kernel, &mut self.p);
    }

    /// `count` packets arrived over the tick.
    pub fn observe(&mut self, count: u32) {
        let tables = Tables::get();
        let count = f64::from(count);
        // Logarithms up to a constant, which normalising removes: Poisson(29; 20) and its like would
        // underflow otherwise.
        let likelihood = |bin: usize| match (bin, count > 0.0) {
            (0, true) => f64::NEG_INFINITY,
            (0, false) => 0.0,
            _ => count * tables.logs[bin] - tables.means[bin],
        };
        let possible = (0..BINS).filter(|&bin| self.p[bin] > 0.0);
        let best = possible.map(likelihood).fold(f64::NEG_INFINITY, f64::max);
        for bin in 0..BINS {
            self.p[bin] *= (likelihood(bin) - best).min(0.0).exp();
        }
        normalise(&mut self.p);
    }

    /// The forecast that holds with `confidence` (0.95 in the paper).
    pub fn forecast(&mut self, confidence: f64) -> Counts {
        let tables = Tables::get();
        let least = 1.0 - confidence;
        let guesses: [usize; TICKS] = std::array::from_fn(|horizon| {
            usize::from(self.last[horizon]).min(tables.cumulative[horizon].len() / BINS - 1)
        });
        // A forecast mostly stays as it is: what says so is worked out for all horizons at once.
        let columns: [[&[f64; BINS]; 2]; TICKS] = std::array::from_fn(|horizon| {
            let guess = guesses[horizon];
            [guess.saturating_sub(1), guess].map(|k| tables.column(horizon, k))
        });
        let sums: [f64; 2 * TICKS] = self.sums(columns.as_flattened());
        self.last = std::array::from_fn(|horizon| {
            let (guess, most) = (guesses[horizon], tables.cumulative[horizon].len() / BINS - 1);
            let [before, at] = [sums[2 * horizon], sums[2 * horizon + 1]].map(|sum| sum >= least);
            let reaches = |k: usize| self.sums::<1>(&[tables.column(horizon, k)])[0] >= least;
            // It moves by a few packets at a time: its neighbours are worked out together as well.
            let near = |from: usize| -> [bool; NEAR] {
                let columns: [_; NEAR] =
                    std::array::from_fn(|i| tables.column(horizon, (from + i).min(most)));
                self.sums::<NEAR>(&columns).map(|sum| sum >= least)
            };
            let k = match (before && guess > 0, at) {
                (false, true) => guess,
                (true, _) => {
                    let from = (guess - 1).saturating_sub(NEAR);
                    match near(from).iter().position(|reaches| *reaches) {
                        Some(0) if from > 0 => first(0, from, reaches),
                        place => (from + place.unwrap_or(NEAR)).min(guess - 1),
                    }
                }
                (false, false) => {
                    let from = (guess + 1).min(most);
                    match near(from).iter().position(|reaches| *reaches) {
                        Some(place) => (from + place).min(most),
                        None => first((from + NEAR).min(most), most, reaches),
                    }
                }
            };
            k as u8
        });
        self.last
    }

    /// For each of some columns the sum of its products with the belief, added up bin by bin. That is one
    /// long chain of additions, of which a processor has several under way at once.
    fn sums<const N: usize>(&self, columns: &[&[f64; BINS]]) -> [f64; N] {
        let mut sums = [0.0; N];
        for (bin, p) in self.p.iter().enumerate() {
            sums.iter_mut().zip(columns).for_each(|(sum, column)| *sum += p * column[bin]);
        }
        sums
    }

    #[cfg(test)]
    fn mean(&self) -> f64 {
        (0..BINS).map(|bin| self.p[bin] * middle(bin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(count: u32) -> Belief {
        let mut belief = Belief::default();
        for _ in 0..500 {
            belief.evolve();
            belief.observe(count);
        }
        belief
    }

    fn near(belief: &Belief, expected: Counts) {
        let forecast = belief.clone().forecast(0.95);
        println!("{:.1} {:.3} {forecast:?}", belief.mean(), belief.p[0]);
        assert!(
            forecast.iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 1),
            "{forecast:?} for {expected:?}"
        );
    }

    /// sprout.md section 7.
    #[test]
    fn the_forecasts_of_steady_arrivals() {
        let rows = [
            (2, 113.2, [0, 1, 2, 2, 4, 5, 6, 7]),
            (6, 307.7, [2, 6, 10, 14, 18, 22, 27, 31]),
            (12, 605.4, [6, 15, 25, 34, 44, 54, 63, 73]),
            (18, 905.9, [11, 26, 41, 56, 72, 87, 102, 118]),
            (20, 950.5, [12, 28, 44, 60, 77, 94, 110, 127]),
            (29, 980.4, [13, 29, 46, 63, 81, 98, 115, 133]),
        ];
        for (count, mean, expected) in rows {
            let belief = fed(count);
            near(&belief, expected);
            assert!((belief.mean() - mean).abs() < 3.0, "{count}: {} for {mean}", belief.mean());
        }
    }

    #[test]
    fn the_forecast_of_knowing_nothing() {
        near(&Belief::default(), [0, 1, 3, 4, 5, 6, 8, 9]);
        assert_eq!(Belief::default().forecast(0.95), PRIOR);
    }

    #[test]
    fn empty_ticks_are_an_outage_unless_nothing_was_expected() {
        let mut once = fed(12);
        once.evolve();
        once.observe(0);
        near(&once, [5, 12, 19, 27, 35, 42, 50, 58]);
        assert!((once.mean() - 504.4).abs() < 3.0, "{}", once.mean());
        let (mut dark, mut idle) = (fed(12), fed(12));
        for _ in 0..5 {
            dark.evolve();
            dark.observe(0);
            idle.evolve();
        }
        near(&dark, [0; 8]);
        assert!((dark.mean() - 69.0).abs() < 3.0 && (dark.p[0] - 0.158).abs() < 0.005, "{}", dark.mean());
        near(&idle, [6, 15, 23, 32, 41, 50, 59, 68]);
    }

    #[test]
    fn counts_no_rate_explains_do_no_harm() {
        let mut belief = Belief::default();
        for count in [0, 0, 0, 5000, u32::MAX, 0, 1] {
            belief.evolve();
            belief.observe(count);
            assert!(belief.mean().is_finite() && belief.forecast(0.95).is_sorted());
        }
    }
}
