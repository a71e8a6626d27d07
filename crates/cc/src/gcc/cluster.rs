//! What a probe's packets measure (libwebrtc `ProbeBitrateEstimator`).

use units::{RemoteTime, Span};

/// Share of a cluster's bytes and packets that must have arrived.
const ARRIVED: f64 = 0.8;
/// Sent or received over more than this, a cluster is none.
const LONGEST: Span = Span::from_secs(1);
/// Received this many times as fast as sent is impossible.
const IMPLAUSIBLE: f64 = 2.0;
/// Received slower than this share of the sending rate, the path was full, ...
const FULL: f64 = 0.9;
/// ... and a little less than received is what it carries.
const FULL_SHARE: f64 = 0.95;

/// A probe's packets, which have consecutive numbers, media among them.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// The number of the first.
    first: u64,
    /// The number of the last, once it is known.
    last: Option<u64>,
    bytes_wanted: u64,
    packets_wanted: u32,
    arrived: Option<Arrived>,
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    packets: u32,
    bytes: u64,
    first_sent: RemoteTime,
    last_sent: (RemoteTime, u32),
    first_received: (RemoteTime, u32),
    last_received: RemoteTime,
}

impl Cluster {
    /// A cluster that began with packet `first`.
    pub fn new(first: u64, bytes: u64, packets: u32) -> Cluster {
        Cluster { first, last: None, bytes_wanted: bytes, packets_wanted: packets, arrived: None }
    }

    /// It ended with packet `last`.
    pub fn close(&mut self, last: u64) {
        self.last = Some(last);
    }

    /// Whether packet `number` belongs to it.
    pub fn holds(&self, number: u64) -> bool {
        number >= self.first && self.last.is_none_or(|last| number <= last)
    }

    /// A packet of it arrived; returns the rate measured so far in bit/s, once enough has.
    pub fn insert(&mut self, sent: RemoteTime, received: RemoteTime, size: u32) -> Option<f64> {
        let arrived = self.arrived.get_or_insert(Arrived {
            packets: 0,
            bytes: 0,
            first_sent: sent,
            last_sent: (sent, size),
            first_received: (received, size),
            last_received: received,
        });
        arrived.packets += 1;
        arrived.bytes += u64::from(size);
        arrived.first_sent = arrived.first_sent.min(sent);
        if sent >= arrived.last_sent.0 {
            arrived.last_sent = (sent, size);
        }
        if received < arrived.first_received.0 {
            arrived.first_received = (received, size);
        }
        arrived.last_received = arrived.last_received.max(received);
        let enough = f64::from(arrived.packets) >= ARRIVED * f64::from(self.packets_wanted)
            && arrived.bytes as f64 >= ARRIVED * self.bytes_wanted as f64;
        if enough { arrived.rate() } else { None }
    }
}

impl Arrived {
    /// n packets have n - 1 gaps: the last sent and the first received don't count.
    fn rate(&self) -> Option<f64> {
        let over = |span: Span, bytes: u64| {
            let plausible = span.is_positive() && span <= LONGEST && bytes > 0;
            plausible.then(|| bytes as f64 * 8.0 / span.as_secs_f64())
        };
        let sent = over(self.last_sent.0 - self.first_sent, self.bytes - u64::from(self.last_sent.1))?;
        let received =
            over(self.last_received - self.first_received.0, self.bytes - u64::from(self.first_received.1))?;
        if received > IMPLAUSIBLE * sent {
            return None;
        }
        Some(if received < FULL * sent { FULL_SHARE * received } else { sent.min(received) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten packets of 1000 bytes sent every `sent_us`, received every `received_us`.
    fn measured(sent_us: i64, received_us: i64, packets: i64) -> Option<f64> {
        let mut cluster = Cluster::new(5, 10_000, 5);
        let at = |us: i64| RemoteTime::from_nanos(us * 1000);
        (0..packets).filter_map(|n| cluster.insert(at(n * sent_us), at(n * received_us), 1000)).last()
    }

    #[test]
    fn the_smaller_of_both_rates() {
        // Received at 4 Mbit/s of 8: full, 0.95 of that.
        for (received_us, expected) in [(1000, 8e6), (900, 8e6), (2000, 3.8e6)] {
            assert!((measured(1000, received_us, 10).unwrap() - expected).abs() < 1.0);
        }
        assert_eq!(measured(1000, 400, 10), None);
        assert_eq!(measured(1000, 1000, 7), None);
        assert_eq!(measured(0, 1000, 10), None);
    }

    #[test]
    fn it_holds_what_was_sent_in_it() {
        let mut cluster = Cluster::new(5, 10_000, 5);
        assert!(!cluster.holds(4) && cluster.holds(5) && cluster.holds(900));
        cluster.close(14);
        assert!(cluster.holds(14) && !cluster.holds(15));
    }
}
