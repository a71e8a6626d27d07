//! A delay that covers the path's jitter, and repairs while there are any.
//!
//! What libwebrtc's receiver does, from its source (`jbg/libwebrtc`, a public mirror of
//! `webrtc.googlesource.com/src`):
//!
//! * *A delay above the smallest* (`modules/video_coding/timing/timing.cc` at 1c15e6c2): a frame is shown at
//!   its capture on our clock plus `current_delay_`, which nears a target by at most 100 ms a second
//!   (`kDelayMaxChangeMsPerS`), so that it is played a tenth slower or faster meanwhile. A frame later than
//!   that raises `current_delay_` at once, up to the target: the picture has stood still already.
//! * *Jitter* (`modules/video_coding/timing/jitter_estimator.cc` at 100c4931) is learnt only of frames that
//!   no retransmission held up (`OnFrameReady` in `video/video_stream_buffer_controller.cc` at 1254fa8f),
//!   over 400 frames of 30 a second (`kAlphaCountMax`).
//! * *Repairs*: after three frames that were asked for again (`kNackLimit`), a round trip is added.
//!
//! Where this differs:
//!
//! * `Deviation:` The jitter is a percentile of what was observed, as in libwebrtc's jitter buffer of audio,
//!   not a Kalman filter's line through frame sizes and 2.33 standard deviations less 30 ms: a percentile has
//!   no shape to assume, and 30 ms of freezes allowed are more than a viewer who plays should see. The 10 ms
//!   for an operating system's own jitter are not added.
//! * `Deviation:` A round trip is added while more than 2 % of frames are held up, not for 60 s after the
//!   third: a repair each 20 s is not worth a round trip of delay on every frame. It is measured, not taken
//!   from reports: from the request until the frame was complete.
//! * `Deviation:` A frame that is late is shown, and those held up behind it follow faster than they were
//!   captured, but apart; libwebrtc drops what is more than 5 ms late if a newer frame is there
//!   (`video/frame_decode_timing.cc` at 33b257ec).
//! * `Deviation:` The clock's offset and drift are followed by the window of the samples, not by a fitted
//!   line: all delays are differences between two clocks, and only their differences count.

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

/// No frame waits longer: ITU-T G.114's limit for conversation, after which the sender holds a frame for
/// worthless, too.
const LONGEST: Span = crate::SenderConfig::DEADLINE;
/// Share of frames that are to be ready when their time comes, jitter's and repairs' alike:
/// `kLimitProbability` is 1/20 in `modules/audio_coding/neteq/delay_manager.cc` at 1537bcc6.
const IN_TIME: (usize, usize) = (19, 20);
/// What is older is forgotten: `kAlphaCountMax`, 400 frames, of 30 a second.
const WINDOW: Span = Span::from_millis(400 * 1_000 / 30);
/// What is usual is the median of so many frames' delays, half a second of 30 a second: short enough to
/// follow a queue, which is no jitter; libwebrtc's `timestamp_extrapolator.cc` (at d1c48173) takes a change
/// of delay for lasting after some ten frames, too.
const USUAL: usize = 15;
/// Frames remembered at most: the window at 77 frames a second; of faster streams the last 1024.
const SAMPLES: usize = 1024;
/// Repairs count once there were some in so many different seconds: `kNackLimit`, and seconds instead of
/// frames, because an outage that costs many frames at once is no reason to wait after it.
const REPAIRS: usize = 3;
/// ... and while so many of a hundred frames are held up, by repairs of their own or of those before them:
/// what `at-once` may lose.
const HELD_UP_PERCENT: usize = 2;
/// The delay changes by so many ms each second: `kDelayMaxChangeMsPerS` of
/// `modules/video_coding/timing/timing.h`.
const CHANGE_MS_PER_S: i64 = 100;
/// Frames behind a late one wait no longer than a [`STALL`] to come apart, and follow at most so much faster
/// than they were captured, 3/2: what dash.js's live catch-up allows at most
/// (`streaming.liveCatchup.playbackRate.max` = 0.5).
const CATCH_UP: (i64, i64) = (3, 2);
/// A stall, as everywhere here: nothing new for three intervals, and for so much more than one (W3C
/// webrtc-stats, `freezeCount`).
const STALL: Span = Span::from_millis(150);
/// A frame so far off the current delay is of another clock: `kMaxVideoDelay`, 10 s, of
/// `modules/video_coding/frame_helpers.cc`.
const OTHER_CLOCK: Span = Span::from_secs(10);

/// What a frame says about the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// About its jitter.
    Plain,
    /// About repairs.
    Repaired,
    /// About jitter, by when it was complete: it waited for a frame before it that was repaired.
    HeldUp,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    captured: RemoteTime,
    /// From capture until it was ready, above what was usual then.
    late: Span,
    kind: Kind,
    /// From the request for what was missing until it was complete.
    repair: Option<Span>,
}

/// A delay that follows jitter and repairs.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// No frame waits longer.
    longest: Span,
    /// What delays are counted from: the first frame's.
    origin: Option<RelativeDelay>,
    samples: VecDeque<Sample>,
    /// The last delays of frames that nothing held up, above the origin.
    recent: VecDeque<Span>,
    /// Their median: what is usual.
    usual: Span,
    /// Room to sort in.
    sorted: Vec<Span>,
    /// Repairs are frequent enough to wait for.
    repairing: bool,
    /// When the last repaired frame was ready: what was complete before then waited for it.
    held_up_until: Time,
    /// From capture to display, above the origin: what is usual, followed slowly, ...
    base: Span,
    /// ... and what is added for jitter and repairs.
    margin: Span,
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
            recent: VecDeque::new(),
            usual: Span::ZERO,
            sorted: Vec::new(),
            repairing: false,
            held_up_until: Time::ZERO,
            base: Span::ZERO,
            margin: Span::ZERO,
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
            Some(delay) if (delay - self.base).abs() <= OTHER_CLOCK => delay,
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
        // What waited is as late as it was complete.
        let delay = if waited { delay - (now - arrival.completed) } else { delay };
        if kind != Kind::Repaired {
            if self.recent.len() == USUAL {
                self.recent.pop_front();
            }
            self.recent.push_back(delay);
            self.usual = rank(&mut self.sorted, self.recent.iter().copied(), (1, 2)).unwrap_or(delay);
        }
        while self.samples.front().is_some_and(|old| self.samples.len() >= SAMPLES || now - old.at > WINDOW) {
            self.samples.pop_front();
        }
        let late = delay - self.usual;
        self.samples.push_back(Sample { at: now, captured, late, kind, repair: arrival.repair });
        self.repairing = self.is_repairing();
    }

    /// Whether repairs are frequent enough to wait for: from when they become so until there are none.
    fn is_repairing(&self) -> bool {
        let (mut seconds, mut last, mut held_up) = (0, None, 0);
        for sample in &self.samples {
            let second = sample.at.as_micros() / 1_000_000;
            if sample.kind == Kind::Repaired && last.replace(second) != Some(second) {
                seconds += 1;
            }
            held_up += usize::from(sample.kind != Kind::Plain);
        }
        let frequent = seconds >= REPAIRS && held_up * 100 > HELD_UP_PERCENT * self.samples.len();
        seconds > 0 && (self.repairing || frequent)
    }

    /// How late nearly all are of the frames that were repaired, or of the others. What nobody would wait for
    /// does not count.
    fn lateness(&mut self, repaired: bool) -> Option<Span> {
        let of =
            |sample: &&Sample| (sample.kind == Kind::Repaired) == repaired && sample.late <= self.longest;
        rank(&mut self.sorted, self.samples.iter().filter(of).map(|sample| sample.late), IN_TIME)
    }

    /// Time between captures, on average.
    fn interval(&self) -> Span {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Span::ZERO;
        };
        let mean = (last.captured - first.captured) / (self.samples.len() as i64 - 1).max(1);
        mean.clamp(Span::ZERO, OTHER_CLOCK)
    }

    /// What to add to what is usual.
    fn wanted_margin(&mut self) -> Span {
        let jitter = self.lateness(false).unwrap_or_default();
        let repairs = self.lateness(true).filter(|_| self.repairing).unwrap_or(jitter);
        let trip = rank(&mut self.sorted, self.samples.iter().filter_map(|sample| sample.repair), (1, 2));
        // One repair is waited for, not a second one of the same frame. A frame's last packet is missed only
        // when the next frame's come.
        let one = trip.map_or(repairs, |trip| jitter + self.interval() + REORDER_WAIT + trip);
        repairs.min(one).max(jitter)
    }

    /// From capture to display, above the origin, at present.
    fn current(&self) -> Span {
        (self.base + self.margin).min(self.limit())
    }

    /// The longest delay, above the origin.
    fn limit(&self) -> Span {
        self.recent.iter().copied().min().unwrap_or(self.base) + self.longest
    }

    /// After a stall the delay is what it should be at once: the picture stood still already, and what was
    /// usual before is over.
    fn restart(&mut self, delay: Span) {
        if self.samples.back().is_some_and(|frame| frame.kind == Kind::Plain) {
            self.recent.clear();
            self.recent.push_back(delay);
            self.usual = delay;
        }
        (self.base, self.margin) = (self.usual, self.wanted_margin());
    }

    /// Moves the delay towards what it should be, by a frame captured `step` after the last and ready `delay`
    /// after its capture.
    fn follow(&mut self, delay: Span, step: Span) {
        let wanted = self.wanted_margin();
        let change = step * CHANGE_MS_PER_S / 1_000;
        if self.base - self.usual > STALL {
            // A queue has drained: what was captured meanwhile is old.
            self.base = self.usual;
        }
        let base = self.usual.clamp(self.base - change, self.base + change);
        let left = change - (base - self.base).abs();
        let margin = wanted.clamp(self.margin - left, self.margin + left);
        (self.base, self.margin) = (base, margin);
        // The picture stands still until this frame: it is the moment to wait as long as wanted.
        let late = delay.min(self.usual + wanted) - (base + margin);
        if late > Span::ZERO {
            let raise = (self.usual - base).clamp(Span::ZERO, late);
            self.base += raise;
            self.margin += late - raise;
        }
    }
}

/// The value at a share of `values` by nearest rank; none of none.
fn rank(
    sorted: &mut Vec<Span>,
    values: impl Iterator<Item = Span>,
    (share, of): (usize, usize),
) -> Option<Span> {
    sorted.clear();
    sorted.extend(values);
    let at = (sorted.len() * share).div_ceil(of).checked_sub(1)?;
    Some(*sorted.select_nth_unstable(at).1)
}

impl Playout for Adaptive {
    fn due(&mut self, frame: &Ready) -> Time {
        let delay = self.delay(frame, frame.now);
        self.note(frame, delay);
        let Some((captured, shown)) = self.last else {
            self.base = delay;
            self.last = Some((frame.captured, frame.now));
            return frame.now;
        };
        let step = (frame.captured - captured).clamp(Span::ZERO, OTHER_CLOCK);
        let interval = self.interval();
        let stalled = step.max(frame.now - shown) > (interval * 3).max(interval + STALL);
        let apart = if stalled {
            self.restart(delay);
            frame.now
        } else {
            self.follow(delay, step);
            (shown + step.min(interval) * CATCH_UP.1 / CATCH_UP.0).min(frame.now + STALL)
        };
        let after = |delay_of_display: Span| frame.now + (delay_of_display - delay);
        let due = after(self.current()).max(apart).min(after(self.limit()));
        let due = due.clamp(frame.now, frame.now + self.longest);
        self.last = Some((frame.captured, due));
        due
    }

    fn fresh(&self) -> Box<dyn Playout> {
        Box::new(Adaptive::of(self.longest))
    }
}
