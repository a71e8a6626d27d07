//! An upload's decisions, frame by frame (thesis sections 3.5.1 to 3.5.3).
//!
//! ```text
//!   every P seconds, at t    turn: the plan made before begins; the one for t + P to t + 2 P is made
//!   each captured frame      live: its share of the plan, or what the network takes now, if that is less
//!   nothing of now waits     again: the plan's next frame of before, if it can leave in time
//! ```
//!
//! The engine has no clock, no network and no encoder: it is told the time, what the network carried of late,
//! how frames came out of the encoders, and what arrived.

use std::collections::VecDeque;

use crate::archive::{Archive, Entry};
use crate::curve::Bias;
use crate::network::Network;
use crate::{Again, Curve, Delays, Effort, Estimate, Past, Schedule, Window};

/// What an upload is for, and how it plans.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seconds from frame to frame.
    pub interval: f64,
    /// Seconds that a plan is for (the thesis' `P`).
    pub period: f64,
    /// How late it is watched, until [`Engine::watch`] says otherwise. What is older than the longest delay
    /// is not sent again.
    pub delays: Delays,
    /// Frames of before that are planned with, those of the lowest quality.
    pub candidates: usize,
    /// What the SSIM of a frame that is sent again rises by at least.
    pub least_gain: f64,
    /// What a run of frames sent again costs, as a share of what a frame of now is worth.
    pub run_share: f64,
    /// Whether frames have curves of their own; else all have the average's (the thesis' ablation).
    pub own_curves: bool,
    /// How long a better plan is looked for.
    pub effort: Effort,
}

impl Default for Settings {
    /// The thesis' (section 3.5.2), at 30 Hz; least gain and run cost are the sheet's.
    fn default() -> Settings {
        Settings {
            interval: 1.0 / 30.0,
            period: 2.0,
            delays: Delays::uniform(30),
            candidates: 200,
            least_gain: 0.02,
            run_share: 0.02,
            own_curves: true,
            effort: Effort::default(),
        }
    }
}

/// Least bytes of a frame that is sent (sheet section 8).
const LEAST: f64 = 200.0;
/// Seconds over which the network's rate is measured for frames of now (thesis section 3.6.3).
const WINDOW: f64 = 0.1;
/// Seconds that a frame of now may wait for those before it, at the network's mean rate, and seconds that the
/// network may take nothing for; else it is left out. Ours: after as long a frame is not worth showing any
/// more (`session::SenderConfig::DEADLINE`, ITU-T G.114).
const PATIENCE: f64 = 0.4;
/// Most bytes, as a multiple of what a frame has on average (sheet section 8).
const MOST: f64 = 4.0;

/// Plans an upload and adjusts the plan to what the network takes.
pub struct Engine {
    settings: Settings,
    archive: Archive,
    curves: Estimate,
    /// Who watches, where that is known.
    watching: Option<Delays>,
    /// How long frames are kept, in seconds.
    horizon: f64,
    network: Network,
    /// What frames sent again come out as, by what their curves say.
    again: Bias,
    /// The plan of this period, and that of the next.
    plan: Option<Plan>,
    next: Option<Plan>,
    /// A frame of before is on its way.
    sending: bool,
    never_sent: usize,
}

/// A plan and what is left of it.
struct Plan {
    begins: f64,
    /// Bytes a second that it is made for.
    rate: f64,
    /// Sizes of the frames of now.
    future: Vec<u32>,
    again: VecDeque<Again>,
}

impl Engine {
    /// An upload that begins.
    pub fn new(settings: Settings) -> Engine {
        let horizon = settings.delays.longest();
        Engine {
            settings,
            archive: Archive::default(),
            curves: Estimate::default(),
            watching: None,
            horizon,
            network: Network::default(),
            again: Bias::default(),
            plan: None,
            next: None,
            sending: false,
            never_sent: 0,
        }
    }

    /// From the next plan on frames are worth what those who `watch` make them worth; without any, what the
    /// settings say. Frames are kept for as long as the settings' longest delay, or for `offered` seconds if
    /// that is longer: who watches at a delay that is offered may come later.
    pub fn watch(&mut self, watching: Option<Delays>, offered: f64) {
        self.watching = watching;
        self.horizon = self.horizon.max(offered);
    }

    /// Who is planned for.
    fn delays(&self) -> &Delays {
        self.watching.as_ref().unwrap_or(&self.settings.delays)
    }

    /// How long frames are kept, in seconds.
    pub fn horizon(&self) -> f64 {
        self.horizon
    }

    /// A period begins at `now`, in seconds. What is planned now is sent in the period after it, for which
    /// the network is taken to carry `budget` bytes. Returns the new plan, if frames were coded already.
    pub fn turn(&mut self, now: f64, budget: f64) -> Option<Schedule> {
        // What was not sent is planned anew, not carried over (thesis section 3.7.6).
        for again in self.plan.take().into_iter().flat_map(|plan| plan.again) {
            self.set_pending(again.frame, false);
        }
        self.plan = self.next.take();
        self.never_sent += self.archive.forget(now - self.horizon);
        // The engine's own numbers are in their bounds.
        let schedule = self.window(now, budget)?.solve(self.settings.effort).ok()?;
        schedule.again.iter().for_each(|again| self.set_pending(again.frame, true));
        let again = schedule.again.iter().copied().collect();
        let (begins, rate) = (now + self.settings.period, budget / self.settings.period);
        self.next = Some(Plan { begins, rate, future: schedule.future.clone(), again });
        Some(schedule)
    }

    /// What is planned at `now` for the period after this one.
    fn window(&self, now: f64, budget: f64) -> Option<Window> {
        let Settings { interval, period, candidates, least_gain, run_share, .. } = &self.settings;
        let delays = self.delays();
        let coming = self.curves.next()?;
        let ends = now + 2.0 * period;
        let past = |(frame, entry): (u32, &Entry)| {
            let curve = entry.curve.filter(|_| self.settings.own_curves).unwrap_or(coming);
            // Also of one that was sent again already, whose curve knows of that: a third time is worth
            // little.
            let curve = self.again.correct(curve);
            let weight = delays.beyond(ends - entry.captured);
            (!entry.pending && weight > 0.0).then_some(Past { frame, curve, quality: entry.quality, weight })
        };
        let mut past: Vec<Past> = self.archive.frames().filter_map(past).collect();
        past.sort_by(|x, y| x.quality.total_cmp(&y.quality).then(x.frame.cmp(&y.frame)));
        past.truncate(*candidates);
        past.sort_by_key(|past| past.frame);
        let frames = (period / interval).round() as usize;
        let mean = budget / frames as f64;
        let weight = delays.of_now();
        Some(Window {
            budget,
            future: vec![coming; frames],
            weight,
            past,
            sizes: (LEAST, MOST * mean.max(LEAST)),
            least_gain: *least_gain,
            run_cost: run_share * weight,
        })
    }

    /// Frame `frame` is captured at `now`. Bytes to code it to, 0 to leave it out: the network takes `rate`
    /// bytes a second, and `waiting` bytes of frames of now have not left yet.
    ///
    /// Deviation: the thesis leaves frames out where the network takes nothing, which a recorded link does
    /// for a tenth of a second again and again. Here what waits is taken off the frames of the next 100 ms,
    /// the time over which the rate is measured, and a frame that would get next to nothing is coded as small
    /// as can be: those at once miss it more than its bytes. It is left out once the network has taken
    /// nothing for 0.4 s, or if what waits has as long to go. How long that takes is judged by the
    /// mean of the last second if that is more than `rate`: right after a pause the rate of 100 ms says next
    /// to nothing.
    pub fn live(&mut self, now: f64, frame: u32, rate: f64, waiting: f64) -> u32 {
        self.archive.push(frame, now, self.curves.next());
        self.network.takes(now, rate);
        let usual = rate.max(self.network.mean());
        if self.network.pause(now) > PATIENCE || waiting > PATIENCE * usual {
            return 0;
        }
        let free = (rate - waiting / WINDOW) * self.settings.interval;
        self.share(now).min(free).max(LEAST) as u32
    }

    /// What the plan has for a frame of now, captured at `now`: no limit before the first plan, and once
    /// all that was to be sent again has been, so that the network never idles.
    fn share(&self, now: f64) -> f64 {
        let Some(plan) = self.plan.as_ref().filter(|plan| self.sending || !plan.again.is_empty()) else {
            return f64::INFINITY;
        };
        let place = ((now - plan.begins) / self.settings.interval + 0.5) as usize;
        plan.future.get(place).map_or(f64::INFINITY, |&size| f64::from(size))
    }

    /// No frame of now waits at `now`: the next frame of before, if the plan has one that can leave before
    /// its period ends when the network takes `rate` bytes a second, or what the plan is made for if that is
    /// more. Those that can't are dropped.
    pub fn again(&mut self, now: f64, rate: f64) -> Option<Again> {
        let plan = self.plan.as_mut()?;
        let ends = plan.begins + self.settings.period;
        // A short pause is no reason to drop all that was planned.
        let rate = rate.max(plan.rate);
        while let Some(again) = plan.again.pop_front() {
            if f64::from(again.size) <= rate * (ends - now) {
                self.sending = true;
                return Some(again);
            }
            if let Some(entry) = self.archive.get_mut(again.frame) {
                entry.pending = false;
            }
        }
        None
    }

    /// A frame of now was coded to `size` bytes, with this SSIM.
    pub fn coded_live(&mut self, frame: u32, size: f64, quality: f64) {
        self.archive.coded(frame, size, quality, &self.curves);
        if let Some(curve) = self.archive.get_mut(frame).and_then(|entry| entry.curve) {
            self.curves.learn(curve);
        }
        self.set_pending(frame, true);
    }

    /// A frame of before was coded to `size` bytes, with this SSIM.
    pub fn coded_again(&mut self, frame: u32, size: f64, quality: f64) {
        let known = self.archive.get_mut(frame).and_then(|entry| entry.curve);
        if let Some(curve) = known.or(self.curves.next()) {
            self.again.learn(curve, size, quality);
        }
        self.archive.coded(frame, size, quality, &self.curves);
    }

    /// A version has left whole. After one of a frame of before, the next of those may follow.
    pub fn left(&mut self, of_before: bool) {
        if of_before {
            self.sending = false;
        }
    }

    /// The endpoint has a version of this SSIM, the one of now. Returns the SSIM that it had before, if the
    /// frame still matters.
    pub fn arrived(&mut self, frame: u32, quality: f64) -> Option<f64> {
        let entry = self.archive.get_mut(frame)?;
        entry.pending = false;
        let before = entry.quality;
        entry.quality = before.max(quality);
        Some(before)
    }

    /// The endpoint has a version of this SSIM, one that was sent again. Returns the SSIM that it had before,
    /// if the frame still matters.
    pub fn arrived_again(&mut self, frame: u32, quality: f64) -> Option<f64> {
        let entry = self.archive.get_mut(frame)?;
        entry.again = entry.again.max(quality);
        self.arrived(frame, quality)
    }

    /// The version of now never arrives, or can't be decoded there for what it is predicted from is missing.
    /// The endpoint has at best what was sent again.
    pub fn lost(&mut self, frame: u32) {
        if let Some(entry) = self.archive.get_mut(frame) {
            entry.quality = entry.again;
            entry.pending = false;
        }
    }

    /// There is no picture of a frame any more: it is not planned with again.
    pub fn gone(&mut self, frame: u32) {
        self.set_pending(frame, true);
    }

    /// The endpoint has forgotten all that it had, as one that was started anew.
    pub fn forgotten(&mut self) {
        self.archive.frames_mut().for_each(|entry| {
            (entry.quality, entry.again, entry.pending) = (0.0, 0.0, false);
        });
        (self.plan, self.next, self.sending) = (None, None, false);
    }

    /// A frame was captured at `captured`, in seconds, before this engine was there: to be told of the first
    /// before any other, and then one after the other. The endpoint has a version of SSIM `quality`, and of
    /// `again` of those that were sent again; 0 without one.
    pub fn restore(&mut self, captured: f64, frame: u32, quality: f64, again: f64) {
        self.archive.push(frame, captured, None);
        if let Some(entry) = self.archive.get_mut(frame) {
            (entry.quality, entry.again) = (quality, again);
        }
    }

    /// SSIM of the best version of a frame that the endpoint has, and of the best of those that were sent
    /// again, 0 without one; `None` of a frame that is not remembered.
    pub fn quality(&self, frame: u32) -> Option<(f64, f64)> {
        self.archive.get(frame).map(|entry| (entry.quality, entry.again))
    }

    /// Frames that can still be sent again, of which the endpoint has no version and none is on its way.
    pub fn missing(&self) -> usize {
        self.archive.frames().filter(|(_, entry)| entry.quality == 0.0 && !entry.pending).count()
    }

    /// The capture index that the next frame of now has.
    pub fn next_frame(&self) -> u32 {
        self.archive.next()
    }

    /// Whether anything planned waits to be sent again.
    pub fn is_repairing(&self) -> bool {
        let plans = self.plan.iter().chain(&self.next);
        self.sending || plans.into_iter().any(|plan| !plan.again.is_empty())
    }

    /// Frames that went out of the archive without any version at the endpoint.
    pub fn never_sent(&self) -> usize {
        self.never_sent
    }

    fn set_pending(&mut self, frame: u32, pending: bool) {
        if let Some(entry) = self.archive.get_mut(frame) {
            entry.pending = pending;
        }
    }

    /// The curve that frames to come are planned with.
    pub fn coming(&self) -> Option<Curve> {
        self.curves.next()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: f64 = 250_000.0;

    fn quality(size: f64) -> f64 {
        1.0 - 1.0 / (size / 1_000.0 + 1.0)
    }

    /// An upload through a network that carries `rate` bytes a second, but for an outage.
    struct Path {
        rate: f64,
        outage: std::ops::Range<f64>,
        engine: Engine,
        /// Frames of now that have not left whole: the bytes that have not, and the quality.
        waiting: VecDeque<(u32, f64, f64)>,
        /// Time, frame and size of what was sent again.
        again: Vec<(f64, Again)>,
        /// Of each frame, the best version and when it came.
        has: Vec<Option<(f64, f64)>>,
    }

    impl Path {
        fn run(settings: Settings, seconds: f64, rate: f64, outage: std::ops::Range<f64>) -> Path {
            let mut path = Path::begun(settings, rate, outage);
            path.go_on(seconds);
            path
        }

        fn begun(settings: Settings, rate: f64, outage: std::ops::Range<f64>) -> Path {
            let engine = Engine::new(settings);
            Path { rate, outage, engine, waiting: VecDeque::new(), again: Vec::new(), has: Vec::new() }
        }

        /// Up to `until`, in seconds since the beginning.
        fn go_on(&mut self, until: f64) {
            let interval = self.engine.settings.interval;
            let frames_of_period = (self.engine.settings.period / interval).round() as usize;
            for frame in self.has.len()..(until / interval) as usize {
                let now = frame as f64 * interval;
                if frame.is_multiple_of(frames_of_period) {
                    self.turn(now);
                }
                self.frame(now, frame as u32);
            }
        }

        fn rate(&self, now: f64) -> f64 {
            if self.outage.contains(&now) { 0.0 } else { self.rate }
        }

        fn turn(&mut self, now: f64) {
            let budget = self.rate(now) * self.engine.settings.period;
            let plan = self.engine.turn(now, budget);
            assert!(plan.is_none_or(|plan| plan.bytes() as f64 <= budget));
        }

        /// What a frame's interval carries: frames of now in their order, then those of before.
        fn frame(&mut self, now: f64, frame: u32) {
            let rate = self.rate(now);
            let mut free = rate * self.engine.settings.interval;
            let waiting = self.waiting.iter().map(|(_, left, _)| left).sum();
            let size = f64::from(self.engine.live(now, frame, rate, waiting));
            self.has.push(None);
            assert!(size <= free.max(LEAST));
            if size > 0.0 {
                self.engine.coded_live(frame, size, quality(size));
                self.waiting.push_back((frame, size, quality(size)));
            }
            while free > 0.0
                && let Some((frame, left, quality)) = self.waiting.front_mut()
            {
                let sent = left.min(free);
                (*left, free) = (*left - sent, free - sent);
                let (frame, left, quality) = (*frame, *left, *quality);
                if left <= 0.0 {
                    self.waiting.pop_front();
                    self.engine.left(false);
                    self.arrive(now, frame, quality);
                }
            }
            while free > 0.0
                && let Some(next) = self.engine.again(now, rate)
            {
                let better = quality(f64::from(next.size));
                let before = self.has[next.frame as usize].map_or(0.0, |(quality, _)| quality);
                assert!(next.frame < frame && better > before, "{next:?} has {before}");
                self.engine.coded_again(next.frame, f64::from(next.size), better);
                self.engine.left(true);
                self.arrive(now, next.frame, better);
                self.again.push((now, next));
                free -= f64::from(next.size);
            }
        }

        fn arrive(&mut self, now: f64, frame: u32, quality: f64) {
            self.engine.arrived(frame, quality);
            self.has[frame as usize] = Some((quality, now));
        }
    }

    fn run(seconds: u32, outage: std::ops::Range<u32>) -> (Engine, Vec<Again>) {
        let outage = f64::from(outage.start)..f64::from(outage.end);
        let path = Path::run(Settings::default(), f64::from(seconds), RATE, outage);
        (path.engine, path.again.into_iter().map(|(_, again)| again).collect())
    }

    #[test]
    fn an_outage_is_repaired_from_the_archive() {
        let (engine, again) = run(40, 10..15);
        let repaired = |frame: u32| again.iter().any(|again| again.frame == frame);
        assert!((10 * 30..15 * 30).all(repaired), "every frame of the outage");
        assert_eq!(engine.never_sent(), 0);
    }

    #[test]
    fn what_is_longer_than_the_archive_is_counted() {
        let (engine, again) = run(80, 10..50);
        assert!(engine.never_sent() > 0 && again.iter().all(|again| again.frame >= 10 * 30));
    }

    #[test]
    fn without_need_hardly_anything_is_sent_again() {
        let (_, again) = run(30, 0..0);
        assert!(again.len() < 10, "{}", again.len());
    }

    #[test]
    fn nothing_of_now_is_coded_behind_what_waits() {
        let mut engine = Engine::new(Settings::default());
        assert_eq!(engine.live(0.0, 0, 30_000.0, 12_100.0), 0, "0.4 s and more would pass first");
        assert_eq!(engine.live(0.1, 1, 30_000.0, 600.0), 800);
        assert_eq!(engine.live(0.2, 2, 30_000.0, 2_900.0), 200, "as small as can be");
        assert!(engine.again(0.2, 1e6).is_none() && engine.turn(2.0, 1e5).is_none());
    }

    /// Frames sent again in 60 s with a pause from 10 to 15 s, told from 5 s on who watches.
    fn again_for(watching: Option<Delays>, offered: f64) -> (Engine, Vec<Again>) {
        let mut path = Path::begun(Settings::default(), RATE, 10.0..15.0);
        path.go_on(5.0);
        path.engine.watch(watching, offered);
        path.go_on(60.0);
        (path.engine, path.again.into_iter().map(|(_, again)| again).collect())
    }

    #[test]
    fn plans_are_for_those_who_watch_and_the_archive_for_those_who_may_come() {
        let of = |pairs: &[(f64, f64)]| Some(Delays::new(pairs.iter().copied()).unwrap());
        let repaired =
            |again: &[Again]| (300..450).filter(|frame| again.iter().any(|a| a.frame == *frame)).count();
        let (_, uniform) = again_for(None, 30.0);
        let (_, early) = again_for(of(&[(0.5, 9.0)]), 30.0);
        let (engine, late) = again_for(of(&[(0.5, 9.0), (30.0, 40.0)]), 30.0);
        assert_eq!([&uniform, &early, &late].map(|again| repaired(again)), [150, 0, 150]);
        assert_eq!(engine.horizon(), 30.0, "it does not shrink");
        // A longer delay is offered: what those may see is kept and repaired, and counted as lost later.
        let (engine, _) = again_for(of(&[(60.0, 1.0)]), 60.0);
        assert_eq!((engine.horizon(), engine.never_sent()), (60.0, 0));
        let (mut engine, _) = again_for(of(&[(0.5, 1.0)]), 5.0);
        // All of the pause but what is coded through its first 0.4 s.
        assert_eq!((engine.horizon(), engine.never_sent()), (30.0, 139));
        // Nobody watches any more: as many as usual at each delay.
        engine.watch(None, 5.0);
        assert_eq!(engine.delays(), &Delays::uniform(30));
    }

    #[test]
    fn a_short_pause_leaves_no_frame_out() {
        let mut engine = Engine::new(Settings::default());
        assert_eq!(engine.live(0.0, 0, 0.0, 0.0), 0, "nothing is known of the network");
        assert_eq!(engine.live(2.0, 1, 30_000.0, 0.0), 1_000);
        assert_eq!(engine.live(2.1, 2, 0.0, 600.0), 200);
        // By the rate of 100 ms, half a second; by the mean of the last second, 50 ms.
        assert_eq!(engine.live(2.2, 3, 1_000.0, 500.0), 200);
        assert_eq!(engine.live(2.5, 4, 0.0, 0.0), 200);
        assert_eq!(engine.live(2.7, 5, 0.0, 0.0), 0, "half a second");
    }

    #[test]
    fn a_pause_drops_no_plan() {
        let mut engine = Engine::new(Settings::default());
        for frame in 0..60 {
            engine.live(f64::from(frame) / 30.0, frame, RATE, 0.0);
            engine.coded_live(frame, 8_000.0, quality(8_000.0));
            engine.lost(frame);
        }
        let plan = engine.turn(2.0, 2.0 * RATE).unwrap();
        assert!(plan.again.len() > 30);
        engine.turn(4.0, 2.0 * RATE);
        assert_eq!(engine.again(4.5, 10.0), plan.again.first().copied(), "a rate right after a pause");
        assert_eq!(engine.again(5.999, RATE), None, "nothing of it can leave in a millisecond");
        assert!(engine.plan.is_some_and(|plan| plan.again.is_empty()));
    }

    #[test]
    fn frames_of_before_this_engine_are_sent_again_if_they_are_missing() {
        let mut engine = Engine::new(Settings::default());
        for frame in 100..160u32 {
            let quality = if frame < 130 { 0.0 } else { 0.95 };
            engine.restore(f64::from(frame) / 30.0, frame, quality, 0.0);
        }
        engine.gone(105);
        assert_eq!((engine.next_frame(), engine.missing()), (160, 29));
        assert_eq!((engine.quality(131), engine.quality(99)), (Some((0.95, 0.0)), None));
        assert!(engine.live(6.0, 160, RATE, 0.0) > 0);
        engine.coded_live(160, 4_000.0, quality(4_000.0));
        let plan = engine.turn(6.0, RATE * 2.0).expect("a frame was coded");
        let mut again: Vec<u32> = plan.again.iter().map(|again| again.frame).collect();
        again.retain(|frame| *frame < 130);
        assert_eq!(again.len(), 29, "{again:?}");
    }

    proptest! {
        /// Sheet, acceptance 6: what a pause took is there for those who watch after 30 s, if the network has
        /// room for it. Over frame rates, periods, rates and pauses.
        #[test]
        fn a_pause_is_repaired_in_time(
            fps in prop::sample::select(vec![15.0, 30.0, 60.0]),
            period in prop::sample::select(vec![1.0, 2.0, 4.0]),
            rate in 60_000.0..1_000_000.0f64,
            begins in 8.0..20.0f64,
            length in 0.5..5.0f64,
        ) {
            let settings = Settings { interval: 1.0 / fps, period, ..Settings::default() };
            let path = Path::run(settings, begins + length + 32.0, rate, begins..begins + length);
            let (from, to) = ((begins * fps).ceil() as usize, ((begins + length) * fps) as usize);
            for frame in from..to {
                let captured = frame as f64 / fps;
                let came = path.has[frame].map(|(_, at)| at);
                prop_assert!(came.is_some_and(|at| at <= captured + 30.0), "frame {frame}: {came:?}");
            }
            prop_assert_eq!(path.engine.never_sent(), 0);
            // Nothing older than anybody watches is sent.
            let age = |&(at, again): &(f64, Again)| at - f64::from(again.frame) / fps;
            prop_assert!(path.again.iter().all(|sent| age(sent) <= 30.0 + 1e-9));
        }
    }
}
