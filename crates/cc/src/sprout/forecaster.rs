//! The receiver half: counts what arrives in each tick and sends a forecast after each.

use units::{Span, Time};

use super::forecast::Forecast;
use super::model::Belief;
use super::{KEEP_ALIVE, TICK, UNIT};
use crate::{Received, ReceiverHalf, Setup};

/// A clock that jumps further than this many ticks (5 s) starts the belief over instead of living through
/// them: by then it holds an outage or, had nothing been expected, next to nothing.
const CATCH_UP: i64 = 250;

/// The receiver's half: infers the link's rate from arrivals and forecasts what it will deliver.
#[derive(Clone, Debug)]
pub struct Forecaster {
    belief: Belief,
    confidence: f64,
    /// A sender that is not held up sends again within this.
    promise: Span,
    ticking: Option<Ticking>,
    written: u32,
}

/// The tick that runs.
#[derive(Clone, Copy, Debug)]
struct Ticking {
    start: Time,
    /// Ticks that have ended.
    ended: u32,
    /// Bytes that arrived in this one.
    bytes: u64,
    /// An empty tick that starts before this says nothing about the link.
    promised: Time,
}

impl Forecaster {
    /// A forecaster whose forecasts hold with `confidence`.
    pub fn new(confidence: f64, setup: &Setup) -> Forecaster {
        Forecaster {
            belief: Belief::default(),
            confidence,
            promise: KEEP_ALIVE.max(setup.frame_interval),
            ticking: None,
            written: 0,
        }
    }

    /// Ends the ticks that are over.
    fn advance(&mut self, now: Time) {
        let Some(ticking) = &mut self.ticking else { return };
        let over = (now - ticking.start).as_nanos() / TICK.as_nanos();
        if over > CATCH_UP {
            self.belief = Belief::default();
            (ticking.start, ticking.bytes, ticking.promised) = (now, 0, now);
            ticking.ended = ticking.ended.wrapping_add(1);
        }
        while now >= ticking.start + TICK {
            self.belief.evolve();
            if ticking.bytes > 0 || ticking.start >= ticking.promised {
                self.belief.observe(packets(ticking.bytes));
            }
            ticking.bytes = 0;
            ticking.start += TICK;
            ticking.ended = ticking.ended.wrapping_add(1);
        }
    }

    fn ended(&self) -> u32 {
        self.ticking.map_or(0, |ticking| ticking.ended)
    }
}

/// Bytes as packets: rounded, but something is never nothing.
fn packets(bytes: u64) -> u32 {
    let whole = (bytes + UNIT / 2) / UNIT;
    whole.max(u64::from(bytes > 0)).min(u64::from(u32::MAX)) as u32
}

impl ReceiverHalf for Forecaster {
    fn on_packet(&mut self, packet: &Received) {
        let now = packet.now;
        self.advance(now);
        let fresh = Ticking { start: now, ended: 0, bytes: 0, promised: now };
        let ticking = self.ticking.get_or_insert(fresh);
        ticking.bytes += u64::from(packet.size);
        ticking.promised = ticking.promised.max(ticking.start + self.promise);
    }

    fn on_timer(&mut self, now: Time) {
        self.advance(now);
    }

    fn next_timer(&self) -> Option<Time> {
        self.ticking.map(|ticking| ticking.start + TICK)
    }

    fn due_at(&self) -> Option<Time> {
        self.ticking.filter(|ticking| ticking.ended != self.written).map(|ticking| ticking.start)
    }

    fn write(&mut self, now: Time, out: &mut Vec<u8>) {
        self.advance(now);
        if self.ended() != self.written {
            self.written = self.ended();
            Forecast { tick: self.written, counts: self.belief.forecast(self.confidence) }.write(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sprout::model::PRIOR;
    use units::Ecn;

    fn forecaster() -> Forecaster {
        Forecaster::new(0.95, &Setup::default())
    }

    fn receive(half: &mut Forecaster, ms: u64, size: u32) {
        let now = Time::from_millis(ms);
        half.on_packet(&Received { now, packet: ms, sent: now.on_wire(), size, ecn: Ecn::NotEct, rtt: None });
    }

    fn word(half: &mut Forecaster, ms: u64) -> Option<Forecast> {
        let mut blob = Vec::new();
        half.write(Time::from_millis(ms), &mut blob);
        Forecast::read(&blob)
    }

    #[test]
    fn one_forecast_a_tick_from_the_first_packet_on() {
        let mut half = forecaster();
        assert_eq!((half.next_timer(), half.due_at(), word(&mut half, 0)), (None, None, None));
        receive(&mut half, 100, 1400);
        assert_eq!((half.next_timer(), half.due_at()), (Some(Time::from_millis(120)), None));
        half.on_timer(Time::from_millis(120));
        assert_eq!(half.due_at(), Some(Time::from_millis(120)));
        assert_eq!(word(&mut half, 121).map(|forecast| forecast.tick), Some(1));
        assert_eq!((half.due_at(), word(&mut half, 122)), (None, None));
        assert_eq!(word(&mut half, 163).map(|forecast| forecast.tick), Some(3));
    }

    #[test]
    fn fractions_of_a_packet_round_but_not_to_nothing() {
        assert_eq!([0, 1, 699, 700, 2099, 2100].map(packets), [0, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn silence_is_an_outage_once_the_promise_is_over() {
        let mut half = forecaster();
        for ms in (0..2000).step_by(20) {
            (0..12).for_each(|_| receive(&mut half, ms, 1400));
        }
        // The last packets came with the tick that began at 1980 ms: those of 2000 and 2020 ms are excused.
        let at = |half: &mut Forecaster, ms| word(half, ms).unwrap().counts[4];
        let full = at(&mut half, 2000);
        assert!(full.abs_diff(44) <= 1, "{full}");
        assert!(at(&mut half, 2040) + 5 > full);
        assert!(at(&mut half, 2060) + 6 < full);
        assert_eq!(at(&mut half, 2200), 0);
    }

    #[test]
    fn a_jump_of_the_clock_starts_over() {
        let mut half = forecaster();
        (0..100).for_each(|n| receive(&mut half, n, 1400));
        receive(&mut half, 10_000_000, 1400);
        assert_eq!(word(&mut half, 10_000_000).unwrap().counts, PRIOR);
        assert_eq!(half.next_timer(), Some(Time::from_millis(10_000_020)));
    }
}
