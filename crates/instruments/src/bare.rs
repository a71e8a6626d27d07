//! Hosts that do nothing: a window of packets that holds as long as nothing is lost, an answer to every
//! second one. Nothing is written, read, kept or decided, so what a load costs with them is what the network
//! itself costs, and no pair of hosts that does something can be faster.

use units::Time;
use wire::{Endpoint, RxMeta, TxMeta};

/// Bytes of an answer, without IP and UDP.
const ANSWER: usize = 40;
/// Packets that an answer stands for, as a report of the real receiver does.
const EVERY: u32 = 2;

/// Sends as many packets as were answered, a window of them at first.
pub struct Source {
    /// Packets that may leave now.
    pub credit: u32,
    /// Bytes of a packet, without IP and UDP.
    pub size: usize,
}

impl Endpoint for Source {
    fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {
        self.credit += EVERY;
    }
    fn wake(&mut self, _: Time) {}
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn transmit(&mut self, _: Time, _: &mut [u8]) -> Option<TxMeta> {
        self.credit = self.credit.checked_sub(1)?;
        Some(TxMeta { head: 1, length: self.size, ..TxMeta::default() })
    }
}

/// Answers every second packet.
#[derive(Default)]
pub struct Sink {
    unanswered: u32,
}

impl Endpoint for Sink {
    fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {
        self.unanswered += 1;
    }
    fn wake(&mut self, _: Time) {}
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn transmit(&mut self, _: Time, _: &mut [u8]) -> Option<TxMeta> {
        self.unanswered = self.unanswered.checked_sub(EVERY)?;
        Some(TxMeta { head: 1, length: ANSWER, ..TxMeta::default() })
    }
}
