//! The sending end: a client that writes a stream.

use std::sync::Arc;

use bytes::Bytes;
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::{Dir, Event as Happened, StreamEvent, StreamId, WriteError};
use record::{Event, Real, Tap};
use units::{Span, Time};
use wire::{Endpoint, RxMeta, TxMeta};

use super::SimulatedConfig;
use super::core::Core;
use super::labels::SharedLabels;
use super::own::Recorded;
use crate::Congestion;
use crate::clock::Epoch;
use crate::state::Totals;
use crate::timing::Timing;

/// Makes controllers as quinn wants them.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// Whose congestion control a sender is under.
pub(super) enum Controller {
    Ours(Congestion),
    /// One of quinn's own.
    Quinns(Factory),
}

/// What the stream carries.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// How the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// No handshake yet.
    Unconnected,
    /// So many bytes are still to be written.
    Writing(StreamId, u64),
    /// All is written; not all is acknowledged.
    Flushing,
    /// All is acknowledged, at that time.
    Finished(Time),
    /// The connection is gone.
    Lost,
}

/// A client that writes a stream of zeros, as fast as congestion control lets it.
pub struct Sender {
    core: Core,
    config: SimulatedConfig,
    factory: Option<Factory>,
    timed: bool,
    timing: Option<Timing>,
    progress: Progress,
    started: Time,
    tap: Tap,
    labels: Option<SharedLabels>,
}

impl Sender {
    pub(super) fn new(
        config: &SimulatedConfig,
        controller: Controller,
        tap: Tap,
        labels: Option<SharedLabels>,
    ) -> Sender {
        let epoch = Epoch::any();
        let (timed, factory): (bool, Factory) = match controller {
            Controller::Ours(congestion) => {
                (congestion.is_timed(), Arc::new(congestion.recorded(epoch, tap.clone())))
            }
            Controller::Quinns(factory) if tap.is_on() => {
                (false, Arc::new(Recorded { factory, epoch, tap: tap.clone() }))
            }
            Controller::Quinns(factory) => (false, factory),
        };
        Sender {
            core: Core::client(config, epoch),
            config: *config,
            timed,
            factory: Some(factory),
            timing: None,
            progress: Progress::Unconnected,
            started: Time::ZERO,
            tap,
            labels,
        }
    }

    /// Counts so far.
    pub fn totals(&self) -> Totals {
        self.timing.as_ref().map(Timing::totals).unwrap_or_default()
    }

    /// When the last byte was acknowledged.
    pub fn finished_at(&self) -> Option<Time> {
        match self.progress {
            Progress::Finished(at) => Some(at),
            _ => None,
        }
    }

    fn start(&mut self, now: Time) {
        let Some(factory) = self.factory.take() else { return };
        self.started = now;
        let mut transport = self.config.transport();
        transport.congestion_controller_factory(factory);
        self.core.connect(now, self.config.client(transport));
        self.timing = self.core.connection().and_then(|c| Timing::of(c.congestion_state().clone_box()));
    }

    /// Takes the connection's news.
    fn listen(&mut self, now: Time) {
        let Sender { core, progress, timing, .. } = self;
        let epoch = core.epoch();
        core.with_connection(|connection| {
            while let Some(event) = connection.poll() {
                match event {
                    Happened::Connected => {
                        let bytes = self.config.bytes.unwrap_or(u64::MAX);
                        let id = connection.streams().open(Dir::Uni).expect("a first stream is allowed");
                        *progress = Progress::Writing(id, bytes);
                    }
                    Happened::Stream(StreamEvent::Finished { .. }) => *progress = Progress::Finished(now),
                    Happened::ConnectionLost { .. } => *progress = Progress::Lost,
                    Happened::DatagramReceived => {
                        while let Some(datagram) = connection.datagrams().recv() {
                            if let Some(timing) = timing {
                                timing.echo(epoch.moment(now), &datagram);
                            }
                        }
                    }
                    _ => {}
                }
            }
        });
    }

    /// Hands the connection what it can take.
    fn write(&mut self) {
        let Progress::Writing(id, mut left) = self.progress else { return };
        let done = self.core.with_connection(|connection| {
            let mut stream = connection.send_stream(id);
            while left > 0 {
                let chunk = &ZEROS[..left.min(ZEROS.len() as u64) as usize];
                match stream.write_chunks(&mut [Bytes::from_static(chunk)]) {
                    Ok(written) => left -= written.bytes as u64,
                    Err(WriteError::Blocked) => return Ok(left),
                    Err(error) => return Err(error),
                }
            }
            let _ = stream.finish();
            Ok(0)
        });
        self.progress = match done {
            Some(Ok(0)) => Progress::Flushing,
            Some(Ok(left)) => Progress::Writing(id, left),
            Some(Err(_)) | None => Progress::Lost,
        };
    }

    /// Queues a timing probe, if it is time for one and data is on its way.
    fn probe(&mut self, now: Time) {
        let sending = matches!(self.progress, Progress::Writing(..) | Progress::Flushing);
        let Some(timing) = self.timing.as_ref().filter(|_| self.timed && sending) else { return };
        let Some(probe) = timing.probe(self.core.epoch().moment(now)) else { return };
        // A peer that takes no datagrams is not timed.
        self.core.with_connection(|connection| _ = connection.datagrams().send(probe, true));
    }

    fn label(&self, now: Time, before: u64, datagram: &[u8]) {
        let (Some(labels), Some(timing)) = (&self.labels, &self.timing) else { return };
        let next = timing.state().next_packet();
        if next > before {
            labels.lock().expect("labels do not panic").write(datagram, next - 1, now);
        }
    }

    fn next_packet(&self) -> u64 {
        self.timing.as_ref().map_or(0, |timing| timing.state().next_packet())
    }

    fn record_end(&self, now: Time, was: Progress) {
        let Progress::Finished(at) = self.progress else { return };
        if was == self.progress {
            return;
        }
        let seconds: Span = at - self.started;
        let figures = [
            ("transfer_bytes", self.config.bytes.unwrap_or(0) as f64),
            ("transfer_s", seconds.as_secs_f64()),
        ];
        for (name, value) in figures {
            self.tap.record(now, Event::Observed { name, value: Real(value) });
        }
    }
}

impl Endpoint for Sender {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        let was = self.progress;
        self.core.receive(now, datagram, &meta);
        self.listen(now);
        self.record_end(now, was);
    }

    fn wake(&mut self, now: Time) {
        self.start(now);
        self.core.wake(now);
        self.listen(now);
    }

    fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.probe(now);
        self.write();
        let before = self.next_packet();
        let meta = self.core.transmit(now, out)?;
        self.label(now, before, &out[..meta.length]);
        Some(meta)
    }
}
