//! A shared link: what came in, what left, what was dropped.

use std::collections::BTreeMap;

use record::{Dropped, Event};
use units::{Span, Time};

use super::rows::LinkRows;
use super::take_front;

/// A packet the link accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// When it happened, in virtual time.
    pub at: Time,
    /// The flow's number, from 0 on.
    pub flow: u16,
    /// Its size on the wire in bytes.
    pub size: u32,
    /// Bytes in the queue with it.
    pub backlog: u32,
    /// Packets in the queue with it.
    pub packets: u32,
}

/// A packet that left the queue's server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure {
    /// When it happened, in virtual time.
    pub at: Time,
    /// The flow's number, from 0 on.
    pub flow: u16,
    /// Its size on the wire in bytes.
    pub size: u32,
    /// Time since it arrived: waiting and serialisation.
    pub sojourn: Span,
}

/// A packet the link dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drop {
    /// When it happened, in virtual time.
    pub at: Time,
    /// The flow's number, from 0 on.
    pub flow: u16,
    /// Its size on the wire in bytes.
    pub size: u32,
    /// What made the link drop it.
    pub cause: Dropped,
}

/// Counters of a link, in wire bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkTotals {
    /// Packets accepted into the queue.
    pub accepted: u64,
    /// Bytes accepted.
    pub accepted_bytes: u64,
    /// Packets that left.
    pub departed: u64,
    /// Bytes that left.
    pub departed_bytes: u64,
    /// Packets dropped, by cause.
    pub dropped: BTreeMap<Dropped, u64>,
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// The most packets that stood in the queue.
    pub most_packets: u32,
}

/// Everything kept of a shared link.
#[derive(Clone, Debug, Default)]
pub struct LinkRecord {
    /// What it is called, where there are several.
    pub name: String,
    /// Packets and bytes counted over the whole run.
    pub totals: LinkTotals,
    /// Packets accepted, in order.
    pub arrivals: Vec<Arrival>,
    /// Packets that left, in order.
    pub departures: Vec<Departure>,
    /// Packets dropped, in order.
    pub drops: Vec<Drop>,
    /// Packets of cross traffic that came in successive spans of time; none where rows are whole.
    pub folded: Option<(Span, Vec<u32>)>,
}

impl LinkRecord {
    /// Takes out what happened before `before`.
    pub(super) fn take_complete(&mut self, before: Time) -> LinkRecord {
        let count = |times: &mut dyn Iterator<Item = Time>| times.take_while(|at| *at < before).count();
        let arrivals = count(&mut self.arrivals.iter().map(|row| row.at));
        let departures = count(&mut self.departures.iter().map(|row| row.at));
        let drops = count(&mut self.drops.iter().map(|row| row.at));
        LinkRecord {
            name: self.name.clone(),
            totals: LinkTotals::default(),
            arrivals: take_front(&mut self.arrivals, arrivals),
            departures: take_front(&mut self.departures, departures),
            drops: take_front(&mut self.drops, drops),
            folded: None,
        }
    }

    /// Bytes of rows held.
    pub(super) fn held(&self) -> usize {
        size_of_val(&self.arrivals[..]) + size_of_val(&self.departures[..]) + size_of_val(&self.drops[..])
    }

    pub(super) fn take(&mut self, at: Time, event: &Event, rows: LinkRows) {
        match *event {
            Event::LinkEnqueued { flow, size, backlog, packets } => {
                self.accept(Arrival { at, flow, size, backlog, packets }, rows.arrivals);
            }
            Event::LinkDeparted { flow, size, sojourn } => {
                self.depart(Departure { at, flow, size, sojourn }, rows.departures);
            }
            Event::LinkDropped { flow, size, cause } => self.drop(Drop { at, flow, size, cause }, rows.drops),
            _ => {}
        }
    }

    fn accept(&mut self, arrival: Arrival, rows: bool) {
        self.totals.accepted += 1;
        self.totals.accepted_bytes += u64::from(arrival.size);
        self.totals.most_packets = self.totals.most_packets.max(arrival.packets);
        if rows {
            self.arrivals.push(arrival);
        }
    }

    fn depart(&mut self, departure: Departure, rows: bool) {
        self.totals.departed += 1;
        self.totals.departed_bytes += u64::from(departure.size);
        if rows {
            self.departures.push(departure);
        }
    }

    fn drop(&mut self, drop: Drop, rows: bool) {
        *self.totals.dropped.entry(drop.cause).or_default() += 1;
        self.totals.dropped_bytes += u64::from(drop.size);
        if rows {
            self.drops.push(drop);
        }
    }
}
