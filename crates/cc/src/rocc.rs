//! RoCC: the window is what was delivered in `(1 + gamma) RTTmin`, plus a constant (arXiv 2309.16869 section
//! 4, Vidaptive).
//!
//! A full pipe delivers C, so the window is `(1 + gamma) RTTmin C + alpha`, and the queue
//! `gamma RTTmin + alpha / C`.

use std::collections::VecDeque;

use units::{Bytes, Rate, Span, Time};

use crate::parts::{Extremum, window_rate};
use crate::registry::Build;
use crate::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};

const fn entry(name: &'static str, summary: &'static str, build: Build) -> Entry {
    Entry {
        name,
        summary,
        needs_frames: false,
        options: &[
            ("gamma", "queue aimed for, in smallest round trips, 0.05 to 4"),
            ("alpha", "packets on top of what was delivered, 1 to 20 (default 2)"),
            ("loss_mode", "paced slower where over 6.25 % is lost, on or off"),
            ("drain", "empty the queue every 10 s to see the smallest round trip, on or off (default off)"),
        ],
        page: include_str!("rocc.md"),
        build,
        receiver: None,
    }
}

/// With Vidaptive's constants.
pub const ENTRY: Entry =
    entry("rocc", "RoCC as in Vidaptive: gamma 0.5", |o, s| Params::vidaptive().build(o, s));
/// With the kernel module's.
pub const ENTRY_KERNEL: Entry =
    entry("rocc-kernel", "RoCC as in its kernel module: gamma 1, loss mode", |o, s| {
        Params::kernel().build(o, s)
    });

/// RFC 6928; the kernel's initial window.
const INITIAL_WINDOW: u64 = 10;
/// Kernel module.
const MINIMUM_WINDOW: u64 = 2;
/// Kernel module: more than 64 of 1024 packets lost is too much ...
const LOSS_THRESHOLD: f64 = 64.0 / 1024.0;
/// ... and paces at this many windows a round trip: (1024 + 2 64) / (2 1024).
const LOSS_PACING: f64 = (1.0 + 2.0 * LOSS_THRESHOLD) / 2.0;
/// The round trip before any sample.
const FIRST_RTT: Span = Span::from_millis(100);
/// Entries of the history at most: 8000 packets, 0.9 s at 100 Mbit/s.
const CAPACITY: usize = 4096;
/// With `drain`: how often the queue is emptied, ...
const DRAIN_EVERY: Span = Span::from_secs(10);
/// ... how long a smallest round trip counts (longer, so that the next is there before the last goes), ...
const DRAINED_WINDOW: Span = Span::from_secs(15);
/// ... and the window meanwhile, in bandwidth-delay products.
const DRAIN_WINDOW: f64 = 0.75;

/// What the presets differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Queue aimed for, in smallest round trips.
    pub gamma: f64,
    /// Packets the window has on top of that queue.
    pub alpha: f64,
    /// Paced over the smallest round trip instead of the smoothed one: always limited by the window.
    pub eager: bool,
    /// Paced slower on heavy loss.
    pub loss_mode: bool,
    /// The smallest round trip expires, and the queue is emptied to see it again.
    pub drain: bool,
}

impl Params {
    /// Gamma 0.5, packets paced at the window over srtt (section 5); the "small constant" is the kernel
    /// module's two.
    pub fn vidaptive() -> Params {
        Params { gamma: 0.5, alpha: 2.0, eager: false, loss_mode: false, drain: false }
    }

    /// The constants of the authors' kernel module (`tcp_simple_rocc.c`).
    pub fn kernel() -> Params {
        Params { gamma: 1.0, eager: true, loss_mode: true, ..Params::vidaptive() }
    }

    fn build(self, options: &Options, setup: &Setup) -> Result<Box<dyn Controller>, OptionError> {
        let params = Params {
            gamma: options.number("gamma", self.gamma, 0.05..=4.0)?,
            alpha: options.number("alpha", self.alpha, 1.0..=20.0)?,
            loss_mode: options.switch("loss_mode", self.loss_mode)?,
            drain: options.switch("drain", self.drain)?,
            ..self
        };
        Ok(Box::new(Rocc::new(params, setup)))
    }
}

/// What one report settled.
#[derive(Clone, Copy, Debug)]
struct Settled {
    at: Time,
    acked: u64,
    lost: u64,
    used: bool,
}

/// What was settled over a sliding window, and its sums.
#[derive(Clone, Debug, Default)]
struct History {
    entries: VecDeque<Settled>,
    acked: u64,
    lost: u64,
    /// Entries whose report saw the window used.
    used: usize,
}

impl History {
    /// Takes `new`, and forgets what is `span` old or older.
    fn push(&mut self, new: Settled, span: Span) {
        while self.entries.front().is_some_and(|old| new.at - old.at >= span) {
            let Some(old) = self.entries.pop_front() else { break };
            self.acked -= old.acked;
            self.lost -= old.lost;
            self.used -= usize::from(old.used);
        }
        self.acked += new.acked;
        self.lost += new.lost;
        let full = self.entries.len() == CAPACITY;
        match self.entries.back_mut() {
            Some(last) if full => {
                self.used += usize::from(new.used && !last.used);
                let (acked, lost) = (last.acked + new.acked, last.lost + new.lost);
                *last = Settled { acked, lost, used: last.used || new.used, ..new };
            }
            _ => {
                self.used += usize::from(new.used);
                self.entries.push_back(new);
            }
        }
    }

    fn is_lossy(&self) -> bool {
        self.lost as f64 > LOSS_THRESHOLD * (self.acked + self.lost) as f64
    }
}

/// RoCC's state.
#[derive(Clone, Debug)]
pub struct Rocc {
    params: Params,
    datagram: u64,
    window: u64,
    history: History,
    least: Extremum<Time, Span>,
    srtt: Option<Span>,
    /// When the first acknowledgement came.
    begun_at: Option<Time>,
    drain_at: Time,
    drained_at: Time,
}

impl Rocc {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> Rocc {
        let datagram = u64::from(setup.mtu.max(1));
        Rocc {
            params,
            datagram,
            window: INITIAL_WINDOW * datagram,
            history: History::default(),
            least: Extremum::min(),
            srtt: None,
            begun_at: None,
            drain_at: Time::MAX,
            drained_at: Time::ZERO,
        }
    }

    fn least(&self) -> Span {
        self.least.get().unwrap_or(FIRST_RTT)
    }

    /// The span whose deliveries make the window.
    fn span(&self) -> Span {
        self.least().mul_f64(1.0 + self.params.gamma)
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        let kept_from = if self.params.drain { now.saturating_sub(DRAINED_WINDOW) } else { Time::ZERO };
        self.least.insert(now, rtt.max(Span::from_micros(1)), kept_from);
    }

    /// What was delivered in the span, plus alpha.
    fn target(&self) -> u64 {
        let more = (self.params.alpha * self.datagram as f64) as u64;
        (self.history.acked + more).max(MINIMUM_WINDOW * self.datagram)
    }

    fn update(&mut self, now: Time) {
        let target = self.target();
        let begun = self.begun_at.is_some_and(|at| now - at >= self.span());
        if !begun {
            self.window = target.max(INITIAL_WINDOW * self.datagram);
        } else if target >= self.window || self.history.used > 0 {
            // A window nobody used says nothing of the path: it does not fall.
            self.window = target;
        }
    }

    /// Every ten seconds the window is small for a round trip.
    fn drain(&mut self, now: Time) {
        if self.drain_at == Time::MAX {
            self.drain_at = now + DRAIN_EVERY;
        }
        if now >= self.drain_at {
            self.drain_at = now + DRAIN_EVERY;
            self.drained_at = now + self.srtt.unwrap_or(FIRST_RTT);
        }
        if now < self.drained_at {
            let delivered = self.history.acked as f64 / (1.0 + self.params.gamma);
            let small = (DRAIN_WINDOW * delivered) as u64;
            self.window = self.window.min(small.max(MINIMUM_WINDOW * self.datagram));
        }
    }
}

impl Controller for Rocc {
    fn on_sent(&mut self, _: &Sent) {}

    fn follows_sending(&self) -> bool {
        false
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let now = report.now;
        self.srtt = Some(report.srtt);
        if let Some(rtt) = report.latest_rtt {
            self.sample(now, rtt);
        }
        let acked = report.acked.iter().map(|acked| u64::from(acked.size)).sum();
        let lost = report.lost.iter().map(|lost| u64::from(lost.size)).sum();
        self.history.push(Settled { at: now, acked, lost, used: report.limited }, self.span());
        if acked > 0 {
            self.begun_at.get_or_insert(now);
        }
        self.update(now);
        if report.persistent_congestion {
            self.window = self.target();
        }
        if self.params.drain {
            self.drain(now);
        }
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.datagram = u64::from(mtu.max(1));
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let window = Bytes::new(self.window);
        let srtt = self.srtt.unwrap_or(FIRST_RTT);
        let pacing: Rate = match self.params {
            Params { loss_mode: true, .. } if self.history.is_lossy() => {
                window_rate(window, srtt, LOSS_PACING)
            }
            Params { eager: true, .. } => window_rate(window, self.least(), 1.0),
            _ => window_rate(window, srtt, 1.0),
        };
        Decision { window: Some(window), pacing: Some(pacing), ..Decision::default() }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window as f64);
        sink("delivered_bytes", self.history.acked as f64);
        sink("min_rtt_ms", self.least().as_millis_f64());
        sink("lossy", f64::from(self.history.is_lossy()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    const MS: fn(i64) -> Span = Span::from_millis;

    fn rocc(params: Params) -> Rocc {
        Rocc::new(params, &Setup { mtu: 1000, ..Setup::default() })
    }

    /// A packet of 1000 bytes acknowledged every `every` ms from `from` to `to` ms, with a round trip of 40
    /// ms.
    fn feed(rocc: &mut Rocc, from: u64, to: u64, every: usize, limited: bool) -> u64 {
        for ms in (from..to).step_by(every) {
            let acks = [acked(ms, 1000)];
            rocc.on_feedback(&Report { now: Time::from_millis(ms), limited, ..report(&acks, &[]) });
        }
        rocc.window
    }

    #[test]
    fn the_window_is_what_was_delivered_and_two_packets() {
        // A packet a millisecond for 60 ms (80 with gamma 1), and alpha.
        assert_eq!(feed(&mut rocc(Params::vidaptive()), 0, 500, 1, true), 62_000);
        assert_eq!(feed(&mut rocc(Params::kernel()), 0, 500, 1, true), 82_000);
        // Before a span of history there is at least the initial window.
        assert_eq!(feed(&mut rocc(Params::vidaptive()), 0, 5, 1, true), 10_000);
        // Five times slower for a span: a fifth, and alpha.
        let mut falling = rocc(Params::vidaptive());
        feed(&mut falling, 0, 500, 1, true);
        assert_eq!(feed(&mut falling, 500, 600, 5, true), 14_000);
    }

    #[test]
    fn an_unused_window_does_not_fall() {
        let mut idle = rocc(Params::vidaptive());
        feed(&mut idle, 0, 500, 1, true);
        // While reports of the window's use are in the span it follows: at 559 ms they are 59 old and
        // younger.
        feed(&mut idle, 500, 560, 10, false);
        let kept = idle.window;
        assert_eq!(feed(&mut idle, 560, 2000, 20, false), kept);
        // Deliveries above it still raise it.
        assert!(feed(&mut idle, 2000, 2100, 1, false) > kept);
    }

    /// Seconds of a flow that sends at the pacing rate and hears of everything 40 ms later, on a link without
    /// end: the factor by which its rate grows in a round trip, once alpha no longer matters.
    fn growth(params: Params) -> f64 {
        let mut rocc = rocc(params);
        let mut rates = Vec::new();
        let mut sent: VecDeque<u32> = VecDeque::from(vec![0; 40]);
        for ms in 0..1600 {
            let size = sent.pop_front().unwrap();
            let acks = [acked(ms, size)];
            let now = Time::from_millis(ms);
            rocc.on_feedback(&Report { now, ..report(&acks[..usize::from(size > 0)], &[]) });
            let rate = rocc.decision().pacing.unwrap();
            rates.push(rate.as_f64());
            sent.push_back(rate.bytes_in(MS(1)).get() as u32);
        }
        rates[1400] / rates[1360]
    }

    #[test]
    fn growth_is_the_root_of_the_delay_recursion() {
        assert!((growth(Params::vidaptive()) - 1.264).abs() < 0.01, "{}", growth(Params::vidaptive()));
        assert!((growth(Params::kernel()) - 1.429).abs() < 0.015, "{}", growth(Params::kernel()));
    }

    #[test]
    fn heavy_loss_slows_the_pacing_of_the_kernel_form_only() {
        for (params, factor) in [(Params::kernel(), 0.5625), (Params::vidaptive(), 1.0)] {
            let mut rocc = rocc(params);
            feed(&mut rocc, 0, 500, 1, true);
            let gone: Vec<_> = (0..5).map(|n| lost(n, 1000)).collect();
            let now = Time::from_millis(500);
            rocc.on_feedback(&Report { now, ..report(&[], &gone) });
            assert_eq!(rocc.decision().pacing, Some(window_rate(Bytes::new(rocc.window), MS(40), 1.0)));
            rocc.on_feedback(&Report { now, ..report(&[], &gone[..1]) });
            let slow = window_rate(Bytes::new(rocc.window), MS(40), factor);
            assert_eq!(rocc.decision().pacing, Some(slow), "6 of 85 are 7 %");
        }
    }

    #[test]
    fn silence_leaves_the_floor() {
        let mut rocc = rocc(Params::vidaptive());
        feed(&mut rocc, 0, 500, 1, true);
        let gone = [lost(400, 1000), lost(499, 1000)];
        let now = Time::from_millis(800);
        rocc.on_feedback(&Report {
            now,
            persistent_congestion: true,
            latest_rtt: None,
            ..report(&[], &gone)
        });
        assert_eq!(rocc.window, 2_000);
    }

    #[test]
    fn the_queue_is_drained_every_ten_seconds_where_asked_for() {
        let mut rocc = rocc(Params { drain: true, ..Params::vidaptive() });
        assert_eq!(feed(&mut rocc, 0, 10_000, 1, true), 62_000);
        // 40 packets in flight fill the path: three quarters of them.
        assert_eq!(feed(&mut rocc, 10_000, 10_020, 1, true), 30_000);
        assert_eq!(feed(&mut rocc, 10_020, 10_050, 1, true), 62_000);
    }

    #[test]
    fn history_is_bounded_and_its_sums_hold() {
        let mut history = History::default();
        for ns in 0..10_000 {
            let at = Time::from_nanos(ns);
            history.push(Settled { at, acked: 2, lost: 1, used: ns % 3 == 0 }, MS(1));
        }
        assert_eq!((history.entries.len(), history.acked, history.lost), (CAPACITY, 20_000, 10_000));
        history.push(Settled { at: Time::from_millis(5), acked: 7, lost: 0, used: true }, MS(1));
        assert_eq!((history.entries.len(), history.acked, history.lost, history.used), (1, 7, 0, 1));
    }
}
