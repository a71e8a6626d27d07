//! SQP's theory (section 5): the fluid model that tests and figures are held against.
//!
//! `c` is the link rate, `r` a competitor's constant rate, `b` SQP's estimate (all bit/s), `m` the pacing
//! multiplier and `t` the target.

/// Eq. 5: seconds a frame and what arrives during its burst occupy the link; `interval` in seconds.
pub fn drain_time(c: f64, r: f64, b: f64, m: f64, interval: f64) -> f64 {
    (b * interval + r * interval / m) / c
}

/// Eq. 7: the sample SQP takes beside a competitor of rate `r`.
pub fn sample(c: f64, r: f64, b: f64, m: f64) -> f64 {
    if m * b + r > c { c / (1.0 + r / (m * b)) } else { m * b }
}

/// Eq. 8: where the estimate settles.
pub fn fixed_point(c: f64, r: f64, m: f64, t: f64) -> f64 {
    c * t - r / m
}

/// Eq. 9: SQP's use of the share `a` of the link that its competitor leaves.
pub fn utilisation(a: f64, m: f64, t: f64) -> f64 {
    (m * t + a - 1.0) / (m * a)
}

/// Where eq. 9 reaches 1: the share of the link SQP needs to run without a standing queue, and the most it
/// takes from an ideal elastic flow (section 5.1).
pub fn queue_free_share(m: f64, t: f64) -> f64 {
    (m * t - 1.0) / (m - 1.0)
}

/// Total utilisation of `n` SQP flows whose frames are evenly dispersed (fig. 5d, dashed).
pub fn total_utilisation(n: u32, m: f64, t: f64) -> f64 {
    let n = f64::from(n);
    (n * t / (1.0 + (n - 1.0) / m)).min(1.0)
}

/// The sample of one of two equal flows whose frames start `offset` intervals apart, as a fluid through a
/// FIFO: each sends `b * interval` bits at rate `m b` (section 5.2). The other flow's burst of this and of
/// the previous interval is in the way.
pub fn paired_sample(c: f64, b: f64, m: f64, offset: f64) -> f64 {
    let burst = 1.0 / m; // in intervals
    let arrived = |t: f64, start: f64| (t - start).clamp(0.0, burst) * m * b;
    let other = |t: f64| arrived(t, offset) + arrived(t, offset - 1.0);
    // Work in the queue ahead of my last bit: everything that arrived by the end of my burst, less what was
    // served.
    let steps = 20_000;
    let begin = (offset - 1.0).min(0.0);
    let dt = (burst - begin) / f64::from(steps);
    let (mut queue, mut sent) = (0.0f64, 0.0f64);
    for step in 1..=steps {
        let now = begin + f64::from(step) * dt;
        let total = arrived(now, 0.0) + other(now) - other(begin);
        queue = (queue + (total - sent) - c * dt).max(0.0);
        sent = total;
    }
    let end = burst + queue / c;
    b / end
}

#[cfg(test)]
mod tests {
    use super::super::update;
    use super::*;

    const C: f64 = 20e6;

    fn settle(c: f64, r: f64, t: f64) -> f64 {
        (0..30 * 60).fold(2e6, |b, _| update(b, t * sample(c, r, b, 2.0), 320e3, 0.25))
    }

    #[test]
    fn s0_t1_eq_7_is_the_burst_over_its_drain_time() {
        for (r, b) in [(0.0, 18e6), (4e6, 16e6), (10e6, 9e6)] {
            let from_eq_5 = b / 60.0 / drain_time(C, r, b, 2.0, 1.0 / 60.0);
            assert!((sample(C, r, b, 2.0) / from_eq_5 - 1.0).abs() < 1e-9);
        }
        assert_eq!(sample(C, 1e6, 2e6, 2.0), 4e6);
    }

    #[test]
    fn s0_t2_iteration_settles_at_eq_8() {
        for (r, want) in [(0.0, 18e6), (2e6, 17e6), (4e6, 16e6)] {
            assert!((fixed_point(C, r, 2.0, 0.9) - want).abs() < 1.0);
            let got = settle(C, r, 0.9);
            assert!((got / want - 1.0).abs() < 0.01, "R {r}: {got}");
        }
    }

    #[test]
    fn s0_t3_t4_eq_9_follows_from_eq_8() {
        for a in [0.3, 0.5, 0.8, 1.0] {
            let r = C * (1.0 - a);
            let from_eq_8 = fixed_point(C, r, 2.0, 0.9) / (C - r);
            assert!((utilisation(a, 2.0, 0.9) - from_eq_8).abs() < 1e-12);
        }
        assert!((utilisation(1.0, 2.0, 0.9) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn s0_t5_the_queue_free_share() {
        for (t, want) in [(0.9, 0.8), (0.7, 0.4), (0.63, 0.26), (0.6, 0.2)] {
            assert!((queue_free_share(2.0, t) - want).abs() < 1e-9);
            assert!((utilisation(queue_free_share(2.0, t), 2.0, t) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn s0_t6_many_flows() {
        let table: [(f64, &[f64]); 4] = [
            (0.9, &[0.9, 1.0, 1.0]),
            (0.7, &[0.7, 0.933, 1.0]),
            (0.63, &[0.63, 0.84, 0.945, 1.0]),
            (0.6, &[0.6, 0.8, 0.9, 0.96, 1.0, 1.0]),
        ];
        for (t, row) in table {
            for (n, want) in (1..).zip(row) {
                assert!((total_utilisation(n, 2.0, t) - want).abs() < 1e-3, "T {t} n {n}");
            }
        }
    }

    #[test]
    fn s0_t7_t8_t9_alignment_of_two_flows() {
        let b = 9e6;
        let aligned = paired_sample(C, b, 2.0, 0.0);
        assert!((aligned / (C / 2.0) - 1.0).abs() < 0.05, "aligned {aligned}");
        // Half an interval apart the bursts do not meet: the link serves mine alone.
        let opposed = paired_sample(C, 10e6, 2.0, 0.5);
        assert!((opposed / C - 1.0).abs() < 0.05, "opposed {opposed}");
        let quarter = paired_sample(C, 10e6, 2.0, 0.25);
        assert!((quarter / sample(C, 10e6, 10e6, 2.0) - 1.0).abs() < 0.05, "quarter {quarter}");
    }

    #[test]
    fn s0_t10_eq_4_takes_the_equalising_path() {
        let jain = |x: f64, y: f64| (x + y).powi(2) / (2.0 * (x * x + y * y));
        let run = |step: &dyn Fn(f64, f64) -> f64| {
            let (mut x, mut y, mut updates) = (0.5e6, 2e6, 0);
            while x + y < 0.9 * C {
                let (of_x, of_y) = (0.9 * sample(C, y, x, 2.0), 0.9 * sample(C, x, y, 2.0));
                (x, y) = (step(x, of_x), step(y, of_y));
                updates += 1;
            }
            (jain(x, y), updates)
        };
        let (smooth, updates) = run(&|b, s| update(b, s, 320e3, 0.25));
        let (raw, raw_updates) = run(&|_, s| s);
        assert!(smooth >= 0.98 && raw <= 0.85, "eq. 4 {smooth} in {updates}, raw {raw} in {raw_updates}");
    }
}
