//! What times of capture tell of frames that are not there.

use units::Span;

/// The usual one of gaps between frames: the mean of those near the lower quartile, since frames are left out
/// where the network carries little. The quartile itself is too small where captures come a millisecond early
/// or late, and frames that never were would be missing.
pub fn usual(mut gaps: Vec<Span>) -> Option<Span> {
    gaps.sort_unstable();
    let quartile = *gaps.get(gaps.len() / 4)?;
    gaps.retain(|&gap| (quartile / 2..=quartile + quartile / 2).contains(&gap));
    let sum = gaps.iter().fold(Span::ZERO, |sum, &gap| sum + gap);
    Some(sum / i64::try_from(gaps.len()).ok()?)
}

/// Intervals in a length of time, to the nearest.
pub fn intervals(length: Span, interval: Span) -> usize {
    ((length.as_nanos() + interval.as_nanos() / 2) / interval.as_nanos()).max(0) as usize
}

/// Frames that gaps leave room for between the frame `before` the span from `from` to `to`, those at `times`
/// within it, and its end.
pub fn left_out((before, from, to): (Option<Span>, Span, Span), times: &[Span], interval: Span) -> usize {
    // Without a frame before it, the first one may come half an interval late.
    let mut last = before.unwrap_or(from - interval / 2);
    let ends = times.iter().chain([&to]);
    ends.map(|&time| intervals(time - std::mem::replace(&mut last, time), interval).saturating_sub(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_gap_is_that_of_the_camera_however_uneven() {
        assert_eq!(usual(Vec::new()), None);
        // 30 Hz of which each capture is up to 3 ms early or late, a third of the frames left out.
        let at = |frame: i64| Span::from_micros(frame * 33_333 + (frame * 7_919) % 6_000 - 3_000);
        let times: Vec<Span> = (0..60).filter(|frame| frame % 3 != 1).map(at).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let usual = usual(gaps).unwrap();
        assert!((usual - Span::from_micros(33_333)).abs() < Span::from_millis(1), "{usual}");
    }

    #[test]
    fn frames_are_left_out_where_there_is_a_gap() {
        let ms = Span::from_millis;
        let left_out = |before: Option<i64>, times: &[i64]| {
            let times: Vec<Span> = times.iter().copied().map(ms).collect();
            super::left_out((before.map(ms), ms(1_000), ms(1_200)), &times, ms(40))
        };
        assert_eq!(left_out(None, &[1_000, 1_040, 1_080, 1_120, 1_160]), 0);
        // One lies just before, and one just after.
        assert_eq!(left_out(Some(999), &[1_039, 1_079, 1_119, 1_159]), 0);
        assert_eq!(left_out(Some(961), &[1_001, 1_041, 1_081, 1_121, 1_161, 1_199]), 0);
        assert_eq!(left_out(Some(960), &[1_000, 1_080, 1_160]), 2);
        assert_eq!(left_out(None, &[1_040, 1_080]), 3, "the first and the last two");
    }
}
