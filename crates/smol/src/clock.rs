//! Our times as smoltcp's moments, which are numbers of microseconds and never read from a clock.

use smoltcp::time::Instant;
use units::Time;

/// A point in time as smoltcp has it.
pub(crate) type Moment = Instant;

/// When it is `time`, rounded down to what smoltcp's clock shows.
pub(crate) fn moment(time: Time) -> Moment {
    Moment::from_micros(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// When `moment` is; what lies before the origin is the origin.
pub(crate) fn time(moment: Moment) -> Time {
    Time::from_micros(u64::try_from(moment.total_micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_down_to_microseconds() {
        let seen = |ns| time(moment(Time::from_nanos(ns))).as_nanos();
        assert_eq!((seen(1_234_999), seen(1_235_000), seen(0)), (1_234_000, 1_235_000, 0));
        assert_eq!(time(Moment::from_micros(-5)), Time::ZERO);
    }
}
