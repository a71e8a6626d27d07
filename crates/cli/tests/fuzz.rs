//! `framewire fuzz` from a search to a kept finding.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn framewire(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_framewire")).args(arguments).stdin(Stdio::null()).output();
    output.expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = framewire(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn folder(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path.display().to_string()
}

#[test]
fn a_search_that_is_resumed_ends_where_a_whole_one_does() {
    let (whole, parts, corpus) = (folder("fuzz-whole"), folder("fuzz-parts"), folder("fuzz-corpus"));
    let settings =
        "fuzz run --target cubic-burst --duration 3s --population 6 --islands 2 --json --generations";
    let settings: Vec<&str> = settings.split(' ').collect();
    let found =
        json(&[&settings[..], &["4", "--threads", "1", "--out", &whole, "--corpus", &corpus]].concat());
    assert_eq!((&found["generations"], found["history"].as_array().map(Vec::len)), (&4.into(), Some(4)));
    json(&[&settings[..], &["2", "--out", &parts]].concat());
    let resumed =
        json(&["fuzz", "run", "--resume", &parts, "--generations", "4", "--threads", "2", "--json"]);
    assert_eq!(resumed["best"], found["best"]);
    let checkpoint = |folder: &str| std::fs::read(Path::new(folder).join("checkpoint")).unwrap();
    assert_eq!(checkpoint(&whole), checkpoint(&parts));
    assert_eq!(std::fs::read_dir(&corpus).unwrap().count(), 1);
    // A folder that holds a search is not begun anew.
    let refused = framewire(&[&settings[..], &["4", "--out", &whole]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--resume"));
    // What was found shrinks, is kept, and replays.
    let shrunk = json(&["fuzz", "shrink", &whole, "--budget", "40", "--json"]);
    assert!(shrunk["after"]["cross"].as_u64() <= shrunk["before"]["cross"].as_u64(), "{shrunk}");
    let (smaller, kept) = (format!("{whole}/shrunk"), folder("fuzz-kept"));
    // A name is one folder's: with a way in it the finding would come to lie elsewhere.
    for name in ["../../evil", "/tmp/evil", "a/b", "..", "."] {
        let output = framewire(&["fuzz", "keep", &smaller, "--name", name, "--to", &kept]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.contains("--name")), (Some(2), true), "{name}: {error}");
        assert!(!Path::new(&kept).exists(), "{name}");
    }
    assert!(framewire(&["fuzz", "keep", &smaller, "--name", "x", "--to", &kept]).status.success());
    let replayed = json(&["fuzz", "replay", &format!("{kept}/x"), "--json"]);
    assert_eq!(replayed["findings"][0]["holds"], true);
    let run = json(&["run", &format!("{kept}/x/scenario.toml"), "--json"]);
    assert_eq!(run["flows"][0]["cc"], "cubic:ssthresh_cap=off");
}

#[test]
fn what_cannot_be_searched_is_refused_in_one_line() {
    for (arguments, what) in [
        ("fuzz run --target nothing", "framewire fuzz targets"),
        ("fuzz run --target bbr-delay --population 7 --islands 2", "7 networks on 2 islands"),
        ("fuzz run --target bbr-delay --mode sideways", "write link, traffic, loss"),
        ("fuzz run --resume /no/such/folder", "/no/such/folder/checkpoint"),
        ("fuzz shrink /no/such/folder", "/no/such/folder/finding.json"),
    ] {
        let output = framewire(&arguments.split(' ').collect::<Vec<_>>());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{arguments}: {error}");
        assert!(error.contains(what), "{arguments}: {error}");
    }
}
