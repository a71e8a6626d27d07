//! Threads for work that can be shared out, and in the laboratory those that have run out of runs.
//!
//! ```text
//! thread 1   run | run | a search: its networks, one by one ...............|
//! thread 2   run | run | run | nothing left | ... and some of that search's |
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads of which those that are idle join in a piece of work.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use framewire_experiments::Crew;
///
/// let sum = AtomicU64::new(0);
/// Crew::of(3).share(1_000, &|item| _ = sum.fetch_add(item as u64, Ordering::Relaxed));
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
#[derive(Debug)]
pub struct Crew {
    /// How many threads have nothing to do, besides those that ask.
    idle: Arc<AtomicUsize>,
    cpu_seconds: fn() -> f64,
    /// Processor seconds of those that joined in.
    helped: Mutex<f64>,
}

impl Crew {
    /// As many threads as that, the caller's among them.
    pub fn of(threads: usize) -> Crew {
        Crew::sharing(&Arc::new(AtomicUsize::new(threads.saturating_sub(1))), || 0.0)
    }

    /// The caller's thread, and those that are `idle` when there is something to do. `cpu_seconds` is
    /// processor time of the calling thread.
    pub(crate) fn sharing(idle: &Arc<AtomicUsize>, cpu_seconds: fn() -> f64) -> Crew {
        Crew { idle: idle.clone(), cpu_seconds, helped: Mutex::new(0.0) }
    }

    /// The caller's thread and those that are idle at present.
    pub fn hands(&self) -> usize {
        1 + self.idle.load(Ordering::Relaxed)
    }

    /// Calls `work` once with each number below `count`, on this thread and on those that are idle: numbers
    /// are handed out from the lowest on, and all calls have returned when this does.
    pub fn share(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let take_part = || {
            loop {
                // Each number goes to one thread alone.
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= count {
                    break;
                }
                work(item);
            }
        };
        let help = || {
            let begun = (self.cpu_seconds)();
            take_part();
            let took = (self.cpu_seconds)() - begun;
            *self.helped.lock().unwrap_or_else(PoisonError::into_inner) += took;
        };
        let hands = self.take(count.saturating_sub(1));
        std::thread::scope(|scope| {
            (0..hands).for_each(|_| _ = scope.spawn(help));
            take_part();
        });
        self.idle.fetch_add(hands, Ordering::Relaxed);
    }

    /// Processor seconds of the threads that joined in since this was last asked.
    pub(crate) fn helped(&self) -> f64 {
        std::mem::take(&mut *self.helped.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many of `most` idle threads are there; they no longer count as idle.
    fn take(&self, most: usize) -> usize {
        let left = |idle: usize| Some(idle - idle.min(most));
        self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).map_or(0, |idle| idle.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_and_idle_threads_are_given_back() {
        let idle = Arc::new(AtomicUsize::new(3));
        let crew = Crew::sharing(&idle, || 1.0);
        for count in [0, 1, 2, 100] {
            let taken: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            crew.share(count, &|item| {
                taken[item].fetch_add(1, Ordering::Relaxed);
                let hands = 3 - idle.load(Ordering::Relaxed);
                assert!(hands <= 3.min(count - 1), "{hands} hands for {count}");
            });
            assert!(taken.iter().all(|times| times.load(Ordering::Relaxed) == 1));
            assert_eq!(idle.load(Ordering::Relaxed), 3);
        }
    }

    #[test]
    fn who_is_busy_does_not_join_in_and_who_does_is_accounted_for() {
        let idle = Arc::new(AtomicUsize::new(0));
        // Each look at the clock is a second later, on each thread.
        thread_local!(static LOOKS: std::cell::Cell<f64> = const { std::cell::Cell::new(0.0) });
        let crew = Crew::sharing(&idle, || LOOKS.replace(LOOKS.get() + 1.0));
        let here = std::thread::current().id();
        crew.share(10, &|_| assert_eq!(std::thread::current().id(), here));
        assert_eq!(crew.helped(), 0.0);
        idle.store(2, Ordering::Relaxed);
        crew.share(10, &|_| {});
        assert_eq!((crew.helped(), crew.helped()), (2.0, 0.0));
    }
}
