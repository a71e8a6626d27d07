//! One simulated camera, encoder and link, and two implementations of Vidaptive that send over it: ours, and
//! the crate `vidaptive`.
//!
//! The encoder is a script: bytes of a frame by its number and by what was asked for, ready at once. Each
//! packet is acknowledged by itself, [`RTT`] after it left the link's queue. When packets leave, and which
//! frames are encoded, each implementation decides.

mod ours;
mod theirs;

pub use ours::OurVideo;
pub use theirs::TheirVideo;

use std::collections::VecDeque;

use units::{Span, Time};

/// Time between camera frames: 30 a second, in whole microseconds.
pub const FRAME: Span = Span::from_micros(33_333);
/// Time passes in steps of this; no decision can be told apart more finely.
pub const STEP: Span = Span::from_micros(50);
/// The round trip without a queue.
pub const RTT: Span = Span::from_millis(50);
/// Bytes of a full datagram.
pub const DATAGRAM: usize = 1200;
/// Bytes of a dummy, in both.
pub const DUMMY: usize = 200;

/// What both are run with.
#[derive(Clone, Copy)]
pub struct Script {
    /// The encoder: bytes of a frame, by its number and the target in bit/s.
    pub size: Size,
    /// The link's capacity in bit/s, of seconds. Zero is an outage.
    pub capacity: fn(f64) -> f64,
    /// The congestion controller.
    pub controller: Controlled,
    /// How long to run.
    pub seconds: u64,
}

/// Bytes of a frame, by its number and the target in bit/s.
pub type Size = fn(u32, f64) -> usize;

/// Which congestion controller.
#[derive(Clone, Copy)]
pub enum Controlled {
    /// A rate in bit/s and a window in bytes that never change, so that only the policies differ.
    Fixed(u64, u64),
    /// Each implementation's own Copa with delta 0.9.
    Copa,
}

/// What left a sender.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// For the acknowledgement.
    pub id: u64,
    /// Bytes.
    pub size: usize,
    /// Carries nothing.
    pub dummy: bool,
}

/// What a sender says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Seconds.
    pub at: f64,
    /// CC-Rate in bit/s.
    pub cc_rate: f64,
    /// Share of it for the encoder.
    pub alpha: f64,
    /// What the encoder would be asked for, in bit/s.
    pub target: f64,
    /// Frames encoded so far.
    pub encoded: u64,
    /// Times so far that everything waiting was dropped.
    pub resets: u64,
}

/// An implementation.
pub trait VideoSender {
    /// Time has come to `now`: cameras and timers.
    fn wake(&mut self, now: Time);
    /// The next packet that may leave now.
    fn transmit(&mut self, now: Time) -> Option<Datagram>;
    /// Packet `id` is acknowledged.
    fn acked(&mut self, now: Time, id: u64);
    /// Its state.
    fn moment(&self, now: Time) -> Moment;
}

/// What became of a run.
#[derive(Debug, Default)]
pub struct Log {
    /// After each camera frame.
    pub moments: Vec<Moment>,
    /// Everything that left: seconds, bytes, dummy or not.
    pub sent: Vec<(f64, usize, bool)>,
}

impl Log {
    /// State at `at` seconds.
    pub fn at(&self, at: f64) -> Moment {
        let later = self.moments.partition_point(|moment| moment.at <= at);
        self.moments[later.max(1) - 1]
    }

    /// The mean of a quantity over `[from, to)`.
    pub fn mean(&self, from: f64, to: f64, of: fn(&Moment) -> f64) -> f64 {
        crate::mean(self.moments.iter().filter(|m| (from..to).contains(&m.at)).map(of))
    }

    /// Mbit/s that left in `[from, to)`: video, dummies.
    pub fn rates(&self, from: f64, to: f64) -> (f64, f64) {
        let inside = || self.sent.iter().filter(|sent| (from..to).contains(&sent.0));
        let rate = |dummy| {
            inside().filter(|sent| sent.2 == dummy).map(|sent| sent.1 as f64 * 8.0).sum::<f64>()
                / ((to - from) * 1e6)
        };
        (rate(false), rate(true))
    }

    /// Frames encoded in `[from, to)`.
    pub fn encoded(&self, from: f64, to: f64) -> u64 {
        self.at(to).encoded - self.at(from).encoded
    }

    /// Milliseconds from a dummy to the next camera frame, the least; and the other way.
    pub fn guards(&self, from: f64, to: f64) -> (f64, f64) {
        let frame = FRAME.as_millis_f64();
        let dummies = self.sent.iter().filter(|sent| sent.2 && (from..to).contains(&sent.0));
        let phases: Vec<f64> = dummies.map(|sent| (sent.0 * 1e3).rem_euclid(frame)).collect();
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        (least(&mut phases.iter().map(|phase| frame - phase)), least(&mut phases.iter().copied()))
    }
}

/// Drives `sender` through `script`.
pub fn drive(script: &Script, sender: &mut dyn VideoSender) -> Log {
    let mut log = Log::default();
    let mut now = Time::ZERO;
    let mut frame_at = Time::ZERO;
    // The queue in bytes that are left to send, and acknowledgements on their way.
    let mut queue: VecDeque<(f64, u64)> = VecDeque::new();
    let mut acks: VecDeque<(Time, u64)> = VecDeque::new();
    while now < Time::from_secs(script.seconds) {
        while acks.front().is_some_and(|ack| ack.0 <= now) {
            let (_, id) = acks.pop_front().expect("it was there");
            sender.acked(now, id);
        }
        sender.wake(now);
        while let Some(datagram) = sender.transmit(now) {
            log.sent.push((now.as_secs_f64(), datagram.size, datagram.dummy));
            queue.push_back((datagram.size as f64, datagram.id));
        }
        if now >= frame_at {
            log.moments.push(sender.moment(now));
            frame_at += FRAME;
        }
        let mut served = (script.capacity)(now.as_secs_f64()) / 8.0 * STEP.as_secs_f64();
        while let Some(front) = queue.front_mut().filter(|_| served > 0.0) {
            let share = front.0.min(served);
            (front.0, served) = (front.0 - share, served - share);
            if front.0 <= 0.0 {
                acks.push_back((now + STEP + RTT, front.1));
                queue.pop_front();
            }
        }
        now += STEP;
    }
    log
}
