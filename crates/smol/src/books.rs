//! What can be seen of a sender from its segments: transmissions, round trips, timeouts. For records and
//! scores; nothing acts on it.

use std::collections::BTreeMap;

use record::{Event, Tap, Topic};
use units::{Span, Time};

use crate::segment::{Segment, Stamp};

/// A sender's counts since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments with data, sent again or for the first time.
    pub packets: u64,
    /// Datagram bytes of those.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Stream bytes acknowledged.
    pub acked_bytes: u64,
    /// Times the first byte not acknowledged was sent again by the clock alone.
    pub timeouts: u64,
    /// Datagrams that are no segments.
    pub malformed: u64,
}

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    packet: u64,
    size: u32,
    end: u64,
    sent: Time,
    again: bool,
}

/// A sender's books. Places in the stream count from its first byte.
pub struct Books {
    pub counters: Counters,
    /// The sequence number of the first byte, once one was sent.
    origin: Option<u32>,
    /// Everything before was acknowledged.
    acknowledged: u64,
    /// Everything before was sent at some time.
    sent: u64,
    /// Everything before is on its way as the sender sees it: what it gave up is not.
    frontier: u64,
    /// Where each segment on its way begins. One each `mtu` of the window, and only if somebody records.
    flight: BTreeMap<u64, Transmission>,
    smoothed: Option<Span>,
    tap: Tap,
}

impl Books {
    pub fn new(tap: Tap) -> Books {
        Books {
            counters: Counters::default(),
            origin: None,
            acknowledged: 0,
            sent: 0,
            frontier: 0,
            flight: BTreeMap::new(),
            smoothed: None,
            tap,
        }
    }

    /// A segment with data leaves; `by_clock` if no arrival brought it about.
    pub fn sent(&mut self, now: Time, segment: &Segment, by_clock: bool) -> Stamp {
        let packet = self.counters.packets;
        let origin = *self.origin.get_or_insert(segment.number());
        let from = place(origin, segment.number(), self.acknowledged);
        let end = from + segment.data as u64;
        let again = from < self.sent;
        if again && by_clock && from == self.acknowledged {
            self.counters.timeouts += 1;
            self.frontier = from;
        }
        (self.sent, self.frontier) = (self.sent.max(end), self.frontier.max(end));
        self.counters.packets += 1;
        self.counters.bytes += segment.length() as u64;
        self.counters.retransmissions += u64::from(again);
        let told = [Topic::Packets, Topic::Fates, Topic::RoundTrips];
        if told.into_iter().any(|topic| self.tap.wants(topic)) {
            let size = segment.length() as u32;
            self.enter(from, Transmission { packet, size, end, sent: now, again });
        }
        Stamp { packet, sent: now }
    }

    /// Records a transmission. Those of the same bytes before it are given up.
    fn enter(&mut self, from: u64, transmission: Transmission) {
        let Transmission { packet, size, end, sent: now, again } = transmission;
        let mut later = self.flight.split_off(&from);
        let mut rest = later.split_off(&end);
        for given_up in later.into_values() {
            self.tap.record(now, Event::PacketLost { packet: given_up.packet, size: given_up.size });
        }
        self.flight.append(&mut rest);
        self.flight.insert(from, transmission);
        let in_flight = (self.frontier - self.acknowledged).min(u64::from(u32::MAX)) as u32;
        let (stream, frame, version, index) = (0, u32::MAX, 0, 0);
        self.tap.record(
            now,
            Event::PacketSent {
                packet,
                size,
                stream,
                frame,
                version,
                index,
                retransmission: again,
                in_flight,
            },
        );
    }

    /// Everything before sequence number `number` has arrived.
    pub fn heard(&mut self, now: Time, number: u32) {
        let Some(origin) = self.origin else { return };
        let before = place(origin, number, self.acknowledged);
        // The end of the stream counts as one byte more.
        if before <= self.acknowledged || before > self.sent + 1 {
            return;
        }
        self.counters.acked_bytes += before.min(self.sent) - self.acknowledged.min(self.sent);
        self.acknowledged = before;
        self.frontier = self.frontier.max(before);
        let mut newest: Option<Transmission> = None;
        while let Some(first) = self.flight.first_entry().filter(|first| first.get().end <= before) {
            let arrived = first.remove();
            self.tap.record(now, Event::PacketAcked { packet: arrived.packet, size: arrived.size });
            newest = Some(arrived);
        }
        // Of a segment that was sent twice nobody knows which one was acknowledged (Karn's rule).
        if let Some(newest) = newest.filter(|newest| !newest.again) {
            self.sample(now, now - newest.sent);
        }
    }

    /// A round trip, smoothed as in RFC 6298.
    fn sample(&mut self, now: Time, latest: Span) {
        let smoothed = self.smoothed.map_or(latest, |smoothed| smoothed + (latest - smoothed) / 8);
        self.smoothed = Some(smoothed);
        self.tap.record(now, Event::Rtt { latest, smoothed });
    }
}

/// Where sequence number `number` stands in a stream that began at `origin`: the place next to `near` that
/// has this number. What would lie before the stream stands at its beginning.
fn place(origin: u32, number: u32, near: u64) -> u64 {
    let expected = origin.wrapping_add(near as u32);
    near.saturating_add_signed(i64::from(number.wrapping_sub(expected) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Memory, NodeId};
    use std::sync::{Arc, Mutex};
    use units::HostClock;

    fn segment(number: u32, data: usize) -> Segment {
        let mut packet = vec![0; 40 + data];
        packet[24..28].copy_from_slice(&number.to_be_bytes());
        packet[32] = 5 << 4;
        Segment::of(&packet)
    }

    const fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn numbers_wrap_and_places_do_not() {
        assert_eq!(place(u32::MAX - 9, 5, 0), 15);
        assert_eq!(place(100, 90, 0), 0, "before the stream");
        let far = 5 << 32;
        assert_eq!(place(7, 7 + 500, far), far + 500);
        assert_eq!(place(7, 7u32.wrapping_sub(500), far), far - 500);
    }

    #[test]
    fn transmissions_acknowledgements_and_timeouts() {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let mut books = Books::new(Tap::new(memory.clone(), NodeId(0), HostClock::default()));
        let start = u32::MAX - 150;
        books.sent(ms(0), &segment(start, 100), true);
        books.sent(ms(0), &segment(start.wrapping_add(100), 100), true);
        books.heard(ms(40), start.wrapping_add(100));
        // The second is lost: once more by an arrival, once more by the clock.
        books.sent(ms(50), &segment(start.wrapping_add(100), 100), false);
        books.sent(ms(1_050), &segment(start.wrapping_add(100), 100), true);
        books.heard(ms(1_090), start.wrapping_add(200));
        books.heard(ms(1_091), start.wrapping_add(5_000));
        let Counters { packets, retransmissions, timeouts, acked_bytes, .. } = books.counters;
        assert_eq!((packets, retransmissions, timeouts, acked_bytes), (4, 2, 1, 200));
        let events: Vec<Event> = memory.lock().unwrap().events.iter().map(|(_, _, event)| *event).collect();
        let rtt = Span::from_millis(40);
        assert!(events.contains(&Event::Rtt { latest: rtt, smoothed: rtt }));
        let lost = |event: &&Event| matches!(event, Event::PacketLost { .. });
        assert_eq!(events.iter().filter(lost).count(), 2);
        assert_eq!(events.last(), Some(&Event::PacketAcked { packet: 3, size: 112 }));
    }
}
