//! A video, a link with an endless queue, and feedback every 50 ms.

use std::collections::VecDeque;

use units::{Rng, Span, Time};

use crate::{Estimator, Feedback, Packet, Trace};

/// Frames are sent at 30 a second, in packets of at most this, paced at 2.5 times the rate.
const FRAME: Span = Span::from_micros(33_333);
const PACKET: f64 = 1200.0;
const PACE: f64 = 2.5;
/// Time passes in steps of this.
const STEP: Span = Span::from_millis(1);
/// The estimators' tick, and the receiver's feedback.
const TICK: Span = Span::from_millis(25);
const FEEDBACK: Span = Span::from_millis(50);

/// The link: all in bit/s of seconds.
pub struct Path {
    /// Capacity.
    pub capacity: fn(f64) -> f64,
    /// Delay each way, without the queue.
    pub one_way: Span,
    /// Each packet is late by up to this much more, without overtaking (uniform).
    pub jitter: Span,
    /// Share of packets lost at random.
    pub loss: f64,
    /// Seed of jitter and losses.
    pub seed: u64,
}

/// How much is sent.
#[derive(Clone, Copy)]
pub enum Load {
    /// So many bit/s at a time in seconds, whatever the estimators want: the same packets for all of them.
    Script(fn(f64) -> f64),
    /// What the first estimator wants, at most this.
    Target(f64),
}

struct World<'a> {
    path: &'a Path,
    rng: Rng,
    now: Time,
    /// When the link and the receiver are done with what was sent before, in seconds.
    link: f64,
    receiver: f64,
    /// Packets of frames that wait for their time: when, bytes.
    pacer: VecDeque<(Time, u32)>,
    frame_at: Time,
    sent: u64,
    flight: VecDeque<Packet>,
    in_flight: u64,
    on_way: VecDeque<(Time, Vec<Packet>)>,
    srtt: Option<Span>,
}

impl World<'_> {
    fn cross(&mut self, sent: Time, size: u32) -> (Option<Time>, f64) {
        if self.rng.chance(self.path.loss) {
            return (None, 0.0);
        }
        let at = sent.as_secs_f64();
        let service = f64::from(size) * 8.0 / (self.path.capacity)(at);
        self.link = self.link.max(at) + service;
        let queue = self.link - at - service;
        let jitter = self.rng.uniform() * self.path.jitter.as_secs_f64();
        let arrival = self.link + self.path.one_way.as_secs_f64() + jitter;
        self.receiver = self.receiver.max(arrival);
        (Some(Time::from_micros((self.receiver * 1e6) as u64)), queue)
    }

    /// Puts the frame that is due into the pacer.
    fn frame(&mut self, bps: f64) {
        let bytes = bps * FRAME.as_secs_f64() / 8.0;
        let packets = (bytes / PACKET).ceil().max(1.0);
        let size = (bytes / packets).max(50.0);
        let apart = Span::from_micros((size * 8.0 / (PACE * bps) * 1e6) as i64);
        let begin = self.pacer.back().map_or(self.frame_at, |last| self.frame_at.max(last.0 + apart));
        (0..packets as i64).for_each(|n| self.pacer.push_back((begin + apart * n, size as u32)));
        self.frame_at += FRAME;
    }

    fn send(&mut self) -> Option<(Packet, f64)> {
        let (sent, size) = *self.pacer.front().filter(|packet| packet.0 <= self.now)?;
        self.pacer.pop_front();
        let (arrived, queue) = self.cross(sent, size);
        let packet = Packet { number: self.sent, size, sent, arrived };
        (self.sent, self.in_flight) = (self.sent + 1, self.in_flight + u64::from(size));
        self.flight.push_back(packet);
        Some((packet, queue))
    }

    /// The receiver tells all up to the last packet that has arrived by now.
    fn tell(&mut self) {
        let arrived = |packet: &Packet| packet.arrived.is_some_and(|at| at <= self.now);
        let Some(last) = self.flight.iter().rposition(arrived) else { return };
        let packets = self.flight.drain(..=last).collect();
        self.on_way.push_back((self.now + self.path.one_way, packets));
    }

    fn hear(&mut self) -> Option<Feedback> {
        self.on_way.front().filter(|feedback| feedback.0 <= self.now)?;
        let (at, packets) = self.on_way.pop_front()?;
        self.in_flight -= packets.iter().map(|packet| u64::from(packet.size)).sum::<u64>();
        let sample = at - packets.last()?.sent;
        let srtt = self.srtt.map_or(sample, |srtt| (srtt * 7 + sample) / 8);
        self.srtt = Some(srtt);
        Some(Feedback { at, packets, srtt, in_flight: self.in_flight })
    }
}

/// Runs for `seconds`; a trace for each estimator.
pub fn run(path: &Path, load: Load, estimators: &mut [&mut dyn Estimator], seconds: u64) -> Vec<Trace> {
    let mut world = World {
        path,
        rng: Rng::stream(path.seed, "crosscheck"),
        now: Time::ZERO,
        link: 0.0,
        receiver: 0.0,
        pacer: VecDeque::new(),
        frame_at: Time::ZERO,
        sent: 0,
        flight: VecDeque::new(),
        in_flight: 0,
        on_way: VecDeque::new(),
        srtt: None,
    };
    let mut traces = vec![Trace::default(); estimators.len()];
    let (mut tick_at, mut tell_at) = (Time::ZERO, Time::ZERO + FEEDBACK);
    while world.now < Time::from_secs(seconds) {
        while let Some(feedback) = world.hear() {
            for (estimator, trace) in estimators.iter_mut().zip(&mut traces) {
                estimator.on_feedback(&feedback);
                trace.targets.push((feedback.at.as_secs_f64(), estimator.target() / 1e6));
            }
        }
        if world.now >= tick_at {
            estimators.iter_mut().for_each(|estimator| estimator.on_tick(tick_at));
            tick_at += TICK;
        }
        if world.now >= world.frame_at {
            let bps = match load {
                Load::Script(rate) => rate(world.now.as_secs_f64()),
                Load::Target(most) => estimators[0].target().min(most),
            };
            world.frame(bps);
        }
        while let Some((packet, queue)) = world.send() {
            let in_flight = world.in_flight;
            estimators.iter_mut().for_each(|estimator| estimator.on_sent(&packet, in_flight));
            if let Some(at) = packet.arrived {
                let sample = (at.as_secs_f64(), queue * 1e3);
                traces.iter_mut().for_each(|trace| trace.queue.push(sample));
            }
        }
        if world.now >= tell_at {
            world.tell();
            tell_at += FEEDBACK;
        }
        world.now += STEP;
    }
    traces
}
