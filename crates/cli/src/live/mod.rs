//! Real time: `framewire send`, `receive`, `relay`, `serve` and `link`.

mod clip;
mod guest;
mod link;
mod log;
mod play;
mod quic;
mod receive;
mod relay;
mod send;
pub mod serve;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use real::RealError;

pub use clip::{Clip, open};
pub use link::{Link, link};
pub use receive::receive;
pub use relay::relay;
pub use send::send;
pub use serve::serve;

use crate::failure::Failure;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt (Ctrl-C) or a request to terminate ends the run in good order, with its figures; a second
/// one ends the process.
pub fn catch_interrupts() {
    extern "C" fn note(signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
        // SAFETY: `signal` is safe to call from a signal handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic and calls `signal`, both safe in a signal handler.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

/// Goes on until interrupted.
pub fn go_on() -> ControlFlow<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A line that changes while the run goes on, on standard error if that is a terminal.
pub fn ticker() -> ProgressBar {
    ProgressBar::new_spinner()
}

/// A socket that can't be had is the fault of what was given; one that fails later is not.
fn refused(error: RealError) -> Failure {
    Failure::input(error)
}
