//! Which datagram is which, for records alone.
//!
//! A receiver of QUIC cannot see the number that the sender's records give a datagram. Its last 16 bytes are
//! an authentication tag, different for each, so they name it: as a capture at both ends of a path is
//! matched. No endpoint acts on this.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use units::Time;

/// Datagrams remembered: as many as [`Ledger`](crate::ledger::Ledger) remembers packets.
const MOST: usize = 1 << 16;

type Tag = [u8; 16];

/// What the sender's records say of the datagrams on their way.
#[derive(Debug, Default)]
pub struct Labels {
    known: BTreeMap<Tag, (u64, Time)>,
    order: VecDeque<Tag>,
}

/// Labels that both ends' records share.
pub type SharedLabels = Arc<Mutex<Labels>>;

impl Labels {
    pub fn shared() -> SharedLabels {
        SharedLabels::default()
    }

    /// `datagram`, which left at `now`, is number `packet`.
    pub fn write(&mut self, datagram: &[u8], packet: u64, now: Time) {
        let Some(tag) = datagram.last_chunk::<16>() else { return };
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(*tag);
        self.known.insert(*tag, (packet, now));
    }

    /// The number and send time of `datagram`.
    pub fn read(&self, datagram: &[u8]) -> Option<(u64, Time)> {
        self.known.get(datagram.last_chunk::<16>()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_name_a_datagram_and_memory_is_bounded() {
        let mut labels = Labels::default();
        for n in 0..MOST as u64 + 3 {
            labels.write(&u128::from(n).to_be_bytes(), n, Time::from_nanos(n));
        }
        let read = |n: u64| labels.read(&u128::from(n).to_be_bytes());
        assert_eq!((read(2), read(3)), (None, Some((3, Time::from_nanos(3)))));
        assert_eq!((labels.read(b"short"), labels.known.len()), (None, MOST));
    }
}
