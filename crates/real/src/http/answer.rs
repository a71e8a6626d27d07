//! The answer to a request: its head, and which bytes of which body follow.

use std::ops::Range;

use bytes::Bytes;

use super::request::{Get, Request};
use super::{Body, File, Role, Site};

/// Only what the page itself brings may run in it, it may talk to WebTransport servers, and it may play what
/// its script feeds to the browser (hls.js does, from a worker). Isolation from other origins gives it a
/// clock of 5 instead of 100 microseconds (W3C High Resolution Time).
const PAGE: &str = "\
    Content-Security-Policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
    worker-src 'self' blob:; media-src 'self' blob:; style-src 'self'; img-src 'self' data:; \
    connect-src 'self' https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Embedder-Policy: require-corp\r\n\
    Referrer-Policy: no-referrer\r\n";

/// Any page of anybody may play it, isolated ones too.
const MEDIA: &str = "\
    Access-Control-Allow-Origin: *\r\n\
    Access-Control-Expose-Headers: Content-Length, Content-Range\r\n\
    Cross-Origin-Resource-Policy: cross-origin\r\n";

/// What is sent for one request.
#[derive(Debug)]
pub(super) struct Answer {
    pub head: String,
    pub body: Body,
    /// The bytes of the body that are sent.
    pub range: Range<u64>,
    /// The last on its connection.
    pub closes: bool,
}

impl Answer {
    /// Whether bytes of a file follow.
    pub fn is_of_file(&self) -> bool {
        self.head.starts_with("HTTP/1.1 2") && !self.range.is_empty()
    }

    /// The whole answer to a request. `more` says whether the connection may serve another one.
    pub fn to(request: &Request, site: &dyn Site, more: bool) -> Answer {
        match request {
            Request::Malformed => said("400 Bad Request", "that is no HTTP request", true, true),
            Request::Other => said("405 Method Not Allowed", "this can only be read", true, true),
            Request::Get(get) => {
                let closes = !(more && get.persistent);
                match site.file(&get.path) {
                    Some(File { body: Body::Unreachable, .. }) => {
                        said("503 Service Unavailable", "it can't be read right now", get.body, closes)
                    }
                    Some(file) => of_file(get, file, closes),
                    None => said("404 Not Found", site.directions(), get.body, closes),
                }
            }
        }
    }
}

fn of_file(get: &Get, file: File, closes: bool) -> Answer {
    let length = file.body.length();
    let (status, range, extra) = match get.range.map(|wanted| wanted.of(length)) {
        None => ("200 OK", 0..length, String::new()),
        Some(Some(range)) => {
            let extra = format!("Content-Range: bytes {}-{}/{length}\r\n", range.start, range.end - 1);
            ("206 Partial Content", range, extra)
        }
        Some(None) => ("416 Range Not Satisfiable", 0..0, format!("Content-Range: bytes */{length}\r\n")),
    };
    let head = head(status, &file, range.end - range.start, &extra, closes);
    Answer { head, body: file.body, range: if get.body { range } else { 0..0 }, closes }
}

/// One line for people.
fn said(status: &str, text: &str, body: bool, closes: bool) -> Answer {
    let file = File::page("text/plain; charset=utf-8", Bytes::from(format!("{text}\n")));
    let length = file.body.length();
    let head = head(status, &file, length, "", closes);
    Answer { head, body: file.body, range: if body { 0..length } else { 0..0 }, closes }
}

fn head(status: &str, file: &File, length: u64, extra: &str, closes: bool) -> String {
    let policy = if file.role == Role::Page { PAGE } else { MEDIA };
    // No cache may take an error for the file itself.
    let forever = file.role == Role::Fixed && status.starts_with('2');
    let keep = if forever { "public, max-age=31536000, immutable" } else { "no-cache" };
    let connection = if closes { "close" } else { "keep-alive" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{extra}{policy}\
         X-Content-Type-Options: nosniff\r\nAccept-Ranges: bytes\r\nCache-Control: {keep}\r\n\
         Connection: {connection}\r\n\r\n",
        file.kind
    )
}
