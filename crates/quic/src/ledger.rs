//! Which packets are on their way: what quinn knows by number, rebuilt from send times.
//!
//! quinn tells a controller when it has sent, and later that a packet sent at that time was acknowledged,
//! with its size; it tells neither which packet it was nor, of losses, more than their bytes and the send
//! time of the last. But it gives packets up in order: all that is out and was sent before the last one lost
//! is lost too (RFC 9002 section 6.1). So send times and bytes settle every packet, up to which of those sent
//! at one instant it was.

use cc::{Acked, Lost};
use transport::{Arrived, Carried, State};
use units::{RemoteTime, Span, Time};

/// Packets remembered at most: 1200 bytes each for half a second at 1.25 Gbit/s. Beyond, the oldest are
/// forgotten.
const MOST: usize = 1 << 16;
/// quinn gives a packet up 9/8 of a round trip after one sent later was acknowledged (RFC 9002 section
/// 6.1.2). What is out for longer it never counted: packets that carry nothing but acknowledgements.
const FORGOTTEN_AFTER_ROUND_TRIPS: i64 = 2;

/// The timing probe that a packet carries, if it does.
#[derive(Clone, Copy, Debug)]
pub struct Probe(Option<u64>);

impl Carried for Probe {}

/// A packet that was acknowledged, and the timing probe it carried.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// As a controller is told of it.
    pub acked: Acked,
    /// The number of the timing probe it carried, if it carried one.
    pub probe: Option<u64>,
}

/// The packets on their way, and what has been delivered. Bytes in flight are what quinn last said, and what
/// was sent since.
#[derive(Clone, Debug)]
pub struct Ledger {
    packets: transport::Ledger<Probe>,
    /// Send time of the newest packet acknowledged.
    newest: Option<Time>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { packets: transport::Ledger::new(MOST), newest: None }
    }
}

impl Ledger {
    /// What controllers' reports are made of.
    pub fn packets(&self) -> &transport::Ledger<Probe> {
        &self.packets
    }

    /// A packet of `size` bytes left; returns its number. `probe`: the timing probe it carries.
    pub fn sent(&mut self, now: Time, size: u32, probe: Option<u64>) -> u64 {
        if self.packets.in_flight().get() == 0 {
            self.packets.begin_sample(now);
        }
        if self.packets.is_full() {
            self.packets.forget_oldest();
        }
        self.packets.send(now, size, Probe(probe))
    }

    /// A packet of `size` bytes, sent at `sent_at`, was acknowledged. `None` for one that quinn did not tell
    /// of when it left: a probe of the path's MTU.
    pub fn acknowledged(&mut self, now: Time, sent_at: Time, size: u32) -> Option<Settled> {
        self.newest = self.newest.max(Some(sent_at));
        let packet = self.find(sent_at, size)?;
        let probe = self.packets.get(packet)?.carried.0;
        let acked = self.packets.acknowledge_bytes(now, packet, size, Arrived::default());
        self.packets.sample_from(self.packets.sampled_from().max(sent_at));
        Some(Settled { acked, probe })
    }

    /// Of the packets out that were sent at `sent_at`, the first of `size` bytes, or else the first.
    fn find(&self, sent_at: Time, size: u32) -> Option<u64> {
        let first = self.packets.first_since(sent_at);
        let mut place = None;
        for packet in first..self.packets.next_packet() {
            let sent = self.packets.get(packet)?;
            if sent.sent_at > sent_at {
                break;
            }
            let out = sent.state == State::InFlight;
            if out && sent.size == size {
                return Some(packet);
            }
            place = place.or(out.then_some(packet));
        }
        place
    }

    /// An acknowledgement is complete: quinn counts `in_flight` bytes, and the sender had run dry before
    /// (`dry`) or not.
    pub fn acknowledgement_ends(&mut self, in_flight: u64, dry: bool, srtt: Span) {
        self.packets.correct(in_flight, self.packets.lost());
        if dry {
            self.packets.limit_by_application(self.packets.delivered() + in_flight + 1);
        }
        self.forget(srtt);
    }

    /// quinn gave up `bytes`, the last of them sent at `sent_at`: enters those packets into `lost`.
    pub fn lost(&mut self, sent_at: Time, bytes: u64, lost: &mut Vec<Lost>) {
        let (in_flight, lost_before) = (self.packets.in_flight().get(), self.packets.lost());
        let mut left = bytes;
        for packet in self.packets.oldest()..self.packets.next_packet() {
            let Some(sent) = self.packets.get(packet).filter(|sent| sent.state == State::InFlight) else {
                continue;
            };
            if sent.sent_at > sent_at || left == 0 {
                break;
            }
            left = left.saturating_sub(u64::from(sent.size));
            lost.push(self.packets.lose(packet));
        }
        self.packets.correct(in_flight.saturating_sub(bytes), lost_before + bytes);
    }

    /// Drops from the front what is settled, or can no longer be.
    fn forget(&mut self, srtt: Span) {
        let patience = srtt * FORGOTTEN_AFTER_ROUND_TRIPS;
        let newest = self.newest.unwrap_or(Time::ZERO);
        let in_flight = self.packets.in_flight().get();
        self.packets
            .forget_while(|_, sent| sent.state != State::InFlight || newest - sent.sent_at > patience);
        // What is forgotten, quinn did not count.
        self.packets.correct(in_flight, self.packets.lost());
    }

    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.packets.delivered()
    }

    /// Bytes given up so far.
    pub fn lost_bytes(&self) -> u64 {
        self.packets.lost()
    }

    /// Packets sent so far: the number of the next one.
    pub fn next(&self) -> u64 {
        self.packets.next_packet()
    }
}

/// When a probe arrived, entered into what the controller is told.
impl Settled {
    /// The packet arrived at `at`, on the receiver's clock.
    pub fn arrived(mut self, at: Option<RemoteTime>) -> Acked {
        self.acked.arrived_at = at;
        self.acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    const SRTT: Span = Span::from_millis(50);

    #[test]
    fn send_time_and_size_name_the_packet() {
        let mut ledger = Ledger::default();
        for (at, size) in [(0, 1200), (0, 900), (0, 1200), (7, 1200)] {
            ledger.sent(ms(at), size, None);
        }
        let number = |settled: Option<Settled>| settled.map(|s| s.acked.packet);
        assert_eq!(number(ledger.acknowledged(ms(50), ms(0), 900)), Some(1));
        assert_eq!(number(ledger.acknowledged(ms(50), ms(0), 1200)), Some(0));
        assert_eq!(number(ledger.acknowledged(ms(50), ms(7), 1200)), Some(3));
        assert_eq!(number(ledger.acknowledged(ms(50), ms(3), 1452)), None, "a probe of the MTU");
        assert_eq!(number(ledger.acknowledged(ms(50), ms(7), 1200)), None);
        assert_eq!((ledger.delivered(), ledger.next()), (3300, 4));
    }

    #[test]
    fn what_is_lost_is_the_oldest_up_to_the_bytes_told() {
        let mut ledger = Ledger::default();
        (0..6).for_each(|n| _ = ledger.sent(ms(n), 1000, None));
        ledger.acknowledged(ms(50), ms(1), 1000);
        ledger.acknowledged(ms(50), ms(5), 1000);
        let mut lost = Vec::new();
        ledger.lost(ms(2), 2000, &mut lost);
        assert_eq!(lost.iter().map(|lost| lost.packet).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((ledger.packets.in_flight().get(), ledger.lost_bytes()), (2000, 2000));
        // A packet that only acknowledges is never lost: its bytes are not told.
        ledger.lost(ms(4), 1000, &mut lost);
        assert_eq!(lost.len(), 3);
    }

    #[test]
    fn a_snapshot_is_that_of_the_send_time() {
        let mut ledger = Ledger::default();
        ledger.sent(ms(10), 1000, None);
        ledger.sent(ms(20), 1000, None);
        ledger.acknowledged(ms(60), ms(10), 1000);
        ledger.acknowledgement_ends(1000, true, SRTT);
        ledger.sent(ms(61), 1000, None);
        let late = ledger.acknowledged(ms(111), ms(61), 1000).unwrap().acked.delivery;
        assert_eq!((late.delivered, late.delivered_at, late.first_sent_at), (1000, ms(60), ms(10)));
        assert_eq!((late.in_flight, late.app_limited), (2000, true));
    }

    #[test]
    fn memory_is_bounded_and_old_packets_are_forgotten() {
        let mut ledger = Ledger::default();
        (0..MOST as u64 + 9).for_each(|n| _ = ledger.sent(Time::from_micros(n), 40, None));
        assert_eq!(ledger.packets.iter().count(), MOST);
        ledger.sent(ms(5_000), 1000, None);
        ledger.acknowledged(ms(5_050), ms(5_000), 1000);
        ledger.acknowledgement_ends(0, false, SRTT);
        assert_eq!(ledger.packets.iter().count(), 0);
    }
}
