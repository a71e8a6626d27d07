//! Real time: `framewire send`, `receive`, `upload`, `ingest`, `relay`, `serve` and `link`.

mod clip;
mod guest;
pub mod ingest;
mod link;
mod log;
mod losses;
mod play;
mod quic;
mod receive;
mod relay;
mod send;
pub mod serve;
pub mod upload;
mod watch;
mod y4m;

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use real::RealError;

pub use clip::{Clip, Look, open};
pub use ingest::ingest;
pub use link::{Link, link};
pub use log::Log;
pub use losses::Losses;
pub use receive::receive;
pub use relay::relay;
pub use send::send;
pub use serve::{Serve, serve};
pub use upload::upload;

use crate::failure::Failure;
pub use crate::output::ticker;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt (Ctrl-C) or a request to terminate ends the run in good order, with its figures;
/// a second one ends the process.
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

/// Whether a hangup (SIGHUP) came since this was last asked; from the first time on, one no longer ends the
/// process. It still does, in good order, if it came because our terminal is gone.
pub fn hung_up() -> bool {
    static HUNG_UP: AtomicBool = AtomicBool::new(false);
    static ON_TERMINAL: OnceLock<bool> = OnceLock::new();
    extern "C" fn note(_: libc::c_int) {
        HUNG_UP.store(true, Ordering::SeqCst);
    }
    let on_terminal = *ON_TERMINAL.get_or_init(|| {
        // SAFETY: the handler only stores to an atomic, which is safe in a signal handler.
        unsafe { libc::signal(libc::SIGHUP, note as *const () as libc::sighandler_t) };
        std::io::stderr().is_terminal()
    });
    let hung_up = HUNG_UP.swap(false, Ordering::SeqCst);
    let alone = hung_up && on_terminal && !std::io::stderr().is_terminal();
    if alone {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }
    hung_up && !alone
}

/// Threads of a codec that can have several, where none are asked for: one for each core, four at most,
/// beyond which a small picture gains little.
fn codec_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(4)
}

/// A socket that can't be had is the fault of what was given; one that fails later is not.
fn refused(error: RealError) -> Failure {
    Failure::input(error)
}

/// What QUIC alone heeds is not dropped without a word over plain UDP: who gives a token relies on it.
fn refuse_over_udp(at: &str, given: &[(&str, bool)]) -> Result<(), Failure> {
    let Some((flag, _)) = given.iter().find(|(_, given)| *given) else { return Ok(()) };
    let variable = if *flag == "--token" { " (or FRAMEWIRE_TOKEN)" } else { "" };
    Err(Failure::Input(format!(
        "{flag}{variable} is for quic://; {at} is plain UDP, neither encrypted nor asking for a token: write quic:// at both ends, or leave it out"
    )))
}
