//! What the network took of late.

use std::collections::VecDeque;

/// Seconds over which the mean is taken: those of a plan's budget (thesis section 3.6.3).
const MEAN: f64 = 1.0;

/// The network's rate over the last second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    /// Time in seconds, and bytes a second.
    rates: VecDeque<(f64, f64)>,
    /// When it last took anything.
    took: Option<f64>,
}

impl Network {
    /// At `now`, in seconds, it takes `rate` bytes a second.
    pub fn takes(&mut self, now: f64, rate: f64) {
        self.rates.push_back((now, rate));
        while self.rates.front().is_some_and(|&(at, _)| at < now - MEAN) {
            self.rates.pop_front();
        }
        if rate > 0.0 {
            self.took = Some(now);
        }
    }

    /// Bytes a second on average, 0 before the first rate.
    pub fn mean(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| rate).sum::<f64>() / self.rates.len().max(1) as f64
    }

    /// Seconds that it has taken nothing for, without end if it never took anything.
    pub fn pause(&self, now: f64) -> f64 {
        self.took.map_or(f64::INFINITY, |at| now - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_a_second_and_a_pause_begins_with_the_last_byte() {
        let mut network = Network::default();
        assert_eq!((network.mean(), network.pause(3.0)), (0.0, f64::INFINITY));
        network.takes(0.0, 900.0);
        network.takes(0.5, 300.0);
        network.takes(1.0, 0.0);
        assert_eq!((network.mean(), network.pause(1.25)), (400.0, 0.75));
        network.takes(1.5, 0.0);
        assert_eq!(
            (network.mean(), network.pause(1.5)),
            (100.0, 1.0),
            "what was before the last second is forgotten"
        );
    }
}
