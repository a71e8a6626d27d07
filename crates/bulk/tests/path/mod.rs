//! Bulk flows over one simulated bottleneck.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex};

use cc::{Controller, Options, Setup};
use framewire_bulk::{Receiver, ReceiverConfig, Sender, SenderConfig, Workload};
use netsim::{HostConfig, HostId, LinkConfig, LinkId, RateProcess, World};
use record::{Event, Memory, Shared};
use units::{HostClock, Rate, Rng, Span, Time};

/// One flow.
#[derive(Clone)]
pub struct Flow {
    pub cc: &'static str,
    pub sender: SenderConfig,
    pub receiver: ReceiverConfig,
    pub workload: Workload,
    pub start: Time,
    pub clock: HostClock,
    pub fresh: bool,
}

impl Flow {
    pub fn new(cc: &'static str, workload: Workload) -> Flow {
        Flow {
            cc,
            sender: SenderConfig::default(),
            receiver: ReceiverConfig::default(),
            workload,
            start: Time::ZERO,
            clock: HostClock::default(),
            fresh: false,
        }
    }
}

pub fn controller(cc: &str, config: &SenderConfig, seed: u64) -> Box<dyn Controller> {
    let options: Options = cc.parse().unwrap();
    cc::build(&options, &Setup { mtu: config.datagram(), seed, ..Setup::default() }).unwrap()
}

/// A flow's two hosts.
#[derive(Clone, Copy)]
pub struct Ends {
    pub sender: HostId,
    pub receiver: HostId,
}

/// A world with its flows' hosts.
pub struct Path {
    pub world: World,
    pub bottleneck: LinkId,
    pub hosts: Vec<Ends>,
}

/// `mbps`, 20 ms each way, `queue`.
pub fn link(mbps: u64, queue: &str) -> LinkConfig {
    let rate = RateProcess::Constant(Rate::from_mbps(mbps));
    LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::from_millis(20))
}

pub fn build(
    seed: u64,
    forward: LinkConfig,
    back: LinkConfig,
    flows: &[Flow],
    recorder: Option<Shared>,
) -> Path {
    let mut world = World::new(seed, recorder);
    let bottleneck = world.add_link("bottleneck", forward);
    let mut hosts = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let config = SenderConfig { session: number as u32 + 1, ..flow.sender };
        let make = controller(flow.cc, &config, seed);
        let rng = Rng::stream(seed, &format!("flow{number}"));
        let tap = world.next_host_tap(HostClock::default());
        let mut sender = Sender::new(config, make, flow.workload, rng, tap);
        if flow.fresh {
            let cc = flow.cc;
            sender = sender.with_fresh_connections(Box::new(move || controller(cc, &config, seed)));
        }
        let place = HostConfig { start: flow.start, ..HostConfig::new(&format!("sender {number}")) };
        let from = world.add_host(place, sender);
        let tap = world.next_host_tap(flow.clock);
        let place = HostConfig { clock: flow.clock, ..HostConfig::new(&format!("receiver {number}")) };
        let to = world.add_host(place, Receiver::new(flow.receiver, tap));
        let back = world.add_link(&format!("return {number}"), back.clone());
        world.connect(from, number as u16, &[bottleneck], to);
        world.connect(to, number as u16, &[back], from);
        hosts.push(Ends { sender: from, receiver: to });
    }
    Path { world, bottleneck, hosts }
}

impl Path {
    pub fn sender(&self, flow: usize) -> &Sender {
        self.world.endpoint(self.hosts[flow].sender)
    }
    pub fn receiver(&self, flow: usize) -> &Receiver {
        self.world.endpoint(self.hosts[flow].receiver)
    }
    /// Stream bytes flow `flow` delivers in `seconds` from `from` on, as a share of `mbps` with headers
    /// counted.
    pub fn utilisation(&mut self, flow: usize, from: u64, to: u64, mbps: u64) -> f64 {
        self.world.run_until(Time::from_secs(from));
        let before = self.receiver(flow).counters().delivered;
        self.world.run_until(Time::from_secs(to));
        let bytes = self.receiver(flow).counters().delivered - before;
        bytes as f64 * 8.0 * 1500.0 / 1448.0 / ((to - from) * mbps * 1_000_000) as f64
    }
}

pub fn memory() -> Arc<Mutex<Memory>> {
    Arc::new(Mutex::new(Memory::default()))
}

/// Events of one host, with their times in seconds.
pub fn events(memory: &Mutex<Memory>, host: HostId) -> Vec<(f64, Event)> {
    let memory = memory.lock().unwrap();
    let of_host = memory.events.iter().filter(|(_, node, _)| *node == host.node());
    of_host.map(|(at, _, event)| (at.as_secs_f64(), *event)).collect()
}
