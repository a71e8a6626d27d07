//! bbr.md and bbr2.md, section 7.

use crate::steady::{backlogged, run, steady};
use crate::path::{self, Flow};
use netsim::{LinkConfig, QueueSpec, RateProcess, Impairments};
use units::{Rate, Span, Time};

fn tail(limit: &str) -> LinkConfig {
    let queue: QueueSpec = format!("droptail:{limit}").parse().unwrap();
    LinkConfig { ..LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(20)), queue, Span::from_millis(20)) }
}

#[test]
fn look_mtu() {
    for mtu in [300, 600] {
        let p = run(path::s20(), vec![Flow { mtu, ..Flow::video("bbr") }], 24);
        println!("{mtu} {}", p.throughput(0, 10.5, 20.0));
    }
}
#[test]
fn look_shallow() {
    for cc in ["bbr", "bbr2", "bbr2-mvfst", "bbr3"] {
        for n in ["5p", "17p", "34p", "67p"] {
            let p = run(tail(n), vec![backlogged(cc)], 33);
            println!("{cc} {n} {:?}", steady(&p, 3.0, 33.0));
        }
    }
}
#[test]
fn look_share() {
    for cc in ["bbr", "bbr2", "bbr2-mvfst", "bbr3"] {
      for flip in [false, true] {
        let mut flows = vec![backlogged(cc), backlogged("newreno")];
        let i = if flip { flows.reverse(); 1 } else { 0 };
        flows[1].start = Time::from_secs(10);
        let p = run(path::s20(), flows, 70);
        println!("{cc} vs newreno {flip} {:.2} {:.2}", p.throughput(i, 20.0, 70.0), p.throughput(1-i, 20.0, 70.0));
      }
        let p = run(path::s20(), vec![backlogged(cc), backlogged("newreno"), backlogged("newreno"), backlogged("newreno"), backlogged("newreno")], 70);
        println!("{cc} vs 4 {:?}", (0..5).map(|i| p.throughput(i, 20.0, 70.0)).collect::<Vec<_>>());
        let p = run(path::s20(), vec![backlogged(cc), backlogged(cc), backlogged(cc), backlogged(cc), backlogged("newreno")], 70);
        println!("{cc} 4v1 {:?}", (0..5).map(|i| p.throughput(i, 20.0, 70.0)).collect::<Vec<_>>());
        let p = run(path::s20(), vec![backlogged(cc), Flow { start: Time::from_secs(5), ..backlogged(cc) }], 70);
        println!("{cc} 1v1 {:?}", (0..2).map(|i| p.throughput(i, 20.0, 70.0)).collect::<Vec<_>>());
    }
}
