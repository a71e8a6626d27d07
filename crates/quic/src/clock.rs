//! quinn's instants as our times.
//!
//! quinn is told the time by whoever drives it, as an opaque point of the operating system's clock. Here such
//! points are only ever compared with one of them, the epoch: time is what has passed since. No clock is
//! read.

use std::time::{Duration, Instant};

use units::Time;

/// A point in time as quinn has it.
pub(crate) type Moment = Instant;

/// The moment at which [`Time`] is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(Moment);

impl Epoch {
    /// `zero` is the origin of time.
    pub const fn at(zero: Moment) -> Epoch {
        Epoch(zero)
    }

    /// Some epoch, for virtual time: the clock only lends a value of the right type. Times are differences
    /// from it, so that nothing depends on which it is.
    #[allow(
        clippy::disallowed_methods,
        reason = "there is no other way to make a value of this type; only differences from it are ever used"
    )]
    pub fn any() -> Epoch {
        Epoch(Moment::now())
    }

    /// When `moment` is; [`Time::ZERO`] for what lies before the epoch.
    pub fn time(self, moment: Moment) -> Time {
        let since = moment.saturating_duration_since(self.0);
        Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The moment at which it is `time`.
    pub fn moment(self, time: Time) -> Moment {
        self.0 + Duration::from_nanos(time.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_moments_round_trip_to_the_nanosecond() {
        let epoch = Epoch::any();
        for ns in [0, 1, 1_234_567_891, 1 << 53] {
            let time = Time::from_nanos(ns);
            assert_eq!(epoch.time(epoch.moment(time)), time);
        }
        let later = Epoch::at(epoch.moment(Time::from_secs(5)));
        assert_eq!(later.time(epoch.moment(Time::from_secs(3))), Time::ZERO);
    }
}
