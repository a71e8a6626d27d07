//! Flows that send as QUIC does: quinn's state machine under one of our controllers.

use ::quic::Congestion;
use ::quic::simulated::{self, Crypto, SimulatedConfig};
use netsim::{HostId, World};
use units::{HostClock, Rng};

use super::build::{controller_of, receiver_host, sender_host};
use super::tcp::INTERVAL;
use crate::scenario::{Control, Protection, Quic, Scenario, ScenarioError};

/// Adds both ends of flow number `index`.
pub(super) fn add(
    world: &mut World,
    scenario: &Scenario,
    index: usize,
    quic: &Quic,
) -> Result<(HostId, HostId), ScenarioError> {
    let flow = &scenario.flows[index];
    let mtu = quic.mtu.get() as u16;
    let (setup, _) = controller_of(scenario, index, u32::from(mtu), INTERVAL)?;
    let config = SimulatedConfig {
        seed: Rng::stream(scenario.seed, &format!("flow{index}/quic")).next_u64(),
        mtu,
        crypto: match quic.crypto {
            Protection::Null => Crypto::Null,
            Protection::Tls => Crypto::Tls,
        },
        bytes: quic.bytes,
    };
    let tap = world.next_host_tap(HostClock::default());
    let (sender, receiver) = match simulated::quinns(&flow.cc).filter(|_| quic.control == Control::Quinn) {
        Some(factory) => simulated::pair_under(&config, factory, tap),
        None => {
            let congestion = Congestion::with(&flow.cc, setup)
                .map_err(|error| scenario.error(format!("flow[{}].cc", index + 1), error.to_string()))?;
            simulated::pair(&config, congestion, tap)
        }
    };
    let from = world.add_host(sender_host(flow), sender);
    let host = receiver_host(flow);
    let receiver = receiver.recorded(world.next_host_tap(host.clock));
    Ok((from, world.add_host(host, receiver)))
}
