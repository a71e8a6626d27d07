//! Flows that send as TCP does.

use bulk::{Receiver, ReceiverConfig, Sender, SenderConfig};
use netsim::{HostId, World};
use units::{HostClock, Rng, Span};

use super::build::{controller_of, receiver_host, refuse_cc, sender_host, session_of};
use crate::scenario::{Scenario, ScenarioError, Tcp};

/// TCP knows no frames; equation 10 of SQP's paper cuts its packets into those of 60 frames/s.
pub(super) const INTERVAL: Span = Span::from_nanos(16_666_667);

/// Adds both ends of flow number `index`.
pub(super) fn add(
    world: &mut World,
    scenario: &Scenario,
    index: usize,
    tcp: &Tcp,
) -> Result<(HostId, HostId), ScenarioError> {
    let flow = &scenario.flows[index];
    let session = session_of(index);
    let config = SenderConfig { session, bunch: tcp.bunch, ..tcp.stack.config };
    let (setup, options) = controller_of(scenario, index, config.datagram(), INTERVAL)?;
    let controller = cc::build(&options, &setup).map_err(|error| refuse_cc(scenario, index, &error))?;
    let rng = Rng::stream(scenario.seed, &format!("flow{index}/sender"));
    let sender =
        Sender::new(config, controller, tcp.workload, rng, world.next_host_tap(HostClock::default()));
    let from = world.add_forkable_host(sender_host(flow), sender, Sender::fork);
    let host = receiver_host(flow);
    let receiver = Receiver::new(
        ReceiverConfig { session: Some(session), ..ReceiverConfig::default() },
        world.next_host_tap(host.clock),
    );
    Ok((from, world.add_forkable_host(host, receiver, Receiver::fork)))
}
