//! What time brings: frames to capture, losses to declare, silence to break.

use record::{Event, Real, Topic};
use units::{Bytes, Span, Time, cold_path};
use wire::Class;

use super::Sender;

use crate::capture::Capture;
use crate::counters::ModeCount;
use crate::rate::{self, Plan, WaitLimit};
use crate::strategy::{News, Order, TRACKS, TrackView, View};
use crate::track::{Context, Track};

/// With a frame in the encoder and nothing sent for so long, a probe says that we are still there: a receiver
/// gives up after ten seconds of silence, and three of these may be lost before that.
const SIGN_OF_LIFE: Span = Span::from_secs(2);

/// What is wanted of the clock besides the next packet, but for what the core wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    /// The first that is to be looked at; the end of time, if nothing is.
    at: Time,
    /// When something of what waits, or may be sent again, is to be forgotten; the end of time, if never.
    expiry: Time,
    /// Since when the oldest frame of an encoder has been there.
    coding: Option<Time>,
    /// No encoder is at work, and nothing was put aside for one.
    quiet: bool,
    /// A packet waits to be sent for the first time.
    waiting: bool,
}

impl Wants {
    /// What no capture and no track wants.
    pub(super) const NOTHING: Wants =
        Wants { at: Time::MAX, expiry: Time::MAX, coding: None, quiet: true, waiting: false };

    #[inline]
    fn wake(&mut self, at: Option<Time>) {
        self.at = self.at.min(at.unwrap_or(Time::MAX));
    }
}

/// Since when the oldest frame of a track has waited, unless it is reliable: that may wait.
#[inline]
fn live_since(track: &Track) -> Option<Time> {
    track.outbox.waiting_since().filter(|_| track.outbox.class != Class::Reliable)
}

impl Sender {
    /// Runs `work` on a track, with what it is told.
    fn with_track<R>(
        &mut self,
        now: Time,
        track: usize,
        work: impl FnOnce(&mut Track, &mut Context<'_>) -> R,
    ) -> R {
        let mtu = self.mtu();
        let capture = self.captures.iter().find(|capture| capture.tracks.contains(&track));
        let mut context = Context {
            now,
            config: &self.config,
            mtu,
            header: self.dialect.header(),
            rtt: self.core.rtt().min(),
            next_frame: capture.map_or(0, Capture::next_frame),
            counters: &mut self.counters,
            news: &mut self.news,
            tap: &self.tap,
        };
        let done = work(&mut self.tracks[track], &mut context);
        self.news.drain(..).for_each(|news| self.policies.strategy.hear(now, &news));
        done
    }

    /// Captures what is due, and takes from the encoders what they have done.
    pub(super) fn capture(&mut self, now: Time) {
        for index in 0..self.captures.len() {
            let capture = &self.captures[index];
            let is_early = capture.next_at().is_none_or(|at| at > now);
            if is_early && self.tracks[capture.tracks.clone()].iter().all(Track::is_quiet) {
                continue;
            }
            for track in self.captures[index].tracks.clone() {
                self.with_track(now, track, Track::collect);
            }
            let open = self.tracks[self.captures[index].tracks.clone()].iter().all(Track::may_encode);
            if self.captures[index].is_due(now, open, &mut self.counters) {
                self.capture_frame(now, index);
            } else {
                self.resume_frames(now, index);
            }
            if self.captures[index].next_at().is_none() {
                self.tracks[self.captures[index].tracks.clone()]
                    .iter_mut()
                    .for_each(|track| track.flush(now));
            }
        }
    }

    /// Captures a frame, and has its tracks code it as planned.
    fn capture_frame(&mut self, now: Time, index: usize) {
        let plan = self.plan(now, index, self.captures[index].next_frame());
        let wander = self.core.decision().frame_jitter.mul_f64(self.rng.uniform_in(-1.0, 1.0));
        let tracks = self.captures[index].tracks.clone();
        for track in tracks.clone() {
            self.with_track(now, track, Track::give_up_kept);
        }
        let Some(raw) = self.captures[index].take(now, wander) else { return };
        let (capture, frame) = (self.captures[index].number, raw.frame);
        self.counters.captured += 1;
        self.tap.record(now, Event::FrameCaptured { stream: capture, frame });
        self.policies.strategy.hear(now, &News::Captured { capture, frame });
        self.look_ahead(now);
        let mut orders = [Order::whole(&plan); TRACKS];
        self.order(now, index, frame, plan, &mut orders);
        if let Some(at) = self.mode {
            self.modes[at].frames += 1;
        }
        for (track, &order) in tracks.clone().zip(&orders) {
            // A frame that is left out may be coded after all in the capture's first track.
            let keep = if track == tracks.start { plan.keep } else { Span::ZERO };
            let (bitrate, encode, largest_key) = (order.rate, order.encode, order.largest_key);
            let plan = Plan { bitrate, encode, largest_key, keep, ..plan };
            let raw = raw.clone();
            self.with_track(now, track, |track, context| {
                track.take(raw, plan, order, context);
                track.collect(context);
            });
        }
    }

    /// Tells the strategy of losses that its predictor foresees, and notes how likely they are.
    fn look_ahead(&mut self, now: Time) {
        let Some(watch) = &mut self.watch else { return };
        if watch.alarm(now) {
            let value = Real(f64::from(watch.probability(now)));
            self.tap.record(now, Event::Observed { name: "foretold", value });
            self.policies.strategy.hear(now, &News::Foretold);
        }
    }

    /// Has frames coded that were left out, now that nothing waits any more.
    fn resume_frames(&mut self, now: Time, index: usize) {
        for (position, track) in self.captures[index].tracks.clone().enumerate() {
            let Some(frame) = self.with_track(now, track, Track::resumable) else { continue };
            let plan = self.plan(now, index, frame);
            let mut orders = [Order::whole(&plan); TRACKS];
            self.order(now, index, frame, plan, &mut orders);
            let order = orders[position];
            let (bitrate, encode, largest_key) = (order.rate, order.encode, order.largest_key);
            let plan = Plan { bitrate, encode, largest_key, ..plan };
            self.with_track(now, track, |track, context| {
                track.resume(plan, order, context);
                track.collect(context);
            });
        }
    }

    /// Asks the strategy what each track of capture number `index` makes of a frame. `orders` says that
    /// each codes it as planned, and is changed where a track does not.
    fn order(&mut self, now: Time, index: usize, frame: u32, plan: Plan, orders: &mut [Order; TRACKS]) {
        let tracks = self.captures[index].tracks.clone();
        self.views.clear();
        self.views.extend(self.tracks[tracks.clone()].iter().map(|track| TrackView {
            stream: track.stream,
            class: track.outbox.class,
            waiting: track.outbox.waiting_packets(),
            waiting_bytes: Bytes::new(track.outbox.waiting_bytes()),
            waited: track.outbox.waiting_since().map_or(Span::ZERO, |since| now - since),
            cut: track.is_cut(),
        }));
        let of_capture = &self.captures[index];
        let view = View {
            now,
            capture: of_capture.number,
            frame,
            interval: of_capture.interval,
            picture: self.config.picture,
            srtt: self.core.rtt().smoothed(),
            plan,
            repairs: self.repair_bytes(),
            tracks: &self.views,
        };
        self.policies.strategy.order(&view, &mut orders[..tracks.len()]);
        self.note_mode(now);
    }

    /// Notes what the strategy is at, and records it where that is another than it was.
    fn note_mode(&mut self, now: Time) {
        let mode = self.policies.strategy.mode();
        let at = self.modes.iter().position(|count| count.mode == mode).unwrap_or_else(|| {
            self.modes.push(ModeCount { mode, frames: 0, entered: 0 });
            self.modes.len() - 1
        });
        let before = self.mode.replace(at);
        if before != Some(at) {
            self.modes[at].entered += 1;
            if before.is_some() {
                self.tap.record(now, Event::Observed { name: mode, value: Real(1.0) });
            }
        }
    }

    /// Asks the rate policy about a frame of capture number `index`.
    fn plan(&mut self, now: Time, index: usize, frame: u32) -> Plan {
        self.flush(index);
        let tracks = self.captures[index].tracks.clone();
        let mut departed = std::mem::take(&mut self.tracks[tracks.start].outbox.departed);
        let view = self.rate_view(now, index, frame, &departed);
        let plan = self.policies.rate.plan(&view);
        self.target = Some(plan.bitrate);
        departed.clear();
        self.tracks[tracks.clone()].iter_mut().for_each(|track| track.outbox.departed.clear());
        self.tracks[tracks.start].outbox.departed = departed;
        if self.tap.wants(Topic::Observations) {
            self.policies.rate.observe(&mut |name, value| {
                self.tap.record(now, Event::Observed { name, value: Real(value) });
            });
        }
        plan
    }

    /// Drops what waits of capture number `index` and can't be decoded any more, if the policy wants that.
    fn flush(&mut self, index: usize) {
        if !self.manner.flush {
            return;
        }
        for track in &mut self.tracks[self.captures[index].tracks.clone()] {
            if track.is_cut() && track.outbox.class != Class::Reliable {
                self.counters.expired += track.outbox.drop_waiting();
                self.repairs.retain(|&(stream, ..)| stream != track.stream);
            }
        }
    }

    fn rate_view<'a>(
        &self,
        now: Time,
        index: usize,
        frame: u32,
        departed: &'a [rate::Departed],
    ) -> rate::View<'a> {
        let capture = &self.captures[index];
        let tracks = &self.tracks[capture.tracks.clone()];
        let waiting = tracks.iter().map(|track| track.outbox.waiting_bytes()).sum();
        let oldest = tracks.iter().filter_map(|track| track.outbox.waiting_since()).min();
        rate::View {
            now,
            stream: capture.number,
            frame,
            interval: capture.interval,
            cc_rate: self.core.cc_rate(),
            queued: Bytes::new(waiting) + self.repair_bytes(),
            in_flight: self.core.in_flight(),
            waited: oldest.map_or(Span::ZERO, |since| now - since),
            cut: tracks.first().is_some_and(Track::is_cut),
            open: self.core.window_is_open(),
            patience: self.config.patience,
            limits: self.limits,
            height: self.config.picture.1,
            departed,
        }
    }

    /// Payload a packet carries.
    pub(super) fn room(&self) -> u32 {
        (self.mtu() - self.dialect.header()) as u32
    }

    /// When everything that waits will have waited too long, if there is such a limit.
    #[inline]
    pub(super) fn reset_at(&self) -> Option<Time> {
        match self.manner.limit {
            WaitLimit::OfCapture(_) => None,
            WaitLimit::OfOldest(limit) => {
                cold_path();
                let oldest = self.tracks.iter().filter_map(live_since).min();
                oldest.map(|since| since + limit)
            }
        }
    }

    /// Drops what is not worth sending any more.
    pub(super) fn expire(&mut self, now: Time) {
        let reset = self.reset_at().is_some_and(|at| at <= now);
        self.counters.resets += u64::from(reset);
        for capture in &self.captures {
            for track in &mut self.tracks[capture.tracks.clone()] {
                let mut unsent = track.outbox.expire(now);
                if reset {
                    unsent += track.outbox.drop_waiting();
                }
                if unsent > 0 {
                    self.counters.expired += unsent;
                    track.want_key(capture.next_frame());
                }
            }
        }
        if reset {
            let kept = |stream: u8| {
                self.tracks.iter().any(|t| t.stream == stream && t.outbox.class == Class::Reliable)
            };
            self.repairs.retain(|&(stream, ..)| kept(stream));
            self.tap.record(now, Event::Observed { name: "reset", value: Real(1.0) });
        }
    }

    /// When the receiver must hear something, though the encoder has been at a frame `since` then and nothing
    /// was sent.
    fn sign_after(&self, since: Option<Time>) -> Option<Time> {
        let waits = self.heard && !self.core.probe_is_due();
        since.filter(|_| waits).map(|since| since.max(self.core.last_sent_at()) + SIGN_OF_LIFE)
    }

    /// What captures, tracks and hellos want of the clock, looked up in one pass.
    #[inline]
    fn wants(&self) -> Wants {
        let mut wants = Wants::NOTHING;
        for capture in &self.captures {
            let next = capture.next_at();
            wants.wake(next);
            for track in &self.tracks[capture.tracks.clone()] {
                wants.wake(track.next_wake(capture.has_ended()));
                if next.is_none() && track.holds() {
                    wants.at = Time::ZERO;
                }
                wants.coding = Time::first(wants.coding, track.coding_since());
                wants.expiry = wants.expiry.min(track.outbox.next_expiry().unwrap_or(Time::MAX));
                wants.quiet &= track.is_quiet();
                wants.waiting |= track.outbox.waiting_packets() > 0;
            }
        }
        wants.wake(self.hello_at.filter(|_| !self.heard));
        wants.wake(self.reset_at());
        wants
    }

    /// Looks up what is wanted, and notes whether that holds until something happens but that packets leave.
    // Gives nothing back: what was returned in memory, and copied from there, a processor would wait for.
    #[inline(never)]
    fn look_up_wants(&self) {
        let wants = self.wants();
        self.wanted.set(wants);
        // An encoder that is at work, on a thread of its own, may be done whenever it is asked.
        self.undisturbed.set(wants.quiet);
    }

    /// When something is to be done next, whoever wants it. Notes until when there is nothing to look after
    /// but the next packet, zero if there may be. It is asked for after every packet.
    // Apart, so that a backlog takes little.
    #[inline(never)]
    pub(super) fn wake_of_frames(&self) -> Option<Time> {
        if !self.undisturbed.get() {
            self.look_up_wants();
        }
        let wants = self.wanted.get();
        debug_assert_eq!(wants, self.wants(), "a packet that left changed what captures and tracks want");
        let mut first = wants.at.min(self.core.next_wake().unwrap_or(Time::MAX));
        let quiet_until = if wants.quiet {
            self.while_quiet(first.min(wants.expiry))
        } else {
            first = first.min(self.sign_after(wants.coding).unwrap_or(Time::MAX));
            Time::ZERO
        };
        self.quiet_until.set(quiet_until);
        first = first.min(self.next_send(wants.waiting));
        (first < Time::MAX).then_some(first)
    }

    /// The same where nothing is captured and a hello was answered: what is left is the core's.
    #[inline(always)]
    pub(super) fn wake_of_backlog(&self) -> Option<Time> {
        self.undisturbed.set(true);
        let first = self.core.next_wake().unwrap_or(Time::MAX);
        self.quiet_until.set(self.while_quiet(first));
        let first = first.min(self.next_send(false));
        (first < Time::MAX).then_some(first)
    }

    /// When the next packet may leave, as far as is known, or never: [`Time::MAX`]. `waiting`: one waits that
    /// was never sent before.
    #[inline(always)]
    fn next_send(&self, waiting: bool) -> Time {
        let work = waiting || self.backlogged || self.core.padding() > 0 || !self.repairs.is_empty();
        if work { self.core.next_send_or_never() } else { self.dummy_at().unwrap_or(Time::MAX) }
    }

    /// `until`, unless there may be something to do besides the next packet.
    #[inline]
    fn while_quiet(&self, until: Time) -> Time {
        if self.filler.is_none() && !self.core.probe_is_due() { until } else { Time::ZERO }
    }

    pub(super) fn run_timers(&mut self, now: Time) {
        if self.core.find_losses(now) {
            self.repair_losses(now);
        }
        self.core.wake(now);
        if self.core.probe_is_due() {
            self.policies.strategy.hear(now, &News::Suspected);
        }
        let coding = self.tracks.iter().filter_map(Track::coding_since).min();
        if self.sign_after(coding).is_some_and(|at| at <= now) {
            self.core.want_probe();
        }
    }
}
