//! What comes back: feedback, requests, and what follows from them.

use record::{Dropped, Event};
use transport::Heard;
use units::{Bytes, Span, Time};
use wire::{Arrival, Control, Feedback, FrameId, KeyFrameRequest, Nack};

use super::Sender;
use crate::recovery::{self, Missing, Repair};

/// Repairs waiting at most; with more, the newest are refused (their frames are late anyway).
const REPAIRS: usize = 4096;

impl Sender {
    pub(super) fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        if !self.core.could_be(feedback.newest()) {
            self.counters.implausible += 1;
            self.tap.record(now, Event::HostDropped { cause: Dropped::FarFuture });
            return;
        }
        self.tap.record(now, Event::FeedbackReceived { sequence: feedback.sequence });
        let heard = Heard {
            arrivals: feedback.arrivals().map(|Arrival { packet, at, ecn }| transport::Arrival {
                packet,
                at,
                ecn,
            }),
            ranges: feedback.ranges(),
            newest: feedback.newest(),
            gap: feedback.sequence != self.feedback_seen.wrapping_add(1),
            sent: feedback.sent,
            blob: feedback.blob,
        };
        self.feedback_seen = self.feedback_seen.max(feedback.sequence);
        self.heard = true;
        if self.core.heard(now, heard).is_ok() {
            self.repair_losses(now);
        }
    }

    /// Asks the recovery policy about each packet just lost, and tells the outboxes of each that arrived.
    pub(super) fn repair_losses(&mut self, now: Time) {
        for index in 0..self.core.settled().lost.len() {
            if let Some(tag) = self.core.settled().lost[index].frame {
                let id = FrameId { frame: tag.frame, version: tag.version };
                self.repair(now, tag.stream, id, tag.index);
            }
        }
        for acked in &self.core.settled().acked {
            if let Some(tag) = acked.frame
                && let Some(video) = self.videos.get_mut(usize::from(tag.stream))
            {
                let id = FrameId { frame: tag.frame, version: tag.version };
                video.acked(id, tag.index, tag.count);
            }
        }
    }

    pub(super) fn repair(&mut self, now: Time, stream: u8, id: FrameId, index: u16) {
        let queue = self.core.pacing().map_or(Span::ZERO, |rate| rate.time_to_send(self.repair_bytes()));
        let Some(video) = self.videos.get_mut(usize::from(stream)) else { return };
        if self.manner.flush && video.is_useless(id.frame) {
            return;
        }
        let Some(last_sent) = video.outbox.last_sent(id, index) else { return video.missing(id) };
        let deadline = video.outbox.frame(id).map_or(now, |out| out.info.deadline);
        let missing = Missing { stream, id, index, class: video.outbox.class, last_sent, deadline };
        let view = recovery::View { now, srtt: self.core.rtt().smoothed(), queue };
        match self.policies.recovery.repair(&view, &missing) {
            Repair::Leave => {}
            Repair::KeyFrame => video.key_frame_for(id.frame),
            Repair::Refer => video.refer_back(id.frame),
            Repair::Resend if self.repairs.len() < REPAIRS => {
                if !self.repairs.contains(&(stream, id, index)) {
                    self.repairs.push_back((stream, id, index));
                }
            }
            Repair::Resend => {}
        }
    }

    pub(super) fn repair_bytes(&self) -> Bytes {
        Bytes::new((self.repairs.len() * self.mtu()) as u64)
    }

    pub(super) fn on_nack(&mut self, now: Time, nack: &Nack) {
        nack.wanted().for_each(|index| self.repair(now, nack.stream, nack.id(), index));
    }

    pub(super) fn on_key_request(&mut self, request: &KeyFrameRequest) {
        if let Some(video) = self.videos.get_mut(usize::from(request.stream)) {
            video.key_requested(request.after);
        }
    }

    pub(super) fn on_control(&mut self, control: &Control<'_>) {
        match control {
            Control::Welcome { .. } => self.heard = true,
            _ => self.counters.foreign += 1,
        }
    }

    pub(super) fn refuse_malformed(&mut self, now: Time) {
        self.counters.malformed += 1;
        self.tap.record(now, Event::HostDropped { cause: Dropped::Malformed });
    }
}
