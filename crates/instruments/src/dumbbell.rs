//! The network of the virtual benchmarks: flows of one controller through one bottleneck, and one link back
//! for all of them, 20 ms each way.
//!
//! Nothing is left out: packets have headers that are written and read, receivers report every second packet
//! (of video, every frame) in a feedback packet, and ledger, pacer and controller run as they would live;
//! unless a load asks for [other hosts](Hosts) or [fewer reports](Load::report_every).

use cc::{Options, Setup};
use media::{EncoderModel, ModelConfig, Table};
use netsim::{HostConfig, HostId, IP_UDP_OVERHEAD, LinkConfig, LinkId, QueueSpec, RateProcess, World};
use record::Tap;
use serde_json::{Value, json};
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use units::{Rate, Rng, Span, Time};

use crate::measure::{cpu_time, median};
use crate::{allocation, bare, floor};

/// An Ethernet packet's IP payload less the UDP header: 1500 bytes on the wire.
const DATAGRAM: usize = 1472;
/// One way.
const DELAY: Span = Span::from_millis(20);
/// Flows start evenly spread over this, so that a thousand first windows do not meet in the queue.
const ARRIVALS: Span = Span::from_secs(1);
/// How long a run takes in virtual time where nothing else is asked for.
const DURATION: Span = Span::from_secs(60);
/// Measured at least this often.
const ROUNDS: usize = 3;

/// What stands at a flow's ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Framewire's sender and receiver.
    #[default]
    Session,
    /// The least that send a backlog under NewReno, in the session's format.
    Floor,
    /// The same, but packets are handed over as plain numbers.
    FloorHanded,
    /// Hosts that do nothing: what the network costs by itself.
    Nothing,
}

impl Hosts {
    /// Everything that `--hosts` of `framewire bench load` takes.
    pub const ALL: [Hosts; 4] = [Hosts::Session, Hosts::Floor, Hosts::FloorHanded, Hosts::Nothing];

    /// As it is written there.
    pub const fn name(self) -> &'static str {
        match self {
            Hosts::Session => "session",
            Hosts::Floor => "floor",
            Hosts::FloorHanded => "floor-handed",
            Hosts::Nothing => "nothing",
        }
    }

    /// What it is, in a line.
    pub const fn summary(self) -> &'static str {
        match self {
            Hosts::Session => "Framewire's sender and receiver",
            Hosts::Floor => {
                "The least that send a backlog under NewReno: window, pacing, losses, a report of every second packet"
            }
            Hosts::FloorHanded => {
                "The same, packets handed over as plain numbers instead of written and read"
            }
            Hosts::Nothing => {
                "Hosts that do nothing: what the network costs by itself, whatever runs over it"
            }
        }
    }
}

/// What runs through the bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The flows' controller, with options, as scenarios write it.
    pub controller: &'a str,
    /// How many flows share the bottleneck.
    pub flows: usize,
    /// 60 frames/s of the encoder model, instead of a backlog.
    pub video: bool,
    /// What stands at the ends.
    pub hosts: Hosts,
    /// Packets of a backlog that a receiver of the session's reports together
    /// ([`ReceiverConfig::feedback_padding`]).
    pub report_every: u32,
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The bottleneck's queue, as scenarios write it (`droptail:120ms`).
    pub queue: &'a str,
    /// How long it runs in virtual time. From a third of that on it is in its steady state: slow start and
    /// its losses are over, every buffer has found its size.
    pub duration: Span,
}

impl<'a> Load<'a> {
    /// The flow that simulators are measured with: 12 Mbit/s and a queue of 100 packets, which are 100 ms.
    pub const fn of(controller: &'a str) -> Load<'a> {
        Load {
            controller,
            flows: 1,
            video: false,
            hosts: Hosts::Session,
            report_every: ReceiverConfig::PADDING,
            rate: Rate::from_mbps(12),
            queue: "droptail:100p",
            duration: DURATION,
        }
    }

    fn options(&self) -> Options {
        self.controller.parse().expect("a load names a controller of the registry")
    }

    fn setup(&self) -> Setup {
        let defaults = Setup::default();
        Setup { mtu: DATAGRAM as u32, max: defaults.max.max(self.rate), ..defaults }
    }

    fn supply(&self, index: usize, interval: Span) -> Supply {
        if !self.video {
            return Supply::Backlog;
        }
        let model = ModelConfig::recorded(Table::big_buck_bunny(), index as u64 + 1);
        let encoder = Box::new(EncoderModel::new(model).expect("the recorded model is sound"));
        Supply::Video(Video { encoder, source: None, interval })
    }

    fn sender(&self, index: usize) -> Sender {
        let setup = self.setup();
        let controller =
            cc::build(&self.options(), &setup).expect("benchmarks name controllers of the registry");
        let config = SenderConfig { mtu: DATAGRAM, session: session_of(index), ..SenderConfig::default() };
        let rng = Rng::stream(1, &format!("flow{index}/sender"));
        let supplies = vec![self.supply(index, setup.frame_interval)];
        Sender::new(config, &setup, controller, Policies::default(), supplies, rng, Tap::default())
            .handing_over()
    }

    fn receiver(&self, index: usize) -> Receiver {
        let half = cc::build_receiver(&self.options(), &self.setup())
            .expect("a controller takes the same options at both ends");
        let config = ReceiverConfig {
            session: Some(session_of(index)),
            feedback_padding: self.report_every,
            ..ReceiverConfig::default()
        };
        Receiver::new(config, None, None, Tap::default()).with_half(half).handing_over()
    }

    /// Two bandwidth-delay products (of four delays) fill the link, and a queue of one holds what waits.
    fn source(&self) -> bare::Source {
        let packet = (DATAGRAM as u32 + IP_UDP_OVERHEAD) as u64;
        let window = (self.rate.bytes_in(DELAY * 4).get() / packet / self.flows as u64).max(2);
        bare::Source { credit: u32::try_from(window).unwrap_or(u32::MAX), size: DATAGRAM }
    }

    fn add_floor<F: floor::Form>(
        world: &mut World,
        sender: HostConfig,
        receiver: HostConfig,
    ) -> (HostId, HostId) {
        let source = floor::Source::<F>::new(DATAGRAM);
        (world.add_host(sender, source), world.add_host(receiver, floor::Sink::<F>::default()))
    }

    fn add_flow(&self, world: &mut World, [bottleneck, back]: [LinkId; 2], index: usize) {
        let start = Time::ZERO + ARRIVALS * index as i64 / self.flows as i64;
        let sender = HostConfig { start, ..HostConfig::new(&format!("sender {index}")) };
        let receiver = HostConfig::new(&format!("receiver {index}"));
        let (sender, receiver) = match self.hosts {
            Hosts::Session => {
                (world.add_host(sender, self.sender(index)), world.add_host(receiver, self.receiver(index)))
            }
            Hosts::Floor => Self::add_floor::<floor::Written>(world, sender, receiver),
            Hosts::FloorHanded => Self::add_floor::<floor::Handed>(world, sender, receiver),
            Hosts::Nothing => {
                (world.add_host(sender, self.source()), world.add_host(receiver, bare::Sink::default()))
            }
        };
        world.connect(sender, index as u16, &[bottleneck], receiver);
        world.connect(receiver, index as u16, &[back], sender);
    }

    fn world(&self) -> (World, LinkId) {
        let mut world = World::new(1, None);
        let queue: QueueSpec = self.queue.parse().expect("the queue registry knows droptail");
        let link = LinkConfig::bottleneck(RateProcess::Constant(self.rate), queue, DELAY);
        let bottleneck = world.add_link("bottleneck", link);
        let back = world.add_link("back", LinkConfig::delay(DELAY));
        (0..self.flows).for_each(|index| self.add_flow(&mut world, [bottleneck, back], index));
        (world, bottleneck)
    }

    /// Runs the load once, from an empty network on; its CPU time includes building that.
    pub fn round(&self) -> Round {
        let begin = cpu_time();
        let (mut world, bottleneck) = self.world();
        let delivered = |world: &World| world.link(bottleneck).stats().total().delivered.packets;
        world.run_until(Time::ZERO + self.duration / 3);
        let (packets_before, allocations_before) = (delivered(&world), allocation::of_this_thread());
        world.run_until(Time::ZERO + self.duration);
        let steady_allocations = allocation::of_this_thread() - allocations_before;
        let cpu_s = (cpu_time() - begin).as_secs_f64();
        let packets = delivered(&world);
        Round { packets, cpu_s, steady_packets: packets - packets_before, steady_allocations }
    }

    /// Runs it once.
    pub fn once(&self) -> Measurement<'a> {
        Measurement { load: *self, rounds: vec![self.round()] }
    }

    /// Runs it until that has used `enough_s` seconds of CPU time, and three times at least.
    pub fn measure(&self, enough_s: f64) -> Measurement<'a> {
        let begin = cpu_time();
        let mut rounds = Vec::new();
        while rounds.len() < ROUNDS || (cpu_time() - begin).as_secs_f64() < enough_s {
            rounds.push(self.round());
        }
        Measurement { load: *self, rounds }
    }
}

/// Each flow is a session of its own; zero is left free.
fn session_of(index: usize) -> u32 {
    index as u32 + 1
}

/// One round: packets and CPU seconds of the whole run, packets and allocations of its steady state.
pub struct Round {
    /// Delivered by the bottleneck.
    pub packets: u64,
    /// CPU time, building the world included.
    pub cpu_s: f64,
    /// Delivered after a third of the run.
    pub steady_packets: u64,
    /// Heap allocations after a third of the run.
    pub steady_allocations: u64,
}

/// Several rounds of a load.
pub struct Measurement<'a> {
    load: Load<'a>,
    rounds: Vec<Round>,
}

impl Measurement<'_> {
    fn speeds(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|round| round.packets as f64 / round.cpu_s)
    }

    /// Packets per CPU second of the best round: noise only ever adds time.
    pub fn best(&self) -> f64 {
        self.speeds().fold(0.0, f64::max)
    }

    /// CPU time of a packet in multiples of what one costs in `other`.
    pub fn cost_in(&self, other: &Measurement<'_>) -> f64 {
        other.best() / self.best()
    }

    /// What a reader wants to know of it; the rounds differ in nothing but time.
    pub fn details(&self) -> Value {
        let last = self.rounds.last().expect("at least one round");
        json!({
            "packets_per_cpu_s": self.best().round(),
            "packets_per_cpu_s_median": median(self.speeds().collect()).round(),
            "allocs_per_packet": last.steady_allocations as f64 / last.steady_packets as f64,
            "packets": last.packets,
            "utilization": last.packets as f64 * 1500.0 * 8.0
                / (self.load.rate.as_bps() as f64 * self.load.duration.as_secs_f64()),
            "rounds": self.rounds.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_allocates_nothing_and_fills_the_link() {
        let round = Load::of("newreno").round();
        assert_eq!(round.steady_allocations, 0, "in {} packets", round.steady_packets);
        assert!(round.steady_packets > 39_000, "{} of 40000 packets", round.steady_packets);
    }

    #[test]
    fn hosts_that_do_nothing_fill_the_link() {
        for flows in [1, 10] {
            let round = Load { hosts: Hosts::Nothing, flows, ..Load::of("newreno") }.round();
            assert_eq!(round.steady_allocations, 0, "in {} packets", round.steady_packets);
            assert!(round.steady_packets > 39_900, "{} of 40000 packets", round.steady_packets);
        }
    }

    #[test]
    fn the_least_hosts_fill_the_link_lose_packets_and_allocate_nothing() {
        let [written, handed] = [Hosts::Floor, Hosts::FloorHanded].map(|hosts| {
            let load = Load { hosts, ..Load::of("newreno") };
            let round = load.round();
            assert_eq!(round.steady_allocations, 0, "in {} packets", round.steady_packets);
            assert!(round.steady_packets > 39_900, "{} of 40000 packets", round.steady_packets);
            let (mut world, bottleneck) = load.world();
            world.run_until(Time::ZERO + load.duration);
            world.link(bottleneck).stats().total()
        });
        assert!(written.dropped.packets > 0, "the queue never filled");
        assert_eq!(written, handed, "how packets travel changes nothing else");
    }

    #[test]
    fn fewer_reports_fill_the_link_too() {
        let round = Load { report_every: 10, ..Load::of("newreno") }.round();
        assert_eq!(round.steady_allocations, 0, "in {} packets", round.steady_packets);
        assert!(round.steady_packets > 39_000, "{} of 40000 packets", round.steady_packets);
    }

    #[test]
    fn ten_flows_share_the_link() {
        let ten =
            Load { flows: 10, rate: Rate::from_mbps(24), queue: "droptail:100ms", ..Load::of("newreno") };
        let round = ten.round();
        assert!(round.steady_packets > 78_000, "{} of 80000 packets", round.steady_packets);
    }

    #[test]
    fn a_controller_that_needs_frames_gets_them() {
        let round = Load { video: true, ..Load::of("sqp") }.round();
        assert!(round.steady_packets > 20_000, "{} of 40000 packets", round.steady_packets);
    }
}
