//! What is tested: a scenario whose first flow is under test, what is varied around it, and what is sought.

use std::path::Path;

use lab::run::{LabError, Overlay, meter};
use lab::scenario::Scenario;
use lab::scenario::patch::set;
use toml::Table;
use units::Span;

use crate::genome::{Genome, Mode, Space};
use crate::score::{Aim, Score, Weights, score, shares};

/// Windows of throughput (ccfuzz.md section 5: not given in the thesis).
pub const WINDOW: Span = Span::from_millis(500);
/// Spans at least this long keep their rate within bounds (figure 7.3).
const K_AGG: u32 = 50_000;
/// Outages in the second, at most: what a bad radio link has.
const OUTAGES_PER_SECOND: usize = 5;
/// An instant is a number of microseconds in 32 bits.
const LONGEST: Span = Span::from_secs(3_600);

/// A scenario that can't be searched.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It does not run at all.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// It lacks what a search needs.
    #[error("{0}")]
    Unsuitable(String),
}

/// A scenario, what is varied around it, and what is sought.
#[derive(Clone, Debug)]
pub struct Target {
    /// The scenario; its first flow is under test.
    pub scenario: Scenario,
    /// What is varied.
    pub mode: Mode,
    /// What is sought.
    pub aim: Aim,
    /// What the parts of the score weigh.
    pub weights: Weights,
    /// The bounds of the search.
    pub space: Space,
    /// The first window in which the flow under test is on throughout.
    from: usize,
    /// One-way propagation delay in microseconds.
    propagation: u32,
    /// The score without any disturbance.
    calm: f64,
}

impl Target {
    /// A target, after a trial run without any disturbance.
    ///
    /// # Errors
    /// [`TargetError`] if the scenario does not run, is longer than an hour, leaves the link or its queue open, or has too few flows
    /// for what is sought.
    pub fn new(scenario: Scenario, mode: Mode, aim: Aim, weights: Weights) -> Result<Target, TargetError> {
        let refuse = |what: &str| TargetError::Unsuitable(format!("{}: {what}", scenario.name));
        let link = &scenario.link;
        let capacity = link.rate.map(|rate| rate.bytes_in(scenario.duration).get());
        let Some(bytes) = capacity else {
            return Err(refuse("a search needs a link with a constant `rate`"));
        };
        if link.queue.is_none() {
            return Err(refuse("a search needs a `queue`: the default depends on what is varied"));
        }
        if scenario.duration > LONGEST {
            return Err(refuse("a search needs runs of an hour at most"));
        }
        if aim == Aim::Unfairness && scenario.flows.len() < 2 {
            return Err(refuse("unfairness needs two flows"));
        }
        let packets = (bytes / u64::from(netsim::DEFAULT_SIZE)).max(1) as usize;
        let end = micros(scenario.duration);
        let outages = OUTAGES_PER_SECOND * scenario.duration.as_secs_f64().ceil() as usize;
        let space = Space { end, slots: packets, most_cross: packets, most_outages: outages, k_agg: K_AGG };
        let start = scenario.flows[0].start.as_nanos();
        let from = (start as u64).div_ceil(WINDOW.as_nanos() as u64) as usize;
        let access = scenario.flows[0].extra_delay;
        let propagation = micros(link.delay.unwrap_or_default() + access);
        if from * 500 >= (end / 1_000) as usize {
            return Err(refuse("the flow under test starts too late for a window of 500 ms"));
        }
        let target = Target { scenario, mode, aim, weights, space, from, propagation, calm: 0.0 };
        meter(&target.scenario, &Overlay::default(), WINDOW)?;
        let calm = target.evaluate(&Genome::default()).goal(&target.weights);
        Ok(Target { calm, ..target })
    }

    /// What the flow scores without any disturbance: what a network does to it is what it scores beyond that.
    pub fn calm(&self) -> f64 {
        self.calm
    }

    /// Runs the scenario over the genome's network.
    pub fn evaluate(&self, genome: &Genome) -> Score {
        let overlay = genome.overlay(&self.space);
        let metered = meter(&self.scenario, &overlay, WINDOW).expect("the trial run went well");
        score(&metered, self.aim, &self.weights, self.from, self.propagation, (genome, &self.space))
    }

    /// The share of what was available that the flow under test used, in each window it was on.
    pub fn course(&self, genome: &Genome) -> Vec<f64> {
        let metered = meter(&self.scenario, &genome.overlay(&self.space), WINDOW);
        let metered = metered.expect("the trial run went well");
        shares(&metered, &metered.flows[0], self.from)
    }

    /// The same with fields of its scenario changed, such as `flow[1].stack`.
    ///
    /// # Errors
    /// [`TargetError`] if there is no such field, or its value can't be taken.
    pub fn with_fields(&self, fields: &[(&str, &str)]) -> Result<Target, TargetError> {
        let mut table: Table = self.scenario.text.parse().expect("a scenario was read from this text");
        for (field, value) in fields {
            set(&mut table, field, (*value).into()).map_err(TargetError::Unsuitable)?;
        }
        let text = toml::to_string(&table).expect("a table can be written");
        let scenario = Scenario::parse(&text, &self.scenario.file).map_err(LabError::from)?;
        Target::new(scenario, self.mode, self.aim, self.weights)
    }

    /// The same with another controller in the place of the first flow's.
    ///
    /// # Errors
    /// [`TargetError`] if there is none of that name.
    pub fn with_cc(&self, cc: &str) -> Result<Target, TargetError> {
        let scenario = self.scenario.with_cc(cc).map_err(LabError::from)?;
        Target::new(scenario, self.mode, self.aim, self.weights)
    }
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

/// A target by name: the network of seed 003, section 7.4, and one of its findings.
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The controller under test.
    pub cc: &'static str,
    /// What else the flow under test is, as a scenario has it.
    pub flow: &'static str,
    /// Length of a run in seconds.
    pub seconds: u32,
    /// What is varied, unless something else is asked for.
    pub mode: &'static str,
    /// What is sought, unless something else is asked for.
    pub aim: Aim,
}

/// SACK, delayed acknowledgements, snapshots overwritten by retransmissions, timeouts of a second or more: what the thesis tested.
const TCP: &str = "source = \"tcp\"\nstack = \"ns3\"";
/// quinn's state machine and its own controllers.
const QUINN: &str = "source = \"quic\"\ncontrol = \"quinn\"\nmtu = \"1472B\"";

/// The findings of the thesis, each beside its fix, and production code.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "bbr-stall",
        summary: "BBR that believes an original's late acknowledgement to be its retransmission's (section 7.4.1)",
        cc: "bbr:round_guard=off",
        flow: TCP,
        seconds: 30,
        mode: "traffic",
        aim: Aim::LowThroughput,
    },
    Preset {
        name: "bbr-stall-fixed",
        summary: "the same with the thesis' fix: PROBE_RTT at a retransmission timeout",
        cc: "bbr:round_guard=off,timeout_probe=on",
        flow: TCP,
        seconds: 30,
        mode: "traffic",
        aim: Aim::LowThroughput,
    },
    Preset {
        name: "cubic-burst",
        summary: "CUBIC whose slow start runs past ssthresh, as ns-3's (section 7.4.2)",
        cc: "cubic:ssthresh_cap=off",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::Loss,
    },
    Preset {
        name: "cubic-burst-fixed",
        summary: "CUBIC whose slow start stops at ssthresh",
        cc: "cubic",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::Loss,
    },
    Preset {
        name: "reno-low-rate",
        summary: "NewReno over TCP with SACK: bursts that hit every retransmission (section 7.4.3)",
        cc: "newreno",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
    },
    Preset {
        name: "bbr-delay",
        summary: "BBR that never sees the path's own round trip (section 7.4.3)",
        cc: "bbr",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::HighDelay,
    },
    Preset {
        name: "bbr-faults",
        summary: "BBR with all its faults over a TCP with its own: for a search that keeps several findings",
        cc: "bbr:round_guard=off",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::Any,
    },
    Preset {
        name: "quinn-newreno",
        summary: "quinn-proto as it is, under its own NewReno",
        cc: "newreno",
        flow: QUINN,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
    },
    Preset {
        name: "quinn-cubic",
        summary: "quinn-proto as it is, under its own CUBIC",
        cc: "cubic",
        flow: QUINN,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
    },
    Preset {
        name: "quinn-bbr",
        summary: "quinn-proto as it is, under its own BBR, which draws on the system's randomness: runs differ a little",
        cc: "bbr",
        flow: QUINN,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
    },
];

impl Preset {
    /// The preset called `name`.
    pub fn find(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Its scenario: 12 Mbit/s, 20 ms each way, 100 packets, and a flow that begins after a second, so that cross traffic may be there
    /// first (seed 003, section 7.4; ccfuzz.md sections 2 and 9).
    pub fn scenario(&self) -> Scenario {
        let Preset { name, summary, cc, flow, seconds, .. } = self;
        let text = format!(
            "name = \"{name}\"\ndescription = \"{summary}\"\nduration = \"{seconds}s\"\n\n[link]\nrate = \"12mbit\"\n\
             delay = \"20ms\"\nqueue = \"droptail:100p\"\n\n[[flow]]\ncc = \"{cc}\"\n{flow}\n\
             start = \"1s\"\n"
        );
        Scenario::parse(&text, Path::new(&format!("{name}.toml"))).expect("presets are sound")
    }

    /// The preset as a target.
    pub fn target(&self) -> Target {
        let mode = self.mode.parse().expect("presets are sound");
        Target::new(self.scenario(), mode, self.aim, Weights::default()).expect("presets are sound")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_the_network_of_the_thesis() {
        for preset in PRESETS {
            let target = preset.target();
            assert_eq!(target.space.slots, preset.seconds as usize * 1_000, "{}", preset.name);
            assert_eq!((target.from, target.propagation), (2, 20_000));
            let calm = target.evaluate(&Genome::default());
            assert!(calm.used > 0.6 && calm.cross == 0, "{}: {calm:?}", preset.name);
        }
    }

    #[test]
    fn what_cannot_be_searched_says_why() {
        let refusal = |text: &str, aim| {
            let scenario = Scenario::parse(text, Path::new("x.toml")).unwrap();
            Target::new(scenario, "traffic".parse().unwrap(), aim, Weights::default())
                .unwrap_err()
                .to_string()
        };
        let flow = "[[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";
        let steps =
            format!("duration = \"5s\"\n[link]\nsteps = [[\"0s\", \"1mbit\"]]\ndelay = \"5ms\"\n{flow}");
        assert!(refusal(&steps, Aim::Loss).starts_with("x: a search needs a link with a constant"));
        let open = format!("duration = \"5s\"\n[link]\nrate = \"1mbit\"\ndelay = \"5ms\"\n{flow}");
        assert!(refusal(&open, Aim::Loss).contains("needs a `queue`"));
        let one = open.replace("delay", "queue = \"droptail:9p\"\ndelay");
        assert!(refusal(&one, Aim::Unfairness).contains("two flows"));
    }
}
