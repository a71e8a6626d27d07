//! Whatever the path does, the stream arrives whole, once and in order.
#![allow(missing_docs, reason = "tests")]

mod path;

use framewire_bulk::{Attribution, Detection, Pages, ReceiverConfig, SenderConfig, Workload};
use netsim::{Impairments, LinkConfig, Loss, Reorder};
use path::{Flow, build, link};
use proptest::prelude::*;
use units::{HostClock, Span, Time};

#[derive(Clone, Debug)]
struct Trouble {
    seed: u64,
    bytes: u64,
    loss: [f64; 2],
    duplicate: [f64; 2],
    reorder: (f64, i64),
    jitter_ms: i64,
    blackout_ms: u64,
    queue: u64,
    rack: bool,
    per_transmission: bool,
    undo: bool,
    ack_every: u32,
    blocks: usize,
    window: u64,
    mss: u32,
}

prop_compose! {
    fn trouble()(
        (seed, rack, per_transmission, undo) in any::<(u64, bool, bool, bool)>(),
        bytes in 0u64..200_000,
        loss in [0.0..0.3, 0.0..0.3],
        duplicate in [0.0..0.3, 0.0..0.3],
        reorder in (0.0..0.3, 0i64..100),
        (jitter_ms, blackout_ms, queue) in (0i64..20, 0u64..1500, 3u64..60),
        (ack_every, blocks) in (1u32..9, 1usize..9),
        (window, mss) in (3_000u64..300_000, 1u32..=1448),
    ) -> Trouble {
        // Few bytes where segments are small: thousands of segments take long to simulate.
        let bytes = bytes.min(u64::from(mss) * 300);
        Trouble {
            seed, bytes, loss, duplicate, reorder, jitter_ms, blackout_ms, queue, rack, per_transmission, undo,
            ack_every, blocks, window, mss
        }
    }
}

fn impair(config: LinkConfig, trouble: &Trouble, way: usize) -> LinkConfig {
    let begin = Time::from_millis(300);
    let impairments = Impairments {
        loss: Loss::Bernoulli(trouble.loss[way]),
        duplicate: trouble.duplicate[way],
        blackouts: vec![(begin, begin + Span::from_millis(trouble.blackout_ms as i64))],
        ..Impairments::default()
    };
    let (probability, extra) = trouble.reorder;
    let reorder = Some(Reorder { probability, extra: Span::from_millis(extra) });
    LinkConfig { impairments, reorder, jitter: Span::from_millis(trouble.jitter_ms), ..config }
}

fn config(trouble: &Trouble) -> (SenderConfig, ReceiverConfig) {
    let detection = if trouble.rack { Detection::RackTlp } else { Detection::Sack };
    let attribution = if trouble.per_transmission { Attribution::Transmission } else { Attribution::Segment };
    let sender = SenderConfig {
        detection,
        attribution,
        undo: trouble.undo,
        receive_window: trouble.window,
        mss: trouble.mss,
        ..SenderConfig::default()
    };
    let receiver = ReceiverConfig {
        ack_every: trouble.ack_every,
        sack_blocks: trouble.blocks,
        ..ReceiverConfig::default()
    };
    (sender, receiver)
}

fn survive(trouble: &Trouble) {
    let (sender, receiver) = config(trouble);
    let flow = Flow {
        sender,
        receiver,
        clock: HostClock::new(Span::from_secs(3600), 100.0),
        ..Flow::new("newreno", Workload::Transfer(trouble.bytes))
    };
    let forward = impair(link(12, &format!("droptail:{}p", trouble.queue)), trouble, 0);
    let back = impair(LinkConfig::delay(Span::from_millis(20)), trouble, 1);
    let mut path = build(trouble.seed, forward, back, &[flow], None);
    // A timeout may double up to a minute.
    for minutes in 1..=60 {
        path.world.run_until(Time::from_secs(60 * minutes));
        if path.sender(0).is_finished() {
            break;
        }
    }
    let (sent, got) = (path.sender(0).counters(), path.receiver(0).counters());
    assert!(path.sender(0).is_finished(), "{sent:?} {got:?}");
    assert_eq!((got.bytes, got.delivered, sent.acked_bytes), (trouble.bytes, trouble.bytes, trouble.bytes));
    assert_eq!(path.receiver(0).finished_at().is_some(), trouble.bytes > 0);
    let strange =
        (sent.malformed, sent.foreign, sent.implausible, got.malformed, got.foreign, got.buffer_full);
    assert_eq!(strange, (0, 0, 0, 0, 0, 0));
}

proptest! {

    #[test]
    fn any_path_delivers_the_stream_once_and_in_order(trouble in trouble()) {
        survive(&trouble);
    }
}

#[test]
fn pages_are_timed() {
    let pages = Pages { idle: Span::from_millis(500), count: Some(20), ..Pages::default() };
    for fresh in [false, true] {
        let flow = Flow { fresh, ..Flow::new("newreno", Workload::Pages(pages)) };
        let back = LinkConfig::delay(Span::from_millis(20));
        let mut path = build(3, link(12, "droptail:100p"), back, &[flow], None);
        path.world.run_until(Time::from_secs(60));
        assert!(path.sender(0).is_finished());
        let done = path.sender(0).completions();
        let times: Vec<f64> = done.iter().map(|d| (d.finished - d.started).as_millis_f64()).collect();
        let mean = times[1..].iter().sum::<f64>() / 19.0;
        println!("fresh {fresh}: first {:.0} ms, mean of the others {mean:.0} ms", times[0]);
        // 30 to 50 kB are 21 to 35 segments: three rounds from ten on a fresh connection, less on one that
        // has grown; the last segment's acknowledgement may wait 40 ms.
        assert!(times.iter().all(|time| (40.0..220.0).contains(time)), "{times:?}");
        assert_eq!(path.receiver(0).counters().delivered, done.iter().map(|d| d.bytes).sum::<u64>());
        assert!(if fresh { mean > 110.0 } else { mean < times[0] }, "{times:?}");
    }
}
