//! Stored files over HTTP.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::name::{checked, media_type, role};
use super::worker::{Found, Long, Worker};
use super::{Storage, StorageError};
use crate::http::{Body, File, Site, Source};

/// The files of a [`Storage`] as a [`Site`]: `/STREAM/live.m3u8` is the file `STREAM/live.m3u8`.
///
/// A file that was just put is served from memory, before it is stored. A store that does not answer is told
/// from a file that is not there: players ask again for the former.
#[derive(Clone, Debug)]
pub struct Shelf(Arc<Storage>);

impl Shelf {
    /// Serves what `storage` holds.
    pub fn new(storage: Arc<Storage>) -> Shelf {
        Shelf(storage)
    }
}

impl Site for Shelf {
    fn file(&self, path: &str) -> Option<File> {
        let name = checked(path.strip_prefix('/')?).ok()?;
        let body = match self.0.worker.find(name) {
            Ok(None) => return None,
            Ok(Some(Found::Whole(bytes))) => Body::Whole(bytes),
            Ok(Some(Found::Long(long))) => {
                Body::Long(Arc::new(Stored { long, worker: self.0.worker.clone() }))
            }
            Err(error) => {
                tracing::debug!("{error}");
                Body::Unreachable
            }
        };
        Some(File { kind: media_type(name)?, role: role(name), body })
    }

    fn directions(&self) -> &'static str {
        "there is no such file; playlists are at /STREAM/live.m3u8"
    }
}

/// A file that is read as it is sent.
#[derive(Debug)]
struct Stored {
    long: Long,
    worker: Arc<Worker>,
}

impl Source for Stored {
    fn length(&self) -> u64 {
        self.long.length
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.worker.read(&self.long, range).map_err(|error: StorageError| io::Error::other(error))
    }
}
