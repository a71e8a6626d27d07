//! Endpoints for this crate's tests: one sends numbered packets at a steady rate, the other notes what
//! arrives.

use bytes::Bytes;
use units::{Ecn, RemoteTime, Span, Time};
use wire::{Class, Control, Endpoint, Media, RxMeta, TxMeta};

use crate::Clock;

pub const LOCALHOST: &str = "127.0.0.1:0";
const SESSION: u32 = 99;

/// Sends `count` packets of `length` bytes, one every `interval`.
pub struct Metronome {
    pub count: u64,
    pub interval: Span,
    pub length: usize,
    pub ecn: Ecn,
    /// Packets sent.
    pub sent: u64,
    /// Datagrams that came back.
    pub heard: u64,
    next: Option<Time>,
}

impl Metronome {
    pub fn new(count: u64, interval: Span, length: usize) -> Metronome {
        Metronome { count, interval, length, ecn: Ecn::NotEct, sent: 0, heard: 0, next: None }
    }

    pub fn is_done(&self) -> bool {
        self.sent == self.count
    }

    /// Writes to `packet` what the next packet would be.
    pub fn forge(&mut self, packet: &mut [u8]) {
        self.wake(Time::ZERO);
        self.transmit(Time::ZERO, packet);
    }

    /// The payload's byte at `k` in packet `packet`.
    fn pattern(packet: u64, k: usize) -> u8 {
        (packet as usize + k) as u8
    }
}

impl Endpoint for Metronome {
    fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {
        self.heard += 1;
    }
    fn wake(&mut self, now: Time) {
        self.next = self.next.or(Some(now));
    }
    fn next_wake(&self) -> Option<Time> {
        if self.is_done() { None } else { self.next }
    }
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.is_done() || self.next? > now {
            return None;
        }
        self.next = Some(self.next? + self.interval);
        let sent = RemoteTime::from_nanos(now.as_nanos() as i64);
        let media = Media {
            session: SESSION,
            packet: self.sent,
            sent,
            feedback_seen: 0,
            stream: 0,
            class: Class::OneShot,
            frame: 0,
            version: 0,
            index: 0,
            count: 1,
            captured: sent,
            deadline: Span::ZERO,
            part: 0,
            reference: None,
            retransmission: false,
            alone: true,
        };
        let head = media.encode(out);
        // Half of the rest is payload, the other half zeros the driver adds.
        let payload =
            (0..(self.length - head) / 2).map(|k| Metronome::pattern(self.sent, k)).collect::<Vec<u8>>();
        self.sent += 1;
        let (length, payload) = (self.length, Some(Bytes::from(payload)));
        Some(TxMeta { head, length, payload, ecn: self.ecn, last: false })
    }
}

/// Notes what arrives, and answers every tenth packet.
pub struct Notebook {
    clock: Clock,
    /// Numbers, in order of arrival.
    pub packets: Vec<u64>,
    /// From sending to the arrival time the endpoint was told.
    pub told: Vec<Span>,
    /// From sending to the endpoint's hearing of it.
    pub heard: Vec<Span>,
    /// ECN bits of the last.
    pub ecn: Ecn,
    /// Datagrams whose bytes were not as sent.
    pub damaged: u64,
    answers: u64,
    first: Option<Time>,
    last: Option<Time>,
}

impl Notebook {
    pub fn new(clock: Clock) -> Notebook {
        Notebook {
            clock,
            packets: Vec::new(),
            told: Vec::new(),
            heard: Vec::new(),
            ecn: Ecn::NotEct,
            damaged: 0,
            answers: 0,
            first: None,
            last: None,
        }
    }

    /// From the first arrival to the last.
    pub fn span(&self) -> Span {
        self.last.zip(self.first).map_or(Span::ZERO, |(last, first)| last - first)
    }
}

fn is_intact(media: &Media, bytes: &[u8], length: usize) -> bool {
    let rest = &bytes[Media::LEN..];
    let (payload, zeros) = rest.split_at(rest.len() / 2);
    bytes.len() == length
        && payload.iter().enumerate().all(|(k, &b)| b == Metronome::pattern(media.packet, k))
        && zeros.iter().all(|&b| b == 0)
}

impl Endpoint for Notebook {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        let Ok(media) = Media::decode(datagram) else { return };
        let sent = Time::from_nanos(media.sent.as_nanos() as u64);
        self.damaged += u64::from(!is_intact(&media, datagram, meta.length));
        self.packets.push(media.packet);
        self.first = self.first.or(Some(now));
        self.last = Some(now);
        self.told.push(now - sent);
        self.heard.push(self.clock.now() - sent);
        self.ecn = meta.ecn;
        self.answers += u64::from(media.packet.is_multiple_of(10));
    }
    fn wake(&mut self, _: Time) {}
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn transmit(&mut self, _: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.answers = self.answers.checked_sub(1)?;
        let head = Control::Welcome { session: SESSION }.encode(out);
        Some(TxMeta { head, length: head, ..TxMeta::default() })
    }
}

/// The value that a fraction `p` of `spans` lie at or below.
pub fn percentile(spans: &[Span], p: f64) -> Span {
    let mut sorted = spans.to_vec();
    sorted.sort();
    sorted[((sorted.len() - 1) as f64 * p).round() as usize]
}
