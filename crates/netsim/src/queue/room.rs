//! How much a queue holds at a given time: always the same, or what the link sends in a given time at its
//! rate of the moment.
//!
//! A limit in time is bytes at a reference rate (RFC 8867), so that a queue of 300 ms holds 1.2 s of traffic
//! once the link sends a quarter. Devices that size their queue by the time it takes to drain (DOCSIS 3.1's
//! buffer control, the discard timer of LTE's PDCP) do not behave like that; a limit that follows the link
//! stands for them.

use units::{Bytes, Rate, Span, Time};

use super::{Limit, Setup};
use crate::rate::RateProcess;

/// The stretch over which the rate of a trace is taken, up to now: its opportunities come in bunches.
const OF_A_TRACE: Span = Span::from_secs(1);

/// A [`Limit`] that may change with time.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// Holds at all times.
    fixed: Limit,
    /// The limit when it was last looked at.
    latest: Limit,
    follows: Option<Box<Follows>>,
}

/// What a limit in time follows.
#[derive(Clone, Debug)]
struct Follows {
    time: Span,
    process: RateProcess,
    /// The latest rate above zero. While nothing is sent a queue keeps its size, for no time would be long
    /// enough.
    rate: Rate,
}

impl Room {
    pub fn fixed(limit: Limit) -> Room {
        Room { fixed: limit, latest: limit, follows: None }
    }

    /// Whether the limit is the same at all times.
    #[inline]
    pub fn is_fixed(&self) -> bool {
        self.follows.is_none()
    }

    /// Whether nothing limits it.
    pub fn is_unlimited(&self) -> bool {
        self.fixed == Limit::NONE && self.follows.is_none()
    }

    /// `fixed`, and what the link of `setup` sends in `time`.
    pub fn following(fixed: Limit, time: Span, setup: &Setup) -> Room {
        let follows = Follows { time, process: setup.process.clone(), rate: setup.reference };
        Room { fixed, latest: fixed, follows: Some(Box::new(follows)) }
    }

    /// The limit at `now`; times never decrease from call to call.
    #[inline]
    pub fn at(&mut self, now: Time) -> Limit {
        if let Some(follows) = &mut self.follows {
            self.latest = self.fixed.and(follows.at(now));
        }
        self.latest
    }

    /// The limit when it was last looked at.
    #[inline]
    pub fn latest(&self) -> Limit {
        self.latest
    }
}

impl Follows {
    fn at(&mut self, now: Time) -> Limit {
        let rate = match &self.process {
            RateProcess::Trace(_) if now < Time::ZERO + OF_A_TRACE => self.rate,
            RateProcess::Trace(_) => {
                let sent = self.process.capacity(now - OF_A_TRACE, now).unwrap_or(Bytes::ZERO);
                Rate::average(sent, OF_A_TRACE)
            }
            process => process.rate_at(now),
        };
        if rate > Rate::ZERO {
            self.rate = rate;
        }
        Limit::time(self.time, self.rate)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::queue::Drops;
    use crate::{MahimahiTrace, Packet, QueueSpec};

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn setup(process: RateProcess) -> Setup {
        Setup { reference: process.reference(), process, seed: 1, link: "link".into() }
    }

    fn falling() -> RateProcess {
        let rates = [(0, 8), (1_000, 2), (2_000, 0), (3_000, 4)];
        RateProcess::steps(rates.map(|(at, mbps)| (ms(at), Rate::from_mbps(mbps))).to_vec()).unwrap()
    }

    #[test]
    fn three_hundred_milliseconds_stay_three_hundred() {
        let mut room = Room::following(Limit::packets(500), Span::from_millis(300), &setup(falling()));
        let bytes = |at| Limit { packets: 500, bytes: at };
        assert_eq!(room.at(ms(0)), bytes(300_000));
        assert_eq!(room.at(ms(1_000)), bytes(75_000));
        assert_eq!(room.at(ms(2_500)), bytes(75_000), "a link that stands still keeps its queue");
        assert_eq!(room.at(ms(3_000)), bytes(150_000));
    }

    #[test]
    fn a_trace_is_followed_by_its_last_second() {
        // 500 opportunities in the first second, 100 in the second, none for ten.
        let first = (1..=1000).filter(|at| at % 2 == 0);
        let list = first.chain((1001..=2000).filter(|at| at % 10 == 0)).chain([12_000]);
        let trace = Arc::new(MahimahiTrace::from_millis(list.collect()).unwrap());
        let setup = setup(RateProcess::trace(trace));
        let mut room = Room::following(Limit::NONE, Span::from_millis(100), &setup);
        assert_eq!(room.at(ms(10)), Limit::time(Span::from_millis(100), setup.reference));
        assert_eq!(room.at(ms(1_000)).bytes, 75_000);
        assert_eq!(room.at(ms(2_000)).bytes, 15_000);
        let last = room.at(ms(2_990)).bytes;
        assert_eq!(room.at(ms(5_000)).bytes, last, "in an outage it stays what it was");
    }

    /// Offers `count` packets of 1000 bytes, and one more a second later; numbers of what was dropped and
    /// what is left.
    fn after_a_fall(queue: &str) -> (Vec<u32>, Vec<u32>) {
        let mut queue = queue.parse::<QueueSpec>().unwrap().build(&setup(falling()));
        let mut drops = Drops::new();
        for id in 0..100 {
            let packet = Packet { id, ..Packet::bare(0, 1_000, ms(0)) };
            queue.enqueue(ms(0), packet, &mut drops).unwrap();
        }
        assert!(drops.is_empty());
        let late = Packet { id: 100, ..Packet::bare(0, 1_000, ms(1_000)) };
        let refused = queue.enqueue(ms(1_000), late, &mut drops).is_err();
        let mut dropped: Vec<u32> = drops.iter().map(|(packet, _)| packet.id).collect();
        dropped.extend(refused.then_some(100));
        dropped.sort_unstable();
        let left = std::iter::from_fn(|| queue.dequeue(ms(1_000), &mut Drops::new())).map(|packet| packet.id);
        (dropped, left.collect())
    }

    #[test]
    fn a_queue_shrinks_with_its_link() {
        // 300 ms at 2 Mbit/s are 75 packets of 1000 bytes.
        assert_eq!(after_a_fall("droptail:300ms,follow"), ((75..=100).collect(), (0..75).collect()));
        assert_eq!(after_a_fall("drophead:300ms,follow"), ((0..26).collect(), (26..=100).collect()));
        assert_eq!(after_a_fall("droptail:300ms"), (vec![], (0..=100).collect()), "at the fastest rate");
        let (_, left) = after_a_fall("droptail:300ms,200p,follow");
        assert_eq!(left.len(), 75);
    }

    #[test]
    fn only_a_time_can_follow() {
        for bad in ["droptail:100p,follow", "droptail:follow", "droptail:300ms,follow=perhaps"] {
            assert!(bad.parse::<QueueSpec>().is_err(), "{bad}");
        }
        let error = "droptail:100p,follow".parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.contains("300ms,follow"), "{error}");
    }
}
