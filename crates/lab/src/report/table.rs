//! The numbers at the top of the report.

use std::fmt::Write;

use super::axis::{percent, short};
use super::markup::escape;
use super::Subject;

/// A heading, its unit, and the cell of a subject.
type Column = (&'static str, &'static str, fn(&Subject<'_>) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("Received", "Mbit/s", |s| Some(short(s.summary.throughput_bps / 1e6))),
    ("Video", "Mbit/s", |s| Some(short(s.summary.bitrate_bps.filter(|_| s.is_video())?.mean / 1e6))),
    ("Delay P50", "ms", |s| Some(short(s.summary.frame_delay_ms?.p50))),
    ("P90", "ms", |s| Some(short(s.summary.frame_delay_ms?.p90))),
    ("P99", "ms", |s| Some(short(s.summary.frame_delay_ms?.p99))),
    ("Shown", "of frames", |s| {
        let frames = &s.summary.frames;
        s.is_video().then(|| percent(frames.displayed as f64 / frames.captured.max(1) as f64))
    }),
    ("Late", "frames", |s| s.is_video().then(|| s.summary.frames.late.to_string())),
    ("Stalls", "times / s", |s| {
        let stalls = &s.summary.stalls;
        s.is_video().then(|| format!("{} / {}", stalls.count, short(stalls.total_s)))
    }),
    ("PSNR", "dB", |s| Some(format!("{:.1}", s.summary.psnr_db?.mean))),
    ("SSIM", "", |s| Some(format!("{:.3}", s.summary.ssim?.mean))),
    ("Packet delay P50", "ms", |s| Some(short(s.summary.owd_ms.filter(|_| !s.is_video())?.p50))),
    ("P99", "ms", |s| Some(short(s.summary.owd_ms.filter(|_| !s.is_video())?.p99))),
    ("Loss", "of bytes", |s| Some(percent(s.summary.loss))),
    ("Share", "of traffic", |s| s.summary.share.filter(|&share| share < 0.9995).map(percent)),
];

pub(super) fn render(subjects: &[Subject<'_>]) -> String {
    let used: Vec<&Column> =
        COLUMNS.iter().filter(|column| subjects.iter().any(|s| column.2(s).is_some())).collect();
    let mut out = String::from("<section class=\"card scroll\"><table><thead><tr><th></th>");
    for (heading, unit, _) in &used {
        let _ = write!(out, "<th>{heading}<small>{unit}</small></th>");
    }
    out.push_str("</tr></thead><tbody>");
    for subject in subjects {
        let _ = write!(
            out,
            "<tr><th class=\"{}\"><i class=\"dot\"></i>{}<small>{}</small></th>",
            subject.colour.class(),
            escape(&subject.label),
            escape(&subject.flow.cc)
        );
        for (.., cell) in &used {
            let _ = write!(out, "<td>{}</td>", cell(subject).unwrap_or_else(|| "–".to_owned()));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></section>\n");
    out
}
