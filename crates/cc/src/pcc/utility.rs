//! What an interval was worth. Rates `x` are in Mbit/s, as the published coefficients want them; losses are
//! fractions.

/// Allegro tolerates this much loss (NSDI'15); Vivace's coefficients come to as much (NSDI'18).
pub(super) const LOSS_TOLERANCE: f64 = 0.05;
/// Steepness of Allegro's cliff at the tolerated loss (NSDI'15: alpha = 100; PCC-Uspace: 1000).
const CLIFF: f64 = 100.0;
const CLIFF_USPACE: f64 = 1000.0;
/// What Uspace's latency factor comes to while no round trip halves within an interval: with its tolerance of
/// 100 % that leaves a constant.
const LATENCY_FACTOR_USPACE: f64 = 0.5;
/// Beyond this an exponential is as good as infinite.
const LARGEST_EXPONENT: f64 = 500.0;

/// Exponent of the rate's worth (NSDI'18, utility: t).
const EXPONENT: f64 = 0.9;
/// Weight of the latency gradient (NSDI'18, utility: b).
pub const LATENCY: f64 = 900.0;
/// Weight of the loss (NSDI'18, utility: c).
pub const LOSS: f64 = 11.35;
/// Weight of the round trip's deviation for a scavenger (Proteus; PCC-Uspace, where the deviation is in
/// microseconds).
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

/// Steepness of the first program's factor for a round trip that grew (modong/pcc, `onMonitorEnds`).
const GROWTH: f64 = 10.0;

/// Allegro's utility as the first program has it (modong/pcc, `onMonitorEnds`): the article's, with a factor
/// of one half where the round trip is what it was behind the interval before, less where it grew, more where
/// it shrank; and all of it per round trip. `before` and `rtt` in seconds; the scale is arbitrary.
pub fn allegro_udt(x: f64, loss: f64, before: f64, rtt: f64) -> f64 {
    let growth = if rtt > 0.0 { 1.0 - before / rtt } else { 0.0 };
    let gain = x * (1.0 - loss) * sigmoid(loss - LOSS_TOLERANCE, CLIFF) * sigmoid(growth, GROWTH);
    (gain - x * loss) / rtt.max(SHORTEST_RTT)
}

/// No round trip counts as shorter, in seconds: it is divided by.
const SHORTEST_RTT: f64 = 1e-6;

/// Vivace's utility (NSDI'18): `slope` is the round trip's growth in seconds per second; falling counts for
/// nothing.
pub fn vivace(x: f64, slope: f64, loss: f64, latency: f64) -> f64 {
    x.powf(EXPONENT) - latency * x * slope.max(0.0) - LOSS * x * loss
}

/// Slopes count in steps of this, towards zero, in the program for Vivace's article (PCC-Uspace NSDI-2018,
/// `utility`).
const SLOPE_STEP: f64 = 0.02;
/// Up to this loss ...
const LITTLE_LOSS: f64 = 0.03;
/// ... a loss weighs this much there.
const LITTLE_LOSS_WEIGHT: f64 = 1.0;

/// Vivace's utility as the program for its article has it (PCC-Uspace NSDI-2018, and by its constants
/// StanfordSNR/vivace 2baf862): a falling delay earns what a growing one costs, slopes are coarse, and little
/// loss is nearly free.
pub fn vivace_udt(x: f64, slope: f64, loss: f64, latency: f64) -> f64 {
    let slope = (slope / SLOPE_STEP).trunc() * SLOPE_STEP;
    let weight = if loss <= LITTLE_LOSS { LITTLE_LOSS_WEIGHT } else { LOSS };
    x.powf(EXPONENT) - latency * x * slope - weight * x * loss
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
        // Allegro's utility (NSDI'15): u/x at 0, 1, 4, 5, 6 %.
        for (loss, worth) in [(0.0, 0.993), (0.01, 0.962), (0.04, 0.662), (0.05, 0.425), (0.06, 0.193)] {
            assert!((allegro(10.0, loss) / 10.0 - worth).abs() <= 1e-3, "{loss}: {}", allegro(10.0, loss));
        }
        assert!(allegro(20.0, 1.0).is_finite() && allegro_uspace(20.0, 1.0).is_finite());
    }

    #[test]
    fn the_first_program_pays_for_the_round_trip() {
        // Half of x at a steady round trip, per second of it.
        let steady = allegro_udt(10.0, 0.0, 0.04, 0.04);
        assert!((steady - 10.0 * 0.993_307 * 0.5 / 0.04).abs() < 1e-3, "{steady}");
        // 1 % more of the round trip costs 5.9 % of the worth: 4.9 % by the factor, 1 % by the division.
        let grown = allegro_udt(10.0, 0.0, 0.04, 0.0404);
        assert!((grown / steady - 0.941).abs() < 1e-3, "{}", grown / steady);
        assert!(allegro_udt(10.0, 0.0, 0.04, 0.036) > steady * 1.3);
        // Six per cent lost: nearly all of the gain is gone.
        assert!(allegro_udt(10.0, 0.06, 0.04, 0.04) < 0.2 * steady);
        assert!(allegro_udt(10.0, 1.0, 0.0, 0.0).is_finite());
    }

    #[test]
    fn vivace_weighs_rate_latency_and_loss() {
        // Vivace's utility (NSDI'18), by hand.
        let u = |slope, loss| vivace(10.0, slope, loss, LATENCY);
        assert!((u(0.0, 0.0) - 7.943).abs() < 5e-4, "{}", u(0.0, 0.0));
        assert!((u(0.01, 0.0) - -82.06).abs() < 5e-3, "{}", u(0.01, 0.0));
        assert!((u(0.0, 0.01) - 6.808).abs() < 5e-4, "{}", u(0.0, 0.01));
        assert_eq!(u(-1.0, 0.0), u(0.0, 0.0));
    }

    #[test]
    fn vivaces_program_takes_slopes_in_steps_of_both_signs_and_little_loss_lightly() {
        let u = |slope, loss| vivace_udt(10.0, slope, loss, LATENCY);
        assert_eq!(u(0.0199, 0.0), u(0.0, 0.0));
        assert_eq!(u(-0.0199, 0.0), u(0.0, 0.0));
        assert!((u(0.0, 0.0) - u(0.035, 0.0) - 180.0).abs() < 1e-9);
        assert!((u(-0.035, 0.0) - u(0.0, 0.0) - 180.0).abs() < 1e-9);
        assert!((u(0.0, 0.0) - u(0.0, 0.03) - 0.3).abs() < 1e-9);
        assert!((u(0.0, 0.0) - u(0.0, 0.04) - 4.54).abs() < 1e-9);
    }

    #[test]
    fn vivace_tolerates_less_loss_the_faster_it_is() {
        // Of Vivace's utility (NSDI'18): the loss at which more rate is worth nothing, in per cent.
        for (x, tolerated) in [(1.0, 7.9), (5.0, 6.8), (10.0, 6.3), (20.0, 5.9), (50.0, 5.4), (100.0, 5.0)] {
            let at = |loss: f64| vivace(x + 1e-6, 0.0, loss, LATENCY) - vivace(x, 0.0, loss, LATENCY);
            assert!(at(tolerated / 100.0 - 6e-4) > 0.0 && at(tolerated / 100.0 + 6e-4) < 0.0, "{x}");
        }
    }
}
