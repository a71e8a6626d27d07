//! The receiving end: a server that reads a stream and answers timing probes.

use quinn_proto::{Dir, Event as Happened, ReadError, StreamEvent, StreamId};
use record::{Event, Tap, Topic};
use units::{RelativeDelay, Time};
use wire::{Endpoint, RxMeta, TxMeta};

use super::SimulatedConfig;
use super::core::Core;
use super::labels::SharedLabels;
use crate::clock::Epoch;
use crate::echoes::{EchoCounters, Echoes};

/// A server that counts a stream's bytes.
pub struct Receiver {
    core: Core,
    echoes: Echoes,
    stream: Option<StreamId>,
    bytes: u64,
    finished_at: Option<Time>,
    sent: u32,
    tap: Tap,
    labels: Option<SharedLabels>,
}

impl Receiver {
    pub(super) fn new(config: &SimulatedConfig, labels: Option<SharedLabels>) -> Receiver {
        Receiver {
            core: Core::server(config, Epoch::any()),
            echoes: Echoes::default(),
            stream: None,
            bytes: 0,
            finished_at: None,
            sent: 0,
            tap: Tap::default(),
            labels,
        }
    }

    /// Records what it does by `tap`.
    pub fn recorded(self, tap: Tap) -> Receiver {
        Receiver { tap, ..self }
    }

    /// Bytes of the stream delivered in order.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the last byte of the stream had been delivered, if it has one.
    pub fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    /// What came of timing probes.
    pub fn echoed(&self) -> EchoCounters {
        self.echoes.counters()
    }

    fn listen(&mut self, now: Time) {
        let Receiver { core, echoes, stream, .. } = self;
        let mut readable = false;
        core.with_connection(|connection| {
            while let Some(event) = connection.poll() {
                match event {
                    Happened::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                        *stream = stream.or_else(|| connection.streams().accept(Dir::Uni));
                        readable = true;
                    }
                    Happened::Stream(StreamEvent::Readable { .. }) => readable = true,
                    Happened::DatagramReceived => {
                        while let Some(datagram) = connection.datagrams().recv() {
                            if let Some(answer) = echoes.answer(now.on_wire(), &datagram) {
                                // A peer that takes no datagrams asked in vain.
                                let _ = connection.datagrams().send(answer, true);
                            }
                        }
                    }
                    _ => {}
                }
            }
        });
        if readable {
            self.read(now);
        }
    }

    fn read(&mut self, now: Time) {
        let Some(id) = self.stream else { return };
        let read = self.core.with_connection(|connection| {
            let mut bytes = 0;
            let mut stream = connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { return (0, false) };
            let ended = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                    Ok(None) => break true,
                    Err(ReadError::Blocked | ReadError::Reset(_)) => break false,
                }
            };
            let _ = chunks.finalize();
            (bytes, ended)
        });
        let Some((bytes, ended)) = read else { return };
        self.bytes += bytes;
        if ended {
            self.finished_at = self.finished_at.or(Some(now));
            self.stream = None;
        }
    }

    fn record_arrival(&self, now: Time, datagram: &[u8], meta: &RxMeta) {
        let Some(labels) = &self.labels else { return };
        let known = labels.lock().expect("labels do not panic").read(datagram);
        if let Some((packet, sent)) = known {
            let owd = RelativeDelay::between(sent.on_wire(), now);
            let size = meta.length as u32;
            self.tap.record(
                now,
                Event::PacketReceived { packet, size, stream: 0, frame: u32::MAX, version: 0, owd },
            );
        }
    }
}

impl Endpoint for Receiver {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        self.record_arrival(now, datagram, &meta);
        self.core.receive(now, datagram, &meta);
        self.listen(now);
    }

    fn wake(&mut self, now: Time) {
        self.core.wake(now);
        self.listen(now);
    }

    fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let meta = self.core.transmit(now, out)?;
        self.sent += 1;
        if self.tap.wants(Topic::Signals) {
            let size = meta.length as u32;
            self.tap.record(now, Event::FeedbackSent { sequence: self.sent, size });
        }
        Some(meta)
    }
}
