//! Jain's fairness index.

use units::{Span, Time};

use super::slots;

/// Jain's index `(sum x)^2 / (n * sum x^2)`: 1 when all shares are equal, `1/n` when one takes all. `None`
/// where there is nothing to share (no values, or all zero).
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// When a flow was on, and what it got.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// When it started to send.
    pub start: Time,
    /// When it stopped sending.
    pub stop: Time,
    /// Its deliveries: `(time, wire bytes)`.
    pub delivered: Vec<(Time, u32)>,
}

/// Jain's index in successive windows of `width` between `from` and `to`, over the flows that are on for the
/// whole window. Windows with fewer than two such flows, and windows in which nothing arrived, are skipped.
/// Points are `(end of window, index)`.
pub fn jain_windows(flows: &[Activity], from: Time, to: Time, width: Span) -> Vec<(Time, f64)> {
    let bytes: Vec<Vec<f64>> =
        flows.iter().map(|f| slots(f.delivered.iter().copied(), from, to, width)).collect();
    let on: Vec<(Time, Time)> = flows.iter().map(|flow| (flow.start, flow.stop)).collect();
    jain_of_slots(&on, &bytes, from, width)
}

/// [`jain_windows`] of flows that are `on` from a start to a stop and got these `bytes` in each window of
/// `width` after `from`.
pub fn jain_of_slots(on: &[(Time, Time)], bytes: &[Vec<f64>], from: Time, width: Span) -> Vec<(Time, f64)> {
    let windows = bytes.first().map_or(0, Vec::len);
    (0..windows)
        .filter_map(|i| {
            let (begin, end) = (from + width * i as i64, from + width * (i as i64 + 1));
            let there = |on: &(Time, Time)| on.0 <= begin && on.1 >= end;
            let shares: Vec<f64> =
                on.iter().zip(bytes).filter(|(on, _)| there(on)).map(|(_, b)| b[i]).collect();
            if shares.len() < 2 { None } else { jain(&shares).map(|index| (end, index)) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_values() {
        let rounded = |x: &[f64]| (jain(x).unwrap() * 1e4).round() / 1e4;
        assert_eq!(rounded(&[1.0, 1.0]), 1.0);
        assert_eq!(rounded(&[1.0, 2.0]), 0.9);
        assert_eq!(rounded(&[3.0, 2.0, 1.0]), 0.8571);
        assert_eq!(rounded(&[10.0, 0.0]), 0.5);
        assert_eq!(rounded(&[6.0; 10]), 1.0);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn windows_see_active_flows_only() {
        let ms = Time::from_millis;
        let steady = |start, stop, size| Activity {
            start,
            stop,
            delivered: (0..200)
                .map(|i| (ms(10 * i), size))
                .filter(|&(t, _)| t >= start && t < stop)
                .collect(),
        };
        let flows = [steady(ms(0), ms(2_000), 1_000), steady(ms(1_000), ms(2_000), 500)];
        let windows = jain_windows(&flows, ms(0), ms(2_000), Span::from_millis(500));
        // Alone until 1 s: nothing to compare. Then shares of 2:1.
        assert_eq!(windows, [(ms(1_500), 0.9), (ms(2_000), 0.9)]);
    }

    #[test]
    fn empty_windows_are_skipped() {
        let silent = Activity { start: Time::ZERO, stop: Time::from_secs(1), delivered: Vec::new() };
        let windows =
            jain_windows(&[silent.clone(), silent], Time::ZERO, Time::from_secs(1), Span::from_millis(500));
        assert_eq!(windows, []);
    }
}
