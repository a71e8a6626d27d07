//! What a link counts, in total and per flow.
//!
//! At any moment `offered + duplicated = delivered + dropped + inside`, for packets and for bytes, link and
//! flow alike. A link of stages counts each of them; one that is a ring (`conveyor.rs`) counts what it drops,
//! copies and delivers, and the rest follows from what is inside when somebody asks.

use std::ops::{Add, AddAssign, Sub};

use record::Dropped;
use units::Span;

use crate::Packet;

/// A number of packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
}

impl Count {
    #[inline]
    pub(crate) fn count(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}
impl Add for Count {
    type Output = Count;
    fn add(self, rhs: Count) -> Count {
        Count { packets: self.packets + rhs.packets, bytes: self.bytes + rhs.bytes }
    }
}
impl Sub for Count {
    type Output = Count;
    fn sub(self, rhs: Count) -> Count {
        Count { packets: self.packets - rhs.packets, bytes: self.bytes - rhs.bytes }
    }
}
impl AddAssign for Count {
    fn add_assign(&mut self, rhs: Count) {
        *self = *self + rhs;
    }
}

/// What happened to one flow's packets at a link, or to all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Arrived at the link's entry.
    pub offered: Count,
    /// Copies that the link made of packets.
    pub duplicated: Count,
    /// Lost, for whatever reason.
    pub dropped: Count,
    /// Left the queue's server (and entered propagation).
    pub departed: Count,
    /// Came out at the far end.
    pub delivered: Count,
}

impl FlowStats {
    /// Fraction of packets that were dropped, of those offered or made by duplication; 0 where there were
    /// none.
    pub fn loss(&self) -> f64 {
        let all = self.offered.packets + self.duplicated.packets;
        if all == 0 { 0.0 } else { self.dropped.packets as f64 / all as f64 }
    }
}

impl AddAssign<&FlowStats> for FlowStats {
    fn add_assign(&mut self, rhs: &FlowStats) {
        self.offered += rhs.offered;
        self.duplicated += rhs.duplicated;
        self.dropped += rhs.dropped;
        self.departed += rhs.departed;
        self.delivered += rhs.delivered;
    }
}

/// A link's counters. Totals are sums over flows, so that counting costs a packet one table row.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// From flow `first` on: most links carry one flow, whatever its number.
    flows: Vec<FlowStats>,
    /// What was delivered of each, which is counted for each packet: apart, so that several share a cache
    /// line, until it is [gathered](LinkStats::gather).
    delivered: Vec<Count>,
    first: u16,
    causes: Vec<(Dropped, Count)>,
    /// How long the link had something to send, in closed busy periods; see
    /// [`Link::busy_time`](crate::Link::busy_time).
    pub(crate) busy: Span,
    /// Most packets that ever waited in the queue at once, without the one being transmitted.
    pub peak_packets: u32,
    /// Most bytes that ever waited in the queue at once, without the packet being transmitted.
    pub peak_bytes: u64,
}

impl LinkStats {
    /// Has the counters of a flow brought into the caches.
    #[inline]
    pub(crate) fn fetch(&self, flow: u16) {
        if let Some(delivered) = self.delivered.get(usize::from(flow.wrapping_sub(self.first))) {
            units::fetch_line(delivered);
        }
    }

    /// What happened to the packets of `flow`.
    pub fn flow(&self, flow: u16) -> FlowStats {
        let index = flow.checked_sub(self.first);
        index.and_then(|index| self.flows.get(usize::from(index))).copied().unwrap_or_default()
    }

    /// What happened to all packets.
    pub fn total(&self) -> FlowStats {
        let mut total = FlowStats::default();
        self.flows.iter().for_each(|flow| total += flow);
        total
    }

    /// The flows seen, in order of their numbers.
    pub fn flows(&self) -> impl Iterator<Item = (u16, &FlowStats)> {
        (self.first..=u16::MAX).zip(&self.flows).filter(|(_, flow)| **flow != FlowStats::default())
    }

    /// What was dropped for one reason.
    pub fn dropped(&self, cause: Dropped) -> Count {
        self.causes.iter().find(|row| row.0 == cause).map(|row| row.1).unwrap_or_default()
    }

    /// Writes what was delivered where it is read.
    pub(crate) fn gather(&mut self) {
        self.flows.iter_mut().zip(&self.delivered).for_each(|(flow, delivered)| flow.delivered = *delivered);
    }

    /// The counters of every flow.
    pub(crate) fn all_flows(&mut self) -> &mut [FlowStats] {
        &mut self.flows
    }

    #[inline]
    pub(crate) fn row(&mut self, flow: u16) -> &mut FlowStats {
        let index = usize::from(flow.wrapping_sub(self.first));
        if units::likely(index < self.flows.len()) {
            return &mut self.flows[index];
        }
        self.make_room(flow);
        &mut self.flows[usize::from(flow - self.first)]
    }

    #[inline(always)]
    pub(crate) fn count_delivery(&mut self, flow: u16, size: u32) {
        let index = usize::from(flow.wrapping_sub(self.first));
        if units::unlikely(index >= self.delivered.len()) {
            self.make_room(flow);
        }
        self.delivered[usize::from(flow.wrapping_sub(self.first))].count(size);
    }

    #[cold]
    fn make_room(&mut self, flow: u16) {
        if self.flows.is_empty() {
            self.first = flow;
        }
        if flow < self.first {
            let more = usize::from(self.first - flow);
            self.flows.splice(0..0, std::iter::repeat_n(FlowStats::default(), more));
            self.delivered.splice(0..0, std::iter::repeat_n(Count::default(), more));
            self.first = flow;
        }
        let missing = (usize::from(flow - self.first) + 1).saturating_sub(self.flows.len());
        if self.flows.is_empty() {
            // Most links never have another.
            self.flows.reserve_exact(missing);
            self.delivered.reserve_exact(missing);
        }
        self.flows.resize(self.flows.len() + missing, FlowStats::default());
        self.delivered.resize(self.flows.len(), Count::default());
    }

    pub(crate) fn count_drop(&mut self, packet: &Packet, cause: Dropped) {
        self.row(packet.flow).dropped.count(packet.size);
        match self.causes.iter_mut().find(|row| row.0 == cause) {
            Some(row) => row.1.count(packet.size),
            None => self.causes.push((cause, Count { packets: 1, bytes: u64::from(packet.size) })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    #[test]
    fn totals_are_sums_over_flows() {
        let mut stats = LinkStats::default();
        for (flow, size) in [(3, 200), (0, 100), (3, 300)] {
            let packet = Packet::bare(flow, size, Time::ZERO);
            stats.row(flow).offered.count(packet.size);
            stats.count_drop(&packet, Dropped::QueueFull);
        }
        assert_eq!(stats.total().offered, Count { packets: 3, bytes: 600 });
        assert_eq!(stats.flow(3).dropped, Count { packets: 2, bytes: 500 });
        assert_eq!(stats.dropped(Dropped::QueueFull), Count { packets: 3, bytes: 600 });
        assert_eq!(stats.dropped(Dropped::LinkLoss), Count::default());
        assert_eq!(stats.flows().map(|(flow, _)| flow).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(stats.total().loss(), 1.0);
    }

    #[test]
    fn what_was_delivered_is_gathered_from_its_own_list() {
        let mut stats = LinkStats::default();
        [(7, 100), (9, 200), (5, 300), (9, 400)]
            .iter()
            .for_each(|&(flow, size)| stats.count_delivery(flow, size));
        stats.gather();
        let delivered = |flow| stats.flow(flow).delivered;
        assert_eq!((delivered(5).bytes, delivered(7).bytes), (300, 100));
        assert_eq!((delivered(9), delivered(6)), (Count { packets: 2, bytes: 600 }, Count::default()));
        assert_eq!(stats.total().delivered.packets, 4);
    }

    #[test]
    fn a_link_of_one_flow_keeps_one_row() {
        let mut stats = LinkStats::default();
        stats.row(u16::MAX).offered.count(100);
        assert_eq!(stats.flows.len(), 1);
        assert_eq!(stats.flows().map(|(flow, _)| flow).collect::<Vec<_>>(), [u16::MAX]);
        assert_eq!((stats.flow(u16::MAX).offered.packets, stats.flow(0)), (1, FlowStats::default()));
    }
}
