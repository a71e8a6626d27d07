//! What an interval was worth. Rates `x` are in Mbit/s, as the published coefficients want them; losses are fractions.

/// Allegro tolerates this much loss (NSDI'15).
const LOSS_TOLERANCE: f64 = 0.05;
/// Steepness of Allegro's cliff at the tolerated loss (NSDI'15: alpha = 100; PCC-Uspace: 1000).
const CLIFF: f64 = 100.0;
const CLIFF_USPACE: f64 = 1000.0;
/// What Uspace's latency factor comes to while no round trip halves within an interval: with its tolerance of 100 %
/// that leaves a constant.
const LATENCY_FACTOR_USPACE: f64 = 0.5;
/// Beyond this an exponential is as good as infinite.
const LARGEST_EXPONENT: f64 = 500.0;

/// Exponent of the rate's worth (NSDI'18, utility: t).
const EXPONENT: f64 = 0.9;
/// Weight of the latency gradient (NSDI'18, utility: b).
pub const LATENCY: f64 = 900.0;
/// Weight of the loss (NSDI'18, utility: c).
pub const LOSS: f64 = 11.35;
/// Weight of the round trip's deviation for a scavenger (Proteus; PCC-Uspace, where the deviation is in microseconds).
pub const DEVIATION: f64 = 0.0015;

fn sigmoid(y: f64, steepness: f64) -> f64 {
    1.0 / (1.0 + (steepness * y).min(LARGEST_EXPONENT).exp())
}

/// Allegro's utility (NSDI'15): throughput, worthless beyond 5 % loss, less what was lost.
pub fn allegro(x: f64, loss: f64) -> f64 {
    x * (1.0 - loss) * sigmoid(loss - LOSS_TOLERANCE, CLIFF) - x * loss
}

/// Allegro's utility as PCC-Uspace has it (master, `CalculateUtilityAllegro`).
pub fn allegro_uspace(x: f64, loss: f64) -> f64 {
    x * (1.0 - loss) * sigmoid(loss - LOSS_TOLERANCE, CLIFF_USPACE) * LATENCY_FACTOR_USPACE - x * loss
}

/// Vivace's utility (NSDI'18): `slope` is the round trip's growth in seconds per second; falling counts for
/// nothing.
pub fn vivace(x: f64, slope: f64, loss: f64, latency: f64) -> f64 {
    x.powf(EXPONENT) - latency * x * slope.max(0.0) - LOSS * x * loss
}

/// What a scavenger loses by round trips that vary: `deviation` in seconds.
pub fn unsteadiness(x: f64, deviation: f64) -> f64 {
    DEVIATION * x * deviation * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allegro_falls_off_a_cliff_at_five_per_cent() {
        // pcc_allegro.md section 7.1: u/x at 0, 1, 4, 5, 6 %.
        for (loss, worth) in [(0.0, 0.993), (0.01, 0.962), (0.04, 0.662), (0.05, 0.425), (0.06, 0.193)] {
            assert!((allegro(10.0, loss) / 10.0 - worth).abs() <= 1e-3, "{loss}: {}", allegro(10.0, loss));
        }
        assert!(allegro(20.0, 1.0).is_finite() && allegro_uspace(20.0, 1.0).is_finite());
    }

    #[test]
    fn vivace_weighs_rate_latency_and_loss() {
        // pcc_vivace.md section 7.1.
        let u = |slope, loss| vivace(10.0, slope, loss, LATENCY);
        assert!((u(0.0, 0.0) - 7.943).abs() < 5e-4, "{}", u(0.0, 0.0));
        assert!((u(0.01, 0.0) - -82.06).abs() < 5e-3, "{}", u(0.01, 0.0));
        assert!((u(0.0, 0.01) - 6.808).abs() < 5e-4, "{}", u(0.0, 0.01));
        assert_eq!(u(-1.0, 0.0), u(0.0, 0.0));
    }

    #[test]
    fn vivace_tolerates_less_loss_the_faster_it_is() {
        // pcc_vivace.md section 4: the loss at which more rate is worth nothing, in per cent.
        for (x, tolerated) in [(1.0, 7.9), (5.0, 6.8), (10.0, 6.3), (20.0, 5.9), (50.0, 5.4), (100.0, 5.0)] {
            let at = |loss: f64| vivace(x + 1e-6, 0.0, loss, LATENCY) - vivace(x, 0.0, loss, LATENCY);
            assert!(at(tolerated / 100.0 - 6e-4) > 0.0 && at(tolerated / 100.0 + 6e-4) < 0.0, "{x}");
        }
    }
}
