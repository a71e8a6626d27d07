//! A run in numbers: what `--json` prints, what the table for people shows, what the report opens with.
//!
//! `docs/json.md` documents every key. Times are in milliseconds (`_ms`) or seconds (`_s`), rates in bit/s (`_bps`); what a
//! run cannot say is `null`.

mod flow;

use netsim::RateProcess;
use serde::Serialize;
use units::{Bytes, Span, Time};

use crate::collect::Collector;
use crate::metrics::{Activity, Spread, jain_windows};
use crate::scenario::Scenario;

pub use flow::{
    FlowSummary, FrameCounts, Mean5, PacketCounts, Percentiles, RatePercentiles, Simulated, StallSummary,
};

/// Windows of Jain's index (seed 000, section 6.9).
const JAIN_WINDOW: Span = Span::from_millis(500);

/// Where a run came from: with these four, anyone can repeat it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// The commit of the program.
    pub commit: String,
    /// The event hash.
    pub hash: String,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// The commit of the program.
    pub commit: String,
    /// The event hash: the same for the same scenario, seed and commit, always.
    pub hash: String,
    /// Virtual seconds run.
    pub duration_s: f64,
    /// Virtual seconds left out of the metrics at the start.
    pub warmup_s: f64,
    /// The bottleneck.
    pub link: LinkSummary,
    /// Jain's fairness index over windows of 500 ms; `null` unless two flows were on at once.
    pub jain: Option<JainSummary>,
    /// The flows, in the scenario's order.
    pub flows: Vec<FlowSummary>,
}

/// The bottleneck in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSummary {
    /// Bits that left over bits offered.
    pub utilization: Option<f64>,
    /// Bytes dropped over bytes that arrived, if any did.
    pub loss: Option<f64>,
    /// Time in the link before propagation: waiting and serialisation.
    pub queue_ms: Option<Percentiles>,
    /// The most packets that stood in the queue.
    pub peak_packets: u32,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Fairness in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JainSummary {
    /// Mean over windows.
    pub mean: f64,
    /// 10th percentile over windows.
    pub p10: f64,
}

/// What a summary is made of besides the record.
pub struct Context<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Where the run came from.
    pub provenance: Provenance,
    /// Each flow's time between frames, in the scenario's order.
    pub intervals: &'a [Span],
    /// The bottleneck's rate.
    pub rate: &'a RateProcess,
    /// Bytes of a media packet's header.
    pub header: u32,
}

impl Context<'_> {
    fn from(&self) -> Time {
        Time::ZERO + self.scenario.warmup
    }

    fn to(&self) -> Time {
        Time::ZERO + self.scenario.duration
    }
}

/// Summarises a run.
pub fn summarise(run: &Collector, context: &Context<'_>) -> Summary {
    let scenario = context.scenario;
    let Provenance { scenario: name, seed, commit, hash } = context.provenance.clone();
    Summary {
        scenario: name,
        seed,
        commit,
        hash,
        duration_s: scenario.duration.as_secs_f64(),
        warmup_s: scenario.warmup.as_secs_f64(),
        link: link(run, context),
        jain: fairness(run, context),
        flows: (0..run.flows.len()).map(|index| flow::summarise(run, index, context)).collect(),
    }
}

fn link(run: &Collector, context: &Context<'_>) -> LinkSummary {
    let (from, to) = (context.from(), context.to());
    let departed = run.link.departures.iter().filter(|d| d.at >= from && d.at <= to);
    let delivered: u64 = departed.clone().map(|d| u64::from(d.size)).sum();
    let offered = context.rate.capacity(from, to).map(Bytes::get).filter(|&bytes| bytes > 0);
    let totals = &run.link.totals;
    let arrived_bytes = totals.accepted_bytes + totals.dropped_bytes;
    let dropped: u64 = totals.dropped.values().sum();
    LinkSummary {
        utilization: offered
            .filter(|_| !run.link.departures.is_empty())
            .map(|offered| delivered as f64 / offered as f64),
        loss: (arrived_bytes > 0).then(|| totals.dropped_bytes as f64 / arrived_bytes as f64),
        queue_ms: Spread::of(departed.map(|d| d.sojourn.as_millis_f64())).map(Percentiles::from),
        peak_packets: totals.most_packets,
        packets: totals.accepted + dropped,
        dropped,
    }
}

/// When each flow was on, and what it delivered.
pub fn activities(run: &Collector, scenario: &Scenario) -> Vec<Activity> {
    let flows = run.flows.iter().zip(&scenario.flows);
    flows
        .map(|(record, flow)| Activity {
            start: Time::ZERO + flow.start,
            stop: Time::ZERO + flow.stop.unwrap_or(scenario.duration).min(scenario.duration),
            delivered: record.deliveries(),
        })
        .collect()
}

fn fairness(run: &Collector, context: &Context<'_>) -> Option<JainSummary> {
    let flows = activities(run, context.scenario);
    let windows = jain_windows(&flows, context.from(), context.to(), JAIN_WINDOW);
    let spread = Spread::of(windows.into_iter().map(|(_, index)| index))?;
    Some(JainSummary { mean: spread.mean, p10: spread.p10 })
}
