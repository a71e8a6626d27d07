//! Interrupting a driver that sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a driver from another thread: it then calls its endpoint's `wake` at once. Cheap to clone and to
/// call twice.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    #[cfg(target_os = "linux")]
    event: std::os::fd::OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Waker> {
        Ok(Waker(Arc::new(Bell {
            rung: AtomicBool::new(false),
            #[cfg(target_os = "linux")]
            event: crate::socket::linux::event()?,
        })))
    }

    /// Wakes the driver, or keeps it from falling asleep.
    pub fn wake(&self) {
        if !self.0.rung.swap(true, Ordering::SeqCst) {
            #[cfg(target_os = "linux")]
            crate::socket::linux::ring(&self.0.event);
        }
    }

    /// Whether somebody called [`wake`](Waker::wake) since the last time this was asked.
    pub(crate) fn take(&self) -> bool {
        if !self.is_rung() {
            return false;
        }
        // The bell is silenced first: whoever rings it in between finds `rung` still set, and is heard below.
        #[cfg(target_os = "linux")]
        crate::socket::linux::silence(&self.0.event);
        self.0.rung.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_rung(&self) -> bool {
        self.0.rung.load(Ordering::SeqCst)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn event(&self) -> &std::os::fd::OwnedFd {
        &self.0.event
    }
}

/// Ends a driver's or relay's run from another thread.
#[derive(Clone, Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    waker: Waker,
}

impl Stop {
    pub(crate) fn new(waker: Waker) -> Stop {
        Stop { asked: Arc::default(), waker }
    }

    /// Asks for the run to end; it does so within its current step.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// What rings when a stop is asked for.
    #[cfg(target_os = "linux")]
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether [`stop`](Stop::stop) was called.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_heard_once_however_often_it_rings() {
        let waker = Waker::new().unwrap();
        assert!(!waker.take());
        waker.wake();
        waker.clone().wake();
        assert!(waker.take());
        assert!(!waker.take());
        waker.wake();
        assert!(waker.take());
    }
}
