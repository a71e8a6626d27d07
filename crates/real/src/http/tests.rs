//! Requests over real connections.

use super::*;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

struct Shop;

/// A file that is never in memory: byte `n` of it is `n` modulo 251.
#[derive(Debug)]
struct Made(u64);

impl Source for Made {
    fn length(&self) -> u64 {
        self.0
    }
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        assert!(range.end - range.start <= PART && range.end <= self.0);
        Ok(range.map(|at| (at % 251) as u8).collect())
    }
}

impl Site for Shop {
    fn file(&self, path: &str) -> Option<File> {
        let file = |kind, role, body| Some(File { kind, role, body });
        let text = |text: &'static [u8]| Body::Whole(Bytes::from_static(text));
        match path {
            "/" => Some(File::page("text/html; charset=utf-8", Bytes::from_static(b"<p>hello"))),
            "/assets/viewer.wasm" => Some(File::page("application/wasm", Bytes::from_static(&[0, 1, 2]))),
            "/live.m3u8" => file("application/vnd.apple.mpegurl", Role::Changing, text(b"#EXTM3U")),
            "/s/1.m4s" => file("video/mp4", Role::Fixed, text(b"0123456789")),
            "/long.mp4" => file("video/mp4", Role::Changing, Body::Long(Arc::new(Made((5 << 20) / 2)))),
            "/gone.m4s" => file("video/mp4", Role::Fixed, Body::Unreachable),
            _ => None,
        }
    }
    fn directions(&self) -> &'static str {
        "there is no such page; / is the one"
    }
}

fn shop(limits: Limits) -> (Runtime, SocketAddr) {
    let runtime = Runtime::new(1).unwrap();
    let at = serve_within(&runtime, "127.0.0.1:0".parse().unwrap(), Arc::new(Shop), limits).unwrap();
    (runtime, at)
}

fn ask(at: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// One answer of a connection that stays: its head and its body.
fn answer_of(reader: &mut BufReader<&TcpStream>) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "the connection ended: {head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

#[test]
fn files_are_served_and_nothing_else() {
    let (_runtime, at) = shop(Limits::default());
    let page = ask(at, b"GET /?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(page.starts_with(b"HTTP/1.1 200 OK\r\n") && page.ends_with(b"\r\n\r\n<p>hello"));
    let wasm = ask(at, b"GET /assets/viewer.wasm HTTP/1.1\r\n\r\n");
    assert!(wasm.ends_with(&[0, 1, 2]) && String::from_utf8_lossy(&wasm).contains("application/wasm"));
    assert!(ask(at, b"HEAD / HTTP/1.0\r\n\r\n").ends_with(b"\r\n\r\n"));
    let nothing = ask(at, b"GET /../Cargo.toml HTTP/1.1\r\n\r\n");
    assert!(nothing.starts_with(b"HTTP/1.1 404") && nothing.ends_with(b"/ is the one\n"));
    assert!(ask(at, b"POST / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 405"));
    assert!(ask(at, b"GET /gone.m4s HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 503"));
    assert!(ask(at, b"\x16\x03\x01\r\n\r\n").starts_with(b"HTTP/1.1 400"));
    assert!(ask(at, &[b'x'; HEAD]).starts_with(b"HTTP/1.1 400"));
}

#[test]
fn a_file_says_who_may_have_it_and_how_long() {
    let (_runtime, at) = shop(Limits::default());
    let head = |path: &str| {
        let answer = ask(at, format!("HEAD {path} HTTP/1.1\r\n\r\n").as_bytes());
        String::from_utf8(answer).unwrap()
    };
    let (page, list, segment, gone) = (head("/"), head("/live.m3u8"), head("/s/1.m4s"), head("/gone.m4s"));
    assert!(
        page.contains("\r\nCache-Control: no-cache\r\n") && list.contains("\r\nCache-Control: no-cache\r\n")
    );
    assert!(segment.contains("\r\nCache-Control: public, max-age=31536000, immutable\r\n"));
    assert!(!gone.contains("immutable"), "an error is not kept: {gone}");
    assert!(page.contains("media-src 'self' blob:") && page.contains("worker-src 'self' blob:"));
    for media in [&list, &segment] {
        assert!(media.contains("\r\nAccess-Control-Allow-Origin: *\r\n"));
        assert!(media.contains("\r\nCross-Origin-Resource-Policy: cross-origin\r\n"));
    }
    assert!(!page.contains("Access-Control-Allow-Origin"), "a page is its own origin's");
}

#[test]
fn a_connection_serves_requests_until_its_last() {
    let (_runtime, at) = shop(Limits { connections: 3, requests: 3, idle: WITHIN });
    let stream = TcpStream::connect(at).unwrap();
    let mut reader = BufReader::new(&stream);
    // Two at once, then one more: a client need not wait.
    (&stream).write_all(b"GET /live.m3u8 HTTP/1.1\r\n\r\nHEAD /s/1.m4s HTTP/1.1\r\n\r\n").unwrap();
    let (head, body) = answer_of(&mut reader);
    assert!(head.contains("Connection: keep-alive") && body == b"#EXTM3U", "{head}");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    assert!(head.contains("Content-Length: 10\r\n"), "a head speaks of the whole: {head}");
    (&stream).write_all(b"GET /s/1.m4s HTTP/1.1\r\nRange: bytes=2-4\r\n\r\n").unwrap();
    let (head, body) = answer_of(&mut reader);
    assert!(head.contains("Connection: close") && head.contains("Content-Range: bytes 2-4/10\r\n"), "{head}");
    assert_eq!((body.as_slice(), reader.read(&mut [0]).unwrap()), (b"234".as_slice(), 0));
}

#[test]
fn whoever_only_waits_makes_room() {
    // One place: nobody may hold it between requests, and who says nothing loses it.
    let (_runtime, at) = shop(Limits { connections: 1, requests: 9, idle: Duration::from_millis(50) });
    let answer = ask(at, b"GET / HTTP/1.1\r\n\r\n");
    assert!(String::from_utf8_lossy(&answer).contains("Connection: close"));
    let (_runtime, at) = shop(Limits { connections: 3, requests: 9, idle: Duration::from_millis(50) });
    let answer = ask(at, b"GET / HTTP/1.1\r\n\r\n");
    assert!(String::from_utf8_lossy(&answer).contains("Connection: keep-alive"), "and yet it ended");
}

/// A shop that notes who gets what.
#[derive(Default)]
struct Ledger(std::sync::Mutex<Vec<(IpAddr, String, String)>>);

impl Site for Ledger {
    fn file(&self, path: &str) -> Option<File> {
        Shop.file(path)
    }
    fn directions(&self) -> &'static str {
        Shop.directions()
    }
    fn fetched(&self, client: &Client<'_>, path: &str) {
        self.0.lock().unwrap().push((client.address, client.agent.to_owned(), path.to_owned()));
    }
}

#[test]
fn a_site_hears_who_gets_its_files() {
    let (runtime, ledger) = (Runtime::new(1).unwrap(), Arc::new(Ledger::default()));
    let at = serve(&runtime, "127.0.0.1:0".parse().unwrap(), ledger.clone()).unwrap();
    ask(at, b"GET /live.m3u8?x HTTP/1.1\r\nUser-Agent: one\r\n\r\n");
    ask(at, b"GET /s/1.m4s HTTP/1.1\r\nRange: bytes=2-4\r\n\r\n");
    // No file's bytes: not there, not readable, beyond the end, and the head alone.
    for request in ["GET /no.m3u8", "GET /gone.m4s", "HEAD /live.m3u8", "POST /live.m3u8"] {
        ask(at, format!("{request} HTTP/1.1\r\n\r\n").as_bytes());
    }
    ask(at, b"GET /s/1.m4s HTTP/1.1\r\nRange: bytes=20-\r\n\r\n");
    let got = std::mem::take(&mut *ledger.0.lock().unwrap());
    let one = |agent: &str, path: &str| (at.ip(), agent.to_owned(), path.to_owned());
    assert_eq!(got, [one("one", "/live.m3u8"), one("", "/s/1.m4s")]);
}

#[test]
fn a_long_file_comes_in_parts_and_any_range_of_it() {
    let (_runtime, at) = shop(Limits::default());
    let body = |range: &str| {
        let answer = ask(at, format!("GET /long.mp4 HTTP/1.1\r\n{range}\r\n").as_bytes());
        let at = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8_lossy(&answer[..at]).into_owned(), answer[at + 4..].to_vec())
    };
    let whole: Vec<u8> = (0..(5 << 20) / 2).map(|at| (at % 251) as u8).collect();
    assert!(body("").1 == whole);
    let (head, some) = body("Range: bytes=1000-2000000\r\n");
    assert!(some == whole[1000..=2_000_000] && head.starts_with("HTTP/1.1 206"), "{head}");
    assert!(body("Range: bytes=-7\r\n").1 == whole[whole.len() - 7..]);
    let (head, none) = body("Range: bytes=2621440-\r\n");
    assert!(
        head.starts_with("HTTP/1.1 416") && head.contains("bytes */2621440") && none.is_empty(),
        "{head}"
    );
}

#[test]
fn two_hundred_viewers_ask_again_and_again() {
    let (_runtime, at) = shop(Limits::players());
    let streams: Vec<_> = (0..200).map(|_| TcpStream::connect(at).unwrap()).collect();
    let mut answers = 0;
    for _ in 0..5 {
        streams.iter().for_each(|mut stream| stream.write_all(b"GET /live.m3u8 HTTP/1.1\r\n\r\n").unwrap());
        for stream in &streams {
            let (head, body) = answer_of(&mut BufReader::new(stream));
            assert!(head.contains("keep-alive") && body == b"#EXTM3U");
            answers += 1;
        }
    }
    assert_eq!(answers, 1000);
}

proptest! {
    #[test]
    fn any_request_is_answered(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        method in "(GET|HEAD|POST|)", path in "[/a-z?# .]{0,20}", version in "(HTTP/1.[01]|)",
        field in "(Range: bytes=[0-9]{0,3}-[0-9]{0,3}|Connection: close|[ -~]{0,20})"
    ) {
        oracle(&bytes);
        oracle(format!("{method} {path} {version}\r\nHost: x\r\n\r\n").as_bytes());
        oracle(format!("{method} / {version}\r\n{field}\r\n\r\n").as_bytes());
    }
}
