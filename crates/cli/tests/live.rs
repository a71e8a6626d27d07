//! Send, relay and receive as three processes, over UDP on loopback. How fast is for `framewire bench`; here it must work.

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
    let receiver = spawn(&["receive", "--listen", &far, "--output", &output, "--timeout", "20s", "--json"]);
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

#[test]
fn silence_is_said_to_be_silence() {
    let address = free();
    let receiver = spawn(&["receive", "--listen", &address, "--timeout", "300ms"]);
    let output = receiver.wait_with_output().expect("the command ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("nothing came to udp://127.0.0.1:"), "{error}");
}
