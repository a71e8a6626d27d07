//! Files from end to end, over loopback.

use std::fs;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use units::Span;
use wire::Refusal;

use super::*;
use crate::quic::{Identity, QuicError, Token, Trust};

const LENGTH: u32 = 3_000_000;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Waits a little for what happens at the other end.
fn wait() {
    thread::sleep(Duration::from_millis(5));
}

/// A receiver with a folder of its own.
struct House {
    identity: Identity,
    token: Token,
    folder: PathBuf,
    /// Bytes that have come, as it tells.
    came: AtomicU64,
}

impl House {
    fn new(name: &str) -> House {
        let folder = std::env::temp_dir().join(format!("framewire-files-{name}-{}", std::process::id()));
        let identity = Identity::self_signed(&["localhost".to_owned()]).unwrap();
        House { identity, token: Token::generate(), folder, came: AtomicU64::new(0) }
    }

    fn upload<'a>(&'a self, at: SocketAddr, name: &'a str) -> Upload<'a> {
        Upload {
            peer: at,
            host: "localhost",
            trust: Trust::Pin(self.identity.fingerprint()),
            token: &self.token,
            name,
            congestion: ::quic::Congestion::new("quic-dc:threshold=20ms").unwrap(),
            mtu: None,
            patience: Span::from_secs(5),
        }
    }

    fn send(&self, at: SocketAddr, name: &str) -> Result<Uploaded, TransferError> {
        self.upload(at, name).run(&mut Cursor::new(content()), &mut |_| ControlFlow::Continue(()))
    }

    /// What `guests` do while a receiver takes files of up to `limit` bytes, and all that it tells but
    /// progress.
    fn open<T>(&self, limit: u64, guests: impl FnOnce(SocketAddr) -> T) -> (T, Vec<News>) {
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let mut receiver =
            FileReceiver::open(anywhere, &self.identity, self.token.clone(), FileReceiver::limits()).unwrap();
        let at = receiver.local().unwrap();
        let store = Store::folder(&self.folder).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let landing = scope.spawn(|| {
                let mut news = Vec::new();
                receiver.run(limit, &store, &mut |more| {
                    match more {
                        News::Underway(_) if over.load(Ordering::Relaxed) => return ControlFlow::Break(()),
                        News::Underway(came) => self.came.store(came, Ordering::Relaxed),
                        more => news.push(more),
                    }
                    ControlFlow::Continue(())
                });
                news
            });
            let done = guests(at);
            over.store(true, Ordering::Relaxed);
            (done, landing.join().unwrap())
        })
    }

    fn part(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.framewire-part"))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn refusal(error: TransferError) -> (Refusal, String) {
    match error {
        TransferError::Connection(QuicError::Refused { why, text, .. }) => (why, text),
        other => panic!("{other}"),
    }
}

/// A file that breaks off half-way, once some of it has come.
struct Torn<'a> {
    bytes: Cursor<Vec<u8>>,
    /// Bytes that the other side has written.
    written: &'a AtomicU64,
}

const HALF: u64 = LENGTH as u64 / 2;

impl Read for Torn<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.bytes.position() < HALF {
            return self.bytes.read(out);
        }
        while self.written.load(Ordering::Relaxed) == 0 {
            wait();
        }
        Err(io::Error::other("torn"))
    }
}

impl Seek for Torn<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

#[test]
fn files_of_several_senders_arrive_whole_and_their_packets_are_timed() {
    let house = House::new("whole");
    let names = ["a", "b", "c"];
    let (sent, news) = house.open(u64::MAX, |at| {
        thread::scope(|scope| {
            let house = &house;
            let senders = names.map(|name| scope.spawn(move || house.send(at, name).unwrap()));
            senders.map(|sender| sender.join().unwrap())
        })
    });
    for sent in sent {
        assert_eq!((sent.bytes, sent.resumed), (u64::from(LENGTH), 0));
        assert!(sent.totals.timed > 0 && sent.totals.rtt_mean_ms > 0.0, "{:?}", sent.totals);
    }
    for name in names {
        assert!(fs::read(house.folder.join(name)).unwrap() == content(), "{name}");
    }
    assert_eq!(news.iter().filter(|news| matches!(news, News::Received(_))).count(), 3, "{news:?}");
}

#[test]
fn what_has_come_is_kept_under_another_name_and_the_next_attempt_goes_on_from_there() {
    let house = House::new("resumed");
    let go_on = &mut |_: &Underway| ControlFlow::Continue(());
    let (again, _) = house.open(u64::MAX, |at| {
        let torn = house
            .upload(at, "a")
            .run(&mut Torn { bytes: Cursor::new(content()), written: &house.came }, go_on);
        assert!(torn.unwrap_err().to_string().contains("torn"));
        let waits = || fs::metadata(house.part("a")).map_or(0, |part| part.len());
        // The receiver needs a moment to hear of it.
        while waits() == 0 {
            wait();
        }
        assert!(!house.folder.join("a").exists());
        loop {
            match house.send(at, "a") {
                Err(error) if is_busy(&error) => wait(),
                other => break other.unwrap(),
            }
        }
    });
    assert!(again.resumed > 0 && again.bytes == u64::from(LENGTH), "{again:?}");
    assert!(fs::read(house.folder.join("a")).unwrap() == content());
    assert!(!house.part("a").exists());
    // What is there is not how the file begins: it is sent whole.
    fs::write(house.part("b"), b"something else").unwrap();
    let (other, _) = house.open(u64::MAX, |at| house.send(at, "b").unwrap());
    assert_eq!(other.resumed, 0);
    assert!(fs::read(house.folder.join("b")).unwrap() == content());
}

fn is_busy(error: &TransferError) -> bool {
    matches!(error, TransferError::Connection(QuicError::Refused { why: Refusal::Busy, .. }))
}

#[test]
fn a_sender_is_told_why_its_file_is_not_taken() {
    let house = House::new("told");
    let (told, news) = house.open(1_000_000, |at| {
        fs::write(house.folder.join("there"), b"kept").unwrap();
        ["there", "..", "large"].map(|name| refusal(house.send(at, name).unwrap_err()))
    });
    assert_eq!(told.each_ref().map(|(why, _)| *why), [Refusal::Exists, Refusal::Other, Refusal::TooLong]);
    let [(_, there), _, (_, large)] = &told;
    assert!(
        there.contains("`there` is there already") && large.contains("more than 1000000 bytes"),
        "{told:?}"
    );
    assert_eq!(fs::read(house.folder.join("there")).unwrap(), b"kept");
    assert_eq!(names(&house.folder), ["there"], "of a file that is too large nothing is kept");
    assert!(news.iter().all(|news| matches!(news, News::Lost(TransferError::Denied { .. }))), "{news:?}");
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_wrong_token_or_pin_is_refused_and_the_dock_goes_on() {
    let house = House::new("wrong");
    let (sent, _) = house.open(u64::MAX, |at| {
        let stranger = House::new("stranger");
        let other = Upload { token: &stranger.token, ..house.upload(at, "a") };
        let go_on = &mut |_: &Underway| ControlFlow::Continue(());
        assert_eq!(refusal(other.run(&mut Cursor::new(content()), go_on).unwrap_err()).0, Refusal::Token);
        let trust = Trust::Pin(stranger.identity.fingerprint());
        let wrong =
            Upload { trust, ..house.upload(at, "a") }.run(&mut Cursor::new(content()), go_on).unwrap_err();
        assert!(wrong.to_string().contains("fingerprint"), "{wrong}");
        house.send(at, "a").unwrap()
    });
    assert_eq!(sent.bytes, u64::from(LENGTH));
}
