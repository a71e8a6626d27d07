//! Models of radio links that write Mahimahi traces: what a phone or a laptop might have seen.
//!
//! ```text
//! Cellular, each millisecond (a TTI):
//!     rate = median * exp(fast + slow)        two AR(1) processes: fading (about 1 s) and the load of the cell (seconds)
//!     scheduled with probability `share`, then carrying rate / share; nothing during outages
//!     the block fails with probability `harq_error` and is repeated 8 ms later, up to 3 times; blocks are released in
//!     order, so one repetition holds up all that follows and then lets it go at once
//!
//! Wi-Fi (aggregates of IEEE 802.11n):
//!     channel accesses with gaps max(1 ms, Exp(mean)), the mean longer while neighbours are busy
//!     each delivers at one instant min(64, rate * TXOP / 1504) packets, or nothing if it fails (then at the next access)
//! ```
//!
//! Every 1504 bytes released make one line. The figures are plausible, not measured.

use units::Rng;

use crate::trace::{MahimahiTrace, OPPORTUNITY};

/// Milliseconds between a failed transport block and its repetition (LTE FDD: 8 TTIs, 3GPP TS 36.321 section
/// 5.4.2).
const HARQ_ROUND_TRIP: u32 = 8;
/// Most repetitions of a block; the fourth failure is taken as a success of the layer above.
const HARQ_RETRIES: u32 = 3;

/// A process whose logarithm wanders around zero: `x' = a x + sqrt(1 - a^2) sigma n`, `a = exp(-1 ms / tau)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fading {
    /// Standard deviation of the natural logarithm.
    pub sigma: f64,
    /// Time constant in seconds.
    pub tau_s: f64,
}

/// Times without any service, exponentially far apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outages {
    /// Mean number a minute.
    pub per_minute: f64,
    /// Shortest and longest, in milliseconds; uniformly distributed in between.
    pub millis: (f64, f64),
}

/// An LTE-like downlink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cellular {
    /// Median rate in bit/s.
    pub median_bps: f64,
    /// Fading of the channel.
    pub fading: Fading,
    /// Changing load of the cell.
    pub load: Fading,
    /// Fraction of TTIs in which this user is scheduled.
    pub share: f64,
    /// Probability that a block must be repeated.
    pub harq_error: f64,
    /// Coverage holes and handovers.
    pub outages: Outages,
}

/// A Wi-Fi-like downlink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WiFi {
    /// Median rate of payload during a transmission, in bit/s.
    pub median_bps: f64,
    /// Changes of the modulation and coding scheme.
    pub fading: Fading,
    /// Mean gap between channel accesses in milliseconds while neighbours are quiet, and while they are busy.
    pub gap_ms: (f64, f64),
    /// Mean length of quiet and of busy periods, in seconds.
    pub period_s: (f64, f64),
    /// Probability that a whole aggregate must be repeated.
    pub retry: f64,
}

/// The models whose traces are shipped, by name.
pub const SHIPPED: [&str; 3] = ["lte-walk", "lte-drive", "wifi-home"];

/// One pass of `millis` milliseconds of a shipped model, or `None` if there is none of that name.
pub fn shipped(name: &str, seed: u64, millis: u32) -> Option<MahimahiTrace> {
    let mut rng = Rng::stream(seed, name);
    match name {
        "lte-walk" => Cellular::WALK.trace(&mut rng, millis),
        "lte-drive" => Cellular::DRIVE.trace(&mut rng, millis),
        "wifi-home" => WiFi::HOME.trace(&mut rng, millis),
        _ => None,
    }
}

impl Cellular {
    /// A person walking: slow changes, no outages.
    pub const WALK: Cellular = Cellular {
        median_bps: 14e6,
        fading: Fading { sigma: 0.3, tau_s: 1.0 },
        load: Fading { sigma: 0.25, tau_s: 8.0 },
        share: 0.6,
        harq_error: 0.1,
        outages: Outages { per_minute: 0.0, millis: (0.0, 0.0) },
    };

    /// A car: deep fades, a changing cell, outages between half a second and three.
    pub const DRIVE: Cellular = Cellular {
        median_bps: 10e6,
        fading: Fading { sigma: 0.5, tau_s: 0.8 },
        load: Fading { sigma: 0.45, tau_s: 5.0 },
        share: 0.5,
        harq_error: 0.1,
        outages: Outages { per_minute: 2.0, millis: (500.0, 3_000.0) },
    };

    /// `millis` milliseconds of this link; `None` if it carried nothing in that time.
    pub fn trace(&self, rng: &mut Rng, millis: u32) -> Option<MahimahiTrace> {
        let (mut fading, mut load) = (Wander::new(self.fading, rng), Wander::new(self.load, rng));
        let mut outage = Outage::new(self.outages, rng);
        let mut lines = Lines::default();
        let mut released = 0;
        for now in 0..millis {
            let rate = self.median_bps * (fading.step(rng) + load.step(rng)).exp();
            let scheduled = rng.chance(self.share);
            if outage.covers(f64::from(now), rng) || !scheduled {
                continue;
            }
            released = released.max(now + HARQ_ROUND_TRIP * self.repetitions(rng));
            lines.release(released, rate / self.share / 8e3);
        }
        lines.finish(millis)
    }

    fn repetitions(&self, rng: &mut Rng) -> u32 {
        (0..HARQ_RETRIES).take_while(|_| rng.chance(self.harq_error)).count() as u32
    }
}

impl WiFi {
    /// A flat with neighbours.
    pub const HOME: WiFi = WiFi {
        median_bps: 40e6,
        fading: Fading { sigma: 0.25, tau_s: 2.0 },
        gap_ms: (7.0, 20.0),
        period_s: (4.0, 1.5),
        retry: 0.03,
    };
    /// Shortest gap between two accesses, in milliseconds.
    const LEAST_GAP_MS: f64 = 1.0;
    /// Longest transmission of one access in seconds (a transmit opportunity of 802.11n: 4 to 5.5 ms).
    const TXOP_S: f64 = 0.004;
    /// Most packets of one aggregate (802.11n block acknowledgements cover 64).
    const MOST_PACKETS: f64 = 64.0;

    /// `millis` milliseconds of this link; `None` if it carried nothing in that time.
    pub fn trace(&self, rng: &mut Rng, millis: u32) -> Option<MahimahiTrace> {
        let mut fading = Wander::new(self.fading, rng);
        let (mut lines, mut stepped) = (Lines::default(), 0);
        let (mut busy, mut changes_at, mut now) = (false, 0.0, 0.0f64);
        loop {
            if now >= changes_at {
                busy = !busy;
                let mean = if busy { self.period_s.1 } else { self.period_s.0 };
                changes_at = now + 1e3 * rng.exponential(mean);
            }
            let mean_gap = if busy { self.gap_ms.1 } else { self.gap_ms.0 };
            now += rng.exponential(mean_gap).max(WiFi::LEAST_GAP_MS);
            if now >= f64::from(millis) {
                return lines.finish(millis);
            }
            while f64::from(stepped) < now {
                fading.step(rng);
                stepped += 1;
            }
            // A failed aggregate is repeated at the next access, which then carries it instead of new
            // packets.
            if !rng.chance(self.retry) {
                let rate = self.median_bps * fading.log.exp();
                let packets = (rate / 8.0 * WiFi::TXOP_S / f64::from(OPPORTUNITY)).min(WiFi::MOST_PACKETS);
                lines.release(now as u32, packets.floor().max(1.0) * f64::from(OPPORTUNITY));
            }
        }
    }
}

/// A running [`Fading`].
struct Wander {
    log: f64,
    keep: f64,
    stir: f64,
}

impl Wander {
    fn new(fading: Fading, rng: &mut Rng) -> Wander {
        let keep = (-1e-3 / fading.tau_s).exp();
        let stir = (1.0 - keep * keep).sqrt() * fading.sigma;
        Wander { log: fading.sigma * rng.normal(), keep, stir }
    }

    fn step(&mut self, rng: &mut Rng) -> f64 {
        self.log = self.keep * self.log + self.stir * rng.normal();
        self.log
    }
}

/// The next outage of running [`Outages`], in milliseconds.
struct Outage {
    law: Outages,
    from: f64,
    to: f64,
}

impl Outage {
    fn new(law: Outages, rng: &mut Rng) -> Outage {
        let mut outage = Outage { law, from: f64::INFINITY, to: 0.0 };
        outage.draw(rng);
        outage
    }

    fn draw(&mut self, rng: &mut Rng) {
        if self.law.per_minute > 0.0 {
            self.from = self.to + rng.exponential(60e3 / self.law.per_minute);
            self.to = self.from + rng.uniform_in(self.law.millis.0, self.law.millis.1);
        }
    }

    fn covers(&mut self, now: f64, rng: &mut Rng) -> bool {
        if now >= self.to && self.from.is_finite() {
            self.draw(rng);
        }
        (self.from..self.to).contains(&now)
    }
}

/// Turns released bytes into opportunities.
#[derive(Default)]
struct Lines {
    millis: Vec<u32>,
    bytes: f64,
}

impl Lines {
    fn release(&mut self, at: u32, bytes: f64) {
        self.bytes += bytes;
        while self.bytes >= f64::from(OPPORTUNITY) {
            self.bytes -= f64::from(OPPORTUNITY);
            self.millis.push(at);
        }
    }

    /// The last line sets the period, so what would come after it moves there.
    fn finish(mut self, millis: u32) -> Option<MahimahiTrace> {
        self.millis.iter_mut().for_each(|at| *at = (*at).min(millis));
        MahimahiTrace::from_millis(self.millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    fn mbps(trace: &MahimahiTrace, from: u32, to: u32) -> f64 {
        let count = trace.millis().iter().filter(|&&at| (from..to).contains(&at)).count();
        count as f64 * 12_032.0 / f64::from(to - from) / 1e3
    }

    #[test]
    fn models_repeat_and_differ_by_seed() {
        for name in SHIPPED {
            assert_eq!(shipped(name, 1, 5_000), shipped(name, 1, 5_000));
            assert_ne!(shipped(name, 1, 5_000), shipped(name, 2, 5_000));
        }
        assert_eq!(shipped("dial-up", 1, 5_000), None);
    }

    #[test]
    fn long_runs_have_the_rates_they_should() {
        // Lognormal mean: median * exp(sigma^2 / 2), both processes together; outages take 2 * 1.75 s a
        // minute.
        for (name, expected) in
            [("lte-walk", 14.0 * 0.07625f64.exp()), ("lte-drive", 10.0 * 0.22625f64.exp() * 0.942)]
        {
            let mean = mbps(&shipped(name, 1, 600_000).unwrap(), 0, 600_000);
            assert!((mean / expected - 1.0).abs() < 0.15, "{name}: {mean} instead of {expected}");
        }
        let mean = mbps(&shipped("wifi-home", 1, 600_000).unwrap(), 0, 600_000);
        assert!((12.0..20.0).contains(&mean), "{mean}");
    }

    #[test]
    fn repetitions_hold_up_what_follows_and_release_it_at_once() {
        let model = Cellular { share: 1.0, fading: Fading { sigma: 0.0, tau_s: 1.0 }, ..Cellular::WALK };
        let trace = model.trace(&mut Rng::stream(1, "harq"), 60_000).unwrap();
        let burst = trace.millis().chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap();
        assert!(trace.longest_gap() >= Span::from_millis(8) && burst >= 8, "{burst}");
        let clean = Cellular { harq_error: 0.0, ..model }.trace(&mut Rng::stream(1, "harq"), 60_000).unwrap();
        assert!(clean.longest_gap() <= Span::from_millis(2), "{:?}", clean.longest_gap());
    }

    #[test]
    fn driving_has_outages_and_wifi_comes_in_bursts() {
        let drive = shipped("lte-drive", 1, 600_000).unwrap();
        assert!((500..4_000).contains(&(drive.longest_gap().as_micros() / 1_000)));
        let wifi = shipped("wifi-home", 1, 60_000).unwrap();
        let bursts: Vec<_> = wifi.millis().chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
        let mean = wifi.millis().len() as f64 / bursts.len() as f64;
        assert!((8.0..24.0).contains(&mean), "{mean}");
    }
}
