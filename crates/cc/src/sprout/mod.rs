//! Sprout (Winstein, Sivaraman, Balakrishnan, NSDI 2013): a forecast of what the link will certainly deliver,
//! and no more in flight than that.
//!
//! ```text
//!  receiver: packets a tick -> model.rs       what the link's rate may be
//!                           -> forecaster.rs  a forecast every 20 ms, in the feedback's blob (forecast.rs)
//!  sender:   forecast, bytes out             -> what may leave now                                    (this file)
//! ```

mod forecast;
mod forecaster;
mod model;

use units::{Bytes, Rate, Span, Time};

use crate::parts::window_rate;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use forecast::Forecast;
use forecaster::Forecaster;
use model::{Counts, PRIOR, TICKS};

/// The row of the paper's sender.
pub const ENTRY: Entry = Entry {
    name: "sprout",
    summary: "Sprout: sends what a cautious forecast says will be delivered within 100 ms (NSDI 2013)",
    needs_frames: false,
    options: OPTIONS,
    page: include_str!("sprout.md"),
    build: |_, setup| Ok(Box::new(Sprout::new(Drain::PerTick, setup))),
    receiver: Some(|options, setup| Ok(Box::new(Forecaster::new(confidence(options)?, setup)))),
};

/// The row of the published code's sender.
pub const CUMULATIVE: Entry = Entry {
    name: "sprout-cumulative",
    summary: "Sprout as published in code: an old forecast drains the queue estimate more than once",
    build: |_, setup| Ok(Box::new(Sprout::new(Drain::Cumulative, setup))),
    ..ENTRY
};

const OPTIONS: &[(&str, &str)] =
    &[("confidence", "percent of forecasts that shall hold, 5 to 99 (default 95; NSDI 2013)")];

fn confidence(options: &Options) -> Result<f64, OptionError> {
    Ok(options.number("confidence", 95.0, 5.0..=99.0)? / 100.0)
}

/// The paper's; `receiver.hh`, TICK_LENGTH.
const TICK: Span = Span::from_millis(20);
/// Deliveries within 100 ms count: five ticks (`sproutconn.h`, TARGET_DELAY_TICKS).
const HORIZON: usize = 5;
/// Bytes of one of the model's packets (Pantheon's patch; keithw/sprout counts arrivals so too, but sends
/// 1440).
const UNIT: u64 = 1400;
/// With nothing allowed, one packet leaves this often all the same (`sproutbt2.cc`, fallback_interval).
const KEEP_ALIVE: Span = Span::from_millis(50);

/// A tick counts as elapsed this much late, so that a forecast that is on time is read first. (The reference
/// looks at the clock in steps of 10 ms that overrun a little, but at once when something arrives.)
const SLACK: Span = Span::from_millis(1);

/// What an elapsed tick takes off the queue estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// The tick's own deliveries (the paper's intention).
    PerTick,
    /// All deliveries forecast up to the tick (keithw/sprout, `sproutconn.cc`, update_queue_estimate).
    Cumulative,
}

/// The sender half.
#[derive(Clone, Debug)]
pub struct Sprout {
    datagram: u64,
    drain: Drain,
    counts: Counts,
    /// The newest forecast's number.
    newest: Option<u32>,
    /// When that came; the prior's clock starts with the first packet.
    since: Option<Time>,
    /// Ticks elapsed since, at most 7.
    elapsed: usize,
    /// Bytes estimated to be on their way or waiting.
    queue: u64,
    in_flight: u64,
    sent_at: Option<Time>,
    /// Nothing has left for the keep-alive's interval.
    overdue: bool,
    /// All that the newest forecast allows was used.
    filled: bool,
    initial: Rate,
    /// Packets belong to no frame, and there is always another: there is no encoder to advise.
    backlogged: bool,
    srtt: Option<Span>,
}

impl Sprout {
    fn new(drain: Drain, setup: &Setup) -> Sprout {
        Sprout {
            datagram: u64::from(setup.mtu).max(1),
            drain,
            counts: PRIOR,
            newest: None,
            since: None,
            elapsed: 0,
            queue: 0,
            in_flight: 0,
            sent_at: None,
            overdue: false,
            filled: false,
            initial: setup.initial.max(Rate::from_bps(1)),
            backlogged: false,
            srtt: None,
        }
    }

    fn bytes(&self, tick: usize) -> u64 {
        UNIT * u64::from(self.counts[tick])
    }

    /// Brings the queue estimate and the keep-alive up to `now`.
    fn advance(&mut self, now: Time) {
        let Some(since) = self.since else { return };
        let age = (now - since - SLACK).max(Span::ZERO);
        let elapsed = (age.as_nanos() / TICK.as_nanos()).min(TICKS as i64 - 1);
        while self.elapsed < elapsed as usize {
            let drained = match self.drain {
                Drain::PerTick => self.bytes(self.elapsed + 1) - self.bytes(self.elapsed),
                Drain::Cumulative => self.bytes(self.elapsed),
            };
            self.queue = self.queue.saturating_sub(drained);
            self.elapsed += 1;
        }
        self.overdue |= self.sent_at.is_some_and(|at| now - at >= KEEP_ALIVE);
    }

    /// Deliveries forecast from now until the horizon.
    fn deliverable(&self) -> u64 {
        self.bytes((self.elapsed + HORIZON).min(TICKS - 1)) - self.bytes(self.elapsed)
    }

    fn is_full(&self) -> bool {
        self.deliverable() <= self.queue
    }

    /// Bytes that may leave now. Deviation: rounded up to whole datagrams, for the reference cuts its last
    /// packet to fit and a session does not. Rounded down, a slow link would stay slow: a datagram a tick
    /// forecasts less than two.
    fn allowance(&self) -> u64 {
        let allowed = self.deliverable().saturating_sub(self.queue).max(u64::from(self.overdue));
        allowed.next_multiple_of(self.datagram)
    }

    /// What an encoder should produce. Deviation: what is deliverable over srtt (as every window here is
    /// turned into a rate), not over the horizon: a forecast is cautious about the rate that arrived, so that
    /// an encoder that followed it over 100 ms would talk itself down to nothing. And a datagram more, else
    /// the belief in a slow link could not be refuted.
    fn advice(&self) -> Rate {
        let asked = Bytes::new(self.deliverable() + self.datagram);
        self.srtt.map_or(self.initial, |srtt| window_rate(asked, srtt, 1.0))
    }

    /// Takes a forecast. Deviation: one that is smaller than the last is not believed while the application
    /// leaves part of that unused, unless it sees an outage with packets on their way: it was made of what
    /// the application chose to send. (Sprout's time-to-next excuses idle ticks only, not meagre ones.)
    fn adopt(&mut self, forecast: Forecast, now: Time) {
        if self.newest.is_some_and(|newest| !forecast.is_after(newest)) {
            return;
        }
        self.newest = Some(forecast.tick);
        // What was sent less what was received or lost. Deviation: counted by the sender's own ledger, from
        // the report the forecast came with; packets have numbers here, not byte offsets, so the receiver
        // can't say it in bytes.
        (self.since, self.elapsed, self.queue) = (Some(now), 0, self.in_flight);
        let (old, new) = (reach(&self.counts), reach(&forecast.counts));
        if self.filled || new > old || new == 0 && self.in_flight > 0 {
            self.counts = forecast.counts;
        }
        self.filled = self.is_full();
    }
}

/// Packets within the horizon of a fresh forecast.
fn reach(counts: &Counts) -> u8 {
    counts[HORIZON] - counts[0]
}

impl Controller for Sprout {
    fn on_sent(&mut self, sent: &Sent) {
        self.since.get_or_insert(sent.now);
        self.advance(sent.now);
        self.queue = self.queue.saturating_add(u64::from(sent.size));
        self.in_flight = sent.in_flight.get();
        (self.sent_at, self.overdue) = (Some(sent.now), false);
        self.filled |= self.is_full();
        self.backlogged = sent.frame.is_none() && !sent.app_limited;
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.advance(report.now);
        self.in_flight = report.in_flight.get();
        self.srtt = Some(report.srtt);
        if let Some(forecast) = Forecast::read(report.blob) {
            self.adopt(forecast, report.now);
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.advance(now);
    }

    fn next_timer(&self) -> Option<Time> {
        let running = self.since.filter(|_| self.elapsed < TICKS - 1);
        let tick = running.map(|at| at + TICK * (self.elapsed as i64 + 1) + SLACK);
        let keep_alive = self.sent_at.filter(|_| !self.overdue).map(|at| at + KEEP_ALIVE);
        Time::first(tick, keep_alive)
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.datagram = u64::from(mtu.max(1));
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let window = self.in_flight.saturating_add(self.allowance()).max(1);
        // Until its first packet tells, a flow is taken for an encoder's. A backlogged one must not be paced.
        let media = (!self.backlogged).then(|| self.advice());
        Decision { window: Some(Bytes::new(window)), media, ..Decision::default() }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("forecast_bytes", self.deliverable() as f64);
        sink("queue_estimate_bytes", self.queue as f64);
        sink("allowance_bytes", self.allowance() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::report;

    const STEADY_12: Counts = [6, 15, 25, 34, 44, 54, 63, 73];

    fn sent(ms: u64, size: u32, in_flight: u64) -> Sent {
        let now = Time::from_millis(ms);
        Sent { now, packet: ms, size, frame: None, in_flight: Bytes::new(in_flight), app_limited: false }
    }

    fn hear(sprout: &mut Sprout, ms: u64, tick: u32, counts: Counts, in_flight: u64) {
        let mut blob = Vec::new();
        Forecast { tick, counts }.write(&mut blob);
        let in_flight = Bytes::new(in_flight);
        sprout.on_feedback(&Report {
            now: Time::from_millis(ms),
            blob: &blob,
            in_flight,
            ..report(&[], &[])
        });
    }

    fn window(sprout: &Sprout) -> u64 {
        sprout.decision().window.unwrap().get()
    }

    #[test]
    fn it_starts_with_the_prior_at_once() {
        // sprout.md section 6: about six packets in 100 ms.
        assert_eq!(window(&Sprout::new(Drain::PerTick, &Setup::default())), 6 * UNIT);
    }

    /// A datagram is one of the model's packets.
    fn whole(drain: Drain) -> Sprout {
        Sprout::new(drain, &Setup { mtu: 1400, ..Setup::default() })
    }

    #[test]
    fn the_window_is_what_five_ticks_deliver() {
        // sprout.md section 7, point 3: 600 packets/s make a window of 48.
        let mut sprout = whole(Drain::PerTick);
        sprout.on_sent(&sent(0, 1400, 1400));
        hear(&mut sprout, 100, 1, STEADY_12, 10 * UNIT);
        assert_eq!((window(&sprout), sprout.allowance()), (48 * UNIT, 38 * UNIT));
        sprout.on_sent(&sent(101, 1400, 11 * UNIT));
        assert_eq!((window(&sprout), sprout.allowance()), (48 * UNIT, 37 * UNIT));
        // Acknowledgements between forecasts open nothing.
        sprout.on_feedback(&Report {
            in_flight: Bytes::ZERO,
            now: Time::from_millis(102),
            ..report(&[], &[])
        });
        assert_eq!(sprout.allowance(), 37 * UNIT);
        // An older forecast changes nothing.
        hear(&mut sprout, 103, 1, [0; 8], 0);
        assert_eq!(sprout.allowance(), 37 * UNIT);
    }

    #[test]
    fn elapsed_ticks_drain_their_own_deliveries_or_all_so_far() {
        let allowances = |drain| {
            let mut sprout = whole(drain);
            sprout.on_sent(&sent(90, 1400, 1400));
            hear(&mut sprout, 100, 1, STEADY_12, 48 * UNIT);
            [120, 121, 141, 161].map(|ms| {
                sprout.sent_at = Some(Time::from_millis(ms));
                sprout.on_timer(Time::from_millis(ms));
                sprout.allowance() / UNIT
            })
        };
        // Queue 48, then 39, 29, 20 against 63-15, 73-25, 73-34 deliverable.
        assert_eq!(allowances(Drain::PerTick), [0, 9, 19, 19]);
        // Queue 48, then 42, 27, 2.
        assert_eq!(allowances(Drain::Cumulative), [0, 6, 21, 37]);
    }

    #[test]
    fn without_forecasts_only_keep_alives_are_left() {
        let mut sprout = whole(Drain::PerTick);
        sprout.on_sent(&sent(0, 1200, 1200));
        sprout.on_sent(&sent(130, 1200, 2400));
        sprout.on_timer(Time::from_millis(161));
        assert_eq!((sprout.allowance(), sprout.next_timer()), (0, Some(Time::from_millis(180))));
        sprout.on_timer(Time::from_millis(180));
        assert_eq!((sprout.allowance(), sprout.next_timer()), (1400, None));
        sprout.on_sent(&sent(181, 1200, 3600));
        assert_eq!((sprout.allowance(), sprout.next_timer()), (0, Some(Time::from_millis(231))));
    }

    #[test]
    fn an_allowance_is_whole_datagrams() {
        let mut sprout = Sprout::new(Drain::PerTick, &Setup { mtu: 1000, ..Setup::default() });
        sprout.on_sent(&sent(0, 1000, 1000));
        hear(&mut sprout, 40, 1, STEADY_12, 47 * UNIT);
        assert_eq!(sprout.allowance(), 2000);
    }

    #[test]
    fn an_idle_application_is_no_slow_link_but_an_outage_is_one() {
        let meagre = [0, 0, 0, 1, 1, 2, 3, 4];
        let mut sprout = whole(Drain::PerTick);
        sprout.on_sent(&sent(0, 1400, 1400));
        hear(&mut sprout, 40, 1, STEADY_12, UNIT);
        hear(&mut sprout, 60, 2, meagre, UNIT);
        assert_eq!(sprout.deliverable(), 48 * UNIT, "one packet of 48 was used");
        hear(&mut sprout, 80, 3, [0; 8], UNIT);
        assert_eq!(sprout.deliverable(), 0, "nothing gets through");
        hear(&mut sprout, 100, 4, STEADY_12, 48 * UNIT);
        hear(&mut sprout, 120, 5, meagre, 48 * UNIT);
        assert_eq!(sprout.deliverable(), 2 * UNIT, "all 48 were used");
    }

    #[test]
    fn an_encoder_is_advised_and_a_backlog_is_not() {
        let mut sprout = whole(Drain::PerTick);
        assert_eq!(sprout.decision().media, Some(Setup::default().initial));
        hear(&mut sprout, 40, 1, STEADY_12, 0);
        // 48 packets and a datagram over 40 ms.
        assert_eq!(sprout.decision().media, Some(Rate::from_bps(49 * 1400 * 8 * 25)));
        sprout.on_sent(&sent(50, 1400, 1400));
        assert_eq!(sprout.decision().media, None);
    }
}
