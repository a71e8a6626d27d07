//! Any sequence of reports, however absurd, leaves every controller with something to send.
#![allow(missing_docs, reason = "tests")]

use framewire_cc::{Acked, Delivery, FrameTag, Lost, Options, REGISTRY, Report, Sent, Setup, build};
use proptest::prelude::*;
use units::{Bytes, Ecn, RemoteTime, Span, Time};

#[derive(Clone, Debug)]
struct Step {
    after_us: u32,
    packet: u16,
    size: u32,
    frame: Option<FramePart>,
    what: u8,
    remote_ns: i64,
    rtt_us: u32,
    delivered: Counted,
    lost: Counted,
    blob: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct FramePart {
    frame: u32,
    index: u16,
    count: u16,
}

/// Bytes over the connection's life, which need not grow.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// When the packet left.
    at_sending: u64,
    at_report: u64,
}

prop_compose! {
    fn part()(frame in 0u32..50, index in 0u16..5, count in 1u16..6) -> FramePart {
        FramePart { frame, index, count }
    }
}

prop_compose! {
    fn counted()(at_sending in 0u64..1 << 40, at_report in 0u64..1 << 40) -> Counted {
        Counted { at_sending, at_report }
    }
}

prop_compose! {
    fn step()(
        after_us in 0u32..200_000, packet: u16, size in 1u32..65_000, frame in prop::option::of(part()),
        what: u8, remote_ns: i64, rtt_us in 0u32..10_000_000,
        delivered in counted(), lost in counted(),
        blob in prop::collection::vec(any::<u8>(), 0..40)
    ) -> Step {
        Step { after_us, packet, size, frame, what, remote_ns, rtt_us, delivered, lost, blob }
    }
}

fn tag(step: &Step) -> Option<FrameTag> {
    let FramePart { frame, index, count } = step.frame?;
    Some(FrameTag { stream: 0, frame, version: 0, index, count, retransmission: step.what & 64 != 0 })
}

fn feed(controller: &mut dyn framewire_cc::Controller, now: Time, step: &Step) {
    let packet = u64::from(step.packet);
    let sent_at = now - Span::from_micros(i64::from(step.rtt_us));
    let arrived_at = (step.what & 8 != 0).then(|| RemoteTime::from_nanos(step.remote_ns));
    let delivery = Delivery {
        delivered: step.delivered.at_sending,
        delivered_at: sent_at - Span::from_micros(i64::from(step.rtt_us % 1000)),
        first_sent_at: sent_at - Span::from_micros(i64::from(step.rtt_us % 777)),
        app_limited: step.what & 4 != 0,
        in_flight: u64::from(step.size),
        lost: step.lost.at_sending,
    };
    let acked = Acked {
        packet,
        sent_at,
        arrived_at,
        size: step.size,
        ecn: Ecn::from_bits(step.what),
        frame: tag(step),
        delivery,
    };
    let lost = Lost { packet, sent_at, size: step.size, frame: tag(step), delivery };
    let in_flight = Bytes::new(u64::from(step.size) * u64::from(step.what & 1));
    let rtt = Span::from_micros(i64::from(step.rtt_us));
    match step.what & 3 {
        0 => controller.on_sent(&Sent {
            now,
            packet,
            size: step.size,
            frame: tag(step),
            in_flight,
            app_limited: false,
        }),
        3 => controller.on_timer(now),
        kind => controller.on_feedback(&Report {
            now,
            acked: if kind == 1 { std::slice::from_ref(&acked) } else { &[] },
            lost: if kind == 2 { std::slice::from_ref(&lost) } else { &[] },
            spurious: &[],
            in_flight,
            limited: step.what & 16 != 0,
            latest_rtt: Some(rtt),
            srtt: rtt,
            rttvar: rtt,
            min_rtt: rtt,
            ce_marks: u32::from(step.what & 32 != 0),
            persistent_congestion: step.what & 128 != 0,
            recovering: [None, Some(false), Some(true)][usize::from(step.what >> 5 & 3) % 3],
            delivered: step.delivered.at_report,
            lost_bytes: step.lost.at_report,
            in_order: step.lost.at_report / 2,
            blob: &step.blob,
        }),
    }
}

/// All that can be seen of a controller.
fn seen(controller: &dyn framewire_cc::Controller) -> (String, Vec<(&'static str, u64)>) {
    let mut inner = Vec::new();
    controller.observe(&mut |name, value| inner.push((name, value.to_bits())));
    (format!("{:?} {:?}", controller.decision(), controller.next_timer()), inner)
}

proptest! {
    #[test]
    fn who_does_not_follow_what_is_sent_may_be_left_out(steps in prop::collection::vec(step(), 2..80)) {
        let mut found = 0;
        for entry in REGISTRY {
            let [mut told, mut spared] = [0; 2].map(|_| build(&Options::of(entry.name), &Setup::default()).unwrap());
            if told.follows_sending() {
                continue;
            }
            found += 1;
            let mut now = Time::ZERO;
            for step in &steps {
                now += Span::from_micros(i64::from(step.after_us));
                feed(&mut *told, now, step);
                if [1, 2].contains(&(step.what & 3)) {
                    feed(&mut *spared, now, step);
                }
                prop_assert_eq!(seen(&*told), seen(&*spared), "{}", entry.name);
                prop_assert_eq!((told.next_timer(), told.follows_sending()), (None, false), "{}", entry.name);
            }
        }
        prop_assert!(found > 0);
    }

    #[test]
    fn a_fork_goes_on_as_the_original_and_neither_disturbs_the_other(
        steps in prop::collection::vec(step(), 2..80), at in 0.0..1.0_f64,
    ) {
        let (before, after) = steps.split_at((steps.len() as f64 * at) as usize);
        for entry in REGISTRY {
            let mut original = build(&Options::of(entry.name), &Setup::default()).unwrap();
            let mut now = Time::ZERO;
            let go_on = |controller: &mut dyn framewire_cc::Controller, now: &mut Time, step: &Step| {
                *now += Span::from_micros(i64::from(step.after_us));
                feed(controller, *now, step);
                seen(controller)
            };
            before.iter().for_each(|step| _ = go_on(&mut *original, &mut now, step));
            let mut fork = original.fork().expect(entry.name);
            let mut later = now;
            let told: Vec<_> = after.iter().map(|step| go_on(&mut *original, &mut now, step)).collect();
            let again: Vec<_> = after.iter().map(|step| go_on(&mut *fork, &mut later, step)).collect();
            prop_assert_eq!(told, again, "{}", entry.name);
        }
    }

    #[test]
    fn no_panic_and_no_zero(steps in prop::collection::vec(step(), 1..200)) {
        for entry in REGISTRY {
            let mut controller = build(&Options::of(entry.name), &Setup::default()).unwrap();
            let mut now = Time::ZERO;
            for step in &steps {
                if step.what & 31 == 31 {
                    controller.on_mtu(u32::from(step.packet));
                }
                now += Span::from_micros(i64::from(step.after_us));
                feed(&mut *controller, now, step);
                let decision = controller.decision();
                prop_assert!(decision.window.is_none_or(|w| w.get() > 0), "{}: {:?}", entry.name, decision);
                prop_assert!(decision.pacing.is_none_or(|p| p.as_bps() > 0), "{}: {:?}", entry.name, decision);
                prop_assert!(decision.media.is_none_or(|m| m.as_bps() > 0), "{}: {:?}", entry.name, decision);
                controller.observe(&mut |_, value| assert!(value.is_finite()));
            }
        }
    }
}

/// What is in flight keeps its bytes when datagrams become shorter or longer, and so does the window.
#[test]
fn a_window_keeps_its_bytes_when_datagrams_change() {
    for entry in REGISTRY {
        let mut controller = build(&Options::of(entry.name), &Setup::default()).unwrap();
        let Some(before) = controller.decision().window else { continue };
        for mtu in [1440, 1150, 1200] {
            controller.on_mtu(mtu);
            let after = controller.decision().window.map_or(0, Bytes::get);
            let change = after.abs_diff(before.get());
            assert!(change <= 2 * 1440, "{}: {} bytes to {after} at {mtu}", entry.name, before.get());
        }
    }
}
