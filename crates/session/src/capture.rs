//! What is filmed: pictures, when they are due, and their numbers.

use std::ops::Range;
use std::sync::Arc;

use media::{RawFrame, Source};
use units::{Span, Time};

use crate::counters::SenderCounters;

/// A source that has no picture yet is asked again so many times an interval.
const AGAIN: i64 = 4;

/// A captured frame.
#[derive(Clone)]
pub struct Raw {
    /// Its capture index.
    pub frame: u32,
    /// Its picture, where there are any.
    pub picture: Option<Arc<RawFrame>>,
    /// When it was captured.
    pub captured: Time,
}

/// A source of frames and its clock.
pub struct Capture {
    /// Among the session's captures.
    pub number: u8,
    /// Positions of its tracks among the sender's.
    pub tracks: Range<usize>,
    /// Time between frames.
    pub interval: Span,
    source: Option<Box<dyn Source>>,
    next_frame: u32,
    next_capture: Option<Time>,
    paused: bool,
    /// The source had no picture when the next frame was due.
    starved: bool,
    ended: bool,
}

impl Capture {
    /// Captures from the first wake-up on, a frame an `interval`.
    pub fn new(number: u8, tracks: Range<usize>, source: Option<Box<dyn Source>>, interval: Span) -> Capture {
        Capture {
            number,
            tracks,
            interval,
            source,
            next_frame: 0,
            next_capture: Some(Time::ZERO),
            paused: false,
            starved: false,
            ended: false,
        }
    }

    /// When the next frame is captured, if one will be.
    pub fn next_at(&self) -> Option<Time> {
        self.next_capture.filter(|_| !self.paused)
    }

    /// The next frame's capture index.
    pub fn next_frame(&self) -> u32 {
        self.next_frame
    }

    /// There will be no further frame.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Captures nothing, or goes on. The clip waits meanwhile, and the frame after a pause follows the one
    /// before it.
    pub fn set_paused(&mut self, now: Time, paused: bool) {
        if self.paused && !paused {
            self.next_capture = self.next_capture.map(|_| now);
        }
        self.paused = paused;
    }

    /// Captures nothing more.
    pub fn end(&mut self) {
        self.next_capture = None;
        self.ended = true;
    }

    /// Whether a frame is to be captured now. Where it is, but the source has no picture yet, it is asked
    /// again a little later. An archive is also asked later where the encoders are not `open`: what they
    /// leave out of a camera is past, but an archive has it still.
    pub fn is_due(&mut self, now: Time, open: bool, counters: &mut SenderCounters) -> bool {
        if self.next_at().is_none_or(|at| at > now) {
            return false;
        }
        let of_before = self.source.as_ref().is_some_and(|source| source.captured().is_some());
        let starved = self.source.as_mut().is_some_and(|source| !source.is_ready());
        if starved || of_before && !open {
            counters.starved += u64::from(starved && !of_before && !self.starved && self.next_frame > 0);
            self.next_capture = Some(now + self.interval / AGAIN);
        }
        self.starved = starved;
        !starved && (open || !of_before)
    }

    /// Captures a frame, or ends with its source. The next one comes an interval and `wander` later (arXiv
    /// 2207.11857 section 5.2: a random walk, so that flows do not stay aligned).
    pub fn take(&mut self, now: Time, wander: Span) -> Option<Raw> {
        let scheduled = self.next_capture.unwrap_or(now);
        // A driver that woke us a little late must not slow the clip down; one that was away for long starts
        // afresh.
        let start = if now - scheduled > self.interval { now } else { scheduled };
        self.next_capture = Some(start + (self.interval + wander).max(Span::from_micros(100)));
        let picture = match &mut self.source {
            Some(source) => match source.next_picture() {
                Some(picture) => Some(picture),
                None => {
                    self.end();
                    return None;
                }
            },
            None => None,
        };
        let frame = self.next_frame;
        self.next_frame += 1;
        let captured = self.source.as_ref().and_then(|source| source.captured()).unwrap_or(now);
        Some(Raw { frame, picture, captured })
    }
}
