//! Whole connections in virtual time.

use std::sync::{Arc, Mutex};

use netsim::{FIRST_LINK_NODE, HostConfig, HostId, LinkConfig, RateProcess, World};
use record::{Event, Hash, Memory, Shared};
use units::{HostClock, Rate, Span, Time};
use wire::Endpoint;

use super::*;

/// A run over a bottleneck of 12 Mbit/s with 20 ms each way.
struct Run {
    world: World,
    hosts: (HostId, HostId),
}

fn run(cc: &str, config: SimulatedConfig, queue: &str, until: Span, recorder: Option<Shared>) -> Run {
    let world = World::new(config.seed, recorder);
    let congestion = Congestion::with(cc, cc::Setup::default()).unwrap();
    let ends = pair(&config, congestion, world.next_host_tap(HostClock::default()));
    over(world, ends, queue, until)
}

fn over(mut world: World, (sender, receiver): (Sender, Receiver), queue: &str, until: Span) -> Run {
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    let ahead = LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::from_millis(20));
    let ahead = world.add_link("bottleneck", ahead);
    let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
    // The receiver's clock is an hour ahead and gains 50 ppm.
    let clock = HostClock::new(Span::from_secs(3_600), 50.0);
    let from = world.add_host(HostConfig::new("sender"), sender);
    let receiver = receiver.recorded(world.next_host_tap(clock));
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

/// Goodput in Mbit/s, mean sojourn in the bottleneck in ms, and packets dropped there.
fn figures(run: &Run, seconds: f64, memory: &Mutex<Memory>) -> (f64, f64, usize) {
    let memory = memory.lock().unwrap();
    let sojourns: Vec<f64> = memory
        .events
        .iter()
        .filter_map(|(_, node, event)| match event {
            Event::LinkDeparted { sojourn, .. } if node.0 == FIRST_LINK_NODE => Some(sojourn.as_millis_f64()),
            _ => None,
        })
        .collect();
    let dropped = |(_, _, event): &&(_, _, Event)| matches!(event, Event::LinkDropped { .. });
    let mean = sojourns.iter().sum::<f64>() / sojourns.len() as f64;
    (run.receiver().bytes() as f64 * 8e-6 / seconds, mean, memory.events.iter().filter(dropped).count())
}

#[test]
fn newreno_in_the_adapter_does_what_quinns_does() {
    const SECONDS: i64 = 60;
    let compare = |queue: &str| {
        let (config, until) = (SimulatedConfig::default(), Span::from_secs(SECONDS));
        let memory = Arc::new(Mutex::new(Memory::default()));
        let ours = run("newreno", config, queue, until, Some(memory.clone()));
        let ours = figures(&ours, SECONDS as f64, &memory);
        let memory = Arc::new(Mutex::new(Memory::default()));
        let factory = Arc::new(quinn_proto::congestion::NewRenoConfig::default());
        let world = World::new(config.seed, Some(memory.clone()));
        let quinns = over(world, pair_under(&config, factory, Tap::default()), queue, until);
        (ours, figures(&quinns, SECONDS as f64, &memory))
    };
    for queue in ["droptail:20ms", "droptail:40ms", "droptail:120ms"] {
        let (ours, quinns) = compare(queue);
        println!("{queue}: ours {ours:.2?}, quinn's {quinns:.2?}");
        assert!((ours.0 / quinns.0 - 1.0).abs() < 0.03, "goodput, {queue}: {} and {}", ours.0, quinns.0);
        assert!((ours.1 / quinns.1 - 1.0).abs() < 0.15, "queue, {queue}: {} and {} ms", ours.1, quinns.1);
    }
}

#[test]
fn quic_dc_hears_of_the_queue_through_its_side_channel() {
    let figures = |cc: &str| {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let run =
            run(cc, SimulatedConfig::default(), "droptail:100ms", Span::from_secs(30), Some(memory.clone()));
        let totals = run.sender().totals();
        assert_eq!(totals.timed, run.receiver().echoed().answered.min(totals.timed), "each echo counts once");
        (figures(&run, 30.0, &memory), totals)
    };
    let ((goodput, queue, _), totals) = figures("quic-dc:threshold=10ms");
    // A probe every 2 ms, but for those that no echo had come of when the run ended.
    assert!(totals.timed > 10_000, "{totals:?}");
    // The queue stays near half of the threshold (specs: 0.5 to 1.1 of 6 ms), and nothing is lost.
    assert!((2.0..9.0).contains(&queue) && totals.lost == 0, "{queue} ms, {totals:?}");
    // A stream that is all handed over but not yet sent is timed like any other.
    let whole = SimulatedConfig { bytes: Some(TEN_MEGABYTES), ..SimulatedConfig::default() };
    let whole = run("quic-dc:threshold=10ms", whole, "droptail:100ms", Span::from_secs(9), None);
    assert!(whole.sender().finished_at().is_some());
    assert!(whole.sender().totals().timed > 3_000, "{:?}", whole.sender().totals());
    let ((plain, full, _), totals) = figures("westwood-plus-quic");
    assert!(goodput > 0.95 * plain && queue < 0.3 * full, "{goodput} {plain}, {queue} {full}");
    assert_eq!(totals.timed, 0, "no probes for a controller that has no use for them");
}

#[test]
fn bytes_from_strangers_end_nothing() {
    let config = transfer(Crypto::Null);
    let congestion = Congestion::with("quic-dc", cc::Setup::default()).unwrap();
    let (mut sender, mut receiver) = pair(&config, congestion, record::Tap::default());
    let mut rng = units::Rng::stream(5, "strangers");
    let (mut out, mut there, mut back) = ([0; wire::MAX_DATAGRAM], Vec::new(), Vec::new());
    for ms in 0..2_000 {
        let now = Time::from_millis(ms);
        sender.wake(now);
        receiver.wake(now);
        let mut noise = vec![0; rng.below(1400) as usize];
        noise.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        for datagram in there.drain(..).chain([noise.clone()]) {
            receiver.receive(now, &datagram, wire::RxMeta::default());
            // The same again, and with a byte changed.
            receiver.receive(now, &datagram, wire::RxMeta::default());
            let mut changed: Vec<u8> = datagram;
            let at = rng.below(changed.len().max(1) as u64) as usize;
            changed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8));
            receiver.receive(now, &changed, wire::RxMeta::default());
        }
        for datagram in back.drain(..).chain([noise]) {
            sender.receive(now, &datagram, wire::RxMeta::default());
            sender.receive(now, &datagram, wire::RxMeta::default());
        }
        while let Some(meta) = sender.transmit(now, &mut out) {
            there.push(out[..meta.length].to_vec());
        }
        while let Some(meta) = receiver.transmit(now, &mut out) {
            back.push(out[..meta.length].to_vec());
        }
    }
    assert_eq!(receiver.bytes(), TEN_MEGABYTES);
}
