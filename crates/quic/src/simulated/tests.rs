//! Whole connections in virtual time.

use std::sync::{Arc, Mutex};

use netsim::{HostConfig, HostId, LinkConfig, RateProcess, World};
use record::{Hash, Shared};
use units::{HostClock, Rate, Span, Time};

use super::*;
use crate::Totals;

/// A bottleneck of 12 Mbit/s, 20 ms each way, `queue`.
struct Run {
    world: World,
    hosts: (HostId, HostId),
}

fn run(cc: &str, config: SimulatedConfig, queue: &str, until: Span, recorder: Option<Shared>) -> Run {
    let mut world = World::new(config.seed, recorder);
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    let ahead = LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::from_millis(20));
    let ahead = world.add_link("bottleneck", ahead);
    let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
    let congestion = Congestion::with(cc, cc::Setup::default()).unwrap();
    // The receiver's clock is an hour ahead and gains 50 ppm.
    let clock = HostClock::new(Span::from_secs(3_600), 50.0);
    let told = world.next_host_tap(HostClock::default());
    let heard = told.clone();
    let (sender, receiver) = pair(&config, congestion, told, heard);
    let from = world.add_host(HostConfig::new("sender"), sender);
    let to = world.add_host(HostConfig { clock, ..HostConfig::new("receiver") }, receiver);
    world.connect(from, 0, &[ahead], to);
    world.connect(to, 0, &[back], from);
    world.run_until(Time::ZERO + until);
    Run { world, hosts: (from, to) }
}

impl Run {
    fn sender(&self) -> &Sender {
        self.world.endpoint(self.hosts.0)
    }
    fn receiver(&self) -> &Receiver {
        self.world.endpoint(self.hosts.1)
    }
    fn totals(&self) -> Totals {
        self.sender().totals()
    }
}

const TEN_MEGABYTES: u64 = 10_000_000;

fn transfer(crypto: Crypto) -> SimulatedConfig {
    SimulatedConfig { crypto, bytes: Some(TEN_MEGABYTES), ..SimulatedConfig::default() }
}

#[test]
fn ten_megabytes_arrive_whole_under_either_crypto() {
    for crypto in [Crypto::Null, Crypto::Tls] {
        let run = run("newreno", transfer(crypto), "droptail:120ms", Span::from_secs(10), None);
        assert_eq!(run.receiver().bytes(), TEN_MEGABYTES, "{crypto:?}");
        let seconds = run.sender().finished_at().unwrap().as_secs_f64();
        // 10 MB take 6.67 s at 12 Mbit/s; headers of IP, UDP, QUIC and frames take 5 %, the handshake and slow start the rest.
        assert!((6.9..7.6).contains(&seconds), "{crypto:?}: {seconds} s");
    }
}

fn hash(cc: &str, config: SimulatedConfig) -> String {
    let recorder = Arc::new(Mutex::new(Hash::default()));
    run(cc, config, "droptail:60ms", Span::from_secs(8), Some(recorder.clone()));
    let hash = recorder.lock().unwrap();
    hash.hex()
}

#[test]
fn the_same_seed_gives_the_same_events_and_another_seed_others() {
    for crypto in [Crypto::Null, Crypto::Tls] {
        for cc in ["cubic", "quic-dc:threshold=20ms"] {
            let config = transfer(crypto);
            let first = hash(cc, config);
            assert_eq!(first, hash(cc, config), "{cc}, {crypto:?}");
            assert_ne!(first, hash(cc, SimulatedConfig { seed: 2, ..config }), "{cc}, {crypto:?}");
        }
    }
}
