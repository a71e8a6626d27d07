//! When something may be lost, and when that is over: what strategies with a mode for it have in common.

use std::collections::BTreeSet;

use predict::Watch;
use units::{Rate, Span, Time};

use super::{News, View};
use crate::chain;

/// Thesis section 4.5.4.2: each alarm is answered for at least so long.
pub const SHORTEST: Span = Span::from_millis(50);

/// A decoder of which nothing is known decodes so many frames in an interval (ours: slow for hardware, fast
/// for software).
const DECODES: i64 = 3;

/// When a recovery is over, besides [`SHORTEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All of the first track up to a frame coded after the alarm has arrived, and its decoder, which takes
    /// `decode` for a frame (a third of an interval if that is not known), will have caught up when the next
    /// one arrives: it is repaired.
    Whole {
        /// Time that the receiver's decoder takes for a frame.
        decode: Option<Span>,
    },
    /// A frame coded after the alarm has arrived: it builds on nothing that was lost.
    Any,
}

/// A recovery under way.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// The rate before it.
    pub before: Rate,
    /// Frames captured since it began, the present one not counted.
    pub place: usize,
    /// Nothing but a predictor has asked for it so far.
    pub foretold: bool,
    /// The frame that was captured last when the newest alarm came.
    alarm: u32,
    /// It lasts until then at least.
    until: Time,
}

/// A sign of a loss.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    at: Time,
    /// A predictor's, without any other.
    foretold: bool,
}

/// What is known of the capture's first track.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Frames that were coded and are not known to have arrived whole.
    missing: BTreeSet<u32>,
    /// The newest frame that was coded.
    newest: Option<u32>,
    /// The newest frame that has arrived whole.
    arrived: Option<u32>,
    /// Frames that have arrived whole behind one that has not.
    held: BTreeSet<u32>,
    /// When the receiver will have decoded what it can, on the sender's clock and as late as the sender hears
    /// of it.
    decoded_at: Time,
}

impl Progress {
    /// A frame has arrived whole, of which each takes the receiver `decode`.
    fn complete(&mut self, now: Time, frame: u32, decode: Span) {
        self.arrived = self.arrived.max(Some(frame));
        if !self.missing.remove(&frame) {
            return;
        }
        self.held.insert(frame);
        let still_held = self.missing.first().map_or_else(BTreeSet::new, |first| self.held.split_off(first));
        let ready = std::mem::replace(&mut self.held, still_held).len();
        if ready > 0 {
            self.decoded_at = self.decoded_at.max(now) + decode * ready as i64;
        }
    }

    /// All up to a frame coded after `alarm` has arrived.
    fn is_whole_beyond(&self, alarm: u32) -> bool {
        match self.missing.first() {
            None => true,
            Some(&first) => first > alarm + 1 && self.newest.is_some_and(|newest| newest > alarm),
        }
    }

    /// A frame that leaves now finds no more than one frame before it in the decoder: both it and the news of
    /// what was decoded take part of a round trip, in which what is on its way is decoded too.
    ///
    /// Deviation: the thesis' receiver says when it has recovered. Ours acknowledges packets and says nothing
    /// of its decoder, so that the sender reckons.
    fn is_caught_up(&self, view: &View<'_>, decode: Span) -> bool {
        self.decoded_at + decode * self.missing.len() as i64 <= view.now + view.srtt + decode
    }
}

/// NORMAL or RECOVERY (thesis section 4.5.1), by what a strategy hears.
pub struct Alarms {
    until: Until,
    /// Foresees losses, until the sender takes it.
    watch: Option<Watch>,
    progress: Progress,
    /// Time that the receiver's decoder takes for a frame.
    decode: Span,
    recovery: Option<Recovery>,
    /// An alarm that the next captured frame answers.
    raised: Option<Alarm>,
    /// The rate of the last frame outside a recovery.
    rate: Rate,
    /// The frame captured last.
    captured: u32,
}

impl Alarms {
    /// NORMAL, with recoveries that last for 50 ms and `until` this, and begin before a loss where `watch`
    /// foresees it.
    pub fn new(until: Until, watch: Option<Watch>) -> Alarms {
        let (progress, decode, rate) = (Progress::default(), Span::ZERO, Rate::ZERO);
        Alarms { until, watch, progress, decode, recovery: None, raised: None, rate, captured: 0 }
    }

    /// As [`Strategy::take_watch`](super::Strategy::take_watch).
    pub fn take_watch(&mut self) -> Option<Watch> {
        self.watch.take()
    }

    /// Takes notice of what happens to the first track, and of every sign of a loss.
    pub fn hear(&mut self, now: Time, news: &News) {
        match *news {
            News::Coded { stream, id, .. } if chain::track_of(stream) == 0 => {
                self.progress.missing.insert(id.frame);
                self.progress.newest = Some(id.frame);
            }
            News::Acked { stream, id, complete: true } if chain::track_of(stream) == 0 => {
                self.progress.complete(now, id.frame, self.decode);
                self.forget(id.frame);
            }
            News::Lost { id, .. } | News::Asked { id, .. } if self.matters(id.frame) => {
                self.raise(now, false)
            }
            News::Suspected => self.raise(now, false),
            News::Foretold => self.raise(now, true),
            _ => {}
        }
    }

    /// What was coded before a frame that builds on nothing that was lost is no longer waited for.
    fn forget(&mut self, frame: u32) {
        if self.until == Until::Any {
            self.progress.missing = self.progress.missing.split_off(&frame);
        }
    }

    /// Whether a loss in a frame harms what comes.
    fn matters(&self, frame: u32) -> bool {
        self.until != Until::Any || self.progress.arrived.is_none_or(|arrived| arrived < frame)
    }

    /// Something may be lost: the next frame is coded for it, and those for 50 ms.
    fn raise(&mut self, now: Time, foretold: bool) {
        let foretold = foretold && self.raised.is_none_or(|alarm| alarm.foretold);
        self.raised = Some(Alarm { at: now, foretold });
        if let Some(recovery) = &mut self.recovery {
            (recovery.alarm, recovery.until) = (self.captured, now + SHORTEST);
            recovery.foretold &= foretold;
        }
    }

    /// What was lost when `alarm` was the newest frame does no harm any more.
    fn is_over(&self, view: &View<'_>, alarm: u32) -> bool {
        let progress = &self.progress;
        match self.until {
            Until::Any => progress.arrived.is_some_and(|arrived| arrived > alarm),
            Until::Whole { .. } => {
                progress.is_whole_beyond(alarm) && progress.is_caught_up(view, self.decode)
            }
        }
    }

    /// A frame was captured: the recovery that it belongs to.
    pub fn advance(&mut self, view: &View<'_>) -> Option<Recovery> {
        if let Until::Whole { decode } = self.until {
            self.decode = decode.unwrap_or(view.interval / DECODES);
        }
        if self
            .recovery
            .is_some_and(|recovery| view.now >= recovery.until && self.is_over(view, recovery.alarm))
        {
            self.recovery = None;
        }
        if let Some(raised) = self.raised.take()
            && self.recovery.is_none()
        {
            let (before, alarm, foretold) = (self.rate, self.captured, raised.foretold);
            self.recovery = Some(Recovery { before, place: 0, foretold, alarm, until: raised.at + SHORTEST });
        }
        self.captured = view.frame;
        let Some(recovery) = &mut self.recovery else {
            self.rate = view.plan.bitrate;
            return None;
        };
        let answered = *recovery;
        recovery.place += 1;
        Some(answered)
    }

    /// `normal` or `recovery`.
    pub fn mode(&self) -> &'static str {
        if self.recovery.is_some() { "recovery" } else { "normal" }
    }
}
