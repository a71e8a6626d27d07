use units::Rate;

use super::*;
use crate::mp4::testing::{Folder, complaints, probe, segments, there_is};
use crate::mp4::{Sample, header, segment};

fn settings(window: Option<i64>) -> Settings {
    let header = "header.mp4".to_owned();
    Settings { target: Span::from_secs(2), window: window.map(Span::from_secs), header, began: None }
}

fn two_seconds(number: u32) -> Segment {
    let path = format!("s/{number:06}-0.m4s");
    Segment { number, path, begins: u64::from(number) * 180_000, duration: 180_000 }
}

fn filled(window: Option<i64>, count: u32) -> Playlist {
    let mut playlist = Playlist::new(settings(window)).unwrap();
    (0..count).for_each(|number| playlist.add(two_seconds(number)).unwrap());
    playlist
}

fn numbers(playlist: &Playlist) -> Vec<u32> {
    playlist.segments().map(|segment| segment.number).collect()
}

#[test]
fn an_hls_playlist_has_its_tags_in_order() {
    let began = Some(1_785_551_445_250);
    let mut playlist = Playlist::new(Settings { began, ..settings(None) }).unwrap();
    playlist.add(two_seconds(0)).unwrap();
    playlist.add(Segment { duration: 90_001, ..two_seconds(1) }).unwrap();
    playlist.end();
    let expected = "\
        #EXTM3U\n\
        #EXT-X-VERSION:7\n\
        #EXT-X-TARGETDURATION:2\n\
        #EXT-X-MEDIA-SEQUENCE:0\n\
        #EXT-X-PLAYLIST-TYPE:EVENT\n\
        #EXT-X-INDEPENDENT-SEGMENTS\n\
        #EXT-X-MAP:URI=\"header.mp4\"\n\
        #EXT-X-PROGRAM-DATE-TIME:2026-08-01T02:30:45.250Z\n\
        #EXTINF:2.000000,\n\
        s/000000-0.m4s\n\
        #EXT-X-PROGRAM-DATE-TIME:2026-08-01T02:30:47.250Z\n\
        #EXTINF:1.000011,\n\
        s/000001-0.m4s\n\
        #EXT-X-ENDLIST\n";
    assert_eq!(playlist.to_hls(), expected);
}

#[test]
fn a_window_slides_but_keeps_three_target_durations() {
    assert_eq!(numbers(&filled(None, 9)).len(), 9);
    assert_eq!(numbers(&filled(Some(8), 9)), [5, 6, 7, 8]);
    assert_eq!(numbers(&filled(Some(7), 9)), [5, 6, 7, 8]);
    assert_eq!(numbers(&filled(Some(0), 9)), [6, 7, 8]);
    let hls = filled(Some(8), 9).to_hls();
    assert!(hls.contains("SEQUENCE:5\n") && !hls.contains("EVENT"), "{hls}");
    let dash = filled(Some(8), 9).to_dash(&description(), Rate::from_mbps(3));
    assert!(dash.contains("timeShiftBufferDepth=\"PT8.000S\""), "{dash}");
    assert!(dash.contains("<S t=\"900000\" d=\"180000\" r=\"3\"/>"), "{dash}");
}

#[test]
fn the_target_duration_is_whole_seconds_above_every_segment() {
    let of = |ms: i64| Playlist::new(Settings { target: Span::from_millis(ms), ..settings(None) });
    let targets = [1, 1_000, 1_001, 2_500].map(|ms| of(ms).unwrap().target);
    assert_eq!(targets, [1, 1, 2, 3]);
    for ms in [0, -1, 86_400_001] {
        assert!(matches!(of(ms), Err(PlaylistError::Target(_))), "{ms} ms");
    }
    let mut playlist = filled(None, 1);
    let lasting = |duration| Segment { duration, ..two_seconds(1) };
    for duration in [0, 225_000] {
        let refused = PlaylistError::Duration { number: 1, ticks: duration, target: 2 };
        assert_eq!(playlist.add(lasting(duration)), Err(refused));
    }
    assert_eq!(playlist.add(lasting(224_999)), Ok(()));
}

#[test]
fn what_does_not_continue_the_list_is_refused_and_changes_nothing() {
    let mut playlist = filled(None, 3);
    let before = playlist.to_hls();
    for found in [0, 2, 4] {
        assert_eq!(playlist.add(two_seconds(found)), Err(PlaylistError::Number { last: 2, found }));
    }
    let apart = Segment { begins: 540_001, ..two_seconds(3) };
    let refused = PlaylistError::Apart { number: 3, found: 540_001, ends: 540_000 };
    assert_eq!(playlist.add(apart), Err(refused));
    for path in ["", "a b", "a\n#EXT-X-ENDLIST", "a\"", "a&b", "\u{e9}"] {
        let refused = playlist.add(Segment { path: path.to_owned(), ..two_seconds(3) });
        assert_eq!(refused, Err(PlaylistError::Path(path.to_owned())));
        assert!(Playlist::new(Settings { header: path.to_owned(), ..settings(None) }).is_err());
    }
    assert_eq!(playlist.to_hls(), before);
    playlist.end();
    assert_eq!(playlist.add(two_seconds(3)), Err(PlaylistError::Ended(3)));
    // A list may begin later than the upload.
    let mut late = Playlist::new(settings(None)).unwrap();
    late.add(two_seconds(7)).unwrap();
    assert!(late.to_hls().contains("SEQUENCE:7\n"));
}

fn description() -> crate::mp4::Description {
    let sps = [0x67, 0x42, 0xc0, 0x0a, 0xda, 0x0a, 0x36, 0x40];
    crate::mp4::Description::new(&sps, &[0x68, 0xce, 0x3c, 0x80]).unwrap()
}

#[test]
fn a_dash_description_is_dynamic_until_its_end() {
    let mut playlist = Playlist::new(Settings { began: Some(1_785_551_445_250), ..settings(None) }).unwrap();
    playlist.add(two_seconds(0)).unwrap();
    playlist.add(Segment { duration: 90_000, ..two_seconds(1) }).unwrap();
    let live = playlist.to_dash(&description(), Rate::from_mbps(3));
    for part in [
        "type=\"dynamic\" availabilityStartTime=\"2026-08-01T02:30:45.250Z\"",
        "publishTime=\"2026-08-01T02:30:48.250Z\"\nminimumUpdatePeriod=\"PT2S\"",
        "codecs=\"avc1.42C00A\" width=\"160\" height=\"96\" bandwidth=\"3000000\"",
        "<S t=\"0\" d=\"180000\" r=\"0\"/>\n<S t=\"180000\" d=\"90000\" r=\"0\"/>",
        "<SegmentURL media=\"s/000000-0.m4s\"/>\n<SegmentURL media=\"s/000001-0.m4s\"/>",
    ] {
        assert!(live.contains(part), "{part} is not in {live}");
    }
    playlist.end();
    let ended = playlist.to_dash(&description(), Rate::from_mbps(3));
    assert!(ended.contains("type=\"static\" mediaPresentationDuration=\"PT3.000S\""), "{ended}");
    assert!(!ended.contains("availabilityStartTime") && !ended.contains("minimumUpdatePeriod"), "{ended}");
}

/// Real segments of a second on disk, and their list, ended. The last of them is shorter.
fn on_disk(folder: &Folder, window: Option<i64>) -> (Playlist, crate::mp4::Description, Vec<usize>) {
    let (description, mut all) = segments(7, |number| number % 7 == 3 || number == 11);
    all.last_mut().unwrap().truncate(5);
    folder.write("header.mp4", header(&description));
    let mut playlist = Playlist::new(Settings { target: Span::from_secs(1), ..settings(window) }).unwrap();
    let mut begins = 0;
    for (number, samples) in (0..).zip(&all) {
        let path = format!("s/{number:06}-1.m4s");
        folder.write(&path, segment(number, begins, samples));
        let duration = samples.iter().map(|sample| sample.duration).sum();
        playlist.add(Segment { number, path, begins, duration }).unwrap();
        begins += u64::from(duration);
    }
    playlist.end();
    let counts = all.iter().map(Vec::<Sample>::len).collect();
    (playlist, description, counts)
}

#[test]
fn ffmpeg_plays_what_is_listed_with_nothing_to_say() {
    if !there_is("ffmpeg") || !there_is("ffprobe") {
        return;
    }
    for window in [None, Some(3)] {
        let folder = Folder::new();
        let (playlist, description, counts) = on_disk(&folder, window);
        let listed: usize = playlist.segments().map(|segment| counts[segment.number as usize]).sum();
        assert_eq!(window.is_some(), listed < counts.iter().sum());
        let hls = folder.write("live.m3u8", playlist.to_hls());
        let dash = folder.write("live.mpd", playlist.to_dash(&description, Rate::from_mbps(1)));
        for list in [hls, dash] {
            assert_eq!(complaints(&list), "", "{}", list.display());
            assert_eq!(probe("nb_read_frames", &list), listed.to_string(), "{}", list.display());
        }
    }
}
