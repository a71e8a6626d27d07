//! Send, relay and receive as three processes, over UDP on loopback. How fast is for `framewire bench`; here
//! it must work.
#![allow(clippy::disallowed_methods, reason = "real processes are waited for in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
#[cfg(feature = "vixnn")]
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewire"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// What the process printed, once it has ended well.
fn finish(child: Child) -> String {
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("results are text")
}

/// An address nobody listens on at present.
fn free() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    socket.local_addr().expect("it has an address").to_string()
}

#[test]
fn a_clip_crosses_three_processes() {
    let (near, far) = (free(), free());
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("received.y4m");
    let _ = std::fs::remove_file(&file);
    let (near_url, far_url) = (format!("udp://{near}"), format!("udp://{far}"));
    let output = file.display().to_string();
    let receiver =
        spawn(&["receive", "--listen", &far_url, "--output", &output, "--timeout", "20s", "--json"]);
    let relay = spawn(&["relay", "--listen", &near, "--to", &far_url, "--rate", "8mbit", "--duration", "4s"]);
    let size = "160x96";
    let sender =
        spawn(&["send", &near_url, "--input", "synthetic", "--size", size, "--duration", "1s", "--json"]);
    let sent: Value = serde_json::from_str(&finish(sender)).expect("one JSON object");
    let received: Value = serde_json::from_str(&finish(receiver)).expect("one JSON object");
    assert!(finish(relay).contains("there"));
    assert_eq!(sent["frames"]["captured"].as_u64(), Some(30), "{sent}");
    let shown = received["frames"]["displayed"].as_u64().expect("a count");
    assert!((5..=30).contains(&shown), "{received}");
    assert_eq!(received["frames"]["decode_errors"].as_u64(), Some(0), "{received}");
    let recorded = std::fs::metadata(&file).expect("the clip was written").len();
    let picture = 160 * 96 * 3 / 2 + "FRAME\n".len() as u64;
    assert_eq!((recorded - recorded % picture) / picture, shown, "{recorded} bytes");
}

/// A clip in VP8 from process to process; the receiver is told nothing of it.
#[cfg(feature = "vpx")]
#[test]
fn vp8_is_recognised_by_the_receiver() {
    let address = free();
    let url = format!("udp://{address}");
    let receiver = spawn(&["receive", "--listen", &url, "--timeout", "20s", "--json"]);
    let clip = ["--input", "synthetic", "--size", "160x96", "--duration", "1s", "--initial", "1mbit"];
    let sender = spawn(&[&["send", &url, "--codec", "vp8", "--json"][..], &clip].concat());
    let sent: Value = serde_json::from_str(&finish(sender)).expect("one JSON object");
    let received: Value = serde_json::from_str(&finish(receiver)).expect("one JSON object");
    assert_eq!(received["frames"]["decode_errors"].as_u64(), Some(0), "{received}");
    assert!(received["frames"]["displayed"].as_u64() >= Some(12), "{sent} {received}");
}

/// A path to `to` for one sender, which loses every ninth datagram once forty have passed; its address.
#[cfg(feature = "vixnn")]
fn lossy(to: SocketAddr) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    let address = socket.local_addr().expect("it has an address").to_string();
    std::thread::spawn(move || {
        let (mut bytes, mut sender, mut count) = ([0; 2048], None, 0u32);
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let forth = from != to;
            if forth {
                (sender, count) = (Some(from), count + 1);
            }
            let lost = forth && count > 40 && count.is_multiple_of(9);
            if let Some(target) = if forth { Some(to) } else { sender }
                && !lost
            {
                // Either end may be gone already.
                let _ = socket.send_to(&bytes[..length], target);
            }
        }
    });
    address
}

/// Two seconds of small pictures in ViXNN, and what both ends printed: the receiver is told nothing of it.
#[cfg(feature = "vixnn")]
fn by_vixnn(mut receiver: Child, target: &str, more: &[&str]) -> (Value, Value) {
    let said =
        receiver.stderr.take().map(|said| std::thread::spawn(move || BufReader::new(said).lines().count()));
    let clip = ["--input", "synthetic", "--size", "176x144", "--fps", "30", "--duration", "2s", "--json"];
    let sender = spawn(
        &[&["send", target, "--recovery", "none", "--codec", "vixnn:order=permuted"][..], &clip, more]
            .concat(),
    );
    let sent = serde_json::from_str(&finish(sender)).expect("one JSON object");
    let received = serde_json::from_str(&finish(receiver)).expect("one JSON object");
    drop(said);
    (sent, received)
}

/// Frames are shown though packets of them are lost, and nothing fails to decode.
#[cfg(feature = "vixnn")]
fn check_degraded(sent: &Value, received: &Value) {
    let count = |field: &str| received["frames"][field].as_u64().expect("a count");
    assert_eq!(count("decode_errors"), 0, "{received}");
    assert!(count("displayed") >= 30, "{sent} {received}");
    assert!(count("concealed") >= 10, "{sent} {received}");
}

#[cfg(feature = "vixnn")]
#[test]
fn vixnn_degrades_under_loss_over_udp() {
    let far = free();
    let receiver = spawn(&["receive", "--listen", &format!("udp://{far}"), "--timeout", "30s", "--json"]);
    let near = lossy(far.parse().expect("it is an address"));
    let (sent, received) = by_vixnn(receiver, &format!("udp://{near}"), &[]);
    check_degraded(&sent, &received);
}

#[cfg(feature = "vixnn")]
#[test]
fn vixnn_degrades_under_loss_over_quic() {
    let listen =
        ["receive", "--listen", "quic://127.0.0.1:0", "--token", "right", "--timeout", "30s", "--json"];
    let mut receiver = spawn(&listen);
    let (at, pin) = announced(&mut receiver);
    let far = at.trim_start_matches("quic://").parse().expect("it is an address");
    let target = format!("quic://{}?pin={pin}", lossy(far));
    let (sent, received) = by_vixnn(receiver, &target, &["--token", "right"]);
    check_degraded(&sent, &received);
}

#[cfg(feature = "vixnn")]
#[test]
fn a_network_that_is_not_there_is_named() {
    let (code, error) =
        refused(&["send", "udp://127.0.0.1:9", "--input", "synthetic", "--codec", "vixnn:model=slow"]);
    assert_eq!(
        (code, error.contains("no ViXNN model is called `slow`; there are")),
        (Some(2), true),
        "{error}"
    );
    let listen = ["receive", "--listen", "udp://127.0.0.1:0", "--vixnn-model", "none.safetensors"];
    let (code, error) = refused(&listen);
    assert_eq!((code, error.contains("none.safetensors")), (Some(2), true), "{error}");
}

/// What a receiver over QUIC says on standard error before anybody comes: its address and its pin.
fn announced(receiver: &mut Child) -> (String, String) {
    let mut said = BufReader::new(receiver.stderr.take().expect("it was asked for")).lines();
    let mut after = |word: &str| {
        let line = said.find_map(|line| line.expect("it is text").strip_prefix(word).map(str::to_owned));
        line.expect("the receiver says how to reach it")
    };
    let (at, pin) = (after("listening on "), after("pin "));
    // What it says later has somewhere to go until it ends.
    std::thread::spawn(move || said.count());
    (at, pin)
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = spawn(arguments).wait_with_output().expect("the command ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    (output.status.code(), error)
}

#[test]
fn a_clip_crosses_quic_and_strangers_do_not() {
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sent.sqlog");
    let listen =
        ["receive", "--listen", "quic://127.0.0.1:0", "--token", "right", "--timeout", "60s", "--json"];
    let mut receiver = spawn(&listen);
    let (at, pin) = announced(&mut receiver);
    let target = format!("{at}?pin={pin}");
    let clip = ["--input", "synthetic", "--size", "160x96", "--duration", "1s"];
    let (code, error) = refused(&[&["send", &target, "--token", "wrong"], &clip[..]].concat());
    assert_eq!((code, error.contains("the token is wrong")), (Some(2), true), "{error}");
    let (code, error) = refused(&[&["send", &at, "--token", "right"], &clip[..]].concat());
    assert_eq!((code, error.contains(&pin) && error.contains("--pin")), (Some(2), true), "{error}");
    let other = format!("{at}?pin={}", "7".repeat(64));
    let (code, error) = refused(&[&["send", &other, "--token", "right"], &clip[..]].concat());
    assert_eq!((code, error.contains(&pin)), (Some(2), true), "{error}");

    let qlog = log.display().to_string();
    let sender = spawn(
        &[&["send", &target, "--token", "right", "--cc", "sprout", "--qlog", &qlog, "--json"], &clip[..]]
            .concat(),
    );
    let sent: Value = serde_json::from_str(&finish(sender)).expect("one JSON object");
    let received: Value = serde_json::from_str(&finish(receiver)).expect("one JSON object");
    assert_eq!(sent["frames"]["captured"].as_u64(), Some(30), "{sent}");
    // Sprout's forecasts are made at the receiver: without its half there the sender would hardly send.
    assert!(received["frames"]["displayed"].as_u64() >= Some(12), "{received}");
    let text = std::fs::read_to_string(&log).expect("the log was written");
    let records = text.split('\x1e').skip(1).map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    let records = records.expect("every record is JSON");
    let times: Vec<f64> =
        records[1..].iter().map(|record| record["time"].as_f64().expect("a time")).collect();
    assert!(times.is_sorted());
    let packets = records.iter().filter(|record| record["name"] == "framewire:packet_sent").count();
    assert_eq!(Some(packets as u64), sent["packets"]["sent"].as_u64());
}

/// The records of a qlog file with this name, each with the data that it carries.
fn records(log: &std::path::Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("the log was written");
    let all = text.split('\x1e').skip(1).map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    let name = format!("framewire:{name}");
    all.filter(|record| record["name"] == name.as_str()).map(|record| record["data"].clone()).collect()
}

/// Stream and frame of each such record, in the order in which it was written.
fn frames(log: &std::path::Path, name: &str) -> Vec<(u64, u64)> {
    let number = |data: &Value, field: &str| data[field].as_u64().expect("a number");
    records(log, name).iter().map(|data| (number(data, "stream"), number(data, "frame"))).collect()
}

#[test]
fn every_coding_of_a_frame_that_comes_in_two_tracks_is_accounted_for() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (sent_log, received_log) = (folder.join("tracks-sent.sqlog"), folder.join("tracks-received.sqlog"));
    let logs = [&sent_log, &received_log].map(|log| log.display().to_string());
    let listen =
        ["receive", "--listen", "quic://127.0.0.1:0", "--token", "right", "--timeout", "60s", "--json"];
    let mut receiver = spawn(&[&listen[..], &["--qlog", &logs[1]]].concat());
    let (at, pin) = announced(&mut receiver);
    let target = format!("{at}?pin={pin}");
    let clip = ["--input", "synthetic", "--size", "160x96", "--duration", "2s", "--max", "1mbit"];
    let how =
        ["send", &target, "--token", "right", "--strategy", "backup", "--timeout", "60s", "--qlog", &logs[0]];
    let sender = spawn(&[&how[..], &clip, &["--json"]].concat());
    let sent: Value = serde_json::from_str(&finish(sender)).expect("one JSON object");
    let received: Value = serde_json::from_str(&finish(receiver)).expect("one JSON object");
    assert_eq!(received["frames"]["decode_errors"].as_u64(), Some(0), "{received}");

    // What is predicted is sent until it arrives; what is sent once arrives, or a packet of it did not.
    let assembled: BTreeSet<_> = frames(&received_log, "frame_assembled").into_iter().collect();
    let abandoned: BTreeSet<_> = frames(&received_log, "frame_abandoned").into_iter().collect();
    let left: BTreeSet<_> = frames(&sent_log, "frame_sent").into_iter().collect();
    let packets = |log, name| {
        let of = |data: &Value| data["packet_number"].as_u64().expect("a number");
        records(log, name).into_iter().map(|data| (of(&data), data)).collect::<BTreeMap<_, _>>()
    };
    let arrived = packets(&received_log, "packet_received");
    let lost: BTreeSet<_> = packets(&sent_log, "packet_sent")
        .into_iter()
        .filter(|(number, _)| !arrived.contains_key(number))
        .map(|(_, data)| (data["stream"].as_u64().unwrap_or(0), data["frame"].as_u64().unwrap_or(0)))
        .collect();
    let coded = frames(&sent_log, "frame_encoded");
    for track in [0, 16] {
        let of_track = coded.iter().filter(|(stream, _)| *stream == track).count();
        let there = assembled.iter().filter(|(stream, _)| *stream == track).count();
        assert!(of_track >= 5 && there >= 5, "stream {track}: {there} of {of_track} arrived; {sent}");
    }
    for id @ (stream, _) in coded {
        let excused = stream == 16 && (!left.contains(&id) || lost.contains(&id) || abandoned.contains(&id));
        assert!(assembled.contains(&id) || excused, "{id:?} is not accounted for; {sent} {received}");
    }
    let shown: Vec<u64> =
        frames(&received_log, "frame_displayed").into_iter().map(|(_, frame)| frame).collect();
    assert!(shown.len() >= 5 && shown.windows(2).all(|pair| pair[0] < pair[1]), "{shown:?}");
}

/// Sends two seconds over plain UDP under `cc`, to a receiver that is told nothing of it: what both printed,
/// and the sender's log.
fn by_udp(cc: &str) -> (Value, Value, String) {
    let address = free();
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{cc}.sqlog"));
    let (url, qlog) = (format!("udp://{address}"), log.display().to_string());
    let receiver = spawn(&["receive", "--listen", &url, "--timeout", "20s", "--json"]);
    let clip = ["--input", "synthetic", "--size", "160x96", "--duration", "2s", "--initial", "1mbit"];
    let sender = spawn(&[&["send", &url, "--cc", cc, "--qlog", &qlog, "--json"][..], &clip].concat());
    let sent = serde_json::from_str(&finish(sender)).expect("one JSON object");
    let received = serde_json::from_str(&finish(receiver)).expect("one JSON object");
    (sent, received, std::fs::read_to_string(&log).expect("the log was written"))
}

#[test]
fn the_receiver_builds_the_half_that_the_sender_announces() {
    // Sprout's forecasts are made at the receiver: without its half there the sender would hardly send.
    let (sent, received, log) = by_udp("sprout");
    assert!(received["frames"]["displayed"].as_u64() >= Some(24), "{sent} {received}");
    assert!(log.contains("forecast_bytes"), "no forecast was heard");
    // The receiver's rate is observed once it was told.
    let (sent, received, log) = by_udp("gcc-rmcat-02");
    assert!(received["frames"]["displayed"].as_u64() >= Some(24), "{sent} {received}");
    assert!(log.contains("remb_bps"), "no rate was heard");
}

#[test]
fn a_controller_that_the_receiver_does_not_know_is_named() {
    let address = free();
    let mut receiver = spawn(&["receive", "--listen", &format!("udp://{address}"), "--timeout", "20s"]);
    let said = receiver.stderr.take().expect("it was asked for");
    let mut said = BufReader::new(said).lines().map(|line| line.expect("it is text"));
    assert!(said.next().expect("a line").starts_with("listening"));
    let announcement =
        wire::Announcement { controller: "bbr9:gain=2", initial_bps: 1, min_bps: 1, max_bps: 1 };
    let hello = wire::Control::Hello {
        session: 7,
        width: 0,
        height: 0,
        interval_us: 0,
        announcement: Some(announcement),
    };
    let mut out = [0; wire::Control::MAX_LEN];
    let length = hello.encode(&mut out);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    socket.send_to(&out[..length], &address).expect("it is sent");
    let error: Vec<String> = said.collect();
    assert_eq!(receiver.wait().expect("it ends").code(), Some(1));
    assert!(error.len() == 1 && error[0].contains("bbr9") && error[0].contains("update"), "{error:?}");
}

#[test]
fn silence_is_said_to_be_silence() {
    let address = free();
    let receiver = spawn(&["receive", "--listen", &format!("udp://{address}"), "--timeout", "300ms"]);
    let output = receiver.wait_with_output().expect("the command ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("nothing came to udp://127.0.0.1:"), "{error}");
}

/// A sender of a minute over plain UDP and its receiver, which writes to `file`, once the first picture has
/// arrived.
fn playing(file: &std::path::Path, timeout: &str) -> (Child, Child) {
    let url = format!("udp://{}", free());
    let output = file.display().to_string();
    let receiver = spawn(&["receive", "--listen", &url, "--output", &output, "--timeout", timeout]);
    let clip = ["--input", "synthetic", "--size", "160x96", "--duration", "60s"];
    let sender = spawn(&[&["send", &url][..], &clip].concat());
    let arrived = || std::fs::metadata(file).is_ok_and(|file| file.len() > 0 || !file.is_file());
    let waited = (0..3_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        arrived()
    });
    assert!(waited, "no picture arrived within a minute");
    (sender, receiver)
}

fn failed(child: Child) -> String {
    let output = child.wait_with_output().expect("the command ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    error
}

#[test]
fn a_peer_that_is_killed_is_missed() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("killed.y4m");
    for who in ["receiver", "sender"] {
        let _ = std::fs::remove_file(&file);
        let (mut sender, mut receiver) = playing(&file, "1s");
        let (killed, left) = if who == "sender" { (&mut sender, receiver) } else { (&mut receiver, sender) };
        killed.kill().expect("it runs");
        killed.wait().expect("it ends");
        let (error, what) =
            (failed(left), if who == "sender" { "stopped sending" } else { "stopped answering" });
        assert!(error.contains(what), "without the {who}: {error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_receiver_without_room_on_its_disk_is_missed() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("full.y4m");
    let _ = std::fs::remove_file(&file);
    // Every write to this device fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", &file).expect("the temporary folder can be written");
    let (sender, receiver) = playing(&file, "20s");
    assert!(failed(receiver).contains("No space left"));
    assert!(failed(sender).contains("nothing listens there"));
}
