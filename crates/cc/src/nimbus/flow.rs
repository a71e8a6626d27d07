//! Send and receive rate of the same packets.

use std::collections::VecDeque;

use units::{RemoteTime, Span, Time};

use crate::Acked;

/// Packets remembered at most: 100 Mbit/s of 1200-byte packets over 50 ms are 520.
const PACKETS: usize = 2048;
/// Fewer packets tell no rate.
const FEWEST: usize = 8;
/// Rates are taken over a round trip, at most this long.
///
/// Deviation: the code's window is one round trip whatever its length. A quarter of the pulse's period is the
/// most that leaves the pulse visible; a queue of 120 ms would average it away.
const LONGEST: Span = Span::from_millis(50);

/// The acknowledged packets of the last window.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    packets: VecDeque<(Time, RemoteTime, u32)>,
}

/// What was sent and what came through, in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// S: the rate at which the packets of the window left, in bit/s.
    pub sent: f64,
    /// R: the rate at which the same packets arrived, in bit/s.
    pub received: f64,
}

impl Flow {
    /// Takes an acknowledged packet.
    pub fn acked(&mut self, acked: &Acked) {
        let Some(arrived_at) = acked.arrived_at else { return };
        if self.packets.len() == PACKETS {
            self.packets.pop_front();
        }
        self.packets.push_back((acked.sent_at, arrived_at, acked.size));
    }

    /// Forgets everything, as after an outage.
    pub fn clear(&mut self) {
        self.packets.clear();
    }

    /// The rates over the last round trip of `rtt`; `None` where too little was heard.
    pub fn rates(&mut self, rtt: Span) -> Option<Rates> {
        let newest = self.packets.back()?.0;
        let oldest = newest.saturating_sub(rtt.min(LONGEST));
        while self.packets.len() > FEWEST && self.packets.front().is_some_and(|packet| packet.0 < oldest) {
            self.packets.pop_front();
        }
        if self.packets.len() < FEWEST {
            return None;
        }
        // n packets have n - 1 gaps: the first one's bytes came before the time that is measured.
        let bytes: u64 = self.packets.iter().skip(1).map(|packet| u64::from(packet.2)).sum();
        let sent = self.packets.iter().map(|packet| packet.0);
        let arrived = self.packets.iter().map(|packet| packet.1);
        let sending = sent.clone().max()? - sent.min()?;
        let arriving = arrived.clone().max()? - arrived.min()?;
        let rate = |span: Span| span.is_positive().then(|| bytes as f64 * 8.0 / span.as_secs_f64());
        Some(Rates { sent: rate(sending)?, received: rate(arriving)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::acked;

    #[test]
    fn rates_of_the_same_packets() {
        let mut flow = Flow::default();
        // 1000 bytes sent each ms, arriving every 2 ms.
        for n in 0..60 {
            let arrived_at = Some(Time::from_millis(100 + 2 * n).on_wire());
            flow.acked(&Acked { arrived_at, ..acked(n, 1000) });
        }
        let rates = flow.rates(Span::from_millis(40)).unwrap();
        assert!((rates.sent - 8e6).abs() < 1.0 && (rates.received - 4e6).abs() < 1.0, "{rates:?}");
        assert_eq!(flow.packets.len(), 41);
    }
}
