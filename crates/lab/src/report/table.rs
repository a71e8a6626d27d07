//! The numbers at the top of the report.

use std::fmt::Write;

use super::Subject;
use super::axis::figures;
use super::markup::escape;

/// Which values of a column are good.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Low,
    High,
    Neither,
}

use Better::{High, Low, Neither};

/// A column: heading, unit, which values are good, the value of a subject, and how it is written.
struct Column {
    heading: &'static str,
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
    Column { heading, unit, better, value, write }
}

const COLUMNS: &[Column] = &[
    column("Received", "Mbit/s", High, |s| Some(s.summary.throughput_bps / 1e6), |_, v| figures(v)),
    column(
        "Video",
        "Mbit/s",
        High,
        |s| Some(of_video(s, s.summary.bitrate_bps)?.mean / 1e6),
        |_, v| figures(v),
    ),
    column("Delay P50", "ms", Low, |s| Some(s.summary.frame_delay_ms?.p50), |_, v| figures(v)),
    column("P90", "ms", Low, |s| Some(s.summary.frame_delay_ms?.p90), |_, v| figures(v)),
    column("P99", "ms", Low, |s| Some(s.summary.frame_delay_ms?.p99), |_, v| figures(v)),
    column(
        "Shown",
        "of frames",
        High,
        |s| of_video(s, Some(shown(s))),
        |_, v| format!("{} %", figures(v * 100.0)),
    ),
    column("Late", "frames", Low, |s| of_video(s, Some(s.summary.frames.late as f64)), |_, v| format!("{v}")),
    column(
        "Stalls",
        "times / s",
        Low,
        |s| of_video(s, Some(s.summary.stalls.total_s)),
        |s, v| format!("{} / {}", s.summary.stalls.count, figures(v)),
    ),
    column("PSNR", "dB", High, |s| Some(s.summary.psnr_db?.mean), |_, v| format!("{v:.1}")),
    column("SSIM", "", High, |s| Some(s.summary.ssim?.mean), |_, v| format!("{v:.3}")),
    column("Packet delay P50", "ms", Low, |s| Some(of_backlog(s, s.summary.owd_ms)?.p50), |_, v| figures(v)),
    column("P99", "ms", Low, |s| Some(of_backlog(s, s.summary.owd_ms)?.p99), |_, v| figures(v)),
    column("Loss", "of bytes", Low, |s| Some(s.summary.loss), |_, v| format!("{} %", figures(v * 100.0))),
    column(
        "Share",
        "of traffic",
        Neither,
        |s| s.summary.share.filter(|&v| v < 0.9995),
        |_, v| format!("{} %", figures(v * 100.0)),
    ),
];

fn of_video<T>(subject: &Subject<'_>, value: Option<T>) -> Option<T> {
    value.filter(|_| subject.is_video())
}

fn of_backlog<T>(subject: &Subject<'_>, value: Option<T>) -> Option<T> {
    value.filter(|_| !subject.is_video())
}

fn shown(subject: &Subject<'_>) -> f64 {
    subject.summary.frames.displayed as f64 / subject.expected_frames().max(1) as f64
}

impl Column {
    /// The text of the best cells, if the column has good and bad ones. What reads the same is equally good.
    fn best(&self, subjects: &[Subject<'_>]) -> Option<String> {
        let valued = subjects.iter().filter_map(|s| Some(((self.value)(s)?, s)));
        let (value, subject) = match self.better {
            Low => valued.min_by(|a, b| a.0.total_cmp(&b.0))?,
            High => valued.max_by(|a, b| a.0.total_cmp(&b.0))?,
            Neither => return None,
        };
        Some((self.write)(subject, value))
    }
}

/// The table. With `mark`, the best value of each column stands out.
pub(super) fn render(subjects: &[Subject<'_>], mark: bool) -> String {
    let used: Vec<&Column> =
        COLUMNS.iter().filter(|column| subjects.iter().any(|s| (column.value)(s).is_some())).collect();
    let best: Vec<Option<String>> = used.iter().map(|c| c.best(subjects).filter(|_| mark)).collect();
    let mut out = String::from("<section class=\"card scroll\"><table><thead><tr><th></th>");
    for column in &used {
        let _ = write!(out, "<th>{}<small>{}</small></th>", column.heading, column.unit);
    }
    out.push_str("</tr></thead><tbody>");
    for subject in subjects {
        out.push_str(&row(subject, &used, &best));
    }
    out.push_str("</tbody></table></section>\n");
    out
}

fn row(subject: &Subject<'_>, columns: &[&Column], best: &[Option<String>]) -> String {
    let (class, label) = (subject.colour.class(), escape(&subject.label));
    let mut out = format!("<tr><th class=\"{class}\"><i class=\"dot\"></i>{label}");
    if !subject.label.starts_with(&subject.flow.cc) {
        let _ = write!(out, "<small>{}</small>", escape(&subject.flow.cc));
    }
    out.push_str("</th>");
    for (column, best) in columns.iter().zip(best) {
        let text = (column.value)(subject).map_or_else(|| "–".to_owned(), |v| (column.write)(subject, v));
        let class = if best.as_ref() == Some(&text) { " class=\"best\"" } else { "" };
        let _ = write!(out, "<td{class}>{text}</td>");
    }
    out.push_str("</tr>");
    out
}
