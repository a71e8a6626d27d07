//! A run in numbers: what `--json` prints, what the table for people shows, what the report opens with.
//!
//! `docs/json.md` documents every key. Times are in milliseconds (`_ms`) or seconds (`_s`), rates in bit/s
//! (`_bps`); what a run cannot say is `null`.

mod bottleneck;
mod figures;
mod flow;
mod warnings;

use netsim::RateProcess;
use serde::Serialize;
use units::{Bytes, Span, Time};

use crate::collect::Collector;
use crate::metrics::{Activity, Spread, jain_of_slots};
use crate::scenario::{Flow, Scenario, Settings};

pub use figures::FlowFigures;
pub use flow::{
    FlowSummary, FrameCounts, Mean5, PacketCounts, Percentiles, RatePercentiles, Simulated, StallSummary,
};

pub use warnings::warnings;

/// Windows of Jain's index (SQP, arXiv 2207.11857, section 6.9).
const JAIN_WINDOW: Span = Span::from_millis(500);

/// Where a run came from: with these four, anyone can repeat it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all random streams.
    pub seed: u64,
    /// The commit of the program.
    pub commit: String,
    /// Hash of all events, as 16 hexadecimal digits: the same for the same run.
    pub hash: String,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all random streams.
    pub seed: u64,
    /// The commit of the program.
    pub commit: String,
    /// The event hash: the same for the same scenario, seed and commit, always.
    pub hash: String,
    /// What was changed of the scenario's file, by path, such as `link.rate` or `flow[1].cc`; empty where
    /// nothing was.
    pub settings: Settings,
    /// How long the run lasted, in seconds of virtual time.
    pub duration_s: f64,
    /// Virtual seconds left out of the metrics at the start.
    pub warmup_s: f64,
    /// What to know before the figures are believed, a sentence each: controllers and rate policies that do
    /// not go together.
    pub warnings: Vec<String>,
    /// Figures of the bottleneck; of the first link, where there are several.
    pub link: LinkSummary,
    /// Figures of each link, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<NamedLink>,
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
    /// Packets that arrived at the link, of all flows.
    pub packets: u64,
    /// Packets the link dropped, of all flows and for whatever reason.
    pub dropped: u64,
}

/// One of several links in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedLink {
    /// What the scenario calls it.
    pub name: String,
    /// What it could carry on average after the warm-up, in bit/s; `null` of one without a limit.
    pub rate_bps: Option<f64>,
    /// What it has in common with a lone bottleneck.
    #[serde(flatten)]
    pub figures: LinkSummary,
}

/// Jain's index of fairness, 1 where all flows got the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JainSummary {
    /// Mean over windows.
    pub mean: f64,
    /// 10th percentile over windows.
    pub p10: f64,
}

/// What is known of a run before it begins.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// What is to be run.
    pub scenario: &'a Scenario,
    /// Each flow's time between frames, in the scenario's order.
    pub intervals: &'a [Span],
    /// Bytes of a media packet's header.
    pub header: u32,
}

/// What a summary is made of besides the record.
pub struct Context<'a> {
    /// What was run.
    pub plan: Plan<'a>,
    /// Where the run came from.
    pub provenance: Provenance,
    /// The rate of each shared link.
    pub rates: &'a [RateProcess],
}

impl Plan<'_> {
    fn from(&self) -> Time {
        Time::ZERO + self.scenario.warmup
    }

    fn to(&self) -> Time {
        Time::ZERO + self.scenario.duration
    }

    /// A flow's time from the warm-up on and as long as it was on.
    fn view(&self, flow: &Flow) -> (Time, Time) {
        let to = flow.stop.map_or(self.to(), |stop| self.to().min(Time::ZERO + stop));
        (self.from().max(Time::ZERO + flow.start), to)
    }
}

/// Summarises a run whose rows were kept.
pub fn summarise(run: &Collector, context: &Context<'_>) -> Summary {
    let mut figures = Figures::new(&context.plan, usize::MAX);
    figures.take(run, true);
    figures.summary(run, context)
}

/// A run's figures, made of its rows as they are complete.
pub struct Figures {
    flows: Vec<FlowFigures>,
    links: Vec<bottleneck::LinkFigures>,
    /// When each flow was on.
    on: Vec<(Time, Time)>,
    from: Time,
    end: Time,
}

impl Figures {
    /// Of a run with this plan. Each distribution keeps up to `limit` values as they are; of more, it keeps
    /// how many fell into buckets of 0.006 % width ([`Distribution`](crate::metrics::Distribution)).
    pub fn new(plan: &Plan<'_>, limit: usize) -> Figures {
        Figures {
            flows: (0..plan.scenario.flows.len()).map(|index| FlowFigures::new(plan, index, limit)).collect(),
            links: plan.scenario.link.iter().map(|_| bottleneck::LinkFigures::new(plan, limit)).collect(),
            on: plan.scenario.flows.iter().map(|flow| on(plan.scenario, flow)).collect(),
            from: plan.from(),
            end: plan.to(),
        }
    }

    /// Takes rows that are complete, which follow those taken before; `last` if no more come.
    pub fn take(&mut self, rows: &Collector, last: bool) {
        let end = last.then_some(self.end);
        self.flows.iter_mut().zip(&rows.flows).for_each(|(flow, rows)| flow.take(rows, end));
        self.links.iter_mut().zip(rows.links()).for_each(|(link, rows)| link.take(rows));
    }

    /// The flows' figures.
    pub fn flows(&self) -> &[FlowFigures] {
        &self.flows
    }

    /// Bytes of memory that grow with the length of the run.
    pub fn held(&self) -> usize {
        let links = self.links.iter().map(|link| link.sojourn().held());
        self.flows.iter().map(FlowFigures::held).sum::<usize>() + links.sum::<usize>()
    }

    /// Jain's index over windows of 500 ms from the warm-up on, as `(end of window, index)`.
    pub fn fairness(&self) -> Vec<(Time, f64)> {
        let bytes: Vec<Vec<f64>> = self.flows.iter().map(|flow| flow.windows().to_vec()).collect();
        jain_of_slots(&self.on, &bytes, self.from, JAIN_WINDOW)
    }

    /// The summary, once the last rows were taken. `run` has the totals.
    pub fn summary(&self, run: &Collector, context: &Context<'_>) -> Summary {
        let scenario = context.plan.scenario;
        let Provenance { scenario: name, seed, commit, hash } = context.provenance.clone();
        let flows = self.flows.iter().zip(&scenario.flows).zip(&run.flows).enumerate();
        Summary {
            scenario: name,
            seed,
            commit,
            hash,
            settings: scenario.settings.clone(),
            duration_s: scenario.duration.as_secs_f64(),
            warmup_s: scenario.warmup.as_secs_f64(),
            warnings: warnings(scenario),
            link: self.link_summary(0, run, context),
            links: self.named_links(run, context),
            jain: self.jain(),
            flows: flows
                .map(|(index, ((figures, flow), record))| {
                    let link = &self.links[narrowest(scenario, index, context.rates)];
                    figures.summary(flow, &record.totals, link.share(index))
                })
                .collect(),
        }
    }

    /// Bytes that a link could carry in view.
    fn offered(&self, rate: &RateProcess) -> Option<u64> {
        rate.capacity(self.from, self.end).map(Bytes::get).filter(|&bytes| bytes > 0)
    }

    fn named_links(&self, run: &Collector, context: &Context<'_>) -> Vec<NamedLink> {
        let names = context.plan.scenario.link.names().into_iter().enumerate();
        let seconds = (self.end - self.from).as_secs_f64();
        let named = |(index, name)| NamedLink {
            name,
            rate_bps: self.offered(&context.rates[index]).map(|bytes| bytes as f64 * 8.0 / seconds),
            figures: self.link_summary(index, run, context),
        };
        names.map(named).collect()
    }

    fn link_summary(&self, index: usize, run: &Collector, context: &Context<'_>) -> LinkSummary {
        let record = run.links().nth(index).expect("a record of each link");
        let (figures, totals) = (&self.links[index], &record.totals);
        let offered = self.offered(&context.rates[index]);
        let arrived_bytes = totals.accepted_bytes + totals.dropped_bytes;
        let dropped: u64 = totals.dropped.values().sum();
        LinkSummary {
            utilization: offered.zip(figures.delivered()).map(|(offered, out)| out as f64 / offered as f64),
            loss: (arrived_bytes > 0).then(|| totals.dropped_bytes as f64 / arrived_bytes as f64),
            queue_ms: figures.sojourn().spread().map(Percentiles::from),
            peak_packets: totals.most_packets,
            packets: totals.accepted + dropped,
            dropped,
        }
    }

    fn jain(&self) -> Option<JainSummary> {
        let spread = Spread::of(self.fairness().into_iter().map(|(_, index)| index))?;
        Some(JainSummary { mean: spread.mean, p10: spread.p10 })
    }
}

/// The link that holds flow number `index` back, by its number: of those on its path the one that could carry
/// least in the whole run, the first of equal ones. `rates` are those of the scenario's links.
///
/// # Panics
/// If there are fewer rates than links.
pub fn narrowest(scenario: &Scenario, index: usize, rates: &[RateProcess]) -> usize {
    let path = scenario.path_of(index);
    if let [only] = path[..] {
        return only;
    }
    let end = Time::ZERO + scenario.duration;
    let carries = |link: &usize| rates[*link].capacity(Time::ZERO, end).map_or(u64::MAX, Bytes::get);
    path.into_iter().min_by_key(carries).expect("a path has a link")
}

fn on(scenario: &Scenario, flow: &Flow) -> (Time, Time) {
    let stop = flow.stop.unwrap_or(scenario.duration).min(scenario.duration);
    (Time::ZERO + flow.start, Time::ZERO + stop)
}

/// When each flow was on, and what it delivered.
pub fn activities(run: &Collector, scenario: &Scenario) -> Vec<Activity> {
    let flows = run.flows.iter().zip(&scenario.flows);
    flows
        .map(|(record, flow)| {
            let (start, stop) = on(scenario, flow);
            Activity { start, stop, delivered: record.deliveries() }
        })
        .collect()
}
