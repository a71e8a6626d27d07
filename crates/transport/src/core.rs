//! The whole of a sender but for what it sends.

use std::hint::select_unpredictable;

use cc::{Controller, Decision};
use record::Tap;
use units::{Bytes, Ecn, Rate, RemoteTime, Span, Time, likely, unlikely};

use crate::config::{Config, Pace};
use crate::control::{CongestionControl, Leaving, News};
use crate::ledger::{Arrived, Carried, Ledger};
use crate::losses::{Lent, LossDetection, Settled};
use crate::pacer::Pacer;
use crate::path::PathMtu;
use crate::rtt::Rtt;

/// Packets remembered at most: 6.5 s at 100 Mbit/s. Older ones in flight are given up.
const CAPACITY: usize = 1 << 16;
/// Probe timeouts in a row double the wait at most so often (RFC 9002 section 6.2.1), before
/// [`Config::probe_within`] bounds it.
const MAX_BACKOFF: u32 = 6;

/// A packet that the peer says has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The transmission's number, as [`Core::sent`] was told it.
    pub packet: u64,
    /// When it arrived, on the receiver's clock.
    pub at: RemoteTime,
    /// How it was marked on arrival.
    pub ecn: Ecn,
}

/// What a feedback packet says.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a, A, R> {
    /// Packets whose arrival was timed, by number. Those told before are passed over.
    pub arrivals: A,
    /// Ranges of numbers that arrived, both ends inclusive, without times. Only looked at after a gap.
    pub ranges: R,
    /// The largest number that either names.
    pub newest: Option<u64>,
    /// Feedback packets before this one are missing, so that its ranges may tell something new.
    pub gap: bool,
    /// When the peer sent it, on its clock: what lies between an arrival and this is no part of a round trip.
    pub sent: RemoteTime,
    /// What the controller's receiver half sent along.
    pub blob: &'a [u8],
}

/// A report of a packet that was never sent: the whole feedback packet is a lie, or of another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverSent;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Packets given up.
    pub lost: u64,
    /// ... of which arrived after all.
    pub spurious: u64,
    /// Probe timeouts.
    pub timeouts: u64,
}

/// Packets in flight, round trips, losses, pacing, window, probes and MTU of one sender, under one
/// controller. What packets mean is the host's matter: it says what each carries (`T`), and looks at
/// [`settled`](Core::settled) when something was.
///
/// The crate's page shows a host around it.
pub struct Core<T> {
    config: Config,
    control: CongestionControl,
    ledger: Ledger<T>,
    losses: LossDetection,
    settled: Lent,
    rtt: Rtt,
    pacer: Pacer,
    path: PathMtu,
    /// The window had room when something was last to be sent; kept where a decision wants whole intervals.
    was_open: bool,
    /// Bytes of probe padding still wanted, of the controller's probe of this number.
    padding: u64,
    probe_seen: Option<u32>,
    probe_due: bool,
    timeouts_in_a_row: u32,
    /// How long after the last packet a probe is due: asked for after each packet, changed by reports.
    probe_after: Span,
    last_sent_at: Time,
    counts: Counts,
}

impl<T: Carried> Core<T> {
    /// A core under `controller`, which must have been built for datagrams of [`Config::mtu`] bytes; `tap`
    /// records what happens.
    pub fn new(config: Config, controller: Box<dyn Controller>, tap: Tap) -> Core<T> {
        let mut core = Core {
            config,
            control: CongestionControl::new(controller, tap),
            ledger: Ledger::new(CAPACITY),
            losses: LossDetection::default(),
            settled: Lent::default(),
            rtt: Rtt::default(),
            pacer: Pacer::in_bunches(config.bunch),
            path: PathMtu::new(config.mtu),
            was_open: true,
            padding: 0,
            probe_seen: None,
            probe_due: false,
            timeouts_in_a_row: 0,
            probe_after: Span::ZERO,
            last_sent_at: Time::ZERO,
            counts: Counts::default(),
        };
        core.back_off();
        core.apply_decision();
        core
    }

    /// A report will be heard soon: has brought into the caches what it will be about. Changes nothing.
    pub fn expect(&self) {
        self.ledger.expect();
        self.control.expect();
    }

    /// What the controller wants at present.
    #[inline]
    pub fn decision(&self) -> &Decision {
        self.control.decision()
    }

    /// What the last report, or the last look for losses, settled; nothing once it has been
    /// [`seen`](Core::seen) to.
    #[inline]
    pub fn settled(&self) -> &Settled {
        self.settled.get()
    }

    /// The host has done what [`settled`](Core::settled) asks of it: gives the lists back, for the next
    /// report that a core of this thread hears. A host with one core may leave it out; with a thousand it
    /// saves a kilobyte of each.
    #[inline]
    pub fn seen(&mut self) {
        self.settled.give_back();
    }

    /// Round-trip times.
    #[inline]
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Bytes in flight.
    #[inline]
    pub fn in_flight(&self) -> Bytes {
        self.ledger.in_flight()
    }

    /// The number that the next packet gets.
    pub fn next_packet(&self) -> u64 {
        self.ledger.next_packet()
    }

    /// Counts since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The longest datagram at present, in bytes.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.path.get()
    }

    /// When the last packet left.
    #[inline]
    pub fn last_sent_at(&self) -> Time {
        self.last_sent_at
    }

    /// The rate at which packets leave, if they are paced.
    pub fn pacing(&self) -> Option<Rate> {
        self.pacer.rate()
    }

    /// The controller's rate ([`cc_rate`]); none only of a controller that limits nothing.
    #[inline]
    pub fn cc_rate(&self) -> Option<Rate> {
        let smoothed = self.rtt.smoothed();
        let latest = self.rtt.latest().filter(|_| self.config.fresh);
        let rtt = latest.map_or(smoothed, |latest| latest.min(smoothed));
        cc_rate(self.decision(), rtt, self.config.least, self.config.floor)
    }

    /// Whether [`fit`](Core::fit) would change nothing: hosts ask before every packet.
    #[inline(always)]
    pub fn fits(&self, room: usize, known: bool) -> bool {
        likely(!known && self.path.is(room))
    }

    /// The driver takes datagrams of `room` bytes at present ([`PathMtu::fit`]): true if they must be shorter
    /// than before. The controller hears of it ([`cc::Controller::on_mtu`]).
    #[inline]
    pub fn fit(&mut self, now: Time, room: usize, known: bool) -> bool {
        if self.fits(room, known) {
            return false;
        }
        let waiting = self.ledger.in_flight() > Bytes::ZERO;
        let before = self.mtu();
        let shorter = self.path.fit(now, room, known, waiting);
        if unlikely(self.mtu() != before) {
            self.control.set_mtu(self.mtu());
            self.apply_decision();
        }
        shorter
    }
}

/// Sending.
impl<T: Carried> Core<T> {
    /// Whether the window has room for `size` bytes.
    #[inline]
    pub fn window_allows(&self, size: usize) -> bool {
        self.control.window_allows(self.ledger.in_flight(), size as u64)
    }

    /// Whether the window has room for the next packet, whatever it is.
    #[inline]
    pub fn window_is_open(&self) -> bool {
        self.window_allows(if unlikely(self.config.spill) { 1 } else { self.mtu() })
    }

    /// Whether [`watch_window`](Core::watch_window) may do anything.
    #[inline]
    pub fn wants_whole_intervals(&self) -> bool {
        self.decision().whole_interval
    }

    /// Where the window has opened, the pacer starts anew, if the controller wants that
    /// ([`Decision::whole_interval`]). Call it when something is to be sent.
    #[inline]
    pub fn watch_window(&mut self, now: Time) {
        if likely(!self.wants_whole_intervals()) {
            return;
        }
        let open = self.window_is_open();
        if open && !self.was_open {
            self.pacer.restart(now, Bytes::new(self.mtu() as u64));
        }
        self.was_open = open;
    }

    /// When the pacer lets the next packet leave.
    #[inline]
    pub fn paced_until(&self) -> Time {
        self.pacer.next()
    }

    /// When the next packet may leave; `None` while the window is full.
    #[inline]
    pub fn next_send(&self) -> Option<Time> {
        self.window_is_open().then(|| self.pacer.next())
    }

    /// As [`next_send`](Core::next_send), with [`Time::MAX`] while the window is full: without a branch,
    /// since a processor can't predict that.
    #[inline]
    pub fn next_send_or_never(&self) -> Time {
        select_unpredictable(self.window_is_open(), self.pacer.next(), Time::MAX)
    }

    /// Something is held back that the window does not allow.
    #[inline]
    pub fn hold_back(&mut self) {
        self.control.limit();
    }

    /// Nothing follows at once.
    #[inline]
    pub fn pause(&mut self) {
        self.pacer.pause();
    }

    /// [Holds back](Core::hold_back) and [pauses](Core::pause), if the window is `full`: without a branch for
    /// that, as in [`next_send_or_never`](Core::next_send_or_never).
    #[inline]
    pub fn stand_if(&mut self, full: bool) {
        self.control.limit_if(full);
        self.pacer.pause_if(full);
    }

    /// Enters a packet of `size` bytes that leaves now, and returns its number. `app_limited`: nothing more
    /// is there to be sent.
    #[inline(always)]
    pub fn sent(&mut self, now: Time, size: u32, carried: T, app_limited: bool) -> u64 {
        if unlikely(self.ledger.is_full()) {
            self.ledger.forget_oldest();
        }
        if unlikely(self.ledger.in_flight() == Bytes::ZERO) {
            self.path.restart(now);
            self.ledger.begin_sample(now);
        }
        if unlikely(app_limited) {
            // What is sent from here on, until all of this is delivered, samples the application as well as
            // the path (draft-ietf-ccwg-bbr section 4.1.2).
            let until = self.ledger.delivered() + self.ledger.in_flight().get() + u64::from(size);
            self.ledger.limit_by_application(until);
        }
        let packet = self.ledger.send(now, size, carried);
        self.pacer.sent(now, Bytes::new(u64::from(size)));
        self.last_sent_at = now;
        self.counts.packets += 1;
        self.counts.bytes += u64::from(size);
        self.control.note_window_use(self.ledger.in_flight());
        let frame = carried.frame();
        let retransmission = frame.is_some_and(|tag| tag.retransmission);
        let leaving = Leaving { now, packet, size, frame, retransmission, app_limited };
        self.control.sent(&leaving, &self.ledger);
        packet
    }

    /// Bytes of padding that the controller's probe still wants.
    #[inline]
    pub fn padding(&self) -> u64 {
        self.padding
    }

    /// `bytes` of those leave now.
    pub fn padded(&mut self, bytes: usize) {
        self.padding = self.padding.saturating_sub(bytes as u64);
    }

    /// A packet should leave for the sake of an answer to it, whatever the window.
    #[inline]
    pub fn probe_is_due(&self) -> bool {
        self.probe_due
    }

    /// Asks for such a packet.
    pub fn want_probe(&mut self) {
        self.probe_due = true;
    }

    /// Takes that up: the host sends one now.
    #[inline]
    pub fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.probe_due)
    }
}

/// Hearing, and time.
impl<T: Carried> Core<T> {
    /// Settles what a feedback packet says, looks for losses, tells the controller and takes its decision.
    /// Afterwards [`settled`](Core::settled) says what there is to do for the host.
    ///
    /// # Errors
    /// [`NeverSent`] if it names a packet that was never sent; nothing is changed then.
    #[inline(always)]
    pub fn heard<A, R>(&mut self, now: Time, heard: Heard<'_, A, R>) -> Result<(), NeverSent>
    where
        A: Iterator<Item = Arrival>,
        R: Iterator<Item = (u64, u64)>,
    {
        if !self.could_be(heard.newest) {
            self.seen();
            return Err(NeverSent);
        }
        self.hear(now, heard);
        Ok(())
    }

    /// The same of a report that [could be](Core::could_be), for hosts that have asked.
    #[inline(always)]
    pub fn hear<A, R>(&mut self, now: Time, heard: Heard<'_, A, R>)
    where
        A: Iterator<Item = Arrival>,
        R: Iterator<Item = (u64, u64)>,
    {
        // Each for itself: the one that is handed over whole would keep all of them in memory.
        let Heard { arrivals, ranges, newest, gap, sent: sent_at, blob } = heard;
        debug_assert!(self.could_be(newest));
        let mut settled = self.settled.take();
        let timed = arrivals.map(|Arrival { packet, at, ecn }| (packet, Arrived { at: Some(at), ecn }));
        self.losses.arrived(now, &mut self.ledger, timed, &mut settled);
        if let Some(newest) = settled.acked.last() {
            if let Some(at) = newest.arrived_at {
                self.rtt.sample(now - newest.sent_at, sent_at - at);
            }
            let newest = newest.packet;
            self.answered(now, newest);
        }
        if unlikely(gap) {
            self.hear_ranges(now, ranges, &mut settled);
        }
        self.losses.find(now, &mut self.ledger, &self.rtt, &mut settled);
        self.losses.trim(now, &mut self.ledger, &self.rtt);
        self.back_off();
        self.report(now, blob, &settled);
        self.settled.show(settled);
    }

    /// Packets have arrived, of which nobody knew, up to the one of this number.
    #[inline(always)]
    fn answered(&mut self, now: Time, newest: u64) {
        self.losses.reached(newest);
        self.timeouts_in_a_row = 0;
        self.path.restart(now);
    }

    /// Feedback packets are missing: settles what the ranges of this one tell of those.
    #[cold]
    fn hear_ranges(&mut self, now: Time, ranges: impl Iterator<Item = (u64, u64)>, out: &mut Settled) {
        let (ledger, losses) = (&mut self.ledger, &mut self.losses);
        let timed = out.acked.len();
        for (low, high) in ranges {
            let untimed = (low.max(losses.oldest(ledger))..=high).map(|packet| (packet, Arrived::default()));
            losses.arrived(now, ledger, untimed, out);
        }
        if out.acked.len() > timed {
            out.acked.sort_unstable_by_key(|acked| acked.packet);
        }
        if let Some(newest) = out.acked.last() {
            self.answered(now, newest.packet);
        }
    }

    /// Whether a feedback packet may name `newest`: it was sent.
    #[inline]
    pub fn could_be(&self, newest: Option<u64>) -> bool {
        newest.is_none_or(|newest| newest < self.ledger.next_packet())
    }

    #[inline(always)]
    fn report(&mut self, now: Time, blob: &[u8], settled: &Settled) {
        // First, so that nothing of what was settled is kept in registers while the controller hears of it.
        self.counts.lost += settled.lost.len() as u64;
        self.counts.spurious += settled.spurious.len() as u64;
        let rtt = self.rtt.told(!settled.acked.is_empty());
        self.control.report(now, &news(settled, blob), &self.ledger, &rtt);
        if unlikely(self.control.is_recorded()) {
            self.record_settled(now, settled);
        }
        self.apply_decision();
        self.control.record_decision(now, self.decision().pacing);
    }

    #[cold]
    #[inline(never)]
    fn record_settled(&self, now: Time, settled: &Settled) {
        let rtt = self.rtt.told(!settled.acked.is_empty());
        self.control.record_settled(now, &news(settled, &[]), &rtt);
    }

    #[inline(always)]
    fn apply_decision(&mut self) {
        let Decision { pacing, burst, tick, probe, .. } = *self.decision();
        let (rate, burst, tick) = match self.config.pace {
            Pace::Bulk => (self.decision().bulk_pacing(), burst, tick),
            Pace::Even if probe.is_none() => (self.cc_rate(), Bytes::ZERO, Span::ZERO),
            Pace::Decided | Pace::Even => (pacing, burst, tick),
        };
        self.pacer.apply(rate, burst, tick);
        match probe {
            // Padding is for probes only: what one did not need is not sent after it.
            None => self.padding = 0,
            Some(probe) if self.probe_seen != Some(probe.id) => {
                self.probe_seen = Some(probe.id);
                self.padding = probe.bytes.get();
            }
            Some(_) => {}
        }
    }

    /// Works out how long to wait for an answer.
    #[inline]
    fn back_off(&mut self) {
        let timeout = self.rtt.probe_timeout();
        let backed_off = match self.timeouts_in_a_row {
            0 => timeout,
            timeouts => timeout * (1 << timeouts.min(MAX_BACKOFF)),
        };
        self.probe_after = backed_off.min(self.config.probe_within);
    }

    #[inline]
    fn probe_timeout_at(&self) -> Option<Time> {
        let waiting = self.ledger.in_flight() > Bytes::ZERO && !self.probe_due;
        waiting.then(|| self.last_sent_at.later_by(self.probe_after))
    }

    /// When [`find_losses`](Core::find_losses) or [`wake`](Core::wake) will next have something to do.
    #[inline]
    pub fn next_wake(&self) -> Option<Time> {
        // The earliest is found without branches.
        let due = |at: Option<Time>| at.unwrap_or(Time::MAX);
        let (loss, probe) = (due(self.losses.loss_at()), due(self.probe_timeout_at()));
        let first = loss.min(probe).min(due(self.control.next_timer()));
        (first < Time::MAX).then_some(first)
    }

    /// Gives up what is overdue and tells the controller; true if [`settled`](Core::settled) has something
    /// for the host.
    #[inline]
    pub fn find_losses(&mut self, now: Time) -> bool {
        if self.losses.loss_at().is_none_or(|at| at > now) {
            return false;
        }
        let mut settled = self.settled.take();
        self.losses.find(now, &mut self.ledger, &self.rtt, &mut settled);
        let news = !settled.is_empty();
        if news {
            self.report(now, &[], &settled);
        }
        self.settled.show(settled);
        if !news {
            self.seen();
        }
        news
    }

    /// Runs the other timers: a probe for an answer becomes due, the controller's own. After
    /// [`find_losses`](Core::find_losses).
    #[inline]
    pub fn wake(&mut self, now: Time) {
        if self.probe_timeout_at().is_some_and(|at| at <= now) {
            self.probe_due = true;
            self.timeouts_in_a_row += 1;
            self.counts.timeouts += 1;
            self.back_off();
        }
        if self.control.run_timer(now) {
            self.apply_decision();
            self.control.record_decision(now, self.decision().pacing);
        }
    }
}

/// What was settled, as a controller is told of it.
#[inline(always)]
fn news<'a>(settled: &'a Settled, blob: &'a [u8]) -> News<'a> {
    let Settled { acked, lost, spurious, ce_marks, persistent_congestion } = settled;
    let (ce_marks, persistent_congestion) = (*ce_marks, *persistent_congestion);
    News { acked, lost, spurious, ce_marks, persistent_congestion, blob, ..News::default() }
}

/// The rate that a controller would have a flow with enough to send go at: its advice for media if it gives
/// any (a rate-based controller), else its window over the round trip, else its pacing. Not below `least`,
/// and of a window not below `floor`: after an outage the smoothed round trip is seconds long, and a packet
/// paced by it would wait as long again. What a rate-based controller advises knows no round trip: raised to
/// a floor above the link's rate it would keep the queue full for good.
pub fn cc_rate(decision: &Decision, rtt: Span, least: Rate, floor: Rate) -> Option<Rate> {
    let of_window = |window| Rate::average(window, rtt.max(Span::from_millis(1))).max(floor);
    let rate = decision.media.or(decision.window.map(of_window)).or(decision.pacing);
    rate.map(|rate| rate.max(least))
}

#[cfg(test)]
mod tests;
