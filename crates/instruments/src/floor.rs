//! The least pair of hosts that could stand where the session's stand: a NewReno window, packets paced by it,
//! losses found, every second packet reported with its time of arrival, and nothing else: no frames, no
//! recovery, no rate samples, no other controller, nothing said twice, nothing recorded. How fast a load
//! runs with it is about what work on sender and receiver could bring, with codec and network as they are.
//!
//! Packets travel in the session's own format ([`Written`]) or as plain numbers ([`Handed`]), as a simulator
//! has them that hands structures over.

use std::collections::VecDeque;

use units::{Ecn, RemoteTime, Span, Time};
use wire::{Arrival, Draft, Endpoint, Feedback, FeedbackWriter, Media, Near, RxMeta, TxMeta};

/// Packets that a report tells of, as the real receiver's do.
const EVERY: usize = 2;
/// RFC 9002 section 6.1.1, kPacketThreshold.
const REORDERING: u64 = 3;
/// RFC 9002 section 7.2.
const INITIAL_WINDOW: u64 = 10;
/// RFC 9002 section 7.2.
const LEAST_WINDOW: u64 = 2;
/// Packets that may leave before their time, as [`cc`]'s NewReno has them.
const AHEAD: i64 = 2;
/// What was in flight is given up when nothing was heard for so long: ten round trips of these links with
/// their queues full.
const SILENCE: Span = Span::from_millis(1400);

/// How packets and reports travel. Numbers are those of transmissions, from 0.
pub trait Form: Default + Send + 'static {
    /// Writes a packet's header that leaves at `now`, and returns its length.
    fn write_packet(out: &mut [u8], number: u64, now: Time, heard: u32) -> usize;
    /// A packet's number.
    fn read_packet(&mut self, datagram: &[u8]) -> Option<u64>;
    /// Writes a report of `arrivals`, the newest of which ends what arrived from `low` on without a gap.
    fn write_report(out: &mut [u8], sequence: u32, now: Time, arrivals: &[Arrival], low: u64) -> usize;
    /// Tells of each arrival by number, and returns the report's sequence.
    fn read_report(datagram: &[u8], arrived: impl FnMut(u64)) -> Option<u32>;
}

/// In the session's format; packets are padding, as the session's backlog is.
#[derive(Default)]
pub struct Written {
    near: Near,
}

/// The one session.
const SESSION: u32 = 1;

impl Form for Written {
    #[inline]
    fn write_packet(out: &mut [u8], number: u64, now: Time, heard: u32) -> usize {
        Media::padding(SESSION, number, now.on_wire(), heard).encode(out)
    }

    #[inline]
    fn read_packet(&mut self, datagram: &[u8]) -> Option<u64> {
        let mut media = Media::blank();
        media.read(datagram).ok().filter(|()| media.session == SESSION)?;
        self.near.widen(&mut media, 0);
        self.near.heard(&media);
        Some(media.packet)
    }

    #[inline]
    fn write_report(out: &mut [u8], sequence: u32, now: Time, arrivals: &[Arrival], low: u64) -> usize {
        let draft = Draft { session: SESSION, sequence, sent: now, refused: 0, blob: &[], arrivals };
        let newest = arrivals.last().map(|arrival| (low, arrival.packet));
        FeedbackWriter::write(out, &draft, newest.into_iter()).0
    }

    #[inline]
    fn read_report(datagram: &[u8], mut arrived: impl FnMut(u64)) -> Option<u32> {
        let feedback = Feedback::decode(datagram).ok().filter(|feedback| feedback.session == SESSION)?;
        feedback.arrivals().for_each(|arrival| arrived(arrival.packet));
        Some(feedback.sequence)
    }
}

/// As plain numbers of eight bytes, none of them looked at twice.
#[derive(Default)]
pub struct Handed;

/// Bytes of a number.
const WORD: usize = 8;

fn put(out: &mut [u8], at: usize, value: u64) {
    out[at * WORD..(at + 1) * WORD].copy_from_slice(&value.to_ne_bytes());
}

fn get(datagram: &[u8], at: usize) -> Option<u64> {
    let word = datagram.get(at * WORD..(at + 1) * WORD)?;
    word.try_into().ok().map(u64::from_ne_bytes)
}

impl Form for Handed {
    #[inline]
    fn write_packet(out: &mut [u8], number: u64, now: Time, _: u32) -> usize {
        put(out, 0, number);
        put(out, 1, now.as_nanos());
        2 * WORD
    }

    #[inline]
    fn read_packet(&mut self, datagram: &[u8]) -> Option<u64> {
        get(datagram, 0)
    }

    #[inline]
    fn write_report(out: &mut [u8], sequence: u32, _: Time, arrivals: &[Arrival], _: u64) -> usize {
        put(out, 0, u64::from(sequence));
        for (index, arrival) in arrivals.iter().enumerate() {
            put(out, 1 + 2 * index, arrival.packet);
            put(out, 2 + 2 * index, arrival.at.as_nanos() as u64);
        }
        (1 + 2 * arrivals.len()) * WORD
    }

    #[inline]
    fn read_report(datagram: &[u8], mut arrived: impl FnMut(u64)) -> Option<u32> {
        let sequence = get(datagram, 0)?;
        (0..EVERY).filter_map(|index| get(datagram, 1 + 2 * index)).for_each(&mut arrived);
        Some(sequence as u32)
    }
}

/// A packet on its way.
struct Flight {
    left: Time,
    arrived: bool,
}

/// Sends a backlog.
pub struct Source<F> {
    size: usize,
    /// From the oldest whose fate is not known on; its number, and what of them has not arrived.
    flights: VecDeque<Flight>,
    oldest: u64,
    in_flight: u64,
    largest: u64,
    /// All in packets; `grown` counts those that have grown the window by less than one.
    window: u64,
    threshold: u64,
    grown: u64,
    /// Packets before this one left before the window was last cut.
    cut_before: u64,
    /// A packet's share of a round trip, and when all that left would have at that rate.
    interval: Span,
    clear_at: Time,
    heard: u32,
    heard_at: Time,
    silent_at: Time,
    form: std::marker::PhantomData<F>,
}

impl<F: Form> Source<F> {
    /// A source of packets of `size` bytes, without IP and UDP.
    pub fn new(size: usize) -> Source<F> {
        Source {
            size,
            flights: VecDeque::new(),
            oldest: 0,
            in_flight: 0,
            largest: 0,
            window: INITIAL_WINDOW,
            threshold: u64::MAX,
            grown: 0,
            cut_before: 0,
            interval: Span::ZERO,
            clear_at: Time::ZERO,
            heard: 0,
            heard_at: Time::ZERO,
            silent_at: Time::ZERO + SILENCE,
            form: std::marker::PhantomData,
        }
    }

    /// Enters an arrival, and returns when that packet left.
    fn arrived(&mut self, packet: u64) -> Option<Time> {
        let index = packet.checked_sub(self.oldest)?;
        let flight = self.flights.get_mut(index as usize).filter(|flight| !flight.arrived)?;
        flight.arrived = true;
        let left = flight.left;
        self.in_flight -= 1;
        self.largest = self.largest.max(packet);
        if packet >= self.cut_before {
            self.grow();
        }
        Some(left)
    }

    /// RFC 9002 appendix B.5.
    fn grow(&mut self) {
        if self.window < self.threshold {
            self.window += 1;
            return;
        }
        self.grown += 1;
        if self.grown >= self.window {
            self.grown = 0;
            self.window += 1;
        }
    }

    /// Forgets packets whose fate is known: what arrived, and what three later ones have overtaken.
    fn settle(&mut self) {
        while let Some(oldest) = self.flights.front() {
            if !oldest.arrived {
                if self.oldest + REORDERING > self.largest {
                    return;
                }
                self.lose();
            }
            self.flights.pop_front();
            self.oldest += 1;
        }
    }

    /// The oldest packet is lost: the window is halved, once a round trip.
    #[cold]
    fn lose(&mut self) {
        self.in_flight -= 1;
        if self.oldest >= self.cut_before {
            self.cut_before = self.oldest + self.flights.len() as u64;
            self.window = (self.window / 2).max(LEAST_WINDOW);
            self.threshold = self.window;
        }
    }

    fn may_leave_at(&self) -> Option<Time> {
        (self.in_flight < self.window).then(|| self.clear_at.saturating_sub(self.interval * AHEAD))
    }
}

impl<F: Form> Endpoint for Source<F> {
    fn receive(&mut self, now: Time, datagram: &[u8], _: RxMeta) {
        let mut newest = None;
        let sequence = F::read_report(datagram, |packet| newest = self.arrived(packet).or(newest));
        self.heard = sequence.unwrap_or(self.heard);
        if let Some(left) = newest {
            self.settle();
            self.heard_at = now;
            // RFC 9002 section 7.7: a quarter faster than the window over a round trip, twice in slow start.
            let gain = if self.window < self.threshold { 8 } else { 5 };
            self.interval = Span::from_nanos((now - left).as_nanos() * 4 / (self.window as i64 * gain));
        }
    }

    fn wake(&mut self, now: Time) {
        if now < self.silent_at {
            return;
        }
        if self.heard_at + SILENCE <= now {
            self.oldest += self.flights.len() as u64;
            self.flights.clear();
            (self.in_flight, self.window) = (0, LEAST_WINDOW);
        }
        self.silent_at = now + SILENCE;
    }

    fn next_wake(&self) -> Option<Time> {
        Some(self.may_leave_at().map_or(self.silent_at, |at| at.min(self.silent_at)))
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.may_leave_at().filter(|&at| at <= now)?;
        let head = F::write_packet(out, self.oldest + self.flights.len() as u64, now, self.heard);
        self.flights.push_back(Flight { left: now, arrived: false });
        self.in_flight += 1;
        self.clear_at = self.clear_at.max(now) + self.interval;
        Some(TxMeta { head, length: self.size, ..TxMeta::default() })
    }
}

/// Reports every second packet.
pub struct Sink<F> {
    form: F,
    arrivals: [Arrival; EVERY],
    waiting: usize,
    sequence: u32,
    /// What arrived without a gap: from, and the number that would go on with it.
    low: u64,
    next: u64,
}

impl<F: Form> Default for Sink<F> {
    fn default() -> Sink<F> {
        let none = Arrival { packet: 0, at: RemoteTime::from_nanos(0), ecn: Ecn::NotEct };
        Sink { form: F::default(), arrivals: [none; EVERY], waiting: 0, sequence: 0, low: 0, next: 0 }
    }
}

impl<F: Form> Endpoint for Sink<F> {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        let Some(packet) = self.form.read_packet(datagram) else { return };
        // The links keep the order, and a report leaves as soon as it is full.
        if packet < self.next || self.waiting == EVERY {
            return;
        }
        if packet > self.next {
            self.low = packet;
        }
        self.next = packet + 1;
        self.arrivals[self.waiting] = Arrival { packet, at: now.on_wire(), ecn: meta.ecn };
        self.waiting += 1;
    }

    fn wake(&mut self, _: Time) {}

    fn next_wake(&self) -> Option<Time> {
        None
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.waiting < EVERY {
            return None;
        }
        self.waiting = 0;
        self.sequence += 1;
        let length = F::write_report(out, self.sequence, now, &self.arrivals, self.low);
        Some(TxMeta { head: length, length, ..TxMeta::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a source does with reports of these packets, each of which leaves 40 ms after them.
    fn hear(source: &mut Source<Handed>, reports: &[[u64; EVERY]]) {
        let mut out = [0; 100];
        let now = Time::from_millis(40);
        for (sequence, packets) in (1..).zip(reports) {
            let arrivals = packets.map(|packet| Arrival { packet, at: now.on_wire(), ecn: Ecn::NotEct });
            let length = Handed::write_report(&mut out, sequence, now, &arrivals, 0);
            source.receive(now, &out[..length], RxMeta::default());
        }
    }

    /// A source whose first window has left.
    fn begun() -> Source<Handed> {
        let (mut source, mut out) = (Source::new(1472), [0; 1472]);
        while source.transmit(Time::ZERO, &mut out).is_some() {}
        assert_eq!(source.in_flight, INITIAL_WINDOW);
        source
    }

    #[test]
    fn three_later_packets_show_a_loss_and_the_window_is_halved_once() {
        let mut source = begun();
        hear(&mut source, &[[1, 2]]);
        assert_eq!((source.window, source.oldest), (12, 0));
        hear(&mut source, &[[3, 4]]);
        assert_eq!((source.window, source.oldest), (7, 5));
        hear(&mut source, &[[6, 7], [8, 9]]);
        assert_eq!((source.window, source.in_flight), (7, 0), "5 was lost in the same round trip");
    }

    #[test]
    fn silence_gives_up_what_is_in_flight() {
        let mut source = begun();
        let at = source.next_wake().unwrap();
        source.wake(at);
        assert_eq!((source.in_flight, source.window), (0, LEAST_WINDOW));
        assert!(source.transmit(at, &mut [0; 1472]).is_some());
    }
}
