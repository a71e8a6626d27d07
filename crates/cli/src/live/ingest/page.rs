//! The page that watches, and the files of the streams, by HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use real::Clock;
use real::http::{self, Client, File, Limits, Site};
use real::quic::Runtime;
use real::storage::Shelf;
use real::web::Pages;

use super::Args;
use super::audience::Audience;
use super::stream::Desk;
use crate::failure::Failure;
use crate::live::serve::page_folder;
use crate::shipped;

/// What the page is called among those that were built.
const PAGE: &str = "/delays.html";

/// The page at `/`, and at all other paths what is stored.
struct Watching {
    pages: Pages,
    shelf: Shelf,
    audience: Arc<Audience>,
}

impl Site for Watching {
    fn file(&self, path: &str) -> Option<File> {
        match path {
            "/" => self.pages.file(PAGE),
            "/icon.svg" => self.pages.file(path),
            _ if path.starts_with("/assets/") => self.pages.file(path),
            _ => self.shelf.file(path),
        }
    }
    fn directions(&self) -> &'static str {
        "there is no such file; / is a page that watches, /NAME/live.m3u8 a playlist"
    }
    fn fetched(&self, client: &Client<'_>, path: &str) {
        self.audience.fetched(Clock::shared().now(), client, path);
    }
}

/// Serves them from now on, and says where.
pub fn serve(runtime: &Runtime, args: &Args, desk: &Desk) -> Result<SocketAddr, Failure> {
    let pages = match page_folder(args.web.as_deref()) {
        // Players need no page.
        Some(folder) if args.web.is_none() && !folder.join("index.html").is_file() => Pages::default(),
        Some(folder) => Pages::read(&folder).map_err(Failure::input)?,
        None => Pages::of(shipped::PAGE),
    };
    let site = Watching { pages, shelf: Shelf::new(desk.storage()), audience: desk.audience.clone() };
    http::serve_within(runtime, args.http, Arc::new(site), Limits::players()).map_err(Failure::input)
}
