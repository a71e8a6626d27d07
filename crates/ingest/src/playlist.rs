//! Lists of segments for players: HLS (RFC 8216) and DASH (ISO/IEC 23009-1), and what watches over them.
//!
//! ```text
//!   Segment --> Playlist --> to_hls()    and every poll of it: check(before, after)
//!                        \-> to_dash()
//! ```
//!
//! A list only grows at its end and, with a window, shrinks at its beginning. Each class of delay has a list
//! of its own; one file may be in several.

mod check;
mod dash;
mod date;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::Write;

use units::Span;

use crate::mp4::TIMESCALE;

pub use check::{Broken, State, check};

/// What stays the same for the whole life of a [`Playlist`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Usual length of a segment, above zero. The playlist's target duration is this in whole seconds,
    /// rounded up (RFC 8216 section 4.3.3.1).
    pub target: Span,
    /// How much is listed before the first segments go; never less than three target durations (RFC 8216
    /// section 6.2.2). Everything stays listed if `None`.
    pub window: Option<Span>,
    /// Where [`mp4::header`](crate::mp4::header) is, relative to the playlist.
    pub header: String,
    /// The date of media time zero in ms since 1970, UTC.
    pub began: Option<u64>,
}

/// One file of a playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Counts segments of the upload; the playlist's media sequence number (RFC 8216 section 4.3.3.2).
    pub number: u32,
    /// Where the file is, relative to the playlist, such as `s/000012-1.m4s`.
    pub path: String,
    /// Media time of its first sample in ticks of [`TIMESCALE`], as in its `tfdt` box.
    pub begins: u64,
    /// Its length in ticks, above zero.
    pub duration: u32,
}

impl Segment {
    fn ends(&self) -> u64 {
        self.begins.saturating_add(u64::from(self.duration))
    }
}

/// Why a playlist refuses something. What is listed stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaylistError {
    /// A target of nothing, or of a year.
    #[error("a segment length of {0} is not above 0 and at most 24h")]
    Target(Span),
    /// The path would be read as something else in a list, or needs quotes.
    #[error("the path '{0}' is empty or has other characters than A-Z a-z 0-9 / - . _ ~ %")]
    Path(String),
    /// A gap in the numbers, or a number twice.
    #[error("segment {found} comes after {last}; numbers rise by one")]
    Number {
        /// The last one that is listed.
        last: u32,
        /// The one that is refused.
        found: u32,
    },
    /// A gap in time, or two segments of one time.
    #[error("segment {number} begins at tick {found}, but the one before ends at {ends}")]
    Apart {
        /// The segment that is refused.
        number: u32,
        /// Where it begins.
        found: u64,
        /// Where it must begin.
        ends: u64,
    },
    /// Of no length, or so long that it rounds above the target duration (RFC 8216 section 4.3.3.1).
    #[error("segment {number} lasts {ticks} ticks of 1/{TIMESCALE} s; 1 tick to {target} s are possible")]
    Duration {
        /// The segment that is refused.
        number: u32,
        /// Its duration.
        ticks: u32,
        /// The playlist's target duration in seconds.
        target: u64,
    },
    /// A list that was to be gone on with is not as it would be written.
    #[error("the list was not written with these settings, or has changed since")]
    Resumed,
    /// After [`Playlist::end`] nothing is listed anymore.
    #[error("segment {0} comes after the playlist's end")]
    Ended(u32),
}

/// The segments of one class of delay, oldest first.
///
/// ```
/// use framewire_ingest::playlist::{Playlist, Segment, Settings, check};
/// use units::Span;
///
/// let header = "header.mp4".to_owned();
/// let settings = Settings { target: Span::from_secs(2), window: None, header, began: None };
/// let mut playlist = Playlist::new(settings)?;
/// let path = "s/000000-1.m4s".to_owned();
/// playlist.add(Segment { number: 0, path, begins: 0, duration: 180_000 })?;
/// let before = playlist.to_hls();
/// assert!(before.contains("#EXTINF:2.000000,\ns/000000-1.m4s\n"));
/// playlist.end();
/// assert!(playlist.to_hls().ends_with("#EXT-X-ENDLIST\n"));
/// assert_eq!(check(&before, &playlist.to_hls()), Ok(()));
/// # Ok::<(), framewire_ingest::playlist::PlaylistError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Playlist {
    settings: Settings,
    /// Target duration in seconds.
    target: u64,
    listed: VecDeque<Segment>,
    /// The last one there was.
    last: Option<Segment>,
    ended: bool,
}

impl Playlist {
    /// An empty playlist.
    ///
    /// # Errors
    /// [`PlaylistError::Target`] or [`PlaylistError::Path`] of the header.
    pub fn new(settings: Settings) -> Result<Playlist, PlaylistError> {
        let nanos = u64::try_from(settings.target.as_nanos()).unwrap_or(0);
        let target = nanos.div_ceil(1_000_000_000);
        if !(1..=86_400).contains(&target) {
            return Err(PlaylistError::Target(settings.target));
        }
        check_path(&settings.header)?;
        Ok(Playlist { settings, target, listed: VecDeque::new(), last: None, ended: false })
    }

    /// Lists a segment behind the others, for good. The first segments go if the window is full without them.
    ///
    /// # Errors
    /// [`PlaylistError`] if it does not continue the list.
    pub fn add(&mut self, segment: Segment) -> Result<(), PlaylistError> {
        self.check(&segment)?;
        self.last = Some(segment.clone());
        self.listed.push_back(segment);
        self.slide();
        Ok(())
    }

    /// Goes on with what `listing` lists, which [`to_hls`](Playlist::to_hls) wrote of a playlist with the
    /// same settings. `describe` says of a segment's number where it begins and its length, in ticks.
    ///
    /// # Errors
    /// [`PlaylistError::Resumed`] if the list is not just what this playlist would write, or has ended.
    pub fn resume(
        settings: Settings,
        listing: &str,
        describe: impl Fn(u32) -> (u64, u32),
    ) -> Result<Playlist, PlaylistError> {
        let mut playlist = Playlist::new(settings)?;
        let first = listing.lines().find_map(|line| line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:"));
        let first: u32 = first.and_then(|first| first.parse().ok()).ok_or(PlaylistError::Resumed)?;
        let paths = listing.lines().filter(|line| !line.starts_with('#'));
        for (at, path) in (0u32..).zip(paths) {
            let number = first.checked_add(at).ok_or(PlaylistError::Resumed)?;
            let (begins, duration) = describe(number);
            playlist.add(Segment { number, path: path.to_owned(), begins, duration })?;
        }
        if playlist.to_hls() == listing { Ok(playlist) } else { Err(PlaylistError::Resumed) }
    }

    /// No segment comes anymore.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// What is listed by now, oldest first. What is not anymore should be kept as a file for as long as the
    /// longest list with it lasted, and its own length (RFC 8216 section 6.2.2).
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &Segment> {
        self.listed.iter()
    }

    /// The media playlist of version 7 (RFC 8216 section 4).
    ///
    /// Without a window it is of type `EVENT`: players may go back to its beginning.
    pub fn to_hls(&self) -> String {
        let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n");
        let first = self.listed.front().map_or(0, |segment| segment.number);
        let header = &self.settings.header;
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("strings take all");
        line(format_args!("#EXT-X-TARGETDURATION:{}", self.target));
        line(format_args!("#EXT-X-MEDIA-SEQUENCE:{first}"));
        if self.settings.window.is_none() {
            line(format_args!("#EXT-X-PLAYLIST-TYPE:EVENT"));
        }
        line(format_args!("#EXT-X-INDEPENDENT-SEGMENTS"));
        line(format_args!("#EXT-X-MAP:URI=\"{header}\""));
        for Segment { path, begins, duration, .. } in &self.listed {
            // A date for each: else the first one's had to be moved when it goes.
            if let Some(began) = self.settings.began {
                line(format_args!("#EXT-X-PROGRAM-DATE-TIME:{}", date::rfc3339(after(began, *begins))));
            }
            let micros = rounded(u64::from(*duration), 1_000_000);
            line(format_args!("#EXTINF:{}.{:06},\n{path}", micros / 1_000_000, micros % 1_000_000));
        }
        if self.ended {
            line(format_args!("#EXT-X-ENDLIST"));
        }
        text
    }

    fn check(&self, segment: &Segment) -> Result<(), PlaylistError> {
        let &Segment { number, begins, duration, .. } = segment;
        if self.ended {
            return Err(PlaylistError::Ended(number));
        }
        if let Some(last) = &self.last {
            if last.number.checked_add(1) != Some(number) {
                return Err(PlaylistError::Number { last: last.number, found: number });
            }
            if last.ends() != begins {
                return Err(PlaylistError::Apart { number, found: begins, ends: last.ends() });
            }
        }
        if duration == 0 || rounded(u64::from(duration), 1) > self.target {
            return Err(PlaylistError::Duration { number, ticks: duration, target: self.target });
        }
        check_path(&segment.path)
    }

    /// Takes out what is not needed to fill the window.
    fn slide(&mut self) {
        let Some(least) = self.least() else { return };
        let end = self.listed.back().map_or(0, Segment::ends);
        while self.listed.get(1).is_some_and(|second| end - second.begins >= least) {
            self.listed.pop_front();
        }
    }

    /// Ticks that stay listed, if not everything does.
    fn least(&self) -> Option<u64> {
        let window = u64::try_from(self.settings.window?.as_nanos()).unwrap_or(0);
        let ticks = u128::from(window) * u128::from(TIMESCALE) / 1_000_000_000;
        Some((ticks as u64).max(3 * self.target * u64::from(TIMESCALE)))
    }
}

/// Ticks in the unit of which `per_second` are a second, rounded to the nearest.
fn rounded(ticks: u64, per_second: u64) -> u64 {
    let scale = u128::from(TIMESCALE);
    ((u128::from(ticks) * u128::from(per_second) + scale / 2) / scale) as u64
}

/// The date, in ms since 1970, of media time `ticks`.
fn after(began: u64, ticks: u64) -> u64 {
    began.saturating_add(rounded(ticks, 1_000))
}

/// Paths of these characters mean the same in both lists, without quotes.
fn check_path(path: &str) -> Result<(), PlaylistError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-._~%".contains(c);
    if path.is_empty() || !path.chars().all(plain) {
        return Err(PlaylistError::Path(path.chars().take(100).collect()));
    }
    Ok(())
}
