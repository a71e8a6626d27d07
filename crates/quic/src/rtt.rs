//! Round trips, as RFC 9002 section 5 estimates them, from what quinn tells a controller.

use transport::RoundTrips;
use units::Span;

/// RFC 9002 section 6.2.2: before any sample.
const INITIAL: Span = Span::from_millis(333);

/// No round trip is told to a controller as shorter: RFC 9002's kGranularity (section 6.1.2), which is
/// tokio's timer too. Between processes of one host a round trip is 50 us, and what their threads' turns add
/// to it is as long as a queue of many packets: a controller that keeps a few packets in the queue (Copa,
/// Vegas) took that for congestion.
///
/// Deviation: RFC 9002 uses it for timers only.
const GRANULARITY: Span = Span::from_millis(1);

/// The estimate, and sums over all samples.
///
/// Deviation: quinn does not tell how long the peer held an acknowledgement back, so nothing is taken off a
/// sample (its own estimate takes that off; but the one it shows a controller is that before the
/// acknowledgement at hand).
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    told: transport::Rtt,
    /// Of samples as they are.
    least: Span,
    count: u64,
    sum_ms: f64,
    squares: f64,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt {
            told: transport::Rtt::starting_at(INITIAL),
            least: INITIAL,
            count: 0,
            sum_ms: 0.0,
            squares: 0.0,
        }
    }
}

impl Rtt {
    /// Adds a round-trip sample.
    pub fn sample(&mut self, sample: Span) {
        let ms = sample.as_millis_f64();
        self.count += 1;
        self.sum_ms += ms;
        self.squares += ms * ms;
        self.least = if self.count == 1 { sample } else { self.least.min(sample) };
        self.told.sample(told(sample), Span::ZERO);
    }

    /// What a report says of it; `sample`: the sample it gave, if it did.
    pub fn told(&self, sample: Option<Span>) -> RoundTrips {
        RoundTrips { latest: sample.map(told), ..self.told.told(false) }
    }

    /// The shortest sample as it was.
    pub fn least(&self) -> Span {
        self.least
    }

    /// True once there was a sample.
    pub fn is_known(&self) -> bool {
        self.count > 0
    }

    /// Smoothed round-trip time.
    pub fn smoothed(&self) -> Span {
        self.told.smoothed()
    }

    /// Mean and standard deviation of all samples, in ms; none before the first.
    pub fn mean_and_std_ms(&self) -> Option<(f64, f64)> {
        let n = self.count as f64;
        let mean = self.sum_ms / n;
        (self.count > 0).then(|| (mean, (self.squares / n - mean * mean).max(0.0).sqrt()))
    }
}

/// A sample as a controller is told it.
pub fn told(sample: Span) -> Span {
    sample.max(GRANULARITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_smoothed_and_summed() {
        let mut rtt = Rtt::default();
        assert_eq!((rtt.smoothed(), rtt.mean_and_std_ms()), (Span::from_millis(333), None));
        rtt.sample(Span::from_millis(40));
        assert_eq!(
            (rtt.smoothed(), rtt.told(None).variation),
            (Span::from_millis(40), Span::from_millis(20))
        );
        rtt.sample(Span::from_millis(56));
        assert_eq!(
            (rtt.smoothed(), rtt.told(None).variation),
            (Span::from_millis(42), Span::from_millis(19))
        );
        assert_eq!((rtt.told(None).min, rtt.mean_and_std_ms()), (Span::from_millis(40), Some((48.0, 8.0))));
    }
}
