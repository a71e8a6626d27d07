//! The sending side.

mod filler;
mod inbound;
mod outbound;
mod timers;

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::offset_of;

use cc::{Controller, Decision, FrameTag, Setup};
use media::Encoder;
use predict::Watch;
use record::Tap;
use transport::{Core, Pace};
use units::{Rate, Rng, Span, Sparing, Time, fetch, fetch_front, fetch_line, likely, unlikely};
use wire::{
    Class, Dialect, Endpoint, FrameId, Kind, MAX_DATAGRAM, Native, RxMeta, Spoken, TxMeta, WireError,
};

use crate::capture::Capture;
use crate::chain;
use crate::config::SenderConfig;
use crate::counters::{ModeCount, SenderCounters};
use crate::rate::{self, Manner, RateControl, WaitLimit};
use crate::schedule::{self, Pick};
use crate::shedding::SlowEncoder;
use crate::strategy::{self, Strategy};
use crate::supply::{Supply, Tracks};
use crate::track::{Terms, Track};
use filler::Filler;
use timers::Wants;

/// Bye is sent this often, for one may be lost.
const BYES: u32 = 3;
/// A probe for the sake of an answer: a padding packet of this size.
const PROBE_SIZE: usize = 200;
/// Until when something holds that holds for one instant.
const INSTANT: Span = Span::from_nanos(1);

/// What decides for a sender.
pub struct Policies {
    /// Bits for each captured frame.
    pub rate: Box<dyn RateControl>,
    /// What tracks make of them, answers to losses, order of sending.
    pub strategy: Box<dyn Strategy>,
}

impl Default for Policies {
    /// Hysteresis; one track, retransmission under a deadline, repairs first.
    fn default() -> Policies {
        Policies { rate: Box::new(rate::Live::default()), strategy: Box::new(strategy::Live::default()) }
    }
}

/// The sending endpoint.
// In this order, and from the start of a line of the caches on: what every packet of a backlog asks for lies
// together, so that a crowd of senders waits for fifteen lines of each instead of twenty-five.
#[repr(C, align(64))]
pub struct Sender {
    /// Packets in flight, and the controller. What carries a frame's bytes says which.
    core: Core<Option<FrameTag>>,
    /// Until when nothing is due but the next packet; once that has left, for this instant only.
    quiet_until: Cell<Time>,
    feedback_seen: u32,
    byes_left: u32,
    heard: bool,
    backlogged: bool,
    /// No encoder was at work when [`next_wake`](Endpoint::next_wake) last looked, and nothing has happened
    /// since but that packets left: `wanted` and `quiet_until` still hold.
    undisturbed: Cell<bool>,
    hello_at: Option<Time>,
    config: SenderConfig,
    dialect: Spoken,
    /// Foresees losses for the strategy, if it wants that. As large as the rest together: most have none.
    watch: Option<Box<Watch>>,
    captures: Vec<Capture>,
    /// Of all captures, each one's together.
    tracks: Vec<Track>,
    /// When dummies may leave, if the manner has any.
    filler: Option<Filler>,
    tap: Tap,
    counters: SenderCounters,
    // A backlog asks for nothing of what follows.
    repairs: VecDeque<(u8, FrameId, u16)>,
    /// What captures and tracks want of the clock.
    wanted: Cell<Wants>,
    policies: Policies,
    /// How the rate policy wants things between frames.
    manner: Manner,
    limits: (Rate, Rate),
    rng: Rng,
    /// Packets waiting per track, as [`schedule::View`] wants them; the backlog, if any, is the last. Written
    /// anew before each look.
    fresh: Vec<usize>,
    /// A capture's tracks, as a strategy sees them. Written anew before each look.
    views: Vec<strategy::TrackView>,
    /// What a track has for the strategy to hear.
    news: Vec<strategy::News>,
    /// What the strategy has been at, in the order it first was; ...
    modes: Vec<ModeCount>,
    /// ... and which of these it was at when it was last asked.
    mode: Option<usize>,
    /// What the encoder of the latest frame was asked for.
    target: Option<Rate>,
    /// The controller as receivers are told of it, and what it was built with; `None` tells them nothing.
    /// Boxed, since only hellos read it.
    announced: Option<Box<(String, Setup)>>,
}

impl Sender {
    /// A sender of `supplies` (each a stream, numbered in order) under `controller`. `setup` must be what the
    /// controller was built with; `rng` jitters frame starts.
    pub fn new(
        config: SenderConfig,
        setup: &Setup,
        controller: Box<dyn Controller>,
        mut policies: Policies,
        supplies: Vec<Supply>,
        rng: Rng,
        tap: Tap,
    ) -> Sender {
        let watch = policies.strategy.take_watch().map(Box::new);
        let manner = policies.rate.manner();
        let mut captures = Vec::new();
        let mut tracks = Vec::new();
        let mut backlogged = false;
        for supply in supplies {
            let Tracks { encoders, source, interval } = match supply {
                Supply::Video(video) => video.into(),
                Supply::Tracks(tracks) => tracks,
                Supply::Backlog => {
                    backlogged = true;
                    continue;
                }
            };
            let (number, first) = (captures.len() as u8, tracks.len());
            tracks.extend(built(number, &*policies.strategy, &manner, &config, encoders, interval));
            captures.push(Capture::new(number, first..tracks.len(), source, interval));
        }
        Sender {
            config,
            dialect: Spoken::default(),
            core: Core::new(core_config(&config, &manner, setup, backlogged), controller, tap.clone()),
            limits: (setup.min, setup.max),
            policies,
            manner,
            watch,
            filler: manner.dummies.map(|dummies| Filler::new(dummies, config.mtu)),
            rng,
            tap,
            captures,
            tracks,
            backlogged,
            fresh: Vec::new(),
            views: Vec::new(),
            news: Vec::new(),
            modes: Vec::new(),
            mode: None,
            repairs: VecDeque::new(),
            target: None,
            feedback_seen: 0,
            hello_at: Some(Time::ZERO),
            announced: None,
            heard: false,
            undisturbed: Cell::new(false),
            wanted: Cell::new(Wants::NOTHING),
            quiet_until: Cell::new(Time::ZERO),
            byes_left: BYES,
            counters: SenderCounters::default(),
        }
    }

    /// The same sender, telling its receiver in each hello that it sends under `controller` (its name and
    /// options), so that the receiver can build the half that lives there.
    pub fn announcing(self, controller: &str, setup: &Setup) -> Sender {
        Sender { announced: Some(Box::new((controller.to_owned(), *setup))), ..self }
    }

    /// The same sender, which has sent nothing yet, and writes and reads packets in another encoding than
    /// [`Native`].
    pub fn speaking(mut self, dialect: Box<dyn Dialect>) -> Sender {
        self.tracks.iter_mut().for_each(|track| track.outbox.set_header(dialect.header()));
        Sender { dialect: Spoken::Other(dialect), ..self }
    }

    /// The same sender, which writes its packets down as plain numbers instead of encoding them
    /// ([`Spoken::Plain`]): between hosts of one `netsim::World`, whose links go by lengths. Its receiver
    /// must be [made so](crate::Receiver::handing_over) too; one that isn't refuses them as malformed.
    pub fn handing_over(self) -> Sender {
        Sender { dialect: Spoken::Plain, ..self }
    }

    /// Counts since the start.
    pub fn counters(&self) -> SenderCounters {
        let transport::Counts { packets, bytes, lost, spurious, timeouts } = self.core.counts();
        SenderCounters { packets, bytes, lost, spurious, timeouts, ..self.counters }
    }

    /// The longest datagram that is sent at present, in bytes.
    pub fn mtu(&self) -> usize {
        self.core.mtu()
    }

    /// Smoothed round-trip time.
    pub fn srtt(&self) -> Span {
        self.core.rtt().smoothed()
    }

    /// Smoothed round-trip time once there is a sample; [`srtt`](Sender::srtt) is a first guess until then.
    pub fn measured_srtt(&self) -> Option<Span> {
        self.core.rtt().latest().map(|_| self.srtt())
    }

    /// How far the smoothed round trip lies above the smallest of the session: what waits in queues, or a
    /// path that has grown.
    pub fn queue_delay(&self) -> Span {
        (self.srtt() - self.core.rtt().min()).max(Span::ZERO)
    }

    /// The bitrate that the latest frame was planned with, in datagram bits a second.
    pub fn target(&self) -> Option<Rate> {
        self.target
    }

    /// Rows of the first stream's latest picture, as it was given to the encoder; the source's, where it
    /// keeps its size.
    pub fn height(&self) -> u16 {
        self.tracks.first().and_then(Track::height).unwrap_or(self.config.picture.1)
    }

    /// The first stream's encoder, while it is too slow for the source's pictures: what the sender gives up
    /// for it.
    pub fn slow_encoder(&self) -> Option<SlowEncoder> {
        self.tracks.first().and_then(Track::slow_encoder)
    }

    /// What the strategy was at when it last saw a captured frame ([`Strategy::mode`]); before that, what it
    /// begins with.
    pub fn mode(&self) -> &'static str {
        self.mode.map_or_else(|| self.policies.strategy.mode(), |at| self.modes[at].mode)
    }

    /// What the strategy has been at so far, in the order it first was.
    pub fn modes(&self) -> &[ModeCount] {
        &self.modes
    }

    /// What the controller wants at present.
    pub fn decision(&self) -> Decision {
        *self.core.decision()
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
        self.undisturbed.set(false);
        self.captures.iter_mut().for_each(|capture| capture.set_paused(now, paused));
    }

    /// Captures nothing more, as if every source had ended. What was captured is still sent.
    pub fn end(&mut self) {
        self.undisturbed.set(false);
        self.captures.iter_mut().for_each(Capture::end);
    }

    /// Holds the media rate to `max`, whatever the controller advises, but never below the session's lowest
    /// rate.
    pub fn set_max(&mut self, max: Rate) {
        self.limits.1 = max.max(self.limits.0);
    }

    /// Transmits after another look at how long datagrams may be that the driver can send at present: what is
    /// packed later keeps to that, and what waits already is packed anew or, where that has begun, given up.
    #[inline(never)]
    fn transmit_anew(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.core.fit(now, out.len(), is_of_path(out)) {
            self.undisturbed.set(false);
            self.repack();
        }
        self.transmit_fitting(now, out)
    }

    // Each by itself, so that each takes little.
    #[inline(always)]
    fn transmit_fitting(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.is_bare() { self.transmit_backlog(now, out) } else { self.transmit_any(now, out) }
    }

    #[inline(never)]
    fn look_after_all(&mut self, now: Time) {
        self.run_timers(now);
        if !self.tracks.is_empty() {
            self.expire(now);
            self.capture(now);
            if let Some(filler) = &mut self.filler {
                filler.look_again();
            }
        }
    }

    fn repack(&mut self) {
        let room = self.room();
        for capture in &self.captures {
            for track in &mut self.tracks[capture.tracks.clone()] {
                let unsent = track.outbox.fit(room);
                if unsent > 0 {
                    self.counters.expired += unsent;
                    track.want_key(capture.next_frame());
                }
            }
        }
    }

    #[inline(always)]
    fn read(&mut self, now: Time, datagram: &[u8]) -> Result<(), WireError> {
        if let Some((feedback, arrivals)) = self.dialect.report(datagram)
            && likely(feedback.session == self.config.session)
        {
            self.on_feedback(now, &feedback, arrivals);
            return Ok(());
        }
        self.read_encoded(now, datagram)
    }

    // Apart from what is read at a glance, so that both stay short.
    #[inline(never)]
    fn read_encoded(&mut self, now: Time, datagram: &[u8]) -> Result<(), WireError> {
        let (kind, session) = self.dialect.peek(datagram)?;
        if kind != Kind::Feedback || session != self.config.session {
            return self.read_rare(now, kind, session, datagram);
        }
        let feedback = self.dialect.feedback(datagram)?;
        self.on_feedback(now, &feedback, feedback.arrivals());
        Ok(())
    }

    /// Reads anything but feedback of this session.
    #[cold]
    fn read_rare(&mut self, now: Time, kind: Kind, session: u32, datagram: &[u8]) -> Result<(), WireError> {
        match kind {
            _ if session != self.config.session => self.counters.foreign += 1,
            Kind::Nack => {
                let nack = self.dialect.nack(datagram)?;
                self.on_nack(now, &nack);
            }
            Kind::KeyFrameRequest => {
                let request = self.dialect.key_frame_request(datagram)?;
                self.on_key_request(now, &request);
            }
            Kind::Control => {
                let control = self.dialect.control(datagram)?;
                self.on_control(&control);
            }
            _ => self.counters.foreign += 1,
        }
        Ok(())
    }

    /// Where a stream's track stands among the tracks.
    #[inline]
    fn position(&self, stream: u8) -> Option<usize> {
        self.tracks.iter().position(|track| track.stream == stream)
    }

    /// What waits to be sent for the first time, of each track and of the backlog.
    #[inline(always)]
    fn look_at_fresh(&mut self) {
        self.fresh.clear();
        for track in &self.tracks {
            self.fresh.put(1, track.outbox.waiting_packets());
        }
        if self.backlogged {
            self.fresh.put(1, usize::MAX);
        }
    }

    /// What leaves next, if anything may.
    #[inline]
    fn pick(&mut self) -> Pick {
        let padding = self.core.padding();
        if let [track] = &self.tracks[..]
            && likely(self.repairs.is_empty() & (padding == 0) & !self.backlogged)
        {
            // There is nothing to choose between.
            return if track.outbox.waiting_packets() > 0 { Pick::Fresh(0) } else { Pick::Nothing };
        }
        self.look_at_fresh();
        let repair_of = self.repairs.front().map(|&(stream, ..)| chain::capture_of(stream));
        // As many as were just entered. That they are so many is written, but hardly arrived in memory.
        let fresh = &self.fresh[..self.tracks.len() + usize::from(self.backlogged)];
        let view = schedule::View { repairs: self.repairs.len(), repair_of, fresh, padding };
        self.policies.strategy.pick(&view)
    }

    /// There is a backlog and nothing to choose between it and.
    #[inline]
    fn is_bare(&self) -> bool {
        self.backlogged && self.tracks.is_empty()
    }

    /// Whether nothing is due at `now` but the next packet, so that a look at it is enough.
    #[inline]
    fn is_quiet(&self, now: Time) -> bool {
        self.undisturbed.get() && now < self.quiet_until.get()
    }

    #[inline]
    fn captures_ended(&self) -> bool {
        self.captures.iter().all(Capture::has_ended)
    }

    fn is_drained(&self) -> bool {
        self.captures_ended()
            && !self.backlogged
            && self.tracks.iter().all(|track| track.is_idle() && track.outbox.is_empty())
    }
}

/// Whether a driver that has this room for a datagram knows of its path that it takes so much: one that
/// offers all there is knows nothing of it.
#[inline]
fn is_of_path(out: &[u8]) -> bool {
    out.len() < MAX_DATAGRAM
}

/// A capture's tracks, as the strategy wants them.
///
/// # Panics
/// If there is not an encoder for each.
fn built(
    capture: u8,
    strategy: &dyn Strategy,
    manner: &Manner,
    config: &SenderConfig,
    encoders: Vec<Box<dyn Encoder>>,
    interval: Span,
) -> Vec<Track> {
    let longest = match manner.limit {
        WaitLimit::OfCapture(longest) => longest,
        WaitLimit::OfOldest(_) => Span::MAX,
    };
    let header = Native.header();
    let classes = strategy.tracks(capture);
    assert_eq!(classes.len(), encoders.len(), "an encoder for each track of the strategy");
    let tracks = (0..).zip(classes.iter().zip(encoders));
    tracks
        .map(|(number, (&class, encoder))| {
            let stream = chain::stream_of(capture, number);
            let terms = Terms { stream, class, interval, rows: config.picture.1, longest, header };
            let mut track = Track::new(&terms, encoder);
            if strategy.refers_back() && class == Class::Deadline {
                track.keep_references();
            }
            track
        })
        .collect()
}

/// How a session's packets leave: as its settings and its rate policy's manner say.
fn core_config(config: &SenderConfig, manner: &Manner, setup: &Setup, backlogged: bool) -> transport::Config {
    let usual = transport::Config::default();
    transport::Config {
        mtu: config.mtu,
        bunch: config.bunch,
        pace: match (backlogged, manner.even) {
            (true, _) => Pace::Bulk,
            (false, true) => Pace::Even,
            (false, false) => Pace::Decided,
        },
        least: setup.min,
        floor: manner.floor,
        fresh: manner.fresh,
        spill: manner.spill,
        probe_within: manner.probe.unwrap_or(usual.probe_within),
    }
}

impl Endpoint for Sender {
    fn receive(&mut self, now: Time, datagram: &[u8], _meta: RxMeta) {
        self.undisturbed.set(false);
        if self.read(now, datagram).is_err() {
            self.refuse_malformed(now);
        }
    }

    fn wake(&mut self, now: Time) {
        if !self.is_quiet(now) {
            self.undisturbed.set(false);
            self.look_after_all(now);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        // Each by itself, so that a backlog takes little.
        if self.captures.is_empty() & self.heard { self.wake_of_backlog() } else { self.wake_of_frames() }
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if unlikely(!self.core.fits(out.len(), is_of_path(out))) {
            return self.transmit_anew(now, out);
        }
        self.transmit_fitting(now, out)
    }

    fn fetch(&self) {
        fetch_front(self, offset_of!(Sender, counters));
    }

    fn expect(&self) {
        self.core.expect();
        if !self.is_bare() {
            fetch(&*self.policies.strategy);
            fetch_line(self.fresh.as_ptr());
        }
    }
}

impl Sender {
    /// Transmits what is due where there is more than a backlog, or none.
    // Apart, so that a backlog takes little.
    #[inline(never)]
    fn transmit_any(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if !self.is_quiet(now) {
            self.undisturbed.set(false);
            if unlikely(self.may_have_control(now))
                && let Some(meta) = self.transmit_control(now, out)
            {
                return Some(meta);
            }
            if unlikely(self.reset_at().is_some_and(|at| at <= now)) {
                self.expire(now);
            }
            if unlikely(self.core.take_probe()) {
                return Some(self.transmit_probe(now, out));
            }
        }
        self.core.watch_window(now);
        if self.core.paced_until() > now {
            return None;
        }
        let mut undisturbed = self.undisturbed.replace(false);
        loop {
            let pick = self.pick();
            if pick == Pick::Nothing {
                return self.transmit_dummy(now, out);
            }
            if !self.core.window_is_open() {
                self.undisturbed.set(undisturbed);
                self.core.hold_back();
                self.core.pause();
                return None;
            }
            match pick {
                // A repair whose frame has gone meanwhile is passed over.
                Pick::Repair => match self.transmit_repair(now, out) {
                    Some(meta) => return Some(meta),
                    None => undisturbed = false,
                },
                Pick::Fresh(track) => {
                    let (meta, done) = self.transmit_fresh(now, track, out)?;
                    // What a track wants of the clock changes with a frame's last packet at the earliest, and
                    // what a packet brings, its timeout, is not due at this instant.
                    let quiet = undisturbed & !done;
                    if quiet {
                        self.undisturbed.set(true);
                        self.quiet_until.set(now + INSTANT);
                    }
                    // Else a hello may be due, or the end.
                    let last = self.core.paced_until() > now && (quiet || !self.may_have_control(now));
                    if last {
                        self.core.watch_window(now);
                    }
                    return Some(TxMeta { last, ..meta });
                }
                Pick::Padding => {
                    self.core.padded(self.mtu());
                    return Some(self.transmit_padding(now, self.mtu(), out));
                }
                Pick::Nothing => return None,
            }
        }
    }
}
