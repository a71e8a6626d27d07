//! A capture's frames that are ready and wait for their time.

use std::cmp::Reverse;
use std::collections::VecDeque;

use units::{Span, Time};

use super::{Playout, Ready};
use crate::display::Shown;

/// Frames waiting at most: half a second of 120 a second. Each holds a picture, 3 MB of it at 1920x1080.
pub const WAITING: usize = 64;

/// A frame that is ready.
#[derive(Debug)]
struct Waiting {
    /// When the policy wants it shown.
    due: Time,
    /// Until when a better coding of it may still come.
    spared_until: Option<Time>,
    shown: Shown,
}

impl Waiting {
    fn due(&self) -> Time {
        self.spared_until.map_or(self.due, |until| until.max(self.due))
    }
}

/// The selector of one capture: it shows what is due, the newest of it, and never an older frame after a
/// newer one. Of a frame that comes by several tracks or in several versions it shows the best that is there
/// when its time has come; a coding that does not come by the first track waits a little for that one's.
#[derive(Debug)]
pub struct Queue {
    policy: Box<dyn Playout>,
    /// In the order of capture.
    waiting: VecDeque<Waiting>,
    /// The newest frame that was shown.
    shown: Option<u32>,
}

impl Queue {
    pub fn new(policy: Box<dyn Playout>) -> Queue {
        Queue { policy, waiting: VecDeque::new(), shown: None }
    }

    /// Takes a frame that is ready, and gives back what will never be shown because of it or of what was
    /// shown before: this coding of the frame or the one that waited. `spare`: how long a better coding may
    /// still come, if one may. The oldest is due at once where there is no room for another.
    pub fn push(&mut self, shown: Shown, ready: &Ready, spare: Option<Span>) -> Option<Shown> {
        if self.shown.is_some_and(|newest| newest >= shown.frame) {
            return Some(shown);
        }
        let spared_until = spare.map(|spare| ready.now + spare);
        let at = self.waiting.partition_point(|waiting| waiting.shown.frame < shown.frame);
        match self.waiting.get_mut(at).filter(|waiting| waiting.shown.frame == shown.frame) {
            Some(waiting) if is_better(&shown, &waiting.shown) => {
                waiting.spared_until = spared_until;
                return Some(std::mem::replace(&mut waiting.shown, shown));
            }
            Some(_) => return Some(shown),
            None => {
                let due = self.policy.due(ready);
                self.waiting.insert(at, Waiting { due, spared_until, shown });
            }
        }
        if self.waiting.len() > WAITING
            && let Some(oldest) = self.waiting.front_mut()
        {
            (oldest.due, oldest.spared_until) = (ready.now, None);
        }
        None
    }

    /// No better coding will come soon: what waits for one waits no longer.
    pub fn spare_no_longer(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.spared_until = None);
    }

    /// The frame to show now, if one is due. Those before it will never be shown; `passed` is called for
    /// each.
    pub fn take(&mut self, now: Time, mut passed: impl FnMut(&Shown)) -> Option<Shown> {
        let at = self.waiting.iter().rposition(|waiting| waiting.due() <= now)?;
        self.waiting.drain(..at).for_each(|waiting| passed(&waiting.shown));
        let shown = self.waiting.pop_front().map(|waiting| waiting.shown)?;
        self.shown = Some(shown.frame);
        Some(shown)
    }

    /// When the next frame is due.
    pub fn next_due(&self) -> Option<Time> {
        self.waiting.iter().map(Waiting::due).min()
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

    #[test]
    fn the_best_that_is_there_in_time_is_shown_and_nothing_older_after_it() {
        let mut queue = Queue::new(Box::new(Fixed { delay: Span::from_millis(50) }));
        let push = |queue: &mut Queue, stream, frame, version| {
            let captured_local = Time::from_millis(u64::from(frame) * 10);
            let (captured, arrival) = (captured_local.on_wire(), Arrival::default());
            let ready = Ready { now: captured_local, captured, captured_local, arrival };
            let (late, concealed, picture) = (false, false, None);
            let shown = Shown { stream, frame, version, captured, late, arrival, concealed, picture };
            queue.push(shown, &ready, None).map(|unseen| (unseen.stream, unseen.frame, unseen.version))
        };
        let unseen = [(16, 1, 0), (16, 2, 0), (0, 1, 0), (16, 1, 0), (0, 3, 0), (0, 2, 1), (0, 2, 0)]
            .into_iter()
            .filter_map(|(stream, frame, version)| push(&mut queue, stream, frame, version));
        assert_eq!(
            unseen.collect::<Vec<_>>(),
            [(16, 1, 0), (16, 1, 0), (16, 2, 0), (0, 2, 0)],
            "each is given back as soon as a better one is there"
        );
        let take = |queue: &mut Queue, ms| {
            queue.take(Time::from_millis(ms), |_| ()).map(|shown| (shown.stream, shown.frame, shown.version))
        };
        assert_eq!(take(&mut queue, 60), Some((0, 1, 0)));
        assert_eq!(take(&mut queue, 70), Some((0, 2, 1)));
        assert_eq!(push(&mut queue, 0, 2, 2), Some((0, 2, 2)));
        assert_eq!(push(&mut queue, 0, 1, 3), Some((0, 1, 3)));
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
                Shown {
                    stream: 0,
                    frame,
                    version: 0,
                    captured,
                    late: false,
                    arrival,
                    concealed: false,
                    picture: None,
                },
                &ready,
                None,
            );
            shown.extend(queue.take(now, |_| ()).map(|shown| shown.frame));
        }
        assert_eq!((shown, queue.len()), (vec![0, 1, 2], WAITING));
    }

    #[test]
    fn a_spare_coding_waits_for_a_better_one_and_no_longer_than_it_may() {
        let mut queue = Queue::new(Box::new(crate::playout::AtOnce));
        let at = Time::from_millis;
        let push = |queue: &mut Queue, stream, frame, ms, spare| {
            let (now, arrival) = (at(ms), Arrival::default());
            let captured = now.on_wire();
            let ready = Ready { now, captured, captured_local: now, arrival };
            let (late, concealed, picture) = (false, false, None);
            let shown = Shown { stream, frame, version: 0, captured, late, arrival, concealed, picture };
            queue.push(shown, &ready, spare);
        };
        let spare = Some(Span::from_millis(16));
        let take =
            |queue: &mut Queue, ms| queue.take(at(ms), |_| ()).map(|shown| (shown.stream, shown.frame));
        push(&mut queue, 16, 1, 100, spare);
        assert_eq!((take(&mut queue, 100), queue.next_due()), (None, Some(at(116))));
        push(&mut queue, 0, 1, 104, None);
        assert_eq!(take(&mut queue, 104), Some((0, 1)), "the better one came");
        push(&mut queue, 16, 2, 116, spare);
        assert_eq!(take(&mut queue, 132), Some((16, 2)), "none came");
        push(&mut queue, 16, 3, 133, spare);
        queue.spare_no_longer();
        assert_eq!(take(&mut queue, 133), Some((16, 3)), "none will come");
    }
}
