//! What stores the files: one task a stream, each with one file at a time.

use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{Attribute, Attributes, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutOptions};
use tokio::runtime::Handle;

use super::error::{one_line, seconds};
use super::name::{media_type, role, stream_of};
use super::place::Place;
use super::queue::{Item, Queue, Recent};
use super::{Counters, Kind, Settings, StorageError};
use crate::http::Role;

/// Bytes read at once; shorter files are read as one.
pub(super) const PART: u64 = 1 << 20;
/// How long somebody waits for a file to be read.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file that is there.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Bytes),
    /// More than is read at once.
    Long(Long),
}

/// A stored file, and which version of it.
#[derive(Clone, Debug)]
pub(super) struct Long {
    pub path: String,
    pub length: u64,
    version: Option<String>,
}

#[derive(Debug)]
pub(super) struct Worker {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    attributes: bool,
    /// What the place is called in the log.
    name: String,
    settings: Settings,
    handle: Handle,
    state: Mutex<State>,
    /// Whenever a file is stored.
    stored: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    recent: Recent,
    counters: Counters,
    failing: Option<Failing>,
    /// Whether it was told that segments are refused.
    full: bool,
}

/// Files can't be stored, or could not a moment ago.
#[derive(Debug)]
struct Failing {
    since: Instant,
    last: Instant,
    failures: u64,
    why: String,
}

impl Worker {
    pub fn new(place: Place, name: &str, settings: Settings, handle: Handle) -> Worker {
        let state = State {
            queue: Queue::default(),
            recent: Recent::new(settings.recent),
            counters: Counters::default(),
            failing: None,
            full: false,
        };
        let Place { store, prefix, attributes } = place;
        let name = name.to_owned();
        Worker {
            store,
            prefix,
            attributes,
            name,
            settings,
            handle,
            state: Mutex::new(state),
            stored: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }

    /// Queues a file, and says whether its stream needs a task.
    pub fn take(&self, stream: &str, item: Item) -> Result<bool, StorageError> {
        let mut state = self.state();
        let (waiting, limit) = (state.queue.weight(), self.settings.waiting);
        if item.kind == Kind::Segment {
            let full = state.queue.weight_with(&item.bytes) > limit;
            self.tell_full(&mut state, full);
            if full {
                state.counters.refused += 1;
                return Err(StorageError::Full { path: item.path, waiting, limit });
            }
        }
        state.recent.put(&item.path, &item.bytes);
        Ok(state.queue.push(stream, item))
    }

    /// Told once, and once that it is over: when half of what may wait does.
    fn tell_full(&self, state: &mut State, full: bool) {
        let (waiting, limit) = (state.queue.weight(), self.settings.waiting);
        if full && !state.full {
            tracing::warn!(
                "{}: {waiting} bytes wait to be stored, of at most {limit}: segments are refused until fewer do",
                self.name
            );
            state.full = true;
        } else if state.full && waiting <= limit / 2 {
            tracing::info!("{}: segments are taken again, {waiting} bytes wait", self.name);
            state.full = false;
        }
    }

    /// Starts the task of a stream, which ends when nothing of the stream waits.
    pub fn begin(self: &Arc<Self>, stream: &str) {
        let (worker, stream) = (self.clone(), stream.to_owned());
        self.handle.spawn(async move {
            while let Some(item) = worker.next(&stream) {
                worker.store_until_it_is(&item).await;
                worker.state().queue.pop(&stream);
                worker.stored.notify_all();
            }
        });
    }

    fn next(&self, stream: &str) -> Option<Item> {
        self.state().queue.front(stream)
    }

    async fn store_until_it_is(&self, item: &Item) {
        let mut pause = self.settings.first_retry;
        while let Err(error) = self.store(item).await {
            self.failed(item, &error);
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(self.settings.longest_retry);
        }
        self.succeeded(item);
    }

    async fn store(&self, item: &Item) -> object_store::Result<()> {
        let mut options = PutOptions::default();
        if self.attributes {
            options.attributes = attributes_of(&item.path);
        }
        self.store.put_opts(&self.at(&item.path), item.bytes.clone().into(), options).await.map(drop)
    }

    fn at(&self, path: &str) -> Path {
        self.prefix.parts().chain(Path::from(path).parts()).collect()
    }

    fn failed(&self, item: &Item, error: &object_store::Error) {
        let (now, why) = (Instant::now(), one_line(error));
        let mut state = self.state();
        state.counters.failures += 1;
        if let Some(failing) = &mut state.failing {
            *failing = Failing { last: now, failures: failing.failures + 1, why, ..*failing };
        } else {
            tracing::warn!("{}: {} can't be stored, tried again until it can: {why}", self.name, item.path);
            state.failing = Some(Failing { since: now, last: now, failures: 1, why });
        }
    }

    /// A store that fails half of the time does not work again in between: that takes a while without any
    /// failure.
    fn succeeded(&self, item: &Item) {
        let mut state = self.state();
        state.counters.files += 1;
        state.counters.bytes += item.bytes.len() as u64;
        let calm = |failing: &mut Failing| failing.last.elapsed() >= 2 * self.settings.longest_retry;
        if let Some(failing) = state.failing.take_if(calm) {
            let lasted = seconds(&(failing.last - failing.since));
            tracing::info!("{}: works again after {} failures in {lasted}", self.name, failing.failures);
        }
    }

    /// The file as it was put last, else as it is stored.
    pub fn find(&self, path: &str) -> Result<Option<Found>, StorageError> {
        if let Some(bytes) = self.in_memory(path) {
            return Ok(Some(Found::Whole(bytes)));
        }
        let (store, at) = (self.store.clone(), self.at(path));
        let first = async move {
            let range = Some(GetRange::Bounded(0..PART));
            match store.get_opts(&at, GetOptions { range, ..GetOptions::default() }).await {
                Ok(got) => {
                    let meta = got.meta.clone();
                    Ok(Some((meta, got.bytes().await?)))
                }
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                // A store may say of an empty file that it has no such range.
                Err(error) => match store.head(&at).await {
                    Ok(meta) if meta.size == 0 => Ok(Some((meta, Bytes::new()))),
                    _ => Err(error),
                },
            }
        };
        let found = self.wait(path, first)?;
        Ok(found.map(|(meta, bytes)| match meta.size == bytes.len() as u64 {
            true => Found::Whole(bytes),
            false => Found::Long(Long { path: path.to_owned(), length: meta.size, version: meta.e_tag }),
        }))
    }

    /// What was put last is on its way there, or there, or both.
    fn in_memory(&self, path: &str) -> Option<Bytes> {
        let state = self.state();
        state.recent.get(path).or_else(|| state.queue.newest(stream_of(path), path))
    }

    /// A range of a stored file, of the version that was found.
    pub fn read(&self, long: &Long, range: Range<u64>) -> Result<Bytes, StorageError> {
        let (store, at, version) = (self.store.clone(), self.at(&long.path), long.version.clone());
        let all = async move {
            let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
            for from in range.clone().step_by(PART as usize) {
                let part = Some(GetRange::Bounded(from..range.end.min(from + PART)));
                let options = GetOptions { range: part, if_match: version.clone(), ..GetOptions::default() };
                bytes.extend_from_slice(&store.get_opts(&at, options).await?.bytes().await?);
            }
            Ok(bytes.freeze())
        };
        self.wait(&long.path, all)
    }

    /// Waits for what the store answers.
    fn wait<R: Send + 'static>(
        &self,
        path: &str,
        answer: impl Future<Output = object_store::Result<R>> + Send + 'static,
    ) -> Result<R, StorageError> {
        let wrong = |why: String| StorageError::Unreachable { path: path.to_owned(), why };
        let (done, outcome) = sync_channel(1);
        let task = self.handle.spawn(async move {
            // Nobody may be waiting any more.
            let _ = done.send(answer.await);
        });
        let outcome = outcome.recv_timeout(PATIENCE).map_err(|_| {
            task.abort();
            wrong(format!("{} did not answer within {}", self.name, seconds(&PATIENCE)))
        })?;
        outcome.map_err(|error| wrong(one_line(&error)))
    }

    pub fn flush(&self, patience: Duration) -> Result<(), StorageError> {
        let waits = |state: &mut State| state.queue.files() > 0;
        let outcome = self.stored.wait_timeout_while(self.state(), patience, waits);
        let (state, _) = outcome.expect("nothing panics while it holds this");
        let Some(first) = state.queue.oldest() else { return Ok(()) };
        Err(StorageError::Unstored {
            files: state.queue.files(),
            bytes: state.queue.weight(),
            first: first.path.clone(),
            patience,
            why: state.failing.as_ref().map(|failing| failing.why.clone()),
        })
    }

    pub fn counters(&self) -> Counters {
        let state = self.state();
        Counters {
            waiting_files: state.queue.files(),
            waiting_bytes: state.queue.weight(),
            oldest_wait: state.queue.oldest_wait(),
            ..state.counters
        }
    }
}

/// For players that read the bucket itself.
fn attributes_of(path: &str) -> Attributes {
    let keep = match role(path) {
        Role::Fixed => "public, max-age=31536000, immutable",
        Role::Changing | Role::Page => "no-cache",
    };
    let kind = media_type(path).map(|kind| (Attribute::ContentType, kind));
    kind.into_iter().chain([(Attribute::CacheControl, keep)]).collect()
}
