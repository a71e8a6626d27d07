//! Rates and sizes.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use crate::{Span, likely};

/// A rate in bit/s. There is no byte-per-second type: convert at the edge, once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

/// A quantity whose text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    /// What was written.
    pub found: String,
    /// What would have been accepted.
    pub expected: &'static str,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.found, self.expected)
    }
}
impl std::error::Error for ParseQuantityError {}

pub(crate) fn parse_with_unit(
    text: &str,
    units: &[(&str, f64)],
    expected: &'static str,
) -> Result<f64, ParseQuantityError> {
    let refuse = || ParseQuantityError { found: text.to_owned(), expected };
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(refuse)?;
    let number: f64 = lower[..split].trim().parse().map_err(|_| refuse())?;
    let (_, scale) = units.iter().find(|(name, _)| *name == &lower[split..]).ok_or_else(refuse)?;
    let value = number * scale;
    if value.is_finite() && (0.0..9e18).contains(&value) { Ok(value) } else { Err(refuse()) }
}

/// `n`, rounded to the nearest float. What is below 2^63, as nearly everything is, a processor turns into one
/// by a single instruction; without a sign it takes five.
#[inline]
const fn float(n: u64) -> f64 {
    if likely(n <= i64::MAX as u64) {
        n as i64 as f64
    } else {
        // Half of it, of which the last bit says whether anything was cut off, so that it rounds as `n` does.
        // Of `n as f64` compilers would make the longer conversion for both.
        (n >> 1 | n & 1) as i64 as f64 * 2.0
    }
}

/// A float that is not negative, rounded down. By a single instruction too, where it is below 2^63.
#[inline]
fn whole(x: f64) -> u64 {
    if likely(x < TOO_LARGE) { truncated(x) as u64 } else { (x - TOO_LARGE) as i64 as u64 | 1 << 63 }
}

/// A float below 2^63, not negative, without its fraction. `as` would look twice for what is too large.
#[inline(always)]
fn truncated(x: f64) -> i64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_cvttsd_si64, _mm_set_sd};
        // SAFETY: each of these processors has SSE2.
        unsafe { _mm_cvttsd_si64(_mm_set_sd(x)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        x as i64
    }
}

/// 2^63: the first float that is no signed number of 64 bits.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

impl Rate {
    /// Nothing at all.
    pub const ZERO: Rate = Rate(0);
    /// Faster than every link: a rate that never binds.
    pub const MAX: Rate = Rate(u64::MAX);

    /// `bps` bit/s.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }
    /// `kbps` times 1000 bit/s.
    pub const fn from_kbps(kbps: u64) -> Rate {
        Rate(kbps * 1_000)
    }
    /// `mbps` times 1,000,000 bit/s.
    pub const fn from_mbps(mbps: u64) -> Rate {
        Rate(mbps * 1_000_000)
    }
    /// `bps` bit/s, rounded; negative and non-finite values become zero.
    pub fn from_f64(bps: f64) -> Rate {
        // A cast rounds down; `f64::round` is a library call on a path every report takes.
        if likely(bps > 0.0) { Rate(whole(bps + 0.5)) } else { Rate::ZERO }
    }
    /// This rate in bit/s.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// bit/s, for estimators and plots.
    pub const fn as_f64(self) -> f64 {
        float(self.0)
    }
    /// Time to send `size` at this rate, rounded to the nearest nanosecond; [`Span::MAX`] at rate zero.
    pub fn time_to_send(self, size: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let bit_ns = u128::from(size.0) * 8_000_000_000;
        // 64-bit division is several times faster, and every packet passes here.
        match u64::try_from(bit_ns) {
            Ok(small) => Span::from_nanos(((small + self.0 / 2) / self.0) as i64),
            Err(_) => Span::from_nanos(
                ((bit_ns + u128::from(self.0) / 2) / u128::from(self.0)).min(i64::MAX as u128) as i64,
            ),
        }
    }
    /// Bytes sent in `span` at this rate, rounded down; none in a negative span.
    pub fn bytes_in(self, span: Span) -> Bytes {
        let ns = span.as_nanos().max(0) as u64;
        // As in `time_to_send`: 92 s at 200 Mbit/s fit into 64 bits.
        if let Some(small) = self.0.checked_mul(ns) {
            return Bytes(small / 8_000_000_000);
        }
        let large = u128::from(self.0) * u128::from(ns) / 8_000_000_000;
        Bytes(large.min(u128::from(u64::MAX)) as u64)
    }
    /// `self` scaled by a factor; negative and non-finite results become zero.
    pub fn mul_f64(self, factor: f64) -> Rate {
        Rate::from_f64(self.as_f64() * factor)
    }
    /// The average rate of `size` over `span`; zero for an empty or negative span.
    pub fn average(size: Bytes, span: Span) -> Rate {
        if span.is_positive() {
            Rate::from_f64(float(size.0) * 8e9 / span.as_nanos() as f64)
        } else {
            Rate::ZERO
        }
    }
}

impl Bytes {
    /// Nothing at all.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The number of bits, eight times that of bytes.
    pub const fn bits(self) -> u64 {
        self.0 * 8
    }
    /// The difference, or nothing where it would be negative.
    pub const fn saturating_sub(self, rhs: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(rhs.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, rhs: Bytes) -> Bytes {
        Bytes(self.0 + rhs.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Bytes) {
        self.0 += rhs.0;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, rhs: Bytes) -> Bytes {
        Bytes(self.0 - rhs.0)
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, rhs: Bytes) {
        self.0 -= rhs.0;
    }
}
impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        Bytes(iter.map(|b| b.0).sum())
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => write!(f, "{} kbit/s", self.0 as f64 / 1e3),
            _ => write!(f, "{:.2} Mbit/s", self.0 as f64 / 1e6),
        }
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    /// Reads `800kbit`, `20mbit`, `1.5gbit`, `9600bit` (bits per second; a bare number is refused).
    fn from_str(text: &str) -> Result<Rate, ParseQuantityError> {
        let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        parse_with_unit(text, &units, "a rate such as 800kbit, 20mbit or 1.5gbit").map(Rate::from_f64)
    }
}
impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Reads `1500b`, `64kb` (1000 bytes each), `64kib` (1024 bytes each), `1mb`.
    fn from_str(text: &str) -> Result<Bytes, ParseQuantityError> {
        let units = [("b", 1.0), ("kb", 1e3), ("kib", 1024.0), ("mb", 1e6), ("mib", 1048576.0)];
        let bytes = parse_with_unit(text, &units, "a size such as 1500B, 64kB, 64KiB or 1MB")?;
        Ok(Bytes(bytes.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_1500_byte_packet_takes_600_us_at_20_mbit() {
        let rate: Rate = "20mbit".parse().unwrap();
        assert_eq!(rate.time_to_send(Bytes::new(1500)), Span::from_micros(600));
        assert_eq!(rate.bytes_in(Span::from_micros(600)), Bytes::new(1500));
        assert_eq!(Rate::average(Bytes::new(1500), Span::from_micros(600)), rate);
    }

    proptest! {
        #[test]
        fn numbers_become_floats_and_back_as_a_cast_has_it(bits: u64, small in 0_u64..1 << 53) {
            for n in [bits, small, bits >> 1, (1 << 63) - 1, 1 << 63, u64::MAX] {
                prop_assert_eq!(float(n), n as f64);
                let rate = Rate::from_f64(n as f64);
                prop_assert_eq!(rate.as_bps(), (n as f64 + 0.5) as u64);
            }
            let any = f64::from_bits(bits);
            prop_assert_eq!(Rate::from_f64(any).as_bps(), if any > 0.0 { (any + 0.5) as u64 } else { 0 });
        }
    }

    #[test]
    fn zero_rate_never_finishes() {
        assert_eq!(Rate::ZERO.time_to_send(Bytes::new(1)), Span::MAX);
    }

    #[test]
    fn errors_say_what_would_be_accepted() {
        let error = "20".parse::<Rate>().unwrap_err();
        assert_eq!(error.to_string(), "`20` is not a rate such as 800kbit, 20mbit or 1.5gbit");
        assert!("NaNmbit".parse::<Rate>().is_err());
        assert!("1e30mbit".parse::<Rate>().is_err());
    }
}
