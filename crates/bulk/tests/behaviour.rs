//! How a flow behaves over time on the link of CC-Fuzz: 12 Mbit/s, 20 ms each way, 100 packets of queue.
#![allow(missing_docs, reason = "tests")]

mod path;

use std::sync::{Arc, Mutex};

use framewire_bulk::{SenderConfig, Workload};
use netsim::{Impairments, LinkConfig, Loss};
use path::{Flow, build, events, link, memory};
use record::{Event, Hash};
use units::{Span, Time};

fn back() -> LinkConfig {
    LinkConfig::delay(Span::from_millis(20))
}

#[test]
fn newreno_fills_the_link() {
    for (name, sender) in
        [("default", SenderConfig::default()), ("linux", SenderConfig::linux()), ("ns3", SenderConfig::ns3())]
    {
        let flow = Flow { sender, ..Flow::new("newreno", Workload::Endless) };
        let mut path = build(1, link(12, "droptail:100p"), back(), &[flow], None);
        let utilisation = path.utilisation(0, 2, 32, 12);
        println!("{name}: {utilisation:.4} of 12 Mbit/s, {:?}", path.sender(0).counters());
        assert!(utilisation > 0.95, "{name}: {utilisation}");
        assert_eq!(path.sender(0).counters().timeouts, 0);
    }
}

#[test]
fn random_loss_is_repaired_without_timeouts() {
    let impairments = Impairments { loss: Loss::Bernoulli(0.01), ..Impairments::default() };
    let config = LinkConfig { impairments, ..link(12, "droptail:100p") };
    let flow = Flow::new("newreno", Workload::Endless);
    let mut path = build(1, config, back(), &[flow], None);
    let utilisation = path.utilisation(0, 2, 32, 12);
    let counters = path.sender(0).counters();
    println!("1 % loss: {utilisation:.3} of 12 Mbit/s, {counters:?}");
    assert!(counters.retransmissions > 50 && counters.timeouts <= 1, "{counters:?}");
    // What is sent again was lost: hardly anything arrives twice.
    let duplicates = path.receiver(0).counters().duplicates;
    assert!(duplicates * 20 < counters.retransmissions, "{duplicates} of {}", counters.retransmissions);
}

#[test]
fn packets_are_as_large_as_tcps() {
    let recorded = memory();
    let flow = Flow::new("newreno", Workload::Transfer(100_000));
    let mut path = build(1, link(12, "droptail:100p"), back(), &[flow], Some(recorded.clone()));
    path.world.run_until(Time::from_secs(5));
    let path::Ends { sender: from, receiver: to } = path.hosts[0];
    let sizes = |host| {
        let delivered = |(_, event): (f64, Event)| match event {
            Event::Delivered { size, .. } => Some(size),
            _ => None,
        };
        events(&recorded, host).into_iter().filter_map(delivered).collect::<Vec<u32>>()
    };
    let segments = sizes(to);
    assert_eq!((segments.len(), &segments[..3]), (70, &[1500, 1500, 1500][..]));
    assert_eq!(segments[69], 100_000 - 69 * 1448 + 52);
    assert!(sizes(from).iter().all(|size| (52..=54).contains(size)), "{:?}", sizes(from));
}

#[test]
fn the_tail_is_repaired_by_a_probe() {
    // The last 3 of 20 segments are lost in a blackout that is over before the probe. `opening` is what a
    // handshake takes first.
    let run = |sender: SenderConfig, opening: Span| {
        let recorded = memory();
        let flow = Flow { sender, ..Flow::new("newreno", Workload::Transfer(20 * 1448)) };
        let blackout = (Time::from_micros(43_500) + opening, Time::from_millis(70) + opening);
        let impairments = Impairments { blackouts: vec![blackout], ..Impairments::default() };
        let forward = LinkConfig { impairments, ..link(12, "droptail:100p") };
        let mut path = build(1, forward, back(), &[flow], Some(recorded.clone()));
        path.world.run_until(Time::from_secs(5));
        let counters = path.sender(0).counters();
        let done = path.sender(0).completions()[0];
        println!("{:?} {counters:?}", done.finished - done.started);
        assert!(counters.lost > 0);
        (counters.timeouts, counters.probes, done.finished - done.started)
    };
    let (timeouts, probes, tlp) = run(SenderConfig::default(), Span::ZERO);
    assert_eq!((timeouts, probes), (0, 1));
    let (timeouts, probes, rto) = run(SenderConfig::ns3(), Span::from_millis(40));
    assert_eq!((timeouts > 0, probes), (true, 0));
    assert!(tlp < Span::from_millis(350) && rto > Span::from_secs(1), "{tlp} {rto}");
}

#[test]
fn a_blackout_backs_off_and_recovers() {
    let recorded = memory();
    let sender = SenderConfig { rto_min: Span::from_secs(1), ..SenderConfig::default() };
    let flow = Flow { sender, ..Flow::new("newreno", Workload::Endless) };
    let blackouts = vec![(Time::from_secs(5), Time::from_millis(11_500))];
    let impairments = Impairments { blackouts, ..Impairments::default() };
    let forward = LinkConfig { impairments, ..link(12, "droptail:100p") };
    let mut path = build(1, forward, back(), &[flow], Some(recorded.clone()));
    path.world.run_until(Time::from_secs(20));
    let doubled: Vec<f64> = events(&recorded, path.hosts[0].sender)
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::Observed { name: "rto_s", value } => Some(value.0),
            _ => None,
        })
        .collect();
    assert_eq!(doubled[..2], [2.0, 4.0], "{doubled:?}");
    let utilisation = path.utilisation(0, 20, 30, 12);
    assert!(utilisation > 0.9, "{utilisation}");
}

#[test]
fn two_flows_share_and_a_run_repeats() {
    let run = |seed| {
        let hash = Arc::new(Mutex::new(Hash::default()));
        let flows = [
            Flow::new("newreno", Workload::Endless),
            Flow { sender: SenderConfig::linux(), ..Flow::new("newreno", Workload::Endless) },
        ];
        let impairments =
            Impairments { loss: Loss::Bernoulli(0.001), duplicate: 0.001, ..Impairments::default() };
        let forward = LinkConfig { impairments, ..link(12, "droptail:100p") };
        let mut path = build(seed, forward, back(), &flows, Some(hash.clone()));
        path.world.run_until(Time::from_secs(20));
        let delivered = [0, 1].map(|flow| path.receiver(flow).counters().delivered as f64);
        drop(path);
        let hex = Arc::into_inner(hash).unwrap().into_inner().unwrap().hex();
        (hex, delivered)
    };
    let (hex, delivered) = run(1);
    assert_eq!(hex, run(1).0);
    assert_ne!(hex, run(2).0);
    let ratio = delivered[0] / delivered[1];
    println!("shares {delivered:?}");
    assert!((0.4..2.5).contains(&ratio), "{delivered:?}");
}
