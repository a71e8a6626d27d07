//! What is kept of the packets that pass a link: counters, the record, and what its driver must be told.

use record::{Dropped, Event, Tap, Topic};
use units::{Span, Time, unlikely};

use crate::Packet;
use crate::link::Notice;
use crate::queue::Backlog;
use crate::stats::LinkStats;

/// A link's books.
#[derive(Clone)]
pub(crate) struct Books {
    pub stats: LinkStats,
    /// What happened to packets, until the driver takes it.
    pub notices: Vec<Notice>,
    /// Whether arrivals or departures are recorded; drops always are.
    pub recorded: bool,
    busy_since: Option<Time>,
    tap: Tap,
}

impl Books {
    pub fn new(tap: Tap, recorded: bool) -> Books {
        Books {
            stats: LinkStats::default(),
            notices: Vec::new(),
            recorded: recorded && records(&tap),
            busy_since: None,
            tap,
        }
    }

    /// A copy that goes on by itself and records with `tap`.
    pub fn fork(&self, tap: Tap) -> Books {
        Books { recorded: self.recorded && records(&tap), tap, ..self.clone() }
    }

    /// How long, up to `now`, the link has had something to send.
    pub fn busy_time(&self, now: Time) -> Span {
        self.stats.busy + self.busy_since.map_or(Span::ZERO, |since| now - since)
    }

    pub fn is_busy(&self) -> bool {
        self.busy_since.is_some()
    }

    pub fn count_offer(&mut self, flow: u16, size: u32) {
        self.stats.row(flow).offered.count(size);
    }

    /// Whether `backlog` is nothing new: so much has waited before, and nobody records who arrives.
    #[inline(always)]
    pub fn has_seen(&self, backlog: Backlog) -> bool {
        let LinkStats { peak_packets, peak_bytes, .. } = self.stats;
        (backlog.packets <= peak_packets) & (backlog.bytes <= peak_bytes) & !self.recorded
    }

    /// A packet is in the queue, or on its way through the server: with it, `backlog` waits.
    #[inline(always)]
    pub fn note_backlog(&mut self, now: Time, packet: &Packet, backlog: Backlog) {
        let Backlog { packets, bytes } = backlog;
        self.stats.peak_packets = self.stats.peak_packets.max(packets);
        self.stats.peak_bytes = self.stats.peak_bytes.max(bytes);
        if unlikely(self.busy_since.is_none()) {
            self.busy_since = Some(now);
        }
        if unlikely(self.recorded) {
            let backlog = u32::try_from(bytes).unwrap_or(u32::MAX);
            let enqueued = Event::LinkEnqueued { flow: packet.flow, size: packet.size, backlog, packets };
            self.tap.record(now, enqueued);
        }
    }

    /// A packet is through the server.
    pub fn count_departure(&mut self, at: Time, packet: &Packet) {
        self.stats.row(packet.flow).departed.count(packet.size);
        self.note_departure(at, packet);
    }

    /// The same where departures are told from what is inside.
    #[inline(always)]
    pub fn note_departure(&mut self, at: Time, packet: &Packet) {
        if unlikely(self.recorded) {
            let sojourn = at - packet.entered;
            self.tap.record(at, Event::LinkDeparted { flow: packet.flow, size: packet.size, sojourn });
        }
    }

    #[inline(always)]
    pub fn count_delivery(&mut self, packet: &Packet) {
        self.stats.count_delivery(packet.flow, packet.size);
    }

    /// The link has run out of packets.
    pub fn rest(&mut self, at: Time) {
        if let Some(since) = self.busy_since.take() {
            self.stats.busy += at - since;
        }
    }

    pub fn duplicate(&mut self, packet: Packet) {
        self.stats.row(packet.flow).duplicated.count(packet.size);
        self.notices.push(Notice::Duplicated(packet));
    }

    #[cold]
    pub fn count_drop(&mut self, at: Time, packet: Packet, cause: Dropped) {
        self.stats.count_drop(&packet, cause);
        self.tap.record(at, Event::LinkDropped { flow: packet.flow, size: packet.size, cause });
        self.notices.push(Notice::Dropped(packet, cause));
    }
}

/// Whether a link tells of arrivals or departures by this tap.
fn records(tap: &Tap) -> bool {
    [Topic::Arrivals, Topic::Departures].iter().any(|topic| tap.wants(*topic))
}
