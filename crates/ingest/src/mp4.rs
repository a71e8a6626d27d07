//! Coded frames as fragmented MP4 (ISO/IEC 14496-12), and as one file.
//!
//! ```text
//!   Annex B --> AccessUnit --> Sample --> segment()   one CMAF segment; header() goes before the first
//!                                    \--> Movie       one plain file for the whole upload
//! ```
//!
//! Every duration and time is in ticks of 1/90000 s ([`TIMESCALE`]). No frame is reordered, so that a sample
//! is shown when it is decoded.

mod annexb;
mod boxes;
mod movie;
mod read;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use annexb::{AccessUnit, Description};
pub use boxes::{header, segment};
pub use movie::{MOST_SAMPLES, Movie};
pub use read::samples;

/// Ticks in a second, the same in all files and playlists: the one of MPEG systems, whole for 24, 25, 30, 50
/// and 60 frames a second.
pub const TIMESCALE: u32 = 90_000;

/// One coded frame as MP4 has it (ISO/IEC 14496-15 section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// NAL units without parameter sets and delimiters, each behind its length of four bytes.
    pub bytes: Bytes,
    /// Ticks from this frame to the next one, at least 1. Where frames are missing, the frame before them
    /// lasts longer.
    pub duration: u32,
    /// Whether decoding can begin here.
    pub key: bool,
}

/// Why frames do not make an MP4 file.
#[derive(Debug, thiserror::Error)]
pub enum Mp4Error {
    /// The first byte that is not zero does not belong to a start code.
    #[error("the frame does not begin with an H.264 start code (ITU-T H.264 annex B)")]
    NotAnnexB,
    /// Parameter sets alone, or nothing.
    #[error("the frame holds no slice; its {0} bytes are no picture")]
    NoPicture(usize),
    /// `forbidden_zero_bit` is set (ITU-T H.264 section 7.4.1).
    #[error("the frame holds a damaged NAL unit, which begins with {0:#04x}")]
    Damaged(u8),
    /// A sequence or picture parameter set is cut short, out of its range or above 65535 bytes.
    #[error("the {0} parameter set can't be read")]
    ParameterSet(&'static str),
    /// One frame brings parameter sets that contradict each other, or one kind alone.
    #[error("the frame brings {found} {kind} parameter sets; encode with one of each")]
    Sets {
        /// `sequence` or `picture`.
        kind: &'static str,
        /// How many different ones there are.
        found: usize,
    },
    /// A segment of a movie begins with a frame that needs others.
    #[error("sample {0} begins a segment but is no key frame")]
    NoKey(u64),
    /// A sample of no duration, which players count as no frame.
    #[error("sample {0} lasts 0 ticks; a sample lasts at least 1")]
    NoDuration(u64),
    /// More samples than tables are kept for.
    #[error("the movie has {MOST_SAMPLES} samples, 24 h of 60 a second; begin another file")]
    Full,
    /// A movie that ends before its first sample.
    #[error("the movie has no sample; a file needs one")]
    Empty,
    /// A file that should be a segment of ours is none.
    #[error("no segment of ours: {0}")]
    Segment(&'static str),
    /// The file can't be written. What is there by then is no movie.
    #[error("the movie can't be written: {0}")]
    Io(#[from] std::io::Error),
}
