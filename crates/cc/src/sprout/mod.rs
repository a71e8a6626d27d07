//! Sprout (Winstein, Sivaraman, Balakrishnan, NSDI 2013): a forecast of what the link will certainly deliver, and no more in
//! flight than that.
//!
//! ```text
//!  receiver: packets a tick -> model.rs       what the link's rate may be
//!                           -> forecaster.rs  a forecast every 20 ms, in the feedback's blob (forecast.rs)
//!  sender:   forecast, bytes out             -> what may leave now                                    (this file)
//! ```

mod forecast;
mod forecaster;
mod model;

use units::{Bytes, Span, Time};

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
    &[("confidence", "percent of forecasts that shall hold, 5 to 99 (default 95; NSDI 2013 section 5.5)")];

fn confidence(options: &Options) -> Result<f64, OptionError> {
    Ok(options.number("confidence", 95.0, 5.0..=99.0)? / 100.0)
}

/// Section 3.2 of the paper.
const TICK: Span = Span::from_millis(20);
/// Deliveries within 100 ms count (section 3.4): five ticks.
const HORIZON: usize = 5;
/// Bytes of one of the model's packets (Pantheon's patch; keithw/sprout counts arrivals so too, but sends 1440).
const UNIT: u64 = 1400;
/// With nothing allowed, one packet leaves this often all the same (`sproutbt2.cc`, fallback_interval).
const KEEP_ALIVE: Span = Span::from_millis(50);

/// What an elapsed tick takes off the queue estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// The tick's own deliveries (the paper, section 3.4).
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
    video: bool,
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
            video: false,
            srtt: None,
        }
    }

    fn bytes(&self, tick: usize) -> u64 {
        UNIT * u64::from(self.counts[tick])
    }

    /// Brings the queue estimate and the keep-alive up to `now`.
    fn advance(&mut self, now: Time) {
        let Some(since) = self.since else { return };
        let elapsed = ((now - since).max(Span::ZERO).as_nanos() / TICK.as_nanos()).min(TICKS as i64 - 1);
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

    /// Bytes that may leave now.
    fn allowance(&self) -> u64 {
        let allowed = self.deliverable().saturating_sub(self.queue);
        if self.overdue { allowed.max(self.datagram) } else { allowed }
    }

    fn adopt(&mut self, forecast: Forecast, now: Time) {
        if self.newest.is_none_or(|newest| forecast.is_after(newest)) {
            (self.newest, self.counts) = (Some(forecast.tick), forecast.counts);
            (self.since, self.elapsed) = (Some(now), 0);
            // What was sent less what was received or lost. Deviation: counted by the sender's own ledger, from the report
            // the forecast came with; packets have numbers here, not byte offsets, so the receiver can't say it in bytes.
            self.queue = self.in_flight;
        }
    }
}

impl Controller for Sprout {
    fn on_sent(&mut self, sent: &Sent) {
        self.since.get_or_insert(sent.now);
        self.advance(sent.now);
        self.queue = self.queue.saturating_add(u64::from(sent.size));
        self.in_flight = sent.in_flight.get();
        (self.sent_at, self.overdue) = (Some(sent.now), false);
        self.video |= sent.frame.is_some();
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
        let tick = self.since.filter(|_| self.elapsed < TICKS - 1).map(|at| at + TICK * (self.elapsed as i64 + 1));
        let keep_alive = self.sent_at.filter(|_| !self.overdue).map(|at| at + KEEP_ALIVE);
        [tick, keep_alive].into_iter().flatten().min()
    }

    fn decision(&self) -> Decision {
        let window = self.in_flight.saturating_add(self.allowance()).max(1);
        // Deviation: what is deliverable over srtt, not over the horizon. Every forecast is cautious about the rate of the
        // last one's packets: an encoder that followed it over 100 ms would talk itself down to nothing. A backlogged flow
        // has no encoder, and must not be paced.
        let deliverable = Bytes::new(self.deliverable());
        let media = self.srtt.filter(|_| self.video).map(|srtt| window_rate(deliverable, srtt, 1.0));
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
        sprout.on_feedback(&Report { now: Time::from_millis(ms), blob: &blob, in_flight, ..report(&[], &[]) });
    }

    fn window(sprout: &Sprout) -> u64 {
        sprout.decision().window.unwrap().get()
    }

    #[test]
    fn it_starts_with_the_prior_at_once() {
        // sprout.md section 6: about six packets in 100 ms.
        assert_eq!(window(&Sprout::new(Drain::PerTick, &Setup::default())), 6 * UNIT);
    }

    #[test]
    fn the_window_is_what_five_ticks_deliver() {
        // sprout.md section 7, point 3: 600 packets/s make a window of 48.
        let mut sprout = Sprout::new(Drain::PerTick, &Setup::default());
        sprout.on_sent(&sent(0, 1400, 1400));
        hear(&mut sprout, 100, 1, STEADY_12, 10 * UNIT);
        assert_eq!((window(&sprout), sprout.allowance()), (48 * UNIT, 38 * UNIT));
        sprout.on_sent(&sent(101, 1400, 11 * UNIT));
        assert_eq!((window(&sprout), sprout.allowance()), (48 * UNIT, 37 * UNIT));
        // Acknowledgements between forecasts open nothing.
        sprout.on_feedback(&Report { in_flight: Bytes::ZERO, now: Time::from_millis(102), ..report(&[], &[]) });
        assert_eq!(sprout.allowance(), 37 * UNIT);
        // An older forecast changes nothing.
        hear(&mut sprout, 103, 1, [0; 8], 0);
        assert_eq!(sprout.allowance(), 37 * UNIT);
    }

    #[test]
    fn elapsed_ticks_drain_their_own_deliveries_or_all_so_far() {
        let allowances = |drain| {
            let mut sprout = Sprout::new(drain, &Setup::default());
            sprout.on_sent(&sent(90, 1400, 1400));
            hear(&mut sprout, 100, 1, STEADY_12, 48 * UNIT);
            [119, 120, 140, 160].map(|ms| {
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
        let mut sprout = Sprout::new(Drain::PerTick, &Setup::default());
        sprout.on_sent(&sent(0, 1200, 1200));
        sprout.on_sent(&sent(130, 1200, 2400));
        sprout.on_timer(Time::from_millis(160));
        assert_eq!((sprout.allowance(), sprout.next_timer()), (0, Some(Time::from_millis(180))));
        sprout.on_timer(Time::from_millis(180));
        assert_eq!((sprout.allowance(), sprout.next_timer()), (1200, None));
        sprout.on_sent(&sent(181, 1200, 3600));
        assert_eq!((sprout.allowance(), sprout.next_timer()), (0, Some(Time::from_millis(231))));
    }
}
