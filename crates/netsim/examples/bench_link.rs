//! Prints what a delivered packet costs the network alone: two toy endpoints that do next to nothing, over a
//! few networks.
//!
//! `cargo run --release -p framewire-netsim --example bench_link -- [SECONDS]`
//!
//! SECONDS of virtual time for each network (1000 if not given).

use framewire_netsim::{
    CrossTraffic, HostConfig, HostId, LinkConfig, LinkId, MahimahiTrace, Pattern, QueueSpec, RateProcess,
    World,
};
use units::{Rate, Span, Time};
use wire::{Endpoint, RxMeta, TxMeta};

const HEAD: usize = 40;

/// Keeps `window` datagrams in flight; each answer says how many arrived.
struct Windowed {
    window: u64,
    sent: u64,
    acked: u64,
}

impl Endpoint for Windowed {
    fn receive(&mut self, _now: Time, datagram: &[u8], _meta: RxMeta) {
        let arrived = datagram[..8].try_into().map(u64::from_le_bytes).expect("answers hold a number");
        // Highest number seen: losses leave the window, as they would with real feedback.
        self.acked = self.acked.max(arrived);
    }
    fn wake(&mut self, _now: Time) {}
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn transmit(&mut self, _now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.sent - self.acked >= self.window {
            return None;
        }
        self.sent += 1;
        out[..8].copy_from_slice(&self.sent.to_le_bytes());
        Some(TxMeta { head: HEAD, length: 1200, ..TxMeta::default() })
    }
}

/// Answers every `every`-th datagram.
struct Answering {
    every: u64,
    seen: u64,
    answered: u64,
    highest: u64,
}

impl Endpoint for Answering {
    fn receive(&mut self, _now: Time, datagram: &[u8], _meta: RxMeta) {
        self.seen += 1;
        self.highest = datagram[..8].try_into().map(u64::from_le_bytes).expect("datagrams hold a number");
    }
    fn wake(&mut self, _now: Time) {}
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn transmit(&mut self, _now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.seen < self.answered + self.every {
            return None;
        }
        self.answered = self.seen;
        out[..8].copy_from_slice(&self.highest.to_le_bytes());
        Some(TxMeta { head: 30, length: 30, ..TxMeta::default() })
    }
}

fn flow(world: &mut World, number: u16, forward: &[LinkId], back: LinkId, window: u64) -> HostId {
    let sender =
        world.add_host(HostConfig::new(&format!("sender{number}")), Windowed { window, sent: 0, acked: 0 });
    let answering = Answering { every: 2, seen: 0, answered: 0, highest: 0 };
    let receiver = world.add_host(HostConfig::new(&format!("receiver{number}")), answering);
    world.connect(sender, number, forward, receiver);
    world.connect(receiver, number, &[back], sender);
    receiver
}

fn network(rate: RateProcess, flows: u16, window: u64, cross: bool) -> World {
    let mut world = World::new(1, None);
    let queue: QueueSpec = "droptail:100p".parse().expect("a queue");
    let delay = Span::from_millis(20);
    let bottleneck = world.add_link("bottleneck", LinkConfig::bottleneck(rate, queue, delay));
    let back = world.add_link("back", LinkConfig::delay(delay));
    for number in 0..flows {
        let access = (flows > 1).then(|| {
            world.add_link(&format!("access{number}"), LinkConfig::delay(Span::from_millis(number.into())))
        });
        let path: Vec<LinkId> = access.into_iter().chain([bottleneck]).collect();
        flow(&mut world, number, &path, back, window);
    }
    if cross {
        world.add_cross(CrossTraffic::new(Pattern::Poisson, Rate::from_mbps(3)), 99, &[bottleneck]);
    }
    world
}

/// CPU time this process has used, in nanoseconds, as Linux accounts it (within a scheduler tick): what other
/// jobs on the machine use does not count.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("this benchmark needs Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number is CPU time")
}

/// Warms up, then runs five equal pieces and prints the cheapest and the middle one: neighbours on the same
/// core still slow caches and clocks, and only ever add.
fn measure(name: &str, mut world: World, seconds: u64) {
    world.run_until(Time::from_millis(seconds * 100));
    let mut costs = Vec::new();
    for piece in 1..=5 {
        let (begun, before) = (cpu_ns(), world.counters());
        world.run_until(Time::from_millis(seconds * 100) + Span::from_secs((piece * seconds) as i64));
        let (ended, after) = (cpu_ns(), world.counters());
        let packets = after.delivered + after.cross - before.delivered - before.cross;
        costs.push((ended - begun) / packets as f64);
    }
    costs.sort_by(f64::total_cmp);
    let all = world.counters();
    let events = all.events as f64 / (all.delivered + all.cross) as f64;
    println!(
        "{name:<34} {:>6.1} ns a packet (median {:.1}), {events:.2} events a packet",
        costs[0], costs[2]
    );
}

fn main() {
    let seconds =
        std::env::args().nth(1).map_or(1000, |text| text.parse().expect("SECONDS is a whole number"));
    let constant = RateProcess::Constant(Rate::from_mbps(12));
    let trace = MahimahiTrace::from_millis((1..=1000).collect()).map(|t| RateProcess::trace(t.into()));
    let trace = trace.expect("a trace");
    let gigabit = RateProcess::Constant(Rate::from_mbps(1000));
    measure("one flow, 12 Mbit/s", network(constant.clone(), 1, 120, false), seconds);
    measure("one flow, trace of 12 Mbit/s", network(trace, 1, 120, false), seconds);
    measure("ten flows, 12 Mbit/s", network(constant.clone(), 10, 14, false), seconds);
    measure("one flow and Poisson, 12 Mbit/s", network(constant, 1, 100, true), seconds);
    measure("one flow, 1 Gbit/s", network(gigabit, 1, 4000, false), (seconds / 50).max(1));
}
