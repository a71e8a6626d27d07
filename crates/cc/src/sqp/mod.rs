//! SQP: congestion control whose probes are the video frames themselves (arXiv 2207.11857; section numbers
//! below are its).
//!
//! Every frame leaves as a burst paced at `m` times the estimate `B`. How far the link spreads the burst,
//! plus whatever delay it met above the recent minimum, is one sample of the bandwidth; a small step of a
//! logarithmic-utility gradient moves `B` towards 0.9 of it. The pause after each burst lets the queue drain.
//!
//! ```text
//!  frame settled -> frames.rs   who arrived, when (section 4.2's interval tracker)
//!                -> min_owd.rs  smallest one-way delay over 2 sRTT (section 4.3)
//!                -> sample.rs   eq. 1, eq. 2, loss scaling: S
//!                -> pause.rs   what a pause of the link was carried at (`sqp-robust`)
//!                -> eq. 4       B += delta (r (S/B - 1) - (B/S - 1))      (this file)
//! ```
//!
//! What the paper leaves open and how it is settled here is listed in `docs/sqp.md`; `fluid.rs` holds its
//! theory.

mod arrivals;
pub mod fluid;
mod frames;
mod min_owd;
mod params;
mod pause;
mod sample;

use std::collections::VecDeque;

use units::{Bytes, Rate, RelativeDelay, Span, Time};

use crate::parts::{OwdBase, packet_rtts};
use crate::{Controller, Decision, Entry, Report, Sent, Setup};
use arrivals::Arrivals;
use frames::{FrameBurst, Frames};
use min_owd::MinOwd;
use params::OPTIONS;
pub use params::Params;
use pause::Pauses;
use sample::Base;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "sqp",
    summary: "SQP: every frame is a paced burst that measures the link (arXiv 2207.11857)",
    needs_frames: true,
    options: OPTIONS,
    page: include_str!("sqp.md"),
    build: |options, setup| Ok(Box::new(Sqp::new(Params::default().read(options)?, setup))),
    receiver: None,
};

/// SQP on the paths that its form in the paper can't take.
pub const ROBUST: Entry = Entry {
    name: "sqp-robust",
    summary: "SQP for any path: few packets a frame, low rates, traffic that does not yield, ten flows",
    build: |options, setup| Ok(Box::new(Sqp::new(Params::robust().read(options)?, setup))),
    ..ENTRY
};

/// Section 4.3 reads srtt before the first report too; RFC 9002's 333 ms would make the first window
/// needlessly long.
const INITIAL_SRTT: Span = Span::from_millis(100);
/// One over the weight of a packet's round trip in srtt: half of RFC 6298's eighth, because the transport
/// that SQP runs on takes one sample of every two packets (QUIC acknowledges so: RFC 9000 section 13.2.2).
/// How seldom our receiver reports makes no difference.
const SRTT_SHARE: i64 = 16;
/// Without any report for this long the estimate halves, again and again: the equivalent of a retransmission
/// timeout, which the paper leaves open.
const OUTAGE: Span = Span::from_millis(500);
/// One update never takes more than half of the estimate (eq. 4 is unbounded below).
const MAX_CUT: f64 = 0.5;
/// A feedback outage can't run away: at most this many times `B * srtt` in flight ...
const WINDOW_GAIN: f64 = 2.0;
/// ... but always this much.
const MIN_WINDOW: u64 = 64_000;
/// The frame interval delta was tuned for (section 4.4, 60 frames/s).
const REFERENCE_INTERVAL: f64 = 1.0 / 60.0;

/// A standing queue is remembered for this long: longer than any window, and short enough that a clock that
/// drifts by 100 ppm moves the memory by 6 ms.
const REMEMBERED: Span = Span::from_secs(60);
/// Loss is smoothed over this many frames.
const LOSSY_FRAMES: f64 = 16.0;
/// A first packet's wait is averaged over this many frames: seconds, so that a fall of the rate is over
/// before it counts.
const WAIT_FRAMES: f64 = 128.0;
/// What waits of first packets, and a frame that is larger than the estimate allows, add to the window at
/// most, in seconds.
const MOST_SLACK: f64 = 0.1;
/// A frame is overdue when it has taken this many times what it takes at the estimate ...
const OVERDUE: f64 = 1.5;
/// ... and this: radio links pause for so long while nothing is wrong with their rate.
const PAUSE: Span = Span::from_millis(50);
/// An overdue frame leaves this share of the estimate it was sent at; silence and samples do the rest.
const OVERDUE_LEAVES: f64 = 0.25;
/// Arrivals are counted over a round trip, and over this at least: at 100 kbit/s two packets of 1200 bytes
/// take as long.
const COUNTED: Span = Span::from_millis(200);
/// A window's minimum that stands less above the smallest delay of the last minute is no queue: what is lost
/// then is not lost to one.
const UNQUEUED: Span = Span::from_millis(10);
/// Losses make the window at most twice as large.
const MOST_LOSSY: f64 = 0.5;
/// How much lower than its bound an overdue frame puts the estimate, so that it is not overdue again at once.
const BELOW: f64 = 0.95;

/// Eq. 4: where the estimate goes from `estimate` on seeing `sample` (both in bit/s, T applied).
pub fn update(estimate: f64, sample: f64, step: f64, reward: f64) -> f64 {
    estimate + step * (reward * (sample / estimate - 1.0) - (estimate / sample - 1.0))
}

/// SQP's state for one flow: bandwidth samples of its frames, the estimate, window and pacing.
#[derive(Clone, Debug)]
pub struct Sqp {
    params: Params,
    setup: Setup,
    /// Time between frames, in seconds: every packet asks.
    interval: f64,
    /// B, in bit/s.
    estimate: f64,
    /// Smoothed over packets, queueing included (section 4.3).
    srtt: Option<Span>,
    frames: Frames,
    min_owd: MinOwd,
    /// The smallest one-way delay of the last minute, where an option [asks for it](Params::looks_back).
    long_owd: OwdBase,
    /// When the newest packet heard of was sent, its round trip and its one-way delay: what turns a delay
    /// into a round trip.
    newest: Option<(Time, Span, RelativeDelay)>,
    /// Mean wait of frames' first packets, in seconds.
    wait: f64,
    pauses: Pauses,
    arrivals: Arrivals,
    /// Estimates that packets of late were sent at, falling, each with the time it was last used.
    recent: VecDeque<(Time, f64)>,
    /// Share of frames' packets lost, smoothed over the last frames.
    lossy: f64,
    last_sample: f64,
    /// When something was last heard, or last sent into silence.
    heard_at: Time,
    /// Something was sent after `heard_at`.
    waiting: bool,
    /// When the frame that is overdue next will be; worked out after each call that may move it.
    overdue_at: Option<Time>,
}

impl Sqp {
    /// A new session's state.
    pub fn new(params: Params, setup: &Setup) -> Sqp {
        Sqp {
            params,
            setup: *setup,
            interval: setup.frame_interval.as_secs_f64(),
            estimate: setup.initial.as_f64(),
            srtt: None,
            frames: Frames::default(),
            min_owd: MinOwd::default(),
            long_owd: OwdBase::new(REMEMBERED),
            newest: None,
            wait: 0.0,
            pauses: Pauses::default(),
            arrivals: Arrivals::default(),
            recent: VecDeque::new(),
            lossy: 0.0,
            last_sample: 0.0,
            heard_at: Time::ZERO,
            waiting: false,
            overdue_at: None,
        }
    }

    /// One frame's burst is settled: sample and step.
    fn learn(&mut self, burst: &FrameBurst) {
        let gone = f64::from(burst.count.saturating_sub(burst.arrived)) / f64::from(burst.count.max(1));
        self.lossy += (gone - self.lossy) / LOSSY_FRAMES;
        let least = self.min_owd.since(burst.first_sent - self.window());
        if let Some(((first, _), least)) = burst.received.zip(least) {
            let wait = (first.delay_since(burst.first_sent) - least.delay).max(Span::ZERO);
            self.wait += (wait.as_secs_f64() - self.wait) / WAIT_FRAMES;
        }
        let base = least.map(|least| Base { least, standing: self.standing(least.delay), lossy: self.lossy });
        let full = self.estimate * self.interval;
        let Some(sample) = sample::sample(burst, base, self.estimate, full, &self.params) else { return };
        self.last_sample = sample;
        let next = update(self.estimate, sample, self.step(), self.params.reward);
        // Deviation: one update takes at most half, and frames that wait for the same pause of the link
        // arrive together: four of them would leave a sixteenth. What was sent at one estimate halves it
        // once, as a window is halved once a round trip (RFC 9002 section 7.3.2).
        let sent_at = burst.full / self.interval;
        let cut = if self.params.once {
            self.estimate.max(sent_at).min(self.estimate / MAX_CUT)
        } else {
            self.estimate
        };
        // Deviation: a frame that waits D and carries b bits has the sample b / D, however fast the queue is
        // leaving. Where a frame is one packet D is many intervals, and the estimate falls to a tenth of the
        // link before the queue has left. Half of what arrives lets it leave, too, in as long again as it
        // stands for.
        let floor = self.params.floor * self.arrivals.rate(self.counted());
        self.set_estimate(next.max(cut * MAX_CUT).max(floor.min(self.estimate)));
        if let Some(carried) = self.carried(burst, sent_at) {
            self.set_estimate(self.estimate.max(carried));
        }
    }

    /// Deviation: a sample can't tell a link that pauses from one that is slow. When the frames that waited
    /// have left the queue, what they were carried at is known, and the estimate does not stay below.
    fn carried(&mut self, burst: &FrameBurst, sent_at: f64) -> Option<f64> {
        let least = self.long_owd.get().filter(|_| self.params.pauses)?;
        self.pauses.settled(burst, least, sent_at, self.setup.frame_interval)
    }

    /// How far the one-way delay `least` stands above the smallest of the last minute.
    fn standing(&self, least: RelativeDelay) -> Span {
        self.long_owd.get().map_or(Span::ZERO, |long| (least - long).max(Span::ZERO))
    }

    /// How long arrivals are counted over.
    fn counted(&self) -> Span {
        self.rtt_above(self.long_owd.get()).map_or(COUNTED, |rtt| rtt.max(COUNTED))
    }

    /// delta: as printed, or scaled.
    fn step(&self) -> f64 {
        let scale = if self.params.scale_step { self.interval / REFERENCE_INTERVAL } else { 1.0 };
        let step = self.params.step * scale;
        if self.params.gain.is_infinite() {
            return step;
        }
        // Deviation: what an update causes is seen a round trip later, and until then each frame's update
        // asks for the same again. The paper's 320 kbit/s are 2 % of its flows' 15 Mbit/s; at 300 kbit/s one
        // step is the estimate. In proportion to the estimate throughout, equal shares would no longer be
        // what flows move towards: above delta its square root counts.
        let rtt = self.rtt_above(self.long_owd.get()).unwrap_or(INITIAL_SRTT);
        let frames = (rtt.as_secs_f64() / self.interval).max(1.0);
        let relative = self.estimate / self.params.step;
        let relative = if relative < 1.0 { relative.powi(2) } else { relative.sqrt() };
        step.min(self.params.gain * self.params.step * relative / frames)
    }

    /// How long a minimum one-way delay is kept.
    fn window(&self) -> Span {
        self.srtt().mul_f64(self.params.window)
    }

    /// The round trip at the one-way delay `least`.
    fn rtt_above(&self, least: Option<RelativeDelay>) -> Option<Span> {
        let (_, rtt, delay) = self.newest?;
        Some((rtt - (delay - least?)).max(Span::ZERO))
    }

    /// The round trip without what this flow's own bursts add: that of the window's minimum.
    fn least_rtt(&self) -> Option<Span> {
        let least = self.min_owd.since(self.newest?.0 - self.window());
        self.rtt_above(least.map(|least| least.delay))
    }

    /// The frame that is overdue next, when it will be, and how long it may have taken by then.
    fn overdue(&self) -> Option<(Time, &FrameBurst, Span)> {
        if !self.params.overdue {
            return None;
        }
        let burst = self.frames.awaited()?;
        let leaves = (OVERDUE_LEAVES * burst.full / self.interval).max(self.setup.min.as_f64());
        let patience = Span::from_secs_f64(OVERDUE * burst.bits() / self.estimate);
        let since = burst.first_sent + self.least_rtt()? + PAUSE;
        (self.estimate > leaves).then_some((since + patience, burst, patience))
    }

    /// Deviation: the paper takes a sample when a frame has arrived. Where a link falls to a quarter of its
    /// rate that is four intervals later, and each frame sent until then joins the queue. A frame that has
    /// not arrived yet says already that the link carries no more than its bits over the time it has taken.
    fn hasten(&mut self, now: Time) {
        let Some((at, burst, patience)) = self.overdue().filter(|(at, ..)| now >= *at) else { return };
        let bound = OVERDUE * burst.bits() / (patience + (now - at)).as_secs_f64();
        let leaves = OVERDUE_LEAVES * burst.full / self.interval;
        self.set_estimate((BELOW * bound).max(leaves).min(self.estimate));
    }

    #[inline]
    fn look_for_overdue(&mut self) {
        if self.params.overdue {
            self.overdue_at = self.overdue().map(|(at, ..)| at);
        }
    }

    fn silent_at(&self) -> Option<Time> {
        self.waiting.then(|| self.heard_at + OUTAGE)
    }

    /// Most bytes in flight.
    fn flight(&self) -> u64 {
        if self.params.flight.is_infinite() {
            let window = (WINDOW_GAIN * self.estimate * self.srtt().as_secs_f64() / 8.0) as u64;
            return window.max(MIN_WINDOW);
        }
        // Deviation: the paper has no window. A link that falls to a quarter keeps what is in flight for four
        // times as long, so no more is in flight than a round trip without our own queue, and a frame, hold;
        // and what a key frame is larger by. What is in flight was sent at the estimates before: while the
        // link pauses it would close the window that a lower one leaves, and when the link is back its queue
        // would be empty.
        let estimate = self.recent.front().map_or(self.estimate, |(_, estimate)| estimate.max(self.estimate));
        let larger = self.frames.excess(self.setup.mtu) as f64 * 8.0 / estimate;
        let held = self.least_rtt().unwrap_or(INITIAL_SRTT).as_secs_f64()
            + self.params.flight * self.interval
            + (self.params.slack * self.wait + larger).min(MOST_SLACK);
        ((estimate * held * self.lost_in_flight() / 8.0) as u64).max(2 * u64::from(self.setup.mtu))
    }

    /// Deviation: a lost packet counts as in flight until it is missed, a round trip and more. Where the
    /// window has no room for such packets it holds the burst back, and what the sender held back the sample
    /// reads as a slow link. This many times the window has room, where no queue explains the losses.
    fn lost_in_flight(&self) -> f64 {
        let least = self.newest.and_then(|(sent_at, ..)| self.min_owd.since(sent_at - self.window()));
        let queued = least.is_some_and(|least| self.standing(least.delay) >= UNQUEUED);
        let lossy = if self.params.lossy && !queued { self.lossy.min(MOST_LOSSY) } else { 0.0 };
        1.0 / (1.0 - lossy)
    }

    /// A packet left at the estimate.
    #[inline(never)]
    fn remember(&mut self, now: Time) {
        let outdated = |(at, _): &(Time, f64)| *at + self.params.hold < now;
        while self.recent.front().is_some_and(outdated) {
            self.recent.pop_front();
        }
        while self.recent.back().is_some_and(|(_, estimate)| *estimate <= self.estimate) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, self.estimate));
    }

    fn srtt(&self) -> Span {
        self.srtt.unwrap_or(INITIAL_SRTT)
    }

    fn set_estimate(&mut self, bps: f64) {
        self.estimate = bps.clamp(self.setup.min.as_f64(), self.setup.max.as_f64());
    }
}

impl Controller for Sqp {
    fn on_sent(&mut self, sent: &Sent) {
        if self.params.flight.is_finite() {
            self.remember(sent.now);
        }
        if !self.waiting {
            (self.waiting, self.heard_at) = (true, sent.now);
        }
        if let Some(tag) = sent.frame.as_ref().filter(|tag| !tag.retransmission) {
            self.frames.sent(sent.now, tag, sent.size, self.estimate * self.interval);
        }
        self.look_for_overdue();
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let mut newest = None;
        for (acked, rtt) in packet_rtts(report) {
            let srtt = self.srtt.unwrap_or(rtt);
            self.srtt = Some(srtt + (rtt - srtt) / SRTT_SHARE);
            newest = Some((acked, rtt));
        }
        if let Some((acked, rtt)) = newest {
            self.newest = acked.arrived_at.map(|at| (acked.sent_at, rtt, at.delay_since(acked.sent_at)));
        }
        if !report.acked.is_empty() {
            self.heard_at = report.now;
            self.waiting = report.in_flight > Bytes::ZERO;
        }
        let looks_back = self.params.looks_back();
        for acked in report.acked {
            let Some(arrived_at) = acked.arrived_at else {
                self.frames.arrived_untimed(acked);
                continue;
            };
            let delay = arrived_at.delay_since(acked.sent_at);
            self.min_owd.insert(acked.sent_at, delay, acked.size);
            if looks_back {
                self.long_owd.queuing(report.now, delay);
            }
            self.frames.arrived(acked, arrived_at);
            if self.params.floor > 0.0 {
                self.arrivals.insert(arrived_at, acked.size, self.counted());
            }
        }
        report.lost.iter().for_each(|lost| self.frames.lost(lost));
        while let Some(burst) = self.frames.pop_settled(report.now, self.srtt()) {
            self.learn(&burst);
        }
        self.look_for_overdue();
    }

    fn on_timer(&mut self, now: Time) {
        self.hasten(now);
        if self.silent_at().is_some_and(|at| now >= at) {
            self.heard_at = now;
            self.set_estimate(self.estimate / 2.0);
            // What the path was like before the silence says nothing about after.
            self.min_owd = MinOwd::default();
            self.long_owd.clear();
        }
        self.look_for_overdue();
    }

    fn next_timer(&self) -> Option<Time> {
        Time::first(self.silent_at(), self.overdue_at)
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.setup.mtu = mtu;
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let jitter = self.params.jitter.max(self.setup.frame_interval.mul_f64(self.params.jitter_share));
        Decision {
            window: Some(Bytes::new(self.flight())),
            pacing: Some(Rate::from_f64(self.params.pace * self.estimate)),
            media: Some(Rate::from_f64(self.estimate)),
            frame_jitter: jitter,
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("sqp_estimate_bps", self.estimate);
        sink("sqp_sample_bps", self.last_sample);
    }
}

#[cfg(test)]
mod tests;
