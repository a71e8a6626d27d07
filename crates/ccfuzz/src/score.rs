//! How badly the flow under test fared, and what that took (CC-Fuzz thesis, section 7.3.4).
//!
//! ```text
//! score = performance + 0.05 * longest stall - hardship - 0.1 * (cross packets sent + dropped) / most cross packets
//! ```
//!
//! The higher, the worse for the flow.

use std::fmt;
use std::str::FromStr;

use experiments::expression::Expression;
use lab::metrics::{jain, nearest_rank};
use lab::run::{FlowMeter, Metered};
use serde::{Deserialize, Serialize};

use crate::genome::{Genome, Space};
use crate::names::values;
use crate::viewer::{Life, frame_delays, still_share};

/// Share of the windows that count: the lowest (section 7.3.4). Over all of them, an early stall would always
/// win.
const WORST_SHARE: f64 = 0.2;
/// A window in which cross traffic leaves less than this share of the link says nothing about the flow.
const LEAST_AVAILABLE: f64 = 0.1;
/// Below this share of what is available a flow is stalled.
const STALLED: f64 = 0.05;
/// The percentile of delay that is held high (section 7.4.3): nearly all packets are delayed at least so
/// long.
const DELAY_PERCENTILE: f64 = 0.1;
/// Delay above propagation that counts as one, in microseconds: what a queue of 100 packets holds at 12
/// Mbit/s.
const DELAY_UNIT: f64 = 100_000.0;
/// The percentile of frame delay that is held high: one frame of ten is later than this.
const FRAME_PERCENTILE: f64 = 90.0;
/// What counts as the worst where several symptoms are held against each other ([`Aim::Any`]): a tenth
/// percentile of delay at half of [`DELAY_UNIT`], from which S3F-6 calls a queue standing ...
const WORST_DELAY: f64 = 0.5;
/// ... and every other packet lost, as in the thesis' burst (section 7.4.2).
const WORST_LOSS: f64 = 0.5;
/// What an expression gives is kept within this, so that means of scores stay numbers.
const LARGEST: f64 = 1e9;

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Aim {
    /// Little of what cross traffic leaves is used, in the worst fifth of the windows: 0 is nothing, -1 is
    /// all.
    LowThroughput,
    /// Nearly every packet is late: the tenth percentile of one-way delay above propagation, in units of 100
    /// ms.
    HighDelay,
    /// Share of the flow's packets that the bottleneck dropped.
    Loss,
    /// Shares between two flows or more: one less Jain's index, in the worst fifth of the windows.
    Unfairness,
    /// Of video: the 90th percentile of the time from capture to display, in seconds.
    FrameDelay,
    /// Of video: the share of the time spent in stalls.
    StallTime,
    /// Of video of our own session: how badly the worst of the grid's invariants that are asked is broken
    /// ([`experiments::grid`]), as `b / (1 + b)` of its badness `b`: 0.5 is as bad as is allowed, 1 without
    /// bound.
    Invariants,
    /// What `score.expression` of the scenario says.
    Expression,
    /// Any of the first three, whichever is worst, each from 0 to 1: what is not used, delay (1 is 50 ms), or
    /// loss (1 is half of the packets). For searches that keep to several behaviours.
    Any,
}

impl Aim {
    /// All of them, by the names people write.
    pub const ALL: [(&'static str, Aim); 9] = [
        ("low-throughput", Aim::LowThroughput),
        ("high-delay", Aim::HighDelay),
        ("loss", Aim::Loss),
        ("unfairness", Aim::Unfairness),
        ("any", Aim::Any),
        ("frame-delay", Aim::FrameDelay),
        ("stall-time", Aim::StallTime),
        ("invariants", Aim::Invariants),
        ("expression", Aim::Expression),
    ];
}

impl FromStr for Aim {
    type Err = String;

    fn from_str(text: &str) -> Result<Aim, String> {
        let found = Aim::ALL.iter().find(|(name, _)| *name == text).map(|(_, aim)| *aim);
        found.ok_or_else(|| {
            format!("`{text}` is no score; {}", units::instead(text, &Aim::ALL.map(|(name, _)| name)))
        })
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Aim::ALL.iter().find(|(_, aim)| aim == self).expect("every aim has a name");
        f.write_str(name)
    }
}

impl TryFrom<String> for Aim {
    type Error = String;
    fn try_from(text: String) -> Result<Aim, String> {
        text.parse()
    }
}
impl From<Aim> for String {
    fn from(aim: Aim) -> String {
        aim.to_string()
    }
}

/// What parts of the score weigh. The thesis gives none; these decide between networks that fare alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Of the share of the run that the longest stall takes: where many networks stall the flow, the score
    /// would be flat.
    pub stall: f64,
    /// Of cross packets sent and of those dropped, over the most there may be; likewise of outages.
    pub trace: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { stall: 0.05, trace: 0.1 }
    }
}

/// A genome's score and what it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// What networks are ranked by.
    pub total: f64,
    /// What was sought; see [`Aim`].
    pub performance: f64,
    /// The longest time without use of the link, as a share of the flow's life.
    pub stall: f64,
    /// Mean share of what was available that the flow used.
    pub used: f64,
    /// Packets of cross traffic that were sent.
    pub cross: u32,
    /// ... of which dropped.
    pub cross_dropped: u32,
    /// Retransmission timeouts, of a flow that sends as TCP.
    pub timeouts: u32,
    /// What the network costs the reference controller that it costs least; 0 without any.
    #[serde(default)]
    pub hardship: f64,
    /// Share of the flow's packets that the bottleneck dropped.
    #[serde(default)]
    pub loss: f64,
    /// The tenth percentile of one-way delay above propagation, in units of 100 ms.
    #[serde(default)]
    pub delay: f64,
}

impl Score {
    /// What shrinking must keep: the score without its cost.
    pub fn goal(&self, weights: &Weights) -> f64 {
        self.performance + weights.stall * self.stall - self.hardship
    }

    /// The same in a network that costs even the best reference controller this much.
    pub fn under(self, hardship: f64) -> Score {
        Score { total: self.total - hardship, hardship, ..self }
    }
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Yardstick<'a> {
    /// What the search is for.
    pub aim: Aim,
    /// What the parts weigh.
    pub weights: Weights,
    /// When the flow under test was on.
    pub life: Life,
    /// One-way propagation delay in microseconds.
    pub propagation: u32,
    /// What is sought, if it is an expression.
    pub expression: Option<&'a Expression>,
    /// How badly the worst invariant was broken, where that is sought.
    pub broken: f64,
}

impl Yardstick<'_> {
    /// What is sought, of a run.
    pub fn performance(&self, metered: &Metered, genome: &Genome) -> f64 {
        let (flow, from) = (&metered.flows[0], self.life.from);
        match self.aim {
            Aim::LowThroughput => -worst(shares(metered, flow, from)),
            Aim::HighDelay => delay(flow, self.propagation),
            Aim::Loss => flow.link.loss(),
            Aim::Unfairness => 1.0 - worst(fairness(metered, from)),
            Aim::Any => {
                let unused = 1.0 - worst(shares(metered, flow, from));
                let late = (delay(flow, self.propagation) / WORST_DELAY).min(1.0);
                unused.max(late).max((flow.link.loss() / WORST_LOSS).min(1.0))
            }
            Aim::FrameDelay => {
                let mut delays = frame_delays(metered, self.life);
                delays.sort_unstable_by(f64::total_cmp);
                nearest_rank(&delays, FRAME_PERCENTILE).unwrap_or(0.0)
            }
            Aim::StallTime => still_share(metered, self.life),
            Aim::Invariants => self.broken,
            // What can't be said of a network makes it uninteresting.
            Aim::Expression => self.expressed(metered, genome).unwrap_or(-LARGEST).clamp(-LARGEST, LARGEST),
        }
    }

    /// What the expression gives.
    ///
    /// # Errors
    /// Why it gives no number.
    pub fn expressed(&self, metered: &Metered, genome: &Genome) -> Result<f64, String> {
        let expression = self.expression.expect("a target that seeks one has one");
        let value = expression.evaluate(&values(expression, metered, self.life, self.propagation, genome))?;
        if value.is_nan() { Err("it gives no number (0 / 0, or of an empty list)".into()) } else { Ok(value) }
    }
}

/// Scores a run.
pub fn score(metered: &Metered, by: &Yardstick<'_>, (genome, space): (&Genome, &Space)) -> Score {
    let weights = &by.weights;
    let used = shares(metered, &metered.flows[0], by.life.from);
    let performance = by.performance(metered, genome);
    let stall = longest_stall(&used) as f64 / used.len().max(1) as f64;
    let (sent, dropped) = (metered.cross.link.offered.packets, metered.cross.link.dropped.packets);
    let cost =
        share(sent + dropped, space.most_cross) + share(genome.outages.len() as u64, space.most_outages);
    Score {
        total: performance + weights.stall * stall - weights.trace * cost,
        performance,
        stall,
        used: mean(&used),
        cross: sent as u32,
        cross_dropped: dropped as u32,
        timeouts: metered.flows[0].tcp.map_or(0, |tcp| tcp.timeouts as u32),
        hardship: 0.0,
        loss: metered.flows[0].link.loss(),
        delay: delay(&metered.flows[0], by.propagation),
    }
}

/// Whether cross traffic leaves enough of a window for it to say something about the flow.
pub(crate) fn is_judged(metered: &Metered, window: usize) -> bool {
    match (metered.capacity.get(window), metered.cross.delivered.get(window)) {
        (Some(&capacity), Some(&cross)) => available(capacity, cross).is_some(),
        _ => false,
    }
}

/// What cross traffic left of a window, if that is enough to judge by.
fn available(capacity: u64, cross: u64) -> Option<f64> {
    let left = capacity.saturating_sub(cross) as f64;
    (left >= LEAST_AVAILABLE * capacity as f64 && left > 0.0).then_some(left)
}

fn share(of: u64, most: usize) -> f64 {
    of as f64 / most.max(1) as f64
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// What a flow delivered of what cross traffic left, window by window.
///
/// Of the link's capacity itself the best network would be one full of cross traffic, whatever the controller
/// does.
pub(crate) fn shares(metered: &Metered, flow: &FlowMeter, from: usize) -> Vec<f64> {
    let windows = metered.capacity.iter().zip(&metered.cross.delivered).zip(&flow.delivered).skip(from);
    let used = windows.map(|((&capacity, &cross), &delivered)| {
        available(capacity, cross).map_or(1.0, |left| (delivered as f64 / left).min(1.0))
    });
    used.collect()
}

/// Jain's index of the flows' bytes, window by window; one where nothing came.
pub(crate) fn fairness(metered: &Metered, from: usize) -> Vec<f64> {
    let index = |window: usize| {
        let bytes: Vec<f64> = metered.flows.iter().map(|flow| flow.delivered[window] as f64).collect();
        jain(&bytes).unwrap_or(1.0)
    };
    (from..metered.capacity.len()).map(index).collect()
}

/// Mean of the lowest fifth.
fn worst(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let count = ((values.len() as f64 * WORST_SHARE).ceil() as usize).min(values.len());
    mean(&values[..count])
}

pub(crate) fn longest_stall(used: &[f64]) -> usize {
    used.chunk_by(|a, b| (*a < STALLED) == (*b < STALLED))
        .filter(|stretch| stretch[0] < STALLED)
        .map(<[f64]>::len)
        .max()
        .unwrap_or(0)
}

fn delay(flow: &FlowMeter, propagation: u32) -> f64 {
    if flow.delays.is_empty() {
        return 0.0;
    }
    let mut delays = flow.delays.clone();
    let place = (delays.len() as f64 * DELAY_PERCENTILE) as usize;
    let (_, &mut low, _) = delays.select_nth_unstable(place);
    f64::from(low.saturating_sub(propagation)) / DELAY_UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Span, Time};

    const SPACE: Space =
        Space { end: 10_000_000, slots: 10_000, most_cross: 1_000, most_outages: 10, k_agg: 50_000 };

    fn flow(delivered: Vec<u64>) -> FlowMeter {
        FlowMeter { delivered, ..FlowMeter::default() }
    }

    fn metered(flows: Vec<FlowMeter>, cross: Vec<u64>) -> Metered {
        let capacity = vec![1_000; cross.len()];
        Metered { window: Span::from_millis(500), flows, cross: flow(cross), capacity }
    }

    fn judge(metered: &Metered, aim: Aim) -> Score {
        let life = Life { start: Time::ZERO, end: Time::from_secs(5), from: 0 };
        let weights = Weights::default();
        let by = Yardstick { aim, weights, life, propagation: 20_000, expression: None, broken: 0.0 };
        score(metered, &by, (&Genome::default(), &SPACE))
    }

    #[test]
    fn only_the_worst_fifth_counts_and_only_of_what_was_left() {
        // Ten windows: two of them at a tenth of the 500 that cross traffic left.
        let mut delivered = vec![500; 10];
        (delivered[3], delivered[7]) = (50, 50);
        let found = judge(&metered(vec![flow(delivered)], vec![500; 10]), Aim::LowThroughput);
        assert!((found.performance + 0.1).abs() < 1e-9 && found.stall == 0.0, "{found:?}");
        // Where cross traffic takes all, nobody is to blame.
        let found = judge(&metered(vec![flow(vec![0; 10])], vec![950; 10]), Aim::LowThroughput);
        assert_eq!((found.performance, found.stall), (-1.0, 0.0));
    }

    #[test]
    fn the_longest_stall_breaks_ties() {
        let stalled = |from: usize| {
            let delivered = (0..20).map(|n| if n >= from { 0 } else { 1_000 }).collect();
            judge(&metered(vec![flow(delivered)], vec![0; 20]), Aim::LowThroughput)
        };
        let (late, early) = (stalled(15), stalled(5));
        assert_eq!((late.performance, early.performance), (0.0, 0.0));
        assert!(early.total > late.total && early.stall == 0.75);
    }

    #[test]
    fn delay_loss_and_fairness() {
        let mut one = flow(vec![900; 10]);
        one.delays = (0..100).map(|n| 20_000 + n * 1_000).collect();
        (one.link.offered.packets, one.link.dropped.packets) = (200, 50);
        let both = metered(vec![one, flow(vec![100; 10])], vec![0; 10]);
        assert_eq!(judge(&both, Aim::HighDelay).performance, 0.1);
        assert_eq!(judge(&both, Aim::Loss).performance, 0.25);
        assert_eq!((judge(&both, Aim::Any).loss, judge(&both, Aim::Any).performance), (0.25, 0.5));
        let fair = judge(&both, Aim::Unfairness).performance;
        assert!((fair - (1.0 - 1.0 / 1.64)).abs() < 1e-9, "{fair}");
    }

    #[test]
    fn packets_cost_and_dropped_ones_twice() {
        let mut run = metered(vec![flow(vec![0; 10])], vec![0; 10]);
        (run.cross.link.offered.packets, run.cross.link.dropped.packets) = (300, 100);
        let found = judge(&run, Aim::LowThroughput);
        assert!((found.total - (0.05 - 0.1 * 0.4)).abs() < 1e-12);
        assert_eq!(found.goal(&Weights::default()), 0.05);
        let hard = found.under(0.25);
        assert!((found.total - hard.total - 0.25).abs() < 1e-12);
        assert!((hard.goal(&Weights::default()) + 0.2).abs() < 1e-12);
    }

    #[test]
    fn aims_read_and_print() {
        for (name, aim) in Aim::ALL {
            assert_eq!((name.parse(), aim.to_string()), (Ok(aim), name.to_owned()));
        }
        assert!("x".parse::<Aim>().unwrap_err().contains("low-throughput, high-delay"));
    }
}
