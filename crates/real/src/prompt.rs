//! Threads that packets and frames wait for.

/// While this lives, its thread's sleeps end on time and it runs as soon as it wakes, as far as the system
/// allows.
///
/// A driver has microseconds of work at a time, codecs beside it have many milliseconds. An ordinary thread
/// that wakes on a busy core may wait there until the kernel's next tick (4 ms at 250 Hz), as
/// `perf sched timehist` shows; one of the real-time policy does not. That needs the right to it (root,
/// CAP_SYS_NICE or RLIMIT_RTPRIO). Without it the thread asks for a short slice, which since Linux 6.12 makes
/// such waits rarer.
#[must_use = "the thread is prompt while this lives"]
pub struct Prompt(());

impl Prompt {
    /// Asks the system for it, for the calling thread, which must be the one that drops it.
    pub fn ask() -> Prompt {
        #[cfg(target_os = "linux")]
        linux::ask();
        Prompt(())
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        linux::go_back();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    /// `struct sched_attr` of sched_setattr(2), first version.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// SCHED_FLAG_RESET_ON_FORK of sched_setattr(2): threads and processes begun by this thread are ordinary
    /// ones.
    const RESET_ON_FORK: u64 = 1;
    /// The shortest time slice Linux grants an ordinary thread.
    const SLICE_NS: u64 = 100_000;

    /// Asks for what the system will give.
    pub(super) fn ask() {
        // Linux otherwise rounds a thread's sleeps up by as much as 50 us.
        // SAFETY: changes a property of this thread only; failure leaves it as it was.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        let policy = libc::SCHED_RR as u32;
        if !schedule(SchedAttr { policy, flags: RESET_ON_FORK, priority: 1, ..SchedAttr::default() }) {
            schedule(SchedAttr { runtime: SLICE_NS, nice: niceness(), ..SchedAttr::default() });
        }
    }

    /// Makes the thread an ordinary one again.
    pub(super) fn go_back() {
        schedule(SchedAttr { nice: niceness(), ..SchedAttr::default() });
        // SAFETY: as above; 0 stands for the thread's default.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 0 as libc::c_ulong) };
    }

    /// Asks for this thread to be scheduled so; false if the system refuses.
    fn schedule(attr: SchedAttr) -> bool {
        let attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..attr };
        // SAFETY: the kernel reads `size` bytes of a struct of ours, for this thread (0) and without flags.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) == 0 }
    }

    fn niceness() -> i32 {
        // SAFETY: only reads.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_thread_becomes_an_ordinary_one_again() {
        // SAFETY: only reads.
        let policy = || unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK };
        let prompt = Prompt::ask();
        // Real-time where this user may, ordinary elsewhere; a thread begun meanwhile is ordinary in both
        // cases.
        assert!([libc::SCHED_RR, libc::SCHED_OTHER].contains(&policy()));
        assert_eq!(std::thread::spawn(policy).join().unwrap(), libc::SCHED_OTHER);
        drop(prompt);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}
