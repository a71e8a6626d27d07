//! Whether a server keeps what it promised to players: two successive states of one HLS playlist compared
//! (RFC 8216 section 6.2).

#[cfg(test)]
mod tests;

use std::fmt;

/// Which of the two playlists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The earlier one.
    Before,
    /// The later one.
    After,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == State::Before { "before" } else { "after" })
    }
}

/// What is wrong, and on which line; lines count from 1, and are of the later playlist where nothing else is
/// said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// This is no media playlist.
    #[error("{state}, line {line}: {what}")]
    Text {
        /// Which text.
        state: State,
        /// Where in it.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// `EXT-X-MEDIA-SEQUENCE` fell (section 6.2.2).
    #[error("line {line}: the media sequence went back from {before} to {after}")]
    SequenceBack {
        /// Of the tag, or the last one where there is none.
        line: usize,
        /// The number before.
        before: u64,
        /// The number after.
        after: u64,
    },
    /// `EXT-X-TARGETDURATION` is another (section 6.2.1).
    #[error("line {line}: the target duration was {before} s and is {after} s")]
    Target {
        /// Of the tag.
        line: usize,
        /// Seconds before.
        before: u64,
        /// Seconds after.
        after: u64,
    },
    /// A segment's duration rounds above the target duration (section 4.3.3.1).
    #[error("line {line}: segment {number} lasts {nanos} ns, above the target duration of {target} s")]
    TooLong {
        /// Of the URI.
        line: usize,
        /// Its media sequence number.
        number: u64,
        /// Its duration.
        nanos: u64,
        /// The target duration in seconds.
        target: u64,
    },
    /// A listed segment is another than it was (section 6.2.1).
    #[error("line {line}: the {what} of segment {number} was {before} and is {after}")]
    Changed {
        /// Of the URI.
        line: usize,
        /// The segment's media sequence number.
        number: u64,
        /// `URI`, `duration in ns`, `header` or `date`.
        what: &'static str,
        /// What it was.
        before: String,
        /// What it is.
        after: String,
    },
    /// Segments went although less than three target durations are left (section 6.2.2).
    #[error(
        "line {line}: segments were removed, and {nanos} ns are left; three target durations are {least} s"
    )]
    RemovedEarly {
        /// Of `EXT-X-MEDIA-SEQUENCE`.
        line: usize,
        /// How much is listed.
        nanos: u64,
        /// Three target durations, in seconds.
        least: u64,
    },
    /// Segments went from a playlist that keeps them all (section 4.3.3.5).
    #[error("line {line}: {count} segments were removed from a playlist of type {kind}")]
    RemovedForever {
        /// Of `EXT-X-MEDIA-SEQUENCE`.
        line: usize,
        /// How many.
        count: u64,
        /// `EVENT` or `VOD`.
        kind: String,
    },
    /// A segment went from the end of the list, or from within (section 6.2.2).
    #[error("line {line}: segment {number} was listed and is not, but what is before it stays")]
    Lost {
        /// The last one of the playlist.
        line: usize,
        /// The segment's media sequence number.
        number: u64,
    },
    /// `EXT-X-ENDLIST` went away.
    #[error("line {line}: the playlist had ended at line {before} and goes on")]
    EndGone {
        /// The last one of the playlist.
        line: usize,
        /// Of the tag, in the earlier playlist.
        before: usize,
    },
    /// A segment came after `EXT-X-ENDLIST` (section 4.3.3.4).
    #[error("line {line}: segment {number} was added after the playlist's end")]
    AddedAfterEnd {
        /// Of the URI.
        line: usize,
        /// Its media sequence number.
        number: u64,
    },
}

/// Compares a media playlist with itself at some later time; there may have been other states in between.
/// Both texts are from outside: none makes it panic, and memory taken is in proportion to them.
///
/// # Errors
/// The first breach of RFC 8216 section 6.2 that is found, or why a text is no media playlist.
///
/// ```
/// use framewire_ingest::playlist::{Broken, check};
///
/// let before = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n0-0.m4s\n";
/// let after = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n0-1.m4s\n#EXTINF:2,\n1-0.m4s\n";
/// let broken = check(before, after).unwrap_err();
/// assert!(matches!(broken, Broken::Changed { line: 4, number: 0, what: "URI", .. }), "{broken}");
/// ```
pub fn check(before: &str, after: &str) -> Result<(), Broken> {
    let (before, after) = (Listing::read(before, State::Before)?, Listing::read(after, State::After)?);
    same_target(&before, &after)?;
    nothing_too_long(&after)?;
    let Some(gone) = after.sequence.checked_sub(before.sequence) else {
        let (line, before, after) = (after.sequence_line, before.sequence, after.sequence);
        return Err(Broken::SequenceBack { line, before, after });
    };
    let gone = usize::try_from(gone).unwrap_or(usize::MAX).min(before.segments.len());
    nothing_changed(&before.segments[gone..], &after)?;
    removed_in_time(gone, &before, &after)?;
    stays_ended(&before, &after)
}

fn same_target(before: &Listing<'_>, after: &Listing<'_>) -> Result<(), Broken> {
    if before.target != after.target {
        let (line, before, after) = (after.target_line, before.target, after.target);
        return Err(Broken::Target { line, before, after });
    }
    Ok(())
}

fn nothing_too_long(after: &Listing<'_>) -> Result<(), Broken> {
    let target = after.target;
    let long = |listed: &&Listed<'_>| (listed.nanos + SECOND / 2) / SECOND > target;
    match after.segments.iter().find(long) {
        Some(&Listed { line, number, nanos, .. }) => Err(Broken::TooLong { line, number, nanos, target }),
        None => Ok(()),
    }
}

/// What of `kept` is still to be listed is there as it was.
fn nothing_changed(kept: &[Listed<'_>], after: &Listing<'_>) -> Result<(), Broken> {
    for (index, before) in kept.iter().enumerate() {
        let Some(now) = after.segments.get(index) else {
            return Err(Broken::Lost { line: after.last_line, number: before.number });
        };
        let told = |text: Option<&str>| text.map_or("none".to_owned(), clipped);
        let nanos = |listed: &Listed<'_>| listed.nanos.to_string();
        let changed = if now.uri != before.uri {
            ("URI", clipped(before.uri), clipped(now.uri))
        } else if now.nanos != before.nanos {
            ("duration in ns", nanos(before), nanos(now))
        } else if now.header != before.header {
            ("header", told(before.header), told(now.header))
        } else if now.date.is_some() && before.date.is_some() && now.date != before.date {
            // A date may move to a later segment when the one that had it goes.
            ("date", told(before.date), told(now.date))
        } else {
            continue;
        };
        let ((what, before, after), line, number) = (changed, now.line, now.number);
        return Err(Broken::Changed { line, number, what, before, after });
    }
    Ok(())
}

/// The first `gone` segments of before are not listed anymore.
fn removed_in_time(gone: usize, before: &Listing<'_>, after: &Listing<'_>) -> Result<(), Broken> {
    if gone == 0 {
        return Ok(());
    }
    let line = after.sequence_line;
    if let Some(kind) = before.kind {
        return Err(Broken::RemovedForever { line, count: gone as u64, kind: clipped(kind) });
    }
    let nanos = after.segments.iter().fold(0, |sum: u64, listed| sum.saturating_add(listed.nanos));
    let least = after.target.saturating_mul(3);
    // Rounded to microseconds each, durations may add up to a little less than they are.
    let rounding = after.segments.len() as u64 * 1_000;
    if after.end.is_none() && nanos.saturating_add(rounding) < least.saturating_mul(SECOND) {
        return Err(Broken::RemovedEarly { line, nanos, least });
    }
    Ok(())
}

fn stays_ended(before: &Listing<'_>, after: &Listing<'_>) -> Result<(), Broken> {
    let Some(end) = before.end else { return Ok(()) };
    let next = before.sequence + before.segments.len() as u64;
    if let Some(&Listed { line, number, .. }) = after.segments.iter().find(|listed| listed.number >= next) {
        return Err(Broken::AddedAfterEnd { line, number });
    }
    if after.end.is_none() {
        return Err(Broken::EndGone { line: after.last_line, before: end });
    }
    Ok(())
}

/// Enough of a text for one line about it.
fn clipped(text: &str) -> String {
    text.chars().take(100).collect()
}

const SECOND: u64 = 1_000_000_000;

/// One segment of a playlist.
struct Listed<'a> {
    /// Of its URI.
    line: usize,
    number: u64,
    uri: &'a str,
    nanos: u64,
    /// The attributes of the `EXT-X-MAP` that it needs.
    header: Option<&'a str>,
    date: Option<&'a str>,
}

/// A media playlist, as far as it is compared.
struct Listing<'a> {
    target: u64,
    target_line: usize,
    sequence: u64,
    sequence_line: usize,
    /// `EVENT` or `VOD`: nothing is removed.
    kind: Option<&'a str>,
    /// The line of `EXT-X-ENDLIST`.
    end: Option<usize>,
    segments: Vec<Listed<'a>>,
    last_line: usize,
}

impl<'a> Listing<'a> {
    fn read(text: &'a str, state: State) -> Result<Listing<'a>, Broken> {
        let mut reader = Reader::default();
        let mut last = 0;
        for (line, content) in (1..).zip(text.lines()) {
            last = line;
            reader.line(line, content).map_err(|what| Broken::Text { state, line, what })?;
        }
        reader.finish(last).map_err(|what| Broken::Text { state, line: last.max(1), what })
    }
}

/// A playlist that is read line by line.
#[derive(Default)]
struct Reader<'a> {
    target: Option<(u64, usize)>,
    sequence: Option<(u64, usize)>,
    kind: Option<&'a str>,
    end: Option<usize>,
    segments: Vec<Listed<'a>>,
    /// What was said of the segment that follows.
    nanos: Option<u64>,
    date: Option<&'a str>,
    /// Said of all that follow.
    header: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: usize, content: &'a str) -> Result<(), &'static str> {
        if line == 1 {
            return if content == "#EXTM3U" { Ok(()) } else { Err("a playlist begins with #EXTM3U") };
        }
        if content.is_empty() {
            return Ok(());
        }
        if !content.starts_with('#') {
            return self.uri(line, content);
        }
        let (tag, value) = content.split_once(':').unwrap_or((content, ""));
        self.tag(line, tag, value)
    }

    fn tag(&mut self, line: usize, tag: &str, value: &'a str) -> Result<(), &'static str> {
        match tag {
            "#EXT-X-TARGETDURATION" => {
                let seconds = number(value).ok_or("EXT-X-TARGETDURATION is no whole number of seconds")?;
                once(&mut self.target, (seconds, line), "EXT-X-TARGETDURATION is there twice")
            }
            "#EXT-X-MEDIA-SEQUENCE" if !self.segments.is_empty() => {
                Err("EXT-X-MEDIA-SEQUENCE comes after the first segment")
            }
            "#EXT-X-MEDIA-SEQUENCE" => {
                let first = number(value).ok_or("EXT-X-MEDIA-SEQUENCE is no whole number below 2^63")?;
                once(&mut self.sequence, (first, line), "EXT-X-MEDIA-SEQUENCE is there twice")
            }
            "#EXT-X-PLAYLIST-TYPE" if !["EVENT", "VOD"].contains(&value) => {
                Err("EXT-X-PLAYLIST-TYPE is neither EVENT nor VOD")
            }
            "#EXT-X-PLAYLIST-TYPE" => once(&mut self.kind, value, "EXT-X-PLAYLIST-TYPE is there twice"),
            "#EXT-X-ENDLIST" => once(&mut self.end, line, "EXT-X-ENDLIST is there twice"),
            "#EXTINF" => {
                let duration = value.split(',').next().unwrap_or_default();
                let nanos = nanos(duration).ok_or("EXTINF is no decimal number of seconds")?;
                once(&mut self.nanos, nanos, "EXTINF follows EXTINF without a URI")
            }
            "#EXT-X-PROGRAM-DATE-TIME" => {
                self.date = Some(value);
                Ok(())
            }
            "#EXT-X-MAP" => {
                self.header = Some(value);
                Ok(())
            }
            "#EXT-X-STREAM-INF" => Err("a master playlist lists no segments; compare those it names"),
            _ => Ok(()),
        }
    }

    fn uri(&mut self, line: usize, uri: &'a str) -> Result<(), &'static str> {
        let nanos = self.nanos.take().ok_or("a URI follows no EXTINF")?;
        let number = self.sequence.map_or(0, |(first, _)| first) + self.segments.len() as u64;
        let (date, header) = (self.date.take(), self.header);
        self.segments.push(Listed { line, number, uri, nanos, header, date });
        Ok(())
    }

    fn finish(self, last_line: usize) -> Result<Listing<'a>, &'static str> {
        if last_line == 0 {
            return Err("a playlist begins with #EXTM3U");
        }
        if self.nanos.is_some() {
            return Err("EXTINF is followed by no URI");
        }
        let (target, target_line) = self.target.ok_or("EXT-X-TARGETDURATION is missing")?;
        let (sequence, sequence_line) = self.sequence.unwrap_or((0, last_line));
        let Reader { kind, end, segments, .. } = self;
        Ok(Listing { target, target_line, sequence, sequence_line, kind, end, segments, last_line })
    }
}

fn once<T>(place: &mut Option<T>, value: T, twice: &'static str) -> Result<(), &'static str> {
    if place.replace(value).is_some() { Err(twice) } else { Ok(()) }
}

/// A decimal integer (section 4.2); half the range is left for adding to it.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= u64::MAX / 2)
}

/// Decimal seconds, at most 2^32 of them, in nanoseconds; what is below is cut off.
fn nanos(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole = number(whole).filter(|seconds| *seconds <= 1 << 32)?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().map(|byte| u64::from(byte - b'0')).chain(std::iter::repeat(0));
    Some(digits.take(9).fold(whole, |nanos, digit| nanos * 10 + digit))
}
