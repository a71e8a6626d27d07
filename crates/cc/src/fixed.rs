//! A constant rate: no congestion control at all. The yardstick that shows what the others are for.

use units::Rate;

use crate::{Controller, Decision, Entry, Options, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "fixed",
    summary: "a constant rate, whatever happens",
    needs_frames: false,
    options: &[
        ("rate", "media rate, such as 5mbit (default: the session's initial rate)"),
        ("pace", "frames leave at this multiple of the rate, 1 to 16 (default 2, as SQP's)"),
    ],
    page: include_str!("fixed.md"),
    build: |options, setup| Ok(Box::new(Fixed::new(options, setup)?)),
    receiver: None,
};

/// Sends at one rate.
#[derive(Clone, Debug)]
pub struct Fixed {
    rate: Rate,
    pace: f64,
}

impl Fixed {
    fn new(options: &Options, setup: &Setup) -> Result<Fixed, crate::OptionError> {
        let rate: Rate = options.quantity("rate", setup.initial, "a rate such as 5mbit")?;
        Ok(Fixed { rate: rate.max(Rate::from_bps(1)), pace: options.number("pace", 2.0, 1.0..=16.0)? })
    }
}

impl Controller for Fixed {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_feedback(&mut self, _: &Report<'_>) {}
    fn decision(&self) -> Decision {
        Decision { pacing: Some(self.rate.mul_f64(self.pace)), media: Some(self.rate), ..Decision::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_was_told() {
        let options = "fixed:rate=5mbit,pace=1".parse().unwrap();
        let decision = Fixed::new(&options, &Setup::default()).unwrap().decision();
        assert_eq!((decision.media, decision.pacing), (Some(Rate::from_mbps(5)), Some(Rate::from_mbps(5))));
        assert_eq!(decision.window, None);
    }
}
