//! When a receiver shows frames, over paths that lose, repeat and reorder packets.
#![allow(missing_docs, reason = "tests")]

mod path;

use framewire_session::playout::REGISTRY;
use netsim::{Impairments, LinkConfig, QueueSpec, RateProcess, Reorder};
use path::{Flow, Path};
use units::{HostClock, Rate, Span, Time};

const INTERVAL: Span = Span::from_micros(33_333);

/// 30 frames a second under the default's controller, 25 ms each way; the receiver's clock is off and drifts.
fn run(link: LinkConfig, playout: &'static str, seconds: u64) -> Path {
    let receiver_clock = HostClock::new(Span::from_secs(7), 100.0);
    let initial = Rate::from_mbps(4);
    let flow =
        Flow { interval: INTERVAL, playout, receiver_clock, initial, ..Flow::video("fixed:rate=4mbit") };
    let back = LinkConfig::delay(Span::from_millis(25));
    let mut path = path::build(link, back, vec![flow], true);
    path.world.run_until(Time::from_secs(seconds));
    path
}

fn link(loss: &str, duplicate: f64, reorder: Option<Reorder>) -> LinkConfig {
    let queue: QueueSpec = "droptail:200ms".parse().unwrap();
    let rate = RateProcess::Constant(Rate::from_mbps(20));
    let impairments = Impairments { loss: loss.parse().unwrap(), duplicate, ..Impairments::default() };
    LinkConfig { impairments, reorder, ..LinkConfig::bottleneck(rate, queue, Span::from_millis(25)) }
}

#[test]
fn nothing_older_is_shown_after_something_newer_whatever_the_path_does() {
    let late = |extra| Some(Reorder { probability: 0.05, extra: Span::from_millis(extra) });
    for entry in REGISTRY {
        for (loss, duplicate, reorder) in [
            ("none", 0.0, late(12)),
            ("bernoulli:2%", 0.1, None),
            ("bernoulli:5%", 0.1, late(60)),
            ("ge:loss=3%,burst=8", 0.3, late(30)),
        ] {
            let shown = run(link(loss, duplicate, reorder), entry.name, 10).shown(0);
            let what = format!("{} over {loss}, {duplicate}, {reorder:?}", entry.name);
            assert!(shown.windows(2).all(|pair| pair[0].1 < pair[1].1), "{what}");
            assert!(shown.len() > 120, "{what}: {} of 300 shown", shown.len());
        }
    }
}

/// Share of frames shown after the first five seconds, and the 95th percentile of their spacing in intervals.
fn share_and_spacing(path: &Path, seconds: u64) -> (f64, f64) {
    let shown: Vec<(f64, u32)> = path.shown(0).into_iter().filter(|shown| shown.0 > 5.0).collect();
    let mut spacings: Vec<f64> =
        shown.windows(2).map(|pair| (pair[1].0 - pair[0].0) / INTERVAL.as_secs_f64()).collect();
    spacings.sort_unstable_by(f64::total_cmp);
    let expected = (seconds as f64 - 5.0) / INTERVAL.as_secs_f64();
    (shown.len() as f64 / expected, spacings[spacings.len() * 95 / 100])
}

#[test]
fn two_percent_of_loss_cost_adaptive_no_frames() {
    let of = |playout| share_and_spacing(&run(link("bernoulli:2%", 0.0, None), playout, 20), 20);
    let (share, spacing) = of("at-once");
    assert!(share < 0.85 && spacing > 2.0, "at once: {share} shown, spacing {spacing}");
    let (share, spacing) = of("adaptive");
    assert!(share >= 0.98 && spacing <= 1.5, "adaptive: {share} shown, spacing {spacing}");
}
