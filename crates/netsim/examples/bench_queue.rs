//! Prints what a packet costs each queue discipline: one enqueue and one dequeue, with a standing queue and
//! with overload.
//!
//! `cargo run --release -p framewire-netsim --example bench_queue -- [PACKETS]`

use framewire_netsim::RateProcess;
use framewire_netsim::queue::{Drops, Entry, Queue, REGISTRY, Setup};
use framewire_netsim::{Packet, QueueSpec};
use units::{Ecn, Rate, Span, Time};

/// Offers `packets` packets of 64 flows, and takes `departures` out for every ten.
fn offer(queue: &mut dyn Queue, now: &mut Time, packets: u32, departures: u32) {
    let mut drops = Drops::with_capacity(64);
    for id in 0..packets {
        *now += Span::from_micros(100);
        let ecn = if id % 4 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
        let packet = Packet { id, ecn, ..Packet::bare((id % 64) as u16, 1228, *now) };
        _ = queue.enqueue(*now, packet, &mut drops);
        if id % 10 < departures {
            queue.dequeue(*now, &mut drops);
        }
        drops.clear();
    }
}

/// CPU time this process has used, in nanoseconds, as Linux accounts it.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("this benchmark needs Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number is CPU time")
}

/// The cheapest of five runs, in nanoseconds a packet: neighbours on the same core only ever add.
fn cost(text: &str, packets: u32, departures: u32) -> f64 {
    let rate = Rate::from_mbps(100);
    let setup = Setup { reference: rate, process: RateProcess::Constant(rate), seed: 1, link: "link".into() };
    let mut queue = text.parse::<QueueSpec>().expect("an example of the registry").build(&setup);
    let mut now = Time::ZERO;
    // A standing queue of a hundred packets.
    (0..100).for_each(|id| {
        let packet = Packet { id, ..Packet::bare((id % 64) as u16, 1228, now) };
        _ = queue.enqueue(now, packet, &mut Drops::new());
    });
    let run = |_| {
        let begun = cpu_ns();
        offer(&mut *queue, &mut now, packets, departures);
        (cpu_ns() - begun) / f64::from(packets)
    };
    (0..5).map(run).fold(f64::INFINITY, f64::min)
}

fn main() {
    let packets =
        std::env::args().nth(1).map_or(2_000_000, |text| text.parse().expect("PACKETS is a whole number"));
    println!("{:<50} {:>10} {:>10}", "ns a packet", "standing", "overload");
    for text in REGISTRY.iter().flat_map(Entry::examples).filter(|&text| text != "infinite") {
        println!("{text:<50} {:>10.1} {:>10.1}", cost(text, packets, 10), cost(text, packets, 9));
    }
}
