//! The pulse: a quarter of a period up, three quarters down a third as far, so that nothing is sent more in
//! all.

use std::f64::consts::TAU;

/// Share of the period that is spent above the mean (paper; code `up_ratio`).
const UP: f64 = 0.25;
/// Height of the pulse as a share of the link's rate (paper; code `pulse_size`).
pub const HEIGHT: f64 = 0.25;

/// What the pulse adds `seconds` into the session at `frequency` (Hz), as a share of the link's rate.
pub fn pulse(seconds: f64, frequency: f64) -> f64 {
    let phase = (seconds * frequency).fract();
    if phase < UP {
        HEIGHT * (TAU * phase / (2.0 * UP)).sin()
    } else {
        -HEIGHT * UP / (1.0 - UP) * (TAU * (phase - UP) / (2.0 * (1.0 - UP))).sin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_up_comes_down() {
        let values: Vec<f64> = (0..20_000).map(|n| pulse(f64::from(n) * 1e-5, 5.0)).collect();
        assert!(values.iter().sum::<f64>().abs() * 1e-5 < 1e-6);
        let (max, min) = values.iter().fold((0f64, 0f64), |(max, min), v| (max.max(*v), min.min(*v)));
        assert!((max - 0.25).abs() < 1e-4 && (min + 0.25 / 3.0).abs() < 1e-4, "{max} {min}");
        // nimbus.md section 7: at 20 Mbit/s the half sine of 50 ms is 19.9 kB.
        let up: f64 = values[..5000].iter().sum::<f64>() * 1e-5;
        assert!((up * 20e6 / 8.0 - 19_900.0).abs() < 50.0, "{up}");
    }
}
