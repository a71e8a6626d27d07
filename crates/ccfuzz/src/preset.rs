//! Targets by name.

use std::path::Path;

use lab::scenario::Scenario;
use serde_json::{Value, json};

use crate::score::{Aim, Weights};
use crate::target::Target;

/// A target by name: the network of the CC-Fuzz thesis, section 7.4, and one of its findings.
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
    /// Its scenario's `[score]`, if it has one.
    pub score: &'static str,
}

/// SACK, delayed acknowledgements, snapshots overwritten by retransmissions, timeouts of a second or more:
/// what the thesis tested.
const TCP: &str = "source = \"tcp\"\nstack = \"ns3\"";
/// `bbr-faults` with everything mended: what hurts that, too, is no fault's doing.
const SOUND: &str = "\n[score]\nreference = [\"bbr:min_rtt_window=5s,policer=off\"]\nreference_stack = \"linux-no-offload\"\n";
/// quinn's state machine and its own controllers.
const QUINN: &str = "source = \"quic\"\ncontrol = \"quinn\"\nmtu = \"1472B\"";
/// smoltcp's TCP and its own controllers.
const SMOLTCP: &str = "source = \"smoltcp\"\nmtu = \"1472B\"";
/// Video of our own session, encoded to the byte as its controller asks, under the rate policy `live`.
const VIDEO: &str = "source = \"video\"\nmtu = \"1472B\"\ninitial = \"5mbit\"";
/// The same under Vidaptive's rate policy.
const VIDAPTIVE: &str = "source = \"video\"\nrate = \"vidaptive\"\nmtu = \"1472B\"\ninitial = \"5mbit\"";
/// A call of our own session as the grid has it (docs/grid.md).
const CALL: &str =
    "source = \"video\"\nmin = \"30kbit\"\nmax = \"50mbit\"\nencoder = { behaviour = \"recorded\" }";
/// Our controllers under quinn.
const QUIC: &str = "source = \"quic\"\nmtu = \"1472B\"";

/// The findings of the thesis, each beside its fix, production code, and our own.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "bbr-stall",
        summary: "BBR with ns-3's samples, which takes an original's late acknowledgement for its retransmission's (section 7.4.1)",
        cc: "bbr:round_guard=off,stale_samples=on,policer=off",
        flow: TCP,
        seconds: 30,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "bbr-stall-fixed",
        summary: "the same with the thesis' fix: PROBE_RTT at a retransmission timeout",
        cc: "bbr:round_guard=off,stale_samples=on,policer=off,timeout_probe=on",
        flow: TCP,
        seconds: 30,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "cubic-burst",
        summary: "CUBIC whose slow start runs past ssthresh, as ns-3's (section 7.4.2)",
        cc: "cubic:ssthresh_cap=off",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::Loss,
        score: "",
    },
    Preset {
        name: "cubic-burst-fixed",
        summary: "CUBIC whose slow start stops at ssthresh",
        cc: "cubic",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::Loss,
        score: "",
    },
    Preset {
        name: "reno-low-rate",
        summary: "NewReno over TCP with SACK: bursts that hit every retransmission (section 7.4.3)",
        cc: "newreno",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "bbr-delay",
        summary: "BBR that never sees the path's own round trip (section 7.4.3)",
        cc: "bbr",
        flow: TCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::HighDelay,
        score: "",
    },
    Preset {
        name: "bbr-faults",
        summary: "BBR and a TCP with faults that don't need each other: for a search that keeps several findings",
        cc: "bbr:bw_rounds=100",
        flow: TCP,
        seconds: 10,
        mode: "traffic+loss",
        aim: Aim::Any,
        score: SOUND,
    },
    Preset {
        name: "video",
        summary: "a video sender under SQP; --cc takes others: one frame of ten is late",
        cc: "sqp",
        flow: VIDEO,
        seconds: 10,
        mode: "traffic",
        aim: Aim::FrameDelay,
        score: "",
    },
    Preset {
        name: "video-stalls",
        summary: "the same: the picture stands still",
        cc: "sqp",
        flow: VIDEO,
        seconds: 10,
        mode: "traffic",
        aim: Aim::StallTime,
        score: "",
    },
    Preset {
        name: "call",
        summary: "a call, its settings varied with the network: the grid's invariants (docs/grid.md); --cc takes others",
        cc: "sqp",
        flow: CALL,
        seconds: 20,
        mode: "call+traffic+loss",
        aim: Aim::Invariants,
        score: "",
    },
    Preset {
        name: "quinn-newreno",
        summary: "quinn-proto as it is, under its own NewReno",
        cc: "newreno",
        flow: QUINN,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "quinn-cubic",
        summary: "quinn-proto as it is, under its own CUBIC",
        cc: "cubic",
        flow: QUINN,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "quinn-bbr",
        summary: "quinn-proto as it is, under its own BBR, which draws on the system's randomness: runs differ a little",
        cc: "bbr",
        flow: QUINN,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "smoltcp-reno",
        summary: "smoltcp's TCP as it is, under its Reno",
        cc: "newreno",
        flow: SMOLTCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "smoltcp-cubic",
        summary: "smoltcp's TCP as it is, under its CUBIC",
        cc: "cubic",
        flow: SMOLTCP,
        seconds: 10,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "sqp",
        summary: "SQP and video",
        cc: "sqp",
        flow: VIDEO,
        seconds: 20,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "gcc",
        summary: "GCC and video",
        cc: "gcc",
        flow: VIDEO,
        seconds: 20,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "copa",
        summary: "Copa and video",
        cc: "copa",
        flow: VIDEO,
        seconds: 20,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "vidaptive",
        summary: "Vidaptive over Copa and video",
        cc: "copa-0.9",
        flow: VIDAPTIVE,
        seconds: 20,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
    Preset {
        name: "quic-dc",
        summary: "QUIC-DC under quinn",
        cc: "quic-dc",
        flow: QUIC,
        seconds: 20,
        mode: "traffic",
        aim: Aim::LowThroughput,
        score: "",
    },
];

impl Preset {
    /// The preset called `name`.
    pub fn find(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The preset called `name`.
    ///
    /// # Errors
    /// That there is none, and which are called much alike.
    pub fn named(name: &str) -> Result<&'static Preset, String> {
        let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        let refuse = || format!("no target is called `{name}`; {}", units::instead(name, &names));
        Preset::find(name).ok_or_else(refuse)
    }

    /// As `framewire fuzz targets --json` lists it.
    pub fn json(&self) -> Value {
        let Preset { name, summary, cc, seconds, mode, aim, .. } = self;
        json!({ "name": name, "summary": summary, "cc": cc, "seconds": seconds, "mode": mode,
                "score": aim.to_string() })
    }

    /// Its scenario: 12 Mbit/s, 20 ms each way, 100 packets, and a flow that begins after a second, so that
    /// cross traffic may be there first (thesis, section 7.4).
    pub fn scenario(&self) -> Scenario {
        let Preset { name, summary, cc, flow, seconds, score, .. } = self;
        let text = format!(
            "name = \"{name}\"\ndescription = \"{summary}\"\nduration = \"{seconds}s\"\n\n[link]\nrate = \"12mbit\"\n\
             delay = \"20ms\"\nqueue = \"droptail:100p\"\n\n[[flow]]\ncc = \"{cc}\"\n{flow}\n\
             start = \"1s\"\n{score}"
        );
        Scenario::parse(&text, Path::new(&format!("{name}.toml"))).expect("presets are sound")
    }

    /// The preset as a target.
    pub fn target(&self) -> Target {
        let mode = self.mode.parse().expect("presets are sound");
        Target::new(self.scenario(), mode, self.aim, Weights::default()).expect("presets are sound")
    }
}
