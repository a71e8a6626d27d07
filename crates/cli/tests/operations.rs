//! What operators rely on: metrics in their format, logs, certificates that are renewed, the right word when
//! something ends.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

/// A test waits no longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command, and what it has said on standard error.
struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("FRAMEWIRE_LOG").env_remove("FRAMEWIRE_TOKEN");
    command
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut child = command(arguments).spawn().expect("the command starts");
        let lines = BufReader::new(child.stderr.take().expect("it was asked for")).lines();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line)));
        Running { child, said }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Waits for a line that `find` finds something in.
    fn wait<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(found) = self.said().iter().find_map(|line| find(line)) {
                return found;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("no {what} in {:#?}", self.said());
    }

    fn after(&self, start: &str) -> String {
        self.wait(start, |line| line.strip_prefix(start).map(str::to_owned))
    }

    fn hears(&self, text: &str) {
        self.wait(text, |line| line.contains(text).then_some(()));
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child of ours that nobody has waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    fn end(mut self) -> (Option<i32>, Vec<String>) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                thread::sleep(Duration::from_millis(100));
                return (status.code(), self.said());
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("it goes on: {:#?}", self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CLIP: [&str; 6] = ["--input", "synthetic", "--size", "160x96", "--initial", "500kbit"];

fn send(target: &str, more: &[&str]) -> Output {
    command(&[&["send", target], &CLIP[..], &["--duration", "1s"], more].concat()).output().expect("it ends")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("operations-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a certificate for this machine and its key, valid until `end`.
fn write_certificate(folder: &Path, end: SystemTime) -> [String; 2] {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    let start = SystemTime::now() - Duration::from_secs(3_600);
    (params.not_before, params.not_after) = (start.into(), end.into());
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&cert_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    [cert_file, key_file].map(|file| file.display().to_string())
}

fn in_a_month() -> SystemTime {
    SystemTime::now() + Duration::from_secs(30 * 86_400)
}

fn get(at: &str, path: &str) -> (String, String) {
    let address: SocketAddr = at.parse().expect("an address");
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

/// Every value of a text of metrics by its name and labels, after the rules of the format were checked
/// (OpenMetrics 1.0, and Prometheus' advice on names and units).
fn metrics(at: &str) -> BTreeMap<String, f64> {
    let (head, text) = get(at, "/metrics");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    let lines = text.strip_suffix("# EOF\n").expect("the end is marked");
    let (mut values, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut name, mut kind, mut helped) = ("", "", "");
    for line in lines.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", family, help] => {
                assert!(families.insert(family), "{family} twice");
                assert!(!help.is_empty() && !help.contains(['"', '\\']), "{line}");
                helped = family;
            }
            ["#", "TYPE", family, of] => {
                assert_eq!(family, helped, "no help for {family}");
                assert!(["counter", "gauge"].contains(&of), "{line}");
                assert!(family.starts_with("framewire_") || family.starts_with("process_"), "{family}");
                assert!(
                    family.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                    "{family}"
                );
                assert!(!family.ends_with("_total"), "{family}");
                (name, kind) = (family, of);
            }
            ["#", "UNIT", family, unit] => {
                assert!(family == name && family.ends_with(&format!("_{unit}")), "{line}");
                assert!(["seconds", "bytes", "bytes_per_second"].contains(&unit), "{unit} is no base unit");
            }
            _ => {
                let (series, value) = line.rsplit_once(' ').expect("a name and a value");
                let own = series.split('{').next().unwrap();
                let expected = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
                assert_eq!(own, expected, "{line}");
                check_labels(&series[own.len()..]);
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
                assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
                assert!(values.insert(series.to_owned(), value).is_none(), "{series} twice");
            }
        }
    }
    assert!(!values.is_empty());
    values
}

fn check_labels(labels: &str) {
    let Some(inside) = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return assert_eq!(labels, "");
    };
    for label in inside.split(',') {
        let (name, value) = label.split_once('=').expect("a label has a value");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{labels}");
        assert!(value.len() > 2 && value.starts_with('"') && value.ends_with('"'), "{labels}");
    }
}

/// Where a command shows its metrics.
fn metrics_at(running: &Running) -> String {
    let url = running.after("metrics at http://");
    url.trim_end_matches("/metrics").to_owned()
}

/// Asks for metrics until they are as `wanted`.
fn wait_for(at: &str, wanted: impl Fn(&BTreeMap<String, f64>) -> bool) -> BTreeMap<String, f64> {
    let start = Instant::now();
    loop {
        let values = metrics(at);
        if wanted(&values) {
            return values;
        }
        assert!(start.elapsed() < PATIENCE, "{values:#?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_stream_shows_in_both_ends_metrics_and_strangers_at_the_door() {
    let receiver = Running::start(&[
        "receive",
        "--listen",
        "quic://127.0.0.1:0",
        "--token",
        "right",
        "--timeout",
        "60s",
        "--metrics",
        "127.0.0.1:0",
        "--log-level",
        "info",
        "--log-format",
        "json",
    ]);
    let (far, at, pin) = (metrics_at(&receiver), receiver.after("listening on "), receiver.after("pin "));
    let target = format!("{at}?pin={pin}");
    assert!(error(&send(&target, &["--token", "wrong"])).contains("the token is wrong"));
    let sender = Running::start(
        &[&["send", &target, "--token", "right", "--duration", "60s", "--metrics", "127.0.0.1:0"], &CLIP[..]]
            .concat(),
    );
    let near = metrics_at(&sender);

    let seen = |values: &BTreeMap<String, f64>, series: &str| values.get(series).copied().unwrap_or(f64::NAN);
    let shown = "framewire_frames_received_total{stream=\"0\",outcome=\"shown\"}";
    let there = wait_for(&far, |values| seen(values, shown) > 10.0);
    assert_eq!(seen(&there, "framewire_connections_refused_total{reason=\"token\"}"), 1.0);
    assert_eq!(seen(&there, "framewire_connections{state=\"open\"}"), 1.0);
    assert_eq!(seen(&there, "framewire_connections_accepted_total"), 1.0);
    assert!(seen(&there, "framewire_datagrams_bytes_total{stream=\"0\",direction=\"in\"}") > 1_000.0);
    let expiry = seen(&there, "framewire_certificate_expiry_timestamp_seconds");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((12.0..=13.1).contains(&((expiry - now) / 86_400.0)), "made at start, for 13 days: {expiry}");

    let here = wait_for(&near, |values| seen(values, "framewire_round_trip_seconds{stream=\"0\"}") > 0.0);
    assert!(seen(&here, "framewire_frames_sent_total{stream=\"0\",outcome=\"encoded\"}") > 10.0);
    for gauge in ["framewire_estimate_bytes_per_second", "framewire_encoder_target_bytes_per_second"] {
        assert!(seen(&here, &format!("{gauge}{{stream=\"0\"}}")) > 10_000.0, "{here:#?}");
    }
    assert!(seen(&here, "framewire_queue_delay_seconds{stream=\"0\"}") >= 0.0);
    assert!(seen(&here, "process_resident_memory_bytes") > 1e6);
    assert!(get(&near, "/").0.starts_with("HTTP/1.1 404"));

    sender.signal(libc::SIGINT);
    assert_eq!(sender.end().0, Some(0));
    let (code, said) = receiver.end();
    assert_eq!(code, Some(0), "{said:#?}");
    let log: Vec<Value> = said
        .iter()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let find = |text: &str| {
        let found =
            log.iter().find(|line| line["fields"]["message"].as_str().is_some_and(|m| m.contains(text)));
        found.unwrap_or_else(|| panic!("no {text} in {log:#?}"))
    };
    let refused = find("the token is wrong");
    assert_eq!(
        (refused["level"].as_str(), refused["fields"]["reason"].as_str()),
        (Some("WARN"), Some("token"))
    );
    assert!(refused["span"]["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(find("let in")["span"]["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(find("ended: ")["level"], "INFO");
}

#[test]
fn a_certificate_is_read_again_on_a_hangup_and_when_its_file_changes() {
    let folder = folder("reload");
    let old = folder.join("old.pem").display().to_string();
    let [cert, key] = write_certificate(&folder, in_a_month());
    std::fs::copy(&cert, &old).unwrap();
    let receiver = Running::start(&[
        "receive",
        "--listen",
        "quic://127.0.0.1:0",
        "--token",
        "right",
        "--timeout",
        "120s",
        "--cert",
        &cert,
        "--key",
        &key,
        "--metrics",
        "127.0.0.1:0",
        "--log-level",
        "info",
    ]);
    let (shown, at) = (metrics_at(&receiver), receiver.after("listening on "));
    // A wrong token is told only to those who believe the certificate.
    let believes = |ca: &str| {
        let answer = error(&send(&at, &["--token", "wrong", "--ca", ca]));
        assert!(
            answer.contains("the token is wrong") || answer.contains("nobody this machine trusts"),
            "{answer}"
        );
        answer.contains("the token is wrong")
    };
    assert!(believes(&old));

    write_certificate(&folder, in_a_month());
    receiver.signal(libc::SIGHUP);
    receiver.hears("newcomers get the new certificate");
    assert!(believes(&cert) && !believes(&old));

    // What can't be used is said and counted, and the one before stays.
    std::fs::copy(&cert, &old).unwrap();
    std::fs::write(&cert, "no certificate").unwrap();
    receiver.signal(libc::SIGHUP);
    receiver.hears("the new certificate can't be used, the old one stays");
    let kept = "framewire_certificate_reloads_total{outcome=\"kept_old\"}";
    assert_eq!(metrics(&shown)[kept], 1.0);
    assert!(believes(&old));

    // Nobody says anything, and the files change: within two looks of five seconds.
    write_certificate(&folder, in_a_month());
    let replaced = "framewire_certificate_reloads_total{outcome=\"replaced\"}";
    wait_for(&shown, |values| values[replaced] == 2.0);
    assert!(believes(&cert) && !believes(&old));

    receiver.signal(libc::SIGTERM);
    receiver.end();
}

#[test]
fn an_expired_certificate_is_refused_at_both_ends_with_what_helps() {
    let folder = folder("expired");
    // Certificates count in whole seconds.
    let end = SystemTime::now() + Duration::from_secs(4);
    let [cert, key] = write_certificate(&folder, end);
    let listen =
        ["receive", "--listen", "quic://127.0.0.1:0", "--timeout", "60s", "--cert", &cert, "--key", &key];
    let receiver = Running::start(&[&listen[..], &["--token", "right"]].concat());
    let at = receiver.after("listening on ");
    while SystemTime::now() < end + Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(50));
    }
    let output = send(&at, &["--token", "right", "--ca", &cert]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error(&output).contains("has expired: renew it there, or set this machine's clock right"),
        "{}",
        error(&output)
    );
    let (code, said) = Running::start(&listen).end();
    assert_eq!(code, Some(2));
    assert!(said.iter().any(|line| line.contains("the certificate has expired; renew it")), "{said:#?}");
}

#[test]
fn a_sender_that_dies_is_said_to_be_silent() {
    let listen = [
        "receive",
        "--listen",
        "quic://127.0.0.1:0",
        "--token",
        "right",
        "--idle",
        "1s",
        "--metrics",
        "127.0.0.1:0",
    ];
    let receiver = Running::start(&listen);
    let (shown, at, pin) = (metrics_at(&receiver), receiver.after("listening on "), receiver.after("pin "));
    let target = format!("{at}?pin={pin}");
    let sender =
        Running::start(&[&["send", &target, "--token", "right", "--duration", "60s"], &CLIP[..]].concat());
    let frames = "framewire_frames_received_total{stream=\"0\",outcome=\"shown\"}";
    wait_for(&shown, |values| values.get(frames).is_some_and(|count| *count > 5.0));
    sender.signal(libc::SIGKILL);
    let (code, said) = receiver.end();
    assert_eq!(code, Some(1), "{said:#?}");
    let word = "the peer has been silent for 1s; is it still reachable?";
    assert!(said.last().is_some_and(|line| line.starts_with("error: ") && line.contains(word)), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("WARN connection") && line.contains(word)), "{said:#?}");
}

#[test]
fn a_servers_page_learns_of_a_new_certificate() {
    let folder = folder("serve");
    std::fs::write(folder.join("index.html"), "<p>page").unwrap();
    let web = folder.display().to_string();
    let server = Running::start(
        &[&["serve", "--listen", "127.0.0.1:0", "--web", &web, "--metrics", "127.0.0.1:0"], &CLIP[..]]
            .concat(),
    );
    let page = server.after("open http://");
    let page = page.split('/').next().unwrap();
    let shown = metrics_at(&server);
    let hash = || serde_json::from_str::<Value>(&get(page, "/server.json").1).unwrap()["hash"].clone();
    let first = hash();
    assert_eq!(first.as_str().map(str::len), Some(64));
    server.signal(libc::SIGHUP);
    wait_for(&shown, |values| values["framewire_certificate_reloads_total{outcome=\"replaced\"}"] == 1.0);
    server.hears("newcomers get the new certificate");
    assert_ne!(hash(), first);
    server.signal(libc::SIGTERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_short_soak_holds() {
    let soak = command(&[
        "soak",
        "--duration",
        "14s",
        "--every",
        "6s",
        "--restart-every",
        "5s",
        "--reload-every",
        "2s",
        "--rate",
        "500kbit",
        "--json",
    ]);
    let output = { soak }.output().expect("it ends");
    let result: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", error(&output)));
    assert_eq!((output.status.code(), result["passed"].as_bool()), (Some(0), Some(true)), "{result:#}");
    assert_eq!(result["looks"].as_array().map(Vec::len), Some(2), "{result:#}");
    assert!(result["restarts"].as_u64() >= Some(1) && result["reloads"].as_u64() >= Some(2), "{result:#}");
    assert!(result["refused"]["token"].as_u64() >= Some(1), "{result:#}");
}
