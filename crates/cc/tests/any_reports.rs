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
    frame: Option<(u32, u16, u16)>,
    what: u8,
    remote_ns: i64,
    rtt_us: u32,
    delivered: (u64, u64),
    lost: (u64, u64),
    blob: Vec<u8>,
}

prop_compose! {
    fn step()(
        after_us in 0u32..200_000, packet: u16, size in 1u32..65_000, frame in prop::option::of((0u32..50, 0u16..5, 1u16..6)),
        what: u8, remote_ns: i64, rtt_us in 0u32..10_000_000,
        delivered in (0u64..1 << 40, 0u64..1 << 40), lost in (0u64..1 << 40, 0u64..1 << 40),
        blob in prop::collection::vec(any::<u8>(), 0..40)
    ) -> Step {
        Step { after_us, packet, size, frame, what, remote_ns, rtt_us, delivered, lost, blob }
    }
}

fn tag(step: &Step) -> Option<FrameTag> {
    let (frame, index, count) = step.frame?;
    Some(FrameTag { stream: 0, frame, version: 0, index, count, retransmission: step.what & 64 != 0 })
}

fn feed(controller: &mut dyn framewire_cc::Controller, now: Time, step: &Step) {
    let packet = u64::from(step.packet);
    let sent_at = now - Span::from_micros(i64::from(step.rtt_us));
    let arrived_at = (step.what & 8 != 0).then(|| RemoteTime::from_nanos(step.remote_ns));
    let delivery = Delivery {
        delivered: step.delivered.0,
        delivered_at: sent_at - Span::from_micros(i64::from(step.rtt_us % 1000)),
        first_sent_at: sent_at - Span::from_micros(i64::from(step.rtt_us % 777)),
        app_limited: step.what & 4 != 0,
        in_flight: u64::from(step.size),
        lost: step.lost.0,
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
            delivered: step.delivered.1,
            lost_bytes: step.lost.1,
            in_order: step.lost.1 / 2,
            blob: &step.blob,
        }),
    }
}

proptest! {
    #[test]
    fn no_panic_and_no_zero(steps in prop::collection::vec(step(), 1..200)) {
        for entry in REGISTRY {
            let mut controller = build(&Options::of(entry.name), &Setup::default()).unwrap();
            let mut now = Time::ZERO;
            for step in &steps {
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
