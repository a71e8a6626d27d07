//! The sending end: a client that writes a stream of zeros, as fast as smoltcp lets it.

use record::{Dropped, Event, Real, Tap};
use units::Time;
use wire::{Endpoint, RxMeta, TxMeta};

use crate::books::{Books, Counters};
use crate::config::Config;
use crate::host::Host;
use crate::segment::{Side, Stamp};

/// A client that sends.
pub struct Sender {
    host: Host,
    books: Books,
    /// Bytes still to be written; `None`: there is always more.
    left: Option<u64>,
    bytes: Option<u64>,
    started: Option<Time>,
    finished_at: Option<Time>,
    /// Whether smoltcp was last polled because time had passed.
    by_clock: bool,
    tap: Tap,
}

impl Sender {
    pub(crate) fn new(config: &Config, tap: Tap) -> Sender {
        Sender {
            host: Host::new(config, Side::Client),
            books: Books::new(tap.clone()),
            left: config.bytes,
            bytes: config.bytes,
            started: None,
            finished_at: None,
            by_clock: false,
            tap,
        }
    }

    /// Counts so far.
    pub fn counters(&self) -> Counters {
        self.books.counters
    }

    /// When the last byte was acknowledged.
    pub fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    /// Fills smoltcp's buffer, whose bytes are zeros from the start, and closes the stream behind the last
    /// one. True if the buffer was empty and no longer is, so that there may be something to send at once: it
    /// holds more than any window.
    fn write(&mut self) -> bool {
        let socket = self.host.socket();
        let was_empty = socket.send_queue() == 0;
        while socket.can_send() && self.left != Some(0) {
            let left = self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
            let room = socket.send(|free| (free.len().min(left), free.len().min(left)));
            let written = room.expect("it can send");
            self.left = self.left.map(|left| left - written as u64);
        }
        if self.left == Some(0) && socket.may_send() {
            socket.close();
        }
        was_empty && socket.send_queue() > 0
    }

    fn note_end(&mut self, now: Time) {
        let done = self.left == Some(0) && self.host.socket().send_queue() == 0;
        if !done || self.finished_at.is_some() {
            return;
        }
        self.finished_at = Some(now);
        let seconds = (now - self.started.unwrap_or(now)).as_secs_f64();
        for (name, value) in [("transfer_bytes", self.bytes.unwrap_or(0) as f64), ("transfer_s", seconds)] {
            self.tap.record(now, Event::Observed { name, value: Real(value) });
        }
    }
}

impl Endpoint for Sender {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        let Some(arrival) = self.host.read(datagram, meta.length) else {
            self.books.counters.malformed += 1;
            return self.tap.record(now, Event::HostDropped { cause: Dropped::Malformed });
        };
        self.by_clock = false;
        self.books.heard(now, arrival.acknowledged());
        self.host.hear(now, &arrival);
        if self.write() {
            self.host.poll(now);
        }
        self.note_end(now);
    }

    fn wake(&mut self, now: Time) {
        if self.started.is_none() {
            self.started = Some(now);
            self.host.connect();
        }
        self.by_clock = true;
        self.host.poll(now);
    }

    fn next_wake(&self) -> Option<Time> {
        self.host.next_wake()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let segment = self.host.take()?;
        let stamp = match segment.data {
            0 => Stamp { packet: 0, sent: now },
            _ => self.books.sent(now, &segment, self.by_clock),
        };
        let head = segment.write(stamp, out);
        Some(TxMeta { head, length: segment.length(), ..TxMeta::default() })
    }
}
