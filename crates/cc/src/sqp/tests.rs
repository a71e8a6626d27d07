//! Tests of the controller as a whole.

use super::*;
use crate::controller::tests::{acked, report};
use crate::{Acked, FrameTag};

#[test]
fn srtt_does_not_depend_on_how_often_reports_come() {
    // Ten packets on a path of 40 ms, the n-th of which waited n ms: in one report, and in ten.
    let arrived = |n: u64| (Time::from_millis(n) + Span::from_millis(20 + n as i64)).on_wire();
    let packets: Vec<_> = (0..10).map(|n| Acked { arrived_at: Some(arrived(n)), ..acked(n, 1000) }).collect();
    let hear = |sqp: &mut Sqp, acks: &[Acked]| {
        let waited = acks.last().map(|last| Span::from_millis(last.packet as i64)).unwrap();
        sqp.on_feedback(&Report { latest_rtt: Some(Span::from_millis(40) + waited), ..report(acks, &[]) });
    };
    let mut seldom = Sqp::new(Params::default(), &Setup::default());
    let mut often = Sqp::new(Params::default(), &Setup::default());
    assert_eq!(seldom.srtt(), INITIAL_SRTT);
    hear(&mut seldom, &packets);
    packets.chunks(1).for_each(|one| hear(&mut often, one));
    assert_eq!(seldom.srtt(), often.srtt());
    assert!(seldom.srtt() > Span::from_millis(41) && seldom.srtt() < Span::from_millis(44));
}

#[test]
fn steps_match_the_printed_table() {
    // Steps in kbit/s per frame as a function of S/B, worked out by hand from eq. 4 and rounded.
    let table = [
        (1.8, 206.0),
        (1.2, 69.3),
        (1.1, 37.1),
        (1.05, 19.2),
        (1.0, 0.0),
        (0.95, -20.8),
        (0.9, -43.6),
        (0.8, -96.0),
        (0.667, -186.0),
        (0.5, -360.0),
        (0.3, -803.0),
        (0.2, -1345.0),
        (0.1, -2952.0),
    ];
    for (ratio, step) in table {
        let b = 10e6;
        let got = (update(b, ratio * b, 320e3, 0.25) - b) / 1e3;
        assert!((got - step).abs() <= 1.0, "S/B {ratio}: {got} instead of {step}");
    }
}

#[test]
fn silence_halves_the_estimate_down_to_the_minimum() {
    let mut sqp = Sqp::new(Params::default(), &Setup::default());
    let sent = Sent {
        now: Time::ZERO,
        packet: 0,
        size: 1200,
        frame: None,
        in_flight: Bytes::new(1200),
        app_limited: false,
    };
    assert_eq!(sqp.next_timer(), None);
    sqp.on_sent(&sent);
    for halvings in 1..=8 {
        let at = sqp.next_timer().unwrap();
        assert_eq!(at, Time::from_millis(500 * halvings));
        sqp.on_timer(at);
    }
    assert_eq!(sqp.decision().media, Some(Rate::from_kbps(300)));
}

/// A frame of `packets` packets of 1200 bytes leaves at `now`.
fn send(sqp: &mut Sqp, now: Time, frame: u32, packets: u16) {
    for index in 0..packets {
        let tag = FrameTag { stream: 0, frame, version: 0, index, count: packets, retransmission: false };
        let number = u64::from(frame) * 100 + u64::from(index);
        sqp.on_sent(&Sent {
            now,
            packet: number,
            size: 1200,
            frame: Some(tag),
            in_flight: Bytes::new(1200),
            app_limited: false,
        });
    }
}

/// It arrives 20 ms later and is heard of after 40.
fn hear(sqp: &mut Sqp, sent_at: Time, frame: u32, packets: u16) {
    let arrive = |index: u16| Acked {
        sent_at,
        size: 1200,
        arrived_at: Some((sent_at + Span::from_millis(20 + i64::from(index))).on_wire()),
        frame: Some(FrameTag { stream: 0, frame, version: 0, index, count: packets, retransmission: false }),
        ..acked(u64::from(frame) * 100 + u64::from(index), 1200)
    };
    let acks: Vec<_> = (0..packets).map(arrive).collect();
    let now = sent_at + Span::from_millis(40);
    let latest_rtt = Some(Span::from_millis(40));
    sqp.on_feedback(&Report { now, latest_rtt, in_flight: Bytes::new(1200), ..report(&acks, &[]) });
}

#[test]
fn a_frame_that_does_not_arrive_lowers_the_estimate_as_time_passes() {
    let mut sqp = Sqp::new(Params::robust(), &Setup::default());
    send(&mut sqp, Time::from_millis(0), 0, 4);
    hear(&mut sqp, Time::from_millis(0), 0, 4);
    send(&mut sqp, Time::from_millis(40), 1, 4);
    let (mut before, mut now) = (sqp.estimate, Time::ZERO);
    let sent_at = before;
    while sqp.next_timer().unwrap() < Time::from_millis(500) {
        let at = sqp.next_timer().unwrap();
        assert!(at > now, "time goes on");
        now = at;
        sqp.on_timer(now);
        assert!(sqp.estimate < before, "{} at {now:?}", sqp.estimate);
        before = sqp.estimate;
    }
    assert!((before / sent_at - 0.25).abs() < 0.01, "{before} of {sent_at}: silence does the rest");
    let mut patient = Sqp::new(Params::default(), &Setup::default());
    send(&mut patient, Time::from_millis(40), 1, 4);
    assert_eq!(patient.next_timer(), Some(Time::from_millis(540)), "the paper's waits for silence");
}

#[test]
fn a_step_is_a_share_of_a_low_estimate() {
    for (kbps, bound) in [(50, 1.2), (100, 1.2), (300, 1.35), (1000, 1.35)] {
        let setup = Setup { initial: Rate::from_kbps(kbps), min: Rate::from_kbps(10), ..Setup::default() };
        let sqp = Sqp::new(Params::robust(), &setup);
        let most = update(sqp.estimate, 1.8 * sqp.estimate, sqp.step(), 0.25) / sqp.estimate;
        assert!(most < bound, "{kbps} kbit/s: x {most} a frame");
    }
}

/// Four frames of two packets that arrive at once, and eight that arrive together when the link is back: the
/// estimate that those were sent at, and the one they leave.
fn pause(params: Params) -> (f64, f64) {
    let mut sqp = Sqp::new(params, &Setup::default());
    let at = |frame: u32| Time::ZERO + Setup::default().frame_interval * i64::from(frame);
    (0..4).for_each(|frame| {
        send(&mut sqp, at(frame), frame, 2);
        hear(&mut sqp, at(frame), frame, 2);
    });
    let before = sqp.estimate;
    (4..12).for_each(|frame| send(&mut sqp, at(frame), frame, 2));
    let arrived = (at(12) + Span::from_millis(20)).on_wire();
    let arrive = |number: u32| Acked {
        sent_at: at(number / 2),
        size: 1200,
        arrived_at: Some(arrived),
        frame: Some(FrameTag {
            stream: 0,
            frame: number / 2,
            version: 0,
            index: (number % 2) as u16,
            count: 2,
            retransmission: false,
        }),
        ..acked(u64::from(number / 2) * 100 + u64::from(number % 2), 1200)
    };
    let acks: Vec<_> = (8..24).map(arrive).collect();
    let (now, latest_rtt) = (at(12) + Span::from_millis(40), Some(Span::from_millis(40)));
    sqp.on_feedback(&Report { now, latest_rtt, ..report(&acks, &[]) });
    (before, sqp.estimate)
}

#[test]
fn frames_that_waited_for_the_same_pause_halve_the_estimate_once() {
    let (before, after) = pause(Params::robust());
    assert!((0.49..0.51).contains(&(after / before)), "{before} {after}");
    let (before, after) = pause(Params { once: false, ..Params::robust() });
    assert!(after < 0.3 * before, "{before} {after}");
}

#[test]
fn the_window_remembers_the_estimate_for_a_moment() {
    let mut sqp = Sqp::new(Params::robust(), &Setup::default());
    send(&mut sqp, Time::ZERO, 0, 1);
    let before = sqp.flight();
    sqp.set_estimate(sqp.estimate / 4.0);
    send(&mut sqp, Time::from_millis(90), 1, 1);
    assert!(sqp.flight() >= before, "{} of {before}", sqp.flight());
    send(&mut sqp, Time::from_millis(110), 2, 1);
    assert!(sqp.flight() < before / 2, "{} of {before}", sqp.flight());
}

#[test]
fn two_packets_may_always_be_in_flight_and_little_more_at_a_low_rate() {
    let setup = Setup { initial: Rate::from_kbps(100), min: Rate::from_kbps(10), ..Setup::default() };
    let sqp = Sqp::new(Params::robust(), &setup);
    assert_eq!(sqp.decision().window, Some(Bytes::new(2400)));
    assert_eq!(Sqp::new(Params::default(), &setup).decision().window, Some(Bytes::new(64_000)));
}

#[test]
fn samples_leave_half_of_what_arrives() {
    // Frames of one packet, 60 kbit/s of which arrive; the queue grows to 0.9 s, so that samples say 10
    // kbit/s.
    let left = |floor: f64| {
        let setup = Setup { initial: Rate::from_kbps(200), min: Rate::from_kbps(10), ..Setup::default() };
        let mut sqp = Sqp::new(Params { floor, overdue: false, ..Params::robust() }, &setup);
        let mut lowest = f64::INFINITY;
        for frame in 0..16u32 {
            let sent_at = Time::from_millis(100 * u64::from(frame));
            send(&mut sqp, sent_at, frame, 1);
            let wait = Span::from_millis(60) * i64::from(frame);
            let acks = [Acked {
                sent_at,
                size: 1200,
                arrived_at: Some((sent_at + Span::from_millis(20) + wait).on_wire()),
                frame: Some(FrameTag {
                    stream: 0,
                    frame,
                    version: 0,
                    index: 0,
                    count: 1,
                    retransmission: false,
                }),
                ..acked(u64::from(frame) * 100, 1200)
            }];
            let (now, latest_rtt) =
                (sent_at + wait + Span::from_millis(40), Some(wait + Span::from_millis(40)));
            sqp.on_feedback(&Report { now, latest_rtt, in_flight: Bytes::new(1200), ..report(&acks, &[]) });
            lowest = lowest.min(sqp.estimate);
        }
        lowest
    };
    assert!(left(0.5) > 23e3, "{}", left(0.5));
    assert!(left(0.0) < 20e3, "{}", left(0.0));
}

#[test]
fn the_window_has_room_for_what_random_losses_keep_in_flight() {
    let flight = |lossy: bool| {
        let mut sqp = Sqp::new(Params { lossy, ..Params::robust() }, &Setup::default());
        send(&mut sqp, Time::ZERO, 0, 4);
        hear(&mut sqp, Time::ZERO, 0, 4);
        sqp.lossy = 0.3;
        sqp.flight() as f64
    };
    assert!((flight(true) / flight(false) - 1.0 / 0.7).abs() < 0.01, "{} {}", flight(true), flight(false));
}
