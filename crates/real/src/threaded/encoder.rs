//! An encoder on a thread of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use media::{Ask, CodecError, Coded, Encoder, RawFrame};
use units::Time;

use super::{CodecTimes, Worker, timed};
use crate::{Clock, Waker};

/// An encoder on a thread of its own. [`submit`](Encoder::submit) never waits; the waker rings when a frame
/// is ready, which says what it cost ([`Coded::took`]).
pub struct ThreadedEncoder {
    worker: Worker<Job, Result<Coded, CodecError>>,
    failed: Option<CodecError>,
    times: CodecTimes,
    refers_back: bool,
    /// How many frames the encoder held after the last job.
    held: Arc<AtomicUsize>,
    /// A flush found no room among the jobs.
    flush: bool,
}

enum Job {
    Frame(Frame),
    /// No frame follows for now.
    Flush,
}

struct Frame {
    picture: Option<Arc<RawFrame>>,
    ask: Ask,
}

impl ThreadedEncoder {
    /// Moves `encoder` to a thread; `waker` (of the driver that polls this one) is rung whenever a frame is
    /// ready.
    pub fn new(mut encoder: Box<dyn Encoder>, clock: Clock, waker: Waker) -> ThreadedEncoder {
        let (times, refers_back) = (CodecTimes::default(), encoder.refers_back());
        let noted = times.clone();
        let mut stand_alone = false;
        let held = Arc::new(AtomicUsize::new(0));
        let told = held.clone();
        let worker = Worker::new(waker, move |job: Job, give: &mut dyn FnMut(_)| {
            let Job::Frame(mut job) = job else {
                encoder.flush(clock.now());
                ready(encoder.as_mut()).for_each(|coded| give(Ok(coded)));
                return told.store(encoder.held(), Ordering::Relaxed);
            };
            job.ask.key |= stand_alone;
            let start = clock.now();
            let result = timed(clock, &noted, job.ask.frame, || encode(encoder.as_mut(), start, &job));
            let took = Some(clock.now() - start);
            // Whoever asked for the next frame may not know yet that this one failed.
            stand_alone = result.is_err();
            match result {
                Ok(coded) => coded.into_iter().map(|coded| Ok(Coded { took, ..coded })).for_each(give),
                Err(error) => give(Err(error)),
            }
            // After what came of it: a frame that is neither held nor given would be one that is being coded.
            told.store(encoder.held(), Ordering::Relaxed);
        });
        ThreadedEncoder { worker, failed: None, times, refers_back, held, flush: false }
    }

    /// A handle to how long each frame took.
    pub fn times(&self) -> CodecTimes {
        self.times.clone()
    }
}

/// Encodes one frame, as a key frame at the second try; whatever is ready then comes back.
fn encode(encoder: &mut dyn Encoder, now: Time, job: &Frame) -> Result<VecDeque<Coded>, CodecError> {
    if encoder.submit(now, job.picture.as_ref(), &job.ask).is_err() {
        encoder.submit(now, job.picture.as_ref(), &Ask { key: true, ..job.ask })?;
    }
    Ok(ready(encoder).collect())
}

/// What is ready. The time has passed already: what a model would still hold back is, too.
fn ready(encoder: &mut dyn Encoder) -> impl Iterator<Item = Coded> {
    std::iter::from_fn(|| encoder.poll(Time::MAX))
}

impl Encoder for ThreadedEncoder {
    /// Hands the frame to the thread. An error the thread met is returned here, once, instead of taking the
    /// next frame.
    fn submit(&mut self, _now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let job = Job::Frame(Frame { picture: picture.cloned(), ask: *ask });
        let refused = |what: &str| CodecError::Codec { codec: "threaded encoder", what: what.to_owned() };
        self.worker.submit(job).map_err(refused)
    }

    fn poll(&mut self, now: Time) -> Option<Coded> {
        if self.flush {
            self.flush(now);
        }
        loop {
            match self.worker.take()? {
                Ok(coded) => return Some(coded),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    fn next_ready(&self) -> Option<Time> {
        self.worker.next_ready()
    }

    fn refers_back(&self) -> bool {
        self.refers_back
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn flush(&mut self, _now: Time) {
        self.flush = self.worker.submit(Job::Flush).is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threaded::{MAX_JOBS, wait_for};
    use units::{Rate, Span};

    /// Takes 20 ms a frame; fails at frames that the test names.
    struct Slow {
        clock: Clock,
        coded: Option<Coded>,
        broken: Vec<u32>,
    }

    impl Encoder for Slow {
        fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
            self.clock.sleep_until(self.clock.now() + Span::from_millis(20));
            if self.broken.contains(&ask.frame) {
                return Err(CodecError::Codec { codec: "slow", what: "broken".to_owned() });
            }
            self.coded = Some(Coded::of_size(ask, 100));
            Ok(())
        }
        fn poll(&mut self, _: Time) -> Option<Coded> {
            self.coded.take()
        }
        fn next_ready(&self) -> Option<Time> {
            None
        }
    }

    fn threaded(broken: &[u32]) -> (ThreadedEncoder, Waker) {
        let (clock, waker) = (Clock::shared(), Waker::new().unwrap());
        let slow = Slow { clock, coded: None, broken: broken.to_vec() };
        (ThreadedEncoder::new(Box::new(slow), clock, waker.clone()), waker)
    }

    fn ask(frame: u32) -> Ask {
        Ask {
            frame,
            bitrate: Rate::from_mbps(1),
            interval: Span::from_millis(33),
            key: false,
            largest: None,
            height: None,
            peer: None,
        }
    }

    #[test]
    fn submitting_does_not_wait_and_the_waker_tells_when_to_poll() {
        let (mut encoder, waker) = threaded(&[]);
        let clock = Clock::shared();
        assert_eq!(encoder.next_ready(), None);
        let start = clock.now();
        encoder.submit(start, None, &ask(7)).unwrap();
        assert!(clock.now() - start < Span::from_millis(15), "submit took {}", clock.now() - start);
        assert_eq!(encoder.next_ready(), Some(Time::MAX));
        assert!(encoder.poll(clock.now()).is_none());
        wait_for(&waker);
        assert_eq!(encoder.next_ready(), Some(Time::ZERO));
        let coded = encoder.poll(clock.now()).unwrap();
        assert_eq!(coded.frame, 7);
        let times = encoder.times().take();
        let (frame, took) = times[0];
        assert_eq!((times.len(), frame), (1, 7));
        assert!(took >= Span::from_millis(20) && coded.took >= Some(took));
    }

    #[test]
    fn frames_come_back_in_order_and_too_many_are_refused() {
        let (mut encoder, waker) = threaded(&[]);
        let accepted =
            (0..20).take_while(|&frame| encoder.submit(Time::ZERO, None, &ask(frame)).is_ok()).count();
        // The thread may have taken one already.
        assert!((MAX_JOBS..=MAX_JOBS + 1).contains(&accepted), "{accepted}");
        let mut frames = Vec::new();
        while frames.len() < accepted {
            wait_for(&waker);
            frames.extend(std::iter::from_fn(|| encoder.poll(Time::ZERO)).map(|coded| coded.frame));
        }
        assert!(frames.iter().copied().eq(0..accepted as u32));
    }

    #[test]
    fn a_failure_is_told_once_and_a_key_frame_follows() {
        let (mut encoder, waker) = threaded(&[1]);
        encoder.submit(Time::ZERO, None, &ask(1)).unwrap();
        wait_for(&waker);
        assert!(encoder.poll(Time::ZERO).is_none());
        assert_eq!(encoder.next_ready(), None);
        assert!(encoder.submit(Time::ZERO, None, &ask(2)).is_err());
        encoder.submit(Time::ZERO, None, &ask(3)).unwrap();
        wait_for(&waker);
        let coded = encoder.poll(Time::ZERO).unwrap();
        assert_eq!((coded.frame, coded.key), (3, true));
    }
}
