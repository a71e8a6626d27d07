//! Prints what a delivered segment costs, network included: `cargo test --release -p framewire-bulk --test
//! speed -- --nocapture`.
#![allow(missing_docs, reason = "tests")]

mod path;

use framewire_bulk::{SenderConfig, Workload};
use netsim::{Impairments, LinkConfig, Loss};
use path::{Flow, build, link};
use units::{Span, Time};

/// CPU time of this thread, where Linux tells it; what other threads and jobs use does not count.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|ns| ns / 1e9)
}

fn measure(name: &str, sender: SenderConfig, mbps: u64, loss: f64) {
    let impairments = Impairments { loss: Loss::Bernoulli(loss), ..Impairments::default() };
    let forward = LinkConfig { impairments, ..link(mbps, "droptail:100p") };
    let flow = Flow { sender, ..Flow::new("newreno", Workload::Endless) };
    let mut path = build(1, forward, LinkConfig::delay(Span::from_millis(20)), &[flow], None);
    // Unoptimised code only has to show that it runs.
    let piece = if cfg!(debug_assertions) { 5 } else { 200 };
    path.world.run_until(Time::from_secs(piece));
    let (begun, before) = (cpu_s(), path.receiver(0).counters().packets);
    path.world.run_until(Time::from_secs(4 * piece));
    let (ended, segments) = (cpu_s(), path.receiver(0).counters().packets - before);
    assert!(segments > 100);
    if let (Some(begun), Some(ended)) = (begun, ended) {
        let each = (ended - begun) * 1e9 / segments as f64;
        println!("{name:<28} {:>10.0} delivered segments per CPU second, {each:.0} ns each", 1e9 / each);
    }
}

#[test]
fn delivered_segments_per_cpu_second() {
    measure("RACK, 12 Mbit/s", SenderConfig::default(), 12, 0.0);
    measure("ns-3, 12 Mbit/s", SenderConfig::ns3(), 12, 0.0);
    measure("RACK, 100 Mbit/s", SenderConfig::default(), 100, 0.0);
    measure("RACK, 12 Mbit/s, 1 % loss", SenderConfig::default(), 12, 0.01);
}
