//! The example of `docs/add-a-controller.md` does on a link what the page says.
#![allow(missing_docs, reason = "tests")]

// The example is written against the crate's own name, as code outside the workspace would be.
extern crate cc as framewire_cc;

#[path = "../../cc/examples/aimd.rs"]
#[allow(dead_code, reason = "an example has a main function")]
mod aimd;
mod path;

use netsim::{Impairments, LinkConfig};
use path::{Flow, build, s20};
use units::{Span, Time};

fn flow() -> Flow {
    Flow { entry: Some(&aimd::ENTRY), ..Flow::video("aimd") }
}

#[test]
fn it_fills_the_link_and_keeps_the_queue_short() {
    let back = LinkConfig::delay(Span::from_millis(20));
    let mut path = build(s20(), back, vec![Flow { backlog: true, mtu: 1472, ..flow() }], true);
    path.world.run_until(Time::from_secs(30));
    let delays: Vec<f64> = path.delays(0, 10.0, 30.0).iter().map(|ms| ms - 20.6).collect();
    let (rate, p90) = (path.throughput(0, 10.0, 30.0), path::quantile(&delays, 0.9));
    println!("{rate:.2} Mbit/s, P90 of the queue {p90:.1} ms");
    assert!(rate > 18.0 && p90 < 35.0, "{rate} Mbit/s, {p90} ms");
}

#[test]
fn it_is_back_after_a_blackout() {
    let dark = vec![(Time::from_secs(10), Time::from_secs(15))];
    let link = LinkConfig { impairments: Impairments { blackouts: dark, ..Impairments::default() }, ..s20() };
    let mut path = build(link, LinkConfig::delay(Span::from_millis(20)), vec![flow()], true);
    path.world.run_until(Time::from_secs(22));
    let (before, after) = (path.throughput(0, 6.0, 10.0), path.throughput(0, 20.0, 22.0));
    println!("{before:.2} Mbit/s before, {after:.2} after");
    assert!(after >= 0.5 * before && after > 0.2, "{before} then {after}");
}
