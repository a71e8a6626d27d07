//! When something may be lost, and when that is over: what strategies with a mode for it have in common.

use std::collections::BTreeSet;

use units::{Rate, Span, Time};

use super::{News, View};
use crate::chain;

/// Thesis section 4.5.4.2: each alarm is answered for at least so long.
pub const SHORTEST: Span = Span::from_millis(50);

/// When a recovery is over, besides [`SHORTEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All of the first track up to a frame coded after the alarm has arrived: it is repaired.
    Whole,
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
    /// The frame that was captured last when the newest alarm came.
    alarm: u32,
    /// It lasts until then at least.
    until: Time,
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
}

impl Progress {
    fn has_come_to(&self, until: Until, alarm: u32) -> bool {
        match (until, self.missing.first()) {
            (Until::Any, _) => self.arrived.is_some_and(|arrived| arrived > alarm),
            (Until::Whole, None) => true,
            (Until::Whole, Some(&first)) => {
                first > alarm + 1 && self.newest.is_some_and(|newest| newest > alarm)
            }
        }
    }
}

/// NORMAL or RECOVERY (thesis section 4.5.1), by what a strategy hears.
#[derive(Clone, Debug)]
pub struct Alarms {
    until: Until,
    progress: Progress,
    recovery: Option<Recovery>,
    /// An alarm that the next captured frame answers.
    raised: Option<Time>,
    /// The rate of the last frame outside a recovery.
    rate: Rate,
    /// The frame captured last.
    captured: u32,
}

impl Alarms {
    /// NORMAL, with recoveries that last for 50 ms and `until` this.
    pub fn new(until: Until) -> Alarms {
        let (progress, rate) = (Progress::default(), Rate::ZERO);
        Alarms { until, progress, recovery: None, raised: None, rate, captured: 0 }
    }

    /// Takes notice of what happens to the first track, and of every sign of a loss.
    pub fn hear(&mut self, now: Time, news: &News) {
        match *news {
            News::Coded { stream, id } if chain::track_of(stream) == 0 => {
                self.progress.missing.insert(id.frame);
                self.progress.newest = Some(id.frame);
            }
            News::Acked { stream, id, complete: true } if chain::track_of(stream) == 0 => {
                self.progress.missing.remove(&id.frame);
                self.progress.arrived = self.progress.arrived.max(Some(id.frame));
                self.forget(id.frame);
            }
            News::Lost { id, .. } | News::Asked { id, .. } if self.matters(id.frame) => self.raise(now),
            News::Suspected => self.raise(now),
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
        self.until == Until::Whole || self.progress.arrived.is_none_or(|arrived| arrived < frame)
    }

    /// Something may be lost: the next frame is coded for it, and those for 50 ms.
    fn raise(&mut self, now: Time) {
        self.raised = Some(now);
        if let Some(recovery) = &mut self.recovery {
            (recovery.alarm, recovery.until) = (self.captured, now + SHORTEST);
        }
    }

    /// A frame was captured: the recovery that it belongs to.
    pub fn advance(&mut self, view: &View<'_>) -> Option<Recovery> {
        let now = view.now;
        let has_come = |recovery: &Recovery| self.progress.has_come_to(self.until, recovery.alarm);
        if self.recovery.as_ref().is_some_and(|recovery| now >= recovery.until && has_come(recovery)) {
            self.recovery = None;
        }
        if let Some(raised) = self.raised.take()
            && self.recovery.is_none()
        {
            let (before, alarm) = (self.rate, self.captured);
            self.recovery = Some(Recovery { before, place: 0, alarm, until: raised + SHORTEST });
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
