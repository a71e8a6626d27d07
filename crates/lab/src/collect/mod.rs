//! Folds the events of a run into columns that metrics, tables and charts read.
//!
//! ```text
//! sender  --PacketSent, FrameEncoded, Decision ...-->  FlowRecord { packets, frames, rtt, decisions, ... }
//! link    --LinkEnqueued, LinkDeparted, ...-------->  LinkRecord { arrivals, departures, drops, totals }
//! receiver --PacketReceived, FrameDisplayed ...---->  FlowRecord (the sender's rows, completed)
//! ```
//!
//! A packet is one row, completed as its fate becomes known. Memory grows with what the senders send (some
//! 120 bytes a packet) and never with what arrives from outside: an arrival that matches no row is counted
//! and forgotten. With [`Keep::Totals`] only counters remain and memory is constant;
//! [`Collector::take_complete`] hands rows on during the run ([`crate::stream`]).

mod flow;
mod frames;
mod link;
mod observed;
mod rows;
mod series;

use std::collections::BTreeMap;

use record::{Dropped, Event, NodeId, Recorder, Topics};
use units::{Span, Time};

pub use flow::{Coding, Decided, FlowRecord, FlowTotals, FoldedFlow, NO_FRAME, PacketRow, RttSample};
pub use frames::{FrameRow, StreamFrames};
pub use link::{Arrival, Departure, Drop, LinkRecord, LinkTotals};
pub use observed::Observed;
pub use rows::{FlowRows, LinkRows, Rows};

/// How much to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Every packet, frame and decision.
    #[default]
    Rows,
    /// The same as long as they fit into some memory; after that,
    /// [what charts and figures need](crate::stream).
    Bounded,
    /// Counters only.
    Totals,
}

/// Which nodes of the world belong to what.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The sender and receiver of each flow, in the scenario's order.
    pub flows: Vec<(NodeId, NodeId)>,
    /// The links flows share, in the scenario's order, and what each is called; none on a real network.
    pub links: Vec<(NodeId, String)>,
}

#[derive(Clone, Copy)]
enum Role {
    Sender(usize),
    Receiver(usize),
}

/// A recorder that keeps what the metrics need.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    rows: Rows,
    /// Whether it wants to count what it keeps no rows of.
    counts: bool,
    /// Whose end a host is, by its number: looked up for every event.
    hosts: Vec<Option<Role>>,
    bottleneck: Option<NodeId>,
    /// The nodes of further links.
    others: Vec<NodeId>,
    /// One record per flow of the layout.
    pub flows: Vec<FlowRecord>,
    /// The shared link, the first where there are several.
    pub link: LinkRecord,
    /// The others, where there are several.
    pub further: Vec<LinkRecord>,
    /// Packets dropped by links of a flow's own, by cause.
    pub elsewhere: BTreeMap<Dropped, u64>,
    /// The latest event's time.
    pub end: Time,
    /// Jain's index over windows; none where rows are whole.
    pub folded_fairness: Option<Vec<(Time, f64)>>,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Role::Sender(flow) => write!(f, "sender of flow {flow}"),
            Role::Receiver(flow) => write!(f, "receiver of flow {flow}"),
        }
    }
}

impl Collector {
    /// A collector for a world of the given layout.
    pub fn new(layout: &Layout, keep: Keep) -> Collector {
        let flows = layout.flows.len();
        let rows = if keep == Keep::Totals { Rows::none(flows) } else { Rows::all(flows) };
        Collector { counts: true, ..Collector::of(layout, rows) }
    }

    /// One that wants nothing but what such rows are made of. What else it is told of it counts, but that
    /// need not be all there was.
    pub fn of(layout: &Layout, rows: Rows) -> Collector {
        let ends = layout.flows.iter().enumerate();
        let ends =
            ends.flat_map(|(flow, ends)| [(ends.0, Role::Sender(flow)), (ends.1, Role::Receiver(flow))]);
        let mut hosts = Vec::new();
        for (node, role) in ends {
            let number = usize::from(node.0);
            hosts.resize(hosts.len().max(number + 1), None);
            hosts[number] = Some(role);
        }
        let flows = vec![FlowRecord::default(); layout.flows.len()];
        let mut nodes = layout.links.iter().map(|link| link.0);
        let mut records =
            layout.links.iter().map(|link| LinkRecord { name: link.1.clone(), ..LinkRecord::default() });
        Collector {
            rows,
            hosts,
            bottleneck: nodes.next(),
            others: nodes.collect(),
            flows,
            link: records.next().unwrap_or_default(),
            further: records.collect(),
            ..Collector::default()
        }
    }

    /// The shared links, in the scenario's order.
    pub fn links(&self) -> impl Iterator<Item = &LinkRecord> {
        std::iter::once(&self.link).chain(&self.further)
    }

    /// What happens at a node that is neither a host's nor the first link's.
    fn elsewhere(&mut self, at: Time, node: NodeId, event: &Event) {
        if let Some(index) = self.others.iter().position(|other| *other == node) {
            self.further[index].take(at, event, self.rows.links);
        } else if let Event::LinkDropped { cause, .. } = event {
            *self.elsewhere.entry(*cause).or_default() += 1;
        }
    }

    /// Takes out the rows that nothing changes any more: packets sent more than `patience` ago, frames
    /// captured more than twice as long ago, and what was known when it happened. What comes later still is
    /// counted as unmatched. With no `patience` all that is left is taken, for nothing comes any more.
    pub fn take_complete(&mut self, patience: Option<Span>) -> Collector {
        let before =
            |factor| patience.map_or(Time::MAX, |patience| self.end.saturating_sub(patience * factor));
        let (packets, frames) = (before(1), before(2));
        // At the latest instant more may happen.
        let until = if patience.is_some() { self.end } else { Time::MAX };
        let link = self.link.take_complete(until);
        let further = self.further.iter_mut().map(|link| link.take_complete(until)).collect();
        let flows = self.flows.iter_mut().map(|flow| flow.take_complete(packets, frames)).collect();
        Collector { flows, link, further, end: self.end, ..Collector::default() }
    }

    /// Bytes of rows held.
    pub fn held(&self) -> usize {
        self.links().map(LinkRecord::held).sum::<usize>()
            + self.flows.iter().map(FlowRecord::held).sum::<usize>()
    }
}

impl Recorder for Collector {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        self.end = self.end.max(at);
        match self.hosts.get(usize::from(node.0)).copied().flatten() {
            Some(Role::Sender(flow)) => self.flows[flow].at_sender(at, event, self.rows.flows[flow]),
            Some(Role::Receiver(flow)) => self.flows[flow].at_receiver(at, event, self.rows.flows[flow]),
            None if self.bottleneck == Some(node) => self.link.take(at, event, self.rows.links),
            None => self.elsewhere(at, node, event),
        }
    }

    fn wants(&self, node: NodeId) -> Topics {
        if self.counts {
            return Topics::ALL;
        }
        match self.hosts.get(usize::from(node.0)).copied().flatten() {
            Some(Role::Sender(flow)) => self.rows.flows[flow].at_sender(),
            Some(Role::Receiver(flow)) => self.rows.flows[flow].at_receiver(),
            None if self.bottleneck == Some(node) || self.others.contains(&node) => self.rows.links.topics(),
            None => Topics::NONE,
        }
    }
}

/// Takes the first `count` rows out, and gives the memory back that a third more than the others does not
/// need.
fn take_front<R>(rows: &mut Vec<R>, count: usize) -> Vec<R> {
    let taken = rows.drain(..count).collect();
    rows.shrink_to(rows.len() / 3 * 4);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Real;
    use units::{Rate, RelativeDelay};

    const SENDER: NodeId = NodeId(0);
    const RECEIVER: NodeId = NodeId(1);
    const LINK: NodeId = NodeId(1000);

    fn layout() -> Layout {
        Layout { flows: vec![(SENDER, RECEIVER)], links: vec![(LINK, String::new())] }
    }

    fn sent(packet: u64, frame: u32, index: u16, retransmission: bool) -> Event {
        Event::PacketSent {
            packet,
            size: 1_000,
            stream: 0,
            frame,
            version: 0,
            index,
            retransmission,
            in_flight: 0,
        }
    }

    fn received(packet: u64, frame: u32) -> Event {
        let owd = RelativeDelay::between(units::RemoteTime::from_nanos(0), Time::from_millis(20));
        Event::PacketReceived { packet, size: 1_000, stream: 0, frame, version: 0, owd }
    }

    /// Frame 0 of three packets; the second is lost, given up and sent again; the frame is shown late. Frame
    /// 1 is skipped.
    fn story() -> Vec<(u64, NodeId, Event)> {
        let target = Rate::from_mbps(2);
        vec![
            (0, SENDER, Event::FrameCaptured { stream: 0, frame: 0 }),
            (
                2,
                SENDER,
                Event::FrameEncoded {
                    stream: 0,
                    frame: 0,
                    version: 0,
                    size: 2_900,
                    key: true,
                    target,
                    height: 720,
                    psnr: Real(40.0),
                    ssim: Real(f64::NAN),
                },
            ),
            (2, SENDER, sent(0, 0, 0, false)),
            (2, LINK, Event::LinkEnqueued { flow: 0, size: 1_028, backlog: 1_028, packets: 1 }),
            (3, SENDER, sent(1, 0, 1, false)),
            (3, LINK, Event::LinkDropped { flow: 0, size: 1_028, cause: Dropped::QueueFull }),
            (4, SENDER, sent(2, 0, 2, false)),
            (4, LINK, Event::LinkDeparted { flow: 0, size: 1_028, sojourn: Span::from_millis(2) }),
            (4, SENDER, Event::FrameSent { stream: 0, frame: 0, version: 0, packets: 3 }),
            (16, SENDER, Event::FrameCaptured { stream: 0, frame: 1 }),
            (16, SENDER, Event::FrameSkipped { stream: 0, frame: 1 }),
            (22, RECEIVER, received(0, 0)),
            (24, RECEIVER, received(2, 0)),
            (42, SENDER, Event::PacketAcked { packet: 0, size: 1_000 }),
            (44, SENDER, Event::PacketAcked { packet: 2, size: 1_000 }),
            (44, SENDER, Event::PacketLost { packet: 1, size: 1_000 }),
            (45, SENDER, sent(3, 0, 1, true)),
            (65, RECEIVER, received(3, 0)),
            (65, RECEIVER, received(3, 0)),
            (65, RECEIVER, Event::FrameAssembled { stream: 0, frame: 0, version: 0, size: 2_900 }),
            (
                66,
                RECEIVER,
                Event::FrameDisplayed {
                    stream: 0,
                    frame: 0,
                    version: 0,
                    captured_local: Time::ZERO,
                    late: true,
                },
            ),
            (
                66,
                RECEIVER,
                Event::FrameQuality { stream: 0, frame: 0, version: 0, psnr: Real(39.5), ssim: Real(0.97) },
            ),
            (85, SENDER, Event::PacketAcked { packet: 3, size: 1_000 }),
            (90, RECEIVER, received(77, 0)),
        ]
    }

    fn collect(keep: Keep) -> Collector {
        let mut collector = Collector::new(&layout(), keep);
        for (ms, node, event) in story() {
            collector.record(Time::from_millis(ms), node, &event);
        }
        collector
    }

    #[test]
    fn a_frames_story_becomes_one_row() {
        let run = collect(Keep::Rows);
        let flow = &run.flows[0];
        let frame = &flow.streams[&Coding::first(0)].rows[0];
        let ms = |t: u64| Some(Time::from_millis(t));
        assert_eq!((frame.captured, frame.encoded, frame.first_sent), (ms(0), ms(2), ms(2)));
        assert_eq!((frame.assembled, frame.displayed, frame.late), (ms(65), ms(66), true));
        assert_eq!((frame.size, frame.key, frame.packets, frame.skipped), (2_900, true, 3, false));
        assert_eq!((frame.psnr(), frame.ssim()), (Some(39.5), Some(0.97)));
        assert!(flow.streams[&Coding::first(0)].rows[1].skipped);
        assert_eq!(flow.frame_rtts(Time::ZERO), [Span::from_millis(83)]);
    }

    #[test]
    fn packets_are_completed_by_their_fate() {
        let run = collect(Keep::Rows);
        let flow = &run.flows[0];
        let fates: Vec<_> =
            flow.packets.iter().map(|p| (p.arrived.is_some(), p.lost, p.retransmission)).collect();
        assert_eq!(
            fates,
            [(true, false, false), (false, true, false), (true, false, false), (true, false, true)]
        );
        assert_eq!(flow.totals.unmatched, 1);
        assert_eq!(flow.totals.duplicates, 1);
        assert_eq!(run.link.drops.len(), 1);
        assert_eq!(run.link.departures[0].sojourn, Span::from_millis(2));
        assert_eq!(run.end, Time::from_millis(90));
    }

    fn encoded(stream: u8, version: u8, psnr: f64) -> Event {
        Event::FrameEncoded {
            stream,
            frame: 0,
            version,
            size: 1_000,
            key: true,
            target: Rate::from_mbps(1),
            height: 360,
            psnr: Real(psnr),
            ssim: Real(0.9),
        }
    }

    /// A capture whose frame was coded by two streams, by the first in two versions.
    fn coded_thrice() -> Collector {
        let mut collector = Collector::new(&layout(), Keep::Rows);
        let events = [
            Event::FrameCaptured { stream: 0, frame: 0 },
            encoded(0, 0, 40.0),
            encoded(16, 0, 30.0),
            encoded(0, 1, 45.0),
        ];
        events.iter().for_each(|event| collector.record(Time::from_millis(5), SENDER, event));
        collector
    }

    #[test]
    fn a_frame_has_the_quality_of_the_coding_that_is_shown() {
        let shown = |stream, version| {
            let mut collector = coded_thrice();
            let captured_local = Time::ZERO;
            let displayed = Event::FrameDisplayed { stream, frame: 0, version, captured_local, late: false };
            collector.record(Time::from_millis(9), RECEIVER, &displayed);
            let row = &collector.flows[0].streams[&Coding::first(0)].rows[0];
            assert_eq!(row.shown, Some(Coding { stream, version }));
            row.psnr()
        };
        let quality = [shown(0, 0), shown(16, 0), shown(0, 1), shown(32, 0)];
        assert_eq!(quality, [Some(40.0), Some(30.0), Some(45.0), None]);
    }

    #[test]
    fn every_coding_has_a_row_until_it_is_complete() {
        let mut collector = coded_thrice();
        let early = collector.flows[0].take_complete(Time::ZERO, Time::from_millis(5));
        assert!(early.streams.values().all(|frames| frames.rows.is_empty()), "it may still arrive");
        let assembled = Event::FrameAssembled { stream: 0, frame: 0, version: 1, size: 1_000 };
        collector.record(Time::from_millis(70), RECEIVER, &assembled);
        let late = collector.flows[0].take_complete(Time::ZERO, Time::from_millis(80));
        let arrived: Vec<_> = late
            .streams
            .iter()
            .map(|(coding, frames)| (*coding, frames.rows[0].assembled.is_some()))
            .collect();
        let coding = |stream, version| Coding { stream, version };
        assert_eq!(arrived, [(coding(0, 0), false), (coding(0, 1), true), (coding(16, 0), false)]);
    }

    #[test]
    fn totals_stay_the_same_when_rows_are_not_kept() {
        let (rows, totals) = (collect(Keep::Rows), collect(Keep::Totals));
        assert!(totals.flows[0].packets.is_empty() && totals.flows[0].streams.is_empty());
        assert!(totals.link.arrivals.is_empty());
        let (mut with, without) = (rows.flows[0].totals.clone(), &totals.flows[0].totals);
        // What only rows can tell.
        (with.unmatched, with.duplicates) = (without.unmatched, without.duplicates);
        with.received = without.received;
        with.received_bytes = without.received_bytes;
        assert_eq!(&with, without);
        assert_eq!(rows.link.totals, totals.link.totals);
    }

    #[test]
    fn nonsense_numbers_grow_nothing() {
        let mut collector = Collector::new(&layout(), Keep::Rows);
        let far = Event::FrameDisplayed {
            stream: 9,
            frame: u32::MAX - 1,
            version: 0,
            captured_local: Time::ZERO,
            late: false,
        };
        collector.record(Time::ZERO, RECEIVER, &far);
        collector.record(Time::ZERO, RECEIVER, &received(u64::MAX, 3));
        collector.record(Time::ZERO, NodeId(77), &sent(0, 0, 0, false));
        assert!(collector.flows[0].streams.is_empty() && collector.flows[0].packets.is_empty());
    }
}
