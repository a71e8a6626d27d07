//! Rates: throughput, rates in windows, and how steady a sender is.

use units::{Span, Time};

/// Throughput of packets delivered at `(time, wire bytes)`, in bit/s: delivered bits over the time from the
/// first delivery to the last. Zero with fewer than two distinct delivery times.
pub fn throughput(deliveries: impl IntoIterator<Item = (Time, u32)>) -> f64 {
    let (mut first, mut last, mut bits) = (Time::MAX, Time::ZERO, 0u64);
    for (at, size) in deliveries {
        (first, last) = (first.min(at), last.max(at));
        bits += u64::from(size) * 8;
    }
    if last > first { bits as f64 / (last - first).as_secs_f64() } else { 0.0 }
}

/// Bytes per slot of `width` from `from` to `to`; what lies outside is left out. The last slot may be cut
/// short by `to`.
///
/// # Panics
/// If `width` is not positive.
pub fn slots(packets: impl IntoIterator<Item = (Time, u32)>, from: Time, to: Time, width: Span) -> Vec<f64> {
    assert!(width.is_positive(), "a slot has a width");
    let index = |at: Time| ((at - from).as_nanos() / width.as_nanos()) as usize;
    let count = if to > from { index(to - Span::from_nanos(1)) + 1 } else { 0 };
    let mut bytes = vec![0.0; count];
    for (at, size) in packets {
        if at >= from && at < to {
            bytes[index(at)] += f64::from(size);
        }
    }
    bytes
}

/// The rate in bit/s over the window of `window` that ends at each multiple of `step`: a trailing average, so
/// that nothing is seen before it happened. Points are `(time, rate)` at `from + step, from + 2 step, ...`.
pub fn windowed_rate(
    packets: impl IntoIterator<Item = (Time, u32)>,
    from: Time,
    to: Time,
    step: Span,
    window: Span,
) -> Vec<(Time, f64)> {
    let bytes = slots(packets, from, to, step);
    let reach = (window.as_nanos() / step.as_nanos()).max(1) as usize;
    let mut sum = 0.0;
    (0..bytes.len())
        .map(|i| {
            sum += bytes[i] - if i >= reach { bytes[i - reach] } else { 0.0 };
            let seconds = step.as_secs_f64() * (i + 1).min(reach) as f64;
            (from + step * (i as i64 + 1), sum * 8.0 / seconds)
        })
        .collect()
}

/// Standard deviation over mean (population form); `None` where the mean is zero or there are no values. Of
/// the bytes a sender sends per frame interval it says how steady the sender is (SQP, section 6.7).
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_counts_from_first_to_last_delivery() {
        let ms = Time::from_millis;
        assert_eq!(throughput([(ms(1_000), 1_250), (ms(1_005), 1_250), (ms(1_010), 1_250)]), 3e6);
        assert_eq!(throughput([(ms(7), 1_250)]), 0.0);
    }

    #[test]
    fn slots_split_at_their_edges() {
        let ms = Time::from_millis;
        let packets = [(ms(9), 7), (ms(10), 1), (ms(19), 2), (ms(20), 4), (ms(35), 8)];
        assert_eq!(slots(packets, ms(10), ms(35), Span::from_millis(10)), [3.0, 4.0, 0.0]);
        assert_eq!(slots(packets, ms(10), ms(10), Span::from_millis(10)), [0.0; 0]);
    }

    #[test]
    fn the_windowed_rate_trails() {
        let packets = [(Time::from_millis(50), 1_250)];
        let second = Span::from_millis(200);
        let rates =
            windowed_rate(packets, Time::ZERO, Time::from_millis(400), Span::from_millis(100), second);
        let mbps: Vec<f64> = rates.iter().map(|(_, bps)| bps / 1e6).collect();
        assert_eq!(mbps, [0.1, 0.05, 0.0, 0.0]);
    }

    #[test]
    fn a_steady_sender_varies_not_at_all() {
        assert_eq!(coefficient_of_variation(&[5.0, 5.0, 5.0]), Some(0.0));
        assert_eq!(coefficient_of_variation(&[0.0, 2.0]), Some(1.0));
        assert_eq!(coefficient_of_variation(&[0.0]), None);
        assert_eq!(coefficient_of_variation(&[]), None);
    }
}
