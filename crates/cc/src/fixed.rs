//! A constant rate: no congestion control at all. The yardstick that shows what the others are for.

use units::{Rate, Span, Time};

use crate::{Controller, Decision, Entry, Options, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "fixed",
    summary: "a constant rate, whatever happens",
    needs_frames: false,
    options: &[
        ("rate", "media rate, such as 5mbit (default: the session's initial rate)"),
        ("lossy", "media rate while there is loss, such as 15mbit (default: the same)"),
        ("lossy_for", "how long a loss counts after it was heard of (default 200ms)"),
        ("pace", "frames leave at this multiple of the rate, 1 to 16 (default 2, as SQP's)"),
    ],
    page: include_str!("fixed.md"),
    build: |options, setup| Ok(Box::new(Fixed::new(options, setup)?)),
    receiver: None,
};

/// Prism's testbed has one rate and another "during periods of loss" (thesis section 4.7.2.1), and does not
/// say how long such a period is: ours ends so long after the last loss was heard of, five of its round
/// trips.
const LOSSY_FOR: Span = Span::from_millis(200);

/// Sends at one rate; at another while there is loss, if told so.
#[derive(Clone, Debug)]
pub struct Fixed {
    rate: Rate,
    /// While there is loss, and how long one counts.
    lossy: (Rate, Span),
    /// Until when there is loss.
    until: Option<Time>,
    pace: f64,
}

impl Fixed {
    fn new(options: &Options, setup: &Setup) -> Result<Fixed, crate::OptionError> {
        let rate: Rate = options.quantity("rate", setup.initial, "a rate such as 5mbit")?;
        let rate = rate.max(Rate::from_bps(1));
        let lossy: Rate = options.quantity("lossy", rate, "a rate such as 15mbit")?;
        let lossy_for = options.quantity("lossy_for", LOSSY_FOR, "a time such as 200ms")?;
        let pace = options.number("pace", 2.0, 1.0..=16.0)?;
        Ok(Fixed { rate, lossy: (lossy.max(Rate::from_bps(1)), lossy_for), until: None, pace })
    }
}

impl Controller for Fixed {
    fn on_sent(&mut self, _: &Sent) {}
    fn follows_sending(&self) -> bool {
        false
    }
    fn on_feedback(&mut self, report: &Report<'_>) {
        self.until = match report.lost {
            [] => self.until.filter(|until| report.now < *until),
            _ => Some(report.now + self.lossy.1),
        };
    }
    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let rate = if self.until.is_some() { self.lossy.0 } else { self.rate };
        // Frames leave as fast as ever: only the encoder is told.
        Decision { pacing: Some(self.rate.mul_f64(self.pace)), media: Some(rate), ..Decision::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lost;
    use crate::controller::tests::{lost, report};

    #[test]
    fn it_says_what_it_was_told() {
        let options = "fixed:rate=5mbit,pace=1".parse().unwrap();
        let decision = Fixed::new(&options, &Setup::default()).unwrap().decision();
        assert_eq!((decision.media, decision.pacing), (Some(Rate::from_mbps(5)), Some(Rate::from_mbps(5))));
        assert_eq!(decision.window, None);
    }

    #[test]
    fn while_there_is_loss_the_encoder_has_the_lossy_rate() {
        let options = "fixed:rate=20mbit,lossy=15mbit,lossy_for=100ms".parse().unwrap();
        let mut fixed = Fixed::new(&options, &Setup::default()).unwrap();
        let lost = [lost(3, 1_200)];
        let media = |fixed: &mut Fixed, ms: u64, lost: &[Lost]| {
            fixed.on_feedback(&Report { now: Time::from_millis(ms), ..report(&[], lost) });
            (fixed.decision().media.unwrap().as_bps() / 1_000_000, fixed.decision().pacing)
        };
        let pacing = Some(Rate::from_mbps(40));
        let course = [(100, true), (150, true), (240, false), (250, false), (260, false)];
        let found = course.map(|(ms, lossy)| media(&mut fixed, ms, if lossy { &lost } else { &[] }));
        assert_eq!(found, [15, 15, 15, 20, 20].map(|mbps| (mbps, pacing)));
    }
}
