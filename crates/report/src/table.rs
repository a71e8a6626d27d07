//! The numbers at the top of the report: one table of the flows with video, one of the others, for they have
//! few columns in common.

use std::fmt::Write;

use crate::Subject;
use crate::axis::{figures, percent};
use crate::markup::escape;

/// Which values of a column are good.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Low,
    High,
    Neither,
}

use Better::{High, Low, Neither};

/// A column.
struct Column {
    /// Its heading in the table, ...
    heading: &'static str,
    /// ... and where it stands by itself, on a narrow screen.
    alone: &'static str,
    unit: &'static str,
    better: Better,
    value: fn(&Subject<'_>) -> Option<f64>,
    write: fn(&Subject<'_>, f64) -> String,
}

const fn column(
    heading: &'static str,
    unit: &'static str,
    better: Better,
    value: fn(&Subject<'_>) -> Option<f64>,
    write: fn(&Subject<'_>, f64) -> String,
) -> Column {
    Column { heading, alone: heading, unit, better, value, write }
}

impl Column {
    const fn alone(self, alone: &'static str) -> Column {
        Column { alone, ..self }
    }
}

const PSNR: &str = "PSNR";
const SSIM: &str = "SSIM";

const COLUMNS: &[Column] = &[
    column("Received", "Mbit/s", High, |s| Some(s.summary.throughput_bps / 1e6), |_, v| figures(v)),
    column("Video", "Mbit/s", High, |s| Some(s.summary.bitrate_bps?.mean / 1e6), |_, v| figures(v)),
    column("Delay P50", "ms", Low, |s| Some(s.summary.frame_delay_ms?.p50), |_, v| figures(v))
        .alone("Frame delay P50"),
    column("P90", "ms", Low, |s| Some(s.summary.frame_delay_ms?.p90), |_, v| figures(v))
        .alone("Frame delay P90"),
    column("P99", "ms", Low, |s| Some(s.summary.frame_delay_ms?.p99), |_, v| figures(v))
        .alone("Frame delay P99"),
    column("Shown", "of frames", High, shown, |s, _| {
        format!("{} / {}", s.summary.frames.displayed, s.summary.frames.captured)
    }),
    column("Late", "frames", Low, late, |_, v| format!("{v}")),
    column(
        "Stalls",
        "times / s",
        Low,
        |s| Some(s.summary.stalls?.total_s),
        |s, v| format!("{} / {}", s.summary.stalls.map_or(0, |stalls| stalls.count), figures(v)),
    ),
    column(PSNR, "dB", High, |s| Some(s.summary.psnr_db?.mean), |_, v| format!("{v:.1}")),
    column(SSIM, "", High, |s| Some(s.summary.ssim?.mean), |_, v| format!("{v:.3}")),
    column("Delay P50", "ms", Low, |s| Some(of_others(s, s.summary.owd_ms)?.p50), |_, v| figures(v))
        .alone("Packet delay P50"),
    column("P90", "ms", Low, |s| Some(of_others(s, s.summary.owd_ms)?.p90), |_, v| figures(v))
        .alone("Packet delay P90"),
    column("P99", "ms", Low, |s| Some(of_others(s, s.summary.owd_ms)?.p99), |_, v| figures(v))
        .alone("Packet delay P99"),
    column("Loss", "of bytes", Low, |s| s.summary.loss, |_, v| percent(v)),
    column("Share", "of traffic", Neither, |s| s.summary.share.filter(|&v| v < 1.0), |_, v| percent(v)),
];

fn of_others<T>(subject: &Subject<'_>, value: Option<T>) -> Option<T> {
    value.filter(|_| !subject.is_video())
}

fn shown(subject: &Subject<'_>) -> Option<f64> {
    let frames = &subject.summary.frames;
    subject.is_video().then(|| frames.displayed as f64 / frames.captured as f64)
}

fn late(subject: &Subject<'_>) -> Option<f64> {
    let frames = &subject.summary.frames;
    (frames.displayed > 0).then_some(frames.late as f64)
}

/// What stands for a value that was not measured.
const NONE: &str = "–";

/// A column of a table, with what only the whole table knows.
struct Used<'a> {
    column: &'a Column,
    unit: String,
    /// The text of the best cells, if they are to stand out. What reads the same is equally good.
    best: Option<String>,
}

impl<'a> Used<'a> {
    /// The column in a table of these subjects, unless none of them has a value for it.
    fn of(column: &'a Column, subjects: &[&Subject<'_>], mark: bool) -> Option<Used<'a>> {
        subjects.iter().find_map(|subject| (column.value)(subject))?;
        let (unit, comparable) = match column.heading {
            PSNR | SSIM => match one_source(subjects) {
                Some(source) if column.unit.is_empty() => (source.to_owned(), true),
                Some(source) => (format!("{}, {source}", column.unit), true),
                None => (column.unit.to_owned(), false),
            },
            _ => (column.unit.to_owned(), true),
        };
        let best = if mark && comparable { best(column, subjects) } else { None };
        Some(Used { column, unit, best })
    }

    fn cell(&self, subject: &Subject<'_>) -> (String, &'static str) {
        let Some(value) = (self.column.value)(subject) else { return (NONE.to_owned(), "") };
        let text = (self.column.write)(subject, value);
        let class = if self.best.as_ref() == Some(&text) { " class=\"best\"" } else { "" };
        let of_quality = matches!(self.column.heading, PSNR | SSIM) && self.unit == self.column.unit;
        let source = subject.summary.quality.filter(|_| of_quality);
        let source = source.map_or(String::new(), |source| format!("<small>{source}</small>"));
        (text + source.as_str(), class)
    }
}

/// Where all these subjects' figures of quality come from, if that is one place.
fn one_source(subjects: &[&Subject<'_>]) -> Option<&'static str> {
    let mut sources = subjects.iter().filter_map(|subject| subject.summary.quality);
    let first = sources.next()?;
    sources.all(|source| source == first).then_some(first)
}

fn best(column: &Column, subjects: &[&Subject<'_>]) -> Option<String> {
    let valued = subjects.iter().filter_map(|s| Some(((column.value)(s)?, s)));
    let (value, subject) = match column.better {
        Low => valued.min_by(|a, b| a.0.total_cmp(&b.0))?,
        High => valued.max_by(|a, b| a.0.total_cmp(&b.0))?,
        Neither => return None,
    };
    Some((column.write)(subject, value))
}

/// The tables. With `mark`, the best value of each column stands out.
pub(crate) fn render(subjects: &[Subject<'_>], mark: bool) -> String {
    let (video, others): (Vec<_>, Vec<_>) = subjects.iter().partition(|subject| subject.is_video());
    let both = !video.is_empty() && !others.is_empty();
    let title = |title| if both { format!("<h3>{title}</h3>") } else { String::new() };
    let tables = [(title("Video"), video), (title("Without video"), others)];
    let some = tables.into_iter().filter(|(_, subjects)| !subjects.is_empty());
    some.map(|(title, subjects)| table(&title, &subjects, mark)).collect()
}

fn table(title: &str, subjects: &[&Subject<'_>], mark: bool) -> String {
    let used: Vec<Used<'_>> = COLUMNS.iter().filter_map(|column| Used::of(column, subjects, mark)).collect();
    let mut out = format!("<section class=\"card figures\">{title}<table><thead><tr><th></th>");
    for Used { column, unit, .. } in &used {
        let _ = write!(out, "<th>{}<small>{unit}</small></th>", column.heading);
    }
    out.push_str("</tr></thead><tbody>");
    for subject in subjects {
        out.push_str(&row(subject, &used));
    }
    out.push_str("</tbody></table></section>\n");
    out
}

fn row(subject: &Subject<'_>, columns: &[Used<'_>]) -> String {
    let (class, label) = (subject.colour.class(), escape(&subject.label));
    let mut out = format!("<tr><th class=\"{class}\"><i class=\"dot\"></i><span>{label}");
    if !subject.label.starts_with(&subject.flow.cc) {
        let _ = write!(out, "<small>{}</small>", escape(&subject.flow.cc));
    }
    out.push_str("</span></th>");
    for column in columns {
        let (text, class) = column.cell(subject);
        let (alone, unit) = (column.column.alone, &column.unit);
        let label = if unit.is_empty() { alone.to_owned() } else { format!("{alone}, {unit}") };
        let _ = write!(out, "<td{class} data-label=\"{label}\">{text}</td>");
    }
    out.push_str("</tr>");
    out
}
