//! Runs that keep what a viewer of the first flow would notice: the life of each frame, what the link
//! carried, how full its queue was, and what the receiver refused. For invariants that
//! thousands of runs are held against.
//!
//! Memory grows with frames and half seconds, not with packets.

use std::collections::BTreeMap;
use std::ops::BitOr;
use std::sync::Arc;

use netsim::World;
use netsim::queue::Backlog;
use record::{Dropped, Event, NodeId, Recorder, Reentrant, Shared, Topic, Topics};
use units::{Span, Time};

use super::LabError;
use super::build::{self, Built};
use super::meter::Overlay;
use crate::scenario::Scenario;

/// Length of the windows that bytes are counted in.
pub const WINDOW: Span = Span::from_millis(500);
/// How often the queue is looked at: more often than a controller's window changes on all but the shortest
/// paths.
pub const SAMPLE: Span = Span::from_millis(20);

/// What became of one captured frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameLife {
    /// When it was captured, if it was.
    pub captured: Option<Time>,
    /// When it was first shown, if it was.
    pub shown: Option<Time>,
    /// Every packet of it arrived.
    pub assembled: bool,
    /// The receiver gave it up.
    pub abandoned: bool,
}

impl FrameLife {
    /// Nobody ever had this frame: the sender left it out or dropped it, or the receiver did not get it
    /// whole, or could not use it. A frame that arrived whole together with a newer one, which alone is
    /// shown, is not left out.
    pub fn is_left_out(&self) -> bool {
        self.shown.is_none() && (!self.assembled || self.abandoned)
    }
}

/// A run of a scenario, as the viewer of its first flow and the owner of its link see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Wire bytes of the first flow that came out at the far end, in each [`WINDOW`].
    pub carried: Vec<u64>,
    /// The same of traffic that listens to nobody.
    pub cross: Vec<u64>,
    /// Wire bytes the bottleneck could have carried in each window; none while a blackout lasts.
    pub capacity: Vec<u64>,
    /// What waited at the bottleneck, every [`SAMPLE`].
    pub backlog: Vec<Backlog>,
    /// The first flow's frames by capture index.
    pub frames: Vec<FrameLife>,
    /// Time between its frames.
    pub interval: Span,
    /// Packets of it that its receiver reported as arrived and then refused, because a buffer was full or
    /// they seemed impossible.
    pub refused: u64,
    /// The longest that a frame with such a packet went without being made whole, replaced by a newer one, or
    /// answered by a request for a key frame.
    pub unanswered: Span,
    /// Key frames its receiver asked for.
    pub key_requests: u64,
    /// Requests for packets it sent.
    pub nacks: u64,
    /// What its receiver dropped, by cause.
    pub dropped: BTreeMap<Dropped, u64>,
}

/// Hears of what endpoints do.
struct Watch {
    seen: Watched,
    /// The frame of the packet that the receiver reported last, and when.
    received: Option<(Time, u32)>,
    /// Frames with a refused packet that nothing has answered yet, and since when.
    pending: Vec<(u32, Time)>,
}

/// The nodes of the first flow; see `build::layout`.
const SENDER: NodeId = NodeId(0);
const RECEIVER: NodeId = NodeId(1);

impl Watch {
    fn new(windows: usize) -> Watch {
        let seen = Watched { carried: vec![0; windows], cross: vec![0; windows], ..Watched::default() };
        Watch { seen, received: None, pending: Vec::new() }
    }

    fn frame(&mut self, frame: u32) -> &mut FrameLife {
        let index = frame as usize;
        if index >= self.seen.frames.len() {
            self.seen.frames.resize(index + 1, FrameLife::default());
        }
        &mut self.seen.frames[index]
    }

    fn deliver(&mut self, at: Time, node: NodeId, size: u32) {
        let window = (at.as_nanos() / WINDOW.as_nanos() as u64) as usize;
        let slot = match node {
            RECEIVER => self.seen.carried.get_mut(window),
            cross if cross.0 >= netsim::FIRST_LINK_NODE => self.seen.cross.get_mut(window),
            _ => None,
        };
        if let Some(slot) = slot {
            *slot += u64::from(size);
        }
    }

    /// The receiver drops a packet; one that it reported at this very moment is one that its sender takes for
    /// arrived.
    fn refuse(&mut self, at: Time, cause: Dropped) {
        *self.seen.dropped.entry(cause).or_default() += 1;
        let lost = matches!(cause, Dropped::BufferFull | Dropped::Malformed | Dropped::FarFuture);
        let Some((_, frame)) = self.received.take().filter(|(when, _)| lost && *when == at) else { return };
        self.seen.refused += 1;
        if !self.pending.iter().any(|(known, _)| *known == frame) {
            self.pending.push((frame, at));
        }
    }

    /// Frames that `is_answered` need no longer wait.
    fn answer(&mut self, at: Time, is_answered: impl Fn(u32) -> bool) {
        let longest = &mut self.seen.unanswered;
        self.pending.retain(|&(frame, since)| {
            let answered = is_answered(frame);
            if answered {
                *longest = (*longest).max(at - since);
            }
            !answered
        });
    }

    fn of_receiver(&mut self, at: Time, event: &Event) {
        match *event {
            Event::PacketReceived { stream: 0, frame, .. } => self.received = Some((at, frame)),
            Event::HostDropped { cause } => self.refuse(at, cause),
            Event::FrameAssembled { stream: 0, frame, .. } => {
                self.frame(frame).assembled = true;
                self.answer(at, |pending| pending == frame);
            }
            Event::FrameAbandoned { stream: 0, frame, version: 0 } => self.frame(frame).abandoned = true,
            Event::FrameDisplayed { stream: 0, frame, .. } => {
                // A better version may be shown later; the first showing is what the viewer waited for.
                self.frame(frame).shown.get_or_insert(at);
                self.answer(at, |pending| pending <= frame);
            }
            Event::KeyFrameRequested { stream: 0 } => {
                self.seen.key_requests += 1;
                self.answer(at, |_| true);
            }
            Event::NackSent { .. } => self.seen.nacks += 1,
            _ => {}
        }
    }

    fn finish(&mut self, end: Time) -> Watched {
        self.answer(end, |_| true);
        std::mem::take(&mut self.seen)
    }
}

impl Recorder for Watch {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        match *event {
            Event::Delivered { size, .. } => self.deliver(at, node, size),
            Event::FrameCaptured { stream: 0, frame } if node == SENDER => {
                self.frame(frame).captured.get_or_insert(at);
            }
            _ if node == RECEIVER => self.of_receiver(at, event),
            _ => {}
        }
    }

    fn wants(&self, node: NodeId) -> Topics {
        let deliveries = Topics::only(Topic::Deliveries);
        let told = [Topic::Packets, Topic::Frames, Topic::Signals].map(Topics::only);
        match node {
            SENDER => Topics::only(Topic::Frames),
            RECEIVER => told.into_iter().fold(deliveries, BitOr::bitor),
            cross if cross.0 >= netsim::FIRST_LINK_NODE => deliveries,
            _ => Topics::NONE,
        }
    }
}

/// Runs `scenario` under `overlay` and watches its first flow, which must be video.
///
/// # Errors
/// [`LabError::Scenario`] if something the scenario names can't be opened or built, or if it has several
/// links.
pub fn watch(scenario: &Scenario, overlay: &Overlay) -> Result<Watched, LabError> {
    scenario.require_one_link("the grid")?;
    let end = Time::ZERO + scenario.duration;
    // What comes out at the very end opens one more window.
    let windows = (scenario.duration.as_nanos() as u64).div_ceil(WINDOW.as_nanos() as u64) as usize + 1;
    let recorder = Arc::new(Reentrant::new(Watch::new(windows)));
    let shared: Shared = recorder.clone();
    let world = World::new(scenario.seed, Some(shared));
    let mut built = build::build(scenario, world, overlay)?;
    let mut backlog = Vec::new();
    let mut now = Time::ZERO;
    while now < end {
        now = (now + SAMPLE).min(end);
        built.world.run_until(now);
        backlog.push(built.world.link(built.bottleneck()).backlog());
    }
    let mut seen = recorder.with(|watch| watch.finish(end));
    seen.capacity = capacity(&built, scenario, overlay);
    seen.backlog = backlog;
    seen.interval = built.intervals[0];
    Ok(seen)
}

/// What the bottleneck could have carried in each whole or last window, outages taken off.
fn capacity(built: &Built, scenario: &Scenario, overlay: &Overlay) -> Vec<u64> {
    let end = Time::ZERO + scenario.duration;
    let mut dark: Vec<(Time, Time)> =
        scenario.link.blackout.iter().map(|&(from, to)| (Time::ZERO + from, Time::ZERO + to)).collect();
    dark.extend_from_slice(&overlay.outages);
    dark.sort_unstable();
    let bytes = |from: Time, to: Time| built.rate().capacity(from, to).map_or(u64::MAX, |bytes| bytes.get());
    let starts = (0..).map(|n| Time::ZERO + WINDOW * n).take_while(|start| *start < end);
    let carried = |start: Time| {
        let stop = (start + WINDOW).min(end);
        let (mut at, mut sum) = (start, 0u64);
        // Outages may overlap: each piece of time is taken off once.
        for &(from, to) in dark.iter().filter(|(from, to)| *from < stop && *to > start) {
            if from > at {
                sum = sum.saturating_add(bytes(at, from));
            }
            at = at.max(to);
        }
        if at < stop { sum.saturating_add(bytes(at, stop)) } else { sum }
    };
    starts.map(carried).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::run::meter_frames;

    const TEXT: &str = "duration = \"6s\"\n[link]\nrate = \"3mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:20p\"\n\
                        blackout = [[\"2s\", \"2.2s\"], [\"2.1s\", \"2.25s\"]]\n[[flow]]\ncc = \"sqp\"\n\
                        [[cross]]\nkind = \"cbr\"\nrate = \"500kbit\"\n";

    #[test]
    fn it_sees_what_the_meter_sees() {
        let scenario = Scenario::parse(TEXT, Path::new("x.toml")).unwrap();
        let seen = watch(&scenario, &Overlay::default()).unwrap();
        let metered = meter_frames(&scenario, &Overlay::default(), WINDOW).unwrap();
        assert_eq!(seen.carried, metered.flows[0].delivered);
        assert_eq!(seen.cross, metered.cross.delivered);
        let frames: Vec<_> = seen.frames.iter().map(|frame| (frame.captured, frame.shown)).collect();
        assert_eq!(frames, metered.flows[0].frames);
        assert_eq!((seen.interval, seen.backlog.len()), (metered.flows[0].interval, 300));
        assert!(seen.backlog.iter().any(|b| b.packets > 0) && seen.backlog.iter().all(|b| b.packets <= 20));
        assert!(seen.key_requests > 0 && seen.frames.iter().any(FrameLife::is_left_out));
    }

    #[test]
    fn a_dark_link_carries_nothing() {
        let scenario = Scenario::parse(TEXT, Path::new("x.toml")).unwrap();
        let seen = watch(&scenario, &Overlay::default()).unwrap();
        // 187.5 kB in half a second, half of which is dark.
        assert_eq!((seen.capacity[3], seen.capacity[4]), (187_500, 93_750));
        assert_eq!(seen.capacity.len(), 12);
    }

    #[test]
    fn refusals_wait_for_an_answer() {
        let ms = Time::from_millis;
        let mut watch = Watch::new(4);
        let received = |frame| Event::PacketReceived {
            packet: 1,
            size: 1200,
            stream: 0,
            frame,
            version: 0,
            owd: units::RelativeDelay::between(ms(0).on_wire(), ms(20)),
        };
        let full = Event::HostDropped { cause: Dropped::BufferFull };
        watch.record(ms(100), RECEIVER, &received(7));
        watch.record(ms(100), RECEIVER, &full);
        // Refused before it was reported: its sender will hear that it is missing.
        watch.record(ms(110), RECEIVER, &full);
        // Too late to be of use is no refusal.
        watch.record(ms(120), RECEIVER, &received(3));
        watch.record(ms(120), RECEIVER, &Event::HostDropped { cause: Dropped::Stale });
        watch.record(ms(400), RECEIVER, &Event::FrameAssembled { stream: 0, frame: 7, version: 0, size: 9 });
        watch.record(ms(500), RECEIVER, &received(8));
        watch.record(ms(500), RECEIVER, &full);
        watch.record(ms(600), RECEIVER, &Event::KeyFrameRequested { stream: 0 });
        assert_eq!((watch.seen.refused, watch.seen.unanswered), (2, Span::from_millis(300)));
        watch.record(ms(700), RECEIVER, &received(9));
        watch.record(ms(700), RECEIVER, &full);
        let seen = watch.finish(ms(2_000));
        assert_eq!((seen.refused, seen.unanswered), (3, Span::from_millis(1_300)));
        assert_eq!(seen.dropped[&Dropped::BufferFull], 4);
    }
}
