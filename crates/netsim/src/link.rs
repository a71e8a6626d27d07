//! A link: the pipeline a packet passes in one direction between two places.
//!
//! ```text
//! offer --> impairments --> queue --> rate process --> delay, jitter, reordering --> deliver
//!              | lost,        | refused, dropped
//!              | policed      |
//!              v              v
//!            notices        notices
//! ```
//!
//! Only the queue holds backlog: bytes in propagation are not buffered. A link has no clock: whoever drives
//! it, the world in virtual time or an emulator in real time, says what time it is, never an earlier time
//! than before, calls [`deliver`](Link::deliver) when [`next_event`](Link::next_event) has come, and empties
//! [`notices`](Link::notices) after each call.
//!
//! Departures are worked out when it matters (what waits is asked for, a packet may not fit), at the
//! instants they happened, so a packet costs its driver one event instead of two. At one instant arrivals
//! come before the departure of a timed server and after the opportunities of a trace (Mahimahi,
//! `link_queue.cc`).

use record::{Dropped, Tap};
use units::{Bytes, Span, Time, apart, cold_path, likely, seldom, unlikely};

use crate::Packet;
use crate::books::Books;
use crate::config::LinkConfig;
use crate::conveyor::{Conveyor, Taken};
use crate::impair::{Gate, Impairments, Verdict};
use crate::packet::{Head, Written};
use crate::queue::{Backlog, Queue, Setup};
use crate::rate::RateProcess;
use crate::stages::Stages;
use crate::stats::LinkStats;

/// Something the driver must know in order to keep its books about the bytes packets stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This packet is gone.
    Dropped(Packet, Dropped),
    /// One more packet now stands for the same bytes.
    Duplicated(Packet),
}

/// One link in one direction.
pub struct Link {
    name: String,
    process: RateProcess,
    gate: Option<Box<Gate>>,
    course: Course,
    books: Books,
}

/// What is behind the gate.
enum Course {
    /// Where a link is so simple, as most are.
    Conveyor(Conveyor),
    Stages(Box<Stages>),
}

impl Link {
    /// A link called `name`; its random streams are `<name>/loss`, `<name>/jitter` and so on, under `seed`.
    pub fn new(config: LinkConfig, seed: u64, name: &str, tap: Tap) -> Link {
        Link::behind(config, seed, name, tap, Course::new)
    }

    /// The same with queue, server and line, however simple it is.
    #[cfg(test)]
    pub(crate) fn in_stages(config: LinkConfig, seed: u64, name: &str, tap: Tap) -> Link {
        Link::behind(config, seed, name, tap, |config, queue, seed, name| {
            Course::Stages(Box::new(Stages::new(config, queue, seed, name)))
        })
    }

    fn behind(
        config: LinkConfig,
        seed: u64,
        name: &str,
        tap: Tap,
        course: impl FnOnce(&LinkConfig, Box<dyn Queue>, u64, &str) -> Course,
    ) -> Link {
        let reference = config.reference.unwrap_or_else(|| config.rate.reference());
        let setup = Setup { reference, process: config.rate.clone(), seed, link: name.to_owned() };
        let queue = config.queue.build(&setup);
        Link {
            course: course(&config, queue, seed, name),
            name: name.to_owned(),
            books: Books::new(tap, config.recorded),
            gate: Gate::new(config.impairments, seed, name),
            process: config.rate,
        }
    }

    /// A copy that goes on by itself and records with `tap`; none where its queue can't be copied.
    pub(crate) fn fork(&self, tap: Tap) -> Option<Link> {
        let course = match &self.course {
            Course::Conveyor(conveyor) => Course::Conveyor(conveyor.clone()),
            Course::Stages(stages) => Course::Stages(Box::new(stages.fork()?)),
        };
        let Link { name, process, gate, course: _, books } = self;
        let (name, process, gate) = (name.clone(), process.clone(), gate.clone());
        Some(Link { name, process, gate, course, books: books.fork(tap) })
    }

    /// From here on packets that arrive within `blackouts` are lost, and within those before no longer.
    pub(crate) fn replace_blackouts(&mut self, blackouts: Vec<(Time, Time)>, seed: u64) {
        match &mut self.gate {
            Some(gate) => gate.replace_blackouts(blackouts),
            None => {
                self.gate = Gate::new(Impairments { blackouts, ..Impairments::default() }, seed, &self.name)
            }
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What has happened at it, departures as of the last [`settle`](Link::settle).
    pub fn stats(&self) -> LinkStats {
        let mut stats = self.books.stats.clone();
        stats.gather();
        if let Course::Conveyor(conveyor) = &self.course {
            conveyor.complete(&mut stats);
        }
        stats
    }

    /// A packet of `flow` will come out soon: has brought into the caches where it is counted.
    #[inline]
    pub(crate) fn expect(&self, flow: u16) {
        self.books.stats.fetch(flow);
    }

    /// What waits in the queue, without the packet being transmitted, as of the last
    /// [`settle`](Link::settle). Packets that have arrived since are counted; so may be those that have left.
    pub fn backlog(&self) -> Backlog {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.backlog(),
            Course::Stages(stages) => stages.backlog(),
        }
    }

    /// Packets inside: waiting, in transmission and in propagation.
    pub fn inside(&self) -> u64 {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.len() as u64,
            Course::Stages(stages) => stages.inside(),
        }
    }

    /// How fast it sends.
    pub fn rate(&self) -> &RateProcess {
        &self.process
    }

    /// IP bytes the link could have sent after `from` and up to `to`; `None` for an infinite one.
    pub fn capacity(&self, from: Time, to: Time) -> Option<Bytes> {
        self.process.capacity(from, to)
    }

    /// How long, up to `now`, the link has had something to send; as of the last [`settle`](Link::settle).
    pub fn busy_time(&self, now: Time) -> Span {
        self.books.busy_time(now)
    }

    /// What happened to packets since the last call, in order. The driver must take them after each `offer`,
    /// `deliver`, `advance` and `settle`, and before it handles what was delivered.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.books.notices.drain(..)
    }

    #[inline]
    pub(crate) fn has_notices(&self) -> bool {
        !self.books.notices.is_empty()
    }

    /// A packet arrives at the link's entry.
    #[inline(always)]
    pub fn offer(&mut self, now: Time, packet: Packet) {
        self.offer_with(now, packet, Written::NOTHING);
    }

    /// The same with its head, if the link [keeps heads](Link::keeps_heads). Returns whether the driver must
    /// look at it: it may act earlier now than before, or has [notices](Link::notices).
    #[inline(always)]
    pub(crate) fn offer_with(&mut self, now: Time, mut packet: Packet, head: Written<'_>) -> bool {
        packet.entered = now;
        if let Course::Stages(_) = &self.course {
            cold_path();
            self.books.count_offer(packet.flow, packet.size);
        }
        if let Some(gate) = &mut self.gate {
            cold_path();
            match gate.judge(now, packet.size) {
                Verdict::Pass => {}
                Verdict::Drop(cause) => {
                    self.books.count_drop(now, apart(packet), cause);
                    return true;
                }
                Verdict::Twice => {
                    self.duplicate(now, apart(packet), head);
                    self.admit(now, packet, head);
                    return true;
                }
            }
        }
        self.admit(now, packet, head)
    }

    #[inline(always)]
    fn admit(&mut self, now: Time, packet: Packet, head: Written<'_>) -> bool {
        match &mut self.course {
            Course::Conveyor(conveyor) => conveyor.admit(now, packet, head, &mut self.books),
            Course::Stages(stages) => {
                seldom(stages).admit(now, apart(packet), &mut self.books);
                true
            }
        }
    }

    #[cold]
    fn duplicate(&mut self, now: Time, packet: Packet, head: Written<'_>) {
        self.books.duplicate(packet);
        self.admit(now, packet, head);
    }

    /// When [`deliver`](Link::deliver) wants to be called next; by then a packet may come out, but need not.
    pub fn next_event(&self) -> Option<Time> {
        let due = self.next_due();
        (due < Time::MAX).then_some(due)
    }

    /// The next packet that has come out at the far end by `now`.
    #[inline(always)]
    pub fn deliver(&mut self, now: Time) -> Option<Packet> {
        self.deliver_dated(now).map(|(_, packet)| packet)
    }

    /// As [`deliver`](Link::deliver), with the moment the packet came out: a driver in real time is always a
    /// little late.
    #[inline(always)]
    pub fn deliver_dated(&mut self, now: Time) -> Option<(Time, Packet)> {
        if let Course::Stages(stages) = &mut self.course {
            let (due, packet) = seldom(stages).deliver(now, &mut self.books)?;
            self.books.count_delivery(&packet);
            return Some((due, packet));
        }
        self.take(now).map(|Taken { slot, due, .. }| (due, slot.packet))
    }

    /// The same where the link is one ring; of others nothing.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Time) -> Option<Taken<'_>> {
        let Course::Conveyor(conveyor) = &mut self.course else { return None };
        if unlikely(!conveyor.is_ready(now)) {
            return None;
        }
        let taken = conveyor.take(now, &mut self.books);
        self.books.count_delivery(&taken.slot.packet);
        Some(taken)
    }

    /// Makes room for the counters of every flow there can be (6 MB) at once, for a driver that cannot wait
    /// for it later.
    pub fn expect_all_flows(&mut self) {
        self.books.stats.row(0);
        self.books.stats.row(u16::MAX);
    }

    /// Appends every packet that has come out by `now` to `out`.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Packet>) {
        out.extend(std::iter::from_fn(|| self.deliver(now)));
    }

    /// Works out every departure up to and at `now`, so that backlog and counters are those of `now`.
    pub fn settle(&mut self, now: Time) {
        match &mut self.course {
            Course::Conveyor(conveyor) => conveyor.settle(now, true, &mut self.books),
            Course::Stages(stages) => stages.settle(now, &mut self.books),
        }
    }

    /// [`next_event`](Link::next_event), with [`Time::MAX`] for never.
    #[inline(always)]
    pub(crate) fn next_due(&self) -> Time {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.next_due(),
            Course::Stages(stages) => seldom(stages).next_due(&self.books),
        }
    }

    /// When the server may next finish a packet; [`Time::MAX`] for never.
    pub(crate) fn next_departure(&self) -> Time {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.next_departure(),
            Course::Stages(stages) => stages.next_departure(&self.books),
        }
    }

    /// The packet that comes out after `others` more, where that is known. Has the one brought into the
    /// caches that comes out `further` more after it.
    #[inline(always)]
    pub(crate) fn after(&self, others: usize, further: usize) -> Option<&Packet> {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.after(others, further),
            Course::Stages(_) => None,
        }
    }

    /// Whether a packet's head, [offered](Link::offer_with) with it, is there when it comes out.
    #[inline(always)]
    pub(crate) fn keeps_heads(&self) -> bool {
        likely(matches!(self.course, Course::Conveyor(_)))
    }

    /// The head of the packet that came out last, if it was offered with it, until another one is offered.
    #[inline(always)]
    pub(crate) fn head(&self) -> Option<&Head> {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.head(),
            Course::Stages(_) => None,
        }
    }

    /// Packets inside that have their heads with them.
    pub(crate) fn heads(&self) -> usize {
        match &self.course {
            Course::Conveyor(conveyor) => conveyor.heads(),
            Course::Stages(_) => 0,
        }
    }

    /// Whether it is as most are: one ring, of which nobody records when packets leave.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        likely(self.keeps_heads()) && likely(!self.books.recorded)
    }

    /// Whether each departure has to be worked out when it happens, for the record's sake.
    #[inline(always)]
    pub(crate) fn is_recorded(&self) -> bool {
        unlikely(self.books.recorded) && !matches!(self.process, RateProcess::Infinite)
    }
}

impl Course {
    fn new(config: &LinkConfig, queue: Box<dyn Queue>, seed: u64, name: &str) -> Course {
        match Conveyor::new(config, &*queue) {
            Some(conveyor) => Course::Conveyor(conveyor),
            None => Course::Stages(Box::new(Stages::new(config, queue, seed, name))),
        }
    }
}

#[cfg(test)]
mod tests;
