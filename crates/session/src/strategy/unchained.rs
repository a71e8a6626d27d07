//! While something may be lost, no frame builds on the one before it; nothing is sent again.
//!
//! ```text
//!   key-frame    0 K <- 1 <- 2 x 3 <- 4    5 K    6 K    7 K <- 8
//!   prism-ltr    0 K <- 1 <- 2 x 3 <- 4    5, 6 and 7 each from 1, which has arrived; 8 from 7
//! ```
//!
//! A recovery policy of a call (`key-frames`, `newest-acked`) answers a loss with one such frame, on which
//! the next one builds, so that a second loss costs another round trip. Here each stands alone until one of
//! them has arrived, and 50 ms have passed. Alarms are those of [`Prism`](super::Prism).

use predict::Watch;
use units::Time;
use wire::Class;

use super::alarms::{Alarms, Until};
use super::{Base, News, Order, Strategy, View};
use crate::recovery::{self, Missing, Repair};
use crate::schedule::{self, Pick, Schedule};

/// One track without repairs.
pub struct Unchained {
    alarms: Alarms,
    base: Base,
}

impl Unchained {
    /// Key frames, each of the size of any frame (thesis section 4.2: I-frame recovery).
    pub fn key_frames(watch: Option<Watch>) -> Unchained {
        Unchained { alarms: Alarms::new(Until::Any, watch), base: Base::Nothing }
    }

    /// Frames that are predicted from the newest one that is known to have arrived.
    ///
    /// Deviation: not in the thesis, whose two streams share the rate. A frame that is predicted from what
    /// has arrived is as safe as a key frame and nearly as good as any other, so that there is nothing to
    /// split.
    pub fn from_acked(watch: Option<Watch>) -> Unchained {
        Unchained { base: Base::Acked, ..Unchained::key_frames(watch) }
    }
}

impl Strategy for Unchained {
    fn tracks(&self, _: u8) -> &'static [Class] {
        // Not one-shot: a receiver that can't go on asks for a key frame.
        &[Class::Deadline]
    }
    fn hear(&mut self, now: Time, news: &News) {
        self.alarms.hear(now, news);
    }
    fn order(&mut self, view: &View<'_>, orders: &mut [Order]) {
        if self.alarms.advance(view).is_some() {
            let largest_key = Some(view.plan.bitrate.bytes_in(view.interval));
            orders[0] = Order { base: self.base, largest_key, ..orders[0] };
        }
    }
    fn repair(&mut self, _: &recovery::View, _: &Missing) -> Repair {
        Repair::Leave
    }
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        schedule::Live.pick(view)
    }
    fn refers_back(&self) -> bool {
        self.base == Base::Acked
    }
    fn take_watch(&mut self) -> Option<Watch> {
        self.alarms.take_watch()
    }
    fn mode(&self) -> &'static str {
        self.alarms.mode()
    }
}
