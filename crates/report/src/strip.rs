//! Over time, what the viewer saw: one band per flow, coloured by what happened to the frames.

use std::fmt::Write;

use units::Time;

use crate::Subject;
use crate::axis::{Axis, short};
use crate::chart::{WIDTH, strip_place};
use crate::markup::{escape, shortened};
use lab::metrics::stalls_between;

/// Height of a band, and distance from one to the next.
const BAND: f64 = 16.0;
const STEP: f64 = 44.0;
/// Letters of a name above a band.
const LONGEST: usize = 90;

/// How a moment looked, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Nothing,
    Smooth,
    Uneven,
    Stalled,
}

impl Moment {
    fn class(self) -> &'static str {
        ["none", "smooth", "uneven", "stalled"][self as usize]
    }
}

/// The bands of all flows with video, or nothing if there are none.
pub(crate) fn render(subjects: &[Subject<'_>]) -> String {
    let video: Vec<&Subject<'_>> = subjects.iter().filter(|s| s.is_video()).collect();
    let Some(first) = video.first() else { return String::new() };
    let axis = Axis::linear(0.0, first.run.scenario.duration.as_secs_f64());
    let height = STEP * video.len() as f64 + 24.0;
    let mut out = String::from(
        "<figure class=\"card\"><figcaption><h3>What the viewer saw</h3>\
         <p>What became of the frames captured at each moment",
    );
    out.push_str(match video.iter().filter(|s| s.summary.quality == Some("model")).count() {
        0 => "",
        n if n == video.len() => ". They are an encoder model&rsquo;s: there was no picture",
        _ => ". Some are an encoder model&rsquo;s, without a picture",
    });
    out.push_str(
        ".</p></figcaption><div class=\"legend\">\
         <span><i class=\"swatch smooth\"></i>shown, in time</span>\
         <span><i class=\"swatch uneven\"></i>some not shown, or late</span>\
         <span><i class=\"swatch stalled\"></i>stall</span></div>",
    );
    let _ = write!(
        out,
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"What the viewer saw\">"
    );
    for (i, subject) in video.iter().enumerate() {
        draw(&mut out, subject, &axis, STEP * i as f64);
    }
    for tick in axis.ticks(10.0) {
        let x = strip_place(&axis, tick);
        let _ = write!(
            out,
            "<text class=\"tick mid\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            height - 8.0,
            short(tick)
        );
    }
    out.push_str("</svg></figure>\n");
    out
}

fn draw(out: &mut String, subject: &Subject<'_>, axis: &Axis, top: f64) {
    let from = strip_place(axis, axis.low);
    let _ = write!(
        out,
        "<text class=\"name\" x=\"{from:.1}\" y=\"{:.1}\">{}</text>",
        top + 14.0,
        escape(&shortened(&subject.label, LONGEST))
    );
    for (start, end, moment) in runs(&moments(subject, axis)) {
        let (x, to) = (from + start as f64, from + end as f64);
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\"/>",
            moment.class(),
            top + 21.0,
            to - x,
            BAND
        );
    }
}

/// One moment per unit of width.
fn moments(subject: &Subject<'_>, axis: &Axis) -> Vec<Moment> {
    let columns = (strip_place(axis, axis.high) - strip_place(axis, axis.low)) as usize;
    let mut band = vec![Moment::Nothing; columns];
    let column = |at: Time| ((axis.place(at.as_secs_f64()) * columns as f64) as usize).min(columns - 1);
    let mut paint = |from: Time, to: Time, moment: Moment| {
        for cell in &mut band[column(from)..=column(to)] {
            *cell = moment.max(*cell);
        }
    };
    let end = Time::ZERO + subject.flow.stop.unwrap_or(subject.run.scenario.duration);
    let (shown, stalls) = match &subject.record.folded {
        Some(folded) => (folded.shown, folded.stalls.clone()),
        None => {
            let displays = subject.record.displays();
            let begin = subject.record.captured().next().map_or(end, |(at, _)| at);
            (
                displays.first().copied().zip(displays.last().copied()),
                stalls_between(&displays, (begin, end), subject.interval, subject.flow.pauses()),
            )
        }
    };
    if let Some((first, last)) = shown {
        paint(first, last, Moment::Smooth);
    }
    let newest =
        subject.record.captured().filter(|(_, frame)| frame.displayed.is_some()).map(|(at, _)| at).max();
    for (captured, frame) in subject.record.captured() {
        match frame.displayed {
            Some(at) if frame.late => paint(at, at, Moment::Uneven),
            // Where the frame should have been. What is under way at the end is not missing.
            None if newest.is_some_and(|newest| captured < newest) => {
                let due = captured.saturating_add(subject.interval);
                paint(captured, due.min(end), Moment::Uneven);
            }
            _ => {}
        }
    }
    for (from, to) in stalls.spans {
        paint(from, to, Moment::Stalled);
    }
    band
}

/// Stretches of equal moments: first column, column after the last, moment.
fn runs(band: &[Moment]) -> Vec<(usize, usize, Moment)> {
    let mut at = 0;
    band.chunk_by(|a, b| a == b)
        .map(|run| {
            at += run.len();
            (at - run.len(), at, run[0])
        })
        .filter(|run| run.2 != Moment::Nothing)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_moments_become_one_rectangle() {
        use Moment::{Nothing, Smooth, Stalled};
        let band = [Nothing, Smooth, Smooth, Stalled, Smooth];
        assert_eq!(runs(&band), [(1, 3, Smooth), (3, 4, Stalled), (4, 5, Smooth)]);
    }
}
