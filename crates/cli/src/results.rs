//! Results as tables for people.

use lab::summary::{FlowSummary, LinkSummary, NamedLink, Summary};
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
/// What is said of each of several links. The last of a flow's columns is left out then.
const LINK_HEADS: [&str; 9] =
    ["rate Mbit/s", "used", "queue p50", "p90", "p99", "peak", "packets", "dropped", "loss"];
/// Letters of a row's name; more are cut off.
const NAME: usize = 40;

/// One row per flow of one run.
pub fn of_flows(summary: &Summary) -> String {
    let flows = table("flow", summary.flows.iter().map(|flow| (named(flow), flow, summary)).collect());
    flows + of_links(summary.links.iter().map(|link| (link.name.clone(), link)).collect()).as_str()
}

/// One row per run: the first flow of each, by its controller.
pub fn of_runs<'a>(summaries: impl Iterator<Item = &'a Summary>) -> String {
    let firsts = summaries.filter_map(|summary| Some((summary, summary.flows.first()?)));
    let runs: Vec<_> = firsts.map(|(summary, flow)| (flow.cc.clone(), flow, summary)).collect();
    let named = |(cc, _, run): &(String, _, &'a Summary)| {
        let links = run.links.iter().map(|link| (format!("{} ({cc})", link.name), link));
        links.collect::<Vec<_>>()
    };
    let links = runs.iter().flat_map(named).collect();
    table("controller", runs) + of_links(links).as_str()
}

/// A table of several links, a paragraph of its own; nothing of a lone one, whose queue the flows' table has.
fn of_links(rows: Vec<(String, &NamedLink)>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(std::iter::once("link").chain(LINK_HEADS));
    for (name, link) in rows {
        table.row(std::iter::once(shortened(name)).chain(link_cells(link)));
    }
    format!("\n\n{table}\nTime in each link's queue in ms; its deepest queue in packets.")
}

fn link_cells(NamedLink { rate_bps, figures, .. }: &NamedLink) -> [String; 9] {
    let LinkSummary { utilization, loss, queue_ms, peak_packets, packets, dropped } = figures;
    let queue = queue_ms.as_ref();
    [
        mbit(*rate_bps),
        text(utilization.map(percent)),
        number(queue.map(|q| q.p50), 1),
        number(queue.map(|q| q.p90), 1),
        number(queue.map(|q| q.p99), 1),
        peak_packets.to_string(),
        packets.to_string(),
        dropped.to_string(),
        text(loss.map(percent)),
    ]
}

fn named(flow: &FlowSummary) -> String {
    if flow.name == flow.cc { flow.name.clone() } else { format!("{} ({})", flow.name, flow.cc) }
}

fn table(head: &str, rows: Vec<(String, &FlowSummary, &Summary)>) -> String {
    let modelled = rows.iter().any(|(_, flow, _)| flow.quality == Some("model"));
    let several = rows.iter().any(|(_, _, summary)| !summary.links.is_empty());
    let columns = HEADS.len() - usize::from(several);
    let mut table = Table::new(std::iter::once(head).chain(HEADS.into_iter().take(columns)));
    for (name, flow, summary) in rows {
        table.row(std::iter::once(shortened(name)).chain(cells(flow, summary).into_iter().take(columns)));
    }
    let queue = if several { "" } else { " the queue is the bottleneck's, in ms;" };
    let of_models = if modelled {
        "\nPSNR and SSIM of quality `model` are an encoder model's: there are no pictures to measure."
    } else {
        ""
    };
    format!(
        "{table}\nDelays are of frames, capture to display, in ms;{queue} PSNR in dB. –: not \
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
    fn several_links_have_a_table_of_their_own() {
        let link = |name: &str| format!("[[link]]\nname = \"{name}\"\nrate = \"2mbit\"\ndelay = \"5ms\"\n");
        let (links, flow) =
            (link("ab") + link("cd").as_str(), "[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n");
        let text = format!("duration = \"2s\"\n{links}{flow}");
        let scenario = Scenario::parse(&text, Path::new("x.toml")).expect("a scenario");
        let summary = run(&scenario, &RunOptions::default()).expect("it runs").summary;
        let (one, two) = (of_flows(&summary), of_runs([&summary, &summary].into_iter()));
        for (text, rows) in [(&one, ["ab ", "cd "]), (&two, ["ab (cubic) ", "cd (cubic) "])] {
            assert!(!text.contains("bottleneck") && text.contains("\n\nlink "), "{text}");
            assert!(rows.iter().all(|row| text.contains(&format!("\n{row}"))), "{text}");
        }
        let cells = link_cells(&summary.links[0]);
        assert_eq!((cells[0].as_str(), cells.len()), ("2.00", LINK_HEADS.len()), "{cells:?}");
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
