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
