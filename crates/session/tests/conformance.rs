//! Every controller of the registry under every fault: no panic, never a zero rate, and back to work within
//! five seconds of the fault's end. A new controller is tested by being registered.
#![allow(missing_docs, reason = "tests")]

mod path;

use netsim::{Impairments, LinkConfig, Reorder};
use path::{Cap, Flow, Path, build, s20};
use units::{HostClock, Rate, Span, Time};

const BEFORE: (f64, f64) = (6.0, 10.0);
/// Five seconds after the longest fault (from 10 to 15 s) and one to measure in.
const AFTER: (f64, f64) = (20.0, 22.0);

fn run(what: &str, entry: &'static cc::Entry, link: LinkConfig, flow: Flow) -> Path {
    let mut path = build(link, LinkConfig::delay(Span::from_millis(20)), vec![flow], true);
    for tick in 0..220 {
        path.world.run_until(Time::from_millis(100 * tick + 100));
        let decision = path.sender(0).decision();
        let positive =
            decision.window.is_none_or(|w| w.get() > 0) && decision.pacing.is_none_or(|p| p.as_bps() > 0);
        assert!(
            positive && decision.media.is_none_or(|m| m.as_bps() > 0),
            "{} {what}: {decision:?}",
            entry.name
        );
    }
    path
}

fn for_each(what: &str, link: impl Fn() -> LinkConfig, flow: impl Fn(Flow) -> Flow) {
    for_each_since(what, BEFORE, link, flow);
}

/// The same, held against what it carried between two times, in s.
fn for_each_since(
    what: &str,
    before: (f64, f64),
    link: impl Fn() -> LinkConfig,
    flow: impl Fn(Flow) -> Flow,
) {
    for entry in cc::REGISTRY {
        let path = run(what, entry, link(), flow(Flow::video(entry.name)));
        let rate = |(from, to)| path.throughput(0, from, to);
        let (before, after) = (rate(before), rate(AFTER));
        println!("{:10} {what:12} {before:6.2} Mbit/s before, {after:6.2} after", entry.name);
        assert!(after >= 0.5 * before && after > 0.2, "{} does not recover from {what}", entry.name);
        let shown = path.receiver(0).counters().displayed;
        assert!(shown > 0, "{} shows nothing under {what}", entry.name);
    }
}

fn impaired(impairments: Impairments) -> LinkConfig {
    LinkConfig { impairments, ..s20() }
}

#[test]
fn blackout() {
    let dark = vec![(Time::from_secs(10), Time::from_secs(15))];
    for_each(
        "blackout",
        || impaired(Impairments { blackouts: dark.clone(), ..Impairments::default() }),
        |flow| flow,
    );
}

#[test]
fn reordering() {
    let reorder = Reorder { probability: 0.3, extra: Span::from_millis(8) };
    for_each("reordering", || LinkConfig { reorder: Some(reorder), ..s20() }, |flow| flow);
}

#[test]
fn duplication() {
    for_each(
        "duplication",
        || impaired(Impairments { duplicate: 0.3, ..Impairments::default() }),
        |flow| flow,
    );
}

#[test]
fn clock_offset_and_drift() {
    for ppm in [-200.0, 200.0] {
        let clock = HostClock::new(Span::from_secs(5 * 3600), ppm);
        for_each("clock", s20, |flow| Flow { receiver_clock: clock, ..flow });
    }
}

#[test]
fn application_limits() {
    let cap = vec![Cap { from: Time::from_secs(10), to: Time::from_secs(15), most: Rate::from_kbps(100) }];
    for_each("app-limited", s20, |flow| Flow { caps: cap.clone(), ..flow });
}

#[test]
fn packet_sizes_and_a_path_that_shrinks() {
    for mtu in [300, 1200, 1472] {
        for_each("mtu", s20, |flow| Flow { mtu, ..flow });
    }
    // From 10 s on the path carries 1280-byte packets only: 1200-byte datagrams still fit.
    let narrow = || Impairments { mtu: vec![(Time::from_secs(10), 1280)], ..Impairments::default() };
    for_each("path mtu", || impaired(narrow()), |flow| flow);
}

#[test]
fn loss() {
    // It begins with the flow and lasts: there is no undisturbed rate to come back to, but a flow that
    // carries less and less would starve. BBR's start lasts beyond ten seconds here.
    for_each_since(
        "loss 2 %",
        (12.0, 20.0),
        || impaired(Impairments { loss: "bernoulli:2%".parse().unwrap(), ..Impairments::default() }),
        |flow| flow,
    );
}

#[test]
fn a_backlogged_flow_survives_a_blackout_too() {
    let dark = vec![(Time::from_secs(10), Time::from_secs(15))];
    for entry in cc::REGISTRY.iter().filter(|entry| !entry.needs_frames) {
        let link = impaired(Impairments { blackouts: dark.clone(), ..Impairments::default() });
        let path = run("blackout", entry, link, Flow { backlog: true, ..Flow::video(entry.name) });
        let (before, after) = (path.throughput(0, BEFORE.0, BEFORE.1), path.throughput(0, AFTER.0, AFTER.1));
        assert!(after >= 0.5 * before && after > 0.2, "{}: {before} then {after}", entry.name);
    }
}
