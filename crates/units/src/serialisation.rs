//! Transmission times at one rate.

use crate::{Bytes, Rate, Span, unlikely};

/// What packets take to be sent at one rate. The latest one is remembered: most packets are of one size, and
/// each would cost a division.
///
/// ```
/// use framewire_units::{Bytes, Rate, Serialisation, Span};
///
/// let mut ten_megabit = Serialisation::new(Rate::from_mbps(10));
/// assert_eq!(ten_megabit.time(Bytes::new(1250)), Span::from_millis(1));
/// assert_eq!(Serialisation::new(Rate::ZERO).time(Bytes::new(1)), Span::MAX);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Serialisation {
    rate: Rate,
    size: Bytes,
    time: Span,
}

/// The largest rate in bit/s, and the largest packet in bytes, of which sums and products stay in 64 bits.
const LARGEST: u64 = u64::MAX / 4;
const LARGEST_SIZE: u64 = 1 << 28;

impl Serialisation {
    /// Transmission at `rate`.
    pub fn new(rate: Rate) -> Serialisation {
        // What nothing takes, without the division.
        let time = if rate == Rate::ZERO { Span::MAX } else { Span::ZERO };
        Serialisation { rate, size: Bytes::ZERO, time }
    }

    /// Transmission at `rate`, of packets of `size`, most likely.
    #[inline]
    pub fn of(rate: Rate, size: Bytes) -> Serialisation {
        Serialisation { rate, size, time: rate.time_to_send(size) }
    }

    /// The same, and what two such packets take together: one division for both.
    #[inline]
    pub fn of_one_and_two(rate: Rate, size: Bytes) -> (Serialisation, Span) {
        let (bps, both) = (rate.as_bps(), Bytes::new(size.get().saturating_mul(2)));
        if unlikely(bps == 0 || bps > LARGEST || size.get() > LARGEST_SIZE) {
            return (Serialisation::of(rate, size), rate.time_to_send(both));
        }
        // Both are rounded to the nearest nanosecond: of two packets that is one more or less than twice what
        // one takes, where what was left over says so.
        let (half, bit_ns) = (bps / 2, size.get() * 8_000_000_000);
        let one = (bit_ns + half) / bps;
        let left = 2 * (bit_ns + half - one * bps);
        let two = 2 * one + u64::from(left >= bps + half) - u64::from(left < half);
        let time = Span::from_nanos(one as i64);
        (Serialisation { rate, size, time }, Span::from_nanos(two as i64))
    }

    /// The size that was asked for last.
    #[inline]
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The rate at which packets are sent.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// What `size` takes, as [`Rate::time_to_send`] has it.
    #[inline]
    pub fn time(&mut self, size: Bytes) -> Span {
        if unlikely(size != self.size) {
            self.size = size;
            self.time = self.rate.time_to_send(size);
        }
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn two_take_what_is_asked_for_together(
            bps in prop_oneof![0u64..40, 0u64..20_000_000_000, any::<u64>()],
            size in prop_oneof![0u64..4, 0u64..70_000, any::<u64>()],
        ) {
            let (rate, size) = (Rate::from_bps(bps), Bytes::new(size));
            let (mut one, two) = Serialisation::of_one_and_two(rate, size);
            prop_assert_eq!(one.time(size), rate.time_to_send(size));
            prop_assert_eq!(two, rate.time_to_send(Bytes::new(size.get().saturating_mul(2))));
        }

        #[test]
        fn it_is_the_time_to_send_whatever_was_asked_before(bps in 0u64..1_000, sizes in prop::collection::vec(0u64..4, 1..20)) {
            let rate = Rate::from_bps(bps);
            let mut serialisation = Serialisation::new(rate);
            for size in sizes.into_iter().map(Bytes::new) {
                prop_assert_eq!(serialisation.time(size), rate.time_to_send(size));
                let mut other = Serialisation::of(rate, serialisation.size());
                prop_assert_eq!((other.time(size), other.time(Bytes::new(2))), (rate.time_to_send(size), rate.time_to_send(Bytes::new(2))));
            }
        }
    }
}
