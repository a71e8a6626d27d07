//! What a process can know about its own cost.

use std::time::Duration;

use real::{Clock, Prompt};
use units::Span;

/// CPU time this process has used, all threads together.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time this thread has used.
pub fn thread_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which the call fills.
    let code = unsafe { libc::clock_gettime(which, &raw mut time) };
    assert_eq!(code, 0, "every POSIX system has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The largest resident set of this process since the last [`reset_peak_memory`], in bytes; `None` where the
/// system does not tell.
pub fn peak_memory() -> Option<u64> {
    memory("VmHWM:")
}

/// This process's resident set, in bytes.
pub fn resident_memory() -> Option<u64> {
    memory("VmRSS:")
}

/// Makes the present resident set the peak (proc(5), `clear_refs`). Where the system refuses, the peak stays
/// the whole process's.
pub fn reset_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Gives the system back what the heap holds and nobody uses, where the C library can (glibc): what is
/// measured next would grow into it and seem to take less than it does.
pub fn give_back_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, and touches only memory that is not in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn memory(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// How late the machine wakes a thread that has nothing else to do and is as prompt as a driver: of two
/// thousand sleeps until the next millisecond, each one's lateness in ms. No figure of pacing or delay can be
/// better than this one of the same run.
pub fn timer_lateness() -> Vec<f64> {
    let clock = Clock::starting_now();
    let _prompt = Prompt::ask();
    let start = clock.now();
    (1..=2_000)
        .map(|k| {
            let due = start + Span::from_millis(k);
            clock.sleep_until(due);
            (clock.now() - due).as_millis_f64()
        })
        .collect()
}

/// The middle of an unsorted list; NaN for an empty one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The `share` quantile of an unsorted list by nearest rank; NaN for an empty one.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_memory() {
        let before = cpu_time();
        let mut sum = 0u64;
        while cpu_time() < before + Duration::from_millis(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0 && peak_memory().is_none_or(|bytes| bytes > 100_000));
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
