//! Flows that smoltcp sends, under its own controllers.

use netsim::{HostId, World};
use smol::Config;
use units::{HostClock, Rng};

use super::build::{receiver_host, sender_host};
use crate::scenario::{Scenario, ScenarioError, Smoltcp};

/// Adds both ends of flow number `index`.
pub(super) fn add(
    world: &mut World,
    scenario: &Scenario,
    index: usize,
    smoltcp: &Smoltcp,
) -> Result<(HostId, HostId), ScenarioError> {
    let flow = &scenario.flows[index];
    let refuse = |error| scenario.error(format!("flow[{}].cc", index + 1), error);
    let config = Config {
        seed: Rng::stream(scenario.seed, &format!("flow{index}/smoltcp")).next_u64(),
        mtu: smoltcp.mtu.get() as u16,
        control: flow.cc.parse().map_err(refuse)?,
        bytes: smoltcp.bytes,
    };
    let (sender, receiver) = smol::pair(&config, world.next_host_tap(HostClock::default()));
    let from = world.add_host(sender_host(flow), sender);
    let host = receiver_host(flow);
    let receiver = receiver.recorded(world.next_host_tap(host.clock));
    Ok((from, world.add_host(host, receiver)))
}
