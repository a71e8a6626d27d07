//! The figures of a row: every figure of a run's summary about the flow, the bottleneck and fairness,
//! flattened under the names that `docs/json.md` has (`frame_delay_ms.p95` is `frame_delay_ms_p95`).

use std::sync::OnceLock;

use lab::summary::{
    FlowSummary, FrameCounts, JainSummary, LinkSummary, Mean5, PacketCounts, Percentiles, RatePercentiles,
    Simulated, StallSummary,
};
use lab::tables::Kind;
use serde::Serialize;
use serde_json::Value;

use crate::axis::Cell;

/// The columns before the figures, besides those of the settings.
pub(crate) const COLUMNS_OF_RUN: [&str; 5] = ["run", "seed", "hash", "flow_number", "flow"];

/// A figure of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Its column's name.
    pub name: String,
    /// Where a summary has it, for people.
    pub about: String,
    /// What its values are, whole numbers or others.
    pub kind: Kind,
    part: Part,
    /// Where the part of the summary has it (RFC 6901).
    pointer: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Flow,
    Link,
    Jain,
}

/// A run's summary as the figures are read from it.
pub(crate) struct Parts<'a> {
    /// What `flows` says of one flow.
    pub flow: &'a Value,
    /// What `link` says of the bottleneck, or `links` of one of several.
    pub link: &'a Value,
    /// What `jain` says of fairness, or null.
    pub jain: &'a Value,
}

impl Figure {
    /// Its value of a run.
    pub fn cell(&self, parts: &Parts<'_>) -> Cell {
        let part = match self.part {
            Part::Flow => parts.flow,
            Part::Link => parts.link,
            Part::Jain => parts.jain,
        };
        let value = part.pointer(&self.pointer).unwrap_or(&Value::Null);
        let cell = match self.kind {
            Kind::Int => value.as_i64().map(Cell::Int),
            Kind::Real => value.as_f64().map(Cell::Real),
            Kind::Text | Kind::Flag => value.as_str().map(|text| Cell::Text(text.to_owned())),
        };
        cell.unwrap_or(Cell::None)
    }

    /// Whether means can be taken of it.
    pub fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Int | Kind::Real)
    }
}

/// All figures of a row, in the order of the summary; the flow's name is none of them.
pub(crate) fn figures() -> &'static [Figure] {
    static FIGURES: OnceLock<Vec<Figure>> = OnceLock::new();
    FIGURES.get_or_init(|| {
        let mut found = Vec::new();
        walk(Part::Flow, "", "", &plain(&whole_flow()), &mut found);
        walk(Part::Link, "link_", "", &plain(&whole_link()), &mut found);
        walk(Part::Jain, "jain_", "", &plain(&JainSummary { mean: 0.0, p10: 0.0 }), &mut found);
        found.retain(|figure| figure.name != "name");
        found
    })
}

fn plain(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("a summary is plain data")
}

fn walk(part: Part, name: &str, pointer: &str, value: &Value, found: &mut Vec<Figure>) {
    let kind = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let joint = if name.is_empty() || name.ends_with('_') { "" } else { "_" };
                walk(part, &format!("{name}{joint}{key}"), &format!("{pointer}/{key}"), value, found);
            }
            return;
        }
        Value::String(_) => Kind::Text,
        Value::Number(number) if number.is_f64() => Kind::Real,
        Value::Number(_) => Kind::Int,
        other => unreachable!("a summary holds numbers and texts, not {other}"),
    };
    let of = match part {
        Part::Flow => "flows[]",
        Part::Link => "link",
        Part::Jain => "jain",
    };
    let about = format!("{of}{} of summary.json", pointer.replace('/', "."));
    found.push(Figure { name: name.to_owned(), about, kind, part, pointer: pointer.to_owned() });
}

/// A flow of which everything is known, so that every figure has its place and kind. A figure that is added
/// to the summary stops this from compiling until it has its place, too.
fn whole_flow() -> FlowSummary {
    let times = Percentiles { mean: 0.0, p50: 0.0, p90: 0.0, p95: 0.0, p99: 0.0, max: 0.0 };
    let rates = RatePercentiles { mean: 0.0, p10: 0.0, p50: 0.0, p90: 0.0 };
    let quality = Mean5 { mean: 0.0, p5: 0.0 };
    let packets =
        PacketCounts { lost: Some(0), retransmitted: Some(0), spurious: Some(0), ..Default::default() };
    FlowSummary {
        name: String::new(),
        cc: String::new(),
        source: "",
        throughput_bps: 0.0,
        goodput_bps: Some(0.0),
        share: Some(0.0),
        loss: Some(0.0),
        owd_ms: Some(times),
        rtt_ms: Some(times),
        first_frame_ms: Some(0.0),
        frame_delay_ms: Some(times),
        frame_rtt_ms: Some(times),
        frames: FrameCounts::default(),
        frame_rate: Some(0.0),
        bitrate_bps: Some(rates),
        psnr_db: Some(quality),
        ssim: Some(quality),
        sqi: Some(0.0),
        quality: Some(""),
        stalls: Some(StallSummary::default()),
        send_rate_cv: Some(0.0),
        simulated: Some(Simulated { bitrate_bps: rates, frame_delay_ms: times }),
        packets,
        feedback_bps: 0.0,
    }
}

fn whole_link() -> LinkSummary {
    LinkSummary {
        utilization: Some(0.0),
        loss: Some(0.0),
        queue_ms: Some(Percentiles { mean: 0.0, p50: 0.0, p90: 0.0, p95: 0.0, p99: 0.0, max: 0.0 }),
        peak_packets: 0,
        packets: 0,
        dropped: 0,
    }
}

/// A figure that people look at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyFigure {
    /// The name of its column in `runs.parquet`.
    pub name: &'static str,
    /// What people call it.
    pub heading: &'static str,
    /// Its unit for people.
    pub unit: &'static str,
    /// What the column is multiplied by to be in that unit.
    pub scale: f64,
}

const fn key(name: &'static str, heading: &'static str, unit: &'static str, scale: f64) -> KeyFigure {
    KeyFigure { name, heading, unit, scale }
}

/// The figures of tables for people, in order.
pub const KEY: [KeyFigure; 8] = [
    key("throughput_bps", "throughput", "Mbit/s", 1e-6),
    key("owd_ms_p95", "packet delay P95", "ms", 1.0),
    key("frame_delay_ms_p50", "frame delay P50", "ms", 1.0),
    key("frame_delay_ms_p95", "frame delay P95", "ms", 1.0),
    key("loss", "loss", "%", 100.0),
    key("stalls_total_s", "stalls", "s", 1.0),
    key("ssim_mean", "SSIM", "", 1.0),
    key("link_queue_ms_p95", "queue P95", "ms", 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_summarys_names_and_kinds() {
        let of = |name: &str| figures().iter().find(|figure| figure.name == name).map(|figure| figure.kind);
        assert_eq!(of("frame_delay_ms_p95"), Some(Kind::Real));
        assert_eq!(of("frames_captured"), Some(Kind::Int));
        assert_eq!(of("packets_lost"), Some(Kind::Int));
        assert_eq!(of("simulated_bitrate_bps_p10"), Some(Kind::Real));
        assert_eq!(of("link_queue_ms_mean"), Some(Kind::Real));
        assert_eq!(of("jain_p10"), Some(Kind::Real));
        assert_eq!(of("cc"), Some(Kind::Text));
        assert_eq!(of("name"), None);
        assert!(KEY.iter().all(|key| of(key.name).is_some()));
        let mut names: Vec<&str> = figures().iter().map(|figure| figure.name.as_str()).collect();
        names.extend(COLUMNS_OF_RUN);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "no name stands twice");
    }

    #[test]
    fn what_is_not_known_is_none_at_every_depth() {
        let null = Value::Null;
        let parts = Parts { flow: &serde_json::json!({ "frame_delay_ms": null }), link: &null, jain: &null };
        assert!(figures().iter().all(|figure| figure.cell(&parts) == Cell::None));
    }
}
