//! A capture's frames that are ready and wait for their time.

use std::cmp::Reverse;
use std::collections::VecDeque;

use units::Time;

use super::{Playout, Ready};
use crate::display::Shown;

/// Frames waiting at most: half a second of 120 a second. Each holds a picture, 3 MB of it at 1920x1080.
pub const WAITING: usize = 64;

/// The selector of one capture: it shows what is due, the newest of it, and never an older frame after a
/// newer one. Of a frame that comes by several tracks or in several versions it shows the best that is there
/// when its time has come.
#[derive(Debug)]
pub struct Queue {
    policy: Box<dyn Playout>,
    /// In the order of capture.
    waiting: VecDeque<(Time, Shown)>,
    /// The newest frame that was shown.
    shown: Option<u32>,
}

impl Queue {
    pub fn new(policy: Box<dyn Playout>) -> Queue {
        Queue { policy, waiting: VecDeque::new(), shown: None }
    }

    /// Takes a frame that is ready. The oldest is due at once where there is no room for another.
    pub fn push(&mut self, shown: Shown, ready: &Ready) {
        if self.shown.is_some_and(|newest| newest >= shown.frame) {
            return;
        }
        let at = self.waiting.partition_point(|(_, waiting)| waiting.frame < shown.frame);
        match self.waiting.get_mut(at).filter(|(_, waiting)| waiting.frame == shown.frame) {
            Some((_, waiting)) if is_better(&shown, waiting) => *waiting = shown,
            Some(_) => {}
            None => {
                let due = self.policy.due(ready);
                self.waiting.insert(at, (due, shown));
            }
        }
        if self.waiting.len() > WAITING
            && let Some((due, _)) = self.waiting.front_mut()
        {
            *due = ready.now;
        }
    }

    /// The frame to show now, if one is due. Those before it will never be shown; `passed` is called for
    /// each.
    pub fn take(&mut self, now: Time, mut passed: impl FnMut(&Shown)) -> Option<Shown> {
        let at = self.waiting.iter().rposition(|(due, _)| *due <= now)?;
        self.waiting.drain(..at).for_each(|(_, shown)| passed(&shown));
        let shown = self.waiting.pop_front().map(|(_, shown)| shown)?;
        self.shown = Some(shown.frame);
        Some(shown)
    }

    /// When the next frame is due.
    pub fn next_due(&self) -> Option<Time> {
        self.waiting.iter().map(|(due, _)| *due).min()
    }

    /// How many frames wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Whether a frame is worth more than another coding of the same: a later version is, and then a track that
/// the strategy named before the other.
fn is_better(one: &Shown, other: &Shown) -> bool {
    (one.version, Reverse(one.stream)) > (other.version, Reverse(other.stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playout::{Arrival, Fixed};
    use units::Span;

    #[test]
    fn the_best_that_is_there_in_time_is_shown_and_nothing_older_after_it() {
        let mut queue = Queue::new(Box::new(Fixed { delay: Span::from_millis(50) }));
        let push = |queue: &mut Queue, stream, frame, version| {
            let captured_local = Time::from_millis(u64::from(frame) * 10);
            let (captured, arrival) = (captured_local.on_wire(), Arrival::default());
            let ready = Ready { now: captured_local, captured, captured_local, arrival };
            queue.push(
                Shown { stream, frame, version, captured, late: false, arrival, picture: None },
                &ready,
            );
        };
        [(16, 1, 0), (16, 2, 0), (0, 1, 0), (16, 1, 0), (0, 3, 0), (0, 2, 1), (0, 2, 0)]
            .into_iter()
            .for_each(|(stream, frame, version)| push(&mut queue, stream, frame, version));
        let take = |queue: &mut Queue, ms| {
            queue.take(Time::from_millis(ms), |_| ()).map(|shown| (shown.stream, shown.frame, shown.version))
        };
        assert_eq!(take(&mut queue, 60), Some((0, 1, 0)));
        assert_eq!(take(&mut queue, 70), Some((0, 2, 1)));
        push(&mut queue, 0, 2, 2);
        push(&mut queue, 0, 1, 3);
        assert_eq!(take(&mut queue, 200), Some((0, 3, 0)), "what is older than a shown frame is not shown");
        assert_eq!(take(&mut queue, 300), None);
    }

    #[test]
    fn a_full_queue_shows_its_oldest_and_drops_none_unseen() {
        let mut queue = Queue::new(Box::new(Fixed { delay: Span::from_secs(10) }));
        let mut shown = Vec::new();
        for frame in 0..WAITING as u32 + 3 {
            let now = Time::from_millis(u64::from(frame) * 10);
            let (captured, arrival) = (now.on_wire(), Arrival::default());
            let ready = Ready { now, captured, captured_local: now, arrival };
            queue.push(
                Shown { stream: 0, frame, version: 0, captured, late: false, arrival, picture: None },
                &ready,
            );
            shown.extend(queue.take(now, |_| ()).map(|shown| shown.frame));
        }
        assert_eq!((shown, queue.len()), (vec![0, 1, 2], WAITING));
    }
}
