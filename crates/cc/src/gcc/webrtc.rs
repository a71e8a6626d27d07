//! The send-side form: what libwebrtc's `GoogCcNetworkController` puts together.

use units::{Bytes, Rate, RemoteTime, Span, Time};

use crate::{Acked, Controller, Decision, Report, Sent, Setup};

use super::PACE;
use super::alr::Alr;
use super::delay::{Delay, Form};
use super::detector::Signal;
use super::groups::{BURST, Packet};
use super::loss::{Browser, Losses, Silence};
use super::loss_v2::{Limit, LossV2, Settled};
use super::probe::Prober;
use super::rate::{Params, RateControl};
use super::received::Acknowledged;
use super::throughput::{Received, Throughput};

/// For this long, and while nothing is lost, losses have no say (libwebrtc `kStartPhase`).
const START_PHASE: Span = Span::from_secs(2);
/// A probe never takes the estimate below this share of what arrives (libwebrtc
/// `kProbeDropThroughputFraction`).
const PROBE_DROP: f64 = 0.85;
/// While losses limit but the estimate rises, probes go up to this multiple of it (libwebrtc
/// `loss_limited_probe_scale`).
const PROBE_UNDER_LOSS: f64 = 1.5;

/// What the options choose.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The rate controller's constants.
    pub rate: Params,
    /// Groups in the trendline.
    pub window: usize,
    /// Whether it probes at all.
    pub probing: bool,
    /// Most that the first probes go to, in bit/s.
    pub probe_cap: f64,
    /// The received rate over a second; else from samples of 150 ms.
    pub robust: bool,
    /// The likelihood estimator for losses; else the three zones that it replaced in December 2022.
    pub loss_v2: bool,
}

#[derive(Clone, Debug)]
enum Loss {
    Likelihood(LossV2),
    /// The three zones of libwebrtc until December 2022 (e047262), with their rate in bit/s.
    Zones(Losses, f64),
}

/// libwebrtc's sender-side controller: a target from delays, losses and probes.
#[derive(Clone, Debug)]
pub struct Webrtc {
    delay: Delay,
    control: RateControl,
    acknowledged: Received,
    alr: Alr,
    prober: Option<Prober>,
    loss: Loss,
    silence: Silence,
    /// In bit/s.
    target: f64,
    bounds: (f64, f64),
    /// Arrivals of one report in their order: receive time, index.
    order: Vec<(RemoteTime, usize)>,
    started_at: Option<Time>,
    in_alr: bool,
    /// The application began to send freely at this time; no packet sent since has arrived.
    freed_at: Option<Time>,
}

impl Webrtc {
    /// A new session's state.
    pub fn new(choice: Choice, setup: &Setup) -> Webrtc {
        let control = RateControl::new(choice.rate);
        let bounds = (choice.rate.min, choice.rate.max);
        let caps = (choice.probe_cap.min(bounds.1), bounds.1);
        let loss = match choice.loss_v2 {
            true => Loss::Likelihood(LossV2::new(bounds)),
            false => Loss::Zones(Losses::Browser(Browser::one_way()), control.rate()),
        };
        Webrtc {
            delay: Delay::new(Form::Trendline(choice.window), BURST),
            acknowledged: match choice.robust {
                true => Received::Second(Throughput::default()),
                false => Received::Samples(Acknowledged::default()),
            },
            alr: Alr::default(),
            prober: choice.probing.then(|| Prober::new(control.rate(), caps, setup.mtu)),
            loss,
            silence: Silence::default(),
            target: control.rate(),
            control,
            bounds,
            order: Vec::new(),
            started_at: None,
            in_alr: false,
            freed_at: None,
        }
    }

    /// Follows the application out of its own limits.
    fn follow_alr(&mut self, now: Time) {
        let in_alr = self.alr.since().is_some();
        if self.in_alr && !in_alr {
            self.freed_at = Some(now);
            if let Some(prober) = &mut self.prober {
                prober.on_alr_ended(now);
            }
        }
        self.in_alr = in_alr;
    }

    /// Takes the arrivals in the order in which they arrived. Returns a probe's result and whether a queue
    /// has drained.
    fn learn_arrivals(&mut self, report: &Report<'_>) -> (Option<f64>, bool) {
        self.order.clear();
        let timed = |(index, acked): (usize, &Acked)| acked.arrived_at.map(|at| (at, index));
        self.order.extend(report.acked.iter().enumerate().filter_map(timed));
        if !self.order.is_sorted() {
            self.order.sort_unstable();
        }
        let (mut probed, mut drained) = (None, false);
        for &(arrived, index) in &self.order {
            let acked = &report.acked[index];
            if self.freed_at.is_some_and(|at| acked.sent_at > at) {
                self.freed_at = None;
                self.acknowledged.expect_fast_change();
            }
            let sent = acked.sent_at.on_wire();
            self.acknowledged.insert(arrived, sent, acked.size);
            if let Some(prober) = &mut self.prober {
                probed = prober.on_arrived(acked.packet, sent, arrived, acked.size).or(probed);
            }
            let before = self.delay.signal();
            let packet = Packet { sent, arrived, heard: report.now, size: acked.size };
            let signal = self.delay.push(&packet);
            drained |= before == Signal::Under && signal == Some(Signal::Normal);
        }
        (probed, drained)
    }

    fn learn_delay(&mut self, now: Time, probed: Option<f64>) {
        let received = self.acknowledged.rate();
        match (self.delay.signal(), probed) {
            (Signal::Normal | Signal::Under, Some(probed)) => {
                let floor = received.map_or(0.0, |received| self.control.rate().min(PROBE_DROP * received));
                self.control.set_probed(now, probed.max(floor));
            }
            (signal, _) => {
                self.control.update(now, signal, received, self.in_alr);
            }
        }
    }

    fn learn_losses(&mut self, report: &Report<'_>) -> f64 {
        let (delay, bounds) = (self.control.rate(), self.bounds);
        let starting = self.started_at.is_some_and(|at| report.now - at < START_PHASE);
        match &mut self.loss {
            Loss::Likelihood(estimator) => {
                let mut settled = Settled::default();
                report.acked.iter().for_each(|acked| settled.add(acked.sent_at, acked.size, false));
                report.lost.iter().for_each(|lost| settled.add(lost.sent_at, lost.size, true));
                let received = self.acknowledged.rate().filter(|_| !self.in_alr);
                estimator.update(&settled, delay, received);
                if starting && estimator.average_loss() == 0.0 {
                    estimator.set(delay);
                }
                estimator.estimate(delay)
            }
            Loss::Zones(reports, rate) => {
                let next = reports.update(report, *rate);
                let start = if starting && reports.fraction() == 0.0 { delay } else { 0.0 };
                *rate = next.max(start).min(delay).clamp(bounds.0, bounds.1);
                *rate
            }
        }
    }

    /// After a silence. Deviation: its losses are not put to the estimator, for one outage of seconds would
    /// outweigh all observations that follow; it starts over from where the silence has taken the rate.
    fn resume(&mut self) -> f64 {
        if let Loss::Likelihood(estimator) = &mut self.loss {
            estimator.restart(self.target);
        }
        self.target
    }

    fn limit(&self) -> Limit {
        match &self.loss {
            Loss::Likelihood(estimator) => estimator.limit(),
            Loss::Zones(_, rate) if *rate < self.control.rate() => Limit::Falling,
            Loss::Zones(..) => Limit::Delay,
        }
    }

    /// How high may be probed, if at all.
    fn ceiling(&self) -> Option<f64> {
        match self.limit() {
            _ if self.delay.signal() == Signal::Over => None,
            Limit::Falling => None,
            Limit::Rising => Some(PROBE_UNDER_LOSS * self.target),
            Limit::Delay => Some(f64::INFINITY),
        }
    }

    fn probe(&mut self, now: Time, drained: bool) {
        let (ceiling, alr, target) = (self.ceiling(), self.alr.since(), self.target);
        let Some(prober) = &mut self.prober else { return };
        prober.set_estimate(now, target, ceiling);
        if drained {
            prober.on_recovered(now, alr.is_some(), ceiling);
        }
        prober.process(now, alr, ceiling);
    }
}

impl Controller for Webrtc {
    fn on_sent(&mut self, sent: &Sent) {
        self.started_at.get_or_insert(sent.now);
        self.silence.on_sent(sent.now);
        self.alr.on_sent(sent.now, sent.size, self.target);
        if let Some(prober) = &mut self.prober {
            prober.on_sent(sent.now, sent.packet, sent.size);
        }
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let now = report.now;
        let mut ended = false;
        if !report.acked.is_empty() {
            ended = self.silence.on_feedback(now, report.in_flight > Bytes::ZERO);
            self.control.set_rtt(report.srtt);
        }
        self.follow_alr(now);
        let (probed, drained) = self.learn_arrivals(report);
        if !self.order.is_empty() {
            self.learn_delay(now, probed);
        }
        let target = if ended { self.resume() } else { self.learn_losses(report) };
        self.target = target.clamp(self.bounds.0, self.bounds.1);
        self.probe(now, drained);
    }

    fn on_timer(&mut self, now: Time) {
        if let Some(factor) = self.silence.step(now) {
            self.target = (self.target * factor).max(self.bounds.0);
        }
        self.probe(now, false);
    }

    fn next_timer(&self) -> Option<Time> {
        let probe = self.prober.as_ref().and_then(|prober| prober.next(self.alr.since()));
        Time::first(probe, self.silence.next())
    }

    fn on_mtu(&mut self, mtu: u32) {
        if let Some(prober) = &mut self.prober {
            prober.set_mtu(mtu);
        }
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        let decision = super::decision(self.target, PACE);
        let Some(probe) = self.prober.as_ref().and_then(|prober| prober.active()) else { return decision };
        Decision { probe: Some(probe), pacing: Some(probe.rate.max(Rate::from_bps(1))), ..decision }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        let (value, threshold) = self.delay.tested();
        sink("target_bps", self.target);
        sink("delay_bps", self.control.rate());
        sink("trend_ms", value);
        sink("threshold_ms", threshold);
        sink("alr", f64::from(u8::from(self.in_alr)));
        if let Some(bps) = self.acknowledged.rate() {
            sink("acknowledged_bps", bps);
        }
        if let Some(bps) = self.control.capacity() {
            sink("capacity_bps", bps);
        }
        if let Loss::Likelihood(estimator) = &self.loss {
            sink("average_loss", estimator.average_loss());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::{BETA, GROWTH, Rules};
    use super::*;
    use crate::controller::tests::{acked, report};

    fn webrtc() -> Webrtc {
        let rate =
            Params { rules: Rules::Code, beta: BETA, growth: GROWTH, initial: 1e6, min: 1e5, max: 1e8 };
        let choice = Choice { rate, window: 20, probing: true, probe_cap: 5e6, robust: false, loss_v2: true };
        Webrtc::new(choice, &Setup::default())
    }

    fn send(webrtc: &mut Webrtc, packet: u64) {
        let (now, in_flight) = (Time::from_millis(packet), Bytes::new(1000));
        webrtc.on_sent(&Sent { now, packet, size: 1000, frame: None, in_flight, app_limited: false });
    }

    #[test]
    fn a_probe_sets_the_pace_while_it_is_on() {
        let mut webrtc = webrtc();
        assert_eq!((webrtc.decision().pacing, webrtc.decision().probe), (Some(Rate::from_f64(2.5e6)), None));
        send(&mut webrtc, 0);
        assert_eq!(webrtc.next_timer(), Some(Time::ZERO));
        webrtc.on_timer(Time::ZERO);
        assert_eq!(webrtc.decision().pacing, Some(Rate::from_mbps(3)));
        assert_eq!(webrtc.decision().media, Some(Rate::from_mbps(1)), "media is not sent faster for it");
        (1..=6).for_each(|packet| send(&mut webrtc, packet));
        assert_eq!(webrtc.next_timer(), Some(Time::from_millis(6)));
        webrtc.on_timer(Time::from_millis(6));
        assert_eq!(webrtc.decision().pacing, Some(Rate::from_mbps(5)), "6 times, at most 5 Mbit/s");
    }

    #[test]
    fn order_and_missing_times_do_not_matter() {
        let (mut sorted, mut shuffled) = (webrtc(), webrtc());
        for start in (0..2000).step_by(20) {
            let mut acks: Vec<_> = (start..start + 20).map(|n| acked(n, 250)).collect();
            let now = Time::from_millis(start + 60);
            sorted.on_feedback(&Report { now, ..report(&acks, &[]) });
            acks.reverse();
            acks.push(Acked { arrived_at: None, ..acked(start + 7, 250) });
            shuffled.on_feedback(&Report { now, ..report(&acks, &[]) });
        }
        assert_eq!(sorted.acknowledged.rate(), shuffled.acknowledged.rate());
        assert_eq!(sorted.target, shuffled.target);
        assert!(sorted.acknowledged.rate().is_some_and(|bps| (bps - 2e6).abs() < 2e4));
    }

    #[test]
    fn silence_lowers_the_target_and_its_losses_are_forgotten() {
        let mut webrtc = webrtc();
        send(&mut webrtc, 0);
        for ms in [3000, 4000] {
            webrtc.on_timer(Time::from_millis(ms));
        }
        assert!((webrtc.target - 0.64e6).abs() < 1.0, "{}", webrtc.target);
        let lost: Vec<_> = (1..400).map(|n| crate::controller::tests::lost(n, 1000)).collect();
        let acks = [acked(400, 1000)];
        webrtc.on_feedback(&Report { now: Time::from_millis(5000), ..report(&acks, &lost) });
        assert!((webrtc.target - 0.64e6).abs() < 1.0, "{}", webrtc.target);
    }
}
