//! Axes: from values to places on paper, with ticks at numbers a person would choose.

/// How an axis spreads its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal ratios.
    Log,
}

/// One axis: a range of values and how they spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Value at the start.
    pub low: f64,
    /// Value at the end, above `low`.
    pub high: f64,
    /// How values spread in between.
    pub spacing: Spacing,
}

/// From this ratio of the largest value to the typical one, a linear axis would squash what matters.
const LOG_FROM_RATIO: f64 = 12.0;

impl Axis {
    /// A linear axis from `low` to `high`; an empty range is widened.
    pub fn linear(low: f64, high: f64) -> Axis {
        let high = if high > low { high } else { low + 1.0 };
        Axis { low, high, spacing: Spacing::Linear }
    }

    /// A linear axis from zero to a round number at or above `largest`.
    pub fn from_zero(largest: f64) -> Axis {
        let step = tick_step(largest.max(1e-9), 5.0);
        Axis::linear(0.0, (largest.max(1e-9) / step).ceil() * step)
    }

    /// An axis for delays in ms: linear from zero, or logarithmic if `largest` is far above `typical`.
    pub fn for_delays(typical: f64, largest: f64) -> Axis {
        if !(typical > 0.0 && largest > LOG_FROM_RATIO * typical) {
            return Axis::from_zero(largest);
        }
        let below = |v: f64| log_ticks(v / 10.0, v).into_iter().rfind(|&tick| tick <= v).unwrap_or(v);
        let above = |v: f64| log_ticks(v, v * 10.0).into_iter().find(|&tick| tick >= v).unwrap_or(v);
        Axis { low: below(typical * 0.4), high: above(largest), spacing: Spacing::Log }
    }

    /// Where `value` lies: 0 at the start, 1 at the end, clamped to both.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.spacing {
            Spacing::Linear => (value - self.low) / (self.high - self.low),
            Spacing::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Values to mark, at most about `wanted` of them.
    pub fn ticks(&self, wanted: f64) -> Vec<f64> {
        match self.spacing {
            Spacing::Log => log_ticks(self.low * 0.999, self.high * 1.001),
            Spacing::Linear => {
                let step = tick_step(self.high - self.low, wanted);
                let first = (self.low / step - 1e-6).ceil() as i64;
                let last = (self.high / step + 1e-6).floor() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
        }
    }
}

/// The round step (1, 2 or 5 times a power of ten) that cuts `range` into at most about `wanted` pieces.
fn tick_step(range: f64, wanted: f64) -> f64 {
    let rough = range / wanted;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

/// 1, 2 and 5 times powers of ten between `low` and `high`.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let ticks = powers.flat_map(|p| [1.0, 2.0, 5.0].map(|f| f * 10f64.powi(p)));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

/// A number to three significant digits (all of them, if it has more before the point), for columns of
/// numbers.
pub fn figures(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The same without trailing zeros, for prose and axes.
pub fn short(value: f64) -> String {
    let text = figures(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Milliseconds for prose: `62 ms`, `1.24 s`.
pub fn milliseconds(ms: f64) -> String {
    if ms >= 999.5 { format!("{} s", short(ms / 1e3)) } else { format!("{} ms", short(ms)) }
}

/// A rate for prose: `18.2 Mbit/s`, `640 kbit/s`.
pub fn rate(bps: f64) -> String {
    if bps >= 999_500.0 {
        format!("{} Mbit/s", short(bps / 1e6))
    } else {
        format!("{} kbit/s", short(bps / 1e3))
    }
}

/// A share: `86 %`, `0.3 %`. Only nothing at all is `0 %`, and only all of it `100 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.001 => "under 0.001 %".to_owned(),
        p if p > 99.99 && p < 100.0 => "over 99.99 %".to_owned(),
        // Three digits would make it all.
        p if (99.95..100.0).contains(&p) => format!("{:.2} %", (p * 100.0).floor() / 100.0),
        p => format!("{} %", short(p)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(Axis::from_zero(18.3).ticks(5.0), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(Axis::linear(0.0, 60.0).ticks(8.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(Axis::linear(0.9, 1.0).ticks(5.0).len(), 6);
        assert_eq!(Axis::from_zero(0.0).ticks(5.0).first(), Some(&0.0));
    }

    #[test]
    fn wild_delays_get_a_log_axis() {
        assert_eq!(Axis::for_delays(50.0, 200.0), Axis::linear(0.0, 200.0));
        let axis = Axis::for_delays(50.0, 4_300.0);
        assert_eq!((axis.low, axis.high, axis.spacing), (20.0, 5_000.0, Spacing::Log));
        assert_eq!(axis.ticks(5.0), [20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0]);
        assert_eq!((axis.place(20.0), axis.place(5_000.0), axis.place(0.0)), (0.0, 1.0, 0.0));
    }

    #[test]
    fn numbers_are_short() {
        let pairs =
            [(0.0, "0"), (0.25, "0.25"), (1.0, "1"), (18.23, "18.2"), (182.34, "182"), (0.9684, "0.968")];
        for (value, text) in pairs {
            assert_eq!(short(value), text);
        }
        assert_eq!(["5.00", "11.0", "0"], [5.0, 11.0, 0.0].map(figures).map(|f| f.leak() as &str));
        assert_eq!(milliseconds(62.4), "62.4 ms");
        assert_eq!(milliseconds(1_240.0), "1.24 s");
        assert_eq!(rate(18.2e6), "18.2 Mbit/s");
        assert_eq!(percent(1e-9), "under 0.001 %");
        assert_eq!([0.0, 1.0].map(percent), ["0 %", "100 %"]);
    }

    #[test]
    fn only_all_of_it_is_a_hundred_per_cent() {
        let shares = [2998.0 / 3000.0, 2999.0 / 3000.0, 99_999.0 / 100_000.0, 0.9999, 0.999_499, 1.0 - 1e-12];
        let texts = ["99.9 %", "99.96 %", "over 99.99 %", "99.99 %", "99.9 %", "over 99.99 %"];
        assert_eq!(shares.map(percent), texts);
    }
}
