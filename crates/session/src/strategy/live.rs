//! One track, whose losses a recovery policy answers: what a call does.

use super::Strategy;
use crate::recovery::{self, Missing, Recovery, Repair, Retransmit};
use crate::schedule::{self, Pick, Schedule};

/// A recovery policy and a schedule.
pub struct Live {
    /// What each loss is answered with.
    pub recovery: Box<dyn Recovery>,
    /// What leaves first.
    pub schedule: Box<dyn Schedule>,
}

impl Default for Live {
    /// Retransmission under a deadline, repairs first.
    fn default() -> Live {
        Live::with(Box::new(Retransmit))
    }
}

impl Live {
    /// Under this recovery policy, repairs first.
    pub fn with(recovery: Box<dyn Recovery>) -> Live {
        Live { recovery, schedule: Box::new(schedule::Live) }
    }
}

impl Strategy for Live {
    fn repair(&mut self, view: &recovery::View, missing: &Missing) -> Repair {
        self.recovery.repair(view, missing)
    }
    #[inline]
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        self.schedule.pick(view)
    }
    fn refers_back(&self) -> bool {
        self.recovery.refers_back()
    }
}
