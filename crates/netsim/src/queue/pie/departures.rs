//! How fast packets leave, measured while enough of them wait to keep the server busy (RFC 8033 section 5.2).

use units::{Span, Time};

/// What a measurement tells, averaged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Average {
    /// RFC 8033: the time that a byte takes, in seconds; the newest measurement has `weight`.
    Time { weight: f64, per_byte: Option<f64> },
    /// Linux: the rate in whole [`UNITS`] bytes a tick; none until it is one at least.
    Units(u64),
}

/// Linux (`PIE_SCALE`): the rate counts 1/256 bytes a tick, which are 61 kB/s.
const UNITS: u64 = 256;
/// Linux (`PSCHED_SHIFT`): a tick of its packet schedulers is 2^6 ns.
const TICK: Span = Span::from_nanos(64);

impl Average {
    fn learn(&mut self, bytes: u64, took: Span) {
        match self {
            Average::Time { weight, per_byte } => {
                let measured = took.as_secs_f64() / bytes as f64;
                let old = per_byte.unwrap_or(measured);
                *per_byte = Some((1.0 - *weight) * old + *weight * measured);
            }
            Average::Units(rate) => {
                let measured = bytes * UNITS / (took.as_nanos() / TICK.as_nanos()).max(1) as u64;
                // An eighth of either, rounded down: the average stays where both have the same.
                *rate = if *rate == 0 { measured } else { *rate - *rate / 8 + measured / 8 };
            }
        }
    }

    /// How long `bytes` take, if that is known.
    fn time_of(&self, bytes: u64) -> Option<Span> {
        match *self {
            Average::Time { per_byte, .. } => per_byte.map(|time| Span::from_secs_f64(time * bytes as f64)),
            Average::Units(rate) => (bytes * UNITS).checked_div(rate).map(|ticks| TICK * ticks as i64),
        }
    }
}

/// An estimate of the departure rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departures {
    average: Average,
    /// A measurement begins while so many bytes wait, and ends after so many have left.
    threshold: u64,
    /// When the measurement began and how many bytes have left since.
    cycle: Option<(Time, u64)>,
}

impl Departures {
    /// Nothing is known yet.
    pub const fn new(average: Average, threshold: u64) -> Departures {
        Departures { average, threshold, cycle: None }
    }

    /// Whether there is an estimate.
    pub fn is_known(&self) -> bool {
        self.average.time_of(0).is_some()
    }

    /// How long `bytes` take; zero while that is unknown.
    pub fn time_of(&self, bytes: u64) -> Span {
        self.average.time_of(bytes).unwrap_or(Span::ZERO)
    }

    /// A packet of `size` bytes left, and `backlog` bytes still wait. If that ended a measurement: how long
    /// it took.
    pub fn departed(&mut self, now: Time, size: u32, backlog: u64) -> Option<Span> {
        if self.cycle.is_none() && backlog >= self.threshold {
            self.cycle = Some((now, 0));
        }
        let (begun, bytes) = self.cycle.as_mut()?;
        *bytes += u64::from(size);
        if *bytes < self.threshold || now <= *begun {
            return None;
        }
        let (bytes, took) = (*bytes, now - *begun);
        self.cycle = (backlog >= self.threshold).then_some((now, 0));
        self.average.learn(bytes, took);
        Some(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RFC8033: Departures = Departures::new(Average::Time { weight: 0.25, per_byte: None }, 16_384);
    const LINUX: Departures = Departures::new(Average::Units(0), 10_000);

    /// A packet of 1500 bytes every `micros` for `count` packets, with 30 kB behind each; the measurements'
    /// times in us.
    fn run(departures: &mut Departures, from: Time, micros: u64, count: u64) -> (Time, Vec<i64>) {
        let at = |k: u64| from + Span::from_micros((k * micros) as i64);
        let took = (1..=count).filter_map(|k| departures.departed(at(k), 1500, 30_000));
        (at(count), took.map(Span::as_micros).collect())
    }

    #[test]
    fn the_rfc_averages_times() {
        let mut departures = RFC8033;
        assert_eq!(departures.time_of(15_000), Span::ZERO);
        // The packet that opens the first measurement counts, as in the sources: 11 packets in 10 intervals.
        let (now, took) = run(&mut departures, Time::ZERO, 1_000, 11);
        let first = departures.time_of(16_500).as_secs_f64();
        assert!((first - 0.010).abs() < 1e-9, "{first}");
        assert_eq!(took, [10_000]);
        // The second takes 22 ms.
        run(&mut departures, now, 2_000, 11);
        let ratio = departures.time_of(16_500).as_secs_f64() / first;
        assert!((ratio - (0.75 + 0.25 * 2.2)).abs() < 1e-6, "{ratio}");
    }

    fn units(departures: &Departures) -> u64 {
        let Average::Units(units) = departures.average else { panic!("not Linux's") };
        units
    }

    #[test]
    fn linux_keeps_whole_units() {
        // 10 Mbit/s, 1.2 ms a packet: 7 packets of 1500 bytes reach 10 000. The first measurement has them in
        // 6 intervals of 112 500 ticks in all, 10 500 * 256 / 112 500 = 23.9; from then on it is 7 intervals,
        // 20.48. 23 - 2 + 2 stays 23.
        let mut departures = LINUX;
        let (now, took) = run(&mut departures, Time::ZERO, 1_200, 7);
        assert_eq!((units(&departures), took), (23, vec![7_200]));
        run(&mut departures, now, 1_200, 7_000);
        assert_eq!(units(&departures), 23);
        // 30 000 bytes: 30 000 * 256 / 23 = 333 913 ticks of 64 ns (24 ms by the true rate).
        assert_eq!(departures.time_of(30_000), Span::from_nanos(333_913 * 64));
        // 1 Mbit/s, 12 ms a packet: 2.39, so two, and it stays. 15 000 bytes are taken for 122.88 ms instead
        // of 120.
        let mut departures = LINUX;
        run(&mut departures, Time::ZERO, 12_000, 700);
        assert_eq!(units(&departures), 2);
        assert_eq!(departures.time_of(15_000), Span::from_micros(122_880));
        // 100 Mbit/s, 0.12 ms: 238 first, then 238 - 29 + 204/8 and so on, down to where an eighth is 25.
        let mut departures = LINUX;
        let (now, _) = run(&mut departures, Time::ZERO, 120, 7);
        assert_eq!(units(&departures), 238);
        let (now, _) = run(&mut departures, now, 120, 7);
        assert_eq!(units(&departures), 234);
        run(&mut departures, now, 120, 7_000);
        assert_eq!(units(&departures), 207);
    }

    #[test]
    fn linux_knows_no_rate_below_a_unit() {
        // 400 kbit/s are 0.82 units, 0.96 with the packet that opens the measurement.
        let mut departures = LINUX;
        let (_, took) = run(&mut departures, Time::ZERO, 30_000, 14);
        assert_eq!((departures.is_known(), took), (false, vec![180_000, 210_000]));
        assert_eq!(departures.time_of(15_000), Span::ZERO);
    }

    #[test]
    fn nothing_is_measured_while_the_queue_is_short() {
        let mut departures = LINUX;
        let short = |ms| departures.departed(Time::from_millis(ms), 1500, 9_999);
        assert_eq!((1..100).filter_map(short).count(), 0);
        assert!(!departures.is_known());
    }
}
