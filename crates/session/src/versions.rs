//! What has arrived of each frame, and when: for those who watch later.

use std::cmp::Reverse;
use std::collections::VecDeque;

use units::{Span, Time};
use wire::FrameId;

/// Codings of one frame that are remembered at most: more than a strategy sends, and few enough that a sender
/// can't make a receiver remember without end.
const CODINGS: usize = 16;

/// One coding of a frame that could be shown from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The stream it came by.
    pub stream: u8,
    /// Which frame, and which version of it.
    pub id: FrameId,
    /// From when on it could be shown, on the receiver's clock: it had arrived and was decoded.
    pub ready: Time,
    /// Some of the picture is made up, or predicted from such a picture.
    pub concealed: bool,
}

impl Version {
    /// Larger is better: whole before concealed, then the later version, then the track that the strategy
    /// named first.
    fn worth(&self) -> (bool, u8, Reverse<u8>) {
        (!self.concealed, self.id.version, Reverse(self.stream))
    }
}

#[derive(Clone, Debug)]
struct Frame {
    number: u32,
    captured: Time,
    /// In the order in which they became ready.
    codings: Vec<Version>,
}

/// The codings that arrived of one capture's newest frames, each with the time from which it could be shown:
/// who watches `delay` after the capture sees the best of those that were there by then
/// ([`seen_at`](Versions::seen_at)). It holds no pictures.
///
/// ```
/// use framewire_session::{Version, Versions};
/// use units::{Span, Time};
/// use wire::FrameId;
///
/// let mut versions = Versions::new(900); // half a minute of 30 a second
/// let captured = Time::from_secs(1);
/// let arrived = |version, ms| Version {
///     stream: 0,
///     id: FrameId { frame: 7, version },
///     ready: Time::from_millis(ms),
///     concealed: false,
/// };
/// versions.insert(captured, arrived(0, 1_080));
/// versions.insert(captured, arrived(1, 4_000)); // a better one, later
///
/// let version = |delay| versions.seen_at(7, delay).map(|seen| seen.id.version);
/// assert_eq!(version(Span::from_millis(50)), None);
/// assert_eq!(version(Span::from_millis(100)), Some(0));
/// assert_eq!(version(Span::from_secs(30)), Some(1));
/// ```
#[derive(Clone, Debug)]
pub struct Versions {
    most: usize,
    /// By number.
    frames: VecDeque<Frame>,
    /// Codings that came for a frame that is no longer remembered, or has too many.
    refused: u64,
}

impl Versions {
    /// Remembers the newest `most` frames, 1 or more.
    pub fn new(most: usize) -> Versions {
        Versions { most: most.max(1), frames: VecDeque::new(), refused: 0 }
    }

    /// A coding of a frame captured at `captured`, on the receiver's clock, is ready. It is refused if the
    /// frame is older than all that are remembered, or has its 16 codings.
    pub fn insert(&mut self, captured: Time, version: Version) {
        let number = version.id.frame;
        let at = self.frames.partition_point(|frame| frame.number < number);
        let known = self.frames.get(at).is_some_and(|frame| frame.number == number);
        if !known {
            let full = self.frames.len() == self.most;
            if full && at == 0 {
                self.refused += 1;
                return;
            }
            self.frames.insert(at, Frame { number, captured, codings: Vec::new() });
            if full {
                self.frames.pop_front();
            }
        }
        // What was pushed out was older, so the frame stands where it was looked for, or one before.
        let Some(frame) = self.frames.iter_mut().rev().find(|frame| frame.number == number) else { return };
        if frame.codings.len() == CODINGS {
            self.refused += 1;
        } else {
            frame.codings.push(version);
        }
    }

    fn get(&self, frame: u32) -> Option<&Frame> {
        let at = self.frames.binary_search_by_key(&frame, |known| known.number).ok()?;
        self.frames.get(at)
    }

    /// The numbers of the frames that are remembered, oldest first.
    pub fn frames(&self) -> impl Iterator<Item = u32> + '_ {
        self.frames.iter().map(|frame| frame.number)
    }

    /// When a frame was captured, on the receiver's clock, as far as that was known when its first coding
    /// came.
    pub fn captured(&self, frame: u32) -> Option<Time> {
        self.get(frame).map(|frame| frame.captured)
    }

    /// All codings of a frame, in the order in which they became ready.
    pub fn of(&self, frame: u32) -> &[Version] {
        self.get(frame).map_or(&[], |frame| &frame.codings)
    }

    /// What somebody sees who watches a frame `delay` after its capture: the best coding that was ready by
    /// then.
    pub fn seen_at(&self, frame: u32, delay: Span) -> Option<&Version> {
        let frame = self.get(frame)?;
        let due = frame.captured + delay;
        frame.codings.iter().filter(|version| version.ready <= due).max_by_key(|version| version.worth())
    }

    /// Codings that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    prop_compose! {
        fn arrival()(frame in 0u32..60, version in 0u8..4, stream in 0u8..2, ms in 0u64..400, concealed: bool)
            -> Version
        {
            Version { stream: stream * 16, id: FrameId { frame, version }, ready: Time::from_millis(ms), concealed }
        }
    }

    proptest! {
        /// Against a map of everything: of the newest frames nothing is forgotten, and nobody sees what
        /// comes later, or less than the best.
        #[test]
        fn the_newest_frames_are_all_there(
            arrivals in prop::collection::vec(arrival(), 1..200), most in 1usize..40, delay in 0i64..400
        ) {
            let mut versions = Versions::new(most);
            let mut all: BTreeMap<u32, Vec<Version>> = BTreeMap::new();
            for version in &arrivals {
                versions.insert(Time::ZERO, *version);
                all.entry(version.id.frame).or_default().push(*version);
            }
            prop_assert!(versions.frames.len() <= most);
            prop_assert!(versions.frames.iter().all(|frame| frame.codings.len() <= CODINGS));
            let kept: u64 = versions.frames.iter().map(|frame| frame.codings.len() as u64).sum();
            prop_assert!(kept + versions.refused() <= arrivals.len() as u64);
            prop_assert!(versions.frames().is_sorted());
            // The newest frame can be pushed out by none.
            let (newest, of_it) = all.last_key_value().unwrap();
            prop_assert_eq!(versions.of(*newest), &of_it[..of_it.len().min(CODINGS)]);
            for frame in versions.frames() {
                let due = Time::ZERO + Span::from_millis(delay);
                let there = versions.of(frame).iter().filter(|version| version.ready <= due);
                let best = there.map(Version::worth).max();
                prop_assert_eq!(versions.seen_at(frame, Span::from_millis(delay)).map(Version::worth), best);
            }
        }
    }

    #[test]
    fn a_frame_that_is_forgotten_stays_so() {
        let mut versions = Versions::new(2);
        let coding = |frame| Version {
            stream: 0,
            id: FrameId { frame, version: 0 },
            ready: Time::ZERO,
            concealed: false,
        };
        [5, 6, 7, 5].into_iter().for_each(|frame| versions.insert(Time::ZERO, coding(frame)));
        assert_eq!((versions.frames().collect::<Vec<_>>(), versions.refused()), (vec![6, 7], 1));
        assert!(versions.of(5).is_empty());
        assert_eq!(versions.captured(6), Some(Time::ZERO));
    }
}
