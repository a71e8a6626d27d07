use super::*;
use crate::controller::tests::{acked, report};
use crate::{Acked, Delivery};

/// A controller of 1000-byte packets in a path of 40 ms, fed a report at a time.
struct Path {
    copa: Copa,
    now: Time,
    delivered: u64,
    limited: bool,
    /// Packets of the window that are not in flight.
    unsent: f64,
}

impl Path {
    fn new(params: Params) -> Path {
        let copa = Copa::new(params, &Setup { mtu: 1000, ..Setup::default() });
        Path { copa, now: Time::from_millis(1000), delivered: 0, limited: true, unsent: 0.0 }
    }

    /// Past slow start with `window` packets, RTTmin 40 ms and RTTstanding `standing` ms.
    fn settled(params: Params, window: f64, standing: i64) -> Path {
        let mut path = Path::new(params);
        path.copa.rtts.sample(path.now, Span::from_millis(40), Span::from_millis(40));
        path.now += Span::from_millis(100);
        path.copa.rtts.sample(path.now, Span::from_millis(standing), Span::from_millis(40));
        path.copa.slow_start = false;
        path.copa.window = window;
        path.copa.velocity.reset(window, 0);
        path
    }

    /// `packets` acknowledged that were sent when `then` bytes had been delivered, with a round trip of `rtt`
    /// ms.
    fn ack(&mut self, packets: u64, then: u64, rtt: i64) -> f64 {
        let delivery = Delivery { delivered: then, ..Delivery::default() };
        let in_flight = Bytes::new(((self.copa.window - self.unsent) * 1000.0) as u64);
        let sent = Sent { now: self.now, packet: 0, size: 1000, frame: None, in_flight, app_limited: false };
        self.copa.on_sent(&sent);
        let acks: Vec<Acked> = (0..packets).map(|n| Acked { delivery, ..acked(n, 1000) }).collect();
        self.delivered += 1000 * packets;
        self.copa.on_feedback(&Report {
            now: self.now,
            limited: self.limited,
            latest_rtt: Some(Span::from_millis(rtt)),
            delivered: self.delivered,
            ..report(&acks, &[])
        });
        self.copa.window
    }
}

/// An acknowledgement in the middle of a round, so that no comparison takes place.
const MID_ROUND: u64 = 0;

#[test]
fn a_step_is_v_over_delta_cwnd() {
    // The queue is empty, the target infinite: one packet adds 1 / (0.5 100) = 0.02 packets (copa.md section
    // 8).
    let mut path = Path::settled(Params::plain(0.5), 100.0, 40);
    path.copa.velocity.acked(0, 1000, 100.0, true);
    assert!((path.ack(1, MID_ROUND, 40) - 100.02).abs() < 1e-9);
    // 100 packets x 10 ms x 0.5 > 50 ms: down. A window of acknowledgements takes v / delta = 2 packets.
    let mut path = Path::settled(Params::plain(0.5), 100.0, 50);
    for _ in 0..50 {
        path.ack(2, MID_ROUND, 50);
    }
    assert!((path.copa.window - 98.0).abs() < 0.05, "{}", path.copa.window);
}

#[test]
fn the_target_is_a_packet_over_delta_and_queuing_delay() {
    // dq = 5 ms, RTTstanding 45 ms: 1/(0.5 5 ms) = 400 packets/s, which is a window of 18.
    assert!(Path::settled(Params::plain(0.5), 17.9, 45).ack(1, MID_ROUND, 45) > 17.9);
    assert!(Path::settled(Params::plain(0.5), 18.1, 45).ack(1, MID_ROUND, 45) < 18.1);
    assert!(Path::settled(Params::plain(0.1), 89.9, 45).ack(1, MID_ROUND, 45) > 89.9);
    assert!(Path::settled(Params::plain(0.1), 90.1, 45).ack(1, MID_ROUND, 45) < 90.1);
}

#[test]
fn the_latest_round_trip_counts_where_asked_for() {
    // RTTstanding is 40 ms still, the latest sample 60: only mvfst's form sees a queue.
    let latest = Params { latest: true, ..Params::plain(0.5) };
    for (params, down) in [(Params::plain(0.5), false), (latest, true)] {
        let mut path = Path::settled(params, 50.0, 40);
        assert_eq!(path.ack(1, MID_ROUND, 60) < 50.0, down);
    }
}

#[test]
fn slow_start_doubles_until_the_rate_exceeds_the_target() {
    let mut path = Path::new(Params::plain(0.5));
    assert_eq!(path.ack(10, 0, 40), 20.0);
    path.now += Span::from_millis(40);
    assert_eq!(path.ack(20, 0, 40), 40.0);
    path.now += Span::from_millis(40);
    // 40 packets x 10 ms x 0.5 = 0.2 s > 50 ms.
    assert!(path.ack(10, 0, 50) < 40.0);
    path.now += Span::from_millis(40);
    let window = path.ack(10, 0, 40);
    assert!(window < 41.0, "no return to slow start: {window}");
}

#[test]
fn an_unused_window_does_not_grow_but_may_shrink() {
    let mut path = Path::settled(Params::plain(0.5), 50.0, 40);
    path.limited = false;
    assert_eq!(path.ack(10, MID_ROUND, 40), 50.0);
    path.now += Span::from_millis(40);
    assert!(path.ack(10, MID_ROUND, 80) < 50.0);
    let mut path = Path::new(Params::plain(0.5));
    path.limited = false;
    assert_eq!(path.ack(10, 0, 40), 10.0);
}

#[test]
fn a_window_that_nothing_in_flight_has_followed_grows_without_velocity() {
    let step = |unsent| {
        let mut path = Path::settled(Params::plain(0.5), 50.0, 40);
        path.unsent = unsent;
        for round in 0..6 {
            path.copa.velocity.acked(round * 1000, (round + 1) * 1000, 51.0 + round as f64, true);
        }
        assert_eq!(path.copa.velocity.get(), 8.0);
        path.ack(1, MID_ROUND, 40) - 50.0
    };
    // v / (0.5 50) = v / 25.
    for (unsent, v) in [(0.0, 8.0), (0.9, 8.0), (1.1, 1.0)] {
        assert!((step(unsent) - v / 25.0).abs() < 1e-9, "{unsent}: {}", step(unsent));
    }
}

#[test]
fn slow_start_waits_for_half_of_the_window_to_be_in_flight() {
    for (unsent, window) in [(0.0, 60.0), (24.9, 60.0), (25.1, 50.0)] {
        let mut path = Path::settled(Params::plain(0.5), 50.0, 40);
        (path.copa.slow_start, path.unsent) = (true, unsent);
        assert_eq!(path.ack(10, MID_ROUND, 40), window);
    }
}

#[test]
fn a_step_never_exceeds_what_was_acknowledged() {
    let mut path = Path::settled(Params::plain(0.1), 2.0, 40);
    // 1/(0.1 2) would be five packets for one.
    assert_eq!(path.ack(1, MID_ROUND, 40), 3.0);
}

#[test]
fn persistent_congestion_leaves_two_packets_and_slow_start() {
    let mut path = Path::settled(Params::plain(0.5), 50.0, 45);
    let now = path.now;
    path.copa.on_feedback(&Report { now, persistent_congestion: true, latest_rtt: None, ..report(&[], &[]) });
    assert_eq!((path.copa.window, path.copa.slow_start), (2.0, true));
    assert_eq!(path.copa.rtts.least(), Some(Span::from_millis(40)));
}

#[test]
fn losses_change_nothing_unless_heavy_and_asked_for() {
    let lost: Vec<_> = (0..30).map(|n| crate::controller::tests::lost(n, 1000)).collect();
    for (params, after) in [(Params::plain(0.5), 50.0), (Params::generic(), 35.0)] {
        let mut path = Path::settled(params, 50.0, 40);
        let now = path.now + Span::from_secs(1);
        path.copa.on_feedback(&Report { now, latest_rtt: None, ..report(&[], &lost) });
        assert_eq!(path.copa.window, after);
    }
}

#[test]
fn a_pause_keeps_the_window_and_voids_the_velocity() {
    let mut path = Path::settled(Params { patience: 1, ..Params::plain(0.5) }, 50.0, 40);
    for _ in 0..4 {
        path.ack(10, path.delivered, 40);
    }
    assert!(path.copa.velocity.get() > 1.0);
    let before = path.copa.window;
    let now = path.now + Span::from_secs(20);
    let in_flight = Bytes::new(1000);
    path.copa.on_sent(&Sent { now, packet: 99, size: 1000, frame: None, in_flight, app_limited: false });
    assert_eq!((path.copa.window, path.copa.velocity.get()), (before, 1.0));
    assert_eq!(path.copa.rtts.least(), Some(Span::from_millis(40)), "until a sample comes");
}

#[test]
fn paced_at_twice_the_window_over_the_standing_round_trip() {
    let path = Path::settled(Params::plain(0.5), 50.0, 50);
    // 50 kB over 50 ms are 8 Mbit/s.
    assert_eq!(path.copa.decision().pacing, Some(units::Rate::from_mbps(16)));
    // Before any sample ten packets over 100 ms: 0.8 Mbit/s.
    let first = Path::new(Params::plain(0.5)).copa.decision();
    assert_eq!((first.window, first.pacing), (Some(Bytes::new(10_000)), Some(units::Rate::from_kbps(800))));
}

#[test]
fn options_change_single_constants() {
    let build = |text: &str| crate::build(&text.parse().unwrap(), &Setup::default());
    assert!(build("copa:delta=0.25,latest=on,patience=4,heavy_loss=on,new_path=on").is_ok());
    assert!(build("copa-auto-4:delta=0.1,patience=1,rtts=5").is_ok());
    let error = build("copa:rtts=5").err().unwrap().to_string();
    assert!(error.starts_with("copa has no option `rtts`"), "{error}");
    assert!(build("copa:delta=0").is_err());
}
