//! An endpoint that is killed at any instant and started again: the playlists go on, and what was there is
//! there.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use framewire_ingest::playlist::check;
use framewire_ingest::{Arrival, Class, Ingest, JOURNAL, Kind, Rating, ResumeError, Settings, Shelf};
use media::RawFrame;
use proptest::prelude::*;
use units::{RemoteTime, Span, Time};

const INTERVAL: Span = Span::from_millis(40);
const SECOND: Span = Span::from_secs(1);
/// The date at the clock's zero.
const DATE_MS: i64 = 1_700_000_000_000;
const PATIENCE: Span = Span::from_secs(60);
const FRAMES: u32 = 500;

/// Keeps files in the order they were put. A crash loses the last of them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(String, Bytes)>>>);

impl Kept {
    fn text(&self, path: &str) -> Option<String> {
        self.get(path).unwrap().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Only the first `files` were stored when everything ended.
    fn crash(&self, files: usize) {
        self.0.lock().unwrap().truncate(files);
    }

    fn files(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn replace(&self, path: &str, bytes: Vec<u8>) {
        let mut files = self.0.lock().unwrap();
        if let Some(file) = files.iter_mut().rev().find(|(name, _)| name == path) {
            file.1 = bytes.into();
        }
    }
}

impl Shelf for Kept {
    fn put(&mut self, path: &str, bytes: Bytes, _: Kind) -> bool {
        if path.ends_with(".m3u8") {
            let after = String::from_utf8(bytes.to_vec()).unwrap();
            let before = self.text(path).unwrap_or_else(|| after.clone());
            assert_eq!(check(&before, &after), Ok(()), "{path}");
            for uri in after.lines().filter(|line| !line.starts_with('#')) {
                assert!(self.get(&format!("a/{uri}")).unwrap().is_some(), "{uri} is listed and not there");
            }
        }
        if path.ends_with(".m4s") {
            let listed = self.0.lock().unwrap().iter().any(|(list, text)| {
                let text = || String::from_utf8_lossy(text).contains(&path[2..]);
                list.ends_with(".m3u8") && text()
            });
            assert!(!listed, "{path} is listed, and made anew");
        }
        self.0.lock().unwrap().push((path.to_owned(), bytes));
        true
    }
    fn get(&self, path: &str) -> Result<Option<Bytes>, String> {
        let files = self.0.lock().unwrap();
        Ok(files.iter().rev().find(|(name, _)| name == path).map(|(_, bytes)| bytes.clone()))
    }
}

fn settings(window: Option<Span>) -> Settings {
    Settings {
        name: "a".to_owned(),
        classes: Class::list(&[500, 4_000, 10_000].map(Span::from_millis)).unwrap(),
        segment: SECOND,
        rate: None,
        window,
        memory: 1 << 20,
    }
}

fn picture(number: u32) -> Arc<RawFrame> {
    Arc::new(RawFrame::filled(64, 48, 16 + (number % 200) as u8, 128, 128))
}

type Endpoint = Ingest<Cursor<Vec<u8>>>;

fn begin(kept: &Kept, window: Option<Span>) -> Endpoint {
    let movie = Some(Cursor::new(Vec::new()));
    Ingest::new(settings(window), Box::new(kept.clone()), movie, Time::ZERO, DATE_MS)
}

fn resume(kept: &Kept, window: Option<Span>, now: Time) -> Result<Option<Endpoint>, ResumeError> {
    let date = DATE_MS + (now - Time::ZERO).as_nanos() / 1_000_000;
    // A clock of its own, as after a machine's restart.
    Ingest::resume(settings(window), Box::new(kept.clone()), (Time::ZERO, date), PATIENCE)
}

/// Versions of frames by when they arrive: number and whether it was sent again.
type Coming = BTreeMap<Time, Vec<(u32, bool)>>;

/// Gives an endpoint whose clock's zero is at `zero` what comes from `from` to `to`.
fn run(endpoint: &mut Endpoint, coming: &Coming, zero: Time, from: Time, to: Time) {
    let mut now = from;
    while now < to {
        let next = (now + Span::from_millis(50)).min(to);
        for (&at, versions) in coming.range(now..next) {
            for &(number, again) in versions {
                let captured = 7_000_000_000 + (INTERVAL * i64::from(number)).as_nanos();
                let captured = RemoteTime::from_nanos(captured);
                let at = Time::ZERO + (at - zero);
                endpoint.take(&Arrival {
                    captured,
                    again,
                    at,
                    picture: picture(number),
                    rating: Rating::default(),
                });
            }
        }
        let here = Time::ZERO + (next - zero);
        while endpoint.wake(here).is_some_and(|next| next <= here) {}
        now = next;
    }
}

fn captured(number: u32) -> Time {
    Time::ZERO + INTERVAL * i64::from(number)
}

/// Frames 20 ms after their capture; what an endpoint that is away from `from` to `to` did not get, or had
/// forgotten of the last `kept` before, comes again from two seconds after.
fn coming(from: Time, to: Time, kept: Span) -> Coming {
    let mut coming = Coming::new();
    let delay = Span::from_millis(20);
    for number in 0..FRAMES {
        let at = captured(number) + delay;
        if !(from..to).contains(&at) {
            coming.entry(at).or_default().push((number, false));
        }
        if at >= from - kept && at < to {
            let behind = at - (from - kept);
            coming.entry(to + SECOND * 2 + behind / 4).or_default().push((number, true));
        }
    }
    coming
}

/// Frames in a class's history: all, missing, repaired.
fn frames(kept: &Kept, class: &str) -> (u64, u64, u64) {
    let history: serde_json::Value =
        serde_json::from_str(&kept.text(&format!("a/{class}.json")).unwrap()).unwrap();
    let sum = |key: &str| -> u64 {
        let segments = history["segments"].as_array().unwrap();
        segments.iter().map(|segment| segment[key].as_u64().unwrap()).sum()
    };
    (sum("frames"), sum("missing"), sum("repaired"))
}

/// Samples in a movie: the count of its table of sizes.
fn samples(movie: &[u8]) -> u32 {
    let at = movie.windows(4).position(|window| window == b"stsz").expect("a movie has a table of sizes");
    u32::from_be_bytes(movie[at + 12..at + 16].try_into().unwrap())
}

/// Killed at `from`, with only `lost` of its last files not stored, and back at `to`.
/// `None` if nothing was stored yet.
fn killed_early(
    (from, to): (Time, Time),
    kept: Span,
    lost: usize,
    window: Option<Span>,
) -> Option<(Kept, Vec<u8>)> {
    let (files, coming) = (Kept::default(), coming(from, to, kept));
    let mut first = begin(&files, window);
    run(&mut first, &coming, Time::ZERO, Time::ZERO, from);
    drop(first);
    files.crash(files.files().saturating_sub(lost));
    let end = captured(FRAMES) + SECOND;
    let mut second = resume(&files, window, to).expect("it goes on")?;
    second.film_to(Cursor::new(Vec::new()));
    run(&mut second, &coming, to, to, end);
    let movie = second.finish().unwrap().map(Cursor::into_inner).unwrap_or_default();
    Some((files, movie))
}

fn killed(from: Time, to: Time, kept: Span) -> (Kept, Vec<u8>) {
    killed_early((from, to), kept, 0, None).expect("it had begun")
}

#[test]
fn a_stream_goes_on_and_later_viewers_miss_nothing() {
    let (from, to) = (Time::from_millis(9_300), Time::from_millis(10_700));
    // The uploader sends again only what the endpoint never listed.
    let (kept, movie) = killed(from, to, SECOND * 2);
    let (all, missing, _) = frames(&kept, "live");
    assert!(all == 500 && (30..80).contains(&missing), "{missing} of {all}");
    let (all, missing, repaired) = frames(&kept, "10s");
    assert_eq!((all, missing), (500, 0), "{repaired} sent again");
    assert_eq!(samples(&movie), 500);
    let lists = ["live", "10s"].map(|class| kept.text(&format!("a/{class}.m3u8")).unwrap());
    let same =
        lists[0].lines().zip(lists[1].lines()).filter(|(live, late)| live == late && live.ends_with(".m4s"));
    assert!(same.count() >= 14, "what has not become better is the same file, made by whichever endpoint");
    assert!(lists[1].ends_with("#EXT-X-ENDLIST\n") && lists[1].contains("s/000008-1"), "{}", lists[1]);
    assert!(kept.text("a/index.json").unwrap().contains("\"movie\":\"movie.mp4\""));
}

#[test]
fn what_had_arrived_is_shown_though_nothing_is_sent_again() {
    let (from, to) = (Time::from_millis(9_300), Time::from_millis(10_700));
    let (kept, _) = killed(from, to, Span::ZERO - SECOND * 2);
    let (all, missing, _) = frames(&kept, "10s");
    // Listed by then were 8 s; what arrived after is in no file.
    assert!(all == 500 && missing <= 70, "{missing} of {all}");
    assert_eq!(frames(&kept, "live").1, missing);
}

#[test]
fn a_stream_that_ended_or_was_left_long_ago_is_another_one() {
    let (from, to) = (Time::from_secs(9), Time::from_secs(10));
    let (kept, _) = killed(from, to, SECOND);
    let error = resume(&kept, None, Time::from_secs(30)).err().unwrap();
    assert_eq!(error, ResumeError::Ended);
    let kept = Kept::default();
    assert!(resume(&kept, None, from).unwrap().is_none());
    run(&mut begin(&kept, None), &coming(from, to, SECOND), Time::ZERO, Time::ZERO, from);
    let error = |window, now| resume(&kept, window, now).err().unwrap().to_string();
    assert!(
        error(None, from + PATIENCE + SECOND * 2).contains("an uploader may stay away for"),
        "too long ago"
    );
    assert_eq!(error(Some(SECOND * 5), from), "live.m3u8 is not as this endpoint writes it");
    let journal = kept.text(&format!("a/{JOURNAL}")).unwrap();
    kept.replace(&format!("a/{JOURNAL}"), journal.replace("\"10s\"", "\"30s\"").into());
    assert_eq!(error(None, from), "it was begun with the delays live, 4s, 30s");
    kept.replace(&format!("a/{JOURNAL}"), journal.as_bytes()[..200].to_vec());
    assert!(error(None, from).starts_with("its journal can't be used: EOF while"), "{}", error(None, from));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn nothing_listed_changes_whenever_an_endpoint_is_killed(
        from in 1_500u64..15_000,
        away in 0i64..4_000,
        known in -3_000i64..6_000,
        lost in 0usize..12,
        window in prop::option::of(3i64..12),
    ) {
        let from = Time::from_millis(from);
        let window = window.map(Span::from_secs);
        let (known, away) = (Span::from_millis(known), Span::from_millis(away));
        // The shelf looks at every playlist.
        let Some((kept, movie)) = killed_early((from, from + away), known, lost, window) else { return Ok(()) };
        for class in ["live", "4s", "10s"] {
            let list = kept.text(&format!("a/{class}.m3u8")).unwrap();
            prop_assert!(list.ends_with("#EXT-X-ENDLIST\n"));
        }
        prop_assert!(samples(&movie) > 100);
    }

    #[test]
    fn damaged_files_are_refused_or_gone_on_with_and_never_a_panic(
        file in prop::sample::select(vec!["journal.json", "live.m3u8", "4s.m3u8", "live.json", "s/000007-1.m4s"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (from, to) = (Time::from_millis(9_300), Time::from_millis(10_000));
        let (kept, coming) = (Kept::default(), coming(from, to, SECOND));
        run(&mut begin(&kept, None), &coming, Time::ZERO, Time::ZERO, from);
        let path = format!("a/{file}");
        let mut bytes = kept.get(&path).unwrap().unwrap().to_vec();
        for (at, byte) in damage {
            // Digits among digits are the hardest to see through.
            let place = at.get_mut(&mut bytes);
            *place = if place.is_ascii_digit() { b'0' + byte % 10 } else { byte };
        }
        bytes.truncate(cut.map_or(usize::MAX, |cut| cut.index(bytes.len())));
        // A playlist that is not what was published is no state to compare with.
        kept.replace(&path, bytes);
        if let Ok(Some(mut endpoint)) = resume(&kept, None, to) {
            run(&mut endpoint, &coming, to, to, to + SECOND * 2);
        }
    }
}
