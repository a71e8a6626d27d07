//! What the viewer waits for: frame latency with undelivered frames, and stalls.

use units::{Span, Time};

/// Frame latencies by the Salsify/Vidaptive rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// One per captured frame, in capture order.
    pub of_frames: Vec<Span>,
    /// Frames at the end with no later displayed frame, measured to the end of the run instead.
    pub cut_off: usize,
}

/// Latency is display time minus capture time. A frame that was never displayed counts until the display of the next
/// displayed frame: that is when the viewer saw something at least as new. Frames are `(captured, displayed)` in capture
/// order, skipped ones included; `end` stands in where no later frame was displayed.
pub fn latencies(frames: &[(Time, Option<Time>)], end: Time) -> Latencies {
    let mut next = None;
    let mut result = Latencies::default();
    for &(captured, displayed) in frames.iter().rev() {
        next = displayed.or(next);
        result.cut_off += usize::from(next.is_none());
        result.of_frames.push(next.unwrap_or(end) - captured);
    }
    result.of_frames.reverse();
    result
}

/// Stalls: how often and how long the picture stood still.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Each stall: when the frozen picture appeared, and when the next one did.
    pub spans: Vec<(Time, Time)>,
}

impl Stalls {
    /// How many.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Total time a frozen picture stood.
    pub fn total(&self) -> Span {
        self.spans.iter().fold(Span::ZERO, |sum, (from, to)| sum + (*to - *from))
    }
}

/// A stall is a gap between displayed frames of more than `max(3 I, I + 150 ms)` with `I` the frame interval: WebRTC's
/// definition of a freeze (W3C webrtc-stats, `freezeCount`). As there, the whole gap counts towards its length. A gap from
/// the last displayed frame to `end` counts too; the wait for the first frame does not.
///
/// Deviation: WebRTC takes `I` from the running average of the last 30 frames, which makes a slow sender's stalls
/// invisible; here it is the source's own interval.
pub fn stalls(displayed: &[Time], end: Time, interval: Span) -> Stalls {
    let limit = (interval * 3).max(interval + Span::from_millis(150));
    let next = displayed.iter().skip(1).copied().chain([end]);
    let spans = displayed.iter().copied().zip(next).filter(|(from, to)| *to > *from && *to - *from > limit);
    Stalls { spans: spans.collect() }
}

/// The same of a source that captured nothing within `pauses`, which are in order: there the picture stands by intention. What is
/// shown in a pause belongs to the stretch before it. After a pause the picture stands until the next one comes.
pub fn stalls_between(
    displayed: &[Time],
    end: Time,
    interval: Span,
    pauses: impl Iterator<Item = (Time, Time)>,
) -> Stalls {
    let mut all = Stalls::default();
    let (mut rest, mut resumed) = (displayed, None);
    for (from, to) in pauses.filter(|(from, _)| *from < end) {
        let (stretch, later) = rest.split_at(rest.partition_point(|at| *at < to));
        let upto = stretch.partition_point(|at| *at < from);
        all.spans.extend(stretch_of(resumed, &stretch[..upto], from, interval));
        resumed = (resumed.is_some() || !stretch.is_empty()).then_some(to);
        rest = later;
    }
    all.spans.extend(stretch_of(resumed.filter(|at| *at < end), rest, end, interval));
    all
}

fn stretch_of(resumed: Option<Time>, displayed: &[Time], end: Time, interval: Span) -> Vec<(Time, Time)> {
    let shown: Vec<Time> = resumed.into_iter().chain(displayed.iter().copied()).collect();
    stalls(&shown, end, interval).spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_frames_take_the_next_display_time() {
        // 30 frames/s, 120 ms fixed delay, frames 4 and 5 lost.
        let captured = |k: u64| Time::from_nanos(k * 100_000_000 / 3);
        let frames: Vec<_> = (0..10)
            .map(|k| {
                let displayed = captured(k) + Span::from_millis(120);
                (captured(k), (k != 4 && k != 5).then_some(displayed))
            })
            .collect();
        let found = latencies(&frames, Time::from_secs(1));
        let ms: Vec<f64> =
            found.of_frames.iter().map(|s| (s.as_millis_f64() * 100.0).round() / 100.0).collect();
        assert_eq!(ms, [120.0, 120.0, 120.0, 120.0, 186.67, 153.33, 120.0, 120.0, 120.0, 120.0]);
        assert_eq!(found.cut_off, 0);
    }

    #[test]
    fn the_tail_runs_to_the_end_and_is_counted() {
        let ms = Time::from_millis;
        let frames = [(ms(0), Some(ms(50))), (ms(33), None), (ms(66), None)];
        let found = latencies(&frames, ms(500));
        assert_eq!(found.of_frames, [50, 467, 434].map(Span::from_millis));
        assert_eq!(found.cut_off, 2);
        assert_eq!(latencies(&[], ms(500)), Latencies::default());
    }

    #[test]
    fn stalls_are_gaps_beyond_webrtcs_limit() {
        let interval = Span::from_nanos(16_666_667);
        let ms = Time::from_millis;
        // The limit at 60 frames/s is 166.67 ms: 160 ms passes, 300 ms does not, and neither does the end.
        let displayed = [ms(0), ms(17), ms(177), ms(477), ms(494)];
        let found = stalls(&displayed, ms(1_494), interval);
        assert_eq!(found.spans, [(ms(177), ms(477)), (ms(494), ms(1_494))]);
        assert_eq!((found.count(), found.total()), (2, Span::from_millis(1_300)));
        assert_eq!(stalls(&[], ms(1_000), interval).count(), 0);
    }

    #[test]
    fn a_pause_is_no_stall_but_its_end_is_waited_for() {
        let ms = Time::from_millis;
        let interval = Span::from_millis(100);
        let shown: Vec<Time> = (0..=10).chain(51..=60).map(|k| ms(k * 100)).collect();
        let of = |pause: &[(u64, u64)], end| {
            let pauses = pause.iter().map(|&(from, to)| (ms(from), ms(to)));
            stalls_between(&shown, ms(end), interval, pauses).spans
        };
        assert_eq!(of(&[], 6_100), [(ms(1_000), ms(5_100))]);
        assert!(of(&[(1_050, 5_050)], 6_100).is_empty());
        // It was resumed long before a picture came; the pause began long after the last one.
        assert_eq!(of(&[(1_050, 3_000)], 6_100), [(ms(3_000), ms(5_100))]);
        assert_eq!(of(&[(2_000, 5_050)], 6_100), [(ms(1_000), ms(2_000))]);
        // Up to the end and beyond it, and one that is over before anything is shown.
        assert!(of(&[(1_050, 5_050), (6_050, 9_000)], 8_000).is_empty());
        assert_eq!(of(&[(6_100, 9_000)], 12_000).len(), 2);
    }
}
