//! Names of stored files: such that no name leads out of its folder, in any file system or URL.

use super::StorageError;
use crate::http::Role;

/// The longest name, bytes.
const MOST: usize = 512;
/// The longest part of one: file systems take 255 bytes, and a file is called some more while it is written.
const MOST_OF_A_PART: usize = 200;

/// What is written, which says how it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Written once under its name: a segment, an init file, a recording. A playlist may list it.
    Segment,
    /// Rewritten under its name: a playlist, a manifest, a description. It may list what was put before it.
    Playlist,
}

/// The name if it is one: `STREAM/PART/FILE.EXT` of letters, digits, `-`, `_` and `.`, no part of which is
/// empty or begins with a dot.
pub(super) fn checked(path: &str) -> Result<&str, StorageError> {
    let part_fine = |part: &str| {
        (1..=MOST_OF_A_PART).contains(&part.len())
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let fine = path.len() <= MOST && path.split('/').all(part_fine) && media_type(path).is_some();
    // What is quoted in an error is one line too.
    let quoted = || path.chars().filter(|c| !c.is_control()).take(MOST).collect();
    if fine { Ok(path) } else { Err(StorageError::Name(quoted())) }
}

/// The media type that a name's extension stands for; `None` for all that is not served.
///
/// RFC 8216 section 4 names that of playlists, ISO/IEC 23009-1 annex C that of manifests, RFC 4337 that of
/// MP4.
pub(super) fn media_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "m3u8" => "application/vnd.apple.mpegurl",
        "mpd" => "application/dash+xml",
        "mp4" | "m4s" => "video/mp4",
        "json" => "application/json",
        _ => return None,
    })
}

/// How long a file may be kept by who fetches it. An init file or a recording is made anew under its name
/// when its stream is; the name of a segment is never used again.
pub(super) fn role(path: &str) -> Role {
    if path.ends_with(".m4s") { Role::Fixed } else { Role::Changing }
}

/// The stream a file is of: its order is that in which files are put.
pub(super) fn stream_of(path: &str) -> &str {
    path.split_once('/').map_or("", |(stream, _)| stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn names_of_segments_and_playlists_are_fine_and_others_not() {
        for fine in
            ["game/s/000012-1.m4s", "game/live.m3u8", "game/live.mpd", "a_B-9/init.mp4", "streams.json"]
        {
            assert_eq!(checked(fine).unwrap(), fine);
        }
        let long = format!("{}.mp4", "a".repeat(MOST_OF_A_PART));
        for bad in [
            "",
            "/a.mp4",
            "a//b.mp4",
            "../a.mp4",
            "a/../b.mp4",
            "a/.b.mp4",
            ".mp4",
            "a.mp4/",
            "a\\b.mp4",
            "a.ts",
            "a%2e.mp4",
            "a b.mp4",
            "a\0.mp4",
            "\u{e9}.mp4",
            "a.mp4#1",
            "a.M3U8",
            "mp4",
            &long,
        ] {
            let error = checked(bad).unwrap_err().to_string();
            assert!(!error.contains(['\n', '\0']), "{error:?}");
        }
        assert_eq!((stream_of("game/s/1.m4s"), stream_of("streams.json")), ("game", ""));
    }

    proptest! {
        #[test]
        fn no_name_leads_out(path in "[a./\\\\%~: -]{0,12}(mp4|json|)") {
            if let Ok(name) = checked(&path) {
                prop_assert!(Path::new(name).components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(object_store::path::Path::from(name).as_ref() == name);
            }
        }
    }
}
