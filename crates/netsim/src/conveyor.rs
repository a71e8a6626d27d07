//! A link of constant rate and delay behind a queue that refuses at its tail, as most links are: when a
//! packet leaves is known the moment it arrives, so it is entered once and taken out once, where a queue, a
//! server and a line would each move it.
//!
//! ```text
//!   finish = max(now, finish of the one before) + size / rate
//!
//!   | propagating ... | in transmission | waiting ... |
//!   ^ front           ^ gone                          ^ back
//! ```

use std::collections::VecDeque;

use record::Dropped;
use units::{Span, Sparing, Time};

use crate::Packet;
use crate::books::Books;
use crate::config::LinkConfig;
use crate::queue::{Backlog, Limit, Queue};
use crate::rate::RateProcess;
use crate::server::Serialisation;

/// Packets that there is room for at first. Few, since a world may have ten thousand links that carry little.
const ROOM: usize = 4;

/// Queue, server and delay line in one.
#[derive(Clone)]
pub(crate) struct Conveyor {
    /// Packets inside in their order, each with when it is through the server.
    slots: VecDeque<(Time, Packet)>,
    /// How many of them, the first ones, are through the server: where in `slots` the others begin.
    gone: usize,
    /// When the last one is through.
    finish: Time,
    delay: Span,
    /// None sends a packet in no time.
    pace: Option<Serialisation>,
    limit: Limit,
    /// Bytes of those that are not through.
    bytes: u64,
}

impl Conveyor {
    /// The link of `config` with its `queue`, if it is of this kind.
    pub fn new(config: &LinkConfig, queue: &dyn Queue) -> Option<Conveyor> {
        let pace = match config.rate {
            RateProcess::Infinite => None,
            RateProcess::Constant(rate) => Some(Serialisation::new(rate)),
            _ => return None,
        };
        let delay = config.delay.constant_span().filter(|_| config.reorder.is_none())?;
        let limit = queue.tail_limit().filter(|_| !config.jitter.is_positive())?;
        Some(Conveyor { slots: VecDeque::new(), gone: 0, finish: Time::ZERO, delay, pace, limit, bytes: 0 })
    }

    /// What waits, without the packet in transmission.
    #[inline(always)]
    pub fn backlog(&self) -> Backlog {
        let Some((_, sent)) = self.slots.get(self.gone) else { return Backlog::default() };
        let packets = (self.slots.len() - self.gone) as u32 - 1;
        Backlog { packets, bytes: self.bytes - u64::from(sent.size) }
    }

    /// A packet arrives.
    #[inline(always)]
    pub fn admit(&mut self, now: Time, packet: Packet, books: &mut Books) {
        self.settle(now, false, books);
        let Some(pace) = &mut self.pace else {
            self.enter(now, packet);
            self.gone = self.slots.len();
            return books.count_departure(now, &packet);
        };
        let time = pace.time(packet.size);
        let Backlog { packets, bytes } = self.backlog();
        if !self.limit.admits(Backlog { packets, bytes }, packet.size) {
            return books.count_drop(now, packet, Dropped::QueueFull);
        }
        self.finish = if time == Span::MAX { Time::MAX } else { self.finish.max(now) + time };
        let size = u64::from(packet.size);
        self.bytes += size;
        self.enter(self.finish, packet);
        books.note_backlog(now, &packet, Backlog { packets: packets + 1, bytes: bytes + size });
    }

    #[inline(always)]
    fn enter(&mut self, finish: Time, packet: Packet) {
        self.slots.room_for_one(ROOM);
        self.slots.push_back((finish, packet));
    }

    /// Takes note of each packet that is through the server at `now`, at or before it if `inclusive`.
    #[inline(always)]
    pub fn settle(&mut self, now: Time, inclusive: bool, books: &mut Books) {
        while let Some(&(finish, packet)) = self.slots.get(self.gone) {
            if finish > now || finish == now && (!inclusive || finish == Time::MAX) {
                return;
            }
            self.gone += 1;
            self.bytes -= u64::from(packet.size);
            books.count_departure(finish, &packet);
            if self.gone == self.slots.len() {
                books.rest(finish);
            }
        }
    }

    /// When the next packet comes out; [`Time::MAX`] for never.
    #[inline(always)]
    pub fn next_due(&self) -> Time {
        self.slots.front().map_or(Time::MAX, |first| first.0 + self.delay)
    }

    /// The next packet that is out at `now`, and when it came out.
    #[inline(always)]
    pub fn deliver(&mut self, now: Time, books: &mut Books) -> Option<(Time, Packet)> {
        let &(finish, packet) = self.slots.front()?;
        let due = finish + self.delay;
        // What is through never is never out, though it be asked for at the end of time.
        if due > now || finish == Time::MAX {
            return None;
        }
        // A packet may be through and out at one instant.
        self.settle(now, self.delay == Span::ZERO, books);
        self.slots.pop_front();
        self.gone -= 1;
        Some((due, packet))
    }

    /// The packet that comes out after `others` more, if it is inside.
    #[inline(always)]
    pub fn after(&self, others: usize) -> Option<&Packet> {
        self.slots.get(others).map(|slot| &slot.1)
    }

    /// When the next packet is through the server; [`Time::MAX`] for never.
    #[inline(always)]
    pub fn next_departure(&self) -> Time {
        self.slots.get(self.gone).map_or(Time::MAX, |next| next.0)
    }

    /// Packets inside.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use record::Tap;
    use units::Rate;

    use super::*;
    use crate::link::{Link, Notice};

    /// Everything that can be seen of a link after a step.
    fn seen(link: &mut Link, now: Time) -> impl PartialEq + std::fmt::Debug + use<> {
        let notices: Vec<Notice> = link.notices().collect();
        let (next, departure) = (link.next_event(), link.next_departure());
        (notices, next, departure, link.inside(), link.backlog(), link.busy_time(now))
    }

    proptest! {
        #[test]
        fn a_conveyor_is_a_queue_a_server_and_a_line(
            (kbps, delay_us) in (prop::option::of(prop_oneof![Just(0_u64), 50..20_000_u64]), 0_i64..3_000),
            limit in prop_oneof![Just("infinite"), Just("droptail:3p"), Just("droptail:4kB"), Just("droptail:2ms")],
            steps in prop::collection::vec((0_u64..40, 40_u32..1_600, 0_u8..4), 1..300),
        ) {
            let rate = kbps.map_or(RateProcess::Infinite, |kbps| RateProcess::Constant(Rate::from_kbps(kbps)));
            let limit = if kbps.is_none_or(|kbps| kbps == 0) { "droptail:3p" } else { limit };
            let config = LinkConfig::bottleneck(rate, limit.parse().unwrap(), Span::from_micros(delay_us));
            let mut conveyor = Link::new(config.clone(), 1, "link", Tap::default());
            let mut stages = Link::in_stages(config, 1, "link", Tap::default());
            let mut now = Time::ZERO;
            for (id, (tenths, size, kind)) in (0..).zip(steps) {
                now += Span::from_micros(100 * tenths as i64);
                let packet = Packet { id, ..Packet::bare((id % 3) as u16, size, now) };
                for link in [&mut conveyor, &mut stages] {
                    match kind {
                        0 => link.settle(now),
                        1 => {}
                        _ => link.offer(now, packet),
                    }
                }
                prop_assert_eq!(seen(&mut conveyor, now), seen(&mut stages, now));
                while kind == 1 && conveyor.next_event().is_some_and(|at| at <= now) {
                    prop_assert_eq!(conveyor.deliver_dated(now), stages.deliver_dated(now));
                }
                prop_assert_eq!(seen(&mut conveyor, now), seen(&mut stages, now));
            }
            for link in [&mut conveyor, &mut stages] {
                link.settle(now);
            }
            let (one, other) = (conveyor.stats(), stages.stats());
            prop_assert!((0..3).all(|flow| one.flow(flow) == other.flow(flow)));
            prop_assert_eq!((one.peak_packets, one.peak_bytes), (other.peak_packets, other.peak_bytes));
            prop_assert_eq!(one.dropped(Dropped::QueueFull), other.dropped(Dropped::QueueFull));
            prop_assert_eq!(conveyor.capacity(Time::ZERO, now), stages.capacity(Time::ZERO, now));
        }
    }
}
