//! When to probe, how fast, and what came of it (libwebrtc `ProbeController`, `BitrateProber`).

use std::collections::VecDeque;

use units::{Bytes, Rate, RemoteTime, Span, Time};

use crate::Probe;

use super::cluster::Cluster;

/// The session begins with clusters at these multiples of the initial rate, ...
const FIRST: [f64; 2] = [3.0, 6.0];
/// ... then at this multiple of the estimate, as long as ...
const FURTHER: f64 = 2.0;
/// ... a cluster measured this share of its rate.
const FURTHER_THRESHOLD: f64 = 0.7;
/// A cluster lasts this long and has this many packets at least.
const DURATION: Span = Span::from_millis(15);
const PACKETS: u32 = 5;
/// Results are waited for this long.
const WAIT: Span = Span::from_secs(1);
/// While the application limits itself a probe at this multiple of the estimate goes out this often.
const ALR_SCALE: f64 = 2.0;
const ALR_INTERVAL: Span = Span::from_secs(5);
/// A fall below this share of the estimate is a drop; ...
const DROP: f64 = 0.66;
/// ... once the queue has drained, this share of the rate before is probed, ...
const DROP_SCALE: f64 = 0.85;
/// ... if the drop is no older than this and no such probe was sent in that time, ...
const DROP_TIMEOUT: Span = Span::from_secs(5);
/// ... the application limits itself or did until this long ago, ...
const ALR_ENDED: Span = Span::from_secs(3);
/// ... and the result, which may be this much lower, would be above the estimate.
const UNCERTAINTY: f64 = 0.05;
/// A cluster that could not be sent in this time beyond twice its own is given up.
const STALL: Span = Span::from_millis(50);
/// Clusters whose packets may still be on their way.
const CLUSTERS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was sent yet.
    Init,
    /// A result may call for a further probe.
    Waiting,
    /// Nothing is on.
    Complete,
}

/// A cluster being sent.
#[derive(Clone, Copy, Debug)]
struct Active {
    probe: Probe,
    sent: u64,
    packets: u32,
    last: Option<(Time, u64)>,
    until: Time,
}

impl Active {
    /// When its last packet left, if it has.
    fn done(&self) -> Option<Time> {
        let enough = self.sent >= self.probe.bytes.get() && self.packets >= PACKETS;
        self.last.filter(|_| enough).map(|(at, _)| at)
    }
}

/// Plans probes and measures by them. Rates are in bit/s.
#[derive(Clone, Debug)]
pub struct Prober {
    state: State,
    mtu: u32,
    initial: f64,
    /// Most that is probed for at the start, and later.
    caps: (f64, f64),
    starting: bool,
    pending: VecDeque<f64>,
    active: Option<Active>,
    clusters: VecDeque<Cluster>,
    probes: u32,
    initiated_at: Time,
    /// A result above this calls for a further probe.
    threshold: f64,
    estimate: f64,
    /// When the estimate dropped last, and from where.
    drop: Option<(Time, f64)>,
    drop_probed_at: Option<Time>,
    alr_ended_at: Option<Time>,
    due: Option<Time>,
}

impl Prober {
    /// A prober for a session that starts at `initial`; `caps`: most that is probed for at the start, and
    /// later.
    pub fn new(initial: f64, caps: (f64, f64), mtu: u32) -> Prober {
        Prober {
            state: State::Init,
            mtu,
            initial,
            caps,
            starting: true,
            pending: VecDeque::with_capacity(FIRST.len()),
            active: None,
            clusters: VecDeque::with_capacity(CLUSTERS),
            probes: 0,
            initiated_at: Time::ZERO,
            threshold: f64::INFINITY,
            estimate: initial,
            drop: None,
            drop_probed_at: None,
            alr_ended_at: None,
            due: None,
        }
    }

    /// Packets have at most `mtu` bytes from here on.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu.max(1);
    }

    /// The probe being sent.
    pub fn active(&self) -> Option<Probe> {
        self.active.map(|active| active.probe)
    }

    /// A packet left. The first starts the first probes.
    pub fn on_sent(&mut self, now: Time, number: u64, size: u32) {
        if self.state == State::Init {
            let [first, second] = FIRST.map(|scale| scale * self.initial);
            self.initiate(now, &[first, second], true, f64::INFINITY);
        }
        let Some(active) = &mut self.active else { return };
        if active.last.is_none() {
            if self.clusters.len() == CLUSTERS {
                self.clusters.pop_front();
            }
            self.clusters.push_back(Cluster::new(number, active.probe.bytes.get(), PACKETS));
        }
        active.sent += u64::from(size);
        active.packets += 1;
        active.last = Some((now, number));
    }

    /// Packet `number` arrived; returns the rate its cluster measured, if it has one.
    pub fn on_arrived(
        &mut self,
        number: u64,
        sent: RemoteTime,
        received: RemoteTime,
        size: u32,
    ) -> Option<f64> {
        let cluster = self.clusters.iter_mut().find(|cluster| cluster.holds(number))?;
        cluster.insert(sent, received, size)
    }

    /// The estimate is now `bps`; probing is allowed up to `ceiling`, if at all.
    pub fn set_estimate(&mut self, now: Time, bps: f64, ceiling: Option<f64>) {
        if bps < DROP * self.estimate {
            self.drop = Some((now, self.estimate));
        }
        self.estimate = bps;
        if self.state == State::Waiting && bps > self.threshold {
            self.probe_at(now, FURTHER * bps, true, ceiling);
        }
    }

    /// The application sends freely again.
    pub fn on_alr_ended(&mut self, now: Time) {
        self.alr_ended_at = Some(now);
    }

    /// The queue has drained: goes back to where the rate was before a drop, if only the application's pause
    /// speaks against it.
    pub fn on_recovered(&mut self, now: Time, in_alr: bool, ceiling: Option<f64>) {
        let Some((dropped_at, before)) = self.drop else { return };
        let recent = |at: Option<Time>, span: Span| at.is_some_and(|at| now - at < span);
        let goal = DROP_SCALE * before;
        let wanted = (in_alr || recent(self.alr_ended_at, ALR_ENDED))
            && self.state == State::Complete
            && (1.0 - UNCERTAINTY) * goal > self.estimate
            && now - dropped_at < DROP_TIMEOUT
            && !recent(self.drop_probed_at, DROP_TIMEOUT);
        if wanted {
            self.drop_probed_at = Some(now);
            self.probe_at(now, goal, false, ceiling);
        }
    }

    /// What time brings: a cluster ends, the next begins, results are no longer waited for, an application
    /// that limits itself since `alr` is probed.
    pub fn process(&mut self, now: Time, alr: Option<Time>, ceiling: Option<f64>) {
        if self.state == State::Waiting && now - self.initiated_at > WAIT {
            self.complete();
        }
        if self.state == State::Complete && self.alr_probe_at(alr).is_some_and(|at| at <= now) {
            self.probe_at(now, ALR_SCALE * self.estimate, true, ceiling);
            // Where none is allowed, the next is tried an interval later.
            self.initiated_at = now;
        }
        self.due = None;
        if self.active.is_some_and(|active| active.done().is_some() || now >= active.until) {
            self.close();
        }
        if self.active.is_none()
            && let Some(rate) = self.pending.pop_front()
        {
            self.open(now, rate);
        }
    }

    /// When [`process`](Prober::process) wants to be called.
    pub fn next(&self, alr: Option<Time>) -> Option<Time> {
        let waiting =
            (self.state == State::Waiting).then_some(self.initiated_at + WAIT + Span::from_nanos(1));
        let active = self.active.map(|active| active.done().unwrap_or(active.until));
        let alr = self.alr_probe_at(alr).filter(|_| self.state == State::Complete);
        Time::first(Time::first(self.due, waiting), Time::first(active, alr))
    }

    fn alr_probe_at(&self, alr: Option<Time>) -> Option<Time> {
        alr.map(|since| since.max(self.initiated_at) + ALR_INTERVAL)
    }

    fn probe_at(&mut self, now: Time, rate: f64, further: bool, ceiling: Option<f64>) {
        match ceiling {
            Some(ceiling) => self.initiate(now, &[rate], further, ceiling),
            None if self.state == State::Waiting => self.complete(),
            None => {}
        }
    }

    fn initiate(&mut self, now: Time, rates: &[f64], further: bool, ceiling: f64) {
        let cap = ceiling.min(if self.starting { self.caps.0 } else { self.caps.1 });
        self.pending.clear();
        let mut last = 0.0;
        for &rate in rates {
            // Two clusters at the cap would tell the same.
            if last < cap {
                last = rate.min(cap);
                self.pending.push_back(last);
            }
        }
        (self.initiated_at, self.due) = (now, Some(now));
        if further && last < cap {
            (self.state, self.threshold) = (State::Waiting, FURTHER_THRESHOLD * last);
        } else {
            self.complete();
        }
    }

    fn complete(&mut self) {
        (self.state, self.threshold, self.starting) = (State::Complete, f64::INFINITY, false);
    }

    fn open(&mut self, now: Time, rate: f64) {
        self.probes = self.probes.wrapping_add(1);
        let rate = Rate::from_f64(rate.max(1.0));
        let bytes = rate.bytes_in(DURATION).max(Bytes::new(u64::from(PACKETS * self.mtu)));
        let until = now + rate.time_to_send(bytes) * 2 + STALL;
        let probe = Probe { id: self.probes, rate, bytes };
        self.active = Some(Active { probe, sent: 0, packets: 0, last: None, until });
    }

    fn close(&mut self) {
        let Some(active) = self.active.take() else { return };
        if let (Some((_, number)), Some(cluster)) = (active.last, self.clusters.back_mut()) {
            cluster.close(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Option<f64> = Some(f64::INFINITY);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Runs the clusters that are pending from `now` on over a path of `capacity`; returns what the last one
    /// measured.
    fn run(prober: &mut Prober, now: &mut Time, number: &mut u64, capacity: f64) -> Option<f64> {
        let mut measured = None;
        prober.process(*now, None, FREE);
        while let Some(probe) = prober.active() {
            let (sent, received) = (probe.rate, Rate::from_f64(probe.rate.as_f64().min(capacity)));
            let size = Bytes::new(1200);
            let mut arrival = *now;
            while prober.active().is_some_and(|p| p.id == probe.id) {
                prober.on_sent(*now, *number, 1200);
                let result = prober.on_arrived(*number, now.on_wire(), arrival.on_wire(), 1200);
                measured = result.or(measured);
                *number += 1;
                let next = prober.next(None);
                if next.is_some_and(|at| at <= *now) {
                    prober.process(*now, None, FREE);
                }
                *now += sent.time_to_send(size);
                arrival += received.time_to_send(size);
            }
        }
        measured
    }

    #[test]
    fn three_and_six_times_the_start_and_then_twice_what_was_found() {
        let mut prober = Prober::new(300e3, (5e6, 50e6), 1200);
        let (mut now, mut number) = (ms(0), 0);
        prober.on_sent(now, 99, 1200);
        assert_eq!(prober.next(None), Some(now));
        prober.process(now, None, FREE);
        let probe = prober.active().unwrap();
        assert_eq!((probe.rate, probe.bytes), (Rate::from_kbps(900), Bytes::new(6000)));
        number += 100;
        let measured = run(&mut prober, &mut now, &mut number, 20e6).unwrap();
        assert!((measured - 1.8e6).abs() < 1e4, "{measured}");
        prober.set_estimate(now, measured, FREE);
        let measured = run(&mut prober, &mut now, &mut number, 20e6).unwrap();
        assert!((measured - 3.6e6).abs() < 1e4, "{measured}");
        // The first probes end at 5 Mbit/s.
        prober.set_estimate(now, measured, FREE);
        let measured = run(&mut prober, &mut now, &mut number, 20e6).unwrap();
        assert!((measured - 5e6).abs() < 1e4, "{measured}");
        prober.set_estimate(now, measured, FREE);
        prober.process(now, None, FREE);
        assert_eq!(prober.active(), None);
        assert!(now < ms(200), "{now:?}");
    }

    #[test]
    fn a_path_that_is_full_ends_it() {
        let mut prober = Prober::new(1e6, (5e6, 50e6), 1200);
        let (mut now, mut number) = (ms(0), 1);
        prober.on_sent(now, 0, 1200);
        let measured = run(&mut prober, &mut now, &mut number, 2e6).unwrap();
        assert!((measured - 1.9e6).abs() < 2e4, "{measured}");
        prober.set_estimate(now, measured, FREE);
        prober.process(ms(2000), None, FREE);
        assert_eq!((prober.active(), prober.next(None)), (None, None));
    }

    #[test]
    fn an_application_that_limits_itself_is_probed_every_5_s() {
        let mut prober = Prober::new(1e6, (1e6, 50e6), 1200);
        let (mut now, mut number) = (ms(0), 1);
        prober.on_sent(now, 0, 1200);
        run(&mut prober, &mut now, &mut number, 50e6);
        let alr = Some(ms(3000));
        assert_eq!(prober.next(alr), Some(ms(8000)));
        prober.process(ms(8000), alr, FREE);
        assert_eq!(prober.active().unwrap().rate, Rate::from_mbps(2));
        // Not where losses or a queue limit.
        let mut forbidden = prober.clone();
        forbidden.close();
        forbidden.state = State::Complete;
        forbidden.process(ms(13_000), alr, None);
        assert_eq!((forbidden.active(), forbidden.next(alr)), (None, Some(ms(18_000))));
    }

    #[test]
    fn a_drop_is_probed_back_only_around_application_limits() {
        let dropped = |in_alr: bool| {
            let mut prober = Prober::new(1e6, (1e6, 50e6), 1200);
            prober.state = State::Complete;
            prober.starting = false;
            prober.set_estimate(ms(1000), 10e6, FREE);
            prober.set_estimate(ms(2000), 6e6, FREE);
            prober.on_recovered(ms(3000), in_alr, FREE);
            prober.process(ms(3000), None, FREE);
            prober.active().map(|probe| probe.rate)
        };
        assert_eq!(dropped(false), None);
        assert_eq!(dropped(true), Some(Rate::from_f64(8.5e6)));
    }
}
