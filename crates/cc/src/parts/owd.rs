//! How much of a one-way delay is waiting.

use units::{RelativeDelay, Span, Time};

use super::Extremum;

/// The sliding minimum of one-way delays, which stands for the empty path. Clock offset cancels; drift is
/// forgotten with the window.
#[derive(Clone, Debug)]
pub struct OwdBase {
    least: Extremum<Time, RelativeDelay>,
    window: Span,
}

impl OwdBase {
    /// A base over the last `window`.
    pub fn new(window: Span) -> OwdBase {
        OwdBase { least: Extremum::min(), window }
    }

    /// Takes the delay of a packet heard of at `now`; returns how much of it is above the smallest: the
    /// queuing delay.
    pub fn queuing(&mut self, now: Time, delay: RelativeDelay) -> Span {
        self.queuing_since(now.saturating_sub(self.window), now, delay)
    }

    /// As [`queuing`](OwdBase::queuing), above the smallest delay since `oldest`, which must not go
    /// backwards.
    pub fn queuing_since(&mut self, oldest: Time, now: Time, delay: RelativeDelay) -> Span {
        self.least.insert(now, delay, oldest);
        self.least.get().map_or(Span::ZERO, |least| (delay - least).max(Span::ZERO))
    }

    /// The smallest delay in the window.
    pub fn get(&self) -> Option<RelativeDelay> {
        self.least.get()
    }

    /// Starts over, as after a change of path.
    pub fn clear(&mut self) {
        self.least.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_above_the_smallest_is_queuing() {
        // One-way delays of 20, 22, 25, 19, 40 ms give 0, 2, 5, 0, 21.
        let mut base = OwdBase::new(Span::from_secs(10));
        let queuing: Vec<_> = [20, 22, 25, 19, 40]
            .iter()
            .enumerate()
            .map(|(n, &ms)| {
                let sent = Time::from_millis(n as u64 * 10);
                let delay = (sent + Span::from_millis(ms)).on_wire().delay_since(sent);
                base.queuing(sent + Span::from_millis(50), delay)
            })
            .collect();
        assert_eq!(queuing, [0, 2, 5, 0, 21].map(Span::from_millis));
    }
}
