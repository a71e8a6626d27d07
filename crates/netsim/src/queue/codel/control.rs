//! CoDel's decision, apart from where the packets are kept: one instance for each queue it controls.

use record::Dropped;
use units::{Span, Time};

use super::super::{Drops, mark};
use super::{INTERVAL, TARGET};
use crate::Packet;

/// What CoDel is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The sojourn that is acceptable.
    pub target: Span,
    /// How long it may be exceeded before the first drop.
    pub interval: Span,
    /// Nothing is dropped while at most this many bytes wait.
    pub mtu: u32,
    /// Marks instead of dropping where the packet allows it.
    pub ecn: bool,
    /// Linux: the first drop needs strictly more than an interval above target. (Linux also computes the
    /// square root by Newton steps in 16 bits, which moves drops by less than 1%; that is left out.)
    pub strict: bool,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { target: TARGET, interval: INTERVAL, mtu: 1500, ecn: false, strict: false }
    }
}

/// RFC 8289 section 5: a new dropping state goes on near the count of the last one for this many intervals.
const MEMORY: i64 = 16;

/// The state machine of RFC 8289 section 5.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// When the sojourn will have been above target for an interval.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
}

impl Control {
    /// Drops made elsewhere for this queue's sake (FQ-CoDel when full) count as CoDel's own.
    pub fn add_drops(&mut self, drops: u32) {
        self.count = self.count.saturating_add(drops);
    }

    /// The packet to send at `now`. `pop` takes the next packet out and says how many bytes are left.
    pub fn dequeue(
        &mut self,
        parameters: &Parameters,
        now: Time,
        mut pop: impl FnMut() -> Option<(Packet, u64)>,
        drops: &mut Drops,
    ) -> Option<Packet> {
        let (mut packet, drop) = self.next(parameters, now, &mut pop)?;
        if self.dropping {
            self.dropping = drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if parameters.ecn && mark(&mut packet) {
                    self.drop_next = law(parameters, self.drop_next, self.count);
                    break;
                }
                drops.push((packet, Dropped::QueuePolicy));
                (packet, self.dropping) = self.next(parameters, now, &mut pop)?;
                if self.dropping {
                    self.drop_next = law(parameters, self.drop_next, self.count);
                }
            }
        } else if drop {
            self.enter(parameters, now);
            if !(parameters.ecn && mark(&mut packet)) {
                drops.push((packet, Dropped::QueuePolicy));
                packet = self.next(parameters, now, &mut pop)?.0;
            }
        }
        Some(packet)
    }

    fn enter(&mut self, parameters: &Parameters, now: Time) {
        let recent = now - self.drop_next < parameters.interval * MEMORY;
        let since_last = self.count.saturating_sub(self.last_count);
        self.count = if since_last > 1 && recent { since_last } else { 1 };
        self.last_count = self.count;
        self.drop_next = law(parameters, now, self.count);
        self.dropping = true;
    }

    /// Takes the next packet out and says whether it may be dropped.
    fn next(
        &mut self,
        parameters: &Parameters,
        now: Time,
        pop: &mut impl FnMut() -> Option<(Packet, u64)>,
    ) -> Option<(Packet, bool)> {
        let Some((packet, bytes_left)) = pop() else {
            (self.dropping, self.first_above) = (false, None);
            return None;
        };
        if now - packet.entered < parameters.target || bytes_left <= u64::from(parameters.mtu) {
            self.first_above = None;
            return Some((packet, false));
        }
        let first_above = *self.first_above.get_or_insert(now + parameters.interval);
        Some((packet, if parameters.strict { now > first_above } else { now >= first_above }))
    }
}

/// RFC 8289 section 5: the drop after one at `at` is due interval / sqrt(count) later.
fn law(parameters: &Parameters, at: Time, count: u32) -> Time {
    let gap = parameters.interval.as_nanos() as f64 / f64::from(count).sqrt();
    at + Span::from_nanos(gap as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dequeues every `step` ms up to `until` from an endless queue whose packets have waited `sojourn(ms)`
    /// microseconds; returns when something was dropped.
    fn drops(parameters: &Parameters, step: u64, until: u64, sojourn: impl Fn(u64) -> i64) -> Vec<Drop> {
        let (mut control, mut out, mut drops) = (Control::default(), Vec::new(), Drops::new());
        // A second's head start, so that packets may have entered before the first dequeue.
        for ms in (0..=until).step_by(step as usize) {
            let now = Time::from_millis(1_000 + ms);
            let entered = now - Span::from_micros(sojourn(ms));
            let pop = || Some((Packet { entered, ..Packet::bare(0, 1500, entered) }, 1_000_000_000));
            control.dequeue(parameters, now, pop, &mut drops);
            if !drops.is_empty() {
                out.push(Drop { ms, count: control.count });
                drops.clear();
            }
        }
        out
    }

    /// Something was dropped.
    struct Drop {
        ms: u64,
        /// Drops of this episode, as the law counts them.
        count: u32,
    }

    fn times(drops: &[Drop]) -> Vec<u64> {
        drops.iter().map(|drop| drop.ms).collect()
    }

    const C1: [u64; 39] = [
        100, 200, 271, 329, 379, 424, 464, 502, 538, 571, 603, 633, 662, 689, 716, 742, 767, 791, 815, 838,
        860, 882, 903, 924, 944, 964, 984, 1003, 1022, 1041, 1059, 1077, 1095, 1112, 1129, 1146, 1163, 1179,
        1195,
    ];

    #[test]
    fn c1_drops_come_ever_more_often() {
        let drops = drops(&Parameters::default(), 1, 1_200, |_| 20_000);
        assert_eq!(times(&drops), C1);
        assert!(drops.iter().map(|drop| drop.count).eq(1..=39));
    }

    #[test]
    fn c1_linux_is_a_millisecond_later() {
        let strict = Parameters { strict: true, ..Parameters::default() };
        let drops = drops(&strict, 1, 575, |_| 20_000);
        assert_eq!(times(&drops), [101, 201, 272, 330, 380, 425, 465, 503, 539, 572]);
    }

    #[test]
    fn c1_continuous_law() {
        let expected =
            [100_000, 200_000, 270_711, 328_446, 378_446, 423_167, 463_992, 501_788, 537_144, 570_477u64];
        let mut at = Time::from_millis(100);
        for (count, micros) in (1..).zip(expected) {
            assert_eq!((at.as_nanos() + 500) / 1_000, micros);
            at = law(&Parameters::default(), at, count);
        }
    }

    #[test]
    fn c2_a_second_episode_goes_on_near_the_old_count() {
        let sojourn = |ms| if (600..800).contains(&ms) { 2_000 } else { 20_000 };
        let drops = drops(&Parameters::default(), 1, 1_300, sojourn);
        assert_eq!(times(&drops[..10]), C1[..10]);
        let expected =
            [900, 934, 965, 996, 1024, 1052, 1079, 1105, 1130, 1154, 1178, 1201, 1223, 1245, 1266, 1287];
        assert_eq!(times(&drops[10..]), expected);
        assert!(drops[10..].iter().map(|drop| drop.count).eq(9..=24));
    }

    #[test]
    fn c3_after_sixteen_intervals_it_starts_afresh() {
        let sojourn = |ms| if (600..2_600).contains(&ms) { 2_000 } else { 20_000 };
        let drops = drops(&Parameters::default(), 1, 3_070, sojourn);
        assert_eq!(times(&drops[..10]), C1[..10]);
        assert_eq!(times(&drops[10..]), [2_700, 2_800, 2_871, 2_929, 2_979, 3_024, 3_064]);
        assert!(drops[10..].iter().map(|drop| drop.count).eq(1..=7));
    }

    #[test]
    fn c4_one_megabit() {
        let slow = Parameters { target: Span::from_millis(13), ..Parameters::default() };
        let expected = [
            108, 216, 288, 348, 396, 432, 480, 516, 552, 588, 612, 648, 672, 708, 732, 756, 780, 804, 828,
            852,
        ];
        assert_eq!(times(&drops(&slow, 12, 860, |_| 20_000)), expected);
    }

    #[test]
    fn c5_c6_the_target_itself_is_too_long() {
        assert!(drops(&Parameters::default(), 1, 1_000, |_| 4_999).is_empty());
        assert_eq!(times(&drops(&Parameters::default(), 1, 300, |_| 5_000)), C1[..3]);
    }
}
