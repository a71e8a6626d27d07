//! A flow's columns in the forms that metrics and charts take.

use netsim::IP_UDP_OVERHEAD;
use units::{Span, Time};

use super::{FlowRecord, FrameRow, NO_FRAME};
use crate::metrics::PathPacket;

impl FlowRecord {
    /// Deliveries in order of arrival: `(time, wire bytes)`. A packet that arrives twice counts once.
    pub fn deliveries(&self) -> Vec<(Time, u32)> {
        let arrived = self.packets.iter().filter_map(|p| Some((p.arrived?, p.size + IP_UDP_OVERHEAD)));
        let mut deliveries: Vec<(Time, u32)> = arrived.collect();
        deliveries.sort_by_key(|d| d.0);
        deliveries
    }

    /// [`deliveries`](FlowRecord::deliveries) of frames' packets as sent for the first time: neither padding
    /// nor repeats.
    pub fn frame_deliveries(&self) -> Vec<(Time, u32)> {
        let of_frames = self.packets.iter().filter(|p| p.frame != NO_FRAME && !p.retransmission);
        let mut deliveries: Vec<(Time, u32)> =
            of_frames.filter_map(|p| Some((p.arrived?, p.size + IP_UDP_OVERHEAD))).collect();
        deliveries.sort_by_key(|d| d.0);
        deliveries
    }

    /// Transmissions in order: `(time, wire bytes)`.
    pub fn transmissions(&self) -> impl Iterator<Item = (Time, u32)> + '_ {
        self.packets.iter().map(|p| (p.sent, p.size + IP_UDP_OVERHEAD))
    }

    /// One-way delays in order of sending: `(send time, delay)`, true times of the world.
    pub fn one_way_delays(&self) -> impl Iterator<Item = (Time, Span)> + '_ {
        self.packets.iter().filter_map(|p| Some((p.sent, p.arrived? - p.sent)))
    }

    /// The packet log that equation 10 of SQP's paper takes, in wire bytes.
    pub fn path_packets(&self) -> Vec<PathPacket> {
        let row = |p: &super::PacketRow| PathPacket {
            sent: p.sent,
            size: p.size + IP_UDP_OVERHEAD,
            arrived: p.arrived,
        };
        self.packets.iter().map(row).collect()
    }

    /// Frames that were captured, in capture order.
    pub fn captured(&self) -> impl Iterator<Item = (Time, &FrameRow)> + '_ {
        self.frames().iter().filter_map(|frame| Some((frame.captured?, frame)))
    }

    /// Display times in order.
    pub fn displays(&self) -> Vec<Time> {
        let mut times: Vec<Time> = self.frames().iter().filter_map(|frame| frame.displayed).collect();
        times.sort_unstable();
        times
    }

    /// Payload bytes that arrived for the first time at or after `from`: each part of a frame once, however
    /// often it was sent, and all padding. `header` bytes of each packet are not payload.
    pub fn unique_payload(&self, from: Time, header: u32) -> u64 {
        let payload = |size: u32| u64::from(size.saturating_sub(header));
        let arrived = self.packets.iter().filter_map(|p| p.arrived.map(|at| (p, at)));
        let mut parts = Vec::new();
        let mut bytes = 0;
        for (packet, at) in arrived {
            if packet.frame != NO_FRAME {
                parts.push((packet.coding, packet.frame, packet.index, at, packet.size));
            } else if at >= from {
                bytes += payload(packet.size);
            }
        }
        parts.sort_unstable();
        parts.dedup_by_key(|part| (part.0, part.1, part.2));
        bytes + parts.iter().filter(|part| part.3 >= from).map(|part| payload(part.4)).sum::<u64>()
    }

    /// Wire bytes each frame sent, retransmissions included, in capture order of the frames that sent any.
    pub fn bytes_per_frame(&self, from: Time) -> Vec<f64> {
        let mut sizes = vec![0u64; self.frames().len()];
        let coding = self.streams.keys().next().copied().unwrap_or_default();
        for packet in self.packets.iter().filter(|p| p.coding == coding) {
            if let Some(size) = sizes.get_mut(packet.frame as usize) {
                *size += u64::from(packet.size + IP_UDP_OVERHEAD);
            }
        }
        let rows = self.frames().iter().zip(sizes);
        rows.filter(|(row, _)| row.captured.is_some_and(|at| at >= from) && row.sent.is_some())
            .map(|(_, size)| size as f64)
            .collect()
    }
}
