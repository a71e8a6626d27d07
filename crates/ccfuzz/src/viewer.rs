//! What the viewer of the flow under test saw: how late frames were shown, and its stalls.
//!
//! As in every summary ([`lab::metrics`]), with two differences. Windows in which cross traffic leaves next
//! to nothing do not count, as they don't for throughput: what no controller can do is no finding. And the
//! wait for the first frame is a stall, from the flow's start on: else the worst network would be the best.

use lab::metrics::{latencies, stalls};
use lab::run::Metered;
use units::Time;

use crate::score::is_judged;

/// When the flow under test was on.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// When it started, in the world's time.
    pub start: Time,
    /// When it stopped.
    pub end: Time,
    /// The first window in which it was on throughout.
    pub from: usize,
}

/// Seconds from capture to display, of each frame that was captured in a window that counts. A frame that was
/// never shown waits for the next one that was, or for the end.
pub fn frame_delays(metered: &Metered, life: Life) -> Vec<f64> {
    let flow = &metered.flows[0];
    let frames: Vec<_> =
        flow.frames.iter().filter_map(|&(captured, shown)| Some((captured?, shown))).collect();
    let delays = latencies(&frames, life.end).of_frames;
    let counts = |at: Time| {
        let window = (at.as_nanos() / metered.window.as_nanos() as u64) as usize;
        window >= life.from && is_judged(metered, window)
    };
    let counted = frames.iter().zip(delays).filter(|((captured, _), _)| counts(*captured));
    counted.map(|(_, delay)| delay.as_secs_f64()).collect()
}

/// The stalls, from when to when, as [`lab::metrics::stalls`] defines them.
pub fn stills(metered: &Metered, life: Life) -> Vec<(Time, Time)> {
    let flow = &metered.flows[0];
    let mut shown: Vec<Time> = flow.frames.iter().filter_map(|frame| frame.1).collect();
    shown.push(life.start);
    shown.sort_unstable();
    stalls(&shown, life.start, life.end, flow.interval).spans
}

/// Share of the time that counts that was spent in stalls.
pub fn still_share(metered: &Metered, life: Life) -> f64 {
    let spans = stills(metered, life);
    let (mut still, mut all) = (0.0, 0.0);
    for window in (life.from..metered.capacity.len()).filter(|&window| is_judged(metered, window)) {
        let (from, to) = bounds(metered, window, life.end);
        let overlap = |&(a, b): &(Time, Time)| (b.min(to) - a.max(from)).as_secs_f64().max(0.0);
        still += spans.iter().map(overlap).sum::<f64>();
        all += (to - from).as_secs_f64().max(0.0);
    }
    if all > 0.0 { still / all } else { 0.0 }
}

fn bounds(metered: &Metered, window: usize, end: Time) -> (Time, Time) {
    let from = Time::ZERO + metered.window * window as i64;
    (from, (from + metered.window).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::run::{FlowMeter, FrameTimes};
    use units::Span;

    /// Four windows of 500 ms, 25 frames/s, shown 50 ms after their capture but for those captured between
    /// two instants.
    fn watched(lost: std::ops::Range<u64>, cross: [u64; 4]) -> Metered {
        let ms = Time::from_millis;
        let frame = |n: u64| -> FrameTimes {
            let at = n * 40;
            (Some(ms(at)), (!lost.contains(&at)).then(|| ms(at + 50)))
        };
        let frames: Vec<FrameTimes> = (0..50).map(frame).collect();
        let flow = FlowMeter {
            frames,
            interval: Span::from_millis(40),
            delivered: vec![0; 5],
            ..FlowMeter::default()
        };
        let others = FlowMeter { delivered: cross.to_vec(), ..FlowMeter::default() };
        Metered { window: Span::from_millis(500), flows: vec![flow], cross: others, capacity: vec![1_000; 4] }
    }

    const LIFE: Life = Life { start: Time::ZERO, end: Time::from_secs(2), from: 0 };

    #[test]
    fn frames_that_never_come_wait_and_the_picture_stands() {
        let calm = watched(0..0, [0; 4]);
        assert!(frame_delays(&calm, LIFE).iter().all(|&delay| delay <= 0.05 + 1e-9));
        assert_eq!((stills(&calm, LIFE), still_share(&calm, LIFE)), (vec![], 0.0));
        // Nothing captured from 600 to 1000 ms is shown: the picture of 560 ms stands from 610 to 1050 ms.
        let gap = watched(600..1_000, [0; 4]);
        let delays = frame_delays(&gap, LIFE);
        assert!((delays[15] - 0.45).abs() < 1e-9, "{delays:?}");
        let ms = Time::from_millis;
        assert_eq!(stills(&gap, LIFE), [(ms(610), ms(1_050))]);
        assert!((still_share(&gap, LIFE) - 0.22).abs() < 1e-9);
    }

    #[test]
    fn a_picture_that_never_comes_is_the_worst() {
        let never = watched(0..2_000, [0; 4]);
        assert_eq!(still_share(&never, LIFE), 1.0);
        assert_eq!(frame_delays(&never, LIFE)[0], 2.0);
        let nothing = Life { from: 4, ..LIFE };
        assert_eq!((still_share(&never, nothing), frame_delays(&never, nothing).len()), (0.0, 0));
    }

    #[test]
    fn where_nothing_was_left_nobody_is_to_blame() {
        let starved = watched(500..1_000, [0, 950, 0, 0]);
        assert!(frame_delays(&starved, LIFE).iter().all(|&delay| delay < 0.2), "only the judged ones");
        // The picture of 480 ms stands from 530 to 1050 ms: 50 ms of it in a window that counts.
        assert!((still_share(&starved, LIFE) - 0.05 / 1.5).abs() < 1e-9);
    }
}
