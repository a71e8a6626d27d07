//! The sending side.

use std::collections::VecDeque;

use cc::{Controller, Decision, FrameTag, Report, Sent, Setup};
use record::{Event, Real, Tap};
use units::{Bytes, Rate, Rng, Span, Time};
use wire::{Class, Control, Endpoint, Feedback, KeyFrameRequest, Kind, Media, Nack, RxMeta, TxMeta};

use crate::config::SenderConfig;
use crate::counters::SenderCounters;
use crate::ledger::{Ledger, Settled, Transmission};
use crate::pacer::Pacer;
use crate::rate::{self, RateControl};
use crate::recovery::{self, Missing, Recovery, Repair};
use crate::rtt::Rtt;
use crate::schedule::{self, Pick, Schedule};
use crate::video::{Supply, VideoStream};

/// Repairs waiting at most; with more, the newest are refused (their frames are late anyway).
const REPAIRS: usize = 4096;
/// Probe timeouts back off to at most this, so that a path that comes back is noticed within it.
const MAX_PROBE_TIMEOUT: Span = Span::from_millis(500);
/// Hello is repeated this often until anything is heard.
const HELLO_INTERVAL: Span = Span::from_millis(250);
/// Bye is sent this often, for one may be lost.
const BYES: u32 = 3;
/// A probe for the sake of an answer: a padding packet of this size.
const PROBE_SIZE: usize = 200;
/// The window counts as used from this share on: bursts seldom meet it exactly.
const LIMITED_SHARE: f64 = 0.75;

/// The three policies of a sender.
pub struct Policies {
    /// Bitrate of each frame.
    pub rate: Box<dyn RateControl>,
    /// Answers to losses.
    pub recovery: Box<dyn Recovery>,
    /// Order of sending.
    pub schedule: Box<dyn Schedule>,
}

impl Default for Policies {
    /// Hysteresis, retransmission under a deadline, repairs first.
    fn default() -> Policies {
        Policies {
            rate: Box::new(rate::Live::default()),
            recovery: Box::new(recovery::Retransmit),
            schedule: Box::new(schedule::Live),
        }
    }
}

/// The sending endpoint.
pub struct Sender {
    config: SenderConfig,
    limits: (Rate, Rate),
    controller: Box<dyn Controller>,
    policies: Policies,
    rng: Rng,
    tap: Tap,
    videos: Vec<VideoStream>,
    backlogged: bool,
    /// Packets waiting per stream, as [`schedule::View`] wants them; the backlog, if any, is the last.
    fresh: Vec<usize>,
    repairs: VecDeque<(u8, u32, u16)>,
    ledger: Ledger,
    settled: Settled,
    rtt: Rtt,
    pacer: Pacer,
    decision: Decision,
    padding: u64,
    probe_seen: Option<u32>,
    /// Something was held back by the window since the last report, or most of it was used.
    limited: bool,
    /// Replies owed: a probe because a timeout passed.
    probe_due: bool,
    timeouts_in_a_row: u32,
    last_sent_at: Time,
    feedback_seen: u32,
    hello_at: Option<Time>,
    heard: bool,
    byes_left: u32,
    counters: SenderCounters,
}

impl Sender {
    /// A sender of `supplies` (each a stream, numbered in order) under `controller`. `setup` must be what the controller
    /// was built with; `rng` jitters frame starts.
    pub fn new(
        config: SenderConfig,
        setup: &Setup,
        controller: Box<dyn Controller>,
        policies: Policies,
        supplies: Vec<Supply>,
        rng: Rng,
        tap: Tap,
    ) -> Sender {
        let mut videos = Vec::new();
        let mut backlogged = false;
        for supply in supplies {
            match supply {
                Supply::Video(video) => videos.push(VideoStream::new(videos.len() as u8, video)),
                Supply::Backlog => backlogged = true,
            }
        }
        let mut fresh = vec![0; videos.len()];
        fresh.extend(backlogged.then_some(usize::MAX));
        let mut sender = Sender {
            config,
            limits: (setup.min, setup.max),
            decision: controller.decision(),
            controller,
            policies,
            rng,
            tap,
            videos,
            backlogged,
            fresh,
            repairs: VecDeque::new(),
            ledger: Ledger::default(),
            settled: Settled::default(),
            rtt: Rtt::default(),
            pacer: Pacer::default(),
            padding: 0,
            probe_seen: None,
            limited: false,
            probe_due: false,
            timeouts_in_a_row: 0,
            last_sent_at: Time::ZERO,
            feedback_seen: 0,
            hello_at: Some(Time::ZERO),
            heard: false,
            byes_left: BYES,
            counters: SenderCounters::default(),
        };
        sender.apply_decision();
        sender
    }

    /// Counts since the start.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Smoothed round-trip time.
    pub fn srtt(&self) -> Span {
        self.rtt.smoothed()
    }

    /// What the controller wants at present.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Every source has ended, everything was sent, and the receiver has been told.
    pub fn is_finished(&self) -> bool {
        self.byes_left == 0
    }

    fn is_drained(&self) -> bool {
        !self.backlogged && self.videos.iter().all(|video| video.is_drained() && video.outbox.is_empty())
    }

    // ---- what comes back ------------------------------------------------------------------------------------------

    fn on_feedback(&mut self, now: Time, datagram: &[u8]) {
        let Ok(feedback) = Feedback::decode(datagram) else {
            self.refuse_malformed(now);
            return;
        };
        let gap = feedback.sequence != self.feedback_seen.wrapping_add(1);
        let settled = self.ledger.settle(now, &feedback, gap, &mut self.rtt, &mut self.settled);
        if settled.is_err() {
            self.counters.implausible += 1;
            self.tap.record(now, Event::HostDropped { cause: record::Dropped::FarFuture });
            return;
        }
        self.feedback_seen = self.feedback_seen.max(feedback.sequence);
        self.heard = true;
        if !self.settled.acked.is_empty() {
            self.timeouts_in_a_row = 0;
        }
        self.report(now, feedback.blob);
    }

    /// Tells the controller, the records and the recovery policy what was just settled.
    fn report(&mut self, now: Time, blob: &[u8]) {
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
            delivered: self.ledger.delivered(),
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

    fn record_settled(&self, now: Time) {
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

    fn record_decision(&self, now: Time) {
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

    fn apply_decision(&mut self) {
        self.decision = self.controller.decision();
        // A backlogged flow is media at exactly the advised rate: bursts above it are for frames.
        let advised = self.decision.media.filter(|_| self.backlogged);
        let pacing = match (self.decision.pacing, advised) {
            (Some(pacing), Some(media)) => Some(pacing.min(media)),
            (pacing, media) => pacing.or(media),
        };
        self.pacer.apply(pacing, self.decision.burst);
        if let Some(probe) = self.decision.probe.filter(|probe| self.probe_seen != Some(probe.id)) {
            self.probe_seen = Some(probe.id);
            self.padding += probe.bytes.get();
        }
    }

    fn repair_losses(&mut self, now: Time) {
        for index in 0..self.settled.lost.len() {
            if let Some(tag) = self.settled.lost[index].frame {
                self.repair(now, tag.stream, tag.frame, tag.index);
            }
        }
        for index in 0..self.settled.acked.len() {
            if let Some(tag) = self.settled.acked[index].frame
                && let Some(video) = self.videos.get_mut(usize::from(tag.stream))
            {
                video.outbox.acked(tag.frame);
            }
        }
    }

    fn repair(&mut self, now: Time, stream: u8, frame: u32, index: u16) {
        let queue = self.pacer.rate().map_or(Span::ZERO, |rate| rate.time_to_send(self.repair_bytes()));
        let Some(video) = self.videos.get_mut(usize::from(stream)) else { return };
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

    fn repair_bytes(&self) -> Bytes {
        Bytes::new((self.repairs.len() * self.config.mtu) as u64)
    }

    fn on_nack(&mut self, now: Time, datagram: &[u8]) {
        let Ok(nack) = Nack::decode(datagram) else { return self.refuse_malformed(now) };
        nack.wanted().for_each(|index| self.repair(now, nack.stream, nack.frame, index));
    }

    fn on_key_request(&mut self, now: Time, datagram: &[u8]) {
        let Ok(request) = KeyFrameRequest::decode(datagram) else { return self.refuse_malformed(now) };
        if let Some(video) = self.videos.get_mut(usize::from(request.stream)) {
            video.key_requested(request.after);
        }
    }

    fn on_control(&mut self, now: Time, datagram: &[u8]) {
        match Control::decode(datagram) {
            Ok(Control::Welcome { .. }) => self.heard = true,
            Ok(_) => self.counters.foreign += 1,
            Err(_) => self.refuse_malformed(now),
        }
    }

    fn refuse_malformed(&mut self, now: Time) {
        self.counters.malformed += 1;
        self.tap.record(now, Event::HostDropped { cause: record::Dropped::Malformed });
    }

    // ---- time -----------------------------------------------------------------------------------------------------

    fn capture(&mut self, now: Time) {
        let room = self.room();
        for index in 0..self.videos.len() {
            self.videos[index].collect(now, room, &mut self.counters, &self.tap);
            if self.videos[index].capture_at().is_some_and(|at| at <= now) {
                let view = self.rate_view(now, index);
                let plan = self.policies.rate.plan(&view);
                let jitter = self.decision.frame_jitter;
                let (counters, tap) = (&mut self.counters, &self.tap);
                self.videos[index].capture(now, plan, jitter, &mut self.rng, &self.config, counters, tap);
                self.videos[index].collect(now, room, counters, tap);
            }
            self.fresh[index] = self.videos[index].outbox.waiting_packets();
        }
    }

    fn rate_view(&self, now: Time, index: usize) -> rate::View {
        let outbox = &self.videos[index].outbox;
        rate::View {
            now,
            advice: self.decision.media,
            window: self.decision.window,
            srtt: self.rtt.smoothed(),
            queued: Bytes::new(outbox.waiting_bytes()) + self.repair_bytes(),
            waited: outbox.waiting_since().map_or(Span::ZERO, |since| now - since),
            patience: self.config.patience,
            limits: self.limits,
        }
    }

    /// Payload a packet carries.
    fn room(&self) -> u32 {
        (self.config.mtu - Media::LEN) as u32
    }

    fn expire(&mut self, now: Time) {
        for (index, video) in self.videos.iter_mut().enumerate() {
            let unsent = video.outbox.expire(now);
            if unsent > 0 {
                self.counters.expired += unsent;
                video.want_key();
            }
            self.fresh[index] = video.outbox.waiting_packets();
        }
    }

    fn probe_timeout_at(&self) -> Option<Time> {
        let backed_off = self.rtt.probe_timeout() * (1 << self.timeouts_in_a_row.min(6));
        (self.ledger.in_flight() > Bytes::ZERO).then(|| self.last_sent_at + backed_off.min(MAX_PROBE_TIMEOUT))
    }

    fn run_timers(&mut self, now: Time) {
        if self.ledger.loss_at().is_some_and(|at| at <= now) {
            self.ledger.find_losses_at(now, &self.rtt, &mut self.settled);
            if !self.settled.is_empty() {
                self.report(now, &[]);
            }
        }
        if !self.probe_due && self.probe_timeout_at().is_some_and(|at| at <= now) {
            self.probe_due = true;
            self.timeouts_in_a_row += 1;
            self.counters.timeouts += 1;
        }
        if self.controller.next_timer().is_some_and(|at| at <= now) {
            self.controller.on_timer(now);
            self.apply_decision();
            self.record_decision(now);
        }
    }

    // ---- what goes out --------------------------------------------------------------------------------------------

    fn has_work(&self) -> bool {
        self.padding > 0 || !self.repairs.is_empty() || self.fresh.iter().any(|&waiting| waiting > 0)
    }

    #[inline]
    fn window_allows(&self, size: usize) -> bool {
        self.decision.window.is_none_or(|window| self.ledger.in_flight() + Bytes::new(size as u64) <= window)
    }

    fn control_due(&self, now: Time) -> bool {
        self.hello_at.is_some_and(|at| at <= now) && !self.heard
    }

    fn transmit_control(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let session = self.config.session;
        let control = if self.control_due(now) {
            self.hello_at = Some(now + HELLO_INTERVAL);
            let (width, height) = self.config.picture;
            let interval = self.videos.first().map_or(Span::ZERO, |video| video.interval());
            Control::Hello { session, width, height, interval_us: interval.as_micros() as u32 }
        } else if self.byes_left > 0 && self.is_drained() {
            self.byes_left -= 1;
            Control::Bye { session }
        } else {
            return None;
        };
        let head = control.encode(out);
        Some(TxMeta { head, length: head, ..TxMeta::default() })
    }

    /// Writes a packet of no frame, `length` bytes in all.
    fn transmit_padding(&mut self, now: Time, length: usize, out: &mut [u8]) -> TxMeta {
        let app_limited = !self.backlogged;
        let transmission = Transmission { sent_at: now, size: length as u32, frame: None, app_limited };
        let packet = self.dispatch(now, &transmission);
        let media = Media {
            session: self.config.session,
            packet,
            sent: now.on_wire(),
            feedback_seen: self.feedback_seen,
            stream: 0,
            class: Class::Padding,
            frame: 0,
            version: 0,
            index: 0,
            count: 1,
            captured: now.on_wire(),
            deadline: Span::ZERO,
            reference: 0,
            key: false,
            retransmission: false,
            alone: false,
        };
        let head = media.encode(out);
        TxMeta { head, length, payload: None, ecn: self.config.ecn }
    }

    /// Enters a transmission everywhere and returns its number.
    #[inline]
    fn dispatch(&mut self, now: Time, transmission: &Transmission) -> u64 {
        let size = transmission.size;
        let packet = self.ledger.sent(transmission);
        let in_flight = self.ledger.in_flight();
        self.pacer.sent(now, Bytes::new(u64::from(size)));
        self.last_sent_at = now;
        self.counters.packets += 1;
        self.counters.bytes += u64::from(size);
        if self.decision.window.is_some_and(|w| in_flight.get() as f64 >= LIMITED_SHARE * w.get() as f64) {
            self.limited = true;
        }
        let (frame, app_limited) = (transmission.frame, transmission.app_limited);
        self.controller.on_sent(&Sent { now, packet, size, frame, in_flight, app_limited });
        if self.tap.is_on() {
            let (stream, frame_id, index, retransmission) = frame.map_or((0, u32::MAX, 0, false), |tag| {
                (tag.stream, tag.frame, tag.index, tag.retransmission)
            });
            let in_flight = in_flight.get() as u32;
            let frame = frame_id;
            self.tap.record(
                now,
                Event::PacketSent { packet, size, stream, frame, index, retransmission, in_flight },
            );
        }
        packet
    }

    /// Sends packet `index` of a frame still in the outbox.
    fn transmit_part(
        &mut self,
        now: Time,
        stream: usize,
        frame: u32,
        index: u16,
        retransmission: bool,
        out: &mut [u8],
    ) -> Option<TxMeta> {
        let outbox = &self.videos[stream].outbox;
        let class = outbox.class;
        let queued = outbox.frame(frame)?;
        let (length, payload) = queued.part(index);
        let length = length + Media::LEN;
        let mut media = Media {
            session: self.config.session,
            packet: 0,
            sent: now.on_wire(),
            feedback_seen: self.feedback_seen,
            stream: stream as u8,
            class,
            frame,
            version: 0,
            index,
            count: queued.count,
            captured: queued.info.captured.on_wire(),
            deadline: queued.info.deadline - queued.info.captured,
            reference: queued.info.reference,
            key: queued.key,
            retransmission,
            alone: queued.alone,
        };
        let tag = FrameTag { stream: stream as u8, frame, index, count: queued.count, retransmission };
        let app_limited = self.repairs.is_empty() && self.fresh.iter().sum::<usize>() <= 1;
        let transmission = Transmission { sent_at: now, size: length as u32, frame: Some(tag), app_limited };
        media.packet = self.dispatch(now, &transmission);
        let head = media.encode(out);
        Some(TxMeta { head, length, payload, ecn: self.config.ecn })
    }

    fn transmit_repair(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let (stream, frame, index) = self.repairs.pop_front()?;
        let meta = self.transmit_part(now, usize::from(stream), frame, index, true, out)?;
        self.videos[usize::from(stream)].outbox.resent(now, frame, index);
        self.counters.retransmissions += 1;
        Some(meta)
    }

    fn transmit_fresh(&mut self, now: Time, stream: usize, out: &mut [u8]) -> Option<TxMeta> {
        if stream == self.videos.len() {
            return Some(self.transmit_padding(now, self.config.mtu, out));
        }
        let current = self.videos[stream].outbox.current()?;
        let (frame, index, packets) = (current.info.frame, current.next, current.count);
        let meta = self.transmit_part(now, stream, frame, index, false, out);
        let outbox = &mut self.videos[stream].outbox;
        if outbox.advance(now) {
            self.tap.record(now, Event::FrameSent { stream: stream as u8, frame, packets });
        }
        self.fresh[stream] = outbox.waiting_packets();
        meta
    }
}

impl Endpoint for Sender {
    fn receive(&mut self, now: Time, datagram: &[u8], _meta: RxMeta) {
        match wire::peek(datagram) {
            Ok((_, session)) if session != self.config.session => self.counters.foreign += 1,
            Ok((Kind::Feedback, _)) => self.on_feedback(now, datagram),
            Ok((Kind::Nack, _)) => self.on_nack(now, datagram),
            Ok((Kind::KeyFrameRequest, _)) => self.on_key_request(now, datagram),
            Ok((Kind::Control, _)) => self.on_control(now, datagram),
            Ok((Kind::Media, _)) => self.counters.foreign += 1,
            Err(_) => self.refuse_malformed(now),
        }
    }

    fn wake(&mut self, now: Time) {
        self.run_timers(now);
        if !self.videos.is_empty() {
            self.expire(now);
            self.capture(now);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let mut at = Time::MAX;
        let mut consider = |candidate: Option<Time>| at = at.min(candidate.unwrap_or(Time::MAX));
        consider(self.hello_at.filter(|_| !self.heard));
        consider(self.ledger.loss_at());
        consider(self.probe_timeout_at().filter(|_| !self.probe_due));
        consider(self.controller.next_timer());
        self.videos.iter().for_each(|video| consider(video.next_wake()));
        if self.has_work() && self.window_allows(self.config.mtu) {
            consider(Some(self.pacer.next()));
        }
        (at != Time::MAX).then_some(at)
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if (!self.heard || !self.backlogged)
            && let Some(meta) = self.transmit_control(now, out)
        {
            return Some(meta);
        }
        if std::mem::take(&mut self.probe_due) {
            return Some(self.transmit_padding(now, PROBE_SIZE.min(self.config.mtu), out));
        }
        if self.pacer.next() > now {
            return None;
        }
        loop {
            let view =
                schedule::View { repairs: self.repairs.len(), fresh: &self.fresh, padding: self.padding };
            let pick = self.policies.schedule.pick(&view);
            if pick == Pick::Nothing {
                return None;
            }
            if !self.window_allows(self.config.mtu) {
                self.limited = true;
                return None;
            }
            match pick {
                // A repair whose frame has gone meanwhile is passed over.
                Pick::Repair => match self.transmit_repair(now, out) {
                    Some(meta) => return Some(meta),
                    None => continue,
                },
                Pick::Fresh(stream) => return self.transmit_fresh(now, stream, out),
                Pick::Padding => {
                    self.padding = self.padding.saturating_sub(self.config.mtu as u64);
                    return Some(self.transmit_padding(now, self.config.mtu, out));
                }
                Pick::Nothing => return None,
            }
        }
    }
}
