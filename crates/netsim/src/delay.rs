//! Propagation: a constant or stepped delay, jitter that keeps the order, and reordering that does not.
//!
//! ```text
//! out_n = max(in_n + D(in_n) + z_n, out_{n-1})      z_n = |clip(N(0, s^2), -3 s, 3 s)|
//! ```
//!
//! A truncated Gaussian without overtaking. The maximum makes delays positively correlated and cuts
//! early packets' jitter off, so report the delays that result, not `s`. Packets picked for reordering take
//! an extra delay and are overtaken meanwhile; the others do not wait for them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use units::{Rng, Span, Time};

use crate::Packet;
use crate::text::TextError;

/// One-way propagation delay, constant or changing at given times (a change of route).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay(Vec<(Time, Span)>);

impl Default for Delay {
    fn default() -> Delay {
        Delay::constant(Span::ZERO)
    }
}

impl From<Span> for Delay {
    fn from(delay: Span) -> Delay {
        Delay::constant(delay)
    }
}

impl Delay {
    /// The same delay for ever; negative spans count as zero.
    pub fn constant(delay: Span) -> Delay {
        Delay(vec![(Time::ZERO, delay.max(Span::ZERO))])
    }

    /// A delay that changes at the given times; the first holds from the start. Where it shrinks, packets
    /// already on their way hold later ones up, so that none overtakes.
    ///
    /// # Errors
    /// [`TextError`] unless there is at least one step, times increase strictly and no delay is negative.
    pub fn steps(steps: Vec<(Time, Span)>) -> Result<Delay, TextError> {
        let ordered = steps.is_sorted_by(|a, b| a.0 < b.0) && steps.iter().all(|step| step.1 >= Span::ZERO);
        if steps.is_empty() || !ordered {
            let accepted = "at least one (time, delay of zero or more), each later than the one before";
            return Err(TextError::new(&format!("{steps:?}"), "a list of delay steps", accepted));
        }
        Ok(Delay(steps))
    }

    /// The delay, if it is always the same.
    pub(crate) fn constant_span(&self) -> Option<Span> {
        match self.0.as_slice() {
            [(_, only)] => Some(*only),
            _ => None,
        }
    }

    /// The delay of a packet that enters propagation at `time`.
    pub fn at(&self, time: Time) -> Span {
        match self.0.as_slice() {
            [(_, only)] => *only,
            steps => steps[steps.partition_point(|step| step.0 <= time).saturating_sub(1)].1,
        }
    }
}

/// Reordering: some packets take longer, and others overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is held back, from 0 to 1.
    pub probability: f64,
    /// How long it is held back.
    pub extra: Span,
}

/// The packets in propagation.
#[derive(Clone)]
pub(crate) struct Line {
    delay: Delay,
    jitter: Option<(f64, Rng)>,
    reorder: Option<(Reorder, Rng)>,
    last_out: Time,
    fifo: VecDeque<(Time, Packet)>,
    late: BinaryHeap<Late>,
    pushed: u64,
}

impl Line {
    /// `sigma` is the standard deviation of the jitter before truncation.
    pub fn new(delay: Delay, sigma: Span, reorder: Option<Reorder>, seed: u64, link: &str) -> Line {
        let stream = |name: &str| Rng::stream(seed, &format!("{link}/{name}"));
        let jitter = sigma.is_positive().then(|| (sigma.as_nanos() as f64, stream("jitter")));
        let reorder = reorder.map(|reorder| (reorder, stream("reorder")));
        Line {
            delay,
            jitter,
            reorder,
            last_out: Time::ZERO,
            fifo: VecDeque::new(),
            late: BinaryHeap::new(),
            pushed: 0,
        }
    }

    /// The delay a packet entering at `time` takes at least.
    pub fn least(&self, time: Time) -> Span {
        self.delay.at(time)
    }

    /// A packet enters propagation.
    #[inline]
    pub fn push(&mut self, now: Time, packet: Packet) {
        let due = now + self.delay.at(now);
        if let Some((reorder, rng)) = &mut self.reorder
            && rng.chance(reorder.probability)
        {
            self.pushed += 1;
            self.late.push(Late { due: due + reorder.extra, order: self.pushed, packet });
            return;
        }
        let jitter = self.jitter.as_mut().map_or(Span::ZERO, |(sigma, rng)| truncated_gaussian(*sigma, rng));
        self.last_out = self.last_out.max(due + jitter);
        self.fifo.push_back((self.last_out, packet));
    }

    /// When the next packet comes out.
    #[inline]
    pub fn next_due(&self) -> Time {
        let in_order = self.fifo.front().map_or(Time::MAX, |(due, _)| *due);
        self.late.peek().map_or(in_order, |late| in_order.min(late.due))
    }

    /// The next packet that is out at `now`, and when it came out.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<(Time, Packet)> {
        let in_order = self.fifo.front().map_or(Time::MAX, |(due, _)| *due);
        if let Some(late) = self.late.peek()
            && late.due < in_order
        {
            return if late.due <= now { self.late.pop().map(|late| (late.due, late.packet)) } else { None };
        }
        if in_order <= now { self.fifo.pop_front() } else { None }
    }

    /// How many packets are on their way.
    pub fn len(&self) -> usize {
        self.fifo.len() + self.late.len()
    }
}

fn truncated_gaussian(sigma: f64, rng: &mut Rng) -> Span {
    let z = (rng.normal() * sigma).clamp(-3.0 * sigma, 3.0 * sigma).abs();
    Span::from_nanos(z.round() as i64)
}

/// A packet held back, ordered by when it comes out and then by when it went in; the earliest is the
/// greatest.
#[derive(Clone)]
struct Late {
    due: Time,
    order: u64,
    packet: Packet,
}

impl Late {
    fn key(&self) -> Reverse<(Time, u64)> {
        Reverse((self.due, self.order))
    }
}
impl PartialEq for Late {
    fn eq(&self, other: &Late) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Late {}
impl PartialOrd for Late {
    fn partial_cmp(&self, other: &Late) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Late {
    fn cmp(&self, other: &Late) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn numbered(id: u32) -> Packet {
        Packet { id, ..Packet::bare(0, 100, Time::ZERO) }
    }

    fn drain(line: &mut Line) -> Vec<(Time, u32)> {
        let mut out = Vec::new();
        while line.len() > 0 {
            let due = line.next_due();
            let (out_at, packet) = line.pop(due).unwrap();
            assert_eq!(out_at, due);
            out.push((due, packet.id));
        }
        out
    }

    #[test]
    fn a_shorter_route_does_not_overtake() {
        let delay =
            Delay::steps(vec![(ms(0), Span::from_millis(50)), (ms(10), Span::from_millis(20))]).unwrap();
        let mut line = Line::new(delay, Span::ZERO, None, 1, "l");
        [5, 9, 10, 15, 40].iter().enumerate().for_each(|(n, &at)| line.push(ms(at), numbered(n as u32)));
        let out: Vec<_> = drain(&mut line).into_iter().map(|(at, _)| at.as_micros() / 1000).collect();
        assert_eq!(out, [55, 59, 59, 59, 60]);
        assert!(Delay::steps(vec![(ms(0), Span::from_millis(-1))]).is_err());
    }

    #[test]
    fn jitter_has_the_moments_of_a_truncated_gaussian() {
        // Packets a second apart never wait for one another. Mean of |N(0,s^2)| is s sqrt(2/pi); cutting at 3
        // s moves 0.27 % of it.
        let mut line = Line::new(Delay::default(), Span::from_millis(5), None, 1, "l");
        let n = 20_000;
        (0..n).for_each(|k| line.push(Time::from_secs(k), numbered(k as u32)));
        let z: Vec<f64> = drain(&mut line)
            .iter()
            .map(|(at, id)| (*at - Time::from_secs(u64::from(*id))).as_millis_f64())
            .collect();
        let mean = z.iter().sum::<f64>() / n as f64;
        assert!((mean - 5.0 * (2.0 / std::f64::consts::PI).sqrt()).abs() < 0.06, "{mean}");
        assert!(z.iter().all(|&z| (0.0..=15.0).contains(&z)));
    }

    #[test]
    fn reordered_packets_are_overtaken_and_nobody_waits() {
        let reorder = Reorder { probability: 0.3, extra: Span::from_millis(10) };
        let mut line = Line::new(Delay::constant(Span::from_millis(20)), Span::ZERO, Some(reorder), 1, "l");
        (0..1000).for_each(|k| line.push(ms(k), numbered(k as u32)));
        let out = drain(&mut line);
        let late = out.iter().filter(|(at, id)| *at == ms(u64::from(*id) + 30)).count();
        let on_time = out.iter().filter(|(at, id)| *at == ms(u64::from(*id) + 20)).count();
        assert_eq!(late + on_time, 1000);
        assert!((250..350).contains(&late), "{late}");
        assert!(!out.is_sorted_by_key(|(_, id)| *id) && out.is_sorted_by_key(|(at, _)| *at));
    }

    proptest! {
        #[test]
        fn jitter_never_reorders(gaps in prop::collection::vec(0u64..3_000_000, 1..200), sigma in 0i64..20_000) {
            let mut line = Line::new(Delay::constant(Span::from_millis(5)), Span::from_micros(sigma), None, 3, "l");
            let mut now = Time::ZERO;
            for (id, gap) in gaps.iter().enumerate() {
                now += Span::from_nanos(*gap as i64);
                line.push(now, numbered(id as u32));
            }
            let out = drain(&mut line);
            prop_assert!(out.is_sorted());
            prop_assert_eq!(out.len(), gaps.len());
        }
    }
}
