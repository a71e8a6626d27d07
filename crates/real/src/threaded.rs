//! Encoders and clips on threads of their own.
//!
//! Encoding a picture takes several milliseconds. On the driver's thread they would hold up every packet; here they cost it
//! a message each way:
//!
//! ```text
//! driver:   submit --> poll (nothing yet) ... receive, transmit ...  woken --> poll --> Coded
//!              | job                                                   ^ coded
//! thread:      +-----> encode ========================================>+
//! ```

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use media::{Ask, CodecError, Coded, Encoder, RawFrame, Source};
use units::{Span, Time};

use crate::{Clock, Waker};

/// Most frames waiting for the thread: a sender that submits more than it is given back is not listening.
const MAX_JOBS: usize = 8;
/// Most encoding times kept for whoever asks for them.
const MAX_TIMES: usize = 1 << 16;

/// An encoder on a thread of its own. [`submit`](Encoder::submit) never waits; the waker rings when a frame is ready.
pub struct Threaded {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    ready: VecDeque<Coded>,
    times: VecDeque<(u32, Span)>,
    failed: Option<CodecError>,
    busy: bool,
    ended: bool,
}

struct Job {
    picture: Option<Arc<RawFrame>>,
    ask: Ask,
}

/// How long each frame's encoding really took, for measurements.
#[derive(Clone)]
pub struct EncodeTimes(Arc<Shared>);

impl EncodeTimes {
    /// `(frame, time)` of the frames finished since the last call, at most the last 65,536.
    pub fn take(&self) -> Vec<(u32, Span)> {
        self.0.lock().times.drain(..).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; a state left by one that did would still be whole.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The next job; `None` when the encoder was dropped.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        state.busy = false;
        loop {
            if state.ended {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                state.busy = true;
                return Some(job);
            }
            state = self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn finish(&self, frame: u32, took: Span, result: Result<Vec<Coded>, CodecError>) {
        let mut state = self.lock();
        match result {
            Ok(coded) => state.ready.extend(coded),
            Err(error) => state.failed = Some(error),
        }
        if state.times.len() == MAX_TIMES {
            state.times.pop_front();
        }
        state.times.push_back((frame, took));
    }
}

impl Threaded {
    /// Moves `encoder` to a thread; `waker` (of the driver that polls this one) is rung whenever a frame is ready.
    pub fn new(encoder: Box<dyn Encoder>, clock: Clock, waker: Waker) -> Threaded {
        let shared = Arc::<Shared>::default();
        let work = shared.clone();
        let thread = std::thread::spawn(move || run(encoder, &work, clock, &waker));
        Threaded { shared, thread: Some(thread) }
    }

    /// A handle to how long each frame took.
    pub fn times(&self) -> EncodeTimes {
        EncodeTimes(self.shared.clone())
    }
}

fn run(mut encoder: Box<dyn Encoder>, shared: &Shared, clock: Clock, waker: &Waker) {
    // A frame waits for this thread: it should begin as soon as it is asked to.
    crate::socket::be_prompt();
    let mut stand_alone = false;
    while let Some(mut job) = shared.next_job() {
        let start = clock.now();
        job.ask.key |= stand_alone;
        let result = encode(encoder.as_mut(), start, &job);
        // Whoever asked for the next frame may not know yet that this one failed.
        stand_alone = result.is_err();
        shared.finish(job.ask.frame, clock.now() - start, result);
        waker.wake();
    }
}

/// Encodes one frame, as a key frame at the second try; whatever is ready then comes back.
fn encode(encoder: &mut dyn Encoder, now: Time, job: &Job) -> Result<Vec<Coded>, CodecError> {
    if encoder.submit(now, job.picture.as_ref(), &job.ask).is_err() {
        encoder.submit(now, job.picture.as_ref(), &Ask { key: true, ..job.ask })?;
    }
    // The time has passed already: what a model would still hold back is ready.
    Ok(std::iter::from_fn(|| encoder.poll(Time::MAX)).collect())
}

impl Encoder for Threaded {
    /// Hands the frame to the thread. An error the thread met is returned here, once, instead of taking the next frame.
    fn submit(&mut self, _now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let gone = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let mut state = self.shared.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if gone || state.jobs.len() >= MAX_JOBS {
            let what = if gone { "its thread has ended" } else { "its thread is too far behind" };
            return Err(CodecError::Codec { codec: "threaded", what: what.to_owned() });
        }
        state.jobs.push_back(Job { picture: picture.cloned(), ask: *ask });
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    fn poll(&mut self, _now: Time) -> Option<Coded> {
        self.shared.lock().ready.pop_front()
    }

    /// At once if a frame is ready; [`Time::MAX`] while one is in the making, since nobody knows, and the waker will ring.
    fn next_ready(&self) -> Option<Time> {
        let state = self.shared.lock();
        match (state.ready.is_empty(), state.busy || !state.jobs.is_empty()) {
            (false, _) => Some(Time::ZERO),
            (true, true) => Some(Time::MAX),
            (true, false) => None,
        }
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.work.notify_one();
        // The thread ends after the frame it is at. If it panicked, it has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A clip read ahead on a thread of its own, so that reading (from a disk or an `ffmpeg` process) holds nobody up.
pub struct Prefetched {
    size: (usize, usize),
    interval: Span,
    pictures: Receiver<Arc<RawFrame>>,
}

impl Prefetched {
    /// Reads `source` at most `ahead` pictures ahead.
    pub fn new(mut source: Box<dyn Source>, ahead: usize) -> Prefetched {
        let (size, interval) = (source.size(), source.interval());
        let (send, pictures) = sync_channel(ahead);
        std::thread::spawn(move || {
            while let Some(picture) = source.next_picture() {
                if send.send(picture).is_err() {
                    return;
                }
            }
        });
        Prefetched { size, interval, pictures }
    }
}

impl Source for Prefetched {
    fn size(&self) -> (usize, usize) {
        self.size
    }
    fn interval(&self) -> Span {
        self.interval
    }
    /// The next picture; waits where reading has fallen behind.
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.pictures.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

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
            let (frame, key, target) = (ask.frame, ask.key, ask.bitrate);
            self.coded = Some(Coded {
                frame,
                size: 100,
                payload: None,
                key,
                target,
                pieces: Vec::new(),
                quality: None,
            });
            Ok(())
        }
        fn poll(&mut self, _: Time) -> Option<Coded> {
            self.coded.take()
        }
        fn next_ready(&self) -> Option<Time> {
            None
        }
    }

    fn threaded(broken: &[u32]) -> (Threaded, Waker) {
        let (clock, waker) = (Clock::shared(), Waker::new().unwrap());
        let slow = Slow { clock, coded: None, broken: broken.to_vec() };
        (Threaded::new(Box::new(slow), clock, waker.clone()), waker)
    }

    fn ask(frame: u32) -> Ask {
        Ask { frame, bitrate: Rate::from_mbps(1), interval: Span::from_millis(33), key: false }
    }

    fn wait_for(waker: &Waker) {
        let clock = Clock::shared();
        let patience = clock.now() + Span::from_secs(5);
        while !waker.take() {
            assert!(clock.now() < patience, "the waker rings");
            clock.sleep_until(clock.now() + Span::from_millis(1));
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
        assert_eq!(encoder.poll(clock.now()).map(|coded| coded.frame), Some(7));
        let times = encoder.times().take();
        assert_eq!((times.len(), times[0].0), (1, 7));
        assert!(times[0].1 >= Span::from_millis(20));
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

    struct Counting(u32);
    impl Source for Counting {
        fn size(&self) -> (usize, usize) {
            (2, 2)
        }
        fn interval(&self) -> Span {
            Span::from_millis(40)
        }
        fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
            self.0 = self.0.checked_sub(1)?;
            Some(Arc::new(RawFrame::filled(2, 2, self.0 as u8, 0, 0)))
        }
    }

    #[test]
    fn a_clip_read_ahead_is_the_same_clip() {
        let mut clip = Prefetched::new(Box::new(Counting(10)), 3);
        assert_eq!((clip.size(), clip.interval()), ((2, 2), Span::from_millis(40)));
        let values: Vec<u8> =
            std::iter::from_fn(|| clip.next_picture()).map(|picture| picture.y[0]).collect();
        assert_eq!(values, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        // A clip nobody reads on ends its thread instead of waiting for ever.
        drop(Prefetched::new(Box::new(Counting(u32::MAX)), 1));
    }
}
