//! Where live streams are kept: segments and playlists in a folder or an object store.
//!
//! [`Storage::put`] queues a file and returns; a thread of its own stores what is queued. Of one stream (the
//! first part of a path) files are stored one after the other in the order they were put, so that a playlist
//! is stored when all that it lists is: whoever reads the place, at whatever instant, also after a crash,
//! finds every listed segment, and finds it whole. Streams do not wait for each other.
//!
//! ```text
//!  put --> queue of a stream: segment, segment, playlist --> folder or bucket
//!     \--> recent files in memory --> get, Shelf             again for ever, 100 ms to 5 s apart
//! ```
//!
//! A store that fails is asked again until it works; a failure is told once, and once that it is over. What
//! waits is bounded: beyond that, [`put`](Storage::put) refuses segments, which are then not to be listed.
//! Playlists are small and always taken; of several versions that wait, those between the first and the last
//! are not stored at all.
//!
//! A folder's files are written under another name (`live.m3u8#1`), synchronised, and renamed: a disk without
//! space holds no torn file. A crash may leave files of such names, which nothing reads.

mod client;
mod error;
mod name;
mod place;
mod queue;
mod shelf;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};

pub use error::StorageError;
pub use name::Kind;
pub use shelf::Shelf;

use name::{checked, stream_of};
use place::Place;
use queue::Item;
use worker::{Found, Worker};

/// The longest file that [`Storage::get`] reads, bytes.
const MOST: u64 = 64 << 20;

/// Bounds and times of a [`Storage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that may wait to be stored; playlists may exceed that.
    pub waiting: u64,
    /// Bytes of files put last that are kept in memory for readers.
    pub recent: u64,
    /// How long after a failure the store is asked again; twice as long after each further one.
    pub first_retry: Duration,
    /// The longest time between two attempts.
    pub longest_retry: Duration,
}

impl Default for Settings {
    /// 256 MB may wait, 64 MB are kept in memory, attempts are 100 ms to 5 s apart.
    fn default() -> Settings {
        Settings {
            waiting: 256 << 20,
            recent: 64 << 20,
            first_retry: Duration::from_millis(100),
            longest_retry: Duration::from_secs(5),
        }
    }
}

/// What has happened so far, and what waits now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Files stored, each version of a playlist counted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Segments that were refused because too much waited.
    pub refused: u64,
    /// Files that wait.
    pub waiting_files: u64,
    /// Bytes that wait, with 256 more for each file.
    pub waiting_bytes: u64,
    /// How long the file has waited that has longest; zero if none waits.
    pub oldest_wait: Duration,
}

/// A place for files, and what is on its way there.
///
/// Dropped, it forgets what waits: [`flush`](Storage::flush) first.
///
/// ```
/// use framewire_real::storage::{Kind, Settings, Storage};
/// use std::time::Duration;
///
/// let folder = std::env::temp_dir().join(format!("framewire-storage-{}", std::process::id()));
/// let storage = Storage::open(folder.to_str().unwrap(), Settings::default())?;
/// storage.put("game/s/000000-1.m4s", vec![0; 1000].into(), Kind::Segment)?;
/// storage.put("game/live.m3u8", "#EXTM3U\n#EXTINF:2,\ns/000000-1.m4s\n".into(), Kind::Playlist)?;
/// storage.flush(Duration::from_secs(5))?;
/// assert_eq!(std::fs::read(folder.join("game/s/000000-1.m4s")).unwrap().len(), 1000);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), framewire_real::storage::StorageError>(())
/// ```
#[derive(Debug)]
pub struct Storage {
    worker: Arc<Worker>,
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
}

impl Storage {
    /// Opens a place: a folder's path or `file:///FOLDER`, which is made if it is missing, or
    /// `s3://BUCKET/PREFIX`. Region, credentials and endpoint of the latter are those of the variables
    /// `AWS_*`, such as `AWS_ENDPOINT` and `AWS_ACCESS_KEY_ID`, and an endpoint at http:// takes
    /// `AWS_ALLOW_HTTP=true`. Whether the bucket is there shows at the first file.
    ///
    /// # Errors
    /// [`StorageError::Place`] and [`StorageError::Folder`].
    pub fn open(place: &str, settings: Settings) -> Result<Storage, StorageError> {
        Storage::start(place::open(place)?, place, settings)
    }

    /// Keeps files in any store.
    ///
    /// # Errors
    /// [`StorageError::Folder`] where the system has no threads to give.
    pub fn over(store: Arc<dyn ObjectStore>, settings: Settings) -> Result<Storage, StorageError> {
        let place = Place { store, prefix: object_store::path::Path::default(), attributes: false };
        let name = place.store.to_string();
        Storage::start(place, &name, settings)
    }

    fn start(place: Place, name: &str, settings: Settings) -> Result<Storage, StorageError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("storage")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| StorageError::Folder { place: name.to_owned(), source })?;
        let worker = Worker::new(place, name, settings, runtime.handle().clone());
        Ok(Storage { worker: Arc::new(worker), runtime: Some(runtime) })
    }

    /// Takes a file, to be stored after all of its stream that was put before it. Returns at once.
    ///
    /// `path` is `STREAM/.../FILE`, of letters, digits, `-`, `_` and `.`; its extension is m3u8, mpd, mp4,
    /// m4s or json. From now on [`get`](Storage::get) and [`Shelf`] have the file.
    ///
    /// # Errors
    /// [`StorageError::Name`] for other paths. [`StorageError::Full`] for a segment when too much waits: it
    /// is not taken, and must not be listed.
    pub fn put(&self, path: &str, bytes: Bytes, what: Kind) -> Result<(), StorageError> {
        let path = checked(path)?;
        let stream = stream_of(path);
        let item = Item { path: path.to_owned(), bytes, kind: what, since: Instant::now() };
        if self.worker.take(stream, item)? {
            self.worker.begin(stream);
        }
        Ok(())
    }

    /// The file at a path: as it was put last, stored or not yet, else as it is stored. Blocks, at most 20 s,
    /// for a file that is not in memory.
    ///
    /// # Errors
    /// [`StorageError::Name`]; [`StorageError::Unreachable`] if the store fails; [`StorageError::Long`]
    /// beyond 64 MB.
    pub fn get(&self, path: &str) -> Result<Option<Bytes>, StorageError> {
        let path = checked(path)?;
        match self.worker.find(path)? {
            None => Ok(None),
            Some(Found::Whole(bytes)) => Ok(Some(bytes)),
            Some(Found::Long(long)) if long.length > MOST => {
                Err(StorageError::Long { path: path.to_owned(), length: long.length, limit: MOST })
            }
            Some(Found::Long(long)) => self.worker.read(&long, 0..long.length).map(Some),
        }
    }

    /// Waits until all that was put is stored.
    ///
    /// # Errors
    /// [`StorageError::Unstored`] if it is not within `patience`; what waits goes on waiting.
    pub fn flush(&self, patience: Duration) -> Result<(), StorageError> {
        self.worker.flush(patience)
    }

    /// What has happened so far, and what waits now.
    pub fn counters(&self) -> Counters {
        self.worker.counters()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // Whoever drops it may be a task of another runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
