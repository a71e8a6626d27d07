//! What is behind a link's gate, in the general case: a queue of any discipline, a server of any rate, and a
//! line that delays, jitters and reorders.

use record::Dropped;
use units::{Span, Time};

use crate::Packet;
use crate::books::Books;
use crate::config::LinkConfig;
use crate::delay::Line;
use crate::queue::{Backlog, Drops, Queue};
use crate::server::{Server, Timed};
use crate::trace::OPPORTUNITY;

/// Queue, server and line.
pub(crate) struct Stages {
    queue: Box<dyn Queue>,
    server: Server,
    line: Line,
    drops: Drops,
}

impl Stages {
    pub fn new(config: &LinkConfig, queue: Box<dyn Queue>, seed: u64, name: &str) -> Stages {
        Stages {
            queue,
            server: Server::new(config.rate.clone()),
            line: Line::new(config.delay.clone(), config.jitter, config.reorder, seed, name),
            drops: Drops::new(),
        }
    }

    /// A copy that goes on by itself; none where the queue can't be copied.
    pub fn fork(&self) -> Option<Stages> {
        let Stages { queue, server, line, drops } = self;
        Some(Stages {
            queue: queue.fork()?,
            server: server.clone(),
            line: line.clone(),
            drops: drops.clone(),
        })
    }

    /// What waits in the queue, without the packet being transmitted.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Packets waiting, in transmission and in propagation.
    pub fn inside(&self) -> u64 {
        let in_transit = self.server.in_transit().is_some();
        u64::from(self.queue.backlog().packets) + u64::from(in_transit) + self.line.len() as u64
    }

    pub fn admit(&mut self, now: Time, packet: Packet, books: &mut Books) {
        match self.server {
            Server::Infinite => return self.depart(now, packet, books),
            Server::Timed(Timed { largest, .. }) if packet.size > largest => {
                return books.count_drop(now, packet, Dropped::Oversize);
            }
            Server::Timed(_) => self.settle_timed(now, false, books),
            Server::Slotted(_) => self.settle_slotted(now, books),
        }
        let refused = self.queue.enqueue(now, packet, &mut self.drops);
        self.report_drops(now, books);
        if let Err(cause) = refused {
            return books.count_drop(now, packet, cause);
        }
        books.note_backlog(now, &packet, self.queue.backlog());
        if matches!(&self.server, Server::Timed(timed) if timed.is_idle()) {
            self.serve_next(now, books);
        }
    }

    /// The next packet that is out at `now`, and when it came out.
    pub fn deliver(&mut self, now: Time, books: &mut Books) -> Option<(Time, Packet)> {
        self.catch_up(now, books);
        self.line.pop(now)
    }

    /// Works out every departure up to and at `now`.
    pub fn settle(&mut self, now: Time, books: &mut Books) {
        match self.server {
            Server::Infinite => {}
            Server::Timed(_) => self.settle_timed(now, true, books),
            Server::Slotted(_) => self.settle_slotted(now, books),
        }
    }

    /// When the next packet may come out; [`Time::MAX`] for never.
    pub fn next_due(&self, books: &Books) -> Time {
        let due = self.line.next_due();
        match self.next_departure(books) {
            Time::MAX => due,
            departure => due.min(departure + self.line.least(departure)),
        }
    }

    /// When the server may next finish a packet; [`Time::MAX`] for never.
    pub fn next_departure(&self, books: &Books) -> Time {
        match &self.server {
            Server::Infinite => Time::MAX,
            Server::Timed(timed) => timed.finish,
            Server::Slotted(_) if !books.is_busy() => Time::MAX,
            Server::Slotted(slotted) => slotted.next_at(),
        }
    }

    /// Works out what can come out at `now`: everything that left before, and what leaves now and takes no
    /// time.
    #[inline]
    fn catch_up(&mut self, now: Time, books: &mut Books) {
        match self.server {
            Server::Infinite => {}
            Server::Timed(_) => self.settle_timed(now, self.line.least(now) == Span::ZERO, books),
            Server::Slotted(_) => self.settle_slotted(now, books),
        }
    }

    fn settle_timed(&mut self, now: Time, inclusive: bool, books: &mut Books) {
        while let Server::Timed(timed) = &self.server
            && let Some((at, packet)) = timed.through(now, inclusive)
        {
            self.depart(at, packet, books);
            self.serve_next(at, books);
        }
    }

    fn serve_next(&mut self, at: Time, books: &mut Books) {
        let next = self.queue.dequeue(at, &mut self.drops);
        self.report_drops(at, books);
        if next.is_none() {
            books.rest(at);
        }
        if let Server::Timed(timed) = &mut self.server {
            timed.serve(at, next);
        }
    }

    fn settle_slotted(&mut self, now: Time, books: &mut Books) {
        while let Server::Slotted(slotted) = &mut self.server
            && slotted.next_at() <= now
        {
            if books.is_busy() {
                let at = slotted.take();
                self.use_opportunity(at, books);
            } else {
                slotted.skip(now);
            }
        }
    }

    fn use_opportunity(&mut self, at: Time, books: &mut Books) {
        let mut budget = OPPORTUNITY;
        while let Server::Slotted(slotted) = &mut self.server
            && budget > 0
        {
            if slotted.is_idle() {
                let Some(packet) = self.queue.dequeue(at, &mut self.drops) else { break };
                slotted.load(packet);
            }
            if let Some(packet) = slotted.send(&mut budget) {
                self.depart(at, packet, books);
            }
        }
        self.report_drops(at, books);
        if self.queue.backlog().packets == 0 && self.server.in_transit().is_none() {
            books.rest(at);
        }
    }

    #[inline]
    fn depart(&mut self, at: Time, packet: Packet, books: &mut Books) {
        books.count_departure(at, &packet);
        self.line.push(at, packet);
    }

    #[inline]
    fn report_drops(&mut self, at: Time, books: &mut Books) {
        if !self.drops.is_empty() {
            self.drops.drain(..).for_each(|(packet, cause)| books.count_drop(at, packet, cause));
        }
    }
}
