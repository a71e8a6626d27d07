//! Our qlog files against draft-ietf-quic-qlog-main-schema (the editors' draft after version 13, revision
//! f8dfcfc of quicwg/qlog) and, for what is QUIC, -quic-events of the same revision. Sections are the
//! former's where nothing else is said.

use framewire_record::{Dropped, Event, NodeId, Origin, QLOG_BYTES, Qlog, Real, Recorder, Traffic, Vantage};
use serde_json::{Map, Value, json};
use units::{Rate, RelativeDelay, Span, Time};

const ORIGIN: Origin = Origin { at: Time::from_secs(50), date_ms: 1_763_738_000_000.25 };

/// The file of what both ends of a short session did, and of everything else an event can be.
fn file(vantage: Vantage, traffic: Traffic, events: &[(u64, Event)]) -> String {
    let mut out = Vec::new();
    let title = "quic://receiver.example \u{7} by sqp";
    let mut log = Qlog::new(&mut out, vantage, traffic, title, ORIGIN, QLOG_BYTES).unwrap();
    for (us, event) in events {
        log.record(ORIGIN.at + Span::from_micros(*us as i64), NodeId(0), event);
    }
    assert_eq!(log.finish().unwrap(), 0);
    drop(log);
    String::from_utf8(out).unwrap()
}

fn packet(packet: u64, frame: u32) -> Event {
    let (size, in_flight) = (1_150, 1_150 * (packet as u32 + 1));
    Event::PacketSent {
        packet,
        size,
        stream: 0,
        frame,
        version: 0,
        index: 0,
        retransmission: packet == 2,
        in_flight,
    }
}

fn arrival(packet: u64) -> Event {
    let owd = RelativeDelay::between(Time::ZERO.on_wire(), Time::from_millis(20));
    Event::PacketReceived { packet, size: 1_150, stream: 0, frame: 0, version: 0, owd }
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
                version: 0,
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
        (5_030, Event::FrameSent { stream, frame, version: 0, packets: 2 }),
        (38_000, Event::FrameSkipped { stream, frame: 1 }),
        (45_000, Event::PacketAcked { packet: 0, size: 1_150 }),
        (45_000, Event::PacketAcked { packet: 2, size: 1_150 }),
        (45_000, Event::PacketLost { packet: 1, size: 1_150 }),
        (45_000, Event::FeedbackReceived { sequence: 1 }),
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
        (1_000, Event::FrameAssembled { stream, frame, version: 0, size: 3_000 }),
        (1_100, Event::FrameAbandoned { stream, frame: 1, version: 0 }),
        (1_100, Event::KeyFrameRequested { stream }),
        (4_000, Event::FrameDisplayed { stream, frame, version: 0, captured_local: Time::ZERO, late: true }),
        (4_001, Event::FrameQuality { stream, frame, version: 0, psnr: Real(40.0), ssim: Real(0.9) }),
        (4_002, Event::LinkDropped { flow: 0, size: 1_178, cause: Dropped::QueueFull }),
    ]
}

/// What a connection of QUIC's own does: a controller inside it, and who reads its stream.
fn of_quic() -> Vec<(u64, Event)> {
    vec![
        (0, packet(0, u32::MAX)),
        (45_000, Event::PacketAcked { packet: 0, size: 1_150 }),
        (45_000, Event::PacketLost { packet: 1, size: 1_150 }),
        (45_000, Event::Rtt { latest: Span::from_micros(40_123), smoothed: Span::from_micros(40_100) }),
        (45_000, Event::Decision { window: 30_000, pacing: Rate::from_mbps(8), media: Rate::MAX }),
        (46_000, Event::StreamDataMoved { stream: 2, offset: 8, length: 1_100 }),
    ]
}

/// RFC 7464: each record between a separator and a line feed; the first is the file's head.
fn records(text: &str) -> (Value, Vec<Value>) {
    assert!(text.starts_with('\x1e') && text.ends_with('\n'), "RFC 7464 frames a record by both");
    let mut records = text.split('\x1e').filter(|record| !record.is_empty());
    let mut next = || records.next().map(|record| serde_json::from_str(record).expect("a record is JSON"));
    (next().expect("a head"), std::iter::from_fn(next).collect())
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Reads a file and holds it against the definitions that any file must obey.
fn load(vantage: Vantage, traffic: Traffic, events: &[(u64, Event)]) -> (Value, Vec<Value>) {
    let text = file(vantage, traffic, events);
    let (head, events) = records(&text);
    // Section 3: LogFile and, section 5, QlogFileSeq.
    assert_eq!(head["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(head["serialization_format"], "application/qlog+json-seq");
    assert!(
        keys(&head).iter().all(|key| ["file_schema", "serialization_format", "title", "trace"].contains(key))
    );
    let first = &text[..256];
    assert!(
        first.contains("file_schema") && first.contains("serialization_format"),
        "both SHOULD be in the first 256 bytes"
    );
    // TraceSeq, VantagePoint.
    let trace = &head["trace"];
    assert!(keys(trace).iter().all(|key| ["common_fields", "vantage_point", "event_schemas"].contains(key)));
    assert!(["client", "server"].contains(&trace["vantage_point"]["type"].as_str().unwrap()));
    let schemas = trace["event_schemas"].as_array().expect("at least one");
    let schemas: Vec<&str> = schemas.iter().map(|schema| schema.as_str().unwrap()).collect();
    // ReferenceTime: a monotonic clock's epoch MUST be unknown.
    let common = &trace["common_fields"];
    assert_eq!(common["time_format"], "relative_to_epoch");
    let reference = &common["reference_time"];
    assert_eq!((&reference["clock_type"], &reference["epoch"]), (&"monotonic".into(), &"unknown".into()));
    assert_eq!(reference["wall_clock_time"], "2025-11-21T15:13:20.000Z");
    // Event.
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().expect("a float64")).collect();
    assert!(times.is_sorted(), "events SHOULD be in order");
    for event in &events {
        assert!(event["data"].is_object());
        let name = event["name"].as_str().expect("a name");
        let (namespace, _) = name.split_once(':').expect("namespace and type");
        assert!(
            schemas.iter().any(|schema| schema.ends_with(&format!(":{namespace}"))),
            "{name}: {schemas:?}"
        );
        let lowercase =
            |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(keys(&event["data"]).into_iter().chain(keys(event)).all(lowercase), "section 11.2: {event}");
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

fn numbers(events: &[&Map<String, Value>], field: &str) -> Vec<u64> {
    events.iter().filter_map(|data| data.get(field)?.as_u64()).collect()
}

/// quic-events, RecoveryMetricsUpdated: its fields, and theirs in ms, bytes and bit/s.
fn check_metrics(metrics: &[&Map<String, Value>]) {
    let known = ["latest_rtt", "smoothed_rtt", "congestion_window", "bytes_in_flight", "pacing_rate"];
    for (name, value) in metrics.iter().flat_map(|data| data.iter()) {
        assert!(known.contains(&name.as_str()) && value.is_number(), "{name}: {value}");
    }
    let of = |name: &str| metrics.iter().find_map(|data| data.get(name)?.as_f64());
    assert_eq!((of("latest_rtt"), of("smoothed_rtt")), (Some(40.123), Some(40.1)));
    assert_eq!((of("congestion_window"), of("pacing_rate")), (Some(30_000.0), Some(8e6)));
}

/// Packets of ours are not QUIC's, whatever carries them: nothing of a media session is in QUIC's words.
#[test]
fn a_media_session_is_told_in_our_own_namespace_and_feedback_has_its_number() {
    let (near, sent) = load(Vantage::Sender, Traffic::Media, &of_a_sender());
    let (far, received) = load(Vantage::Receiver, Traffic::Media, &of_a_receiver());
    for event in sent.iter().chain(&received) {
        assert!(
            event["name"].as_str().unwrap().starts_with("framewire:") && !event.to_string().contains("1RTT")
        );
    }
    assert_eq!(near["trace"]["common_fields"], far["trace"]["common_fields"], "one time axis");
    assert_eq!(numbers(&named(&sent, "framewire:packet_sent"), "packet_number"), [0, 1, 2]);
    assert_eq!(numbers(&named(&received, "framewire:packet_received"), "packet_number"), [0, 2, 3]);
    assert_eq!(numbers(&named(&sent, "framewire:packet_lost"), "packet_number"), [1]);
    assert_eq!(named(&sent, "framewire:packets_acked")[0]["packet_numbers"], json!([[0, 0], [2, 2]]));
    check_metrics(&named(&sent, "framewire:metrics_updated"));
    let feedback = named(&received, "framewire:feedback_sent");
    assert_eq!(numbers(&feedback, "sequence"), [1, 2]);
    assert_eq!(feedback[0]["packet_numbers"], json!([[0, 0], [2, 2]]));
    assert_eq!(numbers(&named(&sent, "framewire:feedback_received"), "sequence"), [1]);
}

#[test]
fn what_is_quic_is_told_in_quics_words() {
    let (_, events) = load(Vantage::Sender, Traffic::Quic, &of_quic());
    let datagrams = named(&events, "quic:udp_datagrams_sent");
    assert_eq!((datagrams.len(), &datagrams[0]["raw"]), (1, &json!([{ "length": 1_150 }])));
    check_metrics(&named(&events, "quic:recovery_metrics_updated"));
    let moved = named(&events, "quic:stream_data_moved")[0];
    assert_eq!(
        (&moved["stream_id"], &moved["offset"], &moved["raw"]),
        (&json!(2), &json!(8), &json!({ "length": 1_100 }))
    );
    assert_eq!((&moved["from"], &moved["to"]), (&json!("transport"), &json!("application")));
    assert_eq!(events.last().unwrap()["group_id"], "connection 0");
}

#[test]
fn a_log_of_nothing_has_an_event_too() {
    let (_, events) = load(Vantage::Receiver, Traffic::Media, &[]);
    assert_eq!(events.len(), 1);
}
