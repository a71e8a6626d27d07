//! A decoder on a thread of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use media::{CodecError, Decoded, Decoder, Parts};
use units::Time;

use super::{CodecTimes, Worker, timed};
use crate::{Clock, Waker};

/// What is there of a frame.
enum Job {
    Whole(Bytes),
    Parts(Parts),
}

/// A decoder on a thread of its own. [`submit`](Decoder::submit) never waits; the waker rings when a frame is
/// ready.
pub struct ThreadedDecoder {
    worker: Worker<(u32, Job), Decoded>,
    /// Whether the decoder used parts after the last frame it took: that may depend on the stream.
    uses_parts: Arc<AtomicBool>,
    standalone: Option<fn(&[u8]) -> bool>,
    /// Frames the thread did not take, and the number of those it has not given back.
    refused: VecDeque<Decoded>,
    inside: usize,
    times: CodecTimes,
}

impl ThreadedDecoder {
    /// Moves `decoder` to a thread; `waker` (of the driver that polls this one) is rung whenever a frame is
    /// ready.
    pub fn new(mut decoder: Box<dyn Decoder>, clock: Clock, waker: Waker) -> ThreadedDecoder {
        let times = CodecTimes::default();
        let noted = times.clone();
        let uses_parts = Arc::new(AtomicBool::new(decoder.uses_parts()));
        let (told, standalone) = (uses_parts.clone(), decoder.standalone());
        let worker = Worker::new(waker, move |(frame, job), give: &mut dyn FnMut(Decoded)| {
            timed(clock, &noted, frame, || match job {
                Job::Whole(coded) => decoder.submit(clock.now(), frame, coded),
                Job::Parts(parts) => decoder.submit_parts(clock.now(), frame, &parts),
            });
            told.store(decoder.uses_parts(), Ordering::Relaxed);
            // The time has passed already: what a model would still hold back is ready.
            std::iter::from_fn(|| decoder.poll(Time::MAX)).for_each(give);
        });
        ThreadedDecoder { worker, uses_parts, standalone, refused: VecDeque::new(), inside: 0, times }
    }

    /// A handle to how long each frame took.
    pub fn times(&self) -> CodecTimes {
        self.times.clone()
    }

    /// Hands a frame to the thread. One that it can't take comes back as an error, in its turn, and so do
    /// those after it until then.
    fn hand_over(&mut self, frame: u32, job: Job) {
        let taken = match self.refused.is_empty() {
            true => self.worker.submit((frame, job)),
            false => Err("its thread did not take the frame before"),
        };
        match taken {
            Ok(()) => self.inside += 1,
            Err(what) => {
                let error = CodecError::Codec { codec: "threaded decoder", what: what.to_owned() };
                self.refused.push_back(Decoded::whole(frame, Err(error)));
            }
        }
    }
}

impl Decoder for ThreadedDecoder {
    fn submit(&mut self, _now: Time, frame: u32, coded: Bytes) {
        self.hand_over(frame, Job::Whole(coded));
    }

    fn uses_parts(&self) -> bool {
        self.uses_parts.load(Ordering::Relaxed)
    }

    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        self.standalone
    }

    fn submit_parts(&mut self, _now: Time, frame: u32, parts: &Parts) {
        self.hand_over(frame, Job::Parts(parts.clone()));
    }

    fn poll(&mut self, _now: Time) -> Option<Decoded> {
        match self.worker.take() {
            Some(decoded) => {
                self.inside -= 1;
                Some(decoded)
            }
            None if self.inside == 0 => self.refused.pop_front(),
            None => None,
        }
    }

    fn next_ready(&self) -> Option<Time> {
        let refused = self.refused.front().filter(|_| self.inside == 0).map(|_| Time::ZERO);
        refused.or_else(|| self.worker.next_ready())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threaded::{MAX_JOBS, wait_for};
    use media::RawFrame;
    use units::Span;

    /// Takes 20 ms a frame, and refuses empty ones.
    struct Slow {
        clock: Clock,
        decoded: Option<Decoded>,
    }

    impl Decoder for Slow {
        fn submit(&mut self, now: Time, frame: u32, coded: Bytes) {
            self.clock.sleep_until(now + Span::from_millis(20));
            let empty = || CodecError::Codec { codec: "slow", what: "nothing".to_owned() };
            let picture = coded.first().map(|&luma| RawFrame::filled(2, 2, luma, 0, 0)).ok_or_else(empty);
            self.decoded = Some(Decoded::whole(frame, picture));
        }
        fn poll(&mut self, _: Time) -> Option<Decoded> {
            self.decoded.take()
        }
        fn next_ready(&self) -> Option<Time> {
            None
        }
    }

    fn threaded() -> (ThreadedDecoder, Waker, Clock) {
        let (clock, waker) = (Clock::shared(), Waker::new().unwrap());
        (ThreadedDecoder::new(Box::new(Slow { clock, decoded: None }), clock, waker.clone()), waker, clock)
    }

    #[test]
    fn submitting_does_not_wait_and_the_waker_tells_when_to_poll() {
        let (mut decoder, waker, clock) = threaded();
        assert_eq!(decoder.next_ready(), None);
        let start = clock.now();
        decoder.submit(start, 7, Bytes::from_static(&[99]));
        assert!(clock.now() - start < Span::from_millis(15), "submit took {}", clock.now() - start);
        assert_eq!(decoder.next_ready(), Some(Time::MAX));
        assert!(decoder.poll(clock.now()).is_none());
        wait_for(&waker);
        assert_eq!(decoder.next_ready(), Some(Time::ZERO));
        let decoded = decoder.poll(clock.now()).unwrap();
        assert_eq!((decoded.frame, decoded.picture.unwrap().y[0]), (7, 99));
        let (_, took) = decoder.times().take()[0];
        assert!(took >= Span::from_millis(20));
    }

    #[test]
    fn errors_and_refusals_come_back_in_order() {
        let (mut decoder, waker, clock) = threaded();
        let frames = MAX_JOBS as u32 + 4;
        (0..frames)
            .for_each(|frame| decoder.submit(clock.now(), frame, Bytes::from(vec![1; frame as usize % 2])));
        let mut back = Vec::new();
        while back.len() < frames as usize {
            match decoder.poll(clock.now()) {
                Some(decoded) => back.push(decoded),
                None => wait_for(&waker),
            }
        }
        assert!(back.iter().map(|decoded| decoded.frame).eq(0..frames));
        assert!(back[..MAX_JOBS].iter().all(|decoded| decoded.picture.is_ok() == (decoded.frame % 2 == 1)));
        assert!(back[MAX_JOBS + 1..].iter().all(|decoded| decoded.picture.is_err()), "too many at once");
    }
}
