//! The server of a link's queue: which packet is being transmitted and when it is through.
//!
//! Two kinds. A *timed* server (constant or stepped rate, token bucket) takes the next packet when the one
//! before is through and knows at once when it will finish. A *slotted* server (a Mahimahi trace) acts at
//! opportunities only:
//!
//! ```text
//! at each opportunity, budget = 1504 bytes; while budget > 0:
//!     nothing in transit: take the next queued packet, or stop (the rest of the budget is lost)
//!     send min(budget, bytes left); a packet leaves when its last byte is sent
//! ```
//!
//! Source: Mahimahi, `link_queue.cc` (ravinet/mahimahi ae477d43).

use units::{Bytes, Serialisation, Span, Time};

use crate::Packet;
use crate::bucket::Bucket;
use crate::rate::{Opportunities, RateProcess, Shaper, Steps};

/// A link's server.
#[derive(Clone)]
pub(crate) enum Server {
    Infinite,
    Timed(Timed),
    Slotted(Slotted),
}

impl Server {
    pub fn new(process: RateProcess) -> Server {
        match process {
            RateProcess::Infinite => Server::Infinite,
            RateProcess::Constant(rate) => {
                Server::Timed(Timed::new(Pace::Constant(Serialisation::new(rate))))
            }
            RateProcess::Steps(steps) => Server::Timed(Timed::new(Pace::Steps(steps))),
            RateProcess::Shaper(shaper) => Server::Timed(Timed::new(Pace::Buckets(Buckets::new(shaper)))),
            RateProcess::Trace(process) => Server::Slotted(Slotted::new(process)),
        }
    }

    /// The packet being transmitted.
    pub fn in_transit(&self) -> Option<&Packet> {
        match self {
            Server::Infinite => None,
            Server::Timed(timed) => timed.packet.as_ref(),
            Server::Slotted(slotted) => slotted.packet.as_ref(),
        }
    }
}

/// One packet at a time, through at a known time.
#[derive(Clone)]
pub(crate) struct Timed {
    pace: Pace,
    packet: Option<Packet>,
    /// When it is through; [`Time::MAX`] while there is none.
    pub finish: Time,
    /// The largest packet that ever gets through, in bytes.
    pub largest: u32,
}

#[derive(Clone)]
enum Pace {
    Constant(Serialisation),
    Steps(Steps),
    Buckets(Buckets),
}

/// A shaper's bucket, and the one that spreads its bursts.
#[derive(Clone)]
struct Buckets {
    mean: Bucket,
    peak: Option<Bucket>,
}

/// The largest IP packet of Ethernet (RFC 894): how far a peak rate may be ahead (`tbf` calls it `mtu`).
const PEAK_BURST: Bytes = Bytes::new(1500);

impl Buckets {
    fn new(shaper: Shaper) -> Buckets {
        let peak = shaper.peak.map(|rate| Bucket::new(rate, PEAK_BURST));
        Buckets { mean: Bucket::new(shaper.rate, shaper.burst), peak }
    }

    fn largest(&self) -> u32 {
        self.peak.iter().map(Bucket::largest).fold(self.mean.largest(), u32::min)
    }

    /// When a packet that is at the head at `at` leaves.
    fn finish(&mut self, at: Time, size: u32) -> Time {
        let ready = self.peak.iter_mut().map(|peak| peak.ready(at, size));
        let ready = ready.fold(self.mean.ready(at, size), Time::max);
        if ready < Time::MAX {
            self.mean.take(ready, size);
            self.peak.iter_mut().for_each(|peak| _ = peak.take(ready, size));
        }
        ready
    }
}

impl Timed {
    fn new(pace: Pace) -> Timed {
        let largest = if let Pace::Buckets(buckets) = &pace { buckets.largest() } else { u32::MAX };
        Timed { pace, packet: None, finish: Time::MAX, largest }
    }

    pub fn is_idle(&self) -> bool {
        self.packet.is_none()
    }

    /// Starts transmitting `next` at `at`, or rests if there is none.
    pub fn serve(&mut self, at: Time, next: Option<Packet>) {
        self.packet = next;
        self.finish = match (&next, &mut self.pace) {
            (None, _) => Time::MAX,
            (Some(packet), Pace::Constant(serialisation)) => {
                match serialisation.time(Bytes::new(u64::from(packet.size))) {
                    Span::MAX => Time::MAX,
                    time => at + time,
                }
            }
            (Some(packet), Pace::Steps(steps)) => steps.finish(at, packet.size),
            (Some(packet), Pace::Buckets(buckets)) => buckets.finish(at, packet.size),
        };
    }

    /// The packet that is through at `now` (at or before it if `inclusive`), and when it was.
    #[inline]
    pub fn through(&self, now: Time, inclusive: bool) -> Option<(Time, Packet)> {
        if self.finish > now || (self.finish == now && !inclusive) {
            return None;
        }
        self.packet.map(|packet| (self.finish, packet))
    }
}

/// Sends at a trace's opportunities.
#[derive(Clone)]
pub(crate) struct Slotted {
    process: Opportunities,
    next: u64,
    next_at: Time,
    packet: Option<Packet>,
    left: u32,
}

impl Slotted {
    fn new(process: Opportunities) -> Slotted {
        let next_at = process.at(0);
        Slotted { process, next: 0, next_at, packet: None, left: 0 }
    }

    /// When the next opportunity is; [`Time::MAX`] after the last.
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// Passes over all opportunities at or before `now`: there was nothing to send.
    pub fn skip(&mut self, now: Time) {
        self.next = self.process.count_until(now);
        self.next_at = self.process.at(self.next);
    }

    /// Takes the next opportunity and returns when it is.
    pub fn take(&mut self) -> Time {
        let at = self.next_at;
        self.next += 1;
        self.next_at = self.process.at(self.next);
        at
    }

    pub fn is_idle(&self) -> bool {
        self.packet.is_none()
    }

    /// Puts `packet` into transit.
    pub fn load(&mut self, packet: Packet) {
        self.left = packet.size + self.process.framing;
        self.packet = Some(packet);
    }

    /// Sends as much of the packet in transit as `budget` allows; returns it once its last byte is sent.
    pub fn send(&mut self, budget: &mut u32) -> Option<Packet> {
        let sent = self.left.min(*budget);
        *budget -= sent;
        self.left -= sent;
        if self.left == 0 { self.packet.take() } else { None }
    }
}
