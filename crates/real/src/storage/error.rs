//! Why something is not stored, or can't be read back.

use std::io;
use std::time::Duration;

/// Why a place can't be opened, or a file not be taken or read. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// What names the place is neither a folder nor something that is spoken here.
    #[error("`{place}` is no place for files: {why}; give a folder or s3://BUCKET/PREFIX")]
    Place {
        /// As it was given.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The folder can't be made or opened.
    #[error("{place}: {source}")]
    Folder {
        /// Its path, as it was given.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// A path that is no file's here.
    #[error(
        "`{0}` is no name for a stored file: its parts are of letters, digits, `-`, `_` and `.`, begin with no \
         dot, and the last ends in m3u8, mpd, mp4, m4s or json"
    )]
    Name(String),
    /// More waits than may: the file is not taken and must not be listed.
    #[error("{path} is not stored: {waiting} bytes wait for storage already, of at most {limit}")]
    Full {
        /// The path it was put under.
        path: String,
        /// Bytes that wait.
        waiting: u64,
        /// Bytes that may.
        limit: u64,
    },
    /// The place did not answer, or not with the file.
    #[error("{path} can't be read: {why}")]
    Unreachable {
        /// The path it was put under.
        path: String,
        /// What it said, in one line.
        why: String,
    },
    /// Longer than fits into memory.
    #[error("{path} has {length} bytes, more than the {limit} that are read at once")]
    Long {
        /// The path it was put under.
        path: String,
        /// How many bytes it has.
        length: u64,
        /// Bytes that are read at once.
        limit: u64,
    },
    /// Not all is stored.
    #[error(
        "{files} files of {bytes} bytes are not stored after {}, the first is {first}{}",
        seconds(.patience),
        .why.as_ref().map_or_else(String::new, |why| format!(": {why}"))
    )]
    Unstored {
        /// Files that wait.
        files: u64,
        /// How many bytes these have.
        bytes: u64,
        /// One of those that have waited longest.
        first: String,
        /// How long was waited.
        patience: Duration,
        /// The last failure, if storing fails now.
        why: Option<String>,
    },
}

pub(super) fn seconds(time: &Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The longest text of others in an error: stores answer with documents.
const MOST: usize = 300;

/// An error of others in one line.
pub(super) fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let words: Vec<_> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{} ...", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_line() {
        let error = io::Error::other("<Error>\r\n\t<Code>Slow\0Down</Code>\u{85}\n</Error>");
        assert_eq!(one_line(&error), "<Error> <Code>Slow Down</Code> </Error>");
        let long = one_line(&io::Error::other("\u{e9}".repeat(2 * MOST)));
        assert_eq!(long.chars().count(), MOST + 4);
    }
}
