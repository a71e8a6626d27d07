//! Stores that fail, and what is never to be seen in them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use proptest::prelude::*;

use super::*;
use crate::http::{Body, Role, Site};

const LONG: Duration = Duration::from_secs(20);

/// A store in memory that fails as its numbers have it: before it has stored a file, or after.
#[derive(Debug)]
struct Flaky {
    inner: InMemory,
    numbers: Mutex<u64>,
    down: AtomicBool,
    /// What is stored, in the order of stores.
    log: Mutex<Vec<(String, Bytes)>>,
    /// Segments that a playlist listed when they were not stored.
    lost: Mutex<Vec<String>>,
}

impl Flaky {
    fn new(seed: u64) -> Arc<Flaky> {
        let (numbers, down) = (Mutex::new(seed), AtomicBool::new(false));
        let (log, lost) = (Mutex::default(), Mutex::default());
        Arc::new(Flaky { inner: InMemory::new(), numbers, down, log, lost })
    }

    /// One of four, by a linear congruential generator (Knuth, TAOCP volume 2, section 3.3.4).
    fn draw(&self) -> u64 {
        let mut number = self.numbers.lock().unwrap();
        *number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *number >> 62
    }

    fn outage(&self, path: &Path) -> Error {
        let source = format!("<Error>\n  <Code>SlowDown</Code> {path}\n</Error>").into();
        Error::Generic { store: "Flaky", source }
    }

    async fn check(&self, text: &str) {
        for name in text.lines() {
            if self.inner.head(&Path::from(name)).await.is_err() {
                self.lost.lock().unwrap().push(name.to_owned());
            }
        }
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky")
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        // Whoever writes two files of a stream at once is found out.
        tokio::task::yield_now().await;
        let fate = self.draw();
        if self.down.load(Ordering::SeqCst) || fate == 0 {
            return Err(self.outage(at));
        }
        let bytes: Bytes = payload.iter().flat_map(|part| part.iter().copied()).collect();
        if at.as_ref().ends_with("m3u8") {
            self.check(std::str::from_utf8(&bytes).unwrap()).await;
        }
        let stored = self.inner.put_opts(at, payload, options).await?;
        self.log.lock().unwrap().push((at.to_string(), bytes));
        if fate == 1 { Err(self.outage(at)) } else { Ok(stored) }
    }
    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        if self.down.load(Ordering::SeqCst) {
            return Err(self.outage(at));
        }
        self.inner.get_opts(at, options).await
    }
    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }
    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn quick() -> Settings {
    let (first_retry, longest_retry) = (Duration::from_micros(100), Duration::from_millis(2));
    Settings { first_retry, longest_retry, ..Settings::default() }
}

/// What callers do: a segment that is taken is listed, one that is not is left out.
#[derive(Default)]
struct Caller {
    taken: BTreeMap<String, Bytes>,
    lists: BTreeMap<String, String>,
    count: usize,
}

impl Caller {
    fn segment(&mut self, storage: &Storage, stream: usize, bytes: usize) -> bool {
        let path = format!("{stream}/s/{:06}-1.m4s", self.count);
        let content = Bytes::from(vec![self.count as u8; bytes]);
        self.count += 1;
        let taken = storage.put(&path, content.clone(), Kind::Segment).is_ok();
        if taken {
            self.lists.entry(format!("{stream}/live.m3u8")).or_default().push_str(&format!("{path}\n"));
            self.taken.insert(path, content);
        }
        taken
    }

    fn list(&self, storage: &Storage, stream: usize) {
        let path = format!("{stream}/live.m3u8");
        if let Some(list) = self.lists.get(&path) {
            storage.put(&path, Bytes::from(list.clone()), Kind::Playlist).unwrap();
        }
    }
}

/// The paths of a stream in the order of their first stores, playlists left out.
fn order_of(log: &[(String, Bytes)], stream: &str) -> Vec<String> {
    let mut order = Vec::new();
    for (path, _) in log {
        if path.starts_with(stream) && path.ends_with("m4s") && !order.contains(path) {
            order.push(path.clone());
        }
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_listed_is_ever_lost(
        seed in any::<u64>(),
        puts in prop::collection::vec((0..3usize, 0..3000usize, any::<bool>()), 1..60),
        waiting in 4_000..100_000u64,
        down in any::<prop::sample::Index>(),
    ) {
        let store = Flaky::new(seed);
        let storage = Storage::over(store.clone(), Settings { waiting, recent: 0, ..quick() }).unwrap();
        let mut caller = Caller::default();
        let down = down.index(puts.len());
        for (at, &(stream, bytes, list)) in puts.iter().enumerate() {
            // From here on nothing works until all has been put.
            store.down.store(at >= down, Ordering::SeqCst);
            caller.segment(&storage, stream, bytes);
            if list {
                caller.list(&storage, stream);
            }
            // Whatever waits or is stored can be had.
            let last = caller.taken.iter().next_back().filter(|_| !store.down.load(Ordering::SeqCst));
            if let Some((path, content)) = last {
                prop_assert_eq!(storage.get(path).unwrap(), Some(content.clone()));
            }
        }
        (0..3).for_each(|stream| caller.list(&storage, stream));
        store.down.store(false, Ordering::SeqCst);
        storage.flush(LONG).unwrap();
        prop_assert!(store.lost.lock().unwrap().is_empty(), "{:?}", store.lost);
        let wanted = caller.taken.iter().map(|(path, bytes)| (path.clone(), bytes.clone()));
        let lists = caller.lists.iter().map(|(path, list)| (path.clone(), Bytes::from(list.clone())));
        for (path, bytes) in wanted.chain(lists) {
            prop_assert_eq!(storage.get(&path).unwrap(), Some(bytes), "{}", path);
        }
        let log = store.log.lock().unwrap();
        for stream in ["0/", "1/", "2/"] {
            let put: Vec<_> = caller.taken.keys().filter(|path| path.starts_with(stream)).cloned().collect();
            prop_assert_eq!(order_of(&log, stream), put, "in the order they were put");
        }
        let counters = storage.counters();
        prop_assert_eq!((counters.waiting_files, counters.waiting_bytes), (0, 0));
        prop_assert_eq!(counters.files as usize + counters.failures as usize >= log.len(), true);
    }
}

#[test]
fn an_outage_bounds_what_waits_and_says_so() {
    let store = Flaky::new(1);
    store.down.store(true, Ordering::SeqCst);
    let limit = 10_000;
    let storage = Storage::over(store.clone(), Settings { waiting: limit, ..quick() }).unwrap();
    let mut caller = Caller::default();
    while caller.segment(&storage, 0, 1000) {
        caller.list(&storage, 0);
    }
    let error = storage.put("0/s/x.m4s", Bytes::from(vec![0; 1000]), Kind::Segment).unwrap_err().to_string();
    assert!(error.contains("0/s/x.m4s is not stored") && error.ends_with("of at most 10000"), "{error}");
    (0..1000).for_each(|_| caller.list(&storage, 0));
    let counters = storage.counters();
    assert!(counters.waiting_bytes < limit + 2000 && counters.refused == 2, "{counters:?}");
    let error = storage.flush(Duration::from_millis(20)).unwrap_err().to_string();
    assert!(error.contains("the first is 0/s/000000-1.m4s: ") && error.contains("SlowDown"), "{error}");
    assert!(!error.contains('\n') && storage.counters().oldest_wait > Duration::from_millis(10));
    store.down.store(false, Ordering::SeqCst);
    storage.flush(LONG).unwrap();
    assert!(storage.counters().failures > 0 && caller.segment(&storage, 0, 1000), "taken again");
}

#[test]
fn streams_do_not_wait_for_each_other_and_a_playlist_is_stored_once_for_many() {
    let store = Flaky::new(7);
    store.down.store(true, Ordering::SeqCst);
    let storage = Storage::over(store.clone(), quick()).unwrap();
    let mut caller = Caller::default();
    for _ in 0..100 {
        caller.segment(&storage, 0, 10);
        caller.list(&storage, 0);
    }
    store.down.store(false, Ordering::SeqCst);
    storage.flush(LONG).unwrap();
    assert_eq!(storage.counters().files, 102, "100 segments, the first playlist and the last");
}

#[test]
fn a_shelf_serves_what_is_stored_and_what_waits_and_nothing_else() {
    let store = Flaky::new(3);
    let storage = Arc::new(Storage::over(store.clone(), Settings { recent: 0, ..quick() }).unwrap());
    let long: Bytes = (0..3_000_000u32).map(|at| (at % 241) as u8).collect();
    storage.put("game/s/1-1.m4s", Bytes::from_static(b"segment"), Kind::Segment).unwrap();
    storage.put("game/all.mp4", long.clone(), Kind::Segment).unwrap();
    storage.put("game/empty.json", Bytes::new(), Kind::Playlist).unwrap();
    storage.flush(LONG).unwrap();
    assert_eq!(storage.get("game/all.mp4").unwrap().unwrap(), long);
    let shelf = Shelf::new(storage.clone());
    let segment = shelf.file("/game/s/1-1.m4s").unwrap();
    assert_eq!((segment.kind, segment.role, segment.body.length()), ("video/mp4", Role::Fixed, 7));
    let all = shelf.file("/game/all.mp4").unwrap();
    let Body::Long(source) = &all.body else { panic!("{all:?}") };
    assert_eq!(source.read(1_500_000..2_900_000).unwrap(), long.slice(1_500_000..2_900_000));
    assert_eq!(shelf.file("/game/empty.json").unwrap().body.length(), 0);
    for path in
        ["game/s/1-1.m4s", "//game/s/1-1.m4s", "/game/../game/all.mp4", "/game/none.m4s", "/", "/game"]
    {
        assert!(shelf.file(path).is_none(), "{path}");
    }
    // Another file of that name by now: never half of either.
    let other = Bytes::from(vec![9; 3_000_000]);
    storage.put("game/all.mp4", other, Kind::Segment).unwrap();
    storage.flush(LONG).unwrap();
    assert!(source.read(0..10).is_err());
    store.down.store(true, Ordering::SeqCst);
    assert!(matches!(shelf.file("/game/all.mp4").unwrap().body, Body::Unreachable));
    storage.put("game/live.m3u8", Bytes::from_static(b"#EXTM3U"), Kind::Playlist).unwrap();
    let list = shelf.file("/game/live.m3u8").unwrap();
    assert_eq!((list.kind, list.role), ("application/vnd.apple.mpegurl", Role::Changing));
}

#[test]
fn a_folder_is_read_back_by_the_next_process() {
    let folder = std::env::temp_dir().join(format!("framewire-storage-again-{}", std::process::id()));
    let place = format!("file://{}", folder.display());
    let storage = Storage::open(&place, Settings::default()).unwrap();
    storage.put("a/live.m3u8", Bytes::from_static(b"1"), Kind::Playlist).unwrap();
    storage.put("a/live.m3u8", Bytes::from_static(b"22"), Kind::Playlist).unwrap();
    storage.flush(LONG).unwrap();
    drop(storage);
    let storage = Storage::open(folder.to_str().unwrap(), Settings::default()).unwrap();
    assert_eq!(storage.get("a/live.m3u8").unwrap().unwrap(), "22");
    assert_eq!(storage.get("b/live.m3u8").unwrap(), None);
    let names: Vec<_> =
        std::fs::read_dir(folder.join("a")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["live.m3u8"], "nothing is left of how it was written");
    std::fs::remove_dir_all(&folder).unwrap();
}
