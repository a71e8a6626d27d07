//! How fast packets leave, measured while enough of them wait to keep the server busy (RFC 8033 section 5.2).

use units::{Span, Time};

/// How measurements are averaged: each over `threshold` bytes, the newest with `weight`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Averaging {
    /// RFC 8033: the time that `threshold` bytes take.
    Time { weight: f64, threshold: u64 },
    /// Linux: the rate.
    Rate { weight: f64, threshold: u64 },
}

/// An estimate of the departure rate.
#[derive(Clone, Debug)]
pub(super) struct Departures {
    averaging: Averaging,
    /// When the measurement began and how many bytes have left since.
    cycle: Option<(Time, u64)>,
    /// Seconds a byte takes.
    byte_time: Option<f64>,
}

impl Departures {
    pub fn new(averaging: Averaging) -> Departures {
        Departures { averaging, cycle: None, byte_time: None }
    }

    /// Whether there is an estimate.
    pub fn is_known(&self) -> bool {
        self.byte_time.is_some()
    }

    /// How long `bytes` take; zero while that is unknown.
    pub fn time_of(&self, bytes: u64) -> Span {
        Span::from_secs_f64(self.byte_time.map_or(0.0, |time| time * bytes as f64))
    }

    /// A packet of `size` bytes left, and `backlog` bytes still wait.
    pub fn departed(&mut self, now: Time, size: u32, backlog: u64) {
        let (Averaging::Time { threshold, .. } | Averaging::Rate { threshold, .. }) = self.averaging;
        if self.cycle.is_none() && backlog >= threshold {
            self.cycle = Some((now, 0));
        }
        let Some((begun, bytes)) = &mut self.cycle else { return };
        *bytes += u64::from(size);
        if *bytes < threshold || now <= *begun {
            return;
        }
        let measured = (now - *begun).as_secs_f64() / *bytes as f64;
        self.cycle = (backlog >= threshold).then_some((now, 0));
        self.learn(measured);
    }

    fn learn(&mut self, measured: f64) {
        self.byte_time = Some(match (self.byte_time, self.averaging) {
            (None, _) => measured,
            (Some(old), Averaging::Time { weight, .. }) => (1.0 - weight) * old + weight * measured,
            (Some(old), Averaging::Rate { weight, .. }) => ((1.0 - weight) / old + weight / measured).recip(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of 1500 bytes every `micros` for `count` packets, with 30 kB behind each.
    fn run(departures: &mut Departures, from: Time, micros: u64, count: u64) -> Time {
        let at = |k: u64| from + Span::from_micros((k * micros) as i64);
        (1..=count).for_each(|k| departures.departed(at(k), 1500, 30_000));
        at(count)
    }

    #[test]
    fn averages_follow_their_source() {
        for (averaging, expected) in [
            (Averaging::Time { weight: 0.25, threshold: 16_384 }, 0.75 + 0.25 * 2.2),
            (Averaging::Rate { weight: 0.125, threshold: 16_384 }, 1.0 / (0.875 + 0.125 / 2.2)),
        ] {
            let mut departures = Departures::new(averaging);
            assert_eq!(departures.time_of(15_000), Span::ZERO);
            // The packet that opens the first measurement counts, as in the sources: 11 packets in 10 intervals.
            let now = run(&mut departures, Time::ZERO, 1_000, 11);
            let first = departures.time_of(16_500).as_secs_f64();
            assert!((first - 0.010).abs() < 1e-9, "{first}");
            // The second takes 22 ms.
            run(&mut departures, now, 2_000, 11);
            let ratio = departures.time_of(16_500).as_secs_f64() / first;
            assert!((ratio - expected).abs() < 1e-6, "{ratio} {expected}");
        }
    }

    #[test]
    fn nothing_is_measured_while_the_queue_is_short() {
        let mut departures = Departures::new(Averaging::Rate { weight: 0.125, threshold: 10_000 });
        (1..100).for_each(|ms| departures.departed(Time::from_millis(ms), 1500, 9_999));
        assert!(!departures.is_known());
    }
}
