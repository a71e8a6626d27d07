//! Whole connections in virtual time.

use std::sync::{Arc, Mutex};

use netsim::{FIRST_LINK_NODE, HostConfig, HostId, LinkConfig, RateProcess, World};
use record::{Event, Memory, Shared};
use units::{HostClock, Rate, Span, Time};
use wire::Endpoint;

use super::*;

/// A run over a bottleneck of 12 Mbit/s with 20 ms each way.
struct Run {
    world: World,
    sender: HostId,
    receiver: HostId,
}

fn run(cc: &str, config: SimulatedConfig, queue: &str, until: Span, recorder: Option<Shared>) -> Run {
    let world = World::new(config.seed, recorder);
    let congestion = Congestion::with(cc, cc::Setup::default()).unwrap();
    let ends = pair(&config, congestion, world.next_host_tap(HostClock::default()));
    over(world, ends, queue, until)
}

fn links(world: &mut World, queue: &str) -> [netsim::LinkId; 2] {
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    let ahead = LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::from_millis(20));
    let ahead = world.add_link("bottleneck", ahead);
    [ahead, world.add_link("back", LinkConfig::delay(Span::from_millis(20)))]
}

fn over(mut world: World, (sender, receiver): (Sender, Receiver), queue: &str, until: Span) -> Run {
    let [ahead, back] = links(&mut world, queue);
    // The receiver's clock is an hour ahead and gains 50 ppm.
    let clock = HostClock::new(Span::from_secs(3_600), 50.0);
    let from = world.add_host(HostConfig::new("sender"), sender);
    let receiver = receiver.recorded(world.next_host_tap(clock));
    let to = world.add_host(HostConfig { clock, ..HostConfig::new("receiver") }, receiver);
    world.connect(from, 0, &[ahead], to);
    world.connect(to, 0, &[back], from);
    world.run_until(Time::ZERO + until);
    Run { world, sender: from, receiver: to }
}

impl Run {
    fn sender(&self) -> &Sender {
        self.world.endpoint(self.sender)
    }
    fn receiver(&self) -> &Receiver {
        self.world.endpoint(self.receiver)
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
        // 10 MB take 6.67 s at 12 Mbit/s; headers of IP, UDP, QUIC and frames take 5 %, the handshake and
        // slow start the rest.
        assert!((6.9..7.6).contains(&seconds), "{crypto:?}: {seconds} s");
    }
}

/// Every datagram that either end sent: when, which end, and its bytes.
type Datagrams = Vec<(Time, &'static str, Vec<u8>)>;

/// An endpoint whose datagrams are kept.
struct Witnessed<E> {
    endpoint: E,
    side: &'static str,
    datagrams: Arc<Mutex<Datagrams>>,
}

impl<E: Endpoint> Endpoint for Witnessed<E> {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: wire::RxMeta) {
        self.endpoint.receive(now, datagram, meta);
    }
    fn wake(&mut self, now: Time) {
        self.endpoint.wake(now);
    }
    fn next_wake(&self) -> Option<Time> {
        self.endpoint.next_wake()
    }
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<wire::TxMeta> {
        let meta = self.endpoint.transmit(now, out)?;
        assert_eq!((meta.head, meta.payload.is_none()), (meta.length, true), "all of it is in `out`");
        self.datagrams.lock().unwrap().push((now, self.side, out[..meta.head].to_vec()));
        Some(meta)
    }
}

/// Everything that eight seconds of a transfer leave behind: the recorded events, in order, and the
/// datagrams.
fn everything(cc: &str, config: &SimulatedConfig) -> (Vec<(Time, record::NodeId, Event)>, Datagrams) {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let world = World::new(config.seed, Some(memory.clone()));
    let congestion = Congestion::with(cc, cc::Setup::default()).unwrap();
    let (sender, receiver) = pair(config, congestion, world.next_host_tap(HostClock::default()));
    let datagrams = Arc::new(Mutex::new(Vec::new()));
    over_with(world, sender, receiver, "droptail:60ms", Span::from_secs(8), &datagrams);
    let events = std::mem::take(&mut memory.lock().unwrap().events);
    let datagrams = std::mem::take(&mut *datagrams.lock().unwrap());
    assert!(events.len() > 50_000 && datagrams.len() > 10_000, "{} {}", events.len(), datagrams.len());
    (events, datagrams)
}

fn over_with(
    mut world: World,
    sender: Sender,
    receiver: Receiver,
    queue: &str,
    until: Span,
    datagrams: &Arc<Mutex<Datagrams>>,
) {
    let clock = HostClock::new(Span::from_secs(3_600), 50.0);
    let witness = |side| (side, datagrams.clone());
    let [ahead, back] = links(&mut world, queue);
    let (side, kept) = witness("sender");
    let from = world.add_host(HostConfig::new(side), Witnessed { endpoint: sender, side, datagrams: kept });
    let receiver = receiver.recorded(world.next_host_tap(clock));
    let (side, kept) = witness("receiver");
    let place = HostConfig { clock, ..HostConfig::new(side) };
    let to = world.add_host(place, Witnessed { endpoint: receiver, side, datagrams: kept });
    world.connect(from, 0, &[ahead], to);
    world.connect(to, 0, &[back], from);
    world.run_until(Time::ZERO + until);
}

/// Not a hash: event by event, and byte by byte of every datagram of both ends.
#[test]
fn the_same_seed_gives_the_same_events_and_bytes_and_another_seed_others() {
    for cc in ["cubic", "quic-dc:threshold=20ms"] {
        let config = transfer(Crypto::Null);
        let (first, other) =
            (everything(cc, &config), everything(cc, &SimulatedConfig { seed: 2, ..config }));
        assert!(first == everything(cc, &config), "{cc}");
        let ((events, datagrams), (other_events, other_datagrams)) = (first, other);
        assert!(events != other_events && datagrams != other_datagrams, "{cc}");
    }
}

/// Under TLS the events repeat, and every datagram in its time and length. Its bytes do not, from the first
/// on: ring draws the key shares from the operating system, whatever seed anybody has, and every key follows
/// from them.
#[test]
fn under_tls_all_repeats_but_the_bytes() {
    let config = transfer(Crypto::Tls);
    let (events, datagrams) = everything("cubic", &config);
    let (events_again, datagrams_again) = everything("cubic", &config);
    assert!(events == events_again);
    let shape = |datagrams: &Datagrams| -> Vec<(Time, &'static str, usize)> {
        datagrams.iter().map(|(at, side, bytes)| (*at, *side, bytes.len())).collect()
    };
    assert!(shape(&datagrams) == shape(&datagrams_again));
    let mut pairs = datagrams.iter().zip(&datagrams_again);
    assert!(pairs.all(|((_, _, bytes), (_, _, bytes_again))| bytes != bytes_again));
}

/// What a run came to: goodput in Mbit/s, mean sojourn in the bottleneck in ms, and packets dropped there.
#[derive(Debug)]
#[allow(dead_code, reason = "drops are printed")]
struct Figures {
    goodput: f64,
    sojourn: f64,
    dropped: usize,
}

fn figures(run: &Run, seconds: f64, memory: &Mutex<Memory>) -> Figures {
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
    Figures {
        goodput: run.receiver().bytes() as f64 * 8e-6 / seconds,
        sojourn: sojourns.iter().sum::<f64>() / sojourns.len() as f64,
        dropped: memory.events.iter().filter(dropped).count(),
    }
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
        assert!((ours.goodput / quinns.goodput - 1.0).abs() < 0.03, "{queue}: {ours:?} and {quinns:?}");
        assert!((ours.sojourn / quinns.sojourn - 1.0).abs() < 0.15, "{queue}: {ours:?} and {quinns:?}");
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
    let (Figures { goodput, sojourn: queue, .. }, totals) = figures("quic-dc:threshold=10ms");
    // A probe every 2 ms, but for those that no echo had come of when the run ended.
    assert!(totals.timed > 10_000, "{totals:?}");
    // The queue stays near half of the threshold (specs: 0.5 to 1.1 of 6 ms), and nothing is lost.
    assert!((2.0..9.0).contains(&queue) && totals.lost == 0, "{queue} ms, {totals:?}");
    // A stream that is all handed over but not yet sent is timed like any other.
    let whole = SimulatedConfig { bytes: Some(TEN_MEGABYTES), ..SimulatedConfig::default() };
    let whole = run("quic-dc:threshold=10ms", whole, "droptail:100ms", Span::from_secs(9), None);
    assert!(whole.sender().finished_at().is_some());
    assert!(whole.sender().totals().timed > 3_000, "{:?}", whole.sender().totals());
    let (Figures { goodput: plain, sojourn: full, .. }, totals) = figures("westwood-plus-quic");
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
