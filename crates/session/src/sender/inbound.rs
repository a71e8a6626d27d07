//! What comes back: feedback, requests, and what follows from them.

use cc::{Decision, Report};
use record::{Dropped, Event, Real};
use units::{Bytes, Rate, Span, Time};
use wire::{Control, Feedback, KeyFrameRequest, Nack};

use super::Sender;
use crate::rate;
use crate::recovery::{self, Missing, Repair};

/// Repairs waiting at most; with more, the newest are refused (their frames are late anyway).
const REPAIRS: usize = 4096;

impl Sender {
    pub(super) fn on_feedback(&mut self, now: Time, datagram: &[u8]) {
        let Ok(feedback) = Feedback::decode(datagram) else {
            self.refuse_malformed(now);
            return;
        };
        let gap = feedback.sequence != self.feedback_seen.wrapping_add(1);
        let settled = self.ledger.settle(now, &feedback, gap, &mut self.rtt, &mut self.settled);
        if settled.is_err() {
            self.counters.implausible += 1;
            self.tap.record(now, Event::HostDropped { cause: Dropped::FarFuture });
            return;
        }
        self.tap.record(now, Event::FeedbackReceived { sequence: feedback.sequence });
        self.feedback_seen = self.feedback_seen.max(feedback.sequence);
        self.heard = true;
        if !self.settled.acked.is_empty() {
            self.timeouts_in_a_row = 0;
            self.unheard_since = now;
        }
        self.report(now, feedback.blob);
    }

    /// Tells the controller, the records and the recovery policy what was just settled.
    pub(super) fn report(&mut self, now: Time, blob: &[u8]) {
        let report = Report {
            now,
            acked: &self.settled.acked,
            lost: &self.settled.lost,
            spurious: &self.settled.spurious,
            in_flight: self.ledger.in_flight(),
            limited: std::mem::take(&mut self.limited),
            latest_rtt: self.rtt.latest().filter(|_| !self.settled.acked.is_empty()),
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.variation(),
            min_rtt: self.rtt.min(),
            ce_marks: self.settled.ce_marks,
            persistent_congestion: self.settled.persistent_congestion,
            recovering: None,
            delivered: self.ledger.delivered(),
            lost_bytes: self.ledger.lost(),
            in_order: 0,
            blob,
        };
        self.controller.on_feedback(&report);
        self.counters.lost += self.settled.lost.len() as u64;
        self.counters.spurious += self.settled.spurious.len() as u64;
        self.record_settled(now);
        self.apply_decision();
        self.record_decision(now);
        self.repair_losses(now);
    }

    pub(super) fn record_settled(&self, now: Time) {
        if !self.tap.is_on() {
            return;
        }
        for acked in &self.settled.acked {
            self.tap.record(now, Event::PacketAcked { packet: acked.packet, size: acked.size });
        }
        for lost in &self.settled.lost {
            self.tap.record(now, Event::PacketLost { packet: lost.packet, size: lost.size });
        }
        for &packet in &self.settled.spurious {
            self.tap.record(now, Event::LossSpurious { packet });
        }
        if let Some(latest) = self.rtt.latest().filter(|_| !self.settled.acked.is_empty()) {
            self.tap.record(now, Event::Rtt { latest, smoothed: self.rtt.smoothed() });
        }
    }

    pub(super) fn record_decision(&self, now: Time) {
        if !self.tap.is_on() {
            return;
        }
        let Decision { window, pacing, media, .. } = self.decision;
        let window = window.map_or(u64::MAX, Bytes::get);
        let (pacing, media) = (pacing.unwrap_or(Rate::MAX), media.unwrap_or(Rate::MAX));
        self.tap.record(now, Event::Decision { window, pacing, media });
        self.controller.observe(&mut |name, value| {
            self.tap.record(now, Event::Observed { name, value: Real(value) });
        });
    }

    /// The controller's rate, by the round trip that the rate policy wants.
    pub(super) fn cc_rate(&self) -> Option<Rate> {
        let smoothed = self.rtt.smoothed();
        let latest = self.rtt.latest().filter(|_| self.manner.fresh);
        let rtt = latest.map_or(smoothed, |latest| latest.min(smoothed));
        rate::cc_rate(&self.decision, rtt, self.limits.0, self.manner.floor)
    }

    pub(super) fn apply_decision(&mut self) {
        self.decision = self.controller.decision();
        let Decision { pacing, burst, tick, probe, .. } = self.decision;
        if self.backlogged {
            self.pacer.apply(self.decision.bulk_pacing(), burst, tick);
        } else if self.manner.even && probe.is_none() {
            self.pacer.apply(self.cc_rate(), Bytes::ZERO, Span::ZERO);
        } else {
            self.pacer.apply(pacing, burst, tick);
        }
        match self.decision.probe {
            // Padding is for probes only: what one did not need is not sent after it.
            None => self.padding = 0,
            Some(probe) if self.probe_seen != Some(probe.id) => {
                self.probe_seen = Some(probe.id);
                self.padding = probe.bytes.get();
            }
            Some(_) => {}
        }
    }

    pub(super) fn repair_losses(&mut self, now: Time) {
        for index in 0..self.settled.lost.len() {
            if let Some(tag) = self.settled.lost[index].frame {
                self.repair(now, tag.stream, tag.frame, tag.index);
            }
        }
        for index in 0..self.settled.acked.len() {
            if let Some(tag) = self.settled.acked[index].frame
                && let Some(video) = self.videos.get_mut(usize::from(tag.stream))
            {
                video.outbox.acked(tag.frame, tag.index);
            }
        }
    }

    pub(super) fn repair(&mut self, now: Time, stream: u8, frame: u32, index: u16) {
        let queue = self.pacer.rate().map_or(Span::ZERO, |rate| rate.time_to_send(self.repair_bytes()));
        let Some(video) = self.videos.get_mut(usize::from(stream)) else { return };
        if self.manner.flush && video.is_useless(frame) {
            return;
        }
        let Some(last_sent) = video.outbox.last_sent(frame, index) else { return };
        let deadline = video.outbox.frame(frame).map_or(now, |out| out.info.deadline);
        let missing = Missing { stream, frame, index, class: video.outbox.class, last_sent, deadline };
        let view = recovery::View { now, srtt: self.rtt.smoothed(), queue };
        match self.policies.recovery.repair(&view, &missing) {
            Repair::Leave => {}
            Repair::KeyFrame => video.key_requested(frame),
            Repair::Resend if self.repairs.len() < REPAIRS => {
                if !self.repairs.contains(&(stream, frame, index)) {
                    self.repairs.push_back((stream, frame, index));
                }
            }
            Repair::Resend => {}
        }
    }

    pub(super) fn repair_bytes(&self) -> Bytes {
        Bytes::new((self.repairs.len() * self.mtu()) as u64)
    }

    pub(super) fn on_nack(&mut self, now: Time, datagram: &[u8]) {
        let Ok(nack) = Nack::decode(datagram) else { return self.refuse_malformed(now) };
        nack.wanted().for_each(|index| self.repair(now, nack.stream, nack.frame, index));
    }

    pub(super) fn on_key_request(&mut self, now: Time, datagram: &[u8]) {
        let Ok(request) = KeyFrameRequest::decode(datagram) else { return self.refuse_malformed(now) };
        if let Some(video) = self.videos.get_mut(usize::from(request.stream)) {
            video.key_requested(request.after);
        }
    }

    pub(super) fn on_control(&mut self, now: Time, datagram: &[u8]) {
        match Control::decode(datagram) {
            Ok(Control::Welcome { .. }) => self.heard = true,
            Ok(_) => self.counters.foreign += 1,
            Err(_) => self.refuse_malformed(now),
        }
    }

    pub(super) fn refuse_malformed(&mut self, now: Time) {
        self.counters.malformed += 1;
        self.tap.record(now, Event::HostDropped { cause: Dropped::Malformed });
    }
}
