//! What the data says, in sentences.

use super::axis::{milliseconds, percent, rate, short};
use super::markup::escape;
use super::{ReportData, Subject};
use crate::summary::FlowSummary;

/// Subjects up to which each gets sentences of its own.
const EACH: usize = 4;
/// Two delays count as different from this ratio on.
const WORTH_SAYING: f64 = 1.15;

pub(super) fn render(data: &ReportData<'_>, subjects: &[Subject<'_>]) -> String {
    let mut sentences = Vec::new();
    if data.runs.len() > 1 {
        sentences.extend(contrast(subjects));
    }
    if subjects.len() <= EACH {
        sentences.extend(subjects.iter().map(|s| format!("{} {}", named(s), about(s))));
    }
    sentences.extend(about_link(data));
    let items: String = sentences.iter().map(|sentence| format!("<li>{sentence}</li>")).collect();
    format!("<section class=\"findings\"><h2>In short</h2><ul>{items}</ul></section>\n")
}

fn about(subject: &Subject<'_>) -> String {
    let flow = subject.summary;
    let mut text = match &flow.frame_delay_ms {
        Some(delay) => format!(
            "showed half of the frames within {} and 99&nbsp;% within {}",
            milliseconds(delay.p50),
            milliseconds(delay.p99)
        ),
        None => {
            format!("received {} and half of its packets within {}", rate(flow.throughput_bps), owd(flow))
        }
    };
    if let (Some(bitrate), true) = (&flow.bitrate_bps, subject.is_video()) {
        text += &format!(", at {} of video", rate(bitrate.mean));
    }
    if let Some(ssim) = &flow.ssim {
        text += &format!(" with a mean SSIM of {:.3}", ssim.mean);
    }
    text += ". ";
    text + evenness(subject).as_str()
}

fn owd(flow: &FlowSummary) -> String {
    flow.owd_ms.map_or_else(|| "no time at all".to_owned(), |delay| milliseconds(delay.p50))
}

/// Stalls and missing frames.
fn evenness(subject: &Subject<'_>) -> String {
    let (flow, stalls) = (subject.summary, &subject.summary.stalls);
    if !subject.is_video() {
        return match flow.packets.lost {
            0 => "It lost nothing.".to_owned(),
            lost => format!("It lost {lost} packets ({}).", percent(flow.loss)),
        };
    }
    let missing = subject.expected_frames().saturating_sub(flow.frames.displayed);
    let shown = match missing {
        0 => "every frame was shown".to_owned(),
        1 => format!("one of {} frames was not shown", flow.frames.captured),
        n => format!("{n} of {} frames were not shown", flow.frames.captured),
    };
    let total = milliseconds(stalls.total_s * 1e3);
    match stalls.count {
        0 => format!("The picture never stood still; {shown}."),
        1 => format!("The picture stood still once, for {}; {shown}.", milliseconds(stalls.longest_ms)),
        2 => format!("The picture stood still twice, {total} in all; {shown}."),
        n => format!("The picture stood still {n} times, {total} in all; {shown}."),
    }
}

/// The best and the worst of a comparison, if they differ.
fn contrast(subjects: &[Subject<'_>]) -> Option<String> {
    let delay = |s: &Subject<'_>| s.summary.frame_delay_ms.map(|d| d.p90);
    let mut ranked: Vec<(f64, &Subject<'_>)> = subjects.iter().filter_map(|s| Some((delay(s)?, s))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (best, worst) = (ranked.first()?, ranked.last()?);
    let ratio = worst.0 / best.0;
    (ratio >= WORTH_SAYING).then(|| {
        format!(
            "Nine in ten frames took at most {} with {}, {} with {}: {} times as long.",
            milliseconds(best.0),
            named(best.1),
            milliseconds(worst.0),
            named(worst.1),
            short(ratio)
        )
    })
}

fn named(subject: &Subject<'_>) -> String {
    format!("<b class=\"{}\">{}</b>", subject.colour.class(), escape(&subject.label))
}

fn about_link(data: &ReportData<'_>) -> Option<String> {
    if data.runs.len() > 1 {
        return None;
    }
    let summary = data.runs[0].summary;
    let used = summary.link.utilization?;
    let mut text = format!("{} of the link was used", percent(used.min(1.0)));
    if let Some(queue) = &summary.link.queue_ms {
        text += &format!(
            "; packets spent {} in it at the median, {} at the 99th percentile",
            milliseconds(queue.p50),
            milliseconds(queue.p99)
        );
    }
    if let Some(jain) = &summary.jain {
        text += &format!(". {} flows shared it with a Jain index of {:.3}", summary.flows.len(), jain.mean);
    }
    text += &match summary.link.dropped {
        0 => ". It dropped nothing.".to_owned(),
        n => format!(". It dropped {n} packets ({}).", percent(summary.link.loss)),
    };
    Some(text)
}
