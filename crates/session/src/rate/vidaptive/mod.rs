//! Vidaptive (arXiv 2309.16869): any encoder behind any controller, as quick as a backlogged flow.
//!
//! ```text
//!  camera -> encoder at alpha CC-Rate -> outbox -> pacer at the CC-Rate, window -> network      CC-Rate = window / srtt
//!               ^                          |                ^
//!               |  pause: oldest > tau ----+                '-- dummies, while nothing waits
//!               |  reset: oldest > 1 s ----+
//!               |- alpha.rs: how long the frames of the last second took to leave
//!               '- resolution.rs: how many they were, and what the encoder made of its target
//! ```
//!
//! This file says what is wanted: a [`Plan`] for each frame and a [`Manner`] between frames, which `sender/`
//! carries out.
//!
//! Deviation: in the first T alpha stays 1 until there are frames to go by; the outage rule would take 0.8
//! off it before the first frame has left. Nor is a silence of the source longer than T an outage, nor a
//! source that has few frames: at least half of those that it had within T must be missing, too. The paper's
//! 5 frames a second are of a source that has 30.

mod alpha;
mod params;
mod resolution;

use std::collections::VecDeque;

use units::{Rate, Span, Time};

pub use alpha::{Score, Search};
pub use params::{Params, Parts};
pub use resolution::Resolving;

use self::resolution::{Evidence, Resolution};
use super::direct::FOREVER;
use super::{Entry, Manner, Plan, RateControl, View, WaitLimit};

/// The paper's constants.
pub const PAPER: Entry = Entry {
    name: "vidaptive-paper",
    summary: "Vidaptive with the paper's constants (arXiv 2309.16869)",
    options: params::OPTIONS,
    build: |options| Ok(Box::new(Vidaptive::new(Params::paper().with(options)?))),
};

/// Our constants.
pub const ENTRY: Entry = Entry {
    name: "vidaptive",
    summary: "Vidaptive with constants of our own, for copa:delta=0.58: fewer late frames for the same bitrate",
    options: params::OPTIONS,
    build: |options| Ok(Box::new(Vidaptive::new(Params::ours().with(options)?))),
};

/// Frames planned and not yet sent whole that are remembered at most: as many as an outbox holds.
const PLANNED: usize = 1800;

/// More than this share of the source's frames is no outage, however few they are: what our constants' 15
/// frames a second are of 30.
const LEFT: f64 = 0.5;

/// A frame that has left.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    /// Seconds it would have taken with the whole CC-Rate.
    k: f64,
}

/// Vidaptive's state: alpha, pause, reset and ladder (arXiv 2309.16869).
#[derive(Clone, Debug)]
pub struct Vidaptive {
    params: Params,
    alpha: f64,
    /// So few frames have left within T that it counts as an outage.
    few: bool,
    /// The size of pictures, if it may change.
    resolution: Option<Resolution>,
    /// Frames that have left within T, oldest first.
    samples: VecDeque<Sample>,
    /// The share each planned frame got, by stream and frame, oldest first.
    shares: VecDeque<(u8, u32, f64)>,
    /// Since when frames have been coming.
    since: Time,
    /// Rows of the last plan.
    height: Option<u16>,
    /// The last plan.
    planned: Option<(Time, u8, u32)>,
    cc_rate: Rate,
    /// What the search said, where it said something.
    score: Option<Score>,
    /// Delays for the search, in its order.
    delays: Vec<f64>,
}

impl Vidaptive {
    /// The policy with these constants.
    pub fn new(params: Params) -> Vidaptive {
        Vidaptive {
            params,
            alpha: params.search.most,
            few: false,
            resolution: params.resolving.map(|resolving| Resolution::new(resolving, params.span)),
            samples: VecDeque::new(),
            shares: VecDeque::new(),
            since: Time::ZERO,
            height: None,
            planned: None,
            cc_rate: Rate::ZERO,
            score: None,
            delays: Vec::new(),
        }
    }

    /// The share of the CC-Rate that the encoder gets.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Takes in what has left.
    fn learn(&mut self, view: &View<'_>) {
        for frame in view.departed {
            let place = self.shares.iter().position(|&(s, f, _)| (s, f) == (view.stream, frame.frame));
            let Some((.., share)) = place.and_then(|place| self.shares.remove(place)) else { continue };
            if let Some(resolution) = self.resolution.as_mut().filter(|_| view.height > 0) {
                resolution.left(frame, view.interval);
            }
            let delay = if self.params.served { frame.served } else { frame.queued };
            self.samples.push_back(Sample { at: frame.at, k: delay.as_secs_f64() / share });
        }
        while self.samples.front().is_some_and(|sample| view.now - sample.at > self.params.span) {
            self.samples.pop_front();
        }
    }

    /// Looks at the frames of the last T for a new one.
    fn adapt(&mut self, view: &View<'_>) {
        let span = self.params.span;
        if self.planned.is_none_or(|(at, ..)| view.now - at > span) {
            self.since = view.now;
        }
        let left = self.samples.len() as f64;
        let starting = view.now - self.since < span;
        let half_missing = left <= LEFT * (span.as_secs_f64() / view.interval.as_secs_f64()).round();
        self.few = left / span.as_secs_f64() <= self.params.outage && half_missing && !starting;
        if !self.params.parts.alpha {
            return;
        }
        self.score = if self.few { None } else { self.search(view.interval) };
        match self.score {
            Some(score) => self.alpha = score.alpha,
            None if starting && self.samples.is_empty() => {}
            None => self.alpha = (self.alpha - self.params.backoff).max(self.params.search.least),
        }
    }

    /// Rows that a new frame is coded with.
    fn size(&mut self, view: &View<'_>) -> Option<u16> {
        let resolution = self.resolution.as_mut().filter(|_| view.height > 0)?;
        let View { now, height: source, .. } = *view;
        Some(resolution.choose(view.frame, &Evidence { now, few: self.few, alpha: self.alpha, source }))
    }

    fn search(&mut self, interval: Span) -> Option<Score> {
        self.delays.clear();
        self.delays.extend(self.samples.iter().map(|sample| sample.k));
        self.delays.sort_unstable_by(f64::total_cmp);
        self.params.search.best(&self.delays, interval.as_secs_f64())
    }

    fn remember(&mut self, view: &View<'_>) {
        if self.shares.len() == PLANNED {
            self.shares.pop_front();
        }
        self.shares.push_back((view.stream, view.frame, self.alpha));
    }
}

impl RateControl for Vidaptive {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        self.learn(view);
        // A kept frame is planned twice, but its time passes once.
        let again = self.planned.is_some_and(|(_, s, f)| (s, f) == (view.stream, view.frame));
        if !again {
            self.adapt(view);
            self.height = self.size(view);
        }
        self.planned = Some((view.now, view.stream, view.frame));
        self.cc_rate = view.cc_rate.unwrap_or(view.limits.1);
        let encode = !self.params.parts.pause || view.waited <= self.params.tau();
        if encode {
            self.remember(view);
        }
        Plan {
            bitrate: self.cc_rate.mul_f64(self.alpha).clamp(view.limits.0, view.limits.1),
            encode,
            keep: self.params.keep,
            largest_key: self.params.parts.resets.then(|| self.cc_rate.bytes_in(self.params.key)),
            height: self.height,
        }
    }

    fn manner(&self) -> Manner {
        let Params { parts, reset, dummies, floor, fresh, probe, .. } = self.params;
        Manner {
            floor,
            fresh,
            even: parts.even,
            spill: parts.spill,
            probe: (probe > Span::ZERO).then_some(probe),
            limit: if parts.resets { WaitLimit::OfOldest(reset) } else { WaitLimit::OfCapture(FOREVER) },
            flush: false,
            dummies: parts.dummies.then_some(dummies),
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("alpha", self.alpha);
        sink("cc_rate_mbps", self.cc_rate.as_f64() / 1e6);
        if let Some(height) = self.height {
            sink("height", f64::from(height));
        }
        if let Some(score) = self.score {
            sink("frame_score", score.frames);
            sink("bitrate_score", score.bitrate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Departed;
    use units::Bytes;

    const INTERVAL: Span = Span::from_nanos(33_333_333);

    fn view(tick: u32, departed: &[Departed]) -> View<'_> {
        View {
            now: Time::ZERO + INTERVAL * i64::from(tick),
            stream: 0,
            frame: tick,
            interval: INTERVAL,
            cc_rate: Some(Rate::from_mbps(4)),
            queued: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            waited: Span::ZERO,
            cut: false,
            open: true,
            patience: Span::from_millis(100),
            limits: (Rate::from_kbps(100), Rate::from_mbps(12)),
            height: 0,
            departed,
        }
    }

    /// Plans `ticks`; the frame before each has just left after `ms`, or did not.
    fn run(policy: &mut Vidaptive, ticks: std::ops::Range<u32>, ms: Option<i64>) {
        for tick in ticks {
            let queued = Span::from_millis(ms.unwrap_or_default());
            let at = Time::ZERO + INTERVAL * i64::from(tick);
            let (size, target) = (Bytes::new(1_000), Rate::from_mbps(1));
            let gone = Departed {
                frame: tick.wrapping_sub(1),
                at,
                queued,
                served: queued,
                size,
                sent: size,
                target,
                quantiser: None,
            };
            policy.plan(&view(tick, if ms.is_some() { std::slice::from_ref(&gone) } else { &[] }));
        }
    }

    fn paper() -> Vidaptive {
        Vidaptive::new(Params::paper())
    }

    #[test]
    fn the_encoder_gets_alpha_of_the_cc_rate() {
        let mut policy = paper();
        run(&mut policy, 0..60, Some(20));
        assert_eq!(policy.plan(&view(60, &[])).bitrate, Rate::from_mbps(4));
        // A frame took 66 ms: at a half of that rate it would have taken 33.
        let mut policy = paper();
        run(&mut policy, 0..2, Some(66));
        assert!((policy.alpha() - 0.5).abs() < 1e-9, "{}", policy.alpha());
        assert_eq!(policy.plan(&view(2, &[])).bitrate, Rate::from_mbps(2));
    }

    #[test]
    fn v4_few_frames_are_an_outage() {
        let mut policy = paper();
        run(&mut policy, 0..60, Some(20));
        // Nothing leaves any more: a second later five frames or fewer are left to go by.
        let alphas: Vec<f64> = (60..100)
            .map(|tick| {
                run(&mut policy, tick..tick + 1, None);
                (policy.alpha() * 1e3).round() / 1e3
            })
            .collect();
        let first = alphas.iter().position(|&alpha| alpha < 1.0).unwrap();
        assert_eq!(alphas[first..first + 8], [0.85, 0.7, 0.55, 0.4, 0.25, 0.1, 0.05, 0.05]);
        assert!((24..=26).contains(&first), "{first}");
    }

    #[test]
    fn v5_when_every_frame_is_late_it_backs_off_too() {
        let mut policy = paper();
        run(&mut policy, 0..1, None);
        run(&mut policy, 1..2, Some(1_400));
        assert!((policy.alpha() - 0.85).abs() < 1e-9, "{}", policy.alpha());
    }

    #[test]
    fn neither_the_start_nor_a_silent_source_is_an_outage() {
        let mut policy = paper();
        run(&mut policy, 0..20, None);
        assert_eq!(policy.alpha(), 1.0);
        run(&mut policy, 20..60, Some(20));
        run(&mut policy, 600..620, None);
        assert_eq!(policy.alpha(), 1.0);
    }

    #[test]
    fn a_source_with_few_frames_is_no_outage() {
        for params in [Params::paper(), Params::ours()] {
            let mut policy = Vidaptive::new(params);
            let interval = Span::from_millis(200);
            let at = |tick: u32| Time::ZERO + interval * i64::from(tick);
            let mut plan = |tick: u32, left: bool| {
                let gone = Departed {
                    frame: tick.wrapping_sub(1),
                    at: at(tick),
                    queued: Span::from_millis(20),
                    served: Span::from_millis(20),
                    size: Bytes::new(1_000),
                    sent: Bytes::new(1_000),
                    target: Rate::from_mbps(1),
                    quantiser: None,
                };
                let departed = if left { std::slice::from_ref(&gone) } else { &[] };
                policy.plan(&View { now: at(tick), interval, ..view(tick, departed) });
                policy.alpha()
            };
            let steady = (0..50).map(|tick| plan(tick, true)).fold(1.0, f64::min);
            assert_eq!(steady, 1.0, "all five frames of each second leave");
            let stopped = (50..60).map(|tick| plan(tick, false)).last();
            assert_eq!(stopped, Some(params.search.least), "none does any more");
        }
    }

    #[test]
    fn the_encoder_pauses_beyond_tau_and_a_kept_frame_costs_no_alpha() {
        let mut policy = paper();
        run(&mut policy, 0..60, Some(20));
        run(&mut policy, 60..90, None);
        let waiting = |ms, tick| View { waited: Span::from_millis(ms), ..view(tick, &[]) };
        let paused = policy.plan(&waiting(34, 90));
        assert!(!paused.encode && paused.keep == Span::from_micros(16_667));
        let alpha = policy.alpha();
        let resumed = policy.plan(&View { now: view(90, &[]).now + Span::from_millis(9), ..view(90, &[]) });
        assert!(resumed.encode && policy.alpha() == alpha);
        assert!(policy.plan(&waiting(33, 91)).encode);
    }

    #[test]
    fn a_part_that_is_off_does_nothing() {
        let text = "vidaptive-paper:alpha=off,pause=off,resets=off,dummies=off,even=off";
        let mut policy = Vidaptive::new(Params::paper().with(&text.parse().unwrap()).unwrap());
        run(&mut policy, 0..60, Some(200));
        assert_eq!(policy.alpha(), 1.0);
        let plan = policy.plan(&View { waited: Span::from_secs(5), ..view(60, &[]) });
        assert!(plan.encode && plan.largest_key.is_none());
        let manner = policy.manner();
        assert_eq!((manner.even, manner.limit, manner.dummies), (false, WaitLimit::OfCapture(FOREVER), None));
    }
}
