//! What every policy holds to, whatever arrives, and what `adaptive` makes of steady patterns.

use proptest::prelude::*;
use units::{RemoteTime, Span, Time};

use super::queue::WAITING;
use super::{Arrival, Queue, Ready, build};
use crate::display::Shown;

const INTERVAL: Span = Span::from_micros(33_333);
const LONGEST: Span = Span::from_millis(400);

/// One frame of a path: when it was captured, when it was complete, and whether by a repair.
#[derive(Clone, Copy, Debug)]
struct Frame {
    captured: Span,
    completed: Time,
    repaired: bool,
}

/// A frame that was shown.
#[derive(Clone, Copy, Debug)]
struct Display {
    frame: u32,
    captured: Span,
    ready: Time,
    at: Time,
}

/// Captures on the sender's clock are a minute off.
fn ready(frame: &Frame, now: Time) -> Ready {
    let captured = RemoteTime::from_nanos((frame.captured + Span::from_secs(60)).as_nanos());
    // What a repair costs is nearly all of what the frame took.
    let repair =
        frame.repaired.then_some(frame.completed - (Time::ZERO + frame.captured) - Span::from_millis(20));
    let arrival = Arrival { completed: frame.completed, repaired: frame.repaired, repair };
    Ready { now, captured, captured_local: Time::ZERO + frame.captured, arrival }
}

/// Plays frames of which each is predicted from the one before: none is ready before those it follows.
fn play(policy: &str, frames: &[Frame]) -> Vec<Display> {
    let mut queue = Queue::new(build(&policy.parse().unwrap()).unwrap());
    let mut shown = Vec::new();
    let mut ready_at: Vec<Time> = Vec::new();
    let mut show = |queue: &mut Queue, ready_at: &[Time], at: Time| {
        if let Some(Shown { frame, .. }) = queue.take(at, |_| ()) {
            let (captured, ready) = (frames[frame as usize].captured, ready_at[frame as usize]);
            shown.push(Display { frame, captured, ready, at });
        }
    };
    for (number, frame) in (0..).zip(frames) {
        let now = ready_at.last().map_or(frame.completed, |last| frame.completed.max(*last));
        while let Some(due) = queue.next_due().filter(|due| *due < now) {
            show(&mut queue, &ready_at, due);
        }
        let ready = ready(frame, now);
        ready_at.push(now);
        let Ready { captured, arrival, .. } = ready;
        let frame = Shown {
            stream: 0,
            frame: number,
            version: 0,
            captured,
            late: false,
            arrival,
            concealed: false,
            picture: None,
        };
        let unseen = queue.push(frame, &ready, None);
        assert!(unseen.is_none(), "each frame comes once");
        assert!(queue.len() <= WAITING + 1);
        // Frames that become ready at the same instant are looked at together, as a receiver does.
        if frames.get(number as usize + 1).is_none_or(|next| next.completed > now) {
            show(&mut queue, &ready_at, now);
        }
        assert!(queue.len() <= WAITING, "{} frames wait", queue.len());
    }
    while let Some(due) = queue.next_due() {
        show(&mut queue, &ready_at, due);
    }
    shown
}

/// Frames captured at even times, of which `delay` says how long each took and whether a repair was part of
/// it.
fn steady(count: u32, delay: impl Fn(u32) -> (Span, bool)) -> Vec<Frame> {
    let frame = |number: u32| {
        let captured = INTERVAL * i64::from(number);
        let (delay, repaired) = delay(number);
        Frame { captured, completed: Time::ZERO + captured + delay, repaired }
    };
    (0..count).map(frame).collect()
}

/// The spacing of what was shown after the first ten seconds, smallest and largest.
fn spacing(shown: &[Display]) -> (Span, Span) {
    let settled: Vec<Time> =
        shown.iter().filter(|d| d.captured > Span::from_secs(10)).map(|d| d.at).collect();
    let spans = settled.windows(2).map(|pair| pair[1] - pair[0]);
    (spans.clone().min().unwrap(), spans.max().unwrap())
}

const EVEN: Span = Span::from_millis(4);

#[test]
fn without_loss_and_jitter_adaptive_is_at_once() {
    let frames = steady(900, |_| (Span::from_millis(30), false));
    let shown = play("adaptive", &frames);
    assert_eq!(shown.len(), 900);
    assert!(shown.iter().all(|display| display.at == display.ready));
}

#[test]
fn repairs_are_waited_for_where_at_once_shows_bursts() {
    // Every seventh frame loses a packet, whose repair takes 60 ms more: nearly two intervals.
    let frames = steady(900, |frame| match frame % 7 {
        3 => (Span::from_millis(90), true),
        _ => (Span::from_millis(30), false),
    });
    let at_once = play("at-once", &frames);
    assert!(
        at_once.len() < 800,
        "{} of 900 shown: a repaired frame goes with those it held up",
        at_once.len()
    );
    let (_, longest) = spacing(&at_once);
    assert!(longest > INTERVAL * 2);
    let adaptive = play("adaptive", &frames);
    let (least, most) = spacing(&adaptive);
    assert!(adaptive.len() >= 895, "{} of 900 shown", adaptive.len());
    assert!(INTERVAL - least <= EVEN && most - INTERVAL <= EVEN, "spacing from {least} to {most}");
    let latest = adaptive.iter().map(|d| d.at - (Time::ZERO + d.captured)).max().unwrap();
    assert!(latest <= Span::from_millis(95), "as long as a repair takes and no longer, not {latest}");
}

#[test]
fn the_delay_shrinks_when_nothing_is_repaired_any_more() {
    let frames = steady(1_800, |frame| match frame % 7 {
        3 if frame < 600 => (Span::from_millis(90), true),
        _ => (Span::from_millis(30), false),
    });
    let shown = play("adaptive", &frames);
    let delay_at = |second: i64| {
        let display = shown.iter().find(|d| d.captured >= Span::from_secs(second)).unwrap();
        display.at - (Time::ZERO + display.captured)
    };
    assert!(delay_at(15) >= Span::from_millis(90), "{}", delay_at(15));
    assert!(delay_at(30) >= Span::from_millis(90), "a pause of 10 s is no end: {}", delay_at(30));
    assert!(delay_at(40) <= Span::from_millis(31), "{}", delay_at(40));
    let (least, most) = spacing(&shown);
    assert!(INTERVAL - least <= EVEN && most - INTERVAL <= EVEN, "spacing from {least} to {most}");
}

#[test]
fn a_rare_repair_costs_no_delay() {
    // One in ten seconds, each of them holding up two more frames: 1 % of all.
    let frames = steady(1_800, |frame| match frame % 300 {
        150 => (Span::from_millis(90), true),
        _ => (Span::from_millis(30), false),
    });
    let shown = play("adaptive", &frames);
    assert!(shown.len() >= 1_798, "those held up are shown one after another: {}", shown.len());
    let waited = shown.iter().filter(|d| d.at - d.ready > Span::from_millis(5)).count();
    assert!(waited <= 6 * 6, "{waited} frames waited");
}

#[test]
fn a_stall_costs_no_delay_once_it_is_over() {
    // For two seconds nothing passes, then all that waited comes at once. A second and a third later nothing
    // waits any more.
    let outage = |frame: u32| (300..360).contains(&frame).then(|| INTERVAL * i64::from(360 - frame));
    let frames = steady(900, |frame| (outage(frame).unwrap_or_default() + Span::from_millis(30), false));
    let shown = play("adaptive", &frames);
    let late = |d: &&Display| d.frame >= 400 && d.at - d.ready > Span::from_millis(1);
    assert_eq!(shown.iter().filter(late).count(), 0, "{:?}", shown.iter().find(late));
}

#[test]
fn a_clock_that_drifts_is_followed() {
    for ppm in [-200.0, 200.0] {
        let frames = steady(9_000, |frame| {
            let drift = INTERVAL.mul_f64(f64::from(frame) * ppm / 1e6) + Span::from_millis(100);
            (drift, false)
        });
        let shown = play("adaptive", &frames);
        let worst = shown.iter().map(|display| display.at - display.ready).max().unwrap();
        assert!(shown.len() == 9_000 && worst < Span::from_millis(1), "{ppm} ppm: {worst}");
    }
}

fn policies() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "at-once",
        "fixed:delay=120ms",
        "fixed:delay=3s",
        "adaptive",
        "adaptive:max=0ms",
    ])
}

proptest! {
    /// Whatever arrives when: nothing older is shown after something newer, no frame twice, memory stays
    /// bounded (`play` asserts that), and `adaptive` holds no frame longer than its bound.
    #[test]
    fn order_and_bounds_hold(
        policy in policies(),
        frames in prop::collection::vec((0i64..3, 0i64..80, prop::bool::weighted(0.2), 0i64..400), 2..400),
    ) {
        let mut captured = Span::ZERO;
        let frames: Vec<Frame> = frames.into_iter().map(|(skipped, jitter, repaired, repair)| {
            captured += INTERVAL * (1 + skipped * skipped);
            let delay = Span::from_millis(20 + jitter + if repaired { repair } else { 0 });
            Frame { captured, completed: Time::ZERO + captured + delay, repaired }
        }).collect();
        let shown = play(policy, &frames);
        prop_assert!(shown.windows(2).all(|pair| pair[0].frame < pair[1].frame && pair[0].at <= pair[1].at));
        prop_assert_eq!(shown.last().map(|display| display.frame as usize), Some(frames.len() - 1));
        prop_assert!(shown.iter().all(|display| display.at >= display.ready));
        if policy.starts_with("adaptive") {
            let longest = if policy.ends_with("0ms") { Span::ZERO } else { LONGEST };
            let held = shown.iter().map(|display| display.at - display.ready).max();
            prop_assert!(held <= Some(longest), "{held:?}");
        }
    }

    /// Over a grid of round trips, losses and jitter that stay as they are, nearly every frame is shown, and
    /// evenly.
    #[test]
    fn a_steady_pattern_is_shown_evenly(
        round_trip in prop::sample::select(vec![20i64, 50, 100, 200]),
        every in prop::sample::select(vec![3u32, 4, 7, 12]),
        jitter in 0i64..15,
    ) {
        let frames = steady(900, |frame| {
            let jitter = Span::from_micros(i64::from(frame * 7_919 % 1_000) * jitter);
            let repair = if frame % every == 0 { Span::from_millis(round_trip + 5) } else { Span::ZERO };
            (Span::from_millis(round_trip / 2) + jitter + repair, frame % every == 0)
        });
        let shown = play("adaptive", &frames);
        prop_assert!(shown.len() * 100 >= frames.len() * 98, "{} of {}", shown.len(), frames.len());
        let (_, most) = spacing(&shown);
        prop_assert!(most.as_nanos() * 2 <= INTERVAL.as_nanos() * 3, "{most}");
    }

    /// Clocks may say anything.
    #[test]
    fn absurd_times_neither_panic_nor_hold_a_frame(
        frames in prop::collection::vec((any::<i64>(), any::<bool>(), any::<i64>(), 0u64..50), 1..60),
    ) {
        let mut policy = build(&"adaptive".parse().unwrap()).unwrap();
        let mut now = Time::from_secs(1);
        for (captured, repaired, repair, passed) in frames {
            now += Span::from_millis(passed as i64);
            let repair = Some(Span::from_nanos(repair));
            let arrival = Arrival { completed: now, repaired, repair };
            let captured = RemoteTime::from_nanos(captured);
            let due = policy.due(&Ready { now, captured, captured_local: now, arrival });
            prop_assert!(now <= due && due <= now + LONGEST);
        }
    }
}
