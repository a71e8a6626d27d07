//! `framewire bulk` as a user meets it: files that break off, exist already or are awaited by several, and
//! logs of both ends.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A test waits no longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "of-this-test";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
    command.arg("bulk").args(arguments).args(["--token", TOKEN]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("FRAMEWIRE_LOG").env_remove("FRAMEWIRE_TOKEN");
    command
}

/// A folder of a test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bulk-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A receiver into `inbox`, which need not be there.
struct Receiver {
    child: Child,
    url: String,
    pin: String,
}

impl Receiver {
    fn start(inbox: &Path, more: &[&str]) -> Receiver {
        let start = ["receive", "--listen", "127.0.0.1:0", "--output", inbox.to_str().unwrap()];
        let mut child = command(&[&start[..], more].concat()).spawn().unwrap();
        let (mut line, mut said) = (String::new(), BufReader::new(child.stderr.take().unwrap()));
        said.read_line(&mut line).unwrap();
        // Whatever else it says is read, so that it can go on saying it.
        thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        let mut words = line.split_whitespace();
        let mut after = |what: &str| words.find(|word| word.starts_with(what)).map(str::to_owned);
        let url = after("quic://").expect(&line);
        let pin =
            line.split("--pin ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&line).to_owned();
        Receiver { child, url, pin }
    }

    fn sender(&self, file: &str, more: &[&str]) -> Command {
        command(&[&["send", file, &self.url, "--pin", &self.pin, "--json"][..], more].concat())
    }

    fn send(&self, file: &str, more: &[&str]) -> Output {
        self.sender(file, more).output().unwrap()
    }

    /// Ends it in good order.
    fn end(mut self) {
        // SAFETY: a signal to a child of ours that nobody has waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) }, 0);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The names and contexts of a log's events, after its head.
fn events(log: &Path) -> (Value, Vec<Value>) {
    let text = fs::read_to_string(log).unwrap();
    let mut records = text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap());
    (records.next().unwrap(), records.collect())
}

#[test]
fn a_sender_that_stops_leaves_no_file_of_its_name_and_the_next_goes_on() {
    let folder = folder("killed");
    let (inbox, file) = (folder.join("not/there/yet"), folder.join("a.bin"));
    let content: Vec<u8> = (0..20_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&file, &content).unwrap();
    let receiver = Receiver::start(&inbox, &[]);
    let part = inbox.join(".a.bin.framewire-part");
    // A pipe that stops half-way is a sender that does, as far as the receiver can see.
    let half = folder.join("half/a.bin");
    fs::create_dir_all(half.parent().unwrap()).unwrap();
    let made = Command::new("mkfifo").arg(&half).status().unwrap();
    assert!(made.success());
    let mut sender = receiver.sender(half.to_str().unwrap(), &[]).spawn().unwrap();
    let mut pipe = fs::OpenOptions::new().write(true).open(&half).unwrap();
    std::io::Write::write_all(&mut pipe, &content[..content.len() / 2]).unwrap();
    until("some of it comes", || fs::metadata(&part).is_ok_and(|part| part.len() > 0));
    // The pipe's end would be the file's; its reader is stopped first, and says goodbye.
    // SAFETY: a signal to a child of ours that nobody has waited for.
    assert_eq!(unsafe { libc::kill(sender.id() as libc::pid_t, libc::SIGINT) }, 0);
    let mut rest = content[content.len() / 2..].iter();
    until("the sender says goodbye", || {
        let _ = std::io::Write::write(&mut pipe, &[*rest.next().unwrap()]);
        sender.try_wait().unwrap().is_some()
    });
    assert!(!inbox.join("a.bin").exists());
    // Until the receiver has noticed, the name is taken.
    let mut sent = None;
    until("the receiver notices", || {
        let output = receiver.send(file.to_str().unwrap(), &[]);
        let busy = said(&output).contains("is being received from another sender");
        sent = Some(output);
        !busy
    });
    let sent = json(&sent.unwrap());
    assert!(sent["resumed_bytes"].as_u64() > Some(0) && sent["bytes"] == 20_000_000, "{sent}");
    assert!(fs::read(inbox.join("a.bin")).unwrap() == content);
    assert!(!part.exists());
    // The same once more: what is there is kept, and the sender is told so.
    let again = receiver.send(file.to_str().unwrap(), &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("`a.bin` is there already and is kept"), "{}", said(&again));
    receiver.end();
}

#[test]
fn who_comes_while_another_is_served_is_told_that_it_is_busy() {
    let folder = folder("busy");
    let receiver = Receiver::start(&folder.join("inbox"), &["--once"]);
    let slow = folder.join("slow");
    assert!(Command::new("mkfifo").arg(&slow).status().unwrap().success());
    let sender = receiver.sender(slow.to_str().unwrap(), &[]).spawn().unwrap();
    let pipe = fs::OpenOptions::new().write(true).open(&slow).unwrap();
    until("the first is let in", || folder.join("inbox/.slow.framewire-part").exists());
    let second = receiver.send("zeros:1MB", &[]);
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second).contains("as many connections as it takes: try again later"), "{}", said(&second));
    std::io::Write::write_all(&mut &pipe, b"whole").unwrap();
    drop(pipe);
    let first = sender.wait_with_output().unwrap();
    assert_eq!(json(&first)["bytes"], 5);
    assert_eq!(fs::read(folder.join("inbox/slow")).unwrap(), b"whole");
}

#[test]
fn both_ends_write_qlog() {
    let folder = folder("qlog");
    let (near, far) = (folder.join("near.sqlog"), folder.join("far.sqlog"));
    let receiver = Receiver::start(Path::new("null"), &["--qlog", far.to_str().unwrap()]);
    json(&receiver.send("zeros:2MB", &["--cc", "bbr", "--qlog", near.to_str().unwrap()]));
    receiver.end();
    let ((near, sent), (far, received)) = (events(&near), events(&far));
    for head in [&near, &far] {
        assert_eq!(head["file_schema"], "urn:ietf:params:qlog:file:sequential");
        assert_eq!(head["trace"]["event_schemas"][0], "urn:ietf:params:qlog:events:quic");
    }
    let named = |events: &[Value], name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(
        named(&sent, "quic:udp_datagrams_sent") > 1_000
            && named(&sent, "quic:recovery_metrics_updated") > 1_000
    );
    let moved: u64 = received.iter().filter_map(|event| event["data"]["raw"]["length"].as_u64()).sum();
    assert_eq!(moved, 2_000_000);
    // One time axis: nothing is read before anything was sent.
    let began = |head: &Value| head["trace"]["common_fields"]["framewire_began_ms"].as_f64().unwrap();
    let first = |head: &Value, events: &[Value]| began(head) + events[0]["time"].as_f64().unwrap();
    assert!(first(&near, &sent) < first(&far, &received));
}
