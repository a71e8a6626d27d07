//! Signals for a process that runs another: what the terminal sends, the command gets from it directly; what
//! somebody sends to us alone, we pass on; and in the end the command's own end is ours.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::waker::Waker;

/// What we take instead of the default.
const TAKEN: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals held back from this thread, and those it starts, for as long as the process lives.
pub(super) struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Holds them back from now on.
    pub fn hold() -> io::Result<Signals> {
        let set = set();
        // SAFETY: `set` is initialised; a new descriptor, if not negative, is ours alone.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            match libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
                fd if fd < 0 => Err(io::Error::last_os_error()),
                fd => Ok(Signals { fd: OwnedFd::from_raw_fd(fd) }),
            }
        }
    }

    /// Sleeps until there is something to look at: a signal, or the waker's ring.
    pub fn sleep(&self, waker: &Waker) {
        let watched = [self.fd.as_raw_fd(), waker.event().as_raw_fd()];
        let mut polled = watched.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: `polled` outlives the call; an early return only means a look too many.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, -1) };
    }

    /// The next signal that was sent to this process by another, rather than to the whole group by the
    /// terminal.
    pub fn next(&self) -> Option<i32> {
        loop {
            // SAFETY: all zeros is a valid signalfd_siginfo, which the read fills whole or not at all.
            let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
            let size = mem::size_of_val(&info);
            // SAFETY: writes at most `size` bytes to `info`.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
            if read != size as isize {
                return None;
            }
            // The kernel's own, as the terminal's are, have a positive code.
            if info.ssi_code <= 0 {
                return Some(info.ssi_signo as i32);
            }
        }
    }
}

fn set() -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        TAKEN.iter().for_each(|&signal| _ = libc::sigaddset(&raw mut set, signal));
        set
    }
}

/// In a new process: takes signals as usual again, and dies with the thread that made it.
pub(super) fn restore() -> io::Result<()> {
    let set = set();
    // SAFETY: async-signal-safe calls that change properties of this process.
    unsafe {
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
