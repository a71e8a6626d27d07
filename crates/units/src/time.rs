//! Points and lengths of time, in integer nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

use crate::{ParseQuantityError, unlikely};

/// A point on this machine's own monotonic clock, in nanoseconds since the clock's origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A signed length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(i64);

/// A point on *another* machine's clock, in nanoseconds; its origin and drift are unknown here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RemoteTime(i64);

/// A one-way delay measured between two clocks: true delay plus an unknown constant offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelativeDelay(i64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// Later than every instant that can occur.
    pub const MAX: Time = Time(u64::MAX);

    /// `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }
    /// Whichever of two instants that may not come is first. For what runs per packet: an array of such
    /// instants is slow to copy right after it was written.
    ///
    /// ```
    /// # use framewire_units::Time;
    /// let (early, late) = (Time::from_millis(1), Time::from_millis(2));
    /// assert_eq!(Time::first(Some(late), Some(early)), Some(early));
    /// assert_eq!(Time::first(None, Some(late)), Some(late));
    /// assert_eq!(Time::first(None, None), None);
    /// ```
    #[inline]
    pub fn first(a: Option<Time>, b: Option<Time>) -> Option<Time> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, None) | (None, one) => one,
        }
    }
    /// `us` microseconds after the origin.
    pub const fn from_micros(us: u64) -> Time {
        Time(us * 1_000)
    }
    /// `ms` milliseconds after the origin.
    pub const fn from_millis(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }
    /// `s` seconds after the origin.
    pub const fn from_secs(s: u64) -> Time {
        Time(s * 1_000_000_000)
    }
    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Seconds since the origin, for plots and tables.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Milliseconds since the origin, for plots and tables.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// How this instant looks to the machine at the other end.
    pub const fn on_wire(self) -> RemoteTime {
        RemoteTime(self.0 as i64)
    }
    /// `self - span`, or the origin where that would lie before it.
    #[inline]
    pub fn saturating_sub(self, span: Span) -> Time {
        self.saturating_add(-span)
    }
    /// `self + span`, held within the clock's range.
    #[inline]
    pub fn saturating_add(self, span: Span) -> Time {
        // As u64::saturating_add_signed, which doesn't say that hardly any time is beyond the range.
        let (sum, over) = self.0.overflowing_add(span.0 as u64);
        if unlikely(over != (span.0 < 0)) { Time::end(span) } else { Time(sum) }
    }

    /// `self + wait`, held within the clock's range, for a `wait` that is not negative: one check instead of
    /// what the sum with any span takes.
    #[inline]
    pub fn later_by(self, wait: Span) -> Time {
        debug_assert!(wait.0 >= 0, "a wait of {wait}");
        let (sum, over) = self.0.overflowing_add(wait.0 as u64);
        if unlikely(over) { Time::end(wait) } else { Time(sum) }
    }
    /// `self - lead`, held within the clock's range, for a `lead` that is not negative, with one check too.
    #[inline]
    pub fn earlier_by(self, lead: Span) -> Time {
        debug_assert!(lead.0 >= 0, "a lead of {lead}");
        let (rest, over) = self.0.overflowing_sub(lead.0 as u64);
        if unlikely(over) { Time::end(-lead) } else { Time(rest) }
    }

    /// The end of the range beyond which `span` leads.
    #[cold]
    #[inline(never)]
    fn end(span: Span) -> Time {
        if span.0 < 0 { Time::ZERO } else { Time::MAX }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than every span that can occur (292 years).
    pub const MAX: Span = Span(i64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: i64) -> Span {
        Span(ns)
    }
    /// `us` microseconds.
    pub const fn from_micros(us: i64) -> Span {
        Span(us * 1_000)
    }
    /// `ms` milliseconds.
    pub const fn from_millis(ms: i64) -> Span {
        Span(ms * 1_000_000)
    }
    /// `s` seconds.
    pub const fn from_secs(s: i64) -> Span {
        Span(s * 1_000_000_000)
    }
    /// `s` seconds, rounded to the nearest nanosecond; out-of-range and non-finite values saturate.
    pub fn from_secs_f64(s: f64) -> Span {
        Span((s * 1e9).round() as i64)
    }
    /// This span in nanoseconds; negative if it is.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
    /// Whole microseconds, rounded towards zero.
    pub const fn as_micros(self) -> i64 {
        self.0 / 1_000
    }
    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// This span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// True for spans longer than nothing.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
    /// `self` scaled by a finite factor, rounded to the nearest nanosecond.
    pub fn mul_f64(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor).round() as i64)
    }
    /// The length without its sign.
    pub const fn abs(self) -> Span {
        Span(self.0.saturating_abs())
    }
}

impl RemoteTime {
    /// `ns` nanoseconds on the other machine's clock.
    pub const fn from_nanos(ns: i64) -> RemoteTime {
        RemoteTime(ns)
    }
    /// Nanoseconds on the other machine's clock.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
    /// The one-way delay of something sent at `sent` (our clock) and seen at `self` (theirs).
    pub fn delay_since(self, sent: Time) -> RelativeDelay {
        RelativeDelay(self.0.wrapping_sub(sent.0 as i64))
    }
}

impl RelativeDelay {
    /// The delay of something sent at `sent` on the other machine's clock and seen at `seen` on ours.
    pub fn between(sent: RemoteTime, seen: Time) -> RelativeDelay {
        RelativeDelay((seen.0 as i64).wrapping_sub(sent.0))
    }
    /// Nanoseconds, offset included: for records only, never for arithmetic with a [`Span`].
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
    /// Where the remote instant `at` falls on our clock if this delay were the offset between the two clocks.
    pub fn localise(self, at: RemoteTime) -> Time {
        Time(at.0.wrapping_add(self.0).max(0) as u64)
    }
}

impl Sub for RelativeDelay {
    type Output = Span;
    fn sub(self, rhs: RelativeDelay) -> Span {
        Span(self.0.wrapping_sub(rhs.0))
    }
}
impl Sub for RemoteTime {
    type Output = Span;
    fn sub(self, rhs: RemoteTime) -> Span {
        Span(self.0.wrapping_sub(rhs.0))
    }
}
impl Add<Span> for RemoteTime {
    type Output = RemoteTime;
    fn add(self, rhs: Span) -> RemoteTime {
        RemoteTime(self.0.wrapping_add(rhs.0))
    }
}
impl Sub for Time {
    type Output = Span;
    fn sub(self, rhs: Time) -> Span {
        Span(self.0.wrapping_sub(rhs.0) as i64)
    }
}
impl Add<Span> for Time {
    type Output = Time;
    /// Saturates at both ends: a clock never runs before its origin.
    fn add(self, rhs: Span) -> Time {
        self.saturating_add(rhs)
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}
impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, rhs: Span) -> Time {
        self.saturating_sub(rhs)
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, rhs: Span) -> Span {
        Span(self.0.saturating_add(rhs.0))
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, rhs: Span) -> Span {
        Span(self.0.saturating_sub(rhs.0))
    }
}
impl SubAssign for Span {
    fn sub_assign(&mut self, rhs: Span) {
        *self = *self - rhs;
    }
}
impl Neg for Span {
    type Output = Span;
    fn neg(self) -> Span {
        Span(self.0.saturating_neg())
    }
}
impl Mul<i64> for Span {
    type Output = Span;
    fn mul(self, rhs: i64) -> Span {
        Span(self.0.saturating_mul(rhs))
    }
}
impl Div<i64> for Span {
    type Output = Span;
    fn div(self, rhs: i64) -> Span {
        Span(self.0 / rhs)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.as_secs_f64())
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.as_millis_f64())
    }
}
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.unsigned_abs() {
            0..1_000 => write!(f, "{}ns", self.0),
            1_000..1_000_000 => write!(f, "{}us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{}ms", self.0 as f64 / 1e6),
            _ => write!(f, "{}s", self.0 as f64 / 1e9),
        }
    }
}
impl fmt::Debug for RemoteTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remote {}s", self.0 as f64 / 1e9)
    }
}
impl fmt::Debug for RelativeDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset+{}ms", self.0 as f64 / 1e6)
    }
}

impl FromStr for Span {
    type Err = ParseQuantityError;

    /// Reads `250us`, `20ms`, `1.5s`, `2min`, `12h` (a bare number is refused: its unit would be a guess).
    fn from_str(text: &str) -> Result<Span, ParseQuantityError> {
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9), ("h", 3600e9)];
        let ns = crate::quantity::parse_with_unit(text, &units, "a time such as 250us, 20ms, 1.5s or 2min")?;
        Ok(Span(ns.round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_and_leads_are_added_as_any_span_is(at in any::<u64>(), span in 0..=i64::MAX) {
            let (at, span) = (Time(at), Span(span));
            prop_assert_eq!((at.later_by(span), at.earlier_by(span)), (at + span, at - span));
        }
    }

    #[test]
    fn offsets_cancel_in_delay_differences() {
        let offset = Span::from_secs(7_200);
        let seen = |t: Time| RemoteTime::from_nanos((t + offset).as_nanos() as i64);
        let first = seen(Time::from_millis(120)).delay_since(Time::from_millis(100));
        let second = seen(Time::from_millis(145)).delay_since(Time::from_millis(110));
        assert_eq!(second - first, Span::from_millis(15));
    }

    #[test]
    fn time_saturates_at_its_origin() {
        assert_eq!(Time::from_millis(1) - Span::from_millis(5), Time::ZERO);
        assert_eq!(Time::MAX + Span::from_secs(1), Time::MAX);
    }

    #[test]
    fn spans_parse_with_units_only() {
        assert_eq!("20ms".parse::<Span>(), Ok(Span::from_millis(20)));
        assert_eq!("1.5s".parse::<Span>(), Ok(Span::from_millis(1_500)));
        assert_eq!("2min".parse::<Span>(), Ok(Span::from_secs(120)));
        assert_eq!("12h".parse::<Span>(), Ok(Span::from_secs(43_200)));
        assert!("20".parse::<Span>().is_err());
        assert!("-3ms".parse::<Span>().is_err());
    }
}
