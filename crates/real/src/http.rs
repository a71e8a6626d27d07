//! Plain HTTP/1.1 for `GET` alone: what a browser asks before it watches, and what a scraper of metrics asks.
//!
//! One request a connection, its head at most 8 kB and read within five seconds; so many connections at a
//! time. Paths are looked up in a [`Site`], so that no request can name a file that is not meant for it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::RealError;
use crate::quic::Runtime;

/// The longest head of a request: what servers commonly take.
const HEAD: usize = 8 << 10;
/// How long a request may take to come, and an answer to be taken.
const WITHIN: Duration = Duration::from_secs(5);
/// Connections at a time; a browser opens six.
const CONNECTIONS: usize = 64;

/// What is answered to a request for something that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its media type, as `Content-Type` has it.
    pub kind: &'static str,
    /// The body of the answer.
    pub bytes: Bytes,
}

/// What there is to be had at a server.
pub trait Site: Send + Sync {
    /// The file at a path, which begins with a slash.
    fn file(&self, path: &str) -> Option<File>;
    /// Said to whoever asks for what is not there, as in `there is no such page; / is the one`.
    fn directions(&self) -> &'static str;
}

/// The whole answer to a request.
fn answer_to(request: Request<'_>, site: &dyn Site) -> Vec<u8> {
    let plain = |text: &str| {
        let bytes = Bytes::from(format!("{text}\n"));
        File { kind: "text/plain; charset=utf-8", bytes }
    };
    match request {
        Request::Malformed => respond("400 Bad Request", &plain("that is no HTTP request"), true),
        Request::Other => respond("405 Method Not Allowed", &plain("this can only be read"), true),
        Request::Get { path, body } => match site.file(path) {
            Some(file) => respond("200 OK", &file, body),
            None => respond("404 Not Found", &plain(site.directions()), body),
        },
    }
}

/// Only what the page itself brings may run in it, and it may talk to WebTransport servers. Isolation from
/// other origins gives it a clock of 5 instead of 100 microseconds (W3C High Resolution Time).
const POLICY: &str = "\
    Content-Security-Policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
    style-src 'self'; img-src 'self' data:; connect-src 'self' https:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Embedder-Policy: require-corp\r\n\
    Referrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n\
    Cache-Control: no-cache\r\n\
    Connection: close\r\n";

fn respond(status: &str, file: &File, body: bool) -> Vec<u8> {
    let length = file.bytes.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{POLICY}\r\n",
        file.kind
    );
    let mut answer = head.into_bytes();
    if body {
        answer.extend_from_slice(&file.bytes);
    }
    answer
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request<'a> {
    Get { path: &'a str, body: bool },
    Other,
    Malformed,
}

/// Reads a request's first line (RFC 9112 section 3); its fields mean nothing here. `None` while its head is
/// not complete.
fn parse(head: &[u8]) -> Option<Request<'_>> {
    head.windows(4).position(|four| four == b"\r\n\r\n")?;
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Some(Request::Malformed) };
    let mut words = line.split(' ');
    let (method, target, version, rest) = (words.next(), words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(version), None) = (method, target, version, rest) else {
        return Some(Request::Malformed);
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Some(Request::Malformed);
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    Some(match method {
        "GET" => Request::Get { path, body: true },
        "HEAD" => Request::Get { path, body: false },
        _ => Request::Other,
    })
}

/// What must hold of every request, however hostile: the body of a fuzz target.
///
/// # Panics
/// If it does not.
pub fn oracle(bytes: &[u8]) {
    struct One;
    impl Site for One {
        fn file(&self, path: &str) -> Option<File> {
            (path == "/").then(|| File { kind: "text/plain", bytes: Bytes::from_static(b"page") })
        }
        fn directions(&self) -> &'static str {
            "there is one page"
        }
    }
    let Some(request) = parse(bytes) else { return };
    let answer = answer_to(request, &One);
    assert!(answer.starts_with(b"HTTP/1.1 "));
    if let Request::Get { path, .. } = request {
        assert!(path.starts_with('/') && !path.contains(['\r', '\n', ' ', '?']));
        assert_eq!(answer.starts_with(b"HTTP/1.1 200"), path == "/");
    }
}

/// Serves `site` at `listen` (port 0 lets the system choose) for as long as the runtime lives, and says
/// where.
///
/// # Errors
/// [`RealError`] if there is no such socket to be had.
pub fn serve(runtime: &Runtime, listen: SocketAddr, site: Arc<dyn Site>) -> Result<SocketAddr, RealError> {
    let wrong = |source| RealError::new(listen, source);
    let listener = TcpListener::bind(listen).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let local = listener.local_addr().map_err(wrong)?;
    let _inside = runtime.handle().enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
    runtime.handle().spawn(accept(listener, site));
    Ok(local)
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<dyn Site>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        // A connection that is gone before it is accepted is no reason to stop; one that can't be for want of
        // descriptors will be when there are some.
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let site = site.clone();
        tokio::spawn(async move {
            // Whoever is too slow, or gone, is forgotten.
            let _ = timeout(2 * WITHIN, answer(&mut stream, &*site)).await;
            drop(place);
        });
    }
}

async fn answer(stream: &mut tokio::net::TcpStream, site: &dyn Site) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let request = loop {
        if let Some(request) = parse(&head) {
            break request;
        }
        if head.len() >= HEAD {
            break Request::Malformed;
        }
        let room = (HEAD - head.len()) as u64;
        let read = timeout(WITHIN, (&mut *stream).take(room).read_buf(&mut head)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return Ok(());
        }
    };
    stream.write_all(&answer_to(request, site)).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    struct Two;

    impl Site for Two {
        fn file(&self, path: &str) -> Option<File> {
            match path {
                "/" => {
                    Some(File { kind: "text/html; charset=utf-8", bytes: Bytes::from_static(b"<p>hello") })
                }
                "/assets/viewer.wasm" => {
                    Some(File { kind: "application/wasm", bytes: Bytes::from_static(&[0, 1, 2]) })
                }
                _ => None,
            }
        }
        fn directions(&self) -> &'static str {
            "there is no such page; / is the one"
        }
    }

    fn ask(at: SocketAddr, request: &[u8]) -> Vec<u8> {
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    #[test]
    fn files_are_served_and_nothing_else() {
        let runtime = Runtime::new(1).unwrap();
        let at = serve(&runtime, "127.0.0.1:0".parse().unwrap(), Arc::new(Two)).unwrap();
        let page = ask(at, b"GET /?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(page.starts_with(b"HTTP/1.1 200 OK\r\n") && page.ends_with(b"\r\n\r\n<p>hello"));
        let wasm = ask(at, b"GET /assets/viewer.wasm HTTP/1.1\r\n\r\n");
        assert!(wasm.ends_with(&[0, 1, 2]) && String::from_utf8_lossy(&wasm).contains("application/wasm"));
        assert!(ask(at, b"HEAD / HTTP/1.0\r\n\r\n").ends_with(b"\r\n\r\n"));
        let nothing = ask(at, b"GET /../Cargo.toml HTTP/1.1\r\n\r\n");
        assert!(nothing.starts_with(b"HTTP/1.1 404") && nothing.ends_with(b"/ is the one\n"));
        assert!(ask(at, b"POST / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 405"));
        assert!(ask(at, b"\x16\x03\x01\r\n\r\n").starts_with(b"HTTP/1.1 400"));
        assert!(ask(at, &[b'x'; HEAD]).starts_with(b"HTTP/1.1 400"));
    }

    proptest! {
        #[test]
        fn any_request_is_answered(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            method in "(GET|HEAD|POST|)", path in "[/a-z?# .]{0,20}", version in "(HTTP/1.[01]|)"
        ) {
            oracle(&bytes);
            oracle(format!("{method} {path} {version}\r\nHost: x\r\n\r\n").as_bytes());
        }
    }
}
