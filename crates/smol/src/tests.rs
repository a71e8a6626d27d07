//! Whole connections in virtual time.

use std::sync::{Arc, Mutex};

use netsim::{HostConfig, HostId, Impairments, LinkConfig, Loss, RateProcess, Reorder, World};
use proptest::prelude::*;
use record::{Event, Memory, NodeId, Shared};
use units::{HostClock, Rate, Rng, Span, Time};
use wire::{Endpoint, RxMeta};

use super::*;

const CONTROLS: [Control; 2] = [Control::NewReno, Control::Cubic];
const TEN_MEGABYTES: u64 = 10_000_000;

fn bottleneck() -> LinkConfig {
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    LinkConfig::bottleneck(rate, "droptail:100p".parse().unwrap(), Span::from_millis(20))
}

struct Run {
    world: World,
    sender: HostId,
    receiver: HostId,
}

impl Run {
    fn over(ahead: LinkConfig, config: &Config, until: Span, recorder: Option<Shared>) -> Run {
        let mut world = World::new(config.seed, recorder);
        let (sender, receiver) = pair(config, world.next_host_tap(HostClock::default()));
        // The receiver's clock is an hour ahead and gains 50 ppm.
        let clock = HostClock::new(Span::from_secs(3_600), 50.0);
        let from = world.add_host(HostConfig::new("sender"), sender);
        let receiver = receiver.recorded(world.next_host_tap(clock));
        let to = world.add_host(HostConfig { clock, ..HostConfig::new("receiver") }, receiver);
        let ahead = world.add_link("bottleneck", ahead);
        let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
        world.connect(from, 0, &[ahead], to);
        world.connect(to, 0, &[back], from);
        world.run_until(Time::ZERO + until);
        Run { world, sender: from, receiver: to }
    }

    fn sender(&self) -> &Sender {
        self.world.endpoint(self.sender)
    }

    fn receiver(&self) -> &Receiver {
        self.world.endpoint(self.receiver)
    }
}

fn transfer(control: Control) -> Config {
    Config { control, bytes: Some(TEN_MEGABYTES), ..Config::default() }
}

#[test]
fn ten_megabytes_fill_a_link_that_drops_nothing() {
    for control in CONTROLS {
        let ahead = LinkConfig { queue: "infinite".parse().unwrap(), ..bottleneck() };
        let run = Run::over(ahead, &transfer(control), Span::from_secs(30), None);
        let Counters { acked_bytes, retransmissions, .. } = run.sender().counters();
        assert_eq!((run.receiver().bytes(), acked_bytes, retransmissions), (TEN_MEGABYTES, TEN_MEGABYTES, 0));
        let seconds = run.sender().finished_at().unwrap().as_secs_f64();
        // 10 MB take 6.67 s at 12 Mbit/s, headers 3 % more; the start from two segments the rest.
        assert!((6.85..7.5).contains(&seconds), "{control:?}: {seconds} s");
        assert!(run.receiver().finished_at().unwrap() > Time::from_secs(6));
    }
}

#[test]
fn an_endless_stream_fills_a_short_queue_once_slow_start_is_over() {
    // CUBIC waits for a timeout of a second each time it has found the end of the queue.
    for (control, least) in CONTROLS.into_iter().zip([0.95, 0.65]) {
        let config = Config { control, ..Config::default() };
        let bytes = |until| Run::over(bottleneck(), &config, Span::from_secs(until), None).receiver().bytes();
        let rate = (bytes(30) - bytes(15)) as f64 * 8.0 / 15.0 / 12e6;
        assert!(rate > least, "{control:?}: {rate}");
        let run = Run::over(bottleneck(), &config, Span::from_secs(15), None);
        let Counters { packets, bytes, .. } = run.sender().counters();
        // 1500 bytes of IP packet are 1472 of datagram.
        assert!(bytes as f64 / packets as f64 > 1_471.0, "{bytes} in {packets}");
        assert_eq!((run.sender().finished_at(), run.receiver().finished_at()), (None, None));
    }
}

#[test]
fn a_lossy_link_delays_and_loses_nothing() {
    for control in CONTROLS {
        let mut lossy = bottleneck();
        lossy.impairments.loss = Loss::Bernoulli(0.02);
        let config = Config { bytes: Some(1_000_000), ..transfer(control) };
        let run = Run::over(lossy, &config, Span::from_secs(300), None);
        assert_eq!(run.receiver().bytes(), 1_000_000, "{control:?}");
        let counters = run.sender().counters();
        assert!(run.sender().finished_at().is_some() && counters.retransmissions > 5, "{counters:?}");
    }
}

#[test]
fn an_outage_ends_in_a_timeout() {
    let mut broken = bottleneck();
    broken.impairments.blackouts = vec![(Time::from_secs(2), Time::from_millis(2_900))];
    let run = Run::over(broken, &transfer(Control::NewReno), Span::from_secs(30), None);
    assert!(run.sender().counters().timeouts >= 1, "{:?}", run.sender().counters());
    assert_eq!(run.receiver().bytes(), TEN_MEGABYTES);
}

/// Every datagram that either end sent: when, and its bytes.
type Datagrams = Vec<(Time, Vec<u8>)>;

/// An endpoint whose datagrams are kept.
struct Witnessed<E> {
    endpoint: E,
    datagrams: Arc<Mutex<Datagrams>>,
}

impl<E: Endpoint> Endpoint for Witnessed<E> {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
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
        self.datagrams.lock().unwrap().push((now, out[..meta.head].to_vec()));
        Some(meta)
    }
}

#[derive(PartialEq)]
struct Everything {
    events: Vec<(Time, NodeId, Event)>,
    datagrams: Datagrams,
}

/// Every event and every datagram of ten lossy seconds.
fn everything(config: &Config) -> Everything {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut world = World::new(1, Some(memory.clone()));
    let (sender, receiver) = pair(config, world.next_host_tap(HostClock::default()));
    let datagrams = Arc::new(Mutex::new(Vec::new()));
    let from = world
        .add_host(HostConfig::new("sender"), Witnessed { endpoint: sender, datagrams: datagrams.clone() });
    let receiver = receiver.recorded(world.next_host_tap(HostClock::default()));
    let to = world.add_host(
        HostConfig::new("receiver"),
        Witnessed { endpoint: receiver, datagrams: datagrams.clone() },
    );
    let mut ahead = bottleneck();
    ahead.impairments.loss = Loss::Bernoulli(0.005);
    let ahead = world.add_link("bottleneck", ahead);
    let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
    world.connect(from, 0, &[ahead], to);
    world.connect(to, 0, &[back], from);
    world.run_until(Time::from_secs(10));
    let events = std::mem::take(&mut memory.lock().unwrap().events);
    let datagrams = std::mem::take(&mut *datagrams.lock().unwrap());
    assert!(events.len() > 5_000 && datagrams.len() > 2_000, "{} {}", events.len(), datagrams.len());
    Everything { events, datagrams }
}

#[test]
fn the_same_seed_gives_the_same_events_and_bytes_and_another_seed_others() {
    for control in CONTROLS {
        let config = Config { control, ..Config::default() };
        let (first, other) = (everything(&config), everything(&Config { seed: 2, ..config }));
        assert!(first == everything(&config), "{control:?}");
        assert!(first.datagrams != other.datagrams, "{control:?}: sequence numbers begin elsewhere");
        let seen = |Everything { events, .. }: &Everything, what: fn(&Event) -> bool| {
            events.iter().filter(|(_, _, event)| what(event)).count()
        };
        for what in [
            |event: &Event| matches!(event, Event::PacketSent { .. }),
            |event: &Event| matches!(event, Event::PacketReceived { .. }),
            |event: &Event| matches!(event, Event::PacketAcked { .. }),
            |event: &Event| matches!(event, Event::Rtt { .. }),
        ] {
            assert!(seen(&first, what) > 500, "{control:?}");
        }
        assert!(seen(&first, |event| matches!(event, Event::PacketLost { .. })) > 3);
    }
}

#[test]
fn bytes_from_strangers_end_nothing() {
    let config = Config { bytes: Some(1_000_000), ..Config::default() };
    let (mut sender, mut receiver) = pair(&config, Tap::default());
    let mut rng = Rng::stream(5, "strangers");
    let mut out = [0; wire::MAX_DATAGRAM];
    let (mut there, mut back) = (Vec::<(Vec<u8>, RxMeta)>::new(), Vec::<(Vec<u8>, RxMeta)>::new());
    for ms in 0..20_000 {
        let now = Time::from_millis(ms);
        sender.wake(now);
        receiver.wake(now);
        let mut noise = vec![0; rng.below(200) as usize];
        noise.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        for (datagram, meta) in there.drain(..) {
            let changed = scrambled(&datagram, &mut rng);
            receiver.receive(now, &datagram, meta);
            receiver.receive(now, &noise, RxMeta { length: noise.len(), ..RxMeta::default() });
            // Numbers that belong to nobody: an acknowledgement of what was never sent, data beyond the
            // window.
            receiver.receive(now, &changed, RxMeta { length: changed.len(), ..RxMeta::default() });
        }
        for (datagram, meta) in back.drain(..) {
            sender.receive(now, &datagram, meta);
            sender.receive(now, &noise, RxMeta { length: noise.len(), ..RxMeta::default() });
        }
        while let Some(meta) = sender.transmit(now, &mut out) {
            there.push((out[..meta.head].to_vec(), RxMeta { length: meta.length, ..RxMeta::default() }));
        }
        while let Some(meta) = receiver.transmit(now, &mut out) {
            back.push((out[..meta.head].to_vec(), RxMeta { length: meta.length, ..RxMeta::default() }));
        }
    }
    assert_eq!(receiver.bytes(), 1_000_000);
}

/// With a flag of TCP's changed, other than RST, which may well end a connection.
fn scrambled(datagram: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut changed = datagram.to_vec();
    if let Some(number) = changed.get_mut(..4) {
        number.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
    }
    changed
}

fn networks() -> impl Strategy<Value = LinkConfig> {
    let rate = (100_000u64..50_000_000).prop_map(|bps| RateProcess::Constant(Rate::from_bps(bps)));
    let queue = (1u32..200).prop_map(|packets| format!("droptail:{packets}p"));
    let reorder = prop::option::of((0.0..0.2, 1i64..60));
    let outages = prop::collection::vec((0u64..20_000, 1u64..3_000), 0..4);
    (rate, queue, 0i64..150, 0.0..0.05f64, 0.0..0.05f64, reorder, outages).prop_map(
        |(rate, queue, delay, loss, duplicate, reorder, outages)| {
            let span = |(at, lasts)| (Time::from_millis(at), Time::from_millis(at + lasts));
            LinkConfig {
                reorder: reorder
                    .map(|(probability, ms)| Reorder { probability, extra: Span::from_millis(ms) }),
                impairments: Impairments {
                    loss: Loss::Bernoulli(loss),
                    duplicate,
                    blackouts: outages.into_iter().map(span).collect(),
                    ..Impairments::default()
                },
                ..LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::from_millis(delay))
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the network does, neither end panics, and nothing arrives twice or that was not sent.
    #[test]
    fn any_network_is_survived(network in networks(), seed: u64, cubic: bool, mtu in 128u16..1473) {
        let control = if cubic { Control::Cubic } else { Control::NewReno };
        let config = Config { seed, mtu, control, bytes: Some(200_000) };
        let run = Run::over(network, &config, Span::from_secs(60), None);
        let (there, known) = (run.receiver().bytes(), run.sender().counters().acked_bytes);
        prop_assert!(known <= there && there <= 200_000, "{known} {there}");
        prop_assert!(run.sender().finished_at().is_none() || there == 200_000);
    }
}
