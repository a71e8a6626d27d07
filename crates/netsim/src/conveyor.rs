//! A link of constant delay behind a queue that refuses at its tail, whose rate is constant or a trace's, as
//! most links are: when a packet leaves is known the moment it arrives, so it is entered once and taken out
//! once, where a queue, a server and a line would each move it.
//!
//! ```text
//!   finish = max(now, finish of the one before) + size / rate      or as timetable.rs has it
//!
//!   | propagating ... | in transmission | waiting ... |
//!   ^ front           ^ gone                          ^ back
//! ```

use std::hint::select_unpredictable;

use record::Dropped;
use units::{Bytes, Serialisation, Span, Time, apart, cold_path, fetch_line, likely, unlikely};

use crate::books::Books;
use crate::config::LinkConfig;
use crate::packet::{Head, Packet, Written};
use crate::queue::{Backlog, Limit, Queue};
use crate::rate::RateProcess;
use crate::ring::Ring;
use crate::stats::LinkStats;
use crate::timetable::Timetable;

/// Packets that there is room for at first. Few, since a world may have ten thousand links that carry little.
const ROOM: usize = 4;

/// How packets are sent.
#[derive(Clone)]
enum Pace {
    /// Each in no time.
    AtOnce,
    /// One behind the other at a constant rate.
    Even(Serialisation),
    /// At a trace's opportunities.
    Slotted(Box<Timetable>),
}

/// What the server asks of a packet inside: when it is through, and its bytes.
#[derive(Clone, Copy, Default)]
struct Brief {
    finish: Time,
    size: u32,
}

/// One packet inside, and its head, if that came with it: never in more than two cache lines.
#[derive(Clone)]
#[repr(align(32))]
pub(crate) struct Slot {
    pub packet: Packet,
    pub head: Head,
}

/// What came out, where it lay, and when; and when the next one does, [`Time::MAX`] if there is none.
pub(crate) struct Taken<'a> {
    pub slot: &'a Slot,
    pub due: Time,
    pub next: Time,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot { packet: Packet::bare(0, 0, Time::ZERO), head: Head::default() }
    }
}

/// Queue, server and delay line in one.
#[derive(Clone)]
pub(crate) struct Conveyor {
    /// Packets inside in their order.
    slots: Ring<Brief, Slot>,
    /// How many of them, the first ones, are known to be through the server: the others follow in `slots`.
    gone: usize,
    /// Of the first that is not known to be through: when it is, and its bytes. [`Time::MAX`] and 0 where
    /// there is none. Kept, as `due` is, since each packet asks several times and they change once.
    next: Time,
    head: u32,
    /// When the first one comes out; [`Time::MAX`] where there is none.
    due: Time,
    /// When the last one is through.
    finish: Time,
    delay: Span,
    pace: Pace,
    limit: Limit,
    /// Bytes of those that are not known to be through.
    bytes: u64,
}

impl Conveyor {
    /// The link of `config` with its `queue`, if it is of this kind.
    pub fn new(config: &LinkConfig, queue: &dyn Queue) -> Option<Conveyor> {
        let pace = match config.rate {
            RateProcess::Infinite => Pace::AtOnce,
            RateProcess::Constant(rate) => Pace::Even(Serialisation::new(rate)),
            RateProcess::Trace(ref process) => Pace::Slotted(Box::new(Timetable::new(process.clone()))),
            _ => return None,
        };
        let delay = config.delay.constant_span().filter(|_| config.reorder.is_none())?;
        let limit = queue.tail_limit().filter(|_| !config.jitter.is_positive())?;
        let (slots, never) = (Ring::default(), Time::MAX);
        let (next, due, finish) = (never, never, Time::ZERO);
        Some(Conveyor { slots, gone: 0, next, head: 0, due, finish, delay, pace, limit, bytes: 0 })
    }

    /// What waits, without the packet in transmission, as of when [`settle`](Conveyor::settle) was last
    /// called, and what has arrived since: never less than what waits by now.
    #[inline(always)]
    pub fn backlog(&self) -> Backlog {
        let packets = (self.slots.len() - self.gone) as u32;
        if let Pace::Slotted(timetable) = &self.pace {
            cold_path();
            if !timetable.has_begun(self.head) {
                return Backlog { packets, bytes: self.bytes };
            }
        }
        Backlog { packets: packets.saturating_sub(1), bytes: self.bytes - u64::from(self.head) }
    }

    /// A packet arrives. Returns whether anything may be other than before but that it is inside: when the
    /// link acts next, what its driver must be told.
    #[inline(always)]
    pub fn admit(&mut self, now: Time, packet: Packet, head: Written<'_>, books: &mut Books) -> bool {
        match &mut self.pace {
            Pace::AtOnce => {
                let was_empty = self.enter(now, packet, head);
                self.gone = self.slots.len();
                books.note_departure(now, &packet);
                was_empty
            }
            // Less waits than did once, with every packet that may be through by now: so this one finds room,
            // and nothing is new to the books. Which packets are through is worked out when it matters.
            Pace::Even(serialisation) if likely(self.gone < self.slots.len() && now <= self.finish) => {
                let time = serialisation.time(Bytes::new(u64::from(packet.size)));
                let Backlog { packets, bytes } = self.backlog();
                let bytes = bytes + u64::from(packet.size);
                if likely(time < Span::MAX && books.has_seen(Backlog { packets: packets + 1, bytes })) {
                    self.finish = self.finish.later_by(time);
                    self.bytes += u64::from(packet.size);
                    self.put(self.finish, packet, head);
                    return false;
                }
                self.admit_exactly(now, apart(packet), head, books)
            }
            Pace::Even(_) | Pace::Slotted(_) => self.admit_exactly(now, apart(packet), head, books),
        }
    }

    /// The same where it has to be known what waits.
    #[inline(never)]
    fn admit_exactly(&mut self, now: Time, packet: Packet, head: Written<'_>, books: &mut Books) -> bool {
        self.settle(now, false, books);
        let Backlog { packets, bytes } = self.backlog();
        if unlikely(!self.limit.admits(Backlog { packets, bytes }, packet.size)) {
            books.count_drop(now, packet, Dropped::QueueFull);
            return true;
        }
        self.finish = match &mut self.pace {
            Pace::Even(serialisation) => match serialisation.time(Bytes::new(u64::from(packet.size))) {
                time if likely(time < Span::MAX) => self.finish.max(now) + time,
                _ => Time::MAX,
            },
            Pace::Slotted(timetable) => {
                cold_path();
                timetable.finish(now, packet.size, self.gone == self.slots.len())
            }
            Pace::AtOnce => now,
        };
        let size = u64::from(packet.size);
        self.bytes += size;
        // Whether something waits before it can't be predicted, so nothing branches.
        let first = self.gone == self.slots.len();
        self.next = select_unpredictable(first, self.finish, self.next);
        self.head = select_unpredictable(first, packet.size, self.head);
        let was_empty = self.enter(self.finish, packet, head);
        books.note_backlog(now, &packet, Backlog { packets: packets + 1, bytes: bytes + size });
        was_empty | books.recorded
    }

    /// Returns whether nothing was inside.
    #[inline(always)]
    fn enter(&mut self, finish: Time, packet: Packet, head: Written<'_>) -> bool {
        let was_empty = unlikely(self.slots.is_empty());
        if was_empty {
            self.due = finish.later_by(self.delay);
        }
        self.put(finish, packet, head);
        was_empty
    }

    // Written where it is kept: handed over, it would be copied several times.
    #[inline(always)]
    fn put(&mut self, finish: Time, packet: Packet, head: Written<'_>) {
        let (brief, slot) = self.slots.enter(ROOM);
        *brief = Brief { finish, size: packet.size };
        slot.packet = packet;
        slot.head.take(head);
    }

    /// Takes note of each packet that is through the server at `now`, at or before it if `inclusive`. An
    /// opportunity is over at its instant.
    #[inline(never)]
    pub fn settle(&mut self, now: Time, inclusive: bool, books: &mut Books) {
        if unlikely(books.recorded || matches!(self.pace, Pace::Slotted(_))) {
            return self.settle_each(now, inclusive, books);
        }
        // What never is through is not through at the end of time either.
        let until = now.as_nanos().saturating_add(u64::from(inclusive));
        if self.next.as_nanos() >= until {
            return;
        }
        let (mut gone, mut bytes, mut next, mut head) = (self.gone, self.bytes, self.next, self.head);
        let (near, far) = self.slots.briefs_behind(gone + 1);
        let waits = near.iter().chain(far).any(|brief| {
            (gone, bytes) = (gone + 1, bytes - u64::from(head));
            (next, head) = (brief.finish, brief.size);
            next.as_nanos() >= until
        });
        (self.gone, self.bytes, self.next, self.head) = (gone, bytes, next, head);
        if !waits {
            self.pass(books);
        }
    }

    /// The first packet that is not known to be through is.
    #[inline(always)]
    fn pass(&mut self, books: &mut Books) {
        let through = self.next;
        self.gone += 1;
        self.bytes -= u64::from(self.head);
        (self.next, self.head) = match self.slots.brief(self.gone) {
            Some(Brief { finish, size }) => (finish, size),
            None => {
                books.rest(through);
                (Time::MAX, 0)
            }
        };
    }

    /// The same where each packet that is through is told of.
    #[inline(never)]
    fn settle_each(&mut self, now: Time, mut inclusive: bool, books: &mut Books) {
        if let Pace::Slotted(timetable) = &mut self.pace {
            timetable.settle(now);
            inclusive = true;
        }
        let until = now.as_nanos().saturating_add(u64::from(inclusive));
        while self.next.as_nanos() < until {
            if unlikely(books.recorded)
                && let Some(slot) = self.slots.get(self.gone)
            {
                books.note_departure(self.next, &slot.packet);
            }
            if let Pace::Slotted(timetable) = &mut self.pace {
                timetable.passed(self.head);
            }
            self.pass(books);
        }
    }

    /// When the next packet comes out; [`Time::MAX`] for never.
    #[inline(always)]
    pub fn next_due(&self) -> Time {
        self.due
    }

    /// Whether a packet is out at `now`. What is through never is never out, though it be asked for at the
    /// end of time.
    #[inline(always)]
    pub fn is_ready(&self, now: Time) -> bool {
        self.due <= now && self.due < Time::MAX
    }

    /// The next packet, which [is out](Conveyor::is_ready) at `now`.
    #[inline(always)]
    pub fn take(&mut self, now: Time, books: &mut Books) -> Taken<'_> {
        // A trace's opportunities are passed one by one. Else it is enough that this packet counts as
        // through.
        if unlikely(self.gone == 0 || matches!(self.pace, Pace::Slotted(_))) {
            // It may be through and out at one instant.
            self.settle(now, self.delay == Span::ZERO, books);
        }
        self.gone -= 1;
        let (left, first) = self.slots.leave();
        let next = match first {
            Some(first) => first.finish.later_by(self.delay),
            None => {
                cold_path();
                Time::MAX
            }
        };
        let due = std::mem::replace(&mut self.due, next);
        Taken { slot: left.expect("what is out was inside"), due, next }
    }

    /// The head of the packet that was taken last, if that came with it, until the next one is admitted.
    #[inline(always)]
    pub fn head(&self) -> Option<&Head> {
        self.slots.left().map(|slot| &slot.head).filter(|head| likely(head.is_some()))
    }

    /// The packet that comes out after `others` more, if it is inside. Has the one brought into the caches
    /// that comes out `further` more after it.
    #[inline(always)]
    pub fn after(&self, others: usize, further: usize) -> Option<&Packet> {
        let slot = self.slots.get(others)?;
        // Where the ring begins anew somewhere else is fetched.
        let fetched = std::ptr::from_ref(slot).wrapping_add(further);
        fetch_line(fetched);
        fetch_line(fetched.wrapping_add(1).cast::<u8>().wrapping_sub(1));
        Some(&slot.packet)
    }

    /// When the next packet is through the server; [`Time::MAX`] for never.
    #[inline(always)]
    pub fn next_departure(&self) -> Time {
        self.next
    }

    /// Completes counters in which only drops, copies and deliveries were counted packet by packet: what
    /// arrived is what came out, was dropped or is inside.
    pub fn complete(&self, stats: &mut LinkStats) {
        for flow in stats.all_flows() {
            flow.departed = flow.delivered;
            flow.offered = flow.delivered + flow.dropped;
        }
        for (index, Slot { packet, .. }) in self.slots.iter().enumerate() {
            let flow = stats.row(packet.flow);
            flow.offered.count(packet.size);
            if index < self.gone {
                flow.departed.count(packet.size);
            }
        }
        for flow in stats.all_flows() {
            flow.offered = flow.offered - flow.duplicated;
        }
    }

    /// Packets inside that have their heads with them.
    pub fn heads(&self) -> usize {
        self.slots.iter().filter(|slot| slot.head.is_some()).count()
    }

    /// Packets inside.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use record::Tap;
    use units::Rate;

    use super::*;
    use crate::link::{Link, Notice};
    use crate::rate::Opportunities;
    use crate::trace::MahimahiTrace;

    #[test]
    fn a_packet_inside_is_a_line_and_a_half() {
        assert_eq!((size_of::<Slot>(), align_of::<Slot>(), size_of::<Brief>()), (96, 32, 16));
    }

    /// What can be seen of a link after a step; of one that was just `settled`, everything.
    fn seen(link: &mut Link, now: Time, settled: bool) -> impl PartialEq + std::fmt::Debug + use<> {
        let notices: Vec<Notice> = link.notices().collect();
        (notices, link.inside(), settled.then(|| (link.backlog(), link.busy_time(now))))
    }

    fn config(rate: RateProcess, limit: &str, delay_us: i64) -> LinkConfig {
        LinkConfig::bottleneck(rate, limit.parse().unwrap(), Span::from_micros(delay_us))
    }

    /// Has a link of this kind and one of stages do the same. Each step comes some tenths of a millisecond
    /// after the one before: 0 settles, 1 takes what has come out, others offer a packet of so many bytes.
    fn hold_against_stages(config: &LinkConfig, steps: Vec<(u64, u32, u8)>) -> Result<(), TestCaseError> {
        let mut conveyor = Link::new(config.clone(), 1, "link", Tap::default());
        let mut stages = Link::in_stages(config.clone(), 1, "link", Tap::default());
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
            prop_assert_eq!(seen(&mut conveyor, now, kind == 0), seen(&mut stages, now, kind == 0));
            prop_assert!(conveyor.backlog().packets >= stages.backlog().packets);
            // A slotted server acts at each opportunity, whether or not a packet is through then.
            let is_exact = !matches!(config.rate, RateProcess::Trace(_));
            // Only who settles a link learns when the next packet is through.
            let asked: &[fn(&Link) -> Time] =
                if kind == 0 { &[Link::next_due, Link::next_departure] } else { &[Link::next_due] };
            for when in asked {
                let (ours, theirs) = (when(&conveyor), when(&stages));
                prop_assert!(ours == theirs || ours > theirs && !is_exact, "{:?} {:?}", ours, theirs);
            }
            while kind == 1 && conveyor.next_event().is_some_and(|at| at <= now) {
                prop_assert_eq!(conveyor.deliver_dated(now), stages.deliver_dated(now));
            }
            if kind == 1 && !is_exact {
                conveyor.settle(now);
                prop_assert_eq!(stages.deliver_dated(now), None);
            }
            prop_assert_eq!(seen(&mut conveyor, now, false), seen(&mut stages, now, false));
        }
        for link in [&mut conveyor, &mut stages] {
            link.settle(now);
        }
        let (one, other) = (conveyor.stats(), stages.stats());
        prop_assert!((0..3).all(|flow| one.flow(flow) == other.flow(flow)));
        prop_assert_eq!((one.peak_packets, one.peak_bytes), (other.peak_packets, other.peak_bytes));
        prop_assert_eq!(one.dropped(Dropped::QueueFull), other.dropped(Dropped::QueueFull));
        prop_assert_eq!(conveyor.capacity(Time::ZERO, now), stages.capacity(Time::ZERO, now));
        Ok(())
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u32, u8)>> {
        prop::collection::vec((0_u64..40, 40_u32..1_600, 0_u8..4), 1..300)
    }

    const LIMITS: [&str; 4] = ["infinite", "droptail:3p", "droptail:4kB", "droptail:2ms"];

    proptest! {
        #[test]
        fn a_conveyor_is_a_queue_a_server_and_a_line(
            (kbps, delay_us) in (prop::option::of(prop_oneof![Just(0_u64), 50..20_000_u64]), 0_i64..3_000),
            limit in prop::sample::select(&LIMITS[..]),
            steps in steps(),
        ) {
            let rate = kbps.map_or(RateProcess::Infinite, |kbps| RateProcess::Constant(Rate::from_kbps(kbps)));
            let limit = if kbps.is_none_or(|kbps| kbps == 0) { "droptail:3p" } else { limit };
            hold_against_stages(&config(rate, limit, delay_us), steps)?;
        }

        #[test]
        fn at_a_traces_opportunities_too(
            (gaps, once) in (prop::collection::vec(0_u32..4, 1..40), any::<bool>()),
            (framing, delay_us) in (0_u32..1_200, 0_i64..3_000),
            limit in prop::sample::select(&LIMITS[..]),
            steps in steps(),
        ) {
            let sums = gaps.iter().scan(0, |sum, gap| {
                *sum += gap;
                Some(*sum)
            });
            let trace = MahimahiTrace::from_millis(sums.chain([200]).collect()).unwrap();
            let rate = RateProcess::Trace(Opportunities { trace: Arc::new(trace), once, framing });
            hold_against_stages(&config(rate, limit, delay_us), steps)?;
        }
    }
}
