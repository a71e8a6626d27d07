//! `framewire sweep`: what is refused, what is written, and that interruptions leave no trace.

#![allow(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn framewire(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = framewire(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn refused(arguments: &[&str]) -> String {
    let output = framewire(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{arguments:?}: {error}");
    error
}

/// A folder of this test's own with a scenario in it, and a name for results below it.
fn folder(name: &str, duration: &str) -> (String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let file = folder.join("base.toml");
    let text = format!(
        "duration = \"{duration}\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\nloss = \"1%\"\n[[flow]]\ncc = \"sqp\"\n"
    );
    fs::write(&file, text).expect("the temporary folder can be written");
    (file.display().to_string(), folder.join("out").display().to_string())
}

/// The runs that the journal of a sweep has, by their lines that are whole; none where there is no journal.
fn done(out: &str) -> Vec<u64> {
    let text = fs::read(Path::new(out).join("journal.jsonl")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let runs = whole.lines().skip(1).map(|line| {
        let run: Value = serde_json::from_str(line.split_once(' ').expect("a checksum").1).expect("a run");
        run["run"].as_u64().expect("a number")
    });
    runs.collect()
}

/// Waits until the journal of `out` has at least so many runs, or the child has ended.
fn wait_for(out: &str, runs: usize, child: &mut Child) {
    while done(out).len() < runs && child.try_wait().expect("it is ours").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

const AXES: [&str; 4] = ["--vary", "link.rate=2mbit,5mbit", "--vary", "flow[1].cc=sqp:target=0.8,gcc"];

#[test]
fn a_sweep_that_is_killed_three_times_ends_in_the_same_bytes() {
    let (file, whole) = folder("sweep-killed", "3s");
    let parts = format!("{whole}-parts");
    let asked = |out: &str, jobs: &str| -> Vec<String> {
        let rest = ["--seeds", "6", "--out", out, "--jobs", jobs, "--json"];
        ["sweep", &file].iter().chain(&AXES).chain(&rest).map(|text| (*text).to_owned()).collect()
    };
    let run = |out: &str, jobs: &str| {
        let arguments = asked(out, jobs);
        json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let first = run(&whole, "2");
    for kill in 1..=3 {
        let arguments = asked(&parts, "1");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let before = done(&parts).len();
        let mut child = command(&arguments).spawn().expect("the command starts");
        wait_for(&parts, before + 2, &mut child);
        child.kill().expect("it is ours");
        let status = child.wait().expect("it is ours");
        assert_eq!(status.code(), None, "kill {kill} came too late: the sweep had ended");
        assert!((before + 2..24).contains(&done(&parts).len()), "kill {kill}");
        assert!(!Path::new(&parts).join("runs.parquet").exists());
    }
    assert_eq!(run(&parts, "2"), first);
    let runs = done(&parts);
    let each: BTreeSet<u64> = runs.iter().copied().collect();
    assert_eq!((runs.len(), each.len()), (24, 24), "no run is lost, none is done twice: {runs:?}");
    for name in ["runs.parquet", "groups.parquet", "report.html"] {
        let [a, b] = [&whole, &parts].map(|out| fs::read(Path::new(out).join(name)).expect(name));
        assert!(a == b && !a.is_empty(), "{name} differs");
    }
    // What is done is not done again, and other work is not mixed with it.
    assert_eq!(run(&parts, "1"), first);
    assert_eq!(done(&parts), runs);
    let error = refused(&["sweep", &file, "--seeds", "6", "--out", &parts]);
    assert!(
        error.contains("holds another sweep: it varies something else") && error.contains("--fresh"),
        "{error}"
    );
    let anew = json(&["sweep", &file, "--seeds", "2", "--out", &parts, "--fresh", "--json"]);
    assert_eq!((&anew["runs"], done(&parts).len()), (&2.into(), 2));
}

#[test]
fn an_interrupt_leaves_what_is_done_and_says_how_to_go_on() {
    let (file, out) = folder("sweep-interrupted", "3s");
    let arguments = ["sweep", &file, "--seeds", "40", "--jobs", "1", "--out", &out];
    let mut child = command(&arguments).spawn().expect("the command starts");
    wait_for(&out, 2, &mut child);
    // SAFETY: it only sends a signal to a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let output = child.wait_with_output().expect("it is ours");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let runs = done(&out).len();
    assert!(error.contains(&format!("stopped after {runs} of 40 runs; the same command goes on")), "{error}");
    assert!(!Path::new(&out).join("runs.parquet").exists());
}

#[test]
fn what_is_wrong_is_said_before_anything_is_run() {
    let (file, out) = folder("sweep-refused", "1s");
    for (arguments, what) in [
        (["--vary", "link.rate=1mbit,3mbot"], "--vary link.rate=3mbot: "),
        (["--vary", "flow[1].cc=sqp,gcd"], "--vary flow[1].cc=gcd: "),
        (["--vary", "flow[2].cc=sqp"], "--vary flow[2].cc=sqp: `flow` has 1 elements"),
        (["--vary", "link.rate"], "--vary link.rate: write FIELD=VALUE"),
        (["--vary", "link.rate=1mbit,1mbit"], "link.rate: has the value `1mbit` twice"),
        (["--vary", "link.trace=nowhere.trace"], "link.trace=nowhere.trace: "),
        (["--vary", "seed=1,2"], "seed: seeds are no axis"),
        (["--seeds", "3,3"], "seed 3 is there twice"),
        (["--seeds", "many"], "write how many, such as 10, or which, such as 3,7,9"),
        (["--seeds", "300000"], "at most 200000 runs"),
        (["--set", "link.rate=fast"], "link.rate"),
    ] {
        let error = refused(&[&["sweep", &file, "--out", &out], &arguments[..]].concat());
        assert!(error.contains(what), "{arguments:?}: {error}");
        assert!(!Path::new(&out).exists(), "{arguments:?}");
    }
}

#[test]
fn groups_are_means_of_what_run_prints_and_every_run_names_its_settings() {
    let (file, out) = folder("sweep-groups", "2s");
    let swept =
        json(&["sweep", &file, "--vary", "link.rate=2mbit", "--seeds", "7,9", "--out", &out, "--json"]);
    let run = |seed: &str| json(&["run", &file, "--set", "link.rate=2mbit", "--seed", seed, "--json"]);
    let runs = [run("7"), run("9")];
    assert_eq!(runs[0]["settings"], serde_json::json!({ "seed": 7, "link.rate": "2mbit" }));
    let group = &swept["groups"][0];
    assert_eq!((&group["settings"]["link.rate"], &group["seeds"]), (&"2mbit".into(), &2.into()));
    for (name, path) in [
        ("throughput_bps", "/flows/0/throughput_bps"),
        ("frame_delay_ms_p95", "/flows/0/frame_delay_ms/p95"),
        ("packets_sent", "/flows/0/packets/sent"),
        ("link_queue_ms_mean", "/link/queue_ms/mean"),
    ] {
        let [a, b] = [0, 1].map(|at| runs[at].pointer(path).and_then(Value::as_f64).expect(path));
        let figure = &group["figures"][name];
        assert_eq!(figure["mean"].as_f64(), Some((a + b) / 2.0), "{name}");
        // t(0.975, 1) = 12.706 times the deviation of two values over the root of two.
        let half = 12.706_205 * (a - b).abs() / 2.0;
        let told = figure["ci95"].as_f64().expect("two runs");
        assert!((told - half).abs() <= 1e-9 * half.abs().max(1.0), "{name}: {told} {half}");
    }
    assert_eq!(group["figures"]["jain_mean"], serde_json::json!({ "mean": null, "ci95": null, "n": 0 }));
    let plain = json(&["run", &file, "--json"]);
    assert_eq!(plain["settings"], serde_json::json!({}));
    let named = json(&["run", &file, "--cc", "gcc", "--duration", "1500ms", "--json"]);
    assert_eq!(named["settings"], serde_json::json!({ "duration": "1.5s", "flow[1].cc": "gcc" }));
    // For people: a row a setting, and where the rest is.
    let output = framewire(&["sweep", &file, "--vary", "link.rate=2mbit", "--seeds", "7,9", "--out", &out]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" ± ") && text.contains("Mbit/s") && text.contains("report.html"), "{text}");
    assert!(!text.contains("Seeds make no difference"), "{text}");
    assert_eq!(group["seeds_matter"], true);
    let help = framewire(&["sweep", "--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("framewire sweep scenarios/"));
}

#[test]
fn intervals_that_no_seed_moves_are_not_shown_without_a_word() {
    let (file, out) = folder("sweep-seedless", "1s");
    let asked = ["sweep", &file, "--vary", "link.loss=,1%", "--seeds", "3", "--out", &out];
    let output = framewire(&asked);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("Seeds make no difference")).collect();
    assert_eq!(notes.len(), 1, "{text}");
    assert!(notes[0].contains("in 1 of 2 settings (link.loss=): all 3 runs have the same figures"), "{text}");
    let told = json(&[&asked[..], &["--json"]].concat());
    let matter: Vec<&Value> = (0..2).map(|at| &told["groups"][at]["seeds_matter"]).collect();
    assert_eq!(matter, [false, true]);
    let page = fs::read_to_string(Path::new(&out).join("report.html")).expect("the report is there");
    assert!(page.contains("Seeds make no difference in 1 of 2 settings (link.loss=): "));
}
