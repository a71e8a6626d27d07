//! What hosts see of the world: clocks, start and stop, payloads, routes, and what happens to a host that
//! never rests.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use framewire_netsim::{
    CrossTraffic, HostConfig, HostId, Impairments, LinkConfig, LinkId, Loss, Pattern, QueueSpec, RateProcess,
    World,
};
use proptest::prelude::*;
use record::{Dropped, Event, Hash, Memory};
use units::{Ecn, HostClock, Rate, Span, Time};
use wire::{Endpoint, RxMeta, TxMeta};

/// Sends a numbered datagram every `gap`; notes all it is told.
#[derive(Default)]
struct Metronome {
    gap: Option<Span>,
    length: usize,
    payload: Option<Bytes>,
    wanted: Option<Time>,
    due: u32,
    wakes: Vec<Time>,
    received: Vec<(Time, Vec<u8>, RxMeta)>,
}

impl Metronome {
    fn every(gap: Span, length: usize) -> Metronome {
        Metronome { gap: Some(gap), length, ..Metronome::default() }
    }
}

impl Endpoint for Metronome {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        self.received.push((now, datagram.to_vec(), meta));
    }
    fn wake(&mut self, now: Time) {
        self.wakes.push(now);
        if let Some(gap) = self.gap.filter(|_| self.wanted.is_none_or(|wanted| now >= wanted)) {
            self.wanted = Some(now + gap);
            self.due += 1;
        }
    }
    fn next_wake(&self) -> Option<Time> {
        self.wanted
    }
    fn transmit(&mut self, _now: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.due = self.due.checked_sub(1)?;
        out[..4].copy_from_slice(&(self.wakes.len() as u32).to_le_bytes());
        let (length, payload) = (self.length, self.payload.clone());
        Some(TxMeta { head: 4, length, payload, ecn: Ecn::Ect1, last: false })
    }
}

fn listener() -> Metronome {
    Metronome::default()
}

/// A world of one sender and one listener, and the link between them.
fn pair(config: LinkConfig, sender: Metronome, hosts: [HostConfig; 2]) -> (World, [HostId; 2], LinkId) {
    let mut world = World::new(1, None);
    let link = world.add_link("link", config);
    let [from, to] = hosts;
    let from = world.add_host(from, sender);
    let to = world.add_host(to, listener());
    world.connect(from, 0, &[link], to);
    (world, [from, to], link)
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn arrivals(world: &World, host: HostId) -> Vec<u64> {
    world.endpoint::<Metronome>(host).received.iter().map(|(at, ..)| at.as_micros() / 1000).collect()
}

fn names() -> [HostConfig; 2] {
    [HostConfig::new("sender"), HostConfig::new("receiver")]
}

#[test]
fn a_datagram_arrives_whole_after_serialisation_and_delay() {
    // 1472 + 28 bytes at 12 Mbit/s take 1 ms.
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    let config = LinkConfig::bottleneck(rate, QueueSpec::infinite(), Span::from_millis(20));
    let payload = Some(Bytes::from_static(b"picture"));
    let sender = Metronome { payload: payload.clone(), ..Metronome::every(Span::from_millis(10), 1472) };
    let (mut world, [_, to], link) = pair(config, sender, names());
    world.run_until(ms(45));
    assert_eq!(arrivals(&world, to), [21, 31, 41]);
    let (_, head, meta) = &world.endpoint::<Metronome>(to).received[1];
    assert_eq!((head.as_slice(), meta.length, meta.ecn), (&2u32.to_le_bytes()[..], 1472, Ecn::Ect1));
    assert_eq!(meta.payload, payload);
    assert_eq!(world.link(link).stats().total().offered.bytes, 5 * 1500);
    assert_eq!((world.in_flight(), world.counters().delivered), (2, 3));
    assert_eq!(world.now(), ms(45));
    let receiver: Metronome = world.into_endpoint(to);
    assert_eq!(receiver.received.len(), 3);
}

#[test]
fn hosts_see_only_their_own_clocks() {
    let offsets = [Span::from_secs(7_200), Span::from_secs(60)];
    let hosts =
        [0, 1].map(|n| HostConfig { clock: HostClock::new(offsets[n], 200.0), ..HostConfig::new("h") });
    let sender = Metronome::every(Span::from_millis(10), 100);
    let (mut world, [from, to], _) = pair(LinkConfig::delay(Span::from_millis(20)), sender, hosts);
    world.run_until(Time::from_millis(100_001));
    // The sender's clock gains 200 ppm, so in 100 s of the world's it ticks 10002 times, and once at the
    // start. (The millisecond makes up for nanoseconds lost to rounding.)
    let wakes = &world.endpoint::<Metronome>(from).wakes;
    assert_eq!(wakes.len(), 10_003);
    assert_eq!(wakes[0], Time::ZERO + offsets[0]);
    let first = world.endpoint::<Metronome>(to).received[0].0;
    assert_eq!(first, Time::ZERO + offsets[1] + Span::from_micros(20_004));
}

#[test]
fn a_host_lives_from_start_to_stop() {
    let [from, to] = names();
    let hosts = [
        HostConfig { start: ms(50), stop: ms(100), ..from },
        HostConfig { start: ms(75), stop: ms(100), ..to },
    ];
    let sender = Metronome::every(Span::from_millis(10), 100);
    let (mut world, [from, to], _) = pair(LinkConfig::delay(Span::from_millis(10)), sender, hosts);
    world.run_until(ms(500));
    let woken: Vec<_> =
        world.endpoint::<Metronome>(from).wakes.iter().map(|at| at.as_micros() / 1000).collect();
    assert_eq!(woken, [50, 60, 70, 80, 90]);
    assert_eq!(arrivals(&world, to), [80, 90]);
    assert_eq!((world.counters().ignored, world.in_flight()), (3, 0));
}

#[test]
fn flows_share_a_bottleneck_and_keep_their_own_delays() {
    let mut world = World::new(1, None);
    let rate = RateProcess::Constant(Rate::from_mbps(1000));
    let shared = LinkConfig::bottleneck(rate, QueueSpec::infinite(), Span::from_millis(5));
    let shared = world.add_link("shared", shared);
    let mut receivers = Vec::new();
    for flow in 0..3u16 {
        let access = world
            .add_link(&format!("access{flow}"), LinkConfig::delay(Span::from_millis(i64::from(flow) * 10)));
        let back = world.add_link(&format!("back{flow}"), LinkConfig::delay(Span::from_millis(1)));
        let from = world.add_host(HostConfig::new("s"), Metronome::every(Span::from_millis(100), 1000));
        let to = world.add_host(HostConfig::new("r"), Metronome::every(Span::from_millis(100), 10));
        world.connect(from, flow, &[access, shared], to);
        world.connect(to, flow, &[back], from);
        receivers.push((from, to));
    }
    world.run_until(ms(90));
    let seen: Vec<_> =
        receivers.iter().map(|&(from, to)| (arrivals(&world, from), arrivals(&world, to))).collect();
    assert_eq!(seen, [(vec![1], vec![5]), (vec![1], vec![15]), (vec![1], vec![25])]);
    let stats = world.link(shared).stats();
    assert_eq!(
        stats.flows().map(|(flow, s)| (flow, s.delivered.packets)).collect::<Vec<_>>(),
        [(0, 1), (1, 1), (2, 1)]
    );
}

#[test]
fn duplicates_carry_the_payload_and_losses_free_it() {
    let impairments = Impairments { loss: Loss::Bernoulli(0.3), duplicate: 0.5, ..Impairments::default() };
    let config = LinkConfig { impairments, ..LinkConfig::delay(Span::from_millis(20)) };
    let payload = Some(Bytes::from(vec![7; 64]));
    let sender = Metronome { payload: payload.clone(), ..Metronome::every(Span::from_millis(1), 100) };
    let (mut world, [_, to], link) = pair(config, sender, names());
    world.run_until(Time::from_secs(2));
    let received = &world.endpoint::<Metronome>(to).received;
    assert!(received.iter().all(|(.., meta)| meta.payload == payload));
    let stats = world.link(link).stats();
    assert!(stats.dropped(Dropped::LinkLoss).packets > 500 && stats.total().duplicated.packets > 500);
    assert_eq!(stats.total().delivered.packets as usize, received.len());
    // Sent every millisecond, 20 ms on the way: at most 21 datagrams and none leaked.
    assert!(world.in_flight() <= 21, "{}", world.in_flight());
}

/// Sends a datagram a millisecond whose head has as many bytes as were sent before it, each of them that
/// number, and every third one with a payload.
#[derive(Default)]
struct Growing {
    sent: usize,
}

impl Growing {
    const LARGEST: usize = 300;

    fn head(number: usize) -> Vec<u8> {
        vec![number as u8; number]
    }

    fn payload(number: usize) -> Option<Bytes> {
        number.is_multiple_of(3).then(|| Bytes::from(Growing::head(number)))
    }
}

impl Endpoint for Growing {
    fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {}
    fn wake(&mut self, _: Time) {}
    fn next_wake(&self) -> Option<Time> {
        (self.sent <= Growing::LARGEST).then(|| ms(self.sent as u64))
    }
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let number = self.sent;
        if self.next_wake()? > now {
            return None;
        }
        self.sent += 1;
        out[..number].copy_from_slice(&Growing::head(number));
        let payload = Growing::payload(number);
        Some(TxMeta { head: number, length: 700 + number, payload, ..TxMeta::default() })
    }
}

#[test]
fn what_is_sent_arrives_through_links_of_every_kind() {
    let rate = RateProcess::Constant(Rate::from_mbps(100));
    let link = |queue: &str| {
        LinkConfig::bottleneck(rate.clone(), queue.parse().expect("a queue"), Span::from_millis(20))
    };
    let twice = Impairments { duplicate: 1.0, ..Impairments::default() };
    let doubling = LinkConfig { impairments: twice, ..LinkConfig::delay(Span::from_millis(3)) };
    // What keeps heads beside its packets before and behind what does not.
    let [ring, codel] = [link("droptail:100p"), link("codel")];
    let ways =
        [vec![ring.clone()], vec![codel.clone()], vec![ring.clone(), codel.clone(), ring, doubling, codel]];
    for way in ways {
        let mut world = World::new(1, None);
        let links: Vec<LinkId> = way
            .iter()
            .enumerate()
            .map(|(at, config)| world.add_link(&format!("{at}"), config.clone()))
            .collect();
        let from = world.add_host(HostConfig::new("sender"), Growing::default());
        let to = world.add_host(HostConfig::new("receiver"), listener());
        world.connect(from, 0, &links, to);
        world.run_until(ms(150));
        let (arrived, sent) = (world.counters().delivered as usize, world.endpoint::<Growing>(from).sent);
        let copies = if links.len() > 3 { 2 } else { 1 };
        assert!(world.in_flight() + arrived >= sent && world.in_flight() + arrived <= copies * sent);
        world.run_until(Time::from_secs(2));
        assert_eq!(world.in_flight(), 0);
        let received = &world.endpoint::<Metronome>(to).received;
        assert_eq!(received.len(), copies * (Growing::LARGEST + 1));
        for (number, (_, head, meta)) in received.iter().enumerate() {
            let number = number / copies;
            assert_eq!((head, meta.length), (&Growing::head(number), 700 + number));
            assert_eq!(meta.payload, Growing::payload(number));
        }
    }
}

/// Sends a datagram every 2 ms, answers some of those that it hears, and notes when it heard each, and when
/// it had heard none for as long as it has patience.
struct Talker {
    left: u64,
    sent: u64,
    owed: u32,
    answers: u32,
    heard: Vec<Time>,
    patience: Span,
    alarm: Option<Time>,
    alarms: Vec<Time>,
}

impl Talker {
    fn next(&self) -> Option<Time> {
        (self.sent < self.left).then(|| ms(2 * self.sent))
    }
}

impl Endpoint for Talker {
    fn receive(&mut self, now: Time, _: &[u8], _: RxMeta) {
        self.heard.push(now);
        self.alarm = Some(now + self.patience);
        if self.answers > 0 {
            self.answers -= 1;
            self.owed += 1;
        }
    }
    fn wake(&mut self, now: Time) {
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            self.alarms.push(now);
        }
    }
    fn next_wake(&self) -> Option<Time> {
        Time::first(self.next(), self.alarm)
    }
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let due = self.next().is_some_and(|at| at <= now);
        if !due && self.owed == 0 {
            return None;
        }
        self.owed -= u32::from(!due);
        self.sent += u64::from(due);
        out[0] = 1;
        Some(TxMeta { head: 1, length: 900, ..TxMeta::default() })
    }
}

proptest! {
    /// A host that will stop some day is looked at more closely than others, and of many others those come up
    /// too early that are put off.
    #[test]
    fn who_is_looked_at_closely_does_the_same(
        (there_ms, back_ms) in (0..3_i64, 0..3_i64), kbps in prop::option::of(500..20_000_u64),
        one_link in any::<bool>(), (left, answers) in ((0..30_u64, 0..30_u64), (0..40_u32, 0..40_u32)),
        queue in prop::sample::select(vec!["droptail:3p", "infinite", "codel"]),
        (pairs, patience_ms) in (1..7_u16, 0..40_i64),
    ) {
        let run = |stop: Time| {
            let constant = |kbps| RateProcess::Constant(Rate::from_kbps(kbps));
            let rate = kbps.map_or(RateProcess::Infinite, constant);
            let config = LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::from_millis(there_ms));
            let mut world = World::new(1, None);
            let there = world.add_link("there", config);
            // Both ways through one link, or back through one of its own.
            let delay = LinkConfig::delay(Span::from_millis(back_ms));
            let back = if one_link { there } else { world.add_link("back", delay) };
            let host = |name| HostConfig { stop, ..HostConfig::new(name) };
            let patience = Span::from_millis(patience_ms);
            let talker = |left, answers| {
                let (heard, alarms) = (Vec::new(), Vec::new());
                Talker { left, sent: 0, owed: 0, answers, heard, patience, alarm: None, alarms }
            };
            let mut hosts = Vec::new();
            for pair in 0..pairs {
                let near = world.add_host(host("near"), talker(left.0, answers.0));
                let far = world.add_host(host("far"), talker(left.1 + u64::from(pair), answers.1));
                world.connect(near, 2 * pair, &[there], far);
                world.connect(far, 2 * pair + 1, &[back], near);
                hosts.extend([near, far]);
            }
            world.run_until(Time::from_secs(5));
            let noted = |host: &HostId| {
                let talker = world.endpoint::<Talker>(*host);
                (talker.heard.clone(), talker.alarms.clone())
            };
            let noted: Vec<_> = hosts.iter().map(noted).collect();
            (noted, world.counters(), world.link(there).stats().total(), world.in_flight())
        };
        prop_assert_eq!(run(Time::MAX), run(Time::from_secs(10)));
    }
}

#[test]
fn a_smaller_mtu_drops_what_is_too_large_from_its_time_on() {
    let impairments = Impairments { mtu: vec![(ms(50), 1000)], ..Impairments::default() };
    let config = LinkConfig { impairments, ..LinkConfig::delay(Span::from_millis(1)) };
    let (mut world, [_, to], link) = pair(config, Metronome::every(Span::from_millis(10), 1000), names());
    world.run_until(ms(99));
    assert_eq!(arrivals(&world, to), [1, 11, 21, 31, 41]);
    assert_eq!(world.link(link).stats().dropped(Dropped::Oversize).packets, 5);
}

#[test]
fn events_are_world_time_under_the_right_nodes() {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut world = World::new(1, Some(memory.clone()));
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    let config = LinkConfig::bottleneck(rate, "droptail:1p".parse().unwrap(), Span::from_millis(20));
    let link = world.add_link("link", config);
    let clock = HostClock::new(Span::from_secs(60), 0.0);
    let host = |name: &str| HostConfig { clock, ..HostConfig::new(name) };
    let tap = world.next_host_tap(clock);
    let from = world.add_host(host("s"), Metronome { due: 2, ..Metronome::every(Span::from_secs(1), 1472) });
    let to = world.add_host(host("r"), listener());
    world.connect(from, 7, &[link], to);
    world.run_until(ms(30));
    tap.record(clock.local(ms(30)), Event::NackSent { count: 1 });
    let flow = 7;
    let size = 1500;
    let departed = |at, sojourn| {
        (ms(at), link.node(), Event::LinkDeparted { flow, size, sojourn: Span::from_millis(sojourn) })
    };
    let delivered =
        |at, delay| (ms(at), to.node(), Event::Delivered { flow, size, delay: Span::from_millis(delay) });
    let enqueued = (ms(0), link.node(), Event::LinkEnqueued { flow, size, backlog: 1500, packets: 1 });
    let expected = [
        enqueued,
        enqueued,
        (ms(0), link.node(), Event::LinkDropped { flow, size, cause: Dropped::QueueFull }),
        departed(1, 1),
        departed(2, 2),
        delivered(21, 21),
        delivered(22, 22),
        (ms(30), from.node(), Event::NackSent { count: 1 }),
    ];
    assert_eq!(memory.lock().unwrap().events, expected);
}

#[test]
fn a_run_in_pieces_is_the_same_run() {
    let run = |pieces: u64| {
        let hash = Arc::new(Mutex::new(Hash::default()));
        let mut world = World::new(5, Some(hash.clone()));
        let rate = RateProcess::Constant(Rate::from_mbps(10));
        let config = LinkConfig::bottleneck(rate, "droptail:20p".parse().unwrap(), Span::from_millis(10));
        let link = world.add_link("link", LinkConfig { jitter: Span::from_millis(3), ..config });
        let from = world.add_host(HostConfig::new("s"), Metronome::every(Span::from_millis(2), 1000));
        let to = world.add_host(HostConfig::new("r"), listener());
        world.connect(from, 0, &[link], to);
        world.add_cross(CrossTraffic::new(Pattern::Poisson, Rate::from_mbps(6)), 1, &[link]);
        (1..=pieces).for_each(|n| world.run_until(ms(3_000 * n / pieces)));
        drop(world);
        Arc::into_inner(hash).unwrap().into_inner().unwrap().hex()
    };
    let whole = run(1);
    assert_eq!(whole, run(7));
    assert_eq!(whole, run(3_000));
}

/// Wants to be woken at once, always.
struct Restless;

impl Endpoint for Restless {
    fn receive(&mut self, _now: Time, _datagram: &[u8], _meta: RxMeta) {}
    fn wake(&mut self, _now: Time) {}
    fn next_wake(&self) -> Option<Time> {
        Some(Time::ZERO)
    }
    fn transmit(&mut self, _now: Time, _out: &mut [u8]) -> Option<TxMeta> {
        None
    }
}

#[test]
#[should_panic(expected = "host `restless` acted 1000000 times without time going on")]
fn a_host_that_never_rests_is_named() {
    let mut world = World::new(1, None);
    world.add_host(HostConfig::new("restless"), Restless);
    world.run_until(Time::from_secs(1));
}

/// Always has something to send.
struct Torrent;

impl Endpoint for Torrent {
    fn receive(&mut self, _now: Time, _datagram: &[u8], _meta: RxMeta) {}
    fn wake(&mut self, _now: Time) {}
    fn next_wake(&self) -> Option<Time> {
        None
    }
    fn transmit(&mut self, _now: Time, _out: &mut [u8]) -> Option<TxMeta> {
        Some(TxMeta { length: 1, ..TxMeta::default() })
    }
}

#[test]
#[should_panic(expected = "host `torrent` acted 1000000 times without time going on")]
fn a_host_that_never_stops_sending_is_named() {
    let mut world = World::new(1, None);
    let none = Impairments { loss: Loss::Bernoulli(1.0), ..Impairments::default() };
    let link = world.add_link("link", LinkConfig { impairments: none, ..LinkConfig::default() });
    let from = world.add_host(HostConfig::new("torrent"), Torrent);
    let to = world.add_host(HostConfig::new("receiver"), listener());
    world.connect(from, 0, &[link], to);
    world.run_until(Time::from_secs(1));
}

/// What is fetched ahead of its turn where there are many hosts changes nothing: eight flows over two links,
/// with cross traffic, losses and duplicates, alone and beside a thousand hosts that rest.
#[test]
fn a_crowd_changes_nothing_for_those_within_it() {
    let heard = |idle: usize| {
        let mut world = World::new(1, None);
        let rate = RateProcess::Constant(Rate::from_mbps(3));
        let impairments =
            Impairments { loss: Loss::Bernoulli(0.05), duplicate: 0.05, ..Impairments::default() };
        let narrow = LinkConfig::bottleneck(rate, "droptail:30p".parse().unwrap(), Span::from_millis(5));
        let first = world.add_link("first", LinkConfig { impairments, ..narrow.clone() });
        let second = world.add_link("second", narrow);
        world.add_cross(CrossTraffic::new(Pattern::Poisson, Rate::from_mbps(1)), 9, &[second]);
        let listeners: Vec<HostId> = (0..8)
            .map(|flow| {
                let from = world.add_host(
                    HostConfig::new("from"),
                    Metronome::every(Span::from_micros(2_900 + 17 * flow), 900),
                );
                let to = world.add_host(HostConfig::new("to"), listener());
                world.connect(from, flow as u16, &[first, second], to);
                to
            })
            .collect();
        (0..idle).for_each(|_| _ = world.add_host(HostConfig::new("idle"), listener()));
        world.run_until(ms(3_000));
        let heard = listeners.iter().map(|&to| world.endpoint::<Metronome>(to).received.len());
        (heard.collect::<Vec<_>>(), listeners.iter().map(|&to| arrivals(&world, to)).collect::<Vec<_>>())
    };
    let alone = heard(0);
    assert!(alone.0.iter().all(|&packets| packets > 50), "{:?}", alone.0);
    assert_eq!(alone, heard(1_000));
}
