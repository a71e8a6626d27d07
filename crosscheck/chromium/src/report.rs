//! Cells as rows of Markdown and as JSON.

use std::fmt::Write;
use std::ops::Range;

use serde::Serialize;

use crate::figures::{self, Heard, Shown};
use crate::sender::Sent;

/// What one way of receiving made of a cell.
#[derive(Debug, Serialize)]
pub struct Received {
    /// Its name.
    pub way: String,
    /// Share of the frames that were handed over, and no newer one right after them, in percent.
    pub apart_percent: f64,
    /// Frames as they left decoder and jitter buffer.
    pub decoded: Shown,
    /// 95th percentile of the time between two frames as the receiver plans to show them, in intervals.
    pub planned_spacing_p95: f64,
    /// Frames as they were handed to composition (`presentationTime`).
    pub presented: Shown,
    /// Mean time in the jitter buffer in ms (`jitterBufferDelay / jitterBufferEmittedCount`).
    pub jitter_buffer_ms: f64,
    /// `freezeCount` while it was measured, and so on.
    pub freezes: f64,
    /// Packets asked for again.
    pub nacks: f64,
    /// Packets that came again.
    pub repaired: f64,
    /// Key frames asked for.
    pub plis: f64,
    /// The same by the sender's account, from the beginning.
    pub key_requests: u32,
    /// Share of the datagrams that the link lost, in percent.
    pub lost_percent: f64,
}

impl Received {
    /// What a receiver reports, with the sender's account, of the frames in `range`; frame 0 was captured at
    /// `start` on the page's clock, in ms.
    pub fn new(heard: &Heard, sent: &Sent, start: f64, range: Range<u32>) -> Received {
        let shown = |displays: Vec<(u32, f64)>| figures::shown(&displays, start, range.start, range.end);
        let grown = |name: &str| {
            let of =
                |stats: &std::collections::BTreeMap<String, f64>| stats.get(name).copied().unwrap_or(0.0);
            of(&heard.after) - of(&heard.before)
        };
        Received {
            way: heard.name.clone(),
            decoded: shown(heard.decoded.iter().map(|&(timestamp, at, _)| (timestamp, at)).collect()),
            apart_percent: figures::apart(&heard.decoded, range.clone()),
            planned_spacing_p95: figures::planned_spacing(&heard.decoded, range.clone()),
            presented: shown(heard.presented.clone()),
            jitter_buffer_ms: 1e3 * grown("jitterBufferDelay") / grown("jitterBufferEmittedCount"),
            freezes: grown("freezeCount"),
            nacks: grown("nackCount"),
            repaired: grown("retransmittedPacketsReceived"),
            plis: grown("pliCount"),
            key_requests: sent.key_requests,
            lost_percent: 100.0 * f64::from(sent.lost) / f64::from(sent.offered.max(1)),
        }
    }
}

/// A cell.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// The network.
    pub round_trip_ms: u32,
    /// See [`Cell`](crate::path::Cell).
    pub loss_percent: f64,
    /// See [`Cell`](crate::path::Cell).
    pub jitter_ms: u32,
    /// Of loss and jitter.
    pub seed: u64,
    /// By each way of receiving.
    pub received: Vec<Received>,
    /// 99th percentile of how late datagrams left the links.
    pub sender_late_p99_ms: f64,
    /// 99th percentile of how late the page's timers were.
    pub page_late_p99_ms: f64,
    /// By how much the clocks' difference may be wrong.
    pub clock_error_ms: f64,
    /// By how much it changed meanwhile.
    pub clock_drift_ms: f64,
}

impl Measured {
    /// How much the machine disturbed it; a page's timer says a quarter as much.
    pub fn disturbance_ms(&self) -> f64 {
        self.sender_late_p99_ms.max(self.page_late_p99_ms / 4.0)
    }
}

/// A cell on one line, for the impatient.
pub fn line(measured: &Measured) -> String {
    let mut text = format!(
        "{} ms, {} %, {} ms, seed {}: late {:.1} and {:.1} ms, clock ±{:.2} ms",
        measured.round_trip_ms,
        measured.loss_percent,
        measured.jitter_ms,
        measured.seed,
        measured.sender_late_p99_ms,
        measured.page_late_p99_ms,
        measured.clock_error_ms,
    );
    for received in &measured.received {
        let of = |shown: &Shown| {
            format!(
                "{:.1} %, {:.2}, {:.0}/{:.0}",
                shown.shown_percent, shown.spacing_p95, shown.delay_p50_ms, shown.delay_p95_ms
            )
        };
        let Received {
            way,
            apart_percent,
            planned_spacing_p95,
            jitter_buffer_ms,
            freezes,
            nacks,
            repaired,
            plis,
            lost_percent,
            ..
        } = received;
        write!(
            text,
            "\n  {way:12} {apart_percent:.1} % apart; decoded {}; planned {planned_spacing_p95:.2}; composed {}; buffer {jitter_buffer_ms:.0} ms, {freezes} freezes, \
             {nacks} asked for, {repaired} repaired, {plis} PLI, {lost_percent:.2} % lost",
            of(&received.decoded),
            of(&received.presented),
        )
        .expect("text is written");
    }
    text
}

/// Mean over the seeds of a cell.
fn mean(cells: &[&Measured], way: usize, figure: impl Fn(&Received) -> f64) -> f64 {
    cells.iter().map(|cell| figure(&cell.received[way])).sum::<f64>() / cells.len() as f64
}

/// A column: its head, decimals, and what it shows.
type Figure = (&'static str, usize, fn(&Received) -> f64);

/// All cells, a table for each way of receiving.
pub fn markdown(all: &[Measured]) -> String {
    let ways = all.first().map_or(0, |cell| cell.received.len());
    (0..ways).map(|way| table(all, way)).collect::<Vec<_>>().join("\n")
}

fn table(all: &[Measured], way: usize) -> String {
    let figures: [Figure; 12] = [
        ("apart, %", 1, |received| received.apart_percent),
        ("handed over P50, ms", 0, |received| received.decoded.delay_p50_ms),
        ("P95", 0, |received| received.decoded.delay_p95_ms),
        ("composed, %", 1, |received| received.presented.shown_percent),
        ("spacing", 2, |received| received.presented.spacing_p95),
        ("composed P50, ms", 0, |received| received.presented.delay_p50_ms),
        ("P95", 0, |received| received.presented.delay_p95_ms),
        ("planned spacing", 2, |received| received.planned_spacing_p95),
        ("jitter buffer, ms", 0, |received| received.jitter_buffer_ms),
        ("freezes", 1, |received| received.freezes),
        ("asked for again", 0, |received| received.nacks),
        ("key frames asked for", 1, |received| received.plis),
    ];
    let names: Vec<&str> = figures.iter().map(|figure| figure.0).collect();
    let mut text = format!("`{}`\n\n", all[0].received[way].way);
    text += &format!("| round trip, ms | loss, % | jitter, ms | {} |\n", names.join(" | "));
    text += &format!("|{}\n", "---|".repeat(3 + figures.len()));
    let network = |cell: &Measured| (cell.round_trip_ms, (cell.loss_percent * 100.0) as u32, cell.jitter_ms);
    for cells in all.chunk_by(|a, b| network(a) == network(b)) {
        let cells: Vec<&Measured> = cells.iter().collect();
        let Measured { round_trip_ms, loss_percent, jitter_ms, .. } = cells[0];
        let figures = figures.map(|(_, digits, of)| format!("{:.digits$}", mean(&cells, way, of)));
        text += &format!("| {round_trip_ms} | {loss_percent} | {jitter_ms} | {} |\n", figures.join(" | "));
    }
    text
}
