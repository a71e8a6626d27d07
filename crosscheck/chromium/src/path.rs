//! One direction of the network: the simulator's own link on the real clock, with the datagrams inside.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netsim::{Delay, IP_UDP_OVERHEAD, Impairments, Link, LinkConfig, Loss, Packet, QueueSpec, RateProcess};
use record::Tap;
use units::{Rate, Span, Time};

/// A network of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Both directions' propagation delay together, in ms.
    pub round_trip_ms: u32,
    /// Share of packets lost on the way to the receiver.
    pub loss: f64,
    /// Standard deviation of the jitter before truncation, in ms.
    pub jitter_ms: u32,
}

impl Cell {
    /// The way to the receiver and the way back, as `experiments/playout.toml` has them.
    pub fn ways(self, seed: u64) -> (Way, Way) {
        let delay = Delay::constant(Span::from_micros(i64::from(self.round_trip_ms) * 500));
        let queue: QueueSpec = "droptail:120ms".parse().expect("a queue by its name");
        let loss = if self.loss > 0.0 { Loss::Bernoulli(self.loss) } else { Loss::None };
        let there = LinkConfig {
            rate: RateProcess::Constant(Rate::from_mbps(20)),
            queue,
            delay: delay.clone(),
            jitter: Span::from_millis(i64::from(self.jitter_ms)),
            impairments: Impairments { loss, ..Impairments::default() },
            ..LinkConfig::default()
        };
        let back = LinkConfig { delay, ..LinkConfig::default() };
        (
            Way::new(Link::new(there, seed, "bottleneck", Tap::default())),
            Way::new(Link::new(back, seed, "feedback0", Tap::default())),
        )
    }
}

/// A datagram, and whom it is for or from.
pub type Datagram = (Vec<u8>, SocketAddr);

/// One direction.
pub struct Way {
    link: Link,
    held: BTreeMap<u32, Datagram>,
    offered: u32,
    /// Datagrams that the link lost.
    pub lost: u32,
    origin: Instant,
}

impl Way {
    fn new(link: Link) -> Way {
        Way { link, held: BTreeMap::new(), offered: 0, lost: 0, origin: Instant::now() }
    }

    fn time(&self, at: Instant) -> Time {
        Time::from_nanos(at.saturating_duration_since(self.origin).as_nanos() as u64)
    }

    /// Datagrams that came to the link.
    pub fn offered(&self) -> u32 {
        self.offered
    }

    /// A datagram enters at `now`, no earlier than the one before.
    pub fn offer(&mut self, now: Instant, datagram: Datagram) {
        let now = self.time(now);
        let packet =
            Packet { id: self.offered, ..Packet::bare(0, datagram.0.len() as u32 + IP_UDP_OVERHEAD, now) };
        self.held.insert(packet.id, datagram);
        self.offered += 1;
        self.link.offer(now, packet);
        self.forget_lost();
    }

    /// The next datagram that is out by `now`, and when it came out.
    pub fn deliver(&mut self, now: Instant) -> Option<(Instant, Datagram)> {
        let delivered = self.link.deliver_dated(self.time(now));
        self.forget_lost();
        let (due, packet) = delivered?;
        let due = self.origin + Duration::from_nanos(due.as_nanos());
        Some((due, self.held.remove(&packet.id).expect("a link delivers what it was offered, once")))
    }

    /// When [`deliver`](Way::deliver) wants to be called next.
    pub fn next(&self) -> Option<Instant> {
        self.link.next_event().map(|due| self.origin + Duration::from_nanos(due.as_nanos()))
    }

    fn forget_lost(&mut self) {
        for notice in self.link.notices() {
            if let netsim::Notice::Dropped(packet, _) = notice {
                self.held.remove(&packet.id);
                self.lost += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_loses_its_share_and_delays_the_rest_in_order() {
        let (mut way, _) = Cell { round_trip_ms: 50, loss: 0.05, jitter_ms: 5 }.ways(1);
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let origin = way.origin;
        for n in 0..2_000u32 {
            way.offer(origin + Duration::from_millis(n.into()), (n.to_be_bytes().to_vec(), to));
        }
        let mut delivered = Vec::new();
        while let Some((due, (bytes, _))) = way.deliver(origin + Duration::from_secs(3)) {
            let n = u32::from_be_bytes(bytes.try_into().unwrap());
            delivered.push(n);
            assert!(due - origin >= Duration::from_millis(u64::from(n) + 25), "{n} after {:?}", due - origin);
        }
        assert!(delivered.is_sorted());
        assert!((50..150).contains(&way.lost), "{} of 2000 lost", way.lost);
        assert_eq!(delivered.len() as u32 + way.lost, 2_000);
        assert!(way.held.is_empty());
    }
}
