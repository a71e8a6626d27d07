//! The page itself, over plain HTTP/1.1: a handful of files held in memory, for `GET` alone.
//!
//! One request a connection, its head at most 8 kB and read within five seconds; so many connections at a time. Paths are looked up
//! in what was read at the start, so that no request can name another file.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
/// The largest page, all files together: ours has half a megabyte.
const MOST: u64 = 32 << 20;

/// Why there is no page. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// There is no page at all.
    #[error("{}: no page there; `make web` builds it, --web names its folder", .0.display())]
    Missing(PathBuf),
    /// It can't be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder is another one.
    #[error("{}: more than 32 MB of files; --web names a folder that `make web` has built", .0.display())]
    Large(PathBuf),
}

#[derive(Debug, PartialEq)]
struct File {
    kind: &'static str,
    bytes: Vec<u8>,
}

/// The files of a page, by their paths.
#[derive(Debug, Default)]
pub struct Pages {
    files: BTreeMap<String, File>,
}

impl Pages {
    /// Reads a folder that has an `index.html`.
    ///
    /// # Errors
    /// [`PageError`] if there is none, or it can't be read.
    pub fn read(folder: &Path) -> Result<Pages, PageError> {
        if !folder.join("index.html").is_file() {
            return Err(PageError::Missing(folder.to_owned()));
        }
        let mut pages = Pages::default();
        pages.read_folder(folder, "/", &mut 0)?;
        if let Some(index) = pages.files.remove("/index.html") {
            pages.files.insert("/".to_owned(), index);
        }
        Ok(pages)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str, total: &mut u64) -> Result<(), PageError> {
        let wrong = |source| PageError::File { path: folder.to_owned(), source };
        for entry in std::fs::read_dir(folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let (path, name) = (entry.path(), entry.file_name());
            let (kind, Some(name)) = (entry.file_type().map_err(wrong)?, name.to_str()) else { continue };
            if kind.is_dir() {
                self.read_folder(&path, &format!("{prefix}{name}/"), total)?;
            } else if kind.is_file() {
                *total += entry.metadata().map_err(wrong)?.len();
                if *total > MOST {
                    return Err(PageError::Large(folder.to_owned()));
                }
                let bytes =
                    std::fs::read(&path).map_err(|source| PageError::File { path: path.clone(), source })?;
                self.put(&format!("{prefix}{name}"), bytes);
            }
        }
        Ok(())
    }

    /// Adds a file that is in no folder; its type is that of its name.
    pub fn put(&mut self, path: &str, bytes: Vec<u8>) {
        let kind = match path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("json") => "application/json",
            Some("wasm") => "application/wasm",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        };
        self.files.insert(path.to_owned(), File { kind, bytes });
    }

    /// The whole answer to a request.
    fn answer(&self, request: Request<'_>) -> Vec<u8> {
        let plain = |text: &str| File { kind: "text/plain; charset=utf-8", bytes: text.as_bytes().to_vec() };
        match request {
            Request::Malformed => respond("400 Bad Request", &plain("that is no HTTP request\n"), true),
            Request::Other => respond("405 Method Not Allowed", &plain("this page can only be read\n"), true),
            Request::Get { path, body } => match self.files.get(path) {
                Some(file) => respond("200 OK", file, body),
                None => respond("404 Not Found", &plain("there is no such page; / is the one\n"), body),
            },
        }
    }
}

/// Only what the page itself brings may run in it, and it may talk to WebTransport servers. Isolation from other origins
/// gives it a clock of 5 instead of 100 microseconds (W3C High Resolution Time).
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

/// Reads a request's first line (RFC 9112 section 3); its fields mean nothing here. `None` while its head is not complete.
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
    let mut pages = Pages::default();
    pages.put("/", b"page".to_vec());
    let Some(request) = parse(bytes) else { return };
    let answer = pages.answer(request);
    assert!(answer.starts_with(b"HTTP/1.1 "));
    if let Request::Get { path, .. } = request {
        assert!(path.starts_with('/') && !path.contains(['\r', '\n', ' ', '?']));
        assert_eq!(answer.starts_with(b"HTTP/1.1 200"), path == "/");
    }
}

/// Serves `pages` at `listen` (port 0 lets the system choose) for as long as the runtime lives, and says where.
///
/// # Errors
/// [`RealError`] if there is no such socket to be had.
pub fn serve(runtime: &Runtime, listen: SocketAddr, pages: Pages) -> Result<SocketAddr, RealError> {
    let wrong = |source| RealError::new(listen, source);
    let listener = TcpListener::bind(listen).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let local = listener.local_addr().map_err(wrong)?;
    let _inside = runtime.handle().enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
    runtime.handle().spawn(accept(listener, Arc::new(pages)));
    Ok(local)
}

async fn accept(listener: tokio::net::TcpListener, pages: Arc<Pages>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        // A connection that is gone before it is accepted is no reason to stop; one that can't be for want of descriptors
        // will be when there are some.
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            // Whoever is too slow, or gone, is forgotten.
            let _ = timeout(2 * WITHIN, answer(&mut stream, &pages)).await;
            drop(place);
        });
    }
}

async fn answer(stream: &mut tokio::net::TcpStream, pages: &Pages) -> std::io::Result<()> {
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
    stream.write_all(&pages.answer(request)).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    fn pages() -> Pages {
        let mut pages = Pages::default();
        pages.put("/", b"<p>hello".to_vec());
        pages.put("/assets/viewer.wasm", vec![0, 1, 2]);
        pages
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
        let at = serve(&runtime, "127.0.0.1:0".parse().unwrap(), pages()).unwrap();
        let page = ask(at, b"GET /?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(page.starts_with(b"HTTP/1.1 200 OK\r\n") && page.ends_with(b"\r\n\r\n<p>hello"));
        let wasm = ask(at, b"GET /assets/viewer.wasm HTTP/1.1\r\n\r\n");
        assert!(wasm.ends_with(&[0, 1, 2]) && String::from_utf8_lossy(&wasm).contains("application/wasm"));
        assert!(ask(at, b"HEAD / HTTP/1.0\r\n\r\n").ends_with(b"\r\n\r\n"));
        assert!(ask(at, b"GET /../Cargo.toml HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 404"));
        assert!(ask(at, b"POST / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 405"));
        assert!(ask(at, b"\x16\x03\x01\r\n\r\n").starts_with(b"HTTP/1.1 400"));
        assert!(ask(at, &[b'x'; HEAD]).starts_with(b"HTTP/1.1 400"));
    }

    #[test]
    fn a_folder_without_a_page_says_what_to_do() {
        let error = Pages::read(Path::new("no-such-folder")).unwrap_err().to_string();
        assert!(error.contains("make web"), "{error}");
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
