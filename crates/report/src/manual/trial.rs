//! The runs behind pictures and figures.

use std::path::Path;

use units::{Bytes, Rate, Span, Time};

use super::Family;
use crate::{Axis, Chart, Colour, Line, picture};
use lab::metrics::{Spread, slots};
use lab::run::{LabError, Outcome, RunOptions, run_all};
use lab::scenario::Scenario;

/// The links every controller is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// 20 Mbit/s throughout.
    Steady,
    /// 20, then 5, then 20 Mbit/s.
    Drop,
}

impl Link {
    /// When figures begin: the start of a flow is over, that of GCC, the slowest, too.
    pub const FROM: Span = Span::from_secs(40);
    /// What points of a picture are means over.
    pub const BIN: Span = Span::from_millis(250);
    /// One-way delay of the empty path in ms.
    pub const EMPTY_MS: f64 = 20.0;
    const RATE: Rate = Rate::from_mbps(20);

    /// The end of a picture's file name.
    pub fn name(self) -> &'static str {
        match self {
            Link::Steady => "steady",
            Link::Drop => "drop",
        }
    }

    /// What it is, to stand after "on" (steady) or "while" (drop).
    pub fn words(self) -> &'static str {
        match self {
            Link::Steady => {
                "a steady link of 20 Mbit/s with 40 ms of round trip and a drop-tail queue of 120 ms (300 kB)"
            }
            Link::Drop => {
                "the link falls to 5 Mbit/s at 30 s, where a full queue is 480 ms, and comes back at 50 s"
            }
        }
    }

    /// How long it is tried.
    pub fn length(self) -> Span {
        match self {
            Link::Steady => Span::from_secs(120),
            Link::Drop => Span::from_secs(80),
        }
    }

    fn rate(self) -> &'static str {
        match self {
            Link::Steady => "rate = \"20mbit\"",
            Link::Drop => r#"steps = [["0s", "20mbit"], ["30s", "5mbit"], ["50s", "20mbit"]]"#,
        }
    }

    fn capacity(self) -> Vec<(f64, f64)> {
        match self {
            Link::Steady => vec![(0.0, 20.0), (120.0, 20.0)],
            Link::Drop => vec![(0.0, 20.0), (30.0, 5.0), (50.0, 20.0), (80.0, 20.0)],
        }
    }

    /// The most the axis of delays shows, in ms: the same for all controllers, so that pages can be compared.
    fn most_delay(self) -> f64 {
        match self {
            Link::Steady => 150.0,
            Link::Drop => 500.0,
        }
    }

    fn scenario(self, row: &cc::Entry) -> Result<Scenario, LabError> {
        let source =
            if row.needs_frames { "source = \"video\"" } else { "source = \"backlog\"\nmtu = \"1472B\"" };
        let text = format!(
            "duration = \"{}s\"\nwarmup = \"{}s\"\n[link]\n{}\ndelay = \"20ms\"\nqueue = \"droptail:120ms\"\n\
             [[flow]]\ncc = \"{}\"\n{source}\n",
            self.length().as_secs_f64(),
            Link::FROM.as_secs_f64(),
            self.rate(),
            row.name
        );
        Ok(Scenario::parse(&text, Path::new(&format!("{}-{}.toml", row.name, self.name())))?)
    }
}

/// What a run gave.
pub struct Trial {
    /// The controller, by its name in the registry.
    pub cc: &'static str,
    /// The link it ran on.
    pub link: Link,
    /// Figures after the start.
    pub figures: Figures,
    /// Mbit/s through the bottleneck over seconds.
    rates: Vec<(f64, f64)>,
    /// One-way delay in ms over seconds.
    delays: Vec<(f64, f64)>,
}

/// A flow after its start.
pub struct Figures {
    /// Bits that left the bottleneck over bits it could have sent.
    pub utilisation: f64,
    /// Mean time packets waited, in ms.
    pub queue_mean: f64,
    /// 90th percentile of the queue's delay, in ms.
    pub queue_p90: f64,
    /// Packets dropped over packets that arrived.
    pub loss: f64,
}

/// Tries every row on every link.
pub fn all(families: &[Family], options: &RunOptions<'_>) -> Result<Vec<Trial>, LabError> {
    let rows = families.iter().flat_map(|family| &family.rows);
    let jobs: Vec<_> =
        rows.flat_map(|&row| [Link::Steady, Link::Drop].into_iter().map(move |link| (row, link))).collect();
    let mut trials = Vec::new();
    // In groups, for a run's rows are many, and only what is drawn of them is kept.
    let group = options.threads.max(1) * 2;
    for (number, jobs_of_group) in jobs.chunks(group).enumerate() {
        let scenarios: Result<Vec<_>, _> =
            jobs_of_group.iter().map(|(row, link)| link.scenario(row)).collect();
        let done = number * group;
        let progress = |share: f64| {
            (options.progress)((done as f64 + share * jobs_of_group.len() as f64) / jobs.len() as f64);
        };
        let how = RunOptions { progress: &progress, commit: options.commit.clone(), ..*options };
        let outcomes = run_all(&scenarios?, &how)?;
        trials.extend(
            jobs_of_group.iter().zip(&outcomes).map(|((row, link), run)| trial(row.name, *link, run)),
        );
    }
    Ok(trials)
}

fn trial(cc: &'static str, link: Link, outcome: &Outcome) -> Trial {
    let departures = outcome.record.link.departures.iter().map(|departure| (departure.at, departure.size));
    let delays = outcome.record.flows[0].one_way_delays();
    Trial {
        cc,
        link,
        figures: figures(outcome),
        rates: rates(link, departures),
        delays: means(delays.map(|(sent, delay)| (sent + delay, delay.as_millis_f64()))),
    }
}

fn figures(outcome: &Outcome) -> Figures {
    let from = Time::ZERO + Link::FROM;
    let link = &outcome.record.link;
    let left: Vec<_> = link.departures.iter().filter(|departure| departure.at >= from).collect();
    let waited = left.iter().map(|departure| {
        let sending = Link::RATE.time_to_send(Bytes::new(u64::from(departure.size)));
        (departure.sojourn - sending).as_millis_f64()
    });
    let queue = Spread::of(waited);
    let dropped = link.drops.iter().filter(|drop| drop.at >= from).count();
    let arrived = dropped + link.arrivals.iter().filter(|arrival| arrival.at >= from).count();
    Figures {
        utilisation: outcome.summary.link.utilization.unwrap_or(0.0),
        queue_mean: queue.as_ref().map_or(0.0, |queue| queue.mean),
        queue_p90: queue.as_ref().map_or(0.0, |queue| queue.p90),
        loss: dropped as f64 / arrived.max(1) as f64,
    }
}

/// Rate and delay over time of the rows of one family on one link, as SVG.
pub fn draw(link: Link, trials: &[&Trial]) -> String {
    let colours = || trials.iter().enumerate().map(|(index, trial)| (*trial, Colour::Palette(index)));
    // The first is drawn last and lies on top: presets often do the same.
    let lines = |of: fn(&Trial) -> &Vec<(f64, f64)>| {
        colours()
            .rev()
            .map(|(trial, colour)| Line::new(trial.cc, colour, of(trial).clone()).broken(1.0))
            .collect()
    };
    let label = "Mbit/s through the bottleneck; shaded: what it could carry";
    let top = chart(link, label, 25.0, lines(|trial| &trial.rates));
    let top = Chart { shade: Some(("capacity".to_owned(), link.capacity())), ..top };
    let below = chart(link, "one-way delay, ms", link.most_delay(), lines(|trial| &trial.delays));
    let heading = match link {
        Link::Steady => format!("{}, alone on 20 Mbit/s", trials[0].cc),
        Link::Drop => format!("{}, alone on 20, 5 and 20 Mbit/s", trials[0].cc),
    };
    let key: Vec<_> =
        colours().filter(|_| trials.len() > 1).map(|(trial, colour)| (trial.cc, colour)).collect();
    picture(&heading, &key, &[top, below])
}

fn chart(link: Link, y_label: &'static str, most: f64, lines: Vec<Line>) -> Chart {
    Chart {
        title: String::new(),
        caption: String::new(),
        x_label: "seconds".into(),
        y_label: y_label.into(),
        x: Axis::linear(0.0, link.length().as_secs_f64()),
        y: Axis::linear(0.0, most),
        shade: None,
        lines,
        height: 210.0,
    }
}

fn middle(bin: i64) -> f64 {
    (bin as f64 + 0.5) * Link::BIN.as_secs_f64()
}

fn rates(link: Link, departures: impl Iterator<Item = (Time, u32)>) -> Vec<(f64, f64)> {
    let bytes = slots(departures, Time::ZERO, Time::ZERO + link.length(), Link::BIN);
    let mbps = |bytes: f64| bytes * 8.0 / Link::BIN.as_secs_f64() / 1e6;
    bytes.into_iter().enumerate().map(|(bin, bytes)| (middle(bin as i64), mbps(bytes))).collect()
}

/// Means of `values` over bins; empty bins are left out.
fn means(values: impl Iterator<Item = (Time, f64)>) -> Vec<(f64, f64)> {
    let bin = |at: Time| (at - Time::ZERO).as_nanos() / Link::BIN.as_nanos();
    let mut rows: Vec<(i64, f64)> = values.map(|(at, value)| (bin(at), value)).collect();
    rows.sort_by_key(|row| row.0);
    let groups = rows.chunk_by(|a, b| a.0 == b.0);
    groups
        .map(|group| (middle(group[0].0), group.iter().map(|row| row.1).sum::<f64>() / group.len() as f64))
        .collect()
}
