//! The simulator's speed: one backlogged NewReno flow, 12 Mbit/s, 20 ms each way, 100-packet DropTail, 60 s.
//!
//! This is the flow that other simulators are measured with, but nothing is left out: wire packets are encoded and decoded, the
//! receiver reports every second packet in a feedback packet, and the ledger, pacer and controller run as they would live.

use cc::{Options, Setup};
use netsim::{HostConfig, HostId, LinkConfig, LinkId, QueueSpec, RateProcess, World};
use record::Tap;
use serde_json::{Map, json};
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply};
use units::{Rate, Rng, Span, Time};

use super::Benchmark;
use super::measure::{cpu_time, median};
use crate::allocation;
use crate::failure::Failure;

/// Rounds go on until they have used this much CPU time together.
const ENOUGH: std::time::Duration = std::time::Duration::from_secs(1);
/// An Ethernet packet's IP payload less the UDP header: 1500 bytes on the wire.
const DATAGRAM: usize = 1472;
/// Steady state: slow start and its losses are over, every buffer has found its size.
const STEADY: Time = Time::from_secs(20);
const END: Time = Time::from_secs(60);

/// The world of the benchmark.
struct Flow {
    world: World,
    bottleneck: LinkId,
}

impl Flow {
    fn new() -> Flow {
        let mut world = World::new(1, None);
        let (sender, receiver) =
            (Flow::sender(), Receiver::new(ReceiverConfig::default(), None, None, Tap::default()));
        let sender: HostId = world.add_host(HostConfig::new("sender"), sender);
        let receiver: HostId = world.add_host(HostConfig::new("receiver"), receiver);
        let delay = Span::from_millis(20);
        let queue: QueueSpec = "droptail:100p".parse().expect("the queue registry knows droptail");
        let link = LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(12)), queue, delay);
        let bottleneck = world.add_link("bottleneck", link);
        let back = world.add_link("back", LinkConfig::delay(delay));
        world.connect(sender, 0, &[bottleneck], receiver);
        world.connect(receiver, 0, &[back], sender);
        Flow { world, bottleneck }
    }

    fn sender() -> Sender {
        let setup = Setup { mtu: DATAGRAM as u32, ..Setup::default() };
        let controller = cc::build(&Options::of("newreno"), &setup).expect("the registry knows newreno");
        let config = SenderConfig { mtu: DATAGRAM, ..SenderConfig::default() };
        let rng = Rng::stream(1, "sender");
        Sender::new(
            config,
            &setup,
            controller,
            Policies::default(),
            vec![Supply::Backlog],
            rng,
            Tap::default(),
        )
    }

    fn delivered(&self) -> u64 {
        self.world.link(self.bottleneck).stats().total().delivered.packets
    }
}

/// One round: packets and CPU seconds of the whole run, packets and allocations of its steady state.
struct Round {
    packets: u64,
    cpu_s: f64,
    steady_packets: u64,
    steady_allocations: u64,
}

fn round() -> Round {
    let begin = cpu_time();
    let mut flow = Flow::new();
    flow.world.run_until(STEADY);
    let (packets_before, allocations_before) = (flow.delivered(), allocation::of_this_thread());
    flow.world.run_until(END);
    Round {
        packets: flow.delivered(),
        cpu_s: (cpu_time() - begin).as_secs_f64(),
        steady_packets: flow.delivered() - packets_before,
        steady_allocations: allocation::of_this_thread() - allocations_before,
    }
}

/// Repeats the run until it has used a second of CPU time.
pub fn run() -> Result<Benchmark, Failure> {
    let begin = cpu_time();
    let mut rounds = Vec::new();
    while cpu_time() - begin < ENOUGH || rounds.len() < 3 {
        rounds.push(round());
    }
    let speeds: Vec<f64> = rounds.iter().map(|round| round.packets as f64 / round.cpu_s).collect();
    let best = speeds.iter().copied().fold(0.0, f64::max);
    let last = rounds.last().expect("at least three rounds");
    let details = json!({
        "packets_per_cpu_s": best.round(),
        "packets_per_cpu_s_median": median(speeds).round(),
        "allocs_per_packet": last.steady_allocations as f64 / last.steady_packets as f64,
        "packets": last.packets,
        "utilization": last.packets as f64 * 1500.0 * 8.0 / (12e6 * END.as_secs_f64()),
        "rounds": rounds.len(),
    });
    let details: Map<_, _> = details.as_object().cloned().unwrap_or_default();
    Ok(Benchmark { name: "sim", unit: "packets/CPU s", value: best.round(), details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_allocates_nothing_and_fills_the_link() {
        let round = round();
        assert_eq!(round.steady_allocations, 0, "in {} packets", round.steady_packets);
        assert!(round.steady_packets > 39_000, "{} of 40000 packets", round.steady_packets);
    }
}
