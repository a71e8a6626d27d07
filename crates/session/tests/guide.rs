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

/// `docs/add-a-strategy.md` quotes its example to the letter, and all of it.
#[test]
fn the_page_about_strategies_shows_the_whole_example() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).expect("it is in the repository");
    let (page, source) = (read("../../docs/add-a-strategy.md"), read("src/strategy/backup.rs"));
    let blocks = || page.split("\n```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let shown: usize = blocks().filter(|block| source.contains(*block)).map(|b| b.lines().count()).sum();
    let whole = source.lines().filter(|line| !line.is_empty()).count();
    assert!(shown >= whole, "{shown} of {whole} lines of the example are on the page");
    assert!(source.lines().count() < 80);
    let registry = read("src/strategy/registry.rs");
    assert!(blocks().all(|block| source.contains(block) || registry.contains(block)));
}
