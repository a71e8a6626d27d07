//! Every frame the same time after its capture: for those who know their path.

use cc::{OptionError, Options};
use units::{Span, Time};

use super::{Entry, Playout, Ready};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "fixed",
    summary: "each frame a set time after its capture, at once if it is later than that",
    options: &[(
        "delay",
        "from capture to display, less the smallest one-way delay of the last seconds (100ms); up to 60s",
    )],
    build: |options| Ok(Box::new(Fixed::build(options)?)),
};

/// Where none is given: one repair on a path of 60 ms, and a frame's interval at 30 a second.
const DELAY: Span = Span::from_millis(100);
/// More than that is a mistake.
const LONGEST: Span = Span::from_secs(60);

/// Shows every frame a set time after its capture.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// From capture to display, less the smallest one-way delay of the last seconds.
    pub delay: Span,
}

impl Fixed {
    fn build(options: &Options) -> Result<Fixed, OptionError> {
        let expected = "a time from 0ms to 60s, such as 100ms";
        let delay = options.quantity("delay", DELAY, expected)?;
        if delay > LONGEST {
            return Err(options.refuse("delay", expected.to_owned()));
        }
        Ok(Fixed { delay })
    }
}

impl Playout for Fixed {
    fn due(&mut self, frame: &Ready) -> Time {
        (frame.captured_local + self.delay).max(frame.now)
    }

    fn fresh(&self) -> Box<dyn Playout> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playout::Arrival;

    #[test]
    fn a_frame_waits_for_its_time_and_a_late_one_does_not() {
        let mut policy = Fixed { delay: Span::from_millis(50) };
        let mut due = |captured: u64, now: u64| {
            let (captured, now) = (Time::from_millis(captured), Time::from_millis(now));
            let frame = Ready {
                now,
                captured: captured.on_wire(),
                captured_local: captured,
                arrival: Arrival::default(),
            };
            policy.due(&frame)
        };
        assert_eq!(due(100, 110), Time::from_millis(150));
        assert_eq!(due(100, 151), Time::from_millis(151));
    }
}
