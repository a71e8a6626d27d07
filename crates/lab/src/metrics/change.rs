//! How a flow takes a change of the path: how soon its rate settles, and how long its delay stays high.

use units::{Span, Time};

/// Convergence time: from `change` to the first instant from which the rate stays within `tolerance` (a
/// fraction) of `steady` for `hold`. `rate` is the smoothed rate as ascending `(time, bit/s)`; the summary
/// takes 1 s of smoothing, a tolerance of 0.1 and a hold of 5 s. `None` if it never settles for that long.
///
/// With trailing smoothing ([`super::windowed_rate`]) the result includes the window's own lag.
pub fn convergence_time(
    rate: &[(Time, f64)],
    change: Time,
    steady: f64,
    tolerance: f64,
    hold: Span,
) -> Option<Span> {
    let mut since = None;
    for &(at, value) in rate.iter().filter(|(at, _)| *at >= change) {
        if (value - steady).abs() > tolerance * steady {
            since = None;
            continue;
        }
        let start = *since.get_or_insert(at);
        if at - start >= hold {
            return Some(start - change);
        }
    }
    None
}

/// Spike duration: for how long after `change` the one-way delay exceeded twice its `steady` value. `delays`
/// are ascending `(time, delay in ms)`; a sample counts until the next one.
pub fn spike_duration(delays: &[(Time, f64)], change: Time, steady: f64) -> Span {
    let after = &delays[delays.partition_point(|(at, _)| *at < change)..];
    after
        .windows(2)
        .filter(|pair| pair[0].1 > 2.0 * steady)
        .fold(Span::ZERO, |sum, pair| sum + (pair[1].0 - pair[0].0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_100_ms(values: impl IntoIterator<Item = f64>) -> Vec<(Time, f64)> {
        values.into_iter().enumerate().map(|(i, v)| (Time::from_millis(100 * i as u64), v)).collect()
    }

    #[test]
    fn convergence_starts_when_the_rate_enters_the_band_for_good() {
        // In band for 1 s at first, out again, in for good from 2.5 s on.
        let rate = every_100_ms((0..120).map(|i| if (5..15).contains(&i) || i >= 25 { 9.5 } else { 5.0 }));
        let settle = |hold| convergence_time(&rate, Time::ZERO, 10.0, 0.1, Span::from_secs(hold));
        assert_eq!(settle(5), Some(Span::from_millis(2_500)));
        assert_eq!(settle(20), None);
        let late = convergence_time(&rate, Time::from_secs(2), 10.0, 0.1, Span::from_secs(5));
        assert_eq!(late, Some(Span::from_millis(500)));
    }

    #[test]
    fn a_spike_lasts_while_the_delay_is_over_twice_its_steady_value() {
        let delays = every_100_ms((0..50).map(|i| match i {
            0..10 => 30.0,
            10..24 => 90.0,
            24..30 => 39.0,
            _ => 20.0,
        }));
        assert_eq!(spike_duration(&delays, Time::from_secs(1), 20.0), Span::from_millis(1_400));
        assert_eq!(spike_duration(&delays, Time::from_secs(2), 20.0), Span::from_millis(400));
        assert_eq!(spike_duration(&[], Time::ZERO, 20.0), Span::ZERO);
    }
}
