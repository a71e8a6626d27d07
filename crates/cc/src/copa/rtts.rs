//! Copa's view of the round trip (paper section 2, "RTTstanding and RTTmin").

use units::{Span, Time};

use crate::parts::Extremum;

/// RTTmin is the smallest over this long (paper section 2.1).
const MIN_WINDOW: Span = Span::from_secs(10);
/// A round trip that never falls back below ...
const CHANGED: f64 = 1.5;
/// ... times RTTmin over this long is another path's (an option; not in the paper).
const CHANGED_WINDOW: Span = Span::from_secs(3);
/// No round trip counts as shorter: all that follows divides by it.
const SHORTEST: Span = Span::from_micros(1);

/// The filters. Each keeps its last value until a sample comes, so that a pause forgets nothing.
#[derive(Clone, Debug)]
pub struct Rtts {
    least: Extremum<Time, Span>,
    recent: Extremum<Time, Span>,
    standing: Extremum<Time, Span>,
    /// The newest round-trip sample.
    pub latest: Span,
    /// The sender's smoothed round trip (RFC 6298) after the newest sample.
    pub smoothed: Span,
}

impl Rtts {
    /// Without a sample.
    pub fn new() -> Rtts {
        Rtts {
            least: Extremum::min(),
            recent: Extremum::min(),
            standing: Extremum::min(),
            latest: SHORTEST,
            smoothed: SHORTEST,
        }
    }

    /// Takes a sample, and the smoothed value after it.
    pub fn sample(&mut self, now: Time, latest: Span, smoothed: Span) {
        (self.latest, self.smoothed) = (latest.max(SHORTEST), smoothed.max(SHORTEST));
        self.least.insert(now, self.latest, now.saturating_sub(MIN_WINDOW));
        self.recent.insert(now, self.latest, now.saturating_sub(CHANGED_WINDOW));
        self.standing.insert(now, self.latest, now.saturating_sub(self.smoothed / 2));
    }

    /// RTTmin; `None` before any sample.
    pub fn least(&self) -> Option<Span> {
        self.least.get()
    }

    /// RTTstanding: the smallest over half a smoothed round trip, which hides delayed and bundled
    /// acknowledgements.
    pub fn standing(&self) -> Option<Span> {
        self.standing.get()
    }

    /// For one whose window is at the floor: if even the last three seconds' smallest is far above RTTmin, it
    /// is no queue of ours, and RTTmin is forgotten.
    pub fn forget_another_path(&mut self, now: Time) {
        if let (Some(least), Some(recent)) = (self.least.get(), self.recent.get())
            && self.recent.key().is_some_and(|at| now - at <= CHANGED_WINDOW)
            && self.least.key().is_some_and(|at| now - at > CHANGED_WINDOW)
            && recent > least.mul_f64(CHANGED)
        {
            self.least.clear();
            self.least.insert(now, recent, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn windows_of_ten_seconds_and_half_a_round_trip() {
        let mut rtts = Rtts::new();
        let mut at = |t, rtt| {
            rtts.sample(Time::from_millis(t), ms(rtt), ms(40));
            (rtts.least(), rtts.standing())
        };
        assert_eq!(at(0, 40), (Some(ms(40)), Some(ms(40))));
        assert_eq!(at(20, 60), (Some(ms(40)), Some(ms(40))));
        assert_eq!(at(21, 50), (Some(ms(40)), Some(ms(50))));
        assert_eq!(at(10_000, 70), (Some(ms(40)), Some(ms(70))));
        assert_eq!(at(10_001, 70), (Some(ms(50)), Some(ms(70))));
        // After a pause the last value stands until a sample replaces it.
        assert_eq!(at(60_000, 90), (Some(ms(90)), Some(ms(90))));
    }

    #[test]
    fn a_longer_path_is_believed_after_three_seconds() {
        let mut rtts = Rtts::new();
        rtts.sample(Time::ZERO, ms(40), ms(40));
        for t in (100..=3000).step_by(100) {
            rtts.sample(Time::from_millis(t), ms(80), ms(80));
            rtts.forget_another_path(Time::from_millis(t));
        }
        assert_eq!(rtts.least(), Some(ms(40)));
        rtts.sample(Time::from_millis(3100), ms(80), ms(80));
        rtts.forget_another_path(Time::from_millis(3100));
        assert_eq!(rtts.least(), Some(ms(80)));
    }
}
