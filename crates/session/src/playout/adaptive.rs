//! A delay that covers the path's jitter, and repairs while there are any.
//!
//! What libwebrtc's receiver does, from its source (`jbg/libwebrtc`, a public mirror of `webrtc.googlesource.com/src`):
//!
//! * *A delay above the smallest* (`modules/video_coding/timing/timing.cc` at 1c15e6c2): a frame is shown at its capture on our clock
//!   plus `current_delay_`, which nears a target by at most 100 ms a second (`kDelayMaxChangeMsPerS`), so that it is played a tenth slower or
//!   faster meanwhile. A frame later than that raises `current_delay_` at once, up to the target: the picture has stood still already.
//! * *Jitter* (`modules/video_coding/timing/jitter_estimator.cc` at 100c4931) is learnt only of frames that no retransmission held up
//!   (`OnFrameReady` in `video/video_stream_buffer_controller.cc` at 1254fa8f), over 400 frames of 30 a second (`kAlphaCountMax`).
//! * *Repairs*: after three frames that were asked for again (`kNackLimit`), a round trip is added.
//!
//! Where this differs:
//!
//! * `Deviation:` The jitter is a percentile of what was observed, as in libwebrtc's jitter buffer of audio, not a Kalman filter's
//!   line through frame sizes and 2.33 standard deviations less 30 ms: a percentile has no shape to assume, and 30 ms of freezes
//!   allowed are more than a viewer who plays should see. The 10 ms for an operating system's own jitter are not added.
//! * `Deviation:` A round trip is added while more than 2 % of frames are held up, not for 60 s after the third: a repair each 20 s is
//!   not worth a round trip of delay on every frame. It is measured, not taken from reports: from the request until the
//!   frame was complete, and as a percentile of how late repaired frames were.
//! * `Deviation:` A frame that is late is shown, and those held up behind it follow faster than they were captured, but apart;
//!   libwebrtc drops what is more than 5 ms late if a newer frame is there (`video/frame_decode_timing.cc` at 33b257ec).
//! * `Deviation:` The clock's offset and drift are followed by the window of the samples, not by a fitted line: all delays are
//!   differences between two clocks, and only their differences count.

use std::collections::VecDeque;

use cc::{OptionError, Options};
use units::{RelativeDelay, RemoteTime, Span, Time};

use super::{Entry, Playout, Ready};
use crate::receiver::REORDER_WAIT;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "adaptive",
    summary: "follows the path: covers its jitter, and a repair's round trip while packets are lost; frames come evenly",
    options: &[("max", "the longest that a frame waits for its time (400ms); up to 5s")],
    build: |options| Ok(Box::new(Adaptive::build(options)?)),
};

/// No frame waits longer: ITU-T G.114's limit for conversation, after which the sender holds a frame for worthless, too.
const LONGEST: Span = crate::SenderConfig::DEADLINE;
/// Share of frames that are to be ready when their time comes, jitter's and repairs' alike: `kLimitProbability` is 1/20 in
/// `modules/audio_coding/neteq/delay_manager.cc` at 1537bcc6.
const IN_TIME: (usize, usize) = (19, 20);
/// What is older is forgotten: `kAlphaCountMax`, 400 frames, of 30 a second.
const WINDOW: Span = Span::from_millis(400 * 1_000 / 30);
/// Frames remembered at most: the window at 77 frames a second; of faster streams the last 1024.
const SAMPLES: usize = 1024;
/// So many repaired frames before repairs count: `kNackLimit`.
const REPAIRS: usize = 3;
/// ... and so many of a hundred frames held up, by repairs of their own or of those before them: what `at-once` may lose.
const HELD_UP_PERCENT: usize = 2;
/// The delay changes by so many ms each second: `kDelayMaxChangeMsPerS` of `modules/video_coding/timing/timing.h`.
const CHANGE_MS_PER_S: i64 = 100;
/// Frames behind a late one follow at most so much faster than they were captured, 3/2: what dash.js's live catch-up allows at most
/// (`streaming.liveCatchup.playbackRate.max` = 0.5).
const CATCH_UP: (i64, i64) = (3, 2);
/// A frame so far off the current delay is of another clock: `kMaxVideoDelay`, 10 s, of `modules/video_coding/frame_helpers.cc`.
const OTHER_CLOCK: Span = Span::from_secs(10);

/// What a frame says about the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// About its jitter.
    Plain,
    /// About repairs.
    Repaired,
    /// Nothing: it waited for a frame before it that was repaired.
    HeldUp,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    captured: RemoteTime,
    /// From capture until it was ready, above the origin.
    delay: Span,
    kind: Kind,
}

/// A request's round trip until the frame is complete, smoothed as RFC 6298 section 2 does.
#[derive(Clone, Copy, Debug, Default)]
struct Trip {
    smoothed: Option<(Span, Span)>,
}

impl Trip {
    fn insert(&mut self, sample: Span) {
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, variation)) => ((mean * 7 + sample) / 8, (variation * 3 + (mean - sample).abs()) / 4),
        });
    }

    /// What nearly every round trip stays below.
    fn most(&self) -> Option<Span> {
        self.smoothed.map(|(mean, variation)| mean + variation * 4)
    }
}

/// A delay that follows jitter and repairs.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// No frame waits longer.
    longest: Span,
    /// What delays are counted from: the first frame's.
    origin: Option<RelativeDelay>,
    samples: VecDeque<Sample>,
    /// Room to sort them in.
    sorted: Vec<Span>,
    trip: Trip,
    /// Repairs are frequent enough to wait for.
    repairing: bool,
    /// When the last repaired frame was ready: what was complete before then waited for it.
    held_up_until: Time,
    /// From capture to display, above the origin.
    current: Span,
    /// The last frame's capture and the time it was given.
    last: Option<(RemoteTime, Time)>,
}

impl Default for Adaptive {
    /// No frame waits longer than 400 ms.
    fn default() -> Adaptive {
        Adaptive::of(LONGEST)
    }
}

impl Adaptive {
    fn of(longest: Span) -> Adaptive {
        Adaptive {
            longest,
            origin: None,
            samples: VecDeque::new(),
            sorted: Vec::new(),
            trip: Trip::default(),
            repairing: false,
            held_up_until: Time::ZERO,
            current: Span::ZERO,
            last: None,
        }
    }

    fn build(options: &Options) -> Result<Adaptive, OptionError> {
        let expected = "a time from 0ms to 5s, such as 400ms";
        let longest = options.quantity("max", LONGEST, expected)?;
        if longest > Span::from_secs(5) {
            return Err(options.refuse("max", expected.to_owned()));
        }
        Ok(Adaptive::of(longest))
    }

    /// From the frame's capture until `at`, above the origin. A frame of another clock starts anew.
    fn delay(&mut self, frame: &Ready, at: Time) -> Span {
        let delay = RelativeDelay::between(frame.captured, at);
        match self.origin.map(|origin| delay - origin) {
            Some(delay) if (delay - self.current).abs() <= OTHER_CLOCK => delay,
            _ => {
                *self = Adaptive { origin: Some(delay), ..Adaptive::of(self.longest) };
                Span::ZERO
            }
        }
    }

    fn note(&mut self, frame: &Ready, delay: Span) {
        let Ready { now, captured, arrival, .. } = *frame;
        let waited = arrival.completed < self.held_up_until;
        let kind = match (arrival.repaired, waited) {
            (true, _) => Kind::Repaired,
            (false, true) => Kind::HeldUp,
            (false, false) => Kind::Plain,
        };
        if arrival.repaired {
            self.held_up_until = now;
        }
        if let Some(trip) = arrival.repair {
            self.trip.insert(trip);
        }
        // A repair that waited for another one is as late as it was complete.
        let delay = if arrival.repaired && waited { delay - (now - arrival.completed) } else { delay };
        while self.samples.front().is_some_and(|old| self.samples.len() >= SAMPLES || now - old.at > WINDOW) {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at: now, captured, delay, kind });
        let of = |kind| self.samples.iter().filter(|sample| sample.kind == kind).count();
        let repaired = of(Kind::Repaired);
        let held_up = (repaired + of(Kind::HeldUp)) * 100 > HELD_UP_PERCENT * self.samples.len();
        self.repairing = repaired > 0 && (self.repairing || repaired >= REPAIRS && held_up);
    }

    /// What [`IN_TIME`] of the samples of a kind stay within, by nearest rank.
    fn percentile(&mut self, kind: Kind) -> Option<Span> {
        self.sorted.clear();
        self.sorted
            .extend(self.samples.iter().filter(|sample| sample.kind == kind).map(|sample| sample.delay));
        let rank = (self.sorted.len() * IN_TIME.0).div_ceil(IN_TIME.1).checked_sub(1)?;
        Some(*self.sorted.select_nth_unstable(rank).1)
    }

    /// Time between captures, on average.
    fn interval(&self) -> Span {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Span::ZERO;
        };
        (last.captured - first.captured) / (self.samples.len() as i64 - 1).max(1)
    }

    /// The delay to have, above the origin.
    fn target(&mut self) -> Span {
        let jitter = self.percentile(Kind::Plain).unwrap_or(self.current);
        let repairs = self.percentile(Kind::Repaired).filter(|_| self.repairing);
        let Some(repairs) = repairs else { return jitter };
        // One repair is waited for, not a second one of the same frame. A frame's last packet is missed only when the next frame's come.
        let one = self.trip.most().map(|trip| jitter + self.interval() + REORDER_WAIT + trip);
        jitter.max(one.map_or(repairs, |one| repairs.min(one)))
    }

    /// The smallest delay of late, above the origin.
    fn least(&self) -> Span {
        self.samples.iter().map(|sample| sample.delay).min().unwrap_or(self.current)
    }

    /// Moves the current delay towards the target, of which a frame `step` after the last was `delay` late.
    fn follow(&mut self, delay: Span, step: Span) {
        let target = self.target().min(self.least() + self.longest);
        let change = step * CHANGE_MS_PER_S / 1_000;
        let near = target.clamp(self.current - change, self.current + change);
        self.current = near.max(delay.min(target));
    }
}

impl Playout for Adaptive {
    fn due(&mut self, frame: &Ready) -> Time {
        let delay = self.delay(frame, frame.now);
        self.note(frame, delay);
        let Some((captured, shown)) = self.last else {
            self.current = delay;
            self.last = Some((frame.captured, frame.now));
            return frame.now;
        };
        let step = (frame.captured - captured).clamp(Span::ZERO, OTHER_CLOCK);
        self.follow(delay, step);
        let apart = shown + step * CATCH_UP.1 / CATCH_UP.0;
        let wanted = frame.now + (self.current - delay);
        let latest = frame.now + (self.least() + self.longest - delay).clamp(Span::ZERO, self.longest);
        let due = wanted.max(apart).min(latest).max(frame.now);
        self.last = Some((frame.captured, due));
        due
    }

    fn fresh(&self) -> Box<dyn Playout> {
        Box::new(Adaptive::of(self.longest))
    }
}
