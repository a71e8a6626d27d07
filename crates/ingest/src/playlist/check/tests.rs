use proptest::prelude::*;
use units::Span;

use super::super::{Playlist, Segment, Settings};
use super::*;

const SEGMENT: u32 = 180_000;

fn playlist(window: Option<i64>, began: Option<u64>) -> Playlist {
    let window = window.map(Span::from_secs);
    let header = "header.mp4".to_owned();
    Playlist::new(Settings { target: Span::from_secs(2), window, header, began }).unwrap()
}

/// Lists the next segment, of that many ticks.
fn grow(playlist: &mut Playlist, duration: u32) {
    let (number, begins) = playlist.last.as_ref().map_or((0, 0), |last| (last.number + 1, last.ends()));
    let path = format!("s/{number:06}-{}.m4s", duration % 3);
    playlist.add(Segment { number, path, begins, duration }).unwrap();
}

/// The states of a playlist that grows by segments of these ticks and ends.
fn states(window: Option<i64>, began: Option<u64>, durations: &[u32]) -> Vec<String> {
    let mut playlist = playlist(window, began);
    let mut states = vec![playlist.to_hls()];
    for duration in durations {
        grow(&mut playlist, *duration);
        states.push(playlist.to_hls());
    }
    playlist.end();
    states.push(playlist.to_hls());
    states
}

/// Six segments, then one more; each breach is made in the later text.
fn pair(window: Option<i64>) -> (String, String) {
    let states = states(window, Some(1_785_551_445_250), &[SEGMENT; 7]);
    (states[6].clone(), states[7].clone())
}

/// The line, from 1, that has `part` in it.
fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).unwrap() + 1
}

/// `text` without its segments from the `first` on, of which there are `count`.
fn without(text: &str, first: u32, count: u32) -> String {
    let gone = |path: &str| (first..first + count).any(|number| path.starts_with(&format!("s/{number:06}")));
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        lines.push(line);
        if gone(line) {
            // The URI, its duration and its date.
            lines.truncate(lines.len() - 3);
        }
    }
    lines.join("\n")
}

#[test]
fn each_breach_is_found_and_its_line_named() {
    let (before, after) = pair(None);
    assert_eq!(check(&before, &after), Ok(()));
    let broken = |after: &str| check(&before, after).unwrap_err();
    let same = |number: u64, what: &'static str, part: &str, other: &str| {
        let changed = after.replacen(part, other, 1);
        let line = line_of(&after, &format!("s/{number:06}"));
        match broken(&changed) {
            Broken::Changed { line: at, number: of, what: this, before, after } => {
                assert_eq!((at, of, this), (line, number, what));
                assert_ne!(before, after);
            }
            other => panic!("{what}: {other}"),
        }
    };
    same(3, "URI", "s/000003-0", "s/000003-1");
    same(0, "duration in ns", "EXTINF:2.000000", "EXTINF:1.999999");
    same(0, "header", "header.mp4", "other.mp4");
    same(0, "date", "02:30:45.250Z", "02:30:45.251Z");

    let target = after.replace("DURATION:2", "DURATION:3");
    assert_eq!(broken(&target), Broken::Target { line: line_of(&after, "TARGET"), before: 2, after: 3 });
    let last = after.rfind("2.000000").unwrap();
    let long = format!("{}2.500000{}", &after[..last], &after[last + 8..]);
    let line = line_of(&after, "s/000006");
    assert_eq!(broken(&long), Broken::TooLong { line, number: 6, nanos: 2_500_000_000, target: 2 });
    let lost = Broken::Lost { line: after.lines().count() - 6, number: 5 };
    assert_eq!(broken(&without(&after, 5, 2)), lost);

    let later = after.replace("SEQUENCE:0", "SEQUENCE:1");
    let line = line_of(&after, "SEQUENCE");
    assert_eq!(check(&later, &after), Err(Broken::SequenceBack { line, before: 1, after: 0 }));
    // The numbers rise without a segment having gone: all are others than they were.
    let renumbered = check(&before.replace("#EXT-X-PLAYLIST-TYPE:EVENT\n", ""), &later).unwrap_err();
    assert!(matches!(renumbered, Broken::Changed { number: 1, what: "URI", .. }), "{renumbered}");
}

#[test]
fn nothing_goes_too_early_or_from_an_event() {
    let fewer = |window: Option<i64>, gone: u32| {
        let (before, after) = pair(window);
        let after = without(&after, 0, gone).replace("SEQUENCE:0", &format!("SEQUENCE:{gone}"));
        check(&before, &after)
    };
    // Seven segments of two seconds: three times the target are three of them.
    assert_eq!(fewer(Some(60), 4), Ok(()));
    let line = 4;
    let early = Broken::RemovedEarly { line, nanos: 2 * 2_000_000_000, least: 6 };
    assert_eq!(fewer(Some(60), 5), Err(early));
    let kind = "EVENT".to_owned();
    assert_eq!(fewer(None, 1), Err(Broken::RemovedForever { line, count: 1, kind }));
}

#[test]
fn an_end_stays_one() {
    let states = states(None, None, &[SEGMENT; 3]);
    let [.., going, ended] = &states[..] else { unreachable!() };
    let line = line_of(ended, "ENDLIST");
    assert_eq!(check(ended, ended), Ok(()));
    assert_eq!(check(ended, going), Err(Broken::EndGone { line: going.lines().count(), before: line }));
    let more = ended.replace("#EXT-X-ENDLIST", "#EXTINF:2,\ns/more.m4s\n#EXT-X-ENDLIST");
    assert_eq!(check(ended, &more), Err(Broken::AddedAfterEnd { line: line + 1, number: 3 }));
    assert_eq!(check(going, &more), Ok(()));
}

#[test]
fn what_is_no_media_playlist_is_refused_by_line() {
    let good = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n";
    assert_eq!(check(good, good), Ok(()));
    let endings = good.replace('\n', "\r\n\r\n");
    assert_eq!(check(good, &endings), Ok(()));
    let cases = [
        ("", 1, "#EXTM3U"),
        ("#EXTM3U8\n", 1, "#EXTM3U"),
        ("#EXTM3U\n\n# a remark\n", 3, "TARGETDURATION is missing"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2.5\n", 2, "whole number"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-TARGETDURATION:2\n", 3, "twice"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\na.m4s\n", 3, "follows no EXTINF"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n", 3, "no URI"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n#EXTINF:2,\n", 4, "without a URI"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:-2,\n", 3, "decimal"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1e3,\n", 3, "decimal"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:99999999999,\n", 3, "decimal"),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\na\n#EXT-X-MEDIA-SEQUENCE:1\n", 5, "after the first"),
        ("#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:18446744073709551615\n", 2, "2^63"),
        ("#EXTM3U\n#EXT-X-PLAYLIST-TYPE:LIVE\n", 2, "neither"),
        ("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n", 2, "master"),
    ];
    for (text, at, part) in cases {
        for (broken, which) in [(check(text, good), State::Before), (check(good, text), State::After)] {
            match broken {
                Err(Broken::Text { state, line, what }) => {
                    assert!((state, line) == (which, at) && what.contains(part), "{text:?}: {what}, {line}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }
}

/// Pieces that get further into the parser than any bytes.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "#EXTM3U\n",
        "#EXT-X-TARGETDURATION:",
        "#EXT-X-MEDIA-SEQUENCE:",
        "#EXTINF:",
        "9223372036854775807",
        "4294967296",
        "2",
        ".",
        ",\n",
        "\n",
        "a\n",
        "#EXT-X-ENDLIST\n",
        "#EXT-X-MAP:\n",
    ];
    prop_oneof![9 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

fn text() -> impl Strategy<Value = String> {
    let lines = || proptest::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat());
    let begun = lines().prop_map(|lines| format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{lines}"));
    prop_oneof![lines(), begun, any::<String>()]
}

proptest! {
    #[test]
    fn garbage_never_panics(before in text(), after in text()) {
        let _ = (check(&before, &after), check(&before, &before));
    }

    #[test]
    fn what_a_playlist_does_is_never_a_breach(
        window in proptest::option::of(0i64..30),
        began in proptest::option::of(0u64..4_000_000_000_000),
        // Up to just below what rounds to three seconds.
        durations in proptest::collection::vec(1u32..225_000, 0..40),
        polls in proptest::collection::vec(any::<proptest::sample::Index>(), 2..6),
    ) {
        let states = states(window, began, &durations);
        for pair in states.windows(2) {
            prop_assert_eq!(check(&pair[0], &pair[1]), Ok(()));
        }
        // Who polls seldom sees some of the states.
        let mut polls: Vec<_> = polls.iter().map(|poll| poll.index(states.len())).collect();
        polls.sort_unstable();
        for pair in polls.windows(2) {
            prop_assert_eq!(check(&states[pair[0]], &states[pair[1]]), Ok(()));
        }
    }

    #[test]
    fn a_listed_segment_that_changes_is_found_wherever_it_is(
        window in proptest::option::of(6i64..30),
        count in 1usize..30,
        which in any::<proptest::sample::Index>(),
        of_uri in any::<bool>(),
    ) {
        let durations: Vec<u32> = (0..count as u32).map(|number| SEGMENT - number).collect();
        let states = states(window, None, &durations);
        let (before, after) = (&states[count], &states[count + 1]);
        let first = before.lines().filter(|line| line.ends_with(".m4s")).count();
        let number = count - 1 - which.index(first);
        let at = line_of(after, &format!("s/{number:06}"));
        let mut lines: Vec<String> = after.lines().map(str::to_owned).collect();
        if of_uri {
            lines[at - 1].push('x');
        } else {
            lines[at - 2] = "#EXTINF:0.5,".to_owned();
        }
        match check(before, &lines.join("\n")) {
            Err(Broken::Changed { line, number: of, what, .. }) => {
                prop_assert_eq!((line, of), (at, number as u64));
                prop_assert_eq!(what, if of_uri { "URI" } else { "duration in ns" });
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
