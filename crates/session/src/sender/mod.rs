//! The sending side.

mod filler;
mod inbound;
mod outbound;
mod timers;

use std::collections::VecDeque;

use cc::{Controller, Decision, Pacer, Setup};
use record::Tap;
use units::{Bytes, Rate, Rng, Span, Time};
use wire::{Endpoint, Kind, MAX_DATAGRAM, RxMeta, TxMeta};

use crate::config::SenderConfig;
use crate::counters::SenderCounters;
use crate::ledger::{Ledger, Settled};
use crate::rate::{self, Manner, RateControl, WaitLimit};
use crate::recovery::{self, Recovery};
use crate::rtt::Rtt;
use crate::schedule::{self, Pick, Schedule};
use crate::shedding::SlowEncoder;
use crate::video::{Supply, VideoStream};
use filler::Filler;

/// Bye is sent this often, for one may be lost.
const BYES: u32 = 3;
/// Every path carries this ([`Endpoint::transmit`]).
const LEAST_PATH: usize = 1150;
/// With nothing acknowledged for so long, as long as a probe for an answer waits at most, long datagrams are under suspicion, ...
const UNHEARD: Span = Span::from_millis(500);
/// ... for as long as a black hole of quinn's keeps it from searching again.
const NARROW_FOR: Span = Span::from_secs(60);
/// A probe for the sake of an answer: a padding packet of this size.
const PROBE_SIZE: usize = 200;

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
    /// The longest datagram that is packed at present, as far as the path is concerned.
    path: usize,
    /// Until then no more is trusted than every path carries.
    narrow_until: Time,
    /// Since when something has been in flight, and nothing was acknowledged.
    unheard_since: Time,
    limits: (Rate, Rate),
    controller: Box<dyn Controller>,
    policies: Policies,
    /// How the rate policy wants things between frames.
    manner: Manner,
    /// When dummies may leave, if the manner has any.
    filler: Option<Filler>,
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
    /// The window had room when something was last to be sent; kept where a decision wants whole intervals.
    was_open: bool,
    decision: Decision,
    /// What the encoder of the latest frame was asked for.
    target: Option<Rate>,
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
    /// The controller as receivers are told of it, and what it was built with; `None` tells them nothing.
    announced: Option<(String, Setup)>,
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
        let manner = policies.rate.manner();
        let longest = match manner.limit {
            WaitLimit::OfCapture(longest) => longest,
            WaitLimit::OfOldest(_) => Span::MAX,
        };
        let mut videos = Vec::new();
        let mut backlogged = false;
        for supply in supplies {
            match supply {
                Supply::Video(video) => {
                    videos.push(VideoStream::new(videos.len() as u8, video, config.picture.1, longest));
                }
                Supply::Backlog => backlogged = true,
            }
        }
        let mut fresh = vec![0; videos.len()];
        fresh.extend(backlogged.then_some(usize::MAX));
        let mut sender = Sender {
            config,
            path: usize::MAX,
            narrow_until: Time::ZERO,
            unheard_since: Time::ZERO,
            limits: (setup.min, setup.max),
            decision: controller.decision(),
            controller,
            policies,
            manner,
            filler: manner.dummies.map(|dummies| Filler::new(dummies, config.mtu)),
            rng,
            tap,
            videos,
            backlogged,
            fresh,
            repairs: VecDeque::new(),
            ledger: Ledger::default(),
            settled: Settled::default(),
            rtt: Rtt::default(),
            pacer: Pacer::in_bunches(config.bunch),
            was_open: true,
            target: None,
            padding: 0,
            probe_seen: None,
            limited: false,
            probe_due: false,
            timeouts_in_a_row: 0,
            last_sent_at: Time::ZERO,
            feedback_seen: 0,
            hello_at: Some(Time::ZERO),
            announced: None,
            heard: false,
            byes_left: BYES,
            counters: SenderCounters::default(),
        };
        sender.apply_decision();
        sender
    }

    /// The same sender, telling its receiver in each hello that it sends under `controller` (its name and options), so that
    /// the receiver can build the half that lives there.
    pub fn announcing(self, controller: &str, setup: &Setup) -> Sender {
        Sender { announced: Some((controller.to_owned(), *setup)), ..self }
    }

    /// Counts since the start.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// The longest datagram that is sent at present, in bytes.
    pub fn mtu(&self) -> usize {
        self.config.mtu.min(self.path)
    }

    /// Smoothed round-trip time.
    pub fn srtt(&self) -> Span {
        self.rtt.smoothed()
    }

    /// Smoothed round-trip time once there is a sample; [`srtt`](Sender::srtt) is a first guess until then.
    pub fn measured_srtt(&self) -> Option<Span> {
        self.rtt.latest().map(|_| self.rtt.smoothed())
    }

    /// How far the smoothed round trip lies above the smallest of the session: what waits in queues, or a path that has grown.
    pub fn queue_delay(&self) -> Span {
        (self.rtt.smoothed() - self.rtt.min()).max(Span::ZERO)
    }

    /// The bitrate that the latest frame was planned with, in datagram bits a second.
    pub fn target(&self) -> Option<Rate> {
        self.target
    }

    /// Rows of the first stream's latest picture, as it was given to the encoder; the source's, where it keeps its size.
    pub fn height(&self) -> u16 {
        self.videos.first().and_then(VideoStream::height).unwrap_or(self.config.picture.1)
    }

    /// The first stream's encoder, while it is too slow for the source's pictures: what the sender gives up for it.
    pub fn slow_encoder(&self) -> Option<SlowEncoder> {
        self.videos.first().and_then(VideoStream::slow_encoder)
    }

    /// What the controller wants at present.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Names the rate policy's inner quantities, as of its last plan.
    pub fn observe_rate(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        self.policies.rate.observe(sink);
    }

    /// Every source has ended, everything was sent, and the receiver has been told.
    pub fn is_finished(&self) -> bool {
        self.byes_left == 0
    }

    /// Captures nothing until told to go on. What was captured is still sent.
    pub fn set_paused(&mut self, now: Time, paused: bool) {
        self.videos.iter_mut().for_each(|video| video.set_paused(now, paused));
    }

    /// Captures nothing more, as if every source had ended. What was captured is still sent.
    pub fn end(&mut self) {
        self.videos.iter_mut().for_each(VideoStream::end);
    }

    /// Holds the media rate to `max`, whatever the controller advises, but never below the session's lowest rate.
    pub fn set_max(&mut self, max: Rate) {
        self.limits.1 = max.max(self.limits.0);
    }

    /// The driver can send datagrams of this length at present: what is packed later keeps to it, and what waits already is packed
    /// anew or, where that has begun, given up.
    #[inline]
    fn fit(&mut self, now: Time, room: usize) {
        // A driver that offers all there is knows nothing of its path.
        let narrow = room < MAX_DATAGRAM && self.is_narrow(now);
        let path = if narrow { LEAST_PATH } else { room.max(LEAST_PATH) };
        let before = self.mtu();
        self.path = path;
        if before > path {
            self.repack();
        }
    }

    /// A path on which nothing arrives any more may carry less than it did. A transport that finds its MTU needs acknowledgements
    /// to notice, and there are none while all packets are too long.
    fn is_narrow(&mut self, now: Time) -> bool {
        if self.ledger.in_flight() > Bytes::ZERO && now - self.unheard_since > UNHEARD {
            self.narrow_until = now + NARROW_FOR;
        }
        now < self.narrow_until
    }

    fn repack(&mut self) {
        let room = self.room();
        for (video, fresh) in self.videos.iter_mut().zip(&mut self.fresh) {
            let unsent = video.outbox.fit(room);
            if unsent > 0 {
                self.counters.expired += unsent;
                video.want_key();
            }
            *fresh = video.outbox.waiting_packets();
        }
    }

    fn is_drained(&self) -> bool {
        !self.backlogged && self.videos.iter().all(|video| video.is_drained() && video.outbox.is_empty())
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
            Ok((
                Kind::Media | Kind::Segment | Kind::SegmentAck | Kind::TimingProbe | Kind::TimingEcho,
                _,
            )) => self.counters.foreign += 1,
            Err(_) => self.refuse_malformed(now),
        }
    }

    fn wake(&mut self, now: Time) {
        self.run_timers(now);
        if !self.videos.is_empty() {
            self.expire(now);
            self.capture(now);
            if let Some(filler) = &mut self.filler {
                filler.look_again();
            }
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let mut at = Time::MAX;
        let mut consider = |candidate: Option<Time>| at = at.min(candidate.unwrap_or(Time::MAX));
        consider(self.hello_at.filter(|_| !self.heard));
        consider(self.ledger.loss_at());
        consider(self.probe_timeout_at().filter(|_| !self.probe_due));
        consider(self.sign_at().filter(|_| !self.probe_due));
        consider(self.controller.next_timer());
        self.videos.iter().for_each(|video| consider(video.next_wake()));
        consider(self.reset_at());
        if self.has_work() {
            consider(Some(self.pacer.next()).filter(|_| self.window_is_open()));
        } else {
            consider(self.dummy_at());
        }
        (at != Time::MAX).then_some(at)
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.fit(now, out.len());
        if (!self.heard || !self.backlogged)
            && let Some(meta) = self.transmit_control(now, out)
        {
            return Some(meta);
        }
        if self.reset_at().is_some_and(|at| at <= now) {
            self.expire(now);
        }
        if std::mem::take(&mut self.probe_due) {
            return Some(self.transmit_probe(now, out));
        }
        if self.decision.whole_interval {
            self.watch_window(now);
        }
        if self.pacer.next() > now {
            return None;
        }
        loop {
            let view =
                schedule::View { repairs: self.repairs.len(), fresh: &self.fresh, padding: self.padding };
            let pick = self.policies.schedule.pick(&view);
            if pick == Pick::Nothing {
                return self.transmit_dummy(now, out);
            }
            if !self.window_is_open() {
                self.limited = true;
                self.pacer.pause();
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
                    self.padding = self.padding.saturating_sub(self.mtu() as u64);
                    return Some(self.transmit_padding(now, self.mtu(), out));
                }
                Pick::Nothing => return None,
            }
        }
    }
}
