//! ViXNN in whole runs: under every controller and strategy, over links that lose, and the same every time.
#![cfg(feature = "vixnn")]

use std::path::Path;

use framewire_lab::run::{Outcome, RunOptions, run, run_all};
use framewire_lab::scenario::Scenario;

/// A call of small pictures over a link that loses a tenth.
fn scenario(duration: &str, flow: &str, encoder: &str) -> Scenario {
    let text = scenario_text(duration, flow, encoder);
    Scenario::parse(&text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn scenario_text(duration: &str, flow: &str, encoder: &str) -> String {
    format!(
        "seed = 5\nduration = \"{duration}\"\n[link]\nrate = \"3mbit\"\ndelay = \"20ms\"\nloss = \"10%\"\n[[flow]]\n\
         initial = \"1mbit\"\n{flow}\n[flow.encoder]\nkind = \"vixnn\"\nfps = 30.0\n{encoder}\n"
    )
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

#[test]
fn eight_frames_travel_together_and_are_shown_one_by_one() {
    let of = |group: usize, threads: usize| {
        let encoder = format!("size = \"176x144\"\nbarcode = true\ngroup = {group}\nthreads = {threads}");
        scenario("6s", "cc = \"sqp\"\nnack = false\nrecovery = \"none\"", &encoder)
    };
    let [one, eight, again]: [Outcome; 3] = all(&[of(1, 1), of(8, 1), of(8, 2)]).try_into().ok().unwrap();
    assert_eq!(eight.summary.hash, again.summary.hash);
    let frames = eight.record.flows[0].frames();
    let flow = &eight.summary.flows[0];
    // All but the last group, which had not left when the run ended, and one or two of which hardly anything
    // came.
    assert!(flow.frames.displayed + 26 >= flow.frames.captured, "{:?}", flow.frames);
    // Nobody knows of the first group that it is one: if incomplete, it is shown when the second begins.
    assert!(flow.frames.late <= 8 && flow.stalls.unwrap().count == 0, "{:?} {:?}", flow.frames, flow.stalls);
    assert!(flow.loss.unwrap() > 0.05, "{:?}", flow.loss);
    // Pictures follow each other as they were captured.
    let shown: Vec<_> = frames.iter().filter_map(|frame| frame.displayed).collect();
    let apart = |pair: &[units::Time]| (pair[1] - pair[0]).as_millis_f64();
    let even = shown.windows(2).filter(|pair| (16.0..60.0).contains(&apart(pair))).count();
    assert!(even * 20 >= shown.len() * 19, "{even} of {}", shown.len());
    // A frame waits for the last of its group, and no longer.
    let delay = |outcome: &Outcome| {
        let delays = outcome.record.flows[0].frames().iter().filter_map(|frame| frame.delay());
        let delays: Vec<f64> = delays.map(|delay| delay.as_millis_f64()).collect();
        delays.iter().sum::<f64>() / delays.len() as f64
    };
    let later = delay(&eight) - delay(&one);
    assert!((7.0 * 33.0..9.5 * 33.4).contains(&later), "{later} ms");
    // Bytes are shared among the frames of a group, and fewer of them are headers.
    let packets = |outcome: &Outcome| outcome.record.flows[0].totals.sent as f64;
    assert!(packets(&eight) < packets(&one), "{} {}", packets(&eight), packets(&one));
    let coded: u64 = frames.iter().map(|frame| u64::from(frame.size)).sum();
    let sent: u64 = eight.record.flows[0].packets.iter().map(|packet| u64::from(packet.size)).sum();
    let headers = wire::Media::LEN as u64 * eight.record.flows[0].packets.len() as u64;
    assert!(sent >= coded && sent <= coded + headers + coded / 20, "{sent} for {coded} with {headers}");
}

#[test]
fn groups_run_under_every_strategy_rate_and_playout() {
    let strategies = session::strategy::REGISTRY.iter().map(|of| format!("strategy = \"{}\"", of.name));
    let rates = session::rate::REGISTRY.iter().map(|of| format!("cc = \"copa-0.9\"\nrate = \"{}\"", of.name));
    let playouts = session::playout::REGISTRY.iter().map(|of| format!("playout = \"{}\"", of.name));
    let flows: Vec<String> = strategies.chain(rates).chain(playouts).collect();
    let encoder = "size = \"64x48\"\ngroup = 8";
    let scenarios: Vec<Scenario> = flows.iter().map(|flow| scenario("2s", flow, encoder)).collect();
    for (flow, outcome) in flows.iter().zip(all(&scenarios)) {
        let frames = &outcome.summary.flows[0].frames;
        assert!(frames.displayed > 24, "{flow}: {frames:?}");
    }
}

/// The game of 352x288 that the shipped table was recorded of.
fn beside_the_model(kind: &str, loss: &str, mbit: &str, more: &str) -> Scenario {
    let encoder = match kind {
        "vixnn" => "kind = \"vixnn\"\nsize = \"352x288\"\nfps = 30.0",
        _ => "kind = \"vixnn-model\"\ntable = \"synthetic_game\"",
    };
    let text = format!(
        "seed = 1\nduration = \"4s\"\n[link]\nrate = \"{mbit}mbit\"\ndelay = \"20ms\"\nloss = \"{loss}%\"\n[[flow]]\n\
         cc = \"sqp\"\ninitial = \"1mbit\"\nnack = false\nrecovery = \"none\"\n{more}\n[flow.encoder]\n{encoder}\n"
    );
    Scenario::parse(&text, Path::new("test.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn the_model_sends_what_the_network_sends_and_looks_as_it_does() {
    // Packets of 600 bytes: two of each descriptor, so that blocks have different ones or none.
    for (loss, mbit, more) in [("0", "2", ""), ("10", "2", ""), ("20", "0.7", "mtu = \"600B\"")] {
        let of = |kind| beside_the_model(kind, loss, mbit, more);
        let [real, model]: [Outcome; 2] = all(&[of("vixnn"), of("vixnn-model")]).try_into().ok().unwrap();
        let rows = |outcome: &Outcome| outcome.record.flows[0].frames().to_vec();
        let (real_rows, model_rows) = (rows(&real), rows(&model));
        assert!(real_rows.len() > 100);
        for (real, model) in real_rows.iter().zip(&model_rows) {
            let of = |row: &framewire_lab::collect::FrameRow| {
                (row.captured, row.size, row.packets, row.assembled, row.displayed, row.late)
            };
            assert_eq!(of(real), of(model), "loss {loss} %");
            assert_eq!(model.psnr().is_some(), model.displayed.is_some());
        }
        let (real, model) = (&real.summary.flows[0], &model.summary.flows[0]);
        assert_eq!((real.quality, model.quality), (Some("measured"), Some("model")));
        let psnr = model.psnr_db.unwrap().mean - real.psnr_db.unwrap().mean;
        let ssim = model.ssim.unwrap().mean - real.ssim.unwrap().mean;
        println!("loss {loss} %: {psnr:+.3} dB, SSIM {ssim:+.4}");
        assert!(psnr.abs() < 0.3 && ssim.abs() < 0.01, "loss {loss} %: {psnr:+.3} dB, {ssim:+.4}");
    }
}

#[test]
fn the_model_runs_under_every_strategy_and_in_groups() {
    let strategies = session::strategy::REGISTRY.iter().map(|of| format!("strategy = \"{}\"", of.name));
    let flows: Vec<String> = strategies.chain([String::new()]).collect();
    let scenario = |flow: &String, group: usize| {
        let encoder = format!("table = \"big_buck_bunny\"\norder = \"permuted\"\ngroup = {group}");
        let text = scenario_text("2s", flow, &encoder).replace("\"vixnn\"", "\"vixnn-model\"");
        Scenario::parse(&text, Path::new("test.toml")).unwrap()
    };
    let scenarios: Vec<Scenario> =
        flows.iter().flat_map(|flow| [1, 8].map(|group| scenario(flow, group))).collect();
    for (scenario, outcome) in scenarios.iter().zip(all(&scenarios)) {
        let flow = &outcome.summary.flows[0];
        assert!(flow.frames.displayed > 24, "{scenario:?}: {:?}", flow.frames);
        assert_eq!(flow.quality, Some("model"));
        let shown = outcome.record.flows[0].frames().iter().filter(|row| row.displayed.is_some());
        assert!(shown.clone().all(|row| row.psnr().is_some()), "{scenario:?}");
    }
}

#[test]
fn a_table_of_another_size_or_none_is_refused() {
    let error = |encoder: &str| {
        let text = scenario_text("1s", "", encoder).replace("\"vixnn\"", "\"vixnn-model\"");
        let scenario = Scenario::parse(&text, Path::new("test.toml")).unwrap();
        run(&scenario, &RunOptions::default()).err().unwrap().to_string()
    };
    let size = error("size = \"352x288\"");
    assert!(size.contains("352x288 was not recorded; the table is of 640x360"), "{size}");
    assert!(error("table = \"no-such.json\"").contains("no-such.json"));
}
