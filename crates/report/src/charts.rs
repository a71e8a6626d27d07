//! Which charts a report has, and the lines on them.

use units::{Span, Time};

use crate::axis::{Axis, milliseconds, short};
use crate::chart::{Chart, Colour, Line, Stroke};
use crate::{DETAILED, ReportData, RunView, Subject};
use lab::metrics::{bin_of, jain_windows, latencies, nearest_rank, slots};
use lab::summary::activities;

type Points = Vec<(f64, f64)>;

/// Every chart that has something to show, in reading order.
pub(crate) fn all(data: &ReportData<'_>, subjects: &[Subject<'_>]) -> Vec<Chart> {
    let run = &data.runs[0];
    let video: Vec<&Subject<'_>> = subjects.iter().filter(|s| s.is_video()).collect();
    let mut charts = vec![received(run, subjects)];
    if subjects.len() <= DETAILED {
        charts.extend(subjects.iter().map(|s| rates_of(s, subjects.len() > 1)));
    }
    charts.push(frame_delay(run, &video));
    charts.push(frame_delay_distribution(&video));
    charts.extend((0..run.rates.len()).map(|link| queue(data, link)));
    charts.push(fairness(data));
    charts.push(ssim(run, &video));
    charts.push(psnr(run, &video));
    charts.retain(|chart| chart.lines.iter().any(|line| !line.is_empty()));
    charts
}

fn duration(run: &RunView<'_>) -> Time {
    Time::ZERO + run.scenario.duration
}

fn time_axis(run: &RunView<'_>) -> Axis {
    Axis::linear(0.0, run.scenario.duration.as_secs_f64())
}

/// The width of the bins that charts over time use: fine enough to see a frame burst's effect in a short run,
/// coarse enough to be read in a long one.
pub(crate) fn bin(run: &RunView<'_>) -> Span {
    bin_of(run.scenario.duration)
}

fn time_chart(
    run: &RunView<'_>,
    title: String,
    caption: String,
    y_label: &'static str,
    y: Axis,
    lines: Vec<Line>,
) -> Chart {
    let x = time_axis(run);
    Chart {
        title,
        caption,
        x_label: "seconds".into(),
        y_label: y_label.into(),
        x,
        y,
        shade: None,
        lines,
        height: 280.0,
    }
}

/// The bin width as people write it.
fn width(run: &RunView<'_>) -> String {
    milliseconds(bin(run).as_millis_f64())
}

/// Values folded into bins: `(middle of bin in s, fold of the bin's values)`; empty bins are left out.
fn binned(run: &RunView<'_>, values: impl Iterator<Item = (Time, f64)>, fold: fn(&[f64]) -> f64) -> Points {
    let width = bin(run);
    let mut rows: Vec<(i64, f64)> =
        values.map(|(at, value)| ((at - Time::ZERO).as_nanos() / width.as_nanos(), value)).collect();
    rows.sort_by_key(|row| row.0);
    rows.chunk_by(|a, b| a.0 == b.0)
        .map(|group| {
            let values: Vec<f64> = group.iter().map(|row| row.1).collect();
            ((group[0].0 as f64 + 0.5) * width.as_secs_f64(), fold(&values))
        })
        .collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A rate in Mbit/s over bins.
pub(crate) fn rate_points(run: &RunView<'_>, packets: impl IntoIterator<Item = (Time, u32)>) -> Points {
    let width = bin(run);
    let bytes = slots(packets, Time::ZERO, duration(run), width);
    let middle = |i: usize| (i as f64 + 0.5) * width.as_secs_f64();
    bytes.iter().enumerate().map(|(i, b)| (middle(i), b * 8.0 / width.as_secs_f64() / 1e6)).collect()
}

/// Only what lies between a flow's start and stop.
pub(crate) fn while_on(subject: &Subject<'_>, mut points: Points) -> Points {
    let (start, stop) = (subject.flow.start.as_secs_f64(), subject.flow.stop.map(Span::as_secs_f64));
    points.retain(|p| p.0 >= start && stop.is_none_or(|stop| p.0 <= stop));
    points
}

/// The link that holds a flow back.
pub(crate) fn narrowest(subject: &Subject<'_>) -> usize {
    lab::summary::narrowest(subject.run.scenario, subject.index, subject.run.rates)
}

/// A link's capacity in Mbit/s as the shaded area, unless it has none.
pub(crate) fn capacity(run: &RunView<'_>, link: usize) -> Option<(String, Points)> {
    let width = bin(run);
    let bins = run.scenario.duration.as_nanos() / width.as_nanos();
    let edge = |i: i64| Time::ZERO + width * i;
    let points: Option<Points> = (0..bins.max(1))
        .map(|i| {
            let bytes = run.rates[link].capacity(edge(i), edge(i + 1))?.get() as f64;
            Some((edge(i).as_secs_f64(), bytes * 8.0 / width.as_secs_f64() / 1e6))
        })
        .collect();
    let mut points = points?;
    points.push((duration(run).as_secs_f64(), points.last()?.1));
    let label = run.link_name(link).map_or("link capacity".to_owned(), |name| format!("capacity of {name}"));
    Some((label, points))
}

/// A rate axis that shows lines whole, and of what is shaded as much as is in proportion to them.
pub(crate) fn rate_axis(shade: &Points, lines: &[Line]) -> Axis {
    let highest = |points: &Points| points.iter().map(|p| p.1).fold(0.0, f64::max);
    let lines = lines.iter().flat_map(|l| &l.pieces).map(highest).fold(0.0, f64::max);
    let shade = highest(shade);
    Axis::from_zero(if lines > 0.0 { lines.max(shade.min(lines * 1.6)) } else { shade })
}

/// Lines of rates, against what `link` could carry.
fn rates_chart(
    run: &RunView<'_>,
    link: Option<usize>,
    title: String,
    caption: String,
    lines: Vec<Line>,
) -> Chart {
    let shade = link.and_then(|link| capacity(run, link));
    let y = rate_axis(shade.as_ref().map_or(&Points::new(), |(_, points)| points), &lines);
    let shade = shade.map(|(label, points)| (beyond(label, &points, &y), points));
    Chart { shade, ..time_chart(run, title, caption, "Mbit/s", y, lines) }
}

/// The label, and how far the points go where the axis ends before them.
pub(crate) fn beyond(label: String, points: &Points, y: &Axis) -> String {
    let highest = points.iter().map(|point| point.1).fold(0.0, f64::max);
    if highest > y.high { format!("{label} (above the axis: up to {})", short(highest)) } else { label }
}

fn received(run: &RunView<'_>, subjects: &[Subject<'_>]) -> Chart {
    let line = |s: &Subject<'_>| {
        Line::new(&s.label, s.colour, while_on(s, rate_points(s.run, s.record.deliveries())))
    };
    // Flows over several links are not held against one.
    let link = (run.rates.len() == 1).then_some(0);
    let against = if link.is_some() { ", against what the link could carry" } else { "" };
    let caption = format!("Rate at the receiver, averaged over {}{against}.", width(run));
    rates_chart(run, link, "Received bitrate".into(), caption, subjects.iter().map(line).collect())
}

fn rates_of(subject: &Subject<'_>, named: bool) -> Chart {
    let run = subject.run;
    let sent = while_on(subject, rate_points(run, subject.record.transmissions()));
    let received = while_on(subject, rate_points(run, subject.record.deliveries()));
    let wanted = binned(run, estimate(subject), mean);
    let target = subject.record.captured().filter(|(_, frame)| frame.encoded.is_some());
    let target = binned(run, target.map(|(at, frame)| (at, frame.target.as_f64() / 1e6)), mean);
    let lines = vec![
        Line::new("sent", subject.colour, sent).stroke(Stroke::Faint),
        Line::new("received", subject.colour, received),
        Line::new("controller's estimate", Colour::Soft, wanted).stroke(Stroke::Dotted),
        Line::new("asked of the encoder", Colour::Ink, target).stroke(Stroke::Dashed),
    ];
    let title =
        if named { format!("Rates of {}", subject.label) } else { "From estimate to receiver".into() };
    let caption = if subject.is_video() {
        "What the controller believed, what the encoder was asked for, what was sent and what arrived."
    } else {
        "What the controller believed, what was sent and what arrived."
    };
    rates_chart(run, Some(narrowest(subject)), title, caption.into(), lines)
}

/// The controller's estimate over time ([`Decided::estimate`](lab::collect::Decided::estimate)).
fn estimate<'a>(subject: &'a Subject<'_>) -> Box<dyn Iterator<Item = (Time, f64)> + 'a> {
    if let Some(folded) = &subject.record.folded {
        return Box::new(folded.estimate.iter().copied());
    }
    let rtt = &subject.record.rtt;
    Box::new(subject.record.decisions.iter().filter_map(move |decided| {
        let latest = rtt.partition_point(|sample| sample.at <= decided.at).checked_sub(1);
        Some((decided.at, decided.estimate(latest.map(|latest| rtt[latest].smoothed))?))
    }))
}

/// Frame delays in ms with their capture times; frames never shown count until the next shown one.
fn delays(subject: &Subject<'_>) -> Vec<(Time, f64)> {
    let frames: Vec<_> = subject.record.captured().map(|(at, frame)| (at, frame.displayed)).collect();
    let end = subject.flow.stop.map_or(duration(subject.run), |stop| Time::ZERO + stop);
    let found = latencies(&frames, end).of_frames;
    frames.iter().zip(found).map(|((at, _), delay)| (*at, delay.as_millis_f64())).collect()
}

fn delay_axis(lines: &[Line]) -> Axis {
    let of_line = |line: &Line| {
        let mut values: Vec<f64> = line.pieces.iter().flatten().map(|p| p.1).collect();
        values.sort_by(f64::total_cmp);
        (nearest_rank(&values, 50.0).unwrap_or(f64::MAX), values.last().copied().unwrap_or(0.0))
    };
    let (medians, highest): (Vec<f64>, Vec<f64>) = lines.iter().map(of_line).unzip();
    Axis::for_delays(medians.into_iter().fold(f64::MAX, f64::min), highest.into_iter().fold(0.0, f64::max))
}

fn frame_delay(run: &RunView<'_>, subjects: &[&Subject<'_>]) -> Chart {
    let line =
        |s: &&Subject<'_>| Line::new(&s.label, s.colour, binned(s.run, delays(s).into_iter(), largest));
    let lines: Vec<Line> = subjects.iter().map(line).collect();
    let caption = format!("From capture to display: the slowest frame of every {}.", width(run));
    time_chart(run, "Frame delay".into(), caption, "ms", delay_axis(&lines), lines)
}

/// Frame delays in ms, ascending, each with how many frames had it.
fn counted_delays(subject: &Subject<'_>) -> Vec<(f64, u64)> {
    if let Some(folded) = &subject.record.folded {
        return folded.delays.clone();
    }
    let mut values: Vec<f64> = delays(subject).into_iter().map(|d| d.1).collect();
    values.sort_by(f64::total_cmp);
    values.into_iter().map(|value| (value, 1)).collect()
}

fn frame_delay_distribution(subjects: &[&Subject<'_>]) -> Chart {
    let of_subjects: Vec<Vec<(f64, u64)>> = subjects.iter().map(|s| counted_delays(s)).collect();
    let count = |values: &[(f64, u64)]| values.iter().map(|value| value.1).sum::<u64>();
    let median = |values: &Vec<(f64, u64)>| {
        let half = count(values).div_ceil(2);
        let mut below = 0;
        let mut reached = values.iter().skip_while(|value| {
            below += value.1;
            below < half
        });
        reached.next().map_or(f64::MAX, |value| value.0)
    };
    let typical = of_subjects.iter().map(median).fold(f64::MAX, f64::min);
    let highest = of_subjects.iter().filter_map(|v| v.last()).map(|v| v.0).fold(0.0, f64::max);
    let x = Axis::for_delays(typical, highest);
    let line = |(s, values): (&&Subject<'_>, Vec<(f64, u64)>)| {
        let (all, mut below) = (count(&values) as f64, 0);
        let start = values.first().map(|&(v, _)| (v, 0.0));
        let points = values.iter().map(|&(v, count)| {
            below += count;
            (v, 100.0 * below as f64 / all)
        });
        Line::new(&s.label, s.colour, start.into_iter().chain(points).collect())
    };
    Chart {
        title: "How long frames took".into(),
        caption: "Share of frames shown within a delay. Further left is better.".into(),
        x_label: "frame delay in ms".into(),
        y_label: "% of frames".into(),
        x,
        y: Axis::linear(0.0, 100.0),
        shade: None,
        lines: subjects.iter().zip(of_subjects).map(line).collect(),
        height: 280.0,
    }
}

/// Time in one of the shared links.
fn queue(data: &ReportData<'_>, link: usize) -> Chart {
    let several = data.runs.len() > 1;
    let lines: Vec<Line> = data
        .runs
        .iter()
        .enumerate()
        .map(|(i, run)| {
            let sojourns = run.link(link).departures.iter().map(|d| (d.at, d.sojourn.as_millis_f64()));
            let colour = if several { Colour::Palette(i) } else { Colour::Ink };
            let alone = if run.link_name(link).is_some() { "queue" } else { "bottleneck queue" };
            let label = if several { run.label.as_str() } else { alone };
            Line::new(label, colour, binned(run, sojourns, largest))
        })
        .collect();
    let run = &data.runs[0];
    let (at, title) = match run.link_name(link) {
        Some(name) => (format!("link {name}"), format!("Queue delay at {name}")),
        None => ("the bottleneck".to_owned(), "Queue delay".to_owned()),
    };
    let caption = format!("Time spent at {at}: the slowest packet of every {}.", width(run));
    time_chart(run, title, caption, "ms", delay_axis(&lines), lines)
}

fn fairness(data: &ReportData<'_>) -> Chart {
    let window = Span::from_millis(500);
    let line = |(i, run): (usize, &RunView<'_>)| {
        let points = run.record.folded_fairness.clone().unwrap_or_else(|| {
            jain_windows(&activities(run.record, run.scenario), Time::ZERO, duration(run), window)
        });
        let colour = if data.runs.len() > 1 { Colour::Palette(i) } else { Colour::Ink };
        let points =
            points.into_iter().map(|(at, index)| (at.as_secs_f64() - window.as_secs_f64() / 2.0, index));
        Line::new(
            if data.runs.len() > 1 { run.label.as_str() } else { "Jain's index" },
            colour,
            points.collect(),
        )
    };
    let lines: Vec<Line> = data.runs.iter().enumerate().map(line).collect();
    let lowest = lines.iter().flat_map(|l| l.pieces.iter().flatten()).map(|p| p.1).fold(1.0, f64::min);
    let y = Axis::linear((lowest * 10.0).floor() / 10.0, 1.0);
    let caption = "1 is equal shares among the flows that are on; windows of 500 ms.";
    time_chart(&data.runs[0], "Fairness".into(), caption.into(), "Jain's index", y, lines)
}

fn ssim(run: &RunView<'_>, subjects: &[&Subject<'_>]) -> Chart {
    let lines = quality_lines(subjects, |frame| frame.ssim());
    let lowest = lines.iter().flat_map(|l| l.pieces.iter().flatten()).map(|p| p.1).fold(1.0, f64::min);
    let y = Axis::linear((lowest * 20.0 - 1e-9).floor() / 20.0, 1.0);
    let (title, caption) = of_quality("SSIM", "SSIM (1 is identical)", subjects, run);
    time_chart(run, title, caption, "SSIM", y, lines)
}

fn psnr(run: &RunView<'_>, subjects: &[&Subject<'_>]) -> Chart {
    let lines = quality_lines(subjects, |frame| frame.psnr());
    let values = || lines.iter().flat_map(|l| l.pieces.iter().flatten()).map(|p| p.1);
    let (low, high) = (values().fold(60.0, f64::min), values().fold(0.0, f64::max));
    let y = Axis::linear((low / 5.0).floor() * 5.0, (high / 5.0).ceil() * 5.0);
    let (title, caption) = of_quality("PSNR", "Luma PSNR", subjects, run);
    time_chart(run, title, caption, "dB", y, lines)
}

/// Title and caption of a chart of quality: they say where its values come from.
fn of_quality(measure: &str, name: &str, subjects: &[&Subject<'_>], run: &RunView<'_>) -> (String, String) {
    let is = |source: &str| subjects.iter().any(|s| s.summary.quality == Some(source));
    let (title, origin) = match (is("measured"), is("model"), is("encoder")) {
        (true, false, false) => (" (measured)", "of shown frames against their sources"),
        (false, true, false) => {
            (" (model)", "that an encoder model gives the frames shown: there are no pictures to measure")
        }
        (false, false, true) => (" (encoder)", "of shown frames, by the word of their encoder"),
        _ => ("", "of shown frames, each flow's by the means in brackets"),
    };
    let caption = format!("{name} {origin}. Averaged over {}.", width(run));
    (format!("Picture quality: {measure}{title}"), caption)
}

fn quality_lines(subjects: &[&Subject<'_>], get: fn(&lab::collect::FrameRow) -> Option<f64>) -> Vec<Line> {
    let mut sources = subjects.iter().filter_map(|s| s.summary.quality);
    let first = sources.next();
    let several = sources.any(|source| Some(source) != first);
    let line = |s: &&Subject<'_>| {
        let values = s.record.captured().filter_map(|(at, frame)| Some((at, get(frame)?)));
        let source = s.summary.quality.filter(|_| several);
        let label = source.map_or(s.label.clone(), |source| format!("{} ({source})", s.label));
        // Where nothing was shown there is no quality: two empty bins break the line.
        Line::new(label, s.colour, binned(s.run, values, mean)).broken(2.5 * bin(s.run).as_secs_f64())
    };
    subjects.iter().map(line).collect()
}
