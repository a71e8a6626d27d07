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
//! Departures are worked out when something asks (an arrival, a delivery), at the instants they happened, so
//! a packet costs its driver one event instead of two. At one instant arrivals come before the departure of a
//! timed server and after the opportunities of a trace (Mahimahi, `link_queue.cc`).

use record::{Dropped, Event, Tap};
use units::{Bytes, Span, Time};

use crate::Packet;
use crate::config::LinkConfig;
use crate::conveyor::Conveyor;
use crate::delay::Line;
use crate::impair::{Gate, Verdict};
use crate::queue::{Backlog, Drops, Queue, Setup};
use crate::rate::RateProcess;
use crate::server::{Server, Timed};
use crate::stats::LinkStats;
use crate::trace::OPPORTUNITY;

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
    tap: Tap,
    recorded: bool,
    process: RateProcess,
    gate: Option<Box<Gate>>,
    /// In place of queue, server and line, where the link is so simple.
    conveyor: Option<Conveyor>,
    queue: Box<dyn Queue>,
    server: Server,
    line: Line,
    stats: LinkStats,
    busy_since: Option<Time>,
    notices: Vec<Notice>,
    drops: Drops,
}

impl Link {
    /// A link called `name`; its random streams are `<name>/loss`, `<name>/jitter` and so on, under `seed`.
    pub fn new(config: LinkConfig, seed: u64, name: &str, tap: Tap) -> Link {
        let reference = config.reference.unwrap_or_else(|| config.rate.reference());
        let setup = Setup { reference, process: config.rate.clone(), seed, link: name.to_owned() };
        let queue = config.queue.build(&setup);
        Link {
            conveyor: Conveyor::new(&config, &*queue),
            name: name.to_owned(),
            recorded: config.recorded && tap.is_on(),
            tap,
            gate: Gate::new(config.impairments, seed, name),
            queue,
            server: Server::new(config.rate.clone()),
            process: config.rate,
            line: Line::new(config.delay, config.jitter, config.reorder, seed, name),
            stats: LinkStats::default(),
            busy_since: None,
            notices: Vec::new(),
            drops: Drops::new(),
        }
    }

    /// The same with queue, server and line, however simple it is.
    #[cfg(test)]
    pub(crate) fn in_stages(self) -> Link {
        Link { conveyor: None, ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has counted so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// What waits in the queue, without the packet being transmitted.
    pub fn backlog(&self) -> Backlog {
        self.conveyor.as_ref().map_or_else(|| self.queue.backlog(), Conveyor::backlog)
    }

    /// Packets inside: waiting, in transmission and in propagation.
    pub fn inside(&self) -> u64 {
        if let Some(conveyor) = &self.conveyor {
            return conveyor.len() as u64;
        }
        let in_transit = self.server.in_transit().is_some();
        u64::from(self.queue.backlog().packets) + u64::from(in_transit) + self.line.len() as u64
    }

    /// How fast it sends.
    pub fn rate(&self) -> &RateProcess {
        &self.process
    }

    /// IP bytes the link could have sent after `from` and up to `to`; `None` for an infinite one.
    pub fn capacity(&self, from: Time, to: Time) -> Option<Bytes> {
        self.process.capacity(from, to)
    }

    /// How long, up to `now`, the link has had something to send.
    pub fn busy_time(&self, now: Time) -> Span {
        self.stats.busy + self.busy_since.map_or(Span::ZERO, |since| now - since)
    }

    /// What happened to packets since the last call, in order. The driver must take them after each `offer`,
    /// `deliver`, `advance` and `settle`, and before it handles what was delivered.
    pub fn notices(&mut self) -> std::vec::Drain<'_, Notice> {
        self.notices.drain(..)
    }

    #[inline]
    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// A packet arrives at the link's entry.
    #[inline(always)]
    pub fn offer(&mut self, now: Time, mut packet: Packet) {
        packet.entered = now;
        self.stats.row(packet.flow).offered.count(&packet);
        if let Some(gate) = &mut self.gate {
            match gate.judge(now, &packet) {
                Verdict::Pass => {}
                Verdict::Drop(cause) => return self.drop_packet(now, packet, cause),
                Verdict::Twice => self.duplicate(now, packet),
            }
        }
        match self.conveyor {
            Some(_) => self.admit_to_conveyor(now, packet),
            None => self.admit(now, packet),
        }
    }

    /// When [`deliver`](Link::deliver) wants to be called next; by then a packet may come out, but need not.
    pub fn next_event(&self) -> Option<Time> {
        let due = self.next_due();
        (due < Time::MAX).then_some(due)
    }

    /// The next packet that has come out at the far end by `now`.
    #[inline]
    pub fn deliver(&mut self, now: Time) -> Option<Packet> {
        self.deliver_dated(now).map(|(_, packet)| packet)
    }

    /// As [`deliver`](Link::deliver), with the moment the packet came out: a driver in real time is always a
    /// little late.
    #[inline(always)]
    pub fn deliver_dated(&mut self, now: Time) -> Option<(Time, Packet)> {
        if let Some(conveyor) = &self.conveyor {
            let (due, is_short) = (conveyor.next_due(), conveyor.is_short());
            if due > now {
                return None;
            }
            self.settle_conveyor(now, is_short);
            let packet = self.conveyor.as_mut().and_then(Conveyor::pop)?;
            self.stats.row(packet.flow).delivered.count(&packet);
            return Some((due, packet));
        }
        self.catch_up(now);
        let (due, packet) = self.line.pop(now)?;
        self.stats.row(packet.flow).delivered.count(&packet);
        Some((due, packet))
    }

    /// Makes room for the counters of every flow there can be (5 MB) at once, for a driver that cannot wait
    /// for it later.
    pub fn expect_all_flows(&mut self) {
        self.stats.row(0);
        self.stats.row(u16::MAX);
    }

    /// Appends every packet that has come out by `now` to `out`.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Packet>) {
        out.extend(std::iter::from_fn(|| self.deliver(now)));
    }

    /// Works out every departure up to and at `now`, so that backlog and counters are those of `now`.
    pub fn settle(&mut self, now: Time) {
        if self.conveyor.is_some() {
            return self.settle_conveyor(now, true);
        }
        match self.server {
            Server::Infinite => {}
            Server::Timed(_) => self.settle_timed(now, true),
            Server::Slotted(_) => self.settle_slotted(now),
        }
    }

    /// [`next_event`](Link::next_event), with [`Time::MAX`] for never.
    #[inline]
    pub(crate) fn next_due(&self) -> Time {
        if let Some(conveyor) = &self.conveyor {
            return conveyor.next_due();
        }
        let due = self.line.next_due();
        match self.next_departure() {
            Time::MAX => due,
            departure => due.min(departure + self.line.least(departure)),
        }
    }

    /// When the server may next finish a packet; [`Time::MAX`] for never.
    pub(crate) fn next_departure(&self) -> Time {
        if let Some(conveyor) = &self.conveyor {
            return conveyor.next_departure();
        }
        match &self.server {
            Server::Infinite => Time::MAX,
            Server::Timed(timed) => timed.finish,
            Server::Slotted(_) if self.busy_since.is_none() => Time::MAX,
            Server::Slotted(slotted) => slotted.next_at(),
        }
    }

    /// Whether what is offered next may change when the link acts next.
    #[inline(always)]
    pub(crate) fn may_act_earlier(&self) -> bool {
        self.recorded || self.conveyor.as_ref().is_none_or(|conveyor| conveyor.len() == 0)
    }

    /// Whether each departure has to be worked out when it happens, for the record's sake.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded && !matches!(self.server, Server::Infinite)
    }

    /// Works out what can come out at `now`: everything that left before, and what leaves now and takes no
    /// time.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        match self.server {
            Server::Infinite => {}
            Server::Timed(_) => self.settle_timed(now, self.line.least(now) == Span::ZERO),
            Server::Slotted(_) => self.settle_slotted(now),
        }
    }

    fn duplicate(&mut self, now: Time, packet: Packet) {
        self.stats.row(packet.flow).duplicated.count(&packet);
        self.notices.push(Notice::Duplicated(packet));
        match self.conveyor {
            Some(_) => self.admit_to_conveyor(now, packet),
            None => self.admit(now, packet),
        }
    }

    fn admit(&mut self, now: Time, packet: Packet) {
        match self.server {
            Server::Infinite => return self.depart(now, packet),
            Server::Timed(Timed { largest, .. }) if packet.size > largest => {
                return self.drop_packet(now, packet, Dropped::Oversize);
            }
            Server::Timed(_) => self.settle_timed(now, false),
            Server::Slotted(_) => self.settle_slotted(now),
        }
        let refused = self.queue.enqueue(now, packet, &mut self.drops);
        self.report_drops(now);
        if let Err(cause) = refused {
            return self.drop_packet(now, packet, cause);
        }
        let backlog = self.queue.backlog();
        self.note_backlog(now, &packet, backlog);
        self.busy_since.get_or_insert(now);
        if matches!(&self.server, Server::Timed(timed) if timed.is_idle()) {
            self.serve_next(now);
        }
    }

    #[inline(always)]
    fn admit_to_conveyor(&mut self, now: Time, packet: Packet) {
        self.settle_conveyor(now, false);
        let Some(conveyor) = &mut self.conveyor else { return };
        if conveyor.is_infinite() {
            conveyor.pass(now, packet);
            return self.count_departure(now, &packet);
        }
        let Backlog { packets, bytes } = conveyor.backlog();
        if !conveyor.admits(Backlog { packets, bytes }, packet.size) {
            return self.drop_packet(now, packet, Dropped::QueueFull);
        }
        conveyor.push(now, packet);
        let size = u64::from(packet.size);
        self.note_backlog(now, &packet, Backlog { packets: packets + 1, bytes: bytes + size });
        self.busy_since.get_or_insert(now);
    }

    #[inline(always)]
    fn settle_conveyor(&mut self, now: Time, inclusive: bool) {
        while let Some(conveyor) = &mut self.conveyor
            && conveyor.has_through(now, inclusive)
        {
            let (at, packet, rests) = conveyor.leave();
            self.count_departure(at, &packet);
            if rests {
                self.rest(at);
            }
        }
    }

    #[inline(always)]
    fn note_backlog(&mut self, now: Time, packet: &Packet, backlog: Backlog) {
        let Backlog { packets, bytes } = backlog;
        self.stats.peak_packets = self.stats.peak_packets.max(packets);
        self.stats.peak_bytes = self.stats.peak_bytes.max(bytes);
        if self.recorded {
            let backlog = u32::try_from(bytes).unwrap_or(u32::MAX);
            let enqueued = Event::LinkEnqueued { flow: packet.flow, size: packet.size, backlog, packets };
            self.tap.record(now, enqueued);
        }
    }

    fn settle_timed(&mut self, now: Time, inclusive: bool) {
        while let Server::Timed(timed) = &self.server
            && let Some((at, packet)) = timed.through(now, inclusive)
        {
            self.depart(at, packet);
            self.serve_next(at);
        }
    }

    fn serve_next(&mut self, at: Time) {
        let next = self.queue.dequeue(at, &mut self.drops);
        self.report_drops(at);
        if next.is_none() {
            self.rest(at);
        }
        if let Server::Timed(timed) = &mut self.server {
            timed.serve(at, next);
        }
    }

    fn settle_slotted(&mut self, now: Time) {
        while let Server::Slotted(slotted) = &mut self.server
            && slotted.next_at() <= now
        {
            if self.busy_since.is_none() {
                slotted.skip(now);
            } else {
                let at = slotted.take();
                self.use_opportunity(at);
            }
        }
    }

    fn use_opportunity(&mut self, at: Time) {
        let mut budget = OPPORTUNITY;
        while let Server::Slotted(slotted) = &mut self.server
            && budget > 0
        {
            if slotted.is_idle() {
                let Some(packet) = self.queue.dequeue(at, &mut self.drops) else { break };
                slotted.load(packet);
            }
            if let Some(packet) = slotted.send(&mut budget) {
                self.depart(at, packet);
            }
        }
        self.report_drops(at);
        if self.queue.backlog().packets == 0 && self.server.in_transit().is_none() {
            self.rest(at);
        }
    }

    /// The link has run out of packets.
    fn rest(&mut self, at: Time) {
        if let Some(since) = self.busy_since.take() {
            self.stats.busy += at - since;
        }
    }

    #[inline]
    fn depart(&mut self, at: Time, packet: Packet) {
        self.count_departure(at, &packet);
        self.line.push(at, packet);
    }

    #[inline(always)]
    fn count_departure(&mut self, at: Time, packet: &Packet) {
        self.stats.row(packet.flow).departed.count(packet);
        if self.recorded {
            let sojourn = at - packet.entered;
            self.tap.record(at, Event::LinkDeparted { flow: packet.flow, size: packet.size, sojourn });
        }
    }

    #[inline]
    fn report_drops(&mut self, at: Time) {
        if !self.drops.is_empty() {
            self.report_some_drops(at);
        }
    }

    #[cold]
    fn report_some_drops(&mut self, at: Time) {
        let mut drops = std::mem::take(&mut self.drops);
        drops.drain(..).for_each(|(packet, cause)| self.drop_packet(at, packet, cause));
        self.drops = drops;
    }

    #[cold]
    fn drop_packet(&mut self, at: Time, packet: Packet, cause: Dropped) {
        self.stats.count_drop(&packet, cause);
        self.tap.record(at, Event::LinkDropped { flow: packet.flow, size: packet.size, cause });
        self.notices.push(Notice::Dropped(packet, cause));
    }
}

#[cfg(test)]
mod tests;
