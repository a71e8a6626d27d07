//! NewReno over a simulated path: its sawtooth.

use crate::steady::alone;

#[test]
fn the_sawtooth_of_s20() {
    let seen = alone("newreno", 40, 136);
    assert!(seen.utilisation >= 0.99, "{seen:?}");
    // The sawtooth's model: mean 84, P90 114 ms, loss 3.75e-5 (six cycles of 16 s).
    assert!(
        (76.0..=92.0).contains(&seen.queue_mean) && (104.0..=120.5).contains(&seen.queue_p90),
        "{seen:?}"
    );
    // The model: one packet a cycle, 3.75e-5; paced at 1.25 windows a round trip the burst at the edge may
    // cost a few.
    assert!((2e-5..1.5e-4).contains(&seen.loss), "{seen:?}");
}
