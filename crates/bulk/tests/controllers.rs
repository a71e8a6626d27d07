//! Every controller of the registry carries a stream over a lossy path.
#![allow(missing_docs, reason = "tests")]

mod path;

use cc::REGISTRY;
use framewire_bulk::{SenderConfig, Workload};
use netsim::{Impairments, LinkConfig, Loss};
use path::{Flow, build, link};
use units::{Span, Time};

#[test]
fn every_controller_delivers_half_a_megabyte() {
    for entry in REGISTRY {
        for sender in [SenderConfig::default(), SenderConfig::ns3()] {
            let flow = Flow { sender, ..Flow::new(entry.name, Workload::Transfer(500_000)) };
            let impairments = Impairments { loss: Loss::Bernoulli(0.01), ..Impairments::default() };
            let forward = LinkConfig { impairments, ..link(12, "droptail:100p") };
            let back = LinkConfig::delay(Span::from_millis(20));
            let mut path = build(1, forward, back, &[flow], None);
            path.world.run_until(Time::from_secs(60));
            let counters = path.sender(0).counters();
            assert!(path.sender(0).is_finished(), "{}: {counters:?}", entry.name);
            let took = path.sender(0).completions()[0].finished;
            println!("{}: {:.2} s, {} timeouts", entry.name, took.as_secs_f64(), counters.timeouts);
            assert_eq!(path.receiver(0).counters().delivered, 500_000);
        }
    }
}
