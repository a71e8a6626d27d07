//! The receiving end: a server that reads a stream as it comes.

use record::{Dropped, Event, Tap, Topic};
use units::{RelativeDelay, Time};
use wire::{Endpoint, RxMeta, TxMeta};

use crate::config::Config;
use crate::host::Host;
use crate::segment::{Arrival, Side, Stamp};

/// A server that counts a stream's bytes.
pub struct Receiver {
    host: Host,
    bytes: u64,
    finished_at: Option<Time>,
    sent: u32,
    tap: Tap,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Receiver {
        let mut host = Host::new(config, Side::Server);
        host.listen();
        Receiver { host, bytes: 0, finished_at: None, sent: 0, tap: Tap::default() }
    }

    /// Records what it does by `tap`.
    pub fn recorded(self, tap: Tap) -> Receiver {
        Receiver { tap, ..self }
    }

    /// Bytes of the stream delivered in order.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the end of the stream had been delivered.
    pub fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    /// Takes what is readable out of smoltcp's buffer, and closes behind the end of the stream.
    fn drain(&mut self, now: Time) {
        let socket = self.host.socket();
        let before = self.bytes;
        while socket.can_recv() {
            let taken = socket.recv(|bytes| (bytes.len(), bytes.len())).expect("there is something");
            self.bytes += taken as u64;
        }
        let ended = socket.is_active() && socket.may_send() && !socket.may_recv() && self.bytes > 0;
        if ended {
            socket.close();
            self.finished_at = self.finished_at.or(Some(now));
        }
        if ended || self.bytes > before {
            self.host.poll(now);
        }
    }

    fn record_arrival(&self, now: Time, arrival: &Arrival<'_>, length: usize) {
        if let Some(Stamp { packet, sent }) = arrival.stamp().filter(|_| self.tap.wants(Topic::Packets)) {
            let owd = RelativeDelay::between(sent.on_wire(), now);
            let size = length as u32;
            self.tap.record(
                now,
                Event::PacketReceived { packet, size, stream: 0, frame: u32::MAX, version: 0, owd },
            );
        }
    }
}

impl Endpoint for Receiver {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        let Some(arrival) = self.host.read(datagram, meta.length) else {
            return self.tap.record(now, Event::HostDropped { cause: Dropped::Malformed });
        };
        self.record_arrival(now, &arrival, meta.length);
        self.host.hear(now, &arrival);
        self.drain(now);
    }

    fn wake(&mut self, now: Time) {
        self.host.poll(now);
        self.drain(now);
    }

    fn next_wake(&self) -> Option<Time> {
        self.host.next_wake()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let segment = self.host.take()?;
        self.sent += 1;
        self.tap.record(now, Event::FeedbackSent { sequence: self.sent, size: segment.length() as u32 });
        let head = segment.write(Stamp { packet: 0, sent: now }, out);
        Some(TxMeta { head, length: segment.length(), ..TxMeta::default() })
    }
}
