//! One flow: its packets, its frames, and what its controller thought.

use std::collections::BTreeMap;

use record::{Dropped, Event};
use units::{Rate, Span, Time};

use super::frames::{FrameRow, StreamFrames};
use super::observed::Observed;
use super::rows::FlowRows;
use super::take_front;
use crate::metrics::Stalls;

/// The frame number of packets that belong to no frame (padding, a backlogged flow).
pub const NO_FRAME: u32 = u32::MAX;

/// Which coding of a capture's frames: by which stream, and which version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coding {
    /// The stream's number within the session.
    pub stream: u8,
    /// The version, 0 the first.
    pub version: u8,
}

impl Coding {
    /// The first version of a stream's frames.
    pub fn first(stream: u8) -> Coding {
        Coding { stream, version: 0 }
    }
}

/// One packet of media or padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketRow {
    /// The sender's number for this transmission.
    pub packet: u64,
    /// When it was handed to the network.
    pub sent: Time,
    /// When it first arrived.
    pub arrived: Option<Time>,
    /// When the sender learnt of its arrival.
    pub acked: Option<Time>,
    /// UDP payload bytes.
    pub size: u32,
    /// Its frame, or [`NO_FRAME`].
    pub frame: u32,
    /// Its index in the frame.
    pub index: u16,
    /// Which coding of that frame.
    pub coding: Coding,
    /// Sent before under another number.
    pub retransmission: bool,
    /// The sender gave it up.
    pub lost: bool,
    /// The sender gave it up although it had arrived.
    pub spurious: bool,
}

/// A round-trip sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RttSample {
    /// When the sender heard of it.
    pub at: Time,
    /// The round trip of one packet, as the sender measured it.
    pub latest: Span,
    /// The smoothed value after it.
    pub smoothed: Span,
}

/// What the controller wanted from an instant on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decided {
    /// When the decision was made.
    pub at: Time,
    /// Window in bytes; `u64::MAX` for none.
    pub window: u64,
    /// Pacing rate; [`Rate::MAX`] for none.
    pub pacing: Rate,
    /// Advice for the media bitrate; [`Rate::MAX`] for none.
    pub media: Rate,
}

impl Decided {
    /// The controller's advice in Mbit/s; of a window-based controller, the window over the smoothed round
    /// trip.
    pub fn estimate(&self, smoothed: Option<Span>) -> Option<f64> {
        if self.media < Rate::MAX {
            return Some(self.media.as_f64() / 1e6);
        }
        let smoothed = smoothed?.as_secs_f64();
        (self.window < u64::MAX && smoothed > 0.0).then(|| self.window as f64 * 8.0 / smoothed / 1e6)
    }
}

/// Counters of a flow. Sizes are UDP payload bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTotals {
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received; a packet that arrives twice counts once where rows are kept.
    pub received: u64,
    /// Bytes received, likewise.
    pub received_bytes: u64,
    /// Packets that were transmissions of something sent before.
    pub retransmitted: u64,
    /// Packets the sender gave up.
    pub given_up: u64,
    /// Of those, the ones that had arrived after all.
    pub spurious: u64,
    /// Arrivals of a packet that had arrived before.
    pub duplicates: u64,
    /// Arrivals that match no packet sent.
    pub unmatched: u64,
    /// Frames captured.
    pub captured: u64,
    /// Frames encoded.
    pub encoded: u64,
    /// Frames displayed.
    pub displayed: u64,
    /// Of those, after their deadline.
    pub late: u64,
    /// Frames the sender left out.
    pub skipped: u64,
    /// Frames the receiver stopped waiting for.
    pub abandoned: u64,
    /// Packets asked for again by the receiver.
    pub nacked: u64,
    /// Key frames asked for by the receiver.
    pub key_frame_requests: u64,
    /// Feedback packets sent.
    pub feedback: u64,
    /// Bytes of feedback sent.
    pub feedback_bytes: u64,
    /// What sender and receiver dropped instead of handling.
    pub host_drops: BTreeMap<Dropped, u64>,
}

/// Everything kept of one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowRecord {
    /// Packets and bytes counted over the whole run.
    pub totals: FlowTotals,
    /// Packets in send order.
    pub packets: Vec<PacketRow>,
    /// Frames by stream and version.
    pub streams: BTreeMap<Coding, StreamFrames>,
    /// Round-trip samples.
    pub rtt: Vec<RttSample>,
    /// The controller's decisions; one row per change.
    pub decisions: Vec<Decided>,
    /// The controller's inner quantities, by name.
    pub observed: Observed,
    /// What rows can't say where many are folded into one; none where they are whole.
    pub folded: Option<Box<FoldedFlow>>,
}

/// What charts show of a flow whose rows were folded, besides [what is left of them](crate::stream).
#[derive(Clone, Debug, Default)]
pub struct FoldedFlow {
    /// The controller's estimate in Mbit/s: means over columns of time.
    pub estimate: Vec<(Time, f64)>,
    /// Frame delays in ms, ascending, each with how many frames had it.
    pub delays: Vec<(f64, u64)>,
    /// When the first and the last frame was shown.
    pub shown: Option<(Time, Time)>,
    /// Stalls, as they were found while rows were folded.
    pub stalls: Stalls,
}

impl FlowRecord {
    /// Frames of the stream people watch: the lowest-numbered one.
    pub fn frames(&self) -> &[FrameRow] {
        self.streams.values().next().map_or(&[], |stream| &stream.rows)
    }

    /// Frame round-trip times, one per frame sent from `from` on whose every packet index was acknowledged:
    /// from the start of sending the frame until the sender knew that all of it had arrived.
    pub fn frame_rtts(&self, from: Time) -> Vec<Span> {
        let mut acked: Vec<(Coding, u32, u16, Time)> = self
            .packets
            .iter()
            .filter(|p| p.frame != NO_FRAME && p.sent >= from)
            .filter_map(|p| Some((p.coding, p.frame, p.index, p.acked?)))
            .collect();
        acked.sort_unstable();
        acked.dedup_by_key(|a| (a.0, a.1, a.2));
        acked.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter_map(|frame| self.frame_rtt(frame)).collect()
    }

    fn frame_rtt(&self, acked: &[(Coding, u32, u16, Time)]) -> Option<Span> {
        let (coding, frame, ..) = acked[0];
        let row = self.streams.get(&coding)?.rows.get(frame as usize)?;
        // As many as it was cut into are enough, parity packets among them.
        let mut times: Vec<Time> = acked.iter().map(|a| a.3).collect();
        times.sort_unstable();
        let whole = *times.get(usize::from(row.packets).checked_sub(1)?)?;
        Some(whole - row.first_sent?)
    }

    /// A parity packet: it stands behind those that its frame was cut into. Not known before the frame has
    /// left whole.
    pub fn is_parity(&self, packet: &PacketRow) -> bool {
        let stream = self.streams.get(&packet.coding).filter(|_| packet.frame != NO_FRAME);
        let row = stream.and_then(|stream| stream.rows.get(packet.frame.checked_sub(stream.first)? as usize));
        row.is_some_and(|row| row.packets > 0 && packet.index >= row.packets)
    }

    /// Takes out the rows that nothing changes any more: packets sent and frames captured before these
    /// instants, and everything that was known when it happened.
    pub(super) fn take_complete(&mut self, packets: Time, frames: Time) -> FlowRecord {
        let sent = self.packets.partition_point(|row| row.sent < packets);
        // The last one stays as long as it may tell whether the next is a change.
        let more = usize::from(packets < Time::MAX);
        let decided = self.decisions.len().saturating_sub(more);
        FlowRecord {
            totals: FlowTotals::default(),
            packets: take_front(&mut self.packets, sent),
            streams: self.streams.iter_mut().map(|(&id, stream)| (id, stream.take_until(frames))).collect(),
            rtt: std::mem::take(&mut self.rtt),
            decisions: take_front(&mut self.decisions, decided),
            observed: std::mem::take(&mut self.observed),
            folded: None,
        }
    }

    /// Bytes of rows held.
    pub(super) fn held(&self) -> usize {
        let frames: usize = self.streams.values().map(|stream| stream.rows.len()).sum();
        let observed: usize = self.observed.iter().map(|(_, values)| values.len()).sum();
        size_of_val(&self.packets[..])
            + size_of_val(&self.rtt[..])
            + size_of_val(&self.decisions[..])
            + frames * size_of::<FrameRow>()
            + observed * size_of::<(Time, f64)>()
    }

    pub(super) fn at_sender(&mut self, at: Time, event: &Event, rows: FlowRows) {
        self.count_at_sender(event);
        match *event {
            Event::Rtt { latest, smoothed } if rows.rtt => {
                self.rtt.push(RttSample { at, latest, smoothed });
            }
            Event::Decision { window, pacing, media } if rows.decisions => {
                self.keep_decision(Decided { at, window, pacing, media });
            }
            Event::Observed { name, value } if rows.observed => self.observed.push(name, at, value.0),
            Event::Rtt { .. } | Event::Decision { .. } | Event::Observed { .. } => {}
            Event::PacketAcked { packet, .. } if rows.fates => {
                self.complete(packet, |row| row.acked = Some(at));
            }
            Event::PacketLost { packet, .. } if rows.fates => self.complete(packet, |row| row.lost = true),
            Event::LossSpurious { packet } if rows.fates => self.complete(packet, |row| row.spurious = true),
            Event::PacketSent { .. } if rows.packets => self.keep_sent(at, event),
            _ if rows.packets => self.keep_frame_at_sender(at, event),
            _ => {}
        }
    }

    pub(super) fn at_receiver(&mut self, at: Time, event: &Event, rows: FlowRows) {
        self.count_at_receiver(event);
        if let Event::PacketReceived { packet, size, .. } = *event {
            self.receive(at, packet, size, rows.packets);
        } else if rows.packets
            && let Some((coding, frame)) = frame_of(event)
            && let Some(row) = self.row_of(coding, frame)
        {
            row.at_receiver(at, event);
            self.take_quality(event);
        }
    }

    /// A frame that is shown in another coding than the first has that coding's quality, where the encoder
    /// knows it.
    fn take_quality(&mut self, event: &Event) {
        let Event::FrameDisplayed { stream, frame, version, .. } = *event else { return };
        let (shown, first) = (Coding { stream, version }, Coding::first(session::capture_of(stream)));
        if shown == first {
            return;
        }
        let quality = self.row_of(shown, frame).map_or((None, None), |coded| coded.encoder_quality);
        if let Some(row) = self.row_of(first, frame) {
            row.encoder_quality = quality;
        }
    }

    fn row_of(&mut self, coding: Coding, frame: u32) -> Option<&mut FrameRow> {
        self.streams.get_mut(&coding)?.get_mut(frame)
    }

    fn keep_frame_at_sender(&mut self, at: Time, event: &Event) {
        if let Some((coding, frame)) = frame_of(event)
            && let Some(row) = self.streams.entry(coding).or_default().open(frame)
        {
            row.at_sender(at, event);
        }
    }

    fn keep_sent(&mut self, at: Time, event: &Event) {
        let Event::PacketSent { packet, size, stream, frame, version, index, retransmission, .. } = *event
        else {
            return;
        };
        let coding = Coding { stream, version };
        self.packets.push(PacketRow {
            packet,
            sent: at,
            arrived: None,
            acked: None,
            size,
            frame,
            index,
            coding,
            retransmission,
            lost: false,
            spurious: false,
        });
        if frame != NO_FRAME
            && let Some(row) = self.row_of(coding, frame)
        {
            row.first_sent.get_or_insert(at);
        }
    }

    fn keep_decision(&mut self, new: Decided) {
        let same = |old: &Decided| (old.window, old.pacing, old.media) == (new.window, new.pacing, new.media);
        if !self.decisions.last().is_some_and(same) {
            self.decisions.push(new);
        }
    }

    fn receive(&mut self, at: Time, packet: u64, size: u32, rows: bool) {
        if rows {
            match self.row(packet) {
                None => return self.totals.unmatched += 1,
                Some(row) if row.arrived.is_some() => return self.totals.duplicates += 1,
                Some(row) => row.arrived = Some(at),
            }
        }
        self.totals.received += 1;
        self.totals.received_bytes += u64::from(size);
    }

    fn complete(&mut self, packet: u64, change: impl FnOnce(&mut PacketRow)) {
        if let Some(row) = self.row(packet) {
            change(row);
        }
    }

    /// The row of a packet. Numbers ascend, and mostly without gaps: then the row's place is known at once.
    fn row(&mut self, packet: u64) -> Option<&mut PacketRow> {
        let first = self.packets.first()?.packet;
        let guess = usize::try_from(packet.checked_sub(first)?).ok()?;
        let at_guess = self.packets.get(guess).is_some_and(|row| row.packet == packet);
        let place =
            if at_guess { guess } else { self.packets.binary_search_by_key(&packet, |r| r.packet).ok()? };
        self.packets.get_mut(place)
    }

    fn count_at_sender(&mut self, event: &Event) {
        let totals = &mut self.totals;
        match *event {
            Event::PacketSent { size, retransmission, .. } => {
                totals.sent += 1;
                totals.sent_bytes += u64::from(size);
                totals.retransmitted += u64::from(retransmission);
            }
            Event::PacketLost { .. } => totals.given_up += 1,
            Event::LossSpurious { .. } => totals.spurious += 1,
            Event::FrameCaptured { .. } => totals.captured += 1,
            Event::FrameSkipped { .. } => totals.skipped += 1,
            Event::FrameEncoded { .. } => totals.encoded += 1,
            Event::HostDropped { cause } => *totals.host_drops.entry(cause).or_default() += 1,
            _ => {}
        }
    }

    fn count_at_receiver(&mut self, event: &Event) {
        let totals = &mut self.totals;
        match *event {
            Event::FrameDisplayed { late, .. } => {
                totals.displayed += 1;
                totals.late += u64::from(late);
            }
            Event::FrameAbandoned { .. } => totals.abandoned += 1,
            Event::NackSent { count } => totals.nacked += u64::from(count),
            Event::KeyFrameRequested { .. } => totals.key_frame_requests += 1,
            Event::FeedbackSent { size, .. } => {
                totals.feedback += 1;
                totals.feedback_bytes += u64::from(size);
            }
            Event::HostDropped { cause } => *totals.host_drops.entry(cause).or_default() += 1,
            _ => {}
        }
    }
}

/// The coding and frame an event is about. What is captured and what is shown, by whichever track it came, is
/// the capture's, whose first track has the capture's number.
fn frame_of(event: &Event) -> Option<(Coding, u32)> {
    match *event {
        Event::FrameCaptured { stream, frame } | Event::FrameSkipped { stream, frame } => {
            Some((Coding::first(stream), frame))
        }
        Event::FrameEncoded { stream, frame, version, .. }
        | Event::FrameSent { stream, frame, version, .. }
        | Event::FrameAssembled { stream, frame, version, .. }
        | Event::FrameAbandoned { stream, frame, version } => Some((Coding { stream, version }, frame)),
        Event::FrameDisplayed { stream, frame, .. }
        | Event::FrameQuality { stream, frame, .. }
        | Event::FrameQualityModelled { stream, frame, .. } => {
            Some((Coding::first(session::capture_of(stream)), frame))
        }
        _ => None,
    }
}
