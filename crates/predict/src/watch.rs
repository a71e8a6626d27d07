//! What a sender keeps.

use units::{Span, Time};

use crate::features::{Features, Passage};
use crate::predictor::Predictor;

/// Features, a predictor, and its answer of the moment. A connection has one, which hears of every packet.
pub struct Watch {
    features: Features,
    predictor: Box<dyn Predictor>,
    /// The answer, and how many windows had ended when it was given.
    answer: (u64, f32),
}

impl Watch {
    /// A watch that asks `predictor`.
    pub fn new(predictor: Box<dyn Predictor>) -> Watch {
        Watch { features: Features::default(), predictor, answer: (0, 0.0) }
    }

    /// A packet left.
    #[inline]
    pub fn sent(&mut self, at: Time) {
        self.features.sent(at);
    }

    /// A report was heard: `newest` is the round trip of the last of `passages`, the packets it acknowledges
    /// for the first time.
    pub fn heard(
        &mut self,
        at: Time,
        newest: Span,
        passages: impl DoubleEndedIterator<Item = Passage> + Clone,
    ) {
        self.features.heard(at, newest, passages);
    }

    /// A packet was given up.
    #[inline]
    pub fn lost(&mut self, at: Time) {
        self.features.lost(at);
    }

    /// How likely it is that a packet sent in the next 50 ms is lost. The predictor is asked once every 10 ms
    /// at most, when a window has ended.
    pub fn probability(&mut self, now: Time) -> f32 {
        let input = self.features.input(now);
        if input.0.iter().all(|row| row[7] > 0.0) {
            // Nothing was heard: before the first answer there is nothing to predict from, and of a silence
            // of 200 ms the sender knows without a predictor.
            return 0.0;
        }
        let input = *input;
        let finished = self.features.finished();
        if self.answer.0 != finished {
            self.answer = (finished, self.predictor.probability(&input));
        }
        self.answer.1
    }

    /// Whether that reaches the predictor's threshold.
    pub fn alarm(&mut self, now: Time) -> bool {
        self.probability(now) >= self.predictor.threshold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RttThreshold;

    #[test]
    fn a_growing_queue_raises_an_alarm_that_ends_with_it() {
        let mut watch = Watch::new(Box::new(RttThreshold::default()));
        let mut alarms = Vec::new();
        for k in 0..400 {
            let now = Time::from_millis(50 + k);
            let queue = if (100..200).contains(&k) { 200 } else { 0 };
            let passage = Passage { sent_at: Time::from_millis(k), arrived_at: now.on_wire() };
            watch.sent(now);
            watch.heard(now, Span::from_millis(40 + queue), [passage].into_iter());
            alarms.push(watch.alarm(now));
        }
        assert!(!alarms[99] && alarms[150] && alarms[205] && !alarms[260], "{alarms:?}");
        assert!(!watch.alarm(Time::from_secs(10)));
    }
}
