//! What the viewer waits for: frame latency with undelivered frames, and stalls. This is where a stall is
//! defined; tables, reports and fuzzing all count by [`stalls`].

use units::{Span, Time};

/// Frame latencies by the Salsify/Vidaptive rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// One per captured frame, in capture order.
    pub of_frames: Vec<Span>,
    /// Frames at the end with no later displayed frame, measured to the end of the run instead.
    pub cut_off: usize,
}

/// Latency is display time minus capture time. A frame that was never displayed counts until the display of
/// the next displayed frame: that is when the viewer saw something at least as new. Frames are
/// `(captured, displayed)` in capture order, skipped ones included; `end` stands in where no later frame was
/// displayed.
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

/// [`latencies`] of frames that come one by one.
#[derive(Clone, Debug, Default)]
pub struct LatencyOf {
    /// Captures of frames that wait for the next displayed one.
    waiting: Vec<Time>,
}

impl LatencyOf {
    /// Takes the next frame in capture order and gives each latency that it settles to `found`, with the
    /// capture's time.
    pub fn push(&mut self, captured: Time, displayed: Option<Time>, mut found: impl FnMut(Time, Span)) {
        self.waiting.push(captured);
        if let Some(displayed) = displayed {
            self.waiting.drain(..).for_each(|captured| found(captured, displayed - captured));
        }
    }

    /// How many frames wait for a later one.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives what is left, measured to `end`; how many frames that were.
    pub fn finish(&mut self, end: Time, mut found: impl FnMut(Time, Span)) -> usize {
        let left = self.waiting.len();
        self.waiting.drain(..).for_each(|captured| found(captured, end - captured));
        left
    }
}

/// The stalls of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Each stall: from the display of a frame until the display of the next.
    pub spans: Vec<(Time, Time)>,
}

impl Stalls {
    /// How many stalls there were.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Total time in stalls.
    pub fn total(&self) -> Span {
        self.spans.iter().fold(Span::ZERO, |sum, (from, to)| sum + (*to - *from))
    }
}

/// A stall is a gap between displayed frames of more than `max(3 I, I + 150 ms)` with `I` the frame interval:
/// WebRTC's definition of a freeze (W3C webrtc-stats, `freezeCount`). As there, the whole gap counts towards
/// its length. A gap from the last displayed frame to `end` counts too; the wait for the first frame does
/// not, unless none comes: then all the time from `start` to `end` is one stall.
///
/// `displayed` are all the flow's display times, in order; of each stall, what lies between `start` and `end`
/// is returned.
///
/// Deviation: WebRTC takes `I` from the running average of the last 30 frames, which makes a slow sender's
/// stalls invisible; here it is the source's own interval.
pub fn stalls(displayed: &[Time], start: Time, end: Time, interval: Span) -> Stalls {
    stalls_between(displayed, (start, end), interval, std::iter::empty())
}

/// The same of a source that captured nothing within `pauses`, which are in order: there the picture stands
/// by intention. After a pause the picture stands until the next one comes.
pub fn stalls_between(
    displayed: &[Time],
    (start, end): (Time, Time),
    interval: Span,
    pauses: impl Iterator<Item = (Time, Time)>,
) -> Stalls {
    let mut finder = StallFinder::new(interval, pauses);
    displayed.iter().for_each(|&at| finder.push(at));
    finder.finish(start, end)
}

/// [`stalls_between`] of displays that come one by one.
#[derive(Clone, Debug)]
pub struct StallFinder {
    limit: Span,
    pauses: Vec<(Time, Time)>,
    first: Option<Time>,
    last: Option<Time>,
    found: Stalls,
}

impl StallFinder {
    /// Of frames that are `interval` apart, of a source that captured nothing within `pauses`, which are in
    /// order.
    pub fn new(interval: Span, pauses: impl Iterator<Item = (Time, Time)>) -> StallFinder {
        let limit = (interval * 3).max(interval + Span::from_millis(150));
        StallFinder { limit, pauses: pauses.collect(), first: None, last: None, found: Stalls::default() }
    }

    /// The next display, not before the last one.
    pub fn push(&mut self, at: Time) {
        if let Some(last) = self.last {
            self.gap(last, at);
        }
        self.first.get_or_insert(at);
        self.last = Some(at);
    }

    /// Nothing was shown between two instants: what of that lies in no pause may be a stall.
    fn gap(&mut self, from: Time, to: Time) {
        let mut begin = from;
        for &(pause, resume) in self.pauses.iter().filter(|(pause, resume)| *pause < to && *resume > from) {
            self.found.spans.extend(stall(begin, pause, self.limit));
            begin = resume;
        }
        self.found.spans.extend(stall(begin, to, self.limit));
    }

    /// The first and the last display.
    pub fn ends(&self) -> Option<(Time, Time)> {
        self.first.zip(self.last)
    }

    /// The stalls between `start` and `end`, when the run ended.
    pub fn finish(mut self, start: Time, end: Time) -> Stalls {
        match self.first.filter(|first| *first < end).and(self.last) {
            Some(last) => self.gap(last, end),
            None => {
                self.found.spans.clear();
                self.gap(start, end);
            }
        }
        let ended = self.found.spans.iter().filter_map(|&(from, to)| stall(from, to.min(end), self.limit));
        let seen = ended.map(|(from, to)| (from.max(start), to));
        Stalls { spans: seen.filter(|(from, to)| to > from).collect() }
    }
}

fn stall(from: Time, to: Time, limit: Span) -> Option<(Time, Time)> {
    (to > from && to - from > limit).then_some((from, to))
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
    fn one_by_one_gives_the_same() {
        let ms = Time::from_millis;
        let frames: Vec<(Time, Option<Time>)> = (0..40)
            .map(|k| (ms(16 * k), (k % 7 < 4 && k < 36).then(|| ms(16 * k + 40 + k * k % 11))))
            .collect();
        let (mut one_by_one, mut found) = (LatencyOf::default(), Vec::new());
        for &(captured, displayed) in &frames {
            one_by_one.push(captured, displayed, |_, latency| found.push(latency));
        }
        let cut_off = one_by_one.finish(ms(2_000), |_, latency| found.push(latency));
        assert_eq!(Latencies { of_frames: found, cut_off }, latencies(&frames, ms(2_000)));
    }

    #[test]
    fn stalls_are_gaps_beyond_webrtcs_limit() {
        let interval = Span::from_nanos(16_666_667);
        let ms = Time::from_millis;
        // The limit at 60 frames/s is 166.67 ms: 160 ms passes, 300 ms does not, and neither does the end.
        let displayed = [ms(0), ms(17), ms(177), ms(477), ms(494)];
        let found = stalls(&displayed, ms(0), ms(1_494), interval);
        assert_eq!(found.spans, [(ms(177), ms(477)), (ms(494), ms(1_494))]);
        assert_eq!((found.count(), found.total()), (2, Span::from_millis(1_300)));
    }

    #[test]
    fn a_stall_that_began_before_the_view_counts_from_there_on() {
        let (ms, interval) = (Time::from_millis, Span::from_millis(20));
        let found = stalls(&[ms(100), ms(900), ms(920)], ms(500), ms(1_000), interval);
        assert_eq!(found.spans, [(ms(500), ms(900))]);
        let found = stalls(&[ms(100)], ms(500), ms(1_000), interval);
        assert_eq!(found.spans, [(ms(500), ms(1_000))]);
    }

    #[test]
    fn a_picture_that_never_comes_is_one_stall() {
        let (ms, interval) = (Time::from_millis, Span::from_millis(20));
        assert_eq!(stalls(&[], ms(500), ms(1_000), interval).spans, [(ms(500), ms(1_000))]);
        assert_eq!(stalls(&[ms(1_200)], ms(500), ms(1_000), interval).spans, [(ms(500), ms(1_000))]);
        assert_eq!(stalls(&[], ms(900), ms(1_000), interval).count(), 0);
        // One that comes late is waited for, not stalled for.
        assert_eq!(stalls(&[ms(980)], ms(500), ms(1_000), interval).count(), 0);
    }

    #[test]
    fn a_pause_is_no_stall_but_its_end_is_waited_for() {
        let ms = Time::from_millis;
        let interval = Span::from_millis(100);
        let shown: Vec<Time> = (0..=10).chain(51..=60).map(|k| ms(k * 100)).collect();
        let of = |pause: &[(u64, u64)], end| {
            let pauses = pause.iter().map(|&(from, to)| (ms(from), ms(to)));
            stalls_between(&shown, (ms(0), ms(end)), interval, pauses).spans
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
