//! Plain HTTP/1.1 for `GET` alone: what a browser asks before it watches, what players of segments ask each
//! second, and what a scraper of metrics asks.
//!
//! The head of a request is at most 8 kB and read within five seconds. [`Limits`] bound connections at a
//! time, requests a connection, and how long one waits for the next request. Paths are looked up in a
//! [`Site`], so that no request can name a file that is not meant for it. Players seek by single ranges of
//! bytes (RFC 9110 section 14).

mod answer;
mod range;
mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::RealError;
use crate::quic::Runtime;

use answer::Answer;
use request::{Request, parse};

/// The longest head of a request: what servers commonly take.
const HEAD: usize = 8 << 10;
/// How long a request may take to come, and a piece of an answer to be taken.
const WITHIN: Duration = Duration::from_secs(5);
/// The piece of an answer that must be taken within that time: 105 kbit/s.
const PIECE: usize = 64 << 10;
/// What is in memory at a time of a body that is read as it is sent, bytes.
const PART: u64 = 1 << 20;

/// What is answered to a request for something that is there.
#[derive(Clone, Debug)]
pub struct File {
    /// Its media type, as `Content-Type` has it.
    pub kind: &'static str,
    /// Who may fetch it, and how long it may be kept.
    pub role: Role,
    /// The body of the answer.
    pub body: Body,
}

impl File {
    /// A file of a page, in memory.
    pub fn page(kind: &'static str, bytes: Bytes) -> File {
        File { kind, role: Role::Page, body: Body::Whole(bytes) }
    }
}

/// Who may fetch a file, and how long it may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Part of a page: for its own origin, asked for anew each time (`no-cache`).
    #[default]
    Page,
    /// Media that changes under its name, such as a playlist: for any origin, asked for anew each time.
    Changing,
    /// Media that never changes under its name, such as a segment: for any origin, kept for a year
    /// (`immutable`, RFC 8246).
    Fixed,
}

/// The bytes of a file.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory.
    Whole(Bytes),
    /// Read as it is sent: no more of it is in memory at a time than 1 MB.
    Long(Arc<dyn Source>),
    /// It may be there, but can't be read right now: the answer is 503, after which players ask again.
    Unreachable,
}

/// A file that is read in parts.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// Bytes in all.
    fn length(&self) -> u64;
    /// The bytes of a range, which lies within the length. It may block: it runs on a thread for that.
    ///
    /// # Errors
    /// Where it can't be read, or is another file by now; the connection then ends.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes>;
}

impl Body {
    /// Bytes in all.
    pub fn length(&self) -> u64 {
        match self {
            Body::Whole(bytes) => bytes.len() as u64,
            Body::Long(source) => source.length(),
            Body::Unreachable => 0,
        }
    }

    /// A range that lies within the length.
    fn part(&self, range: Range<u64>) -> io::Result<Bytes> {
        match self {
            Body::Whole(bytes) => Ok(bytes.slice(range.start as usize..range.end as usize)),
            Body::Long(source) => source.read(range),
            Body::Unreachable => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// What there is to be had at a server.
pub trait Site: Send + Sync {
    /// The file at a path, which begins with a slash. It may block for as long as a file takes to be read: it
    /// runs on a thread for that.
    fn file(&self, path: &str) -> Option<File>;
    /// Said to whoever asks for what is not there, as in `there is no such page; / is the one`.
    fn directions(&self) -> &'static str;
    /// Somebody gets the file at a path, or part of it. It is called on the thread that answers.
    fn fetched(&self, client: &Client<'_>, path: &str) {
        let _ = (client, path);
    }
}

/// Who asks, as far as a server can tell people apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client<'a> {
    /// The address that the connection comes from: that of a cache or a proxy, where one is in between.
    pub address: IpAddr,
    /// What the client calls itself (`User-Agent`); may be empty.
    pub agent: &'a str,
}

/// Bounds on what clients take of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, at least one; further ones wait to be accepted. A browser opens six.
    pub connections: usize,
    /// Requests that a connection serves, at least one.
    pub requests: u32,
    /// How long a connection waits for its next request. It does not where only one place is left.
    pub idle: Duration,
}

impl Default for Limits {
    /// For pages and metrics: 64 connections of one request each.
    fn default() -> Limits {
        Limits { connections: 64, requests: 1, idle: WITHIN }
    }
}

impl Limits {
    /// For players, which ask each second: 512 connections that stay for 1,000 requests, at most ten seconds
    /// apart.
    pub fn players() -> Limits {
        Limits { connections: 512, requests: 1000, idle: Duration::from_secs(10) }
    }
}

/// What must hold of every request, however hostile: the body of a fuzz target.
///
/// # Panics
/// If it does not.
pub fn oracle(bytes: &[u8]) {
    const BODY: &[u8] = b"0123456789";
    struct One;
    impl Site for One {
        fn file(&self, path: &str) -> Option<File> {
            (path == "/").then(|| File::page("text/plain", Bytes::from_static(BODY)))
        }
        fn directions(&self) -> &'static str {
            "there is one page"
        }
    }
    let Some((request, taken)) = parse(bytes) else { return };
    assert!(bytes[..taken].ends_with(b"\r\n\r\n") && taken <= bytes.len());
    let answer = Answer::to(&request, &One, true);
    let head = answer.head.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a first line");
    assert!(lines.all(|line| line.contains(": ") && !line.contains(['\r', '\n'])));
    let field = |name: &str| head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let sent = answer.body.part(answer.range.clone()).expect("it is in memory");
    let Request::Get(get) = &request else {
        return assert!(answer.closes && status.starts_with("40"));
    };
    assert!(get.path.starts_with('/') && !get.path.contains(['\r', '\n', ' ', '?']));
    assert_eq!(answer.closes, field("Connection") == Some("close"));
    assert_eq!(matches!(&status[..3], "200" | "206" | "416"), get.path == "/");
    let stated = field("Content-Length").and_then(|length| length.parse().ok());
    assert!(if get.body { stated == Some(sent.len()) } else { sent.is_empty() });
    match &status[..3] {
        "200" if get.body => assert_eq!(sent, BODY),
        "206" => {
            let range = field("Content-Range").and_then(|range| range.strip_prefix("bytes "));
            let (range, length) = range.and_then(|range| range.split_once('/')).expect("a range");
            let (first, last) = range.split_once('-').expect("its ends");
            let (first, last): (usize, usize) =
                (first.parse().expect("a byte"), last.parse().expect("a byte"));
            assert_eq!((&sent[..], length), (&BODY[first..=last], "10"));
        }
        "416" => assert_eq!((sent.len(), field("Content-Range")), (0, Some("bytes */10"))),
        _ => assert_eq!(field("Content-Range"), None),
    }
}

/// Serves `site` at `listen` (port 0 lets the system choose) within the usual [`Limits`], for as long as the
/// runtime lives, and says where.
///
/// # Errors
/// [`RealError`] if there is no such socket to be had.
pub fn serve(runtime: &Runtime, listen: SocketAddr, site: Arc<dyn Site>) -> Result<SocketAddr, RealError> {
    serve_within(runtime, listen, site, Limits::default())
}

/// Serves `site` like [`serve`], within other limits.
///
/// # Errors
/// [`RealError`] if there is no such socket to be had.
pub fn serve_within(
    runtime: &Runtime,
    listen: SocketAddr,
    site: Arc<dyn Site>,
    limits: Limits,
) -> Result<SocketAddr, RealError> {
    let wrong = |source| RealError::new(listen, source);
    let listener = TcpListener::bind(listen).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let local = listener.local_addr().map_err(wrong)?;
    let _inside = runtime.handle().enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
    runtime.handle().spawn(accept(listener, site, limits));
    Ok(local)
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<dyn Site>, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections.max(1)));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        // A connection that is gone before it is accepted is no reason to stop; one that can't be for want of
        // descriptors will be when there are some.
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (site, places) = (site.clone(), places.clone());
        tokio::spawn(async move {
            // Whoever is too slow, or gone, is forgotten.
            let _ = converse(stream, peer.ip(), &site, limits, &places).await;
            drop(place);
        });
    }
}

/// Answers the requests of a connection. The last place of a server is for whoever comes: where no further
/// one is free, nobody holds his between requests.
async fn converse(
    mut stream: TcpStream,
    address: IpAddr,
    site: &Arc<dyn Site>,
    limits: Limits,
    places: &Semaphore,
) -> io::Result<()> {
    // Answers are written in one go, and players wait for them.
    stream.set_nodelay(true)?;
    let mut come = Vec::with_capacity(1024);
    for nth in 1..=limits.requests.max(1) {
        let patience = if nth == 1 { WITHIN } else { limits.idle };
        let Some((request, taken)) = next_request(&mut stream, &mut come, patience).await? else {
            return Ok(());
        };
        come.drain(..taken);
        let more = nth < limits.requests && places.available_permits() > 0;
        let site = site.clone();
        let answer = aside(move || {
            let answer = Answer::to(&request, &*site, more);
            if let Request::Get(get) = &request
                && answer.is_of_file()
            {
                site.fetched(&Client { address, agent: &get.agent }, &get.path);
            }
            answer
        });
        let answer = answer.await?;
        send(&mut stream, &answer).await?;
        if answer.closes {
            break;
        }
    }
    stream.shutdown().await
}

/// Does what may block on a thread for that.
async fn aside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> io::Result<R> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// The next request, and how many bytes its head has; `None` if it does not come. `patience` is for its first
/// byte.
async fn next_request(
    stream: &mut TcpStream,
    come: &mut Vec<u8>,
    patience: Duration,
) -> io::Result<Option<(Request, usize)>> {
    if come.is_empty() && !matches!(timeout(patience, read(stream, come)).await, Ok(Ok(1..))) {
        return Ok(None);
    }
    let whole = async {
        loop {
            if let Some(request) = parse(come) {
                return Ok(Some(request));
            }
            if come.len() >= HEAD {
                return Ok(Some((Request::Malformed, come.len())));
            }
            if read(stream, come).await? == 0 {
                return Ok(None);
            }
        }
    };
    timeout(WITHIN, whole).await.unwrap_or(Ok(None))
}

/// Reads what has come, as far as there is room for a head.
async fn read(stream: &mut TcpStream, come: &mut Vec<u8>) -> io::Result<usize> {
    let room = HEAD.saturating_sub(come.len()) as u64;
    stream.take(room).read_buf(come).await
}

/// Sends an answer part by part. Head and first part go out as one.
async fn send(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    let mut head = Some(answer.head.clone().into_bytes());
    let Range { mut start, end } = answer.range.clone();
    while head.is_some() || start < end {
        let next = end.min(start.saturating_add(PART));
        let part = match &answer.body {
            Body::Whole(_) => answer.body.part(start..next)?,
            body if start < next => {
                let body = body.clone();
                aside(move || body.part(start..next)).await??
            }
            _ => Bytes::new(),
        };
        let mut bytes = head.take().unwrap_or_default();
        let first = part.len().min(PIECE);
        bytes.extend_from_slice(&part[..first]);
        for piece in [&bytes[..]].into_iter().chain(part[first..].chunks(PIECE)) {
            timeout(WITHIN, stream.write_all(piece)).await??;
        }
        start = next;
    }
    Ok(())
}
