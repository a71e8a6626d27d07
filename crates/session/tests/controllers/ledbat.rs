//! LEDBAT (RFC 6817) over simulated paths: target, growth, latecomers.

use units::Time;

use crate::path::{Flow, quantile, s20};
use crate::steady::{alone, backlogged, run, steady};

#[test]
fn the_target_is_the_queue() {
    // At 100 ms the distance shrinks to a third in half a minute.
    for (cc, target, within) in [("ledbat", 100.0, 5.0), ("ledbat:target=25ms", 25.0, 3.0)] {
        let seen = alone(cc, 100, 115);
        assert!(seen.utilisation >= 0.995 && seen.loss == 0.0, "{seen:?}");
        assert!((seen.queue_mean - target).abs() <= within, "{seen:?}");
        assert!((seen.queue_p90 - target).abs() <= within, "{seen:?}");
    }
}

#[test]
fn a_target_beyond_the_buffer_is_reno() {
    let path = run(s20(), vec![backlogged("ledbat:target=150ms")], 70);
    let seen = steady(&path, 20.0, 70.0);
    // From a second after the halving on: half of 120 ms of queue and 40 ms of path is 40 ms of queue.
    let halved = path.losses(0)[0];
    let delays = path.delays(0, halved + 1.0, 70.0);
    let (low, high) = (delays[0] - 20.6, delays[delays.len() - 1] - 20.6);
    println!("ledbat:target=150ms: {seen:.4?}, after the first halving {low:.1} to {high:.1} ms");
    assert!(seen.utilisation >= 0.99 && (35.0..50.0).contains(&low), "{low} {seen:?}");
    assert!((110.0..=120.5).contains(&(quantile(&path.delays(0, 20.0, 70.0), 1.0) - 20.6)));
}

#[test]
fn a_packet_a_round_trip_to_the_bandwidth_delay_product() {
    let path = run(s20(), vec![backlogged("ledbat")], 6);
    let windows = path.observed(0, "cwnd_bytes");
    let when = |packets: f64| windows.iter().find(|window| window.value >= packets * 1472.0).unwrap().at;
    let seconds = when(66.0) - when(10.0);
    println!("ledbat: from 10 to 66 packets in {seconds:.2} s");
    // At least 56 round trips of 40.6 ms.
    assert!((2.27..=4.0).contains(&seconds), "{seconds}");
}

#[test]
fn the_latecomer_adds_its_target_and_takes_all() {
    let second = Flow { start: Time::from_secs(15), ..backlogged("ledbat:target=25ms") };
    let path = run(s20(), vec![backlogged("ledbat:target=25ms"), second], 45);
    let (first, queue) = (path.throughput(0, 30.0, 45.0), steady(&path, 30.0, 45.0).queue_mean);
    println!("ledbat: {first:.2} Mbit/s left to the first, queue {queue:.1} ms");
    assert!(first < 2.0 && (40.0..=53.0).contains(&queue), "{first} {queue}");
}
