//! SQP: congestion control whose probes are the video frames themselves (arXiv 2207.11857; section numbers below are its).
//!
//! Every frame leaves as a burst paced at `m` times the estimate `B`. How far the link spreads the burst, plus whatever
//! delay it met above the recent minimum, is one sample of the bandwidth; a small step of a logarithmic-utility gradient
//! moves `B` towards 0.9 of it. The pause after each burst lets the queue drain.
//!
//! ```text
//!  frame settled -> frames.rs   who arrived, when (section 4.2's interval tracker)
//!                -> min_owd.rs  smallest one-way delay over 2 sRTT (section 4.3)
//!                -> sample.rs   eq. 1, eq. 2, loss scaling: S
//!                -> eq. 4       B += delta (r (S/B - 1) - (B/S - 1))      (this file)
//! ```
//!
//! What the paper leaves open and how it is settled here is listed in `docs/sqp.md`; `fluid.rs` holds its theory.

pub mod fluid;
mod frames;
mod min_owd;
mod sample;

use units::{Bytes, Rate, Span, Time};

use crate::parts::packet_rtts;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use frames::{FrameBurst, Frames};
use min_owd::MinOwd;

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "sqp",
    summary: "SQP: every frame is a paced burst that measures the link (arXiv 2207.11857)",
    needs_frames: true,
    options: &[
        ("target", "T, share of a sample that is aimed for, 0.3 to 1 (default 0.9)"),
        ("pace", "m, bursts leave at this multiple of the estimate, 1.1 to 8 (default 2)"),
        ("step", "delta, bit/s of one update, such as 320kbit"),
        ("reward", "r, weight of a higher estimate, 0.01 to 4 (default 0.25)"),
        ("window", "minimum one-way delay is kept for this many sRTT, 0.5 to 16 (default 2)"),
        ("jitter", "frames start up to this much early or late, such as 1ms (default 0ms)"),
        ("undershoot", "eq. 2: extrapolate frames smaller than the estimate, on or off (default on)"),
        ("exclude_first", "leave the first packet out of the sample's size, on or off (default off)"),
        ("scale_step", "scale delta by frame interval / 16.67 ms, on or off (default off)"),
    ],
    page: include_str!("sqp.md"),
    build: |options, setup| Ok(Box::new(Sqp::new(Params::read(options)?, setup))),
    receiver: None,
};

/// Section 4.3 reads srtt before the first report too; RFC 9002's 333 ms would make the first window needlessly long.
const INITIAL_SRTT: Span = Span::from_millis(100);
/// One over the weight of a packet's round trip in srtt: half of RFC 6298's eighth, because the transport that SQP runs on
/// takes one sample of every two packets (QUIC acknowledges so: RFC 9000 section 13.2.2). How seldom our receiver reports
/// makes no difference.
const SRTT_SHARE: i64 = 16;
/// Without any report for this long the estimate halves, again and again: the equivalent of a retransmission timeout,
/// which the paper leaves open.
const OUTAGE: Span = Span::from_millis(500);
/// One update never takes more than half of the estimate (eq. 4 is unbounded below).
const MAX_CUT: f64 = 0.5;
/// A feedback outage can't run away: at most this many times `B * srtt` in flight ...
const WINDOW_GAIN: f64 = 2.0;
/// ... but always this much.
const MIN_WINDOW: u64 = 64_000;
/// The frame interval delta was tuned for (section 4.4, 60 frames/s).
const REFERENCE_INTERVAL: f64 = 1.0 / 60.0;

/// SQP's parameters; [`Default`] is the paper's (sections 4.3 to 4.5, 6.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// T: share of a sample that is aimed for.
    pub target: f64,
    /// m: bursts leave at this multiple of the estimate.
    pub pace: f64,
    /// delta of eq. 4, in bit/s per frame.
    pub step: f64,
    /// r of eq. 4.
    pub reward: f64,
    /// The minimum one-way delay is kept for this many smoothed round-trip times.
    pub window: f64,
    /// Frames start up to this much before or after their nominal time (section 5.2, footnote 5).
    pub jitter: Span,
    /// Eq. 2 on.
    pub undershoot: bool,
    /// Leave the first packet's bytes out of F: n packets have n - 1 gaps.
    pub exclude_first: bool,
    /// Scale delta with the frame interval, so that 30 frames/s ramp as fast as 60.
    pub scale_step: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            target: 0.9,
            pace: 2.0,
            step: 320e3,
            reward: 0.25,
            window: 2.0,
            jitter: Span::ZERO,
            undershoot: true,
            exclude_first: false,
            scale_step: false,
        }
    }
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        let d = Params::default();
        let step = options.quantity("step", Rate::from_f64(d.step), "a rate such as 320kbit")?;
        Ok(Params {
            target: options.number("target", d.target, 0.3..=1.0)?,
            pace: options.number("pace", d.pace, 1.1..=8.0)?,
            step: step.as_f64(),
            reward: options.number("reward", d.reward, 0.01..=4.0)?,
            window: options.number("window", d.window, 0.5..=16.0)?,
            jitter: options.quantity("jitter", d.jitter, "a time such as 1ms")?,
            undershoot: options.switch("undershoot", d.undershoot)?,
            exclude_first: options.switch("exclude_first", d.exclude_first)?,
            scale_step: options.switch("scale_step", d.scale_step)?,
        })
    }
}

/// Eq. 4: where the estimate goes from `estimate` on seeing `sample` (both in bit/s, T applied).
pub fn update(estimate: f64, sample: f64, step: f64, reward: f64) -> f64 {
    estimate + step * (reward * (sample / estimate - 1.0) - (estimate / sample - 1.0))
}

/// The controller.
#[derive(Debug)]
pub struct Sqp {
    params: Params,
    setup: Setup,
    /// B, in bit/s.
    estimate: f64,
    /// Smoothed over packets, queueing included (section 4.3).
    srtt: Option<Span>,
    frames: Frames,
    min_owd: MinOwd,
    last_sample: f64,
    /// When something was last heard, or last sent into silence.
    heard_at: Time,
    /// Something was sent after `heard_at`.
    waiting: bool,
}

impl Sqp {
    /// A new session's state.
    pub fn new(params: Params, setup: &Setup) -> Sqp {
        Sqp {
            params,
            setup: *setup,
            estimate: setup.initial.as_f64(),
            srtt: None,
            frames: Frames::default(),
            min_owd: MinOwd::default(),
            last_sample: 0.0,
            heard_at: Time::ZERO,
            waiting: false,
        }
    }

    /// One frame's burst is settled: sample and step.
    fn learn(&mut self, burst: &FrameBurst) {
        let window = self.srtt().mul_f64(self.params.window);
        let min_owd = self.min_owd.since(burst.first_sent - window);
        let full = self.estimate * self.setup.frame_interval.as_secs_f64();
        let Some(sample) = sample::sample(burst, min_owd, self.estimate, full, &self.params) else { return };
        self.last_sample = sample;
        let scale = self.setup.frame_interval.as_secs_f64() / REFERENCE_INTERVAL;
        let step = self.params.step * if self.params.scale_step { scale } else { 1.0 };
        let next = update(self.estimate, sample, step, self.params.reward);
        self.set_estimate(next.max(self.estimate * MAX_CUT));
    }

    fn srtt(&self) -> Span {
        self.srtt.unwrap_or(INITIAL_SRTT)
    }

    fn smooth(&mut self, rtt: Span) {
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt + (rtt - srtt) / SRTT_SHARE));
    }

    fn set_estimate(&mut self, bps: f64) {
        self.estimate = bps.clamp(self.setup.min.as_f64(), self.setup.max.as_f64());
    }
}

impl Controller for Sqp {
    fn on_sent(&mut self, sent: &Sent) {
        if !self.waiting {
            (self.waiting, self.heard_at) = (true, sent.now);
        }
        if let Some(tag) = sent.frame.filter(|tag| !tag.retransmission) {
            self.frames.sent(sent.now, &tag, sent.size);
        }
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        packet_rtts(report).for_each(|(_, rtt)| self.smooth(rtt));
        if !report.acked.is_empty() {
            self.heard_at = report.now;
            self.waiting = report.in_flight > Bytes::ZERO;
        }
        for acked in report.acked {
            let Some(arrived_at) = acked.arrived_at else {
                self.frames.arrived_untimed(acked);
                continue;
            };
            self.min_owd.insert(acked.sent_at, arrived_at.delay_since(acked.sent_at));
            self.frames.arrived(acked, arrived_at);
        }
        report.lost.iter().for_each(|lost| self.frames.lost(lost));
        while let Some(burst) = self.frames.pop_settled(report.now, self.srtt()) {
            self.learn(&burst);
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.next_timer().is_some_and(|at| now >= at) {
            self.heard_at = now;
            self.set_estimate(self.estimate / 2.0);
            // What the path was like before the silence says nothing about after.
            self.min_owd = MinOwd::default();
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.waiting.then(|| self.heard_at + OUTAGE)
    }

    fn decision(&self) -> Decision {
        let window = (WINDOW_GAIN * self.estimate * self.srtt().as_secs_f64() / 8.0) as u64;
        Decision {
            window: Some(Bytes::new(window.max(MIN_WINDOW))),
            pacing: Some(Rate::from_f64(self.params.pace * self.estimate)),
            media: Some(Rate::from_f64(self.estimate)),
            frame_jitter: self.params.jitter,
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("sqp_estimate_bps", self.estimate);
        sink("sqp_sample_bps", self.last_sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Acked;
    use crate::controller::tests::{acked, report};

    #[test]
    fn srtt_does_not_depend_on_how_often_reports_come() {
        // Ten packets on a path of 40 ms, the n-th of which waited n ms: in one report, and in ten.
        let arrived = |n: u64| (Time::from_millis(n) + Span::from_millis(20 + n as i64)).on_wire();
        let packets: Vec<_> =
            (0..10).map(|n| Acked { arrived_at: Some(arrived(n)), ..acked(n, 1000) }).collect();
        let hear = |sqp: &mut Sqp, acks: &[Acked]| {
            let waited = acks.last().map(|last| Span::from_millis(last.packet as i64)).unwrap();
            sqp.on_feedback(&Report {
                latest_rtt: Some(Span::from_millis(40) + waited),
                ..report(acks, &[])
            });
        };
        let mut seldom = Sqp::new(Params::default(), &Setup::default());
        let mut often = Sqp::new(Params::default(), &Setup::default());
        assert_eq!(seldom.srtt(), INITIAL_SRTT);
        hear(&mut seldom, &packets);
        packets.chunks(1).for_each(|one| hear(&mut often, one));
        assert_eq!(seldom.srtt(), often.srtt());
        assert!(seldom.srtt() > Span::from_millis(41) && seldom.srtt() < Span::from_millis(44));
    }

    #[test]
    fn steps_match_the_printed_table() {
        // Steps in kbit/s per frame as a function of S/B, worked out by hand from eq. 4 and rounded.
        let table = [
            (1.8, 206.0),
            (1.2, 69.3),
            (1.1, 37.1),
            (1.05, 19.2),
            (1.0, 0.0),
            (0.95, -20.8),
            (0.9, -43.6),
            (0.8, -96.0),
            (0.667, -186.0),
            (0.5, -360.0),
            (0.3, -803.0),
            (0.2, -1345.0),
            (0.1, -2952.0),
        ];
        for (ratio, step) in table {
            let b = 10e6;
            let got = (update(b, ratio * b, 320e3, 0.25) - b) / 1e3;
            assert!((got - step).abs() <= 1.0, "S/B {ratio}: {got} instead of {step}");
        }
    }

    #[test]
    fn silence_halves_the_estimate_down_to_the_minimum() {
        let mut sqp = Sqp::new(Params::default(), &Setup::default());
        let sent = Sent {
            now: Time::ZERO,
            packet: 0,
            size: 1200,
            frame: None,
            in_flight: Bytes::new(1200),
            app_limited: false,
        };
        assert_eq!(sqp.next_timer(), None);
        sqp.on_sent(&sent);
        for halvings in 1..=8 {
            let at = sqp.next_timer().unwrap();
            assert_eq!(at, Time::from_millis(500 * halvings));
            sqp.on_timer(at);
        }
        assert_eq!(sqp.decision().media, Some(Rate::from_kbps(300)));
    }
}
