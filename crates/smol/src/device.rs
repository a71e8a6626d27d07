//! A device of smoltcp's that is a place in memory: one packet waits to be read, any number to be sent.

use std::collections::VecDeque;

use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};

use crate::clock::Moment;
use crate::segment::Segment;

/// smoltcp's device: packets that it hands out wait here for the simulated link, and the other way round.
pub struct Wire {
    /// Largest IP packet.
    mtu: usize,
    /// What has arrived and was not read yet.
    arrived: Option<Vec<u8>>,
    /// What waits to be sent: as much as the stack's window lets out at once.
    leaving: VecDeque<Segment>,
    /// Where smoltcp writes a packet.
    page: Vec<u8>,
}

impl Wire {
    pub fn new(mtu: usize) -> Wire {
        Wire { mtu, arrived: None, leaving: VecDeque::new(), page: Vec::new() }
    }

    /// Puts in a packet for the next poll.
    pub fn put(&mut self, packet: Vec<u8>) {
        self.arrived = Some(packet);
    }

    /// Takes out the next segment to be sent.
    pub fn take(&mut self) -> Option<Segment> {
        self.leaving.pop_front()
    }
}

/// A packet to be read.
pub struct Arrived(Vec<u8>);

/// Room for a packet to be sent.
pub struct Leaving<'a> {
    page: &'a mut Vec<u8>,
    leaving: &'a mut VecDeque<Segment>,
}

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        self.page.clear();
        self.page.resize(length, 0);
        let written = write(self.page);
        self.leaving.push_back(Segment::of(self.page));
        written
    }
}

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, now: Moment) -> Option<(Arrived, Leaving<'_>)> {
        let packet = self.arrived.take()?;
        Some((Arrived(packet), self.transmit(now)?))
    }

    fn transmit(&mut self, _: Moment) -> Option<Leaving<'_>> {
        Some(Leaving { page: &mut self.page, leaving: &mut self.leaving })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}
