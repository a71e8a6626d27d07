//! This process, as the system sees it.

/// What the process holds and has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Bytes of memory that are in use.
    pub resident: u64,
    /// Seconds of CPU time used since the start.
    pub cpu: f64,
    /// Threads that are alive.
    pub threads: u64,
    /// Open files and sockets.
    pub descriptors: u64,
}

impl Process {
    /// As it is now; `None` where the system does not tell (that is, elsewhere than on Linux).
    pub fn now() -> Option<Process> {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        let entries = |folder| Some(std::fs::read_dir(folder).ok()?.count() as u64);
        Some(Process {
            resident: pages * page_size(),
            cpu: cpu_seconds(),
            threads: entries("/proc/self/task")?,
            // One of them is the folder being read.
            descriptors: entries("/proc/self/fd")?.saturating_sub(1),
        })
    }
}

fn page_size() -> u64 {
    // SAFETY: only reads a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a timespec of ours; should there be no such clock it stays zero.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let before = Process::now().unwrap();
        let kept = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = Process::now().unwrap();
        assert!(after.resident >= before.resident + (60 << 20), "{before:?} {after:?}");
        assert!(before.threads >= 1 && before.descriptors >= 3 && after.cpu > 0.0 && kept[1] == 1);
    }
}
