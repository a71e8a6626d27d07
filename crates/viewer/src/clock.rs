//! Where the sender's times fall on the page's clock, from questions and answers on the control stream.
//!
//! ```text
//!   page     t0 ------ ClockAsk ----.                            .----- ClockTell -----> t3
//!   sender                           '--> t1  ............  t2 --'
//! ```
//!
//! The clocks' difference (page less sender) lies between `t0 - t1` and `t3 - t2`, however long each way
//! took: their middle is the estimate and half of what lies between them bounds its error (RFC 5905 section
//! 8). Of the answers of the last minute the one with the tightest bound counts: it met the emptiest queues.

use std::collections::VecDeque;

use units::{RelativeDelay, RemoteTime, Span, Time};

/// Answers are kept for this long.
const MEMORY: Span = Span::from_secs(60);
/// ... and this many of them: one a second, and a few more at the start.
const ANSWERS: usize = 80;
/// Two computers' quartz clocks drift apart by at most this share: 50 ppm each, what such crystals are sold
/// with.
const DRIFT: f64 = 100e-6;

/// What one answer says.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Time,
    /// The difference if the question had taken no time.
    least: RelativeDelay,
    /// What lies between that and the difference if the answer had taken none.
    between: Span,
}

impl Answer {
    fn error(&self, now: Time) -> Span {
        self.between / 2 + (now - self.at).mul_f64(DRIFT)
    }
}

/// Estimates how far the page's clock is from the sender's, by the tightest of the last minute's answers.
#[derive(Debug, Default)]
pub struct Clock {
    answers: VecDeque<Answer>,
}

impl Clock {
    /// Takes an answer: `asked` and `now` on the page's clock, `heard` and `told` on the sender's.
    pub fn insert(&mut self, asked: Time, heard: RemoteTime, told: RemoteTime, now: Time) {
        let (least, most) = (RelativeDelay::between(heard, asked), RelativeDelay::between(told, now));
        let between = most - least;
        // An answer before its question is none of ours.
        if between < Span::ZERO || told - heard < Span::ZERO {
            return;
        }
        while self.answers.len() >= ANSWERS || self.answers.front().is_some_and(|old| now - old.at > MEMORY) {
            self.answers.pop_front();
        }
        self.answers.push_back(Answer { at: now, least, between });
    }

    fn best(&self, now: Time) -> Option<&Answer> {
        self.answers.iter().min_by_key(|answer| answer.error(now))
    }

    /// When the sender's `at` was on the page's clock; `None` before the first answer.
    pub fn localise(&self, at: RemoteTime, now: Time) -> Option<Time> {
        self.best(now).map(|answer| answer.least.localise(at) + answer.between / 2)
    }

    /// How far that may be off, either way.
    pub fn error(&self, now: Time) -> Option<Span> {
        self.best(now).map(|answer| answer.error(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sender's clock is ahead by this.
    const AHEAD_MS: i64 = 5_000_000;

    fn remote(ms: u64) -> RemoteTime {
        RemoteTime::from_nanos((ms as i64 + AHEAD_MS) * 1_000_000)
    }

    #[test]
    fn even_ways_give_the_difference_and_the_tightest_answer_counts() {
        let mut clock = Clock::default();
        assert_eq!(clock.localise(remote(0), Time::ZERO), None);
        clock.insert(Time::from_millis(100), remote(110), remote(111), Time::from_millis(121));
        assert_eq!(clock.localise(remote(115), Time::from_millis(121)), Some(Time::from_millis(115)));
        assert_eq!(clock.error(Time::from_millis(121)), Some(Span::from_millis(10)));
        // 100 ms of queue on the way back: the estimate stays.
        clock.insert(Time::from_millis(200), remote(210), remote(210), Time::from_millis(320));
        assert_eq!(clock.localise(remote(300), Time::from_millis(320)), Some(Time::from_millis(300)));
        // Two minutes later only the new answer is left.
        clock.insert(Time::from_secs(120), remote(120_030), remote(120_030), Time::from_millis(120_040));
        let now = Time::from_millis(120_040);
        assert_eq!(clock.localise(remote(120_000), now), Some(Time::from_millis(119_990)));
        assert_eq!(clock.error(now), Some(Span::from_millis(20)));
    }

    #[test]
    fn an_answer_before_its_question_is_not_believed() {
        let mut clock = Clock::default();
        clock.insert(Time::from_millis(100), remote(90), remote(120), Time::from_millis(110));
        clock.insert(Time::from_millis(100), remote(105), remote(104), Time::from_millis(110));
        assert_eq!(clock.error(Time::from_millis(110)), None);
    }

    proptest! {
        #[test]
        fn the_truth_lies_within_the_error(ways in prop::collection::vec((0u64..400, 0u64..50, 0u64..400), 1..200)) {
            let mut clock = Clock::default();
            let mut now = 1_000;
            for (there, thinking, back) in ways {
                let asked = Time::from_millis(now);
                let got = Time::from_millis(now + there + thinking + back);
                clock.insert(asked, remote(now + there), remote(now + there + thinking), got);
                now += there + thinking + back + 500;
                let now = Time::from_millis(now);
                let (local, error) = (clock.localise(remote(1_000), now).unwrap(), clock.error(now).unwrap());
                prop_assert!((local - Time::from_millis(1_000)).abs() <= error);
            }
            prop_assert!(clock.answers.len() <= ANSWERS);
        }
    }
}
