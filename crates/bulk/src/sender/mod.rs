//! The sending side.

mod inbound;
mod opening;
mod outbound;
mod timers;

use cc::{Controller, Decision};
use record::{Dropped, Event, Tap};
use transport::{CongestionControl, Pacer};
use units::{Rng, Span, Time, likely, unlikely};
use wire::{Endpoint, Kind, RxMeta, SegmentAck, TxMeta};

use crate::config::{Detection, SenderConfig};
use crate::counters::SenderCounters;
use crate::flight::{Flight, Settled};
use crate::rack::Rack;
use crate::rtt::Rtt;
use crate::workload::{Application, Completion, Workload};
use opening::Opening;

/// Makes the controller of a new connection.
pub type MakeController = Box<dyn FnMut() -> Box<dyn Controller> + Send>;

/// A tail loss probe that was not answered yet (RFC 8985 section 7.3).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Where what had been sent ended.
    end: u64,
    /// The transmission it doubled; none if it was new data.
    doubled: Option<u64>,
}

/// The sending endpoint.
pub struct Sender {
    config: SenderConfig,
    control: CongestionControl,
    fresh: Option<MakeController>,
    application: Application,
    tap: Tap,
    flight: Flight,
    /// The latest acknowledgement, and what it settled.
    ack: SegmentAck,
    settled: Settled,
    rtt: Rtt,
    rack: Rack,
    pacer: Pacer,
    /// A loss was found: a new one before everything sent by then is acknowledged belongs to the same
    /// recovery.
    recovery_point: Option<u64>,
    /// The recovery is one from a timeout.
    timed_out: bool,
    /// One segment may be repaired whatever the window: the first of a recovery (RFC 6675 section 5, step
    /// 4.3), or of a timeout.
    repair_at_once: bool,
    /// When each timer is due, [`Time::MAX`] while it does not run: that of retransmission, that of a tail
    /// loss probe, ...
    timeout_at: Time,
    probe_at: Time,
    /// ... and when RACK has waited long enough for the next transmission.
    loss_at: Time,
    /// The handshake, until it is answered.
    opening: Option<Opening>,
    probe: Option<Probe>,
    probe_due: bool,
    counters: SenderCounters,
}

impl Sender {
    /// A sender of `workload` under `controller`, which must have been built for datagrams of
    /// [`datagram`](SenderConfig::datagram) bytes. `rng` draws sizes and pauses.
    pub fn new(
        config: SenderConfig,
        controller: Box<dyn Controller>,
        workload: Workload,
        rng: Rng,
        tap: Tap,
    ) -> Sender {
        let mut sender = Sender {
            config,
            control: CongestionControl::new(controller, tap.clone()),
            fresh: None,
            application: Application::new(workload, rng),
            tap,
            flight: Flight::new(config.attribution),
            ack: SegmentAck::default(),
            settled: Settled::default(),
            rtt: Rtt::default(),
            rack: Rack::default(),
            pacer: Pacer::in_bunches(config.bunch),
            recovery_point: None,
            timed_out: false,
            repair_at_once: false,
            timeout_at: Time::MAX,
            probe_at: Time::MAX,
            loss_at: Time::MAX,
            opening: config.handshake.then(Opening::default),
            probe: None,
            probe_due: false,
            counters: SenderCounters::default(),
        };
        sender.apply_decision();
        sender
    }

    /// Each transfer after the first is a connection of its own: it starts with a controller that `make`
    /// makes, and knows nothing of the path. (Without this, transfers follow each other on one connection.)
    pub fn with_fresh_connections(mut self, make: MakeController) -> Sender {
        self.fresh = Some(make);
        self
    }

    /// A copy that goes on by itself and records with `tap`; none where the controller can't be copied, or
    /// each transfer has [one of its own](Sender::with_fresh_connections).
    pub fn fork(&self, tap: Tap) -> Option<Sender> {
        if self.fresh.is_some() {
            return None;
        }
        Some(Sender {
            control: self.control.fork(tap.clone())?,
            fresh: None,
            application: self.application.clone(),
            tap,
            flight: self.flight.clone(),
            settled: self.settled.clone(),
            ..*self
        })
    }

    /// Counts since the start.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Smoothed round-trip time.
    pub fn srtt(&self) -> Span {
        self.rtt.smoothed()
    }

    /// What the controller wants at present.
    pub fn decision(&self) -> Decision {
        *self.control.decision()
    }

    /// Transfers that have ended, oldest first, 65536 at most.
    pub fn completions(&self) -> &[Completion] {
        self.application.completions()
    }

    /// The stream has ended, and everything is known to have arrived.
    pub fn is_finished(&self) -> bool {
        self.application.is_finished()
    }

    #[inline]
    fn in_recovery(&self) -> bool {
        self.recovery_point.is_some()
    }

    #[inline]
    fn uses_rack(&self) -> bool {
        self.config.detection == Detection::RackTlp
    }

    /// What is no acknowledgement of this session.
    #[cold]
    fn refuse(&mut self, now: Time, datagram: &[u8]) {
        match wire::peek(datagram) {
            Ok(named) if named != (Kind::SegmentAck, self.config.session) => self.counters.foreign += 1,
            _ => {
                self.counters.malformed += 1;
                self.tap.record(now, Event::HostDropped { cause: Dropped::Malformed });
            }
        }
    }
}

impl Endpoint for Sender {
    fn receive(&mut self, now: Time, datagram: &[u8], _meta: RxMeta) {
        match self.ack.read(datagram) {
            Ok(()) if likely(self.ack.session == self.config.session) => self.on_ack(now),
            _ => self.refuse(now, datagram),
        }
    }

    fn wake(&mut self, now: Time) {
        if unlikely(self.application.next_start() <= now) {
            self.start_transfer(now);
        }
        self.run_timers(now);
    }

    #[inline]
    fn next_wake(&self) -> Option<Time> {
        let mut at = self.application.next_start().min(self.timeout_at).min(self.probe_at).min(self.loss_at);
        if let Some(timer) = self.control.next_timer() {
            at = at.min(timer);
        }
        if unlikely(self.opening.is_some()) {
            at = at.min(self.opens_at());
        } else if self.may_send() {
            at = at.min(self.pacer.next());
        }
        (at != Time::MAX).then_some(at)
    }

    #[inline]
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if unlikely(self.opening.is_some()) {
            return self.transmit_opening(now, out);
        }
        self.transmit_segment(now, out)
    }
}

#[cfg(test)]
mod tests;
