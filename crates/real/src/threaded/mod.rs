//! Codecs and clips on threads of their own.
//!
//! Coding a picture takes several milliseconds. On the driver's thread that would hold up every packet; here
//! it costs a message each way:
//!
//! ```text
//! driver:   submit --> poll (nothing yet) ... receive, transmit ...  woken --> poll --> result
//!              | job                                                   ^ result
//! worker:      +-----> work ==========================================>+
//! ```
//!
//! Workers are ordinary threads, drivers ask to run as soon as they wake (`prompt`): on busy cores a packet
//! then interrupts a codec at once.

mod clip;
mod decoder;
mod encoder;
mod newest;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use units::{Span, Time};

use crate::{Clock, Waker};

pub use clip::Prefetched;
pub use decoder::ThreadedDecoder;
pub use encoder::ThreadedEncoder;
pub use newest::Newest;

/// Most jobs waiting for a worker: whoever asks for more is not listening to what comes back.
const MAX_JOBS: usize = 8;
/// Most times kept for whoever asks for them.
const MAX_TIMES: usize = 1 << 16;

/// A thread that turns jobs into results, in order. It ends when this is dropped, after the job it is at.
struct Worker<J, R> {
    shared: Arc<Shared<J, R>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<J, R> {
    state: Mutex<State<J, R>>,
    work: Condvar,
}

struct State<J, R> {
    jobs: VecDeque<J>,
    results: VecDeque<R>,
    busy: bool,
    ended: bool,
}

impl<J, R> Shared<J, R> {
    fn lock(&self) -> MutexGuard<'_, State<J, R>> {
        // Nothing panics while it holds the lock; a state left by one that did would still be whole.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The next job; `None` when the worker was dropped.
    fn next_job(&self) -> Option<J> {
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
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// A thread that does `work`; the waker rings after every job.
    fn new(waker: Waker, mut work: impl FnMut(J, &mut dyn FnMut(R)) + Send + 'static) -> Worker<J, R> {
        let state = State { jobs: VecDeque::new(), results: VecDeque::new(), busy: false, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || {
            while let Some(job) = theirs.next_job() {
                work(job, &mut |result| theirs.lock().results.push_back(result));
                waker.wake();
            }
        });
        Worker { shared, thread: Some(thread) }
    }

    /// Hands over a job, without waiting.
    fn submit(&self, job: J) -> Result<(), &'static str> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err("its thread has ended");
        }
        let mut state = self.shared.lock();
        if state.jobs.len() >= MAX_JOBS {
            return Err("its thread is too far behind");
        }
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    fn take(&self) -> Option<R> {
        self.shared.lock().results.pop_front()
    }

    /// At once if there is a result; [`Time::MAX`] while one is in the making, since nobody knows, and the
    /// waker will ring.
    fn next_ready(&self) -> Option<Time> {
        let state = self.shared.lock();
        match (state.results.is_empty(), state.busy || !state.jobs.is_empty()) {
            (false, _) => Some(Time::ZERO),
            (true, true) => Some(Time::MAX),
            (true, false) => None,
        }
    }
}

impl<J, R> Drop for Worker<J, R> {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.work.notify_one();
        // If it panicked, it has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// How long each frame really took, for measurements.
#[derive(Clone, Default)]
pub struct CodecTimes(Arc<Mutex<VecDeque<(u32, Span)>>>);

impl CodecTimes {
    /// `(frame, time)` of the frames finished since the last call, at most the last 65,536.
    pub fn take(&self) -> Vec<(u32, Span)> {
        self.lock().drain(..).collect()
    }

    fn note(&self, frame: u32, took: Span) {
        let mut times = self.lock();
        if times.len() == MAX_TIMES {
            times.pop_front();
        }
        times.push_back((frame, took));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u32, Span)>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Runs `work` and notes how long it took for `frame`.
fn timed<T>(clock: Clock, times: &CodecTimes, frame: u32, work: impl FnOnce() -> T) -> T {
    let start = clock.now();
    let result = work();
    times.note(frame, clock.now() - start);
    result
}

#[cfg(test)]
fn wait_for(waker: &Waker) {
    let clock = Clock::shared();
    let patience = clock.now() + Span::from_secs(5);
    while !waker.take() {
        assert!(clock.now() < patience, "the waker rings");
        clock.sleep_until(clock.now() + Span::from_millis(1));
    }
}
