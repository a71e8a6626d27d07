//! Playlists and segments over random outages: nothing listed ever changes or is missing, and each class has
//! what was there by its delay.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use framewire_ingest::playlist::check;
use framewire_ingest::{Arrival, Class, Ingest, Kind, Rating, Ratings, Settings, Shelf};
use media::RawFrame;
use proptest::prelude::*;
use units::{RemoteTime, Span, Time};

const INTERVAL: Span = Span::from_millis(40);

/// Keeps files, and looks at each playlist as it comes.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Files>>);

#[derive(Default)]
struct Files {
    files: BTreeMap<String, Bytes>,
    /// When each segment was first listed, by playlist.
    listed: BTreeMap<(String, String), Time>,
    now: Time,
    /// Until then there is no room.
    full_until: Time,
}

impl Kept {
    fn text(&self, path: &str) -> Option<String> {
        let files = self.0.lock().unwrap();
        files.files.get(path).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

fn uris(playlist: &str) -> impl Iterator<Item = &str> {
    playlist.lines().filter(|line| !line.starts_with('#'))
}

impl Shelf for Kept {
    fn put(&mut self, path: &str, bytes: Bytes, kind: Kind) -> bool {
        let before = self.text(path).filter(|_| path.ends_with(".m3u8"));
        let mut kept = self.0.lock().unwrap();
        if kind == Kind::Segment {
            if kept.now < kept.full_until {
                return false;
            }
            assert!(kept.files.insert(path.to_owned(), bytes).is_none(), "{path} is written twice");
            return true;
        }
        if path.ends_with(".m3u8") {
            let after = String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(check(&before.unwrap_or_else(|| after.clone()), &after), Ok(()), "{path}");
            for uri in uris(&after) {
                assert!(kept.files.contains_key(&format!("a/{uri}")), "{uri} is listed before it is there");
                let now = kept.now;
                kept.listed.entry((path.to_owned(), uri.to_owned())).or_insert(now);
            }
        }
        kept.files.insert(path.to_owned(), bytes);
        true
    }
    fn get(&self, path: &str) -> Result<Option<Bytes>, String> {
        Ok(self.0.lock().unwrap().files.get(path).cloned())
    }
}

fn picture(number: u32) -> Arc<RawFrame> {
    Arc::new(RawFrame::filled(64, 48, 16 + (number % 200) as u8, 128, 128))
}

/// SSIM of the first 300 frames: 0.9, and 0.98 where they are sent again; of even ones it is known before
/// they are there, of the others after. Of later frames nothing is known.
fn rating(ratings: &mut Ratings, number: u32, again: bool) -> Rating {
    let (frame, ssim) = ((u8::from(again), number), if again { 0.98 } else { 0.9 });
    if number < 300 && number.is_multiple_of(2) {
        ratings.said(frame, ssim);
    }
    let rating = ratings.arrived(frame);
    if number < 300 {
        ratings.said(frame, ssim);
    }
    rating
}

/// Where the camera has ended, nothing is missing of what comes after, however long the rest is sent again.
#[test]
fn nothing_is_missing_after_the_cameras_end() {
    let (mut ingest, kept) = begun(None);
    let at = |frame: u32| Time::ZERO + INTERVAL * i64::from(frame);
    let captured = |frame: u32| RemoteTime::from_nanos(7_000_000_000 + (at(frame) - Time::ZERO).as_nanos());
    let take = |ingest: &mut Ingest<_>, frame: u32, at: Time, again: bool| {
        let rating = Rating::default();
        ingest.take(&Arrival { captured: captured(frame), again, at, picture: picture(frame), rating })
    };
    let missing = |kept: &Kept, class: &str| -> (usize, u64) {
        let history = kept.text(&format!("a/{class}.json")).unwrap();
        let history: serde_json::Value = serde_json::from_str(&history).unwrap();
        let segments = history["segments"].as_array().unwrap();
        (segments.len(), segments.iter().map(|segment| segment["missing"].as_u64().unwrap()).sum())
    };
    // Five seconds of film, of which the last but one comes eight seconds late.
    for frame in (0..125).filter(|&frame| frame != 123) {
        assert!(take(&mut ingest, frame, at(frame), false));
        while ingest.wake(at(frame)).is_some_and(|next| next <= at(frame)) {}
    }
    ingest.filmed(captured(124));
    ingest.filmed(captured(1_000_000));
    let later = at(124) + Span::from_secs(8);
    while ingest.wake(later).is_some_and(|next| next <= later) {}
    assert_eq!(missing(&kept, "live"), (2, 0));
    assert!(take(&mut ingest, 123, later, true));
    ingest.finish().unwrap();
    assert_eq!(["live", "4s", "10s"].map(|class| missing(&kept, class)), [(3, 0); 3]);
}

/// One version of a frame: when it comes, which, and whether it is sent again.
type Coming = (Time, u32, bool);

/// An upload with three delays.
fn begun(window: Option<Span>) -> (Ingest<Cursor<Vec<u8>>>, Kept) {
    let classes = Class::list(&[Span::from_millis(500), Span::from_secs(4), Span::from_secs(10)]).unwrap();
    let kept = Kept::default();
    let settings = Settings {
        name: "a".to_owned(),
        classes,
        segment: Span::from_secs(2),
        rate: None,
        window,
        memory: 1 << 20,
    };
    let movie = Some(Cursor::new(Vec::new()));
    (Ingest::new(settings, Box::new(kept.clone()), movie, Time::ZERO, 1_700_000_000_000), kept)
}

fn run(frames: u32, mut coming: Vec<Coming>, full: (Time, Time), window: Option<Span>) -> (Kept, Vec<u8>) {
    let (mut ingest, kept) = begun(window);
    coming.sort_by_key(|coming| coming.0);
    let mut coming = coming.into_iter().peekable();
    let (mut now, mut ratings) = (Time::ZERO, Ratings::default());
    while now < Time::ZERO + INTERVAL * i64::from(frames + 2) {
        {
            let mut kept = kept.0.lock().unwrap();
            kept.now = now;
            kept.full_until = if now >= full.0 { full.1 } else { Time::ZERO };
        }
        while let Some((at, number, again)) = coming.next_if(|coming| coming.0 <= now) {
            let captured = RemoteTime::from_nanos(7_000_000_000 + (INTERVAL * i64::from(number)).as_nanos());
            let rating = rating(&mut ratings, number, again);
            ingest.take(&Arrival { captured, again, at, picture: picture(number), rating });
        }
        while ingest.wake(now).is_some_and(|next| next <= now) {}
        now += Span::from_millis(50);
    }
    let movie = ingest.finish().unwrap().map(Cursor::into_inner).unwrap_or_default();
    (kept, movie)
}

/// Frames in a class's history: all, missing, repaired.
fn frames(kept: &Kept, class: &str) -> (u64, u64, u64) {
    let history: serde_json::Value =
        serde_json::from_str(&kept.text(&format!("a/{class}.json")).unwrap()).unwrap();
    let sum = |key: &str| {
        let segments = history["segments"].as_array().unwrap();
        segments.iter().map(|segment| segment[key].as_u64().unwrap()).sum()
    };
    (sum("frames"), sum("missing"), sum("repaired"))
}

/// 16 s of frames 20 ms after their capture, but for those of an outage, which are sent again `later`.
fn outage(from: u32, to: u32, later: Span) -> Vec<Coming> {
    let of = |number: u32| {
        let captured = Time::ZERO + INTERVAL * i64::from(number);
        let lost = (from..to).contains(&number);
        let delay = if lost { later } else { Span::from_millis(20) };
        (captured + delay, number, lost)
    };
    (0..400).map(of).collect()
}

#[test]
fn a_class_has_what_was_there_by_its_delay() {
    let (kept, movie) = run(400, outage(100, 150, Span::from_secs(7)), (Time::MAX, Time::MAX), None);
    assert_eq!(frames(&kept, "live"), (400, 50, 0));
    assert_eq!(frames(&kept, "4s"), (400, 50, 0));
    assert_eq!(frames(&kept, "10s"), (400, 0, 50));
    let lists = ["live", "4s", "10s"].map(|class| kept.text(&format!("a/{class}.m3u8")).unwrap());
    let uris = lists.each_ref().map(|list| uris(list).collect::<Vec<_>>());
    assert_eq!(uris[0], uris[1], "what has not become better is the same file");
    let other: Vec<_> = uris[0].iter().zip(&uris[2]).filter(|(live, late)| live != late).collect();
    assert_eq!(other, [(&"s/000002-1.m4s", &"s/000002-2.m4s")]);
    assert!(lists[0].ends_with("#EXT-X-ENDLIST\n") && movie.len() > 1_000);
    let index = kept.text("a/index.json").unwrap();
    assert!(index.contains("\"ended\":true") && index.contains("\"movie\":\"movie.mp4\""), "{index}");
}

#[test]
fn a_segment_says_how_good_it_is_where_that_is_known() {
    // Frames 100 to 149 are the third segment, 175 to 199 half of the fourth.
    let halves = outage(100, 150, Span::from_secs(7)).into_iter().zip(outage(175, 200, Span::from_secs(7)));
    let coming = halves.map(|(one, other)| if other.2 { other } else { one }).collect();
    let (kept, _) = run(400, coming, (Time::MAX, Time::MAX), None);
    let history = |class: &str| -> Vec<(u64, Option<f64>)> {
        let text = kept.text(&format!("a/{class}.json")).unwrap();
        let history: serde_json::Value = serde_json::from_str(&text).unwrap();
        let segments = history["segments"].as_array().unwrap();
        segments.iter().map(|one| (one["rated"].as_u64().unwrap(), one["ssim"].as_f64())).collect()
    };
    let (good, none) = ((50, Some(0.9)), (0, None));
    assert_eq!(history("live"), [good, good, none, (25, Some(0.9)), good, good, none, none]);
    let (repaired, half) = ((50, Some(0.98)), (50, Some(0.94)));
    assert_eq!(history("10s"), [good, good, repaired, half, good, good, none, none]);
    let notes: serde_json::Value = serde_json::from_str(&kept.text("a/s/000002.json").unwrap()).unwrap();
    assert_eq!(notes["frames"][0]["arrived"], serde_json::json!([[6.98, true, 0.98]]));
    let notes: serde_json::Value = serde_json::from_str(&kept.text("a/s/000007.json").unwrap()).unwrap();
    assert_eq!(notes["frames"][0]["arrived"], serde_json::json!([[0.0, false, null]]));
}

#[test]
fn a_shelf_that_is_full_delays_segments_and_loses_none() {
    let full = (Time::from_secs(5), Time::from_secs(9));
    let (kept, _) = run(400, outage(0, 0, Span::ZERO), full, None);
    assert_eq!(frames(&kept, "live"), (400, 0, 0));
    let listed = &kept.0.lock().unwrap().listed;
    let at = listed[&("a/live.m3u8".to_owned(), "s/000002-1.m4s".to_owned())];
    assert!((Time::from_secs(9)..=Time::from_secs(10)).contains(&at), "{at:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_listed_ever_changes(
        outages in prop::collection::vec((0u32..400, 1u32..120, 100i64..14_000), 0..6),
        window in prop::option::of(2i64..12),
        full in (0u64..20, 0u64..8),
    ) {
        let mut coming: BTreeMap<u32, Coming> = BTreeMap::new();
        for number in 0..400 {
            let captured = Time::ZERO + INTERVAL * i64::from(number);
            coming.insert(number, (captured + Span::from_millis(20), number, false));
        }
        let mut repairs = Vec::new();
        for &(from, length, later) in &outages {
            for number in from..(from + length).min(400) {
                coming.remove(&number);
                // Every other one is sent again.
                let captured = Time::ZERO + INTERVAL * i64::from(number);
                if number % 2 == 0 {
                    repairs.push((captured + Span::from_millis(later), number, true));
                }
            }
        }
        let coming = coming.into_values().chain(repairs).collect();
        let full = (Time::from_secs(full.0), Time::from_secs(full.0 + full.1));
        // The shelf looks at every playlist.
        let (kept, _) = run(400, coming, full, window.map(Span::from_secs));
        for class in ["live", "4s", "10s"] {
            if let Some(list) = kept.text(&format!("a/{class}.m3u8")) {
                prop_assert!(list.ends_with("#EXT-X-ENDLIST\n"));
            }
        }
    }
}
