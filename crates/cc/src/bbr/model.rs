//! What every version of BBR believes about the path, and how it learns it.

use units::{Rate, Span, Time, cold_path, likely, unlikely};

use super::stale::StaleSample;
use crate::Report;
use crate::parts::{RateSample, Rounds, rate_sample, sampled};

/// More than any path holds, in bytes: sums of windows stay far from overflow, whatever a report says.
const LARGEST: u64 = 1 << 40;
/// tcp_bbr.c bbr_full_bw_thresh: the pipe is full once the bandwidth no longer grows by this factor ...
const GROWTH: f64 = 1.25;
/// ... in this many rounds (bbr_full_bw_cnt).
const FLAT_ROUNDS: u32 = 3;
/// tcp_bbr.c bbr_ack_epoch_acked_reset_thresh, in packets.
const EPOCH_PACKETS: u64 = 1 << 20;
/// tcp_bbr.c bbr_extra_acked_max_us: aggregation beyond this much of the bandwidth is not provided for.
const MOST_EXTRA: Span = Span::from_millis(100);
/// google/quiche bbr_sender.cc IsPipeSufficientlyFull: with this many bandwidth-delay products in flight the
/// path, not the application, decides what arrives; in STARTUP more, for there the bandwidth may still grow
/// by a quarter.
const FULL_GAIN: f64 = 1.1;
const FULL_GAIN_STARTUP: f64 = 1.5;
/// tcp_bbr.c bbr_probe_rtt_mode_ms.
const DWELL: Span = Span::from_millis(200);

/// `gain` times what fits into `min_rtt` at `bw`, rounded up, in bytes.
pub fn bdp(bw: Rate, min_rtt: Span, gain: f64) -> u64 {
    let bytes = bw.as_f64() / 8.0 * min_rtt.as_secs_f64() * gain;
    // `f64::ceil` is a library call on a path that every report takes several times.
    let whole = bytes as u64;
    whole.saturating_add(u64::from((whole as f64) < bytes)).min(LARGEST)
}

/// Bandwidth-delay products that a sender which runs dry must have in flight for its samples to count.
pub fn full_gain(startup: bool, pacing_gain: f64) -> f64 {
    if startup { FULL_GAIN_STARTUP } else { FULL_GAIN.max(pacing_gain) }
}

/// Whether the packet that a report's sample hangs on left while the application had run dry: else it
/// doesn't matter what [`Sampler::hear`] is told of how full the pipe was.
#[inline]
pub fn left_dry(report: &Report<'_>) -> bool {
    sampled(report).is_some_and(|newest| newest.delivery.app_limited)
}

/// What a packet found when it left.
#[derive(Clone, Copy, Debug)]
pub struct Then {
    /// Bytes in flight with it.
    pub in_flight: u64,
    /// Bytes lost over the connection's life.
    pub lost: u64,
}

/// One report in the terms of BBR's state machines.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// When the report was heard, by the sender's clock.
    pub now: Time,
    /// Bytes newly acknowledged and newly lost.
    pub acked: u64,
    pub lost: u64,
    /// Bytes in flight after and before this report.
    pub in_flight: u64,
    pub prior_in_flight: u64,
    /// Bytes delivered and lost over the connection's life.
    pub delivered: u64,
    pub lost_ever: u64,
    /// What there was when the newest acknowledged packet left.
    pub then: Option<Then>,
    /// The delivery-rate sample, if the report gives a valid one.
    pub sample: Option<RateSample>,
    /// That sample says as much of the application as of the path.
    pub app_limited: bool,
    /// A round trip ended.
    pub round: bool,
    /// The round-trip sample of the report, if it gave one.
    pub rtt: Option<Span>,
    /// A lone packet's acknowledgement: the receiver may have held it back.
    pub lone: bool,
}

impl Heard {
    /// A report that acknowledges nothing.
    fn nothing(report: &Report<'_>, in_flight: u64, lost: u64) -> Heard {
        Heard {
            now: report.now,
            acked: 0,
            lost,
            in_flight,
            prior_in_flight: in_flight + lost,
            delivered: report.delivered,
            lost_ever: report.lost_bytes,
            then: None,
            sample: None,
            app_limited: false,
            round: false,
            rtt: report.latest_rtt,
            lone: false,
        }
    }
}

/// Bytes newly lost, which most reports know of none.
#[inline]
fn lost_bytes(report: &Report<'_>) -> u64 {
    if likely(report.lost.is_empty()) { 0 } else { report.lost.iter().map(|lost| u64::from(lost.size)).sum() }
}

/// Turns reports into [`Heard`], counting rounds.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    rounds: Rounds,
    /// A round ends only on a packet at least a round trip old.
    guarded: bool,
    /// ns-3's sample, where that is asked for.
    stale: Option<StaleSample>,
    /// Packets sent before more than this was delivered count as application-limited.
    app_limited_until: Option<u64>,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { rounds: Rounds::default(), guarded: true, stale: None, app_limited_until: None }
    }
}

impl Sampler {
    /// One that believes every acknowledgement, as Linux's and ns-3's do, unless `guarded`; and takes samples
    /// as ns-3 did, if they may be `stale`.
    pub fn new(guarded: bool, stale: bool) -> Sampler {
        Sampler { guarded, stale: stale.then(StaleSample::default), ..Sampler::default() }
    }

    /// Reads a report. What was sent with `full` bytes in flight counts although the application ran dry.
    ///
    /// Deviation: Linux has no such exception. An encoder that follows the window over the round-trip time
    /// runs dry after every frame even while a queue stands at the bottleneck, and no sample would ever lower
    /// the bandwidth again.
    #[inline(always)]
    pub fn hear(&mut self, report: &Report<'_>, full: u64) -> Heard {
        let in_flight = report.in_flight.get().min(LARGEST);
        let lost = lost_bytes(report);
        let Some(newest) = sampled(report) else {
            cold_path();
            return Heard::nothing(report, in_flight, lost);
        };
        let sample = match &mut self.stale {
            Some(stale) => stale.update(report),
            None => rate_sample(report),
        };
        let acked = report.acked.iter().map(|acked| u64::from(acked.size)).sum();
        // CC-Fuzz (thesis chapter 7): an acknowledgement younger than a round trip is not of this
        // transmission, and must not end a round. With a number per transmission it cannot happen; nor can
        // two rounds end within a round trip.
        let believed = !self.guarded || report.now - newest.sent_at >= report.min_rtt;
        let marked = |until| newest.delivery.delivered <= until;
        let round = believed && sample.is_some_and(|s| self.rounds.update(s.since, report.delivered));
        Heard {
            now: report.now,
            acked,
            lost,
            in_flight,
            prior_in_flight: in_flight + acked + lost,
            delivered: report.delivered,
            lost_ever: report.lost_bytes,
            then: Some(Then { in_flight: newest.delivery.in_flight, lost: newest.delivery.lost }),
            sample,
            app_limited: newest.delivery.app_limited && newest.delivery.in_flight < full
                || self.app_limited_until.is_some_and(marked),
            round,
            rtt: report.latest_rtt,
            lone: report.acked.len() == 1 && in_flight == 0,
        }
    }

    /// Rounds that have ended.
    pub fn rounds(&self) -> u64 {
        self.rounds.count()
    }

    /// Begins a round now.
    pub fn restart_round(&mut self, heard: &Heard) {
        self.rounds.restart(heard.delivered);
    }

    /// What is in flight now, and what is sent until it is delivered, shall not lower the bandwidth.
    pub fn mark_app_limited(&mut self, heard: &Heard) {
        self.app_limited_until = Some(heard.delivered.saturating_add(heard.in_flight));
    }
}

/// The smallest round-trip time of a window, and when it must be sought by emptying the pipe.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt {
    window: Span,
    interval: Span,
    value: Option<(Span, Time)>,
    /// The smallest of the present interval: with an interval shorter than the window it is looked for more
    /// often than the window forgets (v2).
    recent: Option<(Span, Time)>,
}

impl MinRtt {
    /// A filter over `window`; the pipe is to be emptied after `interval` without a lower sample.
    pub fn new(window: Span, interval: Span) -> MinRtt {
        MinRtt { window, interval, value: None, recent: None }
    }

    /// The smallest round-trip time, once there is one.
    pub fn get(&self) -> Option<Span> {
        self.value.map(|(rtt, _)| rtt)
    }

    /// Takes the report's sample; true if the interval has passed without a lower one.
    ///
    /// Deviation: a sample equal to the minimum does not renew it (tcp_bbr.c has `<=`). Equal to the
    /// nanosecond happens in simulation only, where it would do away with PROBE_RTT.
    pub fn update(&mut self, heard: &Heard) -> bool {
        let Some(rtt) = heard.rtt.map(|rtt| rtt.max(Span::from_micros(1))) else { return false };
        let (recent, since) = *self.recent.get_or_insert((rtt, heard.now));
        let expired = heard.now > since + self.interval;
        if unlikely(rtt < recent || expired && !heard.lone) {
            self.recent = Some((rtt, heard.now));
        }
        let (recent, since) = self.recent.unwrap_or((rtt, heard.now));
        let forget = self.value.is_none_or(|(min, at)| recent <= min || heard.now > at + self.window);
        if unlikely(forget) {
            self.value = Some((recent, since));
        }
        expired
    }

    /// The pipe was empty: the minimum is as good as new.
    pub fn refreshed(&mut self, now: Time) {
        self.recent = self.recent.map(|(rtt, _)| (rtt, now));
    }
}

/// PROBE_RTT's clock: 200 ms and a round with little in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dwell {
    done_at: Option<Time>,
    round_done: bool,
}

impl Dwell {
    /// True once both have passed since no more than `limit` bytes were in flight.
    pub fn update(&mut self, heard: &Heard, limit: u64, sampler: &mut Sampler) -> bool {
        sampler.mark_app_limited(heard);
        if self.done_at.is_none() && heard.in_flight <= limit {
            self.done_at = Some(heard.now + DWELL);
            sampler.restart_round(heard);
            return false;
        }
        self.round_done |= self.done_at.is_some() && heard.round;
        self.round_done && self.is_over(heard.now)
    }

    fn is_over(&self, now: Time) -> bool {
        self.done_at.is_some_and(|at| now >= at)
    }
}

/// Whether the bandwidth has stopped growing.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullPipe {
    /// The bandwidth has stopped growing once since the start.
    pub reached: bool,
    /// It has since the last restart.
    pub now: bool,
    baseline: Rate,
    flat: u32,
}

impl FullPipe {
    /// Looks at the bandwidth at the end of a round that was not application-limited.
    pub fn update(&mut self, heard: &Heard, bw: Rate) {
        if self.now || !heard.round || heard.app_limited {
            return;
        }
        if bw.as_f64() >= self.baseline.as_f64() * GROWTH {
            (self.baseline, self.flat) = (bw, 0);
            return;
        }
        self.flat += 1;
        self.now = self.flat >= FLAT_ROUNDS;
        self.reached |= self.now;
    }

    /// Looks for growth above `baseline` from here on.
    pub fn restart(&mut self, baseline: Rate) {
        *self = FullPipe { reached: self.reached, baseline, ..FullPipe::default() };
    }
}

/// How much more than the bandwidth explains is acknowledged at once (tcp_bbr.c bbr_update_ack_aggregation).
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtraAcked {
    since: Time,
    acked: u64,
    slots: [u64; 2],
    current: usize,
    age: u32,
}

impl ExtraAcked {
    /// Takes a report; each of the two slots lasts `rounds`.
    #[inline(always)]
    pub fn update(&mut self, heard: &Heard, bw: Rate, window: u64, mtu: u64, rounds: u32) {
        if unlikely(heard.acked == 0 || heard.sample.is_none()) {
            return;
        }
        self.age += u32::from(heard.round);
        if unlikely(heard.round && self.age >= rounds) {
            (self.age, self.current) = (0, 1 - self.current);
            self.slots[self.current] = 0;
        }
        let mut expected = bw.bytes_in(heard.now - self.since).get();
        if self.acked <= expected || self.acked + heard.acked >= EPOCH_PACKETS * mtu {
            self.restart(heard.now);
            expected = 0;
        }
        self.acked += heard.acked;
        let extra = self.acked.saturating_sub(expected).min(window);
        self.slots[self.current] = self.slots[self.current].max(extra);
    }

    /// Begins a new epoch.
    pub fn restart(&mut self, now: Time) {
        (self.since, self.acked) = (now, 0);
    }

    /// Bytes to have in flight on top of what `bw` needs.
    pub fn get(&self, bw: Rate) -> u64 {
        self.slots[0].max(self.slots[1]).min(bw.bytes_in(MOST_EXTRA).get())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Delivery;

    pub fn heard(ms: u64) -> Heard {
        Heard {
            now: Time::from_millis(ms),
            acked: 2_000,
            lost: 0,
            in_flight: 10_000,
            prior_in_flight: 12_000,
            delivered: 100_000,
            lost_ever: 0,
            then: None,
            sample: None,
            app_limited: false,
            round: true,
            rtt: Some(Span::from_millis(40)),
            lone: false,
        }
    }

    #[test]
    fn full_after_three_flat_rounds_that_were_not_application_limited() {
        let mut full = FullPipe::default();
        let mut round = |mbps, app_limited| {
            full.update(&Heard { app_limited, ..heard(0) }, Rate::from_mbps(mbps));
            full.reached
        };
        assert!(!round(8, false) && !round(10, false));
        assert!(!round(12, false) && !round(12, false) && !round(12, true));
        assert!(round(12, false));
        full.restart(Rate::from_mbps(12));
        assert!(full.reached && !full.now);
    }

    #[test]
    fn v1_forgets_its_minimum_after_ten_seconds_and_asks_for_a_probe() {
        let ten = Span::from_secs(10);
        let mut min = MinRtt::new(ten, ten);
        let rtt = |s: u64, ms| Heard { rtt: Some(Span::from_millis(ms)), ..heard(1000 * s) };
        assert!(!min.update(&rtt(0, 40)) && !min.update(&rtt(5, 50)) && !min.update(&rtt(10, 50)));
        assert_eq!(min.get(), Some(Span::from_millis(40)));
        assert!(min.update(&rtt(11, 50)));
        assert_eq!(min.get(), Some(Span::from_millis(50)));
        assert!(!min.update(&rtt(12, 45)));
        assert_eq!(min.get(), Some(Span::from_millis(45)));
    }

    #[test]
    fn v2_probes_every_five_seconds_and_forgets_after_ten() {
        let mut min = MinRtt::new(Span::from_secs(10), Span::from_secs(5));
        let rtt = |s: u64, ms| Heard { rtt: Some(Span::from_millis(ms)), ..heard(1000 * s) };
        assert!(!min.update(&rtt(0, 40)));
        assert!(min.update(&rtt(6, 50)));
        assert_eq!(min.get(), Some(Span::from_millis(40)));
        assert!(min.update(&rtt(12, 50)));
        assert_eq!(min.get(), Some(Span::from_millis(50)));
    }

    #[test]
    fn a_lone_late_acknowledgement_is_no_new_minimum() {
        let ten = Span::from_secs(10);
        let mut min = MinRtt::new(ten, ten);
        min.update(&heard(0));
        let late = Heard { rtt: Some(Span::from_millis(65)), lone: true, ..heard(11_000) };
        assert!(min.update(&late));
        assert_eq!(min.get(), Some(Span::from_millis(40)));
    }

    #[test]
    fn dwelling_takes_200_ms_and_a_round() {
        let (mut dwell, mut sampler) = (Dwell::default(), Sampler::default());
        let at = |ms, in_flight, round| Heard { in_flight, round, ..heard(ms) };
        assert!(!dwell.update(&at(0, 9_000, true), 4_000, &mut sampler));
        assert!(!dwell.update(&at(20, 4_000, true), 4_000, &mut sampler));
        assert!(!dwell.update(&at(220, 4_000, false), 4_000, &mut sampler));
        assert!(dwell.update(&at(230, 4_000, true), 4_000, &mut sampler));
    }

    #[test]
    fn acknowledgements_in_clumps_are_provided_for() {
        use crate::controller::tests::{acked, report};
        let acks = [acked(50, 1000)];
        let sample = rate_sample(&Report { delivered: 1000, ..report(&acks, &[]) });
        // 8 Mbit/s are 1 kB/ms; 40 kB arrive every 40 ms at once.
        let (mut extra, bw) = (ExtraAcked::default(), Rate::from_mbps(8));
        for n in 1..10 {
            let clump = Heard { acked: 40_000, sample, round: false, ..heard(40 * n) };
            extra.update(&clump, bw, 200_000, 1000, 5);
        }
        assert_eq!(extra.get(bw), 40_000);
        assert_eq!(extra.get(Rate::from_mbps(1)), 12_500);
        // Ten rounds without clumps, and both slots are empty of it.
        for n in 0..100 {
            extra.update(
                &Heard { acked: 1000, sample, round: n % 10 == 0, ..heard(402 + n) },
                bw,
                200_000,
                1000,
                5,
            );
        }
        assert!(extra.get(bw) <= 2000, "{}", extra.get(bw));
    }

    /// A report at 100 ms of a packet sent at `sent` ms, when `delivered` bytes had arrived.
    fn hear(sampler: &mut Sampler, sent: u64, then: Delivery, full: u64) -> Heard {
        use crate::controller::tests::{acked, report};
        let acks = [crate::Acked { delivery: then, ..acked(sent, 1000) }];
        sampler.hear(&Report { delivered: 50_000, ..report(&acks, &[]) }, full)
    }

    #[test]
    fn no_round_ends_on_a_packet_younger_than_a_round_trip() {
        let mut sampler = Sampler::default();
        let then = Delivery { delivered: 40_000, ..Delivery::default() };
        // 40 ms are the smallest round trip.
        assert!(!hear(&mut sampler, 61, then, 0).round && hear(&mut sampler, 60, then, 0).round);
        assert!(!hear(&mut sampler, 60, then, 0).round);
        assert_eq!(sampler.rounds(), 1);
    }

    #[test]
    fn a_dry_application_limits_samples_unless_the_pipe_was_full() {
        let mut sampler = Sampler::default();
        let dry = Delivery { delivered: 50_000, app_limited: true, in_flight: 11_000, ..Delivery::default() };
        assert!(
            hear(&mut sampler, 50, dry, 11_001).app_limited
                && !hear(&mut sampler, 50, dry, 11_000).app_limited
        );
        // Marked by PROBE_RTT: also with nothing in flight, and until more has arrived.
        let then = Delivery { app_limited: false, ..dry };
        sampler.mark_app_limited(&Heard { delivered: 50_000, in_flight: 0, ..heard(90) });
        assert!(hear(&mut sampler, 50, then, 0).app_limited);
        assert!(!hear(&mut sampler, 50, Delivery { delivered: 50_001, ..then }, 0).app_limited);
    }
}
