//! A server that others wrote and that speaks S3: moto's, which `tools/s3-server` fetches.

#![allow(clippy::disallowed_methods, reason = "it waits for a server of others")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use framewire_real::http::{Body, Site};
use framewire_real::storage::{Kind, Settings, Shelf, Storage};

const LONG: Duration = Duration::from_secs(60);
const BUCKET: &str = "framewire-test";
/// Says where the server is, to the process whose environment has it.
const PORT: &str = "FRAMEWIRE_TEST_S3";

/// The server's command: where `tools/s3-server` puts it, or on the path.
fn command() -> PathBuf {
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("s3/bin/moto_server");
    if target.exists() { target } else { PathBuf::from("moto_server") }
}

struct Server(Child, u16);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// `None` where there is none to be had.
    fn start(port: u16) -> Option<Server> {
        let mut command = Command::new(command());
        command
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = Server(command.spawn().ok()?, port);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.0.try_wait().unwrap().is_some() || begun.elapsed() > LONG {
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(server.ask("PUT", "").starts_with("HTTP/1.1 200"), "it makes a bucket");
        Some(server)
    }

    /// The answer to a request for a file. The server asks for a signature and does not check it.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.1)).unwrap();
        let request = format!(
            "{method} /{BUCKET}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20000101/us-east-1/s3/aws4_request\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[test]
fn streams_are_kept_in_a_bucket_through_an_outage() {
    if let Ok(port) = std::env::var(PORT) {
        return beside(port.parse().unwrap());
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    if Server::start(port).is_none() {
        return println!("skipped: S3: there is no moto_server; tools/s3-server fetches it");
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .env(PORT, port.to_string())
        .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
        .envs([("AWS_ALLOW_HTTP", "true"), ("AWS_REGION", "us-east-1")])
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn beside(port: u16) {
    let server = Server::start(port).unwrap();
    let place = format!("s3://{BUCKET}/live/eu");
    let settings = Settings { recent: 0, longest_retry: Duration::from_millis(400), ..Settings::default() };
    let storage = Arc::new(Storage::open(&place, settings).unwrap());
    let segment = |at: usize| Bytes::from(vec![at as u8; 1000 * (at + 1)]);
    let put = |at: usize| {
        storage.put(&format!("game/s/{at:06}-1.m4s"), segment(at), Kind::Segment).unwrap();
        let list: String = (0..=at).map(|at| format!("s/{at:06}-1.m4s\n")).collect();
        storage.put("game/live.m3u8", Bytes::from(list), Kind::Playlist).unwrap();
    };
    (0..10).for_each(put);
    let long: Bytes = (0..2_500_000u32).map(|at| (at % 239) as u8).collect();
    storage.put("game/all.mp4", long.clone(), Kind::Segment).unwrap();
    storage.put("game/empty.json", Bytes::new(), Kind::Playlist).unwrap();
    storage.flush(LONG).unwrap();
    assert_eq!(storage.counters().failures, 0);

    // What players of the bucket see.
    let answer = server.ask("GET", "/live/eu/game/live.m3u8");
    assert!(
        answer.ends_with("s/000009-1.m4s\n") && answer.contains("application/vnd.apple.mpegurl"),
        "{answer}"
    );
    let head = server.ask("HEAD", "/live/eu/game/s/000003-1.m4s").to_ascii_lowercase();
    assert!(head.contains("immutable") && head.contains("content-type: video/mp4"), "{head}");

    // What is read back.
    assert_eq!(storage.get("game/s/000003-1.m4s").unwrap().unwrap(), segment(3));
    assert_eq!(storage.get("game/all.mp4").unwrap().unwrap(), long);
    assert_eq!(storage.get("game/empty.json").unwrap().unwrap(), "");
    assert_eq!(storage.get("game/none.json").unwrap(), None);
    let shelf = Shelf::new(storage.clone());
    let Some(Body::Long(all)) = shelf.file("/game/all.mp4").map(|file| file.body) else { panic!("not long") };
    assert_eq!(all.read(1_200_000..2_400_000).unwrap(), long.slice(1_200_000..2_400_000));

    drop(server);
    (10..15).for_each(put);
    let error = storage.flush(Duration::from_millis(300)).unwrap_err().to_string();
    assert!(error.contains("the first is game/s/000010-1.m4s: ") && !error.contains('\n'), "{error}");
    assert!(matches!(shelf.file("/game/s/000003-1.m4s").unwrap().body, Body::Unreachable));
    // It comes back, without its memory.
    let _server = Server::start(port).unwrap();
    storage.flush(LONG).unwrap();
    assert_eq!(storage.get("game/s/000014-1.m4s").unwrap().unwrap(), segment(14));
    let list = storage.get("game/live.m3u8").unwrap().unwrap();
    assert!(list.ends_with(b"s/000014-1.m4s\n") && storage.counters().failures > 0);
}
