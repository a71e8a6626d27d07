//! Vegas over simulated paths: queue, slow start, beside a flow that fills the queue.

use units::Time;

use crate::path::{Flow, s20};
use crate::steady::{alone, backlogged, run};

#[test]
fn two_to_four_packets_wait_on_s20() {
    let seen = alone("vegas", 10, 40);
    assert!(seen.utilisation >= 0.97 && seen.loss == 0.0, "{seen:?}");
    // Two to four packets of 0.6 ms.
    assert!((1.2..=2.4).contains(&seen.queue_mean) && seen.queue_p90 <= 4.0, "{seen:?}");
}

#[test]
fn slow_start_ends_soon_and_the_rest_goes_a_packet_a_round_trip() {
    let path = run(s20(), vec![backlogged("vegas")], 10);
    let windows = path.observed(0, "cwnd_bytes");
    let when = |packets: f64| windows.iter().find(|window| window.value >= packets * 1472.0).unwrap().at;
    let first = windows[0].at;
    // Doubling from 10: 66 packets, which fill the path, within about three round trips of 40.6 ms.
    assert!((2.0..=3.5).contains(&((when(66.0) - first) / 0.0406)), "{}", when(66.0) - first);
    let ended = path.observed(0, "ssthresh_bytes")[0].at;
    println!(
        "vegas: path full after {:.3} s, slow start ends {:.3} s later",
        when(66.0) - first,
        ended - when(66.0)
    );
    assert!(ended - when(66.0) <= 2.0 * 0.0406, "{ended}");
    // What slow start left in the queue goes at a packet a round trip, of 0.6 ms for each packet in the
    // window.
    let at = |second: f64| windows.iter().rfind(|window| window.at <= second).unwrap().value / 1472.0;
    let (gone, round_trips) = (at(1.0) - at(3.0), 2.0 / (0.6e-3 * (at(1.0) + at(3.0)) / 2.0));
    println!("vegas: {gone:.0} packets in {round_trips:.1} round trips");
    assert!((gone / round_trips - 1.0).abs() < 0.1, "{gone} {round_trips}");
}

#[test]
fn it_starves_beside_a_flow_that_fills_the_queue() {
    let other = Flow { start: Time::from_secs(5), ..backlogged("newreno") };
    let path = run(s20(), vec![backlogged("vegas"), other], 60);
    let share = path.throughput(0, 15.0, 60.0) / 20.0;
    println!("vegas: {share:.3} of the link beside newreno");
    assert!(share <= 0.1, "{share}");
}
