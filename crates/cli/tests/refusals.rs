//! Whatever is given wrongly is refused in one line that says what would do, with exit code 2 and nothing
//! written.

use std::path::PathBuf;
use std::process::{Command, Output};

fn framewire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_framewire")).args(arguments).output().expect("the command starts")
}

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("refusals-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the temporary folder can be made");
    folder
}

fn refused(arguments: &[&str], expected: &[&str]) {
    let output = framewire(arguments);
    let error = String::from_utf8(output.stderr).expect("errors are text");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    assert!(error.starts_with("error: ") && error.trim_end().lines().count() == 1, "{arguments:?}: {error}");
    for part in expected {
        assert!(error.contains(part), "{arguments:?} does not say `{part}`: {error}");
    }
}

#[test]
fn bad_flags_name_the_remedy() {
    refused(&[], &["a command is needed", "--help"]);
    refused(&["rum"], &["'rum'", "'run'"]);
    refused(&["controllers", "--jsom"], &["'--jsom'", "'--json'"]);
    refused(&["controllers", "cubic9"], &["cubic9", "did you mean `cubic`?"]);
    refused(&["controllers", "quantum"], &["quantum", "there are ", " among them"]);
    refused(&["controllers", "sqp", "--write", "x"], &["--write", "NAME"]);
    refused(&["run"], &["SCENARIO.toml", "--help"]);
    // A value below zero is a value, and not the beginning of another flag.
    refused(&["run", "x.toml", "--seed", "-1"], &["'-1'", "--seed", "a whole number, 0 or more"]);
    refused(&["lab", "run", "--threads", "-2"], &["-2", "--threads"]);
    refused(&["bench", "sim", "--hosts", "floor"], &["--hosts", "framewire bench load"]);
    refused(&["bench", "load", "--hosts", "floor", "--video"], &["--video", "--hosts session"]);
    refused(&["bench", "sim", "--report-every", "10"], &["--report-every", "framewire bench load"]);
    refused(
        &["bench", "load", "--hosts", "floor", "--report-every", "10"],
        &["--report-every", "--hosts session"],
    );
    refused(&["bench", "sim", "--seed", "3"], &["--seed", "framewire bench recovery"]);
    refused(&["bench", "recovery", "--duration", "1s"], &["--duration", "3s at least"]);
    refused(&["bench", "recovery", "--rate", "0bit"], &["--rate", "above zero"]);
    refused(
        &["bench", "recovery", "--strategies", "prism,tambur"],
        &["no strategy is called `tambur`", "resend"],
    );
    refused(&["bench", "recovery", "--strategies", "live+nac"], &["no recovery policy is called `nac`"]);
    refused(&["link", "--delay", "-1ms", "--", "true"], &["--delay", "20ms"]);
    refused(&["run", "x.toml", "--seed", "many"], &["many", "--seed", "a whole number"]);
    refused(&["run", "x.toml", "--duration", "10"], &["`10` is not", "20ms"]);
    refused(&["run", "x.toml", "--cc", "cubic9"], &["cubic9", "did you mean `cubic`?"]);
    refused(&["run", "x.toml", "--cc", "sqp:tarjet=1"], &["tarjet", "did you mean `target`?"]);
    refused(&["fuzz", "run", "--target", "bbr-stal"], &["bbr-stal", "did you mean `bbr-stall`?"]);
    refused(&["fuzz", "run", "--target", "bbr-stall", "--score", "los"], &["los", "did you mean `loss`?"]);
    refused(
        &[
            "relay",
            "--listen",
            "127.0.0.1:0",
            "--to",
            "udp://127.0.0.1:9",
            "--rate",
            "1mbit",
            "--queue",
            "droptial:9p",
        ],
        &["droptial:9p", "accepted: droptail:100p (see"],
    );
    refused(
        &["lab", "check", "rate-dorp", "--experiments", "../../experiments"],
        &["did you mean `rate-drop`?"],
    );
    refused(
        &["lab", "list", "--seed", "0002", "--experiments", "../../experiments"],
        &["did you mean `000`"],
    );
    refused(&["lab", "check", "--paper", "vidaptiv"], &["did you mean `vidaptive`?"]);
    refused(&["lab", "check", "--paper", "sqp", "--seed", "000"], &["--paper", "--seed"]);
    refused(&["run", "x.toml", "--cc", "sqp:target=7"], &["target", "a number from"]);
    refused(
        &["compare", "x.toml", "--cc", "sqp,,fixed"],
        &["no congestion controller is called ``", " among them"],
    );
    refused(&["lab", "check", "S9-9", "--experiments", "../../experiments"], &["S9-9", "framewire lab list"]);
    refused(&["lab", "check", "--experiments", "no/such"], &["no/such", "experiments are the *.toml"]);
    refused(
        &["bench", "everything"],
        &[
            "everything",
            "sim, load, controllers, scale, live, real, shadow, link, fuzz, predictor, vixnn, schedule, ingest, browser, recovery, all",
        ],
    );
}

#[test]
fn bad_flags_of_live_commands_name_the_remedy() {
    for to in [&["send", "udp://127.0.0.1:9"][..], &["serve"]] {
        let with = |more: &[&'static str]| [to, &["--input", "synthetic"], more].concat();
        refused(&with(&["--strategy", "bakcup"]), &["'bakcup'", "--strategy", "did you mean `backup`"]);
        refused(
            &with(&["--recovery", "fec"]),
            &["'fec'", "--recovery", "retransmit, nack, none, newest-acked"],
        );
    }
    refused(&["send", "example:1", "--input", "synthetic"], &["udp://"]);
    refused(
        &["send", "udp://127.0.0.1:9", "--input", "synthetic", "--size", "641x360"],
        &["641x360", "even"],
    );
    refused(&["send", "udp://127.0.0.1:9"], &["--input"]);
    if cfg!(not(feature = "vpx")) {
        let vp8 = ["send", "udp://127.0.0.1:9", "--input", "synthetic", "--codec", "vp8"];
        refused(&vp8, &["VP8", "--features vpx", "libvpx-dev"]);
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--input"];
    refused(&[&serve[..], &["synthetic", "--web", "no/such"]].concat(), &["no/such", "make web"]);
    refused(&[&serve[..], &["no-such.y4m"]].concat(), &["no-such.y4m"]);
    refused(&[&serve[..], &["synthetic", "--token", ""]].concat(), &["--token", "not empty"]);
    refused(
        &[&serve[..], &["synthetic", "--codec", "vp8"]].concat(),
        &["does not play vp8", "h264 and vixnn"],
    );
    let model = ["synthetic", "--codec", "vixnn:model=no-such.safetensors"];
    refused(&[&serve[..], &model].concat(), &["no-such.safetensors", "a shipped model"]);
    refused(&[&serve[..], &["synthetic", "--viewers", "0"]].concat(), &["--viewers", "1"]);
    refused(&[&serve[..], &["synthetic", "--log", "no/such/log"]].concat(), &["no/such/log"]);
    refused(&["receive", "--listen", "nowhere"], &["nowhere", "--listen"]);
    refused(&["receive", "--listen", "udp://127.0.0.1:0", "--output", "x.mp4"], &["x.mp4", ".y4m"]);
    refused(&["relay", "--listen", "127.0.0.1:0", "--to", "udp://127.0.0.1:9"], &["--rate"]);
    refused(
        &[
            "relay",
            "--listen",
            "127.0.0.1:0",
            "--to",
            "udp://127.0.0.1:9",
            "--rate",
            "5mbit",
            "--queue",
            "blue",
        ],
        &["blue", "droptail"],
    );
}

#[test]
fn bad_flags_of_the_emulator_name_the_remedy() {
    refused(&["link", "--rate", "0mbit", "--", "true"], &["--rate", "5mbit"]);
    refused(&["link", "--rate", "5mbit", "--trace", "x", "--", "true"], &["--rate", "--trace"]);
    refused(&["link", "--delay", "soon", "--", "true"], &["soon", "--delay", "20ms"]);
    refused(&["link", "--delay=-1ms", "--", "true"], &["--delay", "20ms"]);
    refused(&["link", "--up-queue", "blue", "--", "true"], &["blue", "--up-queue", "droptail"]);
    refused(&["link", "--down-loss", "2", "--", "true"], &["--down-loss", "bernoulli:1%"]);
    refused(&["link", "--mtu", "500", "--", "true"], &["--mtu", "500", "1280"]);
    refused(&["link", "--trace", "no-such.trace", "--", "true"], &["no-such.trace"]);
    refused(&["link", "--rate", "5mbit", "true"], &["true", "--"]);
    refused(
        &["link", "--log", "no/such/folder/x.parquet", "--", "true"],
        &["--log no/such/folder/x.parquet"],
    );
    refused(&["trace"], &["a command is needed"]);
}

/// Plain UDP asks nobody for a token: two ends with different ones would play.
#[test]
fn what_protects_is_not_ignored_over_udp() {
    let clip = ["--input", "synthetic", "--duration", "1s"];
    let pin = "0".repeat(64);
    for (flag, value) in [("--token", "a"), ("--pin", &*pin), ("--ca", "ours.pem"), ("--name", "mine")] {
        let send = [&["send", "udp://127.0.0.1:9", flag, value][..], &clip].concat();
        refused(&send, &[flag, "udp://127.0.0.1:9 is plain UDP", "quic://"]);
    }
    let receive = ["receive", "--listen", "udp://127.0.0.1:0", "--timeout", "1s"];
    refused(&[&receive[..], &["--token", "b"]].concat(), &["--token", "FRAMEWIRE_TOKEN", "quic://"]);
    refused(&[&receive[..], &["--cert", "c.pem", "--key", "k.pem"]].concat(), &["--cert", "quic://"]);
    let limits = [
        ("--max-opening", "3"),
        ("--max-per-address", "2"),
        ("--max-handshakes", "4"),
        ("--max-handshakes-per-address", "4"),
        ("--max-memory", "20MB"),
        ("--idle", "2s"),
    ];
    for (flag, value) in limits {
        refused(
            &[&receive[..], &[flag, value]].concat(),
            &[flag, "udp://127.0.0.1:0 is plain UDP", "quic://"],
        );
    }
    // An address that does not say how would be one or the other by surprise.
    refused(&[&["send", "127.0.0.1:9"][..], &clip].concat(), &["127.0.0.1:9", "quic://", "udp://"]);
    refused(&["receive", "--listen", "127.0.0.1:0"], &["127.0.0.1:0", "quic://", "udp://"]);
}

#[test]
fn bad_files_name_file_line_and_field() {
    let folder = folder("files");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("the temporary folder can be written");
        path.display().to_string()
    };
    let missing = folder.join("missing.toml").display().to_string();
    refused(&["run", &missing], &["missing.toml", "No such file"]);
    refused(&["run", &folder.display().to_string()], &["refusals-files"]);
    let broken = file("broken.toml", "duration = \"10s\"\n[link\n");
    refused(&["run", &broken], &["broken.toml:2"]);
    let unit = file(
        "unit.toml",
        "duration = \"10s\"\n[link]\nrate = \"20\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n",
    );
    refused(&["run", &unit], &["unit.toml:3", "link.rate", "20mbit"]);
    refused(&["compare", &unit], &["unit.toml:3", "link.rate"]);
    let good = file(
        "good.toml",
        "duration = \"1s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n",
    );
    refused(&["run", &good, "--set", "link.rate"], &["FIELD=VALUE"]);
    refused(&["run", &good, "--set", "link.rat=5mbit"], &["rat", "did you mean `rate`?"]);
    refused(&["run", &good, "--set", "flow[2].cc=sqp"], &["flow[2].cc", "1 elements"]);
    refused(&["run", &good, "--set", "link.delay=soon"], &["link.delay", "soon"]);
    refused(&["run", &good, "--cc", "sqp,fixed"], &["compare"]);
    let trace = file("bad.trace", "1\nx\n");
    refused(&["trace", "info", &trace], &["bad.trace, line 2", "`x`"]);
    let traced = file(
        "traced.toml",
        "duration = \"1s\"\n[link]\ntrace = \"bad.trace\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n",
    );
    refused(&["run", &traced], &["bad.trace", "line 2"]);
    refused(&["demo", "--trace", &missing], &["missing.toml"]);
    refused(&["demo", "--input", &missing], &["missing.toml"]);
    refused(&["lab", "grid", "--list", "--scenarios", &missing], &["missing.toml", "no such folder"]);
}

#[test]
fn nothing_is_written_when_input_is_refused() {
    let folder = folder("written");
    let out = folder.join("out");
    let out = out.display().to_string();
    refused(&["run", "no-such.toml", "--out", &out], &["no-such.toml"]);
    refused(&["demo", "--input", "no-such.mp4", "--out", &out], &["no-such.mp4"]);
    assert_eq!(std::fs::read_dir(&folder).expect("the folder is there").count(), 0);
    let file = folder.join("a-file");
    std::fs::write(&file, "").expect("the folder can be written");
    let good = folder.join("good.toml");
    let text = "duration = \"1s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n";
    std::fs::write(&good, text).expect("the folder can be written");
    refused(&["run", &good.display().to_string(), "--out", &file.display().to_string()], &["a-file"]);
}

#[test]
fn tables_and_weights_that_are_torn_old_or_absurd_start_nothing() {
    let folder = folder("tables");
    let asset = |path: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        std::fs::read_to_string(path).expect("it comes along")
    };
    let kinds = [
        ("table", "", asset("prism/tables/racing.json")),
        ("predictor", "cnn:weights=", asset("predict/weights/cnn.json")),
    ];
    for (option, prefix, whole) in kinds {
        let spoilt = [
            ("torn", whole[..whole.len() / 2].to_owned()),
            ("old", whole.replacen("\"version\": 1", "\"version\": 7", 1)),
            ("absurd", " ".repeat(20_000_000)),
        ];
        for (name, text) in spoilt {
            let file = folder.join(format!("{option}-{name}.json"));
            std::fs::write(&file, text).expect("the folder can be written");
            let strategy = format!("prism:{option}={prefix}{}", file.display());
            let arguments = ["send", "--strategy", &strategy, "--input", "synthetic", "udp://127.0.0.1:9"];
            refused(&arguments, &[&format!("{option}-{name}.json"), &format!("`{option}`")]);
        }
    }
}
