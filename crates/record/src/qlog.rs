//! Events as qlog, the logging format of QUIC's working group.
//!
//! The file is a JSON text sequence (RFC 7464) as draft-ietf-quic-qlog-main-schema has it (the editors' draft
//! after version 13, revision f8dfcfc of July 2026): a head, then one event a record, written as it happens.
//! What the namespace `quic` (draft-ietf-quic-qlog-quic-events) has a word for, and is QUIC, is said with it;
//! packets of a media session are ours, over UDP as in QUIC's DATAGRAM frames, and everything of ours is in
//! the namespace `framewire`, whose fields `docs/quic.md` lists:
//!
//! | event | in a media session | of a QUIC connection ([`Traffic::Quic`]) |
//! |---|---|---|
//! | packet sent | `framewire:packet_sent` | `quic:udp_datagrams_sent` |
//! | packet received | `framewire:packet_received` | |
//! | packets acknowledged, all of one report | `framewire:packets_acked` | the same |
//! | feedback sent, with what arrived since the one before | `framewire:feedback_sent` | |
//! | feedback heard | `framewire:feedback_received` | |
//! | packet lost | `framewire:packet_lost` | the same |
//! | round trip, window, pacing, bytes in flight | `framewire:metrics_updated`, its fields those of the next column | `quic:recovery_metrics_updated` |
//! | stream read | | `quic:stream_data_moved` |
//! | everything else | `framewire:` and the event's name | |
//!
//! `tests/schema.rs` holds what is written against the draft's definitions.

use std::fmt::Write as _;
use std::io::{self, Write};

use units::{Rate, Time};

use crate::{Event, NodeId, Recorder};

/// Writes one node's events as qlog to `out`.
pub struct Qlog<W: Write> {
    out: W,
    /// Times are counted from here.
    begin: Time,
    line: String,
    /// Packets acknowledged at one time, to be written as one event.
    acked: Ranges,
    acked_at: Time,
    traffic: Traffic,
    /// Packets that arrived and no feedback was sent about yet.
    arrived: Ranges,
    /// No event was written yet.
    empty: bool,
    written: u64,
    most: u64,
    left_out: u64,
    failed: Option<io::Error>,
}

/// Most bytes of a file, where nothing else is said: an hour of 20 Mbit/s.
pub const QLOG_BYTES: u64 = 2 << 30;
/// Most ranges of one acknowledgement that are written; more are written as another.
const RANGES: usize = 64;

/// Where a log's times begin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Origin {
    /// On the clock of the events, none of which is earlier.
    pub at: Time,
    /// The date then, in ms since 1970. Logs of one machine are laid over each other by it; zero where it
    /// means nothing.
    pub date_ms: f64,
}

/// Packet numbers as inclusive ranges, in the order they came.
#[derive(Default)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn push(&mut self, packet: u64) {
        match self.0.last_mut() {
            Some((_, high)) if packet == *high + 1 => *high = packet,
            _ => self.0.push((packet, packet)),
        }
    }

    /// Appends them to `out`, and forgets them.
    fn write(&mut self, out: &mut String) {
        out.push_str("\"packet_numbers\":[");
        for (index, (low, high)) in self.0.drain(..).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(out, "{comma}[{low},{high}]");
        }
        out.push(']');
    }
}

/// Whose packets a log tells of, and so in whose words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// A media session's own, whatever carries them.
    Media,
    /// A QUIC connection's.
    Quic,
}

/// The namespace of our own events. It has no domain, and no URN of the IETF's form, which is for standards
/// (section 8.1 of the draft).
const SCHEMA: &str = "urn:x-framewire:qlog:events:framewire";
/// The namespace of QUIC's events.
const QUIC_SCHEMA: &str = "urn:ietf:params:qlog:events:quic";

impl<W: Write> Qlog<W> {
    /// Begins a log of at most `most` bytes. Events beyond are counted, not written.
    ///
    /// # Errors
    /// If the head can't be written.
    pub fn new(
        out: W,
        vantage: Vantage,
        traffic: Traffic,
        title: &str,
        origin: Origin,
        most: u64,
    ) -> io::Result<Qlog<W>> {
        let mut log = Qlog {
            out,
            begin: origin.at,
            line: String::new(),
            acked: Ranges::default(),
            acked_at: Time::ZERO,
            traffic,
            arrived: Ranges::default(),
            empty: true,
            written: 0,
            most,
            left_out: 0,
            failed: None,
        };
        log.line.push_str(
            "{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
             \"serialization_format\":\"application/qlog+json-seq\",\"title\":",
        );
        quote(&mut log.line, title);
        let vantage = match vantage {
            Vantage::Sender => "{\"name\":\"sender\",\"type\":\"client\"}",
            Vantage::Receiver => "{\"name\":\"receiver\",\"type\":\"server\"}",
        };
        let quic = match traffic {
            Traffic::Media => String::new(),
            Traffic::Quic => format!("\"{QUIC_SCHEMA}\","),
        };
        let _ = write!(
            log.line,
            ",\"trace\":{{\"common_fields\":{{\"time_format\":\"relative_to_epoch\",\"reference_time\":{{\"clock_type\":\"monotonic\",\
             \"epoch\":\"unknown\",\"wall_clock_time\":\"{}\"}},\"framewire_began_ms\":{:.3}}},\"vantage_point\":{vantage},\
             \"event_schemas\":[{quic}\"{SCHEMA}\"]}}}}",
            rfc3339(origin.date_ms),
            origin.date_ms
        );
        log.flush_line();
        match log.failed.take() {
            Some(error) => Err(error),
            None => Ok(log),
        }
    }

    /// Writes what is held back and returns how many events were left out for want of room.
    ///
    /// # Errors
    /// The first error that writing met.
    pub fn finish(&mut self) -> io::Result<u64> {
        self.settle_acked();
        if self.empty {
            // Readers may look at the first event without asking whether there is one.
            self.event(self.begin, "framewire:nothing_happened", format_args!(""));
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.left_out),
        }
    }

    fn flush_line(&mut self) {
        let length = self.line.len() as u64 + 2;
        if self.failed.is_none() && self.written + length <= self.most {
            self.written += length;
            let record = [b"\x1e", self.line.as_bytes(), b"\n"];
            self.failed = record.iter().try_for_each(|part| self.out.write_all(part)).err();
        } else {
            self.left_out += 1;
        }
        self.line.clear();
    }

    /// Starts an event's record, up to its data.
    fn open(&mut self, at: Time, name: &str) {
        self.empty = false;
        let ms = (at - self.begin).as_millis_f64();
        let _ = write!(self.line, "{{\"time\":{ms:.6},\"name\":\"{name}\",\"data\":{{");
    }

    fn close(&mut self) {
        self.line.push_str("}}");
        self.flush_line();
    }

    fn event(&mut self, at: Time, name: &str, data: std::fmt::Arguments<'_>) {
        self.open(at, name);
        let _ = self.line.write_fmt(data);
        self.close();
    }

    fn acked(&mut self, at: Time, packet: u64) {
        if at != self.acked_at || self.acked.0.len() >= RANGES {
            self.settle_acked();
        }
        self.acked_at = at;
        self.acked.push(packet);
    }

    fn settle_acked(&mut self) {
        if self.acked.0.is_empty() {
            return;
        }
        self.open(self.acked_at, "framewire:packets_acked");
        self.acked.write(&mut self.line);
        self.close();
    }

    /// Of arrivals beyond what an acknowledgement holds only the earlier ones are kept.
    fn arrived(&mut self, packet: u64) {
        if self.arrived.0.len() < RANGES {
            self.arrived.push(packet);
        }
    }

    fn feedback(&mut self, at: Time, sequence: u32, size: u32) {
        self.open(at, "framewire:feedback_sent");
        let _ = write!(self.line, "\"sequence\":{sequence},\"length\":{size}");
        if !self.arrived.0.is_empty() {
            self.line.push(',');
            self.arrived.write(&mut self.line);
        }
        self.close();
    }

    /// One receiver may read from several connections, each a group.
    fn moved(&mut self, at: Time, node: NodeId, stream: u64, offset: u64, length: u32) {
        self.empty = false;
        let ms = (at - self.begin).as_millis_f64();
        let _ = write!(
            self.line,
            "{{\"time\":{ms:.6},\"name\":\"quic:stream_data_moved\",\"group_id\":\"connection {}\",\"data\":{{\
             \"stream_id\":{stream},\"offset\":{offset},\"from\":\"transport\",\"to\":\"application\",\
             \"raw\":{{\"length\":{length}}}",
            node.0
        );
        self.close();
    }

    fn write_event(&mut self, at: Time, event: &Event) {
        match *event {
            Event::PacketSent { packet, size, stream, frame, version, index, retransmission, in_flight } => {
                let id = Id { stream, frame, version };
                match self.traffic {
                    Traffic::Media => self.event(
                        at,
                        "framewire:packet_sent",
                        format_args!(
                            "\"packet_number\":{packet},\"length\":{size},{id},\
                             \"index\":{index},\"retransmission\":{retransmission}"
                        ),
                    ),
                    Traffic::Quic => self.event(
                        at,
                        "quic:udp_datagrams_sent",
                        format_args!(
                            "\"count\":1,\"raw\":[{{\"length\":{size}}}],\"framewire_number\":{packet}"
                        ),
                    ),
                }
                self.event(at, self.metrics(), format_args!("\"bytes_in_flight\":{in_flight}"));
            }
            Event::PacketReceived { packet, size, stream, frame, version, .. } => {
                let id = Id { stream, frame, version };
                self.arrived(packet);
                self.event(
                    at,
                    "framewire:packet_received",
                    format_args!("\"packet_number\":{packet},\"length\":{size},{id}"),
                );
            }
            Event::FeedbackSent { sequence, size } => self.feedback(at, sequence, size),
            Event::PacketAcked { packet, .. } => self.acked(at, packet),
            Event::PacketLost { packet, .. } => {
                self.event(at, "framewire:packet_lost", format_args!("\"packet_number\":{packet}"))
            }
            Event::Rtt { latest, smoothed } => self.event(
                at,
                self.metrics(),
                format_args!(
                    "\"latest_rtt\":{},\"smoothed_rtt\":{}",
                    latest.as_millis_f64(),
                    smoothed.as_millis_f64()
                ),
            ),
            Event::Decision { window, pacing, media } => self.decision(at, window, pacing, media),
            Event::Observed { name, value } if value.0.is_finite() => {
                self.event(
                    at,
                    "framewire:observed",
                    format_args!("\"name\":\"{name}\",\"value\":{}", value.0),
                );
            }
            Event::Observed { .. } => {}
            ref other => self.other(at, other),
        }
    }

    /// What an event of congestion control's figures is called.
    fn metrics(&self) -> &'static str {
        match self.traffic {
            Traffic::Media => "framewire:metrics_updated",
            Traffic::Quic => "quic:recovery_metrics_updated",
        }
    }

    /// A window or rate without limit is left out.
    fn decision(&mut self, at: Time, window: u64, pacing: Rate, media: Rate) {
        let (paced, windowed) = (pacing != Rate::MAX, window != u64::MAX);
        if paced || windowed {
            self.open(at, self.metrics());
            if windowed {
                let _ = write!(self.line, "\"congestion_window\":{window}");
            }
            if paced {
                let comma = if windowed { "," } else { "" };
                let _ = write!(self.line, "{comma}\"pacing_rate\":{}", pacing.as_bps());
            }
            self.close();
        }
        if media != Rate::MAX {
            self.event(at, "framewire:media_rate", format_args!("\"rate\":{}", media.as_bps()));
        }
    }

    fn other(&mut self, at: Time, event: &Event) {
        match *event {
            Event::LossSpurious { packet } => {
                self.event(at, "framewire:loss_spurious", format_args!("\"packet_number\":{packet}"));
            }
            Event::HostDropped { cause } => {
                self.event(at, "framewire:dropped", format_args!("\"cause\":\"{cause:?}\""));
            }
            Event::FrameCaptured { stream, frame } => {
                self.frame(at, "framewire:frame_captured", Id { stream, frame, version: 0 });
            }
            Event::FrameSkipped { stream, frame } => {
                self.frame(at, "framewire:frame_skipped", Id { stream, frame, version: 0 });
            }
            Event::FrameSent { stream, frame, version, packets } => {
                let id = Id { stream, frame, version };
                self.event(at, "framewire:frame_sent", format_args!("{id},\"packets\":{packets}"));
            }
            Event::FrameAssembled { stream, frame, version, .. } => {
                self.frame(at, "framewire:frame_assembled", Id { stream, frame, version });
            }
            Event::FrameAbandoned { stream, frame, version } => {
                self.frame(at, "framewire:frame_abandoned", Id { stream, frame, version });
            }
            Event::FrameEncoded { stream, frame, version, size, key, target, height, .. } => self.event(
                at,
                "framewire:frame_encoded",
                format_args!(
                    "{},\"size\":{size},\"key\":{key},\"height\":{height},\"target\":{}",
                    Id { stream, frame, version },
                    target.as_bps()
                ),
            ),
            Event::FrameDisplayed { stream, frame, version, late, .. } => {
                let id = Id { stream, frame, version };
                self.event(at, "framewire:frame_displayed", format_args!("{id},\"late\":{late}"));
            }
            Event::NackSent { count } => {
                self.event(at, "framewire:nack_sent", format_args!("\"count\":{count}"))
            }
            Event::KeyFrameRequested { stream } => {
                self.event(at, "framewire:key_frame_requested", format_args!("\"stream\":{stream}"));
            }
            Event::FeedbackReceived { sequence } => {
                self.event(at, "framewire:feedback_received", format_args!("\"sequence\":{sequence}"));
            }
            // Links have no place in an endpoint's log, and quality is measured outside of it.
            _ => {}
        }
    }

    fn frame(&mut self, at: Time, name: &str, id: Id) {
        self.event(at, name, format_args!("{id}"));
    }
}

/// The fields that name a frame. The first coding of one names no version.
struct Id {
    stream: u8,
    frame: u32,
    version: u8,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"stream\":{},\"frame\":{}", self.stream, self.frame)?;
        if self.version > 0 { write!(f, ",\"version\":{}", self.version) } else { Ok(()) }
    }
}

/// Which end wrote the log (qlog's vantage point).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// Who sends media.
    Sender,
    /// Who receives it.
    Receiver,
}

impl<W: Write> Recorder for Qlog<W> {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        if !matches!(event, Event::PacketAcked { .. }) {
            self.settle_acked();
        }
        match *event {
            Event::StreamDataMoved { stream, offset, length } => self.moved(at, node, stream, offset, length),
            _ => self.write_event(at, event),
        }
    }
}

/// A date in ms since 1970 as RFC 3339 has it, to the millisecond.
fn rfc3339(date_ms: f64) -> String {
    let ms = date_ms.max(0.0) as u64;
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    // Howard Hinnant's civil_from_days: years begin in March, so that the leap day is a year's last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + 400 * era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Appends `text` as a JSON string.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;
    use units::Span;

    fn sent(packet: u64) -> Event {
        let (size, in_flight) = (1_200, 1_200 * (packet as u32 + 1));
        Event::PacketSent {
            packet,
            size,
            stream: 0,
            frame: 7,
            version: 0,
            index: 0,
            retransmission: false,
            in_flight,
        }
    }

    fn log(events: &[(i64, Event)], most: u64) -> (Vec<String>, u64) {
        let origin = Origin { at: Time::from_secs(1_000), date_ms: 1_763_738_000_123.5 };
        let mut log =
            Qlog::new(Vec::new(), Vantage::Sender, Traffic::Media, "a \"test\"\n", origin, most).unwrap();
        events
            .iter()
            .for_each(|(us, event)| log.record(origin.at + Span::from_micros(*us), NodeId(0), event));
        let left_out = log.finish().unwrap();
        let text = String::from_utf8(log.out).unwrap();
        let records = text.split('\x1e').skip(1).map(|record| record.strip_suffix('\n').unwrap().to_owned());
        (records.collect(), left_out)
    }

    #[test]
    fn a_log_reads_as_the_drafts_say() {
        let smoothed = Span::from_micros(20_500);
        let events = [
            (0, sent(0)),
            (1_500, Event::PacketAcked { packet: 3, size: 1_200 }),
            (1_500, Event::PacketAcked { packet: 4, size: 1_200 }),
            (1_500, Event::PacketAcked { packet: 9, size: 1_200 }),
            (1_500, Event::FeedbackReceived { sequence: 12 }),
            (1_500, Event::PacketLost { packet: 5, size: 1_200 }),
            (1_500, Event::Rtt { latest: Span::from_millis(21), smoothed }),
            (1_500, Event::Decision { window: u64::MAX, pacing: Rate::from_mbps(8), media: Rate::MAX }),
            (2_000, Event::FrameSkipped { stream: 0, frame: 8 }),
            (2_000, Event::Observed { name: "gain", value: Real(f64::NAN) }),
        ];
        let (records, left_out) = log(&events, QLOG_BYTES);
        let expected = [
            "{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\
             \"title\":\"a \\\"test\\\"\\u000a\",\"trace\":{\"common_fields\":{\"time_format\":\"relative_to_epoch\",\
             \"reference_time\":{\"clock_type\":\"monotonic\",\"epoch\":\"unknown\",\
             \"wall_clock_time\":\"2025-11-21T15:13:20.123Z\"},\"framewire_began_ms\":1763738000123.500},\
             \"vantage_point\":{\"name\":\"sender\",\"type\":\"client\"},\
             \"event_schemas\":[\"urn:x-framewire:qlog:events:framewire\"]}}",
            "{\"time\":0.000000,\"name\":\"framewire:packet_sent\",\"data\":{\"packet_number\":0,\"length\":1200,\
             \"stream\":0,\"frame\":7,\"index\":0,\"retransmission\":false}}",
            "{\"time\":0.000000,\"name\":\"framewire:metrics_updated\",\"data\":{\"bytes_in_flight\":1200}}",
            "{\"time\":1.500000,\"name\":\"framewire:packets_acked\",\"data\":{\"packet_numbers\":[[3,4],[9,9]]}}",
            "{\"time\":1.500000,\"name\":\"framewire:feedback_received\",\"data\":{\"sequence\":12}}",
            "{\"time\":1.500000,\"name\":\"framewire:packet_lost\",\"data\":{\"packet_number\":5}}",
            "{\"time\":1.500000,\"name\":\"framewire:metrics_updated\",\"data\":{\"latest_rtt\":21,\"smoothed_rtt\":20.5}}",
            "{\"time\":1.500000,\"name\":\"framewire:metrics_updated\",\"data\":{\"pacing_rate\":8000000}}",
            "{\"time\":2.000000,\"name\":\"framewire:frame_skipped\",\"data\":{\"stream\":0,\"frame\":8}}",
        ];
        assert_eq!(records, expected);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Checked by `date -u -d @SECONDS`.
        let dates = [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000.0, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999.9, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000.0, "2100-03-01T00:00:00.000Z"),
        ];
        dates.iter().for_each(|(ms, text)| assert_eq!(rfc3339(*ms), *text));
    }

    #[test]
    fn a_full_log_counts_what_it_leaves_out() {
        let events: Vec<_> = (0..100).map(|k| (k, sent(k as u64))).collect();
        let (records, left_out) = log(&events, 4_000);
        assert_eq!(records.len() as u64 + left_out, 1 + 2 * 100);
        assert!(left_out > 100 && records.iter().map(|record| record.len() + 2).sum::<usize>() <= 4_000);
    }

    #[test]
    fn a_disk_that_is_full_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if bytes.first() == Some(&b'{') && bytes.starts_with(b"{\"time") {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut log =
            Qlog::new(Full, Vantage::Receiver, Traffic::Media, "", Origin::default(), QLOG_BYTES).unwrap();
        (0..10).for_each(|k| log.record(Time::from_millis(k), NodeId(0), &sent(k)));
        assert_eq!(log.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
