//! Properties of every queue discipline, and of groups of them, under random traffic.

use framewire_netsim::queue::{Drops, Entry, Queue, REGISTRY, Setup};
use framewire_netsim::{Packet, QueueSpec, RateProcess};
use proptest::prelude::*;
use units::{Ecn, Rate, Span, Time};

fn build(text: &str) -> Box<dyn Queue> {
    let setup = Setup {
        reference: Rate::from_mbps(10),
        process: RateProcess::Constant(Rate::from_mbps(10)),
        seed: 1,
        link: "link".into(),
    };
    text.parse::<QueueSpec>().unwrap_or_else(|error| panic!("{error}")).build(&setup)
}

fn examples() -> Vec<&'static str> {
    REGISTRY.iter().flat_map(Entry::examples).collect()
}

/// Forms small enough to fill and to act in a short run.
fn small() -> Vec<&'static str> {
    vec![
        "droptail:5p,6kB",
        "drophead:5p,6kB",
        "codel:5p,6kB,target=1ms,interval=4ms,ecn",
        "codel:5p,6kB,target=1ms,interval=4ms,mahimahi",
        "pie:5p,6kB,target=1ms,tupdate=2ms,burst=0ms,alpha=20,beta=100,mtu=100B,ecn",
        "pie-linux-old:5p,6kB,target=1ms,tupdate=2ms,burst=1ms",
        "sfq:5p,6kB,depth=3,divisor=4",
        "sfq:5p,6kB,depth=3,headdrop,hash=seeded,perturb=3ms",
        "fq_codel:5p,6kB,target=1ms,interval=4ms,flows=3",
        "fq_codel:5p,6kB,hash=seeded,batch=2,ecn=off",
        "dualpi2:5p,6kB,target=1ms,tupdate=2ms,alpha=20,beta=100",
        "dualpi2-linux:5p,6kB,target=1ms,tupdate=2ms,alpha=20,beta=100",
        "red:5p,6kB,min=1p,max=3p,weight=0.3,ecn",
    ]
}

/// One call: (microseconds since the one before, `Some` flow and size to enqueue or `None` to dequeue).
type Step = (i64, Option<(u16, u32)>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arrival = (0u16..4, 40u32..1500).prop_map(Some);
    let call = prop_oneof![5 => arrival, 4 => Just(None)];
    prop::collection::vec((0i64..1_500, call), 1..400)
}

/// What happened at each step: ids that left and ids that were dropped or refused.
fn drive(queue: &mut dyn Queue, steps: &[Step]) -> Vec<(Vec<Packet>, Vec<Packet>)> {
    let (mut now, mut drops) = (Time::ZERO, Drops::new());
    let mut step = |(id, &(gap, call)): (u32, &Step)| {
        now += Span::from_micros(gap);
        let mut out = Vec::new();
        match call {
            None => out.extend(queue.dequeue(now, &mut drops)),
            Some((flow, size)) => {
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(flow)];
                let packet = Packet { id, ecn, ..Packet::bare(flow, size, now) };
                if let Err(cause) = queue.enqueue(now, packet, &mut drops) {
                    drops.push((packet, cause));
                }
            }
        }
        (out, drops.drain(..).map(|(packet, _)| packet).collect())
    };
    (0..).zip(steps).map(&mut step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nothing_is_lost_and_limits_hold(text in prop::sample::select(small()), steps in steps()) {
        let mut queue = build(text);
        let (mut now, mut drops) = (Time::ZERO, Drops::new());
        let (mut packets, mut bytes) = (0u32, 0u64);
        for (id, (gap, call)) in (0..).zip(steps) {
            now += Span::from_micros(gap);
            let left = match call {
                Some((flow, size)) => {
                    let packet = Packet { id, ecn: Ecn::from_bits(flow as u8), ..Packet::bare(flow, size, now) };
                    (packets, bytes) = (packets + 1, bytes + u64::from(size));
                    queue.enqueue(now, packet, &mut drops).err().map(|_| packet)
                }
                None => queue.dequeue(now, &mut drops),
            };
            for packet in left.into_iter().chain(drops.drain(..).map(|(packet, _)| packet)) {
                (packets, bytes) = (packets - 1, bytes - u64::from(packet.size));
            }
            let backlog = queue.backlog();
            prop_assert_eq!((backlog.packets, backlog.bytes), (packets, bytes), "{}", text);
            prop_assert!(backlog.packets <= 5 && backlog.bytes <= 6_000, "{} holds {:?}", text, backlog);
        }
    }

    #[test]
    fn flows_keep_their_order_and_no_packet_comes_twice(
        text in prop::sample::select([examples(), small()].concat()), steps in steps()
    ) {
        let mut last = [None; 4];
        let mut seen = std::collections::BTreeSet::new();
        for (out, dropped) in drive(&mut *build(text), &steps) {
            for packet in &out {
                prop_assert!(last[usize::from(packet.flow)].replace(packet.id) < Some(packet.id), "{}", text);
            }
            for packet in out.iter().chain(&dropped) {
                prop_assert!(seen.insert(packet.id), "{}", text);
            }
        }
    }

    #[test]
    fn only_capable_packets_are_marked(
        text in prop::sample::select([examples(), small()].concat()), steps in steps()
    ) {
        for (out, _) in drive(&mut *build(text), &steps) {
            for packet in out {
                let sent = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(packet.flow)];
                prop_assert!(packet.ecn == sent || (packet.ecn == Ecn::Ce && sent != Ecn::NotEct), "{}", text);
            }
        }
    }

    #[test]
    fn the_same_calls_give_the_same_answers(
        text in prop::sample::select([examples(), small()].concat()), steps in steps()
    ) {
        prop_assert_eq!(drive(&mut *build(text), &steps), drive(&mut *build(text), &steps));
    }

    /// Flows that always have something waiting get the same number of bytes, to a quantum and a packet,
    /// whatever the sizes of their packets.
    #[test]
    fn backlogged_flows_share_equally(
        text in prop::sample::select(vec!["sfq:10000p,depth=1000", "fq_codel:target=60s"]),
        sizes in prop::collection::vec(100u32..1500, 2..12)
    ) {
        let mut queue = build(text);
        let mut drops = Drops::new();
        let mut sent = vec![0u64; sizes.len()];
        let mut id = 0;
        let mut offer = |queue: &mut dyn Queue, flow: usize| {
            id += 1;
            let packet = Packet { id, ..Packet::bare(flow as u16, sizes[flow], Time::ZERO) };
            queue.enqueue(Time::ZERO, packet, &mut Drops::new()).unwrap();
        };
        for flow in 0..sizes.len() {
            (0..10).for_each(|_| offer(&mut *queue, flow));
        }
        for _ in 0..2_000 {
            let packet = queue.dequeue(Time::ZERO, &mut drops).unwrap();
            sent[usize::from(packet.flow)] += u64::from(packet.size);
            offer(&mut *queue, usize::from(packet.flow));
        }
        let spread = sent.iter().max().unwrap() - sent.iter().min().unwrap();
        prop_assert!(spread <= 2 * 1514 + 1500, "{}: {:?}", text, sent);
        prop_assert!(drops.is_empty());
    }
}
