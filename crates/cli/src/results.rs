//! Results as tables for people.

use lab::summary::{FlowSummary, Summary};
use report::percent;

use crate::table::Table;

const HEADS: [&str; 13] = [
    "Mbit/s",
    "loss",
    "delay p50",
    "p90",
    "p99",
    "shown",
    "late",
    "stalls",
    "video Mbit/s",
    "quality",
    "PSNR",
    "SSIM",
    "queue p90",
];
/// Letters of a row's name; more are cut off.
const NAME: usize = 40;

/// One row per flow of one run.
pub fn of_flows(summary: &Summary) -> String {
    table("flow", summary.flows.iter().map(|flow| (named(flow), flow, summary)).collect())
}

/// One row per run: the first flow of each, by its controller.
pub fn of_runs<'a>(summaries: impl Iterator<Item = &'a Summary>) -> String {
    let firsts = summaries.filter_map(|summary| Some((summary, summary.flows.first()?)));
    table("controller", firsts.map(|(summary, flow)| (flow.cc.clone(), flow, summary)).collect())
}

fn named(flow: &FlowSummary) -> String {
    if flow.name == flow.cc { flow.name.clone() } else { format!("{} ({})", flow.name, flow.cc) }
}

fn table(head: &str, rows: Vec<(String, &FlowSummary, &Summary)>) -> String {
    let modelled = rows.iter().any(|(_, flow, _)| flow.quality == Some("model"));
    let mut table = Table::new(std::iter::once(head).chain(HEADS));
    for (name, flow, summary) in rows {
        table.row(std::iter::once(shortened(name)).chain(cells(flow, summary)));
    }
    let of_models = if modelled {
        "\nPSNR and SSIM of quality `model` are an encoder model's: there are no pictures to measure."
    } else {
        ""
    };
    format!(
        "{table}\nDelays are of frames, capture to display, in ms; the queue is the bottleneck's, in ms; PSNR in dB. –: not \
         measured.{of_models}"
    )
}

fn shortened(name: String) -> String {
    if name.chars().count() <= NAME { name } else { name.chars().take(NAME - 1).chain(['…']).collect() }
}

fn cells(flow: &FlowSummary, summary: &Summary) -> [String; 13] {
    let delay = flow.frame_delay_ms.as_ref();
    let frames = Some(&flow.frames).filter(|frames| frames.captured > 0);
    [
        mbit(Some(flow.throughput_bps)),
        text(flow.loss.map(percent)),
        number(delay.map(|d| d.p50), 1),
        number(delay.map(|d| d.p90), 1),
        number(delay.map(|d| d.p99), 1),
        text(frames.map(|frames| format!("{}/{}", frames.displayed, frames.captured))),
        text(frames.filter(|frames| frames.displayed > 0).map(|frames| frames.late.to_string())),
        text(flow.stalls.map(|stalls| format!("{} / {:.1} s", stalls.count, stalls.total_s))),
        mbit(flow.bitrate_bps.as_ref().map(|b| b.mean)),
        text(flow.quality.map(str::to_owned)),
        number(flow.psnr_db.as_ref().map(|q| q.mean), 1),
        number(flow.ssim.as_ref().map(|q| q.mean), 3),
        number(summary.link.queue_ms.as_ref().map(|q| q.p90), 1),
    ]
}

fn mbit(bps: Option<f64>) -> String {
    number(bps.map(|bps| bps / 1e6), 2)
}

fn number(value: Option<f64>, digits: usize) -> String {
    text(value.map(|value| format!("{value:.digits$}")))
}

fn text(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::run::{RunOptions, run};
    use lab::scenario::Scenario;
    use std::path::Path;

    fn printed(flow: &str, link: &str) -> Vec<String> {
        let link = format!("[link]\nrate = \"5mbit\"\ndelay = \"10ms\"\n{link}");
        let text = format!("duration = \"2s\"\n{link}\n[[flow]]\n{flow}\n");
        let scenario = Scenario::parse(&text, Path::new("x.toml")).expect("a scenario");
        let outcome = run(&scenario, &RunOptions::default()).expect("it runs");
        let cells = cells(&outcome.summary.flows[0], &outcome.summary);
        cells.into_iter().collect()
    }

    fn column(head: &str) -> usize {
        HEADS.iter().position(|of| *of == head).expect("a column")
    }

    #[test]
    fn a_flow_without_video_has_dashes_in_the_columns_of_video() {
        let cells = printed("cc = \"cubic\"\nsource = \"tcp\"", "");
        for head in ["delay p50", "p90", "p99", "shown", "late", "stalls", "video Mbit/s", "quality", "PSNR"]
        {
            assert_eq!(cells[column(head)], "–", "{head}: {cells:?}");
        }
    }

    #[test]
    fn quality_says_where_it_comes_from() {
        let cells = printed("cc = \"sqp\"", "");
        assert_eq!(cells[column("quality")], "model", "{cells:?}");
    }

    #[test]
    fn nothing_shown_is_one_stall_from_beginning_to_end() {
        let cells = printed("cc = \"sqp\"", "blackout = [[\"0s\", \"2s\"]]\n");
        assert_eq!(cells[column("stalls")], "1 / 2.0 s", "{cells:?}");
        assert_eq!([&cells[column("shown")], &cells[column("late")]], ["0/120", "–"], "{cells:?}");
        assert_eq!(cells[column("delay p50")], "–", "{cells:?}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("sqp".to_owned()), "sqp");
        assert_eq!(shortened("x".repeat(60)).chars().count(), NAME);
    }
}
