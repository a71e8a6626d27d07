//! How good versions of frames are, as their uploader says.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The SSIM of a version of a frame, which may become known after the version has arrived, or never.
#[derive(Clone, Debug, Default)]
pub struct Rating(Arc<OnceLock<f64>>);

impl Rating {
    /// SSIM against what was captured, 0 to 1; `None` while it is not known.
    pub fn ssim(&self) -> Option<f64> {
        self.0.get().copied()
    }

    /// It becomes known. What is said again changes nothing.
    fn set(&self, ssim: f64) {
        let _ = self.0.set(ssim);
    }
}

/// What a frame is known by at its sender: its stream, and its number there.
pub type Number = (u8, u32);

/// Half of a pair.
#[derive(Debug)]
enum Waiting {
    Frame(Rating),
    Ssim(f64),
}

/// Frames or SSIMs whose other half has not come at most: over half a minute of two streams at 60 Hz, which
/// is more than a reliable stream and datagrams on one path are apart.
const MOST: usize = 4096;

/// Brings frames of one sender together with what it says of them, whichever comes first.
///
/// ```
/// use framewire_ingest::Ratings;
///
/// let mut ratings = Ratings::default();
/// let rating = ratings.arrived((0, 7));
/// assert_eq!(rating.ssim(), None);
/// ratings.said((0, 7), 0.97);
/// assert_eq!(rating.ssim(), Some(0.97));
/// ```
#[derive(Debug, Default)]
pub struct Ratings {
    /// With the order in which they came.
    waiting: BTreeMap<Number, (u64, Waiting)>,
    oldest: BTreeMap<u64, Number>,
    next: u64,
    dropped: u64,
}

impl Ratings {
    /// A version of a frame has arrived.
    pub fn arrived(&mut self, frame: Number) -> Rating {
        let rating = Rating::default();
        match self.take(frame) {
            Some(Waiting::Ssim(ssim)) => rating.set(ssim),
            _ => self.wait(frame, Waiting::Frame(rating.clone())),
        }
        rating
    }

    /// The sender says how good a frame is.
    pub fn said(&mut self, frame: Number, ssim: f64) {
        match self.take(frame) {
            Some(Waiting::Frame(rating)) => rating.set(ssim),
            _ => self.wait(frame, Waiting::Ssim(ssim)),
        }
    }

    /// SSIMs that were dropped because too many waited for their frames.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn take(&mut self, frame: Number) -> Option<Waiting> {
        let (at, waiting) = self.waiting.remove(&frame)?;
        self.oldest.remove(&at);
        Some(waiting)
    }

    fn wait(&mut self, frame: Number, waiting: Waiting) {
        self.waiting.insert(frame, (self.next, waiting));
        self.oldest.insert(self.next, frame);
        self.next += 1;
        if self.waiting.len() > MOST
            && let Some((_, frame)) = self.oldest.pop_first()
            && let Some((_, Waiting::Ssim(_))) = self.waiting.remove(&frame)
        {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Frames and SSIMs in any order, some of either lost: whoever has both has the right one.
        #[test]
        fn a_frame_gets_its_own_ssim_whatever_the_order(
            order in Just(Vec::from_iter(0..200u32)).prop_shuffle(),
            lost in proptest::collection::vec(prop::bool::weighted(0.1), 200),
        ) {
            let mut ratings = Ratings::default();
            let mut have: BTreeMap<Number, Rating> = BTreeMap::new();
            let ssim_of = |(stream, frame): Number| (f64::from(frame) + f64::from(stream) * 0.5) / 100.0;
            let lost_of = |half: u32| lost[half as usize];
            for half in order.iter().copied().filter(|half| !lost_of(*half)) {
                let number = ((half / 100) as u8, half % 100 / 2);
                if half % 2 == 0 {
                    have.insert(number, ratings.arrived(number));
                } else {
                    ratings.said(number, ssim_of(number));
                }
            }
            for (number, rating) in have {
                let said = u32::from(number.0) * 100 + number.1 * 2 + 1;
                prop_assert_eq!(rating.ssim(), (!lost_of(said)).then(|| ssim_of(number)));
            }
        }
    }

    #[test]
    fn halves_that_never_meet_are_bounded_and_counted() {
        let mut ratings = Ratings::default();
        let first = ratings.arrived((0, 0));
        (0..10_000).for_each(|frame| ratings.said((1, frame), 0.9));
        assert_eq!((ratings.waiting.len(), ratings.oldest.len()), (MOST, MOST));
        assert_eq!(ratings.dropped(), 10_000 - MOST as u64);
        ratings.said((0, 0), 0.9);
        assert_eq!(first.ssim(), None, "it has been given up");
        assert_eq!(ratings.arrived((1, 9_999)).ssim(), Some(0.9));
        // Said again and again, it is one.
        (0..10_000).for_each(|_| ratings.said((2, 0), 0.9));
        assert_eq!(ratings.waiting.len(), MOST);
    }
}
