//! PCC: rates are tried, and kept if they were worth more. Allegro (NSDI'15), Vivace (NSDI'18), Proteus
//! (SIGCOMM'20).
//!
//! ```text
//!   sent, acknowledged, lost -> monitor.rs  intervals of one rate each, settled a round trip later
//!                            -> utility.rs  what the interval was worth
//!                            -> allegro.rs, vivace.rs, uspace.rs, allegro_udt.rs, vivace_udt.rs  the next rate
//! ```

mod allegro;
mod allegro_udt;
mod monitor;
mod probe;
mod trend;
mod uspace;
mod utility;
mod vivace;
mod vivace_udt;

use units::{Bytes, Rate, Rng, Span, Time};

use crate::parts::Silence;
use crate::{Controller, Decision, Entry, Options, Report, Sent, Setup};
use monitor::{Length, Monitor, Outcome, Tag};
use probe::Bounds;

const fn entry(
    name: &'static str,
    summary: &'static str,
    page: &'static str,
    build: crate::registry::Build,
) -> Entry {
    Entry { name, summary, needs_frames: false, options: &[], page, build, receiver: None }
}

/// Allegro with the paper's constants.
pub const PCC: Entry =
    entry("pcc", "PCC Allegro, constants of the paper (NSDI'15)", include_str!("allegro.md"), |_, setup| {
        Ok(allegro(allegro::PAPER, setup))
    });

/// Allegro with the constants of the authors' later code.
pub const PCC_USPACE: Entry = entry(
    "pcc-uspace",
    "PCC Allegro, constants of PCC-Uspace master",
    include_str!("allegro.md"),
    |_, setup| Ok(allegro(allegro::USPACE, setup)),
);

/// Allegro as the authors' first public program has it, which Pantheon runs.
pub const PCC_PANTHEON: Entry = Entry {
    options: &[("rtt", "the utility sees the round trip, on or off: then it is the article's (default on)")],
    ..entry(
        "pcc-pantheon",
        "PCC Allegro as Pantheon runs it (modong/pcc 1afc958): its utility also sees the round trip",
        include_str!("allegro.md"),
        |options, setup| {
            let sees_rtt = options.switch("rtt", true)?;
            let (rate, bounds, rng) = basics(setup, setup.min.as_f64() / 1e6);
            Ok(Box::new(Pcc::new(allegro_udt::AllegroUdt::new(sees_rtt, rate, bounds, rng), setup)))
        },
    )
};

/// Vivace with the paper's constants.
pub const VIVACE: Entry = Entry {
    options: &[("latency", "weight of the latency gradient, 0 (Vivace-Loss) to 10000 (default 900)")],
    ..entry(
        "vivace",
        "PCC Vivace, constants of the paper (NSDI'18)",
        include_str!("vivace.md"),
        |options, setup| {
            let latency = options.number("latency", vivace::PAPER.latency, 0.0..=10_000.0)?;
            let (rate, bounds, rng) = basics(setup, setup.min.as_f64() / 1e6);
            let params = vivace::Params { latency, ..vivace::PAPER };
            Ok(Box::new(Pcc::new(vivace::Vivace::new(params, rate, bounds, rng), setup)))
        },
    )
};

/// Vivace with the constants of the authors' later code.
pub const VIVACE_USPACE: Entry = Entry {
    options: &USPACE_OPTIONS,
    ..entry(
        "vivace-uspace",
        "PCC Vivace, constants of PCC-Uspace master",
        include_str!("vivace.md"),
        |options, setup| uspace(uspace::PRIMARY, options, setup),
    )
};

/// Vivace as the program for its article has it, whose binary Pantheon runs.
pub const VIVACE_PANTHEON: Entry = Entry {
    options: &USPACE_OPTIONS,
    ..entry(
        "vivace-pantheon",
        "PCC Vivace as Pantheon runs it (StanfordSNR/vivace 2baf862, PCC-Uspace NSDI-2018)",
        include_str!("vivace.md"),
        |options, setup| {
            let latency = options.number("latency", utility::LATENCY, 0.0..=10_000.0)?;
            let (rate, bounds, rng) = basics(setup, vivace_udt::MIN_RATE.max(setup.min.as_f64() / 1e6));
            Ok(Box::new(Pcc::new(vivace_udt::VivaceUdt::new(latency, rate, bounds, rng), setup)))
        },
    )
};

/// Proteus' primary: Vivace as PCC-Uspace has it.
pub const PROTEUS_P: Entry = Entry {
    options: &USPACE_OPTIONS,
    ..entry("proteus-p", "PCC Proteus, primary (SIGCOMM'20)", include_str!("vivace.md"), |options, setup| {
        uspace(uspace::PRIMARY, options, setup)
    })
};

/// Proteus' scavenger, which gives way to others.
pub const PROTEUS_S: Entry = Entry {
    options: &USPACE_OPTIONS,
    ..entry(
        "proteus-s",
        "PCC Proteus, scavenger: gives way (SIGCOMM'20)",
        include_str!("vivace.md"),
        |options, setup| uspace(uspace::SCAVENGER, options, setup),
    )
};

const USPACE_OPTIONS: [(&str, &str); 1] =
    [("latency", "weight of the latency gradient, 0 to 10000 (default 900)")];

fn basics(setup: &Setup, min: f64) -> (f64, Bounds, Rng) {
    // Deviation: the papers start at two segments a round trip; a video can't, and says what it can.
    let bounds = Bounds { min, max: (setup.max.as_f64() / 1e6).max(min) };
    (bounds.hold(setup.initial.as_f64() / 1e6), bounds, Rng::stream(setup.seed, "pcc/order"))
}

fn allegro(params: allegro::Params, setup: &Setup) -> Box<dyn Controller> {
    let (rate, bounds, rng) = basics(setup, setup.min.as_f64() / 1e6);
    Box::new(Pcc::new(allegro::Allegro::new(params, rate, bounds, rng), setup))
}

fn uspace(
    params: uspace::Params,
    options: &Options,
    setup: &Setup,
) -> Result<Box<dyn Controller>, crate::OptionError> {
    let latency = options.number("latency", params.latency, 0.0..=10_000.0)?;
    let (rate, bounds, rng) = basics(setup, uspace::MIN_RATE.max(setup.min.as_f64() / 1e6));
    let params = uspace::Params { latency, ..params };
    Ok(Box::new(Pcc::new(uspace::Uspace::new(params, rate, bounds, rng), setup)))
}

/// What a rule wants sent next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// Mbit/s.
    rate: f64,
    /// Names the interval whose outcome the rule wants; without one the rate holds until a result changes the
    /// plan.
    tag: Option<Tag>,
}

/// A rule that chooses rates.
trait Learner: Send {
    /// The next interval. Asked when one ends, and when `learn` or `silence` changed the plan.
    fn next(&mut self) -> Step;
    /// Takes a result: true if the plan has changed, so that whatever is under way no longer matters.
    fn learn(&mut self, tag: Tag, outcome: &Outcome) -> bool;
    /// The rate (Mbit/s) at which the interval that is sending goes on, if the last result changed that.
    fn retuned(&mut self) -> Option<f64> {
        None
    }
    /// Nothing was heard for a timeout.
    fn silence(&mut self);
    /// The rate around which is experimented, in Mbit/s.
    fn base(&self) -> f64;
    /// How long its intervals are.
    fn length(&self) -> Length;
    /// The round trip that the first intervals are measured by; without one, nothing is judged before there
    /// is a sample.
    fn first_rtt(&self) -> Option<Span> {
        None
    }
    /// 0 doubling, 1 trying, 2 moving.
    fn phase(&self) -> u8;
}

/// A feedback outage can't run away: this many times rate times round trip in flight (the codes use 2 to 5)
/// ...
const WINDOW_GAIN: f64 = 3.0;
/// ... but always two intervals of the fewest packets.
const MIN_WINDOW_DATAGRAMS: u64 = 20;

/// The controller around a rule.
#[derive(Clone, Debug)]
struct Pcc<L> {
    learner: L,
    monitor: Monitor,
    silence: Silence,
    /// Mbit/s: of the interval that is sending.
    sending: f64,
    srtt: Option<Span>,
    rttvar: Span,
    datagram: u64,
    outcome: Outcome,
}

/// Before any sample (RFC 9002's 333 ms would be long for a video's first window).
const INITIAL_RTT: Span = Span::from_millis(100);

impl<L: Learner> Pcc<L> {
    fn new(learner: L, setup: &Setup) -> Pcc<L> {
        let monitor = Monitor::new(learner.length(), setup.mtu, Rng::stream(setup.seed, "pcc/length"));
        let first_rtt = learner.first_rtt();
        let mut pcc = Pcc {
            sending: learner.base(),
            learner,
            monitor,
            silence: Silence::default(),
            srtt: None,
            rttvar: Span::ZERO,
            datagram: u64::from(setup.mtu.max(1)),
            outcome: Outcome::default(),
        };
        if let Some(rtt) = first_rtt {
            pcc.monitor.assume(rtt);
            pcc.advance();
        }
        pcc
    }

    fn advance(&mut self) {
        let step = self.learner.next();
        self.sending = step.rate;
        if let Some(tag) = step.tag {
            self.monitor.begin(tag, step.rate);
        }
    }

    fn close(&mut self, now: Time) {
        if self.monitor.close(now) {
            self.advance();
        }
    }

    fn new_plan(&mut self) {
        self.monitor.clear();
        self.advance();
    }

    fn silence_at(&self) -> Option<Time> {
        self.silence.due_at(self.srtt.unwrap_or(INITIAL_RTT), self.rttvar)
    }
}

impl<L: Learner + Clone + 'static> Controller for Pcc<L> {
    fn on_sent(&mut self, sent: &Sent) {
        self.silence.sent(sent.now);
        self.monitor.sent(sent.now, sent.packet, sent.size);
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.monitor.settle(report);
        self.rttvar = report.rttvar;
        if !report.acked.is_empty() {
            self.silence.heard(report.now, report.in_flight > Bytes::ZERO);
        }
        // Nothing is judged before there is a round trip to measure intervals by.
        if self.srtt.replace(report.srtt).is_none() && self.learner.first_rtt().is_none() {
            self.new_plan();
        }
        while let Some((tag, outcome)) = self.monitor.pop(report.now) {
            self.outcome = outcome;
            if self.learner.learn(tag, &outcome) {
                self.new_plan();
            } else if self.monitor.is_idle() {
                // The rule held its rate until it would know more.
                self.advance();
            }
            self.sending = self.learner.retuned().unwrap_or(self.sending);
        }
        self.close(report.now);
    }

    fn on_timer(&mut self, now: Time) {
        self.close(now);
        if self.silence_at().is_some_and(|at| at <= now) {
            self.silence.reacted(now);
            self.learner.silence();
            // Before a round trip is known no interval begins: its packets' fate would be cleared away with
            // it, and a rule that has handed out its trials waits for them without end.
            if self.srtt.is_some() || self.learner.first_rtt().is_some() {
                self.new_plan();
            } else {
                self.sending = self.learner.base();
            }
        }
    }

    fn next_timer(&self) -> Option<Time> {
        Time::first(self.monitor.ends_at(), self.silence_at())
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.datagram = u64::from(mtu.max(1));
        self.monitor.set_mtu(mtu);
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let rate = Rate::from_f64(self.sending * 1e6);
        // The encoder follows the base and not every slower trial: what waits then makes the faster ones
        // real.
        let media = Rate::from_f64(self.sending.max(self.learner.base()) * 1e6);
        let flight = media.mul_f64(WINDOW_GAIN).bytes_in(self.srtt.unwrap_or(INITIAL_RTT));
        Decision {
            window: Some(flight.max(Bytes::new(MIN_WINDOW_DATAGRAMS * self.datagram))),
            pacing: Some(rate),
            media: Some(media),
            ..Decision::default()
        }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("pcc_base_bps", self.learner.base() * 1e6);
        sink("pcc_trial_bps", self.sending * 1e6);
        sink("pcc_phase", f64::from(self.learner.phase()));
        sink("pcc_loss", self.outcome.loss);
        sink("pcc_delay_slope", self.outcome.slope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, report};

    fn sent(n: u64) -> Sent {
        Sent {
            now: Time::from_millis(n),
            packet: n,
            size: 1000,
            frame: None,
            in_flight: Bytes::new(1000),
            app_limited: false,
        }
    }

    #[test]
    fn nothing_is_judged_before_a_round_trip_is_known() {
        let mut pcc = allegro(allegro::PAPER, &Setup { mtu: 1000, ..Setup::default() });
        (0..40).for_each(|n| pcc.on_sent(&sent(n)));
        assert_eq!(pcc.next_timer(), Some(Time::from_millis(500)));
        pcc.on_feedback(&report(&[acked(0, 1000)], &[]));
        pcc.on_sent(&sent(101));
        // An interval of 1.7 to 2.2 round trips of 40 ms.
        let ends = pcc.next_timer().unwrap() - Time::from_millis(101);
        assert!((Span::from_millis(68)..=Span::from_millis(88)).contains(&ends), "{ends:?}");
    }

    #[test]
    fn a_round_trip_longer_than_the_first_timeout_starts_like_any_other() {
        let setup = Setup { mtu: 1000, ..Setup::default() };
        let (rate, bounds, rng) = basics(&setup, setup.min.as_f64() / 1e6);
        let mut pcc = Pcc::new(allegro::Allegro::new(allegro::PAPER, rate, bounds, rng), &setup);
        for n in 0..1000 {
            pcc.on_sent(&sent(n));
            if pcc.next_timer().is_some_and(|at| at <= Time::from_millis(n)) {
                pcc.on_timer(Time::from_millis(n));
            }
        }
        let srtt = Span::from_secs(1);
        let first = [acked(0, 1000)];
        pcc.on_feedback(&Report {
            now: Time::from_secs(1),
            latest_rtt: Some(srtt),
            srtt,
            ..report(&first, &[])
        });
        assert!(!pcc.monitor.is_idle(), "no interval is sending, and none ever would");
    }

    #[test]
    fn silence_halves_the_rate_and_waits_longer_each_time() {
        let mut pcc = allegro(allegro::PAPER, &Setup { initial: Rate::from_mbps(8), ..Setup::default() });
        pcc.on_sent(&sent(0));
        for (at, mbps) in [(500, 4.0), (1500, 2.0), (3500, 1.0), (7500, 0.5), (15_500, 0.3)] {
            assert_eq!(pcc.next_timer(), Some(Time::from_millis(at)));
            pcc.on_timer(Time::from_millis(at));
            // The first trial is a hundredth faster or slower, the encoder gets the base at least.
            let media = pcc.decision().media.unwrap().as_f64() / 1e6;
            assert!((mbps..=mbps * 1.011).contains(&media), "{at} ms: {media}");
        }
    }
}
