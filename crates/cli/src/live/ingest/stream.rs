//! The streams that are uploaded, each packaged on a thread of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use ingest::{Arrival, Class, Ingest, JOURNAL, Kind, ResumeError, Settings, Shelf, Status};
use real::Clock;
use real::storage::{self, Storage};
use tracing::warn;
use units::{Rate, RemoteTime, Span, Time};

use super::audience::Audience;
use crate::failure::Failure;
use crate::live::serve::date_us;
use crate::operations::Exposition;
use crate::output;

/// Pictures that wait for a stream's thread at most: four seconds of 30 Hz. A machine that is too slow drops
/// more.
const WAITING: usize = 120;
/// Streams that are remembered at most, ended ones with them.
const STREAMS: usize = 1_000;
/// Which streams there are.
const LIST: &str = "streams.json";
/// Streams of an endpoint before this one that are gone on with before their uploaders come: as many as there
/// may be uploads at a time.
const TAKEN_UP: usize = 64;

/// What all streams have in common.
#[derive(Clone, Debug)]
pub struct Terms {
    pub classes: Vec<Class>,
    pub segment: Span,
    pub rate: Option<Rate>,
    pub window: Option<Span>,
    pub memory: usize,
    pub patience: Span,
}

/// Where uploaders come in, and streams are kept.
pub struct Desk {
    terms: Terms,
    storage: Arc<Storage>,
    /// The folder that files go to, if it is one: movies are written there.
    folder: Option<PathBuf>,
    streams: Mutex<BTreeMap<String, Kept>>,
    /// Who watches them.
    pub audience: Arc<Audience>,
    /// SSIMs of frames that never came.
    unrated: AtomicU64,
}

struct Kept {
    stream: Stream,
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

/// How an uploader left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It said that it is done.
    Done,
    /// It may come back.
    CutOff,
}

enum Told {
    Picture(Arrival),
    Filmed(RemoteTime),
    Came,
    Gone(Gone),
    Close,
}

/// A handle to a stream.
#[derive(Clone)]
pub struct Stream {
    name: String,
    done: Arc<AtomicBool>,
    told: SyncSender<Told>,
    status: Arc<Mutex<Status>>,
    crowded: Arc<Mutex<Crowded>>,
}

/// Pictures that packaging was too slow for.
#[derive(Debug, Default)]
struct Crowded {
    dropped: u64,
    /// When it was last said how many.
    said: Option<Time>,
}

/// It is said that often.
const SAY_EVERY: Span = Span::from_secs(10);

impl Crowded {
    /// Another one. How many there were, if that is to be said at `now`.
    fn drop_one(&mut self, now: Time) -> Option<u64> {
        self.dropped += 1;
        let due = self.said.is_none_or(|said| now - said >= SAY_EVERY);
        due.then(|| self.said = Some(now)).map(|()| self.dropped)
    }
}

impl Stream {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A picture has arrived. Without room it is dropped, as if it had been lost.
    pub fn take(&self, arrival: Arrival) {
        let at = arrival.at;
        if let Err(TrySendError::Full(_)) = self.told.try_send(Told::Picture(arrival)) {
            let dropped = self.crowded.lock().expect("nothing panics while it holds this").drop_one(at);
            if let Some(dropped) = dropped {
                warn!(
                    "{}: packaging is too slow: pictures dropped so far: {dropped}; give it fewer uploads or \
                     delays, or smaller pictures",
                    self.name
                );
            }
        }
    }

    /// The camera has ended with the frame captured at this time. It is said again: where there is no room it
    /// can wait.
    pub fn filmed(&self, last: RemoteTime) {
        let _ = self.told.try_send(Told::Filmed(last));
    }

    /// Its uploader has said that it is done.
    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// The uploader has left.
    pub fn gone(&self, how: Gone) {
        self.done.fetch_or(how == Gone::Done, Ordering::Relaxed);
        // A thread that has ended needs no telling.
        let _ = self.told.send(Told::Gone(how));
    }
}

impl Desk {
    /// Files go to `place`.
    pub fn open(place: &str, terms: Terms) -> Result<Desk, Failure> {
        let storage = Storage::open(place, storage::Settings::default()).map_err(Failure::input)?;
        let folder = (!place.contains("://")).then(|| PathBuf::from(place));
        let audience = Arc::new(Audience::new(terms.classes.clone()));
        let (storage, streams, unrated) = (Arc::new(storage), Mutex::default(), AtomicU64::new(0));
        let desk = Desk { terms, storage, folder, streams, audience, unrated };
        desk.take_up();
        Ok(desk)
    }

    /// Where files are.
    pub fn storage(&self) -> Arc<Storage> {
        self.storage.clone()
    }

    /// So many more SSIMs were dropped, for their frames did not come.
    pub fn unrated(&self, count: u64) {
        self.unrated.fetch_add(count, Ordering::Relaxed);
    }

    /// Shows who watches what is uploaded now.
    pub fn show(&self, out: &mut Exposition<'_>) {
        let names = |(name, kept): (&String, &Kept)| (!kept.is_over()).then(|| name.clone());
        let streams: Vec<String> = self.lock().iter().filter_map(names).collect();
        self.audience.show(Clock::shared().now(), &streams, out);
        let help = "SSIMs that uploaders told of frames that never came";
        let unrated = self.unrated.load(Ordering::Relaxed);
        out.counter("framewire_ratings_dropped", help, None, [(vec![], unrated)]);
    }

    /// The stream of this name: one that was cut off, whether that has been noticed yet or not, even of an
    /// endpoint before this one; or a new one, whose name gets a number if there was such a one before.
    ///
    /// # Errors
    /// Words for the uploader, if the name is none, or files can't be looked up.
    pub fn stream(&self, name: &str) -> Result<Stream, String> {
        if !is_name(name) {
            return Err("a stream's name has up to 64 letters, digits and dashes".to_owned());
        }
        let mut streams = self.lock();
        let numbered = |number: usize| if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        for name in (1..STREAMS).map(numbered) {
            if let Some(kept) = streams.get(&name) {
                if kept.is_over() {
                    continue;
                }
                let _ = kept.stream.told.send(Told::Came);
                return Ok(kept.stream.clone());
            }
            if streams.len() >= STREAMS {
                return Err("the endpoint has taken as many streams as it remembers".to_owned());
            }
            let Some(ingest) = self.opened(&name)? else { continue };
            let kept = self.begin(&name, ingest, 1);
            let stream = kept.stream.clone();
            streams.insert(name, kept);
            drop(streams);
            self.list();
            return Ok(stream);
        }
        Err("there are as many streams of that name as are counted".to_owned())
    }

    /// An upload of this name, from its beginning or from where an endpoint before this one was killed.
    /// `None` if there was one that can't be gone on with.
    fn opened(&self, name: &str) -> Result<Option<Ingest<File>>, String> {
        if let Some(ingest) = self.resumed(name)? {
            return Ok(Some(ingest));
        }
        // What can't be looked up may be there.
        let away = |_| "where files go can't be reached at present".to_owned();
        let files = ["index.json", JOURNAL].map(|file| self.storage.get(&format!("{name}/{file}")));
        for file in files {
            if file.map_err(away)?.is_some() {
                return Ok(None);
            }
        }
        let (now, date_ms) = now_and_date();
        let shelf = Box::new(ToStorage(self.storage.clone()));
        Ok(Some(Ingest::new(self.settings(name), shelf, self.movie(name), now, date_ms)))
    }

    /// The upload of this name that an endpoint before this one was killed over, if it can be gone on with.
    fn resumed(&self, name: &str) -> Result<Option<Ingest<File>>, String> {
        let shelf = Box::new(ToStorage(self.storage.clone()));
        match Ingest::resume(self.settings(name), shelf, now_and_date(), self.terms.patience) {
            Ok(Some(mut ingest)) => {
                self.movie(name).into_iter().for_each(|movie| ingest.film_to(movie));
                output::above_status(|| eprintln!("{name}: goes on where the endpoint was killed"));
                Ok(Some(ingest))
            }
            Ok(None) | Err(ResumeError::Ended) => Ok(None),
            Err(ResumeError::Unreachable(why)) => Err(why),
            Err(error) => {
                warn!("{name}: {error}; an upload of this name gets a number");
                Ok(None)
            }
        }
    }

    fn settings(&self, name: &str) -> Settings {
        let Terms { classes, segment, rate, window, memory, .. } = self.terms.clone();
        Settings { name: name.to_owned(), classes, segment, rate, window, memory }
    }

    /// Makes the file of the whole, where files go to a folder.
    fn movie(&self, name: &str) -> Option<File> {
        let folder = self.folder.as_ref()?.join(name);
        let file = std::fs::create_dir_all(&folder).and_then(|()| File::create(folder.join("movie.mp4")));
        file.map_err(|error| warn!("{}: no movie: {error}", folder.display())).ok()
    }

    /// Starts the thread of a stream, which has so many uploaders.
    fn begin(&self, name: &str, ingest: Ingest<File>, uploaders: usize) -> Kept {
        let (told, hears) = sync_channel(WAITING);
        let status = Arc::new(Mutex::new(Status::default()));
        let (patience, shown) = (self.terms.patience, status.clone());
        let thread = std::thread::spawn(move || {
            yield_to_others();
            Packaging::new(ingest, patience, shown, uploaders).run(&hears);
        });
        let stream =
            Stream { name: name.to_owned(), done: Arc::default(), told, status, crowded: Arc::default() };
        Kept { stream, thread: Some(thread), ended: false }
    }

    /// Goes on with the streams that an endpoint before this one was killed over, whether their uploaders
    /// come back or not: then they end.
    fn take_up(&self) {
        // Without a list there is none; who comes by name is looked up by it.
        let Ok(Some(list)) = self.storage.get(LIST) else { return };
        let list: serde_json::Value = serde_json::from_slice(&list).unwrap_or_default();
        let listed = list["streams"].as_array().into_iter().flatten();
        let open =
            listed.filter(|stream| stream["ended"] == false).filter_map(|stream| stream["name"].as_str());
        for name in open.filter(|name| is_name(name)).take(TAKEN_UP) {
            if let Ok(Some(ingest)) = self.resumed(name) {
                let kept = self.begin(name, ingest, 0);
                self.lock().insert(name.to_owned(), kept);
            }
        }
        if !self.lock().is_empty() {
            self.list();
        }
    }

    /// Whether any stream has come to its end, or been told to, for who wants no other `once` that is so.
    pub fn has_ended(&self, once: bool) -> bool {
        once && self.lock().values().any(|kept| kept.is_over() || kept.stream.is_done())
    }

    /// Notes which streams have ended since.
    pub fn tend(&self) {
        let mut changed = false;
        for kept in self.lock().values_mut() {
            changed |= kept.is_over() && !std::mem::replace(&mut kept.ended, true);
        }
        if changed {
            self.list();
        }
    }

    /// Writes which streams there are.
    fn list(&self) {
        let streams = self.lock();
        let of =
            |(name, kept): (&String, &Kept)| serde_json::json!({ "name": name, "ended": kept.is_over() });
        let list = serde_json::json!({ "streams": streams.iter().map(of).collect::<Vec<_>>() });
        // A list is always taken.
        let _ = self.storage.put(LIST, list.to_string().into(), storage::Kind::Playlist);
    }

    /// Ends all streams, waits until their files are stored, and says how they stand.
    pub fn close(&self) -> Vec<(String, Status)> {
        let kept = std::mem::take(&mut *self.lock());
        for kept in kept.values() {
            // A thread that has ended needs no telling.
            let _ = kept.stream.told.send(Told::Close);
        }
        let mut streams = Vec::new();
        for (name, mut kept) in kept {
            // A thread that panicked has said so itself.
            let _ = kept.thread.take().map(JoinHandle::join);
            let status = kept.stream.status.lock().expect("nothing panics while it holds this").clone();
            streams.push((name, status));
        }
        if let Err(error) = self.storage.flush(FLUSH) {
            output::above_status(|| eprintln!("{error}"));
        }
        streams
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.streams.lock().expect("nothing panics while it holds this")
    }
}

/// What becomes a folder and an address.
fn is_name(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(fine)
}

/// The time of the clock that streams go by, and the date in ms.
fn now_and_date() -> (Time, i64) {
    (Clock::shared().now(), (date_us() / 1_000) as i64)
}

/// How long files may take to be stored at the end.
const FLUSH: Duration = Duration::from_secs(30);

impl Kept {
    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Lets whoever receives and decodes go first on cores that are busy: a segment that is late is late once, a
/// frame that is late is missing.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes no memory. It can't fail for a thread that asks for less of itself.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

/// How nice a stream's thread is: an eighth of the weight of others (sched(7)).
#[cfg(target_os = "linux")]
const NICE: libc::c_int = 10;

/// A stream's files on their way into storage.
struct ToStorage(Arc<Storage>);

impl Shelf for ToStorage {
    fn put(&mut self, path: &str, bytes: bytes::Bytes, kind: Kind) -> bool {
        let kind = match kind {
            Kind::Segment => storage::Kind::Segment,
            Kind::Listing => storage::Kind::Playlist,
        };
        self.0.put(path, bytes, kind).is_ok()
    }
    fn get(&self, path: &str) -> Result<Option<bytes::Bytes>, String> {
        self.0.get(path).map_err(|error| error.to_string())
    }
}

/// A stream's thread.
struct Packaging {
    ingest: Ingest<File>,
    clock: Clock,
    patience: Span,
    status: Arc<Mutex<Status>>,
    /// Uploaders at present: one that was cut off may be back before that is noticed.
    uploaders: usize,
    /// Since when there is none.
    away: Option<Time>,
}

impl Packaging {
    fn new(ingest: Ingest<File>, patience: Span, status: Arc<Mutex<Status>>, uploaders: usize) -> Packaging {
        let clock = Clock::shared();
        let away = (uploaders == 0).then(|| clock.now());
        Packaging { ingest, clock, patience, status, uploaders, away }
    }

    /// Packages until the upload has ended.
    fn run(mut self, hears: &Receiver<Told>) {
        let mut next = None;
        while let ControlFlow::Continue(()) = self.hear(hears, next) {
            // All that has come goes before segments are made, however late these are.
            if hears.try_iter().any(|told| self.take(told).is_break()) {
                break;
            }
            next = self.ingest.wake(self.clock.now());
            self.post();
        }
        if let Err(error) = self.ingest.finish() {
            warn!("the movie: {error}");
        }
        self.post();
    }

    /// Waits until something is told, a segment is due at `next`, or the uploader has been away for too long.
    fn hear(&mut self, hears: &Receiver<Told>, next: Option<Time>) -> ControlFlow<()> {
        let until = self.away.map(|away| away + self.patience);
        if until.is_some_and(|until| self.clock.now() >= until) {
            return ControlFlow::Break(());
        }
        let wait = next.into_iter().chain(until).min().map_or(LONGEST_WAIT, |at| at - self.clock.now());
        let wait = Duration::from_nanos(wait.clamp(Span::ZERO, LONGEST_WAIT).as_nanos().unsigned_abs());
        match hears.recv_timeout(wait) {
            Ok(told) => self.take(told),
            Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(()),
            Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
        }
    }

    fn take(&mut self, told: Told) -> ControlFlow<()> {
        match told {
            Told::Picture(arrival) => drop(self.ingest.take(&arrival)),
            Told::Filmed(last) => self.ingest.filmed(last),
            Told::Close => return ControlFlow::Break(()),
            Told::Came => {
                self.uploaders += 1;
                self.away = None;
            }
            Told::Gone(how) => {
                self.uploaders = self.uploaders.saturating_sub(1);
                match (self.uploaders, how) {
                    (0, Gone::Done) => return ControlFlow::Break(()),
                    (0, Gone::CutOff) => self.away = Some(self.clock.now()),
                    _ => {}
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post(&self) {
        *self.status.lock().expect("nothing panics while it holds this") = self.ingest.status();
    }
}

/// The stream's thread looks up that often at least.
const LONGEST_WAIT: Span = Span::from_millis(500);
