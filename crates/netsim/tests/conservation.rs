//! Properties of links under random configurations: no packet is lost track of, limits hold, runs repeat, and
//! watching a run does not change it.

use std::sync::{Arc, Mutex};

use framewire_netsim::{
    CrossTraffic, GilbertElliott, Impairments, Link, LinkConfig, Loss, MahimahiTrace, Notice, Opportunities,
    Packet, Pattern, Policer, QueueSpec, RateProcess, Reorder, Shaper, World, queue,
};
use proptest::prelude::*;
use record::{Event, Memory, Tap};
use units::{Bytes, Ecn, Rate, Span, Time};

fn rate_process() -> impl Strategy<Value = RateProcess> {
    let mbps = 0u64..40;
    let steps = prop::collection::vec(mbps.clone(), 1..5).prop_map(|rates| {
        let step = |(n, mbps)| (Time::from_millis(30 * n as u64), Rate::from_mbps(mbps));
        RateProcess::steps(rates.into_iter().enumerate().map(step).collect()).unwrap()
    });
    let trace = (prop::collection::vec(0u32..40, 1..60), any::<bool>()).prop_map(|(mut millis, once)| {
        millis.sort_unstable();
        millis.push(41);
        let trace = Arc::new(MahimahiTrace::from_millis(millis).unwrap());
        RateProcess::Trace(Opportunities { trace, once, framing: 4 })
    });
    let shaper =
        (mbps.clone(), 1_000u64..9_000, prop::option::of(mbps.clone())).prop_map(|(mbps, burst, peak)| {
            let (rate, peak) = (Rate::from_mbps(mbps), peak.map(Rate::from_mbps));
            RateProcess::Shaper(Shaper { rate, burst: Bytes::new(burst), peak })
        });
    prop_oneof![
        Just(RateProcess::Infinite),
        mbps.prop_map(|mbps| RateProcess::Constant(Rate::from_mbps(mbps))),
        steps,
        trace,
        shaper
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..0.5).prop_map(Loss::Bernoulli),
        (0.0..0.3, 0.1..0.9).prop_map(|(p, r)| Loss::GilbertElliott(GilbertElliott {
            p,
            r,
            h: 0.1,
            k: 0.99
        })),
    ]
}

prop_compose! {
    fn link_config()(
        rate in rate_process(), queue in queue(),
        delay in 0i64..30, jitter in 0i64..4, loss in loss(), duplicate in 0.0..0.2, reorder in 0.0..0.3,
        blackout in 0u64..150, mtu in 800u32..1600, police in prop::option::of((1u64..20, 1_500u64..9_000))
    ) -> LinkConfig {
        let blackouts = vec![(Time::from_millis(blackout), Time::from_millis(blackout + 10))];
        let mtu = vec![(Time::from_millis(100), mtu)];
        let policer = |(mbps, burst)| Policer { rate: Rate::from_mbps(mbps), burst: Bytes::new(burst) };
        let police = police.map(policer);
        LinkConfig {
            jitter: Span::from_millis(jitter),
            reorder: Some(Reorder { probability: reorder, extra: Span::from_millis(7) }),
            impairments: Impairments { loss, duplicate, blackouts, mtu, police },
            ..LinkConfig::bottleneck(rate, queue, Span::from_millis(delay))
        }
    }
}

/// Any discipline in any form it is listed with.
fn queue() -> impl Strategy<Value = QueueSpec> {
    let examples: Vec<_> = queue::REGISTRY.iter().flat_map(queue::Entry::examples).collect();
    let limits = "droptail:[1-9][0-9]?p|droptail:[1-9]0kB|droptail:[1-9]0ms|codel:[1-9]p,target=1ms,interval=5ms|\
                  fq_codel:[1-9]p,target=1ms,interval=5ms|pie:target=1ms,tupdate=2ms,burst=0ms|sfq:[1-9]p|\
                  red:min=1p,max=3p,weight=0[.]5|dualpi2:target=1ms,tupdate=2ms|drophead:[1-9]p";
    prop_oneof![prop::sample::select(examples).prop_map(str::to_owned), limits]
        .prop_map(|text| text.parse().unwrap())
}

/// Packets as (gap to the one before in us, flow, size).
fn arrivals() -> impl Strategy<Value = Vec<(i64, u16, u32)>> {
    prop::collection::vec((0i64..2_000, 0u16..3, 40u32..1500), 1..300)
}

/// Offers the arrivals and takes deliveries when the link asks for it; returns what came out and what was
/// dropped.
fn drive(
    link: &mut Link,
    arrivals: &[(i64, u16, u32)],
    check: impl Fn(&Link),
) -> (Vec<(Time, Packet)>, Vec<Packet>) {
    let (mut now, mut out, mut dropped) = (Time::ZERO, Vec::new(), Vec::new());
    let mut step = |link: &mut Link, until: Time| {
        while let Some(at) = link.next_event().filter(|&at| at <= until) {
            out.extend(std::iter::from_fn(|| link.deliver(at)).map(|packet| (at, packet)));
            check(link);
            dropped.extend(link.notices().filter_map(|notice| match notice {
                Notice::Dropped(packet, _) => Some(packet),
                Notice::Duplicated(_) => None,
            }));
        }
    };
    for (index, &(gap, flow, size)) in arrivals.iter().enumerate() {
        now += Span::from_micros(gap);
        step(link, now);
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][usize::from(flow)];
        link.offer(now, Packet { id: index as u32, ecn, ..Packet::bare(flow, size, now) });
        check(link);
    }
    step(link, Time::from_secs(10));
    dropped.extend(link.notices().filter_map(|notice| match notice {
        Notice::Dropped(packet, _) => Some(packet),
        Notice::Duplicated(_) => None,
    }));
    (out, dropped)
}

proptest! {
    #[test]
    fn offered_is_delivered_dropped_or_inside(config in link_config(), arrivals in arrivals()) {
        let mut link = Link::new(config, 1, "link", Tap::default());
        let (out, dropped) = drive(&mut link, &arrivals, |link| {
            let total = link.stats().total();
            let left = total.delivered.packets + total.dropped.packets + link.inside();
            assert_eq!(total.offered.packets + total.duplicated.packets, left);
            assert!(total.delivered.packets <= total.departed.packets);
        });
        let total = link.stats().total();
        prop_assert_eq!(total.offered.packets as usize, arrivals.len());
        prop_assert_eq!(total.delivered.packets as usize, out.len());
        prop_assert_eq!(total.dropped.packets as usize, dropped.len());
        let bytes: u64 = out.iter().map(|(_, packet)| u64::from(packet.size)).sum();
        prop_assert_eq!(total.delivered.bytes, bytes);
        prop_assert!(out.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn the_queue_never_exceeds_its_limit(rate in rate_process(), limit in 1u32..30, arrivals in arrivals()) {
        let queue = format!("droptail:{limit}p,20kB").parse().unwrap();
        let mut link = Link::new(LinkConfig::bottleneck(rate, queue, Span::ZERO), 1, "link", Tap::default());
        drive(&mut link, &arrivals, |link| {
            assert!(link.backlog().packets <= limit && link.backlog().bytes <= 20_000);
        });
        prop_assert!(link.stats().peak_packets <= limit && link.stats().peak_bytes <= 20_000);
    }

    #[test]
    fn without_reordering_the_packets_of_a_flow_leave_in_order(config in link_config(), arrivals in arrivals()) {
        let mut link = Link::new(LinkConfig { reorder: None, ..config }, 1, "link", Tap::default());
        let (out, _) = drive(&mut link, &arrivals, |_| {});
        for flow in 0..3 {
            let ids = out.iter().filter(|(_, packet)| packet.flow == flow).map(|(_, packet)| packet.id);
            prop_assert!(ids.is_sorted());
        }
    }

    #[test]
    fn a_slotted_or_timed_link_never_beats_its_rate(config in link_config(), arrivals in arrivals()) {
        let config = LinkConfig { jitter: Span::ZERO, reorder: None, ..config };
        let rate = config.rate.clone();
        let mut link = Link::new(config, 1, "link", Tap::default());
        drive(&mut link, &arrivals, |_| {});
        if let Some(capacity) = rate.capacity(Time::ZERO, Time::from_secs(10)) {
            let burst = if let RateProcess::Shaper(shaper) = rate { shaper.burst.get() } else { 0 };
            prop_assert!(link.stats().total().departed.bytes <= capacity.get() + burst);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(config in link_config(), arrivals in arrivals(), seed in any::<u64>()) {
        let run = || drive(&mut Link::new(config.clone(), seed, "link", Tap::default()), &arrivals, |_| {});
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn recording_changes_nothing_and_is_in_order(
        configs in prop::collection::vec(link_config(), 1..4), seed in any::<u64>()
    ) {
        // The recorded world works departures out one by one, the silent one when they matter.
        let run = |recorded: bool| {
            let memory = Arc::new(Mutex::new(Memory::default()));
            let mut world = World::new(seed, recorded.then(|| memory.clone() as record::Shared));
            let name = |(n, config): (usize, &LinkConfig)| world.add_link(&format!("link{n}"), config.clone());
            let links: Vec<_> = configs.iter().enumerate().map(name).collect();
            for flow in 0..3 {
                let traffic = CrossTraffic { size: 1200, ..CrossTraffic::new(Pattern::Poisson, Rate::from_mbps(8)) };
                world.add_cross(traffic, flow, &links);
            }
            world.run_until(Time::from_millis(137));
            world.run_until(Time::from_millis(300));
            let stats: Vec<_> = links.iter().map(|&id| world.link(id).stats().total()).collect();
            let events = std::mem::take(&mut memory.lock().unwrap().events);
            (stats, events)
        };
        let ((silent, _), (recorded, events)) = (run(false), run(true));
        prop_assert_eq!(&silent, &recorded);
        prop_assert!(events.is_sorted_by_key(|(at, ..)| *at));
        let delivered = events.iter().filter(|(.., event)| matches!(event, Event::Delivered { .. })).count();
        prop_assert_eq!(delivered as u64, recorded.last().unwrap().delivered.packets);
    }
}
