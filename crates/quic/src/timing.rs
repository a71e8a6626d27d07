//! One-way delays: the sender's end.
//!
//! ```text
//!  probe(now) -> a datagram into quinn's queue -> the next packet sent carries it:   number, send time
//!                                                        |
//!  the packet's acknowledgement waits ..... echo(now, datagram):   number, arrival time -> Acked::arrived_at
//! ```
//!
//! Datagrams leave before stream data and first in, first out, so a probe handed over is in the very next
//! packet that quinn sends; that packet's send time is the probe's, however long window or pacing held it
//! back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use quinn_proto::congestion::Controller;
use units::{RemoteTime, Span, Time};
use wire::{TimingEcho, TimingProbe};

use crate::adapter::Adapter;
use crate::clock::{Epoch, Moment};
use crate::state::{State, Totals};

/// Probes leave at most this often: every second full packet of 10 Mbit/s, so that QUIC-DC's four packets in
/// a row take no more than 8 ms. A probe and its echo take 40 bytes of payload together.
const INTERVAL: Span = Span::from_millis(2);
/// Probes on their way at most: a second's worth. The oldest is forgotten first.
const OUTSTANDING: usize = 512;
/// A probe that has not left by then was dropped from quinn's queue.
const LOST_IN_QUEUE: Span = Span::from_secs(1);

/// A probe that has left.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    sequence: u64,
    arrived: Option<RemoteTime>,
}

/// The probes of a connection.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    next: u64,
    next_at: Time,
    /// Handed to quinn, not seen to leave yet, and since when.
    waiting: Option<(u64, Time)>,
    outstanding: VecDeque<Outstanding>,
    sent_since: bool,
    timed: u64,
}

impl Probes {
    /// The next probe's number, if it is time for one: nothing waits, and something has been sent since the
    /// last.
    fn due(&mut self, now: Time) -> Option<u64> {
        let waits = self.waiting.is_some_and(|(_, since)| now - since < LOST_IN_QUEUE);
        if waits || now < self.next_at || !self.sent_since {
            return None;
        }
        let sequence = self.next;
        (self.next, self.next_at) = (sequence + 1, now + INTERVAL);
        (self.waiting, self.sent_since) = (Some((sequence, now)), false);
        Some(sequence)
    }

    /// A packet leaves; returns the probe in it.
    pub fn leaves(&mut self) -> Option<u64> {
        self.sent_since = true;
        let (sequence, _) = self.waiting.take()?;
        if self.outstanding.len() == OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(Outstanding { sequence, arrived: None });
        Some(sequence)
    }

    /// When a probe arrived, if that is known.
    pub fn arrival(&self, sequence: u64) -> Option<RemoteTime> {
        self.find(sequence)?.arrived
    }

    fn find(&self, sequence: u64) -> Option<&Outstanding> {
        let place = self.outstanding.binary_search_by_key(&sequence, |out| out.sequence).ok()?;
        self.outstanding.get(place)
    }

    /// Notes an arrival; false if it was known before, or is of no probe that is out.
    fn arrived(&mut self, sequence: u64, at: RemoteTime) -> bool {
        let Ok(place) = self.outstanding.binary_search_by_key(&sequence, |out| out.sequence) else {
            return false;
        };
        let out = &mut self.outstanding[place];
        let news = out.arrived.is_none();
        if news {
            out.arrived = Some(at);
            self.timed += 1;
        }
        news
    }

    /// Packets whose one-way delay was measured.
    pub fn timed(&self) -> u64 {
        self.timed
    }
}

/// The sender's end of a connection's timing, and a look at its controller.
#[derive(Clone)]
pub struct Timing {
    state: Arc<Mutex<State>>,
    epoch: Epoch,
}

/// Echoes of connections that both sides time would be told apart by this; here only the sender does.
pub(crate) const SESSION: u32 = 0;

impl Timing {
    /// The timing of the connection whose controller this is (quinn's `Connection::congestion_state()`);
    /// `None` if it is not one of ours.
    pub fn of(controller: Box<dyn Controller>) -> Option<Timing> {
        let adapter = controller.into_any().downcast::<Adapter>().ok()?;
        Some(adapter.timing())
    }

    pub(crate) fn new(state: Arc<Mutex<State>>, epoch: Epoch) -> Timing {
        Timing { state, epoch }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a controller panicked earlier")
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A datagram to be sent now, if it is time for one. Ask every millisecond or two, and hand it to quinn's
    /// `send_datagram` at once.
    pub fn probe(&self, now: Moment) -> Option<Bytes> {
        let sequence = self.state().probes.due(self.epoch.time(now))?;
        let mut out = [0; TimingProbe::MAX_LEN];
        let length = TimingProbe { session: SESSION, sequence }.encode(&mut out);
        Some(Bytes::copy_from_slice(&out[..length]))
    }

    /// Takes a datagram that came at `now`; false if it is no echo, but the application's own.
    pub fn echo(&self, now: Moment, datagram: &[u8]) -> bool {
        let Ok(echo) = TimingEcho::decode(datagram) else { return false };
        let now = self.epoch.time(now);
        let mut state = self.state();
        for arrival in echo.arrivals().iter().rev() {
            if state.probes.arrived(arrival.sequence, arrival.at) {
                state.on_arrival(now, arrival.sequence, arrival.at);
            }
        }
        true
    }

    /// Counts so far.
    pub fn totals(&self) -> Totals {
        self.state().totals()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use quinn_proto::congestion::ControllerFactory;
    use wire::TimedArrival;

    use super::*;
    use crate::Congestion;

    /// quinn's calls to a controller, with what a hostile peer may send between them.
    #[derive(Clone, Debug)]
    enum Call {
        Sent(u64),
        Probe,
        EndAcks(u64),
        Lost(u64, u64),
        Window,
        Echo(Vec<(u64, i64)>),
        Bytes(Vec<u8>),
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            (1u64..9_000).prop_map(Call::Sent),
            Just(Call::Probe),
            (0u64..100_000).prop_map(Call::EndAcks),
            (0u64..500, 0u64..20_000).prop_map(|(ago, bytes)| Call::Lost(ago, bytes)),
            Just(Call::Window),
            // Numbers near those in use, replayed too, and arrival times that jump to and fro by years.
            prop::collection::vec((0u64..40, 0i64..1 << 57), 0..9).prop_map(Call::Echo),
            prop::collection::vec(any::<u8>(), 0..60).prop_map(Call::Bytes),
        ]
    }

    fn echo_of(arrivals: &[(u64, i64)]) -> Vec<u8> {
        let timed: Vec<_> = arrivals
            .iter()
            .map(|&(sequence, ns)| TimedArrival { sequence, at: RemoteTime::from_nanos(ns) })
            .collect();
        let mut out = [0; TimingEcho::MAX_LEN];
        let length = TimingEcho::new(SESSION, &timed).encode(&mut out);
        out[..length].to_vec()
    }

    proptest! {
        #[test]
        fn whatever_a_peer_sends_there_is_a_window(calls in prop::collection::vec((0u64..30, call()), 1..200)) {
            let epoch = Epoch::any();
            let congestion = Congestion::new("quic-dc:threshold=20ms").unwrap();
            let mut controller = Arc::clone(&congestion).build(epoch.moment(Time::ZERO), 1200);
            let timing = Timing::of(controller.clone_box()).unwrap();
            let mut at = 0;
            let mut sent = Vec::new();
            for (pause, call) in calls {
                at += pause;
                let now = epoch.moment(ms(at));
                match call {
                    Call::Sent(bytes) => {
                        controller.on_sent(now, bytes, 0);
                        sent.push((at, bytes));
                    }
                    Call::Probe => _ = timing.probe(now),
                    Call::EndAcks(in_flight) => {
                        // quinn's estimate of round trips is not ours to make, so acknowledgements go in
                        // below it.
                        for (sent_at, bytes) in sent.drain(..) {
                            timing.state().on_ack(ms(at), ms(sent_at), bytes as u32, false);
                        }
                        controller.on_end_acks(now, in_flight, false, None);
                    }
                    Call::Lost(ago, bytes) => {
                        controller.on_congestion_event(now, epoch.moment(ms(at.saturating_sub(ago))), ago > 400, bytes);
                    }
                    Call::Window => {}
                    Call::Echo(arrivals) => {
                        prop_assert!(timing.echo(now, &echo_of(&arrivals)));
                        prop_assert!(timing.echo(now, &echo_of(&arrivals)));
                    }
                    Call::Bytes(bytes) => _ = timing.echo(now, &bytes),
                }
                prop_assert!(controller.window() >= 2 * 1200);
            }
        }
    }

    #[test]
    fn an_acknowledgement_waits_for_its_arrival_time_and_no_longer_than_it_should() {
        let epoch = Epoch::any();
        let congestion = Congestion::new("quic-dc:threshold=20ms").unwrap();
        let mut controller = congestion.build(epoch.moment(Time::ZERO), 1200);
        let timing = Timing::of(controller.clone_box()).unwrap();
        let at = |time| epoch.moment(ms(time));
        controller.on_sent(at(0), 1200, 0);
        assert!(timing.probe(at(2)).is_some());
        controller.on_sent(at(2), 1200, 1);
        controller.on_sent(at(2), 1200, 2);
        let window = controller.window();
        for sent in [0, 2, 2] {
            timing.state().on_ack(ms(42), ms(sent), 1200, false);
        }
        controller.on_end_acks(at(42), 0, false, None);
        // Slow start: two of the three packets count already.
        assert_eq!(controller.window(), window + 2_400);
        assert!(timing.echo(at(43), &echo_of(&[(0, 22_000_000)])));
        assert_eq!((controller.window(), timing.totals().timed), (window + 3_600, 1));
        // A probe whose echo is lost holds its acknowledgement for 10 ms.
        assert!(timing.probe(at(50)).is_some());
        controller.on_sent(at(50), 1200, 3);
        timing.state().on_ack(ms(90), ms(50), 1200, false);
        controller.on_end_acks(at(90), 0, false, None);
        controller.on_sent(at(99), 1200, 4);
        assert_eq!(controller.window(), window + 3_600);
        controller.on_sent(at(100), 1200, 5);
        assert_eq!(controller.window(), window + 4_800);
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_probe_follows_what_was_sent_and_only_one_waits() {
        let mut probes = Probes::default();
        assert_eq!(probes.due(ms(1)), None, "nothing was sent yet");
        assert_eq!(probes.leaves(), None);
        assert_eq!((probes.due(ms(2)), probes.due(ms(9))), (Some(0), None));
        assert_eq!((probes.leaves(), probes.leaves()), (Some(0), None));
        assert_eq!(probes.due(ms(13)), Some(1));
        // Dropped from the queue: after a second there is another one.
        probes.sent_since = true;
        assert_eq!((probes.due(ms(500)), probes.due(ms(1_014))), (None, Some(2)));
    }

    #[test]
    fn an_arrival_counts_once_and_memory_is_bounded() {
        let mut probes = Probes::default();
        let at = ms(7).on_wire();
        for n in 0..OUTSTANDING as u64 + 10 {
            probes.sent_since = true;
            assert_eq!(probes.due(ms(5 * n)), Some(n));
            probes.leaves();
        }
        assert_eq!(probes.outstanding.len(), OUTSTANDING);
        assert!(!probes.arrived(3, at), "forgotten");
        assert!(probes.arrived(100, at) && !probes.arrived(100, ms(1).on_wire()), "a replay");
        assert!(!probes.arrived(u64::MAX, at), "never sent");
        assert_eq!((probes.arrival(100), probes.arrival(101), probes.timed()), (Some(at), None, 1));
    }
}
