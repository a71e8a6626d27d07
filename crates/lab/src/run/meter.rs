//! Runs that keep only what a score is made of: bytes delivered in windows of time, delays, drops. For
//! searches, which run thousands.
//!
//! ```text
//! Scenario + Overlay (what the search varies) -> World, deliveries only -> Metered
//!                                                       ... and frames, where a score asks for them
//! ```
//!
//! The world is the one of [`run`](super::run): the same scenario with the overlay written into files gives
//! the same deliveries.

use std::sync::Arc;

use bulk::SenderCounters;
use netsim::{FlowStats, HostId, Instants, LinkId, MahimahiTrace, RateProcess, SourceId, World};
use record::{Event, NodeId, Recorder, Reentrant, Shared, Topic, Topics};
use units::{Span, Time};

use super::LabError;
use super::build;
use crate::scenario::{Scenario, Source};

/// What happens to a scenario's network that its text does not say.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// The bottleneck sends at these opportunities, instead of as `[link]` says.
    pub service: Option<Arc<MahimahiTrace>>,
    /// Packets of 1500 bytes that cross the bottleneck at these instants, besides `[[cross]]`.
    pub cross: Option<Arc<Instants>>,
    /// From when to when the bottleneck drops what arrives, besides `link.blackout`.
    pub outages: Vec<(Time, Time)>,
}

/// What was measured of one flow, or of all cross traffic together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowMeter {
    /// Wire bytes that came out at the far end, in each window.
    pub delivered: Vec<u64>,
    /// One-way delay of each packet of a flow that came out, in microseconds; none of cross traffic.
    pub delays: Vec<u32>,
    /// What the bottleneck did with its packets.
    pub link: FlowStats,
    /// What its sender counted, where it sends as TCP.
    pub tcp: Option<SenderCounters>,
    /// Its frames by their capture index: when captured, and when first shown. Empty unless [`meter_frames`]
    /// measured.
    pub frames: Vec<FrameTimes>,
    /// Time between its frames.
    pub interval: Span,
}

/// A frame's beginning and end; none where it never came to that.
pub type FrameTimes = (Option<Time>, Option<Time>);

/// A run as a search sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Metered {
    /// Length of a window; the last one may be cut short by the end of the run.
    pub window: Span,
    /// The flows, in the scenario's order.
    pub flows: Vec<FlowMeter>,
    /// All cross traffic together.
    pub cross: FlowMeter,
    /// Bytes the bottleneck could have sent in each window.
    pub capacity: Vec<u64>,
}

/// Hears of deliveries.
#[derive(Clone)]
pub(super) struct Meter {
    /// Nanoseconds in a window.
    window: u64,
    /// The window of the latest delivery, and the nanosecond it begins at.
    present: (usize, u64),
    /// Whether it also hears of frames.
    frames: bool,
    pub flows: Vec<FlowMeter>,
    cross: FlowMeter,
}

impl Meter {
    fn new(scenario: &Scenario, window: Span, frames: bool) -> Meter {
        let window = window.as_nanos().max(1) as u64;
        let windows = (scenario.duration.as_nanos() as u64).div_ceil(window) as usize;
        // What comes out at the very end opens one more window.
        let blank = FlowMeter { delivered: vec![0; windows + 1], ..FlowMeter::default() };
        Meter {
            window,
            present: (0, 0),
            frames,
            flows: vec![blank.clone(); scenario.flows.len()],
            cross: blank,
        }
    }

    /// A copy but for the delays, of which only is kept how many there were.
    pub fn without_delays(&mut self) -> (Meter, Vec<usize>) {
        let delays: Vec<Vec<u32>> =
            self.flows.iter_mut().map(|flow| std::mem::take(&mut flow.delays)).collect();
        let copy = self.clone();
        let counts = delays.iter().map(Vec::len).collect();
        self.flows.iter_mut().zip(delays).for_each(|(flow, delays)| flow.delays = delays);
        (copy, counts)
    }

    /// The flow whose data a delivery at `node` is, if it is any's. Receivers have odd numbers; feedback is
    /// delivered to senders.
    fn place(&mut self, node: NodeId) -> Option<&mut FlowMeter> {
        match node.0 {
            link if link >= netsim::FIRST_LINK_NODE => None,
            host if host % 2 == 1 => self.flows.get_mut(usize::from(host / 2)),
            _ => None,
        }
    }

    /// The window that `at` is in. A division for each delivery would be some of the time of a search.
    #[inline]
    fn window_at(&mut self, at: Time) -> usize {
        let at = at.as_nanos();
        if at.wrapping_sub(self.present.1) >= self.window {
            let window = at / self.window;
            self.present = (window as usize, window * self.window);
        }
        self.present.0
    }

    fn deliver(&mut self, at: Time, node: NodeId, size: u32, delay: Span) {
        let window = self.window_at(at);
        if node.0 >= netsim::FIRST_LINK_NODE {
            self.cross.delivered[window] += u64::from(size);
        } else if let Some(flow) = self.place(node) {
            flow.delivered[window] += u64::from(size);
            flow.delays.push(u32::try_from(delay.as_nanos() / 1_000).unwrap_or(u32::MAX));
        }
    }

    /// A frame begins; one that was never read leaves a hole.
    fn capture(&mut self, at: Time, node: NodeId, frame: u32) {
        let (frames, index) = (&mut self.flows[usize::from(node.0 / 2)].frames, frame as usize);
        if index >= frames.len() {
            frames.resize(index + 1, (None, None));
        }
        frames[index].0.get_or_insert(at);
    }

    /// A better version may be shown later; the first showing is what the viewer waited for.
    fn show(&mut self, at: Time, node: NodeId, frame: u32) {
        let flow = self.place(node);
        if let Some((_, shown)) = flow.and_then(|flow| flow.frames.get_mut(frame as usize)) {
            shown.get_or_insert(at);
        }
    }
}

impl Recorder for Meter {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        match *event {
            Event::Delivered { size, delay, .. } => self.deliver(at, node, size, delay),
            Event::FrameCaptured { stream: 0, frame } => self.capture(at, node, frame),
            Event::FrameDisplayed { stream: 0, frame, .. } => self.show(at, node, frame),
            _ => {}
        }
    }

    /// What is delivered to a sender is feedback.
    fn wants(&self, node: NodeId) -> Topics {
        let ends = node.0 >= netsim::FIRST_LINK_NODE || node.0 % 2 == 1;
        Topics::only_if(ends, Topic::Deliveries) | Topics::only_if(self.frames, Topic::Frames)
    }
}

/// Runs `scenario` under `overlay` and measures in windows of `window`.
///
/// # Errors
/// [`LabError::Scenario`] if something the scenario names can't be opened or built, or if it has several
/// links.
pub fn meter(scenario: &Scenario, overlay: &Overlay, window: Span) -> Result<Metered, LabError> {
    measure(scenario, overlay, window, false)
}

/// The same, frames included. What is delivered is the same to the bit.
///
/// # Errors
/// As [`meter`].
pub fn meter_frames(scenario: &Scenario, overlay: &Overlay, window: Span) -> Result<Metered, LabError> {
    measure(scenario, overlay, window, true)
}

fn measure(scenario: &Scenario, overlay: &Overlay, window: Span, frames: bool) -> Result<Metered, LabError> {
    let mut metering = Metering::new(scenario, overlay, window, frames)?;
    metering.world.run_until(Time::ZERO + scenario.duration);
    Ok(metering.finish())
}

/// A run that is being measured.
pub(super) struct Metering {
    pub world: World,
    pub recorder: Arc<Reentrant<Meter>>,
    pub places: Arc<Places>,
}

/// A scenario, where in its world things are, and what does not change in a run.
pub(super) struct Places {
    pub scenario: Scenario,
    pub window: Span,
    pub bottleneck: LinkId,
    /// The overlay's cross traffic, where it has some.
    pub varied: Option<SourceId>,
    senders: Vec<HostId>,
    rate: RateProcess,
    intervals: Vec<Span>,
}

impl Metering {
    pub fn new(
        scenario: &Scenario,
        overlay: &Overlay,
        window: Span,
        frames: bool,
    ) -> Result<Metering, LabError> {
        scenario.require_one_link("a search")?;
        let recorder = Arc::new(Reentrant::new(Meter::new(scenario, window, frames)));
        let shared: Shared = recorder.clone();
        let built = build::build(scenario, World::new(scenario.seed, Some(shared)), overlay)?;
        let places = Places {
            scenario: scenario.clone(),
            window,
            bottleneck: built.bottleneck(),
            varied: built.varied,
            senders: built.hosts.iter().map(|hosts| hosts.0).collect(),
            rate: built.rate().clone(),
            intervals: built.intervals,
        };
        Ok(Metering { world: built.world, recorder, places: Arc::new(places) })
    }

    /// What was measured. The run is over.
    pub fn finish(self) -> Metered {
        let Metering { world, recorder, places } = self;
        let scenario = &places.scenario;
        let (mut flows, mut cross) =
            recorder.with(|heard| (std::mem::take(&mut heard.flows), std::mem::take(&mut heard.cross)));
        let stats = world.link(places.bottleneck).stats();
        for (index, flow) in flows.iter_mut().enumerate() {
            flow.link = stats.flow(index as u16);
            flow.tcp = counters(&world, places.senders[index], &scenario.flows[index].source);
            flow.interval = places.intervals[index];
        }
        for (_, others) in stats.flows().filter(|(flow, _)| usize::from(*flow) >= scenario.flows.len()) {
            cross.link += others;
        }
        let window = places.window;
        Metered { window, flows, cross, capacity: capacity(&places.rate, scenario.duration, window) }
    }
}

fn counters(world: &World, sender: HostId, source: &Source) -> Option<SenderCounters> {
    match source {
        Source::Tcp(_) => Some(world.endpoint::<bulk::Sender>(sender).counters()),
        Source::Smoltcp(_) => {
            let seen = world.endpoint::<smol::Sender>(sender).counters();
            let smol::Counters { packets, bytes, retransmissions, acked_bytes, timeouts, malformed } = seen;
            let counted =
                SenderCounters { packets, bytes, retransmissions, acked_bytes, ..Default::default() };
            Some(SenderCounters { timeouts, malformed, ..counted })
        }
        Source::Video(_) | Source::Backlog(_) | Source::Quic(_) => None,
    }
}

fn capacity(rate: &RateProcess, duration: Span, window: Span) -> Vec<u64> {
    let end = Time::ZERO + duration;
    let starts = (0..).map(|n| Time::ZERO + window * n).take_while(|start| *start < end);
    starts
        .map(|start| rate.capacity(start, (start + window).min(end)).map_or(u64::MAX, |b| b.get()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::run::{RunOptions, run};

    const TCP: &str = "\
duration = \"6s\"
[link]
rate = \"12mbit\"
delay = \"20ms\"
queue = \"droptail:100p\"
[[flow]]
cc = \"cubic\"
source = \"tcp\"
stack = \"ns3\"
start = \"1s\"
";

    #[test]
    fn an_overlay_is_the_scenario_with_its_files() {
        let folder = std::env::temp_dir().join(format!("framewire-meter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let cross: Vec<u32> = (0..300).map(|n| 2_000_000 + n * 700).collect();
        let cross = Instants::from_micros(cross).unwrap();
        let service = MahimahiTrace::from_millis((1..=6_000).filter(|ms| ms % 10 < 8).collect()).unwrap();
        std::fs::write(folder.join("x.instants"), cross.to_text()).unwrap();
        std::fs::write(folder.join("x.trace"), service.to_text()).unwrap();
        let text = TCP.replace("rate = \"12mbit\"", "trace = \"x.trace\"\nblackout = [[\"4s\", \"4.1s\"]]");
        let text = format!("{text}[[cross]]\nkind = \"listed\"\ninstants = \"x.instants\"\n");
        let written = Scenario::parse(&text, &folder.join("x.toml")).unwrap();
        let plain = Scenario::parse(TCP, Path::new("x.toml")).unwrap();
        let overlay = Overlay {
            service: Some(Arc::new(service)),
            cross: Some(Arc::new(cross)),
            outages: vec![(Time::from_secs(4), Time::from_millis(4_100))],
        };
        let window = Span::from_millis(500);
        let measured = meter(&plain, &overlay, window).unwrap();
        assert_eq!(measured, meter(&written, &Overlay::default(), window).unwrap());
        // And what the full record of the run says.
        let outcome = run(&written, &RunOptions::default()).unwrap();
        let bytes: u64 = outcome.record.flows[0].deliveries().iter().map(|d| u64::from(d.1)).sum();
        let flow = &measured.flows[0];
        // The handshake is no data, and duplicates count once there.
        let more = flow.delivered.iter().sum::<u64>().abs_diff(bytes);
        assert!(more < bytes / 100, "{more} of {bytes}");
        assert_eq!(flow.link.dropped.packets + measured.cross.link.dropped.packets, {
            outcome.record.link.totals.dropped.values().sum::<u64>()
        });
        assert_eq!(measured.cross.link.offered.packets, 300);
        assert!(flow.link.dropped.packets > 0 && flow.tcp.unwrap().packets > 1_000);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn frames_are_those_of_the_full_record_and_change_nothing_else() {
        let text = "duration = \"4s\"\n[link]\nrate = \"3mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:20p\"\n\
                    blackout = [[\"2s\", \"2.2s\"]]\n[[flow]]\ncc = \"sqp\"\nstart = \"1s\"\n\
                    [[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\nstart = \"2s\"\n";
        let scenario = Scenario::parse(text, Path::new("x.toml")).unwrap();
        let window = Span::from_millis(500);
        let mut with = meter_frames(&scenario, &Overlay::default(), window).unwrap();
        let outcome = run(&scenario, &RunOptions::default()).unwrap();
        let record = &outcome.record.flows[0];
        let rows: Vec<FrameTimes> = record.frames().iter().map(|f| (f.captured, f.displayed)).collect();
        assert_eq!(with.flows[0].frames, rows);
        assert!(
            rows.len() > 150 && rows.iter().any(|(_, displayed)| displayed.is_none()),
            "some frames are lost"
        );
        assert_eq!(with.flows[0].interval, outcome.intervals[0]);
        let without = meter(&scenario, &Overlay::default(), window).unwrap();
        with.flows[0].frames.clear();
        assert_eq!(with, without);
    }

    #[test]
    fn windows_add_up() {
        let scenario = Scenario::parse(TCP, Path::new("x.toml")).unwrap();
        let measured = meter(&scenario, &Overlay::default(), Span::from_millis(400)).unwrap();
        assert_eq!(measured.capacity.iter().sum::<u64>(), 9_000_000);
        assert_eq!((measured.capacity.len(), measured.capacity[0]), (15, 600_000));
        let flow = &measured.flows[0];
        assert_eq!(flow.delivered.iter().sum::<u64>(), flow.link.delivered.bytes);
        assert_eq!(flow.delays.len() as u64, flow.link.delivered.packets);
        assert!(flow.delays.iter().all(|&delay| (20_000..=121_000).contains(&delay)));
        assert_eq!((flow.delivered[0], flow.delivered[1]), (0, 0), "it starts at one second");
    }
}
