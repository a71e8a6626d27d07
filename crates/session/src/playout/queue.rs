//! One stream's frames that are ready and wait for their time.

use std::collections::VecDeque;

use units::Time;

use super::{Playout, Ready};
use crate::display::Shown;

/// Frames waiting at most: half a second of 120 a second. Each holds a picture, 3 MB of it at 1920x1080.
pub const WAITING: usize = 64;

/// The selector of one stream: it shows what is due, the newest of it, and never an older frame after a newer
/// one.
#[derive(Debug)]
pub struct Queue {
    policy: Box<dyn Playout>,
    /// In the order of capture.
    waiting: VecDeque<(Time, Shown)>,
    /// The newest frame that was taken in.
    newest: Option<u32>,
}

impl Queue {
    pub fn new(policy: Box<dyn Playout>) -> Queue {
        Queue { policy, waiting: VecDeque::new(), newest: None }
    }

    /// Takes a frame that is ready. The oldest is due at once where there is no room for another.
    pub fn push(&mut self, shown: Shown, ready: &Ready) {
        if self.newest.is_some_and(|newest| newest >= shown.frame) {
            return;
        }
        self.newest = Some(shown.frame);
        let due = self.policy.due(ready);
        self.waiting.push_back((due, shown));
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
        self.waiting.pop_front().map(|(_, shown)| shown)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playout::{Arrival, Fixed};
    use units::Span;

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
