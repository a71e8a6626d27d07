//! When packets are through that are sent at a trace's opportunities, known as soon as they arrive.
//!
//! ```text
//! opportunity     7        8        9            of 1504 bytes each
//!              |.......a|aaaabbbb|bbbbb...|      b's last byte leaves at 9
//!                                     ^ tail: where the next packet's first byte goes
//! ```
//!
//! While something waits no byte of an opportunity is lost, so a packet's bytes follow those of the one
//! before. One that finds nothing waiting begins at the next opportunity. This is the slotted server of
//! `server.rs` without its steps.

use units::{Span, Time};

use crate::rate::Opportunities;
use crate::trace::OPPORTUNITY;

/// Opportunities that are looked at one by one for the next, before it is sought among all.
const NEAR: u64 = 4;

/// A byte among those that a trace can send.
#[derive(Clone, Copy, Default)]
struct Place {
    opportunity: u64,
    /// Bytes of that opportunity that others have.
    used: u32,
}

impl Place {
    /// The place `bytes` further on.
    #[inline(always)]
    fn after(self, bytes: u32) -> Place {
        let end = self.used + bytes;
        Place { opportunity: self.opportunity + u64::from(end / OPPORTUNITY), used: end % OPPORTUNITY }
    }
}

/// Sends at a trace's opportunities.
#[derive(Clone)]
pub(crate) struct Timetable {
    process: Opportunities,
    /// Where the first packet that is not through begins.
    head: Place,
    /// Where the next packet to come begins.
    tail: Place,
    /// The pass over the trace that was asked about last: its first opportunity, and when it began.
    pass: (u64, Time),
    /// Up to when it is known what is through.
    settled: Time,
}

impl Timetable {
    pub fn new(process: Opportunities) -> Timetable {
        let (head, tail) = (Place::default(), Place::default());
        Timetable { process, head, tail, pass: (0, Time::ZERO), settled: Time::ZERO }
    }

    /// Bytes that a packet takes, its framing included.
    #[inline(always)]
    fn bytes(&self, size: u32) -> u32 {
        size + self.process.framing
    }

    /// When opportunity `index` is; [`Time::MAX`] after the last.
    #[inline]
    fn at(&mut self, index: u64) -> Time {
        let length = self.process.trace.len();
        if index.wrapping_sub(self.pass.0) >= length {
            if self.process.once && index >= length {
                return Time::MAX;
            }
            let passes = (index / length) as i64;
            self.pass = (index - index % length, Time::ZERO + self.process.trace.duration() * passes);
        }
        let within = self.process.trace.millis()[(index - self.pass.0) as usize];
        self.pass.1 + Span::from_millis(i64::from(within))
    }

    /// When a packet of `size` bytes, which arrives at `now` behind others or is `first`, is through.
    #[inline]
    pub fn finish(&mut self, now: Time, size: u32, first: bool) -> Time {
        if first {
            self.tail = Place { opportunity: self.next_after(now), used: 0 };
            self.head = self.tail;
        }
        let bytes = self.bytes(size);
        let last = self.tail.after(bytes.saturating_sub(1));
        self.tail = self.tail.after(bytes);
        self.at(last.opportunity)
    }

    /// The first opportunity after `now`, where nothing waits: none that was used is.
    fn next_after(&mut self, now: Time) -> u64 {
        let next = self.tail.opportunity;
        let near = (next..next + NEAR).find(|&index| self.at(index) > now);
        near.unwrap_or_else(|| self.process.count_until(now))
    }

    /// All that is through at `now` is about to be taken note of.
    #[inline(always)]
    pub fn settle(&mut self, now: Time) {
        self.settled = now;
    }

    /// The first packet that was not through, one of `size` bytes, is through now.
    #[inline(always)]
    pub fn passed(&mut self, size: u32) {
        self.head = self.head.after(self.bytes(size));
    }

    /// Whether some of the first packet that is not through, one of `size` bytes, has been sent.
    #[inline]
    pub fn has_begun(&self, size: u32) -> bool {
        let Timetable { process, head, .. } = self;
        // What fits into one opportunity is through as soon as it has begun.
        head.used > 0 || self.bytes(size) > OPPORTUNITY && process.at(head.opportunity) <= self.settled
    }
}
