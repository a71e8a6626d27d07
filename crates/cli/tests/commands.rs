//! What the commands print when all is well.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn framewire(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_framewire")).args(arguments).stdin(Stdio::null()).output();
    output.expect("the command starts")
}

fn printed(arguments: &[&str]) -> String {
    let output = framewire(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    assert!(error.is_empty(), "{arguments:?} is noisy where standard error is no terminal: {error}");
    String::from_utf8(output.stdout).expect("results are text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).expect("one JSON object")
}

/// A two-second scenario in a file of this test's own.
fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    let text = "duration = \"2s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:120ms\"\n\
                [[flow]]\ncc = \"sqp\"\n";
    std::fs::write(&path, text).expect("the temporary folder can be written");
    path.display().to_string()
}

#[test]
fn controllers_and_queues_are_listed() {
    let names = |value: &Value| -> Vec<String> {
        let rows = value.as_array().expect("a list").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    let listed = json(&["controllers", "--json"]);
    let listed = names(&listed["controllers"]);
    assert!(
        ["sqp", "newreno", "fixed"].iter().all(|name| listed.contains(&(*name).to_owned())),
        "{listed:?}"
    );
    assert!(names(&json(&["queues", "--json"])["queues"]).contains(&"droptail".to_owned()));
    assert_eq!(names(&json(&["predict", "list", "--json"])["predictors"]), ["cnn", "rtt"]);
    let text = printed(&["controllers"]);
    assert!(["sqp", "newreno", "fixed"].iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn claims_are_held_against_their_bands() {
    let folder = ["--experiments", "../../experiments"];
    let checked = json(&[&["lab", "check", "sqp-theory", "--json"][..], &folder].concat());
    assert_eq!(
        (&checked["held"], &checked["missed"], &checked["skipped"]),
        (&10.into(), &0.into(), &0.into())
    );
    let row = &checked["rows"][0];
    for key in ["id", "kind", "claimed", "measured", "band", "verdict", "seconds"] {
        assert!(!row[key].is_null(), "{key} in {row}");
    }
    let listed = |which: [&str; 2]| printed(&[&["lab", "list", "--json"][..], &which, &folder].concat());
    let quic = listed(["--paper", "quic-dc"]);
    assert!(quic.contains("quic-dc-four-flows") && !quic.contains("rate-drop"), "{quic}");
    for (paper, document) in [("sqp", "000"), ("quic-dc", "001"), ("gcc-aqm", "002"), ("vidaptive", "004")] {
        assert_eq!(listed(["--paper", paper]), listed(["--seed", document]), "{paper}");
    }
    let thesis = listed(["--paper", "thesis"]);
    assert!(thesis.contains("003-ccfuzz") && thesis.contains("003-prism"), "{thesis}");
}

#[test]
fn every_command_teaches_itself() {
    assert!(printed(&["--help"]).contains("framewire demo"));
    assert!(printed(&["--version"]).starts_with("framewire "));
    for command in ["run", "compare", "demo", "bench", "send", "receive", "relay", "upload", "ingest"] {
        let help = printed(&[command, "--help"]);
        assert!(help.contains("Example") && help.contains(&format!("framewire {command}")), "{help}");
    }
}

#[test]
fn a_run_prints_one_object_that_keeps_the_contract() {
    let file = scenario("contract");
    let run = json(&["run", &file, "--seed", "3", "--json"]);
    for key in ["scenario", "seed", "commit", "hash", "duration_s", "link", "flows"] {
        assert!(!run[key].is_null(), "no {key} in {run}");
    }
    assert_eq!((run["seed"].as_u64(), run["duration_s"].as_f64()), (Some(3), Some(2.0)));
    for path in ["/link/utilization", "/link/loss", "/link/queue_ms/p99", "/flows/0/throughput_bps"] {
        assert!(run.pointer(path).is_some_and(Value::is_number), "no {path} in {run}");
    }
    for path in
        ["name", "cc", "owd_ms", "rtt_ms", "frame_delay_ms/p90", "frames/displayed", "bitrate_bps/mean"]
    {
        assert!(run.pointer(&format!("/flows/0/{path}")).is_some_and(|v| !v.is_null()), "no {path} in {run}");
    }
}

#[test]
fn the_same_seed_gives_the_same_hash_and_changes_change_it() {
    let file = scenario("hash");
    let hash = |extra: &[&str]| json(&[&["run", &file, "--json"], extra].concat())["hash"].clone();
    assert_eq!(hash(&[]), hash(&["--seed", "1"]));
    assert_ne!(hash(&[]), hash(&["--set", "link.rate=4mbit"]));
    assert_ne!(hash(&[]), hash(&["--cc", "fixed"]));
    assert_ne!(hash(&[]), hash(&["--duration", "1s"]));
}

#[test]
fn comparing_gives_what_running_alone_gives() {
    let file = scenario("compare");
    let together = json(&["compare", &file, "--cc", "sqp,newreno,fixed", "--json"]);
    let runs = together["runs"].as_array().expect("a list of runs");
    assert_eq!(runs.len(), 3);
    for (run, cc) in runs.iter().zip(["sqp", "newreno", "fixed"]) {
        assert_eq!(run["hash"], json(&["run", &file, "--cc", cc, "--json"])["hash"], "{cc}");
    }
}

#[test]
fn an_output_folder_holds_tables_scenario_and_report() {
    let file = scenario("folder");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("commands-out");
    let _ = std::fs::remove_dir_all(&out);
    let table = printed(&["run", &file, "--out", &out.display().to_string()]);
    assert!(table.contains("sqp") && table.contains("report.html"), "{table}");
    let report = std::fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(report.contains("<svg") && report.len() > 2_000);
    let names: Vec<_> = std::fs::read_dir(&out).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().ends_with(".parquet")), "{names:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_find_no_room_leave_nothing() {
    let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("commands-full");
    let _ = std::fs::remove_dir_all(&base);
    std::fs::create_dir_all(&base).expect("the temporary folder can be written");
    let file = scenario("full");
    for (command, out) in
        [("run", "new"), ("compare", "deep/er"), ("demo --input synthetic --duration 1s", "demo")]
    {
        let file = if command.starts_with("demo") { "" } else { &*file };
        let out = base.join(out).display().to_string();
        // A file may have a few kilobytes at most, so that tables don't fit: `ulimit` counts blocks of 1024
        // bytes.
        let line = format!("trap '' XFSZ; ulimit -f 4; exec \"$0\" {command} {file} --out {out}");
        let output = Command::new("bash").args(["-c", &line, env!("CARGO_BIN_EXE_framewire")]).output();
        let output = output.expect("there is a shell");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{command}: {error}");
        assert!(error.contains("cannot write") && error.contains(&out), "{error}");
        assert_eq!(std::fs::read_dir(&base).expect("it is there").count(), 0, "{command}");
    }
}

#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        assert!(["framewire", "compare", "duration"].iter().all(|word| script.contains(word)), "{shell}");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man1");
    let _ = std::fs::remove_dir_all(&folder);
    printed(&["man", &folder.display().to_string()]);
    for page in ["framewire.1", "framewire-send.1", "framewire-lab-check.1", "framewire-fuzz-keep.1"] {
        let text = std::fs::read_to_string(folder.join(page)).expect(page);
        assert!(text.contains(".SH NAME") && text.contains("\\-\\-help"), "{page}");
    }
}

/// What an installed command is: somewhere else, with nothing of the repository around it.
#[test]
fn an_empty_folder_is_enough() {
    let empty = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("empty");
    let _ = std::fs::remove_dir_all(&empty);
    std::fs::create_dir_all(empty.join("work")).expect("the temporary folder can be written");
    let there = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
        command.args(arguments.split(' ')).current_dir(empty.join("work")).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", empty.join("cache")).env_remove("FRAMEWIRE_DATA");
        let output = command.output().expect("the command starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments}: {error}");
        String::from_utf8(output.stdout).expect("results are text")
    };
    // Recordings that can't be unpacked are no matter of a list.
    let archive = empty.join("shared/data/network/zhuge-real/zhuge-real-exp-traces.tar.gz");
    std::fs::create_dir_all(archive.parent().expect("it has one")).expect("the folder can be written");
    std::fs::write(&archive, "damaged").expect("the folder can be written");
    assert!(there("lab list").contains("rate-drop"));
    assert_eq!(
        std::fs::read_dir(empty.join("work")).expect("it is there").count(),
        0,
        "a list is only printed"
    );
    assert!(there("lab check sqp-theory --out ../lab").contains("10 held, 0 missed"));
    assert!(there("fuzz replay findings/cubic-burst").contains("as expected"));
    assert!(there("trace info traces/wifi-home.trace").contains("wifi-home"));
    assert!(there("run scenarios/shallow-queue.toml --duration 6s --json").contains("hash"));
    // An experiment of one's own in the folder goes before those that come along.
    std::fs::create_dir_all(empty.join("work/experiments")).expect("the folder can be written");
    let own = "title=\"t\"\nseed=\"ours\"\nsource=\"s\"\nabout=\"a\"\n";
    std::fs::write(empty.join("work/experiments/mine.toml"), own).expect("the folder can be written");
    let listed = there("lab list");
    assert!(listed.contains("mine") && !listed.contains("rate-drop"), "{listed}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_framewire"))
        .arg("controllers")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_trace_is_described() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("twelve.trace");
    let text: String = (1..=2000).map(|ms| format!("{ms}\n")).collect();
    std::fs::write(&path, text).expect("the temporary folder can be written");
    let info = json(&["trace", "info", &path.display().to_string(), "--json"]);
    assert_eq!(info["mean_bps"].as_u64(), Some(12_032_000));
    assert_eq!(info["longest_gap_ms"].as_f64(), Some(1.0));
}

#[test]
fn a_controllers_page_shows_its_whole_family() {
    let text = printed(&["controllers", "copa-0.1"]);
    assert!(text.starts_with("# Copa\n") && text.contains("**Source.**"), "{text}");
    assert!(["copa-pantheon", "\noption ", "delta="].iter().all(|part| text.contains(part)), "{text}");
    let value = json(&["controllers", "copa-0.1", "--json"]);
    assert_eq!(value["name"], "copa-0.1");
    assert!(value["page"].as_str().is_some_and(|page| page.starts_with("# Copa\n")), "{value}");
    assert_eq!(value["family"][0], "copa");
    let listed = json(&["controllers", "--json"]);
    assert!(listed["controllers"].as_array().expect("a list").iter().all(|row| row["page"].is_string()));
    // Presets stand below the row they are made from, and the list stays one line each.
    let list = printed(&["controllers"]);
    assert!(list.contains("\ncopa ") && list.contains("\n  copa-0.1 "), "{list}");
}

/// Processor seconds that this test's ended children have used.
#[cfg(unix)]
fn spent() -> f64 {
    // SAFETY: `usage` is a valid rusage to write to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[cfg(unix)]
#[test]
fn ten_megabytes_by_quic_take_less_time_than_they_seem_to_and_repeat() {
    let before = spent();
    let run = ["run", "../../scenarios/quic-transfer.toml", "--json"];
    let (first, second) = (json(&run), json(&run));
    // Ten virtual seconds each, in which the 10 MB arrive. Other tests' children count too, so the truth is
    // less.
    let each = (spent() - before) / 2.0;
    println!(
        "{each:.2} s of a processor for 10 s, by a build with{} optimisation",
        if cfg!(debug_assertions) { "out" } else { "" }
    );
    assert!(each < 2.0, "{each} s");
    assert_eq!((&first["hash"], &first["flows"]), (&second["hash"], &second["flows"]));
    // In datagrams of at most 1472 bytes.
    let arrived = first["flows"][0]["packets"]["received"].as_u64();
    assert!(arrived > Some(10_000_000 / 1_472), "{arrived:?} packets");
}

#[test]
fn the_grid_has_the_same_cells_in_any_folder() {
    let list = |folder: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
        let output = command.args(["lab", "grid", "--list"]).current_dir(folder).output().expect("it starts");
        String::from_utf8(output.stdout).expect("a list is text")
    };
    let elsewhere = list(env!("CARGO_TARGET_TMPDIR"));
    assert!(elsewhere.contains("half-mbit"), "{elsewhere}");
    assert_eq!(elsewhere, list(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
}
