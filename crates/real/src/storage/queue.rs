//! What waits to be stored, in the order of each stream, and what was put last.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Kind;

/// What it takes to remember a file, beside its bytes. Counted, so that empty files are no way around a
/// limit.
const EACH: u64 = 256;

/// A file that waits.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub path: String,
    pub bytes: Bytes,
    pub kind: Kind,
    pub since: Instant,
}

impl Item {
    fn weight(&self) -> u64 {
        self.bytes.len() as u64 + EACH
    }
}

/// The files of every stream that wait. The first of each is being written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    streams: BTreeMap<String, VecDeque<Item>>,
    weight: u64,
    files: u64,
}

impl Queue {
    /// Bytes that wait.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Files that wait.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// The weight if `bytes` more were taken.
    pub fn weight_with(&self, bytes: &Bytes) -> u64 {
        self.weight + bytes.len() as u64 + EACH
    }

    /// Adds a file to its stream, and says whether the stream had none. Of a playlist at most two versions
    /// wait: the elder stays in its place, so that a store that is always behind still gets one, and the
    /// younger gives way to the newest.
    pub fn push(&mut self, stream: &str, item: Item) -> bool {
        let begins = !self.streams.contains_key(stream);
        let queue = self.streams.entry(stream.to_owned()).or_default();
        if item.kind == Kind::Playlist {
            let versions = (0..queue.len()).filter(|&at| queue[at].path == item.path);
            if let Some(old) = versions.skip(1).last().and_then(|at| queue.remove(at)) {
                self.weight -= old.weight();
                self.files -= 1;
            }
        }
        self.weight += item.weight();
        self.files += 1;
        queue.push_back(item);
        begins
    }

    /// The file to write next; a stream without any is forgotten.
    pub fn front(&mut self, stream: &str) -> Option<Item> {
        let front = self.streams.get(stream).and_then(|queue| queue.front().cloned());
        if front.is_none() {
            self.streams.remove(stream);
        }
        front
    }

    /// The first file of a stream is stored.
    pub fn pop(&mut self, stream: &str) {
        if let Some(item) = self.streams.get_mut(stream).and_then(VecDeque::pop_front) {
            self.weight -= item.weight();
            self.files -= 1;
        }
    }

    /// The newest version of a file that waits.
    pub fn newest(&self, stream: &str, path: &str) -> Option<Bytes> {
        let queue = self.streams.get(stream)?;
        queue.iter().rev().find(|item| item.path == path).map(|item| item.bytes.clone())
    }

    /// The file that has waited longest.
    pub fn oldest(&self) -> Option<&Item> {
        self.streams.values().filter_map(VecDeque::front).min_by_key(|item| item.since)
    }

    /// How long it has.
    pub fn oldest_wait(&self) -> Duration {
        self.oldest().map_or(Duration::ZERO, |item| item.since.elapsed())
    }
}

/// The files that were put last, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Recent {
    files: BTreeMap<String, (u64, Bytes)>,
    order: BTreeMap<u64, String>,
    next: u64,
    weight: u64,
    limit: u64,
}

impl Recent {
    pub fn new(limit: u64) -> Recent {
        Recent { files: BTreeMap::new(), order: BTreeMap::new(), next: 0, weight: 0, limit }
    }

    pub fn put(&mut self, path: &str, bytes: &Bytes) {
        self.forget(path);
        self.weight += bytes.len() as u64 + EACH;
        self.files.insert(path.to_owned(), (self.next, bytes.clone()));
        self.order.insert(self.next, path.to_owned());
        self.next += 1;
        while self.weight > self.limit {
            let Some(eldest) = self.order.values().next().cloned() else { return };
            self.forget(&eldest);
        }
    }

    pub fn get(&self, path: &str) -> Option<Bytes> {
        self.files.get(path).map(|(_, bytes)| bytes.clone())
    }

    fn forget(&mut self, path: &str) {
        if let Some((at, bytes)) = self.files.remove(path) {
            self.order.remove(&at);
            self.weight -= bytes.len() as u64 + EACH;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str, kind: Kind, text: &'static str) -> Item {
        Item {
            path: path.to_owned(),
            bytes: Bytes::from_static(text.as_bytes()),
            kind,
            since: Instant::now(),
        }
    }

    #[test]
    fn of_a_playlist_two_versions_wait_each_behind_what_it_lists() {
        let mut queue = Queue::default();
        assert!(queue.push("a", item("a/1.m4s", Kind::Segment, "1")), "the stream begins");
        for (segment, list) in [("a/2.m4s", "v1"), ("a/3.m4s", "v2"), ("a/4.m4s", "v3")] {
            assert!(!queue.push("a", item(segment, Kind::Segment, "s")));
            queue.push("a", item("a/live.m3u8", Kind::Playlist, list));
        }
        assert_eq!(queue.newest("a", "a/live.m3u8").unwrap(), "v3");
        let weight = queue.weight();
        let mut order = Vec::new();
        while let Some(item) = queue.front("a") {
            order.push((item.path.clone(), item.bytes.clone()));
            queue.pop("a");
        }
        let order: Vec<_> = order.iter().map(|(path, bytes)| (&path[2..], &bytes[..])).collect();
        let expected: [(&str, &[u8]); 6] = [
            ("1.m4s", b"1"),
            ("2.m4s", b"s"),
            ("live.m3u8", b"v1"),
            ("3.m4s", b"s"),
            ("4.m4s", b"s"),
            ("live.m3u8", b"v3"),
        ];
        assert_eq!((order.as_slice(), weight), (&expected[..], 8 + 6 * EACH));
        assert_eq!((queue.weight(), queue.files(), queue.oldest_wait()), (0, 0, Duration::ZERO));
    }

    #[test]
    fn what_was_put_last_is_kept_up_to_a_limit() {
        let mut recent = Recent::new(2 * EACH + 20);
        recent.put("a", &Bytes::from_static(&[1; 10]));
        recent.put("b", &Bytes::from_static(&[2; 10]));
        recent.put("a", &Bytes::from_static(&[3; 5]));
        recent.put("c", &Bytes::from_static(&[4; 10]));
        let sizes = ["a", "b", "c"].map(|path| recent.get(path).map(|bytes| bytes.len()));
        assert_eq!(sizes, [Some(5), None, Some(10)], "the eldest put goes first");
        recent.put("d", &Bytes::from(vec![0; 1000]));
        assert_eq!((recent.get("d"), recent.weight), (None, 0), "what is larger than all is not kept");
    }
}
