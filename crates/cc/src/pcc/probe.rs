//! Experiments both rate rules are made of: doubling until it hurts, and pairs of intervals a little faster
//! and slower.

use units::Rng;

/// Pairs in one experiment, at most.
pub const MOST_PAIRS: usize = 3;

/// A rate that was tried and what it was worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// The rate that was tried, in Mbit/s.
    pub rate: f64,
    /// In units of the utility.
    pub utility: f64,
}

/// Lowest and highest rate, in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Lowest rate that is tried, in Mbit/s.
    pub min: f64,
    /// Highest rate that is tried, in Mbit/s.
    pub max: f64,
}

impl Bounds {
    /// `rate` within the bounds.
    pub fn hold(&self, rate: f64) -> f64 {
        if rate.is_finite() { rate.max(self.min).min(self.max) } else { self.min }
    }
}

/// The rate doubles every interval until one is worth less than the one before.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Where it began, in Mbit/s.
    pub from: f64,
    /// What the next interval sends at, in Mbit/s.
    pub rate: f64,
    /// The last interval that was worth more.
    pub best: Option<Tried>,
    /// Intervals whose worth isn't known yet.
    pub waiting: u32,
}

impl Start {
    /// Doubling from `rate`.
    pub fn at(rate: f64) -> Start {
        Start { from: rate, rate, best: None, waiting: 0 }
    }

    /// The best rate so far.
    pub fn base(&self) -> f64 {
        self.best.map_or(self.from, |best| best.rate)
    }

    /// Takes a result; the rate to settle at if doubling is over.
    pub fn learn(&mut self, tried: Tried, bounds: &Bounds) -> Option<f64> {
        self.waiting = self.waiting.saturating_sub(1);
        let better = self.best.is_none_or(|best| tried.utility > best.utility);
        if !better {
            return self.best.map(|best| best.rate);
        }
        self.best = Some(tried);
        (tried.rate >= bounds.max).then_some(bounds.max)
    }
}

/// Pairs of intervals at `base (1 + step)` and `base (1 - step)`, each pair in random order.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// The rate between the two of each pair, in Mbit/s.
    pub base: f64,
    /// Share of the base.
    pub step: f64,
    pairs: usize,
    faster_first: [bool; MOST_PAIRS],
    issued: usize,
    results: [Option<Tried>; 2 * MOST_PAIRS],
}

/// What a pair says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The faster interval.
    pub faster: Tried,
    /// The slower interval.
    pub slower: Tried,
}

impl Pair {
    /// +1 if faster was better, -1 if slower was, 0 if neither.
    pub fn direction(&self) -> f64 {
        match self.faster.utility.partial_cmp(&self.slower.utility) {
            Some(std::cmp::Ordering::Greater) => 1.0,
            Some(std::cmp::Ordering::Less) => -1.0,
            _ => 0.0,
        }
    }

    /// The better interval.
    pub fn better(&self) -> Tried {
        if self.direction() >= 0.0 { self.faster } else { self.slower }
    }
}

impl Pairs {
    /// `pairs` (1 to [`MOST_PAIRS`]) pairs around `base`.
    pub fn around(base: f64, step: f64, pairs: usize, rng: &mut Rng) -> Pairs {
        let mut faster_first = [false; MOST_PAIRS];
        faster_first.iter_mut().for_each(|first| *first = rng.chance(0.5));
        Pairs { base, step, pairs, faster_first, issued: 0, results: [None; 2 * MOST_PAIRS] }
    }

    /// The rate and place of the next interval, unless all have been sent.
    pub fn next(&mut self) -> Option<(f64, u32)> {
        let place = self.issued;
        if place >= 2 * self.pairs {
            return None;
        }
        self.issued += 1;
        let faster = place.is_multiple_of(2) == self.faster_first[place / 2];
        let factor = if faster { 1.0 + self.step } else { 1.0 - self.step };
        Some((self.base * factor, place as u32))
    }

    /// Takes a result; true once all are there.
    pub fn learn(&mut self, place: u32, tried: Tried) -> bool {
        if let Some(result) = self.results.get_mut(place as usize) {
            *result = Some(tried);
        }
        self.results[..2 * self.pairs].iter().all(Option::is_some)
    }

    /// The pairs whose results are there.
    pub fn results(&self) -> impl Iterator<Item = Pair> + '_ {
        (0..self.pairs).filter_map(|pair| {
            let (first, second) = (self.results[2 * pair]?, self.results[2 * pair + 1]?);
            let (faster, slower) = if self.faster_first[pair] { (first, second) } else { (second, first) };
            Some(Pair { faster, slower })
        })
    }

    /// How many pairs preferred faster, and how many slower.
    pub fn votes(&self) -> (usize, usize) {
        let count = |sign: f64| self.results().filter(|pair| pair.direction() == sign).count();
        (count(1.0), count(-1.0))
    }

    /// Pairs in the experiment.
    pub fn pairs(&self) -> usize {
        self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_in_random_order_and_are_told_apart() {
        let mut rng = Rng::stream(1, "test");
        let mut orders = [0; 2];
        for _ in 0..100 {
            let mut pairs = Pairs::around(10.0, 0.05, 2, &mut rng);
            let mut rates = Vec::new();
            while let Some((rate, place)) = pairs.next() {
                rates.push(rate);
                assert_eq!(pairs.learn(place, Tried { rate, utility: rate }), place == 3);
            }
            assert_eq!(rates.len(), 4);
            assert!((rates[0] + rates[1] - 20.0).abs() < 1e-9 && (rates[2] + rates[3] - 20.0).abs() < 1e-9);
            assert_eq!(pairs.votes(), (2, 0));
            assert!(pairs.results().all(|pair| pair.faster.rate > pair.slower.rate));
            orders[usize::from(rates[0] > rates[1])] += 1;
        }
        assert!(orders[0] > 30 && orders[1] > 30, "{orders:?}");
    }

    #[test]
    fn doubling_ends_where_it_hurts_or_at_the_top() {
        let bounds = Bounds { min: 0.3, max: 100.0 };
        let mut start = Start::at(2.0);
        assert_eq!(start.learn(Tried { rate: 2.0, utility: 2.0 }, &bounds), None);
        assert_eq!(start.learn(Tried { rate: 4.0, utility: 4.0 }, &bounds), None);
        assert_eq!(start.learn(Tried { rate: 8.0, utility: 3.0 }, &bounds), Some(4.0));
        assert_eq!(Start::at(2.0).learn(Tried { rate: 100.0, utility: 9.0 }, &bounds), Some(100.0));
    }
}
