//! When a receiver shows frames, over paths that lose, repeat and reorder packets.
#![allow(missing_docs, reason = "tests")]

mod path;

use std::sync::{Arc, Mutex};

use framewire_session::playout::{self, REGISTRY};
use framewire_session::{Receiver, ReceiverConfig};
use netsim::{Impairments, LinkConfig, QueueSpec, RateProcess, Reorder};
use path::{Flow, Path};
use record::{Event, Memory, NodeId, Tap};
use units::{HostClock, Rate, Span, Time};
use wire::{Class, Endpoint, FrameId, MAX_DATAGRAM, Media, RxMeta};

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
            let frames: Vec<u32> = shown.iter().map(|shown| shown.frame).collect();
            assert!(frames.is_sorted_by(|earlier, later| earlier < later), "{what}");
            assert!(shown.len() > 120, "{what}: {} of 300 shown", shown.len());
        }
    }
}

/// Share of frames shown after the first five seconds, and the 95th percentile of their spacing in intervals.
fn share_and_spacing(path: &Path, seconds: u64) -> (f64, f64) {
    let shown: Vec<_> = path.shown(0).into_iter().filter(|shown| shown.at > 5.0).collect();
    let mut spacings: Vec<f64> =
        shown.windows(2).map(|pair| (pair[1].at - pair[0].at) / INTERVAL.as_secs_f64()).collect();
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

/// Of two streams whose frames are complete at the same instant both are shown: each stream has a queue of
/// its own.
#[test]
fn streams_do_not_pass_each_other_over() {
    for entry in REGISTRY {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let tap = Tap::new(memory.clone(), NodeId(0), HostClock::default());
        let receiver = Receiver::new(ReceiverConfig::default(), None, None, tap);
        let mut receiver = receiver.with_playout(playout::build(&entry.name.parse().unwrap()).unwrap());
        for frame in 0..60u32 {
            let captured = Time::from_secs(1) + INTERVAL * i64::from(frame);
            let now = captured + Span::from_millis(20);
            for stream in 0..2 {
                let media = Media {
                    session: 1,
                    packet: u64::from(2 * frame) + u64::from(stream),
                    sent: captured.on_wire(),
                    feedback_seen: 0,
                    stream,
                    class: Class::Deadline,
                    frame,
                    version: 0,
                    index: 0,
                    count: 1,
                    part: 0,
                    captured: captured.on_wire(),
                    deadline: Span::from_millis(400),
                    reference: frame.checked_sub(1).map(FrameId::first),
                    retransmission: false,
                    alone: false,
                };
                let mut datagram = [0; MAX_DATAGRAM];
                let head = media.encode(&mut datagram);
                receiver.receive(now, &datagram[..head], RxMeta { length: 1_000, ..RxMeta::default() });
            }
            receiver.wake(now);
        }
        receiver.wake(Time::from_secs(10));
        let memory = memory.lock().unwrap();
        for of in 0..2 {
            let shown = memory.events.iter().filter_map(|(_, _, event)| match event {
                Event::FrameDisplayed { stream, frame, .. } if *stream == of => Some(*frame),
                _ => None,
            });
            let shown: Vec<u32> = shown.collect();
            let every = entry.name != "fixed";
            assert!(!every || shown.iter().copied().eq(0..60), "{} stream {of}: {shown:?}", entry.name);
            assert!(shown.is_sorted() && shown.last() == Some(&59), "{} stream {of}: {shown:?}", entry.name);
        }
    }
}
