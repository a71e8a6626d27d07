//! What an endpoint that was killed needs to go on with a stream: a small file beside the playlists, written
//! before each of them.
//!
//! What is listed is read out of the playlists themselves, for those are what players have seen. The journal
//! says what these do not: where media time begins, what samples are decoded with, and which frames the
//! segments show that later classes have not listed yet. It is read as bytes from outside.

use serde::{Deserialize, Serialize};
use units::{Rate, RemoteTime, Span};

use crate::Settings;
use crate::class::Tally;
use crate::mp4::Description;
use crate::store::Seen;

/// The journal's name, beside the playlists.
pub const JOURNAL: &str = "journal.json";
/// Another layout has another number.
pub const VERSION: u32 = 1;
/// Segments are numbered below this: 4 years of half a second each.
pub const MOST_SEGMENTS: u32 = 1 << 28;
/// Variations of a segment that one life of an endpoint may make: more than there are classes.
const VARIATIONS: u32 = 10;
/// Lives that are counted; who was killed more often begins another stream.
const LIVES: u32 = 1_000_000;
/// Frames of a class, versions of a frame, and samples of a picture that are believed: years of 60 Hz, one
/// version for each look at it, and more than level 5.2 has (ITU-T H.264 table A-1).
const MOST_FRAMES: usize = 1 << 31;
const MOST_AGAIN: u32 = 1 << 20;
const MOST_SAMPLES: usize = 1 << 24;
/// The date of the newest segment and the journal's own may differ by this: what a clock may be set by, and
/// what a picture may leap ahead.
const APART: Span = Span::from_secs(2 * 3_600);
/// A journal may be from the future by this: what a machine's date may have been set back by.
const AHEAD: Span = Span::from_secs(60);

/// Why a stream is not gone on with. Each prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// The journal is no journal, or says what can't be.
    #[error("its journal can't be used: {0}")]
    Journal(String),
    /// It had ended.
    #[error("it has ended")]
    Ended,
    /// It was cut off too long ago.
    #[error("it was cut off {0} ago, and an uploader may stay away for {1}")]
    Old(Span, Span),
    /// The endpoint was started with other settings.
    #[error("it was begun with {0}")]
    Other(String),
    /// A playlist is not as the journal and the settings have it.
    #[error("{0} is not as this endpoint writes it")]
    Playlist(String),
    /// The encoder is another, so that players could not decode what it makes.
    #[error("the encoder codes otherwise than the one before: {0}")]
    Encoder(String),
    /// Files can't be read at present.
    #[error("{0}")]
    Unreachable(String),
}

/// The stream as it was when the journal was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    pub version: u32,
    /// Unix time in ms when it was written.
    pub saved_ms: i64,
    pub ended: bool,
    /// How often an endpoint has gone on with the stream.
    pub lives: u32,
    /// The capture of the first frame, by the uploader's clock.
    pub origin_ns: i64,
    /// Unix time of media time zero: as the playlists have it, and as the last frames say.
    pub began_ms: Option<u64>,
    pub zero_ms: i64,
    pub newest_ns: i64,
    pub segment_ns: i64,
    pub encoder: Opened,
    pub most_bps: u64,
    pub classes: Vec<Past>,
    pub made: Vec<Listed>,
}

/// What the encoder was opened with, and the parameter sets that it brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    interval_ns: i64,
    bps: u64,
    sps: Vec<u8>,
    pps: Vec<u8>,
}

impl Opened {
    pub fn new(interval: Span, rate: Rate, of: &Description) -> Opened {
        let (sps, pps) = (of.sps.to_vec(), of.pps.to_vec());
        Opened { interval_ns: interval.as_nanos(), bps: rate.as_bps(), sps, pps }
    }
    pub fn interval(&self) -> Span {
        Span::from_nanos(self.interval_ns)
    }
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.bps)
    }
    pub fn description(&self) -> Result<Description, ResumeError> {
        let description = Description::new(&self.sps, &self.pps)
            .map_err(|error| ResumeError::Journal(error.to_string()))?;
        if usize::from(description.width) * usize::from(description.height) > MOST_SAMPLES {
            return Err(ResumeError::Journal("its pictures are absurd".to_owned()));
        }
        Ok(description)
    }
}

/// A class: what became of frames whose segments are not in its history any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    pub name: String,
    frames: usize,
    arrived: usize,
    repaired: usize,
}

impl Past {
    pub fn new(name: &str, gone: &Tally) -> Past {
        let &Tally { frames, arrived, repaired, .. } = gone;
        Past { name: name.to_owned(), frames, arrived, repaired }
    }
    fn is_plausible(&self) -> bool {
        let &Past { frames, arrived, repaired, .. } = self;
        frames <= MOST_FRAMES && arrived <= frames && repaired <= frames - arrived
    }
    pub fn gone(&self) -> Tally {
        let &Past { frames, arrived, repaired, .. } = self;
        Tally { frames, arrived, repaired, ..Tally::default() }
    }
}

/// A segment that later classes may still list, or make better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub number: u32,
    pub variation: u32,
    /// The picture before it that it shows at first, and the frames in it.
    held: Option<(i64, u32)>,
    seen: Vec<(i64, u32)>,
}

impl Listed {
    pub fn new(number: u32, variation: u32, held: Option<Seen>, seen: &[Seen]) -> Listed {
        let plain = |&(time, again): &Seen| (time.as_nanos(), again);
        let (held, seen) = (held.as_ref().map(plain), seen.iter().map(plain).collect());
        Listed { number, variation, held, seen }
    }
    pub fn held(&self) -> Option<Seen> {
        self.held.map(|(time, again)| (Span::from_nanos(time), again))
    }
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.iter().map(|&(time, again)| (Span::from_nanos(time), again)).collect()
    }
    pub fn path(&self) -> String {
        path(self.number, self.variation)
    }
}

/// Where a segment's file is, beside the playlists.
pub fn path(number: u32, variation: u32) -> String {
    format!("s/{number:06}-{variation}.m4s")
}

/// The first variation that a life of an endpoint makes of a segment: none that one before may have made,
/// listed or not.
pub fn first_variation(lives: u32) -> u32 {
    lives * VARIATIONS + 1
}

impl Journal {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and names are JSON")
    }

    /// Reads a journal, to go on at `unix_ms` with a stream that was cut off no longer than `patience` ago.
    pub fn read(
        bytes: &[u8],
        settings: &Settings,
        unix_ms: i64,
        patience: Span,
    ) -> Result<Journal, ResumeError> {
        let journal: Journal = serde_json::from_slice(bytes)
            .map_err(|error| ResumeError::Journal(error.to_string().chars().take(100).collect()))?;
        journal.judge(settings, unix_ms, patience)?;
        Ok(journal)
    }

    fn judge(&self, settings: &Settings, unix_ms: i64, patience: Span) -> Result<(), ResumeError> {
        let wrong = |what: &str| Err(ResumeError::Journal(what.to_owned()));
        if self.version != VERSION {
            return wrong("it is of another version");
        }
        if self.ended {
            return Err(ResumeError::Ended);
        }
        let age = span_ms(unix_ms.saturating_sub(self.saved_ms));
        if age < Span::ZERO - AHEAD {
            return wrong("it is from the future");
        }
        if age > patience {
            return Err(ResumeError::Old(age, patience));
        }
        self.judge_settings(settings)?;
        let ends = span_ms(self.zero_ms) + self.newest();
        if self.newest_ns < 0 || (ends - span_ms(self.saved_ms)).abs() > APART {
            return wrong("its clock and its frames don't go together");
        }
        let plausible = (1_000_000..=10_000_000_000).contains(&self.encoder.interval_ns)
            && (1..=1_000_000_000).contains(&self.encoder.bps);
        if self.lives >= LIVES || !plausible || !self.classes.iter().all(Past::is_plausible) {
            return wrong("its numbers are absurd");
        }
        let fine = |listed: &Listed| {
            let begins = settings.segment * i64::from(listed.number);
            let within = begins.as_nanos()..(begins + settings.segment).as_nanos();
            let rising = listed.seen.windows(2).all(|pair| pair[0].0 < pair[1].0);
            listed.number < MOST_SEGMENTS
                && listed.variation < first_variation(self.lives + 1)
                && rising
                && listed.seen.iter().all(|(time, again)| within.contains(time) && *again < MOST_AGAIN)
        };
        let rising = self.made.windows(2).all(|pair| pair[0].number < pair[1].number);
        if rising && self.made.iter().all(fine) { Ok(()) } else { wrong("its segments are absurd") }
    }

    fn judge_settings(&self, settings: &Settings) -> Result<(), ResumeError> {
        if self.segment_ns != settings.segment.as_nanos() {
            let segment = Span::from_nanos(self.segment_ns);
            return Err(ResumeError::Other(format!("segments of {segment}")));
        }
        let names = |names: &mut dyn Iterator<Item = &String>| -> String {
            names.take(9).map(|name| name.chars().take(20).collect()).collect::<Vec<String>>().join(", ")
        };
        let mut ours = settings.classes.iter().map(|class| &class.name);
        let theirs = names(&mut self.classes.iter().map(|class| &class.name));
        if names(&mut ours) != theirs || self.classes.len() != settings.classes.len() {
            return Err(ResumeError::Other(format!("the delays {theirs}")));
        }
        Ok(())
    }

    pub fn origin(&self) -> RemoteTime {
        RemoteTime::from_nanos(self.origin_ns)
    }
    pub fn newest(&self) -> Span {
        Span::from_nanos(self.newest_ns)
    }
    pub fn most(&self) -> Rate {
        Rate::from_bps(self.most_bps.min(1 << 40))
    }
}

/// Milliseconds of a date, or between two, held within what a span has.
pub fn span_ms(ms: i64) -> Span {
    Span::from_millis(ms.clamp(-MOST_MS, MOST_MS))
}

/// The year 2200 and what is before 1970 by as much; more is no date, and would not fit.
const MOST_MS: i64 = 7_258_118_400_000;
