//! The over-use detector and its adaptive threshold (draft-ietf-rmcat-gcc-02 section 5.4).

/// What the detector says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signal {
    /// The queue neither grows nor drains.
    #[default]
    Normal,
    /// The queue grows: the link is used beyond what it carries.
    Over,
    /// The queue drains.
    Under,
}

/// A set of constants. Each goes with one filter: the draft compares m itself, the code m (or the trend)
/// times up to 240, and the two gains are reversed between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// How fast the threshold rises towards a value beyond it, per ms.
    pub up: f64,
    /// How fast it falls towards one below, per ms.
    pub down: f64,
    /// Groups beyond the threshold until it is over-use.
    pub groups: u32,
    /// Over-use lasts until the value is back below the threshold, even while it falls.
    pub holds: bool,
}

/// Draft sections 5.4 and 5.6: `K_u`, `K_d`.
pub const DRAFT: Column = Column { up: 0.01, down: 0.00018, groups: 1, holds: false };
/// libwebrtc `OveruseDetector` and `TrendlineEstimator`.
pub const CODE: Column = Column { up: 0.0087, down: 0.039, groups: 2, holds: true };

/// gamma(0), in ms (draft section 5.6, `del_var_th(0)`).
const START: f64 = 12.5;
/// gamma stays within (draft section 5.4).
const RANGE: (f64, f64) = (6.0, 600.0);
/// A value this far beyond gamma is a spike the threshold does not follow (draft section 5.4).
const SPIKE: f64 = 15.0;
/// Beyond the threshold for this long, in ms (draft section 5.6, `overuse_time_th`).
const LASTING: f64 = 10.0;
/// One adaptation counts at most this much time, in ms (libwebrtc `kMaxTimeDelta`). Deviation: for the
/// draft's column too, where a pause of seconds would throw the threshold to its ends.
const LONGEST_STEP: f64 = 100.0;

/// Over-use and under-use from the delay gradient, held against a threshold that adapts.
#[derive(Clone, Copy, Debug)]
pub struct Detector {
    column: Column,
    /// gamma.
    threshold: f64,
    beyond_ms: f64,
    beyond: u32,
    last: f64,
    signal: Signal,
}

impl Detector {
    /// A detector with the constants of `column`.
    pub fn new(column: Column) -> Detector {
        Detector { column, threshold: START, beyond_ms: 0.0, beyond: 0, last: 0.0, signal: Signal::Normal }
    }

    /// Takes the tested quantity of a group that left `departure_ms` and arrived `arrival_ms` after the one
    /// before.
    pub fn update(&mut self, value: f64, departure_ms: f64, arrival_ms: f64) -> Signal {
        self.signal = self.judge(value, departure_ms.max(0.0));
        self.last = value;
        self.adapt(value, arrival_ms);
        self.signal
    }

    fn judge(&mut self, value: f64, departure_ms: f64) -> Signal {
        if value <= self.threshold {
            (self.beyond_ms, self.beyond) = (0.0, 0);
            return if value < -self.threshold { Signal::Under } else { Signal::Normal };
        }
        // libwebrtc counts half of the first group's interval, for the crossing was somewhere in it.
        self.beyond_ms +=
            if self.beyond == 0 && self.column.holds { departure_ms / 2.0 } else { departure_ms };
        self.beyond += 1;
        let lasting = self.beyond_ms >= LASTING && self.beyond >= self.column.groups;
        match lasting && value >= self.last {
            true => Signal::Over,
            false if self.column.holds => self.signal,
            false => Signal::Normal,
        }
    }

    fn adapt(&mut self, value: f64, arrival_ms: f64) {
        let distance = value.abs() - self.threshold;
        if distance > SPIKE {
            return;
        }
        let gain = if distance > 0.0 { self.column.up } else { self.column.down };
        let step = arrival_ms.clamp(0.0, LONGEST_STEP) * gain * distance;
        self.threshold = (self.threshold + step).clamp(RANGE.0, RANGE.1);
    }

    /// The threshold gamma, in ms.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// What was found at the last group.
    pub fn signal(&self) -> Signal {
        self.signal
    }
}

#[cfg(test)]
mod tests {
    use super::super::kalman::Scalar;
    use super::*;

    const FRAME: f64 = 1000.0 / 30.0;

    /// Signals and thresholds of the draft's filter and detector on a constant delay variation.
    fn draft(delay: f64, groups: usize) -> (Option<usize>, Vec<f64>) {
        let (mut filter, mut detector) = (Scalar::new(0.01), Detector::new(DRAFT));
        let mut first = None;
        let thresholds = (1..=groups)
            .map(|group| {
                let m = filter.update(delay, FRAME);
                if detector.update(m, FRAME, FRAME) == Signal::Over {
                    first = first.or(Some(group));
                }
                detector.threshold()
            })
            .collect();
        (first, thresholds)
    }

    #[test]
    fn the_draft_s_threshold_falls_to_the_digit() {
        // The draft's recursion for the threshold (section 5.4), worked out for a delay that stays: d = 0.
        let (first, gamma) = draft(0.0, 100);
        assert_eq!(first, None);
        for (group, expected) in [(1, 12.425), (10, 11.77), (60, 8.71), (100, 6.85)] {
            assert!((gamma[group - 1] - expected).abs() < 5e-3, "{group}: {}", gamma[group - 1]);
        }
        assert!((gamma[0] - 12.425).abs() < 5e-4);
    }

    #[test]
    fn the_draft_s_first_over_use_to_the_group() {
        // The draft's filter, threshold and state machine, worked out for ramps of so many ms a group.
        let first_over_use = |ramp, groups| {
            let (first, _) = draft(ramp, groups);
            first
        };
        assert_eq!(first_over_use(20.0, 100), Some(36));
        assert_eq!(first_over_use(30.0, 100), Some(9));
        assert_eq!(first_over_use(40.0, 100), Some(6));
        assert_eq!(first_over_use(5.0, 3000), None, "a slow constant ramp is never seen");
    }

    #[test]
    fn the_code_s_threshold_falls_in_one_group() {
        let mut detector = Detector::new(CODE);
        detector.update(0.0, FRAME, FRAME);
        assert_eq!(detector.threshold(), 6.0);
    }

    #[test]
    fn the_code_needs_two_groups_and_holds_until_below() {
        let mut detector = Detector::new(CODE);
        let mut next = |value| detector.update(value, FRAME, FRAME);
        assert_eq!([next(0.0), next(30.0), next(31.0)], [Signal::Normal, Signal::Normal, Signal::Over]);
        assert_eq!([next(29.0), next(-30.0), next(0.0)], [Signal::Over, Signal::Under, Signal::Normal]);
    }

    #[test]
    fn spikes_do_not_move_the_threshold() {
        let mut detector = Detector::new(DRAFT);
        detector.update(1e9, FRAME, FRAME);
        assert_eq!(detector.threshold(), 12.5);
        detector.update(20.0, FRAME, 1e6);
        assert!((detector.threshold() - 20.0).abs() < 1e-9, "100 ms at most: {}", detector.threshold());
    }
}
