//! The endpoint of an upload: the best version of every frame, as segments that any player plays.
//!
//! ```text
//!   decoded frames -> Store: the best version of each -> at capture + d, for each delay class d:
//!                                                         Encoding -> mp4::segment -> Shelf, Playlist
//!                                                         the last class also -> mp4::Movie
//! ```
//!
//! A *delay class* is a playlist of its own. A segment enters it at the capture of its end plus the class's
//! delay, in the best version there is then, so that nothing listed ever changes (RFC 8216 section 6.2.1) and
//! any player and any cache will do. A segment that has not become better since a class before is the same
//! file. [`Ingest`] has no clock and no socket: it is told the time, and puts its files on a [`Shelf`].
//!
//! Before each playlist a small [journal](JOURNAL) is put, by which an endpoint that was killed goes on with
//! the stream ([`Ingest::resume`]): the same playlists, from the next segment of each on.

mod class;
mod encoding;
mod gaps;
mod ingest;
mod journal;
pub mod mp4;
pub mod playlist;
mod ratings;
mod store;

pub use class::{Class, ClassError};
pub use ingest::{ClassStatus, Ingest, Settings, Status};
pub use journal::{JOURNAL, ResumeError};
pub use ratings::{Number, Rating, Ratings};
pub use store::{Arrival, Note};

/// How a file is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It never changes.
    Segment,
    /// It is written again and again; only the newest matters, and only after all that was put before it.
    Listing,
}

/// Where an endpoint's files go.
pub trait Shelf: Send {
    /// Puts a file. False if there is no room for it at present: it is then not listed either, and is put
    /// again later.
    fn put(&mut self, path: &str, bytes: bytes::Bytes, kind: Kind) -> bool;
    /// The file at a path, as it was put last; `None` if there is none.
    ///
    /// # Errors
    /// In words, if it can't be looked up at present.
    fn get(&self, path: &str) -> Result<Option<bytes::Bytes>, String>;
}
