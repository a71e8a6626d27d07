//! A controller under its host: what it is told, what it decided last, and the record of both.

use cc::{Acked, Controller, Decision, FrameTag, Lost, Report, Sent};
use record::{Event, Real, Tap, Topic};
use units::{Bytes, Rate, Span, Time, unlikely};

use crate::ledger::{Carried, Ledger};
use crate::rtt::Rtt;

/// The window counts as used where no more than one part in this many of its bytes is free: bursts seldom
/// fill it to the last byte.
const FREE_PART: u64 = 4;

/// Round trips as a [`Report`] states them.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    /// The sample of this report, if it gave one.
    pub latest: Option<Span>,
    /// Smoothed round-trip time (RFC 9002 section 5.3).
    pub smoothed: Span,
    /// Mean deviation.
    pub variation: Span,
    /// The smallest sample.
    pub min: Span,
}

impl Rtt {
    /// What a report says of it; `sampled`: the report at hand gave a sample.
    #[inline]
    pub fn told(&self, sampled: bool) -> RoundTrips {
        RoundTrips {
            latest: self.latest().filter(|_| sampled),
            smoothed: self.smoothed(),
            variation: self.variation(),
            min: self.min(),
        }
    }
}

/// What was settled, as a [`Report`] states it. The default: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct News<'a> {
    /// Newly acknowledged packets, by number.
    pub acked: &'a [Acked],
    /// Newly lost packets, by number.
    pub lost: &'a [Lost],
    /// Packets given up earlier that arrived after all.
    pub spurious: &'a [u64],
    /// Packets newly reported as congestion-marked.
    pub ce_marks: u32,
    /// Everything sent over three probe timeouts was lost.
    pub persistent_congestion: bool,
    /// Whether the sender is repairing losses, as [`Report::recovering`] has it; `None`: the controller
    /// decides.
    pub recovering: Option<bool>,
    /// Bytes by which a cumulative acknowledgement moved on, as [`Report::in_order`] has it.
    pub in_order: u64,
    /// What the controller's receiver half sent along.
    pub blob: &'a [u8],
}

/// A packet as it leaves, besides what the ledger knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// When it leaves, by the sender's clock.
    pub now: Time,
    /// The transmission's number; a repair has one of its own.
    pub packet: u64,
    /// UDP payload bytes.
    pub size: u32,
    /// Its frame, if it carries one's bytes.
    pub frame: Option<FrameTag>,
    /// What it carries was sent before.
    pub retransmission: bool,
    /// The sender has nothing more to send right now.
    pub app_limited: bool,
}

/// A controller, its latest decision, and whether its host has used all of it.
pub struct CongestionControl {
    controller: Box<dyn Controller>,
    decision: Decision,
    /// When its timer is due: asked after whatever it is told, for hosts want to know more often.
    timer: Option<Time>,
    limited: bool,
    /// Whether the controller [follows](Controller::follows_sending) what is sent.
    follows: bool,
    tap: Tap,
}

impl CongestionControl {
    /// Has the controller's own memory brought into the caches.
    pub fn expect(&self) {
        units::fetch(&*self.controller);
    }

    /// `controller`, which has decided nothing but how to start; `tap` records what it is told and wants.
    pub fn new(controller: Box<dyn Controller>, tap: Tap) -> CongestionControl {
        let (decision, timer) = (controller.decision(), controller.next_timer());
        let follows = controller.follows_sending();
        CongestionControl { controller, decision, timer, limited: false, follows, tap }
    }

    /// A copy that goes on by itself and records with `tap`; none where the controller can't be copied.
    pub fn fork(&self, tap: Tap) -> Option<CongestionControl> {
        let CongestionControl { ref controller, decision, timer, limited, follows, tap: _ } = *self;
        Some(CongestionControl { controller: controller.fork()?, decision, timer, limited, follows, tap })
    }

    /// What the controller wants, as of the last report or timer.
    #[inline]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Another connection begins, under a controller of its own.
    pub fn replace(&mut self, controller: Box<dyn Controller>) {
        self.follows = controller.follows_sending();
        (self.controller, self.limited, self.timer) = (controller, false, None);
        self.ask();
    }

    /// Whether `size` bytes more than `in_flight` stay within the window (RFC 9002 section 7).
    #[inline]
    pub fn window_allows(&self, in_flight: Bytes, size: u64) -> bool {
        self.decision.window.is_none_or(|window| in_flight + Bytes::new(size) <= window)
    }

    /// Window or pacing hold something back: the next report says so ([`Report::limited`]).
    #[inline]
    pub fn limit(&mut self) {
        self.limited = true;
    }

    /// The same if `held`.
    #[inline]
    pub fn limit_if(&mut self, held: bool) {
        self.limited |= held;
    }

    /// Whether that is said already.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// The window counts as used where most of it is.
    #[inline]
    pub fn note_window_use(&mut self, in_flight: Bytes) {
        // Asked for every packet: as long as the window is used, once is enough.
        if !self.limited
            && self.decision.window.is_some_and(|w| in_flight.get() >= w.get() - w.get() / FREE_PART)
        {
            self.limited = true;
        }
    }

    /// Tells the controller of a packet that leaves, after the ledger knows of it, and records it.
    #[inline]
    pub fn sent<T: Carried>(&mut self, leaving: &Leaving, ledger: &Ledger<T>) {
        let Leaving { now, packet, size, frame, retransmission, app_limited } = *leaving;
        let in_flight = ledger.in_flight();
        if self.follows {
            self.controller.on_sent(&Sent { now, packet, size, frame, in_flight, app_limited });
            self.timer = self.controller.next_timer();
        }
        if self.tap.wants(Topic::Packets) {
            let in_flight = in_flight.get().min(u64::from(u32::MAX)) as u32;
            let (stream, frame, version, index) =
                frame.map_or((0, u32::MAX, 0, 0), |tag| (tag.stream, tag.frame, tag.version, tag.index));
            self.tap.record(
                now,
                Event::PacketSent { packet, size, stream, frame, version, index, retransmission, in_flight },
            );
        }
    }

    /// Tells the controller what was settled, and takes its new decision;
    /// [`record_settled`](CongestionControl::record_settled) and
    /// [`record_decision`](CongestionControl::record_decision) record both.
    #[inline]
    pub fn report<T: Carried>(&mut self, now: Time, news: &News<'_>, ledger: &Ledger<T>, rtt: &RoundTrips) {
        let limited = std::mem::take(&mut self.limited);
        self.controller.on_feedback(&Report {
            now,
            acked: news.acked,
            lost: news.lost,
            spurious: news.spurious,
            in_flight: ledger.in_flight(),
            limited,
            latest_rtt: rtt.latest,
            srtt: rtt.smoothed,
            rttvar: rtt.variation,
            min_rtt: rtt.min,
            ce_marks: news.ce_marks,
            persistent_congestion: news.persistent_congestion,
            recovering: news.recovering,
            delivered: ledger.delivered(),
            lost_bytes: ledger.lost(),
            in_order: news.in_order,
            blob: news.blob,
        });
        self.ask();
    }

    /// Takes the controller's new decision.
    #[inline]
    fn ask(&mut self) {
        self.controller.decide(&mut self.decision);
        if self.follows {
            self.timer = self.controller.next_timer();
        }
    }

    /// Tells the controller that datagrams have at most `mtu` bytes from here on, and takes its new decision.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.controller.on_mtu(u32::try_from(mtu).unwrap_or(u32::MAX));
        self.ask();
    }

    /// When the controller's timer is due, if it has one.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    /// Lets the controller's timer run if it is due; true if it was.
    #[inline]
    pub fn run_timer(&mut self, now: Time) -> bool {
        let due = self.timer.is_some_and(|at| at <= now);
        if unlikely(due) {
            self.controller.on_timer(now);
            self.ask();
        }
        due
    }

    /// Whether somebody records what happens to it.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.tap.is_on()
    }

    /// Records what was settled.
    pub fn record_settled(&self, now: Time, news: &News<'_>, rtt: &RoundTrips) {
        if !self.tap.is_on() {
            return;
        }
        if self.tap.wants(Topic::Fates) {
            for acked in news.acked {
                self.tap.record(now, Event::PacketAcked { packet: acked.packet, size: acked.size });
            }
            for lost in news.lost {
                self.tap.record(now, Event::PacketLost { packet: lost.packet, size: lost.size });
            }
            for &packet in news.spurious {
                self.tap.record(now, Event::LossSpurious { packet });
            }
        }
        if let Some(latest) = rtt.latest {
            self.tap.record(now, Event::Rtt { latest, smoothed: rtt.smoothed });
        }
    }

    /// Records the decision, with `pacing` as its host applies it, and the controller's inner quantities.
    #[inline]
    pub fn record_decision(&self, now: Time, pacing: Option<Rate>) {
        if !self.tap.is_on() {
            return;
        }
        let Decision { window, media, .. } = self.decision;
        let window = window.map_or(u64::MAX, Bytes::get);
        let (pacing, media) = (pacing.unwrap_or(Rate::MAX), media.unwrap_or(Rate::MAX));
        self.tap.record(now, Event::Decision { window, pacing, media });
        if self.tap.wants(Topic::Observations) {
            self.observe(&mut |name, value| {
                self.tap.record(now, Event::Observed { name, value: Real(value) });
            });
        }
    }

    /// Names the controller's inner quantities; nothing that runs may read them back.
    pub fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        self.controller.observe(sink);
    }
}
