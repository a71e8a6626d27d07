//! Is the application sending less than it may? (libwebrtc `AlrDetector`)

use units::{Span, Time};

/// The budget grows at this share of the target ...
const SHARE: f64 = 0.65;
/// ... over this window (libwebrtc `IntervalBudget`) ...
const WINDOW: Span = Span::from_millis(500);
/// ... the application is limited by itself once this share of it is unused, ...
const START: f64 = 0.80;
/// ... and no more once less than this is.
const STOP: f64 = 0.50;

/// A leaky bucket of what could have been sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alr {
    /// Unused bits.
    budget: f64,
    last: Option<Time>,
    since: Option<Time>,
}

impl Alr {
    /// `size` bytes left under a target of `target` bit/s.
    pub fn on_sent(&mut self, now: Time, size: u32, target: f64) {
        let full = target * SHARE * WINDOW.as_secs_f64();
        let passed = self.last.replace(now).map_or(Span::ZERO, |last| (now - last).max(Span::ZERO));
        let used = (self.budget - f64::from(size) * 8.0).max(-full);
        self.budget = (used + target * SHARE * passed.as_secs_f64()).min(full);
        let unused = self.budget / full;
        if unused > START {
            self.since.get_or_insert(now);
        } else if unused < STOP {
            self.since = None;
        }
    }

    /// Since when the application has been limiting itself, if it is.
    pub fn since(&self) -> Option<Time> {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_target_is_application_limited_and_nine_tenths_is_not() {
        let mut alr = Alr::default();
        // 1250 bytes every 20 ms are 500 kbit/s of 1 Mbit/s: 150 kbit/s left, 260 kbit to fill of a budget of
        // 325.
        let send = |alr: &mut Alr, from: u64, to: u64, every: usize| {
            (from..to).step_by(every).for_each(|ms| alr.on_sent(Time::from_millis(ms), 1250, 1e6));
        };
        send(&mut alr, 0, 1500, 20);
        assert_eq!(alr.since(), None);
        send(&mut alr, 1500, 3000, 20);
        let since = alr.since().unwrap();
        assert!((1700..2000).contains(&(since.as_micros() / 1000)), "{since:?}");
        send(&mut alr, 3000, 4000, 11);
        assert_eq!(alr.since(), None);
    }
}
