//! When the next packet may leave: what every endpoint makes of a decision's pacing rate.

use units::{Bytes, Rate, Serialisation, Span, Time, likely, unlikely};

/// A driver that wakes late may catch up on at most this much: more would be a burst of our own making.
const CATCH_UP: Span = Span::from_millis(1);

/// Spaces packets at a rate. An idle pacer saves nothing up, so that a frame's burst is always paced from its
/// first packet on; `burst` bytes may run ahead of the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the next packet may leave: hosts ask several times a packet.
    due: Time,
    /// When everything sent so far would have left at the rate.
    clear_at: Time,
    /// What packets take at the rate, if there is one.
    pace: Option<Serialisation>,
    /// The burst that may run ahead of the rate, and how long it takes.
    burst: Bytes,
    ahead: Span,
    /// Packets of a bunch, and how many of the present one may still follow at once.
    bunch: u32,
    left: u32,
    /// Each packet of a bunch takes its own time at the rate, so that a short one takes less.
    each: bool,
    /// Packets leave at instants this far apart; zero: whenever the rate allows.
    tick: Span,
    /// The instant at which the last packet left, or was due to leave.
    tick_at: Time,
}

impl Pacer {
    /// Lets `bunch` packets (1 or more) leave together and then waits for as long as all of them take at the
    /// rate: what a pacer with a coarse timer does, and segmentation offload. Where a decision has a tick,
    /// that rules.
    pub fn in_bunches(bunch: u32) -> Pacer {
        Pacer { bunch, ..Pacer::default() }
    }

    /// Sets the rate (`None`: unpaced), and that up to `bunch` packets (1 or more) leave together and take as
    /// long at the rate as they are many: segmentation offload, where what the window cuts short owes
    /// nothing.
    pub fn apply_in_bunches(&mut self, rate: Option<Rate>, bunch: u32) {
        (self.bunch, self.each) = (bunch, true);
        self.apply(rate, Bytes::ZERO, Span::ZERO);
    }

    /// Sets rate (`None`: unpaced), burst and tick.
    #[inline(always)]
    pub fn apply(&mut self, rate: Option<Rate>, burst: Bytes, tick: Span) {
        // Told after each report: of a rate that is made of a window mostly a new one.
        if (rate, burst, tick) != (self.rate(), self.burst, self.tick) {
            (self.burst, self.tick) = (burst, tick);
            // Packets like the last one will follow: what they take is worked out beside what a burst does.
            let size = self.pace.map_or(Bytes::ZERO, |pace| pace.size());
            (self.pace, self.ahead) = match rate.map(|rate| pace(rate, size, burst)) {
                Some((pace, ahead)) => (Some(pace), ahead),
                None => (None, Span::ZERO),
            };
            self.work_out_due();
        }
    }

    #[inline]
    fn work_out_due(&mut self) {
        let at_once = self.pace.is_none() || self.left > 0;
        self.due = if unlikely(self.tick.is_positive()) {
            self.next_tick()
        } else if unlikely(at_once) {
            Time::ZERO
        } else {
            self.clear_at.earlier_by(self.ahead)
        };
    }

    /// The earliest time the next packet may leave.
    #[inline]
    pub fn next(&self) -> Time {
        self.due
    }

    /// A tick may send what the rate carries until the next one; of the packet that exceeds it, the rest is
    /// taken off the next.
    // Apart: most rates have none.
    #[inline(never)]
    fn next_tick(&self) -> Time {
        if self.pace.is_none() {
            return Time::ZERO;
        }
        let spent_until = self.clear_at - self.tick;
        if spent_until < self.tick_at {
            return self.tick_at;
        }
        let passed = (spent_until - self.tick_at).as_nanos() / self.tick.as_nanos();
        self.tick_at + self.tick * (passed + 1)
    }

    /// A packet of `size` left at `now`.
    #[inline(always)]
    pub fn sent(&mut self, now: Time, size: Bytes) {
        if let Some(pace) = &mut self.pace {
            let cost = pace.time(size);
            if unlikely(self.tick.is_positive()) {
                return self.sent_in_tick(now, cost);
            }
            // Idle: start afresh. A little late: keep the schedule, so that lateness does not add up to a
            // lower rate.
            if unlikely(self.left > 0) {
                self.left -= 1;
                self.clear_at += if self.each { cost } else { Span::ZERO };
                return self.work_out_due();
            }
            let base = if now - self.clear_at >= CATCH_UP { now } else { self.clear_at };
            if likely(self.bunch <= 1) {
                self.clear_at = base.later_by(cost);
                self.due = self.clear_at.earlier_by(self.ahead);
            } else {
                self.begin_bunch(base, cost);
            }
        }
    }

    /// The first packet of a bunch left, at `base` as the rate has it.
    #[inline(never)]
    fn begin_bunch(&mut self, base: Time, cost: Span) {
        self.clear_at = base + cost * i64::from(if self.each { 1 } else { self.bunch });
        self.left = self.bunch - 1;
        self.work_out_due();
    }

    /// Nothing follows at once: the rest of a bunch is not owed, and the next one leaves when its time has
    /// come.
    #[inline]
    pub fn pause(&mut self) {
        self.pause_if(true);
    }

    /// The same if `over`.
    #[inline]
    pub fn pause_if(&mut self, over: bool) {
        if unlikely(over & (self.left > 0)) {
            self.left = 0;
            self.work_out_due();
        }
    }

    /// A packet of `size` waits for its whole interval from `now` on.
    pub fn restart(&mut self, now: Time, size: Bytes) {
        self.clear_at = self.pace.as_mut().map_or(now, |pace| now + pace.time(size));
        self.work_out_due();
    }

    /// Ticks are counted from the packet that ends a pause. What a tick did not use is lost.
    fn sent_in_tick(&mut self, now: Time, cost: Span) {
        if now >= self.clear_at {
            self.tick_at = now;
        } else if now > self.tick_at {
            let passed = (now - self.tick_at).as_nanos() / self.tick.as_nanos();
            self.tick_at += self.tick * passed;
        }
        self.clear_at = self.clear_at.max(self.tick_at) + cost;
        self.work_out_due();
    }

    /// The pacing rate, if any.
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        self.pace.map(|pace| pace.rate())
    }
}

/// What packets of `size` bytes take at `rate`, and what a burst takes. A division takes long, and
/// most bursts are two packets or none.
#[inline(always)]
fn pace(rate: Rate, size: Bytes, burst: Bytes) -> (Serialisation, Span) {
    if burst == size + size {
        return Serialisation::of_one_and_two(rate, size);
    }
    let none = burst == Bytes::ZERO && rate > Rate::ZERO;
    (Serialisation::of(rate, size), if none { Span::ZERO } else { rate.time_to_send(burst) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: Bytes = Bytes::new(1250);

    proptest! {
        /// When the next packet may leave is worked out ahead, and worked out anew whatever changes.
        #[test]
        fn what_is_due_follows_from_all_the_rest(
            bunch in 1_u32..4,
            steps in prop::collection::vec((0_u8..6, 0_u64..3, 0_u64..3, 0_i64..3, 0_i64..3_000), 1..60),
        ) {
            let (mut pacer, mut now) = (Pacer::in_bunches(bunch), Time::ZERO);
            for (step, mbps, packets, tick, us) in steps {
                now += Span::from_micros(us);
                match step {
                    0 => {
                        let rate = (mbps > 0).then(|| Rate::from_mbps(mbps));
                        pacer.apply(rate, Bytes::new(packets * 1250), Span::from_millis(5 * tick));
                    }
                    1 => pacer.pause(),
                    2 => pacer.restart(now, PACKET),
                    _ => {
                        now = now.max(pacer.next());
                        pacer.sent(now, PACKET);
                    }
                }
                let at_once = pacer.pace.is_none() || pacer.left > 0;
                let expected = match pacer.tick.is_positive() {
                    true => pacer.next_tick(),
                    false if at_once => Time::ZERO,
                    false => pacer.clear_at.earlier_by(pacer.ahead),
                };
                prop_assert_eq!(pacer.next(), expected);
            }
        }
    }

    #[test]
    fn a_restarted_pacer_owes_a_whole_interval() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO, Span::ZERO);
        pacer.sent(Time::ZERO, PACKET);
        assert_eq!(pacer.next(), Time::from_millis(1));
        pacer.restart(Time::from_millis(20), PACKET);
        assert_eq!(pacer.next(), Time::from_millis(21));
    }

    #[test]
    fn packets_leave_at_the_rate_and_idle_time_is_not_saved() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO, Span::ZERO);
        let mut now = Time::from_millis(500);
        assert!(pacer.next() <= now);
        for _ in 0..3 {
            pacer.sent(now, PACKET);
            assert_eq!(pacer.next(), now + Span::from_millis(1));
            now = pacer.next();
        }
        now += Span::from_millis(100);
        pacer.sent(now, PACKET);
        assert_eq!(pacer.next(), now + Span::from_millis(1));
    }

    #[test]
    fn small_lateness_is_made_up() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO, Span::ZERO);
        let start = Time::from_millis(1);
        pacer.sent(start, PACKET);
        pacer.sent(pacer.next() + Span::from_micros(200), PACKET);
        assert_eq!(pacer.next(), start + Span::from_millis(2));
    }

    #[test]
    fn bunches_leave_together_at_the_same_rate() {
        let mut pacer = Pacer::in_bunches(3);
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::ZERO, Span::ZERO);
        let start = Time::from_millis(500);
        let mut left = Vec::new();
        for _ in 0..9 {
            let now = pacer.next().max(left.last().copied().unwrap_or(start));
            pacer.sent(now, PACKET);
            left.push(now);
        }
        let ms: Vec<i64> = left.iter().map(|at| (*at - start).as_nanos() / 1_000_000).collect();
        assert_eq!(ms, [0, 0, 0, 3, 3, 3, 6, 6, 6]);
        // A bunch that the window cut short takes as long as a whole one.
        pacer.sent(start + Span::from_millis(9), PACKET);
        pacer.pause();
        assert_eq!(pacer.next(), start + Span::from_millis(12));
    }

    #[test]
    fn segments_leave_together_and_a_short_bunch_owes_what_it_sent() {
        let mut pacer = Pacer::default();
        pacer.apply_in_bunches(Some(Rate::from_mbps(10)), 2);
        let start = Time::from_millis(500);
        let mut left = Vec::new();
        for _ in 0..4 {
            let now = pacer.next().max(left.last().copied().unwrap_or(start));
            pacer.sent(now, PACKET);
            left.push(now);
        }
        let ms: Vec<i64> = left.iter().map(|at| (*at - start).as_nanos() / 1_000_000).collect();
        assert_eq!(ms, [0, 0, 2, 2]);
        pacer.sent(start + Span::from_millis(4), PACKET);
        pacer.pause();
        assert_eq!(pacer.next(), start + Span::from_millis(5));
    }

    #[test]
    fn a_burst_may_run_ahead() {
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_mbps(10)), Bytes::new(2500), Span::ZERO);
        let now = Time::from_millis(500);
        pacer.sent(now, PACKET);
        pacer.sent(now, PACKET);
        assert!(pacer.next() <= now);
        pacer.sent(now, PACKET);
        assert!(pacer.next() > now);
    }

    #[test]
    fn ticks_send_what_the_rate_allows_and_owe_the_rest() {
        // 2.5 Mbit/s are 1562.5 bytes a tick; packets of 1250 take 4 ms each.
        let mut pacer = Pacer::default();
        pacer.apply(Some(Rate::from_kbps(2_500)), Bytes::ZERO, Span::from_millis(5));
        let start = Time::from_millis(500);
        let mut now = start;
        let mut left = Vec::new();
        for _ in 0..6 {
            now = now.max(pacer.next());
            left.push((now - start).as_micros() / 1000);
            pacer.sent(now, PACKET);
        }
        assert_eq!(
            left,
            [0, 0, 5, 10, 15, 20],
            "4 ms each, 5 ms a tick: 8 - 5 + 4 - 5 + 4 - 5 + 4 - 5 leaves nothing over at 20"
        );
        now = Time::from_millis(601);
        assert!(pacer.next() <= now);
        pacer.sent(now, PACKET);
        pacer.sent(now, PACKET);
        assert_eq!(pacer.next(), Time::from_millis(606));
    }
}
