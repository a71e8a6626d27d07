//! What was shown of a video, when: the figures of `docs/playout.md`, from a browser's account.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::sender::STEP;

/// Time between frames in ms.
pub const INTERVAL_MS: f64 = 1e3 / 30.0;

/// What a receiver of the page reports.
#[derive(Clone, Debug, Deserialize)]
pub struct Heard {
    /// The way of receiving.
    pub name: String,
    /// Frames that came out of decoder and jitter buffer: RTP timestamp, when on the page's clock in ms, and
    /// when they should be shown in ms after the first one should.
    pub decoded: Vec<(u32, f64, f64)>,
    /// Frames that were composed: RTP timestamp, and `presentationTime` on the page's clock in ms.
    pub presented: Vec<(u32, f64)>,
    /// `getStats` at the beginning of what is measured ...
    pub before: BTreeMap<String, f64>,
    /// ... and at its end.
    pub after: BTreeMap<String, f64>,
}

/// What became of a cell's frames at one place of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shown {
    /// Share of the frames that were ever shown, in percent.
    pub shown_percent: f64,
    /// 95th percentile of the time between two shown frames, in intervals.
    pub spacing_p95: f64,
    /// From capture until it or a newer one was shown, in ms: median ...
    pub delay_p50_ms: f64,
    /// ... 95th percentile ...
    pub delay_p95_ms: f64,
    /// ... and mean.
    pub delay_mean_ms: f64,
}

/// The value at or below which `percent` of the values lie (nearest rank); not a number without values.
pub fn percentile(values: &mut [f64], percent: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * percent / 100.0).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// 95th percentile of the time between two frames of `range` as the receiver plans to show them, in
/// intervals.
pub fn planned_spacing(decoded: &[(u32, f64, f64)], range: Range<u32>) -> f64 {
    let inside = decoded.iter().filter(|(timestamp, ..)| range.contains(&(timestamp / STEP)));
    let due: Vec<f64> = inside.map(|&(_, _, due)| due).collect();
    percentile(&mut due.windows(2).map(|pair| (pair[1] - pair[0]) / INTERVAL_MS).collect::<Vec<_>>(), 95.0)
}

/// Half a display's interval at 60 Hz, in ms: of two frames that come closer together one is never seen.
const APART_MS: f64 = 1e3 / 120.0;

/// Share of the frames of `range` that were handed over, and no newer one right after them, in percent.
pub fn apart(decoded: &[(u32, f64, f64)], range: Range<u32>) -> f64 {
    let apart = |pair: &[(u32, f64, f64)]| pair[1].1 - pair[0].1 >= APART_MS;
    let inside = |pair: &[(u32, f64, f64)]| range.contains(&(pair[0].0 / STEP));
    let count = decoded.windows(2).filter(|pair| inside(pair) && apart(pair)).count();
    100.0 * count as f64 / range.len() as f64
}

/// What `displays` (RTP timestamps, and when) say of the frames `from..to`; frame `n` was captured `n`
/// intervals after `start`, in ms.
pub fn shown(displays: &[(u32, f64)], start: f64, from: u32, to: u32) -> Shown {
    let mut first: BTreeMap<u32, f64> = BTreeMap::new();
    for &(timestamp, at) in displays {
        first.entry(timestamp / STEP).or_insert(at);
    }
    let inside = first.range(from..to).count();
    let captured = |frame: u32| start + f64::from(frame) * INTERVAL_MS;
    // A frame that was never shown counts until the next one that was.
    let delay = |frame: u32| Some(first.range(frame..).next()?.1 - captured(frame));
    let mut delays: Vec<f64> = (from..to).filter_map(delay).collect();
    let mut times: Vec<f64> =
        first.values().copied().filter(|&at| (captured(from)..captured(to)).contains(&at)).collect();
    times.sort_unstable_by(f64::total_cmp);
    let mut spacings: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / INTERVAL_MS).collect();
    Shown {
        shown_percent: 100.0 * inside as f64 / f64::from(to - from),
        spacing_p95: percentile(&mut spacings, 95.0),
        delay_p50_ms: percentile(&mut delays, 50.0),
        delay_p95_ms: percentile(&mut delays, 95.0),
        delay_mean_ms: delays.iter().sum::<f64>() / delays.len() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_was_not_shown_waits_for_the_next() {
        // Frames 0 to 9 are shown 50 ms after their capture, but 4 never.
        let displays: Vec<(u32, f64)> = (0..12u32)
            .filter(|&frame| frame != 4)
            .map(|frame| (frame * STEP, 1_050.0 + f64::from(frame) * INTERVAL_MS))
            .collect();
        let shown = shown(&displays, 1_000.0, 0, 10);
        assert_eq!(shown.shown_percent, 90.0);
        assert!((shown.delay_p50_ms - 50.0).abs() < 1e-9, "{shown:?}");
        assert!((shown.delay_p95_ms - 50.0 - INTERVAL_MS).abs() < 1e-9, "{shown:?}");
        assert!((shown.spacing_p95 - 2.0).abs() < 1e-9, "{shown:?}");
    }

    #[test]
    fn frames_of_a_burst_are_not_apart() {
        // Frames 0 to 9, each 40 ms after its capture, but 5 and 6 not before 7.
        let at = |frame: u32| {
            40.0 + f64::from(frame.max(if (5..8).contains(&frame) { 7 } else { 0 })) * INTERVAL_MS
        };
        let decoded: Vec<(u32, f64, f64)> =
            (0..10).map(|frame| (frame * STEP, at(frame), f64::from(frame) * INTERVAL_MS)).collect();
        assert!((apart(&decoded, 0..9) - 700.0 / 9.0).abs() < 1e-9, "{decoded:?}");
        assert!((planned_spacing(&decoded, 0..9) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!([percentile(&mut values, 50.0), percentile(&mut values, 95.0)], [10.0, 19.0]);
        assert!(percentile(&mut [], 50.0).is_nan());
    }
}
