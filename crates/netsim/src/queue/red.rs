//! RED (Floyd and Jacobson 1993): drops at the tail with a probability that rises with the average queue.
//!
//! ```text
//! 1        |                  ____     below min: nothing; min to max: up to p; gentle: on to 1 at 2 max;
//!          |              .'|          p_a = p_b / (1 - count p_b) spreads drops evenly, `count` packets
//! p        |          ..'   |          after the last one
//!          |______..''______|____
//!                min    max  2 max     average queue
//! ```

use record::Dropped;
use units::{Bytes, Span, Time};

use super::droptail::LIMIT_OPTION;
use super::fifo::Fifo;
use super::options::{Options, Threshold};
use super::registry::Built;
use super::{Backlog, Drops, Entry, Limit, Queue, Setup, mark};
use crate::Packet;
use crate::text::TextError;

/// The registry's row.
pub(super) const ENTRY: Entry = Entry {
    name: "red",
    syntax: "red, red:min=30kB,max=90kB,p=10%, red:100p,gentle=off,ecn",
    summary: "RED (Floyd and Jacobson 1993), gentle: drops the more, the longer the average queue",
    options: &[
        LIMIT_OPTION,
        ("min", "average queue above which packets are dropped, in packets or bytes; default 5p"),
        ("max", "average queue at which the probability is p; default 15p"),
        ("p", "probability at max; default 10%"),
        ("weight", "of each new sample in the average; default 0.002"),
        ("gentle", "the probability rises on to 1 at twice max, instead of at once; default on"),
        ("mtu", "size of a full packet; where bytes count, smaller ones are dropped less; default 1500B"),
        ("ecn", "marks ECN-capable packets instead, as long as not all are to be dropped; default off"),
    ],
    build,
};

#[derive(Clone, Copy, Debug)]
struct Parameters {
    limit: Limit,
    min: f64,
    max: f64,
    /// The queue is measured in bytes, not packets.
    bytes: bool,
    probability: f64,
    weight: f64,
    gentle: bool,
    mtu: u32,
    ecn: bool,
}

fn build(options: &Options<'_>, setup: &Setup) -> Built {
    // Floyd and Jacobson 1993, section 5 (min 5, weight 0.002, max at least twice min); Floyd's later advice
    // (1997) of three times min, 10% and gentle.
    let min = options.threshold("min", Threshold::Packets(5))?;
    let max = options.threshold("max", Threshold::Packets(15))?;
    let (bytes, min, max) = match (min, max) {
        (Threshold::Packets(min), Threshold::Packets(max)) if min < max => (false, min, max),
        (Threshold::Bytes(min), Threshold::Bytes(max)) if min < max => (true, min, max),
        _ => {
            let accepted = "both in packets or both in bytes, min below max: min=5p,max=15p";
            return Err(TextError::new("red", "a pair of thresholds", accepted));
        }
    };
    let parameters = Parameters {
        limit: options.limit(setup.reference, Limit::packets(1_000))?,
        min: min as f64,
        max: max as f64,
        bytes,
        probability: options.probability("p", 0.1)?,
        weight: options.number("weight", 0.002, 1e-9..=1.0)?,
        gentle: options.switch("gentle", true)?,
        mtu: options.size("mtu", 1500)?,
        ecn: options.switch("ecn", false)?,
    };
    // While idle the average falls as if full packets had passed at the link's rate.
    let slot = setup.reference.time_to_send(Bytes::new(parameters.mtu.into()));
    let mut rng = setup.rng();
    Ok(Box::new(Red::new(parameters, slot, move || rng.uniform())))
}

/// What becomes of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    /// Dropped or marked.
    Hit,
    /// Dropped whatever its ECN bits.
    Drop,
}

/// The queue; `Draw` gives uniform numbers in `[0, 1)`.
#[derive(Clone)]
struct Red<Draw> {
    parameters: Parameters,
    /// Time a full packet takes.
    slot: Span,
    draw: Draw,
    packets: Fifo,
    average: f64,
    /// Packets since the last drop; `None` while the average is low.
    count: Option<u32>,
    idle_since: Option<Time>,
}

impl<Draw: FnMut() -> f64> Red<Draw> {
    fn new(parameters: Parameters, slot: Span, draw: Draw) -> Red<Draw> {
        let idle_since = Some(Time::ZERO);
        Red { parameters, slot, draw, packets: Fifo::default(), average: 0.0, count: None, idle_since }
    }

    fn learn(&mut self, now: Time) {
        let weight = self.parameters.weight;
        if let Some(since) = self.idle_since.take() {
            let slots = (now - since).as_secs_f64() / self.slot.as_secs_f64().max(1e-9);
            self.average *= (1.0 - weight).powf(slots);
            return;
        }
        let Backlog { packets, bytes } = self.packets.backlog();
        let queue = if self.parameters.bytes { bytes as f64 } else { f64::from(packets) };
        self.average += weight * (queue - self.average);
    }

    /// The probability of a full packet if drops were not spread; `None` for certainty.
    fn base(&self) -> Option<f64> {
        let Parameters { min, max, probability, gentle, .. } = self.parameters;
        if self.average < max {
            Some(probability * (self.average - min) / (max - min))
        } else if gentle && self.average < 2.0 * max {
            Some(probability + (1.0 - probability) * (self.average - max) / max)
        } else {
            None
        }
    }

    fn judge(&mut self, size: u32) -> Fate {
        if self.average < self.parameters.min {
            self.count = None;
            return Fate::Pass;
        }
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        let Some(base) = self.base() else {
            self.count = Some(0);
            return Fate::Drop;
        };
        let share =
            if self.parameters.bytes { f64::from(size) / f64::from(self.parameters.mtu) } else { 1.0 };
        let base = base * share;
        let passed = 1.0 - f64::from(count) * base;
        let hit = base > 0.0 && (base >= passed || (self.draw)() < base / passed);
        self.count = Some(if hit { 0 } else { count });
        if hit { Fate::Hit } else { Fate::Pass }
    }
}

impl<Draw: FnMut() -> f64 + Send + Clone + 'static> Queue for Red<Draw> {
    fn enqueue(&mut self, now: Time, mut packet: Packet, _drops: &mut Drops) -> Result<(), Dropped> {
        self.learn(now);
        let hit = match self.judge(packet.size) {
            Fate::Pass => false,
            Fate::Hit => !(self.parameters.ecn && mark(&mut packet)),
            Fate::Drop => true,
        };
        let refused = if hit {
            Some(Dropped::QueuePolicy)
        } else if self.parameters.limit.admits(self.packets.backlog(), packet.size) {
            None
        } else {
            self.count = self.count.map(|_| 0);
            Some(Dropped::QueueFull)
        };
        if let Some(cause) = refused {
            if self.packets.is_empty() {
                self.idle_since = Some(now);
            }
            return Err(cause);
        }
        self.packets.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops) -> Option<Packet> {
        let packet = self.packets.pop();
        if self.packets.is_empty() {
            self.idle_since.get_or_insert(now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::{every_millisecond, serve};
    use units::{Ecn, Rng};

    const PARAMETERS: Parameters = Parameters {
        limit: Limit::NONE,
        min: 5.0,
        max: 15.0,
        bytes: false,
        probability: 0.1,
        weight: 0.002,
        gentle: true,
        mtu: 1500,
        ecn: false,
    };

    fn red(parameters: Parameters) -> Red<impl FnMut() -> f64 + Send + Clone> {
        let mut rng = Rng::stream(1, "link/queue");
        Red::new(parameters, Span::from_millis(1), move || rng.uniform())
    }

    #[test]
    fn the_average_follows_the_queue_and_falls_while_idle() {
        let mut red = red(PARAMETERS);
        let drops = &mut Drops::new();
        for id in 0..20 {
            red.enqueue(Time::ZERO, Packet { id, ..Packet::bare(0, 1500, Time::ZERO) }, drops).unwrap();
        }
        // Arrival n found n - 1 packets: the sum of 0.002 k 0.998^(19 - k).
        let expected: f64 = (0..20).map(|k| 0.002 * f64::from(k) * 0.998f64.powi(19 - k)).sum();
        assert!((red.average - expected).abs() < 1e-12, "{} {expected}", red.average);
        while red.dequeue(Time::from_millis(5), drops).is_some() {}
        red.learn(Time::from_millis(105));
        assert!((red.average - expected * 0.998f64.powi(100)).abs() < 1e-12);
    }

    #[test]
    fn probability_by_average() {
        let mut red = red(PARAMETERS);
        let mut base = |average| {
            red.average = average;
            red.base().map(|p| (p * 1e6).round() / 1e6)
        };
        let at = [5.0, 10.0, 15.0, 22.5, 29.999_999, 30.0].map(&mut base);
        assert_eq!(at, [Some(0.0), Some(0.05), Some(0.1), Some(0.55), Some(1.0), None]);
        red.parameters.gentle = false;
        red.average = 15.0;
        assert_eq!(red.base(), None);
    }

    #[test]
    fn drops_are_spread_evenly() {
        let mut red = red(PARAMETERS);
        red.average = 10.0;
        // p_b = 1/20: gaps are uniform over 1 to 19 packets, because the paper's algorithm counts a drop as a
        // packet passed.
        let mut gaps = vec![];
        let mut since = 0;
        red.count = Some(0);
        for _ in 0..200_000 {
            since += 1;
            if red.judge(1500) == Fate::Hit {
                gaps.push(since);
                since = 0;
            }
        }
        assert!(gaps.iter().all(|gap| (1..=19).contains(gap)));
        let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn smaller_packets_suffer_less_where_bytes_count() {
        let hits = |size| {
            let mut red = red(Parameters { bytes: true, min: 5e3, max: 15e3, ..PARAMETERS });
            red.average = 10e3;
            (0..100_000).filter(|_| red.judge(size) == Fate::Hit).count()
        };
        let ratio = hits(1500) as f64 / hits(300) as f64;
        assert!((4.5..5.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn capable_packets_are_marked_until_all_would_be() {
        let capable = |packet: Packet| Packet { ecn: Ecn::Ect0, ..packet };
        let mut red = red(Parameters { ecn: true, ..PARAMETERS });
        let outcome = serve(&mut red, every_millisecond(20_000).map(capable), Span::from_micros(1_250));
        let marked = outcome.out.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).count();
        assert!(marked > 30 && !outcome.drops.is_empty(), "{marked} {}", outcome.drops.len());
        let (_, first_mark) = outcome.out.iter().find(|(_, packet)| packet.ecn == Ecn::Ce).unwrap();
        let (_, first_drop) = outcome.drops[0];
        assert!(first_mark.id < first_drop);
    }
}
