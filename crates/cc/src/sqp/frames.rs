//! The interval tracker of section 4.1: each frame's burst from its first packet to its last.

use std::collections::VecDeque;

use units::{RemoteTime, Span, Time};

use crate::{Acked, FrameTag, Lost};

/// Bursts remembered at once: two seconds at 60 frames/s. Older ones have long been settled or given up.
const REMEMBERED: usize = 128;

/// One frame's burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameBurst {
    /// Stream, frame and version.
    pub id: (u8, u32, u8),
    /// Send time of its first packet.
    pub first_sent: Time,
    /// Send time of its latest packet.
    pub last_sent: Time,
    /// Bytes sent of it so far.
    pub bytes: u64,
    /// Bits that the estimate allowed a frame when its first packet left.
    pub full: f64,
    /// Bytes of its first packet.
    pub first_bytes: u32,
    /// Packets the frame has.
    pub count: u32,
    /// Packets sent so far.
    pub sent: u32,
    /// Packets known to have arrived.
    pub arrived: u32,
    /// Packets of it given up.
    pub lost: u32,
    /// Some packet arrived at a time nobody told us.
    pub untimed: bool,
    /// Earliest and latest receive time.
    pub received: Option<(RemoteTime, RemoteTime)>,
}

impl FrameBurst {
    /// Bits it has sent, or those of a frame as the estimate allowed if that is more.
    pub fn bits(&self) -> f64 {
        (self.bytes as f64 * 8.0).max(self.full)
    }
}

/// The bursts in flight, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    bursts: VecDeque<FrameBurst>,
}

impl Frames {
    /// A packet of a frame left for the first time; the estimate allows a frame `full` bits.
    #[inline]
    pub fn sent(&mut self, now: Time, tag: &FrameTag, size: u32, full: f64) {
        // Compared where they lie: copied, stream and version would be read as one, and a processor stalls on
        // two bytes of which each was just written by itself.
        if let Some(burst) = self.bursts.back_mut()
            && burst.id.1 == tag.frame
            && burst.id.0 == tag.stream
            && burst.id.2 == tag.version
        {
            burst.last_sent = now;
            burst.bytes += u64::from(size);
            burst.sent += 1;
            return;
        }
        self.begin(now, tag, size, full);
    }

    #[inline(never)]
    fn begin(&mut self, now: Time, tag: &FrameTag, size: u32, full: f64) {
        if self.bursts.len() == REMEMBERED {
            self.bursts.pop_front();
        }
        self.bursts.push_back(FrameBurst {
            id: (tag.stream, tag.frame, tag.version),
            first_sent: now,
            last_sent: now,
            bytes: u64::from(size),
            full,
            first_bytes: size,
            count: u32::from(tag.count),
            sent: 1,
            arrived: 0,
            lost: 0,
            untimed: false,
            received: None,
        });
    }

    #[inline(always)]
    fn find(&mut self, tag: Option<&FrameTag>) -> Option<&mut FrameBurst> {
        let tag = tag.filter(|tag| !tag.retransmission)?;
        let id = (tag.stream, tag.frame, tag.version);
        // Mostly the oldest.
        let oldest = self.bursts.front().is_some_and(|burst| burst.id == id);
        if oldest { self.bursts.front_mut() } else { self.find_another(id) }
    }

    #[inline(never)]
    fn find_another(&mut self, id: (u8, u32, u8)) -> Option<&mut FrameBurst> {
        self.bursts.iter_mut().find(|burst| burst.id == id)
    }

    /// A packet arrived at a known time.
    #[inline(always)]
    pub fn arrived(&mut self, acked: &Acked, at: RemoteTime) {
        if let Some(burst) = self.find(acked.frame.as_ref()) {
            burst.arrived += 1;
            burst.received =
                Some(burst.received.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        }
    }

    /// A packet arrived, but the report with its time was lost.
    #[cold]
    pub fn arrived_untimed(&mut self, acked: &Acked) {
        if let Some(burst) = self.find(acked.frame.as_ref()) {
            burst.arrived += 1;
            burst.untimed = true;
        }
    }

    /// A packet was given up.
    pub fn lost(&mut self, lost: &Lost) {
        if let Some(burst) = self.find(lost.frame.as_ref()) {
            burst.lost += 1;
        }
    }

    /// The next burst about which nothing more will be learnt: every packet arrived or given up, or (when a
    /// later frame has already been heard of) a round trip has passed since its last packet.
    pub fn pop_settled(&mut self, now: Time, srtt: Span) -> Option<FrameBurst> {
        let newest_heard = self.bursts.iter().rposition(|burst| burst.arrived > 0)?;
        let settled =
            |burst: &FrameBurst| burst.sent == burst.count && burst.arrived + burst.lost >= burst.count;
        let given_up =
            |index: usize, burst: &FrameBurst| index < newest_heard && now - burst.last_sent > srtt * 2;
        let index = (0..=newest_heard).find(|&i| settled(&self.bursts[i]) || given_up(i, &self.bursts[i]))?;
        self.bursts.remove(index)
    }

    /// Bytes by which the newest burst exceeds what the estimate allowed it.
    pub fn excess(&self, mtu: u32) -> u64 {
        self.bursts.back().map_or(0, |burst| {
            (u64::from(burst.count) * u64::from(mtu)).saturating_sub((burst.full / 8.0) as u64)
        })
    }

    /// The oldest burst of which something may still stand in the queue, if any: none older than one that has
    /// been heard of.
    pub fn awaited(&self) -> Option<&FrameBurst> {
        let newest_heard = self.bursts.iter().rposition(|burst| burst.arrived > 0).unwrap_or(0);
        self.bursts.range(newest_heard..).find(|burst| burst.arrived + burst.lost < burst.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ecn;

    fn tag(frame: u32, index: u16, count: u16) -> FrameTag {
        FrameTag { stream: 0, frame, version: 0, index, count, retransmission: false }
    }
    fn ack(frame: u32, index: u16, count: u16, at_ms: u64) -> (Acked, RemoteTime) {
        let acked = Acked {
            packet: 0,
            sent_at: Time::ZERO,
            arrived_at: None,
            size: 1000,
            ecn: Ecn::NotEct,
            frame: Some(tag(frame, index, count)),
            delivery: crate::Delivery::default(),
        };
        (acked, Time::from_millis(at_ms).on_wire())
    }

    #[test]
    fn a_burst_settles_when_every_packet_is_accounted_for() {
        let mut frames = Frames::default();
        (0..3).for_each(|i| frames.sent(Time::from_millis(i), &tag(7, i as u16, 3), 1000, 1e5));
        let srtt = Span::from_millis(40);
        for index in 0..2u16 {
            let (acked, at) = ack(7, index, 3, 20 + u64::from(index));
            frames.arrived(&acked, at);
            assert_eq!(frames.pop_settled(Time::from_millis(50), srtt), None);
        }
        let (frame, delivery) = (Some(tag(7, 2, 3)), crate::Delivery::default());
        frames.lost(&Lost { packet: 2, sent_at: Time::ZERO, size: 1000, frame, delivery });
        let burst = frames.pop_settled(Time::from_millis(50), srtt).unwrap();
        assert_eq!((burst.bytes, burst.arrived, burst.lost), (3000, 2, 1));
        assert_eq!(burst.received.map(|(a, b)| b - a), Some(Span::from_millis(1)));
    }

    #[test]
    fn memory_is_bounded_without_feedback() {
        let mut frames = Frames::default();
        (0..10_000).for_each(|f| frames.sent(Time::from_millis(f), &tag(f as u32, 0, 1), 1000, 1e5));
        assert_eq!(frames.bursts.len(), REMEMBERED);
    }
}
