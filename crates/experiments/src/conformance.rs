//! What every congestion controller must stand: faults of the path, each a scenario of its own.
//!
//! ```text
//! FAULTS --scenario(cc)--> an ordinary run --judge--> Verdict: still asks for something, carries at least half
//!                                                     of what it carried before the fault, shows frames
//! ```
//!
//! This crate's tests ask it of every row of the registry, and name the one that does not stand all of them;
//! `framewire controllers NAME --check` asks it of any name with any options, `framewire.check` of a class in
//! Python.

use std::path::Path;

use lab::collect::Keep;
use lab::run::{LabError, Outcome, RunOptions, run_all};
use lab::scenario::{Scenario, ScenarioError, controller_name};
use serde::Serialize;
use units::{Rate, Time};

/// A fault of the path, or something else that a flow must live with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Lines of the scenario's `[link]`.
    link: &'static str,
    /// Lines of its flow.
    flow: &'static str,
    /// The spans that are held against each other, in s.
    spans: [Span; 2],
    /// Its flow is backlogged: controllers that learn from frames are spared it.
    without_frames: bool,
}

/// From and to, in s.
type Span = (u32, u32);
/// Length of a run, in s.
const END: u32 = 22;
/// Before a fault from 10 to 15 s, and from five seconds after it on.
const AROUND: [Span; 2] = [(6, 10), (20, END)];
/// The same number of seconds twice, after the start.
const HALVES: [Span; 2] = [(6, 14), (14, END)];
/// The least share of what was carried before that must be carried again.
const SHARE: f64 = 0.5;
/// And the least rate: whatever was carried before.
const LEAST: Rate = Rate::from_kbps(200);

/// A fault from 10 to 15 s, or from 10 s on.
const fn fault(name: &'static str, summary: &'static str, link: &'static str, flow: &'static str) -> Fault {
    Fault { name, summary, link, flow, spans: AROUND, without_frames: false }
}

/// A fault that is there from the start on: there is no undisturbed rate to come back to, but a flow that
/// carries less and less would starve.
const fn lasting(name: &'static str, summary: &'static str, link: &'static str, flow: &'static str) -> Fault {
    Fault { spans: HALVES, ..fault(name, summary, link, flow) }
}

const DARK: &str = "blackout = [[\"10s\", \"15s\"]]";
const VIDEO: &str = "source = \"video\"";

/// All of them, over a link of 20 Mbit/s with 40 ms of round trip and a queue of 120 ms.
pub const FAULTS: &[Fault] = &[
    fault("blackout", "nothing passes from 10 to 15 s", DARK, VIDEO),
    lasting(
        "reordering",
        "three packets of ten are held back by 8 ms",
        "reorder = { share = \"30%\", delay = \"8ms\" }",
        VIDEO,
    ),
    lasting("duplication", "three packets of ten arrive twice", "duplicate = 0.3", VIDEO),
    lasting(
        "slow clock",
        "the receiver's clock is five hours ahead and loses 200 ppm",
        "",
        "source = \"video\"\nclock_offset = \"18000s\"\nclock_drift_ppm = -200.0",
    ),
    lasting(
        "fast clock",
        "likewise, and gains 200 ppm",
        "",
        "source = \"video\"\nclock_offset = \"18000s\"\nclock_drift_ppm = 200.0",
    ),
    fault(
        "quiet encoder",
        "from 10 to 15 s the content needs 100 kbit/s",
        "",
        "source = \"video\"\nencoder = { cap = [[\"10s\", \"15s\", \"100kbit\"]] }",
    ),
    lasting("small datagrams", "300 bytes each", "", "source = \"video\"\nmtu = \"300B\""),
    lasting("large datagrams", "1472 bytes each", "", "source = \"video\"\nmtu = \"1472B\""),
    fault(
        "narrow path",
        "from 10 s on the path carries packets of 1280 bytes at most",
        "mtu = [[\"0s\", \"1500B\"], [\"10s\", \"1280B\"]]",
        VIDEO,
    ),
    lasting("loss", "2 % of all packets are lost", "loss = \"2%\"", VIDEO),
    Fault {
        without_frames: true,
        ..fault(
            "blackout of a backlog",
            "the same of a flow that always has something to send",
            DARK,
            "source = \"backlog\"",
        )
    },
];

/// How a controller stood a fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The fault's name.
    pub fault: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// What arrived before, in bit/s of UDP payload.
    pub before_bps: f64,
    /// What arrived after, likewise: over the second half of the run, where the fault lasts.
    pub after_bps: f64,
    /// Frames shown; none of a flow without frames.
    pub shown: Option<u64>,
    /// What is wrong; none if nothing is.
    pub broken: Option<String>,
}

impl Fault {
    /// Whether the controller `cc` (`NAME` or `NAME:OPTION=VALUE,...`) must stand it.
    pub fn concerns(&self, cc: &str) -> bool {
        let learns = |entry: &cc::Entry| entry.name == controller_name(cc) && entry.needs_frames;
        !(self.without_frames && cc::REGISTRY.iter().any(learns))
    }

    /// The run that shows it.
    ///
    /// # Errors
    /// [`ScenarioError`] if there is no such controller.
    ///
    /// ```
    /// use framewire_experiments::conformance::FAULTS;
    ///
    /// let scenario = FAULTS[0].scenario("sqp")?;
    /// assert!(scenario.text.contains("blackout"));
    /// # Ok::<(), lab::scenario::ScenarioError>(())
    /// ```
    pub fn scenario(&self, cc: &str) -> Result<Scenario, ScenarioError> {
        let Fault { name, summary, link, flow, .. } = self;
        let cc = toml::Value::from(cc);
        let text = format!(
            "name = \"{name}\"\ndescription = \"{summary}\"\nduration = \"{}s\"\n\n[link]\nrate = \"20mbit\"\n\
             delay = \"20ms\"\nqueue = \"droptail:120ms\"\n{link}\n\n[[flow]]\ncc = {cc}\n{flow}\n",
            END
        );
        Scenario::parse(&text, Path::new(&format!("{}.toml", name.replace(' ', "-"))))
    }

    /// What its run shows. The run has kept its rows ([`Keep::Rows`]).
    pub fn judge(&self, outcome: &Outcome) -> Verdict {
        let Fault { name, summary, .. } = *self;
        let flow = &outcome.record.flows[0];
        let rate = |(from, to): Span| {
            let span = Time::from_secs(u64::from(from))..Time::from_secs(u64::from(to));
            let inside =
                flow.packets.iter().filter(|packet| packet.arrived.is_some_and(|at| span.contains(&at)));
            inside.map(|packet| f64::from(packet.size) * 8.0).sum::<f64>() / f64::from(to - from)
        };
        let [before_bps, after_bps] = self.spans.map(rate);
        let shown = (!self.without_frames).then_some(flow.totals.displayed);
        let silent = flow
            .decisions
            .iter()
            .find(|wanted| wanted.window == 0 || wanted.pacing.as_bps() == 0 || wanted.media.as_bps() == 0);
        let broken = if let Some(wanted) = silent {
            Some(format!("it asks for nothing from {:.3} s on", wanted.at.as_secs_f64()))
        } else if after_bps < SHARE * before_bps || after_bps < LEAST.as_f64() {
            Some("it does not recover".to_owned())
        } else if shown == Some(0) {
            Some("it shows nothing".to_owned())
        } else {
            None
        };
        Verdict { fault: name, summary, before_bps, after_bps, shown, broken }
    }
}

/// The faults that `cc` must stand.
pub fn faults_of(cc: &str) -> impl Iterator<Item = &'static Fault> {
    FAULTS.iter().filter(move |fault| fault.concerns(cc))
}

/// Holds a controller against all faults that concern it.
///
/// # Errors
/// [`LabError`] if there is no such controller, or whoever asks for progress ends it.
pub fn check(cc: &str, options: &RunOptions<'_>) -> Result<Vec<Verdict>, LabError> {
    let faults: Vec<&Fault> = faults_of(cc).collect();
    let scenarios = faults.iter().map(|fault| fault.scenario(cc)).collect::<Result<Vec<_>, _>>()?;
    let options = RunOptions { keep: Keep::Rows, tables: None, commit: options.commit.clone(), ..*options };
    let outcomes = run_all(&scenarios, &options)?;
    Ok(faults.iter().zip(&outcomes).map(|(fault, outcome)| fault.judge(outcome)).collect())
}
