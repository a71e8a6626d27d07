//! DualPI2 (RFC 9332): a shallow queue for L4S traffic beside a classic one, coupled so that both get a fair
//! share.
//!
//! ```text
//! ECT(1), CE --> L: marked with max(ramp of its own delay, k p')  --.
//!                                ^ coupled                          scheduler --> link
//! the rest  ---> C: dropped or marked with p'^2 -------------------'
//!
//! every update:  p' += alpha (q - target) + beta (q - q_old),  q = the longer wait of the two heads
//! ```
//!
//! Packets are judged as they leave. When k p' reaches 1 the queue is overloaded: both queues then drop with
//! p'^2, whatever the ECN bits say (appendix A.2; the core of appendix A.1 takes q from C alone and has no
//! overload).
//!
//! Deviation: decisions are random as in Linux, where appendix A spreads them evenly (`recur`).

use record::Dropped;
use units::{Ecn, Span, Time};

use super::droptail::LIMIT_OPTION;
use super::fifo::Fifo;
use super::options::Options;
use super::registry::Built;
use super::{Backlog, Drops, Entry, Limit, Queue, Setup, mark};
use crate::Packet;
use crate::text::TextError;

const OPTIONS: &[(&str, &str)] = &[
    LIMIT_OPTION,
    ("target", "classic queuing delay to steer to; default 15ms"),
    ("tupdate", "how often the probability is updated"),
    ("alpha", "weight of the delay's distance from the target, per second"),
    ("beta", "weight of the delay's change, per second"),
    ("coupling", "k: how much likelier L4S packets are marked than the base probability says; default 2"),
    ("threshold", "delay from which L4S packets are marked by themselves"),
    ("range", "delay above the threshold at which all are; 0ms for a step"),
    ("shift", "how much longer than an L4S packet a classic one may wait before it goes first; or:"),
    ("weight", "of 100 bytes sent while both queues wait, how many are classic; L4S goes first otherwise"),
];

/// The registry's row.
pub(super) const RFC9332: Entry = Entry {
    name: "dualpi2",
    syntax: "dualpi2, dualpi2:target=20ms,300kB",
    summary: "DualPI2 (RFC 9332): a queue for L4S packets coupled to a classic one; ramp, time-shifted scheduler",
    options: OPTIONS,
    build: |options, setup| {
        build(options, setup, &RFC9332_PARAMETERS, Limit::time(RFC_LIMIT, setup.reference))
    },
};

/// Linux since 6.17.
pub(super) const LINUX: Entry = Entry {
    name: "dualpi2-linux",
    syntax: "dualpi2-linux",
    summary: "DualPI2 as in Linux: a step at 1 ms, 16 ms updates, weights 90 to 10",
    options: OPTIONS,
    build: |options, setup| build(options, setup, &LINUX_PARAMETERS, Limit::packets(10_000)),
};

/// RFC 9332 appendix A.1: 250 ms at the link's rate.
const RFC_LIMIT: Span = Span::from_millis(250);

#[derive(Clone, Copy, Debug)]
struct Parameters {
    target: Span,
    update: Span,
    alpha: f64,
    beta: f64,
    coupling: f64,
    threshold: Span,
    range: Span,
    /// The ramp is for queues: a packet that leaves none behind it is not marked.
    spares_last: bool,
    /// While no more bytes than this are left, the coupled controller does nothing.
    spares: u64,
    scheduler: Scheduler,
}

#[derive(Clone, Copy, Debug)]
enum Scheduler {
    /// First in, first out, with L4S packets ahead by this much.
    Shifted(Span),
    /// L4S first, but of 100 bytes this many for the classic queue while both wait.
    Weighted(i64),
}

/// RFC 9332 appendix A.1, with a largest round trip of 100 ms: alpha = 0.1 Tupdate / RTT^2, beta = 0.3 / RTT.
const RFC9332_PARAMETERS: Parameters = Parameters {
    target: Span::from_millis(15),
    update: Span::from_millis(15),
    alpha: 0.15,
    beta: 3.0,
    coupling: 2.0,
    threshold: Span::from_micros(800),
    range: Span::from_micros(400),
    spares_last: true,
    spares: 0,
    scheduler: Scheduler::Shifted(Span::from_millis(50)),
};

/// Linux (`sch_dualpi2.c`); alpha and beta in 1/256, two full packets are always left alone.
const LINUX_PARAMETERS: Parameters = Parameters {
    update: Span::from_millis(16),
    alpha: 41.0 / 256.0,
    beta: 819.0 / 256.0,
    threshold: Span::from_millis(1),
    range: Span::ZERO,
    spares_last: false,
    spares: 2 * FULL_PACKET as u64,
    scheduler: Scheduler::Weighted(10),
    ..RFC9332_PARAMETERS
};

/// The largest IP packet of Ethernet (RFC 894).
const FULL_PACKET: i64 = 1500;

fn build(options: &Options<'_>, setup: &Setup, default: &Parameters, limit: Limit) -> Built {
    let limit = options.limit(setup.reference, limit)?;
    let scheduler = match (options.has("shift"), options.has("weight")) {
        (false, false) => default.scheduler,
        (true, false) => Scheduler::Shifted(options.time_or_zero("shift", Span::ZERO)?),
        (false, true) => Scheduler::Weighted(options.count("weight", 0, 1..=99)?.into()),
        (true, true) => return Err(TextError::new("shift, weight", "one scheduler", "one of the two")),
    };
    let parameters = Parameters {
        target: options.time("target", default.target)?,
        update: options.time("tupdate", default.update)?,
        alpha: options.number("alpha", default.alpha, 0.0..=1e6)?,
        beta: options.number("beta", default.beta, 0.0..=1e6)?,
        coupling: options.number("coupling", default.coupling, 0.0..=100.0)?,
        threshold: options.time_or_zero("threshold", default.threshold)?,
        range: options.time_or_zero("range", default.range)?,
        scheduler,
        ..*default
    };
    let mut rng = setup.rng();
    Ok(Box::new(DualPi2::new(limit, parameters, move || rng.uniform())))
}

/// The base probability p' and the delay it was last updated with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Base {
    probability: f64,
    delay: Span,
}

impl Base {
    fn update(&mut self, parameters: &Parameters, delay: Span) {
        let error = (delay - parameters.target).as_secs_f64();
        let change = (delay - self.delay).as_secs_f64();
        let probability = self.probability + parameters.alpha * error + parameters.beta * change;
        *self = Base { probability: probability.clamp(0.0, 1.0), delay };
    }

    /// What classic packets suffer.
    fn classic(&self) -> f64 {
        self.probability * self.probability
    }

    /// What L4S packets suffer for the classic ones' sake; 1 and more is overload.
    fn coupled(&self, parameters: &Parameters) -> f64 {
        self.probability * parameters.coupling
    }
}

/// What becomes of a packet that is about to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

/// The two queues; `Draw` gives uniform numbers in `[0, 1)`.
#[derive(Clone)]
struct DualPi2<Draw> {
    limit: Limit,
    parameters: Parameters,
    draw: Draw,
    l4s: Fifo,
    classic: Fifo,
    base: Base,
    next_update: Time,
    /// Of [`Scheduler::Weighted`]: the classic queue goes first while this is positive.
    credit: i64,
}

impl<Draw: FnMut() -> f64> DualPi2<Draw> {
    fn new(limit: Limit, parameters: Parameters, draw: Draw) -> DualPi2<Draw> {
        DualPi2 {
            limit,
            draw,
            l4s: Fifo::default(),
            classic: Fifo::default(),
            base: Base::default(),
            next_update: Time::ZERO + parameters.update,
            credit: initial_credit(parameters.scheduler),
            parameters,
        }
    }

    /// Makes all updates that are due.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let (at, before) = (self.next_update, self.base);
            self.base.update(&self.parameters, waited(&self.l4s, at).max(waited(&self.classic, at)));
            self.next_update = at + self.parameters.update;
            if self.base == before && self.next_update <= now {
                // Empty and at rest: the updates until now would all be the same.
                let periods = (now - at).as_nanos() / self.parameters.update.as_nanos();
                self.next_update = at + self.parameters.update * (periods + 1);
            }
        }
    }

    /// Whether the L4S queue goes first.
    fn l4s_first(&self, now: Time) -> bool {
        if self.l4s.is_empty() || self.classic.is_empty() {
            return !self.l4s.is_empty();
        }
        match self.parameters.scheduler {
            Scheduler::Shifted(shift) => waited(&self.l4s, now) + shift >= waited(&self.classic, now),
            Scheduler::Weighted(_) => self.credit <= 0,
        }
    }

    /// What sending `size` bytes of one queue costs it while the other waits.
    fn charge(&mut self, l4s: bool, size: u32) {
        let other = if l4s { &self.classic } else { &self.l4s };
        if let Scheduler::Weighted(weight) = self.parameters.scheduler
            && !other.is_empty()
        {
            let change = if l4s { weight } else { weight - 100 };
            self.credit += change * i64::from(size);
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || (self.draw)() < probability)
    }

    fn judge_l4s(&mut self, now: Time, packet: &Packet) -> Fate {
        let coupled = if self.is_spared() { 0.0 } else { self.base.coupled(&self.parameters) };
        if coupled >= 1.0 {
            return if self.chance(self.base.classic()) { Fate::Drop } else { Fate::Mark };
        }
        let own = self.ramp(now - packet.entered);
        if self.chance(own.max(coupled)) { Fate::Mark } else { Fate::Pass }
    }

    fn judge_classic(&mut self, packet: &Packet) -> Fate {
        if self.is_spared() || !self.chance(self.base.classic()) {
            return Fate::Pass;
        }
        let overload = self.base.coupled(&self.parameters) >= 1.0;
        if overload || packet.ecn == Ecn::NotEct { Fate::Drop } else { Fate::Mark }
    }

    fn is_spared(&self) -> bool {
        self.l4s.bytes() + self.classic.bytes() < self.parameters.spares
    }

    /// Probability to mark an L4S packet for its own delay.
    fn ramp(&self, sojourn: Span) -> f64 {
        let Parameters { threshold, range, spares_last, .. } = self.parameters;
        let over = sojourn - threshold;
        if !over.is_positive() || (spares_last && self.l4s.is_empty()) {
            0.0
        } else if over >= range {
            1.0
        } else {
            over.as_secs_f64() / range.as_secs_f64()
        }
    }
}

/// Linux: as if the classic queue had sent a full packet and L4S one too.
fn initial_credit(scheduler: Scheduler) -> i64 {
    match scheduler {
        Scheduler::Weighted(weight) => FULL_PACKET * (2 * weight - 100),
        Scheduler::Shifted(_) => 0,
    }
}

/// How long the oldest packet has waited.
fn waited(queue: &Fifo, now: Time) -> Span {
    queue.head().map_or(Span::ZERO, |packet| now - packet.entered)
}

impl<Draw: FnMut() -> f64 + Send + Clone + 'static> Queue for DualPi2<Draw> {
    fn enqueue(&mut self, now: Time, packet: Packet, _drops: &mut Drops) -> Result<(), Dropped> {
        self.catch_up(now);
        if !self.limit.admits(self.backlog(), packet.size) {
            return Err(Dropped::QueueFull);
        }
        match packet.ecn {
            Ecn::Ect1 | Ecn::Ce => self.l4s.push(packet),
            Ecn::Ect0 | Ecn::NotEct => self.classic.push(packet),
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.catch_up(now);
        loop {
            let l4s = self.l4s_first(now);
            let next = if l4s { self.l4s.pop() } else { self.classic.pop() };
            let Some(mut packet) = next else {
                self.credit = initial_credit(self.parameters.scheduler);
                return None;
            };
            let fate = if l4s { self.judge_l4s(now, &packet) } else { self.judge_classic(&packet) };
            if fate == Fate::Drop {
                drops.push((packet, Dropped::QueuePolicy));
                continue;
            }
            if fate == Fate::Mark {
                mark(&mut packet);
            }
            self.charge(l4s, packet.size);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        let (l4s, classic) = (self.l4s.backlog(), self.classic.backlog());
        Backlog { packets: l4s.packets + classic.packets, bytes: l4s.bytes + classic.bytes }
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::{every_millisecond, serve};
    use units::{Rng, Time};

    /// The vectors' gains.
    const VECTORS: Parameters = Parameters { alpha: 0.16, beta: 3.2, ..LINUX_PARAMETERS };

    fn round6(value: f64) -> f64 {
        (value * 1e6).round() / 1e6
    }

    /// p', p_C and p_CL after each delay (ms).
    fn run(delays: &[i64]) -> Vec<[f64; 3]> {
        let mut base = Base::default();
        let update = |&delay: &i64| {
            base.update(&VECTORS, Span::from_millis(delay));
            [base.probability, base.classic(), base.coupled(&VECTORS)].map(round6)
        };
        delays.iter().map(update).collect()
    }

    #[test]
    fn d1_constant_delay() {
        let expected = [
            [0.0816, 0.006659, 0.1632],
            [0.0832, 0.006922, 0.1664],
            [0.0848, 0.007191, 0.1696],
            [0.0864, 0.007465, 0.1728],
            [0.088, 0.007744, 0.176],
            [0.0896, 0.008028, 0.1792],
        ];
        assert_eq!(run(&[25; 6]), expected);
    }

    #[test]
    fn d2_a_ramp() {
        let base: Vec<_> =
            run(&[0, 5, 10, 15, 20, 25, 30, 35, 40, 40, 40, 20, 10]).iter().map(|p| p[0]).collect();
        let expected = [
            0.0, 0.0144, 0.0296, 0.0456, 0.0624, 0.08, 0.0984, 0.1176, 0.1376, 0.1416, 0.1456, 0.0824, 0.0496,
        ];
        assert_eq!(base, expected);
    }

    fn queue(parameters: Parameters) -> DualPi2<impl FnMut() -> f64 + Send + Clone> {
        let mut rng = Rng::stream(1, "link/queue");
        DualPi2::new(Limit::NONE, parameters, move || rng.uniform())
    }

    fn packet(id: u32, ecn: Ecn, now: Time) -> Packet {
        Packet { id, ecn, entered: now, ..Packet::bare(0, 1500, now) }
    }

    #[test]
    fn the_ramp_marks_what_waited_too_long() {
        let mut queue = queue(RFC9332_PARAMETERS);
        let us = Span::from_micros;
        assert_eq!(queue.ramp(us(2_000)), 0.0);
        queue.l4s.push(packet(0, Ecn::Ect1, Time::ZERO));
        let at = [800, 900, 1_000, 1_200, 5_000].map(|sojourn| round6(queue.ramp(us(sojourn))));
        assert_eq!(at, [0.0, 0.25, 0.5, 1.0, 1.0]);
        queue.parameters = LINUX_PARAMETERS;
        assert_eq!([1_000, 1_001].map(|sojourn| queue.ramp(us(sojourn))), [0.0, 1.0]);
    }

    #[test]
    fn l4s_goes_first_but_not_for_ever() {
        // The shift: a classic packet goes first once it has waited 50 ms longer.
        let mut shifted = queue(RFC9332_PARAMETERS);
        shifted.classic.push(packet(1, Ecn::NotEct, Time::ZERO));
        shifted.l4s.push(packet(2, Ecn::Ect1, Time::from_millis(9)));
        assert!(shifted.l4s_first(Time::from_millis(10)));
        shifted.l4s.pop();
        shifted.l4s.push(packet(2, Ecn::Ect1, Time::from_millis(51)));
        assert!(!shifted.l4s_first(Time::from_millis(52)));
        // The weights: of ten packets one is classic. No time passes, so that none is dropped.
        let mut weighted = queue(LINUX_PARAMETERS);
        for id in 0..400 {
            let ecn = if id < 200 { Ecn::Ect1 } else { Ecn::NotEct };
            weighted.enqueue(Time::ZERO, packet(id, ecn, Time::ZERO), &mut Drops::new()).unwrap();
        }
        let sent = (0..200).map(|_| weighted.dequeue(Time::ZERO, &mut Drops::new()).unwrap());
        let classic = sent.filter(|packet| packet.ecn == Ecn::NotEct).count();
        assert_eq!(classic, 20);
    }

    #[test]
    fn classic_packets_are_dropped_or_marked_and_l4s_marked_more_often() {
        for parameters in [RFC9332_PARAMETERS, LINUX_PARAMETERS] {
            let mut queue = queue(parameters);
            // Overload by a fifth of three kinds of packets that do not react, until just before drops spread
            // to all.
            let kinds = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1];
            let kind = |p: Packet| Packet { ecn: kinds[p.id as usize % 3], ..p };
            let outcome = serve(&mut queue, every_millisecond(400).map(kind), Span::from_micros(1_200));
            let dropped = |kind| outcome.drops.iter().filter(|(_, id)| id % 3 == kind).count();
            let marked =
                |kind: u32| outcome.out.iter().filter(|(_, p)| p.id % 3 == kind && p.ecn == Ecn::Ce).count();
            assert!(dropped(0) > 0 && dropped(1) == 0 && dropped(2) == 0, "{:?}", outcome.drops);
            assert!(marked(2) > 2 * marked(1) && marked(1) > 0, "{} {}", marked(2), marked(1));
        }
    }

    #[test]
    fn overload_drops_even_l4s_packets() {
        let mut queue = queue(RFC9332_PARAMETERS);
        let l4s = |p: Packet| Packet { ecn: Ecn::Ect1, ..p };
        let outcome = serve(&mut queue, every_millisecond(3_000).map(l4s), Span::from_micros(1_500));
        // Without drops the last would have waited 1.5 s.
        assert!(outcome.drops.len() > 500 && outcome.most_waited < Span::from_millis(400));
    }

    #[test]
    fn an_idle_queue_catches_up_at_once() {
        let mut queue = queue(LINUX_PARAMETERS);
        queue.base.probability = 0.5;
        queue.catch_up(Time::from_nanos(1 << 50));
        assert_eq!(queue.base, Base::default());
        assert_eq!((queue.next_update - Time::ZERO).as_nanos() % 16_000_000, 0);
    }
}
