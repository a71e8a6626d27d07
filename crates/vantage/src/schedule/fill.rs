//! The best sizes of a fixed set of frames.

use super::Problem;

/// Sizes of a set of frames under the budget.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    /// Bytes of each frame, 0 for those that are not sent.
    pub sizes: Vec<f64>,
    /// What the last byte is worth.
    pub price: f64,
    /// The objective at these sizes, what the endpoint has included.
    pub value: f64,
}

/// Steps until a level is found: each is exact if no frame meets a limit, and halves the range if not.
const STEPS: usize = 60;

/// A frame's size over the level, and its limits.
#[derive(Clone, Copy)]
struct Line {
    slope: f64,
    from: f64,
    least: f64,
    most: f64,
}

impl Line {
    fn free(self, level: f64) -> f64 {
        self.slope * level - self.from
    }

    fn size(self, level: f64) -> f64 {
        self.free(level).clamp(self.least, self.most)
    }
}

/// Water-filling: the same slope for every frame that is sent, between the least and the most bytes of one.
/// With `level = 1 / sqrt(price)` the sizes `(sqrt(w a) level - b) / a` rise linearly with the level, so that
/// the level for a budget is found in a few steps. `None` if even the least sizes are above the budget.
pub(super) fn fill(problem: &Problem, sent: &[bool]) -> Option<Filled> {
    let items = problem.items.iter().zip(sent);
    let mut lines = Vec::with_capacity(sent.len());
    for (item, _) in items.filter(|&(_, &sent)| sent) {
        lines.push(item.line(problem.most)?);
    }
    if lines.iter().map(|line| line.least).sum::<f64>() > problem.budget {
        return None;
    }
    let level = level(problem.budget, &lines);
    let mut filled = lines.iter().map(|line| line.size(level));
    let sizes: Vec<f64> =
        sent.iter().map(|&sent| if sent { filled.next().unwrap_or(0.0) } else { 0.0 }).collect();
    let gains: f64 = problem.items.iter().zip(&sizes).map(|(item, &size)| item.gain(size)).sum();
    let value = problem.base + gains - problem.run_cost * problem.runs(sent) as f64;
    let price = if level > 0.0 { 1.0 / (level * level) } else { 0.0 };
    Some(Filled { sizes, price, value })
}

/// The highest level at which the frames fit the budget, to 1e-9 of it.
fn level(budget: f64, lines: &[Line]) -> f64 {
    let highest = |line: &Line| if line.slope > 0.0 { (line.most + line.from) / line.slope } else { 0.0 };
    let (mut low, mut high) = (0.0, lines.iter().map(highest).fold(0.0, f64::max));
    let mut level = high;
    for _ in 0..STEPS {
        let (mut bytes, mut slopes) = (0.0, 0.0);
        for line in lines {
            let free = line.free(level);
            bytes += free.clamp(line.least, line.most);
            slopes += if free > line.least && free < line.most { line.slope } else { 0.0 };
        }
        let over = bytes - budget;
        if over <= 0.0 {
            low = level;
            if over >= -1e-9 * budget || level == high {
                break;
            }
        } else {
            high = level;
        }
        let newton = level - over / slopes;
        level = if newton > low && newton < high { newton } else { (low + high) / 2.0 };
    }
    low
}

impl super::Item {
    /// Its size over the level; of one that nobody sees the least size at every level. `None` if it is never
    /// sent.
    fn line(&self, most: f64) -> Option<Line> {
        let least = self.least;
        if least > most {
            return None;
        }
        if self.weight == 0.0 {
            return Some(Line { slope: 0.0, from: 0.0, least, most });
        }
        let a = self.curve.a();
        Some(Line { slope: (self.weight / a).sqrt(), from: self.curve.b() / a, least, most })
    }
}
