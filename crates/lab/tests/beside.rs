//! Networks that once froze, collapsed or starved a call, each with the figure that showed it:
//! `docs/grid.md`, "Networks that once broke something".

use std::path::{Path, PathBuf};

use framewire_lab::run::{Outcome, RunOptions, run_all};
use framewire_lab::scenario::{Flow, Scenario, Source};
use framewire_lab::summary::FlowSummary;

/// What a flow is played with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scheme {
    /// What the file names.
    Own,
    /// Another rate policy.
    Rate(&'static str),
    /// The default preset.
    Default,
}

/// A figure of one run, the bound it keeps today and what it was at commit f237fe5, where the bound did not
/// hold.
struct Figure {
    file: &'static str,
    scheme: Scheme,
    name: &'static str,
    of: fn(&Outcome) -> f64,
    bound: Bound,
    before: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        }
    }
}

fn first(outcome: &Outcome) -> &FlowSummary {
    &outcome.summary.flows[0]
}

fn longest_stall_s(outcome: &Outcome) -> f64 {
    first(outcome).stalls.map_or(f64::INFINITY, |stalls| stalls.longest_ms / 1000.0)
}

fn stalled_s(outcome: &Outcome) -> f64 {
    first(outcome).stalls.map_or(f64::INFINITY, |stalls| stalls.total_s)
}

fn loss(outcome: &Outcome) -> f64 {
    first(outcome).loss.unwrap_or(f64::INFINITY)
}

fn late_s(outcome: &Outcome) -> f64 {
    first(outcome).frame_delay_ms.map_or(f64::INFINITY, |delay| delay.p95 / 1000.0)
}

fn deepest_queue_ms(outcome: &Outcome) -> f64 {
    outcome.summary.link.queue_ms.map_or(f64::INFINITY, |queue| queue.max)
}

fn round_trip_ms(outcome: &Outcome) -> f64 {
    first(outcome).rtt_ms.map_or(f64::INFINITY, |rtt| rtt.mean)
}

fn used(outcome: &Outcome) -> f64 {
    outcome.summary.link.utilization.unwrap_or(0.0)
}

/// The slowest flow's rate over the fastest one's.
fn evenness(outcome: &Outcome) -> f64 {
    let rates = || outcome.summary.flows.iter().map(|flow| flow.throughput_bps);
    rates().fold(f64::MAX, f64::min) / rates().fold(0.0, f64::max)
}

type Measure = fn(&Outcome) -> f64;

const LONGEST: (&str, Measure) = ("longest stall in s", longest_stall_s);
const STALLED: (&str, Measure) = ("seconds stalled", stalled_s);
const LOSS: (&str, Measure) = ("share of packets lost", loss);
const LATE: (&str, Measure) = ("95th percentile of frame delay in s", late_s);
const QUEUE: (&str, Measure) = ("deepest queue in ms", deepest_queue_ms);
const ROUND_TRIP: (&str, Measure) = ("mean round trip in ms", round_trip_ms);
const USED: (&str, Measure) = ("share of the link used", used);
const EVEN: (&str, Measure) = ("slowest over fastest", evenness);

const fn figure(
    file: &'static str,
    scheme: Scheme,
    (name, of): (&'static str, Measure),
    bound: Bound,
    before: f64,
) -> Figure {
    Figure { file, scheme, name, of, bound, before: Some(before) }
}

/// A figure of the default preset, which did not exist then.
const fn default(file: &'static str, (name, of): (&'static str, Measure), bound: Bound) -> Figure {
    Figure { file, scheme: Scheme::Default, name, of, bound, before: None }
}

use Bound::{AtLeast, AtMost};
use Scheme::{Own, Rate};

const FIGURES: &[Figure] = &[
    figure("beside/freeze", Own, LONGEST, AtMost(2.5), 54.0),
    default("beside/freeze", LONGEST, AtMost(1.5)),
    figure("beside/fps-120", Own, LONGEST, AtMost(1.5), 33.6),
    default("beside/fps-120", LONGEST, AtMost(1.5)),
    figure("beside/second-long", Own, LONGEST, AtMost(3.0), 5.9),
    default("beside/second-long", LONGEST, AtMost(2.5)),
    figure("beside/default-deadline", Own, STALLED, AtMost(35.0), 42.9),
    default("beside/default-deadline", LONGEST, AtMost(1.0)),
    default("beside/steady-sender", LOSS, AtMost(0.01)),
    default("steady-sender-70", LOSS, AtMost(0.05)),
    default("steady-sender-70", STALLED, AtMost(5.0)),
    figure("beside/behind-itself", Rate("direct"), LATE, AtMost(5.0), 8.58),
    default("beside/behind-itself", LATE, AtMost(0.2)),
    default("beside/behind-itself", LONGEST, AtMost(0.5)),
    figure("beside/key-frame-over-queue", Own, STALLED, AtMost(2.2), 2.62),
    default("beside/key-frame-over-queue", STALLED, AtMost(0.5)),
    figure("beside/half-mbit", Own, STALLED, AtMost(4.0), 8.88),
    default("beside/half-mbit", STALLED, AtMost(0.5)),
    figure("beside/quarter", Own, QUEUE, AtMost(300.0), 484.0),
    default("beside/quarter", QUEUE, AtMost(300.0)),
    default("beside/steady-5", USED, AtLeast(0.8)),
    figure("beside/low-300", Own, LOSS, AtMost(0.08), 0.126),
    default("beside/low-300", STALLED, AtMost(1.0)),
    figure("beside/low-100", Own, LOSS, AtMost(0.2), 0.389),
    default("beside/low-100", LOSS, AtMost(0.01)),
    default("beside/long-pipe", USED, AtLeast(0.65)),
    default("beside/fat-pipe", USED, AtLeast(0.4)),
    default("ten-join", EVEN, AtLeast(0.6)),
    figure("copa-one-host", Own, USED, AtLeast(0.9), 0.33),
    figure("bbr-inside-quinn", Own, ROUND_TRIP, AtMost(160.0), 245.0),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn set_rate(flow: &mut Flow, rate: Option<String>) {
    let Source::Video(video) = &mut flow.source else { panic!("{} sends no video", flow.name) };
    video.session.rate = rate;
}

fn scenario(file: &str, scheme: Scheme) -> Scenario {
    let mut scenario =
        Scenario::load(&folder().join(file).with_extension("toml")).unwrap_or_else(|e| panic!("{e}"));
    for flow in &mut scenario.flows {
        match scheme {
            Scheme::Own => {}
            Scheme::Rate(name) => set_rate(flow, Some(name.to_owned())),
            Scheme::Default => {
                flow.cc = "default".to_owned();
                set_rate(flow, None);
            }
        }
    }
    scenario
}

#[test]
fn what_once_broke_a_call_does_not_break_it_again() {
    let mut runs: Vec<(&str, Scheme)> = Vec::new();
    for figure in FIGURES {
        if !runs.contains(&(figure.file, figure.scheme)) {
            runs.push((figure.file, figure.scheme));
        }
    }
    let scenarios: Vec<_> = runs.iter().map(|&(file, scheme)| scenario(file, scheme)).collect();
    let outcomes = run_all(&scenarios, &RunOptions { threads: 2, ..RunOptions::default() }).unwrap();
    let mut broken = Vec::new();
    for Figure { file, scheme, name, of, bound, before } in FIGURES {
        let at = runs.iter().position(|run| run == &(*file, *scheme)).unwrap();
        let value = of(&outcomes[at]);
        println!("{file} {scheme:?}: {name} {value:.3}, {bound:?}, before {before:?}");
        if !bound.holds(value) {
            broken.push(format!("{file} {scheme:?}: {name} is {value:.3}, {bound:?}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn each_bound_would_have_found_what_was_wrong() {
    for Figure { file, name, bound, before, .. } in FIGURES {
        assert!(before.is_none_or(|before| !bound.holds(before)), "{file}: {name} held before, too");
    }
}

#[test]
fn every_network_that_once_broke_something_has_a_figure_and_a_row() {
    let page = include_str!("../../../docs/grid.md");
    let entries = std::fs::read_dir(folder().join("beside")).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    for name in names {
        assert!(FIGURES.iter().any(|figure| figure.file == format!("beside/{name}")), "{name} has no figure");
    }
    for Figure { file, .. } in FIGURES {
        assert!(page.contains(&format!("../scenarios/{file}.toml")), "docs/grid.md has no row for {file}");
    }
}
