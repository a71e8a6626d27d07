//! Whole runs.

mod links;
mod wanted;

use std::path::Path;

use media::Codec;

use super::*;
use crate::collect::FrameRow;
use crate::scenario::{EncoderKind, Flow, Video};

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, Path::new("test.toml")).unwrap()
}

const ONE_FLOW: &str = "\
duration = \"10s\"
warmup = \"2s\"
[link]
rate = \"20mbit\"
delay = \"20ms\"
[[flow]]
cc = \"sqp\"
";

#[test]
fn a_segments_payload_is_what_its_header_leaves() {
    let text = ONE_FLOW.replace("\"sqp\"", "\"fixed:rate=5mbit\"\nsource = \"tcp\"");
    let outcome = run(&scenario(&text), &RunOptions::default()).unwrap();
    let flow = &outcome.summary.flows[0];
    // 1448 of 1500 bytes.
    let share = flow.goodput_bps.unwrap() / flow.throughput_bps;
    assert!((share - 1448.0 / 1500.0).abs() < 0.001, "{share}");
}

#[test]
fn sqp_alone_fills_most_of_the_link_without_losing_anything() {
    let outcome = run(&scenario(ONE_FLOW), &RunOptions::default()).unwrap();
    let flow = &outcome.summary.flows[0];
    assert!((0.8..=1.0).contains(&outcome.summary.link.utilization.unwrap()), "{:?}", outcome.summary.link);
    assert_eq!((flow.loss, flow.packets.lost), (Some(0.0), Some(0)));
    assert_eq!(flow.frames.captured, flow.frames.encoded);
    let delay = flow.frame_delay_ms.unwrap();
    assert!(delay.p50 > 20.0 && delay.p99 < 100.0, "{delay:?}");
    assert!(flow.owd_ms.unwrap().p50 >= 20.0 && flow.rtt_ms.unwrap().p50 >= 40.0);
    let payload = flow.goodput_bps.unwrap() / flow.throughput_bps;
    assert!((0.9..1.0).contains(&payload), "{payload}");
    assert!(flow.ssim.unwrap().mean > 0.8 && flow.quality == Some("model"));
    assert_eq!((flow.stalls.unwrap().count, flow.share), (0, Some(1.0)));
    assert!((20.0..100.0).contains(&flow.first_frame_ms.unwrap()));
}

#[test]
fn a_run_that_is_asked_to_stop_ends_there() {
    let (stop, steps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let progress = |_| stop.store(steps.fetch_add(1, Ordering::Relaxed) == 4, Ordering::Relaxed);
    let options = RunOptions { progress: &progress, stop: Some(&stop), ..RunOptions::default() };
    assert!(matches!(run(&scenario(ONE_FLOW), &options), Err(LabError::Stopped)));
    assert_eq!(steps.into_inner(), 5);
}

#[test]
fn a_link_played_by_mahimahi_sends_at_whole_milliseconds() {
    let played = ONE_FLOW
        .replace("rate = \"20mbit\"", "rate = \"20mbit\"\nmahimahi = true\nqueue = \"droptail:60ms\"");
    let played = played.replace("sqp\"", "fixed:rate=30mbit\"\nsource = \"backlog\"\nmtu = \"1472B\"");
    let outcome = run(&scenario(&played), &RunOptions::default()).unwrap();
    let owd = outcome.summary.flows[0].owd_ms.unwrap();
    // 60 ms of 20 Mbit/s are 100 packets, which 1667 opportunities a second take 60 ms to carry.
    assert!((outcome.summary.link.utilization.unwrap() - 1.0).abs() < 1e-3, "{:?}", outcome.summary.link);
    assert!((owd.p99 - 80.0).abs() <= 2.0, "{owd:?}");
    let steps = ONE_FLOW.replace("rate = \"20mbit\"", "steps = [[\"0s\", \"0bit\"]]\nmahimahi = true");
    let refused = run(&scenario(&steps), &RunOptions::default()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("link.mahimahi: its opportunities would be none"), "{refused}");
}

fn several() -> Vec<Scenario> {
    let lossy = format!(
        "seed = 3\n{ONE_FLOW}source = \"backlog\"\n[[cross]]\nkind = \"poisson\"\nrate = \"2mbit\"\n"
    )
    .replace("[link]", "[link]\nloss = \"1%\"\njitter = \"3ms\"")
    .replace("sqp", "newreno");
    let two = format!(
        "{ONE_FLOW}clock_offset = \"3600s\"\n[[flow]]\ncc = \"sqp\"\nstart = \"3s\"\nstop = \"8s\"\nextra_delay = \"10ms\"\n"
    );
    [ONE_FLOW, &lossy, &two].map(scenario).to_vec()
}

#[test]
fn hashes_do_not_depend_on_threads() {
    let hashes = |threads| -> Vec<String> {
        let options = RunOptions { threads, keep: Keep::Totals, ..RunOptions::default() };
        run_all(&several(), &options).unwrap().into_iter().map(|o| o.summary.hash).collect()
    };
    let one = hashes(1);
    assert_eq!(one, hashes(4));
    assert!(one[0] != one[1] && one[1] != one[2]);
    let other_seed = run(&Scenario { seed: 4, ..several().remove(1) }, &RunOptions::default()).unwrap();
    assert_ne!(other_seed.summary.hash, one[1]);
}

#[test]
fn losses_and_cross_traffic_show() {
    let outcome = run(&several()[1], &RunOptions::default()).unwrap();
    let flow = &outcome.summary.flows[0];
    assert!((0.003..0.03).contains(&flow.loss.unwrap()), "{:?}", flow.loss);
    assert!(flow.share.unwrap() < 1.0 && flow.simulated.is_some());
    assert_eq!(flow.frames, Default::default());
}

/// What was not measured is null for programs, never zero.
#[test]
fn what_a_flow_does_not_have_is_not_zero() {
    let outcome = run(&several()[1], &RunOptions::default()).unwrap();
    let bulk = serde_json::to_value(&outcome.summary.flows[0]).unwrap();
    let of_video =
        ["frame_delay_ms", "frame_rtt_ms", "first_frame_ms", "frame_rate", "bitrate_bps", "psnr_db"];
    for key in of_video.into_iter().chain(["ssim", "quality", "stalls"]) {
        assert!(bulk[key].is_null(), "{key} of a flow without video is {}", bulk[key]);
    }
    let options = RunOptions { keep: Keep::Totals, ..RunOptions::default() };
    let counted = run(&several()[1], &options).unwrap();
    assert_eq!(counted.summary.flows[0].packets.lost, None);
    let counted = serde_json::to_value(&counted.summary.flows[0]).unwrap();
    for key in ["goodput_bps", "loss", "owd_ms", "rtt_ms", "share", "send_rate_cv"] {
        assert!(counted[key].is_null(), "{key} is {} where no rows were kept", counted[key]);
    }
}

#[test]
fn a_flow_that_shows_nothing_is_one_stall_and_has_no_delay() {
    let dead = ONE_FLOW.replace("[link]", "[link]\nblackout = [[\"0s\", \"10s\"]]");
    let outcome = run(&scenario(&dead), &RunOptions::default()).unwrap();
    let flow = &outcome.summary.flows[0];
    assert_eq!((flow.frames.captured, flow.frames.displayed), (480, 0));
    let stalls = flow.stalls.unwrap();
    // All that is looked at: from the warm-up to the end.
    assert_eq!((stalls.count, stalls.total_s, stalls.longest_ms), (1, 8.0, 8_000.0));
    assert_eq!((flow.frame_delay_ms, flow.first_frame_ms), (None, None));
    assert_eq!((flow.psnr_db, flow.ssim, flow.quality), (None, None, None));
    assert_eq!(outcome.summary.link.queue_ms, None);
}

#[test]
fn a_second_flow_is_seen_while_it_is_on() {
    let outcome = run(&several()[2], &RunOptions::default()).unwrap();
    let jain = outcome.summary.jain.unwrap();
    assert!(jain.mean > 0.5 && jain.mean <= 1.0);
    let second = &outcome.summary.flows[1];
    assert_eq!(second.name, "sqp-2");
    assert!((295..=305).contains(&second.frames.captured), "{:?}", second.frames);
    // Its own access link adds 10 ms each way.
    assert!(second.owd_ms.unwrap().p50 >= 30.0 && second.rtt_ms.unwrap().p50 >= 60.0);
}

#[test]
fn the_json_contract_holds() {
    let outcome = run(&scenario(ONE_FLOW), &RunOptions::default()).unwrap();
    let json = serde_json::to_value(&outcome.summary).unwrap();
    let number =
        |pointer: &str| json.pointer(pointer).and_then(|v| v.as_f64()).unwrap_or_else(|| panic!("{pointer}"));
    for key in ["/scenario", "/commit", "/hash", "/flows/0/name", "/flows/0/cc"] {
        assert!(json.pointer(key).is_some_and(|v| v.is_string()), "{key}");
    }
    for key in ["/seed", "/duration_s", "/link/utilization", "/link/loss"] {
        number(key);
    }
    for key in ["mean", "p50", "p90", "p99"] {
        number(&format!("/link/queue_ms/{key}"));
        number(&format!("/flows/0/owd_ms/{key}"));
        number(&format!("/flows/0/rtt_ms/{key}"));
    }
    for key in ["throughput_bps", "goodput_bps", "share", "loss"] {
        number(&format!("/flows/0/{key}"));
    }
    for key in ["frame_delay_ms/p50", "frame_delay_ms/p90", "frame_delay_ms/p99", "bitrate_bps/mean"] {
        number(&format!("/flows/0/{key}"));
    }
    for key in ["captured", "encoded", "displayed", "late", "skipped"] {
        number(&format!("/flows/0/frames/{key}"));
    }
    for key in ["bitrate_bps/p10", "bitrate_bps/p90", "psnr_db/mean", "psnr_db/p5", "ssim/mean", "ssim/p5"] {
        number(&format!("/flows/0/{key}"));
    }
}

#[test]
fn every_key_of_the_summary_is_documented() {
    let outcome = run(&scenario(ONE_FLOW), &RunOptions::default()).unwrap();
    let page = include_str!("../../../../docs/json.md");
    fn walk(value: &serde_json::Value, page: &str) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                assert!(page.contains(&format!("`{key}`")), "docs/json.md does not mention `{key}`");
                walk(value, page);
            }),
            serde_json::Value::Array(list) => list.iter().for_each(|value| walk(value, page)),
            _ => {}
        }
    }
    walk(&serde_json::to_value(&outcome.summary).unwrap(), page);
}

#[test]
fn missing_files_are_scenario_errors() {
    let message = |text: String| run(&scenario(&text), &RunOptions::default()).err().unwrap().to_string();
    let trace = message(ONE_FLOW.replace("rate = \"20mbit\"", "trace = \"none.trace\""));
    assert!(trace.starts_with("test.toml:4: link.trace: trace none.trace: "), "{trace}");
    let clip = message(format!("{ONE_FLOW}[flow.encoder]\nkind = \"h264\"\nclip = \"none.y4m\"\n"));
    assert!(clip.starts_with("test.toml:10: flow[1].encoder.clip: "), "{clip}");
}

#[test]
fn real_codecs_are_measured_frame_by_frame() {
    let built = Codec::ALL.iter().filter(|codec| codec.check().is_ok());
    for kind in built.map(|codec| codec.name()) {
        let text = format!(
            "{}[flow.encoder]\nkind = \"{kind}\"\nfps = 30.0\nsize = \"320x180\"\nbarcode = true\n",
            ONE_FLOW.replace("10s", "3s").replace("2s", "0s").replace("20mbit", "2mbit")
        );
        let outcome = run(&scenario(&text), &RunOptions::default()).unwrap();
        let flow = &outcome.summary.flows[0];
        assert_eq!(flow.quality, Some("measured"));
        let frames = outcome.record.flows[0].frames();
        let shown = || frames.iter().filter(|frame| frame.displayed.is_some());
        assert!(shown().count() > 80, "{kind}: {:?}", flow.frames);
        assert!(
            shown().all(|frame| frame.shown_quality.0.is_some() && frame.shown_quality.1.is_some()),
            "{kind}"
        );
        assert!(shown().map(|frame| frame.displayed).is_sorted(), "{kind}");
        assert!(flow.psnr_db.unwrap().mean > 20.0, "{kind}: {:?}", flow.psnr_db);
    }
}

#[test]
fn a_codec_that_was_not_built_in_is_a_scenario_error() {
    let text = format!("{ONE_FLOW}[flow.encoder]\nkind = \"vp8\"\nsize = \"64x64\"\n");
    let outcome = run(&scenario(&text.replace("10s", "3s")), &RunOptions::default());
    assert_eq!(outcome.is_ok(), Codec::by_name("vp8").unwrap().check().is_ok());
    if let Err(error) = outcome {
        let said = error.to_string();
        assert!(said.contains("flow[1].encoder") && said.contains("--features vpx"), "{said}");
    }
    let sliced = run(&scenario(&format!("{text}slices = true\n")), &RunOptions::default());
    let said = sliced.map(drop).unwrap_err().to_string();
    assert!(said.contains("no slices") || said.contains("--features vpx"), "{said}");
}

#[test]
fn a_real_codec_survives_an_outage_with_smaller_pictures() {
    let text = r#"
        duration = "6s"
        [link]
        steps = [["0s", "2mbit"], ["1s", "0bit"], ["3s", "2mbit"]]
        delay = "20ms"
        queue = "infinite"
        [[flow]]
        cc = "copa-0.9"
        rate = "vidaptive-paper"
        initial = "1mbit"
        min = "30kbit"
        max = "4mbit"
        feedback_packets = 2
        [flow.encoder]
        kind = "h264"
        fps = 30.0
        size = "640x360"
        barcode = true
    "#;
    let outcome = run(&scenario(text), &RunOptions::default()).unwrap();
    let frames = outcome.record.flows[0].frames();
    let shown = || frames.iter().filter(|frame| frame.displayed.is_some());
    let of = |height| shown().filter(move |frame| frame.height == height);
    assert!(
        of(360).count() > 20 && of(270).chain(of(180)).count() > 20,
        "{:?}",
        outcome.summary.flows[0].frames
    );
    assert!(shown().all(|frame| frame.shown_quality.0.is_some_and(|psnr| psnr > 15.0)));
    let mut last = 360;
    for frame in frames.iter().filter(|frame| frame.encoded.is_some()) {
        assert!(frame.height == last || frame.key, "another size without a key frame");
        last = frame.height;
    }
}

#[test]
fn the_default_drains_what_a_fall_to_a_quarter_leaves_with_a_real_codec() {
    let text = r#"
        duration = "10s"
        [link]
        steps = [["0s", "3mbit"], ["4s", "750kbit"], ["7s", "3mbit"]]
        delay = "20ms"
        queue = "droptail:1s"
        [[flow]]
        cc = "default"
        [flow.encoder]
        kind = "h264"
        size = "480x270"
        fps = 30.0
    "#;
    let outcome = run(&scenario(text), &RunOptions::default()).unwrap();
    let at = |ms: u64| Time::from_millis(ms);
    let during = |from, to| {
        let left = outcome.record.link.departures.iter();
        left.filter(move |packet| (at(from)..at(to)).contains(&packet.at))
    };
    let longest =
        |from, to| during(from, to).map(|packet| packet.sojourn.as_millis_f64()).fold(0.0, f64::max);
    let rate =
        |from, to| during(from, to).map(|packet| f64::from(packet.size)).sum::<f64>() / (to - from) as f64;
    let (peak, drained) = (longest(4_000, 7_000), longest(5_500, 7_000));
    let back = rate(9_000, 10_000) / rate(2_000, 4_000);
    println!("peak {peak:.0} ms, then {drained:.0} ms; {back:.2} of the rate before");
    // SQP's own form has 652 and 178 ms.
    assert!(peak < 350.0 && drained < 100.0 && back >= 0.9, "{peak} {drained} {back}");
    let captured = |frame: &&FrameRow| frame.captured.is_some_and(|captured| captured < at(4_000));
    let mut steady = outcome.record.flows[0].frames().iter().filter(captured);
    assert!(steady.all(|frame| !frame.skipped), "a frame was left out on a steady link");
}

#[test]
fn pictures_of_a_real_codec_shrink_as_libwebrtcs_do() {
    let text = r#"
        duration = "3s"
        [link]
        rate = "5mbit"
        delay = "10ms"
        [[flow]]
        cc = "fixed:rate=500kbit"
        rate = "webrtc"
        initial = "500kbit"
        [flow.encoder]
        kind = "h264"
        size = "640x360"
        fps = 60.0
    "#;
    let outcome = run(&scenario(text), &RunOptions::default()).unwrap();
    let frames = outcome.record.flows[0].frames();
    let height = |second: u64| {
        let captured = |frame: &&FrameRow| frame.captured >= Some(Time::from_secs(second));
        frames.iter().find(captured).map(|frame| frame.height)
    };
    assert_eq!([height(0), height(1)], [Some(360); 2]);
    assert_eq!(frames.iter().rev().find(|frame| frame.displayed.is_some()).unwrap().height, 270);
}

#[test]
fn the_documented_scenarios_and_the_shipped_ones_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/scenario.md")).unwrap();
    let mut scenarios: Vec<Scenario> = page
        .split("```toml\n")
        .skip(1)
        .map(|rest| scenario(rest.split("```").next().unwrap_or_default()))
        .collect();
    assert_eq!(scenarios.len(), 3);
    let folders = ["scenarios", "scenarios/beside"].map(|folder| root.join(folder));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    scenarios.extend(files.iter().map(|file| Scenario::load(file).unwrap_or_else(|e| panic!("{e}"))));
    assert!(scenarios.len() >= 9);
    let built = |video: &Video| match video.encoder.kind {
        EncoderKind::Model | EncoderKind::VixnnModel => true,
        EncoderKind::Codec(codec) => codec.check().is_ok(),
    };
    scenarios.retain(|scenario| scenario.flows.iter().filter_map(Flow::video).all(built));
    for scenario in &mut scenarios {
        // Whether they run at all is the question here, not how.
        scenario.duration = scenario.duration.min(Span::from_secs(2));
        scenario.warmup = Span::ZERO;
    }
    for outcome in run_all(&scenarios, &RunOptions { threads: 2, ..RunOptions::default() }).unwrap() {
        assert!(outcome.summary.flows[0].packets.received > 0, "{}", outcome.scenario.name);
    }
}

#[test]
fn quic_flows_are_measured_as_all_others_and_repeat() {
    let text = "seed = 3\nduration = \"20s\"\nwarmup = \"2s\"\n[link]\nrate = \"12mbit\"\ndelay = \"20ms\"\n\
                queue = \"droptail:60ms\"\n[[flow]]\ncc = \"quic-dc:threshold=20ms\"\nsource = \"quic\"\nmtu = \"1472B\"\n\
                clock_offset = \"3600s\"\n[[flow]]\ncc = \"newreno\"\nsource = \"quic\"\nstart = \"1s\"\n\
                workload = \"transfer:4MB\"\nextra_delay = \"5ms\"\n";
    let outcome = run(&scenario(text), &RunOptions::default()).unwrap();
    let [endless, transfer] = &outcome.summary.flows[..] else { panic!("two flows") };
    assert!(outcome.summary.link.utilization.unwrap() > 0.9, "{:?}", outcome.summary.link);
    assert!(endless.owd_ms.unwrap().p50 >= 20.0 && endless.rtt_ms.unwrap().p50 >= 40.0);
    assert!(transfer.rtt_ms.unwrap().p50 >= 50.0);
    let record = &outcome.record.flows[1];
    assert_eq!(record.observed.get("transfer_bytes").unwrap()[0].1, 4e6);
    assert!(record.totals.sent > 4_000_000 / 1200 && record.totals.unmatched == 0, "{:?}", record.totals);
    assert_eq!(record.totals.received + record.totals.given_up - record.totals.spurious, record.totals.sent);
    let again = run(&scenario(text), &RunOptions::default()).unwrap();
    assert_eq!(again.summary.hash, outcome.summary.hash);
    let tls =
        run(&scenario(&text.replace("mtu =", "crypto = \"tls\"\nmtu =")), &RunOptions::default()).unwrap();
    assert_ne!(tls.summary.hash, outcome.summary.hash);
}
