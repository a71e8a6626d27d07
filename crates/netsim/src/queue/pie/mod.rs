//! PIE (RFC 8033): drops at the tail with a probability that a controller of the queuing delay sets.
//!
//! ```text
//! every update:  queuing delay --> Control --> probability          (the delay: of the last departure, or
//! every arrival: probability --> drop, mark or accept                backlog / departure rate)
//! ```
//!
//! `pie-linux-old` follows `net/sched/sch_pie.c` of Linux 3.14 to 4.x. Its departure rate is measured only
//! while 10 000 bytes wait, in units of 61 kB/s ([`departures`]), and only that time uses up the burst
//! allowance: a queue that never holds 10 000 bytes (80 ms at 1 Mbit/s) never loses a packet to it.
//!
//! Deviation: the kernel's gains in whole numbers are up to 7 % smaller than the formula's (4 for 4.3 below a
//! probability of 1 %); its decay of a probability above 1 % without delay overflows 32 bits, which throws it
//! below 1 %; its timer runs in jiffies (32 ms for 30 where HZ is 250), half a second after it was set up.
//! Neither is modelled.

mod control;
mod departures;

use record::Dropped;
use units::{Span, Time};

use super::droptail::LIMIT_OPTION;
use super::fifo::Fifo;
use super::options::Options;
use super::registry::Built;
use super::{Backlog, Drops, Entry, Limit, Queue, Setup, mark};
use crate::Packet;

use control::Control;
pub use control::Parameters;
use departures::{Average, Departures};

const OPTIONS: &[(&str, &str)] = &[
    LIMIT_OPTION,
    ("target", "queuing delay to steer to"),
    ("tupdate", "how often the probability is updated"),
    ("burst", "how long a burst passes untouched; may be 0ms"),
    ("alpha", "weight of the delay's distance from the target, per second"),
    ("beta", "weight of the delay's change, per second"),
    ("estimate", "where the delay comes from: timestamps of packets, or departure rate"),
    ("derandomise", "spreads drops evenly: none too soon after the last, none too late"),
    ("bytemode", "smaller packets are dropped less"),
    ("mtu", "size of a full packet; up to two never suffer; default 1500B"),
    ("ecn", "marks ECN-capable packets instead of dropping them while the probability is at most 10%"),
];

/// The registry's row.
pub(super) const RFC8033: Entry = Entry {
    name: "pie",
    syntax: "pie, pie:target=20ms,ecn, pie:300kB,estimate=rate,derandomise",
    summary: "PIE (RFC 8033): drops at the tail with a probability that follows the delay; 15 ms, timestamps",
    options: OPTIONS,
    build: |options, setup| build(options, setup, &RFC8033_PRESET),
};

/// Linux since 5.5.
pub(super) const LINUX: Entry = Entry {
    name: "pie-linux",
    syntax: "pie-linux",
    summary: "PIE as in Linux since 5.5: derandomised, gentler decay, faster rise above 250 ms",
    options: OPTIONS,
    build: |options, setup| build(options, setup, &LINUX_PRESET),
};

/// Linux 3.14 to 4.x, which the paper on GCC and AQM measured.
pub(super) const LINUX_OLD: Entry = Entry {
    name: "pie-linux-old",
    syntax: "pie-linux-old",
    summary: "PIE as in Linux 3.14 to 4.x: 20 ms every 30 ms, delay from a departure rate in units of 61 kB/s, 100 ms bursts while that is measured",
    options: OPTIONS,
    build: |options, setup| build(options, setup, &LINUX_OLD_PRESET),
};

/// Linux (`sch_pie.c`): rates of 2^14 bytes in whole units ...
const LINUX_RATE: Departures = Departures::new(Average::Units(0), 16_384);
/// ... and of 10 000 in the kernels of [`LINUX_OLD`].
const LINUX_OLD_RATE: Departures = Departures::new(Average::Units(0), 10_000);
/// RFC 8033 appendix B: a quarter of each new time of 2^14 bytes.
const RFC_RATE: Departures = Departures::new(Average::Time { weight: 0.25, per_byte: None }, 16_384);

/// A probability and how it is used.
#[derive(Clone, Copy, Debug)]
struct Preset {
    parameters: Parameters,
    limit: Limit,
    /// The delay comes from the departure rate.
    departures: bool,
    /// The departure rate before anything has been measured.
    fresh: Departures,
    derandomise: bool,
    bytemode: bool,
    ecn: bool,
    mtu: u32,
    /// Linux: small delays are judged by the last packet's, not by the last update's.
    latest: bool,
}

impl Preset {
    /// Linux (`pie_process_dequeue`): the burst allowance is spent by the time that measurements of the
    /// departure rate take, when each has ended, and not by the clock.
    ///
    /// Deviation: Linux with timestamps takes the time between departures; here it is the clock's, as in the
    /// RFC.
    fn bursts_while_measuring(&self) -> bool {
        self.parameters.linux && self.departures
    }
}

const RFC8033_PRESET: Preset = Preset {
    parameters: control::RFC8033,
    // Linux's default (`sch_pie.c`); RFC 8033 leaves the limit open.
    limit: Limit { packets: 1_000, bytes: u64::MAX },
    departures: false,
    fresh: RFC_RATE,
    derandomise: false,
    bytemode: false,
    ecn: false,
    mtu: 1500,
    latest: false,
};

const LINUX_PRESET: Preset = Preset {
    parameters: control::LINUX,
    fresh: LINUX_RATE,
    derandomise: true,
    latest: true,
    ..RFC8033_PRESET
};

const LINUX_OLD_PRESET: Preset =
    Preset { parameters: control::LINUX_OLD, departures: true, fresh: LINUX_OLD_RATE, ..RFC8033_PRESET };

fn build(options: &Options<'_>, setup: &Setup, preset: &Preset) -> Built {
    let default = preset.parameters;
    let parameters = Parameters {
        target: options.time("target", default.target)?,
        update: options.time("tupdate", default.update)?,
        burst: options.time_or_zero("burst", default.burst)?,
        alpha: options.number("alpha", default.alpha, 0.0..=1e6)?,
        beta: options.number("beta", default.beta, 0.0..=1e6)?,
        ..default
    };
    let estimates = [("timestamps", false), ("rate", true)];
    let preset = Preset {
        parameters,
        limit: options.limit(setup.reference, preset.limit)?,
        departures: options.choice("estimate", preset.departures, &estimates)?,
        derandomise: options.switch("derandomise", preset.derandomise)?,
        bytemode: options.switch("bytemode", preset.bytemode)?,
        mtu: options.size("mtu", preset.mtu)?,
        ecn: options.switch("ecn", preset.ecn)?,
        ..*preset
    };
    let mut rng = setup.rng();
    Ok(Box::new(Pie::new(preset, move || rng.uniform())))
}

/// RFC 8033 section 4.1: below half the target and this probability nothing is dropped.
const HARMLESS: f64 = 0.2;
/// RFC 8033 section 5.1: above this probability even ECN-capable packets are dropped.
const MARKS_UP_TO: f64 = 0.1;
/// RFC 8033 section 5.4: no drop before this much probability has added up since the last ...
const TOO_SOON: f64 = 0.85;
/// ... and always one at this much.
const TOO_LATE: f64 = 8.5;

/// A queue under PIE's control; `Draw` gives uniform numbers in `[0, 1)`.
#[derive(Clone)]
struct Pie<Draw> {
    preset: Preset,
    draw: Draw,
    packets: Fifo,
    control: Control,
    next_update: Time,
    /// Sojourn of the last packet that left; zero if it left nothing behind.
    last_sojourn: Span,
    departures: Departures,
    accumulated: f64,
}

impl<Draw: FnMut() -> f64> Pie<Draw> {
    fn new(preset: Preset, draw: Draw) -> Pie<Draw> {
        Pie {
            draw,
            packets: Fifo::default(),
            control: Control::new(&preset.parameters),
            next_update: Time::ZERO + preset.parameters.update,
            last_sojourn: Span::ZERO,
            departures: preset.fresh,
            accumulated: 0.0,
            preset,
        }
    }

    /// Makes all updates that are due.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let (before, at) = (self.control, self.next_update);
            self.update();
            self.next_update = at + self.preset.parameters.update;
            if self.control == before && self.next_update <= now {
                // Nothing changes any more until a packet comes or goes: the rest would all be the same.
                let period = self.preset.parameters.update;
                let periods = (now - at).as_nanos() / period.as_nanos();
                self.next_update = at + period * (periods + 1);
            }
        }
    }

    fn update(&mut self) {
        let waiting = !self.packets.is_empty();
        let rested = self.control.update(&self.preset.parameters, self.delay(), waiting);
        if rested && self.departures.is_known() {
            self.departures = self.preset.fresh;
        }
        if !rested && !self.preset.bursts_while_measuring() {
            self.control.spend(self.preset.parameters.update);
        }
    }

    fn delay(&self) -> Span {
        if self.preset.departures { self.departures.time_of(self.packets.bytes()) } else { self.last_sojourn }
    }

    /// Whether the arriving packet is to be dropped or marked.
    fn hits(&mut self, size: u32) -> bool {
        let Preset { parameters, departures, latest, mtu, .. } = self.preset;
        let Control { probability, burst, .. } = self.control;
        let delay = if latest && !departures { self.last_sojourn } else { self.control.delay };
        // Linux lets two full packets suffer, the RFC does not.
        let spared = 2 * u64::from(mtu) + u64::from(!parameters.linux);
        if burst.is_positive()
            || (delay < parameters.target / 2 && probability < HARMLESS)
            || self.packets.bytes() < spared
        {
            return false;
        }
        let share = if self.preset.bytemode { f64::from(size) / f64::from(mtu) } else { 1.0 };
        let probability = (probability * share).min(1.0);
        if self.preset.derandomise {
            self.accumulated = if probability == 0.0 { 0.0 } else { self.accumulated + probability };
            if self.accumulated < TOO_SOON || self.accumulated >= TOO_LATE {
                return self.accumulated >= TOO_LATE;
            }
        }
        probability > 0.0 && (probability >= 1.0 || (self.draw)() < probability)
    }
}

impl<Draw: FnMut() -> f64 + Send + Clone + 'static> Queue for Pie<Draw> {
    fn enqueue(&mut self, now: Time, mut packet: Packet, _drops: &mut Drops) -> Result<(), Dropped> {
        self.catch_up(now);
        if !self.preset.limit.admits(self.packets.backlog(), packet.size) {
            self.accumulated = 0.0;
            return Err(Dropped::QueueFull);
        }
        if self.hits(packet.size) {
            self.accumulated = 0.0;
            let may_mark = self.preset.ecn && self.control.probability <= MARKS_UP_TO;
            if !(may_mark && mark(&mut packet)) {
                return Err(Dropped::QueuePolicy);
            }
        }
        self.packets.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops) -> Option<Packet> {
        self.catch_up(now);
        let packet = self.packets.pop()?;
        self.last_sojourn = if self.packets.is_empty() { Span::ZERO } else { now - packet.entered };
        if self.preset.departures {
            let took = self.departures.departed(now, packet.size, self.packets.bytes());
            if let Some(took) = took.filter(|_| self.preset.bursts_while_measuring()) {
                self.control.spend(took);
            }
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests;
