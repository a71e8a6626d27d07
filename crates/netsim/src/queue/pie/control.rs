//! PIE's probability: a proportional integral controller of the queuing delay, updated periodically.
//!
//! ```text
//! p += (alpha (q - target) + beta (q - q_old)) / scale(p)      every `update`
//! ```

use units::Span;

/// What PIE is told. Numbers of RFC 8033 are its section 4's unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The delay it steers to.
    pub target: Span,
    /// How often the probability is updated.
    pub update: Span,
    /// How long a burst passes untouched.
    pub burst: Span,
    /// Weight of the delay's distance from the target, per second.
    pub alpha: f64,
    /// Weight of the delay's change, per second.
    pub beta: f64,
    /// How much gentler it is at small probabilities.
    pub scale: Scale,
    /// What is left of the probability after each update without delay.
    pub decay: f64,
    /// Linux: 2% more at each update while the delay exceeds 250 ms, and no decay while packets wait.
    pub linux: bool,
}

/// The divisor of each update, by probability: (below, divisor), 1 above the last.
pub type Scale = &'static [(f64, f64)];

/// RFC 8033 section 4.2.
pub const SCALE: Scale =
    &[(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

/// Linux 3.14 to 4.x.
pub const SCALE_OLD: Scale = &[(1e-2, 8.0), (1e-1, 2.0)];

/// RFC 8033 sections 4 and 5: 1/8 and 5/4 are its alpha and beta.
pub const RFC8033: Parameters = Parameters {
    target: Span::from_millis(15),
    update: Span::from_millis(15),
    burst: Span::from_millis(150),
    alpha: 0.125,
    beta: 1.25,
    scale: SCALE,
    decay: 0.98,
    linux: false,
};

/// Linux since 5.5 (`pie.h`, `sch_pie.c`).
pub const LINUX: Parameters = Parameters { decay: 63.0 / 64.0, linux: true, ..RFC8033 };

/// Linux 3.14 to 4.x; table 1 of the paper on GCC and AQM has its delays.
pub const LINUX_OLD: Parameters = Parameters {
    target: Span::from_millis(20),
    update: Span::from_millis(30),
    burst: Span::from_millis(100),
    scale: SCALE_OLD,
    linux: true,
    ..RFC8033
};

/// RFC 8033: the largest rise at once where the probability is at least [`STEEP`].
const LARGEST_RISE: f64 = 0.02;
/// See [`LARGEST_RISE`].
const STEEP: f64 = 0.1;
/// Linux (`pie_calculate_probability`): a delay that calls for more, whatever the cap.
const FAR_TOO_LONG: Span = Span::from_millis(250);

/// The controller's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Probability to drop.
    pub probability: f64,
    /// The delay at the last update.
    pub delay: Span,
    /// What is left of the burst that passes.
    pub burst: Span,
}

impl Control {
    /// As it starts.
    pub fn new(parameters: &Parameters) -> Control {
        Control { probability: 0.0, delay: Span::ZERO, burst: parameters.burst }
    }

    /// Whether delays have been low enough for the next burst to pass.
    pub fn at_rest(&self, parameters: &Parameters) -> bool {
        self.probability == 0.0 && self.delay < parameters.target / 2
    }

    /// One update with a queuing delay of `delay`. `waiting`: packets wait although the delay is zero.
    /// Returns whether the queue is idle enough to begin afresh, with a whole burst; otherwise the burst is
    /// the caller's to [`spend`](Control::spend).
    pub fn update(&mut self, parameters: &Parameters, delay: Span, waiting: bool) -> bool {
        let scale = parameters.scale.iter().find(|(below, _)| self.probability < *below);
        let scale = scale.map_or(1.0, |(_, divisor)| *divisor);
        let error = (delay - parameters.target).as_secs_f64();
        let change = (delay - self.delay).as_secs_f64();
        let mut rise = parameters.alpha / scale * error + parameters.beta / scale * change;
        if self.probability >= STEEP {
            rise = rise.min(LARGEST_RISE);
        }
        if parameters.linux && delay > FAR_TOO_LONG {
            rise += LARGEST_RISE;
        }
        self.probability = (self.probability + rise).clamp(0.0, 1.0);
        let idle = delay == Span::ZERO && self.delay == Span::ZERO;
        if idle && !(parameters.linux && waiting) {
            self.probability *= parameters.decay;
        }
        let rested = self.at_rest(parameters) && delay < parameters.target / 2;
        if rested {
            self.burst = parameters.burst;
        }
        self.delay = delay;
        rested
    }

    /// Takes `time` off what is left of the burst.
    pub fn spend(&mut self, time: Span) {
        self.burst = (self.burst - time).max(Span::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities after each update, from `p` and a delay (ms) of `before`.
    fn run(parameters: &Parameters, p: f64, before: i64, delays: &[i64]) -> Vec<f64> {
        let mut control = Control { probability: p, delay: Span::from_millis(before), burst: Span::ZERO };
        let update = |&delay: &i64| {
            control.update(parameters, Span::from_millis(delay), false);
            control.probability
        };
        delays.iter().map(update).collect()
    }

    /// Equal to six significant digits, as the vectors are printed.
    fn assert_prints(values: &[f64], expected: &[f64]) {
        assert_eq!(values.len(), expected.len());
        for (value, expected) in values.iter().zip(expected) {
            let unit = 10f64.powf(expected.max(1e-9).log10().floor() - 5.0);
            assert!((value - expected).abs() <= 0.500_001 * unit, "{value} instead of {expected}");
        }
    }

    fn first_at_least(values: &[f64], least: f64) -> usize {
        values.iter().position(|&value| value >= least).unwrap() + 1
    }

    #[test]
    fn p1_constant_delay() {
        let p = run(&RFC8033, 0.0, 0, &[50; 400]);
        let expected = [
            3.26538e-5, 6.68335e-5, 1.01013e-4, 2.37732e-4, 3.74451e-4, 5.11169e-4, 6.47888e-4, 7.84607e-4,
            9.21326e-4, 1.05804e-3, 1.60492e-3, 2.15179e-3,
        ];
        assert_prints(&p[..12], &expected);
        let crossed = [1e-4, 1e-3, 0.01, 0.1, 0.5].map(|least| first_at_least(&p, least));
        assert_eq!(crossed, [3, 10, 27, 68, 160]);
        assert_prints(&[p[49], p[99], p[199]], &[0.0606674, 0.240042, 0.677542]);
    }

    #[test]
    fn p2_constant_delay_in_old_linux() {
        // The vectors are those of the formula, without the rule for 250 ms, which a delay of 50 ms does not
        // meet.
        let p = run(&LINUX_OLD, 0.0, 0, &[50; 400]);
        let expected = [
            0.00828125, 0.00875, 0.00921875, 0.0096875, 0.0101563, 0.0120313, 0.0139063, 0.0157813,
            0.0176563, 0.0195313, 0.0214063, 0.0232813,
        ];
        assert_prints(&p[..12], &expected);
        assert_eq!([0.01, 0.1, 0.5].map(|least| first_at_least(&p, least)), [5, 53, 160]);
        assert_prints(&p[99..100], &[0.276406]);
    }

    const RAMP: [i64; 25] =
        [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 60, 60, 60, 60, 60, 30, 15, 5, 0, 0, 0, 0];

    #[test]
    fn p3_a_ramp() {
        let expected = [
            0.0, 2.44141e-6, 1.34277e-5, 6.22559e-5, 1.15967e-4, 3.50342e-4, 6.04248e-4, 8.77686e-4,
            0.00117065, 0.00242065, 0.00374878, 0.00515503, 0.0066394, 0.00734253, 0.00804565, 0.00874878,
            0.0094519, 0.010155, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        ];
        assert_prints(&run(&RFC8033, 0.0, 0, &RAMP), &expected);
    }

    #[test]
    fn p3b_a_ramp_in_old_linux() {
        let expected = [
            0.0, 5.46875e-4, 0.00117188, 0.001875, 0.00265625, 0.00351563, 0.00445313, 0.00546875, 0.0065625,
            0.00773437, 0.00898438, 0.0103125, 0.0159375, 0.0184375, 0.0209375, 0.0234375, 0.0259375,
            0.0284375, 0.0103125, 6.25e-4, 0.0, 0.0, 0.0, 0.0, 0.0,
        ];
        assert_prints(&run(&LINUX_OLD, 0.0, 0, &RAMP), &expected);
    }

    const HIGH: [i64; 10] = [40, 80, 200, 300, 300, 100, 40, 0, 0, 0];

    #[test]
    fn p4_high_delays() {
        let expected = [
            0.203125, 0.223125, 0.243125, 0.263125, 0.283125, 0.04375, 0.0078125, 0.00132813, 0.00107188,
            0.00082075,
        ];
        assert_prints(&run(&RFC8033, 0.2, 40, &HIGH), &expected);
    }

    #[test]
    fn p4l_high_delays_in_linux() {
        let expected = [
            0.203125, 0.223125, 0.243125, 0.283125, 0.323125, 0.08375, 0.0478125, 0.021875, 0.0206104,
            0.0193655,
        ];
        assert_prints(&run(&LINUX, 0.2, 40, &HIGH), &expected);
    }

    #[test]
    fn p5_the_burst_allowance() {
        let parameters = RFC8033;
        let mut control = Control::new(&parameters);
        let delays = [[0; 3].as_slice(), &[30; 10]].concat();
        let left = delays.iter().map(|&delay| {
            if !control.update(&parameters, Span::from_millis(delay), false) {
                control.spend(parameters.update);
            }
            control.burst.as_micros() / 1_000
        });
        assert!(left.eq([150, 150, 150, 135, 120, 105, 90, 75, 60, 45, 30, 15, 0]));
    }
}
