//! What the tables hold.

use units::{Rate, Span, Time};

use super::parquet_file::{Column, Get};
use crate::collect::{
    Arrival, Coding, Collector, Decided, Departure, Drop, FlowRecord, FrameRow, LinkRecord, NO_FRAME,
    PacketRow, RttSample,
};

/// A packet and the flow it belongs to.
pub struct PacketOfFlow<'a> {
    /// The flow's name.
    pub flow: &'a str,
    /// The packet's row.
    pub packet: &'a PacketRow,
}

/// A frame, the flow and stream it belongs to, and its number.
pub struct FrameOfFlow<'a> {
    /// The flow's name.
    pub flow: &'a str,
    /// Which coding of its frames.
    pub coding: Coding,
    /// The capture index.
    pub number: u32,
    /// The frame's row.
    pub frame: &'a FrameRow,
}

/// Something that happened to a packet at a shared link.
pub struct LinkRow<'a> {
    /// When it happened, in virtual time.
    pub at: Time,
    /// The flow's name; empty for cross traffic.
    pub flow: &'a str,
    /// What the link did with the packet.
    pub what: LinkWhat,
    /// Bytes on the wire.
    pub size: u32,
    /// The link's name, where there are several.
    pub link: &'a str,
}

/// The three things that can happen at a link.
#[derive(Clone, Copy)]
pub enum LinkWhat {
    /// Accepted: backlog in bytes and packets.
    In(u32, u32),
    /// Left, so long after it came.
    Out(Span),
    /// Dropped, and why.
    Drop(&'static str),
}

/// A decision, an inner quantity or a round-trip sample of a flow's sender.
pub struct DecisionRow<'a> {
    /// When it happened, in virtual time.
    pub at: Time,
    /// The flow's name.
    pub flow: &'a str,
    /// What quantity.
    pub name: &'a str,
    /// The quantity's value, in the unit its name says.
    pub value: f64,
}

const fn int<R>(name: &'static str, about: &'static str, get: fn(&R) -> Option<i64>) -> Column<R> {
    Column { name, about, get: Get::Int(get) }
}
const fn real<R>(name: &'static str, about: &'static str, get: fn(&R) -> Option<f64>) -> Column<R> {
    Column { name, about, get: Get::Real(get) }
}
const fn flag<R>(name: &'static str, about: &'static str, get: fn(&R) -> Option<bool>) -> Column<R> {
    Column { name, about, get: Get::Flag(get) }
}
const fn text<R>(
    name: &'static str,
    about: &'static str,
    get: for<'r> fn(&'r R) -> Option<&'r str>,
) -> Column<R> {
    Column { name, about, get: Get::Text(get) }
}

fn ns(at: Option<Time>) -> Option<i64> {
    at.map(|at| at.as_nanos() as i64)
}

/// The columns of `packets.parquet`: one row per transmission.
pub fn packet_columns<'a>() -> Vec<Column<PacketOfFlow<'a>>> {
    vec![
        text("flow", "name of the flow", |r| Some(r.flow)),
        int("packet", "the sender's number for this transmission", |r| Some(r.packet.packet as i64)),
        int("sent_ns", "handed to the network", |r| ns(Some(r.packet.sent))),
        int("arrived_ns", "first arrival at the receiver; null if it never came", |r| ns(r.packet.arrived)),
        int("acked_ns", "the sender learnt of the arrival", |r| ns(r.packet.acked)),
        int("size", "UDP payload in bytes", |r| Some(i64::from(r.packet.size))),
        int("stream", "stream number", |r| Some(i64::from(r.packet.coding.stream))),
        int("frame", "capture index; null for padding", |r| {
            (r.packet.frame != NO_FRAME).then_some(i64::from(r.packet.frame))
        }),
        int("version", "which coding of the frame, 0 the first; null for padding", |r| {
            (r.packet.frame != NO_FRAME).then_some(i64::from(r.packet.coding.version))
        }),
        int("index", "place in the frame; null for padding", |r| {
            (r.packet.frame != NO_FRAME).then_some(i64::from(r.packet.index))
        }),
        flag("retransmission", "sent before under another number", |r| Some(r.packet.retransmission)),
        flag("given_up", "the sender took it for lost", |r| Some(r.packet.lost)),
        flag("spurious", "taken for lost although it had arrived", |r| Some(r.packet.spurious)),
    ]
}

/// The columns of `frames.parquet`: one row per captured frame.
pub fn frame_columns<'a>() -> Vec<Column<FrameOfFlow<'a>>> {
    vec![
        text("flow", "name of the flow", |r| Some(r.flow)),
        int("stream", "stream number", |r| Some(i64::from(r.coding.stream))),
        int("frame", "capture index", |r| Some(i64::from(r.number))),
        int("version", "which coding of the frame, 0 the first", |r| Some(i64::from(r.coding.version))),
        int("captured_ns", "picture read", |r| ns(r.frame.captured)),
        int("encoded_ns", "coded frame ready", |r| ns(r.frame.encoded)),
        int("first_sent_ns", "first packet left", |r| ns(r.frame.first_sent)),
        int("sent_ns", "last packet left for the first time", |r| ns(r.frame.sent)),
        int("assembled_ns", "receiver has all of it", |r| ns(r.frame.assembled)),
        int("displayed_ns", "shown; null if it never was", |r| ns(r.frame.displayed)),
        int("shown_stream", "whose coding was shown; of a capture's first stream", |r| {
            r.frame.shown.map(|coding| i64::from(coding.stream))
        }),
        int("shown_version", "which version of it was shown", |r| {
            r.frame.shown.map(|coding| i64::from(coding.version))
        }),
        int("target_bps", "bitrate asked of the encoder", |r| {
            r.frame.encoded.map(|_| r.frame.target.as_bps().min(i64::MAX as u64) as i64)
        }),
        int("size", "coded size in bytes; null if it was not encoded", |r| {
            r.frame.encoded.map(|_| i64::from(r.frame.size))
        }),
        int("packets", "packets it was cut into", |r| r.frame.sent.map(|_| i64::from(r.frame.packets))),
        flag("key", "decodes alone", |r| r.frame.encoded.map(|_| r.frame.key)),
        flag("skipped", "left out by the sender or its encoder", |r| Some(r.frame.skipped)),
        flag("late", "shown after its deadline; null if not shown", |r| {
            r.frame.displayed.map(|_| r.frame.late)
        }),
        flag("abandoned", "the receiver stopped waiting for it", |r| Some(r.frame.abandoned)),
        real("delay_ms", "capture to display in milliseconds; null if not shown", |r| {
            r.frame.delay().map(Span::as_millis_f64)
        }),
        real("psnr_db", "luma PSNR of the shown frame in dB, from where `measured` says", |r| r.frame.psnr()),
        real("ssim", "SSIM (All) of the shown frame, likewise", |r| r.frame.ssim()),
        flag(
            "measured",
            "quality was measured on the shown picture; false: the word of the encoder, or of its model",
            |r| r.frame.psnr().map(|_| r.frame.shown_quality.0.is_some()),
        ),
    ]
}

/// The columns of `link.parquet`: one row per event at the bottleneck, or at one of several links.
pub fn link_columns<'a>(several: bool) -> Vec<Column<LinkRow<'a>>> {
    let mut columns: Vec<Column<LinkRow<'a>>> = vec![
        int("time_ns", "when", |r| ns(Some(r.at))),
        text("event", "in, out or drop", |r| {
            Some(match r.what {
                LinkWhat::In(..) => "in",
                LinkWhat::Out(_) => "out",
                LinkWhat::Drop(_) => "drop",
            })
        }),
        text("flow", "name of the flow; null for cross traffic", |r| (!r.flow.is_empty()).then_some(r.flow)),
        int("size", "bytes on the wire", |r| Some(i64::from(r.size))),
        int("backlog_bytes", "in: bytes in the queue with it", |r| match r.what {
            LinkWhat::In(bytes, _) => Some(i64::from(bytes)),
            _ => None,
        }),
        int("backlog_packets", "in: packets in the queue with it", |r| match r.what {
            LinkWhat::In(_, packets) => Some(i64::from(packets)),
            _ => None,
        }),
        real("sojourn_ms", "out: milliseconds since it came, serialisation included", |r| match r.what {
            LinkWhat::Out(sojourn) => Some(sojourn.as_millis_f64()),
            _ => None,
        }),
        text("cause", "drop: why", |r| match r.what {
            LinkWhat::Drop(cause) => Some(cause),
            _ => None,
        }),
    ];
    if several {
        columns.push(text(
            "link",
            "name of the link; the column is there where a scenario has several",
            |r| Some(r.link),
        ));
    }
    columns
}

/// The columns of `decisions.parquet`: one row per changed quantity of a sender.
pub fn decision_columns<'a>() -> Vec<Column<DecisionRow<'a>>> {
    vec![
        int("time_ns", "when", |r| ns(Some(r.at))),
        text("flow", "name of the flow", |r| Some(r.flow)),
        text(
            "name",
            "window_bytes, pacing_bps, media_bps, rtt_ms, srtt_ms, or an inner quantity of the controller",
            |r| Some(r.name),
        ),
        real("value", "its value; infinite for `no limit`", |r| Some(r.value)),
    ]
}

fn of_flows<'a>(run: &'a Collector, names: &'a [String]) -> impl Iterator<Item = (&'a str, &'a FlowRecord)> {
    names.iter().map(String::as_str).zip(&run.flows)
}

/// The rows of `packets.parquet`. `names` are the flows' names, in order.
pub fn packets<'a>(run: &'a Collector, names: &'a [String]) -> Vec<PacketOfFlow<'a>> {
    of_flows(run, names)
        .flat_map(|(flow, record)| record.packets.iter().map(move |packet| PacketOfFlow { flow, packet }))
        .collect()
}

/// The rows of `frames.parquet`. `names` are the flows' names, in order.
pub fn frames<'a>(run: &'a Collector, names: &'a [String]) -> Vec<FrameOfFlow<'a>> {
    let mut rows = Vec::new();
    for (flow, record) in of_flows(run, names) {
        for (&coding, frames) in &record.streams {
            rows.extend(frames.numbered().map(|(number, frame)| FrameOfFlow { flow, coding, number, frame }));
        }
    }
    rows
}

/// What happened to a packet at a shared link, with the numbers of the link and of its flow.
#[derive(Clone, Copy)]
pub(super) struct LinkEvent {
    at: Time,
    link: u16,
    flow: u16,
    size: u32,
    what: LinkWhat,
}

impl LinkEvent {
    pub(super) fn named<'a>(
        &self,
        flow: impl Fn(u16) -> &'a str,
        link: impl Fn(u16) -> &'a str,
    ) -> LinkRow<'a> {
        let (flow, link) = (flow(self.flow), link(self.link));
        LinkRow { at: self.at, flow, what: self.what, size: self.size, link }
    }
}

/// What happened at the shared links, in order.
pub(super) fn link_events(run: &Collector) -> Vec<LinkEvent> {
    let mut events = Vec::new();
    (0u16..).zip(run.links()).for_each(|(link, record)| events.extend(events_at(link, record)));
    events.sort_by_key(|event| event.at);
    events
}

fn events_at(link: u16, record: &LinkRecord) -> impl Iterator<Item = LinkEvent> {
    let arrivals = record.arrivals.iter().map(move |&Arrival { at, flow, size, backlog, packets }| {
        LinkEvent { at, link, flow, what: LinkWhat::In(backlog, packets), size }
    });
    let departures = record.departures.iter().map(move |&Departure { at, flow, size, sojourn }| LinkEvent {
        at,
        link,
        flow,
        what: LinkWhat::Out(sojourn),
        size,
    });
    let drops = record.drops.iter().map(move |&Drop { at, flow, size, cause }| LinkEvent {
        at,
        link,
        flow,
        what: LinkWhat::Drop(cause.name()),
        size,
    });
    arrivals.chain(departures).chain(drops)
}

/// The rows of `link.parquet`, in the order things happened.
pub fn link<'a>(run: &'a Collector, names: &'a [String]) -> Vec<LinkRow<'a>> {
    let name = |flow: u16| names.get(usize::from(flow)).map_or("", String::as_str);
    let links: Vec<&str> = run.links().map(|link| link.name.as_str()).collect();
    link_events(run).iter().map(|event| event.named(name, |link| links[usize::from(link)])).collect()
}

/// The rows of `decisions.parquet`: per flow and quantity, in time order.
pub fn decisions<'a>(run: &'a Collector, names: &'a [String]) -> Vec<DecisionRow<'a>> {
    let mut rows = Vec::new();
    for (flow, record) in of_flows(run, names) {
        decisions_of(record, &mut [None; 3], &mut |name, at, value| {
            rows.push(DecisionRow { at, flow, name, value });
        });
    }
    rows
}

/// What a row says of one quantity.
type Quantity<Row, Value> = fn(&Row) -> Value;

/// Gives a flow's changed quantities to `row`. `last` is what its window, pacing and media rate were, and
/// then are.
pub(super) fn decisions_of(
    record: &FlowRecord,
    last: &mut [Option<f64>; 3],
    row: &mut impl FnMut(&'static str, Time, f64),
) {
    let quantities: [(&str, Quantity<Decided, f64>); 3] = [
        ("window_bytes", |d| limit(d.window)),
        ("pacing_bps", |d| bps(d.pacing)),
        ("media_bps", |d| bps(d.media)),
    ];
    for ((name, get), last) in quantities.into_iter().zip(last) {
        for decided in &record.decisions {
            let value = get(decided);
            if last.replace(value) != Some(value) {
                row(name, decided.at, value);
            }
        }
    }
    let quantities: [(&str, Quantity<RttSample, Span>); 2] =
        [("rtt_ms", |s| s.latest), ("srtt_ms", |s| s.smoothed)];
    for (name, get) in quantities {
        record.rtt.iter().for_each(|sample| row(name, sample.at, get(sample).as_millis_f64()));
    }
    for (name, values) in record.observed.iter() {
        values.iter().for_each(|&(at, value)| row(name, at, value));
    }
}

fn limit(value: u64) -> f64 {
    if value == u64::MAX { f64::INFINITY } else { value as f64 }
}

fn bps(rate: Rate) -> f64 {
    limit(rate.as_bps())
}

#[cfg(test)]
mod tests {
    use super::super::{Origin, write_tables};
    use super::*;
    use crate::collect::StreamFrames;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use std::fs::File;

    fn run_of_two_packets() -> Collector {
        let packet = PacketRow {
            packet: 7,
            sent: Time::from_millis(5),
            arrived: Some(Time::from_millis(25)),
            acked: None,
            size: 1_200,
            frame: 0,
            index: 3,
            coding: Coding::first(0),
            retransmission: false,
            lost: false,
            spurious: false,
        };
        let lost = PacketRow { packet: 8, arrived: None, lost: true, frame: NO_FRAME, ..packet };
        let frame = FrameRow {
            captured: Some(Time::from_millis(4)),
            encoded: Some(Time::from_millis(5)),
            displayed: Some(Time::from_millis(26)),
            encoder_quality: (Some(41.5), None),
            ..FrameRow::default()
        };
        let mut flow = FlowRecord { packets: vec![packet, lost], ..FlowRecord::default() };
        flow.streams
            .insert(Coding::first(0), StreamFrames { rows: vec![frame, FrameRow::default()], first: 0 });
        let decided = |ms, media| Decided {
            at: Time::from_millis(ms),
            window: u64::MAX,
            pacing: Rate::from_mbps(4),
            media,
        };
        flow.decisions = vec![decided(0, Rate::from_mbps(2)), decided(1, Rate::from_mbps(3))];
        let mut run = Collector::default();
        run.flows = vec![flow];
        run.link.departures = vec![Departure {
            at: Time::from_millis(6),
            flow: 0,
            size: 1_228,
            sojourn: Span::from_micros(500),
        }];
        run.link.drops =
            vec![Drop { at: Time::from_millis(5), flow: 9, size: 1_500, cause: record::Dropped::QueueFull }];
        run
    }

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("framewire-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl std::ops::Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A row's value in the column of this name.
    fn at<'r>(row: &'r Row, column: &str) -> &'r Field {
        row.get_column_iter().find(|(name, _)| *name == column).unwrap().1
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = Folder::new("tables");
        let origin: Origin = vec![("seed".into(), "7".into()), ("scenario".into(), "name = \"x\"".into())];
        write_tables(&folder.0, &run_of_two_packets(), &["sqp".into()], &origin).unwrap();

        let open = |name: &str| SerializedFileReader::new(File::open(folder.0.join(name)).unwrap()).unwrap();
        let packets = open("packets.parquet");
        let rows: Vec<_> = packets.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(at(&rows[0], "flow"), &Field::Str("sqp".into()));
        assert_eq!(at(&rows[0], "packet"), &Field::Long(7));
        assert_eq!(at(&rows[0], "arrived_ns"), &Field::Long(25_000_000));
        assert_eq!((at(&rows[1], "arrived_ns"), at(&rows[1], "frame")), (&Field::Null, &Field::Null));
        assert_eq!(at(&rows[1], "given_up"), &Field::Bool(true));
        let meta = packets.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(meta.iter().any(|pair| pair.key == "seed" && pair.value.as_deref() == Some("7")));

        let frames: Vec<_> = open("frames.parquet").get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(at(&frames[0], "delay_ms"), &Field::Double(22.0));
        assert_eq!(at(&frames[0], "psnr_db"), &Field::Double(41.5));
        assert_eq!(at(&frames[0], "measured"), &Field::Bool(false));
        assert_eq!(open("decisions.parquet").metadata().file_metadata().num_rows(), 4);
        let link: Vec<_> = open("link.parquet").get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let events = [&link[0], &link[1]].map(|row| at(row, "event"));
        assert_eq!(events, [&Field::Str("drop".into()), &Field::Str("out".into())]);
        assert_eq!(at(&link[0], "cause"), &Field::Str("queue full".into()));
    }

    #[test]
    fn the_documentation_lists_every_column() {
        let page = include_str!("../../../../docs/output.md");
        let mut documented = Vec::new();
        documented.extend(packet_columns().iter().map(|c| (c.name, c.about)));
        documented.extend(frame_columns().iter().map(|c| (c.name, c.about)));
        documented.extend(link_columns(true).iter().map(|c| (c.name, c.about)));
        documented.extend(decision_columns().iter().map(|c| (c.name, c.about)));
        for (name, about) in documented {
            let line = format!("| `{name}` | {about} |");
            assert!(page.contains(&line), "docs/output.md lacks the line\n{line}");
        }
    }
}
