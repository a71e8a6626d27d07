//! Results as tables for people.

use lab::summary::{FlowSummary, Summary};

use crate::table::Table;

const HEADS: [&str; 12] = [
    "Mbit/s",
    "loss",
    "delay p50",
    "p90",
    "p99",
    "shown",
    "late",
    "stalls",
    "video Mbit/s",
    "PSNR",
    "SSIM",
    "queue p90",
];

/// One row per flow of one run.
pub fn of_flows(summary: &Summary) -> String {
    let rows = summary.flows.iter().map(|flow| (named(flow), flow, summary));
    table("flow", rows)
}

/// One row per run: the first flow of each, by its controller.
pub fn of_runs<'a>(summaries: impl Iterator<Item = &'a Summary>) -> String {
    table(
        "controller",
        summaries.filter_map(|summary| summary.flows.first().map(|flow| (flow.cc.clone(), flow, summary))),
    )
}

fn named(flow: &FlowSummary) -> String {
    if flow.name == flow.cc { flow.name.clone() } else { format!("{} ({})", flow.name, flow.cc) }
}

fn table<'a>(head: &str, rows: impl Iterator<Item = (String, &'a FlowSummary, &'a Summary)>) -> String {
    let mut table = Table::new(std::iter::once(head).chain(HEADS));
    for (name, flow, summary) in rows {
        table.row(std::iter::once(name).chain(cells(flow, summary)));
    }
    format!(
        "{table}\nDelays are of frames, capture to display, in ms; the queue is the bottleneck's, in ms; PSNR in dB."
    )
}

fn cells(flow: &FlowSummary, summary: &Summary) -> [String; 12] {
    let delay = flow.frame_delay_ms.as_ref();
    let frames = &flow.frames;
    [
        mbit(Some(flow.throughput_bps)),
        format!("{:.2} %", flow.loss * 100.0),
        number(delay.map(|d| d.p50), 1),
        number(delay.map(|d| d.p90), 1),
        number(delay.map(|d| d.p99), 1),
        format!("{}/{}", frames.displayed, frames.captured),
        frames.late.to_string(),
        format!("{} / {:.1} s", flow.stalls.count, flow.stalls.total_s),
        mbit(flow.bitrate_bps.as_ref().map(|b| b.mean)),
        number(flow.psnr_db.as_ref().map(|q| q.mean), 1),
        number(flow.ssim.as_ref().map(|q| q.mean), 3),
        number(summary.link.queue_ms.as_ref().map(|q| q.p90), 1),
    ]
}

fn mbit(bps: Option<f64>) -> String {
    number(bps.map(|bps| bps / 1e6), 2)
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}
