//! RoCC (arXiv 2309.16869 section 4) over simulated paths: queue, a falling rate, two flows.

use netsim::{LinkConfig, RateProcess};
use units::{Rate, Time};

use crate::path::{Flow, jain, mean, s20};
use crate::steady::{alone, backlogged, run};

#[test]
fn the_queue_is_gamma_round_trips() {
    for (cc, queue, utilisation) in
        [("rocc", 21.2, 0.98), ("rocc-kernel", 41.2, 0.98), ("rocc:drain=on", 21.2, 0.98)]
    {
        let seen = alone(cc, 10, 40);
        assert!(seen.utilisation >= utilisation && seen.loss == 0.0, "{seen:?}");
        assert!((queue - 3.0..=queue + 3.0).contains(&seen.queue_p50), "{seen:?}");
        assert!((queue - 3.0..=queue + 3.0).contains(&seen.queue_mean), "{seen:?}");
    }
}

#[test]
fn a_falling_rate_is_followed_within_a_second() {
    let steps = vec![(Time::ZERO, Rate::from_mbps(20)), (Time::from_secs(10), Rate::from_mbps(5))];
    let rate = RateProcess::steps(steps).unwrap();
    let link = LinkConfig { rate, queue: "droptail:200p".parse().unwrap(), ..s20() };
    let path = run(link, vec![backlogged("rocc")], 30);
    // Above the 22.4 ms of an empty path, a packet's 2.4 ms at 5 Mbit/s included.
    let queues = |from, to| path.delays(0, from, to).iter().map(|ms| ms - 22.4).collect::<Vec<_>>();
    let (during, after) = (queues(10.0, 11.0), queues(11.0, 30.0));
    let peak = during[during.len() - 1];
    println!("rocc 20 to 5 Mbit/s: peak {peak:.1} ms, after a second {:.1} ms", mean(&after));
    // Expected: a peak near 205 ms without loss, then 24.8 ms.
    assert!((185.0..225.0).contains(&peak) && path.losses(0).is_empty(), "{peak}");
    assert!(after[after.len() - 1] <= 30.0 && (mean(&after) - 24.8).abs() < 3.0, "{}", mean(&after));
}

#[test]
fn two_flows_that_saw_the_empty_path_share() {
    // The window of the second must not have been measured over the first's queue. With gamma 1 the two
    // packets even the shares out; paced at the window over srtt they stay what they were when the pipe
    // filled.
    for (cc, apart) in [("rocc", 20), ("rocc-kernel", 200)] {
        let flows = vec![backlogged(cc), Flow { start: Time::from_millis(apart), ..backlogged(cc) }];
        let path = run(s20(), flows, 50);
        let rates = [path.throughput(0, 30.0, 50.0), path.throughput(1, 30.0, 50.0)];
        println!("{cc}, second flow {apart} ms later: {rates:.2?} Mbit/s");
        assert!(jain(&rates) >= 0.95, "{rates:?}");
    }
}
