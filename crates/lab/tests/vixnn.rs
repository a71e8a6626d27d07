//! ViXNN in whole runs: under every controller and strategy, over links that lose, and the same every time.
#![cfg(feature = "vixnn")]

use std::path::Path;

use framewire_lab::run::{Outcome, RunOptions, run, run_all};
use framewire_lab::scenario::Scenario;

/// A call of small pictures over a link that loses a tenth.
fn scenario(duration: &str, flow: &str, encoder: &str) -> Scenario {
    let text = format!(
        "seed = 5\nduration = \"{duration}\"\n[link]\nrate = \"3mbit\"\ndelay = \"20ms\"\nloss = \"10%\"\n[[flow]]\n\
         initial = \"1mbit\"\n{flow}\n[flow.encoder]\nkind = \"vixnn\"\nfps = 30.0\n{encoder}\n"
    );
    Scenario::parse(&text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn all(scenarios: &[Scenario]) -> Vec<Outcome> {
    run_all(scenarios, &RunOptions { threads: 2, ..RunOptions::default() }).unwrap()
}

#[test]
fn it_runs_under_every_controller() {
    let size = "size = \"64x48\"";
    let flow = |cc: &str| format!("cc = \"{cc}\"\nnack = false");
    let names = cc::REGISTRY.iter().map(|entry| entry.name);
    let scenarios: Vec<Scenario> = names.map(|name| scenario("800ms", &flow(name), size)).collect();
    for (entry, outcome) in cc::REGISTRY.iter().zip(all(&scenarios)) {
        let frames = &outcome.summary.flows[0].frames;
        assert!(frames.displayed > 5, "{}: {frames:?}", entry.name);
    }
}

#[test]
fn it_runs_under_every_strategy_recovery_and_rate_policy() {
    let mut flows = Vec::new();
    for strategy in session::strategy::REGISTRY {
        flows.extend([false, true].map(|nack| format!("strategy = \"{}\"\nnack = {nack}", strategy.name)));
    }
    flows.extend(session::recovery::REGISTRY.iter().map(|of| format!("recovery = \"{}\"", of.name)));
    flows.extend(
        session::rate::REGISTRY.iter().map(|of| format!("cc = \"copa-0.9\"\nrate = \"{}\"", of.name)),
    );
    flows.extend(session::playout::REGISTRY.iter().map(|of| format!("playout = \"{}\"", of.name)));
    let size = "size = \"64x48\"";
    let scenarios: Vec<Scenario> = flows.iter().map(|flow| scenario("800ms", flow, size)).collect();
    for (flow, outcome) in flows.iter().zip(all(&scenarios)) {
        let frames = &outcome.summary.flows[0].frames;
        assert!(frames.displayed > 5, "{flow}: {frames:?}");
    }
}

#[test]
fn losses_are_seen_and_stop_nothing() {
    let of = |order: &str| {
        let encoder = format!("size = \"176x144\"\norder = \"{order}\"");
        run(&scenario("3s", "cc = \"sqp\"\nnack = false", &encoder), &RunOptions::default()).unwrap()
    };
    let outcome = of("rows");
    let flow = &outcome.summary.flows[0];
    assert_eq!(flow.quality, Some("measured"));
    assert!(flow.loss.unwrap() > 0.05, "{:?}", flow.loss);
    let (captured, displayed) = (flow.frames.captured, flow.frames.displayed);
    assert!(displayed + 3 >= captured, "{:?}", flow.frames);
    assert_eq!(flow.stalls.unwrap().count, 0);
    // What goes over the network does not depend on what is in the pictures.
    let sizes = |outcome: &Outcome| -> Vec<_> {
        outcome.record.flows[0].frames().iter().map(|frame| (frame.size, frame.displayed)).collect()
    };
    assert_eq!(sizes(&outcome), sizes(&of("permuted")));
}

#[test]
fn a_run_repeats_whatever_the_threads() {
    let with = |threads: usize| {
        scenario("1s", "cc = \"sqp\"", &format!("size = \"96x64\"\nbarcode = true\nthreads = {threads}"))
    };
    let hashes: Vec<String> =
        all(&[with(1), with(3), with(1)]).into_iter().map(|outcome| outcome.summary.hash).collect();
    assert!(hashes[0] == hashes[1] && hashes[0] == hashes[2], "{hashes:?}");
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let error = |encoder: &str| {
        run(&scenario("1s", "cc = \"sqp\"", encoder), &RunOptions::default()).err().unwrap().to_string()
    };
    let unknown = error("model = \"slow\"");
    assert!(
        unknown.contains("flow[1].encoder") && unknown.contains("no ViXNN model is called `slow`"),
        "{unknown}"
    );
    let missing = error("model = \"no-such.safetensors\"");
    assert!(missing.contains("no-such.safetensors"), "{missing}");
}
