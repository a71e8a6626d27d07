//! Rate processes: how fast a link sends.
//!
//! ```text
//! Infinite   a packet leaves as it arrives; the queue is never used
//! Constant   finish = start + 8 size / rate
//! Steps      the integral of rate(t) from start to finish is 8 size (a rate may be zero: a blackout)
//! Shaper     a packet leaves, all at once, when a token bucket holds enough tokens for it (`tbf`)
//! Trace      a packet's bytes are sent at the trace's opportunities, 1504 at a time
//! ```

use std::sync::Arc;

use units::{Bytes, Rate, Span, Time};

use crate::text::TextError;
use crate::trace::{MahimahiTrace, OPPORTUNITY};

/// Bytes a TUN device adds to each packet: a Mahimahi opportunity of 1504 bytes carries 1500 of IP (Mahimahi,
/// `link_queue.cc`).
pub const TUN_FRAMING: u32 = 4;

/// How fast a link sends.
#[derive(Clone, Debug, Default)]
pub enum RateProcess {
    /// No serialisation at all: packets pass at once and the queue stays empty.
    #[default]
    Infinite,
    /// The same rate for ever.
    Constant(Rate),
    /// A rate that changes at given times; a packet in transit goes on at the new rate.
    Steps(Steps),
    /// A token bucket before an infinitely fast line.
    Shaper(Shaper),
    /// A recorded or modelled trace of opportunities.
    Trace(Opportunities),
}

/// A rate that changes at given times. The first rate holds from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(Vec<(Time, Rate)>);

/// A token bucket that packets wait for, as Linux's `tbf`. The packet at its head is out of the queue, as
/// with every rate process; larger packets than the bucket holds are dropped.
///
/// Deviation: `tbf` counts the head in its queue's limit, which is `rate x latency + burst` bytes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// How fast tokens come: the rate in the long run.
    pub rate: Rate,
    /// Most tokens kept: what leaves back to back after a pause. At most 1 GiB.
    pub burst: Bytes,
    /// How fast a burst leaves, one full packet of 1500 bytes ahead (larger ones are dropped); `None` for at
    /// once.
    pub peak: Option<Rate>,
}

/// A Mahimahi trace as a rate process.
#[derive(Clone, Debug)]
pub struct Opportunities {
    /// The trace; shared by the links that use it.
    pub trace: Arc<MahimahiTrace>,
    /// Stop after one pass (Mahimahi's `--once`) instead of repeating.
    pub once: bool,
    /// Bytes each packet counts on top of its IP size: [`TUN_FRAMING`], or 0 to count raw bytes.
    pub framing: u32,
}

impl RateProcess {
    /// A rate that changes at the given times.
    ///
    /// # Errors
    /// [`TextError`] unless there is at least one step and their times increase strictly.
    pub fn steps(steps: Vec<(Time, Rate)>) -> Result<RateProcess, TextError> {
        if steps.is_empty() || !steps.is_sorted_by(|a, b| a.0 < b.0) {
            let accepted = "at least one (time, rate), each later than the one before";
            return Err(TextError::new(&format!("{steps:?}"), "a list of rate steps", accepted));
        }
        Ok(RateProcess::Steps(Steps(steps)))
    }

    /// A trace that repeats for ever, counting IP packets as Mahimahi does.
    pub fn trace(trace: Arc<MahimahiTrace>) -> RateProcess {
        RateProcess::Trace(Opportunities { trace, once: false, framing: TUN_FRAMING })
    }

    /// The rate that queue limits given as a time refer to: the rate itself, the fastest step, a trace's mean
    /// ([`Rate::MAX`] for an infinite link).
    pub fn reference(&self) -> Rate {
        match self {
            RateProcess::Infinite => Rate::MAX,
            RateProcess::Constant(rate) | RateProcess::Shaper(Shaper { rate, .. }) => *rate,
            RateProcess::Steps(steps) => steps.0.iter().map(|step| step.1).max().unwrap_or_default(),
            RateProcess::Trace(opportunities) => opportunities.trace.mean_rate(),
        }
    }

    /// The rate at `time`; for a trace, its mean over the second around `time`.
    pub fn rate_at(&self, time: Time) -> Rate {
        match self {
            RateProcess::Steps(steps) => steps.rate_at(time),
            RateProcess::Trace(_) => {
                let (from, to) = (time - Span::from_millis(500), time + Span::from_millis(500));
                Rate::average(self.capacity(from, to).unwrap_or_default(), to - from)
            }
            _ => self.reference(),
        }
    }

    /// IP bytes the process could have sent after `from` and up to `to`; `None` for an infinite link. A
    /// shaper may have sent a burst more.
    pub fn capacity(&self, from: Time, to: Time) -> Option<Bytes> {
        match self {
            RateProcess::Infinite => None,
            RateProcess::Constant(rate) | RateProcess::Shaper(Shaper { rate, .. }) => {
                Some(rate.bytes_in(to - from))
            }
            RateProcess::Steps(steps) => Some(steps.capacity(from, to)),
            RateProcess::Trace(opportunities) => Some(opportunities.capacity(from, to)),
        }
    }
}

impl Steps {
    /// When each rate begins; the first holds from the start whatever its time.
    pub fn as_slice(&self) -> &[(Time, Rate)] {
        &self.0
    }

    fn index_at(&self, time: Time) -> usize {
        self.0.partition_point(|step| step.0 <= time).saturating_sub(1)
    }

    fn rate_at(&self, time: Time) -> Rate {
        self.0[self.index_at(time)].1
    }

    fn end_of(&self, index: usize) -> Time {
        self.0.get(index + 1).map_or(Time::MAX, |step| step.0)
    }

    /// When `size` bytes are through if sending starts at `start`; [`Time::MAX`] if they never are.
    pub(crate) fn finish(&self, start: Time, size: u32) -> Time {
        const BIT_NS: u128 = 1_000_000_000;
        let mut left = u128::from(size) * 8 * BIT_NS;
        let mut at = start;
        for index in self.index_at(start)..self.0.len() {
            let rate = u128::from(self.0[index].1.as_bps());
            let end = self.end_of(index);
            let sent = rate * u128::from(end.as_nanos() - at.as_nanos());
            if sent >= left {
                return Time::from_nanos(at.as_nanos() + ((left + rate / 2) / rate) as u64);
            }
            left -= sent;
            at = end;
        }
        Time::MAX
    }

    fn capacity(&self, from: Time, to: Time) -> Bytes {
        let mut bit_ns = 0u128;
        let mut at = from;
        while at < to {
            let index = self.index_at(at);
            let end = self.end_of(index).min(to);
            bit_ns += u128::from(self.0[index].1.as_bps()) * u128::from(end.as_nanos() - at.as_nanos());
            at = end;
        }
        Bytes::new((bit_ns / 8_000_000_000) as u64)
    }
}

impl Opportunities {
    pub(crate) fn passes(&self) -> u64 {
        if self.once { 1 } else { u64::MAX }
    }

    /// When opportunity `index` is; [`Time::MAX`] after the last.
    pub(crate) fn at(&self, index: u64) -> Time {
        if self.once && index >= self.trace.len() { Time::MAX } else { self.trace.at(index) }
    }

    /// How many opportunities lie at or before `time`.
    pub(crate) fn count_until(&self, time: Time) -> u64 {
        self.trace.count_until(time, self.passes())
    }

    fn capacity(&self, from: Time, to: Time) -> Bytes {
        let count = self.count_until(to).saturating_sub(self.count_until(from));
        Bytes::new(count * u64::from(OPPORTUNITY - self.framing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn steps(list: &[(u64, u64)]) -> Steps {
        let list = list.iter().map(|&(at, mbps)| (ms(at), Rate::from_mbps(mbps))).collect();
        match RateProcess::steps(list).unwrap() {
            RateProcess::Steps(steps) => steps,
            _ => unreachable!(),
        }
    }

    #[test]
    fn a_packet_goes_on_at_the_new_rate() {
        // 1500 B = 12 kbit: 10 ms at 1 Mbit/s send 10 kbit, the other 2 kbit take 1 ms at 2 Mbit/s.
        assert_eq!(steps(&[(0, 1), (10, 2)]).finish(ms(0), 1500), ms(11));
        // A blackout of 5 s in the middle.
        assert_eq!(
            steps(&[(0, 12), (1, 0), (5001, 12)]).finish(Time::from_micros(500), 1500),
            Time::from_micros(5_001_500)
        );
        assert_eq!(steps(&[(0, 12), (1, 0)]).finish(Time::from_micros(500), 1500), Time::MAX);
        assert_eq!(steps(&[(0, 12)]).finish(ms(3), 1500), ms(4));
    }

    #[test]
    fn capacity_is_the_integral_of_the_rate() {
        let process = RateProcess::Steps(steps(&[(0, 20), (10_000, 5), (20_000, 20)]));
        assert_eq!(process.capacity(ms(5_000), ms(25_000)), Some(Bytes::new(31_250_000)));
        assert_eq!(process.reference(), Rate::from_mbps(20));
        assert_eq!(process.rate_at(ms(10_000)), Rate::from_mbps(5));
        let trace = Arc::new(MahimahiTrace::from_millis((1..=10).collect()).unwrap());
        let process = RateProcess::trace(trace);
        assert_eq!(process.capacity(ms(0), ms(1_000)), Some(Bytes::new(1_500_000)));
        assert_eq!(process.rate_at(ms(5_000)), Rate::from_mbps(12));
        assert_eq!(RateProcess::Infinite.capacity(ms(0), ms(1)), None);
    }

    #[test]
    fn unordered_steps_are_refused() {
        assert!(RateProcess::steps(vec![]).is_err());
        assert!(RateProcess::steps(vec![(ms(1), Rate::ZERO), (ms(1), Rate::ZERO)]).is_err());
    }

    proptest! {
        #[test]
        fn steps_send_exactly_the_packet(
            rates in prop::collection::vec(0u64..50_000_000, 1..6), start in 0u64..40_000_000, size in 40u32..1500
        ) {
            let list = rates.iter().enumerate().map(|(n, &bps)| (ms(10 * n as u64), Rate::from_bps(bps)));
            let process = RateProcess::steps(list.collect()).unwrap();
            let RateProcess::Steps(steps) = &process else { unreachable!() };
            let start = Time::from_nanos(start);
            let finish = steps.finish(start, size);
            if finish == Time::MAX {
                prop_assert_eq!(*rates.last().unwrap(), 0);
            } else {
                // Rounded to a nanosecond, in which less than a byte is sent.
                let sent = process.capacity(start, finish).unwrap().get();
                prop_assert!(sent.abs_diff(u64::from(size)) <= 1, "{sent} instead of {size}");
            }
        }
    }
}
