//! The operating system's clocks as [`Time`].

use std::time::Duration;

use units::{Span, Time};

/// This machine's monotonic clock (on Unix `CLOCK_MONOTONIC`, which every process on the machine shares),
/// less an origin.
///
/// It never runs backwards and knows nothing of the date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    origin: u64,
}

impl Clock {
    /// Time since the machine's own origin (on Linux, about its start): two processes on one machine agree on
    /// it.
    pub fn shared() -> Clock {
        Clock { origin: 0 }
    }

    /// What the system calls its present start: a [shared](Clock::shared) clock's times mean nothing to
    /// processes of another. `None` where it has no name, or the clock is not shared.
    pub fn boot() -> Option<String> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let name = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// Time since now.
    pub fn starting_now() -> Clock {
        Clock { origin: monotonic_ns() }
    }

    /// Time since this clock began, on the machine's monotonic clock; never goes back.
    #[inline]
    pub fn now(&self) -> Time {
        Time::from_nanos(monotonic_ns().saturating_sub(self.origin))
    }

    /// The date at `time` in nanoseconds since 1970, as the machine's calendar is set at present.
    pub fn date_of(&self, time: Time) -> u64 {
        date_less_monotonic().saturating_add(self.origin).saturating_add(time.as_nanos())
    }

    /// Sleeps until `at`, with the accuracy of the operating system's sleep (about 60 us late on Linux).
    pub fn sleep_until(&self, at: Time) {
        let wait = at - self.now();
        if wait.is_positive() {
            std::thread::sleep(Duration::from_nanos(wait.as_nanos() as u64));
        }
    }
}

/// Nanoseconds of one of the operating system's clocks.
#[cfg(unix)]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "the operating system has no such clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(unix)]
#[inline]
fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

#[cfg(not(unix))]
fn monotonic_ns() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// Turns the date, in which kernels stamp packets, into a [`Clock`]'s time.
///
/// The two clocks' difference is measured by reading one between two readings of the other, and measured
/// again ten times a second: somebody may set the date, and what keeps it right (NTP) makes it run up to
/// 500 ppm (`adjtimex`, kernel) faster or slower, which is 50 us between two measurements.
#[derive(Debug)]
pub(crate) struct Calendar {
    clock: Clock,
    /// Date less monotonic time, in ns.
    offset: u64,
    measured: Time,
}

impl Calendar {
    const VALID_FOR: Span = Span::from_millis(100);

    pub fn new(clock: Clock) -> Calendar {
        Calendar { clock, offset: date_less_monotonic(), measured: clock.now() }
    }

    /// When, on the clock, the date was `date_ns` nanoseconds since 1970; never after `now`.
    pub fn time_of(&mut self, date_ns: u64, now: Time) -> Time {
        if now - self.measured > Calendar::VALID_FOR {
            *self = Calendar::new(self.clock);
        }
        let monotonic = date_ns.saturating_sub(self.offset);
        Time::from_nanos(monotonic.saturating_sub(self.clock.origin)).min(now)
    }
}

#[cfg(unix)]
fn date_less_monotonic() -> u64 {
    // Of a few tries the one whose outer readings lie closest is the least disturbed.
    let measure = |_| {
        let (before, date, after) = (monotonic_ns(), read(libc::CLOCK_REALTIME), monotonic_ns());
        (after - before, date.saturating_sub(before + (after - before) / 2))
    };
    (0..5).map(measure).min().expect("five tries").1
}

#[cfg(not(unix))]
fn date_less_monotonic() -> u64 {
    let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (date.as_nanos() as u64).saturating_sub(monotonic_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_and_its_origin_is_now() {
        let clock = Clock::starting_now();
        let start = clock.now();
        assert!(start < Time::from_secs(1));
        clock.sleep_until(start + Span::from_millis(5));
        assert!(clock.now() >= start + Span::from_millis(5));
        assert!(Clock::shared().now() > clock.now());
    }

    #[cfg(unix)]
    #[test]
    fn a_date_becomes_the_time_it_was_read_at() {
        let clock = Clock::starting_now();
        let mut calendar = Calendar::new(clock);
        let before = clock.now();
        let date = read(libc::CLOCK_REALTIME);
        let after = clock.now();
        let time = calendar.time_of(date, after);
        // The offset itself is measured to within a few microseconds.
        let slack = Span::from_micros(200);
        assert!(time + slack >= before && time <= after, "{before:?} <= {time:?} <= {after:?}");
        assert_eq!(calendar.time_of(date + 3_600_000_000_000, after), after, "never in the future");
        let (before, after) = (clock.date_of(before), clock.date_of(after));
        assert!(before <= date + 200_000 && date <= after + 200_000, "{before} <= {date} <= {after}");
    }
}
