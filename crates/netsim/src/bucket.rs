//! Token buckets: a rate with bursts. A shaper waits for tokens, a policer drops what finds too few.
//!
//! ```text
//! tokens(t) = min(burst, tokens + rate x elapsed)       a packet takes as many tokens as it has bytes
//! ```
//!
//! Source: Linux, `sch_tbf.c` and tc-tbf(8). Tokens are whole nanobits (10^-9 bit), so that nothing is lost
//! by rounding.

use units::{Bytes, Rate, Span, Time};

const PER_BYTE: u64 = 8_000_000_000;

/// The largest bucket, in bytes: 1 GiB. Its tokens fit 64 bits.
pub(crate) const LARGEST_BURST: Bytes = Bytes::new(1 << 30);

/// A token bucket that starts full.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    depth: u64,
    tokens: u64,
    at: Time,
}

impl Bucket {
    /// A full bucket of `burst`, at most [`LARGEST_BURST`].
    pub fn new(rate: Rate, burst: Bytes) -> Bucket {
        let depth = burst.get().min(LARGEST_BURST.get()) * PER_BYTE;
        Bucket { rate, depth, tokens: depth, at: Time::ZERO }
    }

    /// The largest packet that ever finds enough tokens.
    pub fn largest(&self) -> u32 {
        u32::try_from(self.depth / PER_BYTE).unwrap_or(u32::MAX)
    }

    fn fill(&mut self, now: Time) {
        let elapsed = (now - self.at).as_nanos().max(0) as u128;
        let gained = u128::from(self.rate.as_bps()) * elapsed;
        self.tokens = (u128::from(self.tokens) + gained).min(u128::from(self.depth)) as u64;
        self.at = self.at.max(now);
    }

    /// When there will be enough tokens for `size` bytes, `now` at the earliest; [`Time::MAX`] for never.
    pub fn ready(&mut self, now: Time, size: u32) -> Time {
        self.fill(now);
        let needed = u64::from(size) * PER_BYTE;
        let Some(missing) = needed.checked_sub(self.tokens).filter(|&missing| missing > 0) else {
            return now;
        };
        match self.rate.as_bps() {
            0 => Time::MAX,
            _ if needed > self.depth => Time::MAX,
            bps => now + Span::from_nanos(missing.div_ceil(bps) as i64),
        }
    }

    /// Takes `size` bytes' tokens at `now`, if there are enough.
    pub fn take(&mut self, now: Time, size: u32) -> bool {
        self.fill(now);
        let left = self.tokens.checked_sub(u64::from(size) * PER_BYTE);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate(
            bps in 1_000u64..1_000_000_000, burst in 1_500u64..20_000,
            gaps in prop::collection::vec((0i64..20_000_000, 40u32..1500), 1..100)
        ) {
            let mut bucket = Bucket::new(Rate::from_bps(bps), Bytes::new(burst));
            let (mut now, mut passed) = (Time::ZERO, 0u64);
            for (gap, size) in gaps {
                now += Span::from_nanos(gap);
                let ready = bucket.ready(now, size);
                let taken = bucket.clone().take(now, size);
                prop_assert_eq!(taken, ready == now);
                // Ready means ready, and not a nanosecond sooner.
                prop_assert!(bucket.clone().take(ready, size));
                if ready > now {
                    prop_assert!(!bucket.clone().take(Time::from_nanos(ready.as_nanos() - 1), size));
                }
                now = ready;
                prop_assert!(bucket.take(now, size));
                passed += u64::from(size);
                let allowed = burst + Rate::from_bps(bps).bytes_in(now - Time::ZERO).get() + 1;
                prop_assert!(passed <= allowed, "{passed} of {allowed}");
            }
        }
    }
}
