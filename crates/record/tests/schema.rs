//! Our qlog files against what qvis reads: the rules below are those of quiclog/qvis at 72c8c4b (October 2025), file by file under
//! `visualizations/src`, and the fields those of draft-ietf-quic-qlog-main-schema-05 and -quic-events-05.

use framewire_record::{Dropped, Event, NodeId, Origin, QLOG_BYTES, Qlog, Real, Recorder, Vantage};
use serde_json::{Map, Value};
use units::{Rate, RelativeDelay, Span, Time};

const ORIGIN: Origin = Origin { at: Time::from_secs(50), date_ms: 1_763_738_000_000.25 };

/// The file of what both ends of a short session did, and of everything else an event can be.
fn file(vantage: Vantage, events: &[(u64, Event)]) -> String {
    let mut out = Vec::new();
    let mut log =
        Qlog::new(&mut out, vantage, "quic://receiver.example \u{7} by sqp", ORIGIN, QLOG_BYTES).unwrap();
    for (us, event) in events {
        log.record(ORIGIN.at + Span::from_micros(*us as i64), NodeId(0), event);
    }
    assert_eq!(log.finish().unwrap(), 0);
    drop(log);
    String::from_utf8(out).unwrap()
}

fn packet(packet: u64, frame: u32) -> Event {
    let (size, in_flight) = (1_150, 1_150 * (packet as u32 + 1));
    Event::PacketSent { packet, size, stream: 0, frame, index: 0, retransmission: packet == 2, in_flight }
}

fn arrival(packet: u64) -> Event {
    let owd = RelativeDelay::between(Time::ZERO.on_wire(), Time::from_millis(20));
    Event::PacketReceived { packet, size: 1_150, stream: 0, frame: 0, owd }
}

fn of_a_sender() -> Vec<(u64, Event)> {
    let (stream, frame) = (0, 0);
    vec![
        (0, Event::FrameCaptured { stream, frame }),
        (
            5_000,
            Event::FrameEncoded {
                stream,
                frame,
                size: 3_000,
                key: true,
                target: Rate::from_mbps(2),
                height: 720,
                psnr: Real(f64::NAN),
                ssim: Real(0.9),
            },
        ),
        (5_010, packet(0, 0)),
        (5_020, packet(1, 0)),
        (5_030, packet(2, u32::MAX)),
        (5_030, Event::FrameSent { stream, frame, packets: 2 }),
        (38_000, Event::FrameSkipped { stream, frame: 1 }),
        (45_000, Event::PacketAcked { packet: 0, size: 1_150 }),
        (45_000, Event::PacketAcked { packet: 2, size: 1_150 }),
        (45_000, Event::PacketLost { packet: 1, size: 1_150 }),
        (45_000, Event::LossSpurious { packet: 1 }),
        (45_000, Event::Rtt { latest: Span::from_micros(40_123), smoothed: Span::from_micros(40_100) }),
        (45_000, Event::Decision { window: 30_000, pacing: Rate::from_mbps(8), media: Rate::from_mbps(4) }),
        (45_000, Event::Decision { window: u64::MAX, pacing: Rate::MAX, media: Rate::MAX }),
        (45_000, Event::Observed { name: "gain", value: Real(f64::INFINITY) }),
        (45_000, Event::Observed { name: "gain", value: Real(1.25e-7) }),
        (45_001, Event::HostDropped { cause: Dropped::Malformed }),
    ]
}

fn of_a_receiver() -> Vec<(u64, Event)> {
    let (stream, frame) = (0, 0);
    vec![
        (0, arrival(0)),
        (10, arrival(2)),
        (10, Event::NackSent { count: 1 }),
        (20, Event::FeedbackSent { sequence: 1, size: 60 }),
        (900, Event::FeedbackSent { sequence: 2, size: 40 }),
        (1_000, arrival(3)),
        (1_000, Event::FrameAssembled { stream, frame, size: 3_000 }),
        (1_100, Event::FrameAbandoned { stream, frame: 1 }),
        (1_100, Event::KeyFrameRequested { stream }),
        (4_000, Event::FrameDisplayed { stream, frame, version: 0, captured_local: Time::ZERO, late: true }),
        (4_001, Event::FrameQuality { stream, frame, psnr: Real(40.0), ssim: Real(0.9) }),
        (4_002, Event::LinkDropped { flow: 0, size: 1_178, cause: Dropped::QueueFull }),
    ]
}

/// `textsequencejsontoqlog.ts`: records between separators, trimmed; one that is no JSON ends the reading without a word.
fn records(text: &str) -> (Value, Vec<Value>) {
    assert!(text.starts_with('\x1e') && text.ends_with('\n'), "RFC 7464 frames a record by both");
    let mut records = text.split('\x1e').map(str::trim).filter(|record| !record.is_empty());
    let mut next = || records.next().map(|record| serde_json::from_str(record).expect("a record is JSON"));
    (next().expect("a head"), std::iter::from_fn(next).collect())
}

/// `FileLoader.ts`, `textsequencejsontoqlog.ts`, `QlogLoader.ts` and `QlogLoaderV2.ts`, `fromDraft02`.
fn load(text: &str) -> (Value, Vec<Value>) {
    let (head, events) = records(text);
    let first = &text[..text.len().min(1024)];
    assert!(first.contains("qlog_version") && first.contains("qlog_format") && first.contains("JSON-SEQ"));
    assert_eq!(head["qlog_format"], "JSON-SEQ");
    assert!(
        ["draft-02", "draft-02-RC1", "qlog-03-WIP", "0.3"].contains(&head["qlog_version"].as_str().unwrap())
    );
    assert!(["client", "server"].contains(&head["trace"]["vantage_point"]["type"].as_str().unwrap()));
    let common = &head["trace"]["common_fields"];
    assert_eq!(common["time_format"], "relative");
    assert!(common["reference_time"].is_f64(), "parsed as a number of ms since 1970");
    assert!(common["protocol_type"].is_array(), "main-schema-05 section 3.3.3");
    // The last event's fields are looked at whether or not there is one.
    assert!(!events.last().expect("an event").as_object().unwrap().is_empty());
    let times: Vec<f64> =
        events.iter().map(|event| event["time"].as_f64().expect("parsed as a number")).collect();
    assert!(times.is_sorted(), "else it warns, and sorts");
    for event in &events {
        let data = event["data"].as_object().expect("events have data");
        let header = data.get("header").and_then(Value::as_object).cloned().unwrap_or_default();
        assert!(
            !header.contains_key("packet_size") && !header.contains_key("payload_length"),
            "draft-01's names"
        );
        assert!(!data.contains_key("packet_type") && event.get("group_id").is_none());
        assert_eq!(event["name"].as_str().expect("named").split(':').count(), 2, "category and type");
    }
    (head, events)
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Map<String, Value>> {
    events
        .iter()
        .filter(|event| event["name"] == name)
        .map(|event| event["data"].as_object().unwrap())
        .collect()
}

/// The packet numbers of the ACK frames, as `parseQlog` expands `acked_ranges`.
fn acked(packets: &[&Map<String, Value>]) -> Vec<u64> {
    let frames =
        packets.iter().filter_map(|data| data.get("frames")).flat_map(|frames| frames.as_array().unwrap());
    let ranges = frames
        .filter(|frame| frame["frame_type"] == "ack")
        .flat_map(|frame| frame["acked_ranges"].as_array().unwrap());
    ranges
        .flat_map(|range| {
            let ends = range.as_array().unwrap();
            assert_eq!(ends.len(), 2);
            ends[0].as_u64().unwrap()..=ends[1].as_u64().unwrap()
        })
        .collect()
}

fn numbers(packets: &[&Map<String, Value>]) -> Vec<u64> {
    packets.iter().filter_map(|data| data["header"].get("packet_number")?.as_u64()).collect()
}

/// `CongestionGraphD3Renderer.ts`, `parseQlog`: what the congestion graph takes from either side's file.
#[test]
fn the_congestion_graph_finds_what_it_draws() {
    let (_, events) = load(&file(Vantage::Sender, &of_a_sender()));
    let sent = named(&events, "transport:packet_sent");
    assert!(
        sent.iter().all(|data| data["raw"]["length"].as_u64() > Some(0)),
        "packets without a length are left out"
    );
    assert!(sent.iter().all(|data| data["header"]["packet_type"] == "1RTT"));
    assert_eq!(numbers(&sent), [0, 1, 2]);
    assert_eq!(
        acked(&named(&events, "transport:packet_received")),
        [0, 2],
        "acknowledgements of what was sent"
    );
    assert_eq!(numbers(&named(&events, "recovery:packet_lost")), [1]);
    let metrics = named(&events, "recovery:metrics_updated");
    // quic-events-05, RecoveryMetricsUpdated.
    let known = ["latest_rtt", "smoothed_rtt", "congestion_window", "bytes_in_flight", "pacing_rate"];
    for (name, value) in metrics.iter().flat_map(|data| data.iter()) {
        assert!(known.contains(&name.as_str()) && value.is_number(), "{name}: {value}");
    }
    let of = |name: &str| metrics.iter().find_map(|data| data.get(name)?.as_f64());
    assert_eq!((of("latest_rtt"), of("smoothed_rtt")), (Some(40.123), Some(40.1)), "in ms");
    assert_eq!(
        (of("congestion_window"), of("pacing_rate")),
        (Some(30_000.0), Some(8e6)),
        "in bytes and bit/s"
    );

    let (_, events) = load(&file(Vantage::Receiver, &of_a_receiver()));
    assert_eq!(numbers(&named(&events, "transport:packet_received")), [0, 2, 3]);
    let feedback = named(&events, "transport:packet_sent");
    assert_eq!((feedback.len(), acked(&feedback)), (2, vec![0, 2]));
    assert!(feedback.iter().all(|data| data["raw"]["length"].as_u64() > Some(0)));
}

/// `SequenceDiagramD3Renderer.ts`: two files of one session stand on one time axis, and a packet sent finds its arrival by type and
/// number.
#[test]
fn the_sequence_diagram_joins_both_ends() {
    let (near, sent) = load(&file(Vantage::Sender, &of_a_sender()));
    let (far, received) = load(&file(Vantage::Receiver, &of_a_receiver()));
    let of = |head: &Value, field: &str| head["trace"]["common_fields"][field].clone();
    assert_eq!(of(&near, "reference_time"), of(&far, "reference_time"));
    assert_ne!(near["trace"]["vantage_point"]["type"], far["trace"]["vantage_point"]["type"]);
    // What has no number is passed over; a number without a counterpart would be drawn as lost.
    let fed_back = named(&received, "transport:packet_sent");
    assert!(fed_back.len() == 2 && numbers(&fed_back).is_empty());
    let (sent, received) = (
        numbers(&named(&sent, "transport:packet_sent")),
        numbers(&named(&received, "transport:packet_received")),
    );
    assert_eq!(received.iter().filter(|number| sent.contains(number)).count(), 2);
}

#[test]
fn a_log_of_nothing_opens_too() {
    let (_, events) = load(&file(Vantage::Receiver, &[]));
    assert_eq!(events.len(), 1);
}
