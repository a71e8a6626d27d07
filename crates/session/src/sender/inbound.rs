//! What comes back: feedback, requests, and what follows from them.

use predict::Passage;
use record::{Dropped, Event};
use transport::Heard;
use units::{Bytes, Span, Time, unlikely};
use wire::{Arrival, Class, Control, Feedback, FrameId, KeyFrameRequest, Nack};

use super::Sender;
use crate::chain;
use crate::recovery::{self, Missing, Recovery, Repair, Retransmit};
use crate::strategy::News;

/// Repairs waiting at most; with more, the newest are refused (their frames are late anyway).
const REPAIRS: usize = 4096;

/// A report's arrivals, as the core hears of them.
// Not `map`, which LLVM calls for each instead of inlining it.
struct Timed<A>(A);

impl<A: Iterator<Item = Arrival>> Iterator for Timed<A> {
    type Item = transport::Arrival;

    #[inline(always)]
    fn next(&mut self) -> Option<transport::Arrival> {
        self.0.next().map(|Arrival { packet, at, ecn }| transport::Arrival { packet, at, ecn })
    }
}

impl Sender {
    // Inlined by force: a report that is handed over lies in memory and is copied from there.
    #[inline(always)]
    pub(super) fn on_feedback(
        &mut self,
        now: Time,
        feedback: &Feedback<'_>,
        arrivals: impl Iterator<Item = Arrival>,
    ) {
        if !self.core.could_be(feedback.newest()) {
            self.counters.implausible += 1;
            self.tap.record(now, Event::HostDropped { cause: Dropped::FarFuture });
            return;
        }
        self.tap.record(now, Event::FeedbackReceived { sequence: feedback.sequence });
        let heard = Heard {
            arrivals: Timed(arrivals),
            ranges: feedback.ranges(),
            newest: feedback.newest(),
            gap: feedback.sequence != self.feedback_seen.wrapping_add(1),
            sent: feedback.sent,
            blob: feedback.blob,
        };
        self.feedback_seen = self.feedback_seen.max(feedback.sequence);
        self.heard = true;
        self.core.hear(now, heard);
        self.repair_losses(now);
    }

    /// Does what was just settled asks for.
    #[inline(always)]
    pub(super) fn repair_losses(&mut self, now: Time) {
        if unlikely(self.watch.is_some()) {
            self.tell_watch(now);
        }
        if !self.tracks.is_empty() {
            self.tell_tracks(now);
        }
        self.core.seen();
    }

    /// Sees to each packet of a frame that was just lost, and tells tracks and strategy of those, and of each
    /// packet of a frame that arrived.
    #[inline(always)]
    fn tell_tracks(&mut self, now: Time) {
        for index in 0..self.core.settled().lost.len() {
            let lost = &self.core.settled().lost[index];
            if let Some(tag) = lost.frame {
                let (stream, sent_at) = (tag.stream, lost.sent_at);
                let id = FrameId { frame: tag.frame, version: tag.version };
                self.policies.strategy.hear(now, &News::Lost { stream, id });
                self.repair(now, stream, id, tag.index, Some(sent_at));
            }
        }
        for acked in &self.core.settled().acked {
            if let Some(tag) = acked.frame
                && let Some(track) = self.tracks.iter_mut().find(|track| track.stream == tag.stream)
            {
                let id = FrameId { frame: tag.frame, version: tag.version };
                let complete = track.acked(id, tag.index, tag.count);
                self.policies.strategy.hear(now, &News::Acked { stream: tag.stream, id, complete });
            }
        }
    }

    /// Tells what foresees losses what was just settled.
    #[cold]
    fn tell_watch(&mut self, now: Time) {
        let Some(watch) = &mut self.watch else { return };
        let settled = self.core.settled();
        settled.lost.iter().for_each(|_| watch.lost(now));
        let timed = settled.acked.iter().filter_map(|acked| {
            let arrived_at = acked.arrived_at?;
            Some(Passage { sent_at: acked.sent_at, arrived_at })
        });
        if let Some(newest) = self.core.rtt().latest() {
            watch.heard(now, newest, timed);
        }
    }

    /// Sees to a packet that is missing: the transmission of `lost` was given up, or its receiver asked for
    /// it.
    pub(super) fn repair(&mut self, now: Time, stream: u8, id: FrameId, index: u16, lost: Option<Time>) {
        let queue = self.core.pacing().map_or(Span::ZERO, |rate| rate.time_to_send(self.repair_bytes()));
        let Some(position) = self.position(stream) else { return };
        let track = &mut self.tracks[position];
        if self.manner.flush && track.is_useless(id.frame) {
            return;
        }
        let Some((last_sent, repeats)) = track.outbox.last_sent(id, index) else { return track.missing(id) };
        if track.outbox.spare(id, index, lost.is_some()) {
            return;
        }
        let class = track.outbox.class;
        let deadline = track.outbox.frame(id).map_or(now, |out| out.info.deadline);
        let missing = Missing { stream, id, index, class, last_sent, repeats, deadline };
        let view = recovery::View { now, srtt: self.core.rtt().smoothed(), queue };
        let answer = match class {
            Class::Deadline => self.policies.strategy.repair(&view, &missing),
            // It is known which transmission was lost: if another has left since, that one is on its way.
            Class::Reliable if lost.is_some_and(|sent_at| sent_at >= last_sent) => Repair::Resend,
            Class::Reliable if lost.is_none() => Retransmit.repair(&view, &missing),
            Class::Reliable | Class::OneShot | Class::Padding => Repair::Leave,
        };
        match answer {
            Repair::Leave => {}
            Repair::KeyFrame => track.key_frame_for(id.frame),
            Repair::Refer => track.refer_back(id.frame),
            Repair::Resend if self.repairs.len() < REPAIRS => {
                if !self.repairs.contains(&(stream, id, index)) {
                    // What is filmed first matters first.
                    let capture = chain::capture_of(stream);
                    let after = |&(other, ..): &(u8, _, _)| chain::capture_of(other) <= capture;
                    let at = self.repairs.iter().rposition(after).map_or(0, |last| last + 1);
                    self.repairs.insert(at, (stream, id, index));
                }
            }
            // What is reliable is not forgotten: it comes into the queue when there is room.
            Repair::Resend if class == Class::Reliable => track.outbox.want(id, index),
            Repair::Resend => {}
        }
    }

    pub(super) fn repair_bytes(&self) -> Bytes {
        Bytes::new((self.repairs.len() * self.mtu()) as u64)
    }

    pub(super) fn on_nack(&mut self, now: Time, nack: &Nack) {
        self.policies.strategy.hear(now, &News::Asked { stream: nack.stream, id: nack.id() });
        nack.wanted().for_each(|index| self.repair(now, nack.stream, nack.id(), index, None));
    }

    pub(super) fn on_key_request(&mut self, now: Time, request: &KeyFrameRequest) {
        let KeyFrameRequest { stream, after, .. } = *request;
        if let Some(position) = self.position(stream) {
            self.policies.strategy.hear(now, &News::Stuck { stream, after });
            self.tracks[position].key_requested(after);
        }
    }

    pub(super) fn on_control(&mut self, control: &Control<'_>) {
        match control {
            Control::Welcome { .. } => self.heard = true,
            _ => self.counters.foreign += 1,
        }
    }

    #[cold]
    pub(super) fn refuse_malformed(&mut self, now: Time) {
        self.counters.malformed += 1;
        self.tap.record(now, Event::HostDropped { cause: Dropped::Malformed });
    }
}
